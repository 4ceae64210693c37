//! Tests of extents.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::hex;

use super::*;

const SALT: [u8; 16] = *b"0123456789abcdef";

fn sample() -> Extent {
    let bytes = vec![5; BLOCK + 1];
    Extent {
        domain: BucketId([1; 16]),
        id: ChunkId([2; 32]),
        kind: ChunkKind::Tree,
        area: Area::Payload,
        stored: bytes.len() as u32,
        blocks: block_sums(&bytes),
    }
}

/// Fixture of version 1: must be read for ever.
#[test]
fn extent_v1_fixture() {
    let bytes = sample().encode(&SALT, 9, 4096);
    let (domain, id) = ("01".repeat(16), "02".repeat(32));
    assert_eq!(hex::text(&bytes), format!("534b50580101010001000100{EXTENT_CRC}{domain}{id}{EXTENT_BLOCKS}"));
    assert_eq!(bytes.len(), header_len(BLOCK as u32 + 1));
    assert_eq!(extent_len(BLOCK as u32 + 1), 17 * 4096);
}

const EXTENT_CRC: &str = "b2617405";
const EXTENT_BLOCKS: &str = "3e2b5e284d478c67";

#[test]
fn reads_back_only_at_its_place() {
    let bytes = sample().encode(&SALT, 9, 4096);
    assert_eq!(Extent::read(&bytes, &SALT, 9, 4096).unwrap(), sample());
    assert_eq!(Extent::read(&bytes, &SALT, 8, 4096), None);
    assert_eq!(Extent::read(&bytes, &SALT, 9, 8192), None);
    assert_eq!(Extent::read(&bytes, b"another store---", 9, 4096), None);
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = sample().encode(&SALT, 9, 4096);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // Byte 7 means nothing yet, but is covered.
        assert_eq!(Extent::read(&flipped, &SALT, 9, 4096), None, "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert_eq!(Extent::read(&bytes[..len], &SALT, 9, 4096), None, "cut to {len}");
    }
}

#[test]
fn segment_header_v1_fixture() {
    let bytes = segment_header(&SALT, 9, Area::Cache);
    let salt = hex::text(&SALT);
    assert_eq!(hex::text(&bytes[..36]), format!("534b5053010000000900000002000000{salt}{SEGMENT_CRC}"));
    assert_eq!(bytes.len(), 4096);
}

const SEGMENT_CRC: &str = "60f755ab";
