//! How many chunks may be on their way over a link at once: what comes in within a few seconds, by what the link gave lately.
//!
//! Why here: who asks decides how much shares a link, and chunks that share a slow one all come late. Pure: chunks ask, wait, are
//! called and end; bytes are said to have come; the time is an argument. Readers and copies of one node that ask the same
//! other node share one [`Flow`].
//!
//! Invariants: what a reader waits for (the earliest chunk of its body) and small chunks are never kept waiting; of copies one is
//! on its way whatever else is; what is asked for beyond that fits [`limits::WINDOW_SECONDS`] of the link, to within a chunk;
//! nothing that waits is forgotten once what is on its way has come or was given up.

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;
use skerry_base::Instant;

use crate::budget::Class;
use crate::limits;
use crate::turns::SMALL_BYTES;

/// What a link is taken for of which nothing is known: two chunks at once, and no third before it has taught something.
const RATE_UNKNOWN: u64 = 384 << 10;
/// The least that it is taken for, in bytes a second.
const RATE_MIN: u64 = 16 << 10;
/// The most: 32 chunks at once.
const RATE_MAX: u64 = 8 << 20;
/// Fewer bytes in less than [`SPAN`] teach nothing.
const TAUGHT: u64 = 256 << 10;
/// The longest that is looked at together.
const SPAN: Duration = Duration::from_secs(1);
/// What came in less time has lain in a queue somewhere: it is counted as if it had taken so long.
const BURST: Duration = Duration::from_millis(50);
/// A link is taken for so many times what it gave before at most.
const GROWTH: u64 = 4;

/// On whose behalf a chunk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errand {
    /// How urgent it is.
    pub class: Class,
    /// Which body's reader, or which copy's maker.
    pub reader: u64,
    /// Where in that body it is: earlier ones are wanted first.
    pub place: u64,
}

/// The order of who waits: the most urgent; of reads the earliest in their bodies; of copies the oldest first, so that one
/// comes to its end before the next.
type Rank = (Class, u64, u64, u64);

/// Chunks on their way from one node.
#[derive(Debug)]
pub struct Flow {
    /// Bytes a second, as of late.
    rate: u64,
    /// Since when bytes are counted, and how many came; none while nothing comes.
    counted: Option<(Instant, u64)>,
    waiting: BTreeMap<Rank, (Errand, u64)>,
    ranks: BTreeMap<u64, Rank>,
    under_way: BTreeMap<u64, (Errand, u64)>,
    /// Reader, place and ticket of those.
    readers: BTreeSet<(u64, u64, u64)>,
    /// Bytes that are still to come, and how many are copies.
    left: u64,
    left_of_copies: u64,
    copies: usize,
    next: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            rate: RATE_UNKNOWN,
            counted: None,
            waiting: BTreeMap::new(),
            ranks: BTreeMap::new(),
            under_way: BTreeMap::new(),
            readers: BTreeSet::new(),
            left: 0,
            left_of_copies: 0,
            copies: 0,
            next: 0,
        }
    }
}

impl Flow {
    /// So many bytes are wanted. They wait until [`Self::call`] names the ticket.
    pub fn ask(&mut self, errand: Errand, bytes: u64) -> u64 {
        let ticket = self.ticket();
        let first = if errand.class == Class::Copy { errand.reader } else { 0 };
        let rank = (errand.class, first, errand.place, ticket);
        self.waiting.insert(rank, (errand, bytes));
        self.ranks.insert(ticket, rank);
        ticket
    }

    /// So many bytes are on their way already.
    pub fn begin(&mut self, errand: Errand, bytes: u64) -> u64 {
        let ticket = self.ticket();
        self.start(ticket, errand, bytes);
        ticket
    }

    /// Whose chunk is to be asked for next, if any may be now. Called until it names none.
    pub fn call(&mut self) -> Option<u64> {
        let (&rank, &(errand, bytes)) =
            self.waiting.iter().find(|(_, (errand, bytes))| self.may(errand, *bytes))?;
        let ticket = rank.3;
        self.waiting.remove(&rank);
        self.ranks.remove(&ticket);
        self.start(ticket, errand, bytes);
        Some(ticket)
    }

    /// Some of them came.
    pub fn came(&mut self, ticket: u64, bytes: u64, now: Instant) {
        if let Some((errand, left)) = self.under_way.get_mut(&ticket) {
            let taken = bytes.min(*left);
            *left -= taken;
            self.left -= taken;
            if errand.class == Class::Copy {
                self.left_of_copies -= taken;
            }
        }
        let (since, before) = *self.counted.get_or_insert((now, 0));
        // The first of them says when it began, and was on its way before.
        if now > since || before > 0 {
            self.counted = Some((since, before + bytes));
            self.learn(now);
        }
    }

    /// All of it came, or nobody wants it any more.
    pub fn leave(&mut self, ticket: u64) {
        if let Some(rank) = self.ranks.remove(&ticket) {
            self.waiting.remove(&rank);
        }
        if let Some((errand, left)) = self.under_way.remove(&ticket) {
            self.readers.remove(&(errand.reader, errand.place, ticket));
            self.left -= left;
            if errand.class == Class::Copy {
                self.left_of_copies -= left;
                self.copies -= 1;
            }
        }
        if self.under_way.is_empty() {
            self.counted = None;
        }
    }

    /// What may be on its way, to within a chunk.
    pub fn window(&self) -> u64 {
        (self.rate as f64 * limits::WINDOW_SECONDS) as u64
    }

    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn start(&mut self, ticket: u64, errand: Errand, bytes: u64) {
        self.under_way.insert(ticket, (errand, bytes));
        self.readers.insert((errand.reader, errand.place, ticket));
        self.left += bytes;
        if errand.class == Class::Copy {
            self.left_of_copies += bytes;
            self.copies += 1;
        }
    }

    fn may(&self, errand: &Errand, bytes: u64) -> bool {
        if bytes <= SMALL_BYTES {
            return true;
        }
        if errand.class == Class::Copy {
            return self.copies == 0 || self.left < self.window();
        }
        let earlier = (errand.reader, 0, 0)..(errand.reader, errand.place, 0);
        // Copies have their own, small part of the link: reads do not make room for them.
        self.readers.range(earlier).next().is_none() || self.left - self.left_of_copies < self.window()
    }

    fn learn(&mut self, now: Instant) {
        let Some((since, came)) = self.counted else { return };
        let span = now.since(since);
        if came < TAUGHT && span < SPAN {
            return;
        }
        let rate = came as f64 / span.max(BURST).as_secs_f64();
        self.rate = (rate as u64).min(self.rate.saturating_mul(GROWTH)).clamp(RATE_MIN, RATE_MAX);
        self.counted = Some((now, 0));
    }
}

/// Whether a link that carried so many bytes in this time is slow and busy: an answer that did not come in it may be
/// behind them. Where nothing moved, or much, who was asked is silent.
pub fn is_held_up(bytes: u64, span: Duration) -> bool {
    let rate = bytes as f64 / span.as_secs_f64().max(0.001);
    (RATE_BUSY..=RATE_SLOW).contains(&rate)
}

/// More than signs of life take, in bytes a second.
const RATE_BUSY: f64 = 1024.0;
/// Links that are faster have no queue that an answer could lie in for seconds.
const RATE_SLOW: f64 = 2_097_152.0;

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
