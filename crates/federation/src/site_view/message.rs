//! What the nodes of a site say to each other about their view. Records, payload and what is fetched on catching up
//! travel beside it, in the shell's own words. The encoding stands in [`super::wire`].

use serde::{Deserialize, Serialize};
use skerry_base::Instant;

use super::limits::SEATS;
use super::register::{Ballot, Start};
use super::seat::{Seat, Seats};
use super::view::View;

/// One request for a lease: terms of a seat grow for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Term {
    /// By which start.
    pub start: Start,
    /// Which of its beats.
    pub number: u64,
}

/// By seat, the terms up to which its node has given up whatever lease it had.
pub type Released = [Option<Term>; SEATS];

/// A message with who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Whose seat.
    pub from: Seat,
    /// Which start of which machine in it.
    pub start: Start,
    /// What.
    pub message: Message,
}

/// How a node is, with each beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Condition {
    /// The nodes that answer it in time.
    pub hears: Seats,
    /// Whether it can trust its clock: compared with those of a majority. See [`Condition::refuses`].
    pub steady: bool,
    /// The epoch in which it has caught up as far as its place in the view needs.
    pub ready: Option<u64>,
    /// Whether it asks to join.
    pub joins: bool,
}

impl Condition {
    /// Of a node that cannot hold what others write now (frozen, being emptied, full): no clock that counts, and yet a wish to
    /// join. No release says both otherwise. One that does not know what it means takes it for a clock that is not to be
    /// trusted, and goes on without that node after [`super::limits::UNSTEADY`].
    #[must_use]
    pub const fn refusing(self) -> Self {
        Self { steady: false, joins: true, ..self }
    }

    /// Whether it says so.
    pub const fn refuses(&self) -> bool {
        self.joins && !self.steady
    }
}

/// What.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// I am here; I ask for a lease of this epoch, if one is named.
    Beat {
        /// Which of my beats.
        number: u64,
        /// The epoch of the lease asked for.
        asks: Option<u64>,
        /// What I know to be agreed on.
        chosen: Option<(Ballot, View)>,
        /// How I am.
        condition: Condition,
    },
    /// I heard that beat when my clock said this; whether I promise what it asked for.
    Answer {
        /// Which beat.
        number: u64,
        /// The clock of who answers.
        clock: Instant,
        /// Until [`super::limits::LEASE`] after that reading I accept no later view, unless you release me.
        granted: bool,
    },
    /// Who answers this answers no lower ballot.
    Prepare(Ballot),
    /// I do, and this is what I accepted last.
    Promise(Ballot, (Ballot, View)),
    /// I hold no lease that was asked for by this term or an earlier one.
    Release(Ballot, Term),
    /// Accept this view; these leases are given up.
    Accept(Ballot, View, Released),
    /// I have, durably.
    Accepted(Ballot),
    /// I promised a higher ballot than yours.
    Refuse {
        /// Yours.
        ballot: Ballot,
        /// The higher one.
        promised: Ballot,
    },
    /// I heard that beat, have no memory and sit in this seat. An answer to a beat, because the word of a process that has
    /// ended since would give its seat to nobody.
    Blank {
        /// What to call me by.
        nonce: u64,
        /// Which beat.
        number: u64,
    },
    /// You of this nonce were taken in: this is agreed on.
    Admit(u64, (Ballot, View)),
}
