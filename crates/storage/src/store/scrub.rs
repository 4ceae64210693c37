//! Everything is read again in rounds, so that damage is found while another copy still exists.
//!
//! A round reads all chunks that are here, against their checksums and their names (in the order of their names,
//! within one step in the order of their places), then the sealed journal segments frame by frame, then the base of
//! the journal. There is no clock here: who calls decides on the pace. Where a round is lies in a file of its own,
//! because the index can be thrown away; it is written once per [`SAVE`] bytes read, so a restart reads little twice
//! and a card is not worn.
//!
//! Invariants: what is found damaged is noted durably before the step returns, is never served, and stays on the
//! list until it reads well again or nothing refers to it; a round misses no chunk that was here when it began and
//! still is when it ends.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::sync::{MutexGuard, PoisonError};

use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, ChunkId, ChunkKind, WallTime};

use super::changes::{listed, load_row};
use super::rebase::first_lsn;
use super::{Class, Store};
use crate::chunks::Key;
use crate::chunks::row::{self, Area, Place, Row, read_chunk_key};
use crate::disk::Disk;
use crate::journal::reader::walk_sealed;
use crate::{ReadError, StorageError, side_file};

mod state;

use state::{Cursor, Saved};
pub use state::{DamagedChunk, DamagedSegment, ScrubState, ScrubStep};

/// The file of the position.
const FILE: &str = "scrub";
/// Chunks of one step.
const STEP: usize = 256;
/// Rows looked at in one step: most may be of chunks that are elsewhere.
const LOOK: usize = 8192;
/// The position is written once per so many bytes read.
const SAVE: u64 = 64 << 20;

/// Where the scrub is, in memory.
#[derive(Default)]
pub(super) struct Scrub {
    saved: Saved,
    /// Bytes read since the position was written.
    unsaved: u64,
    /// Damaged chunks that this round found and the list had no room for; none: it was begun before the last start.
    unlisted: Option<u64>,
}

/// Chunks to be read by one step, and where the next goes on; none: that was the last.
struct Batch {
    rows: Vec<(Key, Row)>,
    next: Option<Vec<u8>>,
}

impl Scrub {
    /// The damaged journal segments that the last round found.
    pub(super) fn segments(&self) -> impl Iterator<Item = u32> {
        self.saved.state.segments.iter().map(|damaged| damaged.segment)
    }

    /// Takes in what a step did; true if something new was found that must be kept. What a round before found and the list
    /// had no room for is mended, or was found again, once a whole round has ended.
    fn note(&mut self, step: &ScrubStep) -> bool {
        let before = self.saved.state.unlisted;
        let found = self.saved.note(step);
        if let Some(count) = &mut self.unlisted {
            let state = &mut self.saved.state;
            *count += state.unlisted - before;
            state.unlisted = if step.finished { *count } else { before.max(*count) };
        }
        found
    }

    /// The chunks that are known to be damaged.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Key> {
        self.saved.state.damaged.iter().map(|chunk| (chunk.domain, chunk.id))
    }

    /// Goes on where the last run was; a position that does not read is one that is lost: a new round begins.
    pub(super) fn load(disk: &dyn Disk, salt: &[u8; 16]) -> Self {
        let saved = side_file::read(disk, FILE, salt, state::FILE_BYTES).unwrap_or_else(|why| {
            tracing::warn!(why, "the position of the scrub is lost; it begins anew");
            // What was on the list nobody knows before a whole round has ended, whatever is written down until then.
            let state = ScrubState { unlisted: 1, ..ScrubState::default() };
            Saved { state, ..Saved::default() }
        });
        Self { saved, ..Self::default() }
    }

    /// The domains of the trees on the list; none: more was found damaged than it names, or it is lost.
    pub(super) fn trees(&self) -> Option<Vec<BucketId>> {
        let state = &self.saved.state;
        let trees = state.damaged.iter().filter(|chunk| chunk.tree).map(|tree| tree.domain);
        (state.unlisted == 0).then(|| trees.collect())
    }
}

impl Store {
    fn scrubbing(&self) -> MutexGuard<'_, Scrub> {
        self.scrub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunks on the list.
    pub(super) fn scrub_listed(&self) -> BTreeSet<Key> {
        self.scrubbing().chunks().collect()
    }

    /// Where the scrub is and what it found.
    pub fn scrub_state(&self) -> ScrubState {
        self.scrubbing().saved.state.clone()
    }

    /// Lets the scrub rest until told otherwise, also after a restart.
    pub fn pause_scrub(&self, pause: bool) -> Result<(), StorageError> {
        let mut scrub = self.scrubbing();
        scrub.saved.state.paused = pause;
        self.save(&mut scrub)
    }

    /// Begins a round, unless one is under way.
    pub fn begin_scrub(&self, now: WallTime) -> Result<(), StorageError> {
        let mut scrub = self.scrubbing();
        if scrub.saved.cursor != Cursor::Idle {
            return Ok(());
        }
        let state = &mut scrub.saved.state;
        state.round += 1;
        (state.started, state.running) = (Some(now), true);
        (state.chunks, state.bytes) = (0, 0);
        state.segments.clear();
        scrub.saved.cursor = Cursor::Chunks(Vec::new());
        scrub.unlisted = Some(0);
        self.save(&mut scrub)
    }

    /// One step of the round under way, of at most about `most` bytes (never less than one chunk). Nothing is done
    /// while it is paused or no round was begun.
    pub fn scrub(&self, most: u64, now: WallTime) -> Result<ScrubStep, StorageError> {
        let mut scrub = self.scrubbing();
        if scrub.saved.state.paused {
            return Ok(ScrubStep::default());
        }
        let mut step = ScrubStep { worked: true, ..ScrubStep::default() };
        match scrub.saved.cursor.clone() {
            Cursor::Idle => return Ok(ScrubStep::default()),
            Cursor::Chunks(after) => {
                let mut torn = Vec::new();
                let next = self.scrub_chunks(&after, most, &mut step, &mut torn)?;
                // They are fetched again when somebody asks, and keep no segment until then.
                self.give_up(&torn)?;
                self.list_trees(&after, next.as_deref())?;
                scrub.saved.cursor = next.map_or(Cursor::Journal(0), Cursor::Chunks);
            }
            Cursor::Journal(after) => match self.scrub_segment(after, &mut step)? {
                Some(number) => scrub.saved.cursor = Cursor::Journal(number),
                None => {
                    scrub.saved.cursor = Cursor::Idle;
                    scrub.saved.state.running = false;
                    scrub.saved.state.finished = Some(now);
                    step.finished = true;
                }
            },
        }
        scrub.unsaved += step.bytes;
        let found = scrub.note(&step);
        // First: on a full disk the position is not written, and the step does not come back to them.
        self.note_hurt(&step.segments);
        if found || step.finished || scrub.unsaved >= SAVE {
            self.save(&mut scrub)?;
        }
        drop(scrub);
        if step.finished {
            // Only now: it is read in one go, and others ask how far the scrub is.
            self.check_base();
            if let Err(error) = self.look_at_unread() {
                tracing::warn!(%error, "segments that could not be read are looked at again by the next round");
            }
        }
        Ok(step)
    }

    /// Notes chunks that somebody else (an offline check) found damaged, so that they are mended like the rest.
    pub fn note_damaged(&self, chunks: Vec<DamagedChunk>) -> Result<(), StorageError> {
        let mut scrub = self.scrubbing();
        let step = ScrubStep { damaged: chunks, ..ScrubStep::default() };
        let before = scrub.saved.state.unlisted;
        let found = scrub.saved.note(&step);
        let more = scrub.saved.state.unlisted - before;
        // The round under way did not find them, and ends them no more than its own.
        if let Some(count) = &mut scrub.unlisted {
            *count += more;
        }
        if found { self.save(&mut scrub) } else { Ok(()) }
    }

    /// Notes what reads found damaged since this was asked last, also what they mended by putting it anew: [`Store::recheck`]
    /// then counts it as such.
    pub fn note_come_across(&self) -> Result<Vec<DamagedChunk>, StorageError> {
        let found = std::mem::take(&mut self.live.lock().come_across);
        let listed = found.iter().map(|(&(domain, id), why)| {
            let row = load_row(&self.view(), (domain, id))?;
            Ok(DamagedChunk { domain, id, tree: row.tree, stored: row.stored, why: why.clone() })
        });
        let chunks = listed.collect::<Result<Vec<_>, StorageError>>().inspect_err(|_| {
            // An index that does not read for a moment is no reason to forget them.
            self.live.lock().come_across.extend(found.clone());
        })?;
        if !chunks.is_empty() {
            self.note_damaged(chunks.clone())?;
        }
        Ok(chunks)
    }

    /// Looks again at a chunk of the list; true if it is off the list now, because it reads well (it was mended, and that is
    /// on disk: [`Store::settle`]) or because nothing refers to it any more.
    pub fn recheck(&self, domain: BucketId, id: ChunkId) -> Result<bool, StorageError> {
        let mended = match self.check_chunk(domain, id) {
            // A power cut would have the damaged one back, and nobody would know.
            Ok(()) if self.live.lock().is_unsynced((domain, id)) => return Ok(false),
            Ok(()) => true,
            // A rebuild of the index drops what it finds torn: it is wanted still, and is to come back to stay.
            Err(ReadError::Absent) if load_row(&self.view(), (domain, id))?.references > 0 => {
                return Ok(false);
            }
            Err(ReadError::Absent) => false,
            Err(ReadError::Store(error)) => return Err(error),
            Err(ReadError::Damaged(_) | ReadError::Range(_)) => return Ok(false),
        };
        let mut scrub = self.scrubbing();
        let state = &mut scrub.saved.state;
        let before = state.damaged.len();
        state.damaged.retain(|chunk| (chunk.domain, chunk.id) != (domain, id));
        if state.damaged.len() < before {
            state.mended += u64::from(mended);
            self.save(&mut scrub)?;
        }
        Ok(true)
    }

    pub(super) fn scrub_chunks(
        &self,
        after: &[u8],
        most: u64,
        step: &mut ScrubStep,
        torn: &mut Vec<(Key, Place)>,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let mut batch = self.next_chunks(after, most)?;
        batch.rows.sort_by_key(|(_, row)| row.place);
        for ((domain, id), row) in batch.rows {
            let Some(place) = row.place else { continue };
            let is_copy = place.area == Area::Cache;
            // What lies in memory says nothing about the disk.
            self.files.release(place.area, place.segment, place.offset, row.taken());
            let found = self.check_quietly(domain, id);
            step.chunks += 1;
            step.bytes += row.taken();
            match found {
                Ok(()) => {}
                // One that was evicted meanwhile is not torn.
                Err(ReadError::Absent)
                    if is_copy && load_row(&self.view(), (domain, id))?.place == Some(place) =>
                {
                    step.torn_copies += 1;
                    torn.push(((domain, id), place));
                }
                Err(ReadError::Absent) => {}
                Err(ReadError::Store(error)) => return Err(error),
                Err(ReadError::Damaged(why)) => {
                    self.live.lock().come_across.remove(&(domain, id));
                    let tree = row.tree;
                    step.damaged.push(DamagedChunk { domain, id, tree, stored: row.stored, why });
                }
                // It was written anew, shorter, while it was read.
                Err(ReadError::Range(_)) => {}
            }
        }
        Ok(batch.next)
    }

    /// Notes what the trees of a step list that a release before took in without; one that does not read is left. One whose
    /// bytes came as a small body when it was damaged lies in the journal, which does not say of a body that it is a tree: it
    /// is written again, so that a rebuild counts what it lists.
    fn list_trees(&self, after: &[u8], upto: Option<&[u8]>) -> Result<(), StorageError> {
        let view = self.view();
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
        let (mut trees, mut bodies): (Vec<Key>, Vec<Key>) = Default::default();
        view.scan(Table::Chunks, from, upto.map_or(Bound::Unbounded, Bound::Included), &mut |key, value| {
            let area = |row: Row| row.place.filter(|_| row.tree).map(|place| place.area);
            let area = row::decode::<Row>(value).ok().and_then(area);
            trees.extend(read_chunk_key(key).filter(|_| area.is_some()));
            bodies.extend(read_chunk_key(key).filter(|_| area == Some(Area::Journal)));
            ControlFlow::Continue(())
        })?;
        for (domain, id) in bodies {
            let Ok(bytes) = self.read_quietly(domain, id, 0..u32::MAX) else { continue };
            match self.put_chunk(domain, Class::Payload, ChunkKind::Tree, &bytes) {
                Ok(_) | Err(StorageError::Full) => {}
                Err(error) => return Err(error),
            }
        }
        for key in trees {
            if listed(&view, key)?.is_some() {
                continue;
            }
            let Ok(children) = self.read_children(key) else { continue };
            self.own_group(|_, changes, _| {
                let row = changes.row(key)?;
                let is_here = row.tree && row.place.is_some();
                if is_here {
                    changes.list(key, &children);
                }
                Ok(is_here.then_some(()))
            })?;
        }
        Ok(())
    }

    /// The next chunks by name that are here.
    fn next_chunks(&self, after: &[u8], most: u64) -> Result<Batch, StorageError> {
        let mut batch = Batch { rows: Vec::new(), next: None };
        let (mut looked, mut bytes, mut bad) = (0, 0, None);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
        self.view().scan(Table::Chunks, from, Bound::Unbounded, &mut |key, value| {
            looked += 1;
            match (read_chunk_key(key), row::decode::<Row>(value)) {
                (Some(chunk), Ok(row)) if row.place.is_some() => {
                    bytes += row.taken();
                    batch.rows.push((chunk, row));
                }
                (Some(_), Ok(_)) => {}
                (_, Err(error)) => bad = Some(error.to_string()),
                (None, Ok(_)) => bad = Some("a key of a chunk does not read".to_owned()),
            }
            let full = batch.rows.len() >= STEP || bytes >= most || looked >= LOOK;
            if full || bad.is_some() {
                batch.next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        match bad {
            Some(why) => {
                self.health.note_bad();
                Err(StorageError::Index(why))
            }
            None => Ok(batch),
        }
    }

    /// Reads the heads of the next sealed journal segment; none: there is no more.
    pub(super) fn scrub_segment(
        &self,
        after: u32,
        step: &mut ScrubStep,
    ) -> Result<Option<u32>, StorageError> {
        let active = self.core().writer.tail().segment;
        let next = self.space.each(Area::Journal).into_iter().map(|(number, _)| number);
        // What those before the base say is not needed; bodies in them are read as chunks.
        let is_next = |number: &u32| *number > after && *number < active && !self.is_before_base(*number);
        let Some(number) = next.into_iter().find(is_next) else {
            return Ok(None);
        };
        let failed = |error: std::io::Error| StorageError::io("open a journal segment", &error);
        let file = match self.files.get(Area::Journal, number) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(number)),
            Err(error) => return Err(failed(error)),
        };
        let len = file.len().map_err(failed)?;
        file.release(0, len);
        step.bytes += len.saturating_sub(self.space.of(Area::Journal, number).freed);
        let why = match walk_sealed(&file, number, &self.salt, &mut |_| Ok(())) {
            Ok(Some((_, footer))) => {
                step.segments.extend(self.gap_behind(number, footer.first_lsn + footer.lines.len() as u64));
                return Ok(Some(number));
            }
            Ok(None) => "it does not read as its table says".to_owned(),
            // The step is made again.
            Err(error @ StorageError::Lacking { .. }) => return Err(error),
            // A disk that cannot read a sector tells so by an error.
            Err(error) => error.to_string(),
        };
        // Stripped or removed meanwhile: the file that was read is not the segment any more.
        if self.space.of(Area::Journal, number).len == len {
            tracing::error!(segment = number, why, "damaged journal segment");
            step.segments.push(DamagedSegment { segment: number, why });
        }
        Ok(Some(number))
    }

    /// A segment that does not go on where the one before it ends: one between them is gone. Only the index says what it said.
    fn gap_behind(&self, number: u32, end: u64) -> Option<DamagedSegment> {
        let active = self.core().writer.tail().segment;
        // One that is gone may have an account still.
        let each = self.space.each(Area::Journal).into_iter().filter(|(_, used)| used.len > 0);
        let segment = each.map(|(number, _)| number).find(|next| (number + 1..=active).contains(next))?;
        let begins = first_lsn(&*self.disk, &self.salt, segment).filter(|begins| *begins > end)?;
        let why = format!("entries {end} to {}, which lay before it, are gone", begins - 1);
        tracing::error!(segment, why, "damaged journal segment");
        Some(DamagedSegment { segment, why })
    }

    fn save(&self, scrub: &mut Scrub) -> Result<(), StorageError> {
        side_file::write(&*self.disk, FILE, &self.salt, &scrub.saved)?;
        scrub.unsaved = 0;
        Ok(())
    }
}
