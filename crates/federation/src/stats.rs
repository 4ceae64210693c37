//! Counters and gauges of the machine, for metrics. Reading them changes nothing.

use core::time::Duration;

use skerry_base::{BucketId, SiteId};

use crate::areas::Coordinate;
use crate::areas::distance::Source;
use crate::areas::ring::Area;

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
    /// Those of them that came with their news.
    pub fresh_in: u64,
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
    /// Questions of others that this site, a member, answered by giving what was wanted.
    pub given: u64,
    /// Readings of the replica that failed.
    pub unreadable: u64,
    /// Invariants found broken.
    pub violations: u64,
}

/// Pulls on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulls {
    /// How many.
    pub count: usize,
    /// What they asked for together.
    pub bytes: u64,
    /// Buckets that wait until a site may be asked.
    pub waiting: usize,
}

/// How far this site and the others are behind each other in one bucket, in records (dead ones count).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps {
    /// Which bucket.
    pub bucket: BucketId,
    /// What a source is known to have and we have not; only those that have anything.
    pub missing: Vec<(SiteId, u64)>,
    /// What each other member is not known to have of ours.
    pub unsent: Vec<(SiteId, u64)>,
}

/// A site as another sees it for the sake of look-ups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Which.
    pub site: SiteId,
    /// Its level: a landmark of how many.
    pub level: u8,
    /// The round trip, measured, estimated or assumed.
    pub rtt: Duration,
    /// Which of these.
    pub source: Source,
    /// This site tells and asks it.
    pub landmark: bool,
    /// It tells this site all that it holds.
    pub tells: bool,
    /// A link stands.
    pub linked: bool,
    /// Where it says it is.
    pub coordinate: Option<Coordinate>,
}

/// How a site finds others. See docs/areas.md.
#[derive(Debug, Clone, PartialEq)]
pub struct AreasReport {
    /// Levels of landmarks.
    pub k: u8,
    /// This site's level.
    pub level: u8,
    /// Where this site is.
    pub coordinate: Coordinate,
    /// The sites that are there, nearest first.
    pub sites: Vec<Near>,
    /// Landmarks that were left out of a bunch that would have been too large.
    pub left_out: usize,
    /// Sites that are told what this one holds, and how many of them have said that they know it all.
    pub told: (usize, usize),
    /// Memberships of others that this site holds.
    pub entries: usize,
    /// The areas around this site: the sites that tell it within growing radii.
    pub areas: Vec<Area>,
}
