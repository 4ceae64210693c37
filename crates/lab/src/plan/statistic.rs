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
//! | `ratio` | `a/b` | mean of phase a over mean of phase b |
//! | `throughput-ratio` | `a/b` | throughput of phase a over that of phase b |
//! | `growth:LABEL` | one phase | mean in the cell with the largest value of the label over the smallest's |
//! | `correlation` | one phase | over cells: inter-site bytes with mean time |
//! | `peak-rss` | one phase | the most memory that one process held |
//! | `later:NAME` | one phase | what cannot be computed yet: shown as missing |

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use skerry_bench::sample::{Sample, read_csv};
use skerry_scenario::workload_size::Size;

use crate::result::{Cell, LabResult, OK, PaperRow, Phase};

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
    /// Of means.
    Ratio,
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
        Ok(match name {
            "mean" => Self::Time(|summary| summary.mean),
            "p50" => Self::Time(|summary| summary.p50),
            "p90" => Self::Time(|summary| summary.p90),
            "p95" => Self::Time(|summary| summary.p95),
            "p99" => Self::Time(|summary| summary.p99),
            "min" => Self::Time(|summary| summary.min),
            "max" => Self::Time(|summary| summary.max),
            "stddev" => Self::Time(|summary| summary.stddev),
            "first-byte-p50" => Self::Time(|summary| summary.first_byte_p50),
            "order" => Self::Order(argument.parse().ok().filter(|rank| *rank > 0).ok_or_else(wrong)?),
            "step-seconds" => Self::StepSeconds,
            "throughput" => Self::Throughput,
            "throughput-busy" => Self::ThroughputBusy,
            "failures" => Self::Failures,
            "inter-site" => Self::InterSite,
            "inter-site-share" => Self::InterSiteShare,
            "site-imbalance" => Self::SiteImbalance,
            "ratio" => Self::Ratio,
            "throughput-ratio" => Self::ThroughputRatio,
            "growth" if !argument.is_empty() => Self::Growth(argument.into()),
            "correlation" => Self::Correlation,
            "peak-rss" => Self::PeakRss,
            "later" if !argument.is_empty() => Self::Later,
            _ => return Err(wrong()),
        })
    }
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
        let Ok(Statistic::Order(rank)) = Statistic::parse(&row.statistic) else { continue };
        let fits =
            |cell: &&mut Cell| row.select.iter().all(|(name, value)| cell.labels.get(name) == Some(value));
        let phases = result.cells.iter_mut().filter(fits).flat_map(|cell| &mut cell.phases);
        for phase in phases.filter(|phase| phase.name == row.phase && !phase.order.contains_key(&rank)) {
            if let Some(value) = order(directory, phase, rank) {
                phase.order.insert(rank, value);
            }
        }
    }
}

fn in_unit(value: f64, statistic: &Statistic, unit: &str) -> f64 {
    let time = matches!(statistic, Statistic::Time(_) | Statistic::Order(_) | Statistic::StepSeconds);
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
        Statistic::Order(rank) => match one.order.get(rank) {
            Some(kept) => *kept,
            None => order(directory, one, *rank)?,
        },
        Statistic::StepSeconds => one.trials.iter().map(|trial| trial.seconds).sum::<f64>() / trials,
        Statistic::Throughput => mean(one.trials.iter().map(|trial| trial.throughput_bytes_per_s)),
        Statistic::ThroughputBusy => mean(one.trials.iter().map(|trial| trial.busy_bytes_per_s)),
        Statistic::Failures => one.failures as f64,
        Statistic::InterSite => one.traffic.between_sites() as f64 / trials,
        Statistic::InterSiteShare => one.traffic.between_sites() as f64 / one.summary.bytes as f64 * 100.0,
        Statistic::SiteImbalance => imbalance(one)?,
        Statistic::Ratio => one.summary.mean / other.summary.mean,
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

fn imbalance(phase: &Phase) -> Option<f64> {
    let sent = phase.traffic.bytes.iter().enumerate().map(|(from, row)| {
        row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, bytes)| *bytes).sum::<u64>() as f64
    });
    let mut sent: Vec<f64> = sent.collect();
    sent.sort_by(f64::total_cmp);
    let busiest = sent.pop()?;
    Some(busiest / mean(sent.into_iter()))
}

fn growth(cells: &[&Cell], label: &str, name: &str) -> Option<Value> {
    let at = |cell: &&Cell| {
        let text = cell.labels.get(label)?;
        let size = || text.parse::<Size>().ok().map(|size| size.0 as f64);
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
