//! `cargo xtask gate`: every check, cheapest first, all of them even if one fails.

use crate::{checks, run};

/// One check: its name and what it finds.
type Check = (&'static str, fn() -> Result<Vec<String>, String>);

const CHECKS: &[Check] = &[
    ("format", checks::rustfmt::check),
    ("arrows", checks::arrows::check),
    ("purity", checks::purity::check),
    ("dependencies", checks::dependencies::check),
    ("budgets", checks::budgets::check),
    ("tidy", checks::tidy::check),
    ("architecture", checks::architecture::check),
    ("papers", checks::papers::check),
    ("rows", checks::rows::check),
    ("bans", checks::written::bans),
    ("limits", checks::written::limits),
    ("clippy", checks::clippy::check),
    ("references", checks::written::references),
];

/// What a run of the gate came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<String>,
}

/// The check that a test of the command line does as well: `cargo xtask test` leaves it to that one, because it
/// would build the tree once more with other features.
pub(crate) const TESTED: &str = "references";

/// Runs the checks that are wanted and prints a line for each, with what it found below.
pub(crate) fn run(wanted: impl Fn(&str) -> bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let chosen: Vec<&Check> = CHECKS.iter().filter(|(name, _)| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no such check; there are {}", names.join(", ")));
    }
    for (name, check) in chosen {
        match check() {
            Ok(findings) if findings.is_empty() => {
                println!("ok   gate {name}");
                tally.passed += 1;
            }
            Ok(findings) => fail(&mut tally, name, &findings),
            Err(reason) => fail(&mut tally, name, &[reason]),
        }
    }
    Ok(tally)
}

fn fail(tally: &mut Tally, name: &str, findings: &[String]) {
    println!("FAIL gate {name}");
    for finding in findings {
        println!("     {finding}");
    }
    tally.failed.push(format!("gate {name}"));
}

/// The verb.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let only = match arguments {
        [] => None,
        [flag, name] if flag == "--only" => Some(name.as_str()),
        _ => return Err("cargo xtask gate [--only NAME]".into()),
    };
    let tally = run(|name| only.is_none_or(|only| only == name))?;
    println!(
        "gate: {} passed, {} failed{}",
        tally.passed,
        tally.failed.len(),
        if run::in_ci() { " (CI)" } else { "" }
    );
    if tally.failed.is_empty() { Ok(()) } else { Err("the gate is shut".into()) }
}
