//! Writes that wait until several sites hold them, while disks burn, power fails and links are cut: what was answered
//! is there. A failure prints the command that repeats it.

use std::collections::BTreeMap;

use skerry_sim::canary::Canary;
use skerry_sim::environment::Environment;
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 20;
/// Among which each mistake shows.
const MISTAKEN: std::ops::Range<u64> = 1000..1080;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for seed in seeds {
        let report = world::run(Environment::of_seed(seed).with_scopes(), Sink::Hash);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {} --scopes", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    assert!(failures.is_empty(), "{failures}");
    for what in
        ["scopes reached", "scopes not reached", "bodies settled for holders", "written again", "burns"]
    {
        assert!(counts.get(what).is_some_and(|count| *count >= HALF / 2), "too few {what}: {counts:?}");
    }
}

#[test]
fn the_first_half_of_the_scopes() {
    must_pass(4000..4000 + HALF);
}

#[test]
fn the_second_half_of_the_scopes() {
    must_pass(4000 + HALF..4000 + 2 * HALF);
}

fn is_caught(canary: Canary) -> bool {
    MISTAKEN.into_iter().any(|seed| {
        let mut environment = Environment::of_seed(seed);
        canary.set_free(&mut environment);
        let found = world::run(environment, Sink::Hash).violations;
        found.iter().any(|violation| {
            violation.checker == "scopes" && violation.to_string().contains("is said to be held there")
        })
    })
}

/// What the product did until this test was there: the record had come by a feed, and nobody waited for the body.
#[test]
fn a_holder_that_answers_before_the_body_is_synced() {
    assert!(is_caught(Canary::EarlyHolder));
}

/// And this: the same bytes put at another site were answered there and kept nowhere near.
#[test]
fn a_repeated_put_that_is_answered_unseen() {
    assert!(is_caught(Canary::RepeatedPut));
}
