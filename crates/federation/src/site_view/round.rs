//! One attempt to change the register, or to learn what is in it: a proposer's round of two exchanges.
//!
//! First a majority promises and says what it accepted last; the value under the highest ballot is the register's. The
//! goal is written if that value is the one it builds on, else the value is written again, which ends somebody else's
//! unfinished attempt. A node whose seat the goal gives to another machine has no vote on it: its memory is gone. Whose votes
//! are enough says [`Quorum`], by the value that is there and, for what is written, by that as well.
//!
//! Invariants: the value of a ballot never changes; nobody is counted twice; a promise of a machine that the value says
//! is gone does not count.

use skerry_base::Instant;

use super::limits::SEATS;
use super::message::{Released, Term};
use super::register::{Ballot, Start};
use super::seat::{Seat, Seats};
use super::vacancy::Quorum;
use super::view::View;

type Promise = (Start, (Ballot, View));

/// A round.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) ballot: Ballot,
    /// When it is given up.
    pub(super) until: Instant,
    goal: Option<View>,
    /// Who has no vote.
    without: Seats,
    quorum: Quorum,
    /// What was there, once that is known.
    found: Option<View>,
    promises: [Option<Promise>; SEATS],
    released: Released,
    value: Option<View>,
    accepted: Seats,
}

impl Round {
    /// Towards `goal`; with none, whatever is there is agreed on again and learned.
    pub(super) const fn new(
        ballot: Ballot,
        goal: Option<View>,
        (without, quorum): (Seats, Quorum),
        until: Instant,
    ) -> Self {
        Self {
            ballot,
            until,
            goal,
            without,
            quorum,
            found: None,
            promises: [None; SEATS],
            released: [None; SEATS],
            value: None,
            accepted: Seats::NONE,
        }
    }

    /// A node promises; the value, once it is known.
    pub(super) fn promise(&mut self, from: Seat, said: Promise) -> Option<View> {
        self.promises[from.index()] = Some(said);
        if self.value.is_none() {
            self.decide();
        }
        self.value
    }

    /// A node gave up its lease; the value, if it is known.
    pub(super) fn release(&mut self, from: Seat, term: Term) -> Option<View> {
        let released = &mut self.released[from.index()];
        *released = (*released).max(Some(term));
        self.value
    }

    /// The value, once it is known.
    pub(super) const fn value(&self) -> Option<View> {
        self.value
    }

    /// Who gave up what.
    pub(super) const fn released(&self) -> Released {
        self.released
    }

    /// A node has accepted the value; it, once that is agreed on.
    pub(super) fn accepted(&mut self, from: Seat) -> Option<View> {
        self.accepted = self.accepted.with(from);
        let (value, found) = (self.value?, self.found?);
        let votes = self.accepted.minus(self.without);
        // A seat that is vacant no more votes on that itself: from then on nothing is agreed on without it.
        (self.quorum.is_enough(votes, &found) && self.quorum.is_enough(votes, &value)).then_some(value)
    }

    fn decide(&mut self) {
        let votes = Seats::first(SEATS).minus(self.without);
        let promises = || votes.iter().filter_map(|seat| Some((seat, self.promises[seat.index()]?)));
        let Some((_, found)) =
            promises().map(|(_, (_, accepted))| accepted).max_by_key(|(ballot, _)| *ballot)
        else {
            return;
        };
        let counts = |(seat, (start, _)): &(Seat, Promise)| start.life >= found.occupant(*seat).life;
        let counted = promises().filter(counts).map(|(seat, _)| seat).collect();
        if self.quorum.is_enough(counted, &found) {
            let builds_on = |goal: &View| goal.epoch == found.epoch.saturating_add(1);
            self.value = Some(self.goal.filter(builds_on).unwrap_or(found));
            self.found = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(number: usize) -> Seat {
        Seat::new(number).unwrap_or_default()
    }

    fn of_three() -> Quorum {
        Quorum { all: Seats::first(3), lost: Seats::NONE }
    }

    fn view(epoch: u64) -> View {
        View { epoch, ..View::genesis() }
    }

    fn ballot(round: u64) -> Ballot {
        Ballot { round, ..Ballot::default() }
    }

    fn said(round: u64, epoch: u64) -> Promise {
        (Start::default(), (ballot(round), view(epoch)))
    }

    #[test]
    fn the_goal_is_written_on_what_it_builds_on_only() {
        let mut round = Round::new(ballot(9), Some(view(5)), (Seats::NONE, of_three()), Instant(0));
        assert_eq!(round.promise(seat(0), said(3, 4)), None);
        assert_eq!(round.promise(seat(0), said(3, 4)), None, "nobody counts twice");
        assert_eq!(round.promise(seat(2), said(2, 3)), Some(view(5)));
        let mut round = Round::new(ballot(9), Some(view(5)), (Seats::NONE, of_three()), Instant(0));
        round.promise(seat(0), said(3, 4));
        assert_eq!(round.promise(seat(1), said(7, 5)), Some(view(5)), "what may have been agreed on");
        let mut round = Round::new(ballot(9), Some(view(7)), (Seats::NONE, of_three()), Instant(0));
        round.promise(seat(0), said(3, 4));
        assert_eq!(round.promise(seat(1), said(7, 5)), Some(view(5)), "the goal builds on another");
        assert_eq!((round.accepted(seat(1)), round.accepted(seat(1))), (None, None));
        assert_eq!(round.accepted(seat(2)), Some(view(5)));
    }

    #[test]
    fn who_lost_its_memory_has_no_vote() {
        let mut round = Round::new(ballot(9), Some(view(5)), (Seats::of(seat(2)), of_three()), Instant(0));
        round.promise(seat(0), said(3, 4));
        assert_eq!(round.promise(seat(2), said(3, 4)), None);
        assert_eq!(round.promise(seat(1), said(3, 4)), Some(view(5)));
        assert_eq!((round.accepted(seat(2)), round.accepted(seat(0))), (None, None));
        assert_eq!(round.accepted(seat(1)), Some(view(5)));
    }

    #[test]
    fn the_promise_of_a_machine_that_was_replaced_does_not_count() {
        let mut later = view(4);
        later.occupants[1].life = 1;
        let mut round = Round::new(ballot(9), None, (Seats::NONE, of_three()), Instant(0));
        round.promise(seat(0), (Start::default(), (ballot(3), later)));
        assert_eq!(round.promise(seat(1), said(1, 1)), None);
        let newer = (Start { life: 1, boot: 1 }, (ballot(3), later));
        assert_eq!(round.promise(seat(1), newer), Some(later));
    }
}
