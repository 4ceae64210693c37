//! The journal is kept from a position on; what it said before lies in a base.
//!
//! Heads of records would stay for ever: a segment can lose its bodies, but the truth needs what it says. So when
//! the heads have become much more than what they come to, the index's tables as of a group are written down as a base
//! (synced, read back, renamed into place), and sealed segments before its position go once nothing lives in them.
//!
//! The same makes a damaged segment needless as long as the index says what it said: one is written as soon as a scrub finds
//! such damage, and by `skerry check --repair` before it rebuilds the index.
//!
//! Order of durability: the base's content, the index up to its position, the base's name, and only then the removal
//! of a segment, which waits for the index of the group that condemned it. A rebuild takes the extents that lie there,
//! the base, and the journal from the base's position on.

use std::iter::Peekable;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use skerry_base::ChunkId;
use skerry_base::kv::Table;

use super::changes::load_row;
use super::collect::Sweep;
use super::report::Collected;
use super::{DamagedSegment, ScrubStep, Store, put};
use crate::chunks::Key;
use crate::chunks::row::{Area, LISTED, Row, UNKNOWN, decode, listed_key, read_chunk_key, read_listed};
use crate::disk::Disk;
use crate::index::rows::{Part, Rows};
use crate::journal::base::{self, Item, Reader, Writer};
use crate::journal::segment::{HEADER, SegmentHeader};
use crate::journal::{FOLDER, Position, file_name, numbers};
use crate::{ReadError, StorageError};

/// A new base is worth it when the heads are so many times the last one.
const GROWTH: u64 = 2;
/// It may take this part of what the disk has left when there is no room for writes.
const ROOM: u64 = 2;
/// Steps of the collector, each some seconds, until one that is needed is tried again that the file system refused: about a
/// minute, then twice as long each time, up to an hour. It may be large, and is written whole before it fails.
const RESTS: u32 = 12;
const RESTS_MOST: u32 = 720;

/// The base that is in its place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Base {
    /// Segments before this are not needed for what they say.
    pub(super) segment: u32,
    /// First journal position that it does not cover; 0 if there is none.
    pub(super) lsn: u64,
    /// Its bytes.
    pub(super) len: u64,
    /// It does not read whole: only the index says what it said.
    pub(super) damaged: bool,
}

impl Base {
    /// One that does not read is as none here: nothing is removed for its sake, and a new one is written from an index that is
    /// there. A rebuild moves it aside.
    pub(super) fn load(disk: &dyn Disk, salt: &[u8; 16]) -> Self {
        let loaded = Self::read(disk, salt).and_then(|base| joins(disk, salt, &base).map(|()| base));
        loaded.unwrap_or_else(|error| {
            tracing::error!(%error, "the base of the journal is damaged; a new one will be written");
            Self { damaged: true, ..Self::default() }
        })
    }

    fn read(disk: &dyn Disk, salt: &[u8; 16]) -> Result<Self, StorageError> {
        let reader = Reader::open(disk, salt)?;
        Ok(reader.map_or_else(Self::default, |reader| {
            let (position, len) = (reader.position, reader.len);
            Self { segment: position.segment, lsn: position.lsn, len, damaged: false }
        }))
    }
}

/// Whether the journal begins where the base ends, or at its beginning. A base that is gone, or a segment behind it, is as one that
/// does not read: only the index says what it said.
fn joins(disk: &dyn Disk, salt: &[u8; 16], base: &Base) -> Result<(), StorageError> {
    let names = disk.list(FOLDER).map_err(|error| StorageError::io("list the journal", &error))?;
    let Some(first) = numbers(&names).into_iter().find(|number| *number >= base.segment) else {
        return Ok(());
    };
    // One whose beginning does not read is damaged itself.
    let (begins, upto) = (first_lsn(disk, salt, first), base.lsn.max(1));
    match begins {
        Some(begins) if begins > upto => Err(StorageError::Damaged(format!(
            "entries {upto} to {} are gone: the journal begins with segment {first}, and no base says what was before it",
            begins - 1
        ))),
        _ => Ok(()),
    }
}

/// The first position that a segment of the journal holds, if that reads.
pub(super) fn first_lsn(disk: &dyn Disk, salt: &[u8; 16], number: u32) -> Option<u64> {
    let mut bytes = [0; HEADER];
    disk.open(&file_name(FOLDER, number)).and_then(|file| file.read_at(0, &mut bytes)).ok()?;
    SegmentHeader::read(&bytes, salt).map(|header| header.first_lsn)
}

/// Whether all of the base reads, or there is none.
pub(super) fn reads_whole(disk: &dyn Disk, salt: &[u8; 16]) -> Result<(), StorageError> {
    Reader::open(disk, salt)?.map_or(Ok(()), |reader| reader.each(&mut |_| Ok(())))
}

/// The table of a stored number.
pub(super) fn table_of(number: u8) -> Option<Table> {
    Table::REDUCED.into_iter().find(|table| *table as u8 == number)
}

impl Store {
    /// Writes a new base when it is worth it.
    pub(super) fn rebase(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        if sweep.base_rests > 0 {
            sweep.base_rests -= 1;
            return Ok(());
        }
        if !self.is_worth_a_base(sweep, done.pressed) {
            return Ok(());
        }
        let active = self.core().writer.tail().segment;
        match self.replace_base(sweep) {
            Ok(()) => {
                done.more = true;
                sweep.base_pause = 0;
                Ok(())
            }
            Err(error @ StorageError::Poisoned(_)) => Err(error),
            // The journal stays as it is. All of it would be written again in each step, up to the same place.
            Err(error) => {
                tracing::warn!(%error, "no base of the journal was written; it goes on growing");
                let is_urgent = sweep.base.damaged || !sweep.hurt.is_empty();
                match error {
                    // A quiet site begins no other segment for weeks.
                    StorageError::Io { .. } | StorageError::Lacking { .. } if is_urgent => {
                        sweep.base_pause = (2 * sweep.base_pause).clamp(RESTS, RESTS_MOST);
                        sweep.base_rests = sweep.base_pause;
                    }
                    _ => sweep.base_refused = active,
                }
                base::discard(&*self.disk)?;
                // No room now, or what was written does not read back.
                let is_usual = matches!(error, StorageError::Full | StorageError::Damaged(_));
                if is_usual { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Writes the base anew from the index, worth it or not: only the index says what one said that does not read. The
    /// index must read whole ([`Store::examine`]).
    pub fn renew_base(&self) -> Result<(), StorageError> {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = self.replace_base(&mut sweep);
        if renewed.is_err() {
            base::discard(&*self.disk)?;
        }
        renewed
    }

    fn replace_base(&self, sweep: &mut Sweep) -> Result<(), StorageError> {
        let (position, rows) = {
            // Under the lock of the groups: the index is where the journal is.
            let core = self.core();
            self.check_poison()?;
            (core.writer.tail(), self.index.rows(&parts()))
        };
        self.write_base(&position, rows)?;
        self.checkpoint()?;
        base::publish(&*self.disk)?;
        sweep.base = Base::load(&*self.disk, &self.salt);
        self.base_segment.store(sweep.base.segment, Ordering::Relaxed);
        sweep.hurt.clear();
        Ok(())
    }

    /// What is damaged of the journal though the index says it still, so that a rebuild would lose it unless the base is
    /// written anew before; none if there is no such thing.
    pub fn only_the_index_says(&self, found: &ScrubStep) -> Option<String> {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        sweep.note_hurt(found.segments.iter().map(|damaged| damaged.segment));
        let number = *sweep.hurt.first()?;
        let why = found.segments.iter().find(|damaged| damaged.segment == number);
        let why = why.map_or("part of it that was durable cannot be read", |damaged| damaged.why.as_str());
        Some(format!("journal segment {number}: {why}"))
    }

    /// Whether a rebuild of the index may take in what this one lacks, or this one does not read.
    pub fn asks_for_a_rebuild(&self) -> bool {
        let sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        !sweep.unread.is_empty() || !sweep.lacking.is_empty() || sweep.aside_stays || self.health.is_bad()
    }

    /// Whether a segment of the journal said something that no rebuild could read: it is kept, and the index lacks it.
    pub fn lacks(&self, segment: u32) -> bool {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner).lacking.contains(&segment)
    }

    /// Whether a segment of the journal is not needed any more for what it says.
    pub fn is_before_base(&self, segment: u32) -> bool {
        segment < self.base_segment.load(Ordering::Relaxed)
    }

    /// Segments that were found damaged: the collector writes a base that makes them needless.
    pub(super) fn note_hurt(&self, found: &[DamagedSegment]) {
        if !found.is_empty() {
            let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
            sweep.note_hurt(found.iter().map(|damaged| damaged.segment));
        }
    }

    /// Reads the base; one that does not read whole is written anew by the collector while the index has it all.
    pub(super) fn check_base(&self) {
        if let Some(why) = self.base_damage() {
            tracing::error!(why, "the base of the journal is damaged; a new one will be written");
            self.sweep.lock().unwrap_or_else(PoisonError::into_inner).base.damaged = true;
        }
    }

    /// What is wrong with the base; none if it reads whole, or there is none and never was.
    pub(super) fn base_damage(&self) -> Option<String> {
        let read = Reader::open(&*self.disk, &self.salt).and_then(|reader| {
            reader.map_or(Ok(()), |reader| {
                reader.release();
                reader.each(&mut |_| Ok(()))
            })
        });
        let joined = || joins(&*self.disk, &self.salt, &Base::read(&*self.disk, &self.salt)?);
        read.and_then(|()| joined()).err().map(|error| error.to_string())
    }

    fn is_worth_a_base(&self, sweep: &Sweep, pressed: bool) -> bool {
        let active = self.core().writer.tail().segment;
        if active == sweep.base_refused {
            return false;
        }
        if sweep.base.damaged || !sweep.hurt.is_empty() {
            return self.space.has_room(self.likely_len(sweep));
        }
        if active <= sweep.base.segment {
            return false;
        }
        let heads: u64 = self
            .space
            .each(Area::Journal)
            .into_iter()
            .filter(|(number, _)| *number >= sweep.base.segment && *number < active)
            .map(|(_, used)| used.len.saturating_sub(used.freed + used.live))
            .sum();
        let worth = heads >= (GROWTH * sweep.base.len).max(self.settings.journal_heads_bytes);
        // Waiting for room makes none where heads are more than a base takes: they only become more.
        let own = if sweep.base.len == 0 { self.index.disk_bytes() } else { sweep.base.len };
        let gains = heads >= own && self.space.has_room(own);
        (worth && (gains || self.space.has_room(self.likely_room(sweep))))
            || (pressed && self.is_relieved_by_a_base(sweep, active))
    }

    /// What the next base comes to, about. It holds less than the index; how much less is known once there was one.
    fn likely_len(&self, sweep: &Sweep) -> u64 {
        match sweep.base.len {
            0 => self.index.disk_bytes(),
            len => (GROWTH * len).min(self.index.disk_bytes()).max(len),
        }
    }

    /// And what it takes of the disk: also the tables that are merged away while it reads them.
    fn likely_room(&self, sweep: &Sweep) -> u64 {
        self.likely_len(sweep).saturating_add(self.index.disk_bytes())
    }

    /// On a disk that is nearly full: whether what goes at once when there is a base is much against what it takes. Else
    /// heads would fill a small disk long before they are as many as a large one bears.
    fn is_relieved_by_a_base(&self, sweep: &Sweep, active: u32) -> bool {
        let each = self.space.each(Area::Journal).into_iter();
        let dead =
            each.filter(|(number, used)| (sweep.base.segment..active).contains(number) && used.live == 0);
        let gain: u64 = dead.map(|(_, used)| used.len.saturating_sub(used.freed)).sum();
        // It holds less than the index; how much less is known once there was one.
        let (likely, least) = match sweep.base.len {
            0 => (self.index.disk_bytes(), self.index.disk_bytes()),
            len => (len, GROWTH * len),
        };
        let has_room = self.space.has_room(likely) || self.space.disk_free() / ROOM >= likely;
        gain >= least.max(self.settings.journal_segment_bytes) && has_room
    }

    fn write_base(&self, position: &Position, mut rows: Vec<Rows>) -> Result<(), StorageError> {
        let notes = self.notes()?;
        let mut writer = Writer::begin(&*self.disk, &self.salt, position, !notes.is_empty())?;
        notes.iter().try_for_each(|note| writer.put(note))?;
        let (mut listed, chunks) = (Listed::over(rows.pop()), rows.pop());
        for (table, rows) in Table::REDUCED.into_iter().zip(rows) {
            for row in rows {
                let (key, value) = row?;
                writer.put(&Item::Row { table: table as u8, key, value })?;
            }
        }
        for row in chunks.into_iter().flatten() {
            let (key, value) = row?;
            let row: Row = decode(&value).map_err(|error| StorageError::Index(error.to_string()))?;
            let chunk = read_chunk_key(&key);
            let chunk = chunk.ok_or_else(|| StorageError::Index("a key of a chunk does not read".into()))?;
            self.write_chunk(&mut writer, &mut listed, chunk, &row)?;
        }
        drop(listed);
        writer.finish()
    }

    /// What the index does not know of the journal: a rebuild that begins with the base does not meet the segments that told.
    fn notes(&self) -> Result<Vec<Item>, StorageError> {
        let reading = self.index.read();
        let mut notes = Vec::new();
        for key in UNKNOWN {
            let value = reading.get(Table::Storage, key)?;
            notes.extend(value.map(|value| Item::Note { key: key.to_vec(), value: value.to_vec() }));
        }
        Ok(notes)
    }

    fn write_chunk(
        &self,
        writer: &mut Writer<'_>,
        listed: &mut Listed,
        key: Key,
        row: &Row,
    ) -> Result<(), StorageError> {
        let (domain, id) = key;
        if row.references != 0 {
            writer.put(&Item::Refer { domain, id, delta: row.references })?;
        }
        let Some(place) = row.place else { return Ok(()) };
        if place.area == Area::Journal {
            let (segment, offset, crc) = (place.segment, place.offset, place.crc);
            writer.put(&Item::Body { domain, id, segment, offset, crc, stored: row.stored })?;
        }
        // A body in the journal is no tree to a rebuild: nothing is taken off for it.
        if row.tree && place.area != Area::Journal {
            for child in self.counted(listed, key)? {
                writer.put(&Item::Refer { domain, id: child, delta: -1 })?;
            }
        }
        Ok(())
    }

    /// What a tree counts, that a rebuild adds when it finds the tree.
    fn counted(&self, listed: &mut Listed, key: Key) -> Result<Vec<ChunkId>, StorageError> {
        let (domain, id) = key;
        let children = match self.read_quietly(domain, id, 0..u32::MAX) {
            // Let go of since: neither will a rebuild add what it lists, nor what was noted of it take that off.
            Err(_) if load_row(&*self.index.read(), key)?.place.is_none() => {
                Ok(listed.of(key)?.unwrap_or_default())
            }
            Err(ReadError::Store(error)) => return Err(error),
            read => read
                .map_err(|error| StorageError::Damaged(error.to_string()))
                .and_then(|bytes| put::children_of(skerry_base::ChunkKind::Tree, &bytes))
                .map(|children| children.to_vec()),
        };
        // What is noted of a tree does not count here: a rebuild adds what a tree lists only if it reads. Of one that
        // does not, nothing is taken off: after a rebuild what it lists may stay too long, but never
        // goes too soon. Without a base the journal would grow until somebody mends it, and nobody mends a copy.
        Ok(children.unwrap_or_else(|error| {
            tracing::warn!(%domain, tree = %id, %error, "the base counts what a tree lists that cannot be read");
            Vec::new()
        }))
    }

    /// Sealed segments before the base in which nothing lives are to be removed.
    pub(super) fn condemn_journal(&self, sweep: &mut Sweep) -> Result<(), StorageError> {
        // What a damaged base said may stand in those segments alone.
        if sweep.base.damaged {
            return Ok(());
        }
        let active = self.core().writer.tail().segment;
        let before = sweep.base.segment.min(active);
        let dead: Vec<u32> = self
            .space
            .each(Area::Journal)
            .into_iter()
            .filter(|(number, used)| {
                let is_spared =
                    sweep.lacking.contains(number) || sweep.condemned.contains(&(Area::Journal, *number));
                *number < before && used.live == 0 && !is_spared
            })
            .map(|(number, _)| number)
            .collect();
        for number in dead {
            self.own_group(|_, changes, _| {
                changes.free_segment(Area::Journal, number);
                Ok(Some(()))
            })?;
            sweep.condemned.insert((Area::Journal, number));
            sweep.journal.remove(&number);
        }
        Ok(())
    }
}

/// What a base says, in this order: the tables, the chunks, and beside those what trees list.
fn parts() -> Vec<Part> {
    let tables = Table::REDUCED.into_iter().chain([Table::Chunks]).map(|table| Part(table, &[]));
    tables.chain([Part(Table::Storage, LISTED)]).collect()
}

/// What trees list, asked for in the order of their keys.
struct Listed(Option<Peekable<Rows>>);

impl Listed {
    fn over(rows: Option<Rows>) -> Self {
        Self(rows.map(Iterator::peekable))
    }

    /// As it was noted when the tree came to lie here; none: by a release before.
    fn of(&mut self, key: Key) -> Result<Option<Vec<ChunkId>>, StorageError> {
        let (wanted, Some(rows)) = (listed_key(key), &mut self.0) else { return Ok(None) };
        let is_before =
            |row: &Result<(Vec<u8>, Vec<u8>), _>| row.as_ref().is_ok_and(|(key, _)| *key < wanted);
        while rows.next_if(is_before).is_some() {}
        let is_it =
            |row: &Result<(Vec<u8>, Vec<u8>), _>| row.as_ref().map_or(true, |(key, _)| *key == wanted);
        let Some(found) = rows.next_if(is_it).transpose()? else { return Ok(None) };
        let damaged = || StorageError::Index("what a tree lists does not read".into());
        read_listed(&found.1).map(Some).ok_or_else(damaged)
    }
}
