//! How long a record takes to the other sites: over calm links of one delay, with and without fresh records.
//!
//! From the answer of the write to the answer of the commit at the other site, in virtual time; dead records do not
//! count. `skerry-sim arrivals` prints it, a test holds the bound.

use std::time::Duration;

use crate::environment::Environment;
use crate::trace::Sink;
use crate::world;
use skerry_scenario::clock::WallClock;
use skerry_scenario::draw::Ppm;
use skerry_scenario::link::Link;

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// How long each record took, in order.
    pub took: Vec<Duration>,
    /// Bytes of all messages for each record and site that took it.
    pub bytes_each: f64,
}

/// Sites that write small objects, `delay` apart (one way), nothing going wrong.
pub fn environment(seed: u64, delay: Duration, fresh: bool) -> Environment {
    let mut calm = Environment::of_seed(seed);
    let sites = 3;
    calm.links = vec![vec![Link { delay, ..Link::default() }; sites]; sites];
    calm.clocks = vec![WallClock { offset_ms: 0, drift_ppm: 0 }; sites];
    calm.disks = vec![crate::disk::Manner::default(); sites];
    calm.fresh = vec![fresh; sites];
    (calm.faults, calm.retires, calm.burns) = (Vec::new(), false, false);
    calm.feed_bytes = usize::MAX;
    calm.active = Duration::from_secs(60);
    calm.workload.clients = 1;
    calm.workload.versioned = Ppm::NEVER;
    calm.workload.think = Duration::from_millis(100)..=Duration::from_millis(900);
    calm.workload.mix = [80, 10, 0, 10, 0, 0];
    calm
}

/// Runs a few seeds.
pub fn measure(seeds: std::ops::Range<u64>, delay: Duration, fresh: bool) -> Arrivals {
    let (mut took, mut bytes) = (Vec::new(), 0);
    for seed in seeds {
        let report = world::run(environment(seed, delay, fresh), Sink::Hash);
        took.extend(report.arrivals.iter().map(|(took, _)| *took));
        bytes += report.counts.get("bytes of messages").copied().unwrap_or_default();
    }
    took.sort_unstable();
    let bytes_each = bytes as f64 / (took.len() as f64).max(1.0);
    Arrivals { took, bytes_each }
}

impl Arrivals {
    /// The time that so many of a hundred did not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let last = self.took.len().saturating_sub(1);
        self.took.get(last * percent / 100).copied().unwrap_or_default()
    }
}
