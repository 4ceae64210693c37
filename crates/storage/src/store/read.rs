//! Chunks go out: every block that is touched is verified first.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use skerry_base::{BucketId, ChunkId};

use super::Store;
use super::changes::load_row;
use crate::buffers::Buffer;
use crate::checksum::crc32c;
use crate::chunks::Key;
use crate::chunks::row::{Area, Place};
use crate::payload::extent::{BLOCK, Extent, header_len};
use crate::{ReadError, StorageError};

/// What is wrong with a chunk whose checksums are right.
const MISNAMED: &str = "its bytes are not those of its name";

/// A chunk as found, in the index or on its way there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) stored: u32,
}

impl Store {
    /// Reads part of a chunk; every 64 KiB block touched is verified first. `0..u32::MAX` reads to the end.
    pub fn read_chunk(&self, domain: BucketId, id: ChunkId, range: Range<u32>) -> Result<Bytes, ReadError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (bytes, place) = self.read_placed(domain, id, range)?;
        if place.area == Area::Cache {
            self.evicting.read((place.segment, place.offset), bytes.len() as u64);
        }
        Ok(bytes)
    }

    /// A copy that was put is being read without being read from here: by who brought it.
    pub fn note_read(&self, domain: BucketId, id: ChunkId) {
        if let Ok(Some(Found { place, .. })) = self.find((domain, id))
            && place.area == Area::Cache
        {
            self.evicting.read((place.segment, place.offset), 0);
        }
    }

    /// The same for work in the background, which does not count as work of others.
    pub(super) fn read_quietly(
        &self,
        domain: BucketId,
        id: ChunkId,
        range: Range<u32>,
    ) -> Result<Bytes, ReadError> {
        self.read_placed(domain, id, range).map(|(bytes, _)| bytes)
    }

    fn read_placed(
        &self,
        domain: BucketId,
        id: ChunkId,
        range: Range<u32>,
    ) -> Result<(Bytes, Place), ReadError> {
        let key = (domain, id);
        let mut found = self.find(key)?.ok_or(ReadError::Absent)?;
        loop {
            let range = range.start..range.end.min(found.stored);
            if range.start > range.end {
                return Err(ReadError::Range(found.stored));
            }
            let is_whole = range == (0..found.stored);
            let why = match self.read_place(key, found, range) {
                Ok(bytes) if is_whole && !self.is_well_after_all(key, &bytes) => MISNAMED.to_owned(),
                Ok(bytes) => return Ok((bytes, found.place)),
                Err(ReadError::Damaged(why)) => why,
                // It says nothing of what lies there: nothing is marked for it.
                Err(error) => return Err(error),
            };
            // It may have been collected, or written anew, while it was read.
            match self.find(key)? {
                None => return Err(ReadError::Absent),
                Some(now) if now != found => found = now,
                Some(_) => return Err(self.note_damage(key, found, why)),
            }
        }
    }

    /// All of a chunk was read, and its checksums are right: of one that is known to be damaged, whether it is what its name
    /// says. What could not be read once (a loose cable) is well then. What was written anew a moment ago is so only when a
    /// sync has covered it.
    fn is_well_after_all(&self, key: Key, bytes: &[u8]) -> bool {
        if !self.live.lock().damaged.contains(&key) {
            return true;
        }
        let is_well = ChunkId::of(bytes) == key.1;
        let mut inner = self.live.lock();
        if !is_well {
            inner.misnamed.insert(key);
        } else if !inner.is_unsynced(key) {
            inner.damaged.remove(&key);
        }
        is_well
    }

    /// Reads a whole chunk and compares it with its name.
    pub fn check_chunk(&self, domain: BucketId, id: ChunkId) -> Result<(), ReadError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.check_quietly(domain, id)
    }

    /// What a scrub does.
    pub(super) fn check_quietly(&self, domain: BucketId, id: ChunkId) -> Result<(), ReadError> {
        let bytes = self.read_quietly(domain, id, 0..u32::MAX)?;
        let key = (domain, id);
        if ChunkId::of(&bytes) == id {
            return Ok(());
        }
        let Some(found) = self.find(key)? else { return Err(ReadError::Absent) };
        self.live.lock().misnamed.insert(key);
        Err(self.note_damage(key, found, MISNAMED.to_owned()))
    }

    /// The same without waiting for who makes a segment or syncs one.
    pub(super) fn find_now(&self, key: Key) -> Option<Found> {
        {
            let inner = self.live.try_lock()?;
            if let Some(fresh) = inner.fresh.get(&key) {
                return Some(Found { place: fresh.place, stored: fresh.stored });
            }
            if inner.misnamed.contains(&key) {
                return None;
            }
        }
        let row = load_row(&self.view(), key).ok()?;
        row.place.map(|place| Found { place, stored: row.stored })
    }

    pub(super) fn find(&self, key: Key) -> Result<Option<Found>, ReadError> {
        let misnamed = {
            let inner = self.live.lock();
            if let Some(fresh) = inner.fresh.get(&key) {
                return Ok(Some(Found { place: fresh.place, stored: fresh.stored }));
            }
            inner.misnamed.contains(&key)
        };
        let row = load_row(&self.view(), key)?;
        match row.place {
            Some(place) if misnamed && place.area == Area::Cache => Ok(None),
            Some(_) if misnamed => Err(ReadError::Damaged(MISNAMED.to_owned())),
            place => Ok(place.map(|place| Found { place, stored: row.stored })),
        }
    }

    /// A damaged chunk is absent from now on for who asks, and written anew by who puts it.
    fn note_damage(&self, key: Key, found: Found, why: String) -> ReadError {
        {
            let mut inner = self.live.lock();
            match found.place.area {
                // Nobody counts on it.
                Area::Cache => drop(inner.damaged.insert(key)),
                Area::Journal | Area::Payload => inner.comes_across(key, &why),
            }
            if let Some(fresh) = inner.fresh.get_mut(&key).filter(|fresh| fresh.place == found.place) {
                fresh.mends = false;
            }
        }
        if found.place.area == Area::Cache {
            return ReadError::Absent;
        }
        let Place { area, segment, offset, .. } = found.place;
        let area = if area == Area::Journal { "journal" } else { "payload" };
        tracing::error!(domain = %key.0, chunk = %key.1, area, segment, offset, why, "damaged chunk");
        ReadError::Damaged(why)
    }

    fn read_place(&self, key: Key, found: Found, range: Range<u32>) -> Result<Bytes, ReadError> {
        let Found { place, stored } = found;
        match place.area {
            Area::Journal => self.read_body(place, stored, range),
            Area::Payload | Area::Cache => self.read_extent(key, place, stored, range),
        }
    }

    fn read_exact(&self, place: Place, skip: u64, len: usize) -> Result<Buffer, ReadError> {
        let file = self.files.get(place.area, place.segment).map_err(|error| unread(&error))?;
        let mut bytes = self.buffers.take(len);
        let read = file.read_at(place.offset + skip, bytes.as_mut()).map_err(|error| unread(&error))?;
        if read == len { Ok(bytes) } else { Err(damaged("the segment is shorter than it should be")) }
    }

    fn read_body(&self, place: Place, stored: u32, range: Range<u32>) -> Result<Bytes, ReadError> {
        let bytes = self.read_exact(place, 0, stored as usize)?;
        if crc32c(&[bytes.as_ref()]) != place.crc {
            return Err(damaged("checksum of a body in the journal does not match"));
        }
        Ok(bytes.freeze().slice(range.start as usize..range.end as usize))
    }

    fn read_extent(
        &self,
        key: Key,
        place: Place,
        stored: u32,
        range: Range<u32>,
    ) -> Result<Bytes, ReadError> {
        let head = header_len(stored);
        let first = range.start as usize / BLOCK;
        let from = first * BLOCK;
        let to = (range.end as usize).next_multiple_of(BLOCK).min(stored as usize).max(from);
        // The first block lies right behind the header: one read, and nothing of it is copied.
        let lead = self.read_exact(place, 0, if first == 0 { head + to } else { head })?;
        let extent = Extent::read(lead.as_ref().split_at(head).0, &self.salt, place.segment, place.offset)
            .filter(|extent| (extent.domain, extent.id) == key && extent.stored == stored)
            .ok_or_else(|| damaged("header of the extent does not match"))?;
        let (data, skip) = match first {
            0 => (lead, head),
            _ => (self.read_exact(place, (head + from) as u64, to - from)?, 0),
        };
        for (block, sum) in data.as_ref().split_at(skip).1.chunks(BLOCK).zip(extent.blocks.iter().skip(first))
        {
            if crc32c(&[block]) != *sum {
                return Err(damaged("checksum of a block does not match"));
            }
        }
        let start = skip + range.start as usize - from;
        Ok(data.freeze().slice(start..start + (range.end - range.start) as usize))
    }

    /// The children of a tree that lies here.
    pub(super) fn read_children(&self, key: Key) -> Result<std::sync::Arc<[ChunkId]>, StorageError> {
        let bytes = self.read_chunk(key.0, key.1, 0..u32::MAX).map_err(|error| match error {
            ReadError::Store(error) => error,
            error => StorageError::Damaged(error.to_string()),
        })?;
        super::put::children_of(skerry_base::ChunkKind::Tree, &bytes)
    }
}

fn damaged(why: &str) -> ReadError {
    ReadError::Damaged(why.to_owned())
}

/// What the disk cannot read is damage; what the machine lacks for a moment says nothing of the disk.
fn unread(error: &std::io::Error) -> ReadError {
    match StorageError::io("read a chunk", error) {
        error @ StorageError::Lacking { .. } => ReadError::Store(error),
        _ => ReadError::Damaged(error.to_string()),
    }
}
