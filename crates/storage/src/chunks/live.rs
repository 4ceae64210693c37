//! Chunks in use at this moment: pinned, being written or collected, written but not yet in the index.
//!
//! One lock for all of it: who re-uses a chunk pins it under the same lock under which the collector looks for
//! pins, so that the two never race.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use skerry_base::{BucketId, ChunkId};

use crate::disk::File;

use super::Key;
use super::row::{Area, Place};

/// What waits for a sync: where it was written, and the files to be synced.
pub(crate) type Unsynced = (Vec<(Key, Place)>, Vec<Arc<dyn File>>);

/// A chunk that was written and is not in the index yet.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) place: Place,
    pub(crate) tree: bool,
    pub(crate) stored: u32,
    /// Of a tree.
    pub(crate) children: Arc<[ChunkId]>,
    /// Whether it may enter the index.
    pub(crate) ready: bool,
    /// Whether it was written because what lay elsewhere was found damaged: it need not be written once more.
    pub(crate) mends: bool,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct Inner {
    pins: BTreeMap<Key, u32>,
    pub(crate) fresh: BTreeMap<Key, Fresh>,
    /// Being written, or being collected: wait.
    busy: BTreeSet<Key>,
    /// Fresh payload that no sync has covered yet, where it lies, and its files.
    unsynced: Vec<(Key, Place)>,
    /// Whether some may have entered the index although no sync covered it.
    pub(crate) trusted: bool,
    /// The same of what the sync under way covers: it is not on the disk before that comes back.
    covering: bool,
    /// A sync has taken what waits and has not come back.
    syncing: bool,
    unsynced_files: BTreeMap<u32, Arc<dyn File>>,
    /// The last place of payload that was written, that which the sync under way covers, and the last that is on the disk.
    written: (u32, u64),
    covered: (u32, u64),
    synced: (u32, u64),
    /// Bytes written since the last sync.
    pub(crate) dirty: u64,
    /// Fresh chunks that may enter the index.
    ready: Vec<Key>,
    /// Places taken that the index does not know yet: recovery must look from the first of them.
    unindexed: BTreeSet<(Area, u32, u64)>,
    /// Chunks whose bytes were found damaged: absent for who asks, written anew by who puts.
    pub(crate) damaged: BTreeSet<Key>,
    /// Of them those whose checksums are right though their bytes are not those of their name: only reading all of them
    /// told, so they are remembered until they were written anew.
    pub(crate) misnamed: BTreeSet<Key>,
    /// How often what is kept of each domain was found damaged, since the start and with it.
    pub(crate) hurt: BTreeMap<BucketId, u64>,
    /// What reads found damaged, and why, until the scrub takes it on its list.
    pub(crate) come_across: BTreeMap<Key, String>,
}

/// More is not remembered of what reads find: a disk that loses so much at once is told of by what is.
const COME_ACROSS: usize = 1024;

impl Inner {
    /// What is kept was found damaged; whether that is new.
    pub(crate) fn hurts(&mut self, key: Key) -> bool {
        let is_new = self.damaged.insert(key);
        if is_new {
            *self.hurt.entry(key.0).or_default() += 1;
        }
        is_new
    }

    /// The same by who looked for something else: a client's read may mend it before anybody has seen that it was so.
    pub(crate) fn comes_across(&mut self, key: Key, why: &str) {
        if self.hurts(key) && self.come_across.len() < COME_ACROSS {
            self.come_across.insert(key, why.to_owned());
        }
    }
}

/// The live chunks of a store.
#[derive(Default)]
pub(crate) struct Live {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Live {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if that is possible at once.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until nobody writes or collects this chunk.
    pub(crate) fn idle(&self, key: Key) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        while inner.busy.contains(&key) {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner
    }

    /// Lets go of one pin.
    pub(crate) fn unpin(&self, key: Key) {
        self.lock().unpin(key);
    }

    /// Ends, when it is dropped, what was begun with [`Inner::begin`].
    pub(crate) const fn busy(&self, key: Key) -> Busy<'_> {
        Busy { live: self, key }
    }

    /// Ends what was begun with [`Inner::begin`].
    pub(crate) fn end(&self, key: Key) {
        self.lock().busy.remove(&key);
        self.changed.notify_all();
    }
}

/// A chunk that is being written. Dropped, it is idle, however the writing ended: who waits for it would wait for ever.
pub(crate) struct Busy<'a> {
    live: &'a Live,
    key: Key,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.live.end(self.key);
    }
}

impl Inner {
    pub(crate) fn pin(&mut self, key: Key) {
        *self.pins.entry(key).or_insert(0) += 1;
    }

    fn unpin(&mut self, key: Key) {
        if let Some(count) = self.pins.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&key);
            }
        }
    }

    /// Whether no payload waits for a sync, or for the end of one.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsynced.is_empty() && !self.syncing
    }

    /// Whether some may have entered the index although no sync has come back for it.
    pub(crate) const fn is_trusted(&self) -> bool {
        self.trusted || self.covering
    }

    /// Whether this chunk was written and no sync has come back for it, be it that one is under way.
    pub(crate) fn is_unsynced(&self, key: Key) -> bool {
        self.fresh.get(&key).is_some_and(|fresh| !fresh.ready)
    }

    /// Whether this is payload that waits for the index as a leaf.
    pub(crate) fn is_fresh_leaf(&self, key: Key) -> bool {
        let is_leaf = |fresh: &Fresh| !fresh.tree && fresh.place.area == Area::Payload;
        self.fresh.get(&key).is_some_and(is_leaf)
    }

    /// Whether this is a tree that waits for the index, be it synced.
    pub(crate) fn is_fresh_tree(&self, key: Key) -> bool {
        self.fresh.get(&key).is_some_and(|fresh| fresh.tree)
    }

    /// Whether a chunk that was written again because it was damaged is not synced yet: what lists it may refer to it
    /// through a tree that is as it was.
    pub(crate) fn mends_unsynced(&self) -> bool {
        // Of the two it is what was written that has a bound, and this is asked for each group.
        let mends = |(key, fresh): (&Key, &Fresh)| !fresh.ready && self.damaged.contains(key);
        !self.damaged.is_empty() && self.fresh.iter().any(mends)
    }

    /// Whether somebody needs it to stay: the collector asks.
    pub(crate) fn is_used(&self, key: Key) -> bool {
        self.pins.contains_key(&key) || self.busy.contains(&key) || self.fresh.contains_key(&key)
    }

    /// Whether it may be written again elsewhere: nobody is at it, and the index knows its place.
    pub(crate) fn may_move(&self, key: Key) -> bool {
        !self.busy.contains(&key) && !self.fresh.contains_key(&key)
    }

    /// Marks it as being written or collected.
    pub(crate) fn begin(&mut self, key: Key) {
        self.busy.insert(key);
    }

    /// A place was taken.
    pub(crate) fn taken(&mut self, place: (Area, u32, u64)) {
        self.unindexed.insert(place);
    }

    /// A place is known to the index, or given up.
    pub(crate) fn indexed(&mut self, place: (Area, u32, u64)) {
        self.unindexed.remove(&place);
    }

    /// The first place of a class that the index does not know.
    pub(crate) fn first_unindexed(&self, area: Area) -> Option<(u32, u64)> {
        let first = self.unindexed.range((area, 0, 0)..).next()?;
        (first.0 == area).then_some((first.1, first.2))
    }

    /// A chunk was written to `file`.
    pub(crate) fn written(&mut self, key: Key, mut fresh: Fresh, file: &Arc<dyn File>, len: u64) {
        if fresh.place.area == Area::Payload {
            self.written = self.written.max((fresh.place.segment, fresh.place.offset));
            self.unsynced.push((key, fresh.place));
            self.unsynced_files.insert(fresh.place.segment, file.clone());
            self.dirty += len;
        } else {
            fresh.ready = true;
            self.ready.push(key);
        }
        // The index does not count what a tree lists before it knows the tree; who put them may have let go of them by then.
        for &child in fresh.children.iter() {
            self.pin((key.0, child));
        }
        if let Some(old) = self.fresh.insert(key, fresh) {
            // Put to the cache and, before that was indexed, to payload: the cached copy is given up.
            self.indexed((old.place.area, old.place.segment, old.place.offset));
            self.let_go_of_children(key, &old);
        }
    }

    fn let_go_of_children(&mut self, key: Key, tree: &Fresh) {
        for &child in tree.children.iter() {
            self.unpin((key.0, child));
        }
    }

    /// The last place of payload that was written since the start, and the last that is on the disk; blank ones: none was.
    pub(crate) const fn last_places(&self) -> ((u32, u64), (u32, u64)) {
        (self.written, self.synced)
    }

    /// Takes what waits for a sync, which ends with [`Inner::sync_ended`]: until then none of it is durable.
    pub(crate) fn take_unsynced(&mut self) -> Unsynced {
        (self.covering, self.syncing) = (self.is_trusted(), true);
        (self.dirty, self.trusted) = (0, false);
        self.covered = self.written;
        let files = core::mem::take(&mut self.unsynced_files).into_values().collect();
        (core::mem::take(&mut self.unsynced), files)
    }

    /// What was written may enter the index though no sync has covered it.
    pub(crate) fn trust_unsynced(&mut self) {
        let written = core::mem::take(&mut self.unsynced);
        self.trusted |= !written.is_empty();
        self.may_enter(written);
    }

    /// The sync came back.
    pub(crate) fn sync_ended(&mut self, written: Vec<(Key, Place)>) {
        (self.covering, self.syncing) = (false, false);
        self.synced = self.covered;
        self.may_enter(written);
    }

    /// What was written again elsewhere meanwhile waits for a sync of its own.
    fn may_enter(&mut self, written: Vec<(Key, Place)>) {
        for (key, place) in written {
            if let Some(fresh) = self.fresh.get_mut(&key).filter(|fresh| fresh.place == place) {
                fresh.ready = true;
                self.ready.push(key);
            }
        }
    }

    /// Takes the fresh chunks that may enter the index; they stay visible until [`Inner::entered`].
    pub(crate) fn take_ready(&mut self) -> Vec<(Key, Fresh)> {
        let keys = core::mem::take(&mut self.ready);
        keys.into_iter()
            .filter_map(|key| {
                self.fresh.get(&key).filter(|fresh| fresh.ready).map(|fresh| (key, fresh.clone()))
            })
            .collect()
    }

    /// What was taken may enter the index, and does so with a later group.
    pub(crate) fn enters_later(&mut self, key: Key) {
        self.ready.push(key);
    }

    /// The index has it.
    pub(crate) fn entered(&mut self, key: Key, place: Place) {
        self.indexed((place.area, place.segment, place.offset));
        if self.fresh.get(&key).is_some_and(|fresh| fresh.place == place)
            && let Some(entered) = self.fresh.remove(&key)
        {
            self.let_go_of_children(key, &entered);
        }
    }

    /// Whether anything written awaits the index.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }
}
