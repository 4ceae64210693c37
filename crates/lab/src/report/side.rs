//! Systems side by side, from runs of one scenario at one scale: the answer where a paper's own cells are too large to be played with every
//! rival.
//!
//! Invariant: only cells that are the same for both are in one row; what a system failed at is said beside its time.

use super::document::{Block, Table};
use super::papers::Stored;
use super::quantity::{bytes, seconds};
use crate::plan::Scale;
use crate::result::{Cell, OK, Phase};

/// Rows of one table.
const ROWS_MAX: usize = 40;

/// The latest small runs of each system, cell by cell; nothing if there are not two systems.
pub fn by_side(scenario: &str, stored: &[Stored]) -> Vec<Block> {
    let latest = latest(scenario, stored);
    let Some(first) = latest.first().filter(|_| latest.len() > 1) else { return Vec::new() };
    let mut head = vec!["cell", "phase"];
    head.extend(latest.iter().map(|found| found.result.system.as_str()));
    let mut table = Table::new(2, &head);
    for cell in first.result.cells.iter().filter(|cell| cell.status == OK) {
        for phase in &cell.phases {
            let mut row = vec![words(cell, &first.result.cells), phase.name.clone()];
            row.extend(
                latest.iter().map(|found| found_in(found, cell, &phase.name).map_or("–".into(), spell)),
            );
            table.rows.push(row);
        }
    }
    let all = table.rows.len();
    table.rows.truncate(ROWS_MAX);
    let left = if all > ROWS_MAX {
        format!(" {} further rows are left out.", all - ROWS_MAX)
    } else {
        String::new()
    };
    vec![
        Block::Text(format!(
            "Side by side here at the small scale: mean time of an operation, and what crossed between sites in all trials.{left}"
        )),
        Block::Table(table),
    ]
}

/// One run of each system, ours first.
fn latest<'a>(scenario: &str, stored: &'a [Stored]) -> Vec<&'a Stored> {
    let small = |found: &&Stored| {
        let result = &found.result;
        let measured = result.cells.iter().any(|cell| cell.status == OK);
        result.scenario == scenario && result.scale == Scale::Small.name() && measured
    };
    let mut runs: Vec<&Stored> = stored.iter().filter(small).collect();
    runs.sort_by_key(|found| {
        let result = &found.result;
        (
            result.system != super::papers::OURS,
            result.system.clone(),
            std::cmp::Reverse(result.started.clone()),
        )
    });
    runs.dedup_by_key(|found| found.result.system.clone());
    runs
}

/// A cell in words: what tells it from the others of its run.
fn words(cell: &Cell, all: &[Cell]) -> String {
    let differs =
        |(name, value): &(&String, &String)| all.iter().any(|other| other.labels.get(*name) != Some(*value));
    let named = |(name, value): (&String, &String)| format!("{} {value}", super::readings::parameter(name));
    cell.labels.iter().filter(differs).map(named).collect::<Vec<_>>().join(" · ")
}

fn found_in<'a>(found: &'a Stored, cell: &Cell, phase: &str) -> Option<&'a Phase> {
    let same = |other: &&Cell| other.status == OK && other.labels == cell.labels;
    let cell = found.result.cells.iter().find(same)?;
    cell.phases.iter().find(|other| other.name == phase)
}

fn spell(phase: &Phase) -> String {
    let failed = if phase.failures > 0 { format!(", {} failed", phase.failures) } else { String::new() };
    let crossed = phase.traffic.between_sites();
    let crossed =
        if phase.traffic.bytes.len() > 1 { format!(", {}", bytes(crossed as f64)) } else { String::new() };
    if phase.summary.count == 0 {
        return format!("none succeeded{failed}");
    }
    format!("{}{crossed}{failed}", seconds(phase.summary.mean))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::markdown;
    use super::super::tests::{cell, phase, result};
    use super::*;
    use crate::report::document::Document;
    use crate::result::LabResult;

    fn run(system: &str, started: &str, sites: &str, mean: f64) -> Stored {
        let same = cell(&[("sites", "11"), ("size", "1MB")], Vec::new());
        let cells = vec![cell(&[("sites", sites), ("size", "1MB")], vec![phase("write", "", mean)]), same];
        let result = LabResult { system: system.into(), started: started.into(), ..result(cells) };
        Stored { directory: PathBuf::from("."), result }
    }

    #[test]
    fn the_same_cells_of_several_systems_stand_in_one_row() {
        let stored = [
            run("rgw", "2026-01-01", "3", 0.5),
            run("skerry", "2026-01-01", "3", 0.3),
            run("skerry", "2026-01-02", "3", 0.2),
            run("other", "2026-01-01", "7", 0.9),
        ];
        let blocks = by_side("F-S1", &stored);
        let text = markdown::render(&Document { blocks, ..Document::default() });
        assert!(text.contains("| cell | phase | skerry | other | rgw |"), "{text}");
        assert!(text.contains("| sites 3 | write | 200 ms, 4 kB | – | 500 ms, 4 kB |"), "{text}");
        assert!(by_side("F-S1", &stored[1..3]).is_empty(), "one system alone is no comparison");
    }
}
