//! Segments held open for reading, the least used closed first.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chunks::row::Area;
use crate::disk::{Disk, File};
use crate::journal::file_name;

struct Open {
    file: Arc<dyn File>,
    used: u64,
}

#[derive(Default)]
struct State {
    open: BTreeMap<(Area, u32), Open>,
    reads: u64,
}

/// The open files of a store.
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    limit: usize,
    state: Mutex<State>,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        Self { disk, limit: limit.max(1), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a segment.
    pub(crate) fn get(&self, area: Area, number: u32) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.reads += 1;
        let now = state.reads;
        if let Some(open) = state.open.get_mut(&(area, number)) {
            open.used = now;
            return Ok(open.file.clone());
        }
        drop(state);
        let file = self.disk.open(&file_name(area.folder(), number))?;
        let mut state = self.lock();
        if state.open.len() >= self.limit {
            let oldest = state.open.iter().min_by_key(|(_, open)| open.used).map(|(&key, _)| key);
            oldest.and_then(|key| state.open.remove(&key));
        }
        state.open.insert((area, number), Open { file: file.clone(), used: now });
        Ok(file)
    }

    /// Forgets a segment that is removed.
    pub(crate) fn forget(&self, area: Area, number: u32) {
        self.lock().open.remove(&(area, number));
    }

    /// What of this place lies in memory is let go of, so that the next reading comes from the disk.
    pub(crate) fn release(&self, area: Area, number: u32, offset: u64, len: u64) {
        let open = self.lock().open.get(&(area, number)).map(|open| open.file.clone());
        if let Some(file) = open.or_else(|| self.disk.open(&file_name(area.folder(), number)).ok()) {
            file.release(offset, len);
        }
    }
}
