//! Telling others where this site is: its network coordinate, K, and the round trip it measures.
//!
//! Said to each link as it comes, and to all when this site has moved or has another K: at most once in
//! [`limits::PLACE_PAUSE`], twice as long each time, so that coordinates that never come to rest cost next to nothing.
//!
//! Where very many are linked it is said to those alone who need it: the landmarks that this site tells what it holds, which pass
//! questions on by it, and whoever has told where itself is. So two that are nothing to each other say nothing, and one that
//! comes back, of which all others learn how far it is, does not move them all to tell all.
//!
//! Invariants: said only to who understands it; over one link nobody is told because of a word that was an answer.

use core::time::Duration;
use std::collections::BTreeSet;

use skerry_base::{Instant, SiteId};

use crate::areas::Coordinate;
use crate::context::Context;
use crate::limits;
use crate::message::{Message, Place};

/// What was said, and what, to whom, and when again.
#[derive(Debug)]
pub(crate) struct Places {
    said: (Coordinate, u8),
    last: Instant,
    pause: Duration,
    due: Option<Instant>,
    /// Whom this site has told over the link that stands.
    told: BTreeSet<SiteId>,
}

impl Default for Places {
    fn default() -> Self {
        let (said, last) = ((Coordinate::default(), 1), Instant::default());
        Self { said, last, pause: limits::PLACE_PAUSE, due: None, told: BTreeSet::new() }
    }
}

impl Places {
    pub(crate) const fn next_wake(&self) -> Option<Instant> {
        self.due
    }

    /// The other end of a link understands: it is told at once, if it needs to know.
    pub(crate) fn met(&mut self, site: SiteId, cx: &mut Context<'_>) {
        // Its end of the link may be a new one though this end stands.
        let was_told = self.told.remove(&site);
        if was_told || !cx.peers.is_crowded() || cx.peers.tells(site) {
            self.tell(site, cx);
        }
    }

    /// Another told where it is: it needs to know the same, unless it was told.
    pub(crate) fn heard(&mut self, from: SiteId, cx: &mut Context<'_>) {
        if cx.peers.is_crowded() && !self.told.contains(&from) {
            self.tell(from, cx);
        }
    }

    /// Who is told what this site holds may be others now.
    pub(crate) fn turned(&mut self, cx: &mut Context<'_>) {
        if cx.peers.is_crowded() {
            let new = cx.peers.landmarks().into_iter().filter(|site| !self.told.contains(site));
            new.collect::<Vec<_>>().into_iter().for_each(|site| self.tell(site, cx));
        }
    }

    pub(crate) fn link_down(&mut self, site: SiteId) {
        self.told.remove(&site);
    }

    fn tell(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if !cx.peers.understands(site) || !cx.peers.is_reachable(site) {
            return;
        }
        let view = cx.peers.view();
        let measured = view.distances().measured_here(site).unwrap_or_default();
        let place = Place {
            coordinate: view.distances().own().to_bytes(),
            k: view.k(),
            rtt_micros: u32::try_from(measured.as_micros()).unwrap_or(u32::MAX),
        };
        self.told.insert(site);
        cx.send(site, Message::Place(place));
    }

    /// Tells everybody who is told, if there is news.
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
        let all = match cx.peers.is_crowded() {
            true => cx.peers.reachable(self.told.iter().copied()),
            false => cx.peers.all_reachable(),
        };
        all.into_iter().for_each(|site| self.tell(site, cx));
    }
}
