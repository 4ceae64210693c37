//! Tests of the journal's segment.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::hex;

use super::*;

const SALT: [u8; 16] = *b"0123456789abcdef";

/// Fixture of version 1: must be read for ever.
#[test]
fn header_v1_fixture() {
    let header = SegmentHeader { number: 3, previous: 0xaabb_ccdd, first_lsn: 42, stripped: false };
    let bytes = header.encode(&SALT);
    let salt = hex::text(&SALT);
    let zeros = "00".repeat(20);
    assert_eq!(
        hex::text(&bytes),
        format!("534b4a530100000003000000ddccbbaa2a00000000000000{salt}{zeros}{HEADER_CRC}")
    );
    assert_eq!(SegmentHeader::read(&bytes, &SALT), Some(header));
    for bit in 0..HEADER * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::read(&flipped, &SALT), None, "bit {bit}");
    }
}

const HEADER_CRC: &str = "625348bb";

/// Fixture of version 1: must be read for ever.
#[test]
fn footer_v1_fixture() {
    let lines = vec![Line { offset: 64, head_len: 51 }, Line { offset: 128, head_len: 99 }];
    let footer = Footer { first_lsn: 42, last_crc: 0x0102_0304, stripped: false, lines };
    let bytes = footer.encode(240, &SALT);
    assert_eq!(
        hex::text(&bytes),
        format!(
            "4000000033000000800000006300000053\
             4b4a4501000000f000000000000000020000000403020\
             12a0000000000000000000000{FOOTER_CRC}"
        )
    );
    let file_len = 240 + bytes.len() as u64;
    let trailer = &bytes[bytes.len() - TRAILER..];
    assert_eq!(Footer::locate(trailer, file_len), Some((240, bytes.len())));
    assert_eq!(Footer::locate(trailer, file_len + 8), None);
    assert_eq!(Footer::read(&bytes, &SALT).unwrap(), footer);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Footer::read(&flipped, &SALT), None, "bit {bit}");
    }
}

#[test]
fn stripped_is_told_at_both_ends() {
    let header = SegmentHeader { number: 3, previous: 4, first_lsn: 42, stripped: true };
    assert_eq!(SegmentHeader::read(&header.encode(&SALT), &SALT), Some(header));
    let footer = Footer { first_lsn: 42, last_crc: 5, stripped: true, lines: vec![] };
    assert_eq!(Footer::read(&footer.encode(64, &SALT), &SALT), Some(footer));
}

const FOOTER_CRC: &str = "5ef373fc";
