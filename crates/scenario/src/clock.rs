//! Two clocks: the world's, which is right and which nobody in the world can read as a date, and each site's
//! clock on the wall, which is never synchronised.
//!
//! A wall clock starts with an error, drifts, and may jump; between jumps it is a linear function of virtual
//! time, so reading it draws nothing.

use std::time::Duration;

use skerry_base::{Instant, WallTime};

/// 2026-01-01 in milliseconds: the true date at the start of every world.
pub const EPOCH_MS: u64 = 1_767_225_600_000;

/// The clock on one site's wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WallClock {
    /// Milliseconds by which it was wrong at the start, plus all jumps since.
    pub offset_ms: i64,
    /// How many millionths it runs too fast (or too slow).
    pub drift_ppm: i64,
}

impl WallClock {
    /// What it shows at a moment of virtual time.
    pub fn read(&self, now: Instant) -> WallTime {
        let true_ms = now.0 / 1_000_000;
        let drift = i128::from(true_ms) * i128::from(self.drift_ppm) / 1_000_000;
        let shown = i128::from(EPOCH_MS) + i128::from(true_ms) + drift + i128::from(self.offset_ms);
        WallTime(u64::try_from(shown).unwrap_or(0))
    }

    /// Somebody sets it forward or back.
    pub const fn jump(&mut self, by_ms: i64) {
        self.offset_ms = self.offset_ms.saturating_add(by_ms);
    }
}

/// The true date, which only checkers may know.
pub fn true_wall(now: Instant) -> WallTime {
    WallClock::default().read(now)
}

/// Seconds as a span.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Milliseconds as a span.
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Days as a span.
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_wrong_drift_and_jump() {
        let mut clock = WallClock { offset_ms: -5_000, drift_ppm: 100 };
        assert_eq!(clock.read(Instant(0)), WallTime(EPOCH_MS - 5_000));
        let later = Instant(0).after(seconds(10_000));
        assert_eq!(clock.read(later), WallTime(EPOCH_MS - 5_000 + 10_000_000 + 1_000));
        clock.jump(-3_600_000);
        assert_eq!(clock.read(later), WallTime(EPOCH_MS - 5_000 + 10_000_000 + 1_000 - 3_600_000));
    }

    #[test]
    fn a_clock_before_1970_shows_1970() {
        let clock = WallClock { offset_ms: i64::MIN, drift_ppm: 0 };
        assert_eq!(clock.read(Instant(0)), WallTime(0));
    }
}
