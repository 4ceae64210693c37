//! The one machine of a node: takes every input, hands it to the machine of its mechanism, collects what they
//! want done.

use skerry_base::{BucketId, Instant, SiteId};

use crate::{Config, Input, Lag, Output, Replica, Stats};

/// All of a node's decisions about other sites.
///
/// Contract: `now` never falls; outputs are carried out in order; every [`Output::Apply`] and [`Output::Drop`]
/// is answered by exactly one [`Input::Applied`]; `handle` is called at the latest at [`Self::next_wake`].
/// Two machines that are given the same inputs give the same outputs.
pub struct Federation {
    config: Config,
    stats: Stats,
}

impl Federation {
    /// A machine at its start: no roster, no links, no memberships but the system buckets.
    pub fn new(config: Config) -> Self {
        Self { config, stats: Stats::default() }
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, replica: &dyn Replica, out: &mut Vec<Output>) {
        let _ = (input, now, replica, out);
    }

    /// When `handle` must be called next at the latest.
    pub fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// Counters since the start.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How far this site is behind its sources.
    pub fn lag(&self, replica: &dyn Replica) -> Vec<Lag> {
        let _ = replica;
        Vec::new()
    }

    /// The known members of a bucket but this site, nearest first, reachable or not.
    pub fn members(&self, bucket: BucketId) -> Vec<SiteId> {
        let _ = bucket;
        Vec::new()
    }

    /// Whether a site counts as alive.
    pub fn is_alive(&self, site: SiteId) -> bool {
        site == self.config.site
    }
}
