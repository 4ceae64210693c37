//! The store: what the node and the simulator see of the disk.

use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use skerry_base::kv::{Reducer, Table, View, ViewError, Visit};
use skerry_base::{BucketId, ChunkId, ChunkKind, WallTime};

use crate::disk::Disk;
use crate::{CommitError, ReadError, Settings, StorageError};

mod report;
mod words;

pub use report::{ClassUsage, Collected, Damage, IndexState, Recovery, SyncStats, TornTail, Usage};
pub use words::{Class, Entry, Propose, SmallBody};

/// A store. All methods block; any thread may call any of them.
pub struct Store {}

/// The threads that carry out commits and tend the index. Dropped, they finish what was submitted and end.
pub struct Committer {}

/// A chunk kept from the collector while this lives.
pub struct Pin {}

/// A consistent reading of what is durable. Cheap to make; hold it no longer than a request.
pub struct StoreView {}

impl Store {
    /// Opens the store in this directory, or makes it: locks the directory, finds the journal's end, replays
    /// what the index lacks, rebuilds an index that is lost or damaged, drops what was never referred to.
    pub fn open(
        disk: Arc<dyn Disk>,
        reducer: Arc<dyn Reducer>,
        settings: Settings,
    ) -> Result<(Arc<Self>, Recovery), StorageError> {
        let _ = (disk, reducer, settings);
        Err(StorageError::Closed)
    }

    /// Queues a proposal. It runs on the commit thread over the index and the earlier proposals of its group, so
    /// that seq, context, clock and conditions are decided there, atomically. `done` is called on that thread after
    /// the shared sync and after the index took it, or with the error; it must not block.
    pub fn submit<T, E>(
        &self,
        propose: impl FnOnce(&dyn View) -> Result<(T, Vec<Entry>), E> + Send + 'static,
        done: impl FnOnce(Result<T, CommitError<E>>) + Send + 'static,
    ) where
        T: Send + 'static,
        E: Send + 'static,
    {
        drop(propose);
        done(Err(CommitError::Storage(StorageError::Closed)));
    }

    /// Carries out one commit group on the calling thread and returns how many proposals it answered: the
    /// simulator's way. Deterministic: no clock, no randomness, no other thread.
    pub fn pump(&self) -> usize {
        0
    }

    /// Starts the threads that commit and tend the index.
    pub fn start_committer(self: &Arc<Self>) -> Result<Committer, StorageError> {
        Ok(Committer {})
    }

    /// A consistent reading of what is durable.
    pub fn view(&self) -> StoreView {
        StoreView {}
    }

    /// Writes a chunk (unsynced) unless it is here already; it stays pinned against the collector while the
    /// pin lives, and is made durable by the commit of a record that refers to it, or by [`Store::settle`].
    pub fn put_chunk(
        &self,
        domain: BucketId,
        class: Class,
        kind: ChunkKind,
        bytes: &[u8],
    ) -> Result<Pin, StorageError> {
        let _ = (domain, class, kind, bytes);
        Err(StorageError::Closed)
    }

    /// Makes all payload put so far durable and indexed, also what no new record refers to (copies that repair
    /// or follow records already here). `done` as for [`Store::submit`].
    pub fn settle(&self, done: impl FnOnce(Result<(), StorageError>) + Send + 'static) {
        done(Err(StorageError::Closed));
    }

    /// Whether the chunk is here, in any class.
    pub fn has_chunk(&self, domain: BucketId, id: ChunkId) -> bool {
        let _ = (domain, id);
        false
    }

    /// Pins a chunk that is here.
    pub fn pin(&self, domain: BucketId, id: ChunkId) -> Option<Pin> {
        let _ = (domain, id);
        None
    }

    /// Reads part of a chunk; every 64 KiB block touched is verified first. `0..u32::MAX` reads to the end.
    pub fn read_chunk(&self, domain: BucketId, id: ChunkId, range: Range<u32>) -> Result<Bytes, ReadError> {
        let _ = (domain, id, range);
        Err(ReadError::Absent)
    }

    /// Bytes by class, room left, syncs.
    pub fn usage(&self) -> Usage {
        Usage::default()
    }

    /// One paced step of the collector: call it every few seconds. Frees what nothing has referred to for
    /// [`skerry_base::limits::CHUNK_REST_MS`] (at once when the disk is full), evicts cache beyond its cap.
    /// Returns after a bounded amount of work; `more` says that there is more to do.
    pub fn collect(&self, now: WallTime) -> Result<Collected, StorageError> {
        let _ = now;
        Ok(Collected::default())
    }
}

impl View for StoreView {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let _ = (table, key);
        Ok(None)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let _ = (table, from, to, visit);
        Ok(())
    }
}
