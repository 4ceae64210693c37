//! A sector that cannot be read, a hole that cannot be punched: it costs what lies there, and keeps nothing else from being
//! read, collected, or brought up again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, audit, body, commit, delete, kept, keys, open, put_large, put_small, rows, say_delete, say_put,
    small_put, submit, tree_of,
};
use crate::chunks::row::{Area, Place};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::{extent_len, header_len};
use crate::store::{IndexState, Store};
use crate::{Class, ReadError, Settings, StorageError};

fn place_of(store: &Store, bytes: &[u8]) -> Place {
    rows(&store.view())[&(DOMAIN, ChunkId::of(bytes))].place.unwrap()
}

/// The sector at which something begins.
fn spoil(disk: &FaultyDisk, place: Place) {
    disk.spoil(&file_name(place.area.folder(), place.segment), place.offset..place.offset + 512);
}

/// Steps of the collector, of which none may fail.
fn collect(store: &Store, from: u64) {
    for step in from..from + 10 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
}

#[test]
fn the_cache_is_trimmed_past_a_sector_that_cannot_be_read() {
    let (disk, settings) =
        (FaultyDisk::default(), Settings { cache_bytes: 12 * extent_len(20_000), ..kept() });
    let (store, _) = open(&disk, &settings);
    let copy = |number: u64| {
        let bytes = body(number, 20_000);
        commit(&store, vec![say_put(&format!("{number}"), number, ChunkId::of(&bytes))]).unwrap();
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    };
    (0..4).for_each(copy);
    store.settle(|result| result.unwrap());
    store.pump();
    spoil(&disk, place_of(&store, &body(1, 20_000)));
    (4..60).for_each(copy);
    put_large(&store, "gone", 99, &body(99, 50_000)).unwrap();
    put_large(&store, "last", 100, &body(100, 50_000)).unwrap();
    delete(&store, "gone").unwrap();
    collect(&store, 1);
    let usage = store.usage();
    assert!(usage.cache.live <= usage.cached.cap, "{usage:?}");
    let len = extent_len(50_000);
    assert_eq!((usage.payload.live, usage.payload.dead), (len, 0), "nor does the rest of the step wait");
}

#[test]
fn journal_segments_come_back_past_one_that_cannot_be_read() {
    // At the head of a frame, at the table, at the header.
    for part in 0..3 {
        let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
        let (store, _) = open(&disk, &settings);
        for number in 0..60 {
            put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        }
        let name = file_name("journal", 1);
        let len = disk.content(&name).len() as u64;
        let bad = [20_480, len - 512, 0][part];
        disk.spoil(&name, bad..bad + 512);
        for number in (0..60).filter(|number| number % 20 != 3) {
            delete(&store, &format!("{number}")).unwrap();
        }
        let before = store.usage().journal;
        collect(&store, 1);
        let after = store.usage().journal;
        assert!(before.allocated - after.allocated > 90_000, "part {part}: {before:?} {after:?}");
        assert_eq!(after.live, 3 * 3000);
        audit(&store);
    }
}

/// Before the base a segment is not needed for what it says: what lives in it is known to the index.
#[test]
fn a_damaged_journal_segment_before_the_base_is_emptied_and_goes() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    for number in 0..60 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    let name = file_name("journal", 1);
    disk.corrupt(&name, |bytes| bytes[70] ^= 1);
    store.renew_base().unwrap();
    for number in (0..60).filter(|number| number % 20 != 3) {
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 1);
    assert!(!disk.names().contains(&name));
    let lives = |number: &u64| store.has_chunk(DOMAIN, ChunkId::of(&body(*number, 3000))).unwrap();
    assert_eq!((0..60).filter(lives).collect::<Vec<_>>(), [3, 23, 43]);
    audit(&store);
}

#[test]
fn segments_are_emptied_past_one_that_cannot_be_read() {
    let disk = FaultyDisk::without_holes();
    let (store, _) = open(&disk, &Settings { payload_segment_bytes: 128 << 10, ..kept() });
    for number in 0..40 {
        put_large(&store, &format!("{number}"), number, &body(number, 20_000)).unwrap();
    }
    let place = place_of(&store, &body(0, 20_000));
    spoil(&disk, place);
    for number in (0..40).filter(|number| number % 8 != 0) {
        delete(&store, &format!("{number}")).unwrap();
    }
    let before = store.usage().payload.segments;
    collect(&store, 1);
    assert!(store.usage().payload.segments + 3 < before, "{:?}", store.usage());
    let reads = |number: &u64| store.check_chunk(DOMAIN, ChunkId::of(&body(*number, 20_000))).is_ok();
    assert_eq!((0..40).filter(reads).collect::<Vec<_>>(), [8, 16, 24, 32]);
    disk.heal(&file_name("payload", place.segment));
    assert!(reads(&0), "what could not be read stayed where it was");
    audit(&store);
}

#[test]
fn a_hole_that_cannot_be_punched_keeps_no_other_from_it_and_is_tried_again() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    for number in 0..8 {
        put_large(&store, &format!("{number}"), number, &body(number, 60_000)).unwrap();
    }
    let ill = Arc::new(AtomicBool::new(true));
    let is_ill = ill.clone();
    disk.on_punch(&file_name("payload", 1), move || match is_ill.load(Ordering::Relaxed) {
        true => Err(io::Error::other("Input/output error")),
        false => Ok(()),
    });
    // One of the first segment, which keeps living chunks, and one of the second.
    delete(&store, "0").unwrap();
    delete(&store, "4").unwrap();
    store.collect(WallTime(0)).unwrap();
    store.checkpoint().unwrap();
    let mut told = 0;
    for step in 1..6 {
        store.checkpoint().unwrap();
        told += usize::from(store.collect(WallTime(step * CHUNK_REST_MS)).is_err());
        store.checkpoint().unwrap();
    }
    assert!((1..=3).contains(&told), "{told}: it is told, and not at every step");
    assert_eq!(store.usage().payload.dead, extent_len(60_000), "only that of the first segment");
    ill.store(false, Ordering::Relaxed);
    collect(&store, 10);
    assert_eq!(store.usage().payload.dead, 0);
    audit(&store);
}

/// Copies would have to go, and their space does not come back: for who writes the disk is full, whatever the reason.
#[test]
fn who_finds_no_room_because_copies_cannot_go_is_told_that_the_disk_is_full() {
    let disk = FaultyDisk::default();
    disk.set_room(Some(1 << 20));
    let (store, _) = open(&disk, &Settings { cache_bytes: 1 << 20, ..kept() });
    for number in 0..3 {
        let bytes = body(number, 60_000);
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    }
    store.settle(|result| result.unwrap());
    store.pump();
    for segment in 1..=store.cache.tail().0 {
        disk.on_punch(&file_name("cache", segment), || Err(io::Error::other("Input/output error")));
    }
    for number in 10..40 {
        let put = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(number, 60_000));
        match put {
            Ok(_) => {}
            Err(StorageError::Full) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there was room for everything");
}

#[test]
fn a_rebuild_comes_up_past_sectors_that_cannot_be_read() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    for number in 0..60 {
        put_small(&store, &format!("s{number}"), number, &body(number, 3000)).unwrap();
    }
    for number in 100..112 {
        put_large(&store, &format!("l{number}"), number, &body(number, 60_000)).unwrap();
    }
    for number in 200..204 {
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &body(number, 50_000)).unwrap());
    }
    store.settle(|result| result.unwrap());
    store.pump();
    let (first, large) = (place_of(&store, &body(0, 3000)), place_of(&store, &body(101, 60_000)));
    let (copy, head) = (place_of(&store, &body(201, 50_000)), place_of(&store, &body(5, 3000)));
    assert_eq!(head.segment, first.segment);
    assert_eq!((first.area, large.area, copy.area), (Area::Journal, Area::Payload, Area::Cache));
    let before = keys(&store.view());
    drop(store);
    spoil(&disk, large);
    spoil(&disk, copy);
    // The end of the head of a frame: bodies of a sealed segment are not read.
    disk.spoil(&file_name("journal", first.segment), head.offset - 60..head.offset);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    let lost: u64 = recovery.damage.iter().map(|damage| damage.to - damage.from).sum();
    assert!((1..3).contains(&lost), "{recovery:?}");
    let after = keys(&store.view());
    assert_eq!(after.len() as u64, before.len() as u64 - lost);
    collect(&store, 1);
    for number in (100..112).filter(|number| *number != 101) {
        store.check_chunk(DOMAIN, ChunkId::of(&body(number, 60_000))).unwrap();
    }
    audit(&store);
    // It is not punched out for that: the sector may be read again one day.
    drop(store);
    disk.heal(&file_name("payload", large.segment));
    disk.heal(&file_name("journal", first.segment));
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    assert_eq!(keys(&store.view()), before);
    store.check_chunk(DOMAIN, ChunkId::of(&body(101, 60_000))).unwrap();
    audit(&store);
}

/// Scrubs a whole round; the names of what it found damaged.
fn damaged(store: &Store) -> Vec<ChunkId> {
    store.begin_scrub(WallTime(1)).unwrap();
    let mut found = Vec::new();
    loop {
        let step = store.scrub(u64::MAX, WallTime(1)).unwrap();
        found.extend(step.damaged.iter().map(|chunk| chunk.id));
        if step.finished {
            return found;
        }
    }
}

/// The bad sector lies in a body of a sealed segment, beside others that live and more that do not.
#[test]
fn a_body_that_cannot_be_read_is_damaged_and_takes_nothing_with_it() {
    for (based, rebuilt) in [(false, false), (false, true), (true, false), (true, true)] {
        let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
        let (store, _) = open(&disk, &settings);
        for number in 0..60 {
            put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        }
        let (bad, id) = (place_of(&store, &body(3, 3000)), ChunkId::of(&body(3, 3000)));
        assert_eq!((bad.area, bad.segment), (Area::Journal, 1));
        let stays = [1, 3, 4, 5, 23, 43];
        if based {
            store.renew_base().unwrap();
        }
        // Not in the head of the frame behind it.
        disk.spoil(&file_name("journal", 1), bad.offset + 1024..bad.offset + 1536);
        let case = format!("based {based}, rebuilt {rebuilt}");
        let is_damaged = |store: &Store| {
            let read = store.read_chunk(DOMAIN, id, 0..u32::MAX);
            assert!(matches!(read, Err(ReadError::Damaged(_))), "{case}: {read:?}");
            assert!(!store.has_chunk(DOMAIN, id).unwrap(), "{case}: others would count on it");
            assert_eq!(damaged(store), [id], "{case}");
            for number in stays.into_iter().filter(|number| *number != 3) {
                let read = store.read_chunk(DOMAIN, ChunkId::of(&body(number, 3000)), 0..u32::MAX);
                assert_eq!(read.unwrap(), body(number, 3000), "{case}: {number}");
            }
        };
        is_damaged(&store);
        for number in (0..60).filter(|number| !stays.contains(number)) {
            delete(&store, &format!("{number}")).unwrap();
        }
        collect(&store, 1);
        is_damaged(&store);
        let held = keys(&store.view());
        drop(store);
        if rebuilt {
            settings.kept.as_ref().unwrap().lose();
        }
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage, keys(&store.view())), (vec![], held), "{case}: no record is gone");
        collect(&store, 20);
        is_damaged(&store);
        assert_eq!(place_of(&store, &body(3, 3000)), bad, "{case}: it may be read again one day");
        let beside = |number: &u64| place_of(&store, &body(*number, 3000)).segment == bad.segment;
        assert_eq!(stays.into_iter().filter(beside).collect::<Vec<_>>(), [3], "{case}: the others moved on");
        disk.heal(&file_name("journal", 1));
        assert_eq!(damaged(&store), [], "{case}");
        audit(&store);
        // As the node does with what another holder sent.
        disk.spoil(&file_name("journal", 1), bad.offset + 1024..bad.offset + 1536);
        assert_eq!(damaged(&store), [id], "{case}");
        put_small(&store, "3", 3, &body(3, 3000)).unwrap();
        assert_eq!((damaged(&store), store.has_chunk(DOMAIN, id).unwrap()), (vec![], true), "{case}");
        assert_ne!(place_of(&store, &body(3, 3000)), bad, "{case}");
        let before = store.space.of(Area::Journal, bad.segment).len;
        collect(&store, 40);
        assert_eq!(store.usage().journal.live, 3000 * stays.len() as u64, "{case}");
        let after = store.space.of(Area::Journal, bad.segment).len;
        assert!(after * 4 < before, "{case}: its segment comes back: {before} bytes, {after} now");
        audit(&store);
    }
}

/// A power cut may leave such a sector in a torn write; it may also be that of an acknowledged one, so the record stays.
#[test]
fn a_body_at_the_end_of_the_journal_that_cannot_be_read_costs_no_record() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    for number in 0..8 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    let last = place_of(&store, &body(7, 3000));
    drop(store);
    disk.spoil(&file_name("journal", last.segment), last.offset + 1024..last.offset + 1536);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 8));
    let read = store.read_chunk(DOMAIN, ChunkId::of(&body(7, 3000)), 0..u32::MAX);
    assert!(matches!(read, Err(ReadError::Damaged(_))), "{read:?}");
    put_small(&store, "again", 9, &body(9, 3000)).unwrap();
    drop(store);
    disk.heal(&file_name("journal", last.segment));
    let (store, _) = open(&disk, &settings);
    assert_eq!(keys(&store.view()).len(), 9);
    audit(&store);
}

/// Puts eight in one group, of which the index takes nothing that lasts; where their bodies lie.
fn group_of_eight(disk: &FaultyDisk, settings: &Settings) -> Vec<Place> {
    let (store, _) = open(disk, settings);
    let puts = (0..8).map(|number| small_put(&format!("{number}"), number, &body(number, 6000)));
    let answers: Vec<_> = puts.map(|put| submit(&store, vec![put])).collect();
    store.pump();
    assert!(answers.iter().all(|answer| matches!(*answer.lock().unwrap(), Some(Ok(())))));
    (0..8).map(|number| place_of(&store, &body(number, 6000))).collect()
}

/// All of a group say that what lay before it was durable, and none that the one before it in the group is.
#[test]
fn a_head_at_the_end_of_the_journal_that_cannot_be_read_costs_its_frame_and_none_behind() {
    for gone in 0..8 {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let places = group_of_eight(&disk, &settings);
        let name = file_name("journal", 1);
        let head = places[gone].offset - 64;
        disk.spoil(&name, head..head + 64);
        let bytes = disk.content(&name);
        let (store, recovery) = open(&disk, &settings);
        let lost: Vec<_> = recovery.damage.iter().map(|damage| (damage.from, damage.to)).collect();
        let lsn = gone as u64 + 1;
        assert_eq!((keys(&store.view()).len(), lost), (7, vec![(lsn, lsn + 1)]), "frame {gone}");
        put_small(&store, "again", 9, &body(9, 3000)).unwrap();
        assert_eq!(keys(&store.view()).len(), 8);
        audit(&store);
        drop(store);
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((keys(&store.view()).len(), recovery.index), (8, IndexState::Opened), "frame {gone}");
        drop(store);
        let end = places[7].offset as usize + 6000;
        assert_eq!(disk.content(&name)[..end], bytes[..end], "frame {gone}: nothing was written over it");
        disk.heal(&name);
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((keys(&store.view()).len(), recovery.damage), (9, vec![]), "frame {gone}");
        audit(&store);
        collect(&store, 1);
        audit(&store);
    }
}

/// A card may refuse to write what it cannot read.
#[test]
fn a_torn_end_of_the_journal_that_cannot_be_written_over_stops_no_start() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let places = group_of_eight(&disk, &settings);
    let name = file_name("journal", 1);
    disk.corrupt(&name, |bytes| bytes[places[7].offset as usize + 9] ^= 1);
    disk.on_write(&name, || Err(io::Error::other("Input/output error")));
    let (store, recovery) = open(&disk, &settings);
    assert!(recovery.torn.is_some() && recovery.damage.is_empty(), "{recovery:?}");
    put_small(&store, "again", 9, &body(9, 3000)).unwrap();
    assert_eq!(keys(&store.view()).len(), 8);
    audit(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((keys(&store.view()).len(), recovery.damage), (8, vec![]));
    audit(&store);
}

/// A store whose journal has a base, and whose index is gone.
fn based(disk: &FaultyDisk, settings: &Settings) {
    let (store, _) = open(disk, settings);
    for number in 0..60 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    store.renew_base().unwrap();
    drop(store);
    settings.kept.as_ref().unwrap().lose();
}

/// An index without what a base says would be taken for all there is, and the next base be written from it.
#[test]
fn a_base_that_cannot_be_read_just_now_is_not_taken_for_none() {
    for at in [0, 5_000] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        based(&disk, &settings);
        disk.spoil("base", at..at + 512);
        let opened = Store::open(Arc::new(disk.clone()), Arc::new(super::world::Keys), settings.clone());
        let refused = opened.map(drop).unwrap_err().to_string();
        assert!(refused.contains("move the file `base` away"), "{refused}");
        disk.heal("base");
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 60));
        audit(&store);
    }
}

/// As a copy of the directory that lost a file, or `fsck`, leaves it: the index says it all, and a rebuild would lose it.
#[test]
fn a_base_or_a_segment_that_is_gone_is_no_other_than_one_that_is_damaged() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    for number in 0..60 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    store.renew_base().unwrap();
    for number in (0..60).filter(|number| number % 20 != 3) {
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 1);
    for number in 60..120 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(store.examine().unwrap().base, None);
    let held = keys(&store.view());
    let segments: Vec<_> = store.space.each(Area::Journal).into_iter().map(|(number, _)| number).collect();
    let (first, active) = (store.base_segment.load(Ordering::Relaxed), store.core().writer.tail().segment);
    drop(store);
    assert!(segments[0] > 1 && active > first + 2, "{segments:?} {first} {active}");
    let middle = segments.iter().copied().find(|number| *number > first + 1).unwrap();
    let kept_rows = settings.kept.as_ref().unwrap();
    for gone in ["base".to_owned(), file_name("journal", middle)] {
        for marked in [false, true] {
            let (disk, case) = (disk.copied(), format!("{gone}, marked {marked}"));
            let settings = Settings { kept: Some(Arc::new(kept_rows.copied())), ..settings.clone() };
            disk.remove(&gone).unwrap();
            if marked && gone == "base" {
                disk.create(crate::index::health::MARKER, 0).unwrap();
            }
            let (store, recovery) = open(&disk, &settings);
            assert_eq!(recovery.index, IndexState::Opened, "{case}");
            let examined = store.examine().unwrap();
            assert_eq!(
                (examined.base.is_some(), examined.segments.is_empty()),
                (gone == "base", gone == "base"),
                "{case}"
            );
            store.note_hurt(&examined.segments);
            store.checkpoint().unwrap();
            store.collect(WallTime(1)).unwrap();
            assert!(disk.names().contains(&"base".to_owned()), "{case}");
            drop(store);
            settings.kept.as_ref().unwrap().lose();
            let (store, _) = open(&disk, &settings);
            assert_eq!(
                keys(&store.view()).keys().collect::<Vec<_>>(),
                held.keys().collect::<Vec<_>>(),
                "{case}"
            );
        }
    }
}

/// What the index was rebuilt from in its place is needed from then on.
#[test]
fn a_rebuild_without_a_damaged_base_needs_the_segments_before_it() {
    for at in [9, 5_000] {
        let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
        based(&disk, &settings);
        disk.corrupt("base", |bytes| bytes[at] ^= 1);
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 60), "the journal has it all");
        for number in (0..60).filter(|number| number % 20 != 3) {
            delete(&store, &format!("{number}")).unwrap();
        }
        collect(&store, 1);
        assert_eq!(keys(&store.view()).len(), 3);
        drop(store);
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage, keys(&store.view()).len()), (vec![], 3), "byte {at}");
        audit(&store);
    }
}

/// Copies are not synced, and what the index says of them is. `vanish`: what a power cut took of the first segment.
fn forgets_vanished_copies(disk: &FaultyDisk, vanish: impl Fn(&FaultyDisk, &str)) {
    let settings = Settings { cache_bytes: 20 * extent_len(20_000), ..kept() };
    let (store, _) = open(disk, &settings);
    let copy = |store: &Store, number: u64| {
        let bytes = body(number, 20_000);
        commit(store, vec![say_put(&format!("{number}"), number, ChunkId::of(&bytes))]).unwrap();
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    };
    (0..12).for_each(|number| copy(&store, number));
    store.settle(|result| result.unwrap());
    store.pump();
    store.checkpoint().unwrap();
    let first = place_of(&store, &body(0, 20_000)).segment;
    assert!(
        store.space.of(Area::Cache, first).live >= 5 * extent_len(20_000) && store.cache.tail().0 > first
    );
    drop(store);
    vanish(disk, &file_name("cache", first));
    let (store, _) = open(disk, &settings);
    // Enough to have the rest of the segment make way, and the hand come around.
    (100..160).for_each(|number| copy(&store, number));
    collect(&store, 1);
    (200..260).for_each(|number| copy(&store, number));
    collect(&store, 20);
    assert_eq!(store.space.of(Area::Cache, first).live, 0, "{:?}", store.space.of(Area::Cache, first));
    assert!(!disk.names().contains(&file_name("cache", first)));
    audit(&store);
}

#[test]
fn copies_that_a_power_cut_took_are_forgotten_and_their_segment_goes() {
    let blank = |disk: &FaultyDisk, name: &str| disk.corrupt(name, |bytes| bytes[4096..60_000].fill(0));
    let gone = |disk: &FaultyDisk, name: &str| disk.remove(name).unwrap();
    forgets_vanished_copies(&FaultyDisk::default(), gone);
    forgets_vanished_copies(&FaultyDisk::default(), blank);
    forgets_vanished_copies(&FaultyDisk::without_holes(), gone);
    forgets_vanished_copies(&FaultyDisk::without_holes(), blank);
}

/// The rest of the site is worth more than copies, which may go at any time. Of others the error names the file.
#[test]
fn a_segment_of_copies_that_cannot_be_opened_stops_no_start() {
    for rebuilt in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let copy = body(1, 20_000);
        commit(&store, vec![say_put("copy", 1, ChunkId::of(&copy))]).unwrap();
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &copy).unwrap());
        put_large(&store, "large", 2, &body(2, 20_000)).unwrap();
        store.settle(|result| result.unwrap());
        store.pump();
        store.checkpoint().unwrap();
        drop(store);
        if rebuilt {
            settings.kept.as_ref().unwrap().lose();
        }
        disk.on_open("payload/0000000001.seg", || Err(io::Error::other("Input/output error")));
        let opened = Store::open(Arc::new(disk.clone()), Arc::new(super::world::Keys), settings.clone());
        let refused = opened.map(drop).unwrap_err().to_string();
        assert!(refused.contains("payload/0000000001.seg"), "{refused}");
        disk.on_open("cache/0000000001.seg", || Err(io::Error::other("Input/output error")));
        let (store, _) = open(&disk, &settings);
        store.check_chunk(DOMAIN, ChunkId::of(&body(2, 20_000))).unwrap();
        let read = store.read_chunk(DOMAIN, ChunkId::of(&copy), 0..u32::MAX);
        assert!(matches!(read, Err(ReadError::Absent)), "{read:?}");
        let other = body(3, 20_000);
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &other).unwrap());
        store.check_chunk(DOMAIN, ChunkId::of(&other)).unwrap();
    }
}

/// As after a kill: the index is as of its last flush, and what was said since is replayed. What a record refers to was on the disk
/// before the record, so that what does not read whole has rotted.
#[test]
fn a_body_that_rotted_before_the_next_flush_is_told_of_at_the_start() {
    for is_tree in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        put_large(&store, "early", 1, &body(1, 50_000)).unwrap();
        store.checkpoint().unwrap();
        let flushed = Arc::new(settings.kept.as_ref().unwrap().copied());
        let (rots, stays) = (body(2, 50_000), body(3, 60_000));
        let top = if is_tree { tree_of(&[rots.clone(), stays.clone()]) } else { rots.clone() };
        let bodies: &[&[u8]] = if is_tree { &[&rots, &stays] } else { &[] };
        let kind = if is_tree { ChunkKind::Tree } else { ChunkKind::Leaf };
        let put = |bytes: &[u8], kind| store.put_chunk(DOMAIN, Class::Payload, kind, bytes).unwrap();
        let pins: Vec<_> =
            bodies.iter().map(|leaf| put(leaf, ChunkKind::Leaf)).chain([put(&top, kind)]).collect();
        commit(&store, vec![say_put("rots", 2, ChunkId::of(&top))]).unwrap();
        drop(pins);
        put_large(&store, "stays", 3, &stays).unwrap();
        let place = place_of(&store, &top);
        drop(store);
        let at = place.offset as usize + header_len(top.len() as u32) + 20;
        disk.corrupt(&file_name("payload", place.segment), |content| content[at] ^= 1);
        let settings = Settings { kept: Some(flushed), ..settings };
        let (store, recovery) = open(&disk, &settings);
        let told: Vec<ChunkId> = recovery.rotten.iter().map(|chunk| chunk.id).collect();
        assert_eq!((told, recovery.index), (vec![ChunkId::of(&top)], IndexState::Opened));
        assert_eq!(store.scrub_listed(), [(DOMAIN, ChunkId::of(&top))].into());
        let read = |bytes: &[u8]| store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX);
        assert!(read(&top).is_err() && read(&stays).unwrap() == stays);
        drop(store.put_chunk(DOMAIN, Class::Payload, kind, &top).unwrap());
        commit(&store, vec![say_delete("none")]).unwrap();
        assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&top), 0..u32::MAX).unwrap(), top, "mended");
        store.settle(|result| result.unwrap());
        store.pump();
        assert!(damaged(&store).is_empty());
        assert!(store.recheck(DOMAIN, ChunkId::of(&top)).unwrap() && store.scrub_listed().is_empty());
        audit(&store);
    }
}
