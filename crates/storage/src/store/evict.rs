//! Cached copies make room: SIEVE says which ([`crate::sieve`]), their space is punched out of the log.
//!
//! When: at each put that brings the cache beyond its cap, at each step of the collector, and before a write is
//! refused for want of room. Invariants: only copies go, never what counts, what is in use or what is kept
//! ([`Store::keep_copies`]); one evictor at a time; each look is bounded; space comes back only when the index that
//! no longer knows the copy survives a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, ChunkId, ChunkKind, WallTime, limits};

use super::Store;
use super::changes::{Changes, load_row};
use super::collect::Sweep;
use super::put::Draft;
use super::report::{CacheStats, Collected};
use crate::chunks::Key;
use crate::chunks::row::{Area, KEPT, Place, Row, decode, kept_key, read_chunk_key};
use crate::disk::Disk;
use crate::error::is_of_the_medium;
use crate::payload::extent::extent_len;
use crate::payload::scan;
use crate::payload::segments::SMALLEST;
use crate::sieve::{At, Sieve};
use crate::space::Space;
use crate::{ReadError, StorageError, side_file};

/// The file of the counters, and its bound.
const FILE: &str = "uses";
const FILE_BYTES: u64 = 16 << 20;
/// Extents looked at in one go.
const LOOK: usize = 8192;
/// Copies evicted by one group.
const EVICT: usize = 256;
/// Counters are written once in this time, if any changed: a card is not worn by them.
const REMEMBER_MS: u64 = 60 * 60 * 1000;
/// The cache is looked at when this part of its cap came in.
const PART: u64 = 64;
/// A segment of which less than this part lives is given up: what lives moves to the head.
const THIN: u64 = 8;
/// Segments that may hold what had not come to the disk by itself when the power went.
const DOUBTFUL: usize = 3;
/// Segments that are tried, the coldest first, where nothing of one can go.
const COLDEST: usize = 4;
/// Rounds of eviction and collection for one write that finds no room.
const ROUNDS: usize = 16;

/// What eviction goes by.
pub(super) struct Evicting {
    sieve: Mutex<Sieve>,
    /// One evictor at a time.
    turn: Mutex<()>,
    cap: AtomicU64,
    /// Bytes that came in since the cap was last looked at.
    came: AtomicU64,
    hit_bytes: AtomicU64,
    evicted_bytes: AtomicU64,
    kept_bytes: AtomicI64,
    /// Where the log ended when it was looked at last: the hand does not meet what came since.
    met: Mutex<At>,
    /// Segments that were the last when the store was opened: of them a power cut may have taken some.
    doubtful: Mutex<Vec<u32>>,
    /// The bytes of copies, and of those that are kept, when a look found none that can go.
    barren: Mutex<Option<(u64, u64)>>,
    /// Segments of which the index says more than is there, and of which nothing could be let go.
    sought: Mutex<BTreeSet<u32>>,
    remembered: Mutex<Option<WallTime>>,
}

impl Evicting {
    /// Goes on with the counters of the last run; lost ones cost a few wrong choices.
    pub(super) fn load(disk: &dyn Disk, salt: &[u8; 16], cap: u64, space: &Space) -> Self {
        let mut sieve = match side_file::read::<Sieve>(disk, FILE, salt, FILE_BYTES) {
            Ok(remembered) => Sieve::resume(remembered, cap),
            Err(why) => {
                tracing::warn!(why, "the uses of cached copies are forgotten");
                Sieve::new(cap)
            }
        };
        let there: Vec<u32> = space.each(Area::Cache).into_iter().map(|(number, _)| number).collect();
        sieve.keep_only(|number| there.contains(&number));
        Self {
            sieve: Mutex::new(sieve),
            turn: Mutex::default(),
            cap: AtomicU64::new(cap),
            came: AtomicU64::new(0),
            hit_bytes: AtomicU64::new(0),
            evicted_bytes: AtomicU64::new(0),
            kept_bytes: AtomicI64::new(0),
            met: Mutex::default(),
            doubtful: Mutex::new(there.iter().rev().take(DOUBTFUL).copied().collect()),
            barren: Mutex::default(),
            sought: Mutex::default(),
            remembered: Mutex::default(),
        }
    }

    pub(super) fn sieve(&self) -> MutexGuard<'_, Sieve> {
        self.sieve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn barren(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.barren.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sought(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy was read.
    pub(super) fn read(&self, at: At, bytes: u64) {
        if self.sieve().touch(at) {
            self.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// More, or less, is kept.
    pub(super) fn kept(&self, bytes: i64) {
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a copy that is kept.
fn kept_size(view: &dyn View, key: Key) -> Result<Option<u64>, StorageError> {
    let found = view.get(Table::Storage, &kept_key(key))?;
    Ok(found.map(|bytes| bytes.as_ref().try_into().map_or(0, u64::from_le_bytes)))
}

/// Bytes of all copies that are kept.
pub(super) fn all_kept(view: &dyn View) -> Result<i64, StorageError> {
    let mut sum = 0_u64;
    view.scan_prefix(Table::Storage, KEPT, &mut |_, value| {
        sum += value.try_into().map_or(0, u64::from_le_bytes);
        ControlFlow::Continue(())
    })?;
    Ok(i64::try_from(sum).unwrap_or(i64::MAX))
}

/// Copies that are to go.
#[derive(Default)]
struct Victims {
    chunks: BTreeMap<Key, Place>,
    bytes: u64,
}

impl Store {
    /// Copies are evicted beyond so many bytes from now on.
    pub fn set_cache_cap(&self, bytes: u64) {
        self.evicting.cap.store(bytes, Ordering::Relaxed);
    }

    /// Whether a body of so many bytes is likely to find room: in the segments that there are, and in what is free beside them,
    /// with copies given up for it.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        if !self.space.is_short() && bytes < self.settings.payload_segment_bytes {
            return true;
        }
        let wanted = self.lacks_in_journal().saturating_add(self.lacks_in_payload(bytes));
        wanted == 0 || self.space.free() + self.evictable() >= wanted
    }

    /// Bytes that the journal needs beyond the segments that there are, for the next write.
    fn lacks_in_journal(&self) -> u64 {
        let next = 2 * limits::JOURNAL_BODY_BYTES as u64;
        if self.space.journal_room() >= next { 0 } else { self.settings.journal_segment_bytes }
    }

    /// Bytes that a body needs beyond the active segment of payload.
    fn lacks_in_payload(&self, bytes: u64) -> u64 {
        if bytes <= limits::JOURNAL_BODY_BYTES as u64 {
            return 0;
        }
        // Headers and checksums, and the end of a segment that the next chunk does not fit in.
        // What is announced may be any number.
        let taken = bytes.saturating_add(bytes / 64).saturating_add(limits::CHUNK_BYTES as u64);
        match taken.saturating_sub(self.payload.room()) {
            0 => 0,
            lacks => lacks.max(SMALLEST.min(self.settings.payload_segment_bytes)),
        }
    }

    /// Whether whoever asked for room last was refused.
    pub fn is_full(&self) -> bool {
        self.space.is_full()
    }

    /// Whether so much has come free since, with copies that could be given up, that the disk is not full again at once: a
    /// payload segment and two of the journal, or an eighth of a small capacity. Then the refusal is forgotten.
    pub fn has_room_again(&self) -> bool {
        let has_room = self.space.free() + self.evictable() >= self.space.spare();
        if has_room {
            self.space.note_full(false);
        }
        has_room
    }

    /// Bytes of copies that are not kept.
    fn evictable(&self) -> u64 {
        self.space.cached().saturating_sub(self.kept_bytes())
    }

    /// Keeps copies that are here from eviction, or lets them go with the others again. Not remembered when the index is
    /// rebuilt: who keeps says so anew when the store is opened.
    pub fn keep_copies(&self, domain: BucketId, ids: &[ChunkId], kept: bool) -> Result<(), StorageError> {
        let ids: BTreeSet<ChunkId> = ids.iter().copied().collect();
        // What was put a moment ago is in the index then.
        self.own_group(|_, _, _| Ok(Some(())))?;
        let bytes = self.own_group(|_, changes, view| {
            let mut bytes = 0;
            for id in ids {
                let key = (domain, id);
                let row = changes.row(key)?;
                match kept_size(view, key)? {
                    None if kept && row.place.is_some_and(|place| place.area == Area::Cache) => {
                        changes.note(&kept_key(key), Some(row.taken().to_le_bytes().to_vec()));
                        bytes += row.taken() as i64;
                    }
                    Some(size) if !kept => {
                        changes.note(&kept_key(key), None);
                        bytes -= size as i64;
                    }
                    _ => {}
                }
            }
            Ok((bytes != 0).then_some(bytes))
        })?;
        self.evicting.kept(bytes.unwrap_or(0));
        Ok(())
    }

    /// Whether a copy is here and kept from eviction.
    pub fn keeps(&self, domain: BucketId, id: ChunkId) -> bool {
        matches!(kept_size(&self.view(), (domain, id)), Ok(Some(_)))
            && matches!(self.has_chunk(domain, id), Ok(true))
    }

    /// Bytes of copies that are kept.
    pub fn kept_bytes(&self) -> u64 {
        u64::try_from(self.evicting.kept_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// A copy is let go of though it was kept: its object is gone, or may not lie here. Answers by how many bytes less is
    /// kept once that is so.
    pub(super) fn unkeep(
        &self,
        changes: &mut Changes<'_>,
        view: &dyn View,
        key: Key,
    ) -> Result<i64, StorageError> {
        let size = if self.kept_bytes() > 0 { kept_size(view, key)? } else { None };
        if size.is_some() {
            changes.note(&kept_key(key), None);
        }
        Ok(size.unwrap_or(0) as i64)
    }

    /// Lets go of these chunks where they are copies that nobody uses or keeps. What a tree among them lists is counted by it no
    /// more, and rests ([`Store::let_rest`]) if nothing else refers to it.
    pub fn let_go_of_copies(&self, domain: BucketId, ids: &[ChunkId]) -> Result<(), StorageError> {
        let _turn = self.evicting.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // What was put a moment ago is in the index then.
        self.own_group(|_, _, _| Ok(Some(())))?;
        for some in ids.chunks(EVICT) {
            let mut victims = Victims::default();
            for &id in some {
                let key = (domain, id);
                let place = load_row(&self.view(), key)?.place.filter(|place| place.area == Area::Cache);
                victims.chunks.extend(place.map(|place| (key, place)));
            }
            self.let_go_of(&victims, false)?;
        }
        Ok(())
    }

    /// Evicts copies of a domain; true if there may be more.
    pub fn drop_copies(&self, domain: BucketId) -> Result<bool, StorageError> {
        let _turn = self.evicting.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut victims = Victims::default();
        self.view().scan_prefix(Table::Chunks, &domain.0, &mut |key, value| {
            if let (Some(key), Ok(row)) = (read_chunk_key(key), decode::<Row>(value))
                && let Some(place) = row.place.filter(|place| place.area == Area::Cache)
            {
                victims.chunks.insert(key, place);
            }
            if victims.chunks.len() < EVICT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let (count, _) = self.let_go_of(&victims, true)?;
        Ok(count > 0 && victims.chunks.len() == EVICT)
    }

    /// What the cache holds and was good for.
    pub fn usage_of_cache(&self) -> CacheStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            pinned: self.kept_bytes(),
            cap: read(&self.evicting.cap),
            bytes: self.space.cached(),
            hit_bytes: read(&self.evicting.hit_bytes),
            evicted_bytes: read(&self.evicting.evicted_bytes),
        }
    }

    /// So many bytes came into the cache: evicts what is beyond the cap, unless somebody is at it.
    pub(super) fn trim(&self, bytes: u64) -> Result<(), StorageError> {
        let cap = self.evicting.cap.load(Ordering::Relaxed);
        let came = self.evicting.came.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if came < cap / PART {
            return Ok(());
        }
        let Ok(_turn) = self.evicting.turn.try_lock() else { return Ok(()) };
        self.evicting.came.store(0, Ordering::Relaxed);
        // What came is counted once the index has it.
        self.own_group(|_, _, _| Ok(Some(())))?;
        let beyond = self.space.cached().saturating_sub(cap);
        if beyond > 0 { self.evict_bytes(beyond).map(drop) } else { Ok(()) }
    }

    /// A step of the collector: what is beyond the cap goes, and what the disk lacks.
    pub(super) fn evict(&self, done: &mut Collected) -> Result<(), StorageError> {
        let _turn = self.evicting.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // What was in use, or kept, may not be so any more.
        *self.evicting.barren() = None;
        let cached = self.space.cached();
        let beyond = cached.saturating_sub(self.evicting.cap.load(Ordering::Relaxed));
        let lacks = if done.pressed { self.space.lacks().min(cached) } else { 0 };
        let wanted = beyond.max(lacks);
        if wanted > 0 {
            let (count, bytes) = self.evict_bytes(wanted)?;
            done.evicted += count;
            done.more |= bytes > 0 && bytes < beyond;
        }
        Ok(())
    }

    /// Copies go, and where holes cannot be punched what lives moves, before a write is refused: true if room came back.
    pub(super) fn relieve(&self) -> Result<bool, StorageError> {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        *self.evicting.barren() = None;
        self.relieve_with(&mut sweep, self.space.has_no_holes(), true)
    }

    /// The same on the commit thread, which does not wait for the collector: that is at it already.
    pub(super) fn relieve_if_idle(&self) {
        if self.space.lacks() == 0 {
            return;
        }
        let Ok(mut sweep) = self.sweep.try_lock() else { return };
        if let Err(error) = self.relieve_with(&mut sweep, false, false) {
            tracing::warn!(%error, "copies could not make room");
        }
    }

    /// `moves`: what lives may; `waited_for`: a write is refused unless room comes back.
    fn relieve_with(&self, sweep: &mut Sweep, moves: bool, waited_for: bool) -> Result<bool, StorageError> {
        let _turn = self.evicting.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.space.free();
        for _ in 0..ROUNDS {
            let lacks = self.space.lacks();
            let wanted = lacks.min(self.space.cached());
            if lacks == 0 || (wanted == 0 && !moves) {
                break;
            }
            let evicted = if wanted > 0 { self.evict_bytes(wanted)?.1 } else { 0 };
            let mut done = Collected { pressed: true, ..Collected::default() };
            if evicted == 0 && moves {
                self.compact(sweep, &mut done)?;
            }
            let goes = evicted + done.moved > 0;
            if !goes && !waited_for {
                break;
            }
            self.condemn(sweep)?;
            // A flush of the index only where that gives something back: kept copies do not go, however many writes come.
            if goes || self.waiting(sweep)?.is_any() {
                self.checkpoint()?;
            }
            self.give_back(sweep, &mut done)?;
            if evicted == 0 && done.bytes + done.segments + done.moved == 0 {
                break;
            }
        }
        Ok(self.space.free() > before)
    }

    /// Evicts about so many bytes, at most [`EVICT`] copies; answers how many of both went.
    fn evict_bytes(&self, wanted: u64) -> Result<(u64, u64), StorageError> {
        let now = (self.space.cached(), self.kept_bytes());
        if *self.evicting.barren() == Some(now) {
            return Ok((0, 0));
        }
        let gone = self.evict_next(wanted)?;
        if gone.1 == 0 {
            *self.evicting.barren() = Some(now);
        }
        Ok(gone)
    }

    fn evict_next(&self, wanted: u64) -> Result<(u64, u64), StorageError> {
        let victims = if self.space.has_no_holes() {
            self.coldest_segment()?
        } else {
            let mut met = self.evicting.met.lock().unwrap_or_else(PoisonError::into_inner);
            let victims = self.next_victims(wanted, *met)?;
            let tail = self.cache.tail();
            let none = victims.chunks.is_empty() && *met < tail;
            *met = tail;
            // Nothing older can go: what came since is as good.
            if none { self.next_victims(wanted, tail)? } else { victims }
        };
        self.let_go_of(&victims, false)
    }

    /// Those of them that nobody uses go; how many and how much. What came to be kept since they were chosen stays, unless
    /// it may not lie here.
    fn let_go_of(&self, victims: &Victims, kept_too: bool) -> Result<(u64, u64), StorageError> {
        let keys: Vec<Key> = victims.chunks.keys().copied().collect();
        let begun = self.begin_all(&keys);
        let evicted = self.own_group(|_, changes, view| {
            let (mut count, mut bytes, mut kept) = (0, 0, 0);
            for key in &begun {
                let row = changes.row(*key)?;
                let stays = !kept_too && kept_size(view, *key)?.is_some();
                if !stays && row.place == victims.chunks.get(key).copied() {
                    changes.unplace(*key, || self.children_or_none(*key), true)?;
                    kept += self.unkeep(changes, view, *key)?;
                    (count, bytes) = (count + 1, bytes + row.taken());
                }
            }
            Ok((count > 0).then_some((count, bytes, kept)))
        });
        for key in begun {
            self.live.end(key);
        }
        let (count, bytes, kept) = evicted?.unwrap_or_default();
        self.evicting.kept(-kept);
        self.evicting.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok((count, bytes))
    }

    /// Those that the hand meets before `end` and does not spare.
    fn next_victims(&self, wanted: u64, end: At) -> Result<Victims, StorageError> {
        let mut victims = Victims::default();
        let mut hand = self.evicting.sieve().hand();
        let mut rounds = 0;
        for _ in 0..LOOK {
            if victims.bytes >= wanted || victims.chunks.len() == EVICT {
                break;
            }
            let found = self.extent_from(hand)?.filter(|(_, _, place)| (place.segment, place.offset) < end);
            let Some((key, row, place)) = found else {
                // Around: a count of three falls to nothing in as many rounds.
                rounds += 1;
                hand = (0, 0);
                if rounds > 4 {
                    break;
                }
                continue;
            };
            hand = (place.segment, place.offset + extent_len(row.stored));
            let goes = row.place == Some(place)
                && !victims.chunks.contains_key(&key)
                && self.may_go(key)
                && self.evicting.sieve().pass((place.segment, place.offset));
            if goes {
                victims.bytes += row.taken();
                victims.chunks.insert(key, place);
            }
        }
        self.evicting.sieve().set_hand(hand);
        Ok(victims)
    }

    /// Whether nobody uses a copy, or keeps it.
    fn may_go(&self, key: Key) -> bool {
        let kept = || self.kept_bytes() > 0 && !matches!(kept_size(&self.view(), key), Ok(None));
        !self.live.lock().is_used(key) && !kept()
    }

    /// The first extent of the log from a place on, and what the index knows of its chunk. What is not known (yet) has
    /// a row without that place.
    fn extent_from(&self, (segment, offset): At) -> Result<Option<(Key, Row, Place)>, StorageError> {
        let (active, tail) = self.cache.tail();
        for (number, used) in self.space.each(Area::Cache) {
            if number < segment || used.live == 0 {
                continue;
            }
            let from = if number == segment { offset } else { 0 };
            // What is preallocated behind the tail holds nothing.
            let within = from..if number == active { tail } else { u64::MAX };
            let file = match self.files.get(Area::Cache, number) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) if is_of_the_medium(&error) => {
                    tracing::warn!(segment = number, %error, "a segment of copies cannot be opened; it is passed over");
                    continue;
                }
                Err(error) => return Err(StorageError::io("open a cache segment", &error)),
            };
            if let Some((at, extent)) = scan::next(&file, &self.salt, number, within)? {
                let key = (extent.domain, extent.id);
                let mut row = load_row(&self.view(), key)?;
                // The length on disk: the hand steps over what lies there.
                row.stored = extent.stored;
                return Ok(Some((
                    key,
                    row,
                    Place { area: Area::Cache, segment: number, offset: at, crc: 0 },
                )));
            }
        }
        Ok(None)
    }

    /// All of the segment that was used least, where only whole files give space back.
    fn coldest_segment(&self) -> Result<Victims, StorageError> {
        let active = self.cache.tail().0;
        let mut sealed = self.space.each(Area::Cache);
        sealed.retain(|(number, used)| *number < active && used.live > 0);
        sealed.sort_by_cached_key(|(number, _)| (self.evicting.sieve().heat(*number), *number));
        let mut victims = Victims::default();
        for (number, used) in sealed.into_iter().take(COLDEST) {
            let found = self.chunks_of(number)?;
            self.forget_vanished(number, used.live, &found)?;
            for (key, row, place) in found {
                if row.place == Some(place) && self.may_go(key) {
                    victims.bytes += row.taken();
                    victims.chunks.insert(key, place);
                }
            }
            if !victims.chunks.is_empty() {
                break;
            }
        }
        Ok(victims)
    }

    /// Copies are not synced: a power cut takes some of which the index, which is, goes on to speak. No reading of their
    /// segment meets them, so the index is gone through for them, once the segment holds less than is counted.
    fn forget_vanished(
        &self,
        number: u32,
        counted: u64,
        found: &[(Key, Row, Place)],
    ) -> Result<(), StorageError> {
        let known = found.iter().filter(|(_, row, place)| row.place == Some(*place));
        let known: u64 = known.map(|(_, row, _)| row.taken()).sum();
        if known >= counted || self.evicting.sought().contains(&number) {
            return Ok(());
        }
        let there: BTreeSet<u64> = found.iter().map(|(_, _, place)| place.offset).collect();
        let rows = self.rows_in(Area::Cache, number)?.into_iter();
        let gone = rows.filter(|(_, place, _)| !there.contains(&place.offset));
        let gone: Vec<(Key, Place)> = gone.map(|(key, place, _)| (key, place)).collect();
        let count = self.give_up(&gone)?;
        if count == 0 {
            self.evicting.sought().insert(number);
        } else {
            tracing::info!(segment = number, copies = count, "copies that a power cut took are forgotten");
        }
        Ok(())
    }

    /// Looks once through each of the segments that were the last when the store was opened, as soon as it is sealed.
    fn look_for_vanished(&self, active: u32) -> Result<(), StorageError> {
        let next = {
            let mut doubtful = self.evicting.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
            let sealed = doubtful.iter().position(|number| *number < active);
            sealed.map(|at| doubtful.swap_remove(at))
        };
        let Some(number) = next else { return Ok(()) };
        let live = self.space.of(Area::Cache, number).live;
        self.forget_vanished(number, live, &self.chunks_of(number)?)
    }

    /// Lets go of copies that cannot be read, kept or not; how many.
    pub(super) fn give_up(&self, copies: &[(Key, Place)]) -> Result<u64, StorageError> {
        let mut count = 0;
        for some in copies.chunks(EVICT) {
            let victims = Victims { chunks: some.iter().copied().collect(), bytes: 0 };
            count += self.let_go_of(&victims, true)?.0;
        }
        Ok(count)
    }

    /// What lies in a cache segment.
    fn chunks_of(&self, number: u32) -> Result<Vec<(Key, Row, Place)>, StorageError> {
        let mut chunks = Vec::new();
        let mut from = (number, 0);
        while let Some((key, row, place)) = self.extent_from(from)?.filter(|found| found.2.segment == number)
        {
            from = (number, place.offset + extent_len(row.stored));
            chunks.push((key, row, place));
        }
        Ok(chunks)
    }

    /// Of at most one sealed segment in which little lives, that little moves to the head of the log: else the counters
    /// and the files of a cache that was turned over many times would be many more than its cap says.
    pub(super) fn give_up_thin(&self, sweep: &Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let active = self.cache.tail().0;
        self.look_for_vanished(active)?;
        let thin = self.space.each(Area::Cache).into_iter().find(|(number, used)| {
            let is_sealed = *number < active && !sweep.condemned.contains(&(Area::Cache, *number));
            // The file itself may be what a power cut took.
            let is_thin = used.live * THIN < used.len || used.len == 0;
            is_sealed && used.live > 0 && is_thin && !self.evicting.sought().contains(number)
        });
        let Some((number, used)) = thin.filter(|_| !done.pressed) else { return Ok(()) };
        let found = self.chunks_of(number)?;
        self.forget_vanished(number, used.live, &found)?;
        for (key, row, place) in found {
            if row.place == Some(place) {
                self.rewrite(key, place, row)?;
            }
        }
        Ok(())
    }

    /// Writes a copy again at the head of the log; one that cannot be read goes.
    pub(super) fn rewrite(&self, key: Key, place: Place, row: Row) -> Result<(), StorageError> {
        if self.begin_all(&[key]).is_empty() {
            return Ok(());
        }
        // Since it was looked at it may have become one that counts: that stays where it is.
        let now = load_row(&self.view(), key);
        if !matches!(&now, Ok(now) if now.place == Some(place)) {
            self.live.end(key);
            return now.map(drop);
        }
        let mut reads = true;
        let mut again = || -> Result<(), StorageError> {
            let bytes = match self.read_quietly(key.0, key.1, 0..u32::MAX) {
                Ok(bytes) => bytes,
                // Not for what the machine lacks just now.
                Err(ReadError::Store(error)) => return Err(error),
                Err(_) => {
                    reads = false;
                    return Ok(());
                }
            };
            let kind = if row.tree { ChunkKind::Tree } else { ChunkKind::Leaf };
            let children = super::put::children_of(kind, &bytes)?;
            let draft = Draft { area: Area::Cache, kind, bytes: &bytes, children, moves: false };
            self.write_extent(key, draft)
        };
        let written = again();
        if let Some(fresh) = self.live.lock().fresh.get(&key) {
            let to = (fresh.place.segment, fresh.place.offset);
            self.evicting.sieve().moved((place.segment, place.offset), to);
        }
        self.live.end(key);
        if !reads {
            // Else its segment would be looked through at each step, and no other would be given up.
            let chunks = [(key, place)].into();
            return self.let_go_of(&Victims { chunks, bytes: row.taken() }, true).map(drop);
        }
        match written {
            Err(StorageError::Full) => Ok(()),
            other => other,
        }
    }

    /// Writes the counters down, once in a while.
    pub(super) fn remember_uses(&self, now: WallTime) -> Result<(), StorageError> {
        let mut last = self.evicting.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let since = last.get_or_insert(now).0;
        if now.0.abs_diff(since) < REMEMBER_MS || !self.evicting.sieve().take_changed() {
            return Ok(());
        }
        *last = Some(now);
        let sieve = self.evicting.sieve().clone();
        side_file::write(&*self.disk, FILE, &self.salt, &sieve)
    }
}
