//! A full disk: writes are refused, reads and deletes go on, freed space lets writes resume.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, commit, delete, kept, keys, open, put_large, put_small, say_put};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::journal::segment::HEADER;
use crate::journal::{FOLDER, file_name};
use crate::store::Store;
use crate::{Class, Settings, StorageError};

/// Puts until refused; returns how many there are.
fn fill(store: &Store, put: impl Fn(&Store, u64) -> Result<(), StorageError>) -> u64 {
    for number in 0..10_000 {
        match put(store, number) {
            Ok(()) => {}
            Err(StorageError::Full) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("never full");
}

fn small(store: &Store, number: u64) -> Result<(), StorageError> {
    put_small(store, &format!("key-{number:05}"), number, &body(number, 20_000))
}

fn large(store: &Store, number: u64) -> Result<(), StorageError> {
    put_large(store, &format!("key-{number:05}"), number, &body(number, 60_000))
}

fn journey(
    disk: &FaultyDisk,
    settings: &Settings,
    put: fn(&Store, u64) -> Result<(), StorageError>,
    len: usize,
) {
    let (store, _) = open(disk, settings);
    let count = fill(&store, put);
    assert!(count > 5, "only {count} fit");
    assert!(store.usage().full);
    for number in 0..count {
        let bytes = body(number, len);
        assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
    }
    assert!(matches!(put(&store, count), Err(StorageError::Full)), "still full");
    // Full over a restart as well.
    drop(store);
    let (store, _) = open(disk, settings);
    assert!(matches!(put(&store, count), Err(StorageError::Full)), "still full");
    let mut pressed = false;
    for number in 0..count {
        delete(&store, &format!("key-{number:05}")).unwrap();
        if number % 50 == 49 {
            pressed |= store.collect(WallTime(0)).unwrap().pressed;
        }
    }
    assert!(keys(&store.view()).is_empty());
    for _ in 0..100 {
        pressed |= store.collect(WallTime(0)).unwrap().pressed;
    }
    assert!(pressed, "resting was not cut short");
    put(&store, count).unwrap();
    assert!(!store.usage().full);
    let again = fill(&store, |store, number| match put(store, number) {
        // What still rests goes when the room is needed.
        Err(StorageError::Full) => {
            for _ in 0..40 {
                store.collect(WallTime(0)).unwrap();
            }
            put(store, number)
        }
        result => result,
    });
    assert!(again + 3 >= count / 2, "{again} fit again, {count} before");
    audit(&store);
}

#[test]
fn quota_and_payload() {
    let settings = Settings { capacity_bytes: Some(2 << 20), ..kept() };
    journey(&FaultyDisk::default(), &settings, large, 60_000);
}

#[test]
fn quota_and_small_bodies() {
    let settings = Settings { capacity_bytes: Some(2 << 20), ..kept() };
    journey(&FaultyDisk::default(), &settings, small, 20_000);
}

/// Bodies that fill no block: their space comes back by stripping.
fn tiny(store: &Store, number: u64) -> Result<(), StorageError> {
    put_small(store, &format!("key-{number:05}"), number, &body(number, 1500))
}

#[test]
fn quota_and_bodies_smaller_than_a_block() {
    let settings = Settings { capacity_bytes: Some(2 << 20), ..kept() };
    journey(&FaultyDisk::default(), &settings, tiny, 1500);
}

#[test]
fn a_disk_that_is_full_itself() {
    let disk = FaultyDisk::default();
    disk.set_room(Some(2 << 20));
    journey(&disk, &kept(), large, 60_000);
    assert!(disk.taken() <= 2 << 20);
}

/// The free bytes of the file system say that there is room.
#[test]
fn a_quota_of_the_file_system_is_a_full_disk() {
    let disk = FaultyDisk::default();
    disk.set_quota(Some(2 << 20));
    let (store, _) = open(&disk, &kept());
    let count = fill(&store, large);
    assert!(count > 5 && store.usage().full, "{count}");
    for number in 0..count {
        delete(&store, &format!("key-{number:05}")).unwrap();
    }
    for _ in 0..40 {
        store.collect(WallTime(0)).unwrap();
    }
    large(&store, count).unwrap();
    audit(&store);
}

#[test]
fn the_reserve_holds_many_deletes() {
    let settings = Settings { capacity_bytes: Some(1 << 20), ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let count = fill(&store, |store, number| {
        put_small(store, &format!("key-{number:05}"), number, &body(number, 2000))
    });
    assert!(count > 300);
    for number in 0..count {
        delete(&store, &format!("key-{number:05}")).unwrap();
    }
    assert!(keys(&store.view()).is_empty());
}

/// As a member that is full hears of deletes elsewhere: each takes its place in the journal and frees nothing here.
#[test]
fn deletes_that_free_nothing_leave_the_collector_what_it_needs() {
    let settings = Settings { capacity_bytes: Some(2 << 20), ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let count = fill(&store, large);
    for number in 0..count {
        delete(&store, &format!("key-{number:05}")).unwrap();
    }
    let refused = (0..10_000).find_map(|_| delete(&store, "nothing").err());
    assert!(matches!(refused, Some(StorageError::Full)), "{refused:?}");
    for _ in 0..20 {
        store.collect(WallTime(0)).unwrap();
    }
    delete(&store, "nothing").unwrap();
    large(&store, count).unwrap();
    audit(&store);
}

/// Copies of other sites' payload up to the cap of the cache; how many.
fn copies(store: &Store) -> u64 {
    for number in 0..20 {
        let bytes = body(1_000_000 + number, 40_000);
        commit(store, vec![say_put(&format!("far-{number}"), number, ChunkId::of(&bytes))]).unwrap();
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    }
    store.pump();
    store.usage().cached.bytes
}

/// The next put of the same chunk, which clients send again, would wait for ever.
#[test]
fn a_put_for_which_no_room_could_be_made_holds_nobody_up() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &Settings { cache_bytes: 1 << 20, ..kept() });
    assert!(copies(&store) > 600_000);
    disk.set_room(Some(disk.taken()));
    // Copies would make way, but their space cannot be given back.
    disk.cut_at(Some(disk.ops()));
    let bytes = body(1, 60_000);
    let put = || store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).map(drop);
    let refused = put();
    assert!(matches!(refused, Err(StorageError::Full)), "{refused:?}");
    assert!(!store.live.lock().is_used((DOMAIN, ChunkId::of(&bytes))));
    disk.cut_at(None);
    disk.set_room(None);
    put().unwrap();
}

/// Fills a store without copies and one with: nothing is refused while there are copies.
fn copies_make_way(put: fn(&Store, u64) -> Result<(), StorageError>) {
    let settings = || Settings { capacity_bytes: Some(3 << 20), cache_bytes: 1 << 20, ..kept() };
    let (without, _) = open(&FaultyDisk::default(), &settings());
    let room = fill(&without, put);
    let (store, _) = open(&FaultyDisk::default(), &settings());
    let before = copies(&store);
    assert!(before > 600_000, "{before}");
    let count = fill(&store, put);
    let left = store.usage().cached;
    assert_eq!(left.bytes, 0, "a write was refused though copies were left");
    assert_eq!(left.evicted_bytes, before);
    assert!(count * 10 >= room * 8, "{count} fit, {room} without copies");
    audit(&store);
    // And none comes where writes have no room.
    let bytes = body(5, 40_000);
    assert!(matches!(
        store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes),
        Err(StorageError::Full)
    ));
}

#[test]
fn copies_make_way_for_payload() {
    copies_make_way(large);
}

#[test]
fn copies_make_way_for_small_bodies() {
    copies_make_way(small);
}

/// Bodies of 4 KiB of which the most that may live do, overwritten at random: dead bytes always come back.
#[test]
fn a_store_with_dead_bytes_in_it_is_never_full_for_long() {
    let disk = FaultyDisk::default();
    let settings = Settings { capacity_bytes: Some(4 << 20), ..kept() };
    let (store, _) = open(&disk, &settings);
    let mut chance = crate::disk::faulty::Chance(5);
    let keys = 700;
    for number in 0..3 * keys {
        let key = if number < keys { number } else { chance.next() % keys };
        let bytes = body(number, 4096);
        let put = || put_small(&store, &format!("{key}"), number, &bytes);
        let steps = (0..60).find(|step| {
            let now = CHUNK_REST_MS * (number * 60 + step);
            store.collect(WallTime(now)).unwrap();
            put().is_ok()
        });
        assert!(steps.is_some(), "write {number} finds no room: {:?}", store.usage());
    }
    audit(&store);
}

/// What is asked before a body is taken says what its write will find: else a full site neither hands it on nor takes it.
#[test]
fn who_is_asked_for_room_says_what_a_write_finds() {
    let disk = FaultyDisk::default();
    let settings = Settings {
        capacity_bytes: Some(24 << 20),
        journal_segment_bytes: 1 << 20,
        payload_segment_bytes: 8 << 20,
        ..kept()
    };
    let (store, _) = open(&disk, &settings);
    let held_to = |len: usize, put: &dyn Fn(&Store, u64, usize) -> Result<(), StorageError>| {
        fill(&store, |store, number| {
            let said = store.has_room_for(len as u64);
            let found = put(store, number, len);
            assert!(found.is_ok() || !said, "it was said that there is room for {len}: {found:?}");
            found
        })
    };
    let large = |store: &Store, number: u64, len: usize| {
        put_large(store, &format!("large-{number:05}"), number, &body(number, len))
    };
    let small = |store: &Store, number: u64, len: usize| {
        put_small(store, &format!("small-{number:05}"), number, &body(number, len))
    };
    let count = held_to(500_000, &large);
    assert!(count > 20 && store.usage().full && !store.has_room_for(500_000));
    assert!(!store.has_room_for(u64::MAX), "whatever is announced");
    // There is none for a segment of payload; what the journal has of segments is another matter.
    assert!(store.has_room_for(1_000), "{:?}", store.usage());
    small(&store, 10_000, 1_000).unwrap();
    assert!(!store.usage().full, "writes are taken");
    assert!(held_to(20_000, &small) > 10);
    assert!(store.usage().full && !store.has_room_for(1_000));
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert!(store.usage().full && !store.has_room_for(1_000), "a restart makes no room");
    for number in 0..count {
        delete(&store, &format!("large-{number:05}")).unwrap();
        store.collect(WallTime(CHUNK_REST_MS * (number + 1))).unwrap();
    }
    for step in 0..100 {
        store.collect(WallTime(CHUNK_REST_MS * (count + step))).unwrap();
    }
    assert!(!store.usage().full && store.has_room_for(1_000) && store.has_room_for(500_000));
    small(&store, 20_000, 1_000).unwrap();
    audit(&store);
}

/// Another program filled the disk, or it refuses the index only: the journal has its segments still, and each write would add to
/// what lies in memory.
#[test]
fn writes_are_refused_before_what_the_index_cannot_flush_is_all_the_memory() {
    for (room, full) in [(Some(0), true), (None, false)] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        put_small(&store, "a", 1, b"1").unwrap();
        let index = settings.kept.as_ref().unwrap();
        let most = settings.memtable_bytes / 2 * 3;
        index.wait(most - 1);
        put_small(&store, "b", 2, b"2").unwrap();
        index.wait(most);
        disk.set_room(room);
        let refused = put_small(&store, "c", 3, b"3").unwrap_err();
        assert_eq!(matches!(refused, StorageError::Full), full, "{refused}");
        assert!(full || matches!(refused, StorageError::Behind), "{refused}");
        assert_eq!(store.usage().full, full);
        delete(&store, "a").unwrap();
        // Deletes give room back, but not for ever: a flush that is never made would take all the memory there is.
        index.wait(most * 2);
        let refused = delete(&store, "b").unwrap_err();
        assert_eq!(matches!(refused, StorageError::Full), full, "{refused}");
        index.wait(0);
        disk.set_room(None);
        put_small(&store, "c", 3, b"3").unwrap();
        assert!(!store.usage().full);
        audit(&store);
    }
}

/// No start would ever find room for the new one while the old one lies beside it, and no delete can be made before.
#[test]
fn an_index_that_is_given_up_where_no_second_one_has_room_makes_way_unless_only_it_knows() {
    let cases = [
        (100_000, None),
        (500_000, None),
        (100_000, Some("base")),
        // No scrub has seen it yet.
        (100_000, Some("a sealed segment")),
    ];
    for (spare, rotten) in cases {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        for number in 0..60 {
            put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        }
        store.renew_base().unwrap();
        // What lies behind the base lies in the journal alone.
        let behind = |number| put_small(&store, &format!("behind-{number}"), number, &body(number, 3000));
        (0..150).for_each(|number| behind(number).unwrap());
        let before = super::world::keys(&store.view());
        let sealed = file_name(FOLDER, store.core().writer.tail().segment - 1);
        drop(store);
        disk.create("index/v1", 50_000).unwrap();
        disk.create("index/tables/1", 150_000).unwrap();
        match rotten {
            Some("base") => disk.corrupt("base", |bytes| bytes[5_000] ^= 1),
            Some(_) => disk.corrupt(&sealed, |bytes| bytes[HEADER + 20] ^= 1),
            None => {}
        }
        disk.set_room(Some(disk.taken() + spare));
        let asked = Settings { rebuild: true, ..settings.clone() };
        let (store, _) = open(&disk, &asked);
        let lies = |name: &str| disk.names().contains(&name.to_owned());
        assert!(!lies("index/v1"));
        assert_eq!(lies("index-aside/tables/1"), spare > 400_000 || rotten.is_some(), "{spare} {rotten:?}");
        // What the rotten frame said the old index says alone.
        let is_all = super::world::keys(&store.view()) == before;
        assert_eq!(is_all, rotten != Some("a sealed segment"), "{rotten:?}");
    }
}

/// A file system check has cut the last segment of payload short: it holds nothing more, and nobody is told that it does.
#[test]
fn a_payload_segment_that_is_shorter_than_it_was_has_no_room() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    (0..2).for_each(|number| large(&store, number).unwrap());
    store.checkpoint().unwrap();
    drop(store);
    disk.corrupt(&file_name("payload", 1), |bytes| bytes.truncate(8192));
    let (store, _) = open(&disk, &settings);
    disk.set_room(Some(disk.taken() + 100_000));
    assert!(!store.has_room_for(10 << 20));
}
