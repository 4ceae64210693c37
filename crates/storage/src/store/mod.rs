//! The store: what the node and the simulator see of the disk.
//!
//! Split by what is done: [`open`], [`replay`] and [`unvouched`] bring it up, [`commit`] carries out groups, [`put`] and [`read`]
//! handle chunks, [`collect`], [`strip`], [`compact`] and [`release`] give space back, [`rebase`] lets old journal go, [`scrub`], [`unread`] and [`examine`] read everything
//! again, [`committer`] runs the threads; [`unwritable`] passes over a dead spot; [`absent`] and [`tending`] make a rebuild quick.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use skerry_base::kv::{Reducer, Table, View, ViewError, Visit};

use crate::chunks::Key;
use crate::chunks::live::Live;
use crate::chunks::row::Area;
use crate::disk::{Disk, Lock};
use crate::index::health::Health;
use crate::index::{Index, Reading};
use crate::journal::writer::Writer;
use crate::meter::SyncMeter;
use crate::payload::segments::Segments;
use crate::space::Space;
use crate::{CommitError, Settings, StorageError};

mod absent;
mod adopt;
mod changes;
mod collect;
mod commit;
mod committer;
mod compact;
mod evict;
mod examine;
mod files;
mod identity;
mod judge;
mod once;
mod open;
mod outranked;
mod put;
mod queue;
mod quick;
mod read;
mod rebase;
mod release;
mod replay;
mod report;
mod resting;
mod retry;
mod scrub;
mod strip;
mod tending;
mod unread;
mod unvouched;
mod unwritable;
mod words;

pub use committer::Committer;
pub use quick::{OpenChunk, PIECE_BLOCKS};
pub use report::{
    Bounds, CacheStats, ClassUsage, Collected, Damage, IndexState, Level, Recovery, Strange, SyncStats,
    TornTail, Usage,
};
pub use scrub::{DamagedChunk, DamagedSegment, ScrubState, ScrubStep};
pub use words::{Class, Entry, SmallBody, Stands, Step};

/// What only one thread at a time may touch: who carries out a group.
struct Core {
    writer: Writer,
    /// Number of the last group applied.
    mark: u64,
}

/// A store. All methods block; any thread may call any of them.
pub struct Store {
    disk: Arc<dyn Disk>,
    settings: Settings,
    salt: [u8; 16],
    reducer: Arc<dyn Reducer>,
    index: Arc<dyn Index>,
    health: Arc<Health>,
    core: Mutex<Core>,
    queue: queue::Queue,
    live: Arc<Live>,
    payload: Segments,
    cache: Segments,
    space: Space,
    files: files::Files,
    buffers: Arc<crate::buffers::Buffers>,
    journal_meter: SyncMeter,
    payload_meter: SyncMeter,
    sweep: Mutex<collect::Sweep>,
    /// Journal segments before this are not needed for what they say.
    base_segment: AtomicU32,
    scrub: Mutex<scrub::Scrub>,
    evicting: evict::Evicting,
    /// Chunks that were asked for or brought, to see whether others are at work.
    asked: AtomicU64,
    /// One payload sync at a time.
    syncing: Mutex<()>,
    poison: Mutex<Option<String>>,
    is_poisoned: AtomicBool,
    /// Bytes of payload that were written again to get space back.
    moved: AtomicU64,
    /// The same of bodies in the journal.
    moved_bodies: AtomicU64,
    /// Bytes of journal that were answered before a sync covered them.
    unsynced: AtomicU64,
    /// Payload segments that are kept because something in them could not be read.
    unread: AtomicU64,
    /// Last LSN applied.
    lsn: AtomicU64,
    /// Mark that was durable when the index was opened.
    durable_at_open: u64,
    /// Whether a thread tends the index; else who pumps does.
    tended: AtomicBool,
    tend_signal: committer::Signal,
    /// When a flush of the index that failed is tried again.
    retry: retry::Retry,
    /// The payload and cache segments that were active when the index was last checkpointed for them.
    checked: Mutex<(u32, u32)>,
    _lock: Lock,
}

/// A chunk kept from the collector while this lives.
pub struct Pin {
    live: Arc<Live>,
    key: Key,
}

impl Pin {
    /// Deduplication domain.
    pub const fn domain(&self) -> skerry_base::BucketId {
        self.key.0
    }

    /// The chunk.
    pub const fn id(&self) -> skerry_base::ChunkId {
        self.key.1
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.live.unpin(self.key);
    }
}

/// A consistent reading of what is durable. Cheap to make; hold it no longer than a request.
#[derive(Clone)]
pub struct StoreView {
    reading: Reading,
    health: Arc<Health>,
}

impl Store {
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
        self.push(queue::Lane::Ahead, queue::Proposal::new(propose, done));
    }

    /// As [`Store::submit`], behind everything that was submitted so, also later: for what no client waits for. What was
    /// submitted behind keeps its order.
    pub fn submit_behind<T, E>(
        &self,
        propose: impl FnOnce(&dyn View) -> Result<(T, Vec<Entry>), E> + Send + 'static,
        done: impl FnOnce(Result<T, CommitError<E>>) + Send + 'static,
    ) where
        T: Send + 'static,
        E: Send + 'static,
    {
        self.push(queue::Lane::Behind, queue::Proposal::new(propose, done));
    }

    /// Queues a long proposal behind, which is carried out in steps: `step` is asked as long as it says that there is more,
    /// each time over all that is committed by then and the earlier proposals of its group. Each step is committed as a whole or not at
    /// all; between two of them others may come that somebody waits for. `done` hears of the last, or of the first that
    /// failed: those before it stay.
    pub fn submit_steps<E>(
        &self,
        step: impl FnMut(&dyn View) -> Result<Step, E> + Send + 'static,
        done: impl FnOnce(Result<(), CommitError<E>>) + Send + 'static,
    ) where
        E: Send + 'static,
    {
        self.push(queue::Lane::Behind, queue::Sequence::new(step, done));
    }

    fn push(&self, lane: queue::Lane, job: impl queue::Job + 'static) {
        self.queue.push(Box::new(job), lane, self.settings.queue_proposals);
    }

    /// Makes all payload put so far durable and known to the index, also what no new record refers to (copies that
    /// repair or follow records already here). `done` as for [`Store::submit`].
    pub fn settle(&self, done: impl FnOnce(Result<(), StorageError>) + Send + 'static) {
        self.push(queue::Lane::Ahead, queue::Settling(done));
    }

    /// Whether all payload that was put is durable.
    pub fn is_settled(&self) -> bool {
        self.live.lock().is_settled()
    }

    /// A consistent reading of what is durable.
    pub fn view(&self) -> StoreView {
        StoreView { reading: self.index.read(), health: self.health.clone() }
    }

    /// Last journal position that is durable and applied.
    pub fn lsn(&self) -> u64 {
        self.lsn.load(Ordering::Acquire)
    }

    /// Rises with every chunk that is read or put and every record that is written: who works in the background looks
    /// whether it rose.
    pub fn activity(&self) -> u64 {
        self.asked.load(Ordering::Relaxed).wrapping_add(self.lsn())
    }

    /// Flushes the index, so that the next open has nothing to replay. Not needed for durability.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        self.checkpoint_index()?;
        self.space.note_index(self.index.disk_bytes());
        Ok(())
    }

    /// Bytes by class, room left, syncs.
    pub fn usage(&self) -> Usage {
        self.space.note_index(self.index.disk_bytes());
        Usage {
            journal: self.space.usage(Area::Journal),
            payload: self.space.usage(Area::Payload),
            cache: self.space.usage(Area::Cache),
            index: self.space.index_bytes(),
            index_bad: self.health.is_bad(),
            free: self.space.free(),
            cached: self.usage_of_cache(),
            full: self.space.is_full() || !self.has_room_for(0),
            poisoned: self.poison.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            journal_syncs: self.journal_meter.stats(),
            sync_waits: self.journal_meter.waits(&*self.disk).max(self.payload_meter.waits(&*self.disk)),
            lsn: self.lsn(),
            lazy: self.settings.lazy,
            unread: self.unread.load(Ordering::Relaxed),
            unsynced: self.unsynced(),
            moved: self.moved.load(Ordering::Relaxed),
            moved_bodies: self.moved_bodies.load(Ordering::Relaxed),
        }
    }

    /// How much is taken of what is bounded. Read for whoever asks, counted for nobody.
    pub fn bounds(&self) -> Bounds {
        let (index, [commits, behind]) = (self.index.memory(), self.queue.waiting());
        let of = |most, taken| Level { most, taken };
        let queue = |taken: usize| of(self.settings.queue_proposals as u64, taken as u64);
        Bounds {
            memtables: of(self.settings.memtable_bytes, index.changes),
            index_cache: of(index.blocks_most, index.blocks),
            dirty: of(self.settings.dirty_bytes, self.live.lock().dirty),
            commits: queue(commits),
            commits_behind: queue(behind),
        }
    }

    /// Bytes that a power cut would lose now although they were answered; 0 unless lazy entries are let be so.
    fn unsynced(&self) -> u64 {
        let inner = self.live.lock();
        let payload = if inner.trusted { inner.dirty } else { 0 };
        self.unsynced.load(Ordering::Acquire) + payload
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mark up to which the index survives a crash.
    fn durable_mark(&self) -> u64 {
        self.index.durable().max(self.durable_at_open)
    }

    /// Stops all writing until the store is opened anew.
    fn poison(&self, why: &StorageError) -> StorageError {
        let mut poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        let why = poison.get_or_insert_with(|| why.to_string()).clone();
        self.is_poisoned.store(true, Ordering::Release);
        tracing::error!(why, "the store stops writing until it is opened anew");
        StorageError::Poisoned(why)
    }

    fn check_poison(&self) -> Result<(), StorageError> {
        if self.is_poisoned.load(Ordering::Acquire) {
            let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(StorageError::Poisoned(poison.clone().unwrap_or_default()));
        }
        Ok(())
    }
}

impl StoreView {
    /// Reads; what the engine cannot read, and what it panics on, is noted as damage.
    fn guarded<T>(&self, read: impl FnOnce() -> Result<T, ViewError>) -> Result<T, ViewError> {
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
        read.unwrap_or_else(|_| Err(ViewError::Unreadable("the engine panicked".into()))).inspect_err(
            |error| {
                if matches!(error, ViewError::Unreadable(_)) {
                    self.health.note_bad();
                }
            },
        )
    }
}

impl View for StoreView {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.guarded(|| self.reading.get(table, key))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.guarded(|| self.reading.scan(table, from, to, visit))
    }
}

#[cfg(test)]
mod tests;
