//! The index on `fjall`: batches into its own journal, unsynced, and a synced journal as checkpoint.
//!
//! Not in the default build: the same tree as `lsm` under a second journal (decision record of 2026-11-21, with the
//! measurement). Kept behind the feature `fjall` as another opinion that the test-suite of engines runs on.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::{Index, Reading, Secure, Writes, bounds, is_void, prefixed};
use crate::{Settings, StorageError};

fn failed(error: impl std::fmt::Display) -> StorageError {
    StorageError::Index(error.to_string())
}

/// The engine.
pub(super) struct Fjall {
    database: Database,
    rows: Keyspace,
    checkpoint_bytes: u64,
    /// Bytes applied since the journal was last synced.
    pending: AtomicU64,
    mark: AtomicU64,
    durable: AtomicU64,
    writing: Mutex<()>,
}

impl Fjall {
    /// Opens or makes the database in this folder.
    pub(super) fn open(path: &Path, settings: &Settings) -> Result<Self, StorageError> {
        let database = Database::builder(path)
            .cache_size(settings.index_cache_bytes)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()
            .map_err(failed)?;
        let memtable = settings.memtable_bytes;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
        let rows = database.keyspace("rows", options).map_err(failed)?;
        Ok(Self {
            database,
            rows,
            checkpoint_bytes: memtable,
            pending: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }
}

impl Index for Fjall {
    fn read(&self) -> Reading {
        Arc::new(FjallReading { snapshot: self.database.snapshot(), rows: self.rows.clone() })
    }

    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = self.database.batch();
        let mut bytes = 0;
        for (table, key, value) in writes.iter() {
            let key = prefixed(table, key);
            bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            match value {
                Some(value) => batch.insert(&self.rows, key, value.as_ref()),
                None => batch.remove(&self.rows, key),
            }
        }
        batch.commit().map_err(failed)?;
        self.pending.fetch_add(bytes as u64, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Release);
        Ok(())
    }

    fn checkpoint(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.mark.load(Ordering::Acquire);
        self.database.persist(PersistMode::SyncData).map_err(failed)?;
        self.pending.store(0, Ordering::Relaxed);
        self.durable.store(mark, Ordering::Release);
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn wants_tending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) >= self.checkpoint_bytes
    }

    fn is_behind(&self) -> bool {
        self.pending.load(Ordering::Relaxed) >= 4 * self.checkpoint_bytes
    }

    fn tend(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        if self.wants_tending() { self.checkpoint(secure) } else { Ok(()) }
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}

struct FjallReading {
    snapshot: Snapshot,
    rows: Keyspace,
}

impl View for FjallReading {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self.snapshot.get(&self.rows, prefixed(table, key));
        let value = value.map_err(|error| ViewError::Unreadable(error.to_string()))?;
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
        for row in self.snapshot.range(&self.rows, (first, last)) {
            let (key, value) = row.into_inner().map_err(|error| ViewError::Unreadable(error.to_string()))?;
            if let ControlFlow::Break(()) = visit(key.get(1..).unwrap_or_default(), &value) {
                break;
            }
        }
        Ok(())
    }
}
