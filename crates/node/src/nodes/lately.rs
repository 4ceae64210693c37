//! Versions of which another node of the site said lately that it holds them, body and all: the feed to it leaves those bodies
//! behind, so that they mostly cross the LAN once.
//!
//! Before: `writes.rs`, with each answer. After: [`crate::drive::replica`]. Invariants: only what is durable over there is named;
//! what is remembered is bounded and goes with the view, for a node comes back with another disk in another one only.

use std::collections::{BTreeSet, VecDeque};

use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::site_view::Seat;

use super::{Nodes, lock};
use crate::peers::roster::Roster;

/// Versions that are remembered: more than are written in the time that news of them take.
const REMEMBERED: usize = 4096;

/// Who holds what.
type Said = (Seat, BucketId, Dot);

/// What was said in a view, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Lately {
    epoch: u64,
    said: BTreeSet<Said>,
    order: VecDeque<Said>,
}

impl Lately {
    fn note(&mut self, epoch: u64, said: Said) {
        if self.epoch < epoch {
            *self = Self { epoch, ..Self::default() };
        }
        if self.epoch > epoch || !self.said.insert(said) {
            return;
        }
        self.order.push_back(said);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.said.remove(&oldest);
        }
    }

    fn has(&self, epoch: u64, said: Said) -> bool {
        self.epoch == epoch && self.said.contains(&said)
    }
}

impl Nodes {
    /// A node holds a version.
    pub(super) fn note_held(&self, epoch: u64, by: Seat, (bucket, dot): (BucketId, Dot)) {
        lock(&self.lately).note(epoch, (by, bucket, dot));
    }

    /// Whether a node of the site is known to hold a version.
    pub(crate) fn is_held_by(&self, roster: &Roster, member: SiteId, (bucket, dot): (BucketId, Dot)) -> bool {
        let epoch = *self.turned.borrow();
        let seat = roster.seat(self.site, member);
        epoch.zip(seat).is_some_and(|(epoch, seat)| lock(&self.lately).has(epoch, (seat, bucket, dot)))
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;

    #[test]
    fn what_is_held_is_remembered_for_a_view_and_no_longer_than_there_is_room() {
        let (one, other) = (Seat::FOUNDER, Seat::new(1).unwrap_or_default());
        let of = |seat, seq| {
            let dot = Dot { origin: Origin { node: NodeId([3; 16]), incarnation: 1 }, seq };
            (seat, BucketId([1; 16]), dot)
        };
        let mut lately = Lately::default();
        lately.note(7, of(one, 1));
        lately.note(7, of(one, 1));
        assert!(lately.has(7, of(one, 1)) && !lately.has(7, of(other, 1)) && !lately.has(7, of(one, 2)));
        assert!(!lately.has(6, of(one, 1)) && !lately.has(8, of(one, 1)), "of another view nothing is known");
        (2..=REMEMBERED as u64 + 1).for_each(|seq| lately.note(7, of(one, seq)));
        assert!(!lately.has(7, of(one, 1)), "the oldest makes room");
        assert!(lately.has(7, of(one, 2)) && lately.order.len() == REMEMBERED);
        lately.note(6, of(other, 1));
        assert!(!lately.has(6, of(other, 1)), "too late");
        lately.note(8, of(other, 1));
        assert!(lately.has(8, of(other, 1)) && !lately.has(8, of(one, 2)) && lately.said.len() == 1);
    }
}
