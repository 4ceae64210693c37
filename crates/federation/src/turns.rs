//! Whose turn it is on a link that more wants to cross than can: what is urgent goes first, and nothing starves.
//!
//! Why here: who goes before whom between sites is decided once, for all links and both directions. Pure: streams ask
//! and leave, bytes are said to have left; no clock and no rate. The order is start-time fair queueing (Goyal, Vin and
//! Cheng, SIGCOMM 1996) over a few lanes, which needs neither: each lane's tag says how much it has had for its weight,
//! the least goes next, and a lane that asks after a pause starts at the tag of who went last, so that it goes at once and
//! saves nothing up. Within a lane streams take turns.
//!
//! Invariants: lanes that always have something to send share the bytes by their weights, to within a frame each; little
//! more than what was allowed for is afloat between here and the wire; a stream that was called and does not come holds
//! the others up only until the wire has run dry twice.

use std::collections::{BTreeMap, VecDeque};

use crate::budget::Class;

/// What a stream of reads may send before it counts as large: small reads go before those.
pub const SMALL_BYTES: u64 = 64 << 10;

/// Streams that are as urgent as each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Conditional operations and deletes.
    Decision,
    /// Records, and all words of the machines.
    Record,
    /// Reads that somebody waits for, up to [`SMALL_BYTES`] of each.
    Small,
    /// The rest of them.
    Large,
    /// Copies that nobody waits for.
    Copy,
}

impl Lane {
    /// All, the most urgent first.
    pub const ALL: [Self; 5] = [Self::Decision, Self::Record, Self::Small, Self::Large, Self::Copy];

    /// The lane of a stream that has sent so many bytes.
    pub const fn of(class: Class, sent: u64) -> Self {
        match class {
            Class::Decision => Self::Decision,
            Class::Record => Self::Record,
            Class::Read if sent < SMALL_BYTES => Self::Small,
            Class::Read => Self::Large,
            Class::Copy => Self::Copy,
        }
    }

    /// Its part of what crosses while all have something to send. Copies have an eighth of what large reads have, and one
    /// part of 41 at the least: a link of 1 Mbit/s then brings 10 MB of them an hour.
    pub const fn weight(self) -> u64 {
        match self {
            Self::Decision => 16,
            Self::Record | Self::Small | Self::Large => 8,
            Self::Copy => 1,
        }
    }

    /// What so many bytes add to its tag.
    const fn cost(self, bytes: u64) -> u64 {
        // Every weight divides it: nothing is lost by rounding.
        const ONE: u64 = 16;
        bytes.saturating_mul(ONE / self.weight())
    }
}

/// The streams of a lane that wait, and what it has had.
#[derive(Debug, Default)]
struct Line {
    tag: u64,
    streams: VecDeque<u32>,
}

/// Streams of one direction of a link.
#[derive(Debug)]
pub struct Turns {
    /// The most that a stream sends in a turn.
    frame: u64,
    /// What may be afloat.
    most: u64,
    /// Bytes that were let through and have not left yet.
    afloat: u64,
    /// The tag of who went last.
    reached: u64,
    lines: BTreeMap<Lane, Line>,
    waiting: BTreeMap<u32, Lane>,
    /// Whose turn it is, though they have not come yet; a frame is set aside for each. With the drought in which they were
    /// called.
    called: BTreeMap<u32, (Lane, u64)>,
    /// How often nothing was afloat any more.
    droughts: u64,
}

impl Turns {
    /// Nobody waits. A stream sends at most `frame` bytes in a turn, and turns are given while less than `most` are afloat.
    pub fn new(frame: u64, most: u64) -> Self {
        Self {
            frame,
            most: most.max(frame),
            afloat: 0,
            reached: 0,
            lines: Lane::ALL.into_iter().map(|lane| (lane, Line::default())).collect(),
            waiting: BTreeMap::new(),
            called: BTreeMap::new(),
            droughts: 0,
        }
    }

    /// A stream wants to send so many bytes, at most a frame. True: it may, and they are afloat from now on. Else it waits,
    /// in this lane, until it is called.
    pub fn ask(&mut self, stream: u32, lane: Lane, bytes: u64) -> bool {
        let others_wait = self.waiting.len() > usize::from(self.waiting.contains_key(&stream));
        if let Some((lane, _)) = self.called.remove(&stream) {
            self.give_back(lane, self.frame.saturating_sub(bytes));
        } else if self.afloat == 0 || (!others_wait && self.has_room()) {
            // Nothing afloat: who is there goes, whatever became of those who were called.
            self.stop_waiting(stream);
            self.take(lane, bytes);
        } else {
            self.wait(stream, lane);
            return false;
        }
        self.afloat = self.afloat.saturating_add(bytes);
        true
    }

    /// So many of the bytes that a stream was let through with were not sent after all.
    pub fn unsent(&mut self, lane: Lane, bytes: u64) {
        self.give_back(lane, bytes);
        self.left(bytes);
    }

    /// So many bytes have left for the wire.
    pub fn left(&mut self, bytes: u64) {
        if self.afloat == 0 || bytes == 0 {
            return;
        }
        self.afloat = self.afloat.saturating_sub(bytes);
        if self.afloat == 0 {
            self.droughts += 1;
            let missed = |&(_, since): &(Lane, u64)| since + 1 < self.droughts;
            let deserters: Vec<u32> =
                self.called.iter().filter(|(_, called)| missed(called)).map(|(stream, _)| *stream).collect();
            deserters.into_iter().for_each(|stream| self.leave(stream));
        }
    }

    /// A stream wants nothing any more.
    pub fn leave(&mut self, stream: u32) {
        self.stop_waiting(stream);
        if let Some((lane, _)) = self.called.remove(&stream) {
            self.give_back(lane, self.frame);
        }
    }

    /// Who is to ask again now, and will be let through. To be called until there is nobody, after anything else.
    pub fn call(&mut self) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        let waiting = self.lines.iter().filter(|(_, line)| !line.streams.is_empty());
        let (&lane, line) = waiting.min_by_key(|(lane, line)| (line.tag, **lane))?;
        let stream = *line.streams.front()?;
        self.take(lane, self.frame);
        self.stop_waiting(stream);
        self.called.insert(stream, (lane, self.droughts));
        Some(stream)
    }

    /// Bytes that were let through and have not left yet.
    pub const fn afloat(&self) -> u64 {
        self.afloat
    }

    fn has_room(&self) -> bool {
        let set_aside = self.frame.saturating_mul(self.called.len() as u64);
        self.afloat.saturating_add(set_aside).saturating_add(self.frame) <= self.most
    }

    fn wait(&mut self, stream: u32, lane: Lane) {
        if self.waiting.get(&stream) == Some(&lane) {
            return;
        }
        self.stop_waiting(stream);
        self.waiting.insert(stream, lane);
        let reached = self.reached;
        let line = self.lines.entry(lane).or_default();
        if line.streams.is_empty() {
            line.tag = line.tag.max(reached);
        }
        line.streams.push_back(stream);
    }

    fn stop_waiting(&mut self, stream: u32) {
        if let Some(line) = self.waiting.remove(&stream).and_then(|lane| self.lines.get_mut(&lane)) {
            line.streams.retain(|waiting| *waiting != stream);
        }
    }

    /// Puts bytes on a lane's account.
    fn take(&mut self, lane: Lane, bytes: u64) {
        let reached = self.reached;
        let line = self.lines.entry(lane).or_default();
        // Who waits has kept its place; who comes after a pause has saved nothing up.
        if line.streams.is_empty() {
            line.tag = line.tag.max(reached);
        }
        self.reached = reached.max(line.tag);
        line.tag = line.tag.saturating_add(lane.cost(bytes));
    }

    fn give_back(&mut self, lane: Lane, bytes: u64) {
        let line = self.lines.entry(lane).or_default();
        line.tag = line.tag.saturating_sub(lane.cost(bytes));
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
