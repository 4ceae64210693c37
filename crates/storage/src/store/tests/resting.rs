//! Chunks that nothing refers to yet, whose rest somebody asked to be longer.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_large, put_small, say_put, submit, tree_of};
use crate::disk::faulty::FaultyDisk;
use crate::store::Store;
use crate::{Class, Settings};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Chunks that came and that nothing refers to.
fn parts(store: &Store) -> Vec<ChunkId> {
    let put = |number| {
        let bytes = body(number, 40_000);
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
        ChunkId::of(&bytes)
    };
    let ids = (1..=3).map(put).collect();
    store.settle(|result| result.unwrap());
    store.pump();
    ids
}

fn are_here(store: &Store, ids: &[ChunkId]) -> bool {
    ids.iter().all(|&id| store.has_chunk(DOMAIN, id).unwrap())
}

/// Steps of the collector, each the usual rest after the one before.
fn collect_from(store: &Store, from: u64) {
    for step in 0..6 {
        store.checkpoint().unwrap();
        store.collect(WallTime(from + step * CHUNK_REST_MS)).unwrap();
    }
}

#[test]
fn they_stay_for_as_long_as_was_asked_also_after_a_restart_and_no_longer() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let ids = parts(&store);
    store.let_rest(DOMAIN, &ids[1..], WallTime(0), DAY).unwrap();
    collect_from(&store, 0);
    assert!(!store.has_chunk(DOMAIN, ids[0]).unwrap(), "the usual time");
    assert!(are_here(&store, &ids[1..]));
    audit(&store);
    drop(store);
    let (store, _) = open(&disk, &settings);
    collect_from(&store, DAY - 7 * CHUNK_REST_MS);
    assert!(are_here(&store, &ids[1..]));
    collect_from(&store, DAY);
    assert!(!store.has_chunk(DOMAIN, ids[1]).unwrap() && !store.has_chunk(DOMAIN, ids[2]).unwrap());
    audit(&store);
}

#[test]
fn they_go_at_once_where_room_is_short() {
    let settings = Settings { capacity_bytes: Some(2 << 20), cache_bytes: 0, ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let ids = parts(&store);
    store.let_rest(DOMAIN, &ids, WallTime(0), DAY).unwrap();
    let mut number = 100;
    while store.space.lacks() == 0 {
        put_small(&store, &format!("{number}"), number, &body(number, 3000)).unwrap();
        number += 1;
    }
    collect_from(&store, 0);
    assert!(!ids.iter().any(|&id| store.has_chunk(DOMAIN, id).unwrap()));
    audit(&store);
}

/// What is referred to meanwhile is as any other: once it is let go of it rests for the usual time.
#[test]
fn what_is_referred_to_rests_no_more() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let ids = parts(&store);
    store.let_rest(DOMAIN, &ids, WallTime(0), DAY).unwrap();
    put_large(&store, "whole", 1, &body(1, 40_000)).unwrap();
    store.let_rest(DOMAIN, &ids[..1], WallTime(0), DAY).unwrap();
    collect_from(&store, DAY);
    assert!(are_here(&store, &ids[..1]));
    delete(&store, "whole").unwrap();
    collect_from(&store, 2 * DAY);
    assert!(!store.has_chunk(DOMAIN, ids[0]).unwrap());
    audit(&store);
}

/// A copy of the tree that lists them counts them, for as long as nobody evicts it: then they would rest for the usual time.
#[test]
fn what_a_copy_of_a_tree_lists_rests_once_that_is_let_go_of() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let bodies: Vec<Vec<u8>> = (1..=3).map(|number| body(number, 40_000)).collect();
    let ids = parts(&store);
    let pin = store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Tree, &tree_of(&bodies)).unwrap();
    let tree = pin.id();
    let answer = submit(&store, vec![say_put("k", 1, tree)]);
    store.pump();
    assert!(answer.lock().unwrap().take().unwrap().is_ok());
    drop(pin);
    store.let_rest(DOMAIN, &ids, WallTime(0), DAY).unwrap();
    collect_from(&store, DAY);
    assert!(are_here(&store, &ids) && store.has_chunk(DOMAIN, tree).unwrap(), "the tree counts them");
    store.let_go_of_copies(DOMAIN, &[tree, ids[0]]).unwrap();
    assert!(are_here(&store, &ids), "payload is no copy");
    assert!(!store.has_chunk(DOMAIN, tree).unwrap());
    store.let_rest(DOMAIN, &ids, WallTime(2 * DAY), DAY).unwrap();
    collect_from(&store, 2 * DAY);
    assert!(are_here(&store, &ids));
    collect_from(&store, 3 * DAY);
    assert!(!ids.iter().any(|&id| store.has_chunk(DOMAIN, id).unwrap()));
    audit(&store);
}

/// A put of the same chunk, and the commit that refers to it, come while they rest.
#[test]
fn a_commit_takes_over_what_rests() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let ids = parts(&store);
    store.let_rest(DOMAIN, &ids, WallTime(0), DAY).unwrap();
    let pin = store.pin(DOMAIN, ids[2]).unwrap();
    let answer = submit(&store, vec![say_put("k", 1, ids[2])]);
    store.pump();
    assert!(answer.lock().unwrap().take().unwrap().is_ok());
    drop(pin);
    let bytes = store.read_chunk(DOMAIN, ids[2], 0..u32::MAX).unwrap();
    let store: Arc<Store> = store;
    collect_from(&store, DAY);
    assert_eq!(store.read_chunk(DOMAIN, ids[2], 0..u32::MAX).unwrap(), bytes);
    drop(store);
    let (store, _) = open(&disk.power_cut(1), &settings);
    assert_eq!(store.read_chunk(DOMAIN, ids[2], 0..u32::MAX).unwrap(), bytes);
    audit(&store);
}
