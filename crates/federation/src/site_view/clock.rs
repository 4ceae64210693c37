//! How fast another node's clock runs compared with ours: proven, never assumed.
//!
//! An exchange says that the other clock stood at `theirs` at some moment between our `sent` and `received`. Between two
//! exchanges at least `sent₂ − received₁` of our time has passed, so the other clock runs at most so and so much faster.
//! Only that direction is a danger: a promiser whose clock is faster forgets its promise while we still count on it.
//!
//! Invariants: without a proof from the exchange that is counted, that exchange does not count; a new start of the other
//! process begins anew; the list is bounded by spacing and window.

use std::collections::VecDeque;

use skerry_base::Instant;

use super::limits::{COMPARED, FASTER_PART, READINGS_APART};
use super::register::Start;

/// One exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    pub(super) theirs: Instant,
}

/// What is known of one other clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    of: Start,
    readings: VecDeque<Reading>,
    proven: Option<Instant>,
}

impl Rate {
    /// Takes a reading; whether it proves that the other clock does not run too fast.
    pub(super) fn take(&mut self, of: Start, reading: Reading) -> bool {
        if self.of != of {
            *self = Self { of, ..Self::default() };
        }
        while self.readings.get(1).is_some_and(|next| reading.sent.since(next.received) >= COMPARED) {
            self.readings.pop_front();
        }
        let is_proof = self.readings.front().is_some_and(|base| proves(base, &reading));
        self.proven = is_proof.then_some(reading.sent).or(self.proven);
        let is_apart = |last: &Reading| reading.sent.since(last.sent) >= READINGS_APART;
        if self.readings.back().is_none_or(is_apart) {
            self.readings.push_back(reading);
        }
        is_proof
    }

    /// Whether there was a proof since then.
    pub(super) fn is_proven_since(&self, since: Instant) -> bool {
        self.proven.is_some_and(|at| at >= since)
    }
}

fn proves(base: &Reading, now: &Reading) -> bool {
    let ours = now.sent.since(base.received);
    // A clock that fell back tells nothing: the same start never does that.
    now.theirs >= base.theirs
        && ours >= COMPARED
        && now.theirs.since(base.theirs) <= ours.saturating_add(ours / FASTER_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proofs(per_mille: u64, trip_ms: u64) -> usize {
        let mut rate = Rate::default();
        let ms = |count: u64| Instant(count * 1_000_000);
        let reading = |at: u64| Reading {
            sent: ms(at),
            received: ms(at + trip_ms),
            theirs: Instant((at + trip_ms / 2) * per_mille * 1000),
        };
        (0..40).filter(|beat| rate.take(Start::default(), reading(beat * 100))).count()
    }

    #[test]
    fn equal_clocks_are_proven_after_a_second() {
        assert!((26..=30).contains(&proofs(1000, 2)), "{}", proofs(1000, 2));
        assert!(proofs(1040, 2) > 20, "within the bound");
        assert!(proofs(300, 2) > 20, "a slower promiser keeps its word for longer");
    }

    #[test]
    fn a_faster_promiser_or_a_slow_exchange_proves_nothing() {
        assert_eq!((proofs(1060, 2), proofs(3000, 2)), (0, 0));
        assert_eq!(proofs(1000, 90), 0, "a trip of 90 ms could hide more than 5 %");
    }

    #[test]
    fn another_start_of_the_other_begins_anew() {
        let mut rate = Rate::default();
        let ms = |count: u64| Instant(count * 1_000_000);
        let at =
            |ours: u64, theirs: u64| Reading { sent: ms(ours), received: ms(ours + 1), theirs: ms(theirs) };
        let (first, second) = (Start { life: 0, boot: 1 }, Start { life: 0, boot: 2 });
        assert!(!rate.take(first, at(0, 50_000)));
        assert!(rate.take(first, at(1500, 51_500)));
        assert!(rate.is_proven_since(ms(1500)));
        assert!(!rate.take(second, at(3000, 1_000)));
        assert!(!rate.is_proven_since(ms(0)));
        assert!(!rate.take(second, at(4500, 500)), "a clock does not fall back");
    }
}
