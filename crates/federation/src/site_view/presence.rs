//! What this node knows of each other one: its last beat, or that it sits there without a memory.
//!
//! Invariants: what was heard counts for [`SILENCE`] and no longer; what a node said first never replaces what it said later.

use skerry_base::Instant;

use super::limits::{SEATS, SILENCE, UNSTEADY};
use super::message::{Condition, Term};
use super::seat::{Seat, Seats};

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// Of the latest beat.
    term: Term,
    heard: Option<Instant>,
    condition: Condition,
    unsteady_since: Option<Instant>,
    blank: Option<(u64, Instant)>,
}

/// All seats.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence([Peer; SEATS]);

impl Presence {
    /// A beat arrived. One that a later beat has overtaken, or that came before, is dropped: what it says was so a while ago.
    pub(super) fn beat(&mut self, from: Seat, term: Term, condition: Condition, now: Instant) {
        let peer = &mut self.0[from.index()];
        if term <= peer.term {
            return;
        }
        let since = if term.start == peer.term.start { peer.unsteady_since } else { None };
        let unsteady_since = if condition.steady { None } else { since.or(Some(now)) };
        *peer = Peer { term, heard: Some(now), condition, unsteady_since, blank: None };
    }

    /// Somebody without a memory sits in a seat.
    pub(super) fn blank(&mut self, from: Seat, nonce: u64, now: Instant) {
        self.0[from.index()].blank = Some((nonce, now));
    }

    /// Its nonce, if that was heard lately.
    pub(super) fn nonce(&self, seat: Seat, now: Instant) -> Option<u64> {
        let (nonce, at) = self.0[seat.index()].blank?;
        (now.since(at) <= SILENCE).then_some(nonce)
    }

    /// What a node said of itself lately.
    pub(super) fn condition(&self, seat: Seat, now: Instant) -> Option<&Condition> {
        let peer = &self.0[seat.index()];
        (now.since(peer.heard?) <= SILENCE && peer.blank.is_none()).then_some(&peer.condition)
    }

    /// Whether a node said lately that it cannot hold what others write.
    pub(super) fn refuses(&self, seat: Seat, now: Instant) -> bool {
        self.condition(seat, now).is_some_and(Condition::refuses)
    }

    /// Whether a node may be live: heard lately, and not without a trusted clock for long.
    pub(super) fn is_fit(&self, seat: Seat, now: Instant) -> bool {
        let unsteady = self.0[seat.index()].unsteady_since;
        self.condition(seat, now).is_some() && unsteady.is_none_or(|since| now.since(since) <= UNSTEADY)
    }

    /// Whether two others say that they hear each other.
    pub(super) fn are_linked(&self, one: Seat, other: Seat, now: Instant) -> bool {
        let hears = |by: Seat, whom| self.condition(by, now).is_some_and(|said| said.hears.contains(whom));
        hears(one, other) && hears(other, one)
    }

    /// Which of these say that they are ready in an epoch.
    pub(super) fn ready(&self, of: Seats, epoch: u64, now: Instant) -> Seats {
        of.iter()
            .filter(|seat| self.condition(*seat, now).is_some_and(|said| said.ready == Some(epoch)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site_view::Start;

    #[test]
    fn a_beat_that_was_overtaken_says_nothing() {
        let (now, seat) = (Instant(1), Seat::FOUNDER);
        let term = |boot, number| Term { start: Start { life: 0, boot }, number };
        let hearing = |hears| Condition { hears, ..Condition::default() };
        let mut presence = Presence::default();
        presence.beat(seat, term(1, 7), hearing(Seats::first(3)), now);
        presence.beat(seat, term(1, 3), hearing(Seats::NONE), now);
        assert_eq!(presence.condition(seat, now).map(|said| said.hears), Some(Seats::first(3)));
        presence.beat(seat, term(2, 1), hearing(Seats::first(2)), now);
        presence.beat(seat, term(1, 8), hearing(Seats::NONE), now);
        assert_eq!(presence.condition(seat, now).map(|said| said.hears), Some(Seats::first(2)));
    }
}
