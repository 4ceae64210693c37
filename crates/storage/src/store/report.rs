//! What a store tells about itself: recovery, usage, collection.

use super::DamagedChunk;

/// What opening found and did. Log it; `damage` wants a human.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How the index was found.
    pub index: IndexState,
    /// Journal frames replayed into the index.
    pub replayed: u64,
    /// A write cut short by the end of the last run: normal after a crash, nothing acknowledged is in it.
    pub torn: Option<TornTail>,
    /// Frames that were durable once and cannot be read. Never dropped silently: others may hold copies.
    pub damage: Vec<Damage>,
    /// Journal positions that damage took with it at this start or one before, where the index did not know what was there: the
    /// first one lost, the first that reads again. Whatever was written behind may rest on entries that are gone.
    pub lost: Vec<(u64, u64)>,
    /// Payload chunks dropped because no durable record refers to them, or because they are not what was written: torn by a
    /// power cut, or rotten.
    pub chunks_dropped: u64,
    /// Chunks that a rebuild of the index found rotten, or that cannot be read, and records refer to: they are on the scrub's
    /// list.
    pub rotten: Vec<DamagedChunk>,
    /// Payload segments of which the disk could not read something that the index does not know: they are kept until a rebuild
    /// of the index reads it.
    pub unread: Vec<u32>,
    /// What lies in payload segments and is neither a chunk nor blank: one of which the head has rotted, or what a power cut tore
    /// while it was written. If it was wanted it is not here, and nobody can say which chunk it was.
    pub strange: Vec<Strange>,
    /// Last journal position: entries written since the store was made.
    pub lsn: u64,
}

/// How the index was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IndexState {
    /// There was no store: a new one.
    #[default]
    New,
    /// Opened as it was.
    Opened,
    /// Lost or refused to open: moved aside and rebuilt from journal and payload.
    Rebuilt(
        /// Why.
        String,
    ),
}

impl std::fmt::Display for IndexState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Opened => f.write_str("opened"),
            Self::Rebuilt(why) => write!(f, "rebuilt: {why}"),
        }
    }
}

/// Where the journal was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Segment number.
    pub segment: u32,
    /// Where in it the first incomplete frame begins.
    pub offset: u64,
    /// What is wrong with it.
    pub why: String,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "segment {} at {}: {}", self.segment, self.offset, self.why)
    }
}

/// Part of a payload segment of which nobody knows what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strange {
    /// Segment number.
    pub segment: u32,
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// Part of the journal that was durable and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Segment number.
    pub segment: u32,
    /// Where it begins.
    pub offset: u64,
    /// First journal position lost.
    pub from: u64,
    /// First journal position readable again.
    pub to: u64,
    /// What is wrong.
    pub why: String,
}

/// Bytes of one class of segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassUsage {
    /// Segments.
    pub segments: u64,
    /// Bytes taken from the disk.
    pub allocated: u64,
    /// Bytes of chunks that are stored.
    pub live: u64,
    /// Bytes of chunks no longer wanted whose space is to be given back by holes; of small bodies the segment's is.
    pub dead: u64,
}

/// How the disk does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Records and small bodies.
    pub journal: ClassUsage,
    /// Chunks that count.
    pub payload: ClassUsage,
    /// Evictable copies.
    pub cache: ClassUsage,
    /// Bytes of the index's files.
    pub index: u64,
    /// Whether part of the index does not read: the next start builds it anew.
    pub index_bad: bool,
    /// Bytes that ordinary writes may still take.
    pub free: u64,
    /// What the cache does.
    pub cached: CacheStats,
    /// Whether ordinary writes are refused for want of room.
    pub full: bool,
    /// Why nothing is written any more, if so.
    pub poisoned: Option<String>,
    /// Journal syncs.
    pub journal_syncs: SyncStats,
    /// Seconds for which a sync has not come back that is under way: a disk that hangs answers nothing and fails nothing.
    pub sync_waits: f64,
    /// Last journal position that is durable and applied.
    pub lsn: u64,
    /// Bytes of payload written again to get space back, since the store was opened.
    pub moved: u64,
    /// The same of bodies in the journal.
    pub moved_bodies: u64,
    /// Whether lazy entries are answered before they are on disk.
    pub lazy: bool,
    /// Payload segments of which the disk could not read something that may be wanted: they are kept with all that is dead in them.
    pub unread: u64,
    /// Bytes that were answered and that a power cut would lose now.
    pub unsynced: u64,
}

/// A bound of a store: all there is, and what is taken of it now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// All.
    pub most: u64,
    /// Taken.
    pub taken: u64,
}

/// The bounds of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of changes that the index has not flushed, about.
    pub memtables: Level,
    /// Bytes of blocks of the index that are kept in memory.
    pub index_cache: Level,
    /// Bytes of payload that no sync has covered: beyond, writers wait for one.
    pub dirty: Level,
    /// Proposals that somebody waits for, in the queue of the commit thread: beyond, they are refused.
    pub commits: Level,
    /// Proposals behind those, that other sites wait for.
    pub commits_behind: Level,
}

/// What the cache holds and was good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes of copies that are kept: never evicted.
    pub pinned: u64,
    /// Copies are evicted beyond so many bytes.
    pub cap: u64,
    /// Bytes of copies.
    pub bytes: u64,
    /// Bytes read from copies that had been read before, since the store was opened: what would have been fetched again.
    pub hit_bytes: u64,
    /// Bytes of copies evicted since then.
    pub evicted_bytes: u64,
}

/// Count and duration of syncs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SyncStats {
    /// How many.
    pub count: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// How many took at most [`SyncStats::BOUNDS`] seconds each (not cumulative); the last is the rest.
    pub buckets: [u64; 14],
}

impl SyncStats {
    /// Upper bounds of the buckets, in seconds.
    pub const BOUNDS: [f64; 13] =
        [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];
}

/// What one step of the collector did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Chunks freed.
    pub chunks: u64,
    /// Bytes given back to the file system.
    pub bytes: u64,
    /// Segments removed.
    pub segments: u64,
    /// Bytes of payload moved out of segments in which little lived.
    pub moved: u64,
    /// Cached chunks evicted.
    pub evicted: u64,
    /// Whether resting was cut short because the disk is full, or nearly.
    pub pressed: bool,
    /// Whether there is more to do now.
    pub more: bool,
}
