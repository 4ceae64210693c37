//! A node's own clock: it measures spans, at a rate that is never quite right.
//!
//! Invariant: it never falls back while its process lives.

use skerry_base::Instant;

/// Right, in millionths.
const RIGHT: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// Where it stood when its rate was last changed, in the world's time and in its own.
    since: Instant,
    shown: Instant,
    rate: u64,
}

impl Clock {
    pub(super) const fn new(shown: Instant) -> Self {
        Self { since: Instant(0), shown, rate: RIGHT }
    }

    pub(super) fn read(&self, now: Instant) -> Instant {
        let passed = now.0.saturating_sub(self.since.0);
        Instant(self.shown.0 + scale(passed, self.rate, RIGHT))
    }

    /// When it will show this, in the world's time.
    pub(super) fn when(&self, shown: Instant) -> Instant {
        let left = shown.0.saturating_sub(self.shown.0);
        Instant(self.since.0.saturating_add(scale(left, RIGHT, self.rate)).saturating_add(1))
    }

    pub(super) fn run_at(&mut self, rate: u64, now: Instant) {
        (self.shown, self.since, self.rate) = (self.read(now), now, rate);
    }
}

fn scale(nanos: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(nanos) * u128::from(by) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_at_its_rate_and_says_when() {
        let mut clock = Clock::new(Instant(500));
        clock.run_at(2 * RIGHT, Instant(1000));
        assert_eq!(clock.read(Instant(1500)), Instant(2500));
        let when = clock.when(Instant(9_999));
        assert!(clock.read(when) >= Instant(9_999) && clock.read(Instant(when.0 - 2)) < Instant(9_999));
    }
}
