//! What a node has on its disk: writes, and what follows from them.
//!
//! The records of one origin in one bucket are a sequence; a node's vector covers the part of it that has no gap, and
//! further ones are *loose*. System records of one key kill those that they had seen, for ever, as in the product.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector};

use super::{BUCKETS, What, Write};

/// What orders decisions of one bucket: the epoch of the home, then its stamp.
pub(super) type Order = (u64, u64);

/// All that a disk has but for the machine's memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) held: BTreeSet<u64>,
    current: [Option<(Order, u64)>; BUCKETS.len()],
    covered: [BTreeMap<SiteId, u64>; BUCKETS.len()],
    /// Loose records, and whether they are decisions.
    ahead: [BTreeMap<(SiteId, u64), bool>; BUCKETS.len()],
    pub(super) homes: [BTreeSet<u64>; BUCKETS.len()],
    pub(super) tenures: [BTreeSet<u64>; BUCKETS.len()],
    /// What was said of namings, and the names that are given, by their buckets.
    pub(super) said: BTreeSet<u64>,
    pub(super) given: BTreeMap<BucketId, BTreeSet<u64>>,
    killed: BTreeSet<u64>,
}

impl Kept {
    pub(super) fn keep(&mut self, number: u64, write: &Write) {
        if !self.held.insert(number) {
            return;
        }
        let bucket = write.bucket;
        match &write.what {
            What::Plain => self.cover(write, false),
            What::Decision { order, .. } => {
                self.cover(write, true);
                self.current[bucket] = self.current[bucket].max(Some((*order, number)));
            }
            What::Said { context, .. } => {
                self.cover(write, true);
                self.killed.extend(context);
                self.said.insert(number);
                self.said.retain(|head| !self.killed.contains(head));
            }
            What::Given { naming } => {
                self.cover(write, true);
                self.given.entry(naming.home.bucket).or_default().insert(number);
            }
            What::Tenure { context, .. } => {
                Self::head(&mut self.tenures, &mut self.killed, (bucket, number, context))
            }
            What::Home { context, .. } => {
                Self::head(&mut self.homes, &mut self.killed, (bucket, number, context))
            }
        }
    }

    fn head(
        heads: &mut [BTreeSet<u64>; BUCKETS.len()],
        killed: &mut BTreeSet<u64>,
        (bucket, number, context): (usize, u64, &BTreeSet<u64>),
    ) {
        killed.extend(context);
        heads[bucket].insert(number);
        heads[bucket].retain(|head| !killed.contains(head));
    }

    fn cover(&mut self, write: &Write, is_decision: bool) {
        let ahead = &mut self.ahead[write.bucket];
        ahead.insert((write.origin, write.seq), is_decision);
        let covered = self.covered[write.bucket].entry(write.origin).or_default();
        while ahead.remove(&(write.origin, *covered + 1)).is_some() {
            *covered += 1;
        }
    }

    /// The decision that is current.
    pub(super) fn current(&self, bucket: usize) -> Option<u64> {
        self.current[bucket].map(|(_, number)| number)
    }

    /// A stamp beyond all that were seen.
    pub(super) fn next(&self, bucket: usize) -> u64 {
        self.current[bucket].map_or(0, |((_, stamp), _)| stamp) + 1
    }

    pub(super) fn vector(&self, bucket: usize) -> Vector {
        let entries = self.covered[bucket].iter().filter(|(_, upto)| **upto > 0);
        entries.map(|(origin, upto)| (Origin { node: NodeId(origin.0), incarnation: 1 }, *upto)).collect()
    }

    /// Whether the vector covers a record.
    pub(super) fn covers(&self, write: &Write) -> bool {
        self.covered[write.bucket].get(&write.origin).is_some_and(|upto| *upto >= write.seq)
    }

    /// Whether decisions lie ahead of the vector.
    pub(super) fn has_decisions_ahead(&self, bucket: usize) -> bool {
        self.ahead[bucket].values().any(|is_decision| *is_decision)
    }
}
