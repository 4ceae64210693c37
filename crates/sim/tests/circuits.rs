//! Sites that cannot reach each other through cuts, crashes and unwilling operators; and the mistakes that the checkers
//! must find.

use std::collections::{BTreeMap, BTreeSet};

use skerry_sim::circuits::{MISTAKES, Mistake, run};

/// Seeds of a test; `SKERRY_CIRCUITS_SEEDS` runs more.
#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the product")]
fn seeds() -> u64 {
    std::env::var("SKERRY_CIRCUITS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

#[test]
fn whoever_is_joined_by_willing_sites_has_the_shortest_link() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..seeds() {
        let outcome = run(seed, None);
        assert_eq!(outcome.violations, [], "seed {seed}");
        outcome.counts.iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    println!("{} seeds: {counts:?}", seeds());
    let happened = [
        "circuits",
        "circuits of several hops",
        "crashes",
        "cuts",
        "lines",
        "meshes",
        "one-way cuts",
        "operators who want nothing carried",
        "pairs behind two walls",
        "pairs by way of others",
        "pairs that nothing joins",
        "pairs that stay apart",
    ];
    happened.iter().for_each(|what| assert!(counts.contains_key(what), "no seed had {what}"));
}

#[test]
fn two_runs_of_a_seed_are_one() {
    (0..3).for_each(|seed| assert_eq!(run(seed, None), run(seed, None)));
}

#[test]
fn every_mistake_is_found() {
    for mistake in MISTAKES {
        let by = match mistake {
            Mistake::NearestOnly | Mistake::Deaf => "whole",
            Mistake::TakenForDirect => "paths",
            Mistake::Servile => "unwilling",
        };
        let found = |seed| run(seed, Some(mistake)).violations.into_iter().map(|(checker, _)| checker);
        let caught: BTreeSet<_> = (0..30).flat_map(found).collect();
        assert!(caught.contains(by), "{mistake:?}: {caught:?}");
    }
}
