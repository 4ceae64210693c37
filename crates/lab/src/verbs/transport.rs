//! `skerry-lab transport`: the same exchange over each transport, across links of chosen delay, rate and loss.
//!
//! Why here: which transport sites use on which link follows from figures. The transports are not the lab's: the two ends
//! are a program of their own (`crates/lab/transport`), which this verb starts in hosts of the emulated network.
//!
//! Invariants: transports take turns within each cell, so that what the machine does meanwhile falls on all of them; every
//! row says what load it was measured under and what makes it doubtful; a transport that fails is a row that says so.

mod ends;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skerry_scenario::topology::Topology;

use super::Ending;
use crate::result::Machine;
use crate::run::{commit, describe, load, rfc3339, wall_ms};
use crate::sys;
use crate::wan::{Settings, Wan};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Chunks, and small questions beside them.
    Steady,
    /// The same on one host, over loopback: what a byte costs when nothing else limits.
    Near,
    /// How long no answer comes after the asking end's address has changed.
    Move,
    /// What idle peers cost in memory.
    Memory,
}

/// Measure transports between sites: throughput, latency beside it, processor time, memory, a change of address
#[derive(Debug, Args)]
pub struct Transport {
    /// The ends' program: cargo build --release --manifest-path crates/lab/transport/Cargo.toml
    #[arg(long, default_value = "target/release/skerry-transport")]
    program: PathBuf,
    /// What is measured
    #[arg(long, value_enum, default_value = "steady")]
    what: What,
    /// Such as tcp, tcp/cubic/unsent=16384/sealed=16384, tcp/bbr/links=4, quinn/bbr
    #[arg(long, value_delimiter = ',', default_value = "tcp/cubic,tcp/bbr,quinn/cubic,quinn/bbr")]
    transports: Vec<String>,
    /// Rates of the link in Mbit/s
    #[arg(long, value_delimiter = ',', default_value = "94")]
    rates: Vec<f64>,
    /// Round trips in ms
    #[arg(long, value_delimiter = ',', default_value = "50,200")]
    rtts: Vec<f64>,
    /// Loss in percent, in each direction
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,1")]
    losses: Vec<f64>,
    /// What would wait longer before the link is dropped
    #[arg(long, default_value_t = 100)]
    queue_ms: u32,
    /// Chunks of 1 MiB on their way at a time; sites fetch 8 for one reader
    #[arg(long, default_value_t = 8)]
    ahead: u32,
    /// Seconds before the part that counts
    #[arg(long, default_value_t = 5.0)]
    warm: f64,
    /// Seconds of it
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// How often all of it
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Peers whose memory is measured
    #[arg(long, default_value_t = 50)]
    peers: u32,
    /// Where the result goes; one that is there grows
    #[arg(long)]
    out: Option<PathBuf>,
    /// Measure nothing, print the table of this result
    #[arg(long, value_name = "RESULT", conflicts_with = "out")]
    show: Option<PathBuf>,
}

/// All that was measured.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    version: u32,
    commit: String,
    machine: Machine,
    rows: Vec<Row>,
}

/// One transport over one link, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    what: What,
    transport: String,
    cell: Cell,
    round: u32,
    at: String,
    load_before: f64,
    load_after: f64,
    /// Processor seconds of the emulator meanwhile: the kernel's work for what arrives is among them.
    shuttle_cpu_s: f64,
    /// What the ends said, by [`What`].
    figures: Value,
    doubts: Vec<String>,
    failure: Option<String>,
}

/// The link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Cell {
    rate_mbit: f64,
    rtt_ms: f64,
    loss_percent: f64,
    queue_ms: u32,
    ahead: u32,
}

impl Transport {
    /// Runs the verb.
    pub fn run(self) -> Ending {
        if let Some(path) = &self.show {
            print!("{}", table::of(&read(path)?.rows));
            return Ok(ExitCode::SUCCESS);
        }
        if !self.program.exists() {
            return Err(format!("{}: not there; --help says how it is built", self.program.display()));
        }
        let program = self.program.canonicalize().map_err(|error| error.to_string())?;
        let mut report = match &self.out {
            Some(path) if path.exists() => read(path)?,
            _ => Report { version: 1, commit: commit(), machine: describe(), rows: Vec::new() },
        };
        let keys = ends::Keys::make(&program, self.peers as usize + 2)?;
        sys::isolate().map_err(|error| error.to_string())?;
        let first = report.rows.len();
        for round in 0..self.rounds {
            for cell in self.cells() {
                for transport in &self.transports {
                    let row =
                        self.row(&ends::Ends { program: &program, keys: &keys, transport }, cell, round);
                    eprintln!("{}", table::line(&row));
                    report.rows.push(row);
                    self.keep(&report)?;
                }
            }
        }
        print!("{}", table::of(report.rows.get(first..).unwrap_or_default()));
        let failed = report.rows.iter().skip(first).any(|row| row.failure.is_some());
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn cells(&self) -> Vec<Cell> {
        let (queue_ms, ahead) = (self.queue_ms, self.ahead);
        let of_rate = |rate_mbit: f64| {
            self.rtts.iter().flat_map(move |&rtt_ms| {
                self.losses.iter().map(move |&loss_percent| Cell {
                    rate_mbit,
                    rtt_ms,
                    loss_percent,
                    queue_ms,
                    ahead,
                })
            })
        };
        self.rates.iter().flat_map(|&rate| of_rate(rate)).collect()
    }

    fn row(&self, ends: &ends::Ends<'_>, cell: Cell, round: u32) -> Row {
        let load_before = load()[0];
        let mut doubts = Vec::new();
        let measured = self.measure(ends, cell, round, &mut doubts);
        let (said, failure) = match measured {
            Ok(said) => (said, None),
            Err(reason) => (ends::Said::default(), Some(reason)),
        };
        Row {
            what: self.what,
            transport: ends.transport.to_owned(),
            cell,
            round,
            at: rfc3339(wall_ms()),
            load_before,
            load_after: load()[0],
            shuttle_cpu_s: said.shuttle_cpu_s,
            figures: said.figures,
            doubts,
            failure,
        }
    }

    fn measure(
        &self,
        ends: &ends::Ends<'_>,
        cell: Cell,
        round: u32,
        doubts: &mut Vec<String>,
    ) -> Result<ends::Said, String> {
        let topology =
            Topology::parse("transport", &topology(cell)).map_err(|refusal| refusal.to_string())?;
        let settings = Settings { seed: u64::from(round), ..Settings::default() };
        let wan = Wan::build_with(&topology, settings).map_err(|error| error.to_string())?;
        let said = ends.run(&wan, self.what, &self.words(cell));
        doubts.extend(wan.health().doubts());
        said
    }

    /// What the asking end is told.
    fn words(&self, cell: Cell) -> Vec<String> {
        let mut words = Vec::new();
        match self.what {
            What::Steady | What::Near => {
                let pairs =
                    [("--warm", self.warm), ("--seconds", self.seconds), ("--ahead", cell.ahead.into())];
                words.extend(pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]));
            }
            What::Move => words.push("--move".into()),
            What::Memory => words.extend(["--peers".into(), self.peers.to_string()]),
        }
        words
    }

    fn keep(&self, report: &Report) -> Result<(), String> {
        let Some(path) = &self.out else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        }
        let text = serde_json::to_string_pretty(report).map_err(|error| failed(&error))?;
        std::fs::write(path, text + "\n").map_err(|error| failed(&error))
    }
}

fn read(path: &Path) -> Result<Report, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// One who answers, one who asks, and the link between them. Their cards are faster than it.
fn topology(cell: Cell) -> String {
    let Cell { rate_mbit, rtt_ms, loss_percent, queue_ms, .. } = cell;
    let loss = loss_percent / 100.0;
    format!(
        "version = 1\n[[site]]\nname = \"answers\"\nclients = 0\n[[site]]\nname = \"asks\"\nclients = 1\n\
         [access]\nrtt_ms = 0\n[[pair]]\nfrom = \"answers\"\nto = \"asks\"\nrtt_ms = {rtt_ms}\n\
         rate_mbit = {rate_mbit}\nqueue_ms = {queue_ms}\nloss = {loss}\n"
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_the_one_that_is_asked_for() {
        let cell = Cell { rate_mbit: 94.0, rtt_ms: 200.0, loss_percent: 0.1, queue_ms: 100, ahead: 8 };
        let topology = Topology::parse("t", &topology(cell)).unwrap();
        let link = &topology.links[0][1];
        assert_eq!(link.rate, 94 * 125_000);
        assert_eq!(link.delay.as_millis(), 100);
        assert_eq!(topology.links[1][0].loss, link.loss);
        assert_eq!(topology.access.rtt.as_millis(), 0);
    }
}
