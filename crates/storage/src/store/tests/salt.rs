//! What a client stores never passes for the store's own: a salt that nobody knows, and frames only where they have room.

use super::world::{audit, body, kept, keys, open, put_small, say_delete, small};
use crate::Settings;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::journal::frame::{Draft, Kind, Stamp, encode};

/// Fixture of version 1, as every release has written it: the salt was the site's id until it was drawn.
#[test]
fn identity_v1_fixture() {
    let (disk, settings) = (FaultyDisk::default(), Settings { salt: *b"0123456789abcdef", ..kept() });
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    drop(store);
    let hex: String = disk.content("store").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, format!("534b53540100000030313233343536373839616263646566{IDENTITY_CRC}"));
    // Later settings draw another one: the file's holds.
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &Settings { salt: [9; 16], ..settings });
    assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 1));
    audit(&store);
}

const IDENTITY_CRC: &str = "5e160314";

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
