//! Whose votes are enough, and how one of two nodes goes on when the other cannot come back.
//!
//! Of two nodes one is no majority, so neither goes on because the other is silent: that one might do the same. It may when
//! the other *cannot*: its seat's machine says itself that it has no memory ([`super::Message::Blank`]), or no machine has the seat
//! any more, by the word of an operator ([`super::Input::Gone`]). Then the one that is left writes a view in which that seat is
//! [`View::vacant`], which fences the machine that had it (its life has passed) and leaves the vote to the other. The seat gets
//! its vote back with the view in which another machine, that has fetched everything, is live in it.
//!
//! Why that is safe (quorums of different sizes that meet: Howard, Malkhi, Spiegelman, 2016, arXiv:1608.06696): nothing is ever
//! agreed on without the one that is left, and the seat votes itself on the view that gives it a vote. So who asks the one that
//! is left hears of everything that was agreed on, and whatever is asked later asks it as well. Two such rounds, each of
//! which takes the other's seat for lost, need not meet: that each of two is gone is for the operator not to say.
//!
//! At sites of two seats only. With four, of which two are left, a view that gives a vote back can be agreed on by those who
//! already count it, without who alone had the vote before: votes would have to be counted by both.
//!
//! Invariants: the memory of a machine that is gone is never needed again, nor heard.

use skerry_base::Instant;

use super::SiteView;
use super::seat::Seats;
use super::view::{Occupant, View};

/// Of which seats, and who is lost: nobody in an ordinary round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quorum {
    pub(super) all: Seats,
    pub(super) lost: Seats,
}

impl Quorum {
    /// Whether these votes are, where the register has this value.
    pub(super) const fn is_enough(self, votes: Seats, value: &View) -> bool {
        let voters = value.voters(self.all);
        if self.lost.is_empty() {
            return votes.and(voters).len() >= voters.majority();
        }
        let left = voters.minus(self.lost);
        left.is_within(votes) && voters.minus(left).len() < voters.majority()
    }
}

impl SiteView {
    /// Whose votes count, as far as this node knows.
    pub(super) fn voters(&self) -> Seats {
        let accepted = self.memory.as_ref().map(|memory| &memory.accepted.1);
        self.view().or(accepted).map_or(self.all, |view| view.voters(self.all))
    }

    /// Whether the others have agreed that this machine has its seat no more: what it promised counts for nothing, nobody hears
    /// it, and only one without memory can be taken in.
    pub fn is_fenced(&self) -> bool {
        let life = |view: &View| view.occupant(self.me).life;
        self.memory.is_some_and(|memory| self.view().is_some_and(|view| life(view) > memory.start.life))
    }

    /// By whose votes this node would go now: those of a majority if it hears one, else its own, if the other one of two is
    /// gone. None if it can only wait.
    pub(super) fn quorum(&self, now: Instant) -> Option<Quorum> {
        // What it accepted, and does not know to be agreed on, may have given a vote to somebody.
        let accepted = self.memory.map_or(self.all, |memory| memory.accepted.1.voters(self.all));
        let voters = self.voters().or(accepted);
        let hears = self.lease.hears(now).with(self.me);
        let ordinary = Quorum { all: self.all, lost: Seats::NONE };
        if hears.and(voters).len() >= voters.majority() {
            return Some(ordinary);
        }
        let lost = self.lost(now).and(voters);
        (self.all.len() == 2 && !lost.is_empty()).then_some(Quorum { lost, ..ordinary })
    }

    /// The seats whose machine cannot come back with its memory.
    fn lost(&self, now: Instant) -> Seats {
        let taken_in = |seat| self.view().map(|view| view.occupant(seat).nonce);
        let is_blank =
            |seat| self.presence.nonce(seat, now).is_some_and(|nonce| taken_in(seat) != Some(nonce));
        let is_left = |seat| self.gone.contains(seat) && self.presence.condition(seat, now).is_none();
        self.others().iter().filter(|seat| is_blank(*seat) || is_left(*seat)).collect()
    }

    /// The view of the one that is left, if it has what is needed.
    pub(super) fn plan_without(&self, view: &View, lost: Seats, now: Instant) -> Option<View> {
        let mut occupants = view.occupants;
        for seat in lost.iter() {
            let life = occupants[seat.index()].life + 1;
            occupants[seat.index()] = Occupant { life, nonce: self.presence.nonce(seat, now).unwrap_or(0) };
        }
        let next = View {
            epoch: view.epoch + 1,
            live: view.live.minus(lost),
            joining: view.joining.minus(lost),
            vacant: view.vacant.or(lost),
            occupants,
        };
        next.follows(view, self.all).then_some(next)
    }
}

#[cfg(test)]
#[path = "vacancy_tests.rs"]
mod tests;
