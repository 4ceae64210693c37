//! Tests of the MD5 batch: the company is driven in every build.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use md5::{Digest, Md5};
use proptest::prelude::*;

use super::*;

fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

fn batch(company: usize, work: fn(Vec<Lane<'_>>)) -> Arc<Md5Batch> {
    Arc::new(Md5Batch { work, ..Md5Batch::with_company(company) })
}

/// Bytes that differ by upload, turn and place.
fn piece(upload: u64, turn: u64, length: usize) -> Bytes {
    let seed = (upload << 32 | turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length as u64).map(|at| (seed.wrapping_add(at.wrapping_mul(2_654_435_761)) >> 13) as u8).collect()
}

/// A body of which these bytes wait.
fn waiting(batch: &Arc<Md5Batch>, bytes: impl Into<Bytes>) -> Md5Sum {
    let sum = batch.begin();
    sum.push(bytes.into());
    sum
}

/// Bytes that wait, by body.
fn left(batch: &Md5Batch) -> Vec<usize> {
    batch.bodies().all.values().map(|body| body.pieces.iter().map(Bytes::len).sum()).collect()
}

/// 16 uploads on as many threads, from none to 26 kB a piece (and one with some of several slices), each leaving none to three
/// waiting; each third is cancelled in the middle and comes again. Answers the uploads whose digest is wrong.
fn storm(batch: &Arc<Md5Batch>) -> Vec<u64> {
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for upload in 0..16_u64 {
            let wrong = &wrong;
            scope.spawn(move || {
                let (mut sum, mut whole) = (batch.begin(), Md5::new());
                for turn in 0..16 {
                    let length = (upload * 5413 + turn * 77) as usize % 26_000;
                    let length = if (upload + turn) % 16 == 5 { 2 * SLICE + length } else { length };
                    let bytes = piece(upload, turn, length);
                    whole.update(&bytes);
                    let come = sum.push(bytes);
                    sum.work().catch_up(come.saturating_sub(turn % 4));
                    if upload % 3 == 0 && turn == 9 {
                        (sum, whole) = (batch.begin(), Md5::new());
                    }
                }
                if sum.finish() != Some(whole.finalize().into()) {
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
        let batch = batch(company, update_all);
        assert_eq!(storm(&batch), Vec::<u64>::new(), "company of {company}");
        assert!(batch.bodies().all.is_empty(), "all bodies are gone");
    }
}

#[test]
fn one_computes_at_a_time_and_the_next_after_it_also_if_it_panicked() {
    static RUNNING: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);
    fn watched(lanes: Vec<Lane<'_>>) {
        assert!(lanes.iter().all(|lane| lane.bytes != b"bad"), "as a fault in the lanes would");
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        update_all(lanes);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
    let batch = batch(LANES - 1, watched);
    assert_eq!(storm(&batch), Vec::<u64>::new());
    assert_eq!(MOST.load(Ordering::SeqCst), 1);
    let bad = waiting(&batch, &b"bad"[..]);
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| bad.work().catch_up(1))).is_err());
    assert!(!batch.bodies().busy);
    assert_eq!(bad.finish(), None);
    assert_eq!(storm(&batch), Vec::<u64>::new());
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
    let batch = batch(LANES - 1, mixing);
    // Handed in before anybody computes, so that there is company without luck.
    let sums: Vec<Md5Sum> = (0..4_u8).map(|n| waiting(&batch, vec![n; 500])).collect();
    let right = sums.into_iter().zip(0..4_u8).map(|(sum, n)| sum.finish() == Some(digest(&[n; 500])));
    assert_eq!(right.collect::<Vec<_>>(), [false, false, true, true]);
}

#[test]
fn who_computes_takes_along_what_waits_and_no_more_than_there_are_lanes() {
    for company in (0..LANES).chain([1000]) {
        let batch = batch(company, update_all);
        let sums: Vec<Md5Sum> = (0..10_u8).map(|n| waiting(&batch, vec![n; 500])).collect();
        sums[4].work().catch_up(1);
        let most = company.min(LANES - 1);
        let mut expected = vec![500; 10];
        expected[4] = 0;
        let others = (0..10).filter(|n| *n != 4).take(most).collect::<Vec<_>>();
        others.into_iter().for_each(|n| expected[n] = 0);
        assert_eq!(left(&batch), expected, "company of {company}");
        for (n, sum) in (0..).zip(sums) {
            assert_eq!(sum.finish(), Some(digest(&[n; 500])), "{n}");
        }
    }
}

#[test]
fn pieces_may_wait_and_are_taken_along_in_their_order() {
    let batch = batch(LANES - 1, update_all);
    let (own, other) = (batch.begin(), batch.begin());
    assert!(own.work().has_company());
    for turn in 0..3 {
        own.push(piece(1, turn, 1000));
        other.push(piece(2, turn, 3000));
    }
    own.work().catch_up(0);
    assert_eq!(left(&batch), [3000, 9000], "so many may wait");
    own.work().catch_up(2);
    assert_eq!(left(&batch), [1000, 3000], "no more is computed than must be, and others' as often");
    assert!(!own.is_ready());
    other.push(Bytes::new());
    let whole = |upload, length| (0..3).flat_map(|turn| piece(upload, turn, length)).collect::<Vec<u8>>();
    assert_eq!(other.finish(), Some(digest(&whole(2, 3000))));
    assert!(own.is_ready(), "it was taken along");
    assert!(!own.work().has_company());
    assert_eq!(own.finish(), Some(digest(&whole(1, 1000))));
}

#[test]
fn who_is_done_leaves_the_rest_of_the_others_as_far_as_it_came() {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    fn counted(lanes: Vec<Lane<'_>>) {
        BYTES.fetch_add(lanes.iter().map(|lane| lane.bytes.len() as u64).sum(), Ordering::Relaxed);
        update_all(lanes);
    }
    let batch = batch(LANES - 1, counted);
    let (short, long) = (piece(1, 1, SLICE + 1), piece(2, 1, 5 * SLICE + 7));
    let own = waiting(&batch, short.clone());
    let others: Vec<Md5Sum> = (0..3).map(|_| waiting(&batch, long.clone())).collect();
    assert_eq!(own.finish(), Some(digest(&short)));
    assert_eq!(left(&batch), [3 * SLICE + 7; 3]);
    for other in others {
        assert_eq!(other.finish(), Some(digest(&long)));
    }
    assert_eq!(BYTES.load(Ordering::Relaxed) as usize, short.len() + 3 * long.len(), "each byte once");
}

#[test]
fn all_that_waits_is_taken_in_where_memory_is_wanted() {
    for company in [0, 2, LANES - 1] {
        let batch = batch(company, update_all);
        let bytes = Bytes::from(vec![1; 3 * SLICE]);
        let sums: Vec<Md5Sum> = (0..20).map(|_| waiting(&batch, bytes.clone())).collect();
        // One whose bytes did not come yet.
        let idle = batch.begin();
        batch.clear();
        assert!(bytes.is_unique(), "company of {company}");
        assert!(sums.iter().all(Md5Sum::is_ready));
        idle.push(bytes.clone());
        batch.clear();
        assert!(bytes.is_unique(), "a second time too");
        assert_eq!(idle.finish(), Some(digest(&bytes)));
    }
}

#[test]
fn memory_that_is_wanted_while_it_is_cleared_is_cleared_too() {
    static STEPS: Steps = Steps::new();
    fn slow(lanes: Vec<Lane<'_>>) {
        STEPS.tell("computing");
        STEPS.wait("wanted");
        update_all(lanes);
    }
    let batch = batch(0, slow);
    let (one, late) = (waiting(&batch, piece(1, 1, 100)), Bytes::from(vec![1; 100]));
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| batch.clear());
        STEPS.wait("computing");
        let other = waiting(&batch, late.clone());
        // Returns at once, and its memory goes all the same.
        batch.clear();
        STEPS.tell("wanted");
        cleared.join().unwrap();
        assert!(late.is_unique() && other.is_ready() && one.is_ready());
    });
    assert!(!batch.bodies().clearing);
}

#[test]
fn a_clear_that_panicked_is_over() {
    fn panics(lanes: Vec<Lane<'_>>) {
        assert!(lanes.iter().all(|lane| lane.bytes.first() != Some(&7)), "as a fault in the lanes would");
        update_all(lanes);
    }
    let batch = batch(0, panics);
    let _bad = waiting(&batch, &[7_u8][..]);
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| batch.clear())).is_err());
    let good = waiting(&batch, &b"good"[..]);
    batch.clear();
    assert!(good.is_ready());
}

#[test]
fn a_body_that_is_finished_is_there_no_more() {
    let batch = batch(LANES - 1, update_all);
    let sum = waiting(&batch, &b"x"[..]);
    let work = sum.work();
    assert_eq!(sum.finish(), Some(digest(b"x")));
    assert!(batch.bodies().all.is_empty());
    work.catch_up(9);
}

#[test]
fn a_body_that_is_gone_holds_no_memory_and_is_nobodys_company() {
    let batch = batch(LANES - 1, update_all);
    let bytes = Bytes::from(vec![1; 10_000]);
    let gone = waiting(&batch, bytes.clone());
    let work = gone.work();
    drop(gone);
    assert!(bytes.is_unique(), "a body that nobody wants keeps its bytes");
    assert!(!work.has_company());
    work.catch_up(1);
    let wanted = waiting(&batch, &b"x"[..]);
    assert!(!wanted.work().has_company());
    assert_eq!(wanted.finish(), Some(digest(b"x")));
}

/// Steps that threads of one test tell each other, so that none of them is left to luck.
struct Steps(Mutex<Vec<&'static str>>, Condvar);

impl Steps {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()), Condvar::new())
    }

    fn tell(&self, step: &'static str) {
        self.0.lock().unwrap().push(step);
        self.1.notify_all();
    }

    fn wait(&self, step: &'static str) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |steps| !steps.contains(&step)).unwrap());
    }
}

#[test]
fn a_body_dropped_while_another_computes_it_harms_nobody_and_its_bytes_go() {
    static STEPS: Steps = Steps::new();
    fn slow(lanes: Vec<Lane<'_>>) {
        STEPS.tell("computing");
        STEPS.wait("dropped");
        update_all(lanes);
    }
    let batch = batch(LANES - 1, slow);
    let bytes = piece(1, 1, 9 * SLICE);
    let (own, other) = (waiting(&batch, piece(2, 1, 2 * SLICE)), waiting(&batch, bytes.clone()));
    let third = waiting(&batch, &b"third"[..]);
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| own.finish());
        STEPS.wait("computing");
        let waits = scope.spawn(|| third.finish());
        drop(other);
        STEPS.tell("dropped");
        assert_eq!(computed.join().unwrap(), Some(digest(&piece(2, 1, 2 * SLICE))));
        assert_eq!(waits.join().unwrap(), Some(digest(b"third")));
    });
    assert!(bytes.is_unique() && batch.bodies().all.is_empty());
}

#[test]
fn who_comes_while_one_computes_is_taken_along_before_it_ends() {
    static STEPS: Steps = Steps::new();
    static TOGETHER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    fn watched(lanes: Vec<Lane<'_>>) {
        STEPS.tell("computing");
        STEPS.wait("come");
        TOGETHER.lock().unwrap().push(lanes.len());
        update_all(lanes);
    }
    let batch = batch(LANES - 1, watched);
    let (long, short) = (piece(1, 1, 3 * SLICE), piece(2, 1, SLICE / 2));
    let own = waiting(&batch, long.clone());
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| own.finish());
        STEPS.wait("computing");
        let other = waiting(&batch, short.clone());
        STEPS.tell("come");
        assert_eq!(computed.join().unwrap(), Some(digest(&long)));
        assert_eq!(TOGETHER.lock().unwrap().as_slice(), [1, 2, 1]);
        assert!(other.is_ready(), "it was done already");
        assert_eq!(other.finish(), Some(digest(&short)));
    });
}

#[test]
fn who_waits_for_one_that_panicked_hears_of_it() {
    fn panics(lanes: Vec<Lane<'_>>) {
        assert!(lanes.iter().all(|lane| lane.bytes.first() != Some(&7)), "as a fault in the lanes would");
        update_all(lanes);
    }
    let batch = batch(LANES - 1, panics);
    let (one, other) = (waiting(&batch, &[7_u8][..]), waiting(&batch, &b"other"[..]));
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| one.work().catch_up(1))).is_err());
    assert!(other.is_ready());
    other.push(Bytes::from_static(b"more"));
    assert_eq!(other.finish(), None, "it was taken along and is lost, and nobody waits for ever");
    assert_eq!(waiting(&batch, &b"after"[..]).finish(), Some(digest(b"after")));
}

proptest! {
    // Without optimisation MD5 is slow.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any pieces of any bodies, in any order, some cancelled: by turns of one thread, so that a failure can be played again.
    #[test]
    fn any_pieces_in_any_order_come_to_what_the_library_says(
        company in 0..LANES,
        steps in prop::collection::vec((0..6_usize, 0..3 * SLICE / 2, 0..4_usize), 0..40),
    ) {
        let batch = batch(company, update_all);
        let mut bodies: Vec<(Md5Sum, Md5)> = (0..6).map(|_| (batch.begin(), Md5::new())).collect();
        for (turn, (upload, length, act)) in steps.into_iter().enumerate() {
            // Most pieces are short.
            let bytes = piece(upload as u64, turn as u64, if length % 3 == 0 { length } else { length % 300 });
            let (sum, whole) = &mut bodies[upload];
            whole.update(&bytes);
            sum.push(bytes);
            match act {
                0 => sum.work().catch_up((length % 3) as u64),
                1 if length % 5 == 0 => (*sum, *whole) = (batch.begin(), Md5::new()),
                2 if length % 7 == 0 => batch.clear(),
                _ => {}
            }
        }
        for (sum, whole) in bodies {
            prop_assert_eq!(sum.finish(), Some(whole.finalize().into()));
        }
    }
}
