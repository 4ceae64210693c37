//! The index on `lsm-tree`: no journal of its own (ours is one), flushes and compacts only when told.
//!
//! Invariants kept here because the library leaves them to its user: a group's changes get one sequence number and
//! go into one memtable (rotation happens only between groups), so that a flush holds whole groups; readers see a
//! sequence number only once its group is complete, although flushes take numbers from the same counter.
//!
//! What a memtable takes is counted here as it lies in memory: the library counts keys, values and its own structures,
//! not the nodes of the list nor what the allocator puts around each. All that is not flushed takes `memtable_bytes` and one
//! group at most: then who applies waits for a flush.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use lsm_tree::config::CompressionPolicy;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Guard, SequenceNumberCounter,
};
use skerry_base::kv::ViewError;
use xxhash_rust::xxh3::xxh3_128;

use super::rows::{Part, Rows};
use super::{
    Index, Reading, Refused, Resident, Secure, Snapshots, Writes, bounds, dead, gaps, hot, prefixed, runs,
    toc,
};
use crate::disk::real::RealDisk;
use crate::error::is_passing;
use crate::fields::Fields;
use crate::{Settings, StorageError};

mod reading;

use hot::is_asked;
use reading::{LsmReading, is_listed};

/// Runs that nobody has merged yet before who applies waits for a merge, or makes it: each costs every reading.
const RUNS_MAX: usize = 32;
/// Files the engine holds open.
const OPEN_FILES: usize = 64;
/// Runs that are merged at once. More than the library's four, because a memtable is small: merged too often, the level below
/// would be written again and again. Each costs every scan, and once scans have paid for it fewer are merged ([`runs`]).
const RUNS_MERGED: u8 = 16;
/// The first level is folded into one run while what lies below it, and would be written again, is so many times as large.
const FOLDED: u64 = 3;
/// And no larger than so many full memtables: flushes wait for it.
const FOLDED_MOST: u64 = 4;
/// A memtable that takes so many tenths of what all may take is flushed: the larger the runs, the less often the level below is
/// written again. The rest is for what comes while it is flushed.
const ROTATED_AT: u64 = 7;
/// Tables that a merge below the first level may take at once: what the library takes at most.
const TABLES_MERGED: u64 = 50;
/// A node of the memtable's list: value, key and number, a count, a tower of two on average, the allocator's own.
const NODE: u64 = 100;
/// Keys and values up to this length lie within the node.
const INLINE: usize = 20;
/// Before others: a count of who holds it. Behind: the allocator's grain.
const AROUND: usize = 16;

/// How blocks of rows are written. Each block says how it was.
fn packing(settings: &Settings) -> CompressionPolicy {
    CompressionPolicy::all(match settings.packs_index {
        true => CompressionType::Lz4,
        false => CompressionType::None,
    })
}

/// Bytes of memory that an entry of the memtable takes.
fn resident(key: usize, value: usize) -> u64 {
    let outside = |len: usize| if len <= INLINE { 0 } else { (len + AROUND).next_multiple_of(16) as u64 };
    NODE + outside(key) + outside(value)
}

/// What the file system refused says nothing about what lies there; a table that is cut short or gone does.
fn failed(error: lsm_tree::Error) -> StorageError {
    match error {
        lsm_tree::Error::Io(error) if !is_damage(&error) => StorageError::io("write the index", &error),
        error => StorageError::Index(error.to_string()),
    }
}

/// Counts how often in a row the file system refuses something, with what came of it now.
const fn in_a_row<T>(count: &mut u32, outcome: &Result<T, StorageError>) {
    match outcome {
        Ok(_) => *count = 0,
        Err(StorageError::Io { .. }) => *count = count.saturating_add(1),
        Err(_) => {}
    }
}

/// How the library says of a file that it is not what was written.
fn is_damage(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::NotFound)
}

/// Whether the list of tables is as it was written. The library notes its checksum beside its name and does not look at
/// it: a damaged count in it would have it ask for more memory than there is, which ends the process, at each start.
fn check_tables(path: &Path) -> Result<(), StorageError> {
    let damaged = |why: &str| StorageError::Index(format!("the list of its tables {why}"));
    let current = match std::fs::read(path.join("current")) {
        Ok(current) => current,
        // A new one, or one that the library refuses.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StorageError::io("read the index", &error)),
    };
    let mut fields = Fields::of(&current);
    let (Some(number), Some(sum)) = (fields.u64(), fields.array().map(u128::from_le_bytes)) else {
        return Err(damaged("is not named"));
    };
    let list = match std::fs::read(path.join(format!("v{number}"))) {
        Err(error) if is_damage(&error) => return Err(damaged("is gone")),
        // It may be all that says what the journal does not: a sector that cannot be read may be read again.
        read => read.map_err(|error| StorageError::io("read the index", &error))?,
    };
    if xxh3_128(&list) == sum { Ok(()) } else { Err(damaged("does not match its checksum")) }
}

/// The version that lies beside these tables.
fn named_version(tables: &Path) -> Option<u64> {
    let current = std::fs::read(tables.with_file_name("current")).ok()?;
    Fields::of(&current).u64()
}

/// The tables of these numbers on that have a file.
fn files_from(tables: &Path, first: u64) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(tables) else { return Vec::new() };
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    entries.filter_map(number).filter(|number| *number >= first).collect()
}

/// A sector that cannot be read is damage here: nobody but a rebuild would ever mend it.
fn unreadable(error: lsm_tree::Error) -> ViewError {
    match error {
        lsm_tree::Error::Io(error) if is_passing(&error) => ViewError::Refused(error.to_string()),
        error => ViewError::Unreadable(error.to_string()),
    }
}

/// What only who applies or rotates changes.
#[derive(Default)]
struct Gate {
    /// Mark of the last group.
    mark: u64,
    /// Mark of the last group before the last rotation.
    sealed_mark: u64,
    /// Bytes of memory that the memtable of now takes.
    resident: u64,
    /// The same of those that wait for a flush, the oldest first, and maybe of some that were flushed since.
    sealed: VecDeque<u64>,
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
    gate: Mutex<Gate>,
    gaps: gaps::Gaps,
    hot: hot::Hot,
    runs: runs::Runs,
    /// A scan went over so many deletes that it is worth merging them away.
    asked: AtomicBool,
    /// Readings see what is below this.
    visible: AtomicU64,
    snapshots: Snapshots,
}

impl Shared {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }
}

/// The engine.
pub(super) struct Lsm {
    shared: Arc<Shared>,
    seqno: SequenceNumberCounter,
    /// What is not flushed may take so much.
    most: u64,
    /// A memtable that takes so much is flushed ([`ROTATED_AT`]).
    rotate_at: u64,
    strategy: Arc<Leveled>,
    cache: Arc<Cache>,
    /// Mark that is flushed.
    flushed: AtomicU64,
    compaction_due: AtomicBool,
    /// Whether the version of before the last flush, with the memtable that was flushed, is kept still.
    retains: AtomicBool,
    /// Nobody who reads from here on needs that version.
    flushed_before: AtomicU64,
    /// Who apply and wait until there are few runs again.
    waiting: AtomicUsize,
    refused: Mutex<Refused>,
    /// Flushes that failed in a row.
    failed: AtomicU32,
    flushing: Mutex<()>,
    compacting: Mutex<()>,
    /// The folder of the tables.
    tables: PathBuf,
    /// Tables that flushes and merges left half-written: the library removes them when it opens, and never else.
    left: Mutex<BTreeSet<u64>>,
    /// A merge met what does not read: it would meet it again, and write all that comes before it each time.
    unmergeable: AtomicBool,
    /// Bytes that the disk has left.
    room: Box<dyn Fn() -> u64 + Send + Sync>,
    /// A merge waits for room, which was told.
    crowded: AtomicBool,
    /// Deletes that the last merge of the last level for their sake could not drop.
    kept: AtomicU64,
}

impl Lsm {
    /// Opens or makes the tree in this folder.
    pub(super) fn open(path: &Path, settings: &Settings) -> Result<Self, StorageError> {
        let folder = path.to_owned();
        // Where nobody can tell it is tried.
        Self::with_room(path, settings, move || RealDisk::free_at(&folder).unwrap_or(u64::MAX))
    }

    fn with_room(
        path: &Path,
        settings: &Settings,
        room: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, StorageError> {
        check_tables(path)?;
        toc::check(&path.join("tables"))?;
        let seqno = SequenceNumberCounter::default();
        let cache = Arc::new(Cache::with_capacity_bytes(settings.index_cache_bytes));
        let tree = Config::new(path, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(cache.clone())
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(OPEN_FILES))))
            .data_block_compression_policy(packing(settings))
            .open()
            .map_err(failed)?;
        let next = tree.get_highest_seqno().map_or(0, |last| last + 1).max(seqno.get());
        seqno.set(next);
        let rotate_at = settings.memtable_bytes / 10 * ROTATED_AT;
        let strategy =
            Leveled::default().with_table_target_size(rotate_at.max(1 << 20)).with_l0_threshold(RUNS_MERGED);
        let shared = Shared {
            tree,
            gate: Mutex::default(),
            gaps: gaps::Gaps::default(),
            hot: hot::Hot::default(),
            runs: runs::Runs::default(),
            asked: AtomicBool::default(),
            visible: AtomicU64::new(next),
            snapshots: Snapshots::default(),
        };
        let engine = Self {
            shared: Arc::new(shared),
            seqno,
            most: settings.memtable_bytes,
            rotate_at,
            strategy: Arc::new(strategy),
            cache,
            flushed: AtomicU64::new(0),
            compaction_due: AtomicBool::new(true),
            retains: AtomicBool::new(false),
            flushed_before: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            refused: Mutex::default(),
            failed: AtomicU32::new(0),
            flushing: Mutex::default(),
            compacting: Mutex::default(),
            tables: path.join("tables"),
            left: Mutex::default(),
            unmergeable: AtomicBool::new(false),
            room: Box::new(room),
            crowded: AtomicBool::new(false),
            kept: AtomicU64::new(0),
        };
        engine.note_runs();
        Ok(engine)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.shared.gate()
    }

    fn refusals(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rotate(&self, gate: &mut Gate) {
        if self.shared.tree.rotate_memtable().is_some() {
            gate.sealed.push_back(gate.resident);
        }
        (gate.sealed_mark, gate.resident) = (gate.mark, 0);
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

    /// What an attempt that failed has written, beside what others may be writing, is told apart later.
    fn note_left(&self, first: u64) {
        let left = files_from(&self.tables, first);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
    }

    /// Removes what was left half-written. Called by who holds back merges, so that a table that is in no version now was in
    /// none: what was merged away and is still read was written before, or is in the version.
    fn clear_up(&self, _no_merge: &MutexGuard<'_, ()>) {
        let left = || self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left().is_empty() {
            return;
        }
        // A flush that is under way may be writing one of them, and may add to them.
        let _no_flush = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = left();
        let version = self.shared.tree.current_version();
        // What came to be in a version is not removed here, also when it is merged away later: somebody may read it still.
        left.retain(|table| !version.iter_tables().any(|known| known.id() == *table));
        // What names the tables may be on the disk though writing it failed: it is written anew by the next that goes through.
        if named_version(&self.tables) == Some(version.id()) {
            left.retain(|table| {
                let removed = std::fs::remove_file(self.tables.join(table.to_string()));
                removed.is_err_and(|error| error.kind() != ErrorKind::NotFound)
            });
        }
    }

    /// Flushes what is sealed, with `all` what was applied; may run beside a compaction.
    fn flush(&self, secure: Secure<'_>, all: bool) -> Result<(), StorageError> {
        let flushed = self.flush_tables(secure, all);
        let failed = if flushed.is_ok() { 0 } else { self.failed_flushes().saturating_add(1) };
        self.failed.store(failed, Ordering::Relaxed);
        if flushed.is_err()
            && let Ok(no_merge) = self.compacting.try_lock()
        {
            self.clear_up(&no_merge);
        }
        flushed
    }

    fn flush_tables(&self, secure: Secure<'_>, all: bool) -> Result<(), StorageError> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed_mark = {
            let mut gate = self.gate();
            // What grew while there could be no rotation is of it, too.
            if all || gate.resident >= self.rotate_at {
                self.rotate(&mut gate);
            }
            gate.held = secure.is_some();
            gate.sealed_mark
        };
        let _hold = Hold(self);
        secure.map_or(Ok(()), |secure| secure())?;
        let tree = &self.shared.tree;
        if tree.sealed_memtable_count() > 0 {
            let (lock, first) = (tree.get_flush_lock(), tree.next_table_id());
            let flushed =
                tree.flush(&lock, self.oldest()).map_err(failed).inspect_err(|_| self.note_left(first));
            in_a_row(&mut self.refusals().flushes, &flushed);
            flushed?;
            self.compaction_due.store(true, Ordering::Relaxed);
            self.flushed_before.store(self.seqno.get(), Ordering::Relaxed);
            self.retains.store(true, Ordering::Relaxed);
        }
        self.flushed.fetch_max(sealed_mark, Ordering::AcqRel);
        self.note_runs();
        self.publish();
        // At once: a merge may take long, and what was flushed would be in memory meanwhile beside what waits.
        self.release();
        Ok(())
    }

    /// Compacts until there is nothing to choose, or who applies waits and need not any more.
    fn compact(&self) -> Result<(), StorageError> {
        let one = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = &self.shared.tree;
        if self.is_due() {
            self.compaction_due.store(true, Ordering::Relaxed);
        }
        // Who waited while another merged may have enough by now.
        while !self.is_enough() && self.compaction_due.swap(false, Ordering::Relaxed) {
            self.clear_up(&one);
            if self.unmergeable.load(Ordering::Relaxed) || !self.has_room_to_merge() {
                self.shared.asked.store(false, Ordering::Relaxed);
                self.shared.runs.take_paid();
                break;
            }
            let flushed_before = self.flushed_before.load(Ordering::Relaxed);
            let releases = self.oldest() >= flushed_before;
            let merged = self.fold(&one)?
                || self.merge(&one, self.strategy.clone(), None)?
                || self.drop_deletes(&one)?
                || self.merge_paid(&one)?;
            if merged {
                self.compaction_due.store(true, Ordering::Relaxed);
                // What was flushed meanwhile is not let go of by this.
                let is_last = self.flushed_before.load(Ordering::Relaxed) == flushed_before;
                self.retains.fetch_and(!(releases && is_last), Ordering::Relaxed);
            } else {
                // One that went through says nothing of another that does not: only that none is left does.
                self.refusals().merges = 0;
            }
            if self.is_enough() || tree.sealed_memtable_count() > 0 {
                // A flush is more urgent, and writes are; the rest of the compaction comes with the next call.
                return Ok(());
            }
        }
        self.release();
        Ok(())
    }

    /// Who applies waits, and need not any more.
    fn is_enough(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && !self.has_many_runs()
    }

    fn is_due(&self) -> bool {
        self.compaction_due.load(Ordering::Relaxed)
            || self.shared.asked.load(Ordering::Relaxed)
            || self.shared.runs.are_paid()
    }

    fn has_many_runs(&self) -> bool {
        self.shared.runs.count() > RUNS_MAX
    }

    /// Whether who applies waits for a merge: where none can be made now nothing would be won by it.
    fn waits_for_merge(&self) -> bool {
        let is_refused = || self.unmergeable.load(Ordering::Relaxed) || self.refusals().merges > 0;
        let is_made = || matches!(self.compacting.try_lock(), Err(TryLockError::WouldBlock));
        self.has_many_runs() && !is_refused() && (self.compaction_due.load(Ordering::Relaxed) || is_made())
    }

    /// Merges the runs of the first level with each other where the next one is much larger: of small runs (a collector flushes to
    /// give space back) sixteen say little, and it would be written again for each sixteen. The library puts what it has merged in
    /// front of what was flushed meanwhile, which is newer: none is.
    fn fold(&self, one: &MutexGuard<'_, ()>) -> Result<bool, StorageError> {
        let version = self.shared.tree.current_version();
        let (first, mut below) = (version.l0(), version.iter_levels().skip(1).map(|level| level.size()));
        // One run is left, however many tables it has.
        let is_due = first.run_count() >= usize::from(RUNS_MERGED)
            && first.size() <= FOLDED_MOST * self.rotate_at
            && first.size() * FOLDED < below.find(|size| *size > 0).unwrap_or(0);
        if !is_due {
            return Ok(false);
        }
        let no_flush = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.merge(one, Arc::new(PullDown(0, 0)), Some(no_flush))
    }

    /// Merges what this chooses; whether it chose anything.
    fn merge(
        &self,
        one: &MutexGuard<'_, ()>,
        strategy: Arc<dyn CompactionStrategy + Send + Sync>,
        no_flush: Option<MutexGuard<'_, ()>>,
    ) -> Result<bool, StorageError> {
        let tree = &self.shared.tree;
        let (before, first) = (tree.current_version().id(), tree.next_table_id());
        let merged = tree.compact(strategy, self.oldest()).map_err(failed);
        drop(no_flush);
        if let Err(error) = merged {
            self.refusals().merges += u32::from(matches!(error, StorageError::Io { .. }));
            self.unmergeable.store(matches!(error, StorageError::Index(_)), Ordering::Relaxed);
            // Nor do scans have it tried again: each try writes, perhaps much, before it fails.
            self.shared.asked.store(false, Ordering::Relaxed);
            self.shared.runs.take_paid();
            self.note_left(first);
            self.clear_up(one);
            return Err(error);
        }
        self.note_runs();
        self.publish();
        let is_merged = tree.current_version().id() != before;
        if is_merged {
            self.shared.gaps.merged();
        }
        Ok(is_merged)
    }

    /// Merges deletes away where a scan asked for it and that is worth it: one level; the next with the next call.
    fn drop_deletes(&self, one: &MutexGuard<'_, ()>) -> Result<bool, StorageError> {
        if !self.shared.asked.swap(false, Ordering::Relaxed) {
            return Ok(false);
        }
        let levels = self.levels();
        let Some(pull) = dead::pull(&levels, self.kept.load(Ordering::Relaxed)) else { return Ok(false) };
        if (self.room)() < pull.bytes + 2 * self.rotate_at {
            return Ok(false);
        }
        let merged = self.merge(one, Arc::new(PullDown(pull.from, pull.to)), None)?;
        if usize::from(pull.to) + 1 == levels.len() {
            let left = self.levels().last().map_or(0, |level| level.deletes);
            self.kept.store(left, Ordering::Relaxed);
        }
        self.shared.asked.fetch_or(merged, Ordering::Relaxed);
        Ok(merged)
    }

    /// Merges the runs of the first level with the next one once scans have paid as much for them.
    fn merge_paid(&self, one: &MutexGuard<'_, ()>) -> Result<bool, StorageError> {
        if !self.shared.runs.take_paid() {
            return Ok(false);
        }
        let levels = self.levels();
        let to = runs::below(&levels).map_or(levels.len().saturating_sub(1), |below| below.0);
        let Ok(to) = u8::try_from(to) else { return Ok(false) };
        self.merge(one, Arc::new(PullDown(0, to)), None)
    }

    fn note_runs(&self) {
        self.shared.runs.note(self.shared.tree.l0_run_count(), &self.levels());
    }

    fn levels(&self) -> Vec<dead::Level> {
        let version = self.shared.tree.current_version();
        version
            .iter_levels()
            .map(|level| {
                let tables = level.iter().flat_map(|run| run.iter());
                let deletes = tables.map(|table| table.metadata.tombstone_count).sum();
                dead::Level { deletes, bytes: level.size() }
            })
            .collect()
    }

    /// Whether all that a merge may write has room, with a flush beside it. One that ends for want of it has taken what flushes
    /// need, without which nothing comes back; left undone it costs readings time.
    fn has_room_to_merge(&self) -> bool {
        let version = self.shared.tree.current_version();
        let (first, all) = (version.l0().size(), self.shared.tree.disk_space());
        let below =
            version.iter_levels().skip(1).map(|level| level.size()).find(|size| *size > 0).unwrap_or(0);
        let deep = (TABLES_MERGED * self.rotate_at.max(1 << 20)).min(all.saturating_sub(first));
        let (needed, left) = ((first + below).max(deep) + 2 * self.rotate_at, (self.room)());
        let is_crowded = left < needed;
        if is_crowded && !self.crowded.swap(is_crowded, Ordering::Relaxed) {
            tracing::warn!(needed, left, "tables of the index are merged when the disk has room for it");
        }
        self.crowded.store(is_crowded, Ordering::Relaxed);
        !is_crowded
    }

    /// The library lets go of a version only when one that nobody reads before is behind it, so that what was flushed
    /// would stay in memory until the next flush has ended: three memtables instead of two. A version that changes nothing
    /// is put behind it, which costs four syncs; not while somebody reads what was before, for then it would let go of nothing.
    /// What was flushed is flushed though this fails: it stays in memory until a later one goes through.
    fn release(&self) {
        let oldest = self.oldest();
        if oldest < self.flushed_before.load(Ordering::Relaxed)
            || !self.retains.swap(false, Ordering::Relaxed)
        {
            return;
        }
        match self.shared.tree.register_tables(&[], None, None, &[], oldest) {
            Ok(()) => self.publish(),
            Err(error) => {
                self.retains.store(true, Ordering::Relaxed);
                tracing::warn!(%error, "what the index has flushed stays in memory until it is written to again");
            }
        }
    }
}

impl Index for Lsm {
    fn read(&self) -> Reading {
        let shared = self.shared.clone();
        let seq = shared.snapshots.begin(|| shared.visible());
        Arc::new(LsmReading { shared, seq })
    }

    /// The library holds back every version since the oldest reading, each with the memtable that was flushed then; what goes over
    /// a range holds the one version that it goes over, and no reading is left for who is at it for minutes.
    fn rows(&self, parts: &[Part]) -> Vec<Rows> {
        let shared = self.shared.clone();
        let seq = shared.snapshots.begin(|| shared.visible());
        let reading = LsmReading { shared, seq };
        let over = |part: &Part| {
            let (first, last) = part.bounds();
            let range = bounds(part.0, first, last.as_ref().map(Vec::as_slice));
            let rows = reading.shared.tree.range::<Vec<u8>, _>(range, seq, None).map(|item| {
                let (key, value) = item.into_inner().map_err(unreadable)?;
                Ok((key.get(1..).unwrap_or_default().to_vec(), value.to_vec()))
            });
            Box::new(rows) as Rows
        };
        parts.iter().map(over).collect()
    }

    fn apply(&self, writes: &Writes, mark: u64) -> Result<(), StorageError> {
        let mut gate = self.gate();
        let seq = self.seqno.next();
        let tree = &self.shared.tree;
        self.shared.hot.begin();
        for (table, key, value) in writes.iter() {
            let key = prefixed(table, key);
            if is_asked(table) {
                self.shared.hot.drop_row(&key);
            }
            gate.resident += resident(key.len(), value.as_ref().map_or(0, Bytes::len));
            match value {
                Some(value) => {
                    if is_listed(table) {
                        self.shared.gaps.put(&key);
                    }
                    tree.insert(key, value.as_ref(), seq)
                }
                None => tree.remove(key, seq),
            };
        }
        gate.mark = mark;
        self.shared.visible.store(seq + 1, Ordering::SeqCst);
        self.shared.hot.end();
        if gate.resident >= self.rotate_at && !gate.held {
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
        self.shared.tree.sealed_memtable_count() > 0
            || (self.is_due() && !self.unmergeable.load(Ordering::Relaxed))
            || self.unflushed() >= self.most
    }

    fn is_behind(&self) -> bool {
        self.unflushed() >= self.most || self.waits_for_merge()
    }

    fn unflushed(&self) -> u64 {
        let mut gate = self.gate();
        // Flushes take the oldest.
        let waiting = self.shared.tree.sealed_memtable_count();
        while gate.sealed.len() > waiting {
            gate.sealed.pop_front();
        }
        gate.resident + gate.sealed.iter().sum::<u64>()
    }

    fn tend(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, false)?;
        self.compact()
    }

    fn flush_due(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, false)
    }

    fn merge_due(&self) -> Result<(), StorageError> {
        self.compact()
    }

    fn help(&self, secure: Secure<'_>) -> Result<(), StorageError> {
        self.flush(secure, false)?;
        if !self.waits_for_merge() {
            return Ok(());
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let merged = self.compact();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        merged
    }

    fn failed_flushes(&self) -> u32 {
        self.failed.load(Ordering::Relaxed)
    }

    fn refused(&self) -> Refused {
        *self.refusals()
    }

    fn merge_again(&self) {
        if self.refusals().merges > 0 {
            self.compaction_due.store(true, Ordering::Relaxed);
        }
    }

    fn memory(&self) -> Resident {
        Resident { changes: self.unflushed(), blocks: self.cache.size(), blocks_most: self.cache.capacity() }
    }

    fn disk_bytes(&self) -> u64 {
        self.shared.tree.disk_space()
    }
}

#[cfg(test)]
#[path = "lsm_tests.rs"]
mod tests;
