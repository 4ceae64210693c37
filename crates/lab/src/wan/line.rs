//! A wire with a rate: bytes pass one after another, exactly, without credit for time it was idle.
//!
//! A packet comes as a stretch of time (first byte, last byte), because the wire before it had a rate too. It goes
//! on while it still comes in, so three wires of one rate cost a packet its length once, as on real networks.

use std::time::Duration;

/// One wire, one direction. Time is nanoseconds from an origin of the caller's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Line {
    /// Bytes per second; 0 is no limit.
    rate: u64,
    /// When its last byte so far has passed.
    free: u64,
}

/// The time from first to last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Stretch {
    /// All bytes at once.
    pub(super) const fn at(moment: u64) -> Self {
        Self { first: moment, last: moment }
    }

    pub(super) const fn later(self, by: u64) -> Self {
        Self { first: self.first + by, last: self.last + by }
    }
}

impl Line {
    pub(super) const fn new(rate: u64) -> Self {
        Self { rate, free: 0 }
    }

    /// Changes the rate for what comes from now on.
    pub(super) const fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// How long something that comes at `moment` waits before its first byte goes out.
    pub(super) const fn wait(&self, moment: u64) -> u64 {
        self.free.saturating_sub(moment)
    }

    /// Whether what comes at `moment` finds the buffer full.
    pub(super) fn is_full(&self, moment: u64, queue: Duration) -> bool {
        self.rate > 0 && u128::from(self.wait(moment)) > queue.as_nanos()
    }

    /// Lets a packet through and says when it is on the other side.
    pub(super) fn pass(&mut self, incoming: Stretch, bytes: u64) -> Stretch {
        if self.rate == 0 {
            return incoming;
        }
        let length = duration_of(bytes, self.rate);
        let earliest = incoming.first.max(self.free) + length;
        let last = earliest.max(incoming.last);
        self.free = last;
        Stretch { first: last - length, last }
    }
}

/// Nanoseconds that so many bytes take, rounded up: a wire is never faster than its rate.
pub(super) fn duration_of(bytes: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1))))
        .unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 125_000;

    #[test]
    fn bytes_pass_at_exactly_the_rate() {
        let mut line = Line::new(10 * MBIT);
        let mut last = 0;
        for _ in 0..1000 {
            last = line.pass(Stretch::at(0), 1500).last;
        }
        assert_eq!(last, 1_200_000_000);
    }

    #[test]
    fn idle_time_gives_no_credit() {
        let mut line = Line::new(MBIT);
        assert_eq!(line.pass(Stretch::at(5_000_000_000), 1250).last, 5_010_000_000);
        assert_eq!(line.pass(Stretch::at(5_000_000_000), 1250).last, 5_020_000_000);
    }

    #[test]
    fn a_chain_of_equal_wires_costs_the_length_once() {
        let mut chain = [Line::new(MBIT), Line::new(MBIT), Line::new(10 * MBIT)];
        let arrived = chain.iter_mut().fold(Stretch::at(0), |stretch, line| line.pass(stretch, 1250));
        assert_eq!(arrived.last, 10_000_000);
    }

    #[test]
    fn a_slow_input_does_not_hold_a_fast_wire() {
        // Two inputs of 1 Mbit/s share a wire of 10: both get through at their own rate.
        let (mut one, mut two, mut shared) = (Line::new(MBIT), Line::new(MBIT), Line::new(10 * MBIT));
        let mut last = 0;
        for _ in 0..100 {
            let first = one.pass(Stretch::at(0), 1250);
            last = shared.pass(first, 1250).last;
            let second = two.pass(Stretch::at(0), 1250);
            last = last.max(shared.pass(second, 1250).last);
        }
        assert_eq!(last, 1_001_000_000);
    }

    #[test]
    fn a_full_buffer_is_seen() {
        let mut line = Line::new(MBIT);
        let queue = Duration::from_millis(25);
        (0..3).for_each(|_| _ = line.pass(Stretch::at(0), 1250));
        assert!(line.is_full(0, queue));
        assert!(!line.is_full(5_000_000, queue));
        assert!(!Line::new(0).is_full(0, Duration::ZERO));
    }
}
