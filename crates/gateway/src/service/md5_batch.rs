//! MD5 of concurrent uploads, several at once: who comes to compute his own takes along what others have waiting.
//!
//! Like a commit group: nobody waits for company. The first to come computes at once; what comes meanwhile waits for
//! it to end, and one of those takes up to [`LANES`] of them in one go. One computes at a time: eight side by side take
//! as long as one alone, so that two groups of four would use a second processor and be no sooner done.
//! Invariants: blocking, for threads that may wait; a job is computed at most once, by whoever took it, who gives its
//! result back before he goes on; a job whose upload is gone holds no memory; nobody waits for who panicked.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::md5_lanes::{LANES, Lane, Md5Stream, update_all};

/// A piece of a stream.
struct Job {
    stream: Md5Stream,
    bytes: Bytes,
}

/// Where a job stands.
enum Stand {
    Waiting(Job),
    Taken,
    Done(Md5Stream),
    /// Nobody asks for it any more, or who computed it panicked.
    Gone,
}

/// How many jobs of others one takes along unless told otherwise. Without optimisation lanes are slower than one after
/// the other.
const COMPANY: usize = if cfg!(debug_assertions) { 0 } else { LANES - 1 };

type Slot = Arc<Mutex<Stand>>;

fn stand(slot: &Slot) -> MutexGuard<'_, Stand> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that was handed in: hand it to [`Md5Batch::complete`], or drop it if nobody wants the sum any more.
pub struct Md5Ticket(Slot);

impl Drop for Md5Ticket {
    fn drop(&mut self) {
        let mut stand = stand(&self.0);
        // What somebody else is computing he still owns.
        if !matches!(*stand, Stand::Taken) {
            *stand = Stand::Gone;
        }
    }
}

/// What waits, in order of arrival.
#[derive(Default)]
struct Queue {
    slots: VecDeque<Slot>,
    /// Somebody computes: who comes now waits for the end of it.
    busy: bool,
}

/// The jobs of all uploads.
pub struct Md5Batch {
    queue: Mutex<Queue>,
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
    /// Who computes takes along at most so many jobs of others, never more than there are lanes.
    pub fn with_company(company: usize) -> Self {
        Self {
            queue: Mutex::default(),
            done: Condvar::new(),
            company: company.min(LANES - 1),
            work: update_all,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in the next bytes of a stream. Somebody who completes may take them along from now on.
    pub fn add(&self, stream: Md5Stream, bytes: Bytes) -> Md5Ticket {
        let slot = Arc::new(Mutex::new(Stand::Waiting(Job { stream, bytes })));
        self.queue().slots.push_back(slot.clone());
        Md5Ticket(slot)
    }

    /// The stream with its bytes taken in: by another already, or here and now, others' beside it. None: who computed
    /// it panicked.
    pub fn complete(&self, ticket: Md5Ticket) -> Option<Md5Stream> {
        loop {
            let jobs = {
                let mut queue = self.queue();
                // Apart from the match, which would hold the slot's lock to its end.
                let was = core::mem::replace(&mut *stand(&ticket.0), Stand::Taken);
                match was {
                    Stand::Done(stream) => return Some(stream),
                    Stand::Gone => return None,
                    Stand::Waiting(job) if !queue.busy => self.take(&mut queue, ticket.0.clone(), job),
                    still => {
                        *stand(&ticket.0) = still;
                        drop(self.done.wait(queue).unwrap_or_else(PoisonError::into_inner));
                        continue;
                    }
                }
            };
            self.compute(jobs);
        }
    }

    fn compute(&self, jobs: Vec<(Slot, Job)>) {
        let (slots, mut jobs): (Vec<Slot>, Vec<Job>) = jobs.into_iter().unzip();
        let mut giving = Giving { batch: self, slots, jobs: Vec::new() };
        (self.work)(jobs.iter_mut().map(|Job { stream, bytes }| Lane { stream, bytes }).collect());
        giving.jobs = jobs;
    }

    /// The own job with the oldest others from the queue. Under the queue's lock: whoever looks at a slot finds it either
    /// waiting and in the queue, or taken, or nobody's.
    fn take(&self, queue: &mut Queue, own: Slot, job: Job) -> Vec<(Slot, Job)> {
        let Queue { slots, busy } = queue;
        *busy = self.company > 0;
        slots.retain(|slot| !Arc::ptr_eq(slot, &own) && matches!(*stand(slot), Stand::Waiting(_)));
        let mut jobs = vec![(own, job)];
        for slot in core::iter::from_fn(|| slots.pop_front()).take(self.company) {
            let was = core::mem::replace(&mut *stand(&slot), Stand::Taken);
            match was {
                Stand::Waiting(job) => jobs.push((slot, job)),
                // Its upload ended just now.
                other => *stand(&slot) = other,
            }
        }
        jobs
    }
}

/// Gives results back, also when computing them panicked: then there are none, and whoever waits hears that.
struct Giving<'a> {
    batch: &'a Md5Batch,
    slots: Vec<Slot>,
    jobs: Vec<Job>,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        // All of it under the lock of the queue, or one who is about to wait would miss it.
        let mut queue = self.batch.queue();
        queue.busy = false;
        let mut streams = self.jobs.drain(..).map(|job| job.stream);
        for slot in &self.slots {
            *stand(slot) = streams.next().map_or(Stand::Gone, Stand::Done);
        }
        self.batch.done.notify_all();
    }
}

#[cfg(test)]
#[path = "md5_batch_tests.rs"]
mod tests;
