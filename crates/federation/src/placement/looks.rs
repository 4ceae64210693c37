//! Where the looks through a bucket's records are: whether what came lately is looked at next, or what lacked holders before.
//!
//! A pure machine for whoever offers versions to [`Placement`](super::Placement): it says from which vector on to look
//! ([`Looks::next`]), and is told what was found there ([`Looks::take`]).
//!
//! Invariants: up to the covered vector nothing lacked holders when it was looked at; what lies behind it and was looked at
//! once has its turn however often something new comes, and what is new however much lies behind; a look that finds only
//! what cannot be placed is not repeated at once.

use std::collections::BTreeMap;

use core::time::Duration;
use skerry_base::{Instant, Origin, Vector};

use super::limits;

/// The first version of each origin that lacks holders.
pub type Lacking = BTreeMap<Origin, u64>;

/// A look that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// From there on.
    pub from: Vector,
    /// Until so many versions are found that lack holders.
    pub most: usize,
    /// What is found takes the place of all that waits of the bucket; else it comes behind that.
    pub anew: bool,
}

/// What a look found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The first version of each origin that lacks holders.
    pub lacking: Lacking,
    /// How many do.
    pub count: usize,
    /// How far it came.
    pub upto: Vector,
    /// Whether there is more behind that.
    pub more: bool,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What no look has come to yet.
    New,
    /// All from the covered vector on.
    Old,
}

/// Where they are.
#[derive(Debug)]
pub struct Looks {
    /// Everything up to here was looked at once.
    tail: Vector,
    /// What lacked holders when it was looked at last.
    lacking: Lacking,
    /// How many did.
    count: usize,
    /// A further look at that, begun.
    again: Option<Again>,
    /// The next one not before, and how long it rested.
    not_before: Instant,
    pause: Duration,
    /// What the last look was at.
    last: Option<Kind>,
}

/// A look from the covered vector on.
#[derive(Debug, Default)]
struct Again {
    upto: Vector,
    lacking: Lacking,
    count: usize,
}

impl Looks {
    /// Nothing behind the covered vector has been looked at.
    pub fn new(covered: Vector, now: Instant) -> Self {
        Self {
            tail: covered,
            lacking: BTreeMap::new(),
            count: 0,
            again: None,
            not_before: now,
            pause: limits::LOOK_AGAIN,
            last: None,
        }
    }

    /// Up to where nothing lacks holders.
    pub fn covered(&self) -> Vector {
        let before = |(origin, seq): (Origin, u64)| {
            let least = self.lacking.get(&origin).map_or(seq, |first| seq.min(first.saturating_sub(1)));
            (origin, least)
        };
        self.tail.iter().map(before).filter(|(_, seq)| *seq > 0).collect()
    }

    /// Somebody can be asked who could not before: what lacked holders is looked at without a rest.
    pub fn hurry(&mut self, now: Instant) {
        (self.pause, self.not_before) = (limits::LOOK_AGAIN, now);
    }

    /// The look to make now, where the records reach that far; none if it is not time. [`Looks::take`] follows.
    pub fn next(&mut self, own: &Vector, now: Instant) -> Option<Look> {
        let (is_behind, is_due) =
            (!self.tail.includes(own), !self.lacking.is_empty() && self.not_before <= now);
        let is_first = self.last.is_none();
        let kind = match (is_behind, is_due) {
            (false, false) => return None,
            (true, false) => Kind::New,
            (false, true) => Kind::Old,
            // By turns: neither a writer that never pauses nor a long way through the old keeps the other one waiting.
            (true, true) if self.last == Some(Kind::Old) => Kind::New,
            (true, true) => Kind::Old,
        };
        self.last = Some(kind);
        Some(match kind {
            // The larger part is for the older ones as long as these are not through.
            Kind::New => {
                let most = if self.again.is_some() { limits::ASKS_AT_ONCE } else { limits::QUEUE };
                Look { from: self.tail.clone(), most, anew: is_first }
            }
            Kind::Old => {
                let anew = self.again.is_none();
                let from = self.again.as_ref().map_or_else(|| self.covered(), |again| again.upto.clone());
                self.again.get_or_insert_default().upto.clone_from(&from);
                Look { from, most: limits::QUEUE, anew }
            }
        })
    }

    /// What the last look found, which began then.
    pub fn take(&mut self, found: &Found, began: Instant, now: Instant) {
        match self.last {
            Some(Kind::New) => self.take_new(found, now),
            Some(Kind::Old) => self.take_old(found, began, now),
            None => {}
        }
    }

    fn take_new(&mut self, found: &Found, now: Instant) {
        // It has a moment to land before it is looked at again; what waits for that already waits no longer.
        if self.lacking.is_empty() {
            self.not_before = self.not_before.max(now.after(limits::LOOK_AGAIN));
        }
        least(&mut self.lacking, &found.lacking);
        self.count += found.count;
        self.tail.merge(&found.upto);
    }

    fn take_old(&mut self, found: &Found, began: Instant, now: Instant) {
        let Some(again) = &mut self.again else { return };
        least(&mut again.lacking, &found.lacking);
        again.count += found.count;
        again.upto.merge(&found.upto);
        if found.more {
            return;
        }
        if let Some(Again { upto, lacking, count }) = self.again.take() {
            // What could not be placed twice will hardly be the third time.
            let stuck = count >= self.count && lacking == self.lacking;
            self.pause = if stuck { (self.pause * 2).min(limits::LOOK_REST) } else { limits::LOOK_AGAIN };
            self.not_before = now.after(self.pause.max(now.since(began) * limits::LOOK_SHARE));
            // It came to the end of the records: past all that was new meanwhile.
            self.tail.merge(&upto);
            (self.lacking, self.count) = (lacking, count);
        }
    }
}

fn least(all: &mut Lacking, more: &Lacking) {
    for (origin, seq) in more {
        let first = all.entry(*origin).or_insert(*seq);
        *first = (*seq).min(*first);
    }
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
