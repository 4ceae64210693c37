//! The index in memory: the simulator's, and the reference the other engines are tested against.
//!
//! Versions of a key are kept while a reading may see them. Never durable: rebuilt from the journal at each open.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::{Index, Reading, Secure, Snapshots, Writes, bounds, is_void, prefixed};
use crate::StorageError;

/// Entries copied out of the lock at once.
const PAGE: usize = 256;

/// Key → versions, oldest first.
type Keys = BTreeMap<Vec<u8>, Vec<(u64, Option<Bytes>)>>;

#[derive(Default)]
struct Shared {
    keys: RwLock<Keys>,
    /// The last change applied.
    last: AtomicU64,
    snapshots: Snapshots,
}

/// The engine.
#[derive(Default)]
pub(super) struct Memory {
    shared: Arc<Shared>,
}

impl Index for Memory {
    fn read(&self) -> Reading {
        let shared = self.shared.clone();
        let seq = shared.snapshots.begin(|| shared.last.load(Ordering::Acquire));
        Arc::new(MemoryReading { shared, seq })
    }

    fn apply(&self, writes: &Writes, _mark: u64) -> Result<(), StorageError> {
        let last = self.shared.last.load(Ordering::Acquire);
        let oldest = self.shared.snapshots.oldest(|| last);
        let seq = last + 1;
        let mut keys = self.shared.keys.write().unwrap_or_else(PoisonError::into_inner);
        for (table, key, value) in writes.iter() {
            let key = prefixed(table, key);
            let versions = keys.entry(key.clone()).or_default();
            // Of its own length: rows are written in buffers with room to spare.
            versions.push((seq, value.as_deref().map(Bytes::copy_from_slice)));
            // Of the versions that every reading sees, only the last matters.
            let settled = versions.iter().take_while(|(version, _)| *version <= oldest).count();
            versions.drain(..settled.saturating_sub(1));
            if let [(version, None)] = versions.as_slice()
                && *version <= oldest
            {
                keys.remove(&key);
            }
        }
        drop(keys);
        self.shared.last.store(seq, Ordering::Release);
        Ok(())
    }

    fn checkpoint(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        secure.map_or(Ok(()), |secure| secure())
    }

    /// Nothing of it is needed after a crash.
    fn durable(&self) -> u64 {
        u64::MAX
    }

    fn wants_tending(&self) -> bool {
        false
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn tend(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

struct MemoryReading {
    shared: Arc<Shared>,
    seq: u64,
}

impl MemoryReading {
    fn seen<'a>(&self, versions: &'a [(u64, Option<Bytes>)]) -> Option<&'a Bytes> {
        versions.iter().rev().find(|(version, _)| *version <= self.seq)?.1.as_ref()
    }
}

impl Drop for MemoryReading {
    fn drop(&mut self) {
        self.shared.snapshots.end(self.seq);
    }
}

impl View for MemoryReading {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let keys = self.shared.keys.read().unwrap_or_else(PoisonError::into_inner);
        Ok(keys.get(&prefixed(table, key)).and_then(|versions| self.seen(versions)).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let (mut first, last) = bounds(table, from, to);
        // Page by page, so that the visitor may use the store and is in nobody's way.
        while !is_void(&first, &last) {
            let page: Vec<(Vec<u8>, Bytes)> = {
                let keys = self.shared.keys.read().unwrap_or_else(PoisonError::into_inner);
                let range = keys.range((first.clone(), last.clone()));
                range
                    .filter_map(|(key, versions)| Some((key.clone(), self.seen(versions)?.clone())))
                    .take(PAGE)
                    .collect()
            };
            for (key, value) in &page {
                if let ControlFlow::Break(()) = visit(key.get(1..).unwrap_or_default(), value) {
                    return Ok(());
                }
            }
            match page.into_iter().nth(PAGE - 1) {
                Some((key, _)) => first = Bound::Excluded(key),
                None => break,
            }
        }
        Ok(())
    }
}
