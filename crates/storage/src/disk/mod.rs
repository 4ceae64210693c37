//! The seam below the storage room: files in one directory.
//!
//! Why here: everything above speaks to [`Disk`] and [`File`]; the real ones are in [`real`], the simulator
//! has its own that loses what was not synced. Names are `folder/file` or `file`, relative to the store's directory.
//!
//! What a caller may rely on, and what a simulated disk must therefore keep: bytes written are read back at
//! once by everyone; they survive a power cut only after [`File::sync`] of that file returned, unsynced writes
//! survive in any part, in any order; a created, removed or renamed *name* survives only after
//! [`Disk::sync_dir`] of its folder; what a preallocated file holds beyond what was written reads as zeros.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use skerry_base::Instant;

pub mod device;
#[cfg(test)]
pub(crate) mod faulty;
pub mod real;

/// One open file. Positions are absolute: there is no cursor, any number of threads may use it.
pub trait File: Send + Sync {
    /// Fills `buf` from `offset`; returns how much, less than asked only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// The same if it waits for no medium: none if not all of it lies in memory, or nobody can tell.
    fn read_now(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let _ = (offset, buf);
        Ok(None)
    }

    /// Writes all of `parts`, one after the other, from `offset` on; extends the file when needed.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// What was written to these bytes begins to go to the medium, and nobody waits for it: the sync that follows has less to
    /// do. A hint.
    fn begin_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Makes content and length durable (fdatasync).
    fn sync(&self) -> io::Result<()>;

    /// Gives the whole blocks inside this range back to the file system; all of the range reads as zeros
    /// afterwards and the length stays. `Unsupported` if the file system cannot.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether it holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The first position at or after `offset` that may hold something else than zeros; none if there is none.
    /// A hint that lets recovery skip holes: `Some(offset)` is always right.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// What of these bytes is synced and lies in memory is let go of: the next reading comes from the medium. A hint.
    fn release(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// What [`Disk::lock`] holds: dropped, the directory is free again.
pub type Lock = Box<dyn Send + Sync>;

/// One directory for one store.
pub trait Disk: Send + Sync {
    /// Makes a file of `len` bytes of zeros whose space is taken from the disk at once; folders in its name are
    /// made when missing. `AlreadyExists` if it is there, `StorageFull` (and no file) if there is no room.
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading only: what a file system that became read-only gives out still.
    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

    /// The names of the files (not folders) in a folder, sorted, without the folder; empty if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Removes a file. Those who have it open go on reading.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file or a folder; replaces a file that is there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes created, removed and renamed names of a folder durable.
    fn sync_dir(&self, folder: &str) -> io::Result<()>;

    /// Bytes that can still be taken.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Whether files can give blocks in their middle back ([`File::punch`]).
    fn punches(&self) -> bool {
        true
    }

    /// Takes the directory for this store alone; `WouldBlock` if another process (or store) has it.
    fn lock(&self) -> io::Result<Lock>;

    /// Removes a folder and the files in it; fine if there is none.
    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        for name in self.list(folder)? {
            self.remove(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    /// Monotonic time, for statistics of syncs only. A simulated disk may leave it at zero.
    fn monotonic(&self) -> Instant {
        Instant::default()
    }

    /// Where an index engine that opens its own files may keep them. `None`: only the memory index will do,
    /// which is rebuilt from the journal at each open.
    fn native(&self, folder: &str) -> Option<PathBuf>;
}
