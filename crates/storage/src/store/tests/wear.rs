//! What is written to the disk for what is stored, in a steady state of overwrites, index and collector included; and
//! that the collector has the index flushed for space only when that is worth it.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkKind, WallTime};

use super::world::{
    DOMAIN, audit, body, commit, delete, kept, keys, open, open_on, put_small, small, small_put, submit,
};
use crate::disk::faulty::{Chance, FaultyDisk};
use crate::store::Store;
use crate::{Class, Engine, RealDisk, Settings, StorageError};

const LEN: usize = 4096;
/// Bodies that live.
const KEYS: u64 = 1024;
/// Writers that wait together.
const GROUP: u64 = 16;
/// Groups between two steps of the collector.
const STEP: u64 = 1;

/// What this thread had the kernel write, whatever the file system.
#[cfg(target_os = "linux")]
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Overwrites at random keys; returns bytes written for a byte stored once the store is in its steady state.
#[cfg(target_os = "linux")]
fn overwritten(store: &Store, rounds: u64) -> f64 {
    let (mut chance, mut before, mut stored) = (Chance(9), 0, 0);
    for group in 0..(rounds + 2) * KEYS / GROUP {
        if group == 2 * KEYS / GROUP {
            (before, stored) = (written(), 0);
        }
        let put = |number: u64, chance: &mut Chance| {
            let key = if number < KEYS { number } else { chance.below(KEYS) };
            submit(store, vec![small_put(&format!("{key}"), number, &body(number, LEN))])
        };
        let answers: Vec<_> = (0..GROUP).map(|writer| put(group * GROUP + writer, &mut chance)).collect();
        store.pump();
        for answer in answers {
            // What finds no room is not stored; the collector makes some.
            stored += answer.lock().unwrap().take().unwrap().map_or(0, |()| LEN as u64);
        }
        if group.is_multiple_of(STEP) {
            // Bodies rest for as many writes as there are bodies.
            store.collect(WallTime(group * GROUP * CHUNK_REST_MS / KEYS)).unwrap();
        }
    }
    (written() - before) as f64 / stored as f64
}

/// The example `wear` at a sixteenth of its size, on a disk that is a little fuller: 1.55, and 1.92 when the index was
/// flushed at every step and what rested was moved.
#[cfg(target_os = "linux")]
#[test]
fn overwrites_of_small_bodies_write_little_else() {
    let held = KEYS * LEN as u64;
    let settings = Settings {
        engine: Engine::Lsm,
        capacity_bytes: Some(2 * held + (4 << 20)),
        journal_segment_bytes: 512 << 10,
        journal_heads_bytes: 256 << 20,
        payload_segment_bytes: 1 << 20,
        headroom_bytes: 512 << 10,
        memtable_bytes: 512 << 10,
        ..small()
    };
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_on(Arc::new(RealDisk::new(folder.path().to_owned()).unwrap()), &settings);
    let factor = overwritten(&store, 6);
    assert!(factor < 1.7, "{factor:.2} bytes written for a byte stored: {:?}", store.usage());
    audit(&store);
}

/// A small disk is full of heads long before they are as many as a large one bears: they go, too.
#[test]
fn heads_do_not_fill_a_small_store() {
    for quota in [true, false] {
        let (disk, capacity) = (FaultyDisk::default(), 2 << 20);
        disk.set_room((!quota).then_some(capacity));
        let capacity_bytes = quota.then_some(capacity);
        let settings = Settings { capacity_bytes, journal_heads_bytes: u64::MAX, ..kept() };
        let (store, _) = open(&disk, &settings);
        let mut refused = 0;
        for number in 0..40_000_u64 {
            let key = format!("key-{}", number % 40);
            match put_small(&store, &key, number, &number.to_le_bytes()) {
                Ok(()) => {}
                Err(StorageError::Full) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if number % 200 == 0 {
                store.collect(WallTime(number * CHUNK_REST_MS)).unwrap();
            }
        }
        assert!(refused * 20 < 40_000, "quota {quota}: {refused} of 40,000 writes found no room");
        let before = keys(&store.view());
        assert_eq!(before.len(), 40);
        audit(&store);
        drop(store);
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage, recovery.torn), (vec![], None));
        assert_eq!(keys(&store.view()), before);
        audit(&store);
    }
}

/// Steps of the collector, the first of them at this time, that had the index flushed.
fn flushes(store: &Store, now: u64, steps: u64, mut between: impl FnMut(u64)) -> u64 {
    let mut count = 0;
    for step in 0..steps {
        between(step);
        let durable = store.index.durable();
        store.collect(WallTime(now + step)).unwrap();
        count += u64::from(store.index.durable() > durable);
    }
    count
}

/// While writes go on the index is flushed by them; a store that is left alone gives back what it can, and is quiet then.
#[test]
fn the_index_is_flushed_for_space_only_when_that_is_worth_it() {
    let settings = Settings { journal_heads_bytes: u64::MAX, ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    for number in 0..200 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    store.checkpoint().unwrap();
    for number in 0..195 {
        delete(&store, &format!("{number}")).unwrap();
    }
    assert_eq!(flushes(&store, 0, 2, |_| {}), 0, "all of it rests");
    assert!(store.usage().journal.segments >= 11, "{:?}", store.usage());
    let busy = |step: u64| {
        let bytes = body(1000 + step, 100);
        commit(&store, vec![small_put("busy", 1000 + step, &bytes)]).unwrap();
    };
    // Two segments of 64 KiB are worth it, of ten.
    let count = flushes(&store, 2 * CHUNK_REST_MS, 30, busy);
    assert!((1..=5).contains(&count), "{count} flushes in 30 steps");
    flushes(&store, 3 * CHUNK_REST_MS, 20, |_| {});
    assert!(store.usage().journal.allocated < 400 << 10, "{:?}", store.usage());
    assert_eq!(flushes(&store, 4 * CHUNK_REST_MS, 20, |_| {}), 0, "there is nothing left to come back");
    audit(&store);
}

/// Where most lives little comes back: each flush would cost a merge of the index sooner or later, for nothing.
#[test]
fn a_store_that_is_nearly_full_is_not_flushed_at_every_step() {
    let settings = Settings { capacity_bytes: Some(1100 << 10), journal_heads_bytes: u64::MAX, ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    for number in 0..200 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
    }
    let count = flushes(&store, 2 * CHUNK_REST_MS, 30, |step| {
        put_small(&store, "busy", 1000 + step, &body(1000 + step, 500)).unwrap();
    });
    assert!(store.space.lacks() > 0 && !store.space.is_full(), "{:?}", store.usage());
    assert!(count <= 3, "{count} flushes in 30 steps");
    audit(&store);
}

#[test]
fn large_chunks_begin_to_be_written_before_their_commit_and_no_others() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    let put = |class, len| store.put_chunk(DOMAIN, class, ChunkKind::Leaf, &body(len as u64, len)).unwrap();
    let _small = put(Class::Payload, (256 << 10) - 1);
    let _cached = put(Class::Cache, 1 << 20);
    assert_eq!(disk.begun(), 0);
    let _large = put(Class::Payload, 1 << 20);
    assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&disk.begun()), "{}", disk.begun());
}
