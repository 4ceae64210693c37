//! Figures of samples: latencies, percentiles, throughput both ways of counting, intervals over trials.
//!
//! Latencies are those of operations that succeeded; failures stand beside them, by code. Percentiles are exact
//! (nearest rank over all samples), never of means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::Sample;
use crate::target::Operation;

/// What many samples come to. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Operations that succeeded.
    pub count: u64,
    /// Operations that failed.
    pub failures: u64,
    /// Failures by code.
    pub failure_codes: BTreeMap<String, u64>,
    /// Payload bytes of those that succeeded.
    pub bytes: u64,
    /// From the first intended begin to the last end.
    pub seconds: f64,
    /// Mean latency.
    pub mean: f64,
    /// Standard deviation of the latency (sample).
    pub stddev: f64,
    /// The fastest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90 of 100 are as fast.
    pub p90: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
    /// Mean time to connect, of operations that connected.
    pub connect_mean: f64,
    /// How many connected.
    pub connects: u64,
    /// Median time to the first byte, from the true begin.
    pub first_byte_p50: f64,
    /// Mean wait for a free worker (fixed rate only).
    pub wait_mean: f64,
    /// Operations that succeeded a second.
    pub operations_per_s: f64,
    /// Bytes by the clock on the wall: `bytes / seconds`.
    pub throughput_bytes_per_s: f64,
    /// Bytes as COSBench counts: the sum over workers of bytes / time busy; idle time is not counted.
    pub busy_bytes_per_s: f64,
}

impl Summary {
    /// Of these samples; those of the warm-up are passed over.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Self {
        let mut gathered = Gathered::default();
        samples.into_iter().filter(|sample| !sample.warm_up).for_each(|sample| gathered.add(sample));
        gathered.finish()
    }

    /// One for each operation that occurs in a phase. Rates are over the time of the whole phase: an operation that
    /// came once did not come once a millisecond.
    pub fn by_operation(samples: &[Sample]) -> BTreeMap<Operation, Self> {
        let mut gathered: BTreeMap<Operation, Gathered> = BTreeMap::new();
        let mut whole = None;
        for sample in samples.iter().filter(|sample| !sample.warm_up) {
            whole = Some(widened(whole, sample));
            gathered.entry(sample.operation).or_default().add(sample);
        }
        gathered.values_mut().for_each(|gathered| gathered.span = whole);
        gathered.into_iter().map(|(operation, gathered)| (operation, gathered.finish())).collect()
    }

    /// Operations, failed ones included.
    pub const fn asked(&self) -> u64 {
        self.count + self.failures
    }
}

const NANOS: f64 = 1e9;

/// What a summary is made of.
#[derive(Default)]
struct Gathered {
    latencies: Vec<u64>,
    first_bytes: Vec<u64>,
    failure_codes: BTreeMap<String, u64>,
    bytes: u64,
    connects: u64,
    connect_ns: u64,
    wait_ns: u64,
    /// First intended begin and last end.
    span: Option<(u64, u64)>,
    /// Bytes and nanoseconds of each worker of each client in each trial.
    busy: BTreeMap<(u64, u64, u64), (u64, u64)>,
}

impl Gathered {
    fn add(&mut self, sample: &Sample) {
        self.span = Some(widened(self.span, sample));
        if !sample.failure.is_empty() {
            *self.failure_codes.entry(sample.failure.as_ref().to_owned()).or_default() += 1;
            return;
        }
        self.latencies.push(sample.total_ns);
        self.first_bytes.push(sample.first_byte_ns);
        self.bytes += sample.bytes;
        self.connects += u64::from(sample.connect_ns > 0);
        self.connect_ns += sample.connect_ns;
        self.wait_ns += sample.wait_ns;
        let busy = self.busy.entry((sample.trial, sample.client, sample.worker)).or_default();
        busy.0 += sample.bytes;
        busy.1 += sample.total_ns.saturating_sub(sample.wait_ns);
    }

    fn finish(mut self) -> Summary {
        self.latencies.sort_unstable();
        self.first_bytes.sort_unstable();
        let seconds = self.span.map_or(0.0, |(begin, end)| (end - begin) as f64 / NANOS);
        let count = self.latencies.len() as u64;
        let values: Vec<f64> = self.latencies.iter().map(|nanos| *nanos as f64 / NANOS).collect();
        let at = |share: f64| percentile(&self.latencies, share) as f64 / NANOS;
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let each =
            |nanos: u64, number: u64| if number == 0 { 0.0 } else { nanos as f64 / NANOS / number as f64 };
        let busy = self.busy.values().filter(|(_, nanos)| *nanos > 0);
        Summary {
            count,
            failures: self.failure_codes.values().sum(),
            bytes: self.bytes,
            seconds,
            mean: mean(&values),
            stddev: stddev(&values),
            min: at(0.0),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            connect_mean: each(self.connect_ns, self.connects),
            connects: self.connects,
            first_byte_p50: percentile(&self.first_bytes, 0.5) as f64 / NANOS,
            wait_mean: each(self.wait_ns, count),
            operations_per_s: rate(count as f64),
            throughput_bytes_per_s: rate(self.bytes as f64),
            busy_bytes_per_s: busy.map(|(bytes, nanos)| *bytes as f64 * NANOS / *nanos as f64).sum(),
            failure_codes: self.failure_codes,
        }
    }
}

/// First intended begin and last end, with one more operation.
fn widened(span: Option<(u64, u64)>, sample: &Sample) -> (u64, u64) {
    let end = sample.start_ns.saturating_add(sample.total_ns);
    let (begin, last) = span.unwrap_or((sample.start_ns, end));
    (begin.min(sample.start_ns), last.max(end))
}

/// The smallest value that this share of all values does not exceed (nearest rank); 0 of none. `sorted` is in order.
pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).saturating_sub(1)).copied().unwrap_or(0)
}

/// The mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The standard deviation of a sample; 0 of fewer than two.
pub fn stddev(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// A mean with what it may be off by: 95 %, Student's t, over trials that are independent of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Over how many trials.
    pub trials: u64,
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; 0 with one trial, where nothing can be said.
    pub half: f64,
}

impl Interval {
    /// Of one value for each trial.
    pub fn of(values: &[f64]) -> Self {
        let trials = values.len() as u64;
        let half =
            if trials < 2 { 0.0 } else { quantile(trials - 1) * stddev(values) / (trials as f64).sqrt() };
        Self { trials, mean: mean(values), half }
    }
}

/// Student's t for 95 % on both sides.
fn quantile(freedom: u64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table: the expansion around the normal distribution, right to a thousandth.
    let beyond = 1.960 + 2.372 / freedom as f64 + 2.82 / (freedom as f64).powi(2);
    TABLE.get(freedom as usize - 1).copied().unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn sample(start_ms: u64, total_ms: u64, worker: u64, failure: &str) -> Sample {
        Sample {
            phase: "read".into(),
            trial: 1,
            client: 0,
            worker,
            warm_up: false,
            operation: Operation::Get,
            bucket: "b".into(),
            key: "k".into(),
            bytes: 1_000_000,
            start_ns: start_ms * 1_000_000,
            wait_ns: 0,
            connect_ns: 0,
            first_byte_ns: total_ms * 500_000,
            total_ns: total_ms * 1_000_000,
            failure: failure.into(),
        }
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (share, value) in [(0.0, 1), (0.5, 50), (0.9, 90), (0.99, 99), (0.999, 100), (1.0, 100)] {
            assert_eq!(percentile(&hundred, share), value, "{share}");
        }
        assert_eq!(percentile(&[7], 0.5), 7);
        assert_eq!(percentile(&[1, 2], 0.5), 1);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[test]
    fn failures_are_counted_by_code_and_do_not_mend_the_mean() {
        let samples = [
            sample(0, 100, 0, ""),
            sample(0, 300, 1, ""),
            sample(100, 1, 0, "503 SlowDown"),
            sample(200, 5, 0, "timeout"),
        ];
        let summary = Summary::of(&samples);
        assert_eq!((summary.count, summary.failures, summary.asked()), (2, 2, 4));
        assert_eq!(summary.failure_codes.get("503 SlowDown"), Some(&1));
        assert!((summary.mean - 0.2).abs() < 1e-9 && (summary.max - 0.3).abs() < 1e-9);
        assert_eq!(summary.bytes, 2_000_000);
        let warm = Sample { warm_up: true, ..sample(0, 9_000, 0, "") };
        assert_eq!(Summary::of(samples.iter().chain([&warm])), summary);
    }

    #[test]
    fn throughput_is_counted_both_ways() {
        // One worker works 100 of 1000 ms, another 1000 ms: by the wall 2 MB/s, by busy time 10 + 1 MB/s.
        let summary = Summary::of(&[sample(0, 100, 0, ""), sample(0, 1000, 1, "")]);
        assert!((summary.throughput_bytes_per_s - 2e6).abs() < 1.0);
        assert!((summary.busy_bytes_per_s - 11e6).abs() < 1.0);
    }

    #[test]
    fn an_operation_of_a_mix_is_counted_over_the_whole_phase() {
        let rare = Sample { operation: Operation::List, ..sample(500, 10, 0, "") };
        let found = Summary::by_operation(&[sample(0, 100, 0, ""), rare, sample(900, 100, 0, "")]);
        let list = found.get(&Operation::List).unwrap();
        assert!((list.seconds - 1.0).abs() < 1e-9 && (list.operations_per_s - 1.0).abs() < 1e-9);
    }

    #[test]
    fn intervals_are_those_of_student() {
        // Ten values: mean 5.5, s = 3.02765, t(9) = 2.262, half = 2.1657.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = Interval::of(&values);
        assert!((interval.mean - 5.5).abs() < 1e-9 && (interval.half - 2.1657).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of(&[3.0]), Interval { trials: 1, mean: 3.0, half: 0.0 });
        assert_eq!(Interval::of(&[2.0; 5]).half, 0.0);
        // t(40) = 2.021, t(100) = 1.984.
        assert!((quantile(40) - 2.021).abs() < 2e-3 && (quantile(100) - 1.984).abs() < 2e-3);
    }
}
