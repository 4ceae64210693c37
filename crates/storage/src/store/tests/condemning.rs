//! A segment of which nothing has come to the index yet looks like one in which nothing lives.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use skerry_base::kv::{Table, View};
use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, commit, delete, kept, open, put_large, say_delete, say_put};
use crate::chunks::row::{Area, FREEING};
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::store::{Pin, Store};
use crate::{Class, Settings};

/// One of these fills a segment.
const LARGE: usize = 240_000;

fn put(store: &Store, bytes: &[u8]) -> Pin {
    store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, bytes).unwrap()
}

fn reads(store: &Store, bytes: &[u8]) {
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap(), bytes);
}

/// Nothing can be punched, and the disk is full in the middle of an upload. Copies too many were let go of a moment ago: their
/// segment is dead, and goes. Those of the upload are not dead, though nothing of them is in the index before the dead one is condemned.
#[test]
fn an_upload_that_finds_no_room_keeps_what_it_has_put() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    let gone = body(1, LARGE);
    put_large(&store, "gone", 1, &gone).unwrap();
    put_large(&store, "stays", 2, &body(2, LARGE)).unwrap();
    assert_eq!(store.release(DOMAIN, &[vec![ChunkId::of(&gone)]]).unwrap(), [true]);
    // A body of three chunks: the third finds no room but by what comes back.
    let parts = [body(3, LARGE), body(4, LARGE), body(5, LARGE)];
    let mut pins = vec![put(&store, &parts[0]), put(&store, &parts[1])];
    disk.set_room(Some(disk.taken() + settings.payload_segment_bytes + (40 << 10)));
    pins.push(put(&store, &parts[2]));
    let says =
        |(number, part): (u64, &Vec<u8>)| say_put(&format!("part {number}"), 10 + number, ChunkId::of(part));
    commit(&store, (0..).zip(&parts).map(says).collect()).unwrap();
    drop(pins);
    reads(&store, &body(2, LARGE));
    parts.iter().for_each(|part| reads(&store, part));
    audit(&store);
}

/// While a step of the collector measures a segment of the journal an upload fills a segment of payload.
#[test]
fn a_segment_that_is_filled_during_a_step_of_the_collector_is_not_dead() {
    let settings = Settings { journal_heads_bytes: u64::MAX, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    put_large(&store, "gone", 1, &body(1, 100_000)).unwrap();
    put_large(&store, "stays", 2, &body(2, LARGE)).unwrap();
    delete(&store, "gone").unwrap();
    store.collect(WallTime(0)).unwrap();
    // A sealed segment of heads.
    while store.core().writer.tail().segment == 1 {
        commit(&store, vec![say_delete("none")]).unwrap();
    }
    let parts = [body(3, LARGE), body(4, LARGE)];
    let pins: Arc<Mutex<Vec<Pin>>> = Arc::default();
    let once = AtomicBool::new(true);
    let (other, uploads, held) = (store.clone(), parts.clone(), pins.clone());
    // As by another thread.
    disk.on_open(&file_name("journal", 1), move || {
        if once.swap(false, Ordering::Relaxed) {
            held.lock().unwrap().extend(uploads.iter().map(|part| put(&other, part)));
        }
        Ok(())
    });
    store.collect(WallTime(CHUNK_REST_MS)).unwrap();
    assert_eq!(pins.lock().unwrap().len(), 2, "nobody uploaded");
    let says =
        |(number, part): (u64, &Vec<u8>)| say_put(&format!("part {number}"), 10 + number, ChunkId::of(part));
    commit(&store, (0..).zip(&parts).map(says).collect()).unwrap();
    pins.lock().unwrap().clear();
    for _ in 0..3 {
        store.checkpoint().unwrap();
        store.collect(WallTime(CHUNK_REST_MS)).unwrap();
    }
    disk.on_open("none", || Ok(()));
    parts.iter().for_each(|part| reads(&store, part));
    audit(&store);
}

/// As a release before condemned it: what lives there is not removed with it, and the row goes.
#[test]
fn a_segment_that_was_condemned_with_something_in_it_stays() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    (0..3).for_each(|number| put_large(&store, &format!("{number}"), number, &body(number, LARGE)).unwrap());
    store
        .own_group(|_, changes, _| {
            changes.free_segment(Area::Payload, 1);
            Ok(Some(()))
        })
        .unwrap();
    for step in 0..3 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step)).unwrap();
    }
    (0..3).for_each(|number| reads(&store, &body(number, LARGE)));
    let (mut rows, reading) = (0, store.view());
    reading
        .scan_prefix(Table::Storage, FREEING, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows, 0);
    audit(&store);
}
