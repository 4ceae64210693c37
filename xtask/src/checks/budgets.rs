//! Sizes of files and functions, as a ratchet: what is too big may stay in `xtask/baseline.txt` and only shrink.
//!
//! A line of the baseline is `budget path item size`. A size above the line fails, and so does a line that is
//! higher than the truth: `cargo xtask gate --shrink` lowers it and never raises or adds one.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Findings;
use crate::run;
use crate::source::{self, Source};

/// Lines of a file, its tests apart.
const FILE_LINES: usize = 800;
/// Lines of a function.
const FUNCTION_LINES: usize = 80;
/// Lines of tests in the file they test; beyond it they get a file of their own.
const INLINE_TEST_LINES: usize = 150;

const BASELINE: &str = "xtask/baseline.txt";
const HEADER: &str =
    "# What was too big when the budgets came: `budget path item lines`. It may only shrink.\n";

/// What is measured: budget, path, item.
type Key = (String, String, String);

pub(crate) fn check() -> Findings {
    let over = measure(&source::all()?);
    let baseline = read()?;
    let mut findings = Vec::new();
    for (key, &lines) in &over {
        match baseline.get(key) {
            Some(&tolerated) if lines <= tolerated => {}
            Some(&tolerated) => {
                findings.push(format!("{}: {lines} lines, grown from {tolerated}", named(key)))
            }
            None => findings.push(format!("{}: {lines} lines, {} at most", named(key), limit(&key.0))),
        }
    }
    for (key, &tolerated) in &baseline {
        if over.get(key).copied().unwrap_or(0) < tolerated {
            findings.push(format!("{}: has shrunk; run `cargo xtask gate --shrink`", named(key)));
        }
    }
    Ok(findings)
}

/// Lowers the baseline to the truth.
pub(crate) fn shrink() -> Result<(), String> {
    let over = measure(&source::all()?);
    let mut text = HEADER.to_owned();
    for (key, tolerated) in read()? {
        if let Some(&lines) = over.get(&key) {
            let (budget, path, item) = &key;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{budget} {path} {item} {}", lines.min(tolerated));
        }
    }
    std::fs::write(run::root().join(BASELINE), text).map_err(|error| format!("{BASELINE}: {error}"))
}

fn limit(budget: &str) -> usize {
    match budget {
        "file" => FILE_LINES,
        "function" => FUNCTION_LINES,
        _ => INLINE_TEST_LINES,
    }
}

fn named((budget, path, item): &Key) -> String {
    format!("{path}: {budget} {item}")
}

fn measure(sources: &[Source]) -> BTreeMap<Key, usize> {
    let mut over = BTreeMap::new();
    for source in sources {
        let tests: usize = source.test_lines().iter().map(|range| range.len()).sum();
        let lines = source.raw.lines().count();
        let mut note = |budget: &str, item: &str, lines: usize| {
            if lines > limit(budget) {
                over.insert((budget.into(), source.path.clone(), item.into()), lines);
            }
        };
        note("file", "-", lines - tests.min(lines));
        note("tests", "-", tests);
        for function in source.functions().iter().filter(|function| !is_table(source, function.line)) {
            note("function", &function.name, function.lines);
        }
    }
    over
}

/// Whether the lines above a function, or its first one, say `tidy: table` with a reason.
fn is_table(source: &Source, line: usize) -> bool {
    let from = line.saturating_sub(6);
    source.raw.lines().skip(from).take(line - from + 2).any(|line| {
        let reason =
            line.split_once("// tidy: table").map(|(_, reason)| reason.trim_start_matches([' ', ':', ',']));
        reason.is_some_and(|reason| reason.len() >= 5)
    })
}

fn read() -> Result<BTreeMap<Key, usize>, String> {
    let text = std::fs::read_to_string(run::root().join(BASELINE))
        .map_err(|error| format!("{BASELINE}: {error}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| parse(line).ok_or_else(|| format!("{BASELINE}: not `budget path item lines`: {line}")))
        .collect()
}

fn parse(line: &str) -> Option<(Key, usize)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [budget, path, item, lines] = words.as_slice() else { return None };
    Some((((*budget).into(), (*path).into(), (*item).into()), lines.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(raw: String) -> Vec<(String, usize)> {
        let measured = measure(&[Source::new("crates/x/src/a.rs".into(), raw)]);
        measured.into_iter().map(|((budget, _, item), lines)| (format!("{budget} {item}"), lines)).collect()
    }

    #[test]
    fn a_long_function_is_found_unless_it_is_a_table() {
        let long = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(79));
        assert_eq!(over(long.clone()), [("function long".into(), 81)]);
        assert!(over(format!("// tidy: table, one line per error code\n{long}")).is_empty());
        assert_eq!(over(format!("// tidy: table\n{long}")).len(), 1, "a reason is asked for");
        assert!(over(format!("fn short() {{\n{}}}\n", "    step();\n".repeat(78))).is_empty());
    }

    #[test]
    fn tests_do_not_count_as_lines_of_the_file() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(140));
        assert!(over(format!("{}{tests}", "// y\n".repeat(800))).is_empty());
        assert_eq!(over("// y\n".repeat(801)), [("file -".into(), 801)]);
        assert_eq!(over(format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(151)))[0].0, "tests -");
    }
}
