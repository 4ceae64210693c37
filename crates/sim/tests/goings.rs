//! Sites that leave a bucket, and sites that are emptied, all at once; and the mistakes that the checker must find.

use std::collections::BTreeMap;

use skerry_sim::goings::{Mistake, run};

/// Seeds of a test; `SKERRY_GOINGS_SEEDS` runs more.
#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the product")]
fn seeds() -> u64 {
    std::env::var("SKERRY_GOINGS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn whoever_goes_leaves_all_to_somebody_who_stays() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..seeds() {
        let outcome = run(seed, None);
        assert_eq!(outcome.violations, [], "seed {seed}");
        outcome.counts.iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    println!("{} seeds: {counts:?}", seeds());
    for what in ["writes", "crashes", "departures", "drains", "called back", "left", "emptied"] {
        assert!(counts.contains_key(what), "no seed had {what}");
    }
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

fn caught(mistake: Mistake) -> Option<u64> {
    let lost = |seed: &u64| run(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == "kept");
    (0..300).find(lost)
}

#[test]
fn one_that_leaves_rests_on_one_that_is_emptied() {
    assert!(caught(Mistake::EmptiedStays).is_some(), "no seed found it");
}

#[test]
fn one_that_is_emptied_rests_on_one_that_leaves() {
    assert!(caught(Mistake::LeaverStays).is_some(), "no seed found it");
}
