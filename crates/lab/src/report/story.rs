//! A result told in the order a reader needs it: what was found, the figures, the table, what holds it back, how to repeat it.

use super::document::{Block, Document, Figure, Table};
use super::figure::matrix;
use super::papers;
use super::pictures;
use super::quantity::{bytes, count, digits, factor, seconds};
use super::readings::{Book, PhaseReading, Reading, parameter};
use super::spread::ratio_of_medians;
use crate::result::{Cell, Durability, LabResult, OK};

/// Cells whose matrices are folded away below the first ones: those between whose sites most crossed for their payload.
const FOLDED_MAX: usize = 2;
/// Rows of the table of shapes.
const SHAPES_MAX: usize = 60;

/// The report of a result.
pub fn tell(book: &Book<'_>) -> Document {
    let result = book.result;
    let mut blocks = warnings(book);
    blocks.extend(shape(book));
    let figures = pictures::all(book);
    let timelines = pictures::timelines(book);
    if !figures.is_empty() || !timelines.is_empty() {
        blocks.push(Block::Heading("Figures".into()));
    }
    blocks.extend(timelines.into_iter().chain(figures).map(Block::Figure));
    blocks.extend(more_matrices(book));
    blocks.extend(numbers(book));
    blocks.extend(limits(book));
    blocks.extend(papers::beside(&book.directory, result));
    blocks.extend(not_measured(result));
    blocks.extend(failures(book));
    blocks.extend(meaning(book));
    blocks.extend(provenance(book));
    let version = if result.system_version.is_empty() { &result.system } else { &result.system_version };
    let lead = format!(
        "{version} at scale {}, {}. After {}, {}.",
        result.scale,
        result.started,
        result.paper,
        result.paper_figures.join(", ")
    );
    Document { title: format!("{}: {}", result.scenario, result.title), lead, blocks }
}

fn warnings(book: &Book<'_>) -> Vec<Block> {
    let result = book.result;
    let mut texts: Vec<String> = Vec::new();
    if result.status != OK {
        texts.push(format!("Not measured: {}.", result.status));
    }
    texts.extend(result.warnings.iter().cloned());
    for reading in &book.readings {
        let title = book.title(reading.cell, true);
        let place = if title.is_empty() { String::new() } else { format!("{title}: ") };
        texts.extend(reading.cell.warnings.iter().map(|warning| format!("{place}{warning}")));
        let network = &reading.cell.network;
        if network.ring_drops + network.memory_drops > 0 {
            let (rings, memory) = (count(network.ring_drops), count(network.memory_drops));
            texts.push(format!(
                "{place}the emulator lost {rings} packets in its rings and {memory} for want of memory"
            ));
        }
    }
    if !book.missing.is_empty() {
        let first = book.missing.first().cloned().unwrap_or_default();
        texts.push(format!("{} files of single operations are not beside this report ({first}); figures that need them are left out.", book.missing.len()));
    }
    if book.unkept > 0 {
        texts.push(
            "Single operations were not kept with this result; figures that need them are left out.".into(),
        );
    }
    texts.dedup();
    texts.into_iter().map(Block::Warning).collect()
}

/// What changes along the axis and from a first to a second read: the ratios by which the papers argue.
fn shape(book: &Book<'_>) -> Vec<Block> {
    let mut table = Table::new(2, &["what", "where", "from", "to", "ratio", "95 % interval"]);
    for group in book.groups() {
        let ends = group.readings.first().zip(group.readings.last()).filter(|_| group.readings.len() > 1);
        let axis = book.axis.as_deref().unwrap_or("");
        for phase in &book.phases {
            let found =
                ends.and_then(|(first, last)| Some((first.phase(phase)?, last.phase(phase)?, first, last)));
            if let Some((first, last, from, to)) = found {
                let label =
                    |reading: &Reading<'_>| reading.cell.labels.get(axis).cloned().unwrap_or_default();
                let what = format!("{phase}, {} {} → {}", parameter(axis), label(from), label(to));
                table.rows.extend(row(what, &group.title, first, last));
            }
        }
    }
    for reading in &book.readings {
        for second in &reading.phases {
            let first = second.phase.name.strip_suffix('2').and_then(|name| reading.phase(name));
            if let Some(first) = first {
                let what = format!("{} → {}", first.phase.name, second.phase.name);
                table.rows.extend(row(what, &book.title(reading.cell, true), first, second));
            }
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let all = table.rows.len();
    table.rows.truncate(SHAPES_MAX);
    let mut blocks = vec![Block::Heading("Shape".into())];
    blocks.push(Block::Text(
        "Ratios of medians, second over first: what the papers' claims are about, whatever the machine."
            .into(),
    ));
    blocks.push(Block::Table(table.without_empty_columns()));
    if all > SHAPES_MAX {
        blocks.push(Block::Text(format!(
            "{} further ratios are left out; the table of numbers has what they are made of.",
            all - SHAPES_MAX
        )));
    }
    blocks
}

fn row(
    what: String,
    place: &str,
    first: &PhaseReading<'_>,
    second: &PhaseReading<'_>,
) -> Option<Vec<String>> {
    let (from, to) = (first.phase.summary.p50, second.phase.summary.p50);
    if first.phase.summary.count == 0 || second.phase.summary.count == 0 || from <= 0.0 {
        return None;
    }
    let ratio = ratio_of_medians(&first.by_trial(), &second.by_trial());
    let value = ratio.map_or(to / from, |ratio| ratio.value);
    let interval =
        ratio.map_or(String::new(), |ratio| format!("{} – {}", digits(ratio.low), digits(ratio.high)));
    Some(vec![what, place.to_owned(), seconds(from), seconds(to), factor(value), interval])
}

fn more_matrices(book: &Book<'_>) -> Option<Block> {
    let largest = book.largest()?.cell;
    let share = |reading: &Reading<'_>| {
        let crossed: u64 = reading.phases.iter().map(|phase| phase.phase.traffic.between_sites()).sum();
        let payload: u64 = reading.phases.iter().map(|phase| phase.phase.summary.bytes).sum();
        crossed as f64 / payload.max(1) as f64
    };
    let others = book.readings.iter().filter(|reading| !std::ptr::eq(reading.cell, largest));
    let mut others: Vec<_> = others.map(|reading| (reading, pictures::matrices_of(reading))).collect();
    others.retain(|(_, matrices)| !matrices.is_empty());
    let all = others.len();
    others.sort_by(|(one, _), (other, _)| share(other).total_cmp(&share(one)));
    others.truncate(FOLDED_MAX);
    let draw = |(number, (reading, matrices)): (usize, &(&Reading<'_>, Vec<matrix::Matrix>))| {
        let caption = book.title(reading.cell, true);
        let svg = matrix::draw(&format!("traffic, {caption}"), matrices);
        Block::Figure(Figure { name: format!("traffic-{}", number + 2), caption, svg })
    };
    let mut inner: Vec<Block> = others.iter().enumerate().map(draw).collect();
    if all > FOLDED_MAX {
        inner.push(Block::Text(format!(
            "{FOLDED_MAX} of {all} further cells are drawn, those in which most crossed for their payload; result.json has all."
        )));
    }
    (!inner.is_empty()).then(|| Block::Details("Traffic of other cells".into(), inner))
}

fn numbers(book: &Book<'_>) -> Vec<Block> {
    let mut table = Table::new(
        2,
        &[
            "cell",
            "phase",
            "ok",
            "failed",
            "p5",
            "median",
            "p95",
            "p99",
            "mean",
            "± 95 % of trials",
            "payload/s",
            "between sites",
            "of payload",
            "CPU",
            "peak memory",
            "written",
            "per byte",
        ],
    );
    for reading in &book.readings {
        for phase in &reading.phases {
            table.rows.push(numbers_row(book.title(reading.cell, true), phase));
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let note = "Times are of single operations from their intended begin to their last byte, connecting and waiting included. CPU is the sum over the \
                system's processes, peak memory the largest single one, written what they sent to block devices, per byte that over the payload.";
    vec![
        Block::Heading("Numbers".into()),
        Block::Table(table.without_empty_columns()),
        Block::Text(note.into()),
    ]
}

fn numbers_row(cell: String, phase: &PhaseReading<'_>) -> Vec<String> {
    let (facts, summary) = (phase.phase, &phase.phase.summary);
    let some = |there: bool, text: String| if there { text } else { String::new() };
    let measured = summary.count > 0;
    let times = super::spread::sorted(&phase.times());
    let p5 = super::spread::quantile(&times, 0.05).map_or(String::new(), seconds);
    let crossed = facts.traffic.between_sites() as f64;
    let matrix = facts.traffic.bytes.len() > 1;
    let payload = summary.bytes as f64;
    let cpu: f64 = facts.processes.iter().map(|process| process.cpu_seconds).sum();
    let memory = facts.processes.iter().map(|process| process.peak_rss_bytes).max().unwrap_or(0) as f64;
    let written = facts.processes.iter().map(|process| process.written_bytes).sum::<u64>() as f64;
    let used = !facts.processes.is_empty();
    vec![
        cell,
        facts.name.clone(),
        count(summary.count),
        count(summary.failures.max(facts.failures)),
        p5,
        some(measured, seconds(summary.p50)),
        some(measured, seconds(summary.p95)),
        some(measured, seconds(summary.p99)),
        some(measured, seconds(summary.mean)),
        interval(phase),
        some(measured && payload > 0.0, format!("{}/s", bytes(summary.throughput_bytes_per_s))),
        some(matrix, bytes(crossed)),
        some(matrix && payload > 0.0, format!("{} %", digits(crossed / payload * 100.0))),
        some(used, seconds(cpu)),
        some(used, bytes(memory)),
        some(used && written > 0.0, bytes(written)),
        some(used && written > 0.0 && payload > 0.0, digits(written / payload)),
    ]
}

/// Half the 95 % interval of the trials' means, by Student.
fn interval(phase: &PhaseReading<'_>) -> String {
    let means: Vec<f64> =
        phase.phase.trials.iter().filter(|trial| trial.count > 0).map(|trial| trial.mean).collect();
    if means.len() < 2 {
        return String::new();
    }
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    format!("{} ({})", seconds(student(means.len() - 1) * (variance / count).sqrt()), means.len())
}

/// 97.5 % quantile of Student's distribution.
fn student(freedom: usize) -> f64 {
    let small = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131,
    ];
    small.get(freedom.saturating_sub(1)).copied().unwrap_or(if freedom < 30 { 2.09 } else { 1.98 })
}

/// What small hosts felt of being small.
fn limits(book: &Book<'_>) -> Vec<Block> {
    let head = [
        "cell",
        "host",
        "memory, at most",
        "most used, file cache included",
        "limit met",
        "processors",
        "held back",
    ];
    let mut table = Table::new(2, &head);
    for reading in &book.readings {
        for limit in &reading.cell.limits {
            let some = |there: bool, text: String| if there { text } else { String::new() };
            let memory = limit.memory_bytes > 0;
            table.rows.push(vec![
                book.title(reading.cell, true),
                limit.host.clone(),
                some(memory, bytes(limit.memory_bytes as f64)),
                some(memory, bytes(limit.memory_peak_bytes as f64)),
                some(memory, format!("{} times", count(limit.memory_hits))),
                some(limit.cpu_share > 0.0, digits(limit.cpu_share)),
                some(limit.cpu_share > 0.0, seconds(limit.cpu_throttled_seconds)),
            ]);
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading("Limits of the hosts".into()), Block::Table(table.without_empty_columns())]
}

fn not_measured(result: &LabResult) -> Vec<Block> {
    let missing = result.cells.iter().filter(|cell| cell.status != OK);
    let words = |cell: &Cell| {
        cell.labels
            .iter()
            .map(|(name, value)| format!("{} {value}", parameter(name)))
            .collect::<Vec<_>>()
            .join(" · ")
    };
    let items: Vec<String> = missing.map(|cell| format!("{}: {}", words(cell), cell.status)).collect();
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading("Not measured".into()), Block::List(items)]
}

fn failures(book: &Book<'_>) -> Vec<Block> {
    let mut table = Table::new(3, &["cell", "phase", "failure", "times"]);
    for reading in &book.readings {
        for phase in &reading.phases {
            for (text, times) in &phase.phase.failure_texts {
                let cell = book.title(reading.cell, true);
                table.rows.push(vec![
                    cell,
                    phase.phase.name.clone(),
                    text.chars().take(160).collect(),
                    count(*times),
                ]);
            }
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading("Failures".into()), Block::Table(table.without_empty_columns())]
}

/// A durability in words.
pub fn durability(durability: &Durability) -> String {
    let code = if durability.code.is_empty() { String::new() } else { format!(", code {}", durability.code) };
    let synced = if durability.synced { "synced to the medium" } else { "NOT synced to the medium" };
    let copies = if durability.copies == 1 { "copy".to_owned() } else { "copies".to_owned() };
    let later = if durability.later.is_empty() { String::new() } else { format!("; {}", durability.later) };
    format!("scope {}: {} {copies}{code}, {synced}{later}", durability.acknowledged, durability.copies)
}

fn meaning(book: &Book<'_>) -> Vec<Block> {
    let result = book.result;
    let mut promises: Vec<String> = vec![durability(&result.durability)];
    for cell in
        book.readings.iter().map(|reading| reading.cell).filter(|cell| cell.durability != result.durability)
    {
        promises.push(format!("{}: {}", book.title(cell, true), durability(&cell.durability)));
    }
    promises.dedup();
    if book.readings.iter().any(|reading| reading.cell.bucket_per_site) {
        promises.push(
            "Each site had a bucket of its own, made there, because this system keeps a bucket's payload at one place.".into(),
        );
    }
    let mut blocks = vec![Block::Heading("What an answer to a write meant".into()), Block::List(promises)];
    if !result.cannot_reproduce.is_empty() {
        blocks.push(Block::Heading("What this cannot reproduce".into()));
        blocks.push(Block::List(result.cannot_reproduce.clone()));
    }
    blocks
}

fn provenance(book: &Book<'_>) -> Vec<Block> {
    let result = book.result;
    let machine = &result.machine;
    let load = |load: [f64; 3]| load.map(|value| format!("{value:.2}")).join(" ");
    let lateness =
        book.readings.iter().map(|reading| reading.cell.network.lateness_p99_ms).fold(0.0, f64::max);
    let constants: Vec<String> =
        book.constants().into_iter().map(|(name, value)| format!("{} {value}", parameter(name))).collect();
    let mut facts = Table::new(2, &["", ""]);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.rows.push(vec![name.to_owned(), value]);
        }
    };
    fact("the same in all cells", constants.join(" · "));
    fact("took", seconds(result.seconds));
    fact("processor", format!("{}, {} cores", machine.cpu, machine.cores));
    fact("memory", bytes(machine.memory_bytes as f64));
    fact("kernel", machine.kernel.clone());
    fact("load before (1, 5, 15 min)", load(machine.load_before));
    fact("load after", load(machine.load_after));
    fact("emulator's lateness, p99, worst cell", format!("{} ms", digits(lateness)));
    fact("seed", result.seed.to_string());
    fact("commit", result.commit.clone());
    fact("binary, BLAKE3", result.binary_blake3.clone());
    vec![
        Block::Heading("How to repeat it".into()),
        Block::Code(result.command.clone()),
        Block::Table(facts),
        Block::Details("Topology of the first cell".into(), vec![Block::Code(result.topology.clone())]),
    ]
}
