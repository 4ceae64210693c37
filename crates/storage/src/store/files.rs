//! Segments held open for reading, and for nothing else, the least used closed first: a file system that became read-only is
//! read on.

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
    /// Rises with every file that is forgotten.
    forgotten: u64,
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
        let forgotten = state.forgotten;
        drop(state);
        let file = self.disk.open_to_read(&file_name(area.folder(), number))?;
        let mut state = self.lock();
        if state.forgotten != forgotten {
            // It may have been this one: held on, a removed file would keep its room for as long as the process lives.
            return Ok(file);
        }
        if state.open.len() >= self.limit {
            let oldest = state.open.iter().min_by_key(|(_, open)| open.used).map(|(&key, _)| key);
            oldest.and_then(|key| state.open.remove(&key));
        }
        state.open.insert((area, number), Open { file: file.clone(), used: now });
        Ok(file)
    }

    /// Forgets a segment that was removed, or replaced: after that was done.
    pub(crate) fn forget(&self, area: Area, number: u32) {
        let mut state = self.lock();
        state.forgotten += 1;
        state.open.remove(&(area, number));
    }

    /// What of this place lies in memory is let go of, so that the next reading comes from the disk.
    pub(crate) fn release(&self, area: Area, number: u32, offset: u64, len: u64) {
        let open = self.lock().open.get(&(area, number)).map(|open| open.file.clone());
        if let Some(file) = open.or_else(|| self.disk.open_to_read(&file_name(area.folder(), number)).ok()) {
            file.release(offset, len);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::disk::faulty::FaultyDisk;

    /// A reader of a moment ago has found the file, and comes to note it after the file is gone.
    #[test]
    fn a_file_that_goes_while_it_is_opened_is_not_held() {
        let disk = FaultyDisk::default();
        let name = file_name("payload", 1);
        disk.create(&name, 4096).unwrap();
        let files = Arc::new(Files::new(Arc::new(disk.clone()), 8));
        let (gone, forgetting, removed) = (disk.clone(), files.clone(), name.clone());
        disk.on_open(&name, move || {
            gone.remove(&removed)?;
            forgetting.forget(Area::Payload, 1);
            Ok(())
        });
        let file = files.get(Area::Payload, 1).unwrap();
        assert_eq!(file.len().unwrap(), 4096, "who has it reads on");
        assert_eq!(files.get(Area::Payload, 1).map(drop).unwrap_err().kind(), io::ErrorKind::NotFound);
        // What comes in its place is found, and held.
        disk.on_open("none", || Ok(()));
        disk.create(&name, 512).unwrap();
        assert_eq!(files.get(Area::Payload, 1).unwrap().len().unwrap(), 512);
        disk.remove(&name).unwrap();
        assert_eq!(files.get(Area::Payload, 1).unwrap().len().unwrap(), 512);
    }
}
