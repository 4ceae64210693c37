//! The papers' numbers beside ours and beside the rivals' on the same rails.
//!
//! Invariants: every row of every scenario is there, run or not; ours is of the newest stored result of the larger
//! scale that has the cells of the row, and says so where it is small; what falls short is marked ✗ and never left
//! out. A row is *short* when the scenario says which way is better and ours is worse than the paper's number, and
//! *failed* when operations did, because the times of the survivors are no measure. The papers' absolute times are of
//! the hardware of their day, so ratios and shapes weigh more.

use std::path::{Path, PathBuf};

use super::document::{Block, Document, Table};
use super::quantity::{digits, factor};
use crate::plan::{Scale, Scenario, statistic};
use crate::result::{Cell, LabResult, OK, PaperRow};

/// The system whose numbers are ours.
pub const OURS: &str = "skerry";

/// A result and where it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The directory of its files.
    pub directory: PathBuf,
    /// The result.
    pub result: LabResult,
}

/// How ours stands to the paper's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// At least as good.
    Reached,
    /// Worse.
    Short,
    /// Operations failed: the times of those that did not say nothing.
    Failed,
    /// The scenario says no way is better.
    Open,
    /// There is no number of ours.
    Unknown,
}

impl Verdict {
    fn of(row: &PaperRow, ours: Option<f64>, failed: u64) -> Self {
        match (ours, row.better.as_str()) {
            (None, _) => Self::Unknown,
            _ if failed > 0 && row.statistic != "failures" => Self::Failed,
            (Some(ours), "less") if ours <= row.value => Self::Reached,
            (Some(ours), "more") if ours >= row.value => Self::Reached,
            (Some(_), "less" | "more") => Self::Short,
            (Some(_), _) => Self::Open,
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Reached => "✓",
            Self::Short => "✗ short",
            Self::Failed => "✗ failures",
            Self::Open => "·",
            Self::Unknown => "not run",
        }
    }
}

/// The table of all scenarios.
pub fn tell(scenarios: &[Scenario], stored: &[Stored]) -> Document {
    let mut blocks = Vec::new();
    let mut sums = [0_usize; 5];
    let mut short = Table::new(2, &["scenario", "what", "paper's", "ours", "ours / paper's", ""]);
    for scenario in scenarios {
        blocks.push(Block::Heading(format!("{}: {}", scenario.id, scenario.title)));
        blocks.push(Block::Text(heading(scenario, stored)));
        if let Some(needs) = &scenario.needs {
            blocks.push(Block::Warning(format!("needs {needs}: not yet")));
        }
        let mut table = Table::new(
            3,
            &[
                "figure",
                "what",
                "paper's system",
                "paper's",
                "ours",
                "ours / paper's",
                "",
                "rivals here",
                "note",
            ],
        );
        for row in &scenario.rows {
            let line = line(scenario, row, stored);
            if let Some(sum) = sums.get_mut(line.verdict as usize) {
                *sum += 1;
            }
            if matches!(line.verdict, Verdict::Short | Verdict::Failed) {
                let what = format!("{}, {}: {}", row.figure, row.system, row.what);
                short.rows.push(vec![
                    scenario.id.clone(),
                    what,
                    show(row, row.value),
                    line.ours.clone(),
                    line.over.clone(),
                ]);
            }
            let system = row.system.clone();
            let words = vec![row.figure.clone(), row.what.clone(), system, show(row, row.value)];
            let numbers =
                vec![line.ours, line.over, line.verdict.mark().into(), line.rivals, row.note.clone()];
            table.rows.push(words.into_iter().chain(numbers).collect());
        }
        if table.rows.is_empty() {
            blocks.push(Block::Text(
                "The paper gives no number for it in text; its figures are curves only.".into(),
            ));
        } else {
            blocks.push(Block::Table(table.without_empty_columns()));
        }
        blocks.extend(super::side::by_side(&scenario.id, stored));
    }
    let [reached, fallen, failed, open, unknown] = sums;
    let lead = format!(
        "{} numbers of the papers: {reached} reached, {fallen} short, {failed} of runs with failed operations, {open} without a better or worse, {unknown} not run here. \
         The papers measured on hardware of 2012–2020; ratios and shapes say more than absolute times.",
        reached + fallen + failed + open + unknown
    );
    let mut all = Vec::new();
    if !short.rows.is_empty() {
        all.push(Block::Heading("What falls short".into()));
        all.push(Block::Table(short));
    }
    all.extend(blocks);
    Document { title: "The papers' numbers and ours".into(), lead, blocks: all }
}

/// The paper's numbers beside those of one result: rows whose cells it has, and how many it has not.
pub fn beside(directory: &Path, result: &LabResult) -> Vec<Block> {
    let mut table =
        Table::new(3, &["figure", "what", "paper's system", "paper's", "here", "here / paper's", ""]);
    let mut without = 0_usize;
    for row in &result.paper_rows {
        let values = values(directory, result, row);
        let numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let Some(worst) = worst(row, &numbers) else {
            without += 1;
            continue;
        };
        let over = if row.value == 0.0 { String::new() } else { factor(worst / row.value) };
        let (figure, what, system) = (row.figure.clone(), row.what.clone(), row.system.clone());
        let verdict = Verdict::of(row, Some(worst), failed(result, row)).mark().to_owned();
        table.rows.push(vec![
            figure,
            what,
            system,
            show(row, row.value),
            spelled(row, &values),
            over,
            verdict,
        ]);
    }
    if result.paper_rows.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Heading("Beside the paper".into())];
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table.without_empty_columns()));
        blocks.push(Block::Text(
            "✓ at least as good, ✗ short or with failed operations, · neither way is better. The paper measured on hardware of its day; of several cells that fit \
             a number the worst one decides."
                .into(),
        ));
    }
    if without > 0 {
        blocks.push(Block::Text(format!(
            "{without} further numbers of the paper are of cells that this run does not have."
        )));
    }
    blocks
}

/// Which results a scenario's numbers come from.
fn heading(scenario: &Scenario, stored: &[Stored]) -> String {
    let mut runs: Vec<String> = candidates(scenario, stored, OURS).into_iter().map(run).collect();
    // The same run may lie in several places.
    runs.dedup();
    let from = if runs.is_empty() {
        format!("Not run: no stored result of {OURS}. skerry-lab run {}", scenario.id)
    } else {
        format!("Runs of ours, the first that has a number counts: {}.", runs.join("; "))
    };
    format!("{}, {}. {from}", scenario.paper, scenario.figures.join(", "))
}

fn run(found: &Stored) -> String {
    let result = &found.result;
    let status = if result.status == OK { String::new() } else { format!(", {}", result.status) };
    format!("{} of {}, commit {}{status}", result.scale, result.started, result.commit)
}

/// The results of a system, best first: measured ones, of the larger scale, of the latest time.
fn candidates<'a>(scenario: &Scenario, stored: &'a [Stored], system: &str) -> Vec<&'a Stored> {
    let fits = |found: &&Stored| found.result.scenario == scenario.id && found.result.system == system;
    let weight = |found: &Stored| {
        let measured = found.result.cells.iter().any(|cell| cell.status == OK);
        (measured, found.result.scale == Scale::Paper.name(), found.result.started.clone())
    };
    let mut candidates: Vec<&Stored> = stored.iter().filter(fits).collect();
    candidates.sort_by_key(|found| std::cmp::Reverse(weight(found)));
    candidates
}

/// The values of a system for a row, from the best result that has the cells that the row selects.
fn best(scenario: &Scenario, stored: &[Stored], system: &str, row: &PaperRow) -> Option<Found> {
    candidates(scenario, stored, system).into_iter().find_map(|found| {
        let values = values(&found.directory, &found.result, row);
        (!values.is_empty()).then(|| Found {
            values,
            failed: failed(&found.result, row),
            scale: found.result.scale.clone(),
        })
    })
}

/// Values of a row and the scale of their run.
struct Found {
    values: Vec<(String, f64)>,
    failed: u64,
    scale: String,
}

impl Found {
    fn spell(&self, row: &PaperRow) -> String {
        let small = if self.scale == Scale::Paper.name() { "" } else { " [small]" };
        let failed =
            if self.failed > 0 { format!(" ({} operations failed)", self.failed) } else { String::new() };
        format!("{}{failed}{small}", spelled(row, &self.values))
    }
}

/// What stands behind a row of the papers.
struct Line {
    ours: String,
    over: String,
    verdict: Verdict,
    rivals: String,
}

fn line(scenario: &Scenario, row: &PaperRow, stored: &[Stored]) -> Line {
    let found = best(scenario, stored, OURS, row);
    let numbers =
        found.iter().flat_map(|found| found.values.iter().map(|(_, value)| *value)).collect::<Vec<_>>();
    let worst = worst(row, &numbers);
    let over = worst.filter(|_| row.value != 0.0).map_or_else(String::new, |ours| factor(ours / row.value));
    let failed = found.as_ref().map_or(0, |found| found.failed);
    let ours = found.map_or_else(|| "–".to_owned(), |found| found.spell(row));
    let mut systems: Vec<&str> = stored.iter().map(|found| found.result.system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    let rivals = systems.into_iter().filter(|system| *system != OURS).filter_map(|system| {
        let found = best(scenario, stored, system, row)?;
        Some(format!("{system} {}", found.spell(row)))
    });
    Line {
        ours,
        over,
        verdict: Verdict::of(row, worst, failed),
        rivals: rivals.collect::<Vec<_>>().join("; "),
    }
}

/// Operations that failed in what a row is computed from.
fn failed(result: &LabResult, row: &PaperRow) -> u64 {
    let fits = |cell: &&Cell| row.select.iter().all(|(name, value)| cell.labels.get(name) == Some(value));
    let phases = result.cells.iter().filter(fits).flat_map(|cell| &cell.phases);
    phases
        .filter(|phase| row.phase.split('/').any(|name| name == phase.name))
        .map(|phase| phase.failures)
        .sum()
}

/// The values of a result for a row, each with what tells its cell from the others that the row selects.
fn values(directory: &Path, result: &LabResult, row: &PaperRow) -> Vec<(String, f64)> {
    let values = statistic::evaluate(directory, result, row);
    let differs = |name: &String| {
        values
            .iter()
            .any(|value| value.labels.get(name) != values.first().and_then(|first| first.labels.get(name)))
    };
    let words = |value: &statistic::Value| {
        let labels = value.labels.iter().filter(|(name, _)| differs(name));
        labels.map(|(name, label)| format!("{name} {label}")).collect::<Vec<_>>().join(" ")
    };
    values.iter().map(|value| (words(value), value.value)).collect()
}

fn spelled(row: &PaperRow, values: &[(String, f64)]) -> String {
    let one = |(words, value): &(String, f64)| {
        let place = if words.is_empty() { String::new() } else { format!(" ({words})") };
        format!("{}{place}", show(row, *value))
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Of several cells the one that speaks against us.
fn worst(row: &PaperRow, values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().reduce(f64::min);
    let most = values.iter().copied().reduce(f64::max);
    if row.better == "more" { least } else { most }
}

/// A number in the row's unit.
fn show(row: &PaperRow, value: f64) -> String {
    match row.unit.as_str() {
        "x" => format!("×{}", digits(value)),
        "count" | "" => digits(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod tests {
    use super::super::tests::{cell, phase, result};
    use super::super::{markdown, terminal};
    use super::*;

    const FILE: &str = include_str!("papers_test.toml");

    fn scenario() -> Scenario {
        Scenario::parse("papers_test.toml", FILE).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn stored(system: &str, scale: &str, started: &str, median: f64) -> Stored {
        let cells = vec![cell(&[("sites", "3")], vec![phase("write", "", median)])];
        let result = LabResult {
            system: system.into(),
            scale: scale.into(),
            started: started.into(),
            ..result(cells)
        };
        Stored { directory: PathBuf::from("."), result }
    }

    fn row(better: &str) -> PaperRow {
        PaperRow {
            value: 1.0,
            unit: "s".into(),
            statistic: "p50".into(),
            phase: "write".into(),
            better: better.into(),
            ..PaperRow::default()
        }
    }

    #[test]
    fn what_falls_short_is_marked_and_listed_first() {
        let text = markdown::render(&tell(&[scenario()], &[stored("skerry", "small", "2026-01-01", 2.0)]));
        let (summary, table) = (text.find("## What falls short"), text.find("## F-S1"));
        assert!(summary.is_some() && summary < table, "{text}");
        assert!(text.contains("✗ short") && text.contains("×2.08"), "{text}");
    }

    #[test]
    fn what_was_not_run_is_said() {
        let text = terminal::render(&tell(&[scenario()], &[]));
        assert!(text.contains("not run") && text.contains("skerry-lab run F-S1"), "{text}");
        assert!(
            text.contains(
                "1 numbers of the papers: 0 reached, 0 short, 0 of runs with failed operations, 0 without a better or worse, 1 not run"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_larger_scale_then_the_newer_counts() {
        let scenario = scenario();
        let all = [
            stored("skerry", "paper", "2026-01-01", 0.1),
            stored("skerry", "small", "2026-03-01", 0.2),
            stored("skerry", "paper", "2026-02-01", 0.3),
            stored("rgw", "small", "2026-01-01", 0.5),
        ];
        let line = line(&scenario, &scenario.rows[0], &all);
        assert_eq!((line.ours.as_str(), line.verdict), ("0.3 s", Verdict::Reached));
        assert_eq!(line.rivals, "rgw 0.5 s [small]");
    }

    #[test]
    fn of_several_cells_the_worst_decides() {
        assert_eq!(worst(&row("less"), &[1.0, 3.0]), Some(3.0));
        assert_eq!(worst(&row("more"), &[1.0, 3.0]), Some(1.0));
        assert_eq!(Verdict::of(&row("less"), Some(1.5), 0), Verdict::Short);
        assert_eq!(Verdict::of(&row("more"), Some(1.5), 0), Verdict::Reached);
        assert_eq!(Verdict::of(&row(""), Some(1.5), 0), Verdict::Open);
        assert_eq!(Verdict::of(&row("more"), Some(1.5), 3), Verdict::Failed, "who survives is no measure");
    }
}
