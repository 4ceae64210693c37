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

/// By how much a wall clock may run ahead of the time that has passed before it is not believed any more.
const JUMP: Duration = Duration::from_secs(3600);

/// What of the wall clock may decide that something has expired: a clock that is not trusted expires nothing, nor does one
/// that has jumped ahead by more than an hour, until the process is started anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expiry {
    /// The first time that was to be trusted, and when.
    anchor: Option<(WallTime, Instant)>,
}

impl Expiry {
    /// Nothing is known of the clock yet.
    pub const fn new() -> Self {
        Self { anchor: None }
    }

    /// The latest time that may be taken for the present: what the wall says, or what it first said when it was trusted and
    /// has passed since, with an hour for a clock that runs fast or is set right. None while it is not trusted.
    pub const fn present(&mut self, wall: WallTime, now: Instant, is_trusted: bool) -> Option<WallTime> {
        if !is_trusted {
            return None;
        }
        let (first, since) = match self.anchor {
            Some(anchor) => anchor,
            None => (wall, now),
        };
        self.anchor = Some((first, since));
        let passed = now.since(since).as_millis() + JUMP.as_millis();
        let passed = if passed > u64::MAX as u128 { u64::MAX } else { passed as u64 };
        let latest = first.0.saturating_add(passed);
        Some(WallTime(if wall.0 < latest { wall.0 } else { latest }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ahead_expires_nothing() {
        let hour = 3_600_000;
        let mut expiry = Expiry::new();
        assert_eq!(expiry.present(WallTime(10 * hour), Instant(0), true), Some(WallTime(10 * hour)));
        let now = Instant(0).after(Duration::from_secs(7200));
        let mut at = |hours: u64| expiry.present(WallTime(hours * hour), now, true);
        assert_eq!(at(12), Some(WallTime(12 * hour)));
        assert_eq!(at(9), Some(WallTime(9 * hour)), "it went back");
        assert_eq!(at(13), Some(WallTime(13 * hour)), "within an hour");
        assert_eq!(at(5 * 30 * 24), Some(WallTime(13 * hour)), "a jump by months");
        let end = Instant(u64::MAX);
        assert_eq!(Expiry::new().present(WallTime(u64::MAX), end, true), Some(WallTime(u64::MAX)));
    }

    #[test]
    fn a_clock_that_was_never_synchronised_expires_nothing_and_counts_from_when_it_was() {
        let year = 365 * 24 * 3_600_000;
        let mut expiry = Expiry::new();
        // Boots in 1970; hours later it is set right, and from then on jumps are told from that.
        for hours in 0..48 {
            let now = Instant(0).after(Duration::from_secs(hours * 3600));
            assert_eq!(expiry.present(WallTime(hours * 3_600_000), now, false), None);
        }
        let now = Instant(0).after(Duration::from_secs(48 * 3600));
        assert_eq!(expiry.present(WallTime(56 * year), now, true), Some(WallTime(56 * year)));
        assert_eq!(expiry.present(WallTime(57 * year), now, true), Some(WallTime(56 * year + 3_600_000)));
        assert_eq!(expiry.present(WallTime(56 * year), now, false), None, "it is trusted no more");
    }

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
