//! Memory, threads, processor time and open files of this process, read from /proc/self when asked for.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::trust::files;

/// Reads /proc/self; tells nothing where there is none.
#[derive(Debug)]
pub(super) struct Process;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reading {
    resident_bytes: i64,
    threads: i64,
    cpu_seconds: f64,
}

/// Clock ticks of /proc per second: fixed at 100 for programs on every Linux architecture we build for.
const TICKS: f64 = 100.0;

fn read() -> Option<Reading> {
    let status = files::read_text(std::path::Path::new("/proc/self/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    let stat = files::read_text(std::path::Path::new("/proc/self/stat")).ok()?;
    // The name of the program is in brackets and may hold anything: count from behind them.
    let (_, after) = stat.rsplit_once(')')?;
    let mut numbers = after.split_whitespace().skip(11).map(|number| number.parse::<u64>().unwrap_or(0));
    let ticks = numbers.next()? + numbers.next()?;
    Some(Reading {
        resident_bytes: field("VmRSS:")? * 1024,
        threads: field("Threads:")?,
        cpu_seconds: ticks as f64 / TICKS,
    })
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(now) = read() else { return Ok(()) };
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory", now.resident_bytes),
            ("process_threads", "Threads", now.threads),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        let help = "Processor time of user and system";
        let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(now.cpu_seconds).encode(metric)
    }
}
