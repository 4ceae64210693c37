//! A small swarm on every change, and every seed that ever failed.
//!
//! Two tests, so that two cores share it. A failure prints the command that repeats it.

use skerry_sim::environment::{LEVELLED, METERED};
use skerry_sim::swarm::{regressions, reproduction, run_seed};

/// Seeds of each half.
const HALF: u64 = 50;
/// Seeds of federations with levels: some have two dozen sites.
const LEVELLED_SEEDS: u64 = 16;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let mut failures = String::new();
    for seed in seeds {
        let report = run_seed(seed);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {}", reproduction(seed));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn the_first_half_of_the_smoke_swarm() {
    must_pass(0..HALF);
}

#[test]
fn the_second_half_of_the_smoke_swarm() {
    must_pass(HALF..2 * HALF);
}

#[test]
fn sites_that_find_each_other_by_landmarks() {
    must_pass(LEVELLED..LEVELLED + LEVELLED_SEEDS);
}

#[test]
fn sites_of_which_some_are_metered() {
    must_pass(METERED..METERED + LEVELLED_SEEDS);
}

#[test]
fn seeds_that_once_failed() {
    must_pass(regressions());
}
