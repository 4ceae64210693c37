//! Payload segments in which little lives are emptied: what lives is written again at the head of the log, and the file
//! goes.
//!
//! Why: dead chunks are punched out, but not every file system can, and a file of which a sixteenth is left is a name to
//! be opened at every start. Where nothing can be punched the emptiest segments go once four fifths of them are dead; on
//! a disk that is nearly full as soon as an eighth comes back, into room that writes have left for it. A step is small, so that
//! who reads and commits is never behind much of it; what is left of a segment is remembered until the next one.
//!
//! Order of durability: the extents at their new places, the index that names them, the removal of the file. Whatever
//! moment it ends at, the old places hold until the index of the new ones survives a crash; a rebuild that finds both
//! takes the newer, and both hold the same bytes.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use skerry_base::ChunkKind;

use super::Store;
use super::changes::load_row;
use super::collect::Sweep;
use super::put::{Draft, children_of};
use super::report::Collected;
use crate::chunks::Key;
use crate::chunks::row::{Area, Place, Row};
use crate::payload::scan::scan;
use crate::space::Use;
use crate::{ReadError, StorageError};

/// Bytes written again before they are synced and the index hears of them.
const GROUP: u64 = 4 << 20;
/// Where holes can be punched only a name is won: a segment of which less than one part in this lives.
const THIN: u64 = 16;
/// Where they cannot: one of which one part in this lives, at most.
const WORTH: u64 = 5;
/// On a disk that is nearly full: one of which one part in this comes back, at least.
const LEAST: u64 = 8;

/// A segment that is being emptied, and what is left in it.
pub(super) struct Emptying {
    number: u32,
    living: Vec<Living>,
}

/// A chunk that lives in a segment.
struct Living {
    key: Key,
    row: Row,
    place: Place,
}

impl Store {
    /// Moves what lives out of the emptiest segments, as much as one step may.
    pub(super) fn compact(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let segment = self.settings.payload_segment_bytes;
        let most = if done.pressed { segment } else { self.settings.move_bytes };
        let moved = self.move_out(sweep, most, done);
        done.more |= done.pressed && done.moved > 0;
        moved
    }

    /// Another step of moving and of nothing else, for who paces it; how many bytes. None on a full disk, where the collector
    /// moves unpaced.
    pub fn move_on(&self) -> Result<u64, StorageError> {
        self.guarded(|| {
            self.check_poison()?;
            let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
            let mut done = Collected { pressed: self.is_pressed(), ..Collected::default() };
            if !done.pressed {
                self.move_out(&mut sweep, self.settings.move_bytes, &mut done)?;
            }
            Ok(done.moved)
        })
    }

    /// Bytes that one step moves.
    pub fn move_bytes(&self) -> u64 {
        self.settings.move_bytes
    }

    fn move_out(&self, sweep: &mut Sweep, most: u64, done: &mut Collected) -> Result<(), StorageError> {
        let mut left = most;
        while left > 0
            && let Some((number, used)) = self.emptiest(sweep, done.pressed)
        {
            let (moved, outcome) = self.empty(sweep, number, left);
            done.moved += moved;
            left = left.saturating_sub(moved);
            match outcome {
                Ok(()) if moved > 0 => {}
                // No room now; something else has to go first.
                Err(StorageError::Full) => return Ok(()),
                // The others go first.
                Err(StorageError::Damaged(_)) if sweep.emptying.is_some() => {}
                // In use this moment, or damaged: that stays where it is, for who can mend it.
                Ok(()) | Err(StorageError::Damaged(_)) => {
                    let lives = self.space.of(Area::Payload, number).live;
                    sweep.stuck.insert(number, lives);
                }
                // A segment that the disk cannot read stops no other.
                Err(error @ StorageError::Io { .. }) => {
                    sweep.stuck.insert(number, self.space.of(Area::Payload, number).live);
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            if self.space.of(Area::Payload, number).live == used.live && moved > 0 {
                // Counted, but not there: never tried twice for the same.
                sweep.stuck.insert(number, used.live);
            }
        }
        Ok(())
    }

    /// The sealed segment of which the least part lives, if emptying it is worth it.
    fn emptiest(&self, sweep: &Sweep, pressed: bool) -> Option<(u32, Use)> {
        let (active, holes) = (self.payload.tail().0, !self.space.has_no_holes());
        let is_worth = |used: &Use| match (holes, pressed) {
            (true, true) => false,
            (true, false) => used.live * THIN <= used.len,
            (false, false) => used.live * WORTH <= used.len,
            (false, true) => used.len.saturating_sub(used.live) * LEAST >= used.len,
        };
        let sealed = self.space.each(Area::Payload).into_iter().filter(|(number, used)| {
            *number < active
                && used.live > 0
                && !sweep.condemned.contains(&(Area::Payload, *number))
                && !sweep.unread.contains(number)
                && sweep.stuck.get(number) != Some(&used.live)
                && is_worth(used)
        });
        sealed.min_by_key(|(number, used)| (used.live * 1024 / used.len.max(1), *number))
    }

    /// Writes what lives in a segment again, up to about so many bytes; how many, and what stopped it.
    fn empty(&self, sweep: &mut Sweep, number: u32, most: u64) -> (u64, Result<(), StorageError>) {
        let left = sweep.emptying.take().filter(|emptying| emptying.number == number);
        let mut living = match left.map_or_else(|| self.living_in(number), |emptying| Ok(emptying.living)) {
            Ok(living) => living,
            Err(error) => return (0, Err(error)),
        };
        let (mut moved, mut damaged) = (0, None);
        while moved < most && !living.is_empty() {
            let count = group(&living, GROUP.min(most - moved));
            let group: Vec<Living> = living.drain(..count).collect();
            match self.write_again(&group) {
                (bytes, Ok(())) => moved += bytes,
                // The others can go all the same.
                (bytes, Err(error @ StorageError::Damaged(_))) => {
                    moved += bytes;
                    damaged = Some(error);
                }
                (bytes, Err(error)) => return (moved + bytes, Err(error)),
            }
        }
        sweep.emptying = (!living.is_empty()).then_some(Emptying { number, living });
        (moved, damaged.map_or(Ok(()), Err))
    }

    fn living_in(&self, number: u32) -> Result<Vec<Living>, StorageError> {
        let file = match self.files.get(Area::Payload, number) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StorageError::io("open a payload segment", &error)),
        };
        let view = self.index.read();
        let mut living = Vec::new();
        scan(&file, &self.salt, number, 0, &mut |offset, extent| {
            let place = Place { area: Area::Payload, segment: number, offset, crc: 0 };
            let key = (extent.domain, extent.id);
            let row = load_row(&*view, key)?;
            if row.place == Some(place) {
                living.push(Living { key, row, place });
            }
            Ok(())
        })?;
        Ok(living)
    }

    /// Writes some chunks again, syncs them and tells the index; how many bytes, and what stopped it.
    fn write_again(&self, group: &[Living]) -> (u64, Result<(), StorageError>) {
        let (mut bytes, mut outcome) = (0, Ok(()));
        for living in group {
            match self.write_one_again(living) {
                Ok(written) => bytes += written,
                Err(error @ StorageError::Damaged(_)) => outcome = Err(error),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let known = self.sync_payload().and_then(|()| self.own_group(|_, _, _| Ok(Some(()))));
        (bytes, known.and(outcome))
    }

    fn write_one_again(&self, living: &Living) -> Result<u64, StorageError> {
        let key = living.key;
        {
            let mut inner = self.live.lock();
            if !inner.may_move(key) {
                return Ok(0);
            }
            inner.begin(key);
        }
        let written = self.copy_to_head(living);
        self.live.end(key);
        written
    }

    fn copy_to_head(&self, living: &Living) -> Result<u64, StorageError> {
        let Living { key, row, place } = *living;
        // It may have been collected, or mended, since it was looked up; from now on nobody does.
        if load_row(&self.view(), key)?.place != Some(place) {
            return Ok(0);
        }
        let bytes = match self.read_quietly(key.0, key.1, 0..u32::MAX) {
            Ok(bytes) => bytes,
            Err(ReadError::Absent) => return Ok(0),
            Err(ReadError::Store(error)) => return Err(error),
            Err(error) => return Err(StorageError::Damaged(error.to_string())),
        };
        let kind = if row.tree { ChunkKind::Tree } else { ChunkKind::Leaf };
        let children = children_of(kind, &bytes)?;
        let draft = Draft { area: Area::Payload, kind, bytes: &bytes, children, moves: true };
        self.write_extent(key, draft)?;
        self.files.release(place.area, place.segment, place.offset, row.taken());
        Ok(row.taken())
    }
}

/// How many of the first are synced at once: what is no longer than this, but one.
fn group(living: &[Living], most: u64) -> usize {
    let mut bytes = 0;
    let fits = |living: &&Living| {
        bytes += living.row.taken();
        bytes <= most
    };
    living.iter().take_while(fits).count().max(1)
}
