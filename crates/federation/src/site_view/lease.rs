//! The lease that this node holds: promises of a majority to accept no later view for a while.
//!
//! Counted from when each was asked for, by this node's clock, for a tenth less than the promise lasts; and only where
//! the promiser's clock is proven not to run too fast ([`super::clock`]). While a majority has promised, no later view
//! can be accepted by another majority.
//!
//! Invariants: what was asked for before [`Lease::give_up`] never counts after it; the answer to a beat counts once
//! from the time of that beat.

use core::time::Duration;
use std::collections::VecDeque;

use skerry_base::Instant;

use super::clock::{Rate, Reading};
use super::limits::{HELD, PROMPT, SEATS, SILENCE};
use super::register::Start;
use super::seat::{Seat, Seats};

/// Beats whose answers are still worth something: more than [`SILENCE`] has.
const BEATS: usize = 16;

/// Promises held.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    me: Seat,
    number: u64,
    beats: VecDeque<(u64, Instant)>,
    given_up: u64,
    until: [Instant; SEATS],
    rates: [Rate; SEATS],
    /// By seat, when the latest beat was sent that it answered, and how long that took.
    answered: [Option<(Instant, Duration)>; SEATS],
}

impl Lease {
    pub(super) fn new(me: Seat) -> Self {
        Self {
            me,
            number: 0,
            beats: VecDeque::new(),
            given_up: 0,
            until: [Instant(0); SEATS],
            rates: core::array::from_fn(|_| Rate::default()),
            answered: [None; SEATS],
        }
    }

    /// The number of a beat that is sent now.
    pub(super) fn beat(&mut self, now: Instant) -> u64 {
        self.number += 1;
        self.beats.push_back((self.number, now));
        if self.beats.len() > BEATS {
            self.beats.pop_front();
        }
        self.number
    }

    /// The number of the last beat.
    pub(super) const fn last(&self) -> u64 {
        self.number
    }

    /// An answer to a beat arrives.
    pub(super) fn answer(
        &mut self,
        (from, start): (Seat, Start),
        number: u64,
        (theirs, granted): (Instant, bool),
        now: Instant,
    ) {
        let Some((_, sent)) = self.beats.iter().copied().find(|(beat, _)| *beat == number) else { return };
        let index = from.index();
        if self.answered[index].is_none_or(|(latest, _)| latest < sent) {
            self.answered[index] = Some((sent, now.since(sent)));
        }
        let is_proven = self.rates[index].take(start, Reading { sent, received: now, theirs });
        if granted && number > self.given_up && (is_proven || from == self.me) {
            self.until[index] = self.until[index].max(sent.after(HELD));
        }
    }

    /// Gives up what it has and what it has asked for.
    pub(super) const fn give_up(&mut self) {
        self.given_up = self.number;
        self.until = [Instant(0); SEATS];
    }

    /// Whether a majority of these have promised for now.
    pub(super) fn is_held(&self, voters: Seats, now: Instant) -> bool {
        self.held_until(voters).is_some_and(|until| until > now)
    }

    /// Until when a majority of these have promised, if nothing else is heard.
    pub(super) fn held_until(&self, voters: Seats) -> Option<Instant> {
        let mut until = [Instant(0); SEATS];
        voters.iter().for_each(|seat| until[seat.index()] = self.until[seat.index()]);
        until.sort_unstable();
        until.iter().rev().nth(voters.majority() - 1).copied()
    }

    /// The others that answered a beat sent in time.
    pub(super) fn hears(&self, now: Instant) -> Seats {
        let in_time = |seat: &Seat| {
            let answered = self.answered[seat.index()];
            answered.is_some_and(|(sent, _)| now.since(sent) <= SILENCE) && *seat != self.me
        };
        Seats::first(SEATS).iter().filter(in_time).collect()
    }

    /// Whether a beat was sent lately.
    pub(super) fn is_recent(&self, number: u64, now: Instant) -> bool {
        self.beats.iter().any(|(beat, sent)| *beat == number && now.since(*sent) <= SILENCE)
    }

    /// Whether a majority of these answer at once, this node among them: who finds most others slow is slow itself.
    pub(super) fn is_prompt(&self, voters: Seats, now: Instant) -> bool {
        let took = |seat: &Seat| self.answered[seat.index()].is_some_and(|(_, took)| took <= PROMPT);
        let prompt: Seats = self.hears(now).iter().filter(took).collect();
        prompt.with(self.me).and(voters).len() >= voters.majority()
    }

    /// Whether enough clocks of these are proven for a lease.
    pub(super) fn is_steady(&self, voters: Seats, now: Instant) -> bool {
        let since = Instant(now.0.saturating_sub(SILENCE.as_nanos() as u64));
        let proven = |seat: &Seat| *seat == self.me || self.rates[seat.index()].is_proven_since(since);
        voters.iter().filter(proven).count() >= voters.majority()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn seat(number: usize) -> Seat {
        Seat::new(number).unwrap_or_default()
    }

    /// Seats of which so many are a majority.
    fn of(majority: usize) -> Seats {
        Seats::first([0, 1, 2, 4][majority])
    }

    /// Beats every 100 ms up to `until`, each answered by seat 1 after 2 ms.
    fn beaten(lease: &mut Lease, from: u64, until: u64) {
        for ms in (from..until).step_by(100) {
            let number = lease.beat(at(ms));
            for (by, trip) in [(0, 0), (1, 2)] {
                let said = (at(90_000 + ms + trip / 2), true);
                lease.answer((seat(by), Start::default()), number, said, at(ms + trip));
            }
        }
    }

    #[test]
    fn a_lease_needs_a_majority_and_ends_by_itself() {
        let mut lease = Lease::new(seat(0));
        beaten(&mut lease, 0, 1000);
        assert!(
            lease.is_held(of(1), at(950)) && !lease.is_held(of(2), at(950)),
            "the other clock is not proven yet"
        );
        beaten(&mut lease, 1000, 1500);
        assert!(
            lease.is_held(of(2), at(1500))
                && lease.is_steady(of(2), at(1500))
                && !lease.is_held(of(3), at(1500))
        );
        assert!(lease.is_held(of(2), at(1400 + 719)) && !lease.is_held(of(2), at(1400 + 720)));
        assert_eq!((lease.held_until(of(2)), lease.held_until(of(3))), (Some(at(1400 + 720)), Some(at(0))));
        assert!(lease.is_prompt(of(2), at(1500)) && !lease.is_prompt(of(3), at(1500)));
        let slow = lease.beat(at(1500));
        lease.answer((seat(1), Start::default()), slow, (at(91_600), false), at(1650));
        assert!(!lease.is_prompt(of(2), at(1650)), "150 ms");
        let mut lease = Lease::new(seat(0));
        beaten(&mut lease, 0, 1500);
        assert_eq!((lease.hears(at(1800)), lease.hears(at(1801))), (Seats::of(seat(1)), Seats::NONE));
        assert!(!lease.is_steady(of(2), at(1801)));
    }

    #[test]
    fn what_was_given_up_does_not_come_back_with_a_late_answer() {
        let mut lease = Lease::new(seat(0));
        beaten(&mut lease, 0, 1500);
        let number = lease.beat(at(1500));
        lease.give_up();
        lease.answer((seat(1), Start::default()), number, (at(91_501), true), at(1502));
        lease.answer((seat(0), Start::default()), number, (at(91_501), true), at(1502));
        assert!(!lease.is_held(of(1), at(1503)));
        beaten(&mut lease, 1600, 1700);
        assert!(lease.is_held(of(2), at(1650)));
    }
}
