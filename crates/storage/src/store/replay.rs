//! What the index lacks is taken from payload and journal; when it lacks all, that is a rebuild.
//!
//! Order: extents are found first (of a rebuild: all, straight into the index; else only those behind the noted
//! position, held back), then the journal is replayed, then what is left over is judged (`adopt.rs`, `unvouched.rs`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::codec;
use skerry_base::kv::{Batch, Reducer};
use skerry_base::{ChunkId, ChunkKind};

use super::absent::{Shared, Sight, Written};
use super::changes::{Changes, Held, load_row};
use super::commit::leaf;
use super::judge::{Bytes, Rotten, children_in, judge, note_rotten, read_at, read_whole};
use super::open::{Opened, lacking_of, lost_of, unread_of};
use super::outranked::Outranked;
use super::rebase::{Base, table_of};
use super::tending::Tending;
use super::{Damage, DamagedChunk, IndexState, Recovery, unread, unwritable};
use crate::chunks::Key;
use crate::chunks::row::{Applied, Area, LACKING, LOST, MISSED, Note, Place, REBUILDING, Row, UNKNOWN};
use crate::disk::{Disk, File};
use crate::error::is_of_the_medium;
use crate::index::Index;
use crate::journal::base::{self, Item, Reader};
use crate::journal::frame::Kind;
use crate::journal::reader::{Met, Walked, walk};
use crate::journal::{Position, file_name, numbers};
use crate::payload::GRAIN;
use crate::payload::extent::{Extent, extent_len, header_len};
use crate::payload::scan::{Scanned, parts, scan_some};
use crate::payload::segments::Known;
use crate::settings::{Progress as Told, Stage};
use crate::space::Space;
use crate::{Settings, StorageError};

/// Changes gathered before they are applied.
pub(super) const BATCH: usize = 4096;

/// The last segments may hold what no sync has covered: a segment is synced when it is full, but who took a place in
/// it just before may write a moment later.
const DOUBTFUL: u32 = 3;

/// What bringing an index up found.
pub(super) struct Replayed {
    pub(super) walked: Walked,
    pub(super) mark: u64,
    pub(super) payload: Known,
    pub(super) cache: Known,
    pub(super) base: Base,
    /// Segments of the journal that cannot be synced.
    pub(super) unwritable: BTreeSet<u32>,
}

/// The parts that a replay works on.
pub(super) struct Replay<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) salt: &'a [u8; 16],
    pub(super) reducer: &'a dyn Reducer,
    pub(super) opened: &'a Opened,
    pub(super) space: &'a Space,
    pub(super) settings: &'a Settings,
    pub(super) base: Base,
}

/// An extent found on disk that the index does not know.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) extent: Extent,
}

/// A segment that is looked through.
struct Segment<'a> {
    area: Area,
    number: u32,
    file: &'a Arc<dyn File>,
    /// Whether it may hold what no sync has covered.
    doubtful: bool,
}

/// Where the index is.
pub(super) struct Progress {
    pub(super) applied: Applied,
    /// Extents found behind the noted positions, newest of each chunk.
    pub(super) found: BTreeMap<Key, Found>,
    /// Of each such chunk what lies elsewhere besides.
    pub(super) spare: Vec<(Key, Place, u32)>,
    /// What was found rotten.
    pub(super) rotten: BTreeMap<Key, Rotten>,
    /// Whether something lies in payload that nobody can tell: it may be a tree.
    pub(super) is_strange: bool,
    /// Whether records are gone, or may be: what nothing refers to may be theirs.
    pub(super) lacks: bool,
    /// Of a rebuild: what the index holds so far.
    written: Option<Shared>,
    /// Of a rebuild: who flushes and merges meanwhile.
    tending: Option<Tending>,
    /// How much was unflushed when a flush was refused last.
    refused_at: Option<u64>,
    /// Payload segments in which something lies that the disk could not read, and may again, and that the index does not know.
    pub(super) unread: BTreeSet<u32>,
    /// Segments of the journal that cannot be synced.
    unwritable: BTreeSet<u32>,
    /// Bytes of the base that a rebuild takes in first.
    base_bytes: u64,
    /// Of a rebuild: bodies that were passed over for extents.
    pub(super) outranked: Outranked,
}

impl Replay<'_> {
    pub(super) fn index(&self) -> &dyn Index {
        &*self.opened.index
    }

    /// Brings the index up to the end of the journal.
    pub(super) fn run(&self, recovery: &mut Recovery) -> Result<Replayed, StorageError> {
        let rebuilds = self.opened.applied.is_none();
        let (applied, mut base) = (self.opened.applied.unwrap_or_default(), self.base);
        let mut progress = Progress {
            applied,
            found: BTreeMap::new(),
            spare: Vec::new(),
            rotten: BTreeMap::new(),
            is_strange: false,
            lacks: false,
            written: rebuilds.then(|| self.written()).transpose()?.flatten(),
            refused_at: None,
            tending: rebuilds.then(|| Tending::of(self.opened.index.clone())),
            unread: BTreeSet::new(),
            unwritable: BTreeSet::new(),
            base_bytes: 0,
            outranked: Outranked::default(),
        };
        if rebuilds && recovery.index != IndexState::New {
            self.apply(&mut progress, |changes| {
                changes.note(REBUILDING, Some(Vec::new()));
                Ok(())
            })?;
        }
        let payload = self.find_extents(&mut progress, Area::Payload, applied.payload, rebuilds, recovery)?;
        let cache = self.find_extents(&mut progress, Area::Cache, applied.cache, rebuilds, recovery)?;
        if rebuilds {
            // All of it was taken in: the next open looks from here on.
            (progress.applied.payload, progress.applied.cache) = (payload.end(), cache.end());
            if !self.take_base(&mut progress)? {
                // What was before its position is needed for what it says, and stays.
                base = Base::default();
            }
        }
        let from = progress.applied.lsn;
        let walked = self.replay_journal(&mut progress, rebuilds, recovery)?;
        self.end_outranked(&mut progress)?;
        self.note_lacking(&mut progress, &walked, from)?;
        recovery.lost = lost_of(self.index())?;
        self.adopt(&mut progress, recovery)?;
        self.tell_rotten(&progress, recovery)?;
        if rebuilds {
            self.drop_unvouched(&mut progress, recovery)?;
            self.apply(&mut progress, |changes| {
                changes.note(REBUILDING, None);
                Ok(())
            })?;
            self.index().checkpoint(None)?;
            match progress.tending.take().map_or(Ok(()), Tending::end) {
                Err(error @ StorageError::Index(_)) => return Err(error),
                // All of it is on the disk now, whatever was refused before.
                Err(error) => tracing::warn!(%error, "the index was not flushed at first"),
                Ok(()) => {}
            }
        }
        recovery.unread = unread_of(self.index())?.into_iter().collect();
        let unwritable = progress.unwritable;
        Ok(Replayed { walked, mark: progress.applied.mark, payload, cache, base, unwritable })
    }

    /// Remembers which damaged segments said something that the index does not: of what lies before `from` it knows all.
    fn note_lacking(&self, progress: &mut Progress, walked: &Walked, from: u64) -> Result<(), StorageError> {
        let mut lacking = lacking_of(self.index())?;
        let known = lacking.len();
        let mut before: Option<&Damage> = None;
        for damage in &walked.damage {
            let segment = match damage.offset {
                // What lay before a segment was in another: the one whose end does not read, or one that is gone.
                0 => before.filter(|before| before.to == damage.from).map(|before| before.segment),
                _ => Some(damage.segment),
            };
            before = Some(damage);
            if damage.to > damage.from.max(from) {
                progress.lacks = true;
                lacking.extend(segment);
            }
        }
        progress.lacks |= known > 0;
        let missed = walked.damage.iter().filter(|damage| damage.to > damage.from.max(from));
        let mut lost: BTreeSet<(u64, u64)> = missed.map(|damage| (damage.from, damage.to)).collect();
        if lacking.len() == known && lost.is_empty() {
            return Ok(());
        }
        let misses = !lost.is_empty();
        lost.extend(lost_of(self.index())?);
        let lost =
            lost.iter().flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()].concat()).collect();
        let noted = lacking.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.apply(progress, |changes| {
            if misses {
                changes.note(MISSED, Some(Vec::new()));
                changes.note(LOST, Some(lost));
            }
            changes.note(LACKING, Some(noted));
            Ok(())
        })
    }

    /// A memory of what a rebuild writes.
    fn written(&self) -> Result<Option<Shared>, StorageError> {
        let journal = self.space.each(Area::Journal).into_iter();
        let bytes = self.base.len + journal.map(|(_, used)| used.len).sum::<u64>();
        Written::over(&*self.index().read(), bytes)
    }

    /// The index as it is, for who asks mostly for what is not there.
    fn sight(&self, progress: &Progress) -> Sight {
        Sight::of(self.index().read(), progress.written.clone())
    }

    /// Applies one batch of changes.
    pub(super) fn apply(
        &self,
        progress: &mut Progress,
        make: impl FnOnce(&mut Changes<'_>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let reading = self.sight(progress);
        let mut changes = Changes::over(&reading, progress.applied.mark + 1);
        make(&mut changes)?;
        self.finish(progress, changes)
    }

    pub(super) fn finish(&self, progress: &mut Progress, changes: Changes<'_>) -> Result<(), StorageError> {
        progress.applied.mark += 1;
        let writes = changes.finish(&progress.applied, self.space);
        if let Some(written) = &progress.written {
            written.borrow_mut().note(&writes);
        }
        self.index().apply(&writes, progress.applied.mark)?;
        match &mut progress.tending {
            Some(tending) => tending.applied(),
            None => self.relieve(progress),
        }
    }

    /// Flushes what a start reads again once that is much. Where the file system refuses it (a full disk, above all) the start goes
    /// on: no more lies there than was accepted while it could be flushed as little, and who cannot start can delete nothing.
    fn relieve(&self, progress: &mut Progress) -> Result<(), StorageError> {
        let (index, unflushed) = (self.index(), self.index().unflushed());
        let is_tried = progress.refused_at.is_some_and(|at| unflushed < at + self.settings.memtable_bytes);
        if is_tried || !index.is_behind() {
            return Ok(());
        }
        match index.tend(None) {
            Err(error @ (StorageError::Io { .. } | StorageError::Full)) => {
                tracing::warn!(%error, "the index was not flushed while the journal is read again");
                progress.refused_at = Some(unflushed);
                Ok(())
            }
            other => {
                progress.refused_at = None;
                other
            }
        }
    }

    /// Finds extents from a position on. Returns the active segment and where it ends.
    fn find_extents(
        &self,
        progress: &mut Progress,
        area: Area,
        from: (u32, u64),
        rebuilds: bool,
        recovery: &mut Recovery,
    ) -> Result<Known, StorageError> {
        let failed = |error: std::io::Error| StorageError::io("look through payload", &error);
        let all = numbers(&self.disk.list(area.folder()).map_err(failed)?);
        let last = all.last().copied();
        // A number that was used is not used again, though the file is gone.
        let mut known = Known { last_number: from.0, active: None };
        let mut unwritable = unwritable::noted(&**self.disk, area);
        unwritable::forget(&**self.disk, area, last.unwrap_or(0));
        for number in all {
            if number < from.0 {
                self.remove_if_dead(area, number)?;
                continue;
            }
            let start = if number == from.0 { from.1 } else { 0 };
            let name = file_name(area.folder(), number);
            let is_last = last == Some(number);
            let file = match self.disk.open(&name).and_then(|file| file.len().map(|_| file)) {
                Err(error) if area == Area::Cache && is_of_the_medium(&error) => {
                    // As one that is gone.
                    known.last_number = number;
                    continue;
                }
                opened => opened.map_err(|error| StorageError::io(format!("look through {name}"), &error))?,
            };
            let doubtful = last.is_some_and(|last| number + DOUBTFUL > last);
            if area == Area::Payload && (doubtful || !rebuilds) {
                // What a killed process left in the page cache is read as durable, so it must become so.
                if !synced(&file, area.folder(), number).map_err(failed)? {
                    unwritable.insert(number);
                }
                let behind = if rebuilds { 0 } else { start };
                believe_the_medium(&file, behind).map_err(failed)?;
            }
            // Where nothing can be punched what was torn and let go of lies there still, however long ago that was.
            let doubtful = doubtful || (area == Area::Payload && self.space.has_no_holes());
            let segment = Segment { area, number, file: &file, doubtful };
            let scanned = match rebuilds {
                true => self.rebuild_segment(progress, &segment, recovery)?,
                false => self.look_through(progress, &segment, start)?,
            };
            if let Some(error) = &scanned.gave_up {
                // Copies may go at any time; what counts is not to be taken for what is not there.
                if area == Area::Payload {
                    return Err(StorageError::io(format!("look through {name}"), error));
                }
                tracing::error!(name, %error, "most of a segment of copies cannot be read; its rest is passed over");
            }
            // What lies there may be wanted: nobody looks there again until a rebuild, and the segment stays until then.
            let is_kept = area == Area::Payload && !scanned.unread.is_empty();
            progress.unread.extend(is_kept.then_some(number));
            let end = scanned.end;
            if area == Area::Payload {
                unread::tell_strange(number, &scanned.strange, recovery);
            }
            self.tell_chunks(rebuilds, area, number);
            if is_last {
                let end = end.max(GRAIN);
                known = Known { last_number: number, active: Some((number, end)) };
                if unwritable.contains(&number) {
                    known.active = None;
                    // As of one that is full; a cut that fails only wastes room.
                    if file.truncate(end).is_ok() {
                        self.space.resized(area, number, end);
                    }
                }
            }
        }
        Ok(known)
    }

    /// Notes the extents of a segment that the index does not know.
    fn look_through(
        &self,
        progress: &mut Progress,
        segment: &Segment<'_>,
        start: u64,
    ) -> Result<Scanned, StorageError> {
        let &Segment { area, number, file, .. } = segment;
        scan_some(file, self.salt, number, start, &mut |offset, extent| {
            let place = Place { area, segment: number, offset, crc: 0 };
            let key = (extent.domain, extent.id);
            // Payload is worth more than a cached copy; otherwise the newest is that is whole: one that was written again
            // may be torn, and the one before is there still.
            let wins = match progress.found.get(&key) {
                None => true,
                Some(_) if area != Area::Payload => false,
                Some(first) => match read_whole(file, &extent, offset) {
                    Bytes::Whole => true,
                    Bytes::Torn => false,
                    // It may be read again: better than one that is torn.
                    Bytes::Unread => {
                        let first_file = self.open_segment(first.place)?;
                        match read_whole(&first_file, &first.extent, first.place.offset) {
                            Bytes::Torn => true,
                            Bytes::Whole => false,
                            // Nobody knows which of the two is whole: neither is let go of.
                            Bytes::Unread => {
                                progress.unread.insert(number);
                                return Ok(());
                            }
                        }
                    }
                },
            };
            let stored = extent.stored;
            let loser = match wins {
                true => progress
                    .found
                    .insert(key, Found { place, extent })
                    .map(|old| (old.place, old.extent.stored)),
                false => Some((place, stored)),
            };
            progress.spare.extend(loser.map(|(place, stored)| (key, place, stored)));
            Ok(())
        })
    }

    /// Tells who watches a rebuild that it is through with this segment.
    fn tell_chunks(&self, rebuilds: bool, area: Area, number: u32) {
        if !rebuilds {
            return;
        }
        let before = if area == Area::Cache { self.bytes_to(Area::Payload, u32::MAX) } else { 0 };
        let done = before + self.bytes_to(area, number);
        let total = self.bytes_to(Area::Payload, u32::MAX) + self.bytes_to(Area::Cache, u32::MAX);
        self.settings.tell(Told { stage: Stage::RebuildChunks, done, total });
    }

    /// The same of the journal up to here.
    fn tell_journal(&self, progress: &Progress, rebuilds: bool, (segment, offset): (u32, u64)) {
        if rebuilds {
            let before = segment.checked_sub(1).map_or(0, |last| self.bytes_to(Area::Journal, last));
            self.tell_records(progress, progress.base_bytes + before + offset);
        }
    }

    /// Of base and journal. Once a batch: half a minute on an SD card is in a segment of small records.
    fn tell_records(&self, progress: &Progress, done: u64) {
        let total = progress.base_bytes + self.bytes_to(Area::Journal, u32::MAX);
        self.settings.tell(Told { stage: Stage::RebuildJournal, done, total });
    }

    /// Bytes of an area's segments up to this one.
    fn bytes_to(&self, area: Area, last: u32) -> u64 {
        let each = self.space.each(area).into_iter();
        each.filter(|(number, _)| *number <= last).map(|(_, used)| used.len).sum()
    }

    /// A removal that a crash undid, or whose note was lost.
    fn remove_if_dead(&self, area: Area, number: u32) -> Result<(), StorageError> {
        let used = self.space.of(area, number);
        let is_dead = used.live == 0 && used.freed == 0 && used.dead == 0;
        let is_left =
            || Ok::<_, StorageError>(area == Area::Payload && unread_of(self.index())?.contains(&number));
        if is_dead && self.opened.applied.is_some() && !is_left()? {
            let name = file_name(area.folder(), number);
            self.disk.remove(&name).map_err(|error| StorageError::io("remove a dead segment", &error))?;
            self.space.removed(area, number);
        }
        Ok(())
    }

    /// Takes all extents of a segment into the index. The holes between them are to be freed (again).
    fn rebuild_segment(
        &self,
        progress: &mut Progress,
        segment: &Segment<'_>,
        recovery: &mut Recovery,
    ) -> Result<Scanned, StorageError> {
        let &Segment { area, number, file, doubtful } = segment;
        let reading = self.sight(progress);
        let mut changes = Changes::over(&reading, progress.applied.mark + 1);
        let mut end = GRAIN;
        let mut gaps = Vec::new();
        let mut scanned = scan_some(file, self.salt, number, 0, &mut |offset, extent| {
            if offset > end {
                gaps.push(end..offset);
            }
            end = offset + extent_len(extent.stored);
            let place = Place { area, segment: number, offset, crc: 0 };
            let key = (extent.domain, extent.id);
            let known = changes.row(key)?.place;
            let outranked = area == Area::Cache && known.is_some_and(|known| known.area != Area::Cache);
            let (placed, bytes) = match outranked {
                true => (None, Bytes::Torn),
                // Of two places the later is the one that counts only if it is whole: a write may have failed half-way.
                false => judge(file, &extent, place, doubtful || known.is_some()),
            };
            // One that the disk may read again is not taken for another that lies elsewhere.
            let placed = placed.filter(|_| bytes == Bytes::Whole || known.is_none());
            if bytes != Bytes::Whole
                && !outranked
                && (area == Area::Payload || extent.kind == ChunkKind::Tree)
            {
                note_rotten(&mut progress.rotten, key, Rotten::of(&extent, placed.as_ref(), bytes));
            }
            match placed {
                Some(placed) => changes.place(key, &placed)?,
                None if bytes == Bytes::Unread => {
                    progress.unread.extend((area == Area::Payload).then_some(number));
                }
                None => {
                    recovery.chunks_dropped += 1;
                    changes.free(area, number, offset, extent_len(extent.stored));
                }
            }
            Ok(())
        })?;
        if area == Area::Payload {
            scanned.end = scanned
                .behind_strange(file.len().map_err(|error| StorageError::io("measure payload", &error))?);
        }
        // Nobody knows what lies where the disk could not read, which it may again, nor what is neither an extent nor blank. What
        // lies between is given back: a gap is mostly a hole, and would count as taken.
        let unknown = scanned.unknown();
        if area == Area::Payload {
            progress.is_strange |= !unknown.is_empty();
        }
        for part in gaps.into_iter().flat_map(|gap| parts(gap, &unknown)) {
            changes.free(area, number, part.start, part.end - part.start);
        }
        self.finish(progress, changes)?;
        Ok(scanned)
    }

    /// Takes in what the journal said before the base's position; false if there is no base, or one that is damaged. One that
    /// cannot be read just now is an error: an index without it would be taken for all there is.
    fn take_base(&self, progress: &mut Progress) -> Result<bool, StorageError> {
        // All of it is verified before any of it is taken.
        let whole = Reader::open(&**self.disk, self.salt).and_then(|reader| {
            reader.map(|reader| reader.each(&mut |_| Ok(())).map(|()| reader)).transpose()
        });
        let reader = match whole {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(false),
            Err(error @ StorageError::Damaged(_)) => {
                tracing::error!(%error, "the base of the journal is damaged; what only it said is lost here");
                base::set_aside(&**self.disk)?;
                return Ok(false);
            }
            Err(error) => return Err(error.within("the index is to be rebuilt, for which the base of the journal \
                is needed; if it cannot be read again, move the file `base` away: what only it said is lost then")),
        };
        let mut items = Vec::with_capacity(BATCH);
        progress.base_bytes = reader.bytes();
        reader.each_at(&mut |item, at| {
            items.push(item);
            if items.len() < BATCH {
                return Ok(());
            }
            self.take_items(progress, &mut items)?;
            self.tell_records(progress, at);
            Ok(())
        })?;
        self.take_items(progress, &mut items)?;
        let at = reader.position;
        let applied = &mut progress.applied;
        (applied.segment, applied.offset, applied.lsn, applied.previous) =
            (at.segment, at.offset, at.lsn, at.previous);
        Ok(true)
    }

    fn take_items(&self, progress: &mut Progress, items: &mut Vec<Item>) -> Result<(), StorageError> {
        let mut outranked = std::mem::take(&mut progress.outranked);
        self.apply(progress, |changes| {
            for item in items.drain(..) {
                match item {
                    Item::Row { table, key, value } => {
                        let table = table_of(table)
                            .ok_or_else(|| StorageError::Damaged(format!("the base names table {table}")))?;
                        let mut batch = Batch::default();
                        batch.put(table, key, value);
                        changes.absorb(batch)?;
                    }
                    Item::Note { key, value } if UNKNOWN.contains(&&*key) => changes.note(&key, Some(value)),
                    Item::Note { .. } => {
                        return Err(StorageError::Damaged("the base has a note that nobody made".into()));
                    }
                    Item::Refer { domain, id, delta } => changes.refer((domain, id), delta)?,
                    Item::Body { domain, id, segment, offset, crc, stored } => {
                        let place = Place { area: Area::Journal, segment, offset, crc };
                        let found = changes.row((domain, id))?;
                        if self.outranks((domain, id), &found, place, stored) {
                            outranked.note(changes, (domain, id), (place, stored));
                        } else {
                            changes.place((domain, id), &leaf(place, stored))?;
                        }
                    }
                }
            }
            Ok(())
        })?;
        progress.outranked = outranked;
        Ok(())
    }

    fn replay_journal(
        &self,
        progress: &mut Progress,
        rebuilds: bool,
        recovery: &mut Recovery,
    ) -> Result<Walked, StorageError> {
        let start = progress.applied;
        // A rebuild begins where its base ends, if it has one.
        let from = (start.segment > 0).then_some(Position {
            segment: start.segment,
            offset: start.offset,
            lsn: start.lsn,
            previous: start.previous,
        });
        self.sync_last(progress, (start.segment, start.offset))?;
        let mut reading = self.sight(progress);
        let mut held: Option<Held> = None;
        let walked = walk(&**self.disk, self.salt, from, &mut |met| {
            let mut changes = match held.take() {
                Some(held) => held.resume(&reading),
                None => Changes::over(&reading, progress.applied.mark + 1),
            };
            self.replay_frame(&mut changes, (&mut progress.found, &mut progress.outranked), met)?;
            recovery.replayed += 1;
            let next = met.next;
            if next.segment != progress.applied.segment {
                self.tell_journal(progress, rebuilds, (next.segment, next.offset));
            }
            progress.applied.segment = next.segment;
            progress.applied.offset = next.offset;
            progress.applied.lsn = next.lsn;
            progress.applied.previous = next.previous;
            if changes.len() >= BATCH {
                self.finish(progress, changes)?;
                reading = self.sight(progress);
                self.tell_journal(progress, rebuilds, (next.segment, next.offset));
            } else {
                held = Some(Held::of(changes));
            }
            Ok(())
        })?;
        if let Some(held) = held {
            self.finish(progress, held.resume(&reading))?;
        }
        recovery.torn.clone_from(&walked.torn);
        recovery.damage.clone_from(&walked.damage);
        for damage in &walked.damage {
            let Damage { segment, offset, from, to, why } = damage;
            tracing::error!(
                segment,
                offset,
                from,
                to,
                why,
                "part of the journal that was durable cannot be read"
            );
        }
        Ok(walked)
    }

    /// What a killed process left in the page cache is read as durable, so it must become so, before an index that has
    /// taken it in is flushed. All segments but the last in use were synced when they were sealed; what the index has taken
    /// was synced before that was flushed.
    fn sync_last(&self, progress: &mut Progress, taken: (u32, u64)) -> Result<(), StorageError> {
        let failed = |error: std::io::Error| StorageError::io("sync the journal", &error);
        let all = numbers(&self.disk.list(crate::journal::FOLDER).map_err(failed)?);
        let unused = self.settings.reserve_segments as usize + 2;
        for number in all.into_iter().rev().take(unused + 1) {
            let file = self.disk.open(&file_name(crate::journal::FOLDER, number)).map_err(failed)?;
            let is_synced = synced(&file, crate::journal::FOLDER, number).map_err(failed)?;
            progress.unwritable.extend((!is_synced).then_some(number));
            match number.cmp(&taken.0) {
                Ordering::Less => {}
                Ordering::Equal => believe_the_medium(&file, taken.1).map_err(failed)?,
                Ordering::Greater => believe_the_medium(&file, 0).map_err(failed)?,
            }
        }
        Ok(())
    }

    fn replay_frame(
        &self,
        changes: &mut Changes<'_>,
        (found, outranked): (&mut BTreeMap<Key, Found>, &mut Outranked),
        met: &Met<'_>,
    ) -> Result<(), StorageError> {
        let batch = match met.head.stamp.kind {
            Kind::Entries => changes.reduce(self.reducer, met.entries())?,
            Kind::Note => {
                met.entries().try_for_each(|entry| self.replay_note(changes, (found, outranked), entry))?;
                Batch::default()
            }
        };
        for (at, line) in met.head.body_offsets().filter(|_| met.has_bodies) {
            let place = Place {
                area: Area::Journal,
                segment: met.at.segment,
                offset: met.at.offset + at,
                crc: line.crc,
            };
            let key = (line.domain, line.id);
            // A rebuild has seen all extents already.
            let known = changes.row(key)?;
            if self.opened.applied.is_none() && self.outranks(key, &known, place, line.len) {
                outranked.note(changes, key, (place, line.len));
            } else {
                changes.place(key, &leaf(place, line.len))?;
            }
        }
        changes.absorb(batch)
    }

    /// Whether what a rebuild found as an extent is taken, and not a body in the journal. It was written after that, or is
    /// yet to be collected by a note that comes before the body; unless it is rotten and the body is what mended it: where
    /// nothing can be punched it still lies there.
    fn outranks(&self, key: Key, found: &Row, body: Place, len: u32) -> bool {
        let Some(place) = found.place.filter(|place| place.area == Area::Payload) else { return false };
        self.reads(key, place, found.stored) || !self.reads(key, body, len)
    }

    /// Whether what lies there is what its name says.
    fn reads(&self, key: Key, place: Place, stored: u32) -> bool {
        self.bytes_at(key, place, stored) == Bytes::Whole
    }

    /// How what lies there reads.
    pub(super) fn bytes_at(&self, key: Key, place: Place, stored: u32) -> Bytes {
        let head = if place.area == Area::Journal { 0 } else { header_len(stored) };
        let Ok(file) = self.disk.open(&file_name(place.area.folder(), place.segment)) else {
            return Bytes::Unread;
        };
        match read_at(&file, place.offset + head as u64, stored) {
            Ok(bytes) if ChunkId::of(&bytes) == key.1 => Bytes::Whole,
            Ok(_) => Bytes::Torn,
            Err(why) => why,
        }
    }

    fn replay_note(
        &self,
        changes: &mut Changes<'_>,
        (found, outranked): (&mut BTreeMap<Key, Found>, &mut Outranked),
        entry: &[u8],
    ) -> Result<(), StorageError> {
        let note: Note = codec::decode(entry).map_err(|error| StorageError::Damaged(error.to_string()))?;
        let list = match note {
            Note::Collected(list) => list,
            Note::Moved => return Ok(()),
        };
        for (domain, id, place) in list {
            let key = (domain, id);
            let row = changes.row(key)?;
            if row.place == Some(place) {
                changes.unplace(key, || Ok(self.children_at(place, row.stored)), true)?;
                outranked.take_over(changes, key, |place, len| self.reads(key, place, len))?;
            } else if found.get(&key).is_some_and(|found| found.place == place) {
                // Let go of: it is neither to be adopted, though something refers to it, nor to be left for records that are
                // missing. A rebuild goes by this note, and would take it from who put it again.
                if let Some(gone) = found.remove(&key) {
                    changes.free(place.area, place.segment, place.offset, extent_len(gone.extent.stored));
                }
            } else {
                outranked.let_go(changes, key, place);
            }
        }
        Ok(())
    }

    pub(super) fn children_at(&self, place: Place, stored: u32) -> Arc<[ChunkId]> {
        let read = || -> Option<Arc<[ChunkId]>> {
            let file = self.disk.open(&file_name(place.area.folder(), place.segment)).ok()?;
            children_in(&file, place.offset, stored)
        };
        read().unwrap_or_else(|| {
            tracing::error!(?place, "a tree is let go unread; its chunks stay");
            [].into()
        })
    }

    pub(super) fn open_segment(&self, place: Place) -> Result<Arc<dyn File>, StorageError> {
        self.disk
            .open(&file_name(place.area.folder(), place.segment))
            .map_err(|error| StorageError::io("open a payload segment", &error))
    }

    /// What is wanted and was found rotten, or could not be read: noted, so that it is mended.
    fn tell_rotten(&self, progress: &Progress, recovery: &mut Recovery) -> Result<(), StorageError> {
        let reading = self.index().read();
        for (&(domain, id), rotten) in &progress.rotten {
            let row = load_row(&*reading, (domain, id))?;
            if row.references > 0 && row.place == rotten.kept {
                let &Rotten { tree, stored, why, .. } = rotten;
                recovery.rotten.push(DamagedChunk { domain, id, tree, stored, why: why.to_owned() });
            }
        }
        Ok(())
    }
}

/// Makes durable what is read as durable; false where the disk does not take it: then what lies on it is read, which is all that
/// anybody was told of, and nothing more is written there.
fn synced(file: &Arc<dyn File>, folder: &str, number: u32) -> std::io::Result<bool> {
    match file.sync() {
        Err(error) if is_of_the_medium(&error) => {
            tracing::warn!(folder, number, %error, "a segment cannot be synced: nothing more is written there");
            Ok(false)
        }
        made => made.map(|()| true),
    }
}

/// A sync that failed in the life before has left pages that say they are clean, and the next sync knows nothing of it: what
/// is read from now on comes from the medium, not from what memory still shows.
fn believe_the_medium(file: &Arc<dyn File>, from: u64) -> std::io::Result<()> {
    let len = file.len()?;
    file.release(from, len.saturating_sub(from));
    Ok(())
}
