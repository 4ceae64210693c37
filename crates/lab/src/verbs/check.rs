//! `skerry-lab check`: measures how true the emulated network is here and now, and says so.
//!
//! Invariant: the verdict comes from probes in the hosts and from the kernel's own counters; what the emulator says
//! of itself is only what is being checked.

mod probe;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use skerry_scenario::topology::Topology;

use super::Ending;
use crate::sys;
use crate::wan::{Health, Host, Wan, WanError};

/// Round-trip times that are set, in milliseconds.
const RTTS_MS: [f64; 4] = [0.5, 10.0, 50.0, 200.0];
/// How far the median of an idle link may be off.
const RTT_ERROR_MS: f64 = 0.3;
/// Rates that are set.
const RATES_MBIT: [f64; 4] = [10.0, 90.0, 250.0, 500.0];
const RATE_ERROR: f64 = 0.05;
/// What all pairs together must carry.
const TOTAL_MBIT: f64 = 2000.0;
const TOTAL_PAIRS: usize = 8;
/// Payload of a full wire packet: 1500 bytes less headers of IP and TCP with time stamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
const PROBES: u32 = 100;
const PROBE_EVERY: Duration = Duration::from_millis(5);
const WARM: Duration = Duration::from_millis(1500);
const MEASURE: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_secs(5);

/// Measure how true the emulated network is on this machine: delays, rates, throughput, counts
#[derive(Debug, Args)]
pub struct Check {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
struct Report {
    passed: bool,
    rtt: Vec<Row>,
    rate: Vec<Row>,
    total: Vec<Row>,
    matrix: Vec<Row>,
    health: Vec<Health>,
    doubts: Vec<String>,
    load: String,
    seconds: f64,
}

/// One figure against what was set.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    set: f64,
    measured: f64,
    /// How far off, in the unit of `allowed`.
    error: f64,
    allowed: f64,
    passed: bool,
    note: String,
}

impl Check {
    /// Measures, prints, and fails if something missed.
    pub fn run(self) -> Ending {
        sys::isolate().map_err(|error| error.to_string())?;
        let report = measure().map_err(|error| error.to_string())?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
        } else {
            print!("{}", table(&report));
        }
        Ok(if report.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn measure() -> Result<Report, WanError> {
    let started = Instant::now();
    let mut report = Report { load: load(), ..Report::default() };
    for part in [delays, rates, total, matrix] {
        let wan_health = part(&mut report)?;
        report.doubts.extend(wan_health.doubts());
        report.health.push(wan_health);
    }
    let rows = [&report.rtt, &report.rate, &report.total, &report.matrix];
    report.passed = rows.iter().all(|rows| !rows.is_empty() && rows.iter().all(|row| row.passed));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// One site per value around a middle one; `matrix` gives the round trip to the middle, `pair` further words.
fn star(rtts_ms: &[f64], pair: impl Fn(usize) -> String, more: &str) -> Result<Wan, WanError> {
    let mut text = String::from("version = 1\n[[site]]\nname = \"middle\"\nclients = 0\n");
    for (number, rtt) in rtts_ms.iter().enumerate() {
        // Writing to a String can not fail.
        let _ = write!(text, "[[site]]\nname = \"s{number}\"\nclients = 0\n");
        let words = pair(number);
        let _ = write!(text, "[[pair]]\nfrom = \"middle\"\nto = \"s{number}\"\nrtt_ms = {rtt}\n{words}\n");
    }
    text.push_str(more);
    build(&text)
}

fn build(text: &str) -> Result<Wan, WanError> {
    let topology =
        Topology::parse("check", text).map_err(|refusal| std::io::Error::other(refusal.to_string()))?;
    Wan::build(&topology)
}

/// The only server of a site.
fn server(wan: &Wan, site: usize) -> Result<&Host, WanError> {
    let missing = || std::io::Error::other(format!("site {site} has no server"));
    Ok(wan.servers(site).next().ok_or_else(missing)?)
}

fn delays(report: &mut Report) -> Result<Health, WanError> {
    let wan = star(&RTTS_MS, |_| String::new(), "")?;
    for (number, set) in RTTS_MS.iter().enumerate() {
        let pair = (server(&wan, 0)?, server(&wan, number + 1)?);
        let spans = probe::round_trips(&wan, pair, PROBES, PROBE_EVERY)?;
        let at = |percent: usize| {
            let place = spans.len().saturating_sub(1) * percent / 100;
            spans.get(place).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
        };
        let (median, lost) = (at(50), PROBES as usize - spans.len());
        let note = format!("p99 {:.2}, largest {:.2}, lost {lost}", at(99), at(100));
        let row = Row::new(
            format!("round trip {set} ms"),
            "ms",
            (*set, median),
            (median - set).abs(),
            RTT_ERROR_MS,
            note,
        );
        report.rtt.push(Row { passed: row.passed && lost == 0, ..row });
    }
    Ok(wan.health())
}

fn rates(report: &mut Report) -> Result<Health, WanError> {
    let words =
        |number: usize| format!("rate_mbit = {}\nqueue_ms = 100", RATES_MBIT.get(number).unwrap_or(&1.0));
    let wan = star(&[10.0; RATES_MBIT.len()], words, "")?;
    for (number, set) in RATES_MBIT.iter().enumerate() {
        let pair = (server(&wan, 0)?, server(&wan, number + 1)?);
        let bytes = probe::throughput(&wan, &[pair], WARM, MEASURE)?.iter().sum::<f64>();
        let measured = bytes / PAYLOAD_SHARE / 125_000.0;
        let error = (measured - set).abs() / set;
        report.rate.push(Row::new(
            format!("rate {set} Mbit/s"),
            "Mbit/s",
            (*set, measured),
            error,
            RATE_ERROR,
            String::new(),
        ));
    }
    Ok(wan.health())
}

fn total(report: &mut Report) -> Result<Health, WanError> {
    let mut text = String::from("version = 1\n[link]\nrtt_ms = 10\n[site_lan]\nrate_mbit = 1000\n");
    for site in 0..2 * TOTAL_PAIRS {
        let _ = write!(text, "[[site]]\nname = \"s{site}\"\nclients = 0\n");
    }
    let wan = build(&text)?;
    let mut pairs = Vec::new();
    for pair in 0..TOTAL_PAIRS {
        pairs.push((server(&wan, 2 * pair)?, server(&wan, 2 * pair + 1)?));
    }
    let bytes = probe::throughput(&wan, &pairs, WARM, MEASURE)?.iter().sum::<f64>();
    let measured = bytes / PAYLOAD_SHARE / 125_000.0;
    let missing = (TOTAL_MBIT - measured).max(0.0);
    let note = format!("{TOTAL_PAIRS} pairs with cards of 1000 Mbit/s; at least what is set");
    report.total.push(Row::new(
        "all pairs at once".into(),
        "Mbit/s",
        (TOTAL_MBIT, measured),
        missing,
        0.0,
        note,
    ));
    Ok(wan.health())
}

/// Every ordered pair gets a number and a size of its own, then streams run: cells against what was sent, sums of
/// rows and columns against the kernel's counters.
fn matrix(report: &mut Report) -> Result<Health, WanError> {
    let wan = star(&[2.0, 4.0, 8.0], |_| "rate_mbit = 400".into(), "[link]\nrtt_ms = 6\n")?;
    let mut sinks = Vec::new();
    for host in wan.hosts() {
        sinks.push(probe::sink(&wan, host)?);
    }
    let mut wrong = 0;
    let mut sent = 0;
    for (from, to, count, bytes) in sendings(wan.hosts().len()) {
        probe::datagrams(&wan, (server(&wan, from)?, server(&wan, to)?), count, bytes)?;
        sent += u64::from(count) * (bytes as u64 + 28);
    }
    settle(&wan);
    let traffic = wan.traffic();
    for (from, to, count, bytes) in sendings(wan.hosts().len()) {
        let flow = traffic.pairs.get(from).and_then(|row| row.get(to)).copied().unwrap_or_default();
        let expected = u64::from(count) * (bytes as u64 + 28);
        wrong += u32::from(
            flow.bytes != expected || flow.delivered_bytes != expected || flow.packets != u64::from(count),
        );
    }
    let cells = sendings(wan.hosts().len()).count();
    let note = format!("{cells} cells, {wrong} differ from what was sent");
    let counted = traffic.between_sites() as f64;
    let off = (counted - sent as f64).abs() + f64::from(wrong);
    report.matrix.push(Row::new(
        "datagrams per cell".into(),
        "bytes",
        (sent as f64, counted),
        off,
        0.0,
        note,
    ));
    drop(sinks);
    let pairs = [
        (server(&wan, 0)?, server(&wan, 1)?),
        (server(&wan, 2)?, server(&wan, 3)?),
        (server(&wan, 3)?, server(&wan, 0)?),
    ];
    probe::throughput(&wan, &pairs, Duration::from_millis(200), Duration::from_millis(500))?;
    settle(&wan);
    against_the_kernel(&wan, report)?;
    Ok(wan.health())
}

/// From, to, datagrams, bytes: different for each ordered pair.
fn sendings(sites: usize) -> impl Iterator<Item = (usize, usize, u32, usize)> {
    let pairs = (0..sites).flat_map(move |from| (0..sites).map(move |to| (from, to)));
    let others = pairs.filter(|(from, to)| from != to);
    others.map(move |(from, to)| (from, to, 20 + (from * sites + to) as u32, 100 + 17 * (from * sites + to)))
}

/// Waits until nothing moves any more.
fn settle(wan: &Wan) {
    let until = Instant::now() + SETTLE;
    let mut before = wan.traffic();
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(300));
        let now = wan.traffic();
        if now == before {
            return;
        }
        before = now;
    }
}

fn against_the_kernel(wan: &Wan, report: &mut Report) -> Result<(), WanError> {
    let traffic = wan.traffic();
    let (mut kernel, mut counted, mut off) = (0, 0, 0);
    for (site, row) in traffic.pairs.iter().enumerate() {
        let sent: u64 = row.iter().map(|flow| flow.device_bytes).sum();
        let column = traffic.pairs.iter().filter_map(|row| row.get(site));
        let received: u64 = column.map(|flow| flow.device_delivered_bytes).sum();
        let interface = wan.interface(server(wan, site)?)?;
        kernel += interface.sent_bytes + interface.received_bytes;
        counted += sent + received;
        off += interface.sent_bytes.abs_diff(sent) + interface.received_bytes.abs_diff(received);
    }
    let note = "rows and columns against /proc/net/dev of each namespace".to_owned();
    report.matrix.push(Row::new(
        "bytes of streams".into(),
        "bytes",
        (kernel as f64, counted as f64),
        off as f64,
        0.0,
        note,
    ));
    Ok(())
}

impl Row {
    fn new(
        what: String,
        unit: &'static str,
        (set, measured): (f64, f64),
        error: f64,
        allowed: f64,
        note: String,
    ) -> Self {
        // Not a number is no pass.
        let passed = error <= allowed;
        Self { what, unit, set, measured, error, allowed, passed, note }
    }
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn table(report: &Report) -> String {
    let mut text = format!("{:<22}{:>14}{:>14}  {:<8}\n", "", "set", "measured", "");
    let rows = [&report.rtt, &report.rate, &report.total, &report.matrix];
    for row in rows.into_iter().flatten() {
        let digits = if row.unit == "bytes" { 0 } else { 2 };
        let verdict = if row.passed { "ok" } else { "MISSED" };
        let note = if row.note.is_empty() { String::new() } else { format!("  ({})", row.note) };
        let _ = writeln!(
            text,
            "{:<22}{:>14.digits$}{:>14.digits$}  {:<7} {verdict}{note}",
            row.what, row.set, row.measured, row.unit
        );
    }
    for doubt in &report.doubts {
        let _ = writeln!(text, "doubtful: {doubt}");
    }
    let late: Vec<String> = report.health.iter().map(|health| health.late_p99_us.to_string()).collect();
    let congestion = report.health.first().map_or("", |health| health.congestion.as_str());
    let realtime = if report.health.iter().all(|health| health.realtime) { "real-time" } else { "ordinary" };
    let _ = writeln!(
        text,
        "lateness p99 per part: {} µs; {realtime} priority; TCP by {congestion}; load {}",
        late.join(", "),
        report.load
    );
    let _ = writeln!(text, "{} in {:.0} s", if report.passed { "passed" } else { "FAILED" }, report.seconds);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_does_not_pass() {
        assert!(!Row::new(String::new(), "ms", (1.0, f64::NAN), f64::NAN, 1.0, String::new()).passed);
        assert!(Row::new(String::new(), "ms", (1.0, 1.3), 0.3, 0.3, String::new()).passed);
    }

    #[test]
    fn every_cell_gets_a_count_of_its_own() {
        let all: Vec<_> = sendings(4).collect();
        assert_eq!(all.len(), 12);
        let sums: std::collections::BTreeSet<_> =
            all.iter().map(|(.., count, bytes)| (count, bytes)).collect();
        assert_eq!(sums.len(), 12);
    }
}
