//! `cargo xtask test`: prerequisites, gate, the tests of the workspace (the simulator's swarm among them), histories
//! under a foreign checker, the journeys. All of CI is this command; its last line is the sum. What failed is named at the end,
//! and run once more by itself (`again.rs`).

use std::process::Command;

use crate::{again, gate, journeys, linear, prerequisites, run};

#[derive(Default)]
struct Sum {
    passed: usize,
    failures: Vec<String>,
    failed: usize,
    /// What failed once and passed by itself.
    flaky: Vec<String>,
    skipped: Vec<String>,
    left_out: usize,
}

/// The verb.
pub(crate) fn command() -> Result<(), String> {
    prerequisites::check()?;
    let mut sum = Sum::default();
    heading("gate");
    let gate = gate::run(|name| name != gate::TESTED)?;
    sum.passed += gate.passed;
    sum.failed += gate.failed.len();
    sum.failures.extend(gate.failed);
    heading("cargo test --workspace");
    workspace(&mut sum)?;
    heading("histories, by a checker that is not ours");
    histories(&mut sum);
    heading("client journeys");
    clients(&mut sum);
    close(sum)
}

fn heading(what: &str) {
    println!("\n== {what}");
}

/// The tests of the workspace. The lab drives the product that is built with them, before the first one begins.
pub(crate) fn cargo() -> Command {
    let mut command = run::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.env("SKERRY_TESTED_BINARY", journeys::tested());
    if std::env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        command.env(THREADS, (2 * processors).to_string());
    }
    command
}

/// How many tests of a binary run at once. Those of real nodes wait for most of their time: with as many threads as processors, as
/// it is by itself, one of two stands idle.
const THREADS: &str = "RUST_TEST_THREADS";

fn workspace(sum: &mut Sum) -> Result<(), String> {
    let (mut broke, mut names, mut running) = (0, Vec::new(), 0_usize);
    let succeeded = run::watch(&mut cargo(), |line| {
        names.extend(again::failed(line).map(str::to_owned));
        running += usize::from(again::is_begin(line));
        if let Some([passed, failed, ignored]) = result(line) {
            sum.passed += passed;
            broke += failed;
            running = running.saturating_sub(1);
            sum.left_out += ignored;
        }
    })?;
    if succeeded {
        return Ok(());
    }
    // A binary that broke off has no result, and names nothing.
    let is_all_named = running == 0 && broke == names.len() && broke > 0;
    let passes = is_all_named && broke <= again::MOST && {
        heading("once more, by themselves");
        again::pass(&names)?
    };
    sum.settle("cargo test --workspace", broke.max(1), names, passes);
    Ok(())
}

/// The three counts of `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
pub(crate) fn result(line: &str) -> Option<[usize; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = counts.split("; ");
    let mut count = |name: &str| parts.next()?.strip_suffix(name)?.trim().parse().ok();
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

fn histories(sum: &mut Sum) {
    match linear::tested() {
        Ok(tally) => {
            sum.passed += tally.passed;
            sum.failed += tally.failed.len();
            sum.failures.extend(tally.failed);
            sum.skipped.extend(tally.skipped);
        }
        Err(reason) => {
            sum.failed += 1;
            sum.failures.push(format!("linear: {reason}"));
        }
    }
}

fn clients(sum: &mut Sum) {
    let run = journeys::run(&[], journeys::Binary::Tested).and_then(|tally| {
        sum.passed += tally.passed;
        sum.skipped.extend(tally.skipped);
        let passes = (1..=again::MOST).contains(&tally.of.len()) && {
            heading("once more, by themselves");
            again::go_well(&tally.of)?
        };
        Ok((tally.failed, tally.of, passes))
    });
    match run {
        Ok((0, ..)) => {}
        Ok((failed, of, passes)) => sum.settle("client journeys", failed, of, passes),
        Err(reason) => {
            sum.failed += 1;
            sum.failures.push(format!("client journeys: {reason}"));
        }
    }
}

impl Sum {
    /// Counts what failed, which passed by itself or did not.
    fn settle(&mut self, what: &str, failed: usize, names: Vec<String>, passes: bool) {
        let named = names.into_iter().map(|name| format!("{what}: {name}"));
        if passes {
            self.passed += failed;
            self.flaky.extend(named);
        } else {
            self.failed += failed;
            self.failures.push(what.into());
            self.failures.extend(named);
        }
    }
}

/// Tells what failed and what was skipped and why, then the one line that is counted.
fn close(mut sum: Sum) -> Result<(), String> {
    heading("sum");
    if sum.left_out > 0 {
        println!("{} long runs left out; `cargo test -- --ignored` carries them out", sum.left_out);
    }
    for reason in &sum.skipped {
        println!("skipped: {reason}");
    }
    for name in &sum.flaky {
        println!("flaky: {name} (it failed beside the rest and passed by itself)");
    }
    if sum.flaky.len() > again::MOST {
        sum.failed += sum.flaky.len();
        sum.failures.push(format!("more than {} flaky tests", again::MOST));
    }
    if run::in_ci() && !sum.skipped.is_empty() {
        sum.failed += sum.skipped.len();
        sum.failures.push("skips, which CI does not allow".into());
    }
    for failure in &sum.failures {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped.len());
    if sum.failed == 0 { Ok(()) } else { Err("the tests fail".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_flaky_and_what_does_not_has_failed() {
        let mut sum = Sum::default();
        sum.settle("tests", 1, vec!["a".into()], true);
        sum.settle("journeys", 2, vec!["b".into()], false);
        assert_eq!((sum.passed, sum.failed), (1, 2));
        assert_eq!(sum.flaky, ["tests: a"]);
        assert_eq!(sum.failures, ["journeys", "journeys: b"]);
    }

    #[test]
    fn the_counts_of_a_test_binary_are_read() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(result(line), Some([5, 2, 1]));
        assert_eq!(result("test a ... ok"), None);
    }
}
