//! How long the disk lasts: from what was taken each hour of the last week.
//!
//! What can be evicted does not count: it is room. Invariants: at most [`SAMPLES`] samples; a clock that went back
//! forgets what was sampled after the time it shows; less than an hour tells nothing.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use skerry_base::WallTime;
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_gateway::service::Outcome;
use skerry_model::space;
use skerry_storage::{ClassUsage, Usage};

use crate::site::unreadable;

/// Where it is remembered, in the node's own table.
pub(crate) const GROWTH: &[u8] = b"growth";

/// A week of hours.
const SAMPLES: usize = 168;
/// Time between samples.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: f64 = 86_400_000.0;

/// Bytes taken at certain times.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Growth {
    samples: VecDeque<(WallTime, u64)>,
}

impl Versioned for Growth {
    const NAME: &'static str = "growth of what is stored";
    const VERSION: u8 = 1;
}

/// What is taken for good, and what is still to be had.
pub(crate) fn taken_and_room(usage: &Usage) -> (u64, u64) {
    let of = |class: ClassUsage| class.allocated.saturating_sub(class.dead);
    (of(usage.journal) + of(usage.payload) + usage.index, usage.free + usage.cached.bytes)
}

impl Growth {
    /// What was remembered; nothing if it does not read.
    pub(crate) fn remembered(view: &dyn View) -> Outcome<Self> {
        let found = space::local(view, GROWTH).map_err(unreadable)?;
        Ok(found.and_then(|bytes| codec::decode(&bytes).ok()).unwrap_or_default())
    }

    /// So many bytes are taken now; true if a sample was added, which is worth remembering.
    pub(crate) fn sample(&mut self, now: WallTime, bytes: u64) -> bool {
        while self.samples.back().is_some_and(|(at, _)| *at > now) {
            self.samples.pop_back();
        }
        if self.samples.back().is_some_and(|(at, _)| now.0 - at.0 < HOUR_MS) {
            return false;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, bytes));
        true
    }

    /// Days until there is no room any more, given what is taken and what is still to be had; infinite if it does not grow; none if that cannot be told yet.
    pub(crate) fn days_to_full(&self, now: WallTime, (bytes, room): (u64, u64)) -> Option<f64> {
        let (since, before) =
            self.samples.iter().find(|(at, _)| now.0.saturating_sub(at.0) <= SAMPLES as u64 * HOUR_MS)?;
        let span = now.0.saturating_sub(since.0);
        if span < HOUR_MS {
            return None;
        }
        let grown = bytes.saturating_sub(*before);
        if grown == 0 {
            return Some(f64::INFINITY);
        }
        Some(room as f64 / grown as f64 * span as f64 / DAY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = HOUR_MS;

    #[test]
    fn a_steady_growth_says_when_the_disk_is_full() {
        let mut growth = Growth::default();
        assert_eq!(growth.days_to_full(WallTime(0), (0, 1000)), None);
        for hour in 0..400 {
            assert!(growth.sample(WallTime(hour * HOUR), hour * 10));
            assert!(!growth.sample(WallTime(hour * HOUR + 1), hour * 10 + 5));
            assert!(growth.samples.len() <= SAMPLES);
        }
        let days = growth.days_to_full(WallTime(400 * HOUR), (4000, 480));
        assert!(days.is_some_and(|days| (days - 2.0).abs() < 0.05), "{days:?}");
        assert_eq!(growth.days_to_full(WallTime(400 * HOUR), (100, 480)), Some(f64::INFINITY), "it shrank");
        assert_eq!(growth.days_to_full(WallTime(400 * HOUR), (4000, 0)), Some(0.0));
        // Off for two weeks: what was sampled then says nothing of now.
        assert_eq!(growth.days_to_full(WallTime(900 * HOUR), (4000, 480)), None);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_the_future() {
        let mut growth = Growth::default();
        growth.sample(WallTime(10 * HOUR), 10);
        growth.sample(WallTime(500 * HOUR), 20);
        assert!(!growth.sample(WallTime(10 * HOUR + 5), 30));
        assert!(growth.sample(WallTime(11 * HOUR), 40));
        assert_eq!(growth.samples.len(), 2);
    }
}
