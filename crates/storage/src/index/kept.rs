//! A memory index of which the last checkpoint survives: lets power-cut tests replay from any point. It counts what it is asked.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::memory::Memory;
use super::{Index, Reading, Refused, Secure, Writes};
use crate::StorageError;

/// What survives.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    writes: Mutex<Writes>,
    asked: AtomicUsize,
    refused: Mutex<Refused>,
    merged_again: AtomicUsize,
    fault: Mutex<Option<Fault>>,
    unflushed: AtomicU64,
    full: AtomicBool,
    failed: AtomicUsize,
    behind: Mutex<Option<Behind>>,
}

/// What runs once behind the reading of a row, before who asked for it has it.
struct Behind(Table, Vec<u8>, Box<dyn FnOnce() + Send>);

impl core::fmt::Debug for Behind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Behind")
    }
}

/// A row that cannot be read, and why.
type Fault = (Table, Vec<u8>, ViewError);

impl Kept {
    /// An index as of the last checkpoint.
    pub(super) fn open(self: &Arc<Self>) -> KeptIndex {
        let memory = Memory::default();
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        memory.apply(&writes, 0).unwrap_or_default();
        KeptIndex {
            memory,
            now: Mutex::new(writes),
            kept: self.clone(),
            mark: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    /// Another one with the same.
    pub(crate) fn copied(&self) -> Self {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { writes: Mutex::new(writes), ..Self::default() }
    }

    /// How often a row was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// As if the files of the index were gone.
    pub(crate) fn lose(&self) {
        *self.writes.lock().unwrap_or_else(PoisonError::into_inner) = Writes::default();
    }

    /// What the file system is said to have refused.
    pub(crate) fn refuse(&self, refused: Refused) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    /// This row cannot be read; none: all can.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Runs once, when this row was read and before who asked for it has it.
    pub(crate) fn behind(&self, table: Table, key: Vec<u8>, run: impl FnOnce() + Send + 'static) {
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = Some(Behind(table, key, Box::new(run)));
    }

    /// So many bytes wait for a flush.
    pub(crate) fn wait(&self, bytes: u64) {
        self.unflushed.store(bytes, Ordering::Relaxed);
    }

    /// There is something to flush from now on and no room for it.
    pub(crate) fn fill(&self) {
        self.full.store(true, Ordering::Relaxed);
    }

    /// How often a flush failed so.
    pub(crate) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    /// How often a merge that was refused was to be tried again.
    pub(crate) fn merged_again(&self) -> usize {
        self.merged_again.load(Ordering::Relaxed)
    }
}

pub(super) struct KeptIndex {
    memory: Memory,
    now: Mutex<Writes>,
    kept: Arc<Kept>,
    mark: AtomicU64,
    durable: AtomicU64,
}

impl Index for KeptIndex {
    fn read(&self) -> Reading {
        Arc::new(Counted { reading: self.memory.read(), kept: self.kept.clone() })
    }

    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, key, value) in writes.iter() {
            match value {
                Some(_) => now.insert(table, key.to_vec(), value.clone()),
                None => now.remove(table, key),
            }
        }
        self.mark.store(mark, Ordering::Release);
        self.memory.apply(writes, mark)
    }

    fn checkpoint(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        let (now, mark) = {
            let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            (now.clone(), self.mark.load(Ordering::Acquire))
        };
        secure.map_or(Ok(()), |secure| secure())?;
        *self.kept.writes.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.durable.fetch_max(mark, Ordering::AcqRel);
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn wants_tending(&self) -> bool {
        self.kept.full.load(Ordering::Relaxed)
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn unflushed(&self) -> u64 {
        self.kept.unflushed.load(Ordering::Relaxed)
    }

    fn tend(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        // Asked for only while it is full.
        self.kept.failed.fetch_add(1, Ordering::Relaxed);
        Err(StorageError::Full)
    }

    fn failed_flushes(&self) -> u32 {
        self.kept.failed() as u32
    }

    fn refused(&self) -> Refused {
        *self.kept.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn merge_again(&self) {
        self.kept.merged_again.fetch_add(1, Ordering::Relaxed);
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

/// A reading of which it is counted how often it is asked for a row.
struct Counted {
    reading: Reading,
    kept: Arc<Kept>,
}

impl View for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.kept.asked.fetch_add(1, Ordering::Relaxed);
        let fault = self.kept.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, _, error)) = fault.filter(|(of, name, _)| *of == table && name == key) {
            return Err(error);
        }
        let value = self.reading.get(table, key);
        let run = {
            let mut behind = self.kept.behind.lock().unwrap_or_else(PoisonError::into_inner);
            behind.take_if(|Behind(of, name, _)| *of == table && name == key)
        };
        if let Some(Behind(_, _, run)) = run {
            run();
        }
        value
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.reading.scan(table, from, to, visit)
    }
}
