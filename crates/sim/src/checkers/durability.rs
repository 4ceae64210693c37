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
    /// The client was told that it is done.
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

    /// The buckets of which something was shown.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        self.0.keys().copied().collect()
    }

    /// Judges a bucket by what the durable bytes hold; what is found durable is not asked again. A record that
    /// came by itself, ahead of its feed, may have been replaced since: then neither it nor its place in the
    /// vector is there.
    pub fn check(
        &mut self,
        history: &History,
        site: usize,
        bucket: BucketId,
        durable: &Standing,
    ) -> Vec<Violation> {
        let shown = self.0.remove(&bucket).unwrap_or_default();
        let replaced = |dot: &Dot| {
            let place = history.write(bucket, *dot).map(|write| &write.place);
            let held = place.and_then(|place| Some(history.memory(site)?.of(place)));
            held.is_some_and(|held| !held.alive().contains(dot))
        };
        // By a commit that the former life did not live to see done.
        let writes = history.writes_of(bucket);
        let killed = |dot: &Dot| {
            let kills = |killer: &Dot| {
                let both = writes.get(killer).zip(writes.get(dot));
                both.is_some_and(|(killer, victim)| verdict::kills(killer, victim, writes))
            };
            durable.stored.iter().any(kills)
        };
        let lost = |dot: &Dot| {
            let there = durable.vector.covers(*dot) || durable.stored.contains(dot);
            !there && !replaced(dot) && !killed(dot)
        };
        let violation = |(dot, how): (&Dot, &BTreeSet<How>)| {
            Violation::at(NAME, site, format!("{bucket} {dot} was shown ({how:?}) and is not durable"))
        };
        shown.iter().filter(|(dot, _)| lost(dot)).map(violation).collect()
    }
}
