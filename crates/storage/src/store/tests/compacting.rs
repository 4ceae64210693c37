//! Where holes cannot be punched, what lives moves and files go.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_large, put_tree, rows, tree_of};
use crate::disk::faulty::{Chance, FaultyDisk};
use crate::journal::file_name;
use crate::payload::extent::extent_len;
use crate::store::Store;
use crate::{Class, Collected, ReadError, Settings, StorageError};

const LEN: usize = 30_000;

/// Collects until there is nothing left to do; sums what was done.
fn collect(store: &Store, now: u64) -> Collected {
    let mut sum = Collected::default();
    for _ in 0..12 {
        let step = store.collect(WallTime(now)).unwrap();
        sum.chunks += step.chunks;
        sum.segments += step.segments;
        sum.moved += step.moved;
        sum.bytes += step.bytes;
    }
    sum
}

/// Puts so many and deletes all but every tenth.
fn thinned(store: &Store, count: u64) {
    for number in 0..count {
        put_large(store, &format!("{number}"), number, &body(number, LEN)).unwrap();
    }
    for number in (0..count).filter(|number| number % 10 != 8) {
        delete(store, &format!("{number}")).unwrap();
    }
    collect(store, 0);
}

fn holds(store: &Store, count: u64) {
    for number in 0..count {
        let bytes = body(number, LEN);
        let read = store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
        assert_eq!(read.ok(), (number % 10 == 8).then(|| bytes.into()), "{number}");
    }
    audit(store);
}

#[test]
fn the_living_move_and_the_files_go() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    thinned(&store, 80);
    let (before, taken) = (store.usage().payload, disk.taken());
    let collected = collect(&store, CHUNK_REST_MS);
    let after = store.usage().payload;
    assert_eq!((collected.chunks, collected.bytes), (72, 0), "nothing can be punched");
    assert!(collected.moved >= 7 * extent_len(LEN as u32), "{collected:?}");
    assert!(after.segments <= 2 && before.segments >= 10, "{before:?} {after:?}");
    assert!(disk.taken() + (before.segments - 3) * (250 << 10) < taken, "{} of {taken}", disk.taken());
    assert_eq!(store.usage().moved, collected.moved);
    holds(&store, 80);
    assert_eq!(collect(&store, 2 * CHUNK_REST_MS).moved, 0, "what is full of life rests");
    drop(store);
    let (store, _) = open(&disk, &settings);
    holds(&store, 80);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    holds(&store, 80);
}

/// Where holes can be punched a segment goes only when next to nothing is left in it.
#[test]
fn where_there_are_holes_only_names_are_won() {
    let settings = Settings { payload_segment_bytes: 1 << 20, ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    for number in 0..120 {
        put_large(&store, &format!("{number}"), number, &body(number, LEN)).unwrap();
    }
    // Of the first segment one is left, of the second ten.
    for number in (0..31).filter(|number| *number != 5).chain(31..52) {
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 0);
    let before = store.usage().payload.segments;
    let collected = collect(&store, CHUNK_REST_MS);
    assert_eq!((collected.moved, collected.segments), (extent_len(LEN as u32), 1));
    assert_eq!(store.usage().payload.segments, before - 1);
    audit(&store);
}

#[test]
fn trees_move_and_what_they_list_stays_counted() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    let parts = [body(901, 9000), body(902, 9000)];
    put_tree(&store, "tree", 900, &parts).unwrap();
    thinned(&store, 30);
    collect(&store, CHUNK_REST_MS);
    let tree = ChunkId::of(&tree_of(&parts));
    assert!(rows(&store.view())[&(DOMAIN, tree)].place.unwrap().segment > 1, "it was moved");
    holds(&store, 30);
    delete(&store, "tree").unwrap();
    for turn in 2..6 {
        collect(&store, turn * CHUNK_REST_MS);
    }
    assert!(
        !store.has_chunk(DOMAIN, tree).unwrap() && !store.has_chunk(DOMAIN, ChunkId::of(&parts[0])).unwrap()
    );
    audit(&store);
}

#[test]
fn one_step_moves_as_much_as_it_may_and_no_more() {
    let settings = Settings { move_bytes: 2 * extent_len(LEN as u32), ..kept() };
    let (store, _) = open(&FaultyDisk::without_holes(), &settings);
    thinned(&store, 80);
    let mut steps = Vec::new();
    for _ in 0..20 {
        steps.push(store.collect(WallTime(CHUNK_REST_MS)).unwrap().moved / extent_len(LEN as u32));
    }
    assert!(steps.iter().all(|moved| *moved <= 2), "{steps:?}");
    assert!(steps.iter().sum::<u64>() >= 7, "{steps:?}");
    holds(&store, 80);
}

/// Several bodies of each segment live, and a step moves one: what is left of a segment is remembered, so that its file is gone
/// through once, and who moves and frees meanwhile is not in the way.
#[test]
fn a_segment_is_emptied_over_many_steps() {
    const SMALL: usize = 5_000;
    let settings = Settings { move_bytes: extent_len(SMALL as u32), ..kept() };
    let (store, _) = open(&FaultyDisk::without_holes(), &settings);
    let lives = |number: u64| number.is_multiple_of(8);
    let count = 200;
    for number in 0..count {
        put_large(&store, &format!("{number}"), number, &body(number, SMALL)).unwrap();
    }
    (0..count)
        .filter(|number| !lives(*number))
        .for_each(|number| delete(&store, &format!("{number}")).unwrap());
    collect(&store, 0);
    let (mut moved, mut kept) = (store.collect(WallTime(CHUNK_REST_MS)).unwrap().moved, 0);
    loop {
        let step = store.move_on().unwrap();
        if step == 0 {
            break;
        }
        assert_eq!(step, extent_len(SMALL as u32), "one at a time");
        moved += step;
        kept += u32::from(store.sweep.lock().unwrap().emptying.is_some());
        if moved == 5 * step {
            // What is to be moved next is gone, and what lives goes on.
            delete(&store, "40").unwrap();
        }
    }
    assert!(moved >= 15 * extent_len(SMALL as u32), "{moved} bytes were moved");
    assert!(kept >= 8, "{kept} steps left something of their segment");
    for number in 0..count {
        let bytes = body(number, SMALL);
        let read = store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
        assert_eq!(read.is_ok(), lives(number), "{number}");
    }
    collect(&store, CHUNK_REST_MS * 2);
    audit(&store);
}

#[test]
fn what_is_damaged_stays_where_it_is_and_the_rest_moves() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    // Two small ones that stay, in one segment, among others that go.
    let (damaged, whole) = (body(1000, 9000), body(1001, 9000));
    put_large(&store, "damaged", 1000, &damaged).unwrap();
    put_large(&store, "whole", 1001, &whole).unwrap();
    thinned(&store, 40);
    let place = rows(&store.view())[&(DOMAIN, ChunkId::of(&damaged))].place.unwrap();
    let file = file_name("payload", place.segment);
    disk.corrupt(&file, |bytes| bytes[place.offset as usize + 5000] ^= 1);
    collect(&store, CHUNK_REST_MS);
    let after = rows(&store.view());
    assert_eq!(after[&(DOMAIN, ChunkId::of(&damaged))].place, Some(place));
    assert_ne!(after[&(DOMAIN, ChunkId::of(&whole))].place.unwrap().segment, place.segment);
    let read = store.read_chunk(DOMAIN, ChunkId::of(&damaged), 0..u32::MAX);
    assert!(matches!(read, Err(ReadError::Damaged(_))));
    // Once it is mended its segment goes too.
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &damaged).unwrap());
    store.settle(|settled| settled.unwrap());
    store.pump();
    collect(&store, 2 * CHUNK_REST_MS);
    assert!(!disk_has(&disk, &file), "the file is gone");
    holds(&store, 40);
}

fn disk_has(disk: &FaultyDisk, name: &str) -> bool {
    use crate::disk::Disk;
    disk.list("payload").unwrap().iter().any(|found| format!("payload/{found}") == name)
}

/// A full disk on which half of everything is deleted, here and there: room comes back, again and again.
#[test]
fn on_a_full_disk_room_comes_back_by_moving() {
    for quota in [false, true] {
        let disk = FaultyDisk::without_holes();
        let capacity_bytes = quota.then_some(4 << 20);
        disk.set_room((!quota).then_some(4 << 20));
        let settings = Settings { capacity_bytes, ..kept() };
        let (store, _) = open(&disk, &settings);
        let (mut chance, mut held, mut number) = (Chance(7), Vec::new(), 0);
        let mut fits = Vec::new();
        for round in 0..4 {
            let before = number;
            loop {
                match put_large(&store, &format!("{number}"), number, &body(number, LEN)) {
                    Ok(()) => held.push(number),
                    Err(StorageError::Full) => break,
                    Err(error) => panic!("{error}"),
                }
                number += 1;
            }
            fits.push(number - before);
            assert!(held.len() > 40, "round {round}: {} held", held.len());
            for _ in 0..held.len() / 2 {
                let gone = held.swap_remove(chance.below(held.len() as u64) as usize);
                delete(&store, &format!("{gone}")).unwrap();
            }
            // Pressed: nothing rests.
            for _ in 0..60 {
                store.collect(WallTime(0)).unwrap();
            }
            for &held in &held {
                let bytes = body(held, LEN);
                assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
            }
            audit(&store);
        }
        assert!(fits[1..].iter().all(|count| count * 3 >= fits[0]), "quota {quota}: {fits:?}");
        assert!(disk.taken() <= 4 << 20);
    }
}

/// Overwrites at half fill: what is written besides what is stored stays within bounds.
#[test]
fn overwrites_at_half_fill_move_little() {
    let settings = Settings { capacity_bytes: Some(12 << 20), journal_heads_bytes: 64 << 10, ..kept() };
    let (store, _) = open(&FaultyDisk::without_holes(), &settings);
    let keys = (6 << 20) / extent_len(LEN as u32);
    let (mut chance, mut stored) = (Chance(3), 0);
    for number in 0..keys * 6 {
        let key = if number < keys { number } else { chance.below(keys) };
        let bytes = body(number, LEN);
        while let Err(error) = put_large(&store, &format!("{key}"), number, &bytes) {
            assert!(matches!(error, StorageError::Full), "{error}");
            store.collect(WallTime(number * CHUNK_REST_MS)).unwrap();
        }
        stored += u64::from(number >= keys) * extent_len(LEN as u32);
        if number % 4 == 0 {
            store.collect(WallTime(number * CHUNK_REST_MS)).unwrap();
        }
    }
    let moved = store.usage().moved;
    assert!(moved > 0 && moved * 2 < stored, "{moved} moved for {stored} stored");
    audit(&store);
}
