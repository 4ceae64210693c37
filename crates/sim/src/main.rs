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
use skerry_scenario::topology::Topology;
use skerry_scenario::workload::Workload;
use skerry_sim::canary::Canary;
use skerry_sim::environment::Environment;
use skerry_sim::histories::{Answered, Line};
use skerry_sim::scale::Setting;
use skerry_sim::scale::bill::{self, System};
use skerry_sim::scale::report;
use skerry_sim::trace::{Sink, say};
use skerry_sim::world::{self, Report};
use skerry_sim::{arrivals, nodes, swarm};

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
        /// Go on with further seeds until so many hours have passed, whatever `--seeds` says.
        #[arg(long)]
        hours: Option<f64>,
        #[command(flatten)]
        files: Files,
    },
    /// How long records take to other sites, over calm links: with fresh records and without.
    Arrivals {
        /// One-way delays in milliseconds.
        #[arg(long, value_delimiter = ',', default_values_t = [5, 25, 50, 100, 200])]
        delays: Vec<u64>,
        /// Seeds for each.
        #[arg(long, default_value_t = 5)]
        seeds: u64,
    },
    /// Conditional operations of many seeds as lines of JSON, for a checker that is not ours (`crates/sim/linear`).
    Histories {
        /// How many seeds.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        start: u64,
        /// With a mistake that the checker must find: who made a bucket decides, whoever is its home.
        #[arg(long)]
        two_homes: bool,
    },
    /// Sites of one to four nodes: views, leases, scope `site`, conditional operations.
    Nodes {
        /// How many seeds.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        start: u64,
        /// Make each deliberate mistake, and say which checkers find it at which seeds.
        #[arg(long)]
        mistakes: bool,
    },
    /// How the federation grows, beside a DHT, a tree, pools and full replication: a line of CSV for each number of sites.
    Scale(Growth),
    /// Figures (SVG) of such lines into a directory; their laws as a table on standard output.
    ScaleReport {
        /// Lines of `scale`.
        csv: PathBuf,
        /// Where the figures go.
        #[arg(long, default_value = "docs/simulation")]
        out: PathBuf,
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
struct Growth {
    /// Numbers of sites, three at least.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 10, 30])]
    sites: Vec<usize>,
    /// Systems: skerry, areas, kademlia, tree, pools, replicas. One in a process, if memory is to be told.
    #[arg(long, value_delimiter = ',', default_values_t = [String::from("skerry")])]
    system: Vec<String>,
    /// Of all chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds of rest that are counted.
    #[arg(long, default_value_t = 3600)]
    rest: u64,
    /// Seconds of load that are counted.
    #[arg(long, default_value_t = 600)]
    load: u64,
    /// Seconds for which the halves are cut from each other; 0: not at all.
    #[arg(long, default_value_t = 3600)]
    cut: u64,
    /// Seconds over which the links of the beginning are made; 0: all at once.
    #[arg(long, default_value_t = 0)]
    spread: u64,
    /// Seconds before anything is counted.
    #[arg(long, default_value_t = 1500)]
    settle: u64,
    /// Objects that each site makes, and looks for, in an hour of load.
    #[arg(long, default_value_t = 60.0)]
    rate: f64,
    /// Times that each site goes in an hour of churn, for ten minutes.
    #[arg(long, default_value_t = 0.1)]
    churn: f64,
    /// Without the names of the columns.
    #[arg(long)]
    bare: bool,
}

impl Growth {
    fn print(&self) -> Result<(), String> {
        let named = |name: &String| System::named(name).ok_or_else(|| format!("no system is called {name}"));
        let systems: Vec<System> = self.system.iter().map(named).collect::<Result<_, _>>()?;
        if self.sites.iter().any(|sites| *sites < 3) {
            return Err("three sites at least: two copies and one that looks for them".to_owned());
        }
        if !self.bare {
            say(bill::HEAD);
        }
        for (system, sites) in systems.iter().flat_map(|system| self.sites.iter().map(move |n| (*system, *n)))
        {
            if system == System::Skerry && sites > skerry_federation::limits::SITES {
                return Err(format!("a roster has at most {} sites", skerry_federation::limits::SITES));
            }
            let seconds = Duration::from_secs;
            let setting = Setting {
                seed: self.seed,
                rest: seconds(self.rest),
                load: seconds(self.load),
                cut: seconds(self.cut),
                spread: seconds(self.spread),
                settle: seconds(self.settle),
                writes: self.rate,
                finds: self.rate,
                churn: self.churn,
                ..Setting::of(sites)
            };
            say(system.measure(setting, &resident).line());
        }
        Ok(())
    }
}

/// Bytes of memory that this process has now; 0 where the system does not say.
#[expect(clippy::disallowed_methods, reason = "what the system says of this process, nothing of a world")]
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 4096
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
    /// Clients race with conditions as well, and homes change hands.
    #[arg(long)]
    races: bool,
    /// The same with deletes and reads, as histories record it.
    #[arg(long)]
    histories: bool,
    /// Writes wait until several sites hold them, while disks burn.
    #[arg(long)]
    scopes: bool,
    /// Sites leave buckets as well, and come back.
    #[arg(long)]
    departures: bool,
    /// Two halves are apart for months as well, and work on.
    #[arg(long)]
    halves: bool,
    /// Journals rot as well.
    #[arg(long)]
    damage: bool,
    /// Races in buckets that more lives of nodes wrote into than a document names.
    #[arg(long)]
    many_lives: bool,
}

/// What the files say.
struct Given {
    /// The flags that gave it, for the command that repeats a seed.
    flags: String,
    topology: Option<Topology>,
    workload: Option<Workload>,
    seconds: Option<u64>,
    modes: [bool; 7],
}

impl Files {
    const MODES: [&'static str; 7] =
        ["races", "histories", "scopes", "departures", "halves", "damage", "many-lives"];

    const fn modes(&self) -> [bool; 7] {
        [self.races, self.histories, self.scopes, self.departures, self.halves, self.damage, self.many_lives]
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (flag, path) in [("topology", &self.topology), ("workload", &self.workload)] {
            path.iter().try_for_each(|path| write!(f, " --{flag} {}", path.display()))?;
        }
        self.seconds.iter().try_for_each(|seconds| write!(f, " --seconds {seconds}"))?;
        let modes = Self::MODES.iter().zip(self.modes()).filter(|(_, on)| *on);
        modes.into_iter().try_for_each(|(mode, _)| write!(f, " --{mode}"))
    }
}

impl Files {
    fn read(&self) -> Result<Given, String> {
        let topology = self.topology.as_deref().map(|path| {
            Topology::parse(&path.display().to_string(), &read(path)?).map_err(|error| error.to_string())
        });
        let workload = self.workload.as_deref().map(|path| {
            Workload::parse(&path.display().to_string(), &read(path)?).map_err(|error| error.to_string())
        });
        Ok(Given {
            flags: self.to_string(),
            topology: topology.transpose()?,
            workload: workload.transpose()?,
            seconds: self.seconds,
            modes: self.modes(),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the two files named on the command line, nothing else")]
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "figures, into the directory named on the command line")]
fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Given {
    fn environment(&self, seed: u64) -> Environment {
        let mut environment =
            Environment::of_seed(seed).with_files(self.topology.as_ref(), self.workload.as_ref());
        if let Some(seconds) = self.seconds {
            environment.active = Duration::from_secs(seconds);
        }
        let [races, histories, scopes, departures, halves, damage, many_lives] = self.modes;
        if races {
            environment = environment.with_races();
        }
        if histories {
            environment = environment.with_histories();
        }
        if scopes {
            environment = environment.with_scopes();
        }
        if many_lives {
            environment = environment.with_many_lives();
        }
        if departures {
            environment = environment.with_departures();
        }
        if halves {
            environment = environment.with_halves();
        }
        if damage { environment.with_damage() } else { environment }
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
        Verb::Swarm { seeds, start, hours, files } => {
            let given = files.read()?;
            let mut totals = Totals::default();
            let night = hours.map(Night::new);
            let last = if night.is_some() { u64::MAX } else { start.saturating_add(*seeds) };
            for seed in (*start..last).take_while(|_| night.as_ref().is_none_or(|night| !night.is_over())) {
                totals.add(&judge(&given, seed, Sink::Hash, false));
            }
            say(&totals);
            Ok(totals.failed == 0)
        }
        Verb::Arrivals { delays, seeds } => {
            delays.iter().for_each(|delay| print_arrivals(*delay, *seeds));
            Ok(true)
        }
        Verb::Histories { seeds, start, two_homes } => {
            let seeds = *start..start.saturating_add(*seeds);
            Ok(seeds.filter(|seed| !print_history(*seed, *two_homes)).count() == 0)
        }
        Verb::Nodes { seeds, start, mistakes: false } => Ok(run_nodes(*start, *seeds)),
        Verb::Nodes { seeds, start, mistakes: true } => Ok(run_mistakes(*start, *seeds)),
        Verb::Scale(growth) => growth.print().map(|()| true),
        Verb::ScaleReport { csv, out } => {
            let table =
                report::Table::read(&read(csv)?).map_err(|error| format!("{}: {error}", csv.display()))?;
            let (laws, files) = report::write(&table);
            files.into_iter().try_for_each(|(name, text)| write(&out.join(name), &text))?;
            say(laws);
            Ok(true)
        }
        Verb::Run { seed, trace, files } => {
            let sink = if *trace { Sink::Print } else { Sink::Keep(40) };
            Ok(judge(&files.read()?, *seed, sink, true).passed())
        }
    }
}

/// Prints what the clients of a seed saw; says whether our own checkers had nothing to say.
fn print_history(seed: u64, two_homes: bool) -> bool {
    let mut environment = Environment::of_seed(seed).with_histories();
    if two_homes {
        Canary::TwoHomes.set_free(&mut environment);
    }
    let report = world::run(environment, Sink::Hash);
    let lines = report.operations.iter().filter(|operation| operation.answered != Answered::Refused);
    lines.for_each(|operation| say(Line(seed, operation)));
    if !report.passed() && !two_homes {
        report.violations.iter().for_each(|violation| eprintln!("seed {seed}: {violation}"));
        eprintln!("again: {} --histories", swarm::reproduction(seed));
    }
    report.passed() || two_homes
}

/// Whether all of them passed.
fn run_nodes(start: u64, seeds: u64) -> bool {
    let (mut counts, mut failed) = (BTreeMap::<_, u64>::new(), 0);
    let (mut longest, mut undecided) = (Duration::ZERO, Duration::ZERO);
    for seed in start..start.saturating_add(seeds) {
        let outcome = nodes::run(seed, None);
        outcome.counts.iter().for_each(|(what, count)| *counts.entry(*what).or_default() += count);
        longest = longest.max(outcome.longest);
        undecided = undecided.max(outcome.undecided);
        failed += u64::from(!outcome.violations.is_empty());
        for (checker, what) in &outcome.violations {
            say(format_args!("seed {seed} FAILED: {checker}: {what}"));
        }
    }
    say(format_args!(
        "{seeds} seeds, {failed} failed; with one node lost or slow no write waited longer than {longest:?}, and no bucket was without decisions for longer than {undecided:?}"
    ));
    counts.iter().for_each(|(what, count)| say(format_args!("{count:>10} {what}")));
    failed == 0
}

/// Whether each was found.
fn run_mistakes(start: u64, seeds: u64) -> bool {
    let found = |mistake: &nodes::Mistake| {
        let mut caught: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for seed in start..start.saturating_add(seeds) {
            for (checker, _) in nodes::run(seed, Some(*mistake)).violations {
                let seeds = caught.entry(checker).or_default();
                if seeds.last() != Some(&seed) {
                    seeds.push(seed);
                }
            }
        }
        say(format_args!("{mistake:?}: {caught:?}"));
        !caught.is_empty()
    };
    nodes::MISTAKES.iter().filter(|mistake| !found(mistake)).count() == 0
}

fn print_arrivals(delay: u64, seeds: u64) {
    for fresh in [false, true] {
        let found = arrivals::measure(0..seeds, Duration::from_millis(delay), fresh);
        let trips = |percent| found.percentile(percent).as_secs_f64() * 1000.0 / (2 * delay).max(1) as f64;
        let at = |percent| found.percentile(percent).as_secs_f64() * 1000.0;
        say(format_args!(
            "{delay:>4} ms one way, fresh {fresh:<5}: {:>6} arrivals, p50 {:.1} ms ({:.2} RTT), p99 {:.1} ms ({:.2} RTT), \
             max {:.1} ms; {:.0} B of messages for each",
            found.took.len(),
            at(50),
            trips(50),
            at(99),
            trips(99),
            at(100),
            found.bytes_each,
        ));
    }
}

fn judge(given: &Given, seed: u64, sink: Sink, wordy: bool) -> Report {
    let report = world::run(given.environment(seed), sink);
    if wordy || !report.passed() {
        print(&report, &given.flags);
    }
    report
}

/// How long a swarm goes on: the only clock on a real wall here, and nothing in a world can see it.
struct Night {
    began: std::time::Instant,
    length: Duration,
}

#[expect(clippy::disallowed_methods, reason = "the length of a night, not the time of a world")]
impl Night {
    fn new(hours: f64) -> Self {
        let length = Duration::from_secs_f64((hours * 3600.0).clamp(0.0, 1e9));
        Self { began: std::time::Instant::now(), length }
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.length
    }
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

fn print(report: &Report, flags: &str) {
    let Report { seed, hash, lines, violations, counts, agreed_after, tail, .. } = report;
    tail.iter().for_each(say);
    let verdict = if violations.is_empty() { "passed" } else { "FAILED" };
    say(format_args!("seed {seed} {verdict}: {lines} events, story {}", &hash.to_hex()[..16]));
    say(format_args!("  agreed after {agreed_after:?}; {counts:?}"));
    violations.iter().for_each(|violation| say(format_args!("  {violation}")));
    if !violations.is_empty() {
        say(format_args!("  again: {}{flags}", swarm::reproduction(*seed)));
    }
}
