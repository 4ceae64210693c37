//! Newcomers in the places of sites that are gone, and the mistakes that the checkers must find.

mod many;

use skerry_sim::replaced::{Mistake, run};

/// `SKERRY_REPLACED_SEEDS` runs more seeds.
#[test]
fn who_is_done_has_what_anybody_has_and_everybody_is_done_in_the_end() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_REPLACED_SEEDS", 200),
        &[
            "writes",
            "crashes",
            "joins",
            "leaves",
            "burnt",
            "replaced",
            "gone in name only",
            "alone",
            "done in the storm",
            "done at rest",
        ],
    );
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

fn must_be_caught(mistake: Mistake, checker: &str) {
    let found = |seed: &u64| run(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == checker);
    let seed = (0..200).find(found);
    println!("{mistake:?}: seed {seed:?}");
    assert!(seed.is_some(), "no seed found it");
}

#[test]
fn one_round_of_questions() {
    must_be_caught(Mistake::OneRound, "complete");
}

#[test]
fn an_answer_before_it_was_heard() {
    must_be_caught(Mistake::NotHeard, "complete");
}

#[test]
fn silence_for_an_answer() {
    must_be_caught(Mistake::SilentHasNothing, "complete");
}

#[test]
fn only_what_each_knows_by_itself() {
    must_be_caught(Mistake::OnlyOwnKnowledge, "complete");
}

#[test]
fn joined_for_complete() {
    must_be_caught(Mistake::JoinedIsComplete, "complete");
}

#[test]
fn a_lost_site_that_is_waited_for() {
    must_be_caught(Mistake::LostIsAsked, "ended");
}
