//! Chunks come in: hashed, looked up, written once, pinned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use skerry_base::chunk::Tree;
use skerry_base::{BucketId, ChunkId, ChunkKind};

use super::changes::load_row;
use super::{Class, Pin, Stands, Store};
use crate::StorageError;
use crate::buffers::Buffer;
use crate::chunks::Key;
use crate::chunks::live::Fresh;
use crate::chunks::row::{Area, Place};
use crate::payload::extent::{Extent, LARGEST, block_sums, extent_len};

/// An extent to be written.
pub(super) struct Draft<'a> {
    pub(super) area: Area,
    pub(super) kind: ChunkKind,
    pub(super) bytes: &'a [u8],
    /// Of a tree.
    pub(super) children: Arc<[ChunkId]>,
    /// Whether it lies elsewhere already, so that its place there is won.
    pub(super) moves: bool,
}

/// From this size on a chunk begins to go to the disk as soon as it is written: the commit that waits for its sync comes after
/// the rest of its upload.
const WRITTEN_AHEAD: usize = 256 << 10;

impl Store {
    /// Room to gather a chunk in, of so many bytes as far as is known; it is used again when the last of its bytes is dropped.
    pub fn gather(&self, bytes: usize) -> Buffer {
        self.buffers.gather(bytes)
    }

    /// Writes a chunk (unsynced) unless it is here already; it stays pinned against the collector while the
    /// pin lives, and is made durable by the commit of a record that refers to it, or by [`Store::settle`].
    /// The children of a tree are put before it.
    pub fn put_chunk(
        &self,
        domain: BucketId,
        class: Class,
        kind: ChunkKind,
        bytes: &[u8],
    ) -> Result<Pin, StorageError> {
        self.check_poison()?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let limit = LARGEST as usize;
        if bytes.len() > limit {
            return Err(StorageError::TooLarge { found: bytes.len() as u64, limit: limit as u64 });
        }
        let children = children_of(kind, bytes)?;
        let key = (domain, ChunkId::of(bytes));
        let Some(pin) = self.begin_put(key, class, kind)? else {
            return Ok(self.pinned(key));
        };
        let busy = self.live.busy(key);
        let mut written = self.write_unless_here(key, class, kind, bytes, &children);
        if matches!(written, Err(StorageError::Full)) && class == Class::Payload && self.makes_room()? {
            written = self.write_unless_here(key, class, kind, bytes, &children);
        }
        drop(busy);
        written?;
        if class == Class::Cache {
            self.trim(bytes.len() as u64)?;
        }
        Ok(pin)
    }

    /// Whether there is room again. Where copies cannot be given up the disk is full, whatever the reason.
    fn makes_room(&self) -> Result<bool, StorageError> {
        match self.relieve() {
            Err(error) if !matches!(error, StorageError::Poisoned(_)) => {
                tracing::warn!(%error, "copies could not make room");
                Ok(false)
            }
            outcome => outcome,
        }
    }

    fn pinned(&self, key: Key) -> Pin {
        Pin { live: self.live.clone(), key }
    }

    /// Pins the chunk and marks it as being written; none (but pinned) if it was written a moment ago.
    fn begin_put(&self, key: Key, class: Class, kind: ChunkKind) -> Result<Option<Pin>, StorageError> {
        let mut inner = self.live.idle(key);
        while kind == ChunkKind::Tree && inner.is_fresh_leaf(key) {
            drop(inner);
            // Somebody's commit may rest on that extent: it is not given up for another before the index knows it.
            self.sync_payload()?;
            self.own_group(|_, _, _| Ok(Some(())))?;
            inner = self.live.idle(key);
        }
        inner.pin(key);
        let is_good = |fresh: &Fresh| fresh.place.area != Area::Cache || class == Class::Cache;
        let is_one = |fresh: &Fresh| fresh.tree || kind == ChunkKind::Leaf;
        let is_whole = |fresh: &Fresh| fresh.mends || !inner.damaged.contains(&key);
        let fresh = inner.fresh.get(&key);
        if fresh.is_some_and(|fresh| is_good(fresh) && is_one(fresh) && is_whole(fresh)) {
            return Ok(None);
        }
        inner.begin(key);
        Ok(Some(self.pinned(key)))
    }

    fn write_unless_here(
        &self,
        key: Key,
        class: Class,
        kind: ChunkKind,
        bytes: &[u8],
        children: &Arc<[ChunkId]>,
    ) -> Result<(), StorageError> {
        // Before the index is asked: what enters it is taken off here afterwards.
        let (damaged, fresh_tree) = {
            let inner = self.live.lock();
            (inner.damaged.contains(&key), inner.is_fresh_tree(key))
        };
        let row = load_row(&self.view(), key)?;
        let old = row.place.map(|place| place.area);
        let area = match (class, old) {
            (Class::Cache, None | Some(Area::Cache)) => Area::Cache,
            // What counted goes on to count when it is mended.
            _ => Area::Payload,
        };
        // The same bytes may be a leaf of something else: as such nothing counts what they list. Nor does the journal say
        // of a body that it is a tree.
        let is_one = kind == ChunkKind::Leaf || (row.tree && old != Some(Area::Journal));
        let here = old.is_some_and(|old| old != Area::Cache || class == Class::Cache);
        if here && is_one && !damaged {
            return Ok(());
        }
        // What was a tree stays one, whoever writes it again: its extent says so to a rebuild.
        let stays_tree = kind == ChunkKind::Leaf && (fresh_tree || (row.tree && row.place.is_some()));
        let (kind, children) = match stays_tree {
            true => (ChunkKind::Tree, children_of(ChunkKind::Tree, bytes)?),
            false => (kind, children.clone()),
        };
        if area == Area::Cache && self.space.is_short() {
            // Copies do not take what writes will need in a moment.
            return Err(StorageError::Full);
        }
        self.write_extent(key, Draft { area, kind, bytes, children, moves: false })?;
        let dirty = self.live.lock().dirty;
        if dirty > self.settings.dirty_bytes { self.sync_payload() } else { Ok(()) }
    }

    pub(super) fn write_extent(&self, key: Key, draft: Draft<'_>) -> Result<(), StorageError> {
        let Draft { area, kind, bytes, children, moves } = draft;
        let stored = bytes.len() as u32;
        let len = extent_len(stored);
        let segments = if area == Area::Cache { &self.cache } else { &self.payload };
        let slot = {
            // Under the lock that says what the index does not know, so that recovery looks far enough back.
            let mut inner = self.live.lock();
            let slot = segments.take(len, &self.space, moves)?;
            inner.taken((area, slot.number, slot.offset));
            slot
        };
        let extent = Extent { domain: key.0, id: key.1, kind, area, stored, blocks: block_sums(bytes) };
        let header = extent.encode(&self.salt, slot.number, slot.offset);
        let ready = if slot.rolled && area == Area::Payload { self.sync_payload() } else { Ok(()) };
        let written = ready.and_then(|()| {
            let write = slot.file.write_at(slot.offset, &[&header, bytes]);
            write.map_err(|error| StorageError::io("write a chunk", &error))
        });
        if area == Area::Payload && bytes.len() >= WRITTEN_AHEAD {
            slot.file.begin_writing(slot.offset, len);
        }
        let mut inner = self.live.lock();
        if let Err(error) = written {
            inner.indexed((area, slot.number, slot.offset));
            return Err(error);
        }
        let place = Place { area, segment: slot.number, offset: slot.offset, crc: 0 };
        let mends = inner.damaged.contains(&key);
        let fresh = Fresh { place, tree: kind == ChunkKind::Tree, stored, children, ready: false, mends };
        inner.written(key, fresh, &slot.file, len);
        Ok(())
    }

    /// Whether the chunk is here, in any class, and not known to be damaged. An error: nobody can say just now, which others
    /// are not to take for a no.
    pub fn has_chunk(&self, domain: BucketId, id: ChunkId) -> Result<bool, StorageError> {
        let key = (domain, id);
        {
            let inner = self.live.lock();
            if inner.damaged.contains(&key) {
                return Ok(false);
            }
            if inner.fresh.contains_key(&key) {
                return Ok(true);
            }
        }
        Ok(load_row(&self.view(), key)?.place.is_some())
    }

    /// Whether the chunk is here as a copy that counts: durable, in the journal or as payload, never evicted while
    /// something refers to it, and not known to be damaged. A cached one does not count.
    pub fn counts(&self, domain: BucketId, id: ChunkId) -> bool {
        matches!(self.stands(domain, id), Ok(Stands::Counts))
    }

    /// The same for who would let go of this site's disk: what was kept here and does not read is told from what is not here.
    /// An error: nobody can say just now.
    pub fn stands(&self, domain: BucketId, id: ChunkId) -> Result<Stands, StorageError> {
        let key = (domain, id);
        let is_damaged = {
            let inner = self.live.lock();
            let is_damaged = inner.damaged.contains(&key);
            // One that is being written again elsewhere, unsynced yet, counts where it lies as long as the index says so.
            if !is_damaged
                && inner.fresh.get(&key).is_some_and(|fresh| fresh.ready && fresh.place.area != Area::Cache)
            {
                return Ok(Stands::Counts);
            }
            is_damaged
        };
        let row = load_row(&self.view(), key)?;
        Ok(match row.place.is_some_and(|place| place.area != Area::Cache) {
            true if is_damaged => Stands::Damaged,
            true => Stands::Counts,
            false => Stands::Not,
        })
    }

    /// How often a chunk of each domain was found damaged since the start, and with it: what was counted as a copy may be none.
    pub fn damage(&self) -> BTreeMap<BucketId, u64> {
        self.live.lock().hurt.clone()
    }

    /// The same of one domain.
    pub fn damage_of(&self, domain: BucketId) -> u64 {
        self.live.lock().hurt.get(&domain).copied().unwrap_or_default()
    }

    /// Pins a chunk that is here.
    pub fn pin(&self, domain: BucketId, id: ChunkId) -> Option<Pin> {
        let key = (domain, id);
        self.live.idle(key).pin(key);
        let pin = self.pinned(key);
        matches!(self.has_chunk(domain, id), Ok(true)).then_some(pin)
    }
}

/// The children of a tree; a tree that does not decode is refused before it is stored.
pub(super) fn children_of(kind: ChunkKind, bytes: &[u8]) -> Result<Arc<[ChunkId]>, StorageError> {
    match kind {
        ChunkKind::Leaf => Ok([].into()),
        ChunkKind::Tree => {
            let tree = Tree::decode(bytes).map_err(|error| StorageError::Damaged(error.to_string()))?;
            Ok(tree.children.iter().map(|child| child.id).collect())
        }
    }
}
