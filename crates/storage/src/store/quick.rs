//! Reading that waits for no medium: what lies in the page cache goes out at once, on the thread of who asks.
//!
//! Why: a hop to a thread that may block costs more than reading a small body; and a chunk that is read and sent in
//! pieces of a block stays in the processor's cache on its way. Whatever is not plain (not in memory, moved, damaged,
//! not here) is answered by "none" and left to [`Store::read_chunk`], which waits, looks again and reports.
//! Invariant: every block is verified before any byte of it goes out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use skerry_base::{BucketId, ChunkId};

use super::Store;
use crate::buffers::{Buffer, Buffers};
use crate::checksum::crc32c;
use crate::chunks::row::{Area, Place};
use crate::disk::File;
use crate::payload::extent::{BLOCK, Extent, header_len};

/// Blocks of a piece that is read and sent at once, at most. Each piece is a reading and a writing of the kernel's and on the network
/// ends in a packet that is not full; four blocks still stay in the processor's cache on their way.
pub const PIECE_BLOCKS: u32 = 4;

/// A chunk that lies here, ready to be read in pieces.
pub struct OpenChunk {
    file: Arc<dyn File>,
    place: Place,
    stored: u32,
    /// Checksums of its blocks; a body in the journal has one for all of it, in its place.
    blocks: Vec<u32>,
    buffers: Arc<Buffers>,
}

impl Store {
    /// Finds a chunk for reading so many bytes of it in pieces; none if that would wait for a medium, or the chunk is not plainly here.
    pub fn open_chunk_now(&self, domain: BucketId, id: ChunkId, wanted: u32) -> Option<OpenChunk> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let key = (domain, id);
        let found = self.find_now(key)?;
        let (place, stored) = (found.place, found.stored);
        let file = self.files.get(place.area, place.segment).ok()?;
        let mut blocks = Vec::new();
        if place.area != Area::Journal {
            let header = read_now(&self.buffers, &*file, place.offset, header_len(stored))?;
            let extent = Extent::read(header.as_ref(), &self.salt, place.segment, place.offset)
                .filter(|extent| (extent.domain, extent.id) == key && extent.stored == stored)?;
            blocks = extent.blocks;
        }
        if place.area == Area::Cache {
            self.evicting.read((place.segment, place.offset), u64::from(wanted.min(stored)));
        }
        Some(OpenChunk { file, place, stored, blocks, buffers: self.buffers.clone() })
    }
}

impl OpenChunk {
    /// Bytes of the chunk.
    pub const fn stored(&self) -> u32 {
        self.stored
    }

    /// Where a piece of at most so many blocks that begins at `from` should end at the latest: with a block.
    pub const fn piece_end(&self, from: u32, blocks: u32) -> u32 {
        let end = (from / BLOCK as u32).saturating_add(blocks).saturating_mul(BLOCK as u32);
        if end < self.stored { end } else { self.stored }
    }

    /// Bytes of the chunk, verified; none if they are not in memory, or not what they should be any more.
    pub fn read_now(&self, range: Range<u32>) -> Option<Bytes> {
        if range.start > range.end || range.end > self.stored {
            return None;
        }
        let (start, end) = (range.start as usize, range.end as usize);
        if self.place.area == Area::Journal {
            let bytes = self.read_at(self.place.offset, self.stored as usize)?;
            return (crc32c(&[&bytes]) == self.place.crc).then(|| bytes.slice(start..end));
        }
        let first = start / BLOCK;
        let from = first * BLOCK;
        let to = end.next_multiple_of(BLOCK).min(self.stored as usize).max(from);
        let at = self.place.offset + (header_len(self.stored) + from) as u64;
        let bytes = self.read_at(at, to - from)?;
        let mut blocks = bytes.chunks(BLOCK).zip(self.blocks.iter().skip(first));
        let verified = blocks.all(|(block, sum)| crc32c(&[block]) == *sum);
        verified.then(|| bytes.slice(start - from..end - from))
    }

    fn read_at(&self, offset: u64, len: usize) -> Option<Bytes> {
        read_now(&self.buffers, &*self.file, offset, len).map(Buffer::freeze)
    }
}

fn read_now(buffers: &Arc<Buffers>, file: &dyn File, offset: u64, len: usize) -> Option<Buffer> {
    let mut bytes = buffers.take(len);
    let read = file.read_now(offset, bytes.as_mut()).ok()??;
    (read == len).then_some(bytes)
}
