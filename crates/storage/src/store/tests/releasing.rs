//! Copies too many go as they should, and nothing else with them.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_large, put_small, put_tree, rows, tree_of};
use crate::chunks::row::Area;
use crate::disk::faulty::FaultyDisk;
use crate::payload::extent::extent_len;
use crate::store::Store;

fn has(store: &Store, bytes: &[u8]) -> bool {
    store.has_chunk(DOMAIN, ChunkId::of(bytes)).unwrap()
}

fn release(store: &Store, versions: &[&[&[u8]]]) -> Vec<bool> {
    let ids = |version: &&[&[u8]]| version.iter().map(|bytes| ChunkId::of(bytes)).collect();
    let versions: Vec<Vec<ChunkId>> = versions.iter().map(ids).collect();
    store.release(DOMAIN, &versions).unwrap()
}

fn collect(store: &Store, now: u64) -> u64 {
    let mut bytes = 0;
    for _ in 0..10 {
        store.checkpoint().unwrap();
        bytes += store.collect(WallTime(now)).unwrap().bytes;
    }
    bytes
}

#[test]
fn what_is_released_is_referred_to_and_absent_also_after_a_restart_and_a_rebuild() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let (gone, stays) = (body(1, 50_000), body(2, 50_000));
    put_large(&store, "gone", 1, &gone).unwrap();
    put_large(&store, "stays", 2, &stays).unwrap();
    assert_eq!(release(&store, &[&[&gone]]), [true]);
    let is_gone = |store: &Store| {
        assert!(!has(store, &gone) && has(store, &stays));
        assert!(!store.counts(DOMAIN, ChunkId::of(&gone)));
        assert_eq!(rows(&store.view())[&(DOMAIN, ChunkId::of(&gone))].references, 1);
        audit(store);
    };
    is_gone(&store);
    assert_eq!(release(&store, &[&[&gone]]), [false], "there is nothing to let go of");
    drop(store);
    let (store, _) = open(&disk, &settings);
    is_gone(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    is_gone(&store);
    assert_eq!(collect(&store, 0), extent_len(50_000), "its space comes back");
    // It comes back to stay when it is wanted again.
    put_large(&store, "again", 3, &gone).unwrap();
    assert!(store.counts(DOMAIN, ChunkId::of(&gone)));
    audit(&store);
}

#[test]
fn a_version_goes_whole_or_not_at_all() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let (shared, own, pinned, small) = (body(1, 40_000), body(2, 40_000), body(3, 40_000), body(4, 900));
    for (number, (key, bytes)) in
        [("a", &shared), ("b", &shared), ("c", &own), ("d", &pinned)].iter().enumerate()
    {
        put_large(&store, key, number as u64, bytes).unwrap();
    }
    put_small(&store, "e", 9, &small).unwrap();
    let pin = store.pin(DOMAIN, ChunkId::of(&pinned)).unwrap();
    // Another version refers to the first, somebody uses the third, the fourth lies in the journal.
    let versions: &[&[&[u8]]] = &[&[&shared], &[&own, &pinned], &[&small], &[]];
    assert_eq!(release(&store, versions), [false, false, false, false]);
    assert!([&shared, &own, &pinned, &small].into_iter().all(|bytes| has(&store, bytes)));
    drop(pin);
    // Both that refer to it go; one of them stays if what it lists besides does.
    assert_eq!(release(&store, &[&[&shared], &[&shared, &small]]), [false, false]);
    assert_eq!(release(&store, &[&[&shared], &[&shared], &[&own, &pinned]]), [true, true, true]);
    assert!(![&shared, &own, &pinned].into_iter().any(|bytes| has(&store, bytes)));
    audit(&store);
}

#[test]
fn the_leaves_of_a_released_tree_follow_but_for_shared_ones() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let (shared, own) = (body(1, 30_000), body(2, 30_000));
    let bodies = [shared.clone(), own.clone()];
    put_tree(&store, "a", 1, &bodies).unwrap();
    put_large(&store, "b", 2, &shared).unwrap();
    assert_eq!(release(&store, &[&[&tree_of(&bodies)]]), [true]);
    collect(&store, 0);
    collect(&store, CHUNK_REST_MS);
    assert!(has(&store, &shared) && !has(&store, &own));
    delete(&store, "a").unwrap();
    audit(&store);
}

/// The index knows that it was let go of, and recovery looks at its place once more because a write before it still hung.
#[test]
fn what_was_released_behind_a_place_that_is_still_written_is_not_taken_up_again() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let (first, gone) = (body(1, 50_000), body(2, 50_000));
    put_large(&store, "first", 1, &first).unwrap();
    // As by another thread that took the place before and did not get to write it.
    store.live.lock().taken((Area::Payload, 1, 4096));
    put_large(&store, "gone", 2, &gone).unwrap();
    assert_eq!(release(&store, &[&[&gone]]), [true]);
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert!(!has(&store, &gone) && has(&store, &first));
    collect(&store, 0);
    assert!(!has(&store, &gone) && has(&store, &first));
    // The last keeps its place until another is behind it.
    put_large(&store, "behind", 3, &body(3, 50_000)).unwrap();
    collect(&store, 0);
    assert_eq!(store.usage().payload.dead, 0);
    audit(&store);
}

/// What recovery looks at once more is given back once: else more seems to be free than is.
#[test]
fn what_was_let_go_of_behind_a_place_that_is_still_written_is_given_back_once() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let (first, gone) = (body(1, 50_000), body(2, 50_000));
    put_large(&store, "first", 1, &first).unwrap();
    // As by another thread that took the place before and did not get to write it.
    store.live.lock().taken((Area::Payload, 1, 4096));
    put_large(&store, "gone", 2, &gone).unwrap();
    assert_eq!(release(&store, &[&[&gone]]), [true]);
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    put_large(&store, "behind", 3, &body(3, 50_000)).unwrap();
    for now in 0..4 {
        store.checkpoint().unwrap();
        store.collect(WallTime(now)).unwrap();
    }
    let used = store.space.of(Area::Payload, 1);
    assert_eq!((used.dead, used.freed), (0, extent_len(50_000)), "{used:?}");
}
