//! `skerry-sim`: storms by number.
//!
//! `swarm` runs many seeds and stops at none; `run` runs one and can tell its whole story. The exit code is 1
//! if any promise was broken, and every failing seed is printed with the command that repeats it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use skerry_sim::environment::Environment;
use skerry_sim::swarm;
use skerry_sim::topology::Topology;
use skerry_sim::trace::Sink;
use skerry_sim::workload::Workload;
use skerry_sim::world::{self, Report};

#[derive(Parser)]
#[command(name = "skerry-sim", about = "The world of Skerry in one thread: storms by number")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Many seeds.
    Swarm {
        /// How many.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        start: u64,
        #[command(flatten)]
        files: Files,
    },
    /// One seed.
    Run {
        /// Which.
        #[arg(long)]
        seed: u64,
        /// Print every event.
        #[arg(long)]
        trace: bool,
        #[command(flatten)]
        files: Files,
    },
}

#[derive(Args)]
struct Files {
    /// Where the sites are, instead of a draw.
    #[arg(long)]
    topology: Option<PathBuf>,
    /// What clients ask for, instead of a draw.
    #[arg(long)]
    workload: Option<PathBuf>,
    /// How long clients ask and faults strike, in seconds of virtual time, instead of a draw.
    #[arg(long)]
    seconds: Option<u64>,
}

/// What the files say.
struct Given {
    topology: Option<Topology>,
    workload: Option<Workload>,
    seconds: Option<u64>,
}

impl Files {
    fn read(&self) -> Result<Given, String> {
        let topology = self.topology.as_deref().map(|path| {
            Topology::parse(&path.display().to_string(), &read(path)?).map_err(|error| error.to_string())
        });
        let workload = self.workload.as_deref().map(|path| {
            Workload::parse(&path.display().to_string(), &read(path)?).map_err(|error| error.to_string())
        });
        let seconds = self.seconds;
        Ok(Given { topology: topology.transpose()?, workload: workload.transpose()?, seconds })
    }
}

#[expect(clippy::disallowed_methods, reason = "the two files named on the command line, nothing else")]
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl Given {
    fn environment(&self, seed: u64) -> Environment {
        let mut environment = Environment::of_files(seed, self.topology.as_ref(), self.workload.as_ref());
        if let Some(seconds) = self.seconds {
            environment.active = Duration::from_secs(seconds);
        }
        environment
    }
}

fn main() -> ExitCode {
    match carry_out(&Arguments::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("skerry-sim: {error}");
            ExitCode::from(2)
        }
    }
}

fn carry_out(verb: &Verb) -> Result<bool, String> {
    match verb {
        Verb::Swarm { seeds, start, files } => {
            let given = files.read()?;
            let last = start.saturating_add(*seeds);
            let mut totals = Totals::default();
            for seed in *start..last {
                totals.add(&judge(&given, seed, Sink::Hash, false));
            }
            println!("{totals}");
            Ok(totals.failed == 0)
        }
        Verb::Run { seed, trace, files } => {
            let sink = if *trace { Sink::Print } else { Sink::Keep(40) };
            Ok(judge(&files.read()?, *seed, sink, true).passed())
        }
    }
}

fn judge(given: &Given, seed: u64, sink: Sink, wordy: bool) -> Report {
    let report = world::run(given.environment(seed), sink);
    if wordy || !report.passed() {
        print(&report);
    }
    report
}

/// What a swarm came to.
#[derive(Default)]
struct Totals {
    seeds: u64,
    failed: u64,
    counts: BTreeMap<&'static str, u64>,
    slowest: Duration,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.failed += u64::from(!report.passed());
        self.slowest = self.slowest.max(report.agreed_after.unwrap_or_default());
        for (what, count) in &report.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, failed, counts, slowest } = self;
        writeln!(f, "{seeds} seeds, {failed} failed, slowest agreement {slowest:?} after healing")?;
        counts.iter().try_for_each(|(what, count)| writeln!(f, "{count:>10} {what}"))
    }
}

fn print(report: &Report) {
    let Report { seed, hash, lines, violations, counts, agreed_after, tail } = report;
    tail.iter().for_each(|line| println!("{line}"));
    let verdict = if violations.is_empty() { "passed" } else { "FAILED" };
    println!("seed {seed} {verdict}: {lines} events, story {}", &hash.to_hex()[..16]);
    println!("  agreed after {agreed_after:?}; {counts:?}");
    violations.iter().for_each(|violation| println!("  {violation}"));
    if !violations.is_empty() {
        println!("  again: {}", swarm::reproduction(*seed));
    }
}
