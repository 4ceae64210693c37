//! Tests of the MD5 batch: the company is driven in every build.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use md5::{Digest, Md5};

use super::*;

fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Bytes that differ by upload, turn and place.
fn piece(upload: u64, turn: u64, length: usize) -> Bytes {
    let seed = (upload << 32 | turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length as u64).map(|at| (seed.wrapping_add(at.wrapping_mul(2_654_435_761)) >> 13) as u8).collect()
}

/// Computes as always and counts those who were taken along.
fn counting(lanes: Vec<Lane<'_>>) {
    ALONG.fetch_add(lanes.len() as u64 - 1, Ordering::Relaxed);
    update_all(lanes);
}
static ALONG: AtomicU64 = AtomicU64::new(0);

/// 16 uploads on as many threads, from none to 26 kB a piece; each third drops a job in the middle of it and begins
/// its stream anew, as who was cancelled and comes again. Answers the uploads whose digest is wrong.
fn storm(batch: &Md5Batch) -> Vec<u64> {
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for upload in 0..16_u64 {
            let wrong = &wrong;
            scope.spawn(move || {
                let (mut stream, mut whole) = (Md5Stream::default(), Md5::new());
                for turn in 0..16 {
                    let length = (upload * 5413 + turn * 77) as usize % 26_000;
                    if upload % 3 == 0 && turn == 9 {
                        drop(batch.add(stream, piece(upload, turn, length)));
                        (stream, whole) = (Md5Stream::default(), Md5::new());
                        continue;
                    }
                    let bytes = piece(upload, turn, length);
                    whole.update(&bytes);
                    stream = batch.complete(batch.add(stream, bytes)).unwrap();
                }
                if stream.finish() != <[u8; 16]>::from(whole.finalize()) {
                    wrong.lock().unwrap().push(upload);
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn many_threads_get_their_own_digests_whatever_the_company() {
    for company in 0..LANES {
        let batch = Md5Batch { work: counting, ..Md5Batch::with_company(company) };
        assert_eq!(storm(&batch), Vec::<u64>::new(), "company of {company}");
        // Jobs that were dropped last may lie there still, without their bytes.
        assert!(batch.queue().slots.iter().all(|slot| matches!(*stand(slot), Stand::Gone)));
    }
}

#[test]
fn one_computes_at_a_time_and_the_next_after_it_also_if_it_panicked() {
    static RUNNING: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);
    fn watched(lanes: Vec<Lane<'_>>) {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        update_all(lanes);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
    let batch = Md5Batch { work: watched, ..Md5Batch::with_company(LANES - 1) };
    assert_eq!(storm(&batch), Vec::<u64>::new());
    assert_eq!(MOST.load(Ordering::SeqCst), 1);
    assert!(!batch.queue().busy);
    let batch =
        Md5Batch { work: |lanes| assert!(lanes.is_empty(), "as a fault in the lanes would"), ..batch };
    let ticket = batch.add(Md5Stream::default(), Bytes::from_static(b"own"));
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| batch.complete(ticket))).is_err());
    assert!(!batch.queue().busy);
}

/// What mixes up two streams is seen: the storm is able to fail.
#[test]
fn a_batch_that_mixes_up_its_lanes_is_caught() {
    fn mixing(mut lanes: Vec<Lane<'_>>) {
        lanes.iter_mut().for_each(|lane| lane.stream.update(lane.bytes));
        if let [first, second, ..] = lanes.as_mut_slice() {
            core::mem::swap(first.stream, second.stream);
        }
    }
    let batch = Md5Batch { work: mixing, ..Md5Batch::with_company(LANES - 1) };
    // Handed in before anybody computes, so that there is company without luck.
    let tickets: Vec<Md5Ticket> =
        (0..4_u8).map(|n| batch.add(Md5Stream::default(), Bytes::from(vec![n; 500]))).collect();
    let right = tickets
        .into_iter()
        .zip(0..4_u8)
        .map(|(ticket, n)| batch.complete(ticket).unwrap().finish() == digest(&[n; 500]));
    assert_eq!(right.collect::<Vec<_>>(), [false, false, true, true]);
}

#[test]
fn who_completes_takes_along_what_waits() {
    for company in 0..LANES {
        let batch = Md5Batch { work: counting, ..Md5Batch::with_company(company) };
        let tickets: Vec<Md5Ticket> =
            (0..10_u8).map(|n| batch.add(Md5Stream::default(), Bytes::from(vec![n; 500]))).collect();
        let before = ALONG.load(Ordering::Relaxed);
        let mut tickets = tickets.into_iter();
        batch.complete(tickets.next().unwrap()).unwrap();
        assert_eq!(batch.queue().slots.len(), 9 - company);
        assert!(ALONG.load(Ordering::Relaxed) - before >= company as u64);
        for (n, ticket) in (1..).zip(tickets) {
            assert_eq!(batch.complete(ticket).unwrap().finish(), digest(&vec![n; 500]), "{n}");
        }
        assert!(batch.queue().slots.is_empty());
    }
}

#[test]
fn more_company_than_lanes_is_not_taken() {
    let batch = Md5Batch::with_company(1000);
    let tickets: Vec<Md5Ticket> =
        (0..20_u8).map(|n| batch.add(Md5Stream::default(), Bytes::from(vec![n; 100]))).collect();
    for (n, ticket) in (0..).zip(tickets) {
        assert_eq!(batch.complete(ticket).unwrap().finish(), digest(&[n; 100]));
    }
}

#[test]
fn a_dropped_job_holds_no_memory_and_is_nobodys_company() {
    let batch = Md5Batch { work: counting, ..Md5Batch::with_company(LANES - 1) };
    let bytes = Bytes::from(vec![1; 10_000]);
    let dropped: Vec<Md5Ticket> = (0..5).map(|_| batch.add(Md5Stream::default(), bytes.clone())).collect();
    drop(dropped);
    assert!(bytes.is_unique(), "a job that nobody wants keeps its bytes");
    let wanted = batch.add(Md5Stream::default(), Bytes::from_static(b"x"));
    assert_eq!(batch.complete(wanted).unwrap().finish(), digest(b"x"));
    assert!(batch.queue().slots.is_empty(), "what nobody wants goes with the next who comes");
}

#[test]
fn a_job_dropped_while_another_computes_it_harms_nobody() {
    // The one who computes waits within until the other ticket is gone.
    static STEPS: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
    static STEP: Condvar = Condvar::new();
    fn tell(step: &'static str) {
        STEPS.lock().unwrap().insert(step, true);
        STEP.notify_all();
    }
    fn wait(step: &str) {
        let steps = STEPS.lock().unwrap();
        drop(STEP.wait_while(steps, |steps| !steps.contains_key(step)).unwrap());
    }
    fn slow(lanes: Vec<Lane<'_>>) {
        tell("computing");
        wait("dropped");
        update_all(lanes);
    }
    let batch = Md5Batch { work: slow, ..Md5Batch::with_company(LANES - 1) };
    let own = batch.add(Md5Stream::default(), Bytes::from_static(b"own"));
    let other = batch.add(Md5Stream::default(), Bytes::from_static(b"other"));
    let third = batch.add(Md5Stream::default(), Bytes::from_static(b"third"));
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| batch.complete(own).unwrap().finish());
        let waits = scope.spawn(|| batch.complete(third).unwrap().finish());
        wait("computing");
        drop(other);
        tell("dropped");
        assert_eq!(computed.join().unwrap(), digest(b"own"));
        assert_eq!(waits.join().unwrap(), digest(b"third"));
    });
    assert!(batch.queue().slots.is_empty());
}

#[test]
fn who_waits_for_one_that_panicked_hears_of_it() {
    fn panics(lanes: Vec<Lane<'_>>) {
        assert!(lanes.iter().all(|lane| lane.bytes.first() != Some(&7)), "as a fault in the lanes would");
        update_all(lanes);
    }
    let batch = Md5Batch { work: panics, ..Md5Batch::with_company(LANES - 1) };
    let one = batch.add(Md5Stream::default(), Bytes::from_static(&[7]));
    let other = batch.add(Md5Stream::default(), Bytes::from_static(b"other"));
    let computed = std::panic::catch_unwind(AssertUnwindSafe(|| batch.complete(one)));
    assert!(computed.is_err());
    assert!(batch.complete(other).is_none(), "it was taken along and is lost, and nobody waits for ever");
    let after = batch.add(Md5Stream::default(), Bytes::from_static(b"after"));
    assert_eq!(batch.complete(after).unwrap().finish(), digest(b"after"));
}
