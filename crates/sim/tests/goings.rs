//! Sites that leave a bucket, and sites that are emptied, all at once; and the mistakes that the checker must find.

mod many;

use skerry_sim::goings::{Mistake, run, run_of_promises};

/// `SKERRY_GOINGS_SEEDS` runs more seeds.
#[test]
fn whoever_goes_leaves_all_to_somebody_who_stays() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_GOINGS_SEEDS", 100),
        &["writes", "crashes", "departures", "drains", "called back", "left", "emptied"],
    );
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

/// `SKERRY_GOINGS_SEEDS` runs more seeds.
#[test]
fn whoever_goes_leaves_as_many_copies_behind_as_were_promised_and_are_wanted() {
    many::hold(
        |seed| run_of_promises(seed, None),
        ("SKERRY_GOINGS_SEEDS", 80),
        &["writes", "promises", "crashes", "fires", "left", "emptied", "judged by what was promised"],
    );
}

fn found(mistake: Mistake, by: &str) -> Option<u64> {
    let is_wrong =
        |seed: &u64| run_of_promises(*seed, Some(mistake)).violations.iter().any(|(found, _)| *found == by);
    (0..300).find(is_wrong)
}

#[test]
fn mistakes_of_those_who_go_are_found_by_what_they_leave_behind() {
    let mistakes = [
        (Mistake::PromiseForgotten, "promised"),
        (Mistake::AwayForgotten, "promised"),
        (Mistake::WishForgotten, "wished"),
    ];
    for (mistake, by) in mistakes {
        let seed = found(mistake, by);
        println!("{mistake:?}: {seed:?}");
        assert!(seed.is_some(), "no seed found {mistake:?}");
    }
}
