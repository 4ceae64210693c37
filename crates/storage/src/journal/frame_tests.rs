//! Tests of the journal's frame.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::hex;

use super::*;

const SALT: [u8; 16] = *b"0123456789abcdef";

fn sample() -> Vec<u8> {
    let line = BodyLine { domain: BucketId([1; 16]), id: ChunkId([2; 32]), len: 5, crc: crc32c(&[b"hello"]) };
    let stamp = Stamp { kind: Kind::Entries, lsn: 7, after: 6, previous: 0xdead_beef };
    let mut out = Vec::new();
    encode(&Draft { stamp, entries: &[b"one", b""], bodies: &[(line, b"hello")] }, &SALT, &mut out);
    out
}

/// Fixture of version 1: must be read for ever.
#[test]
fn frame_v1_fixture() {
    let expected = concat!(
        "534b4a46",                         // magic SKJF
        "01000000",                         // version 1, entries
        "0700000000000000",                 // lsn
        "0600000000000000",                 // after
        "efbeadde",                         // previous
        "0b000000",                         // bytes of entries
        "01000000",                         // bodies
        "05000000",                         // bytes of bodies
        "c20133c6",                         // checksum of the head
        "00000000",                         //
        "03000000",                         // first entry
        "6f6e65",                           //
        "00000000",                         // second entry
        "01010101010101010101010101010101", // domain
        "0202020202020202020202020202020202020202020202020202020202020202",
        "05000000",   // length
        "4cbb719a",   // checksum of the body
        "68656c6c6f", // body
        "0000000000000000",
    );
    let found = hex::text(&sample());
    assert_eq!(found.len() % 16, 0);
    assert_eq!(found, expected[..found.len()]);
}

#[test]
fn reads_back() {
    let bytes = sample();
    let head = Head::read(&bytes, &SALT).unwrap();
    assert_eq!((head.stamp.lsn, head.stamp.after, head.stamp.previous), (7, 6, 0xdead_beef));
    assert_eq!(head.frame_len, bytes.len() as u64);
    let entries: Vec<&[u8]> = head.entries.iter().map(|range| &bytes[range.clone()]).collect();
    assert_eq!(entries, [b"one".as_slice(), b""]);
    let (at, line) = head.body_offsets().next().unwrap();
    assert_eq!(&bytes[at as usize..at as usize + line.len as usize], b"hello");
    assert_eq!(frame_len([3, 0].into_iter(), [5].into_iter()), bytes.len() as u64);
}

/// Every bit of the head is covered: a flip is found, and nothing panics.
#[test]
fn every_flipped_bit_of_a_head_is_found() {
    let bytes = sample();
    let head_len = Head::read(&bytes, &SALT).unwrap().head_len;
    for bit in 0..head_len * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Head::read(&flipped, &SALT).is_err(), "bit {bit}");
    }
    for len in 0..head_len {
        assert!(Head::read(&bytes[..len], &SALT).is_err(), "cut to {len}");
    }
    assert!(Head::read(&bytes, b"another store---").is_err());
}
