//! How many runs the first level of the index has, and when they are merged for who scans.
//!
//! Why here: the library merges runs when there are many. Until then each scan goes to its place in every one of them, and a store that
//! is listed and hardly written to would pay that for ever. So scans add up what runs cost them; once that is as much as a merge costs,
//! it is made. Whatever comes, both together are at most twice what the better of the two would have cost (the rule of who rents
//! skis until they could have been bought: Karlin, Manasse, Rudolph, Sleator, Competitive Snoopy Caching, 1988).
//!
//! Invariants: a merge is made once for what was paid, whether it goes through or not; what is not known (nothing flushed yet) is
//! never worth one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::dead::Level;

/// What a run costs a scan, in ns: to go to a place in it, with its block in memory.
const SEEK_NS: u64 = 3_000;
/// What a byte that is merged costs, in ns: read, merged and written, and some wear. Set by reckoning, not measured.
const BYTE_NS: u64 = 20;
/// What is merged at once for that, at most.
const MOST: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct Runs {
    /// Not yet merged, as of the last flush or merge.
    count: AtomicUsize,
    /// What a merge of them would cost, in ns.
    price: AtomicU64,
    /// What scans paid for them since the last, in ns.
    paid: AtomicU64,
}

impl Default for Runs {
    fn default() -> Self {
        Self { count: AtomicUsize::new(0), price: AtomicU64::new(u64::MAX), paid: AtomicU64::new(0) }
    }
}

impl Runs {
    /// After a flush or a merge.
    pub(super) fn note(&self, count: usize, levels: &[Level]) {
        if count < self.count.swap(count, Ordering::Relaxed) {
            self.paid.store(0, Ordering::Relaxed);
        }
        let bytes = levels.first().map_or(0, |first| first.bytes) + below(levels).map_or(0, |below| below.1);
        let is_worth = count > 1 && bytes <= MOST;
        self.price.store(if is_worth { bytes * BYTE_NS } else { u64::MAX }, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Somebody goes to a place in each. Of what no merge would spare them nothing is kept.
    pub(super) fn scanned(&self) {
        if self.price.load(Ordering::Relaxed) < u64::MAX {
            self.paid.fetch_add(SEEK_NS * self.count() as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn are_paid(&self) -> bool {
        self.paid.load(Ordering::Relaxed) >= self.price.load(Ordering::Relaxed)
    }

    /// Takes what was paid; whether it is worth a merge.
    pub(super) fn take_paid(&self) -> bool {
        self.are_paid() && self.paid.swap(0, Ordering::Relaxed) > 0
    }
}

/// The first level below the first one that holds anything, and its bytes.
pub(super) fn below(levels: &[Level]) -> Option<(usize, u64)> {
    levels.iter().map(|level| level.bytes).enumerate().skip(1).find(|(_, bytes)| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(bytes: [u64; 4]) -> Vec<Level> {
        bytes.map(|bytes| Level { deletes: 0, bytes }).to_vec()
    }

    /// Scans until a merge is worth it, at most so many.
    fn scans(runs: &Runs, most: u64) -> u64 {
        (0..most).take_while(|_| !runs.are_paid()).inspect(|_| runs.scanned()).count() as u64
    }

    #[test]
    fn scans_pay_for_runs_until_a_merge_would_have_cost_as_much() {
        let (runs, first, next) = (Runs::default(), 30 << 20, 100 << 20);
        assert_eq!(scans(&runs, 1000), 1000, "nothing is known of it yet");
        runs.note(10, &levels([first, 0, next, 1 << 40]));
        let due = ((first + next) * BYTE_NS).div_ceil(10 * SEEK_NS);
        assert_eq!(scans(&runs, 1 << 40), due, "what scans paid before anything was flushed is not counted");
        assert!(runs.take_paid() && !runs.take_paid() && !runs.are_paid(), "once for what was paid");
        assert_eq!(scans(&runs, 1 << 40), due, "and again where that merge did not go through");
    }

    #[test]
    fn a_merge_for_another_reason_ends_what_was_paid_and_a_flush_does_not() {
        let runs = Runs::default();
        runs.note(10, &levels([1 << 20, 0, 0, 0]));
        let due = scans(&runs, 1 << 40);
        assert!(runs.are_paid());
        runs.note(2, &levels([1 << 20, 0, 0, 0]));
        assert!(!runs.are_paid());
        (0..due).for_each(|_| runs.scanned());
        runs.note(3, &levels([1 << 10, 0, 0, 0]));
        assert!(runs.are_paid());
    }

    #[test]
    fn one_run_is_as_merged_as_it_gets_and_too_much_is_left_to_the_library() {
        for (count, bytes) in [(1, [1, 0, 1, 1]), (10, [1, 0, MOST, 1])] {
            let runs = Runs::default();
            runs.note(count, &levels(bytes));
            (0..1_000_000).for_each(|_| runs.scanned());
            assert!(!runs.are_paid());
            runs.note(2, &levels([1 << 20, 0, 0, 0]));
            assert!(!runs.are_paid(), "nor is that paid for the next");
        }
    }
}
