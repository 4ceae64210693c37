//! `[load]` of a workload file: what only those need who measure real time, the load generator and the lab. The
//! simulator, whose time is virtual, passes over it.
//!
//! ```toml
//! [load]                   # all of it may be left out
//! threads = 16             # requests at once of a client process; `clients` if absent
//! arrival = "at-once"      # or { spread_ms = 1000 }, or { per_second = 200.0 }
//! operations = 10000       # the end, or …
//! seconds = 60.0           # … this; 10 seconds if neither is given
//! warm_up_seconds = 5.0
//! trials = 10
//! head = 5                 # a weight beside those of the mix
//! theta = 0.99             # exponent of zipf
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// When operations begin.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// All workers at once, each its next one after the answer.
    #[default]
    AtOnce,
    /// The same, but each worker's first one is delayed at random within so many milliseconds (YCSB's `-target`).
    #[serde(rename = "spread_ms")]
    Spread(u64),
    /// So many a second, whatever the answers do; latency counts from the intended begin, also while all workers
    /// are busy (no coordinated omission).
    #[serde(rename = "per_second")]
    Rate(f64),
}

/// How to put a workload on a real system.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Load {
    /// Requests at once; the workload's clients if absent.
    pub threads: Option<u64>,
    /// When operations begin.
    pub arrival: Arrival,
    /// The end by number.
    pub operations: Option<u64>,
    /// The end by time.
    pub seconds: Option<f64>,
    /// What is left out of the figures at the begin.
    pub warm_up_seconds: f64,
    /// How often it is measured.
    pub trials: Option<u64>,
    /// Weight of HEAD beside the mix.
    pub head: u64,
    /// Exponent of zipf.
    pub theta: Option<f64>,
}

/// The section as it stands in the file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LoadEntry {
    threads: Option<Spanned<u64>>,
    arrival: Option<Spanned<Arrival>>,
    operations: Option<Spanned<u64>>,
    seconds: Option<Spanned<f64>>,
    warm_up_seconds: Option<Spanned<f64>>,
    trials: Option<Spanned<u64>>,
    head: u32,
    theta: Option<Spanned<f64>>,
}

type Fault = (Range<usize>, String);

/// Takes a value out of its place in the file, unless it is out of bounds.
fn bounded<T: Copy>(
    found: Option<&Spanned<T>>,
    good: impl Fn(T) -> bool,
    reason: &str,
) -> Result<Option<T>, Fault> {
    match found {
        Some(found) if !good(*found.get_ref()) => Err((found.span(), reason.into())),
        found => Ok(found.map(|found| *found.get_ref())),
    }
}

impl LoadEntry {
    pub(crate) fn check(&self) -> Result<Load, Fault> {
        let a_day = |seconds: f64| seconds > 0.0 && seconds <= 86_400.0;
        let arrives = |arrival| match arrival {
            Arrival::AtOnce => true,
            Arrival::Spread(spread_ms) => spread_ms <= 3_600_000,
            Arrival::Rate(rate) => rate > 0.0 && rate <= 1e6,
        };
        let arrival = bounded(
            self.arrival.as_ref(),
            arrives,
            "arrival: spread_ms is an hour at most, per_second is above 0 and a million at most",
        )?;
        Ok(Load {
            threads: bounded(
                self.threads.as_ref(),
                |n| (1..=10_000).contains(&n),
                "threads is from 1 to 10000",
            )?,
            arrival: arrival.unwrap_or_default(),
            operations: bounded(self.operations.as_ref(), |n| n > 0, "operations is at least 1")?,
            seconds: bounded(self.seconds.as_ref(), a_day, "seconds is above 0, a day at most")?,
            warm_up_seconds: bounded(
                self.warm_up_seconds.as_ref(),
                |seconds| seconds == 0.0 || a_day(seconds),
                "warm_up_seconds is from 0 to a day",
            )?
            .unwrap_or(0.0),
            trials: bounded(
                self.trials.as_ref(),
                |n| (1..=10_000).contains(&n),
                "trials is from 1 to 10000",
            )?,
            head: u64::from(self.head),
            theta: bounded(self.theta.as_ref(), |t| t > 0.0 && t <= 10.0, "theta is above 0 and 10 at most")?,
        })
    }
}
