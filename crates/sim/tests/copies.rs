//! Copies that count, through cuts, crashes, full disks and fires; and the mistakes that the checkers must find.

mod many;

use std::collections::BTreeSet;

use skerry_sim::copies::{Mistake, backlog, run, run_in_areas, run_of_nodes, run_of_scopes, run_with_caps};

/// `SKERRY_COPIES_SEEDS` runs more seeds.
#[test]
fn what_is_reported_protected_outlives_a_fire_and_all_is_covered_in_the_end() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_COPIES_SEEDS", 60),
        &[
            "burns",
            "crashes",
            "declared too early",
            "lost unprotected",
            "covered",
            "claims asked",
            "read as gone",
            "back by itself",
            "drains",
            "emptied",
            "emptied and burned",
            "drains of several",
            "told that it goes",
            "let go",
            "copies lowered",
            "surplus that stays",
            "rounds with a silent one",
            "counted on",
            "forgotten later",
        ],
    );
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}

fn caught(mistake: Mistake) -> BTreeSet<&'static str> {
    (0..40).flat_map(|seed| run(seed, Some(mistake)).violations).map(|(checker, _)| checker).collect()
}

/// The first of so many seeds in which a checker finds a mistake.
fn caught_in(mistake: Mistake, seeds: u64, checker: &str) -> Option<u64> {
    let caught = |seed: &u64| run(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == checker);
    (0..seeds).find(caught)
}

#[test]
fn a_holder_that_answers_before_its_disk() {
    let caught = caught(Mistake::EarlyAnswer);
    assert!(caught.contains("claims"), "{caught:?}");
    assert!(caught_in(Mistake::EarlyAnswer, 300, "protected").is_some(), "no seed found it");
}

#[test]
fn what_a_burned_site_held_is_still_believed() {
    let caught = caught(Mistake::OldClaims);
    assert!(caught.is_superset(&["copies", "claims"].into()), "{caught:?}");
}

#[test]
fn nobody_takes_over_from_a_lost_custodian() {
    let caught = caught(Mistake::NoTakeover);
    assert!(caught.contains("copies"), "{caught:?}");
}

#[test]
fn silence_is_taken_for_a_word() {
    let caught = caught(Mistake::SilenceIsLack);
    assert!(caught.contains("reads"), "{caught:?}");
}

#[test]
fn a_site_that_is_there_with_its_disk_stays_lost() {
    let caught = caught(Mistake::NeverBack);
    assert!(caught.contains("losses"), "{caught:?}");
}

#[test]
fn a_drained_site_believes_what_others_said_in_a_former_life() {
    assert!(caught_in(Mistake::OldWords, 300, "drained").is_some(), "no seed found it");
}

#[test]
fn a_drained_site_takes_writes_on() {
    let caught = caught(Mistake::WrittenMeanwhile);
    assert!(caught.contains("drained"), "{caught:?}");
}

#[test]
fn a_drained_site_that_is_silent_is_taken_for_a_lost_one() {
    let caught = caught_in(Mistake::DrainedIsLost, 300, "reads");
    assert!(caught.is_some(), "no seed found it");
}

#[test]
fn two_drained_sites_rest_on_each_other() {
    // Rare: the third site must have no copy by then. Of the first 600 seeds 517 shows it.
    let caught =
        |seed: u64| run(seed, Some(Mistake::DrainedStays)).violations.iter().any(|(by, _)| *by == "drained");
    assert!((500..560).any(caught), "no seed found it");
}

#[test]
fn silence_is_taken_for_what_was_said_once_by_who_lets_go() {
    let caught = caught(Mistake::TrimByBelief);
    assert!(caught.contains("claims"), "{caught:?}");
}

#[test]
fn who_lets_go_is_counted_on_still() {
    let caught = caught(Mistake::TrimUnheard);
    assert!(caught.contains("claims"), "{caught:?}");
}

#[test]
fn several_count_on_each_other_and_let_go() {
    let caught = caught_in(Mistake::NoOrder, 300, "trimmed");
    assert!(caught.is_some(), "no seed found it");
}

#[test]
fn who_is_to_count_on_a_site_no_more_forgets_that_it_asks_it_just_now() {
    let caught = caught_in(Mistake::ForgetsMeanwhile, 300, "claims");
    assert!(caught.is_some(), "no seed found it");
}

#[test]
fn a_site_that_let_go_says_what_it_said_before() {
    let caught = caught_in(Mistake::WordStands, 300, "claims");
    assert!(caught.is_some(), "no seed found it");
}

/// `SKERRY_AREA_SEEDS` runs more seeds.
#[test]
fn areas_have_what_they_ask_for_while_sites_move_and_buckets_too() {
    many::hold(
        |seed| run_in_areas(seed, None),
        ("SKERRY_AREA_SEEDS", 60),
        &[
            "burns",
            "crashes",
            "declared too early",
            "drains",
            "emptied and burned",
            "sites that moved",
            "buckets that move",
            "sites that take nothing",
            "declined",
            "covered in areas",
            "let go",
            "copies lowered",
            "rounds with a silent one",
            "counted on",
        ],
    );
}

#[test]
fn two_runs_of_a_seed_in_areas_are_one() {
    for seed in 0..5 {
        assert_eq!(run_in_areas(seed, None), run_in_areas(seed, None));
    }
}

/// The first of so many seeds in areas in which a checker finds a mistake.
fn caught_in_areas(mistake: Mistake, seeds: u64, checker: &str) -> Option<u64> {
    let caught =
        |seed: &u64| run_in_areas(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == checker);
    let found = (0..seeds).find(caught);
    println!("{mistake:?}: seed {found:?}");
    found
}

#[test]
fn who_lets_go_does_not_look_at_areas() {
    assert!(caught_in_areas(Mistake::AreasUnheeded, 40, "trimmed").is_some(), "no seed found it");
}

#[test]
fn a_site_that_moved_is_asked_for_by_its_former_area() {
    assert!(caught_in_areas(Mistake::FormerArea, 40, "areas").is_some(), "no seed found it");
}

#[test]
fn an_area_of_too_few_sites_keeps_all_copies_too_many() {
    assert!(caught_in_areas(Mistake::TooFewBlocks, 40, "surplus").is_some(), "no seed found it");
}

#[test]
fn a_site_that_takes_nothing_keeps_all_copies_too_many() {
    assert!(caught_in_areas(Mistake::DecliningCounts, 40, "surplus").is_some(), "no seed found it");
}

/// `SKERRY_NODE_SEEDS` runs more seeds.
#[test]
fn what_a_node_of_a_site_has_lost_comes_back_to_it() {
    many::hold(
        |seed| run_of_nodes(seed, None),
        ("SKERRY_NODE_SEEDS", 60),
        &["burns", "crashes", "declared too early", "drains", "emptied", "shared", "rotten", "covered"],
    );
}

#[test]
fn a_neighbour_s_copy_is_taken_for_the_own_one() {
    let caught = |seed: &u64| {
        run_of_nodes(*seed, Some(Mistake::NeighbourCounts)).violations.iter().any(|(by, _)| *by == "own")
    };
    assert!((0..40).find(caught).is_some(), "no seed found it");
}

/// `SKERRY_BACKLOG_SEEDS` runs more seeds.
#[test]
fn an_area_behind_a_slow_link_keeps_no_other_bucket_waiting() {
    many::hold(
        |seed| backlog::run(seed, None),
        ("SKERRY_BACKLOG_SEEDS", 30),
        &["asked", "busy areas", "healed"],
    );
    for seed in 0..3 {
        assert_eq!(backlog::run(seed, None), backlog::run(seed, None));
    }
}

#[test]
fn buckets_that_share_one_queue_starve_and_what_is_old_beside_what_is_new() {
    for mistake in [backlog::Mistake::OneHunger, backlog::Mistake::OneBucket, backlog::Mistake::OnlyNew] {
        let caught =
            |seed: &u64| backlog::run(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == "starved");
        let found = (0..20).find(caught);
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "no seed found it");
    }
}

/// `SKERRY_SCOPE_SEEDS` runs more seeds.
#[test]
fn what_is_answered_for_an_area_or_as_durable_is_where_it_is_asked_for() {
    many::hold(
        |seed| run_of_scopes(seed, None),
        ("SKERRY_SCOPE_SEEDS", 60),
        &[
            "areas reached",
            "durable reached",
            "scopes not reached",
            "scopes refused at once",
            "moved while a write waited",
            "waiting when it crashed",
            "answered and burned",
            "declared too early",
            "emptied and burned",
            "declined",
            "let go",
            "copies lowered",
            "shared",
        ],
    );
    for seed in 0..4 {
        assert_eq!(run_of_scopes(seed, None), run_of_scopes(seed, None));
    }
}

#[test]
fn mistakes_of_who_counts_for_a_scope() {
    for mistake in [
        Mistake::ForeignCounts,
        Mistake::MovedCounts,
        Mistake::NodesCount,
        Mistake::SilentCounts,
        Mistake::LostCount,
        Mistake::PromiseForgotten,
    ] {
        let caught =
            |seed: &u64| run_of_scopes(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == "scopes");
        let found = (0..200).find(caught);
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "no seed found {mistake:?}");
    }
}

/// `SKERRY_CAP_SEEDS` runs more seeds.
#[test]
fn a_cap_bounds_what_is_held_for_others_and_takes_no_copy_from_anybody() {
    many::hold(
        |seed| run_with_caps(seed, None),
        ("SKERRY_CAP_SEEDS", 60),
        &[
            "refused at a cap",
            "caps on",
            "caps off",
            "caps below what is held",
            "burns",
            "crashes",
            "declared too early",
            "drains",
            "let go",
            "copies lowered",
            "covered",
        ],
    );
    for seed in 0..4 {
        assert_eq!(run_with_caps(seed, None), run_with_caps(seed, None));
    }
}

#[test]
fn mistakes_of_who_has_a_cap() {
    for (mistake, checker) in
        [(Mistake::CapDrops, "claims"), (Mistake::CapUnreserved, "caps"), (Mistake::CapStands, "copies")]
    {
        let caught =
            |seed: &u64| run_with_caps(*seed, Some(mistake)).violations.iter().any(|(by, _)| *by == checker);
        let found = (0..60).find(caught);
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "no seed found {mistake:?}");
    }
}
