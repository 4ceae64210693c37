//! One result of the lab as JSON, schema v1: what `run` writes and `report`, `compare` and `papers` read.
//!
//! Invariants: fields are added, never changed or removed (a reader of version 1 reads every later 1); whatever
//! could not be measured is missing or stands in `warnings`, never a made-up zero; paths are relative to the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use skerry_bench::summary::Summary;

use crate::layout;

/// The schema written here.
pub const VERSION: u32 = 1;

/// The status of a run or cell that was measured.
pub const OK: &str = "ok";

/// The event of a step that waits for others: more crosses between sites than the words of links at rest.
pub const FLOWING: &str = "bytes flow";

/// Everything about one run of one scenario against one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabResult {
    /// The schema: 1.
    pub version: u32,
    /// The scenario, as `F-S7`.
    pub scenario: String,
    /// What it is about.
    pub title: String,
    /// The paper it comes from.
    pub paper: String,
    /// The figures and tables it repeats.
    pub paper_figures: Vec<String>,
    /// The system under test.
    pub system: String,
    /// What it says of itself.
    pub system_version: String,
    /// `small` or `paper`.
    pub scale: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// How long it took, set-up included.
    pub seconds: f64,
    /// The commit of this tree, with `+` if files differ from it.
    pub commit: String,
    /// BLAKE3 of the binary under test, hexadecimal; empty if there is none.
    pub binary_blake3: String,
    /// Where it ran.
    pub machine: Machine,
    /// The seed of every draw.
    pub seed: u64,
    /// The topology of the first cell, as a file that `skerry-sim run --topology` reads too.
    pub topology: String,
    /// What repeats it.
    pub command: String,
    /// What an answer to a write meant, unless a cell says otherwise.
    pub durability: Durability,
    /// What of the paper this cannot show.
    pub cannot_reproduce: Vec<String>,
    /// [`OK`], or what is missing, as `needs edges: not yet`.
    pub status: String,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    /// One per combination of parameters.
    pub cells: Vec<Cell>,
    /// The paper's numbers, as the scenario's file has them.
    #[serde(default)]
    pub paper_rows: Vec<PaperRow>,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor.
    pub cpu: String,
    /// Processors that it has.
    pub cores: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Load averages of 1, 5 and 15 minutes before the run.
    pub load_before: [f64; 3],
    /// The same after it; it contains the run itself.
    pub load_after: [f64; 3],
}

/// What the answer to a write promised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durability {
    /// The scope, as `site` or `sites=3`.
    pub acknowledged: String,
    /// Whole copies at the moment of the answer.
    pub copies: u32,
    /// The code, as `6+3`; empty if there is none.
    #[serde(default)]
    pub code: String,
    /// Whether each copy was on the medium (`fsync`) at the answer.
    pub synced: bool,
    /// What comes after the answer, in words.
    #[serde(default)]
    pub later: String,
}

/// One combination of parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The parameters, as `objects=100`.
    pub labels: BTreeMap<String, String>,
    /// [`OK`], or why it was not measured.
    pub status: String,
    /// Names of the sites, in the order of every matrix.
    pub sites: Vec<String>,
    /// Round-trip times between sites in milliseconds as the links have them.
    pub rtt_ms: Vec<Vec<f64>>,
    /// The topology as a file. In the JSON only where it differs from the cell's before, or the result's before the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topology: String,
    /// What an answer to a write meant here.
    pub durability: Durability,
    /// Whether each site's clients had a bucket made at their site; else one bucket served all sites.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bucket_per_site: bool,
    /// What was done, in order.
    pub phases: Vec<Phase>,
    /// What limits of memory and processor did, by host; empty if the scenario sets none or the machine refused all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<HostLimit>,
    /// How well the emulated network kept to its word.
    #[serde(default)]
    pub network: Network,
    /// What makes this cell doubtful.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A host that is made small, and how it felt that, over a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLimit {
    /// The host.
    pub host: String,
    /// The memory its processes may have together, file cache included; 0 if not limited.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The most they had, without what they held before they were limited.
    #[serde(default)]
    pub memory_peak_bytes: u64,
    /// How often they wanted more and something had to go first.
    #[serde(default)]
    pub memory_hits: u64,
    /// Processors they may have together; 0 if not limited.
    #[serde(default)]
    pub cpu_share: f64,
    /// How long they could have run and were held back, summed over processors.
    #[serde(default)]
    pub cpu_throttled_seconds: f64,
}

/// Health of the emulator over a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Packets lost in the emulator's own rings.
    pub ring_drops: u64,
    /// Packets lost because memory was short.
    pub memory_drops: u64,
    /// How late packets left, 99th percentile.
    pub lateness_p99_ms: f64,
}

/// One step of the work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name, as `write` or `read2`.
    pub name: String,
    /// From the first operation's start to the last one's end.
    pub seconds: f64,
    /// How long the network was watched afterwards until it was quiet; its traffic counts to this phase.
    #[serde(default)]
    pub settled_seconds: f64,
    /// Operations asked for, failed ones too.
    pub operations: u64,
    /// Those that failed.
    pub failures: u64,
    /// The first texts of failures, with how often each came.
    #[serde(default)]
    pub failure_texts: BTreeMap<String, u64>,
    /// Figures over all operations of all clients and trials.
    pub summary: Summary,
    /// The same trial by trial, for intervals.
    #[serde(default)]
    pub trials: Vec<Summary>,
    /// The k-th fastest operation of each client and trial, mean over them, in seconds: the ranks that a paper's number asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub order: BTreeMap<usize, f64>,
    /// Every operation, as `skerry_bench::read_csv` reads it; empty if they were not kept.
    pub csv: PathBuf,
    /// What crossed the network meanwhile.
    pub traffic: Traffic,
    /// What the system's processes used meanwhile.
    pub processes: Vec<ProcessUse>,
    /// What was done to the network meanwhile.
    pub events: Vec<Event>,
}

/// Bytes and packets by source and destination, IP headers included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// `bytes[from][to]` by site; the diagonal is traffic within a site, its clients' included.
    pub bytes: Vec<Vec<u64>>,
    /// Packets alike.
    pub packets: Vec<Vec<u64>>,
    /// Per host: bytes sent and received; empty if they were not kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostTraffic>,
}

impl Traffic {
    /// What crossed between sites.
    pub fn between_sites(&self) -> u64 {
        let rows = self.bytes.iter().enumerate();
        rows.flat_map(|(from, row)| row.iter().enumerate().filter(move |(to, _)| *to != from))
            .map(|(_, bytes)| *bytes)
            .sum()
    }
}

/// Bytes of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Sent.
    pub sent_bytes: u64,
    /// Received.
    pub received_bytes: u64,
}

/// What one process used during a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// The emulated host.
    pub host: String,
    /// The process.
    pub name: String,
    /// Processor time, user and system.
    pub cpu_seconds: f64,
    /// The most memory it held resident.
    pub peak_rss_bytes: u64,
    /// Bytes it sent to block devices.
    pub written_bytes: u64,
}

/// Something done to the network during a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Since the phase's start.
    pub at_seconds: f64,
    /// What, as `cut site-2` or `heal site-2`.
    pub what: String,
}

/// A number that a paper gives, and what to compare with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PaperRow {
    /// The figure or table.
    pub figure: String,
    /// The paper's system, as `IPFS`.
    pub system: String,
    /// What the number is, in words.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit: `s`, `ms`, `MB`, `MB/s`, `%`, `x` (a ratio), `count`.
    pub unit: String,
    /// How ours is computed; see `plan::statistic::Statistic`.
    pub statistic: String,
    /// The phase it is computed from; two with a `/` between them for ratios.
    #[serde(default)]
    pub phase: String,
    /// Labels that a cell must have; those not named may be anything.
    #[serde(default)]
    pub select: BTreeMap<String, String>,
    /// Which way is better: `less`, `more`, or empty if neither is.
    #[serde(default)]
    pub better: String,
    /// What to know when comparing.
    #[serde(default)]
    pub note: String,
}

impl LabResult {
    /// Reads `result.json`, or the one in a directory.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = if path.is_dir() { path.join("result.json") } else { path.to_path_buf() };
        let name = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let mut result: Self = serde_json::from_slice(&fs::read(&file).map_err(name)?)
            .map_err(|error| name(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        if result.version != VERSION {
            let reason = format!("a result of schema {}; this release reads {VERSION}", result.version);
            return Err(name(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        let mut last = result.topology.clone();
        for cell in &mut result.cells {
            if cell.topology.is_empty() {
                cell.topology.clone_from(&last);
            }
            last.clone_from(&cell.topology);
        }
        Ok(result)
    }

    /// Writes `result.json` into a directory.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        self.put(directory, |value| value)
    }

    /// The same with times and rates of six digits: what a measurement on a shared machine is worth at most.
    pub fn write_rounded(&self, directory: &Path) -> io::Result<()> {
        self.put(directory, layout::rounded)
    }

    fn put(&self, directory: &Path, shape: fn(Value) -> Value) -> io::Result<()> {
        let mut result = self.clone();
        let mut last = self.topology.as_str();
        for (cell, own) in result.cells.iter_mut().zip(&self.cells) {
            if own.topology == last {
                cell.topology.clear();
            }
            last = &own.topology;
        }
        fs::write(directory.join("result.json"), layout::text(&shape(serde_json::to_value(&result)?)))
    }

    /// Without what only the files beside a run's own result, or its log, explain.
    pub fn without_single_operations(mut self) -> Self {
        for phase in self.cells.iter_mut().flat_map(|cell| &mut cell.phases) {
            phase.csv = PathBuf::new();
            phase.traffic.hosts.clear();
        }
        self
    }
}
