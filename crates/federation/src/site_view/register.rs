//! The register of a site's view: one compare-and-set register over the disks of its nodes (CASPaxos: Rystsov, 2018,
//! arXiv:1802.07000; the register of Gryadka), at each node an acceptor.
//!
//! Here are the acceptor's words and memory; a round is in [`super::round`]. No log, no leader: a value, and the
//! ballot under which it was accepted.
//!
//! Invariants: what was promised or accepted is durable before anybody is told; an acceptor that lost its memory says
//! nothing until a majority of the others has agreed on its next life, and begins with what they agreed on.

use serde::{Deserialize, Serialize};

use super::seat::Seat;
use super::view::View;

/// One start of a process: which machine in the seat, and how often it was started. Grows with every start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Start {
    /// Which machine in this seat.
    pub life: u32,
    /// Which of its starts.
    pub boot: u64,
}

/// The number of an attempt to change the register: unique, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Ballot {
    /// Higher than any that was seen.
    pub round: u64,
    /// Whose.
    pub seat: Seat,
    /// In which start, so that a process that forgot its round does not use it twice.
    pub start: Start,
}

/// What an acceptor must not forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durable {
    /// This start.
    pub start: Start,
    /// No lower ballot is answered.
    pub promised: Ballot,
    /// The value accepted last, and under which ballot.
    pub accepted: (Ballot, View),
}

impl Durable {
    /// The memory of a node of a new site, before its first start.
    pub fn genesis() -> Self {
        Self {
            start: Start::default(),
            promised: Ballot::default(),
            accepted: (Ballot::default(), View::genesis()),
        }
    }

    /// The memory of the next start. It must be durable before the machine is made from it.
    #[must_use]
    pub const fn started(mut self) -> Self {
        self.start.boot += 1;
        self
    }

    /// The memory of a machine that the others took in: it answers nothing that is older than their agreement.
    pub(super) const fn admitted(life: u32, accepted: (Ballot, View)) -> Self {
        Self { start: Start { life, boot: 1 }, promised: accepted.0, accepted }
    }

    /// Promises to answer no lower ballot; or says what was promised already.
    pub(super) fn promise(&mut self, ballot: Ballot) -> Result<(), Ballot> {
        if ballot < self.promised {
            return Err(self.promised);
        }
        self.promised = ballot;
        Ok(())
    }

    /// Accepts a value, unless a higher ballot was promised.
    pub(super) fn accept(&mut self, ballot: Ballot, view: View) -> Result<(), Ballot> {
        self.promise(ballot)?;
        self.accepted = (ballot, view);
        Ok(())
    }

    /// The epoch of the value accepted last.
    pub(super) const fn epoch(&self) -> u64 {
        self.accepted.1.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_is_kept() {
        let ballot = |round| Ballot { round, ..Ballot::default() };
        let view = |epoch| View { epoch, ..View::genesis() };
        let mut memory = Durable::genesis().started();
        assert_eq!((memory.promise(ballot(3)), memory.promise(ballot(3))), (Ok(()), Ok(())));
        assert_eq!(memory.promise(ballot(2)), Err(ballot(3)));
        assert_eq!(memory.accept(ballot(2), view(7)), Err(ballot(3)));
        assert_eq!((memory.accept(ballot(5), view(1)), memory.epoch()), (Ok(()), 1));
        assert_eq!(memory.promise(ballot(4)), Err(ballot(5)), "an accepted ballot is a promised one");
    }

    #[test]
    fn a_later_start_has_higher_ballots_of_the_same_round() {
        let first = Durable::genesis().started();
        let second = first.started();
        let ballot = |of: &Durable| Ballot { round: 1, seat: Seat::FOUNDER, start: of.start };
        assert!(ballot(&second) > ballot(&first));
        let taken_in = Durable::admitted(1, second.accepted);
        assert!(taken_in.start > second.start);
    }
}
