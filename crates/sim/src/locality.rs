//! How long it takes until the first byte of an object is at a site that knows nothing of its bucket.
//!
//! Worlds of seeds that force levels of landmarks upon few sites, with their faults, on distances that violate no triangle; asked
//! once everything is healed. A test holds the bound ([`crate::world::finds`]).

use crate::environment::{Environment, LEVELLED};
use crate::trace::Sink;
use crate::world::finds::Find;
use crate::world::{self, Report};

/// What was measured over some seeds.
#[derive(Debug, Default)]
pub struct Locality {
    /// Every question.
    pub finds: Vec<Find>,
    /// Worlds in which a promise was broken.
    pub failed: Vec<(u64, String)>,
}

/// Runs so many seeds with as many levels of landmarks.
pub fn measure(levels: u8, at_once: bool, seeds: usize) -> Locality {
    let mut all = Locality::default();
    let fits = |environment: &Environment| environment.finding.levels == Some(levels);
    let environments = (LEVELLED..).map(|seed| Environment::of_seed(seed).with_metric(at_once));
    for environment in environments.filter(fits).take(seeds) {
        let Report { seed, finds, violations, .. } = world::run(environment, Sink::Hash);
        all.finds.extend(finds);
        all.failed.extend(violations.iter().map(|violation| (seed, violation.to_string())));
    }
    all
}
