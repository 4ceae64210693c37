//! docs/papers.md answers for every row of the papers: each once, with a command that shows it or with the reason why
//! nothing does; and what a command names is in the tree.
//!
//! An answer begins with `✓` (a command follows), `partly:` (a command, and what is missing), `otherwise:` (done in
//! another way, with the reason) or `not built:` (with the reason).

use std::collections::BTreeMap;

use super::Findings;
use super::commands::Tree;
use crate::run;

const PAGE: &str = "docs/papers.md";
const LIST: &str = "xtask/rows.txt";
/// Letters that a reason has at the least.
const REASON: usize = 8;

pub(crate) fn check() -> Findings {
    let root = run::root();
    let read =
        |name: &str| std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
    let wanted = listed(&read(LIST)?)?;
    Ok(judge(&wanted, &read(PAGE)?, &Tree::read(&root)?))
}

/// The ids of the list, in its order.
fn listed(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ranges: Result<Vec<_>, _> =
        lines.map(|line| range(line).ok_or_else(|| format!("{LIST}: say FIRST..LAST, not {line}"))).collect();
    Ok(ranges?.into_iter().flatten().collect())
}

/// `F-01..26`: as many digits as the first number has.
fn range(line: &str) -> Option<Vec<String>> {
    let (first, last) = line.split_once("..")?;
    let digits = first.len() - first.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (prefix, number) = first.split_at_checked(first.len() - digits)?;
    let (number, last): (u32, u32) = (number.parse().ok()?, last.parse().ok()?);
    Some((number..=last).map(|number| format!("{prefix}{number:0digits$}")).collect())
}

/// A row of the page: its line, its id, its answer.
struct Row<'a> {
    line: usize,
    id: &'a str,
    answer: &'a str,
}

fn judge(wanted: &[String], page: &str, tree: &Tree) -> Vec<String> {
    let rows: Vec<Row<'_>> =
        page.lines().enumerate().filter_map(|(number, line)| row(number + 1, line)).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.id).or_default() += 1);
    let mut findings: Vec<String> = wanted
        .iter()
        .filter(|id| !counts.contains_key(id.as_str()))
        .map(|id| format!("{PAGE}: no row {id}"))
        .collect();
    for (id, count) in counts {
        if count > 1 {
            findings.push(format!("{PAGE}: {count} rows {id}"));
        }
        if !wanted.iter().any(|known| known == id) {
            findings.push(format!("{PAGE}: {id} is not in {LIST}"));
        }
    }
    for row in &rows {
        let what = answers(row.answer, tree);
        findings.extend(what.into_iter().map(|what| format!("{PAGE}:{}: {}: {what}", row.line, row.id)));
    }
    findings
}

/// `| F-01 | what the paper has | answer |`
fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.trim_end().strip_suffix('|')?.split(" | ").collect();
    let [id, _, answer] = cells.as_slice() else {
        let id = cells.first()?.trim();
        return is_id(id).then_some(Row { line, id, answer: "" });
    };
    let id = id.trim();
    is_id(id).then(|| Row { line, id, answer: answer.trim() })
}

/// A letter of a paper, a dash, perhaps S or A, digits.
fn is_id(word: &str) -> bool {
    let Some((paper, number)) = word.split_once('-') else { return false };
    let digits = number.strip_prefix(['S', 'A']).unwrap_or(number);
    let numbered = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    numbered && paper.len() == 1 && paper.chars().all(|c| c.is_ascii_uppercase())
}

/// What is wrong with an answer.
fn answers(answer: &str, tree: &Tree) -> Vec<String> {
    let commands: Vec<_> = answer.split('`').skip(1).step_by(2).filter_map(|word| tree.judge(word)).collect();
    let count = commands.len();
    let mut wrong: Vec<String> = commands.into_iter().filter_map(Result::err).collect();
    let prose: String = answer.split('`').step_by(2).collect();
    let reason = |kind: &str| prose.trim_start().strip_prefix(kind).map(|why| why.trim().chars().count());
    let (needs_command, reason) = match () {
        () if answer.starts_with('✓') => (true, None),
        () if answer.starts_with("partly:") => (true, reason("partly:")),
        () if answer.starts_with("otherwise:") => (false, reason("otherwise:")),
        () if answer.starts_with("not built:") => (false, reason("not built:")),
        () => return vec!["answer with `✓`, `partly:`, `otherwise:` or `not built:`".into()],
    };
    if needs_command && count == 0 {
        wrong.push("no command shows it".into());
    }
    if reason.is_some_and(|letters| letters < REASON) {
        wrong.push("no reason".into());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let wanted = ["F-01", "F-S1"].map(String::from);
        judge(&wanted, page, &Tree::example())
    }

    const GOOD: &str = "| F-01 | put, get | ✓ `cargo test -p skerry-node -- bodies_come_back` |\n\
        | F-S1 | Table 2a | partly: `skerry-lab run F-S1 --scale paper`; one node per site, the paper has two |\n";

    #[test]
    fn a_page_that_answers_for_all_is_good() {
        assert_eq!(found(GOOD), Vec::<String>::new());
        assert_eq!(found(&format!("| row | what | here |\n|---|---|---|\n{GOOD}")), Vec::<String>::new());
    }

    #[test]
    fn a_row_that_is_missing_double_or_unknown_is_found() {
        let second = GOOD.lines().nth(1).unwrap_or_default();
        assert_eq!(found(second), ["docs/papers.md: no row F-01"]);
        assert_eq!(found(&format!("{GOOD}{second}")), ["docs/papers.md: 2 rows F-S1"]);
        let unknown = format!("{GOOD}| Q-77 | a thing | not built: nobody has ever asked for it |");
        assert_eq!(found(&unknown), ["docs/papers.md: Q-77 is not in xtask/rows.txt"]);
    }

    #[test]
    fn a_row_with_neither_a_command_nor_a_reason_is_found() {
        for answer in [
            "✓ yes",
            "✓",
            "not built:",
            "not built: later",
            "otherwise: `skerry status`",
            "partly: no command, but many words",
            "soon, with many words",
            "",
        ] {
            let page = GOOD.replace("✓ `cargo test -p skerry-node -- bodies_come_back`", answer);
            assert_eq!(found(&page).len(), 1, "{answer}: {:?}", found(&page));
        }
    }

    #[test]
    fn what_is_not_in_the_tree_is_found() {
        for command in [
            "cargo test -p skerry-node -- bodies_go_away",
            "cargo test -p skerry-nowhere -- bodies_come_back",
            "cargo xtask journeys nobody",
            "skerry-lab run F-S77",
            "skerry fly",
        ] {
            let page = GOOD.replace("cargo test -p skerry-node -- bodies_come_back", command);
            assert_eq!(found(&page).len(), 1, "{command}: {:?}", found(&page));
        }
    }

    #[test]
    fn ranges_keep_their_digits() {
        let ids = listed("# a comment\nF-01..3\nF-S9..10\n");
        assert_eq!(ids, Ok(["F-01", "F-02", "F-03", "F-S9", "F-S10"].map(String::from).to_vec()));
        assert!(listed("F-01").is_err());
    }
}
