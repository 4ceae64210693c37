//! Sites whose disk was copied, and the copy runs beside the original; and the mistakes that the checkers must find.

mod many;

use skerry_sim::clones::{MISTAKES, run};

/// `SKERRY_CLONES_SEEDS` runs more seeds.
#[test]
fn of_two_copies_one_is_served_and_nothing_is_lost() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_CLONES_SEEDS", 60),
        &[
            "backups put back",
            "copies",
            "copies apart",
            "cuts",
            "found",
            "heard of",
            "keys with copies",
            "kills",
            "links",
            "proven from afar",
            "suspicions",
            "turned away",
            "writes refused by a copy",
        ],
    );
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

#[test]
fn each_mistake_is_found_by_its_checker() {
    for (mistake, checker) in MISTAKES {
        let finds = |seed: &u64| run(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == checker);
        assert!((0..200).any(|seed| finds(&seed)), "no seed shows {mistake:?} to {checker}");
    }
}
