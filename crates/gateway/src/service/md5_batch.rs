//! MD5 of concurrent uploads, several at once: who comes to compute his own takes along what others have waiting.
//!
//! Like a commit group: nobody waits for company. The first to come computes at once; what comes meanwhile lies
//! waiting, and the next to come takes up to [`LANES`] of it in one go. A lone upload computes alone, as before.
//! Invariants: blocking, for threads that may wait; a job is computed once, by whoever took it, who gives its result
//! back before he goes on; what was withdrawn holds no memory.

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
}

/// How many jobs of others one takes along. Without optimisation lanes are slower than one after the other.
const COMPANY: usize = if cfg!(debug_assertions) { 0 } else { LANES - 1 };

type Slot = Arc<Mutex<Stand>>;

fn stand(slot: &Slot) -> MutexGuard<'_, Stand> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that was handed in: hand it to [`Md5Batch::complete`].
pub struct Md5Ticket(Slot);

/// The jobs of all uploads.
#[derive(Default)]
pub struct Md5Batch {
    waiting: Mutex<VecDeque<Slot>>,
    done: Condvar,
}

impl Md5Batch {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Slot>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in the next bytes of a stream. Somebody who completes may take them along from now on.
    pub fn add(&self, stream: Md5Stream, bytes: Bytes) -> Md5Ticket {
        let slot = Arc::new(Mutex::new(Stand::Waiting(Job { stream, bytes })));
        self.waiting().push_back(slot.clone());
        Md5Ticket(slot)
    }

    /// The stream with its bytes taken in: by another already, or here and now, others' beside it.
    pub fn complete(&self, ticket: Md5Ticket) -> Md5Stream {
        loop {
            let jobs = {
                let mut waiting = self.waiting();
                // Apart from the match, which would hold the slot's lock to its end.
                let was = core::mem::replace(&mut *stand(&ticket.0), Stand::Taken);
                match was {
                    Stand::Done(stream) => return stream,
                    Stand::Taken => {
                        drop(self.done.wait(waiting).unwrap_or_else(PoisonError::into_inner));
                        continue;
                    }
                    Stand::Waiting(job) => take(&mut waiting, ticket.0.clone(), job),
                }
            };
            self.compute(jobs);
        }
    }

    /// Takes a job back that nobody will ask for any more.
    pub fn withdraw(&self, ticket: &Md5Ticket) {
        self.waiting().retain(|slot| !Arc::ptr_eq(slot, &ticket.0));
    }

    fn compute(&self, mut jobs: Vec<(Slot, Job)>) {
        let lanes = jobs.iter_mut().map(|(_, Job { stream, bytes })| Lane { stream, bytes });
        update_all(lanes.collect());
        // Under the lock of the queue, or one who is about to wait would miss it.
        let _waiting = self.waiting();
        for (slot, job) in jobs {
            *stand(&slot) = Stand::Done(job.stream);
        }
        self.done.notify_all();
    }
}

/// The own job with the oldest others from the queue. Under the queue's lock: whoever looks at a slot finds it either
/// waiting and in the queue, or taken.
fn take(waiting: &mut VecDeque<Slot>, own: Slot, job: Job) -> Vec<(Slot, Job)> {
    waiting.retain(|slot| !Arc::ptr_eq(slot, &own));
    let mut jobs = vec![(own, job)];
    for slot in core::iter::from_fn(|| waiting.pop_front()).take(COMPANY) {
        let was = core::mem::replace(&mut *stand(&slot), Stand::Taken);
        match was {
            Stand::Waiting(job) => jobs.push((slot, job)),
            other => *stand(&slot) = other,
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use md5::{Digest, Md5};

    use super::*;

    #[test]
    fn many_threads_get_their_own_digests() {
        let batch = Md5Batch::default();
        std::thread::scope(|scope| {
            for n in 0..24_u8 {
                let batch = &batch;
                scope.spawn(move || {
                    let (mut stream, mut whole) = (Md5Stream::default(), Md5::new());
                    for turn in 0..20_u8 {
                        let bytes =
                            Bytes::from(vec![n ^ turn; 1000 * usize::from(n) + 77 * usize::from(turn)]);
                        whole.update(&bytes);
                        let ticket = batch.add(stream, bytes);
                        stream = batch.complete(ticket);
                    }
                    let wanted: [u8; 16] = whole.finalize().into();
                    assert_eq!(stream.finish(), wanted, "{n}");
                });
            }
        });
        assert!(batch.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_withdrawn_is_gone() {
        let batch = Md5Batch::default();
        let ticket = batch.add(Md5Stream::default(), Bytes::from_static(b"x"));
        batch.withdraw(&ticket);
        assert!(batch.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn who_completes_takes_along_what_waits() {
        let batch = Md5Batch::default();
        let tickets: Vec<Md5Ticket> =
            (0..10_u8).map(|n| batch.add(Md5Stream::default(), Bytes::from(vec![n; 500]))).collect();
        let mut tickets = tickets.into_iter();
        batch.complete(tickets.next().unwrap());
        assert_eq!(batch.waiting.lock().unwrap().len(), 9 - COMPANY);
        for (n, ticket) in (1..).zip(tickets) {
            let wanted: [u8; 16] = Md5::digest(vec![n; 500]).into();
            assert_eq!(batch.complete(ticket).finish(), wanted);
        }
    }
}
