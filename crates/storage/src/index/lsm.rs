//! The index on `lsm-tree`: no journal of its own (ours is one), flushes and compacts only when told.
//!
//! Invariants kept here because the library leaves them to its user: a group's changes get one sequence number and
//! go into one memtable (rotation happens only between groups), so that a flush holds whole groups; readers see a
//! sequence number only once its group is complete, although flushes take numbers from the same counter.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, DescriptorTable, Guard, SequenceNumberCounter};
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::{Index, Reading, Secure, Snapshots, Writes, bounds, is_void, prefixed};
use crate::{Settings, StorageError};

/// Memtables that wait for a flush before who applies has to help.
const SEALED_MAX: usize = 3;
/// Runs that nobody has merged yet before who applies has to help with that too: each costs every reading.
const RUNS_MAX: usize = 16;
/// Files the engine holds open.
const OPEN_FILES: usize = 64;

fn failed(error: lsm_tree::Error) -> StorageError {
    StorageError::Index(error.to_string())
}

fn unreadable(error: lsm_tree::Error) -> ViewError {
    ViewError(error.to_string())
}

/// What only who applies or rotates changes.
#[derive(Default)]
struct Gate {
    /// Mark of the last group.
    mark: u64,
    /// Mark of the last group before the last rotation.
    sealed_mark: u64,
    /// No rotation now: what a flush is about to make last rests upon what was secured for it, no later group does.
    held: bool,
}

/// Lets rotations happen again.
struct Hold<'a>(&'a Lsm);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.gate().held = false;
    }
}

struct Shared {
    tree: AnyTree,
    /// Readings see what is below this.
    visible: AtomicU64,
    snapshots: Snapshots,
}

impl Shared {
    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }
}

/// The engine.
pub(super) struct Lsm {
    shared: Arc<Shared>,
    seqno: SequenceNumberCounter,
    memtable_bytes: u64,
    strategy: Arc<Leveled>,
    gate: Mutex<Gate>,
    /// Mark that is flushed.
    flushed: AtomicU64,
    compaction_due: AtomicBool,
    /// Runs not yet merged, as of the last flush or compaction.
    runs: AtomicUsize,
    flushing: Mutex<()>,
    compacting: Mutex<()>,
}

impl Lsm {
    /// Opens or makes the tree in this folder.
    pub(super) fn open(path: &Path, settings: &Settings) -> Result<Self, StorageError> {
        let seqno = SequenceNumberCounter::default();
        let tree = Config::new(path, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(settings.index_cache_bytes)))
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(OPEN_FILES))))
            .open()
            .map_err(failed)?;
        let next = tree.get_highest_seqno().map_or(0, |last| last + 1).max(seqno.get());
        seqno.set(next);
        let strategy = Leveled::default().with_table_target_size(settings.memtable_bytes.max(1 << 20));
        let shared = Shared { tree, visible: AtomicU64::new(next), snapshots: Snapshots::default() };
        Ok(Self {
            shared: Arc::new(shared),
            seqno,
            memtable_bytes: settings.memtable_bytes,
            strategy: Arc::new(strategy),
            gate: Mutex::default(),
            flushed: AtomicU64::new(0),
            compaction_due: AtomicBool::new(true),
            runs: AtomicUsize::new(0),
            flushing: Mutex::default(),
            compacting: Mutex::default(),
        })
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rotate(&self, gate: &mut Gate) {
        self.shared.tree.rotate_memtable();
        gate.sealed_mark = gate.mark;
    }

    fn oldest(&self) -> u64 {
        self.shared.snapshots.oldest(|| self.shared.visible())
    }

    /// Flushes and compactions take sequence numbers too: readers must follow, or they would go on reading (and
    /// keeping alive) the memtables of before.
    fn publish(&self) {
        let _gate = self.gate();
        self.shared.visible.store(self.seqno.get(), Ordering::Release);
    }

    /// Flushes what is sealed, with `all` what was applied; may run beside a compaction.
    fn flush(&self, secure: Secure<'_>, all: bool) -> Result<(), StorageError> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed_mark = {
            let mut gate = self.gate();
            if all {
                self.rotate(&mut gate);
            }
            gate.held = secure.is_some();
            gate.sealed_mark
        };
        let _hold = Hold(self);
        secure.map_or(Ok(()), |secure| secure())?;
        let tree = &self.shared.tree;
        if tree.sealed_memtable_count() > 0 {
            let lock = tree.get_flush_lock();
            tree.flush(&lock, self.oldest()).map_err(failed)?;
            self.compaction_due.store(true, Ordering::Relaxed);
        }
        self.flushed.fetch_max(sealed_mark, Ordering::AcqRel);
        self.runs.store(tree.l0_run_count(), Ordering::Relaxed);
        self.publish();
        Ok(())
    }

    /// Compacts until there is nothing to choose.
    fn compact(&self) -> Result<(), StorageError> {
        let _one = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = &self.shared.tree;
        while self.compaction_due.swap(false, Ordering::Relaxed) {
            let before = tree.current_version().id();
            tree.compact(self.strategy.clone(), self.oldest()).map_err(failed)?;
            self.runs.store(tree.l0_run_count(), Ordering::Relaxed);
            self.publish();
            if tree.current_version().id() != before {
                self.compaction_due.store(true, Ordering::Relaxed);
            }
            if tree.sealed_memtable_count() > 0 {
                // A flush is more urgent; the rest of the compaction comes with the next call.
                break;
            }
        }
        Ok(())
    }
}

impl Index for Lsm {
    fn read(&self) -> Reading {
        let shared = self.shared.clone();
        let seq = shared.snapshots.begin(|| shared.visible());
        Arc::new(LsmReading { shared, seq })
    }

    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError> {
        let mut gate = self.gate();
        let seq = self.seqno.next();
        let tree = &self.shared.tree;
        for ((table, key), value) in writes {
            let key = prefixed(*table, key);
            match value {
                Some(value) => tree.insert(key, value.as_ref(), seq),
                None => tree.remove(key, seq),
            };
        }
        gate.mark = mark;
        self.shared.visible.store(seq + 1, Ordering::Release);
        if tree.active_memtable().size() >= self.memtable_bytes && !gate.held {
            self.rotate(&mut gate);
        }
        Ok(())
    }

    fn checkpoint(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, true)
    }

    fn durable(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    fn wants_tending(&self) -> bool {
        self.shared.tree.sealed_memtable_count() > 0 || self.compaction_due.load(Ordering::Relaxed)
    }

    fn is_behind(&self) -> bool {
        self.shared.tree.sealed_memtable_count() > SEALED_MAX || self.runs.load(Ordering::Relaxed) > RUNS_MAX
    }

    fn tend(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, false)?;
        self.compact()
    }

    fn help(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, false)?;
        if self.runs.load(Ordering::Relaxed) > RUNS_MAX { self.compact() } else { Ok(()) }
    }

    fn disk_bytes(&self) -> u64 {
        self.shared.tree.disk_space()
    }
}

struct LsmReading {
    shared: Arc<Shared>,
    seq: u64,
}

impl Drop for LsmReading {
    fn drop(&mut self) {
        self.shared.snapshots.end(self.seq);
    }
}

impl View for LsmReading {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self.shared.tree.get(prefixed(table, key), self.seq).map_err(unreadable)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let (first, last) = bounds(table, from, to);
        if is_void(&first, &last) {
            return Ok(());
        }
        for item in self.shared.tree.range::<Vec<u8>, _>((first, last), self.seq, None) {
            let (key, value) = item.into_inner().map_err(unreadable)?;
            if let ControlFlow::Break(()) = visit(key.get(1..).unwrap_or_default(), &value) {
                break;
            }
        }
        Ok(())
    }
}
