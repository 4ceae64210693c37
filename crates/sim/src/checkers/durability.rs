//! Nothing is visible, answered or fed before it is durable.
//!
//! What was shown is compared with what a fresh store finds on a copy of the durable bytes alone: neither the
//! running store nor its index has a say.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Dot};

use super::Violation;
use crate::history::History;
use crate::standing::Standing;
use crate::verdict;

const NAME: &str = "durability";

/// What one site has shown to anybody since its disk was last set back.
#[derive(Debug, Clone, Default)]
pub struct Shows(BTreeMap<BucketId, BTreeMap<Dot, BTreeSet<How>>>);

/// How it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The client was told that it is done, by the life that wrote it.
    Acknowledged,
    /// A reader got it.
    Read,
    /// A peer got it.
    Fed,
}

impl Shows {
    /// A record was shown.
    pub fn show(&mut self, bucket: BucketId, dot: Dot, how: How) {
        self.0.entry(bucket).or_default().entry(dot).or_default().insert(how);
    }

    /// The site has left the bucket: others answer for what it showed.
    pub fn left(&mut self, bucket: BucketId) {
        self.0.remove(&bucket);
    }

    /// The buckets of which something was shown.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        self.0.keys().copied().collect()
    }

    /// Judges a bucket by what the durable bytes hold; what is found durable is not asked again. What the site
    /// has written itself is in its vector, whatever became of it since. A record that came by itself, ahead of
    /// its feed, may have been replaced: then neither it nor its place in the vector is there, but its killer.
    pub fn check(
        &mut self,
        history: &History,
        site: usize,
        bucket: BucketId,
        durable: &Standing,
    ) -> Vec<Violation> {
        let shown = self.0.remove(&bucket).unwrap_or_default();
        let writes = history.writes_of(bucket);
        let killed = |dot: &Dot| {
            let kills = |killer: &Dot| {
                let both = writes.get(killer).zip(writes.get(dot));
                both.is_some_and(|(killer, victim)| verdict::kills(killer, victim, writes))
            };
            durable.stored.iter().any(kills)
        };
        let lost = |(dot, how): &(&Dot, &BTreeSet<How>)| match durable.vector.covers(**dot) {
            true => false,
            false if how.contains(&How::Acknowledged) => true,
            false => !durable.stored.contains(*dot) && !killed(dot),
        };
        let violation = |(dot, how): (&Dot, &BTreeSet<How>)| {
            Violation::at(NAME, site, format!("{bucket} {dot} was shown ({how:?}) and is not durable"))
        };
        shown.iter().filter(lost).map(violation).collect()
    }
}
