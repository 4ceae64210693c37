//! MD5 of concurrent uploads, several at once: who computes his own takes along what others have waiting.
//!
//! One computes at a time, a slice of each body after the other: eight side by side take as long as one alone, so that two
//! groups of four would use a second processor and be no sooner done. Who comes meanwhile is taken along from the next slice on.
//! Nobody has to compute before his body ends: a body that has company may leave its last piece waiting, so that there is
//! something to take along ([`Md5Work::catch_up`]); who lets pieces wait sees to it that [`Md5Batch::clear`] is called where their
//! memory is wanted.
//! Invariants: blocking, for threads that may wait, but for [`Md5Sum::push`]; the bytes of a body are taken in in the order they were
//! handed in, each once; a body that is gone holds no memory for longer than a slice takes; nobody waits for who panicked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::md5_lanes::{LANES, Lane, Md5Stream, update_all};

/// Bytes of each body between two looks at who came meanwhile: a fifth of a millisecond.
const SLICE: usize = 128 << 10;

/// How many bodies of others one takes along unless told otherwise. Without optimisation lanes are slower than one after
/// the other.
const COMPANY: usize = if cfg!(debug_assertions) { 0 } else { LANES - 1 };

/// A body whose digest is wanted.
#[derive(Default)]
struct Body {
    /// None: somebody computes it.
    stream: Option<Md5Stream>,
    /// What was handed in and not taken in yet.
    pieces: VecDeque<Bytes>,
    /// Pieces of which the last slice was taken.
    begun: u64,
    /// Pieces that are taken in.
    done: u64,
    /// Who computed it panicked.
    lost: bool,
}

impl Body {
    /// Pieces that were handed in.
    fn come(&self) -> u64 {
        self.begun + self.pieces.len() as u64
    }

    /// Whether so many of those, all at most, are not taken in yet.
    fn lacks(&self, upto: u64) -> bool {
        !self.lost && self.done < upto.min(self.come())
    }

    fn give_back(&mut self, stream: Md5Stream) {
        (self.stream, self.done) = (Some(stream), self.begun);
    }

    /// The next slice and what it goes into, if there is one and nobody computes the body.
    fn take(&mut self) -> Option<(Md5Stream, Bytes)> {
        let piece = self.pieces.front_mut()?;
        let stream = self.stream.take()?;
        let slice = piece.split_to(piece.len().min(SLICE));
        if piece.is_empty() {
            self.pieces.pop_front();
            self.begun += 1;
        }
        Some((stream, slice))
    }
}

/// The bodies that are open, the oldest first.
#[derive(Default)]
struct Bodies {
    all: BTreeMap<u64, Body>,
    next: u64,
    /// Somebody computes: who comes now waits for the end of it.
    busy: bool,
    /// Somebody is at [`Md5Batch::clear`].
    clearing: bool,
    /// How often that was asked for.
    clears: u64,
}

/// The bodies of all uploads.
pub struct Md5Batch {
    bodies: Mutex<Bodies>,
    done: Condvar,
    company: usize,
    work: fn(Vec<Lane<'_>>),
}

impl Default for Md5Batch {
    /// With as much company as pays in this build.
    fn default() -> Self {
        Self::with_company(COMPANY)
    }
}

impl Md5Batch {
    /// Who computes takes along at most so many bodies of others, never more than there are lanes.
    pub fn with_company(company: usize) -> Self {
        Self {
            bodies: Mutex::default(),
            done: Condvar::new(),
            company: company.min(LANES - 1),
            work: update_all,
        }
    }

    fn bodies(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a body.
    pub fn begin(self: &Arc<Self>) -> Md5Sum {
        let mut bodies = self.bodies();
        let id = bodies.next;
        bodies.next += 1;
        bodies.all.insert(id, Body { stream: Some(Md5Stream::default()), ..Body::default() });
        Md5Sum(Md5Work { batch: self.clone(), id })
    }

    /// Takes in all that waits now: its memory is wanted. Returns at once where another is at it, who looks once more then.
    pub fn clear(&self) {
        {
            let mut bodies = self.bodies();
            bodies.clears += 1;
            if core::mem::replace(&mut bodies.clearing, true) {
                return;
            }
        }
        let _clearing = Clearing(self);
        loop {
            let (asked, waiting) = {
                let bodies = self.bodies();
                let all = bodies.all.iter().map(|(id, body)| (*id, body.come()));
                (bodies.clears, all.collect::<Vec<_>>())
            };
            waiting.into_iter().for_each(|(id, upto)| self.catch_up(id, upto));
            let mut bodies = self.bodies();
            if bodies.clears == asked {
                // Under the lock, or who asks now would be passed over; that it is said again below may let two clear at once.
                bodies.clearing = false;
                return;
            }
        }
    }

    fn catch_up(&self, id: u64, upto: u64) {
        let mut bodies = self.bodies();
        while bodies.all.get(&id).is_some_and(|body| body.lacks(upto)) {
            let is_taken = bodies.all.get(&id).is_some_and(|body| body.stream.is_none());
            if bodies.busy || is_taken {
                bodies = self.done.wait(bodies).unwrap_or_else(PoisonError::into_inner);
            } else {
                bodies = self.compute(bodies, id, upto);
            }
        }
    }

    /// Slice after slice, until so many pieces of that body are taken in.
    fn compute<'b>(
        &'b self,
        mut bodies: MutexGuard<'b, Bodies>,
        id: u64,
        upto: u64,
    ) -> MutexGuard<'b, Bodies> {
        // Without company nobody is in the way of another.
        bodies.busy = self.company > 0;
        let mut turn = Turn { batch: self, taken: Vec::new() };
        while bodies.all.get(&id).is_some_and(|body| body.lacks(upto)) {
            let (ids, mut streams, slices) = self.take(&mut bodies, id);
            drop(bodies);
            turn.taken = ids;
            let lanes = streams.iter_mut().zip(&slices);
            (self.work)(lanes.map(|(stream, bytes)| Lane { stream, bytes }).collect());
            drop(slices);
            bodies = self.bodies();
            for (id, stream) in turn.taken.drain(..).zip(streams) {
                if let Some(body) = bodies.all.get_mut(&id) {
                    body.give_back(stream);
                }
            }
            self.done.notify_all();
        }
        bodies.busy = false;
        self.done.notify_all();
        bodies
    }

    /// The next slices of the own body and of the oldest others that have any.
    fn take(&self, bodies: &mut Bodies, own: u64) -> (Vec<u64>, Vec<Md5Stream>, Vec<Bytes>) {
        let (mut ids, mut streams, mut slices) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |id: u64, body: &mut Body| {
            if let Some((stream, slice)) = body.take() {
                ids.push(id);
                streams.push(stream);
                slices.push(slice);
            }
            ids.len()
        };
        if let Some(body) = bodies.all.get_mut(&own) {
            add(own, body);
        }
        for (id, body) in &mut bodies.all {
            // The own one is not there to be taken a second time.
            if self.company == 0 || add(*id, body) > self.company {
                break;
            }
        }
        (ids, streams, slices)
    }
}

/// Who clears, also if computing panicked.
struct Clearing<'a>(&'a Md5Batch);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.0.bodies().clearing = false;
    }
}

/// Who computes. Should that panic, those it took are lost, and whoever waits hears that.
struct Turn<'a> {
    batch: &'a Md5Batch,
    taken: Vec<u64>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Nothing is taken where it ended as it should; its lock is held then.
        if self.taken.is_empty() {
            return;
        }
        let mut bodies = self.batch.bodies();
        bodies.busy = false;
        for id in &self.taken {
            if let Some(body) = bodies.all.get_mut(id) {
                *body = Body { lost: true, ..Body::default() };
            }
        }
        self.batch.done.notify_all();
    }
}

/// A body, for who hands in its bytes. With it all goes that was handed in.
pub struct Md5Sum(Md5Work);

impl Md5Sum {
    /// These bytes come next. Somebody who computes may take them along from now on. How many pieces that are.
    pub fn push(&self, bytes: Bytes) -> u64 {
        let mut bodies = self.0.batch.bodies();
        let Some(body) = bodies.all.get_mut(&self.0.id) else { return 0 };
        if !body.lost && !bytes.is_empty() {
            body.pieces.push_back(bytes);
        }
        body.come()
    }

    /// The same body, for a thread that may wait.
    pub fn work(&self) -> Md5Work {
        self.0.clone()
    }

    /// The digest of all that was handed in, if all of it is taken in; else this waits for that. None: who computed it panicked.
    pub fn finish(self) -> Option<[u8; 16]> {
        let Md5Work { batch, id } = &self.0;
        let come = batch.bodies().all.get(id)?.come();
        batch.catch_up(*id, come);
        // Gone at once: nobody waits for a body that has no stream and is computed by nobody.
        let body = batch.bodies().all.remove(id)?;
        Some(body.stream?.finish())
    }

    /// Whether [`Md5Sum::finish`] need not wait.
    pub fn is_ready(&self) -> bool {
        self.0.batch.bodies().all.get(&self.0.id).is_none_or(|body| !body.lacks(u64::MAX))
    }
}

impl Drop for Md5Sum {
    fn drop(&mut self) {
        let body = self.0.batch.bodies().all.remove(&self.0.id);
        // Its bytes go after the lock.
        drop(body);
    }
}

/// A body, for who computes.
#[derive(Clone)]
pub struct Md5Work {
    batch: Arc<Md5Batch>,
    id: u64,
}

impl Md5Work {
    /// Returns once so many pieces are taken in, by others, or here and now, those of others beside them. At once if the body is gone.
    pub fn catch_up(&self, upto: u64) {
        self.batch.catch_up(self.id, upto);
    }

    /// Whether other bodies are open, with which it pays to wait.
    pub fn has_company(&self) -> bool {
        self.batch.company > 0 && self.batch.bodies().all.len() > 1
    }
}

#[cfg(test)]
#[path = "md5_batch_tests.rs"]
mod tests;
