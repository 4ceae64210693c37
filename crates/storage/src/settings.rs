//! Sizes and bounds of one store: they may differ per node and never decide what is stored.

/// Which engine keeps the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// In memory, rebuilt from the journal at each open: the simulator's.
    Memory,
    /// `lsm-tree`.
    Lsm,
    /// `redb`.
    #[cfg(feature = "redb")]
    Redb,
}

/// What takes long and is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Rows of the index are read.
    Index,
    /// Chunks are read.
    Chunks,
    /// The journal is read.
    Journal,
    /// The index is rebuilt: payload and cache are looked through.
    RebuildChunks,
    /// The index is rebuilt: the journal is replayed.
    RebuildJournal,
    /// The index is rebuilt: what no record vouches for and may stay is read.
    RebuildRest,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub stage: Stage,
    /// So much of it: bytes, of [`Stage::Index`] tables.
    pub done: u64,
    /// About so much in all.
    pub total: u64,
}

/// Who is told of progress.
#[derive(Clone)]
pub struct Watch(pub std::sync::Arc<dyn Fn(Progress) + Send + Sync>);

impl core::fmt::Debug for Watch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Watch")
    }
}

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The index engine.
    pub engine: Engine,
    /// Bytes of a journal segment.
    pub journal_segment_bytes: u64,
    /// Bytes of a payload segment.
    pub payload_segment_bytes: u64,
    /// Bytes of a cache segment: the grain of eviction.
    pub cache_segment_bytes: u64,
    /// Cached copies are evicted beyond this.
    pub cache_bytes: u64,
    /// Acts like a full disk when all files together would grow beyond it; none: only the disk is the limit.
    pub capacity_bytes: Option<u64>,
    /// Bytes of heads in sealed journal segments from which a base of the journal is written, so that they can go.
    pub journal_heads_bytes: u64,
    /// Preallocated journal segments kept back so that deletes and the collector work on a full disk.
    pub reserve_segments: u32,
    /// Bytes of the disk that ordinary writes leave free for the index.
    pub headroom_bytes: u64,
    /// Bytes of memory for changes that the index has not flushed: seven tenths are flushed at once, the others come in meanwhile.
    /// Counted is what they take, not only what they say.
    pub memtable_bytes: u64,
    /// Bytes of index blocks cached in memory.
    pub index_cache_bytes: u64,
    /// Whether blocks of the index are packed (LZ4) as they are written: it takes two thirds of the disk, and a look-up of what
    /// memory does not hold some 40 % more of the processor. Blocks of both kinds are read.
    pub packs_index: bool,
    /// Payload bytes written but not synced before a writer has to wait for a sync: bounds dirty memory.
    pub dirty_bytes: u64,
    /// Bytes of payload that are moved at once, by a step of the collector or [`crate::Store::move_on`], at least one chunk; on a full
    /// disk a segment.
    pub move_bytes: u64,
    /// Entries marked as lazy are answered when the operating system has them, not the disk: the end of this process
    /// loses nothing then, a power cut what was written since the last sync. What survives is what was written up to
    /// some moment; a record of after the last sync may survive without its payload.
    pub lazy: bool,
    /// Proposals that may wait; more are refused as busy.
    pub queue_proposals: usize,
    /// Proposals of one commit group.
    pub group_proposals: usize,
    /// Entries, about, that one commit group takes of what goes behind when nobody waits; an eighth of it where somebody
    /// does, and always one step. Each 4 KiB that they are long together count as one more.
    pub group_behind: usize,
    /// Files held open for reading.
    pub open_files: usize,
    /// Mixed into every checksum, so that a copy of a segment inside an object is never taken for a segment: bytes that nobody
    /// else can know. Fixed when the store is made; later values are ignored.
    pub salt: [u8; 16],
    /// Moves the index aside at open and builds it anew from journal and payload.
    pub rebuild: bool,
    /// Is told of what takes long.
    pub watch: Option<Watch>,
    /// A memory index of which the last checkpoint survives.
    #[cfg(test)]
    pub(crate) kept: Option<std::sync::Arc<crate::index::kept::Kept>>,
}

impl Settings {
    /// Tells who watches.
    pub(crate) fn tell(&self, progress: Progress) {
        if let Some(Watch(watch)) = &self.watch {
            watch(progress);
        }
    }

    /// Whether the index can be as it was before, or is always built anew.
    pub(crate) fn index_lasts(&self) -> bool {
        #[cfg(test)]
        if self.kept.is_some() {
            return true;
        }
        self.engine != Engine::Memory
    }
}

impl Default for Settings {
    /// For a machine of 1 GB with an SD card.
    fn default() -> Self {
        Self {
            engine: Engine::Lsm,
            journal_segment_bytes: 64 << 20,
            payload_segment_bytes: 256 << 20,
            cache_segment_bytes: 64 << 20,
            cache_bytes: 4 << 30,
            capacity_bytes: None,
            journal_heads_bytes: 256 << 20,
            reserve_segments: 2,
            headroom_bytes: 32 << 20,
            memtable_bytes: 8 << 20,
            index_cache_bytes: 2 << 20,
            packs_index: false,
            dirty_bytes: 64 << 20,
            move_bytes: 40 << 20,
            lazy: false,
            queue_proposals: 4096,
            group_proposals: 1024,
            group_behind: 128,
            open_files: 128,
            salt: [0; 16],
            rebuild: false,
            watch: None,
            #[cfg(test)]
            kept: None,
        }
    }
}
