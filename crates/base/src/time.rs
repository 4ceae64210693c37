//! Time as three different things that must not be mixed up.
//!
//! [`Instant`] is monotonic and only measures spans; [`WallTime`] is what a clock on the wall says and may be
//! wrong; [`Hlc`] is the hybrid logical clock that orders records.

use core::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Monotonic nanoseconds since an arbitrary start of this process (or of the simulated world).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Instant(pub u64);

impl Instant {
    /// This instant plus a span; saturates at the end of time.
    pub const fn after(self, span: Duration) -> Self {
        let nanos = span.as_nanos();
        Self(self.0.saturating_add(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }))
    }

    /// The span since an earlier instant; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Milliseconds since 1970-01-01 UTC as some clock on the wall says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WallTime(pub u64);

/// Hybrid logical clock: 48 bits of milliseconds, 16 bits of counter. Orders concurrent records and stamps
/// successors after their predecessors; never used to decide what a context already decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Hlc(pub u64);

impl Hlc {
    /// The first stamp of a millisecond.
    pub const fn at(wall: WallTime) -> Self {
        Self(wall.0 << 16)
    }

    /// The wall time it was derived from.
    pub const fn wall(self) -> WallTime {
        WallTime(self.0 >> 16)
    }

    /// The next stamp.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.wall().0, self.0 & 0xffff)
    }
}

/// A node's own hybrid logical clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct HlcClock {
    last: Hlc,
}

impl HlcClock {
    /// A clock that never goes below `last`, the highest own stamp found on disk.
    pub const fn resume(last: Hlc) -> Self {
        Self { last }
    }

    /// The highest own stamp given or resumed from; stamps after predecessors from the future do not count.
    pub const fn last(&self) -> Hlc {
        self.last
    }

    /// Stamps an own record. `predecessor` is the highest clock among what the record has seen: the stamp is
    /// at least one above it, but a predecessor from the future does not move this clock.
    pub fn stamp(&mut self, wall: WallTime, predecessor: Option<Hlc>) -> Hlc {
        self.last = Hlc::at(wall).max(self.last.next());
        match predecessor {
            Some(seen) if seen >= self.last => seen.next(),
            _ => self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_rise_though_the_wall_clock_falls() {
        let mut clock = HlcClock::default();
        let first = clock.stamp(WallTime(1000), None);
        let second = clock.stamp(WallTime(900), None);
        assert!(second > first);
        assert_eq!(second.wall(), WallTime(1000));
    }

    #[test]
    fn a_predecessor_from_the_future_does_not_move_the_clock() {
        let mut clock = HlcClock::default();
        let future = Hlc::at(WallTime(5_000_000));
        assert_eq!(clock.stamp(WallTime(1000), Some(future)), future.next());
        assert_eq!(clock.stamp(WallTime(1001), None).wall(), WallTime(1001));
    }
}
