//! Two halves apart for five and eight months, each writing, deleting and dropping tombstones, with disks that burn: once
//! they meet nothing acknowledged is lost, nothing dead is back, and they agree. A failure prints the command that repeats
//! it.

use std::collections::BTreeMap;

use skerry_sim::environment::Environment;
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 30;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for seed in seeds {
        let report = world::run(Environment::of_seed(seed).with_halves(), Sink::Hash);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {} --halves", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    println!("{counts:?}");
    assert!(failures.is_empty(), "{failures}");
    let clocks = "clocks of 1970, months ahead or set right";
    for what in ["halves that met", "months apart", "retirements", "reconciliations", "burns", clocks] {
        assert!(counts.get(what).is_some_and(|count| *count > 0), "no {what}: {counts:?}");
    }
}

#[test]
fn the_first_half_of_the_halves() {
    must_pass(7000..7000 + HALF);
}

#[test]
fn the_second_half_of_the_halves() {
    must_pass(7000 + HALF..7000 + 2 * HALF);
}
