//! Which of what is lacking elsewhere a drain offers in one look: a page of each bucket, and no more of all together than
//! placement keeps waiting.
//!
//! Before: `drain.rs`, which walks through all that is lacking and counts it. After: placement. Invariants: what is offered is
//! bounded, however much there is and in however many buckets; no version and no bucket waits for ever behind others that nobody
//! takes.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::BucketId;
use skerry_federation::placement::{Want, limits};

/// What is offered of each bucket at once, and how far that has come. Of what is lacking a page is offered; if nothing of it
/// found a place before the next look, the next page is: what nobody takes keeps nothing else here.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Versions that are passed over, of buckets with more than a page.
    from: BTreeMap<BucketId, usize>,
    /// In which something found a place.
    took: BTreeSet<BucketId>,
    /// How many more may be offered in this look.
    room: usize,
    /// The first bucket for which there was no room: the next look begins with it.
    next: Option<BucketId>,
}

/// A page of one bucket.
#[derive(Debug, Default)]
pub(super) struct Page {
    from: usize,
    most: usize,
    seen: usize,
    wants: Vec<Want>,
}

impl Pages {
    /// A look begins.
    pub(super) fn begin(&mut self) {
        for bucket in std::mem::take(&mut self.took) {
            self.from.remove(&bucket);
        }
        self.room = limits::QUEUE_OF_ALL;
    }

    /// With which bucket it begins.
    pub(super) fn first(&mut self) -> BucketId {
        self.next.take().unwrap_or(BucketId([0; 16]))
    }

    pub(super) fn of(&self, bucket: BucketId) -> Page {
        let from = self.from.get(&bucket).copied().unwrap_or_default();
        Page { from, most: self.room.min(limits::QUEUE), ..Page::default() }
    }

    /// The bucket is looked through: what is offered of it.
    pub(super) fn turn(&mut self, bucket: BucketId, page: Page) -> Vec<Want> {
        let end = page.from + page.wants.len();
        self.room -= page.wants.len();
        if page.seen > end {
            if self.room == 0 {
                self.next = self.next.or(Some(bucket));
            }
            self.from.insert(bucket, end);
        } else {
            self.from.remove(&bucket);
        }
        page.wants
    }

    /// Something of it found a place.
    pub(super) fn took(&mut self, bucket: BucketId) {
        self.took.insert(bucket);
    }
}

impl Page {
    /// Whether a version that is lacking is offered.
    pub(super) fn offers(&mut self, want: Want) -> bool {
        self.seen += 1;
        let offers = self.seen > self.from && self.wants.len() < self.most;
        if offers {
            self.wants.push(want);
        }
        offers
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::Dot;

    use super::*;

    /// The numbers of what is offered of buckets in which so many versions are lacking.
    fn look(pages: &mut Pages, buckets: &[(BucketId, u64)]) -> Vec<(u8, u64, u64)> {
        pages.begin();
        let first = pages.first();
        let all: BTreeMap<BucketId, u64> = buckets.iter().copied().collect();
        let mut offered = Vec::new();
        for (&bucket, &lacking) in all.range(first..).chain(all.range(..first)) {
            let mut page = pages.of(bucket);
            for seq in 0..lacking {
                page.offers(Want { dot: Dot { seq, ..Dot::default() }, bytes: 1, here: true, places: 1 });
            }
            let wants = pages.turn(bucket, page);
            if let Some((first, last)) = wants.first().zip(wants.last()) {
                offered.push((bucket.0[0], first.dot.seq, last.dot.seq));
            }
        }
        offered
    }

    #[test]
    fn what_nobody_takes_is_passed_over_and_comes_again() {
        let queue = limits::QUEUE as u64;
        let [one, two] = [1, 2].map(|n| BucketId([n; 16]));
        let mut pages = Pages::default();
        let both = [(one, 2 * queue + 5), (two, 3)];
        assert_eq!(look(&mut pages, &both), [(1, 0, queue - 1), (2, 0, 2)]);
        assert_eq!(look(&mut pages, &both), [(1, queue, 2 * queue - 1), (2, 0, 2)]);
        assert_eq!(look(&mut pages, &both), [(1, 2 * queue, 2 * queue + 4), (2, 0, 2)]);
        assert_eq!(look(&mut pages, &both), [(1, 0, queue - 1), (2, 0, 2)], "from the front");
        // What found a place is no longer lacking.
        pages.took(one);
        let fewer = [(one, queue + 1), (two, 3)];
        assert_eq!(look(&mut pages, &fewer), [(1, 0, queue - 1), (2, 0, 2)]);
        assert_eq!(look(&mut pages, &[(one, 1)]), [], "fewer than were passed over");
        assert_eq!(look(&mut pages, &[(one, 1)]), [(1, 0, 0)]);
    }

    #[test]
    fn all_buckets_together_are_bounded_and_take_turns() {
        let queue = limits::QUEUE as u64;
        let buckets: Vec<_> = (1..=10).map(|n| (BucketId([n; 16]), queue + 1)).collect();
        let mut pages = Pages::default();
        let mut met = BTreeSet::new();
        for _ in 0..10 {
            let offered = look(&mut pages, &buckets);
            let all: u64 = offered.iter().map(|(_, first, last)| last - first + 1).sum();
            assert!(all <= limits::QUEUE_OF_ALL as u64, "{offered:?}");
            met.extend(offered.into_iter().map(|(bucket, ..)| bucket));
        }
        assert_eq!(met.len(), buckets.len(), "none waits for the others");
    }
}
