//! Journals rot while everything else goes on: what anybody holds comes back to who lost it, nothing dead does, and all
//! agree. A failure prints the command that repeats it.

use std::collections::BTreeMap;

use skerry_sim::environment::{Environment, LEVELLED};
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 30;

fn must_pass(
    environments: impl IntoIterator<Item = Environment>,
    flags: &str,
) -> BTreeMap<&'static str, u64> {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for environment in environments {
        let seed = environment.seed;
        let report = world::run(environment.with_damage(), Sink::Hash);
        for violation in &report.violations {
            failures +=
                &format!("\nseed {seed}: {violation}\n  again: {}{flags} --damage", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    println!("{counts:?}");
    assert!(failures.is_empty(), "{failures}");
    for what in ["strikes: damage", "starts with buckets to begin anew", "buckets that are whole again"] {
        assert!(counts.get(what).is_some_and(|count| *count > 0), "no {what}: {counts:?}");
    }
    counts
}

#[test]
fn the_first_half_of_the_damage() {
    must_pass((9000..9000 + HALF).map(Environment::of_seed), "");
}

#[test]
fn the_second_half_of_the_damage() {
    must_pass((9000 + HALF..9000 + 2 * HALF).map(Environment::of_seed), "");
}

/// Seeds that failed once: a goal taken before what lay beyond a vector was here (20129); a membership that was lost (9413, 9549 and 9667
/// fail without the mend) and claims (9105, 9291); a comparison told what is dead by records beyond its vector (30702); the others were
/// the checkers' faults.
#[test]
fn damage_that_was_mended_before() {
    let seeds = [
        9105, 9157, 9180, 9189, 9291, 9413, 9549, 9667, 20038, 20057, 20129, 20201, 30702, 30771, 31903,
        32414, 32499,
    ];
    let counts = must_pass(seeds.map(Environment::of_seed), "");
    assert!(counts.contains_key("claims written again"), "else the checkers excuse what is lost: {counts:?}");
}

#[test]
fn damage_where_sites_leave_buckets_and_come_back() {
    must_pass((9100..9115).map(|seed| Environment::of_seed(seed).with_departures()), " --departures");
}

#[test]
fn damage_where_sites_find_each_other_by_landmarks() {
    must_pass((LEVELLED + 900..LEVELLED + 910).map(Environment::of_seed), "");
}
