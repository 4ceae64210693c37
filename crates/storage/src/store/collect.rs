//! Space comes back: unwanted chunks are let go, their space is punched out, dead segments are removed.
//!
//! In two steps, so that a crash in between never leaves the index pointing at holes: a chunk is let go in one
//! group (noted in the journal, so that a replay does not bring it back), and its space is given back only when
//! the index of that group survives a crash. That comes by itself while writes fill the index's memory; a flush for the
//! sake of space alone costs a merge of the index sooner or later, and is done when it is worth that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError};

use skerry_base::ChunkId;
use skerry_base::WallTime;
use skerry_base::codec::encode;
use skerry_base::kv::{Table, View, prefix_end};

use super::changes::Changes;
use super::commit::Room;
use super::compact::Emptying;
use super::rebase::Base;
use super::resting::Rest;
use super::strip::Strip;
use super::{Collected, Core, Store};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{
    Area, FREEING, Freeing, Note, Place, Row, UNWANTED, decode, freeing_key, read_chunk_key,
    read_freeing_key, unwanted_key,
};
use crate::journal::file_name;
use crate::journal::frame::Kind;
use crate::payload::scan::scan;
use crate::payload::whole_blocks;

/// Unwanted chunks looked at in one step.
const LOOK: usize = 4096;
/// Chunks let go at once.
const LET_GO: usize = 512;
/// So often in one step on a disk that is nearly full: what lives no more must not be moved.
const LOOKS: usize = 8;
/// Places given back in one step.
const GIVE_BACK: usize = 512;
/// Dead bytes that are worth a flush of the index to get them back while nothing else will flush it.
const WORTH_A_FLUSH: u64 = 8 << 20;
/// While writes go on the index is flushed soon in any case: so many journal segments' bytes are worth more than that.
const WORTH_WHILE_BUSY: u64 = 2;
/// On a disk that is nearly full: this part of the room in which it counts as such.
const WORTH_UNDER_PRESSURE: u64 = 4;

/// In so many steps in a row, each some seconds, were flushes or merges of the index refused: it is damaged.
const REFUSALS: u32 = 12;

/// Something that is refused again and again.
#[derive(Default)]
struct Streak {
    /// How often in a row, as of the last step.
    count: u32,
    /// In how many steps.
    steps: u32,
}

impl Streak {
    /// Whether it has been refused for so long that it is not by chance.
    const fn goes_on(&mut self, count: u32) -> bool {
        self.steps = match count {
            0 => 0,
            // It went through between.
            _ if count < self.count => 1,
            _ if count > self.count => self.steps + 1,
            // Not tried since.
            _ => self.steps,
        };
        self.count = count;
        self.steps >= REFUSALS
    }
}

/// Where the collector is.
#[derive(Default)]
pub(super) struct Sweep {
    /// Key of the unwanted chunk looked at last.
    cursor: Option<Vec<u8>>,
    /// Segments whose removal is under way.
    pub(super) condemned: BTreeSet<(Area, u32)>,
    /// Journal segments and what stripping knows of them.
    pub(super) journal: BTreeMap<u32, Strip>,
    /// The base of the journal.
    pub(super) base: Base,
    /// Damaged journal segments of which only the index knows what they said: until a base is written from it.
    pub(super) hurt: BTreeSet<u32>,
    /// Damaged ones that the index was built without: nobody knows what they said, so they are kept for who can read more.
    pub(super) lacking: BTreeSet<u32>,
    /// The active journal segment when a base could not be written: tried again when there is another.
    pub(super) base_refused: u32,
    /// Rows of what could not be given back: tried again once all else is.
    unfreed: BTreeSet<Vec<u8>>,
    /// Payload segments that could not be emptied, and what lived in them then.
    pub(super) stuck: BTreeMap<u32, u64>,
    /// The payload segment that the last step began to empty.
    pub(super) emptying: Option<Emptying>,
    /// Payload segments in which something lies that the disk could not read, and may again.
    pub(super) unread: BTreeSet<u32>,
    /// An index that was given up is not there any more.
    aside_gone: bool,
    /// It may say what no other says: it stays.
    pub(super) aside_stays: bool,
    /// Steps for which no base is tried: the last try was refused by the file system, and is worth another soon.
    pub(super) base_rests: u32,
    /// How many they were at first.
    pub(super) base_pause: u32,
    /// In how many steps in a row the index was refused a flush, and a merge.
    flushes: Streak,
    merges: Streak,
    /// The last group as of the end of the last step: who finds another was not alone.
    mark: u64,
}

/// What comes back once the index survives a crash.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Bytes that wait for a flush of the index.
    pub(super) bytes: u64,
    /// Whether whole segments are among them.
    pub(super) segments: bool,
    /// Bytes that wait for a later step only.
    pub(super) ready: u64,
}

impl Waiting {
    /// Whether a flush of the index gives anything back.
    pub(super) const fn is_any(&self) -> bool {
        self.segments || self.bytes > 0
    }
}

impl Sweep {
    /// Over a journal with this base.
    pub(super) fn over(base: Base, lacking: BTreeSet<u32>) -> Self {
        Self { base, lacking, ..Self::default() }
    }

    /// Segments were found damaged: those that the base makes needless, and those that the index lacks, need no new one.
    pub(super) fn note_hurt(&mut self, segments: impl Iterator<Item = u32>) {
        let (base, lacking) = (self.base.segment, &self.lacking);
        self.hurt.extend(segments.filter(|number| *number >= base && !lacking.contains(number)));
    }

    /// Whether unwanted chunks are left that no look has come to.
    pub(super) const fn has_more_to_let_go(&self) -> bool {
        self.cursor.is_some()
    }
}

/// Unwanted chunks found by a look.
#[derive(Default)]
struct Looked {
    unstamped: Vec<(Key, Rest)>,
    ripe: Vec<Key>,
    last: Option<Vec<u8>>,
}

/// A place to give back.
struct Due {
    row: Vec<u8>,
    area: Area,
    segment: u32,
    offset: u64,
    len: u64,
}

/// The first error of several things that do not wait for each other: what comes behind it is done all the same, unless the
/// store writes no more. Else one bad sector would keep all space from coming back.
#[derive(Default)]
struct First(Option<StorageError>);

impl First {
    fn keep(&mut self, outcome: Result<(), StorageError>) -> Result<(), StorageError> {
        match outcome {
            Err(error) if !matches!(error, StorageError::Poisoned(_)) => {
                // One of the index wants more than another try.
                if self.0.is_none() || matches!(error, StorageError::Index(_)) {
                    self.0 = Some(error);
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn end(self) -> Result<(), StorageError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// What finds no room is left to a later step: what gives room back comes behind it.
fn later_if_full(outcome: Result<(), StorageError>) -> Result<(), StorageError> {
    match outcome {
        Err(StorageError::Full) => Ok(()),
        outcome => outcome,
    }
}

impl Store {
    /// One paced step of the collector: call it every few seconds. Lets go of what nothing has referred to for
    /// [`skerry_base::limits::CHUNK_REST_MS`] (at once when the disk is nearly full: what is in use is pinned), gives
    /// space back, evicts cache beyond its cap; syncs what was answered lazily. Returns after a bounded amount of work. An
    /// error is the first of the step: what could be done all the same was done.
    pub fn collect(&self, now: WallTime) -> Result<Collected, StorageError> {
        self.guarded(|| self.step(now))
    }

    /// The index engine may panic on damaged files.
    pub(super) fn guarded<T>(
        &self,
        step: impl FnOnce() -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
        self.judged(stepped.unwrap_or_else(|_| Err(StorageError::Index("the engine panicked".into()))))
    }

    fn step(&self, now: WallTime) -> Result<Collected, StorageError> {
        self.check_poison()?;
        self.buffers.rest();
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_at_refusals(&mut sweep);
        // A scan may have asked for a merge since the last write.
        if self.index.wants_tending() && self.may_flush() {
            self.tend_signal.raise();
        }
        let mut done = Collected { pressed: self.is_pressed(), ..Collected::default() };
        let is_idle = sweep.mark == self.core().mark;
        if self.settings.lazy {
            self.secure()?;
        }
        let mut first = First::default();
        if self.live.lock().has_fresh() {
            self.sync_payload()?;
            // One that cannot enter the index just now keeps no space from coming back.
            first.keep(self.own_group(|_, _, _| Ok(Some(()))).map(drop))?;
        }
        for _ in 0..if done.pressed { LOOKS } else { 1 } {
            first.keep(later_if_full(self.let_go_unwanted(&mut sweep, now, &mut done)))?;
            if !sweep.has_more_to_let_go() {
                break;
            }
        }
        done.more |= sweep.has_more_to_let_go();
        first.keep(self.evict(&mut done))?;
        first.keep(self.give_up_thin(&sweep, &mut done))?;
        first.keep(later_if_full(self.move_living(&mut sweep, &mut done)))?;
        first.keep(self.compact(&mut sweep, &mut done))?;
        first.keep(self.flush_for_space(&sweep, is_idle, &done))?;
        // Also where the index found no room to be flushed: what an earlier flush has freed makes some.
        first.keep(self.give_back(&mut sweep, &mut done))?;
        first.keep(self.condemn(&mut sweep))?;
        first.keep(self.rebase(&mut sweep, &mut done))?;
        first.keep(self.condemn_journal(&mut sweep))?;
        first.keep(later_if_full(self.strip(&mut sweep, &mut done)))?;
        first.keep(self.remember_uses(now))?;
        if done.pressed {
            first.keep(self.drop_aside(&mut sweep))?;
            self.try_to_resume();
            self.space.lacks();
        }
        sweep.mark = self.core().mark;
        first.end().map(|()| done)
    }

    /// What the file system refuses now it may grant later. Where it refuses the flushes of the index for so long, or a merge though
    /// flushes go through, it is the index: runs that nobody merges would grow without end.
    pub(super) fn look_at_refusals(&self, sweep: &mut Sweep) {
        let refused = self.index.refused();
        let (flushes, merges) =
            (sweep.flushes.goes_on(refused.flushes), sweep.merges.goes_on(refused.merges));
        if flushes || merges {
            self.health.note_bad();
        } else if refused.merges > 0 {
            // Nothing else tries it again before the next flush, which may be days away. What is marked is not tried: each
            // try writes, perhaps much, before it fails.
            self.index.merge_again();
            self.tend_signal.raise();
        }
    }

    /// An index that was given up makes way, unless it may be all that says what the journal does not.
    pub(super) fn drop_aside(&self, sweep: &mut Sweep) -> Result<(), StorageError> {
        let says_it = sweep.aside_stays || !sweep.lacking.is_empty();
        let is_needless = sweep.hurt.is_empty() && !says_it && !sweep.base.damaged;
        if is_needless && !sweep.aside_gone {
            for folder in [crate::index::ASIDE, crate::index::ASIDE_LATER] {
                let removed = self.disk.remove_folder(folder);
                removed.map_err(|error| StorageError::io("remove the index that was given up", &error))?;
            }
            sweep.aside_gone = true;
        }
        Ok(())
    }

    /// Whether the disk is full, or so nearly that it would be full again at once: pressure ends only when there is
    /// room for a few segments.
    pub(super) fn is_pressed(&self) -> bool {
        self.space.lacks() > 0 || self.space.is_full()
    }

    fn let_go_unwanted(
        &self,
        sweep: &mut Sweep,
        now: WallTime,
        done: &mut Collected,
    ) -> Result<(), StorageError> {
        let looked = self.look(sweep.cursor.take(), now, done.pressed)?;
        sweep.cursor = looked.last;
        if !looked.unstamped.is_empty() {
            self.own_group(|_, changes, _| {
                for &(key, rest) in &looked.unstamped {
                    if changes.row(key)?.is_unwanted() {
                        changes.note(&unwanted_key(key), Some(rest.write()));
                    }
                }
                Ok(Some(()))
            })?;
        }
        if looked.ripe.is_empty() {
            return Ok(());
        }
        let begun = self.begin_all(&looked.ripe);
        let let_go = self.own_group(|core, changes, view| self.let_go(core, changes, view, &begun));
        for &key in &begun {
            self.live.end(key);
        }
        let (count, kept) = let_go?.unwrap_or_default();
        done.chunks += count;
        self.evicting.kept(-kept);
        Ok(())
    }

    /// Looks at the next unwanted chunks, from where the last look ended.
    fn look(&self, cursor: Option<Vec<u8>>, now: WallTime, pressed: bool) -> Result<Looked, StorageError> {
        let view = self.index.read();
        let mut looked = Looked::default();
        let mut count = 0;
        let from = cursor.as_deref().map_or(Bound::Included(UNWANTED), Bound::Excluded);
        let end = prefix_end(UNWANTED).unwrap_or_default();
        view.scan(Table::Storage, from, Bound::Excluded(&end), &mut |row, value| {
            let Some(key) = row.strip_prefix(UNWANTED).and_then(read_chunk_key) else {
                return ControlFlow::Continue(());
            };
            let rest = Rest::read(value);
            if pressed || rest.is_some_and(|rest| rest.is_over(now)) {
                looked.ripe.push(key);
            } else if let Some(anew) = rest.map_or(Some(Rest::usual(now)), |rest| rest.behind(now)) {
                // Never stamped, or by a clock that was ahead: rests from now on.
                looked.unstamped.push((key, anew));
            }
            count += 1;
            if count == LOOK || looked.ripe.len() == LET_GO {
                looked.last = Some(row.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(looked)
    }

    /// Marks those that nobody uses as being collected: a put of the same chunk waits until they are gone.
    pub(super) fn begin_all(&self, keys: &[Key]) -> Vec<Key> {
        let mut inner = self.live.lock();
        let free: Vec<Key> = keys.iter().copied().filter(|&key| !inner.is_used(key)).collect();
        free.iter().for_each(|&key| inner.begin(key));
        free
    }

    fn let_go(
        &self,
        core: &mut Core,
        changes: &mut Changes<'_>,
        view: &dyn View,
        keys: &[Key],
    ) -> Result<Option<(u64, i64)>, StorageError> {
        let mut noted = Vec::new();
        let (mut count, mut kept) = (0, 0);
        for &key in keys {
            let row = changes.row(key)?;
            let Some(place) = row.place.filter(|_| row.is_unwanted()) else { continue };
            changes.unplace(key, || self.children_or_none(key), true)?;
            count += 1;
            kept += self.unkeep(changes, view, key)?;
            if place.area != Area::Cache {
                noted.push((key.0, key.1, place));
            }
        }
        if !noted.is_empty() {
            let note = encode(&Note::Collected(noted));
            self.make_room(core, &[&note], &[], Room::Collector)?;
            core.writer.stage(Kind::Note, &[&note], &[])?;
        }
        Ok((count > 0).then_some((count, kept)))
    }

    /// The children of a tree of which they were not noted; of one that cannot be read, none: what only it listed stays
    /// until the index is rebuilt, which is said. What the machine lacks for a moment is an error: the tree reads later.
    pub(super) fn children_or_none(&self, key: Key) -> Result<Arc<[ChunkId]>, StorageError> {
        match self.read_children(key) {
            Err(error @ StorageError::Lacking { .. }) => Err(error),
            Err(error) => {
                tracing::error!(domain = %key.0, chunk = %key.1, %error, "a tree is let go unread; its chunks stay");
                Ok([].into())
            }
            read => read,
        }
    }

    /// The index must survive a crash before space is given back: flushes it if what waits for that is worth it.
    fn flush_for_space(&self, sweep: &Sweep, is_idle: bool, done: &Collected) -> Result<(), StorageError> {
        if self.durable_mark() >= self.core().mark {
            return Ok(());
        }
        let waiting = self.waiting(sweep)?;
        let any = waiting.is_any();
        // Copies that made way are to do so now: what they lack still would be taken from others in the next step.
        let at_once = self.space.is_full() || (done.pressed && (is_idle || done.evicted > 0));
        let is_worth_it = if at_once {
            any
        } else if done.pressed {
            // The less room is left, the less must come together first.
            let least = (self.space.margin() / WORTH_UNDER_PRESSURE).min(self.space.free() / 2);
            any && waiting.bytes >= least
        } else if is_idle {
            waiting.segments || waiting.bytes >= WORTH_A_FLUSH
        } else {
            waiting.bytes >= WORTH_WHILE_BUSY * self.settings.journal_segment_bytes
        };
        if is_worth_it { self.checkpoint() } else { Ok(()) }
    }

    /// What was let go of and is not back yet.
    pub(super) fn waiting(&self, sweep: &Sweep) -> Result<Waiting, StorageError> {
        let (durable, mut waiting) = (self.durable_mark(), Waiting::default());
        for (&number, known) in sweep.journal.iter().filter(|(_, known)| known.is_emptied()) {
            let bytes = known.gain(self.space.of(Area::Journal, number));
            if known.waits_for(durable) {
                (waiting.bytes, waiting.segments) = (waiting.bytes + bytes, true);
            } else {
                waiting.ready += bytes;
            }
        }
        let active = self.core().writer.tail().segment;
        let end = prefix_end(FREEING).unwrap_or_default();
        let mut looked = 0;
        let mut each = |row: &[u8], value: &[u8]| {
            let place = read_freeing_key(row).zip(decode::<Freeing>(value).ok());
            match place {
                Some(((_, area, segment, _), Freeing { len: 0 })) => {
                    let used = self.space.of(area, segment);
                    waiting.bytes += used.len.saturating_sub(used.freed);
                    waiting.segments = true;
                }
                Some(((_, Area::Journal, segment, _), _)) if segment == active => {}
                Some((_, Freeing { len })) => waiting.bytes += len,
                None => {}
            }
            looked += 1;
            if looked < LOOK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        // Those of groups that survive a crash wait for nothing.
        if let Some(mark) = durable.checked_add(1) {
            let from = freeing_key(mark, Area::Journal, 0, 0);
            let (from, to) = (Bound::Included(from.as_slice()), Bound::Excluded(end.as_slice()));
            self.index.read().scan(Table::Storage, from, to, &mut each)?;
        }
        Ok(waiting)
    }

    pub(super) fn give_back(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let due = self.due(&sweep.unfreed)?;
        done.more |= due.len() == GIVE_BACK;
        if due.is_empty() {
            sweep.unfreed.clear();
        }
        let (mut freed, mut first) = (Vec::with_capacity(due.len()), First::default());
        let mut spared = Vec::new();
        for place in due {
            if place.len == 0 && self.space.of(place.area, place.segment).live > 0 {
                // Releases before condemned such.
                let segment = place.segment;
                tracing::error!(segment, "a segment that was to be removed has something in it, and stays");
                sweep.condemned.remove(&(place.area, segment));
                spared.push(place.row);
                continue;
            }
            let given_back = match place.len {
                0 => self.remove_segment(place.area, place.segment).map(|()| 0),
                _ => self.punch(&place),
            };
            match given_back {
                Ok(bytes) => {
                    if place.len == 0 {
                        done.segments += 1;
                        sweep.condemned.remove(&(place.area, place.segment));
                    }
                    done.bytes += bytes;
                    freed.push((place, bytes));
                }
                Err(error) => {
                    sweep.unfreed.insert(place.row);
                    first.keep(Err(error))?;
                }
            }
        }
        if freed.is_empty() && spared.is_empty() {
            return first.end();
        }
        self.own_group(|_, changes, _| {
            spared.iter().for_each(|row| changes.note(row, None));
            for (place, bytes) in &freed {
                if place.len == 0 {
                    changes.removed(&place.row, place.area, place.segment);
                } else {
                    changes.freed(&place.row, place.area, place.segment, place.len, *bytes);
                }
            }
            Ok(Some(()))
        })?;
        first.end()
    }

    /// Places let go of by groups that survive a crash, but for those of these rows. Bodies in the active journal segment wait
    /// until it is sealed: recovery must be able to tell a torn body from a punched one. The last of payload waits until
    /// another behind it is on the disk: a rebuild goes on behind the last header that it finds, and a place that is used
    /// twice would be taken for what was noted of it before.
    fn due(&self, but: &BTreeSet<Vec<u8>>) -> Result<Vec<Due>, StorageError> {
        let durable = self.durable_mark();
        let (active, payload) = (self.core().writer.tail().segment, self.payload.tail().0);
        let (mut due, mut of_last) = (Vec::new(), Vec::new());
        self.index.read().scan_prefix(Table::Storage, FREEING, &mut |row, value| {
            let Some((mark, area, segment, offset)) = read_freeing_key(row) else {
                return ControlFlow::Continue(());
            };
            if mark > durable || due.len() == GIVE_BACK || of_last.len() == LOOK {
                return ControlFlow::Break(());
            }
            let waits = (area == Area::Journal && segment == active) || but.contains(row);
            if let Ok(Freeing { len }) = decode(value)
                && !waits
            {
                let is_last = (area, segment) == (Area::Payload, payload);
                let list = if is_last { &mut of_last } else { &mut due };
                list.push(Due { row: row.to_vec(), area, segment, offset, len });
            }
            ControlFlow::Continue(())
        })?;
        if let Some(last) = of_last.iter().map(|place| place.offset).max() {
            let marked = self.last_on_disk(payload, last);
            of_last.retain(|place| marked.is_some_and(|marked| place.offset < marked));
            due.append(&mut of_last);
            due.truncate(GIVE_BACK);
        }
        Ok(due)
    }

    /// The last extent of the active payload segment, at or behind this one, of which the header is on the disk to stay.
    fn last_on_disk(&self, active: u32, from: u64) -> Option<u64> {
        let (written, synced) = self.live.lock().last_places();
        if synced.0 == active {
            return Some(synced.1);
        }
        if written.0 == active {
            // A moment ago: the next step knows more.
            return None;
        }
        // What lies there was synced when the store was opened.
        let (file, mut last) = (self.files.get(Area::Payload, active).ok()?, None);
        let found = scan(&file, &self.salt, active, from, &mut |offset, _| {
            last = Some(offset);
            Ok(())
        });
        found.ok().and(last)
    }

    /// Punches the whole blocks of a place; returns how many bytes came back.
    fn punch(&self, place: &Due) -> Result<u64, StorageError> {
        let blocks = whole_blocks(place.offset, place.len);
        if blocks.is_empty() {
            return Ok(0);
        }
        let file = match self.disk.open(&file_name(place.area.folder(), place.segment)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(StorageError::io("open a segment", &error)),
        };
        // Of a segment that was stripped since, the place is not the same any more.
        if place.area == Area::Journal && self.is_stripped(&file)? {
            return Ok(0);
        }
        let len = blocks.end - blocks.start;
        match file.punch(blocks.start, len) {
            Ok(()) => Ok(len),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                self.space.note_no_holes();
                Ok(0)
            }
            Err(error) => Err(StorageError::io("punch a hole", &error)),
        }
    }

    fn remove_segment(&self, area: Area, number: u32) -> Result<(), StorageError> {
        if area == Area::Cache {
            self.evicting.sieve().forget(number);
        }
        let failed = |error: std::io::Error| StorageError::io("remove a segment", &error);
        let removed = self.disk.remove(&file_name(area.folder(), number));
        self.files.forget(area, number);
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
            _ => self.disk.sync_dir(area.folder()).map_err(failed),
        }
    }

    /// What the index says lives in a segment: by a walk of all rows, for a segment that does not say it itself.
    pub(super) fn rows_in(&self, area: Area, segment: u32) -> Result<Vec<(Key, Place, Row)>, StorageError> {
        let mut rows = Vec::new();
        self.view().scan(Table::Chunks, Bound::Unbounded, Bound::Unbounded, &mut |key, value| {
            if let (Some(key), Ok(row)) = (read_chunk_key(key), decode::<Row>(value))
                && let Some(place) = row.place.filter(|place| (place.area, place.segment) == (area, segment))
            {
                rows.push((key, place, row));
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Sealed segments in which nothing lives are to be removed.
    pub(super) fn condemn(&self, sweep: &mut Sweep) -> Result<(), StorageError> {
        for (area, tail) in [(Area::Payload, self.payload.tail()), (Area::Cache, self.cache.tail())] {
            let dead: Vec<u32> = self
                .space
                .each(area)
                .into_iter()
                .filter(|(number, used)| {
                    let is_left = area == Area::Payload && sweep.unread.contains(number);
                    let is_known = is_left || sweep.condemned.contains(&(area, *number));
                    used.live == 0 && *number < tail.0 && !is_known
                })
                .map(|(number, _)| number)
                .collect();
            for number in dead {
                // Looked at again under the lock of the groups: each of them, those made here too, may bring to the index what was
                // written to a segment that has been filled since the last one, and seemed to be dead for that.
                let condemned = self.own_group(|_, changes, _| {
                    let first = self.live.lock().first_unindexed(area);
                    let is_known = first.is_none_or(|(segment, _)| segment > number);
                    let is_dead = is_known && self.space.of(area, number).live == 0;
                    if is_dead {
                        changes.free_segment(area, number);
                    }
                    Ok(is_dead.then_some(()))
                })?;
                if condemned.is_none() {
                    continue;
                }
                sweep.condemned.insert((area, number));
            }
        }
        Ok(())
    }

    /// After space came back: complete the reserve, so that ordinary writes go on.
    fn try_to_resume(&self) {
        let mut core = self.core();
        // One more than the reserve: the next ordinary write may begin a segment.
        let wanted = self.settings.reserve_segments as usize + 1;
        if self.add_spares(&mut core, wanted).is_ok() {
            self.space.note_full(false);
        }
    }
}
