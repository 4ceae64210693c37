//! Telling others where this site is: its network coordinate, K, and the round trip it measures.
//!
//! Said to each link as it comes, and to all when this site has moved or has another K: at most once in
//! [`limits::PLACE_PAUSE`], twice as long each time, so that coordinates that never come to rest cost next to nothing.
//!
//! Invariant: said only to who understands it.

use core::time::Duration;

use skerry_base::{Instant, SiteId};

use crate::areas::Coordinate;
use crate::context::Context;
use crate::limits;
use crate::message::{Message, Place};

/// What was said, and when again.
#[derive(Debug)]
pub(crate) struct Places {
    said: (Coordinate, u8),
    last: Instant,
    pause: Duration,
    due: Option<Instant>,
}

impl Default for Places {
    fn default() -> Self {
        let (said, last) = ((Coordinate::default(), 1), Instant::default());
        Self { said, last, pause: limits::PLACE_PAUSE, due: None }
    }
}

impl Places {
    pub(crate) const fn next_wake(&self) -> Option<Instant> {
        self.due
    }

    /// The other end of a link understands: it is told at once.
    pub(crate) fn met(site: SiteId, cx: &mut Context<'_>) {
        if !cx.peers.understands(site) || !cx.peers.is_linked(site) {
            return;
        }
        let view = cx.peers.view();
        let measured = view.distances().measured_here(site).unwrap_or_default();
        let place = Place {
            coordinate: view.distances().own().to_bytes(),
            k: view.k(),
            rtt_micros: u32::try_from(measured.as_micros()).unwrap_or(u32::MAX),
        };
        cx.send(site, Message::Place(place));
    }

    /// Tells everybody if there is news.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        let view = cx.peers.view();
        let own = *view.distances().own();
        let news = own.has_moved(&self.said.0) || view.k() != self.said.1;
        if !news {
            self.due = None;
            return;
        }
        let due = *self.due.get_or_insert(self.last.after(self.pause).max(cx.now));
        if due > cx.now {
            return;
        }
        let rested = cx.now.since(self.last) > self.pause * 4;
        self.pause = if rested { limits::PLACE_PAUSE } else { (self.pause * 2).min(limits::PLACE_PAUSE_MAX) };
        (self.said, self.last, self.due) = ((own, view.k()), cx.now, None);
        cx.peers.near().into_iter().for_each(|site| Self::met(site, cx));
    }
}
