//! What of a result a paper's number is compared with: a small vocabulary, and the one place that computes it.
//!
//! | statistic | of | what |
//! |---|---|---|
//! | `mean` `p50` `p90` `p95` `p99` `min` `max` `stddev` | one phase | time of an operation |
//! | `first-byte-p50` | one phase | median time to the first byte |
//! | `order:K` | one phase | the K-th fastest operation of each client and trial, mean over them |
//! | `step-seconds` | one phase | a trial's time from first start to last end, mean |
//! | `throughput` `throughput-busy` | one phase | bytes by the wall clock; COSBench's sum of threads |
//! | `failures` | one phase | operations that failed |
//! | `inter-site` | one phase | bytes that crossed between sites, per trial |
//! | `inter-site-share` | one phase | the same over the payload moved, in percent |
//! | `site-imbalance` | one phase | bytes sent to other sites: the busiest site over the mean of the others |
//! | `sent-spread` | one phase | bytes sent to other sites: the site that sent most over the one that sent least |
//! | `packets-at:SITE` | one phase | packets between a site and the others, per second |
//! | `packets-caused:SITE` `bytes-caused:SITE` | `a/b` | what passed between a site and the others in phase a beyond what did in the same time of phase b |
//! | `link-use:FROM>TO` | one phase | bytes on the link from one site to another over what it can carry in that time, in percent |
//! | `link-use-flowing:FROM>TO` | one phase | the same from the moment on from which bytes flow between sites; for phases that wait |
//! | `until-flowing` | one phase | that moment, from the begin |
//! | `inter-site-each` | `a/b` | bytes between sites in phase a for each operation of phase b |
//! | `ratio` | `a/b` | mean of phase a over mean of phase b; `ratio:p99` of another time |
//! | `order-ratio:K/J` | one phase | the K-th fastest operation of each client over the J-th, means over clients and trials |
//! | `throughput-ratio` | `a/b` | throughput of phase a over that of phase b |
//! | `growth:LABEL` | one phase | mean in the cell with the largest value of the label over the smallest's |
//! | `correlation` | one phase | over cells: inter-site bytes with mean time |
//! | `peak-rss` | one phase | the most memory that one process held |
//! | `later:NAME` | one phase | what cannot be computed yet: shown as missing |

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use skerry_bench::sample::{Sample, read_csv};
use skerry_scenario::topology::Topology;
use skerry_scenario::workload_size::ObjectSize;

use crate::result::{Cell, FLOWING, LabResult, OK, PaperRow, Phase};

/// One of the table above.
#[derive(Debug, Clone)]
pub enum Statistic {
    /// A field of the summary, in seconds.
    Time(fn(&skerry_bench::summary::Summary) -> f64),
    /// The K-th fastest.
    Order(usize),
    /// A trial's length.
    StepSeconds,
    /// By the wall clock.
    Throughput,
    /// As COSBench counts.
    ThroughputBusy,
    /// Failed operations.
    Failures,
    /// Bytes between sites.
    InterSite,
    /// In percent of the payload.
    InterSiteShare,
    /// The busiest site over the others.
    SiteImbalance,
    /// Most over least.
    SentSpread,
    /// Per second, at a site.
    PacketsAt(String),
    /// At a site, beyond another phase.
    Caused(String, Unit),
    /// Of a link from site to site; only while bytes flow, if so.
    LinkUse(String, String, bool),
    /// When bytes began to flow.
    UntilFlowing,
    /// For each operation of another phase.
    InterSiteEach,
    /// Of a field of the summary.
    Ratio(fn(&skerry_bench::summary::Summary) -> f64),
    /// Of two ranks.
    OrderRatio(usize, usize),
    /// Of throughputs.
    ThroughputRatio,
    /// Along a label.
    Growth(String),
    /// Over cells.
    Correlation,
    /// Of the largest process.
    PeakRss,
    /// Nothing yet.
    Later,
}

/// What is counted at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes, headers of IP included.
    Bytes,
}

/// One value with the labels of the cell that it comes from; none if it comes from several.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Labels of the cell.
    pub labels: BTreeMap<String, String>,
    /// In the unit of the row.
    pub value: f64,
}

impl Statistic {
    /// The one of that name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let wrong = || format!("{text:?} is no statistic; docs/lab.md lists them");
        let rank = |text: &str| text.parse().ok().filter(|rank: &usize| *rank > 0);
        let ranks = |text: &str| text.split_once('/').and_then(|(a, b)| Some((rank(a)?, rank(b)?)));
        let site = || Some(argument.to_owned()).filter(|site| !site.is_empty()).ok_or_else(wrong);
        let ends = || argument.split_once('>').filter(|(from, to)| !from.is_empty() && !to.is_empty());
        if let Some(field) = field(name).filter(|_| argument.is_empty()) {
            return Ok(Self::Time(field));
        }
        Ok(match name {
            "order" => Self::Order(rank(argument).ok_or_else(wrong)?),
            "order-ratio" => ranks(argument).map(|(a, b)| Self::OrderRatio(a, b)).ok_or_else(wrong)?,
            "step-seconds" => Self::StepSeconds,
            "throughput" => Self::Throughput,
            "throughput-busy" => Self::ThroughputBusy,
            "failures" => Self::Failures,
            "inter-site" => Self::InterSite,
            "inter-site-share" => Self::InterSiteShare,
            "site-imbalance" => Self::SiteImbalance,
            "sent-spread" => Self::SentSpread,
            "packets-at" => Self::PacketsAt(site()?),
            "packets-caused" => Self::Caused(site()?, Unit::Packets),
            "bytes-caused" => Self::Caused(site()?, Unit::Bytes),
            "link-use" | "link-use-flowing" => {
                let flowing = name == "link-use-flowing";
                ends().map(|(from, to)| Self::LinkUse(from.into(), to.into(), flowing)).ok_or_else(wrong)?
            }
            "until-flowing" => Self::UntilFlowing,
            "inter-site-each" => Self::InterSiteEach,
            "ratio" if argument.is_empty() => Self::Ratio(|summary| summary.mean),
            "ratio" => Self::Ratio(field(argument).ok_or_else(wrong)?),
            "throughput-ratio" => Self::ThroughputRatio,
            "growth" if !argument.is_empty() => Self::Growth(argument.into()),
            "correlation" => Self::Correlation,
            "peak-rss" => Self::PeakRss,
            "later" if !argument.is_empty() => Self::Later,
            _ => return Err(wrong()),
        })
    }
}

/// The time of a summary that is called so.
fn field(name: &str) -> Option<fn(&skerry_bench::summary::Summary) -> f64> {
    Some(match name {
        "mean" => |summary| summary.mean,
        "p50" => |summary| summary.p50,
        "p90" => |summary| summary.p90,
        "p95" => |summary| summary.p95,
        "p99" => |summary| summary.p99,
        "min" => |summary| summary.min,
        "max" => |summary| summary.max,
        "stddev" => |summary| summary.stddev,
        "first-byte-p50" => |summary| summary.first_byte_p50,
        _ => return None,
    })
}

/// Ours for a row of a paper, in the row's unit: one value for each cell that the row selects. `directory` is where
/// the result lies.
pub fn evaluate(directory: &Path, result: &LabResult, row: &PaperRow) -> Vec<Value> {
    let Ok(statistic) = Statistic::parse(&row.statistic) else { return Vec::new() };
    let chosen = |cell: &&Cell| {
        cell.status == OK && row.select.iter().all(|(name, value)| cell.labels.get(name) == Some(value))
    };
    let cells: Vec<&Cell> = result.cells.iter().filter(chosen).collect();
    let values: Vec<Value> = match &statistic {
        Statistic::Growth(label) => growth(&cells, label, &row.phase).into_iter().collect(),
        Statistic::Correlation => correlation(&cells, &row.phase).into_iter().collect(),
        _ => {
            let of = |cell: &&Cell| {
                let value = in_cell(directory, cell, &statistic, &row.phase)?;
                Some(Value { labels: cell.labels.clone(), value })
            };
            cells.iter().filter_map(of).collect()
        }
    };
    let scaled = |value: Value| Value { value: in_unit(value.value, &statistic, &row.unit), ..value };
    values.into_iter().map(scaled).filter(|value: &Value| value.value.is_finite()).collect()
}

/// Notes in a result what its paper's numbers need of single operations, so that it can do without them.
pub fn remember(directory: &Path, result: &mut LabResult) {
    for row in &result.paper_rows {
        let ranks = match Statistic::parse(&row.statistic) {
            Ok(Statistic::Order(rank)) => vec![rank],
            Ok(Statistic::OrderRatio(one, other)) => vec![one, other],
            _ => continue,
        };
        let fits =
            |cell: &&mut Cell| row.select.iter().all(|(name, value)| cell.labels.get(name) == Some(value));
        let phases = result.cells.iter_mut().filter(fits).flat_map(|cell| &mut cell.phases);
        for phase in phases.filter(|phase| phase.name == row.phase) {
            for rank in &ranks {
                if let Some(value) = kth(directory, phase, *rank) {
                    phase.order.insert(*rank, value);
                }
            }
        }
    }
}

fn in_unit(value: f64, statistic: &Statistic, unit: &str) -> f64 {
    let time = matches!(
        statistic,
        Statistic::Time(_) | Statistic::Order(_) | Statistic::StepSeconds | Statistic::UntilFlowing
    );
    match unit {
        "ms" if time => value * 1e3,
        "kB" => value / 1e3,
        "MB" | "MB/s" => value / 1e6,
        "Mbit/s" => value * 8.0 / 1e6,
        _ => value,
    }
}

fn phase<'a>(cell: &'a Cell, name: &str) -> Option<&'a Phase> {
    cell.phases.iter().find(|phase| phase.name == name)
}

fn in_cell(directory: &Path, cell: &Cell, statistic: &Statistic, names: &str) -> Option<f64> {
    let (first, second) = names.split_once('/').unwrap_or((names, names));
    let (one, other) = (phase(cell, first)?, phase(cell, second)?);
    let trials = one.trials.len().max(1) as f64;
    Some(match statistic {
        Statistic::Time(field) => field(&one.summary),
        Statistic::Order(rank) => kth(directory, one, *rank)?,
        Statistic::OrderRatio(rank, under) => kth(directory, one, *rank)? / kth(directory, one, *under)?,
        Statistic::StepSeconds => one.trials.iter().map(|trial| trial.seconds).sum::<f64>() / trials,
        Statistic::Throughput => mean(one.trials.iter().map(|trial| trial.throughput_bytes_per_s)),
        Statistic::ThroughputBusy => mean(one.trials.iter().map(|trial| trial.busy_bytes_per_s)),
        Statistic::Failures => one.failures as f64,
        Statistic::InterSite => one.traffic.between_sites() as f64 / trials,
        Statistic::InterSiteShare => one.traffic.between_sites() as f64 / one.summary.bytes as f64 * 100.0,
        Statistic::SiteImbalance => imbalance(one)?,
        Statistic::SentSpread => {
            let sent = sent(one);
            sent.iter().copied().reduce(f64::max)? / sent.iter().copied().reduce(f64::min)?
        }
        Statistic::PacketsAt(site) => at(cell, one, site, Unit::Packets)? / watched(one)?,
        Statistic::Caused(site, unit) => {
            at(cell, one, site, *unit)? - at(cell, other, site, *unit)? * watched(one)? / watched(other)?
        }
        Statistic::LinkUse(from, to, flowing) => {
            let before = if *flowing { flowing_at(one)? } else { 0.0 };
            link_use(cell, one, (from, to), watched(one)? - before)?
        }
        Statistic::UntilFlowing => flowing_at(one)?,
        Statistic::InterSiteEach => crossed(one)? / other.operations as f64,
        Statistic::Ratio(field) => field(&one.summary) / field(&other.summary),
        Statistic::ThroughputRatio => {
            one.summary.throughput_bytes_per_s / other.summary.throughput_bytes_per_s
        }
        Statistic::PeakRss => one.processes.iter().map(|process| process.peak_rss_bytes).max()? as f64,
        Statistic::Growth(_) | Statistic::Correlation | Statistic::Later => return None,
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Bytes between sites; none if they were not counted.
fn crossed(phase: &Phase) -> Option<f64> {
    (!phase.traffic.bytes.is_empty()).then(|| phase.traffic.between_sites() as f64)
}

/// How long a phase's traffic was counted, in seconds.
fn watched(phase: &Phase) -> Option<f64> {
    Some(phase.seconds + phase.settled_seconds).filter(|seconds| *seconds > 0.0)
}

/// What passed between a site and the others, both ways.
fn at(cell: &Cell, phase: &Phase, site: &str, unit: Unit) -> Option<f64> {
    let place = cell.sites.iter().position(|name| name == site)?;
    let matrix = match unit {
        Unit::Packets => &phase.traffic.packets,
        Unit::Bytes => &phase.traffic.bytes,
    };
    let others = (0..matrix.len()).filter(|other| *other != place);
    let both = |other: usize| Some(matrix.get(place)?.get(other)? + matrix.get(other)?.get(place)?);
    matrix.get(place)?;
    Some(others.filter_map(both).sum::<u64>() as f64)
}

/// When bytes began to flow between sites, from the begin of the phase's last trial.
fn flowing_at(phase: &Phase) -> Option<f64> {
    phase.events.iter().rfind(|event| event.what == FLOWING).map(|event| event.at_seconds)
}

/// In percent of what the cell's topology lets pass from one site to another in that time.
fn link_use(cell: &Cell, phase: &Phase, (from, to): (&str, &str), seconds: f64) -> Option<f64> {
    let place = |site: &str| cell.sites.iter().position(|name| name == site);
    let (from, to) = (place(from)?, place(to)?);
    let topology = Topology::parse("topology", &cell.topology).ok()?;
    // In bytes a second; one without a limit has no share.
    let rate = Some(topology.links.get(from)?.get(to)?.rate).filter(|rate| *rate > 0)?;
    let bytes = *phase.traffic.bytes.get(from)?.get(to)?;
    Some(bytes as f64 / (rate as f64 * seconds) * 100.0)
}

/// The K-th fastest, as it was noted or from the operations themselves.
fn kth(directory: &Path, phase: &Phase, rank: usize) -> Option<f64> {
    phase.order.get(&rank).copied().or_else(|| order(directory, phase, rank))
}

fn order(directory: &Path, phase: &Phase, rank: usize) -> Option<f64> {
    let samples = read_csv(File::open(directory.join(&phase.csv)).ok()?).ok()?;
    let mut groups: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample: &&Sample| sample.failure.is_empty()) {
        groups.entry((sample.trial, sample.client)).or_default().push(sample.total_ns);
    }
    let kth = groups.into_values().filter_map(|mut times| {
        times.sort_unstable();
        times.get(rank - 1).map(|nanos| *nanos as f64 / 1e9)
    });
    Some(mean(kth)).filter(|value| value.is_finite())
}

/// Bytes that each site sent to others.
fn sent(phase: &Phase) -> Vec<f64> {
    let rows = phase.traffic.bytes.iter().enumerate();
    let others = |(from, row): (usize, &Vec<u64>)| {
        row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, bytes)| *bytes).sum::<u64>() as f64
    };
    rows.map(others).collect()
}

fn imbalance(phase: &Phase) -> Option<f64> {
    let mut sent = sent(phase);
    sent.sort_by(f64::total_cmp);
    let busiest = sent.pop()?;
    Some(busiest / mean(sent.into_iter()))
}

fn growth(cells: &[&Cell], label: &str, name: &str) -> Option<Value> {
    let at = |cell: &&Cell| {
        let text = cell.labels.get(label)?;
        let size = || text.parse::<ObjectSize>().ok().map(|size| size.0 as f64);
        let along = text.parse::<f64>().ok().or_else(size)?;
        Some((along, phase(cell, name)?.summary.mean))
    };
    let mut points: Vec<(f64, f64)> = cells.iter().filter_map(at).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, first), (high, last)) = (points.first()?, points.last()?);
    (high > low).then(|| Value { labels: BTreeMap::new(), value: last / first })
}

fn correlation(cells: &[&Cell], name: &str) -> Option<Value> {
    let of = |cell: &&Cell| {
        let phase = phase(cell, name)?;
        Some((phase.traffic.between_sites() as f64, phase.summary.mean))
    };
    let points: Vec<(f64, f64)> = cells.iter().filter_map(of).collect();
    let (x, y) = (mean(points.iter().map(|point| point.0)), mean(points.iter().map(|point| point.1)));
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    let value = sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt();
    (points.len() > 2 && value.is_finite()).then(|| Value { labels: BTreeMap::new(), value })
}
