//! Conditional operations through cuts, kills and moves of homes: at most one wins. A failure prints the command that
//! repeats it.

use std::collections::BTreeMap;

use skerry_sim::environment::Environment;
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 20;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for seed in seeds {
        let report = world::run(Environment::of_seed(seed).with_races(), Sink::Hash);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {} --races", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    assert!(failures.is_empty(), "{failures}");
    for what in ["races", "races won", "races cut off", "races without a home", "homes named", "homes moved"]
    {
        assert!(counts.get(what).is_some_and(|count| *count >= HALF), "too few {what}: {counts:?}");
    }
}

#[test]
fn the_first_half_of_the_races() {
    must_pass(3000..3000 + HALF);
}

#[test]
fn the_second_half_of_the_races() {
    must_pass(3000 + HALF..3000 + 2 * HALF);
}
