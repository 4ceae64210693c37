//! Conditional operations through cuts, kills and moves of homes: at most one wins. A failure prints the command that
//! repeats it.

use std::collections::BTreeMap;

use skerry_sim::environment::Environment;
use skerry_sim::histories::Answered;
use skerry_sim::swarm::reproduction;
use skerry_sim::trace::Sink;
use skerry_sim::world;

/// Seeds of each half.
const HALF: u64 = 20;

fn must_pass(seeds: impl IntoIterator<Item = u64>) {
    let (mut failures, mut counts) = (String::new(), BTreeMap::new());
    for seed in seeds {
        let report = world::run(Environment::of_seed(seed).with_races(), Sink::Hash);
        for violation in &report.violations {
            failures += &format!("\nseed {seed}: {violation}\n  again: {} --races", reproduction(seed));
        }
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    assert!(failures.is_empty(), "{failures}");
    for what in ["races", "races won", "races cut off", "races without a home", "homes named", "homes moved"]
    {
        assert!(counts.get(what).is_some_and(|count| *count >= HALF), "too few {what}: {counts:?}");
    }
}

#[test]
fn the_first_half_of_the_races() {
    must_pass(3000..3000 + HALF);
}

#[test]
fn the_second_half_of_the_races() {
    must_pass(3000 + HALF..3000 + 2 * HALF);
}

/// Buckets that were written in by more lives of nodes than a document names: what the former home had is said in blocks.
#[test]
fn races_where_homes_have_seen_many_lives() {
    let mut counts = BTreeMap::new();
    for seed in 3000..3000 + HALF / 2 {
        let report = world::run(Environment::of_seed(seed).with_many_lives(), Sink::Hash);
        assert_eq!(report.violations, [], "seed {seed}: {} --many-lives", reproduction(seed));
        for (what, count) in report.counts {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    for what in
        ["buckets of many lives", "races won", "blocks written", "looks at homes that wait for blocks"]
    {
        assert!(counts.get(what).is_some_and(|count| *count >= HALF / 2), "too few {what}: {counts:?}");
    }
}

/// With deletes and reads; a checker that is not ours judges many more (`cargo xtask linear`).
#[test]
fn histories_have_every_kind_of_answer() {
    let mut answers = BTreeMap::new();
    for seed in 3000..3008 {
        let report = world::run(Environment::of_seed(seed).with_histories(), Sink::Hash);
        assert_eq!(report.violations, [], "seed {seed}: {} --histories", reproduction(seed));
        for operation in &report.operations {
            let answer = match operation.answered {
                Answered::Read(Some(_)) => "something",
                Answered::Read(None) => "nothing",
                Answered::Done => "done",
                Answered::Missed => "missed",
                Answered::Refused => "refused",
                Answered::Unknown => "unknown",
            };
            *answers.entry(answer).or_insert(0) += 1;
        }
    }
    for answer in ["something", "nothing", "done", "missed", "unknown"] {
        assert!(answers.get(answer).is_some_and(|count| *count >= 5), "too few {answer}: {answers:?}");
    }
}
