//! `cargo xtask test`: prerequisites, gate, the tests of the workspace (the simulator's swarm among them), histories
//! under a foreign checker, the journeys. All of CI is this command; its last line is the sum.

use crate::{gate, journeys, linear, prerequisites, run};

#[derive(Default)]
struct Sum {
    passed: usize,
    failures: Vec<String>,
    failed: usize,
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

fn workspace(sum: &mut Sum) -> Result<(), String> {
    let before = sum.failed;
    let arguments = ["test", "--workspace", "--locked", "--no-fail-fast"];
    let succeeded = run::watch(&mut run::cargo(&arguments), |line| {
        if let Some([passed, failed, ignored]) = result(line) {
            sum.passed += passed;
            sum.failed += failed;
            sum.left_out += ignored;
        }
    })?;
    if !succeeded {
        sum.failed = sum.failed.max(before + 1);
        sum.failures.push("cargo test --workspace".into());
    }
    Ok(())
}

/// The three counts of `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
fn result(line: &str) -> Option<[usize; 3]> {
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
    match journeys::run(&[], journeys::Binary::Tested) {
        Ok(tally) => {
            sum.passed += tally.passed;
            sum.failed += tally.failed;
            sum.skipped.extend(tally.skipped);
            if tally.failed > 0 {
                sum.failures.push("client journeys".into());
            }
        }
        Err(reason) => {
            sum.failed += 1;
            sum.failures.push(format!("client journeys: {reason}"));
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
    fn the_counts_of_a_test_binary_are_read() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(result(line), Some([5, 2, 1]));
        assert_eq!(result("test a ... ok"), None);
    }
}
