//! Counters and gauges of the machine, for metrics. Reading them changes nothing.

use skerry_base::{BucketId, SiteId};

/// What was counted since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Messages handed to the shell for sending.
    pub sent: u64,
    /// Messages not sent because no link was up.
    pub unlinked: u64,
    /// Messages from peers that were refused as senseless.
    pub refused: u64,
    /// Messages from peers that came too late or twice and were ignored.
    pub stale: u64,
    /// Items handed over in batches to be applied.
    pub items_in: u64,
    /// Items served to others.
    pub items_out: u64,
    /// Pulls sent.
    pub pulls: u64,
    /// Pulls that failed or timed out.
    pub pulls_failed: u64,
    /// Batches that the shell refused to commit.
    pub applies_refused: u64,
    /// Reconciliations carried through.
    pub reconciled: u64,
    /// Dots dropped here because a member knew them dead.
    pub dropped: u64,
    /// Questions of this site that were answered.
    pub located: u64,
    /// Readings of the replica that failed.
    pub unreadable: u64,
    /// Invariants found broken.
    pub violations: u64,
}

/// How far this site is behind one source in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Which bucket.
    pub bucket: BucketId,
    /// Which source.
    pub source: SiteId,
    /// Records that the source is known to have and we have not (dead ones count).
    pub records: u64,
}
