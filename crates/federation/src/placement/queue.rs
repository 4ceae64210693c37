//! Versions that wait to be asked for: fewest holders first, then by bucket, then the oldest; and how many of each bucket.
//!
//! Invariant: the numbers by bucket are those of what waits; a bucket of which nothing waits has none.

use std::collections::BTreeMap;
use std::ops::Bound;

use skerry_base::BucketId;

use super::Waiting;

/// The order in which they are served: holders, bucket, place in what was offered.
pub(super) type Urgency = (usize, BucketId, u64);

#[derive(Debug, Default)]
pub(super) struct Queue {
    all: BTreeMap<Urgency, Waiting>,
    of: BTreeMap<BucketId, usize>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Of all buckets.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn of(&self, bucket: BucketId) -> usize {
        self.of.get(&bucket).copied().unwrap_or_default()
    }

    /// All that waits of a bucket.
    pub(super) fn waiting(&self, bucket: BucketId) -> impl Iterator<Item = &Waiting> {
        let of = self.of.contains_key(&bucket).then(|| self.all.iter());
        of.into_iter().flatten().filter(move |((_, of, _), _)| *of == bucket).map(|(_, waiting)| waiting)
    }

    /// Those of which something waits.
    pub(super) fn buckets(&self) -> impl Iterator<Item = BucketId> + '_ {
        self.of.keys().copied()
    }

    /// The first one behind that.
    pub(super) fn behind(&self, at: Option<Urgency>) -> Option<(Urgency, &Waiting)> {
        let from = at.map_or(Bound::Unbounded, Bound::Excluded);
        self.all.range((from, Bound::Unbounded)).next().map(|(urgency, waiting)| (*urgency, waiting))
    }

    pub(super) fn insert(&mut self, urgency: Urgency, waiting: Waiting) {
        if self.all.insert(urgency, waiting).is_none() {
            *self.of.entry(urgency.1).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, urgency: &Urgency) -> Option<Waiting> {
        let waiting = self.all.remove(urgency)?;
        let left = self.of(urgency.1).saturating_sub(1);
        match left {
            0 => self.of.remove(&urgency.1),
            left => self.of.insert(urgency.1, left),
        };
        Some(waiting)
    }

    /// Nothing of a bucket waits any more.
    pub(super) fn forget(&mut self, bucket: BucketId) {
        if self.of.remove(&bucket).is_some() {
            self.all.retain(|(_, of, _), _| *of != bucket);
        }
    }
}
