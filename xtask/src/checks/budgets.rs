//! Sizes of files and functions: a limit for each, and no list of what may exceed it. A function that is one table says
//! so with a reason.

use super::Findings;
use crate::source::{self, Source};

/// Lines of a file, its tests apart.
const FILE_LINES: usize = 800;
/// Lines of a function.
const FUNCTION_LINES: usize = 80;
/// Lines of tests in the file they test; beyond it they get a file of their own.
const INLINE_TEST_LINES: usize = 150;

/// A size above its limit: budget, path, item, lines.
struct Over {
    budget: &'static str,
    path: String,
    item: String,
    lines: usize,
}

pub(crate) fn check() -> Findings {
    let told = |Over { budget, path, item, lines }: Over| {
        format!("{path}: {budget} {item}: {lines} lines, {} at most", limit(budget))
    };
    Ok(measure(&source::all()?).into_iter().map(told).collect())
}

fn limit(budget: &str) -> usize {
    match budget {
        "file" => FILE_LINES,
        "function" => FUNCTION_LINES,
        _ => INLINE_TEST_LINES,
    }
}

fn measure(sources: &[Source]) -> Vec<Over> {
    let mut over = Vec::new();
    for source in sources {
        let tests: usize = source.test_lines().iter().map(|range| range.len()).sum();
        let lines = source.raw.lines().count();
        let mut note = |budget: &'static str, item: &str, lines: usize| {
            if lines > limit(budget) {
                over.push(Over { budget, path: source.path.clone(), item: item.into(), lines });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn over(raw: String) -> Vec<(String, usize)> {
        let measured = measure(&[Source::new("crates/x/src/a.rs".into(), raw)]);
        measured.into_iter().map(|over| (format!("{} {}", over.budget, over.item), over.lines)).collect()
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
