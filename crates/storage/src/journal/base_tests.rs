//! Tests of the base's file.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::disk::faulty::FaultyDisk;

const SALT: [u8; 16] = *b"0123456789abcdef";
const AT: Position = Position { segment: 9, offset: 4096, lsn: 77, previous: 0x0102_0304 };

fn items() -> Vec<Item> {
    vec![
        Item::Row { table: 16, key: b"k".to_vec(), value: b"vv".to_vec() },
        Item::Refer { domain: BucketId([1; 16]), id: ChunkId([2; 32]), delta: -3 },
        Item::Body {
            domain: BucketId([1; 16]),
            id: ChunkId([2; 32]),
            segment: 4,
            offset: 300,
            crc: 5,
            stored: 6,
        },
    ]
}

fn written(items: &[Item]) -> FaultyDisk {
    let disk = FaultyDisk::default();
    let mut writer =
        Writer::begin(&disk, &SALT, &AT, items.iter().any(|item| matches!(item, Item::Note { .. }))).unwrap();
    items.iter().for_each(|item| writer.put(item).unwrap());
    writer.finish().unwrap();
    publish(&disk).unwrap();
    disk
}

fn read(disk: &FaultyDisk) -> Result<(Position, Vec<Item>), StorageError> {
    let reader = Reader::open(disk, &SALT)?.unwrap();
    let mut found = Vec::new();
    reader.each(&mut |item| {
        found.push(item);
        Ok(())
    })?;
    Ok((reader.position, found))
}

/// Fixture of versions 1 and 2, which differ by that number alone: must be read for ever.
#[test]
fn base_v1_and_v2_fixture() {
    let disk = written(&items());
    let hex = hex_of(&disk);
    let of_salt = skerry_base::hex::text(&SALT);
    let header = format!("534b4a4202000000090000000403020100100000000000004d00000000000000{of_salt}");
    assert_eq!(hex[..32], header[..32]);
    let (domain, id) = ("01".repeat(16), "02".repeat(32));
    let page = format!("0010016b0276760 1{domain}{id}0502{domain}{id}04ac020506").replace(' ', "");
    assert!(hex.contains(&page), "{hex}");
    assert_eq!(read(&disk).unwrap(), (AT, items()));
    as_of_version_1(&disk);
    assert_eq!(hex_of(&disk)[..32], header[..32].replacen("534b4a4202", "534b4a4201", 1));
    assert_eq!(read(&disk).unwrap(), (AT, items()));
    assert!(refuse_later(&disk).is_ok() && salt(&disk) == Some(SALT));
}

/// Fixture of version 3: a note beside the rest.
#[test]
fn base_v3_fixture() {
    let mut all = items();
    all.push(Item::Note { key: b"lost".to_vec(), value: vec![7, 8] });
    let disk = written(&all);
    let hex = hex_of(&disk);
    assert_eq!(hex[..16], "534b4a4203000000"[..16]);
    assert!(hex.contains("03046c6f7374020708"), "{hex}");
    assert_eq!(read(&disk).unwrap(), (AT, all));
}

fn hex_of(disk: &FaultyDisk) -> String {
    skerry_base::hex::text(&disk.content(FILE))
}

/// As a release before wrote it: the checksum of a page covers that of the header.
fn as_of_version_1(disk: &FaultyDisk) {
    disk.corrupt(FILE, |bytes| {
        bytes[4..8].copy_from_slice(&1u32.to_le_bytes());
        let header = crc32c(&[&bytes[..HEADER - 4]]);
        bytes[HEADER - 4..HEADER].copy_from_slice(&header.to_le_bytes());
        let (mut at, mut number) = (HEADER, 0);
        while at < bytes.len() {
            let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            let sum = page_sum(&SALT, header, number, &bytes[at + 8..at + 8 + len]);
            bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
            (at, number) = (at + 8 + len, number + 1);
        }
    });
}

#[test]
fn every_flipped_byte_and_every_cut_is_found() {
    let disk = written(&items());
    let len = disk.content(FILE).len();
    for at in 0..len {
        disk.corrupt(FILE, |bytes| bytes[at] ^= 1);
        assert!(read(&disk).is_err(), "flipped at {at}");
        disk.corrupt(FILE, |bytes| bytes[at] ^= 1);
    }
    for cut in 0..len {
        let disk = written(&items());
        disk.corrupt(FILE, |bytes| bytes.truncate(cut));
        assert!(read(&disk).is_err(), "cut to {cut}");
    }
    assert!(Reader::open(&disk, b"another store---").is_err());
    assert!(Reader::open(&FaultyDisk::default(), &SALT).unwrap().is_none());
}

#[test]
fn many_pages_read_back_in_order_and_none_may_be_missing() {
    let row = |n: u32| Item::Row { table: 18, key: n.to_be_bytes().to_vec(), value: vec![n as u8; 3000] };
    let many: Vec<Item> = (0..400).map(row).collect();
    let disk = written(&many);
    assert_eq!(read(&disk).unwrap().1, many);
    // The second page left out.
    disk.corrupt(FILE, |bytes| {
        let len =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize + 8;
        let second = HEADER + len(bytes, HEADER);
        let end = second + len(bytes, second);
        bytes.drain(second..end);
    });
    assert!(read(&disk).is_err());
}

/// It is not damaged: that release is to be started, and nothing is written in its place.
#[test]
fn a_base_of_a_later_version_is_refused() {
    let disk = written(&items());
    assert!(refuse_later(&disk).is_ok());
    let as_of = |version: u32| {
        disk.corrupt(FILE, |bytes| {
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            let crc = crc32c(&[&bytes[..HEADER - 4]]);
            bytes[HEADER - 4..HEADER].copy_from_slice(&crc.to_le_bytes());
        });
    };
    as_of(NOTES + 1);
    let why = refuse_later(&disk).unwrap_err().to_string();
    assert!(why.contains("version 4") && why.contains("later release"), "{why}");
    // A flipped bit is no version.
    disk.corrupt(FILE, |bytes| bytes[4] ^= 8);
    assert!(refuse_later(&disk).is_ok());
}
