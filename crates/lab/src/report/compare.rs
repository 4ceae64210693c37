//! Two or more results side by side: ratios of medians with their intervals, and of what they cost.
//!
//! Invariants: only cells with the same parameters and phases with the same name are compared; what differs between the runs besides
//! the system is said first; results that share no cell are refused with the reason, never compared by halves.

use super::document::{Block, Document, Table};
use super::quantity::{bytes, digits, factor, seconds};
use super::readings::{Book, PhaseReading, Reading};
use super::spread::{Ratio, ratio_of_medians};
use super::story::durability;
use crate::result::{Cell, LabResult, OK, Phase};

/// Compares the later books with the first.
pub fn compare(books: &[Book<'_>]) -> Result<Document, String> {
    let Some((first, others)) = books.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err("compare needs two results or more".into());
    };
    let mut blocks = Vec::new();
    for other in others {
        let pairs = pairs(first, other);
        if pairs.is_empty() {
            return Err(refusal(first, other));
        }
        blocks.push(Block::Heading(format!("{} over {}", name(other.result), name(first.result))));
        blocks.extend(differences(first, other, &pairs).into_iter().map(Block::Warning));
        blocks.push(Block::Table(table(first, &pairs).without_empty_columns()));
    }
    blocks.push(Block::Text(
        "time = ratio of medians, second over first, with its 95 % interval (whole trials are resampled from 5 trials on, else single \
         operations); = means that the interval holds 1. Below 1 the second takes less."
            .into(),
    ));
    let title = format!("{}: {}", first.result.scenario, first.result.title);
    Ok(Document { title, lead: format!("{} results compared", books.len()), blocks })
}

fn name(result: &LabResult) -> String {
    let version = if result.system_version.is_empty() { &result.system } else { &result.system_version };
    format!("{version} ({} {}, {})", result.scenario, result.scale, result.started)
}

/// Cells of both with the same parameters.
type Pair<'b, 'a> = (&'b Reading<'a>, &'b Reading<'a>);

fn pairs<'b, 'a>(first: &'b Book<'a>, second: &'b Book<'a>) -> Vec<Pair<'b, 'a>> {
    let twin = |one: &'b Reading<'a>| {
        let two = second.readings.iter().find(|two| two.cell.labels == one.cell.labels)?;
        let shared = one.phases.iter().any(|phase| two.phase(&phase.phase.name).is_some());
        shared.then_some((one, two))
    };
    first.readings.iter().filter_map(twin).collect()
}

fn refusal(first: &Book<'_>, second: &Book<'_>) -> String {
    let cells = |book: &Book<'_>| {
        let label = |cell: &Cell| {
            cell.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        let status = if book.result.status == OK {
            String::new()
        } else {
            format!(" (status: {})", book.result.status)
        };
        let first: Vec<String> = book.readings.iter().take(3).map(|reading| label(reading.cell)).collect();
        format!(
            "{} has {} measured cells{status}: {} …",
            name(book.result),
            book.readings.len(),
            first.join("; ")
        )
    };
    format!(
        "no cell and phase in common, so there is nothing to compare:\n  {}\n  {}",
        cells(first),
        cells(second)
    )
}

/// What differs besides the system.
fn differences(first: &Book<'_>, second: &Book<'_>, pairs: &[Pair<'_, '_>]) -> Vec<String> {
    let (a, b) = (first.result, second.result);
    let mut texts = Vec::new();
    let mut differ = |what: &str, one: String, two: String| {
        if one != two {
            texts.push(format!("{what} differs: {one} → {two}"));
        }
    };
    differ("the scenario", a.scenario.clone(), b.scenario.clone());
    differ("the scale", a.scale.clone(), b.scale.clone());
    differ("the seed", a.seed.to_string(), b.seed.to_string());
    differ("the machine", machine(a), machine(b));
    if a.system == b.system {
        differ("the binary", short(&a.binary_blake3), short(&b.binary_blake3));
    }
    let promise = |cell: &Cell| durability(&cell.durability);
    let unequal = pairs.iter().find(|(one, two)| promise(one.cell) != promise(two.cell));
    if let Some((one, two)) = unequal {
        differ("durability at the answer", promise(one.cell), promise(two.cell));
    }
    let buckets = |cell: &Cell| if cell.bucket_per_site { "one for each site" } else { "one for all sites" };
    if let Some((one, two)) = pairs.iter().find(|(one, two)| buckets(one.cell) != buckets(two.cell)) {
        differ("the number of buckets", buckets(one.cell).into(), buckets(two.cell).into());
    }
    let topologies = pairs
        .iter()
        .filter(|(one, two)| one.cell.rtt_ms != two.cell.rtt_ms || one.cell.topology != two.cell.topology)
        .count();
    if topologies > 0 {
        texts.push(format!("the topology differs in {topologies} of {} cells", pairs.len()));
    }
    let workloads = pairs.iter().filter(|(one, two)| !same_work(one, two)).count();
    if workloads > 0 {
        texts.push(format!(
            "the workload differs in {workloads} of {} cells: other numbers of operations, trials or bytes",
            pairs.len()
        ));
    }
    for (side, book) in [("first", first), ("second", second)] {
        let left = book.readings.len() - pairs.len().min(book.readings.len());
        if left > 0 {
            texts.push(format!("{left} cells are only in the {side}"));
        }
        texts.extend(book.result.warnings.iter().map(|warning| format!("the {side} warns: {warning}")));
    }
    texts
}

fn machine(result: &LabResult) -> String {
    let machine = &result.machine;
    format!(
        "{}, {} cores, {}, {}",
        machine.cpu,
        machine.cores,
        bytes(machine.memory_bytes as f64),
        machine.kernel
    )
}

fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

fn same_work(one: &Reading<'_>, two: &Reading<'_>) -> bool {
    let asked = |phase: &Phase| (phase.operations, phase.trials.len());
    one.phases
        .iter()
        .all(|phase| two.phase(&phase.phase.name).is_none_or(|twin| asked(twin.phase) == asked(phase.phase)))
}

fn table(book: &Book<'_>, pairs: &[Pair<'_, '_>]) -> Table {
    let head = [
        "cell",
        "phase",
        "first",
        "second",
        "time",
        "95 % interval",
        "",
        "p95",
        "failed",
        "between sites",
        "CPU",
        "memory",
        "written",
    ];
    let mut table = Table::new(2, &head);
    for (one, two) in pairs {
        for phase in &one.phases {
            if let Some(twin) = two.phase(&phase.phase.name) {
                table.rows.push(row(book.title(one.cell, true), phase, twin));
            }
        }
    }
    table
}

fn row(cell: String, first: &PhaseReading<'_>, second: &PhaseReading<'_>) -> Vec<String> {
    let (a, b) = (first.phase, second.phase);
    let ratio = ratio_of_medians(&first.by_trial(), &second.by_trial());
    let known = a.summary.count > 0 && b.summary.count > 0;
    let time =
        |phase: &Phase| if phase.summary.count > 0 { seconds(phase.summary.p50) } else { "–".into() };
    vec![
        cell,
        a.name.clone(),
        time(a),
        time(b),
        ratio.map_or_else(|| over(a.summary.p50, b.summary.p50), |ratio| factor(ratio.value)),
        ratio.map_or_else(String::new, |ratio| format!("{} – {}", digits(ratio.low), digits(ratio.high))),
        verdict(ratio, known),
        over(a.summary.p95, b.summary.p95),
        if a.failures + b.failures > 0 {
            format!("{} → {}", a.failures, b.failures)
        } else {
            String::new()
        },
        over(a.traffic.between_sites() as f64, b.traffic.between_sites() as f64),
        over(cpu(a), cpu(b)),
        over(memory(a), memory(b)),
        over(written(a), written(b)),
    ]
}

fn verdict(ratio: Option<Ratio>, known: bool) -> String {
    match ratio {
        Some(ratio) if !ratio.is_clear() => "=".into(),
        Some(_) => String::new(),
        None if known => "no single operations".into(),
        None => "nothing succeeded".into(),
    }
}

/// A ratio; nothing if there is nothing to divide by.
fn over(first: f64, second: f64) -> String {
    if first > 0.0 && second > 0.0 { factor(second / first) } else { String::new() }
}

fn cpu(phase: &Phase) -> f64 {
    phase.processes.iter().map(|process| process.cpu_seconds).sum()
}

/// The sum over processes: systems differ in how many they are.
fn memory(phase: &Phase) -> f64 {
    phase.processes.iter().map(|process| process.peak_rss_bytes as f64).sum()
}

fn written(phase: &Phase) -> f64 {
    phase.processes.iter().map(|process| process.written_bytes as f64).sum()
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::super::tests::{cell, phase, result};
    use super::*;

    fn rows(document: &Document) -> Vec<Vec<String>> {
        let tables = document
            .blocks
            .iter()
            .filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
        tables.flat_map(|table| table.rows.clone()).collect()
    }

    fn warned(document: &Document) -> String {
        let warning =
            |block: &Block| if let Block::Warning(text) = block { Some(text.clone()) } else { None };
        document.blocks.iter().filter_map(warning).collect::<Vec<_>>().join("\n")
    }

    fn plain(median: f64, labels: &[(&str, &str)]) -> LabResult {
        let phases = vec![Phase { csv: "".into(), ..phase("write", "", median) }];
        LabResult { warnings: Vec::new(), ..result(vec![cell(labels, phases)]) }
    }

    #[test]
    fn the_same_cells_are_divided() {
        let (one, two) = (plain(0.1, &[("sites", "3")]), plain(0.2, &[("sites", "3")]));
        let books = [Book::open(Path::new("."), &one), Book::open(Path::new("."), &two)];
        let document = compare(&books).expect("comparable");
        let row = &rows(&document)[0];
        assert!(
            row.contains(&"×2".to_owned()) && row.contains(&"no single operations".to_owned()),
            "{row:?}"
        );
        assert_eq!(warned(&document), "");
    }

    #[test]
    fn what_differs_is_said_first() {
        let one = plain(0.1, &[("sites", "3")]);
        let mut two = LabResult { seed: 2, system: "other".into(), ..plain(0.1, &[("sites", "3")]) };
        two.machine.cores = 64;
        two.cells[0].durability.synced = false;
        two.cells[0].bucket_per_site = true;
        two.cells[0].rtt_ms[0][1] = 7.0;
        two.cells[0].phases[0].operations = 7;
        let books = [Book::open(Path::new("."), &one), Book::open(Path::new("."), &two)];
        let said = warned(&compare(&books).expect("comparable"));
        let words = [
            "seed differs",
            "machine differs",
            "NOT synced",
            "of buckets differs",
            "topology differs",
            "workload",
        ];
        for word in words {
            assert!(said.contains(word), "{word} is missing in {said}");
        }
    }

    #[test]
    fn nothing_in_common_is_refused_with_the_reason() {
        let (one, two) = (plain(0.1, &[("sites", "3")]), plain(0.1, &[("threads", "10")]));
        let books = [Book::open(Path::new("."), &one), Book::open(Path::new("."), &two)];
        let refused = compare(&books).expect_err("nothing in common");
        assert!(refused.contains("sites=3") && refused.contains("threads=10"), "{refused}");
        assert!(compare(&books[..1]).is_err());
    }
}
