//! Sites leave buckets and come back, through cuts, kills, fires and each other's departures: nothing acknowledged is
//! lost, and who comes back converges. A failure prints the command that repeats it.

use std::collections::BTreeMap;

use skerry_sim::environment::{Environment, LEVELLED};
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 30;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for seed in seeds {
        let report = world::run(Environment::of_seed(seed).with_departures(), Sink::Hash);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {} --departures", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    println!("{counts:?}");
    assert!(failures.is_empty(), "{failures}");
    for what in ["departures begun", "departures", "sweeps of left buckets"] {
        assert!(counts.get(what).is_some_and(|count| *count > 0), "no {what}: {counts:?}");
    }
}

#[test]
fn the_first_half_of_the_departures() {
    must_pass(5000..5000 + HALF);
}

#[test]
fn the_second_half_of_the_departures() {
    must_pass(5000 + HALF..5000 + 2 * HALF);
}

#[test]
fn departures_where_sites_find_each_other_by_landmarks() {
    must_pass(LEVELLED + 500..LEVELLED + 510);
}
