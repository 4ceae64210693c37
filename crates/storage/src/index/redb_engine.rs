//! The index on `redb`: commits that are not durable, and a durable one as checkpoint.
//!
//! Not in the default build: slower and hungrier than the LSM by measurement (decision record of 2026-11-21). Kept
//! behind the feature `redb` as the second opinion that the test-suite of engines runs on.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::{Index, Reading, Secure, Writes, bounds, is_void, prefixed};
use crate::{Settings, StorageError};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

fn failed(error: impl std::fmt::Display) -> StorageError {
    StorageError::Index(error.to_string())
}

/// The engine.
pub(super) struct Redb {
    database: Database,
    path: PathBuf,
    checkpoint_bytes: u64,
    /// Bytes applied since the last durable commit.
    pending: AtomicU64,
    mark: AtomicU64,
    durable: AtomicU64,
    writing: Mutex<()>,
}

impl Redb {
    /// Opens or makes the database in this folder.
    pub(super) fn open(path: &Path, settings: &Settings) -> Result<Self, StorageError> {
        std::fs::create_dir_all(path).map_err(failed)?;
        let path = path.join("index.redb");
        let database = Database::builder()
            .set_cache_size(settings.index_cache_bytes as usize)
            .create(&path)
            .map_err(failed)?;
        let transaction = database.begin_write().map_err(failed)?;
        transaction.open_table(ROWS).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Self {
            database,
            path,
            checkpoint_bytes: settings.memtable_bytes,
            pending: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }

    fn commit(&self, writes: &Writes, durability: Durability) -> Result<(), StorageError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(durability).map_err(failed)?;
        {
            let mut rows = transaction.open_table(ROWS).map_err(failed)?;
            for (table, key, value) in writes.iter() {
                let key = prefixed(table, key);
                match value {
                    Some(value) => rows.insert(key.as_slice(), value.as_ref()).map_err(failed)?,
                    None => rows.remove(key.as_slice()).map_err(failed)?,
                };
            }
        }
        transaction.commit().map_err(failed)
    }
}

impl Index for Redb {
    fn read(&self) -> Reading {
        let rows = self
            .database
            .begin_read()
            .map_err(|error| error.to_string())
            .and_then(|transaction| transaction.open_table(ROWS).map_err(|error| error.to_string()));
        Arc::new(RedbReading { rows })
    }

    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit(writes, Durability::None)?;
        let bytes = writes
            .iter()
            .map(|(_, key, value)| key.len() + value.as_ref().map_or(0, Bytes::len))
            .sum::<usize>();
        self.pending.fetch_add(bytes as u64, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Release);
        Ok(())
    }

    fn checkpoint(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.mark.load(Ordering::Acquire);
        self.commit(&Writes::default(), Durability::Immediate)?;
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
        std::fs::metadata(&self.path).map_or(0, |found| found.len())
    }
}

struct RedbReading {
    rows: Result<ReadOnlyTable<&'static [u8], &'static [u8]>, String>,
}

impl RedbReading {
    fn rows(&self) -> Result<&ReadOnlyTable<&'static [u8], &'static [u8]>, ViewError> {
        self.rows.as_ref().map_err(|error| ViewError::Unreadable(error.clone()))
    }
}

impl View for RedbReading {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self
            .rows()?
            .get(prefixed(table, key).as_slice())
            .map_err(|error| ViewError::Unreadable(error.to_string()))?;
        Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
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
        let range: (Bound<&[u8]>, Bound<&[u8]>) =
            (first.as_ref().map(Vec::as_slice), last.as_ref().map(Vec::as_slice));
        let unreadable = |error: redb::StorageError| ViewError::Unreadable(error.to_string());
        for item in self.rows()?.range::<&[u8]>(range).map_err(unreadable)? {
            let (key, value) = item.map_err(unreadable)?;
            if let ControlFlow::Break(()) = visit(key.value().get(1..).unwrap_or_default(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}
