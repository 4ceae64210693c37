//! Where new extents go: one active segment per class.

use std::sync::{Arc, Mutex, PoisonError};

use crate::StorageError;
use crate::chunks::row::Area;
use crate::disk::{Disk, File};
use crate::journal::file_name;
use crate::space::Space;

use super::GRAIN;
use super::extent::segment_header;

/// The smallest segment worth making when the disk is nearly full.
pub(crate) const SMALLEST: u64 = 2 << 20;

/// A place for one extent.
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) offset: u64,
    pub(crate) file: Arc<dyn File>,
    /// Whether the segment before is full now: it should be synced, so that only the last few can hold what is not.
    pub(crate) rolled: bool,
}

struct Active {
    number: u32,
    file: Arc<dyn File>,
    tail: u64,
    capacity: u64,
    /// Made of the room for moving: others may write to it once there is as much again.
    lent: bool,
}

/// The segments of one class.
pub(crate) struct Segments {
    area: Area,
    disk: Arc<dyn Disk>,
    salt: [u8; 16],
    segment_bytes: u64,
    state: Mutex<State>,
}

struct State {
    active: Option<Active>,
    last_number: u32,
}

/// Where a class of segments goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The highest number ever used.
    pub(crate) last_number: u32,
    /// The active segment and its tail, if there is one.
    pub(crate) active: Option<(u32, u64)>,
}

impl Known {
    /// Where the next extent goes.
    pub(crate) fn end(&self) -> (u32, u64) {
        self.active.unwrap_or((self.last_number + 1, GRAIN))
    }
}

impl Segments {
    /// Goes on in the active segment, or in one still to be made.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        area: Area,
        salt: [u8; 16],
        segment_bytes: u64,
        known: Known,
    ) -> Result<Self, StorageError> {
        let failed = |error: std::io::Error| StorageError::io("open a payload segment", &error);
        let mut state = State { active: None, last_number: known.last_number };
        if let Some((number, tail)) = known.active {
            let file = disk.open(&file_name(area.folder(), number)).map_err(failed)?;
            let capacity = file.len().map_err(failed)?;
            state.active = Some(Active { number, file, tail, capacity, lent: false });
        }
        let state = Mutex::new(state);
        Ok(Self { area, disk: disk.clone(), salt, segment_bytes, state })
    }

    /// Takes a place of `len` bytes; makes a new segment when needed, of the room for that when something is moved.
    /// `Full` if there is no room.
    pub(crate) fn take(&self, len: u64, space: &Space, moves: bool) -> Result<Slot, StorageError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rolled = false;
        let fits = |active: &Active| active.tail + len <= active.capacity;
        if let Some(active) = state.active.as_mut().filter(|active| active.lent && !moves && fits(active)) {
            if !space.can_move() {
                space.note_full(true);
                return Err(StorageError::Full);
            }
            active.lent = false;
        }
        if !state.active.as_ref().is_some_and(fits) {
            let number = state.last_number + 1;
            let made = self.make(number, len, space, moves).inspect_err(|error| {
                // Whatever became of its name: the next one is another.
                if !matches!(error, StorageError::Full) {
                    state.last_number = number;
                }
            })?;
            if let Some(old) = state.active.take() {
                rolled = true;
                // Cut to what it holds; a cut that fails only wastes room.
                if old.file.truncate(old.tail).is_ok() {
                    space.resized(self.area, old.number, old.tail);
                }
            }
            state.last_number = made.number;
            state.active = Some(made);
        }
        let active = state.active.as_mut().ok_or(StorageError::Full)?;
        let slot = Slot { number: active.number, offset: active.tail, file: active.file.clone(), rolled };
        active.tail += len;
        Ok(slot)
    }

    /// Makes a segment, smaller than usual when the disk is nearly full.
    fn make(&self, number: u32, len: u64, space: &Space, moves: bool) -> Result<Active, StorageError> {
        let failed = |error: std::io::Error| StorageError::io("make a payload segment", &error);
        let name = file_name(self.area.folder(), number);
        let least = (len + GRAIN).max(SMALLEST.min(self.segment_bytes));
        let mut capacity = self.segment_bytes.max(len + GRAIN);
        let (file, lent) = loop {
            let lent = !space.has_room(capacity);
            if !lent || (moves && space.has_room_to_move(capacity)) {
                match self.disk.create(&name, capacity) {
                    Ok(file) => break (file, lent),
                    Err(error) => match failed(error) {
                        StorageError::Full => {}
                        error => return Err(error),
                    },
                }
            }
            if capacity <= least {
                // A copy that finds no room is not kept: that is not a write refused.
                if self.area != Area::Cache && !moves {
                    space.note_full(true);
                }
                return Err(StorageError::Full);
            }
            capacity = (capacity / 2).max(least);
        };
        if let Err(error) = self.begin(&file, number) {
            // Nobody would account for it.
            self.disk.remove(&name).map_err(failed)?;
            return Err(failed(error));
        }
        if self.area != Area::Cache && !lent {
            space.note_full(false);
        }
        space.resized(self.area, number, capacity);
        space.lacks();
        Ok(Active { number, file, tail: GRAIN, capacity, lent })
    }

    fn begin(&self, file: &Arc<dyn File>, number: u32) -> std::io::Result<()> {
        file.write_at(0, &[&segment_header(&self.salt, number, self.area)])?;
        if self.area != Area::Cache {
            // The name must be there when a synced chunk is: once per segment, so not worth deferring.
            file.sync()?;
            self.disk.sync_dir(self.area.folder())?;
        }
        Ok(())
    }

    /// Bytes that extents may take in the active segment.
    pub(crate) fn room(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .active
            .as_ref()
            .filter(|active| !active.lent)
            .map_or(0, |active| active.capacity.saturating_sub(active.tail))
    }

    /// The active segment and its tail.
    pub(crate) fn tail(&self) -> (u32, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.active.as_ref().map_or((state.last_number + 1, GRAIN), |active| (active.number, active.tail))
    }
}
