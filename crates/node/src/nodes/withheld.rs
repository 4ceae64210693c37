//! Own records that the other nodes of this site do not have yet: no feed tells of them meanwhile.
//!
//! Before: a proposal, on the commit thread, with the seq that it gives. After: the federation machine, which reads it with the
//! store. Why: a record that is known where its body is not makes a key unreadable at the whole site if its node is lost at
//! that moment. Invariants: withheld before it is stored; let go of when it is the site's, or when nobody waits for that any
//! more, at the latest after [`super::STALL`], and then the machine is told: nothing is held back for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use skerry_base::{BucketId, Dot, Instant};

use super::lock;
use super::writes::STALL;

/// By bucket: which seqs of the present life, and since when.
#[derive(Debug, Default)]
pub(crate) struct Withheld(Mutex<BTreeMap<BucketId, BTreeMap<u64, Instant>>>);

impl Withheld {
    /// From here on; before its record is stored.
    pub(crate) fn begin(&self, bucket: BucketId, dot: Dot, now: Instant) {
        lock(&self.0).entry(bucket).or_default().insert(dot.seq, now);
    }

    /// The first of a bucket.
    pub(crate) fn first(&self, bucket: BucketId) -> Option<u64> {
        lock(&self.0).get(&bucket)?.keys().next().copied()
    }

    /// All of a bucket: read once where more than one answer rests on it.
    pub(super) fn seqs(&self, bucket: BucketId) -> BTreeSet<u64> {
        lock(&self.0).get(&bucket).map(|of| of.keys().copied().collect()).unwrap_or_default()
    }

    /// No longer; whether it was.
    pub(crate) fn end(&self, bucket: BucketId, dot: Dot) -> bool {
        let mut all = lock(&self.0);
        let Some(of) = all.get_mut(&bucket) else { return false };
        let was = of.remove(&dot.seq).is_some();
        if of.is_empty() {
            all.remove(&bucket);
        }
        was
    }

    /// Those that nobody ended: the buckets of which some are told from now on.
    pub(super) fn expire(&self, now: Instant) -> Vec<BucketId> {
        let mut expired = Vec::new();
        lock(&self.0).retain(|bucket, of| {
            let before = of.len();
            of.retain(|_, since| now.since(*since) < STALL);
            if of.len() < before {
                expired.push(*bucket);
            }
            !of.is_empty()
        });
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use skerry_base::{NodeId, Origin};

    use super::*;

    #[test]
    fn the_first_counts_until_it_ends_or_nobody_waits_any_more() {
        let (one, other) = (BucketId([1; 16]), BucketId([2; 16]));
        let dot = |seq| Dot { origin: Origin { node: NodeId([3; 16]), incarnation: 1 }, seq };
        let at = |ms| Instant(0).after(Duration::from_millis(ms));
        let withheld = Withheld::default();
        assert_eq!((withheld.first(one), withheld.end(one, dot(1))), (None, false));
        withheld.begin(one, dot(7), at(0));
        withheld.begin(one, dot(8), at(900));
        withheld.begin(other, dot(1), at(900));
        assert_eq!((withheld.first(one), withheld.first(other)), (Some(7), Some(1)));
        assert!(withheld.end(one, dot(7)) && !withheld.end(one, dot(7)));
        assert_eq!(withheld.first(one), Some(8));
        assert_eq!(withheld.expire(at(2_000)), []);
        withheld.begin(one, dot(9), at(2_500));
        assert_eq!(withheld.expire(at(2_900)), [one, other]);
        assert_eq!((withheld.first(one), withheld.first(other)), (Some(9), None));
    }
}
