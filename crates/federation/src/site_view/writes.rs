//! Writes of this node that wait until every holder of the view has made them durable.
//!
//! Invariants: what a holder said counts in the view in which it said it; a write that is bound to its epoch (a
//! conditional decision) does not outlive the view; no more wait than [`limits::WRITES`].

use std::collections::BTreeMap;

use skerry_base::Instant;

use super::limits;
use super::seat::Seats;

#[derive(Debug, Clone, Copy)]
struct Pending {
    is_bound: bool,
    /// Since when it waits in this view.
    since: Instant,
    asked: Option<Instant>,
    held: Seats,
}

/// All of them, by the shell's number.
#[derive(Debug, Clone, Default)]
pub(super) struct Writes(BTreeMap<u64, Pending>);

impl Writes {
    /// Takes one in, if there is room.
    pub(super) fn begin(&mut self, write: u64, is_bound: bool, now: Instant) -> bool {
        let fits = self.0.len() < limits::WRITES;
        if fits {
            self.0.insert(write, Pending { is_bound, since: now, asked: None, held: Seats::NONE });
        }
        fits
    }

    /// A node has made it durable, in this view.
    pub(super) fn held(&mut self, write: u64, by: Seats) {
        if let Some(pending) = self.0.get_mut(&write) {
            pending.held = pending.held.or(by);
        }
    }

    /// Nobody waits for it any more.
    pub(super) fn give_up(&mut self, write: u64) {
        self.0.remove(&write);
    }

    /// Takes out what all of `holders` have.
    pub(super) fn settled(&mut self, holders: Seats) -> Vec<u64> {
        let settled: Vec<u64> =
            self.0.iter().filter(|(_, of)| holders.is_within(of.held)).map(|(write, _)| *write).collect();
        settled.iter().for_each(|write| self.give_up(*write));
        settled
    }

    /// Another view: everything is asked for anew. Takes out what is bound to the former one.
    pub(super) fn restart(&mut self, now: Instant) -> Vec<u64> {
        let bound: Vec<u64> = self.0.iter().filter(|(_, of)| of.is_bound).map(|(write, _)| *write).collect();
        bound.iter().for_each(|write| self.give_up(*write));
        for pending in self.0.values_mut() {
            (pending.since, pending.asked, pending.held) = (now, None, Seats::NONE);
        }
        bound
    }

    /// What must be asked of whom now, for the first time or again.
    pub(super) fn due(&mut self, holders: Seats, now: Instant) -> Vec<(u64, Seats)> {
        let due = |of: &Pending| of.asked.is_none_or(|asked| now.since(asked) >= limits::AGAIN);
        let mut asks = Vec::new();
        for (write, pending) in self.0.iter_mut().filter(|(_, of)| due(of)) {
            pending.asked = Some(now);
            asks.push((*write, holders.minus(pending.held)));
        }
        asks
    }

    /// Which of `holders` have kept one waiting for too long.
    pub(super) fn late(&self, holders: Seats, now: Instant) -> Seats {
        let waiting = self.0.values().filter(|of| now.since(of.since) > limits::LATE);
        waiting.fold(Seats::NONE, |late, of| late.or(holders.minus(of.held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site_view::Seat;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn a_write_is_settled_when_all_holders_have_it_in_one_view() {
        let (all, founder) = (Seats::first(2), Seats::of(Seat::FOUNDER));
        let mut writes = Writes::default();
        assert!(writes.begin(1, false, at(0)) && writes.begin(2, true, at(0)));
        assert_eq!(writes.due(all, at(0)), [(1, all), (2, all)]);
        writes.held(1, founder);
        assert_eq!(writes.due(all, at(100)), []);
        assert_eq!(writes.due(all, at(200)), [(1, all.minus(founder)), (2, all)]);
        assert_eq!(
            (writes.late(all, at(500)), writes.late(all.minus(founder), at(501))),
            (Seats::NONE, all.minus(founder))
        );
        assert_eq!(writes.restart(at(600)), [2], "a decision of the former view");
        assert_eq!((writes.settled(all), writes.late(all, at(700))), (vec![], Seats::NONE));
        writes.held(1, all.minus(founder));
        assert_eq!(writes.settled(all), [], "the founder said so in another view");
        writes.held(1, founder);
        assert_eq!(writes.settled(all), [1]);
    }

    #[test]
    fn no_more_wait_than_the_limit() {
        let mut writes = Writes::default();
        assert!((0..limits::WRITES as u64).all(|write| writes.begin(write, false, at(0))));
        assert!(!writes.begin(u64::MAX, false, at(0)));
        writes.give_up(7);
        assert!(writes.begin(u64::MAX, false, at(0)));
    }
}
