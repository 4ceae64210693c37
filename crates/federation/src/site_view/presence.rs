//! What this node knows of each other one: its last beat, or that it sits there without a memory.
//!
//! Invariant: what was heard counts for [`SILENCE`] and no longer.

use skerry_base::Instant;

use super::limits::{SEATS, SILENCE, UNSTEADY};
use super::message::Condition;
use super::register::Start;
use super::seat::{Seat, Seats};

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    start: Start,
    heard: Option<Instant>,
    condition: Condition,
    unsteady_since: Option<Instant>,
    blank: Option<(u64, Instant)>,
}

/// All seats.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence([Peer; SEATS]);

impl Presence {
    /// A beat arrived; late ones of an earlier start are dropped.
    pub(super) fn beat(&mut self, from: Seat, start: Start, condition: Condition, now: Instant) {
        let peer = &mut self.0[from.index()];
        if start < peer.start {
            return;
        }
        let since = if start == peer.start { peer.unsteady_since } else { None };
        let unsteady_since = if condition.steady { None } else { since.or(Some(now)) };
        *peer = Peer { start, heard: Some(now), condition, unsteady_since, blank: None };
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
