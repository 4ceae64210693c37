//! The nodes of one site through kills, cuts, slow machines, wrong clocks and burned disks; and the mistakes that the
//! checkers must find.

mod many;

use std::collections::BTreeSet;

use skerry_sim::nodes::{MISTAKES, Mistake, run};

/// `SKERRY_NODES_SEEDS` runs more seeds.
#[test]
fn a_site_of_several_nodes_keeps_its_promises() {
    many::hold(
        |seed| run(seed, None),
        ("SKERRY_NODES_SEEDS", 40),
        &[
            "kills",
            "slow wires",
            "slow disks",
            "cuts",
            "burned disks",
            "burned disks of two",
            "machines expelled",
            "power cuts of the site",
            "clocks beyond the bound",
            "writes of scope site",
            "writes of scope node",
            "decisions",
            "decisions abandoned with their view",
            "calm",
            "decisions of homes alone",
            "decisions refused: a node does not keep the bucket",
            "conditions that did not hold",
            "homes taken over",
            "homes moved within the site",
            "homes moved to the other site",
            "homes handed over by who decides alone",
            "heirs not settled",
            "sites that grew",
            "buckets that decide in the end",
            "nodes frozen",
            "disks filled",
            "records that did not fit",
            "disks with room again",
            "spells of a node that cannot hold",
            "spells of a site that cannot go on",
            "writes answered at once: the site cannot hold them",
        ],
    );
}

/// Seeds that broke a promise once, and what they showed.
///
/// 368: beats of a node whose wire had been slow arrived behind later ones, and said again that it does not hear a good
/// node: the view went on without that one, and its writes waited for more than 2 s. 1964: a node that was started again had
/// forgotten that it was in a later view, and held what was written in the one before. 499: two nodes interrupted each other's
/// rounds for as long as the lease of the third lasted.
const REGRESSIONS: [u64; 3] = [368, 499, 1964];

#[test]
fn what_broke_once_stays_whole() {
    REGRESSIONS.iter().for_each(|seed| assert_eq!(run(*seed, None).violations, [], "seed {seed}"));
}

#[test]
fn two_runs_of_a_seed_are_one() {
    (0..3).for_each(|seed| assert_eq!(run(seed, None), run(seed, None)));
}

/// Seeds run for one mistake at most: the rarest was found in 3 of 200, and which ones they are changes with every mend.
const SEEDS: u64 = 400;

/// The checkers that find a mistake, up to the seed by which all of `wanted` did.
fn caught(mistake: Mistake, wanted: &[&'static str]) -> BTreeSet<&'static str> {
    let mut caught = BTreeSet::new();
    for seed in 0..SEEDS {
        caught.extend(run(seed, Some(mistake)).violations.into_iter().map(|(checker, _)| checker));
        if wanted.iter().all(|checker| caught.contains(checker)) {
            println!("{mistake:?}: {caught:?} by seed {seed}");
            break;
        }
    }
    caught
}

#[test]
fn every_mistake_is_found() {
    for mistake in MISTAKES {
        let by: &[&str] = match mistake {
            Mistake::EarlyDecision => &["holders"],
            Mistake::EarlyHeir => &["holders"],
            Mistake::OtherHeir => &["homes"],
            Mistake::ExcusedHolder => &["holders"],
            Mistake::SilentGaps => &["reads"],
            Mistake::UnopenedTaken => &["homes"],
            Mistake::EarlyAnswer => &["minority", "reads"],
            Mistake::NoLease => &["reads", "undone"],
            Mistake::EarlyScope => &["minority"],
            Mistake::ForgottenPromise => &["views"],
            Mistake::BlankVote => &["recovery"],
            Mistake::TrustedClock => &["leases", "reads"],
            Mistake::EmptyCatchUp => &["reads", "undone"],
            Mistake::UnboundDecision => &["races"],
            Mistake::Patience => &["stall"],
            Mistake::Unsaid => &["flapping"],
            Mistake::NoMargin => &["flapping"],
            Mistake::EmptyPromise => &["holders"],
            Mistake::SilenceIsEnd => &["reads", "views"],
            rare => unreachable!("{rare:?} is not among those that are found"),
        };
        let caught = caught(mistake, by);
        assert!(by.iter().all(|checker| caught.contains(checker)), "{mistake:?}: {caught:?}");
    }
}
