//! Readers and the ways round links on which nothing comes; and the mistakes that the checkers must find.

mod many;

use std::collections::BTreeSet;

use skerry_sim::detours::{MISTAKES, Mistake, run};

/// `SKERRY_DETOURS_SEEDS` runs more seeds.
#[test]
fn what_a_third_site_can_fetch_comes_within_seconds() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_DETOURS_SEEDS", 200),
        &[
            "bodies",
            "chunks by way of others",
            "chunks that nobody gave",
            "crashes",
            "cuts",
            "links that died of silence",
            "one-way cuts",
            "operators who want nothing carried",
            "pings",
            "sites that are stuck",
            "slow disks",
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
            Mistake::NoPing | Mistake::Deaf => "straight",
            Mistake::NearestOnly => "reached",
            Mistake::Hanging | Mistake::Patient | Mistake::Credulous => "soon",
            Mistake::Forgetful => "again",
            Mistake::Faithful => "back",
        };
        let found = |seed| run(seed, Some(mistake)).violations.into_iter().map(|(checker, _)| checker);
        let caught: BTreeSet<_> = (0..30).flat_map(found).collect();
        assert!(caught.contains(by), "{mistake:?}: {caught:?}");
    }
}
