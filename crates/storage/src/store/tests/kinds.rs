//! The bytes of a tree may be a leaf of something else: what the tree lists is counted all the same, once, as long as
//! anything refers to it as a tree.

use std::sync::Arc;

use skerry_base::kv::Table;
use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, audit, body, commit, delete, kept, open, put_large, put_small, put_tree, rows, say_put, tree_of,
};
use crate::chunks::row::{Area, chunk_key};
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::header_len;
use crate::store::Store;
use crate::{Class, Settings};

fn bodies() -> [Vec<u8>; 2] {
    [body(1, 30_000), body(2, 30_000)]
}

fn has(store: &Store, bytes: &[u8]) -> bool {
    store.has_chunk(DOMAIN, ChunkId::of(bytes)).unwrap()
}

fn settle(store: &Store) {
    store.settle(|result| result.unwrap());
    store.pump();
}

/// Everything that nothing refers to goes.
fn collect(store: &Store) {
    for step in 1..8 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
}

/// `first` puts the bytes of the tree as a leaf; then comes the object that it is a tree of.
fn outlives(first: impl Fn(&Store, &[u8])) {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let tree = tree_of(&bodies());
    // An object of before shares a leaf.
    put_large(&store, "older", 1, &bodies()[0]).unwrap();
    first(&store, &tree);
    put_tree(&store, "victim", 2, &bodies()).unwrap();
    settle(&store);
    audit(&store);
    collect(&store);
    let whole = |store: &Store| {
        for bytes in bodies().iter().chain([&tree]) {
            assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap(), *bytes);
        }
        audit(store);
    };
    whole(&store);
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    whole(&store);
    drop(store);
    let lost = Settings { kept: Some(Arc::default()), ..settings };
    let (store, _) = open(&disk, &lost);
    whole(&store);
    collect(&store);
    whole(&store);
    // Once it is gone the leaf that others have stays, and what only it listed goes with the last of the two.
    delete(&store, "victim").unwrap();
    collect(&store);
    assert!(has(&store, &bodies()[0]), "the older object's");
    delete(&store, "forger").unwrap();
    collect(&store);
    collect(&store);
    assert!(has(&store, &bodies()[0]) && !has(&store, &bodies()[1]));
    audit(&store);
}

#[test]
fn the_bytes_of_a_tree_stored_as_a_leaf_cost_no_leaf_of_the_tree() {
    outlives(|store, tree| put_large(store, "forger", 9, tree).unwrap());
    outlives(|store, tree| put_small(store, "forger", 9, tree).unwrap());
}

#[test]
fn nor_do_those_that_wait_for_the_index_or_lie_in_the_cache() {
    let put = |store: &Store, class, kind, tree: &[u8]| {
        store.put_chunk(DOMAIN, class, kind, tree).map(drop).unwrap();
    };
    outlives(|store, tree| put(store, Class::Payload, ChunkKind::Leaf, tree));
    for settles in [false, true] {
        for kind in [ChunkKind::Leaf, ChunkKind::Tree] {
            outlives(|store, tree| {
                put(store, Class::Cache, kind, tree);
                if settles {
                    settle(store);
                }
            });
        }
        // A leaf that comes to stay over a tree that may go.
        outlives(|store, tree| {
            put(store, Class::Cache, ChunkKind::Tree, tree);
            if settles {
                settle(store);
            }
            put_large(store, "forger", 9, tree).unwrap();
        });
        outlives(|store, tree| {
            put(store, Class::Cache, ChunkKind::Tree, tree);
            if settles {
                settle(store);
            }
            put_small(store, "forger", 9, tree).unwrap();
        });
    }
}

/// A commit rests on the leaf while the same bytes come as a tree: its place is not given up before the index knows it.
#[test]
fn a_leaf_that_somebody_commits_outlives_the_tree_that_comes_over_it() {
    for seed in 0..8 {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let tree = tree_of(&bodies());
        let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &tree).unwrap();
        let leaves =
            bodies().map(|bytes| store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
        store.sync_payload().unwrap();
        let _over = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree).unwrap();
        assert!(rows(&store.view()).contains_key(&(DOMAIN, pin.id())));
        commit(&store, vec![say_put("forger", 1, pin.id())]).unwrap();
        drop(leaves);
        drop(store);
        let (store, _) = open(&disk.power_cut(seed), &settings);
        assert_eq!(store.read_chunk(DOMAIN, pin.id(), 0..u32::MAX).unwrap(), tree, "seed {seed}");
        audit(&store);
    }
}

/// The journal does not say of a body that it is a tree: the scrub writes it again as one.
#[test]
fn a_tree_that_a_small_body_mended_is_one_again_for_a_rebuild() {
    mended_by_a_small_body(false);
    mended_by_a_small_body(true);
}

fn mended_by_a_small_body(with_base: bool) {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_tree(&store, "victim", 1, &bodies()).unwrap();
    let tree = (DOMAIN, ChunkId::of(&tree_of(&bodies())));
    let row = rows(&store.view())[&tree];
    let place = row.place.unwrap();
    let at = place.offset as usize + header_len(row.stored) + 5;
    disk.corrupt(&file_name(place.area.folder(), place.segment), |content| content[at] ^= 1);
    store.read_chunk(DOMAIN, tree.1, 0..u32::MAX).unwrap_err();
    put_small(&store, "forger", 2, &tree_of(&bodies())).unwrap();
    assert_eq!(rows(&store.view())[&tree].place.unwrap().area, Area::Journal);
    audit(&store);
    if with_base {
        store.renew_base().unwrap();
    }
    store.begin_scrub(WallTime(1)).unwrap();
    while !store.scrub(u64::MAX, WallTime(1)).unwrap().finished {}
    settle(&store);
    assert_eq!(rows(&store.view())[&tree].place.unwrap().area, Area::Payload);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    collect(&store);
    assert!(bodies().iter().all(|bytes| has(&store, bytes)));
    // A base of meanwhile counts what the tree lists once too often: that stays too long, and never goes too soon.
    if !with_base {
        audit(&store);
    }
}

/// Two put what mends a chunk: the second does not have the first one's extent given up, on which a commit rests.
#[test]
fn what_mends_a_chunk_is_written_once() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(7, 50_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    let key = (DOMAIN, ChunkId::of(&bytes));
    let place = rows(&store.view())[&key].place.unwrap();
    disk.corrupt(&file_name("payload", place.segment), |content| content[place.offset as usize + 9_000] ^= 1);
    store.read_chunk(DOMAIN, key.1, 0..u32::MAX).unwrap_err();
    let put = || store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
    let first = put();
    let tail = store.payload.tail();
    let _second = put();
    assert_eq!(store.payload.tail(), tail);
    commit(&store, vec![say_put("b", 2, first.id())]).unwrap();
    assert!(store.has_chunk(DOMAIN, key.1).unwrap());
    audit(&store);
}

/// A copy of a tree comes to the index in the moment in which the same bytes are put as a leaf that counts, after that has looked
/// whether the index knows them.
#[test]
fn a_tree_that_comes_to_the_index_while_its_bytes_are_put_as_a_leaf_stays_one() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bodies = bodies();
    let tree = tree_of(&bodies);
    let id = ChunkId::of(&tree);
    let pins =
        bodies.each_ref().map(|body| store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, body).unwrap());
    let copy = store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Tree, &tree).unwrap();
    let other = store.clone();
    settings.kept.as_ref().unwrap().behind(Table::Chunks, chunk_key((DOMAIN, id)), move || {
        commit(&other, vec![say_put("large", 1, id)]).unwrap();
    });
    let leaf = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &tree).unwrap();
    commit(&store, vec![say_put("small", 2, id)]).unwrap();
    drop((pins, copy, leaf));
    audit(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    bodies.iter().for_each(|body| assert!(has(&store, body), "what the tree lists is gone"));
    audit(&store);
}
