//! No place of payload is used twice, whatever was punched and wherever a rebuild finds the end: what was noted of the
//! first that lay there would be taken for the second.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_large, rows, small};
use crate::Class;
use crate::chunks::row::Place;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::extent_len;
use crate::store::{Collected, Store};

fn place_of(store: &Store, bytes: &[u8]) -> Place {
    rows(&store.view())[&(DOMAIN, ChunkId::of(bytes))].place.unwrap()
}

/// What rests is let go of and, where it may be, given back.
fn collect(store: &Store) {
    for now in [0, CHUNK_REST_MS, CHUNK_REST_MS] {
        store.checkpoint().unwrap();
        store.collect(WallTime(now)).unwrap();
    }
    store.checkpoint().unwrap();
    store.collect(WallTime(CHUNK_REST_MS)).unwrap();
}

/// The same bytes come first after the next start, and that is followed by another.
fn comes_again(disk: &FaultyDisk, bytes: &[u8]) {
    let (store, _) = open(disk, &small());
    put_large(&store, "again", 9, bytes).unwrap();
    let stays = place_of(&store, bytes);
    drop(store);
    let (store, _) = open(disk, &small());
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap(), bytes);
    assert_eq!(place_of(&store, bytes), stays);
    collect(&store);
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap(), bytes);
    audit(&store);
}

#[test]
fn what_was_collected_and_comes_again_after_a_rebuild_outlives_the_next() {
    let (disk, bytes) = (FaultyDisk::default(), body(1, 50_000));
    let (store, _) = open(&disk, &small());
    put_large(&store, "before", 1, &body(2, 50_000)).unwrap();
    put_large(&store, "a", 2, &bytes).unwrap();
    delete(&store, "a").unwrap();
    collect(&store);
    assert!(!store.has_chunk(DOMAIN, ChunkId::of(&bytes)).unwrap());
    drop(store);
    comes_again(&disk, &bytes);
}

/// What lies behind what is let go of counts for nothing before it is synced.
#[test]
fn nothing_is_punched_because_of_what_a_power_cut_takes() {
    for seed in 0..20 {
        let (disk, bytes) = (FaultyDisk::default(), body(1, 50_000));
        let (store, _) = open(&disk, &small());
        put_large(&store, "a", 1, &bytes).unwrap();
        delete(&store, "a").unwrap();
        collect(&store);
        let behind = body(3, 50_000);
        let _pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &behind).unwrap();
        store.give_back(&mut store.sweep.lock().unwrap(), &mut Collected::default()).unwrap();
        comes_again(&disk.power_cut(seed), &bytes);
    }
}

/// Nor is more kept than the last: also right after a start, when nothing was written yet.
#[test]
fn all_but_the_last_comes_back_and_that_with_the_next() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    for start in [false, true] {
        let (mut store, _) = open(&disk, &settings);
        let before = store.usage().payload.allocated;
        for number in 0..3 {
            put_large(&store, &format!("{number}"), number, &body(number, 50_000)).unwrap();
            delete(&store, &format!("{number}")).unwrap();
        }
        if start {
            store.checkpoint().unwrap();
            drop(store);
            store = open(&disk, &settings).0;
        }
        collect(&store);
        let usage = store.usage().payload;
        assert_eq!((usage.live, usage.dead), (0, extent_len(50_000)), "start: {start}");
        put_large(&store, "next", 4, &body(4, 50_000)).unwrap();
        collect(&store);
        let usage = store.usage().payload;
        assert_eq!((usage.live, usage.dead), (extent_len(50_000), 0), "start: {start}, {before}");
        delete(&store, "next").unwrap();
        collect(&store);
    }
}

/// The header of the last chunk has rotted: what was let go of before it was noted by its place.
#[test]
fn no_place_before_a_chunk_whose_header_has_rotted_is_used_after_a_rebuild() {
    let (disk, bytes) = (FaultyDisk::default(), body(2, 50_000));
    let (store, _) = open(&disk, &small());
    for number in 1..=3 {
        put_large(&store, &format!("{number}"), number, &body(number, 50_000)).unwrap();
    }
    let (gone, last) = (place_of(&store, &bytes), place_of(&store, &body(3, 50_000)));
    delete(&store, "2").unwrap();
    collect(&store);
    drop(store);
    let name = file_name("payload", last.segment);
    assert_eq!(disk.content(&name)[gone.offset as usize + 5000], 0, "it was punched out");
    disk.corrupt(&name, |content| content[last.offset as usize + 20] ^= 1);
    let (store, _) = open(&disk, &small());
    put_large(&store, "again", 9, &bytes).unwrap();
    let again = place_of(&store, &bytes);
    assert!(again.segment > last.segment || again.offset >= last.offset + extent_len(50_000), "{again:?}");
    drop(store);
    let (store, _) = open(&disk, &small());
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
}
