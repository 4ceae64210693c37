//! A site that follows only keys below a prefix, and the mistakes that the checkers must find.

mod many;

use skerry_sim::followed::{Mistake, run};

/// `SKERRY_FOLLOWED_SEEDS` runs more seeds.
#[test]
fn who_follows_a_prefix_has_what_members_have_below_it() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_FOLLOWED_SEEDS", 120),
        &[
            "writes",
            "changes",
            "changes in pieces",
            "ranges",
            "same ranges",
            "far",
            "tombstones dropped",
            "stale reads",
            "crashes",
            "leaves",
            "joins",
            "burnt",
            "ended",
            "came to rest",
        ],
    );
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

fn must_be_caught(mistake: Mistake, checkers: &[&str]) {
    let found = |seed: &u64| run(*seed, Some(mistake)).violations.iter().any(|(by, _)| checkers.contains(by));
    let seed = (0..200).find(found);
    println!("{mistake:?}: seed {seed:?}");
    assert!(seed.is_some(), "no seed found it");
}

#[test]
fn tombstones_that_are_gone_at_the_member() {
    must_be_caught(Mistake::HorizonIgnored, &["excluded", "same"]);
}

#[test]
fn a_vector_before_the_end_of_a_round() {
    must_be_caught(Mistake::VectorAtOnce, &["excluded"]);
}

#[test]
fn killers_beyond_the_vector_of_the_member() {
    must_be_caught(Mistake::LooseUntold, &["excluded"]);
}

#[test]
fn a_late_answer_to_a_single_read() {
    must_be_caught(Mistake::StaleAdmitted, &["excluded"]);
}

#[test]
fn ranges_of_several_members() {
    must_be_caught(Mistake::LastRangeCounts, &["complete", "excluded"]);
}

#[test]
fn what_is_dead_at_the_member() {
    must_be_caught(Mistake::DeadKept, &["excluded", "same"]);
}
