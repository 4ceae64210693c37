//! Credential keys while sites are expelled, and the mistakes that the checkers must find.

mod many;

use skerry_sim::credentials::{Mistake, run};

/// `SKERRY_CREDENTIALS_SEEDS` runs more seeds.
#[test]
fn who_was_expelled_opens_nothing_that_is_made_later_and_all_others_do() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_CREDENTIALS_SEEDS", 500),
        &[
            "expelled",
            "keys made",
            "sealed with a later key",
            "fed",
            "told",
            "told by nobody yet",
            "refused",
            "burnt",
            "set back",
            "died before a key was announced",
            "said again",
            "deleted",
            "made by one that is gone",
            "copied",
            "sealed by one that knows that it is gone",
            "opened in the end",
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
    let seed = (0..500).find(found);
    println!("{mistake:?}: seed {seed:?}");
    assert!(seed.is_some(), "no seed found it");
}

#[test]
fn the_first_key_goes_on_sealing() {
    must_be_caught(Mistake::FirstSeals, "secret");
}

#[test]
fn the_latest_key_seals_whoever_is_gone_since() {
    must_be_caught(Mistake::LatestSeals, "secret");
}

#[test]
fn a_key_is_made_for_each_secret() {
    must_be_caught(Mistake::EachMakes, "settled");
}

#[test]
fn a_document_that_was_deleted_is_not_said_again() {
    must_be_caught(Mistake::NotSaidAgain, "opens");
}

#[test]
fn whoever_is_linked_is_told_any_key() {
    must_be_caught(Mistake::ToldToAll, "secret");
}

#[test]
fn only_the_maker_is_asked() {
    must_be_caught(Mistake::MakerIsAsked, "opens");
}

#[test]
fn a_key_is_announced_before_its_file_is_synced() {
    must_be_caught(Mistake::AnnouncedUnsynced, "opens");
}

#[test]
fn who_made_a_key_is_taken_at_its_word() {
    must_be_caught(Mistake::Unsigned, "secret");
}

#[test]
fn who_copies_a_hash_says_something_else_of_the_key() {
    must_be_caught(Mistake::Copied, "secret");
}

#[test]
fn who_had_a_key_once_does_not_look_for_it_again() {
    must_be_caught(Mistake::HadOnce, "opens");
}
