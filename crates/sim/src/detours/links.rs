//! Links as TCP makes them: in order, again and again, and dead after ten seconds.

use std::time::Duration;

use skerry_base::Instant;
use skerry_scenario::clock::{millis, seconds};

use super::{Event, World, pair};

/// From one site to another.
pub(super) type Line = (usize, usize);

/// What is not acknowledged for so long ends the link.
pub(super) const DEAD: Duration = seconds(10);
/// The first pause before something is sent again; doubles.
const AGAIN: Duration = millis(200);

/// What is said.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word {
    /// For the chunk that the asker knows by this number: here, or of this holder.
    Ask(u64, Option<usize>),
    Give(u64),
    Refuse(u64),
    Ping,
    Pong,
}

/// One connection after the other between two sites.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) up: bool,
    /// Which connection it is.
    epoch: u64,
    /// What waits in each direction, from the lower site and from the higher one.
    ways: [Way; 2],
}

#[derive(Debug, Default)]
struct Way {
    waiting: Vec<Word>,
    /// Since when something is not acknowledged, and the next pause.
    stuck: Option<(Instant, Duration)>,
}

impl Link {
    /// Whether all that was said is known to have arrived.
    pub(super) fn is_clean(&self) -> bool {
        self.up && self.ways.iter().all(|way| way.stuck.is_none())
    }
}

impl World {
    pub(super) fn open(&self, line: Line) -> bool {
        !self.blocked.contains(&line)
    }

    pub(super) fn open_both(&self, (from, to): Line) -> bool {
        self.open((from, to)) && self.open((to, from))
    }

    /// Says something; where there is no link nobody hears it.
    pub(super) fn say(&mut self, (from, to): Line, word: Word) {
        let link = self.links.entry(pair(from, to)).or_default();
        if !link.up {
            return;
        }
        let (epoch, way) = (link.epoch, &mut link.ways[usize::from(from > to)]);
        way.waiting.push(word);
        if way.stuck.is_none() {
            way.stuck = Some((self.queue.now(), AGAIN));
            self.again((from, to), epoch);
        }
    }

    /// Sends all that waits, which arrives if packets do; it is done with once they do in both directions.
    pub(super) fn again(&mut self, (from, to): Line, epoch: u64) {
        let (now, arrives, acknowledged) =
            (self.queue.now(), self.open((from, to)), self.open_both((from, to)));
        let Some(link) = self.links.get_mut(&pair(from, to)) else { return };
        let way = &mut link.ways[usize::from(from > to)];
        let Some((since, pause)) = way.stuck.filter(|_| link.up && link.epoch == epoch) else { return };
        let arriving = if arrives { std::mem::take(&mut way.waiting) } else { Vec::new() };
        let dead = !acknowledged && now.since(since) >= DEAD;
        way.stuck = if acknowledged { None } else { Some((since, pause * 2)) };
        let half = self.rtt(from, to) / 2;
        for word in arriving {
            self.after(half, Event::Arrive((from, to), epoch, word));
        }
        if dead {
            self.count("links that died of silence");
            self.part(from, to);
        } else if !acknowledged {
            self.spoil(from, to);
            let left = DEAD.saturating_sub(now.since(since));
            self.after(pause.min(left), Event::Again((from, to), epoch));
        }
    }

    pub(super) fn arrive(&mut self, line: Line, epoch: u64, word: Word) {
        let (from, to) = line;
        if self.links.get(&pair(from, to)).is_some_and(|link| link.up && link.epoch == epoch) {
            self.hear(line, word);
        }
    }

    /// A connection is there if packets pass; if not, it is tried again.
    pub(super) fn dial(&mut self, one: usize, other: usize) {
        let up = self.sites[one].up && self.sites[other].up;
        if !up || !self.open_both((one, other)) {
            return self.redial(one, other);
        }
        let link = self.links.entry(pair(one, other)).or_default();
        if !link.up {
            *link = Link { up: true, epoch: link.epoch + 1, ways: Default::default() };
            for (here, there) in [(one, other), (other, one)] {
                // The greeting: both ends have heard each other.
                self.came_to(here, there, true);
            }
        }
    }

    fn redial(&mut self, one: usize, other: usize) {
        self.plan(millis(100)..=seconds(6), Event::Dial(one, other));
    }

    /// The link is gone, and all that was asked over it.
    pub(super) fn part(&mut self, one: usize, other: usize) {
        let Some(link) = self.links.get_mut(&pair(one, other)).filter(|link| link.up) else { return };
        link.up = false;
        self.spoil(one, other);
        self.redial(one, other);
        let asked = |fetch: &super::Fetch| {
            let there = if fetch.site == one { other } else { one };
            (pair(fetch.site, there) == pair(one, other) && fetch.asked.contains(&there)).then_some(there)
        };
        let broken: Vec<(u64, usize)> = self
            .fetches
            .iter()
            .filter(|(_, fetch)| fetch.site == one || fetch.site == other)
            .filter_map(|(number, fetch)| Some((*number, asked(fetch)?)))
            .collect();
        for (number, there) in broken {
            if let Some(mut fetch) = self.fetches.remove(&number) {
                self.end(&mut fetch, there);
                self.fetches.insert(number, fetch);
                self.wake(number);
            }
        }
    }
}
