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

/// What they found: 50271: records that no vector covers came one by one while all showed the same, and the end was judged
/// before. 50445, 50950: of a bucket that was left and emptied a row stayed that who never had it has not. 50583, 61169: a
/// client joined in the moment in which the bucket was let go; the sweep then dropped what the feed had brought again. 50688,
/// 60662, 61875: of a key with more versions than one commit of a sweep takes the checkers thought all held until the last was gone.
/// 62073: a member that was compared left between two steps and came back; what it had let go of was taken for dead.
const FAILED: [u64; 9] = [50271, 50445, 50583, 50688, 50950, 60662, 61169, 61875, 62073];

#[test]
fn departures_that_once_failed() {
    must_pass(FAILED);
}

/// Scopes and fires as well. 1365: a process was killed between a new payload segment and the sync of its folder; the next went on
/// in that segment, and what it acknowledged would have gone with the name.
#[test]
fn departures_beside_writes_that_several_sites_hold() {
    for seed in (5200..5200 + HALF).chain([4, 53, 220, 317, 1365]) {
        let environment = Environment::of_seed(seed).with_scopes().with_departures();
        let found = world::run(environment, Sink::Hash).violations;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(
            found.is_empty(),
            "again: {} --scopes --departures\n{}",
            reproduction(seed),
            found.join("\n")
        );
    }
}

#[test]
fn departures_where_sites_find_each_other_by_landmarks() {
    must_pass(LEVELLED + 500..LEVELLED + 510);
}
