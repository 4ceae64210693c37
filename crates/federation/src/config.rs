//! What a [`crate::Federation`] is made from.

use core::time::Duration;
use std::collections::BTreeSet;

use skerry_base::{BucketId, SiteId};

/// Settings of one machine. All but `site`, `life`, `seed` and `fresh` must agree over the federation.
#[derive(Debug, Clone)]
pub struct Config {
    /// This site.
    pub site: SiteId,
    /// The life of this process: larger than in any earlier life of the site (the shell stores the last one). A
    /// disk that burned or was set back counts anew; others find out by the connection.
    pub life: u64,
    /// Source of all chance in here.
    pub seed: u64,
    /// Buckets of which every site is a member: the roster, claims and keys travel in them.
    pub system: BTreeSet<BucketId>,
    /// Whether small records come and go with the news of them, half a round trip after they were written instead of
    /// one and a half. Costs bytes only where they come twice; a site on a metered link may refuse them. Need not agree.
    pub fresh: bool,
    /// How often one other site is probed.
    pub probe_period: Duration,
    /// How long a probe waits before others are asked to probe.
    pub probe_rtt: Duration,
    /// How long a suspected site has to speak up.
    pub suspicion: Duration,
    /// Levels of landmarks whatever the number of sites; none: as many as it asks for. For tests.
    pub levels: Option<u8>,
    /// Whether landmarks are asked one after the other, by how far they are. Else all at once: what is proven of that is
    /// checked so.
    pub waves: bool,
    /// The words that this site uses: see [`crate::limits::DIALECT`]. For tests of what older releases meet.
    pub dialect: u8,
}

impl Config {
    /// Settings for sites over wide links: about 12 B/s of liveness per site, a silent death seen in a minute
    /// (a closed link is seen at once, by the link).
    pub fn new(site: SiteId, life: u64, seed: u64) -> Self {
        Self {
            site,
            life,
            seed,
            system: BTreeSet::new(),
            fresh: true,
            probe_period: Duration::from_secs(10),
            probe_rtt: Duration::from_secs(3),
            suspicion: Duration::from_secs(30),
            levels: None,
            waves: true,
            dialect: crate::limits::DIALECT,
        }
    }

    /// Whether fresh records are taken and given ([`Self::fresh`]).
    #[must_use]
    pub const fn with_fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Adds a bucket of which every site is a member.
    #[must_use]
    pub fn with_system(mut self, bucket: BucketId) -> Self {
        self.system.insert(bucket);
        self
    }
}
