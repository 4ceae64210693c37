//! What a client stores never passes for the store's own: a salt that nobody knows, and frames only where they have room.

use std::sync::Arc;

use rustix::io::Errno;

use super::world::{Keys, audit, body, kept, keys, open, put_large, put_small, say_delete, small};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::journal::frame::{Draft, Kind, Stamp, encode};
use crate::store::Store;
use crate::{Settings, StorageError};

/// Fixture of version 1, as every release has written it: the salt was the site's id until it was drawn.
#[test]
fn identity_v1_fixture() {
    let (disk, settings) = (FaultyDisk::default(), Settings { salt: *b"0123456789abcdef", ..kept() });
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    drop(store);
    let hex = skerry_base::hex::text(&disk.content("store"));
    assert_eq!(hex, format!("534b53540100000030313233343536373839616263646566{IDENTITY_CRC}"));
    // Later settings draw another one: the file's holds.
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &Settings { salt: [9; 16], ..settings });
    assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 1));
    audit(&store);
}

const IDENTITY_CRC: &str = "5e160314";

/// A store with a segment of the journal, and one of payload where there is a large body.
fn filled(large: bool) -> (FaultyDisk, Settings, Vec<u8>) {
    let (disk, settings) = (FaultyDisk::default(), Settings { salt: [0x5a; 16], ..kept() });
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    if large {
        put_large(&store, "b", 2, &body(2, 40_000)).unwrap();
    }
    drop(store);
    let identity = disk.content("store");
    (disk, settings, identity)
}

fn refusal(disk: &FaultyDisk, settings: &Settings) -> StorageError {
    let opened = Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone());
    opened.map(drop).unwrap_err()
}

/// One bad sector would else keep a store from starting of which every byte is whole.
#[test]
fn the_file_store_is_written_anew_from_what_segments_say() {
    for large in [false, true] {
        let (disk, settings, identity) = filled(large);
        let opens = |disk: &FaultyDisk, what: &str| {
            // Whoever starts it next draws another salt, which is not taken.
            let settings = Settings { salt: [9; 16], ..settings.clone() };
            let (store, recovery) = open(disk, &settings);
            assert_eq!(recovery.damage, vec![], "{what}");
            assert_eq!(keys(&store.view()).len(), 1 + usize::from(large), "{what}");
            audit(&store);
            drop(store);
            assert_eq!(disk.content("store"), identity, "{what}");
        };
        for at in 0..identity.len() {
            let flipped = disk.copied();
            flipped.corrupt("store", |bytes| bytes[at] ^= 0x40);
            opens(&flipped, &format!("byte {at}"));
        }
        let short = disk.copied();
        short.corrupt("store", |bytes| bytes.truncate(12));
        opens(&short, "cut short");
        let gone = disk.copied();
        gone.remove("store").unwrap();
        opens(&gone, "gone");
        let spoilt = disk.copied();
        spoilt.spoil("store", 0..28);
        opens(&spoilt, "a sector that does not read");
    }
}

#[test]
fn where_segments_do_not_say_one_thing_nothing_is_taken_for_granted() {
    let (disk, settings, _) = filled(true);
    disk.corrupt("store", |bytes| bytes[9] ^= 1);
    let is_refused = |disk: &FaultyDisk, why: &str| {
        let (before, refused) = (disk.content("store"), refusal(disk, &settings));
        assert!(matches!(&refused, StorageError::Damaged(said) if said.contains(why)), "{refused}");
        assert_eq!(disk.content("store"), before);
    };
    let (journal, payload) = (file_name("journal", 1), file_name("payload", 1));
    let foreign = disk.copied();
    let other = FaultyDisk::default();
    let (store, _) = open(&other, &Settings { salt: [6; 16], ..kept() });
    put_large(&store, "c", 3, &body(3, 40_000)).unwrap();
    drop(store);
    let other = other.content(&payload);
    foreign.corrupt(&payload, |bytes| bytes.clone_from(&other));
    is_refused(&foreign, "two stores");
    // One that no frame stands behind.
    let lone = disk.copied();
    lone.corrupt(&journal, |bytes| bytes[0] ^= 1);
    lone.corrupt(&file_name("journal", 2), |bytes| bytes[0] ^= 1);
    is_refused(&lone, "only one segment");
    lone.corrupt(&payload, |bytes| bytes[17] ^= 1);
    is_refused(&lone, "no segment");
}

/// What a release to come wrote is its own, and what is refused for a moment is no damage.
#[test]
fn the_file_store_is_left_alone_where_it_is_not_damaged() {
    let (disk, settings, identity) = filled(true);
    let mut later = identity[..24].to_vec();
    later[4] = 2;
    later.extend(crate::checksum::crc32c(&[&later]).to_le_bytes());
    let newer = disk.copied();
    for longer in [false, true] {
        newer.corrupt("store", |bytes| *bytes = [later.clone(), vec![7; 8 * usize::from(longer)]].concat());
        let before = newer.content("store");
        assert!(matches!(refusal(&newer, &settings), StorageError::Later(_)));
        assert_eq!(newer.content("store"), before);
    }
    disk.on_open("store", || Err(std::io::Error::from_raw_os_error(Errno::MFILE.raw_os_error())));
    assert!(matches!(refusal(&disk, &settings), StorageError::Lacking { .. }));
}

/// A store of before, whose salt is known to who writes: whole frames in a body, at every alignment, and the power goes
/// while the frame around them is written.
#[test]
fn frames_in_a_body_do_not_make_damage_of_a_torn_tail() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "victim", 1, b"victim").unwrap();
    let entry = say_delete("victim").data;
    let stamp = Stamp { kind: Kind::Entries, lsn: 1_000_000, after: 999_999, previous: 7 };
    let mut forged = Vec::new();
    encode(&Draft { stamp, entries: &[&entry], bodies: &[] }, &small().salt, &mut forged);
    let mut bytes = Vec::new();
    for residue in 0..8 {
        bytes.resize(bytes.len().next_multiple_of(8) + residue, 0);
        bytes.extend_from_slice(&forged);
    }
    let before = store.core().writer.tail();
    put_small(&store, "around", 2, &bytes).unwrap();
    drop(store);
    // Of the head around it a sector did not arrive.
    disk.corrupt(&file_name("journal", before.segment), |content| content[before.offset as usize + 50] ^= 1);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    assert!(recovery.torn.is_some());
    assert_eq!(keys(&store.view()).keys().cloned().collect::<Vec<_>>(), [b"victim".to_vec()]);
    put_small(&store, "after", 3, &body(3, 100)).unwrap();
    audit(&store);
}
