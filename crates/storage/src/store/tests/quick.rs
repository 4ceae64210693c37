//! What is read without waiting is what is read with waiting, and never damaged bytes.

use super::world::{DOMAIN, body, open, put_large, put_small, small};
use crate::ReadError;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::BLOCK;
use crate::store::{PIECE_BLOCKS, Store};
use skerry_base::ChunkId;

/// The whole chunk in pieces of at most so many blocks; none as soon as one cannot be had.
fn in_pieces(store: &Store, id: ChunkId, blocks: u32) -> Option<Vec<u8>> {
    let chunk = store.open_chunk_now(DOMAIN, id, u32::MAX)?;
    let mut bytes = Vec::new();
    while (bytes.len() as u32) < chunk.stored() {
        let from = bytes.len() as u32;
        let end = chunk.piece_end(from, blocks);
        assert!(end == chunk.stored() || end.is_multiple_of(BLOCK as u32), "{from} to {end}");
        bytes.extend_from_slice(&chunk.read_now(from..end)?);
    }
    Some(bytes)
}

#[test]
fn pieces_and_ranges_are_those_of_the_chunk() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "small", 1, &body(1, 3000)).unwrap();
    put_large(&store, "large", 2, &body(2, 200_000)).unwrap();
    for (n, len) in [(1, 3000), (2, 200_000)] {
        let (bytes, id) = (body(n, len), ChunkId::of(&body(n, len)));
        for blocks in [1, 2, 3, PIECE_BLOCKS, u32::MAX] {
            assert_eq!(in_pieces(&store, id, blocks).unwrap(), bytes, "{blocks}");
        }
        let chunk = store.open_chunk_now(DOMAIN, id, u32::MAX).unwrap();
        assert_eq!(chunk.stored() as usize, len);
        for range in [0..0, 0..1, 17..2999, len as u32 - 1..len as u32] {
            let wanted = &bytes[range.start as usize..range.end as usize];
            assert_eq!(chunk.read_now(range.clone()).unwrap(), wanted, "{range:?}");
        }
        assert!(chunk.read_now(0..len as u32 + 1).is_none());
    }
    let chunk = store.open_chunk_now(DOMAIN, ChunkId::of(&body(2, 200_000)), u32::MAX).unwrap();
    assert_eq!(chunk.read_now(65_000..140_000).unwrap(), &body(2, 200_000)[65_000..140_000]);
    assert!(store.open_chunk_now(DOMAIN, ChunkId::of(b"elsewhere"), u32::MAX).is_none());
}

#[test]
fn a_damaged_block_is_not_answered_and_left_to_who_reports() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    put_large(&store, "large", 2, &body(2, 200_000)).unwrap();
    let id = ChunkId::of(&body(2, 200_000));
    let chunk = store.open_chunk_now(DOMAIN, id, u32::MAX).unwrap();
    let found = store.find((DOMAIN, id)).unwrap().unwrap();
    let at = found.place.offset as usize + 100_000;
    disk.corrupt(&file_name("payload", found.place.segment), |bytes| bytes[at] ^= 1);
    assert!(chunk.read_now(0..65_536).is_some(), "another block");
    assert!(chunk.read_now(65_536..131_072).is_none());
    assert!(
        chunk.read_now(0..chunk.piece_end(0, PIECE_BLOCKS)).is_none(),
        "a piece is as good as each of its blocks"
    );
    assert!(in_pieces(&store, id, 1).is_none());
    assert!(matches!(store.read_chunk(DOMAIN, id, 0..u32::MAX), Err(ReadError::Damaged(_))));
}
