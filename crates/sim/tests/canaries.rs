//! A checker that has never caught anything does not count: each must find the mistakes made for it.

use std::collections::BTreeSet;

use skerry_sim::canary::{CANARIES, Canary};
use skerry_sim::checkers::Violation;
use skerry_sim::environment::{Environment, LEVELLED};
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds tried before a mistake counts as unseen.
const SEEDS: std::ops::Range<u64> = 1000..1012;
/// Around the first in which two leave on each other's word.
const BOTH_LEAVE: std::ops::Range<u64> = 560..572;
/// Around two in which what a feed left behind is missed: one in 75 of the seeds is.
const AHEAD: std::ops::Range<u64> = 1206..1218;
/// Of federations with levels of landmarks.
const LEVELS: std::ops::Range<u64> = LEVELLED..LEVELLED + 12;

fn violations(canary: Canary, seed: u64) -> Vec<Violation> {
    let mut environment = Environment::of_seed(seed);
    canary.set_free(&mut environment);
    world::run(environment, Sink::Hash).violations
}

fn caught(canary: Canary) -> BTreeSet<&'static str> {
    let wanted: BTreeSet<_> = canary.must_be_caught_by().iter().copied().collect();
    let mut by = BTreeSet::new();
    let seeds = match canary {
        // Two sites that leave at one moment are rare.
        Canary::BothLeave => BOTH_LEAVE,
        Canary::NothingAhead => AHEAD,
        Canary::AskedAgain => LEVELS,
        _ => SEEDS,
    };
    for seed in seeds {
        by.extend(violations(canary, seed).iter().map(|found| found.checker));
        if by.is_superset(&wanted) {
            break;
        }
    }
    by
}

fn must_be_caught(canary: Canary) {
    let by = caught(canary);
    for checker in canary.must_be_caught_by() {
        assert!(by.contains(checker), "{canary:?} escaped {checker}, which has only {by:?} beside it");
    }
}

#[test]
fn a_disk_that_lies_about_syncs() {
    must_be_caught(Canary::LyingDisk);
}

/// Answers, reads and feeds are each found to have been too early.
#[test]
fn each_way_to_show_what_is_not_durable() {
    let mut seen = String::new();
    for seed in SEEDS {
        let found = violations(Canary::LyingDisk, seed);
        let early = found.iter().filter(|violation| violation.checker == "durability");
        early.for_each(|violation| seen += &violation.what);
    }
    for how in ["Acknowledged", "Read", "Fed"] {
        assert!(seen.contains(how), "nothing was {how} too early");
    }
}

/// A drop of what lives is found in the act, and its loss at all sites in the end: no retirement excuses it.
#[test]
fn a_sweep_of_what_lives() {
    must_be_caught(Canary::EagerSweep);
}

#[test]
fn a_merge_that_ignores_contexts() {
    must_be_caught(Canary::ForgottenContext);
}

#[test]
fn an_incarnation_used_twice() {
    must_be_caught(Canary::ReusedIncarnation);
}

#[test]
fn a_feed_that_skips_a_record() {
    must_be_caught(Canary::SkippedItem);
}

#[test]
fn a_feed_that_leaves_behind_what_killed() {
    must_be_caught(Canary::NothingAhead);
}

#[test]
fn a_read_of_yesterday() {
    must_be_caught(Canary::StaleRead);
}

#[test]
fn a_body_with_a_flipped_bit() {
    must_be_caught(Canary::WrongBody);
}

#[test]
fn a_member_that_gives_only_what_it_is_asked_for() {
    must_be_caught(Canary::AskedAgain);
}

#[test]
fn an_answer_that_does_not_arrive() {
    must_be_caught(Canary::LostAnswer);
}

#[test]
fn a_worker_that_does_nothing() {
    must_be_caught(Canary::IdleWorker);
}

#[test]
fn a_holder_of_last_copies_that_says_nothing() {
    must_be_caught(Canary::KeptBack);
}

#[test]
fn a_claim_that_is_taken_for_a_home() {
    must_be_caught(Canary::TwoHomes);
}

#[test]
fn a_holder_that_has_not_synced() {
    must_be_caught(Canary::EarlyHolder);
}

#[test]
fn a_repeated_put_that_nobody_looks_at() {
    must_be_caught(Canary::RepeatedPut);
}

#[test]
fn a_site_that_leaves_without_asking() {
    must_be_caught(Canary::HastyLeave);
}

#[test]
fn two_sites_that_leave_on_each_other_s_word() {
    must_be_caught(Canary::BothLeave);
}

#[test]
fn a_site_that_left_and_writes_on_as_before() {
    must_be_caught(Canary::SameLife);
}

#[test]
fn a_site_that_takes_what_its_journal_lost_for_seen() {
    must_be_caught(Canary::UnmendedDamage);
}

/// Every checker file has a canary; a new one without is noticed here.
#[test]
fn every_checker_has_caught_one() {
    let caught: BTreeSet<_> = CANARIES.iter().flat_map(|canary| canary.must_be_caught_by()).collect();
    let checkers = [
        "acknowledged",
        "bodies",
        "claims",
        "convergence",
        "dots",
        "durability",
        "kept",
        "locality",
        "location",
        "own writes",
        "races",
        "resurrection",
        "scopes",
        "vectors",
    ];
    assert_eq!(caught, checkers.iter().collect());
}
