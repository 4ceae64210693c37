//! The end of the journal that grows.
//!
//! A group is *staged* frame by frame into memory, where each learns its LSN and place, and then written and
//! synced at once. When a segment is full its table is staged behind it and the group goes on in a spare.
//! Ordinary frames may only take spares beyond the reserve; those that let go of space may take the last.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::StorageError;
use crate::disk::{Disk, File};
use crate::error::is_of_the_medium;
use crate::meter::SyncMeter;

use super::frame::{self, Draft, Kind, Stamp};
use super::reader::{self, Walked};
use super::segment::{self, Footer, Line, SegmentHeader};
use super::{FOLDER, Position, file_name};

/// The segment that is being written.
struct Active {
    number: u32,
    file: Arc<dyn File>,
    capacity: u64,
    first_lsn: u64,
    lines: Vec<Line>,
}

/// Bytes staged for one place.
struct Piece {
    number: u32,
    file: Arc<dyn File>,
    offset: u64,
    bytes: Vec<u8>,
    /// Whether the segment ends with this piece.
    seals: bool,
}

/// Where a staged frame will lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Staged {
    pub(crate) segment: u32,
    /// Where its first body begins.
    pub(crate) bodies_at: u64,
}

/// A segment that was sealed by a written group.
pub(crate) struct Sealed {
    pub(crate) number: u32,
    pub(crate) len: u64,
}

/// The writing end.
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    salt: [u8; 16],
    segment_bytes: u64,
    active: Option<Active>,
    spares: VecDeque<(u32, Arc<dyn File>)>,
    next_number: u32,
    tail: Position,
    /// Last LSN known durable.
    durable: u64,
    /// Bytes written since then.
    unsynced: u64,
    staged: Vec<Piece>,
    /// The buffer of the last group, for the next.
    buffer: Vec<u8>,
    /// Spares of another length, which are gone.
    discarded: Vec<u32>,
    /// The segment that could not be written.
    failed: Option<u32>,
}

impl Writer {
    /// Goes on where a walk ended.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        salt: [u8; 16],
        segment_bytes: u64,
        walked: &Walked,
        unwritable: &BTreeSet<u32>,
    ) -> Result<Self, StorageError> {
        let open = |number| {
            disk.open(&file_name(FOLDER, number))
                .map_err(|error| StorageError::io("open a journal segment", &error))
        };
        let tail = walked.tail.unwrap_or(Position { segment: 0, offset: 0, lsn: 1, previous: 0 });
        let mut writer = Self {
            disk: disk.clone(),
            salt,
            segment_bytes,
            active: None,
            spares: VecDeque::new(),
            next_number: walked.spares.iter().chain(&walked.used).max().map_or(1, |last| last + 1),
            tail,
            durable: tail.lsn - 1,
            unsynced: 0,
            staged: Vec::new(),
            buffer: Vec::new(),
            discarded: Vec::new(),
            failed: None,
        };
        if walked.tail.is_some() {
            let file = open(tail.segment)?;
            let capacity = file.len().map_err(|error| StorageError::io("measure the journal", &error))?;
            if goes_on_there(&file, walked, unwritable.contains(&tail.segment))? {
                let (first_lsn, lines) = (walked.first_lsn, walked.lines.clone());
                writer.active = Some(Active { number: tail.segment, file, capacity, first_lsn, lines });
            }
        }
        for &number in &walked.spares {
            let file = open(number)?;
            if file.len().is_ok_and(|len| len == segment_bytes) {
                writer.spares.push_back((number, file));
            } else {
                disk.remove(&file_name(FOLDER, number))
                    .map_err(|error| StorageError::io("remove a spare segment", &error))?;
                writer.discarded.push(number);
            }
        }
        Ok(writer)
    }

    /// Goes on in a new segment where nothing is to be written to the last one. Without a spare the first frame does that.
    pub(crate) fn go_on(&mut self, meter: &SyncMeter) -> Result<(), StorageError> {
        if self.active.is_some() || self.tail.segment == 0 || self.spares.is_empty() {
            return Ok(());
        }
        self.roll()?;
        self.write(meter, false).map(drop)
    }

    /// Where the next frame goes.
    pub(crate) const fn tail(&self) -> Position {
        self.tail
    }

    /// The spares that were removed because segments have another length now.
    pub(crate) fn discarded(&self) -> &[u32] {
        &self.discarded
    }

    /// As a release before left it, whose walk noted no frame behind a damaged one.
    #[cfg(test)]
    pub(crate) fn forget_lines(&mut self) {
        self.active.iter_mut().for_each(|active| active.lines.truncate(2));
    }

    /// Spares at hand.
    pub(crate) fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Whether the next frame begins the first segment of a store.
    pub(crate) const fn is_blank(&self) -> bool {
        self.active.is_none()
    }

    /// Bytes of a new segment.
    pub(crate) const fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of the largest frame that a segment holds.
    pub(crate) const fn frame_limit(&self) -> u64 {
        self.segment_bytes.saturating_sub((segment::HEADER + segment::LINE + segment::TRAILER) as u64)
    }

    /// Whether a frame of this length would begin a new segment.
    pub(crate) fn would_roll(&self, frame_len: u64) -> bool {
        self.active.as_ref().is_none_or(|active| {
            let table = ((active.lines.len() + 1) * segment::LINE + segment::TRAILER) as u64;
            self.tail.offset + frame_len + table > active.capacity
        })
    }

    /// Bytes that frames may take before a segment is needed of which so many spares are not to be taken.
    pub(crate) fn room(&self, reserve: usize) -> u64 {
        let active = self.active.as_ref().map_or(0, |active| {
            let table = ((active.lines.len() + 1) * segment::LINE + segment::TRAILER) as u64;
            active.capacity.saturating_sub(self.tail.offset + table)
        });
        match self.spares.len().cmp(&reserve) {
            Ordering::Less => 0,
            Ordering::Equal => active,
            Ordering::Greater => active + self.segment_bytes,
        }
    }

    /// Makes one more spare and returns its number; durable when it returns.
    pub(crate) fn add_spare(&mut self) -> Result<u32, StorageError> {
        let failed = |error: std::io::Error| StorageError::io("make a journal segment", &error);
        let number = self.next_number;
        let name = file_name(FOLDER, number);
        let made = self.disk.create(&name, self.segment_bytes);
        if made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
            // What an attempt that failed left there: the next one goes by it.
            self.next_number += 1;
        }
        let file = made.map_err(failed)?;
        self.next_number += 1;
        if let Err(error) = file.sync().and_then(|()| self.disk.sync_dir(FOLDER)) {
            // Nobody would account for it.
            self.disk.remove(&name).map_err(failed)?;
            return Err(failed(error));
        }
        self.spares.push_back((number, file));
        Ok(number)
    }

    /// Stages a frame. `Full`: a new segment is needed and there is no spare; nothing is staged then.
    pub(crate) fn stage(
        &mut self,
        kind: Kind,
        entries: &[&[u8]],
        bodies: &[(frame::BodyLine, &[u8])],
    ) -> Result<Staged, StorageError> {
        let len = frame::frame_len(
            entries.iter().map(|entry| entry.len()),
            bodies.iter().map(|(_, bytes)| bytes.len()),
        );
        if len > self.frame_limit() {
            return Err(StorageError::TooLarge { found: len, limit: self.frame_limit() });
        }
        if self.would_roll(len) {
            self.roll()?;
        }
        let active = self.active.as_mut().ok_or(StorageError::Full)?;
        let piece = match self.staged.last_mut() {
            Some(piece) if piece.number == active.number => piece,
            _ => {
                let bytes = core::mem::take(&mut self.buffer);
                let (number, file, offset) = (active.number, active.file.clone(), self.tail.offset);
                self.staged.push(Piece { number, file, offset, bytes, seals: false });
                self.staged.last_mut().ok_or(StorageError::Full)?
            }
        };
        let lsn = self.tail.lsn;
        let stamp = Stamp { kind, lsn, after: self.durable, previous: self.tail.previous };
        let draft = Draft { stamp, entries, bodies };
        let (crc, head_len) = frame::encode(&draft, &self.salt, &mut piece.bytes);
        active.lines.push(Line { offset: self.tail.offset as u32, head_len: head_len as u32 });
        let bodies_at = self.tail.offset + head_len as u64;
        self.tail =
            Position { segment: active.number, offset: self.tail.offset + len, lsn: lsn + 1, previous: crc };
        Ok(Staged { segment: active.number, bodies_at })
    }

    /// Seals the active segment (staged) and goes on in the first spare.
    fn roll(&mut self) -> Result<(), StorageError> {
        let (number, file) = self.spares.pop_front().ok_or(StorageError::Full)?;
        if let Some(active) = self.active.take() {
            let (at, last_crc) = (self.tail.offset, self.tail.previous);
            let footer =
                Footer { first_lsn: active.first_lsn, last_crc, stripped: false, lines: active.lines };
            let table = footer.encode(at, &self.salt);
            match self.staged.last_mut() {
                Some(piece) if piece.number == active.number => {
                    piece.bytes.extend_from_slice(&table);
                    piece.seals = true;
                }
                _ => self.staged.push(Piece {
                    number: active.number,
                    file: active.file,
                    offset: at,
                    bytes: table,
                    seals: true,
                }),
            }
        }
        let header =
            SegmentHeader { number, previous: self.tail.previous, first_lsn: self.tail.lsn, stripped: false };
        let mut bytes = core::mem::take(&mut self.buffer);
        bytes.extend_from_slice(&header.encode(&self.salt));
        self.staged.push(Piece { number, file: file.clone(), offset: 0, bytes, seals: false });
        self.tail = Position { segment: number, offset: segment::HEADER as u64, ..self.tail };
        let (capacity, first_lsn) = (self.segment_bytes, self.tail.lsn);
        self.active = Some(Active { number, file, capacity, first_lsn, lines: Vec::new() });
        Ok(())
    }

    /// Whether anything is staged.
    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Whether what is staged seals a segment, which is then synced in any case.
    pub(crate) fn seals(&self) -> bool {
        self.staged.iter().any(|piece| piece.seals)
    }

    /// Bytes written that no sync has covered.
    pub(crate) const fn unsynced(&self) -> u64 {
        self.unsynced
    }

    /// Makes durable what was written. After an error the journal must not be written again.
    pub(crate) fn sync(&mut self, meter: &SyncMeter) -> Result<(), StorageError> {
        let Some(active) = self.active.as_ref().filter(|_| self.unsynced > 0) else { return Ok(()) };
        // All segments before it were synced when they were sealed.
        let synced = meter.time(&*self.disk, || active.file.sync());
        let number = active.number;
        synced.map_err(|error| self.failed_at(number, "sync the journal", &error))?;
        (self.durable, self.unsynced) = (self.tail.lsn - 1, 0);
        Ok(())
    }

    /// The segment that could not be written, by what is wrong with it.
    pub(crate) const fn failed(&self) -> Option<u32> {
        self.failed
    }

    fn failed_at(&mut self, number: u32, what: &str, error: &std::io::Error) -> StorageError {
        if is_of_the_medium(error) {
            self.failed = Some(number);
        }
        StorageError::stops(what, error)
    }

    /// Writes what is staged, and syncs it unless it may wait. After an error the journal must not be written again.
    pub(crate) fn write(&mut self, meter: &SyncMeter, waits: bool) -> Result<Vec<Sealed>, StorageError> {
        let mut sealed = Vec::new();
        for at in 0..self.staged.len() {
            let Some(piece) = self.staged.get(at) else { break };
            let number = piece.number;
            match write_piece(&*self.disk, piece, meter) {
                Ok(length) => sealed.extend(length.map(|len| Sealed { number, len })),
                Err(error) => return Err(self.failed_at(number, "write the journal", &error)),
            }
            self.unsynced += piece.bytes.len() as u64;
        }
        if !waits {
            self.sync(meter)?;
        }
        if let Some(piece) = self.staged.pop() {
            self.buffer = piece.bytes;
            self.buffer.clear();
            // A rare large group must not hold its memory for ever.
            self.buffer.shrink_to(BUFFER_KEPT);
        }
        self.staged.clear();
        Ok(sealed)
    }
}

/// Writes one; of a segment that ends with it, synced, its length.
fn write_piece(disk: &dyn Disk, piece: &Piece, meter: &SyncMeter) -> std::io::Result<Option<u64>> {
    piece.file.write_at(piece.offset, &[&piece.bytes])?;
    if !piece.seals {
        return Ok(None);
    }
    let len = piece.offset + piece.bytes.len() as u64;
    piece.file.truncate(len)?;
    meter.time(disk, || piece.file.sync())?;
    Ok(Some(len))
}

/// Makes the end of a segment what a frame can be written behind: takes off what a torn write left there, and makes durable what
/// a killed process left in the page cache and was read as durable. False where the disk does not let it (`is_bad`: it did not in
/// the life before): what is torn is cut off then, and nothing more is written there.
fn goes_on_there(file: &Arc<dyn File>, walked: &Walked, is_bad: bool) -> Result<bool, StorageError> {
    let Some(tail) = walked.tail else { return Ok(false) };
    let segment = tail.segment;
    if walked.is_unread {
        tracing::warn!(segment, "the end of the journal cannot be read: it goes on in a new segment");
        return Ok(false);
    }
    if !is_bad {
        let blanked = if walked.torn.is_some() { reader::blank(file, tail.offset) } else { Ok(()) };
        let sync = || file.sync().map_err(|error| StorageError::io("sync the journal", &error));
        match blanked.and_then(|()| sync()) {
            Err(error @ StorageError::Io { .. }) => tracing::warn!(segment, %error, "the end of the journal"),
            made => return made.map(|()| true),
        }
    }
    tracing::warn!(segment, "the end of the journal cannot be written: it goes on in a new segment");
    file.truncate(tail.offset).map_err(|error| StorageError::io("cut off the end of the journal", &error))?;
    if let Err(error) = file.sync() {
        tracing::warn!(segment, %error, "nor can it be synced");
    }
    Ok(false)
}

/// Bytes of the group buffer kept between groups.
const BUFFER_KEPT: usize = 1 << 20;
