//! What goes on beside writes costs them little, goes on step by step, and does not begin anew without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, commit, delete, kept, open, put_large, put_small, rows, say_put};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::index;
use crate::{Class, Settings, StorageError};

/// Counts how often a file is opened.
fn opened(disk: &FaultyDisk, name: &str, then: fn() -> std::io::Result<()>) -> Arc<AtomicU64> {
    let count = Arc::<AtomicU64>::default();
    let counted = count.clone();
    disk.on_open(name, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        then()
    });
    count
}

/// They cannot make way, however many writes come.
#[test]
fn kept_copies_on_a_nearly_full_disk_cost_writes_no_flush_of_the_index() {
    let settings = Settings { capacity_bytes: Some(2 << 20), cache_bytes: 1 << 20, ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let ids: Vec<ChunkId> = (0..20)
        .map(|number| {
            let bytes = body(number, 40_000);
            commit(&store, vec![say_put(&format!("far-{number}"), number, ChunkId::of(&bytes))]).unwrap();
            drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
            ChunkId::of(&bytes)
        })
        .collect();
    store.pump();
    store.keep_copies(DOMAIN, &ids, true).unwrap();
    let mut number = 100;
    while store.space.lacks() == 0 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        number += 1;
    }
    let mut flushes = 0;
    for number in 0..30 {
        let before = store.index.durable();
        put_small(&store, "busy", 1000 + number, &body(1000 + number, 500)).unwrap();
        flushes += u32::from(store.index.durable() > before);
    }
    assert!(store.space.lacks() > 0 && !store.space.is_full());
    assert!(flushes <= 3, "{flushes} flushes in 30 writes");
    assert_eq!(store.usage().cached.evicted_bytes, 0);
    // Those that are not kept any more make way.
    store.keep_copies(DOMAIN, &ids, false).unwrap();
    put_small(&store, "more", 2000, &body(2000, 500)).unwrap();
    assert!(store.usage().cached.evicted_bytes > 0);
    audit(&store);
}

/// As after a start: half of each sealed segment is dead, and none was measured.
#[test]
fn a_step_measures_few_segments() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    for number in 0..400 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    (0..400).step_by(2).for_each(|number| delete(&store, &format!("{number}")).unwrap());
    store.collect(WallTime(0)).unwrap();
    let late = opened(&disk, "journal/0000000012.seg", || Ok(()));
    assert!(store.collect(WallTime(CHUNK_REST_MS)).unwrap().more);
    assert_eq!(late.load(Ordering::Relaxed), 0);
    let steps = (0..200).find(|_| {
        store.checkpoint().unwrap();
        !store.collect(WallTime(CHUNK_REST_MS)).unwrap().more
    });
    assert!(steps.is_some() && late.load(Ordering::Relaxed) > 0, "{steps:?}");
    audit(&store);
}

#[test]
fn a_base_that_cannot_be_written_is_not_written_again_at_once() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    for number in 0..1200 {
        put_small(&store, &format!("{}", number % 40), number, &body(number, 40)).unwrap();
    }
    let tried = opened(&disk, "base.new", || Err(std::io::Error::other("the disk does not answer")));
    let failed = store.collect(WallTime(0));
    assert!(matches!(failed, Err(StorageError::Io { .. })), "{failed:?}");
    assert!(!disk.names().contains(&"base.new".to_owned()), "nor does it take room meanwhile");
    for _ in 0..5 {
        store.collect(WallTime(0)).unwrap();
    }
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    // There is more to be said later.
    disk.on_open("none", || Ok(()));
    for number in 0..400 {
        put_small(&store, &format!("{}", number % 40), number, &body(number, 400)).unwrap();
    }
    store.collect(WallTime(0)).unwrap();
    assert!(disk.names().contains(&"base".to_owned()));
}

/// The reading that a base is written of knows the trees, the store of now does not.
#[test]
fn what_trees_list_that_are_let_go_of_while_a_base_is_written_is_not_counted_for_ever() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let trees: Vec<Vec<Vec<u8>>> = [1, 3].map(|n| vec![body(n, 9_000), body(n + 1, 9_000)]).into();
    for (number, bodies) in (0..).zip(&trees) {
        super::world::put_tree(&store, &format!("tree-{number}"), number, bodies).unwrap();
    }
    put_large(&store, "behind", 9, &body(9, 50_000)).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    let ids =
        trees.iter().map(|bodies| vec![ChunkId::of(&super::world::tree_of(bodies))]).collect::<Vec<_>>();
    let releases = Arc::downgrade(&store);
    disk.on_open("payload/0000000001.seg", move || {
        releases.upgrade().unwrap().release(DOMAIN, &ids).unwrap();
        Ok(())
    });
    store.renew_base().unwrap();
    disk.on_open("none", || Ok(()));
    for step in 0..8 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    let leaves = trees.iter().flatten().map(|body| (DOMAIN, ChunkId::of(body)));
    let counted: Vec<i64> =
        leaves.filter_map(|leaf| rows(&store.view()).get(&leaf).map(|row| row.references)).collect();
    assert_eq!(counted, [0; 0], "nothing lists them");
}

#[test]
fn an_index_that_was_given_up_makes_way_on_a_disk_that_is_nearly_full() {
    for damaged in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
        let (store, _) = open(&disk, &settings);
        for number in 0..40 {
            put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        }
        drop(store);
        if damaged {
            disk.corrupt("journal/0000000001.seg", |bytes| bytes[64 + 50] ^= 1);
        }
        settings.kept.as_ref().unwrap().lose();
        let settings = Settings { capacity_bytes: Some(600 << 10), ..settings };
        let (store, _) = open(&disk, &settings);
        // The engine of these tests has no files of its own.
        let name = format!("{}/1", index::ASIDE);
        disk.create(&name, 0).unwrap();
        let is_there = || disk.names().contains(&name);
        assert!(store.collect(WallTime(0)).unwrap().pressed);
        assert_eq!(is_there(), damaged, "it may be all that says what the journal does not");
    }
}

#[test]
fn what_was_answered_is_synced_though_a_step_of_the_collector_goes_on() {
    let (disk, settings) = (FaultyDisk::default(), Settings { lazy: true, ..kept() });
    let (store, _) = open(&disk, &settings);
    let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(5, 90_000)).unwrap();
    commit(&store, vec![say_put("a", 1, pin.id()).lazy()]).unwrap();
    assert!(store.usage().unsynced > 90_000);
    let step = store.sweep.lock().unwrap();
    store.sync_answered().unwrap();
    drop(step);
    assert_eq!(store.usage().unsynced, 0);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk.power_cut(1), &settings);
    assert_eq!(store.read_chunk(DOMAIN, pin.id(), 0..u32::MAX).unwrap(), body(5, 90_000));
}
