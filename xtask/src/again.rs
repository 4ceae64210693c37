//! What failed beside everything else is run once more, by itself.
//!
//! A test that passes then is `flaky`: it is named at the end with that word, and its first failure stays in the output.
//! Invariants: what fails twice fails; so do more than [`MOST`] flaky ones, and a binary that broke off.

use crate::{journeys, run, test};

/// Flaky ones that one run may have: a machine was busy. More is something that broke.
pub(crate) const MOST: usize = 2;

/// The name in a line `test NAME ... FAILED`; none where it is more than a name, as no filter finds it.
pub(crate) fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").filter(|name| !name.contains(' '))
}

/// Whether a line is `running 5 tests`: a binary began, whose result is to follow.
pub(crate) fn is_begin(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.split_once(" test"));
    count.is_some_and(|(count, _)| count.parse::<usize>().is_ok())
}

/// Whether these tests pass by themselves, one after the other.
pub(crate) fn pass(names: &[String]) -> Result<bool, String> {
    let mut passed = 0;
    let mut command = test::cargo();
    let succeeded = run::watch(command.args(["--", "--exact", "--test-threads=1"]).args(names), |line| {
        passed += test::result(line).map_or(0, |[passed, ..]| passed);
    })?;
    Ok(succeeded && passed >= names.len())
}

/// Whether these journeys pass by themselves.
pub(crate) fn go_well(names: &[String]) -> Result<bool, String> {
    let tally = journeys::run(names, journeys::Binary::Tested)?;
    Ok(tally.failed == 0 && tally.passed > 0 && tally.skipped.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_begins_is_told_from_other_lines() {
        assert!(is_begin("running 1 test") && is_begin("running 613 tests"));
        assert!(!is_begin("running cargo test") && !is_begin("test running 5 tests ... ok"));
    }

    #[test]
    fn the_name_of_a_failed_test_is_read() {
        assert_eq!(failed("test tests::pins::a_pin ... FAILED"), Some("tests::pins::a_pin"));
        assert_eq!(failed("test tests::pins::a_pin ... ok"), None);
        assert_eq!(failed("test result: FAILED. 5 passed; 2 failed"), None);
        assert_eq!(failed("test tests::pins::a_pin - should panic ... FAILED"), None);
    }
}
