//! Sites that cannot reach each other through cuts, crashes and unwilling operators; and the mistakes that the checkers
//! must find.

mod many;

use std::collections::BTreeSet;

use skerry_sim::circuits::{MISTAKES, Mistake, run};

/// `SKERRY_CIRCUITS_SEEDS` runs more seeds.
#[test]
fn whoever_is_joined_by_willing_sites_has_the_shortest_link() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_CIRCUITS_SEEDS", 200),
        &[
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
        ],
    );
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
