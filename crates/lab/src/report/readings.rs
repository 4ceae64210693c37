//! A result as figures need it: which parameters were swept, which cells belong in one panel, the operations of every phase.
//!
//! Invariants: cells that were not measured take no part; an operation of the warm-up takes no part; a file that cannot be read
//! is named in [`Book::missing`], and figures that need single operations are then left out rather than guessed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::quantity::leading_number;
use crate::result::{Cell, LabResult, OK, Phase};

/// Parameters that make the best lower axis, best first.
const AXES: [&str; 8] =
    ["sites", "core_rtt_ms", "access_rtt_ms", "rtt_ms", "threads", "workers", "clients", "size"];

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Trial and client: what one curve of ordered times consists of.
    pub run: (u64, String),
    /// Seconds since the phase began.
    pub at: f64,
    /// Seconds it took.
    pub took: f64,
    /// Why it failed; empty if it did not.
    pub failure: String,
}

/// A row of a CSV file; columns are found by name, so that files of other releases can be read.
#[derive(Deserialize)]
struct Row {
    trial: u64,
    client: String,
    #[serde(default)]
    warm_up: Option<String>,
    start_ns: f64,
    total_ns: f64,
    #[serde(default)]
    failure: String,
}

/// Reads the operations of a phase.
pub fn operations(path: &Path) -> Result<Vec<Operation>, String> {
    let name = |error: csv::Error| format!("{}: {error}", path.display());
    let mut file = csv::Reader::from_path(path).map_err(name)?;
    let mut operations = Vec::new();
    for row in file.deserialize() {
        let row: Row = row.map_err(name)?;
        if row.warm_up.as_deref().is_some_and(|flag| matches!(flag, "true" | "1")) {
            continue;
        }
        operations.push(Operation {
            run: (row.trial, row.client),
            at: row.start_ns / 1e9,
            took: row.total_ns / 1e9,
            failure: row.failure,
        });
    }
    Ok(operations)
}

/// A phase with its operations.
#[derive(Debug)]
pub struct PhaseReading<'a> {
    /// The phase.
    pub phase: &'a Phase,
    /// Its place among the names of all phases: its colour.
    pub slot: usize,
    /// Its operations; empty if the file is missing.
    pub operations: Vec<Operation>,
}

impl PhaseReading<'_> {
    /// Times of what succeeded.
    pub fn times(&self) -> Vec<f64> {
        self.operations
            .iter()
            .filter(|operation| operation.failure.is_empty())
            .map(|operation| operation.took)
            .collect()
    }

    /// The same, trial by trial.
    pub fn by_trial(&self) -> Vec<Vec<f64>> {
        let mut trials: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for operation in self.operations.iter().filter(|operation| operation.failure.is_empty()) {
            trials.entry(operation.run.0).or_default().push(operation.took);
        }
        trials.into_values().collect()
    }

    /// The same, by trial and client.
    pub fn by_run(&self) -> Vec<Vec<f64>> {
        let mut runs: BTreeMap<&(u64, String), Vec<f64>> = BTreeMap::new();
        for operation in self.operations.iter().filter(|operation| operation.failure.is_empty()) {
            runs.entry(&operation.run).or_default().push(operation.took);
        }
        runs.into_values().collect()
    }
}

/// A cell with its phases.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its phases.
    pub phases: Vec<PhaseReading<'a>>,
}

impl<'a> Reading<'a> {
    /// A phase by name.
    pub fn phase(&self, name: &str) -> Option<&PhaseReading<'a>> {
        self.phases.iter().find(|reading| reading.phase.name == name)
    }
}

/// A result, read.
#[derive(Debug)]
pub struct Book<'a> {
    /// Where its files lie.
    pub directory: PathBuf,
    /// The result.
    pub result: &'a LabResult,
    /// The cells that were measured, in the order of their parameters.
    pub readings: Vec<Reading<'a>>,
    /// Names of all phases, in the order they came first.
    pub phases: Vec<String>,
    /// The parameter of the lower axis; none if nothing was swept.
    pub axis: Option<String>,
    /// The other parameters that differ between cells.
    pub others: Vec<String>,
    /// Files that could not be read, and why.
    pub missing: Vec<String>,
    /// Operations that were not kept one by one.
    pub unkept: u64,
}

/// Cells that differ in the axis' parameter only.
#[derive(Debug)]
pub struct Group<'b, 'a> {
    /// What they have in common, in words.
    pub title: String,
    /// The cells, in the order of the axis.
    pub readings: Vec<&'b Reading<'a>>,
}

impl<'a> Book<'a> {
    /// Reads what lies beside a result.
    pub fn open(directory: &Path, result: &'a LabResult) -> Self {
        let measured: Vec<&Cell> = result.cells.iter().filter(|cell| cell.status == OK).collect();
        let mut phases: Vec<String> = Vec::new();
        // A phase in which nothing ever succeeded has no times to draw; the table of numbers has it all the same.
        let drawn = measured.iter().flat_map(|cell| &cell.phases).filter(|phase| phase.summary.count > 0);
        for phase in drawn {
            if !phases.contains(&phase.name) {
                phases.push(phase.name.clone());
            }
        }
        let swept = swept(&measured);
        let named = AXES.iter().map(|name| (*name).to_owned()).find(|name| swept.contains(name));
        let axis = named.or_else(|| swept.first().cloned());
        let others = swept.into_iter().filter(|name| Some(name) != axis.as_ref()).collect();
        let place = directory.to_path_buf();
        let mut book = Self {
            directory: place,
            result,
            readings: Vec::new(),
            phases,
            axis,
            others,
            missing: Vec::new(),
            unkept: 0,
        };
        for cell in measured {
            let phases = cell.phases.iter().map(|phase| book.phase(directory, phase)).collect();
            book.readings.push(Reading { cell, phases });
        }
        let readings = std::mem::take(&mut book.readings);
        let mut keys: Vec<(Vec<Key>, Reading<'a>)> = Vec::with_capacity(readings.len());
        for reading in readings {
            keys.push((book.order(reading.cell), reading));
        }
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        book.readings = keys.into_iter().map(|(_, reading)| reading).collect();
        book
    }

    fn phase(&mut self, directory: &Path, phase: &'a Phase) -> PhaseReading<'a> {
        let read = if phase.csv.as_os_str().is_empty() {
            self.unkept += phase.operations;
            Ok(Vec::new())
        } else {
            operations(&directory.join(&phase.csv))
        };
        let operations = read.unwrap_or_else(|reason| {
            self.missing.push(reason);
            Vec::new()
        });
        let slot = self.phases.iter().position(|name| *name == phase.name).unwrap_or(0);
        PhaseReading { phase, slot, operations }
    }

    fn order(&self, cell: &Cell) -> Vec<Key> {
        let names = self.others.iter().chain(&self.axis);
        names.map(|name| Key::of(cell.labels.get(name).map_or("", String::as_str))).collect()
    }

    /// Cells by what they have in common, each group one panel.
    pub fn groups(&self) -> Vec<Group<'_, 'a>> {
        let mut groups: Vec<Group<'_, 'a>> = Vec::new();
        for reading in self.readings.iter().filter(|reading| !self.is_sum(reading.cell)) {
            let title = self.title(reading.cell, false);
            match groups.last_mut().filter(|group| group.title == title) {
                Some(group) => group.readings.push(reading),
                None => groups.push(Group { title, readings: vec![reading] }),
            }
        }
        groups
    }

    /// Whether a cell sums up the others along the axis: it is then no point on it.
    pub fn is_sum(&self, cell: &Cell) -> bool {
        self.axis.as_ref().and_then(|axis| cell.labels.get(axis)).is_some_and(|label| label == "all")
    }

    /// A cell in words: its swept parameters, with the one of the axis if asked.
    pub fn title(&self, cell: &Cell, with_axis: bool) -> String {
        let axis = self.axis.iter().filter(|_| with_axis);
        let names: Vec<&String> = self.others.iter().chain(axis).collect();
        title(cell, &names)
    }

    /// Parameters that are the same in all cells.
    pub fn constants(&self) -> BTreeMap<&str, &str> {
        let all = self.readings.iter().flat_map(|reading| &reading.cell.labels);
        let varied = |name: &String| self.others.contains(name) || self.axis.as_ref() == Some(name);
        all.filter(|(name, _)| !varied(name)).map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The cell that shows most: most sites, then most operations.
    pub fn largest(&self) -> Option<&Reading<'a>> {
        let operations =
            |reading: &Reading<'_>| reading.phases.iter().map(|phase| phase.phase.operations).sum::<u64>();
        self.readings.iter().max_by_key(|reading| (reading.cell.sites.len(), operations(reading)))
    }
}

/// `objects` and `size` read as the papers write them; the rest by name.
fn title(cell: &Cell, names: &[&String]) -> String {
    let value = |name: &str| cell.labels.get(name).map(String::as_str);
    let has = |name: &str| names.iter().any(|known| *known == name);
    let mut words: Vec<String> = Vec::new();
    if let (true, true, Some(objects), Some(size)) =
        (has("objects"), has("size"), value("objects"), value("size"))
    {
        words.push(format!("{objects} × {size}"));
    }
    let paired = !words.is_empty();
    for name in names.iter().filter(|name| !(paired && matches!(name.as_str(), "objects" | "size"))) {
        words.push(format!("{} {}", parameter(name), value(name).unwrap_or("–")));
    }
    words.join(" · ")
}

/// A parameter in words.
pub fn parameter(name: &str) -> String {
    match name {
        "sites" => "sites".into(),
        "core_rtt_ms" => "site–site RTT ms".into(),
        "access_rtt_ms" => "client–site RTT ms".into(),
        "rtt_ms" => "pair RTT ms".into(),
        other => other.replace('_', " "),
    }
}

/// Names of the labels that differ between cells, in order.
fn swept(cells: &[&Cell]) -> Vec<String> {
    let mut values: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (name, value) in cells.iter().flat_map(|cell| &cell.labels) {
        values.entry(name).or_default().push(value);
    }
    let differs = |values: &[&String]| {
        values.len() < cells.len() || values.iter().any(|value| Some(value) != values.first())
    };
    values.into_iter().filter(|(_, values)| differs(values)).map(|(name, _)| name.clone()).collect()
}

/// Labels order by their leading number, then as text.
#[derive(Debug, Clone, PartialEq)]
struct Key(Option<f64>, String);

impl Key {
    fn of(label: &str) -> Self {
        Self(leading_number(label), label.to_owned())
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let number = |key: &Self| key.0.unwrap_or(f64::INFINITY);
        number(self).total_cmp(&number(other)).then_with(|| self.1.cmp(&other.1))
    }
}
