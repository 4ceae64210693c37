//! The index: an ordered key space that can be thrown away, because the journal is the truth.
//!
//! All tables share one key space, prefixed by the table's number, so that one flush of the engine is atomic over
//! tables and over the applied position. An engine has no journal of its own: what it had not flushed is replayed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rows::{Held, Part, Rows};
pub(crate) use skerry_base::kv::Writes;
use skerry_base::kv::{Table, View};

use crate::{Engine, Settings, StorageError};

mod dead;
mod gaps;
pub(crate) mod health;
mod hot;
#[cfg(test)]
pub(crate) mod kept;
mod lsm;
mod memory;
#[cfg(feature = "redb")]
mod redb_engine;
pub(crate) mod rows;
mod runs;
mod toc;

/// The folder of the engine's files.
pub(crate) const FOLDER: &str = "index";
/// Where a damaged index is moved, for whoever wants to know why.
pub(crate) const ASIDE: &str = "index-aside";
/// Where one is moved that was given up while another lies there that may know more: the last such one.
pub(crate) const ASIDE_LATER: &str = "index-aside-later";

/// A consistent reading that lives as long as it is held.
pub(crate) type Reading = Arc<dyn View + Send + Sync>;

/// Makes durable, before a flush, what the changes to be flushed rest upon; none where it is so already.
pub(crate) type Secure<'a> = Option<&'a dyn Fn() -> Result<(), StorageError>>;

/// How often in a row the file system refused what the index asked of it. Each by itself: flushes go through while a merge
/// fails for ever. For want of room, of memory or of open files is no refusal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Flushes, since one went through.
    pub(crate) flushes: u32,
    /// Merges, since nothing was left to merge.
    pub(crate) merges: u32,
}

/// Bytes of memory that an engine has taken, of what it was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Changes that are not flushed, about.
    pub(crate) changes: u64,
    /// Blocks of its files.
    pub(crate) blocks: u64,
    /// So much these may take: more than what was given where the index was large when it was opened.
    pub(crate) blocks_most: u64,
}

/// What an engine does. One thread applies; any number read; one (perhaps another) tends.
pub(crate) trait Index: Send + Sync {
    /// What has been applied.
    fn read(&self) -> Reading;

    /// All rows of these parts as of now. What it takes of memory and disk is bounded, however long it is held, by an engine
    /// that is written to meanwhile and holds back what a reading might ask for.
    fn rows(&self, parts: &[Part]) -> Vec<Rows> {
        let reading = self.read();
        parts.iter().map(|part| Box::new(Held::new(reading.clone(), *part)) as Rows).collect()
    }

    /// Makes changes visible together. `mark` numbers the groups and rises with each.
    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError>;

    /// Makes all that was applied survive a crash.
    fn checkpoint(&self, secure: Secure<'_>) -> Result<(), StorageError>;

    /// The mark up to which the index survives a crash; 0 if nothing was flushed since it was opened.
    fn durable(&self) -> u64;

    /// Whether [`Index::tend`] has something to do.
    fn wants_tending(&self) -> bool;

    /// Whether it has so much to do that who applies should help.
    fn is_behind(&self) -> bool;

    /// Bytes of memory that what was applied takes until it is flushed.
    fn unflushed(&self) -> u64 {
        0
    }

    /// Flushes and compacts what is due.
    fn tend(&self, secure: Secure<'_>) -> Result<(), StorageError>;

    /// Of that the flushes, where they are apart from the rest.
    fn flush_due(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.tend(secure)
    }

    /// And the rest: left undone it costs readings time and nothing else.
    fn merge_due(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Does of that what cannot wait, while another thread may be at the rest.
    fn help(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.tend(secure)
    }

    /// Flushes that failed in a row, for want of room as well.
    fn failed_flushes(&self) -> u32 {
        0
    }

    /// What the file system refused lately.
    fn refused(&self) -> Refused {
        Refused::default()
    }

    /// A merge that was refused is due again: it is tried once for each call, and with each flush.
    fn merge_again(&self) {}

    /// What it holds in memory.
    fn memory(&self) -> Resident {
        Resident::default()
    }

    /// Bytes of its files.
    fn disk_bytes(&self) -> u64;
}

/// Opens the engine's files. An error means: move them aside and rebuild.
pub(crate) fn open(
    path: Option<std::path::PathBuf>,
    settings: &Settings,
) -> Result<Arc<dyn Index>, StorageError> {
    #[cfg(test)]
    if let Some(kept) = &settings.kept {
        return Ok(Arc::new(kept.open()));
    }
    #[cfg(feature = "redb")]
    if settings.lazy && !matches!(settings.engine, Engine::Memory | Engine::Lsm) {
        return Err(StorageError::Index("this engine flushes what no sync has covered".into()));
    }
    match (settings.engine, path) {
        (Engine::Memory, _) => Ok(Arc::new(memory::Memory::default())),
        (_, None) => Err(StorageError::Index("this disk has no place for an engine's own files".into())),
        (Engine::Lsm, Some(path)) => guarded(|| Ok(Arc::new(lsm::Lsm::open(&path, settings)?))),
        #[cfg(feature = "redb")]
        (Engine::Redb, Some(path)) => guarded(|| Ok(Arc::new(redb_engine::Redb::open(&path, settings)?))),
    }
}

/// An engine that panics on damaged files has refused to open them.
fn guarded(
    open: impl FnOnce() -> Result<Arc<dyn Index>, StorageError>,
) -> Result<Arc<dyn Index>, StorageError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(StorageError::Index("the engine panicked while opening".into())))
}

/// The engine's key.
fn prefixed(table: Table, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(key.len() + 1);
    full.push(table as u8);
    full.extend_from_slice(key);
    full
}

/// The engine's bounds for a scan of one table.
fn bounds(table: Table, from: Bound<&[u8]>, to: Bound<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let full = |key: &[u8]| prefixed(table, key);
    let first = match from {
        Bound::Unbounded => Bound::Included(full(&[])),
        bound => bound.map(full),
    };
    let last = match to {
        Bound::Unbounded => Bound::Excluded(vec![table as u8 + 1]),
        bound => bound.map(full),
    };
    (first, last)
}

/// Whether bounds contain nothing (some engines panic on them).
fn is_void(first: &Bound<Vec<u8>>, last: &Bound<Vec<u8>>) -> bool {
    match (first, last) {
        (Bound::Included(first), Bound::Included(last)) => first > last,
        (Bound::Included(first) | Bound::Excluded(first), Bound::Excluded(last) | Bound::Included(last)) => {
            first >= last
        }
        _ => false,
    }
}

/// Readings that are held, by the sequence number they see up to.
#[derive(Default)]
struct Snapshots(Mutex<BTreeMap<u64, usize>>);

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a reading of what `visible` answers, without a gap in which it could be swept.
    fn begin(&self, visible: impl FnOnce() -> u64) -> u64 {
        let mut held = self.lock();
        let seq = visible();
        *held.entry(seq).or_insert(0) += 1;
        seq
    }

    fn end(&self, seq: u64) {
        let mut held = self.lock();
        if let Some(count) = held.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&seq);
            }
        }
    }

    /// Nobody reads anything older than this.
    fn oldest(&self, visible: impl FnOnce() -> u64) -> u64 {
        let held = self.lock();
        held.first_key_value().map_or_else(visible, |(&seq, _)| seq)
    }
}

#[cfg(test)]
mod tests;
