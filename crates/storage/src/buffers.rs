//! Buffers that chunks are gathered in and read into, used again and again.
//!
//! Why: a new buffer is zeroed, faulted in page by page and given back to the kernel a moment later; together that cost a
//! sixth of the CPU of a large GET, and what the allocator kept of large ones instead stayed with the process for good.
//! Invariants: a buffer holds what was in it last, so whoever takes one fills all of it before anybody sees it; what was not
//! needed since the last [`Buffers::rest`] but one goes; small ones and those of odd sizes are not kept.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use skerry_base::limits::CHUNK_BYTES;

use crate::payload::extent::BLOCK;
use crate::store::PIECE_BLOCKS;

/// Less is not worth a whole buffer.
const BLOCKS: RangeInclusive<usize> = BLOCK / 4..=BLOCK;
/// Several blocks of a chunk that is sent in pieces.
const PIECES: RangeInclusive<usize> = BLOCK * 2..=BLOCK * PIECE_BLOCKS as usize;
/// A chunk, and with what stands before it on the disk. Of less too much would be empty, which nobody counted.
const CHUNKS: RangeInclusive<usize> = CHUNK_BYTES * 3 / 4..=CHUNK_BYTES + 4096;

/// The buffers of a store.
#[derive(Debug)]
pub(crate) struct Buffers {
    blocks: Shelf,
    pieces: Shelf,
    chunks: Shelf,
}

impl Default for Buffers {
    /// At most 2 MiB of blocks, 2 MiB of pieces and 8 MiB of chunks lie here unused.
    fn default() -> Self {
        Self { blocks: Shelf::new(BLOCKS, 32), pieces: Shelf::new(PIECES, 8), chunks: Shelf::new(CHUNKS, 8) }
    }
}

impl Buffers {
    /// So many bytes to be written over. What is in them is not said.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let mut buffer = self.any(len);
        buffer.bytes.resize(len, 0);
        buffer
    }

    /// Room for so many bytes, none there yet.
    pub(crate) fn gather(self: &Arc<Self>, len: usize) -> Buffer {
        let mut buffer = self.any(len);
        buffer.bytes.clear();
        buffer
    }

    /// One with room for so many bytes and what was left in it.
    fn any(self: &Arc<Self>, len: usize) -> Buffer {
        let Some(shelf) = self.shelf(len) else {
            return Buffer { bytes: Vec::with_capacity(len), home: None };
        };
        let bytes = shelf.take().unwrap_or_else(|| Vec::with_capacity(*shelf.sizes.end()));
        Buffer { bytes, home: Some(self.clone()) }
    }

    /// Gives the system what lay here unused since it was last asked.
    pub(crate) fn rest(&self) {
        self.shelves().into_iter().for_each(Shelf::rest);
    }

    const fn shelves(&self) -> [&Shelf; 3] {
        [&self.blocks, &self.pieces, &self.chunks]
    }

    fn shelf(&self, len: usize) -> Option<&Shelf> {
        self.shelves().into_iter().find(|shelf| shelf.sizes.contains(&len))
    }
}

/// Buffers of one size.
#[derive(Debug)]
struct Shelf {
    /// What they are taken for; each has room for the most of it.
    sizes: RangeInclusive<usize>,
    most: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    /// The fewest that lay here since the last rest.
    fewest: usize,
}

impl Shelf {
    fn new(sizes: RangeInclusive<usize>, most: usize) -> Self {
        Self { sizes, most, free: Mutex::default() }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut free = self.free();
        let taken = free.buffers.pop();
        free.fewest = free.fewest.min(free.buffers.len());
        taken
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut free = self.free();
        if free.buffers.len() < self.most {
            free.buffers.push(bytes);
        }
    }

    fn rest(&self) {
        let mut free = self.free();
        let left = free.buffers.len() - free.fewest;
        let unused = free.buffers.split_off(left);
        free.fewest = left;
        // Given back without anybody waiting for it.
        drop(free);
        drop(unused);
    }
}

/// Bytes that are gathered or read; what they lie in goes back when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    home: Option<Arc<Buffers>>,
}

impl Buffer {
    /// Takes bytes in, behind those that are there.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many are there.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether none are.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is there, to be shared.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // One that grew beyond its size is not kept.
        let size = |shelf: &Shelf| *shelf.sizes.end() == self.bytes.capacity();
        let Some(home) = self.home.take() else { return };
        if let Some(shelf) = home.shelves().into_iter().find(|shelf| size(shelf)) {
            shelf.put(std::mem::take(&mut self.bytes));
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn free(shelf: &Shelf) -> usize {
        shelf.free().buffers.len()
    }

    #[test]
    fn what_was_taken_comes_back_with_the_last_of_its_bytes_and_no_more_than_the_bound() {
        let buffers = Arc::new(Buffers::default());
        for (len, most) in [(BLOCK / 4, 32), (BLOCK * 3, 8), (CHUNK_BYTES, 8)] {
            let shelf = buffers.shelf(len).unwrap();
            let mut buffer = buffers.take(len);
            buffer.as_mut().fill(7);
            let bytes = buffer.freeze();
            let part = bytes.slice(3..5);
            drop(bytes);
            assert_eq!((&part[..], part.len(), free(shelf)), (&[7, 7][..], 2, 0));
            drop(part);
            assert_eq!(free(shelf), 1);
            let whole = *shelf.sizes.end();
            assert_eq!((buffers.take(whole).as_ref().len(), free(shelf)), (whole, 0), "it is used again");
            let many: Vec<Buffer> = (0..most + 5).map(|_| buffers.take(len)).collect();
            drop(many);
            assert_eq!(free(shelf), most);
        }
    }

    #[test]
    fn bytes_are_gathered_from_nothing_whatever_was_there_before() {
        let buffers = Arc::new(Buffers::default());
        drop(buffers.take(CHUNK_BYTES));
        let mut buffer = buffers.gather(CHUNK_BYTES);
        assert!(buffer.is_empty());
        buffer.push(b"one ");
        buffer.push(b"two");
        assert_eq!((buffer.len(), &buffer.freeze()[..]), (7, &b"one two"[..]));
    }

    #[test]
    fn small_and_odd_ones_are_as_long_as_asked_and_not_kept() {
        let buffers = Arc::new(Buffers::default());
        for len in
            [0, 1, *BLOCKS.start() - 1, BLOCK + 1, *PIECES.end() + 1, *CHUNKS.start() - 1, *CHUNKS.end() + 1]
        {
            assert_eq!(buffers.take(len).as_ref(), vec![0; len]);
        }
        let mut grown = buffers.gather(CHUNK_BYTES);
        grown.push(&vec![1; CHUNKS.end() + 1]);
        drop(grown);
        assert_eq!(buffers.shelves().map(free), [0; 3]);
    }

    #[test]
    fn what_was_not_needed_goes() {
        let buffers = Arc::new(Buffers::default());
        let take = |count: usize| drop((0..count).map(|_| buffers.take(CHUNK_BYTES)).collect::<Vec<_>>());
        take(5);
        buffers.rest();
        assert_eq!(free(&buffers.chunks), 5, "they were needed since the start");
        take(2);
        buffers.rest();
        assert_eq!(free(&buffers.chunks), 2);
        buffers.rest();
        assert_eq!(free(&buffers.chunks), 0);
    }
}
