//! Versions of which another node of the site said lately that it holds them, body and all: the feed to it leaves those bodies
//! behind, so that they mostly cross the LAN once.
//!
//! Before: `writes.rs`, with each answer. After: [`crate::drive::replica`]. Invariants: only what is durable over there is named;
//! what is remembered is bounded and goes with the view, for a node comes back with another disk in another one only, and within
//! seconds: a node may leave the bucket, and what it had to say yes to may be what it need not keep.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, SiteId};
use skerry_federation::site_view::{Seat, Seats};
use skerry_model::bucket::Duty;

use super::{Nodes, lock};
use crate::site::Site;

/// Versions that are remembered: more than are written in the time that news of them take.
const REMEMBERED: usize = 4096;
/// How long it counts: the news of a write come within a moment of its end.
const COUNTS: Duration = Duration::from_secs(10);

/// Who holds what.
type Said = (Seat, BucketId, Dot);

/// What was said in a view, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Lately {
    epoch: u64,
    said: BTreeMap<Said, Instant>,
    order: VecDeque<Said>,
}

impl Lately {
    fn note(&mut self, epoch: u64, said: Said, now: Instant) {
        if self.epoch < epoch {
            *self = Self { epoch, ..Self::default() };
        }
        if self.epoch > epoch || self.said.insert(said, now).is_some() {
            return;
        }
        self.order.push_back(said);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.said.remove(&oldest);
        }
    }

    fn has(&self, epoch: u64, said: Said, now: Instant) -> bool {
        let at = self.said.get(&said).filter(|_| self.epoch == epoch);
        at.is_some_and(|at| now.since(*at) <= COUNTS)
    }
}

impl Nodes {
    /// A node holds a version.
    pub(super) fn note_held(&self, epoch: u64, by: Seat, (bucket, dot): (BucketId, Dot), now: Instant) {
        lock(&self.lately).note(epoch, (by, bucket, dot), now);
    }

    /// Whether a version need not be given to a node of the site with its body, because it is known to hold it; for one that is being
    /// emptied it is enough that any other does, or each body that is written here would have to go away from there again.
    pub(crate) fn is_held_for(&self, member: SiteId, (bucket, dot): (BucketId, Dot), site: &Site) -> bool {
        let epoch = *self.turned.borrow();
        let (seat, now) = (site.peers.roster.seat(self.site, member), site.clock.now());
        let goes = site.duties.of(member).duty == Duty::Drain;
        let lately = lock(&self.lately);
        let has = |epoch, seat| lately.has(epoch, (seat, bucket, dot), now);
        epoch.zip(seat).is_some_and(|(epoch, seat)| {
            has(epoch, seat)
                || (goes
                    && Seats::first(usize::MAX).iter().any(|other| other != self.me && has(epoch, other)))
        })
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
        let (now, later) = (Instant::default(), Instant::default().after(COUNTS));
        lately.note(7, of(one, 1), now);
        lately.note(7, of(one, 1), now);
        let has = |lately: &Lately, epoch, said| lately.has(epoch, said, later);
        assert!(
            has(&lately, 7, of(one, 1)) && !has(&lately, 7, of(other, 1)) && !has(&lately, 7, of(one, 2))
        );
        assert!(
            !has(&lately, 6, of(one, 1)) && !has(&lately, 8, of(one, 1)),
            "of another view nothing is known"
        );
        assert!(
            !lately.has(7, of(one, 1), later.after(Duration::from_millis(1))),
            "by then it may be gone there"
        );
        (2..=REMEMBERED as u64 + 1).for_each(|seq| lately.note(7, of(one, seq), now));
        assert!(!has(&lately, 7, of(one, 1)), "the oldest makes room");
        assert!(has(&lately, 7, of(one, 2)) && lately.order.len() == REMEMBERED);
        lately.note(6, of(other, 1), now);
        assert!(!has(&lately, 6, of(other, 1)), "too late");
        lately.note(8, of(other, 1), now);
        assert!(has(&lately, 8, of(other, 1)) && !has(&lately, 8, of(one, 2)) && lately.said.len() == 1);
    }
}
