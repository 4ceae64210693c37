//! Space comes back, and never too early.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, audit, body, commit, delete, kept, open, put_large, put_small, put_tree, rows, say_put, small,
    tree_of,
};
use crate::chunks::row::Area;
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::{extent_len, header_len};
use crate::store::Store;
use crate::store::put::Draft;
use crate::{Class, Collected, Settings};

fn has(store: &Store, bytes: &[u8]) -> bool {
    store.has_chunk(DOMAIN, ChunkId::of(bytes)).unwrap()
}

/// Collects until there is nothing left to do; sums what was done.
fn collect(store: &Store, now: u64) -> Collected {
    let mut sum = Collected::default();
    for _ in 0..10 {
        store.checkpoint().unwrap();
        let step = store.collect(WallTime(now)).unwrap();
        sum.chunks += step.chunks;
        sum.bytes += step.bytes;
        sum.segments += step.segments;
        sum.evicted += step.evicted;
    }
    sum
}

#[test]
fn an_unwanted_chunk_rests_before_it_goes() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    let bytes = body(1, 50_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    // The last one keeps its place.
    put_large(&store, "behind", 2, &body(2, 50_000)).unwrap();
    delete(&store, "a").unwrap();
    assert_eq!(collect(&store, 1000).chunks, 0);
    assert_eq!(collect(&store, 999 + CHUNK_REST_MS).chunks, 0);
    assert!(has(&store, &bytes));
    let collected = collect(&store, 1000 + CHUNK_REST_MS);
    assert_eq!((collected.chunks, collected.bytes), (1, extent_len(50_000)));
    assert!(!has(&store, &bytes));
    assert_eq!(store.usage().payload.live, extent_len(50_000));
    audit(&store);
}

#[test]
fn a_clock_that_was_ahead_does_not_keep_chunks_for_ever() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    put_large(&store, "a", 1, &body(1, 50_000)).unwrap();
    delete(&store, "a").unwrap();
    collect(&store, u64::MAX / 2);
    collect(&store, 1000);
    assert_eq!(collect(&store, 1000 + CHUNK_REST_MS).chunks, 1);
}

#[test]
fn a_pin_or_a_new_reference_saves_a_resting_chunk() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let (pinned, reused, gone) = (body(1, 50_000), body(2, 50_000), body(3, 50_000));
    for (number, bytes) in [(1, &pinned), (2, &reused), (3, &gone)] {
        put_large(&store, &format!("{number}"), number, bytes).unwrap();
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 0);
    let taken = store.usage().payload.live;
    let pin = store.pin(DOMAIN, ChunkId::of(&pinned)).unwrap();
    put_large(&store, "again", 4, &reused).unwrap();
    assert_eq!(store.usage().payload.live, taken, "what rests is used again, not written again");
    assert_eq!(collect(&store, CHUNK_REST_MS).chunks, 1);
    assert!(has(&store, &pinned) && has(&store, &reused) && !has(&store, &gone));
    assert!(store.pin(DOMAIN, ChunkId::of(&gone)).is_none());
    drop(pin);
    assert_eq!(collect(&store, CHUNK_REST_MS).chunks, 1);
    assert!(!has(&store, &pinned));
    audit(&store);
}

#[test]
fn a_chunk_put_and_never_referred_to_goes_too() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let bytes = body(1, 50_000);
    let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
    collect(&store, 0);
    assert_eq!(collect(&store, CHUNK_REST_MS).chunks, 0, "it is pinned");
    drop(pin);
    assert_eq!(collect(&store, CHUNK_REST_MS).chunks, 1);
    assert!(!has(&store, &bytes));
}

#[test]
fn a_tree_goes_before_its_chunks_and_shared_chunks_stay() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let (shared, own) = (body(1, 30_000), body(2, 30_000));
    put_tree(&store, "a", 1, &[shared.clone(), own.clone()]).unwrap();
    put_tree(&store, "b", 2, &[shared.clone(), shared.clone()]).unwrap();
    assert_eq!(rows(&store.view())[&(DOMAIN, ChunkId::of(&shared))].references, 3);
    delete(&store, "a").unwrap();
    collect(&store, 0);
    assert_eq!(collect(&store, CHUNK_REST_MS).chunks, 1, "the tree");
    assert_eq!(collect(&store, 3 * CHUNK_REST_MS).chunks, 1, "what only it listed");
    assert!(has(&store, &shared) && !has(&store, &own));
    audit(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    assert!(has(&store, &shared) && !has(&store, &own));
    audit(&store);
}

/// Who puts a large body lets go of the chunks that a tree lists once the tree is written; until the index knows the tree
/// nothing counts them, and on a full disk what nothing counts does not rest.
#[test]
fn what_a_tree_lists_stays_before_the_index_knows_the_tree() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let bodies = [body(1, 30_000), body(2, 30_000)];
    let pins =
        bodies.each_ref().map(|body| store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, body).unwrap());
    store.settle(|result| result.unwrap());
    store.pump();
    let leaves = pins.each_ref().map(|pin| (DOMAIN, pin.id()));
    assert!(leaves.iter().all(|leaf| rows(&store.view())[leaf].is_unwanted()));
    let tree = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree_of(&bodies)).unwrap();
    drop(pins);
    assert!(store.begin_all(&leaves).is_empty());
    commit(&store, vec![say_put("a", 1, tree.id())]).unwrap();
    assert!(leaves.iter().all(|leaf| rows(&store.view())[leaf].references == 1));
    assert!(leaves.iter().all(|leaf| !store.live.lock().is_used(*leaf)), "the index counts them now");
    delete(&store, "a").unwrap();
    drop(tree);
    collect(&store, 0);
    collect(&store, CHUNK_REST_MS);
    collect(&store, 3 * CHUNK_REST_MS);
    assert!(!bodies.iter().any(|body| has(&store, body)));
    audit(&store);
}

#[test]
fn segments_in_which_nothing_lives_are_removed() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    for number in 0..20 {
        put_large(&store, &format!("{number}"), number, &body(number, 60_000)).unwrap();
    }
    let before = store.usage().payload;
    assert!(before.segments >= 5);
    for number in 0..20 {
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 0);
    let collected = collect(&store, CHUNK_REST_MS);
    assert_eq!((collected.chunks, collected.segments), (20, before.segments - 1));
    let after = store.usage().payload;
    assert_eq!(
        (after.segments, after.live, after.dead),
        (1, 0, extent_len(60_000)),
        "the last keeps its place"
    );
    assert!(disk.content("payload/0000000005.seg").len() > 4096);
    audit(&store);
}

#[test]
fn dead_bodies_in_sealed_journal_segments_are_punched_and_a_rebuild_copes() {
    let settings = Settings { journal_heads_bytes: u64::MAX, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    for number in 0..20 {
        put_small(&store, &format!("{number}"), number, &body(number, 30_000)).unwrap();
    }
    for number in 0..20 {
        if number != 3 {
            delete(&store, &format!("{number}")).unwrap();
        }
    }
    collect(&store, 0);
    let before = store.usage().journal;
    let collected = collect(&store, CHUNK_REST_MS);
    assert_eq!(collected.chunks, 19);
    // Whole blocks inside of each body, of all but those in the active segment.
    assert!(collected.bytes >= 17 * 24_576, "{collected:?}");
    assert_eq!(store.usage().journal.allocated, before.allocated - collected.bytes);
    audit(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    assert!(has(&store, &body(3, 30_000)) && !has(&store, &body(4, 30_000)));
    audit(&store);
    // The same bytes again are a new body.
    put_small(&store, "again", 99, &body(4, 30_000)).unwrap();
    audit(&store);
}

#[test]
fn journal_segments_full_of_dead_bodies_are_stripped() {
    let settings = Settings { journal_heads_bytes: u64::MAX, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    let count = 300;
    for number in 0..count {
        put_small(&store, &format!("{number}"), number, &body(number, 1200)).unwrap();
    }
    for number in (0..count).filter(|number| number % 20 != 3) {
        delete(&store, &format!("{number}")).unwrap();
    }
    collect(&store, 0);
    let before = store.usage().journal;
    for _ in 0..3 {
        collect(&store, CHUNK_REST_MS);
    }
    let after = store.usage().journal;
    assert_eq!(after.live, count / 20 * 1200);
    assert!(before.allocated - after.allocated > 300_000, "{before:?} {after:?}");
    let alive = |store: &Store| {
        for number in 0..count {
            let bytes = body(number, 1200);
            let read = store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
            assert_eq!(read.ok(), (number % 20 == 3).then(|| bytes.into()), "{number}");
        }
        audit(store);
    };
    alive(&store);
    drop(store);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.damage, recovery.torn), (vec![], None));
    alive(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.damage, recovery.torn), (vec![], None));
    alive(&store);
    drop(store);
    // Damage in a stripped segment is one frame, not all behind it.
    disk.corrupt("journal/0000000002.seg", |bytes| bytes[1000] ^= 1);
    settings.kept.as_ref().unwrap().lose();
    let (_, recovery) = open(&disk, &settings);
    let lost: u64 = recovery.damage.iter().map(|damage| damage.to - damage.from).sum();
    assert_eq!(lost, 1, "{recovery:?}");
}

/// A record whose payload is elsewhere, and a cached copy of it.
fn cached(store: &Store, number: u64) -> Vec<u8> {
    let bytes = body(number, 40_000);
    commit(store, vec![say_put(&format!("{number}"), number, ChunkId::of(&bytes))]).unwrap();
    assert!(!has(store, &bytes));
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    bytes
}

#[test]
fn copies_beyond_the_cap_go_the_unused_first_and_their_space_comes_back() {
    let disk = FaultyDisk::default();
    // Room for twelve.
    let settings = Settings { cache_bytes: 12 * extent_len(40_000), ..kept() };
    let (store, _) = open(&disk, &settings);
    let mut copies: Vec<Vec<u8>> = (0..12).map(|number| cached(&store, number)).collect();
    let read = |bytes: &[u8]| store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX);
    for _ in 0..2 {
        (0..4).for_each(|index: usize| assert_eq!(read(&copies[index]).unwrap(), copies[index]));
    }
    assert_eq!(store.usage().cached.hit_bytes, 4 * 40_000, "the first reading is by who brought it");
    assert_eq!(store.usage().cached.evicted_bytes, 0);
    let pin = store.pin(DOMAIN, ChunkId::of(&copies[5])).unwrap();
    copies.extend((12..18).map(|number| cached(&store, number)));
    let left: Vec<usize> = (0..18).filter(|&index| has(&store, &copies[index])).collect();
    assert_eq!(
        left,
        [0, 1, 2, 3, 5, 11, 12, 13, 14, 15, 16, 17],
        "those read twice, the one in use, the newest"
    );
    let stats = store.usage().cached;
    assert_eq!((stats.bytes, stats.evicted_bytes), (stats.cap, 6 * extent_len(40_000)));
    audit(&store);
    let before = disk.taken();
    store.checkpoint().unwrap();
    assert!(collect(&store, 0).bytes >= 6 * extent_len(40_000));
    assert!(disk.taken() <= before - 6 * extent_len(40_000));
    drop(pin);
    // What was evicted can come again, also to stay.
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &copies[6]).unwrap());
    store.settle(|result| result.unwrap());
    store.pump();
    assert_eq!(store.usage().payload.live, extent_len(40_000));
    audit(&store);
    // A lower cap is met at the next step.
    store.set_cache_cap(3 * extent_len(40_000));
    collect(&store, 0);
    assert!(store.usage().cached.bytes <= 3 * extent_len(40_000));
    audit(&store);
}

#[test]
fn what_is_kept_is_not_evicted_and_goes_with_its_object() {
    let (disk, settings) =
        (FaultyDisk::default(), Settings { cache_bytes: 12 * extent_len(40_000), ..kept() });
    let (store, _) = open(&disk, &settings);
    let mut copies: Vec<Vec<u8>> = (0..4).map(|number| cached(&store, number)).collect();
    let ids: Vec<ChunkId> = copies.iter().map(|bytes| ChunkId::of(bytes)).collect();
    store.keep_copies(DOMAIN, &ids[..3], true).unwrap();
    store.keep_copies(DOMAIN, &ids[1..3], true).unwrap();
    let absent = ChunkId::of(b"nowhere");
    store.keep_copies(DOMAIN, &[absent], true).unwrap();
    assert_eq!(store.kept_bytes(), 3 * extent_len(40_000));
    copies.extend((4..40).map(|number| cached(&store, number)));
    assert!((0..3).all(|index| has(&store, &copies[index])) && !has(&store, &copies[3]));
    assert!(store.usage().cached.bytes <= store.usage().cached.cap);
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert_eq!(store.kept_bytes(), 3 * extent_len(40_000), "over a restart as well");
    // One is released, the object of another is deleted.
    store.keep_copies(DOMAIN, &ids[..1], false).unwrap();
    delete(&store, "1").unwrap();
    collect(&store, 0);
    collect(&store, 11 * 60 * 1000);
    assert_eq!(store.kept_bytes(), extent_len(40_000));
    for number in 40..80 {
        cached(&store, number);
    }
    assert!(!has(&store, &copies[0]) && !has(&store, &copies[1]) && has(&store, &copies[2]));
    audit(&store);
}

#[test]
fn uses_of_copies_outlive_a_restart() {
    let (disk, settings) =
        (FaultyDisk::default(), Settings { cache_bytes: 12 * extent_len(40_000), ..kept() });
    let (store, _) = open(&disk, &settings);
    let copies: Vec<Vec<u8>> = (0..12).map(|number| cached(&store, number)).collect();
    let read =
        |store: &Store, bytes: &[u8]| store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap();
    for _ in 0..3 {
        read(&store, &copies[2]);
    }
    collect(&store, 0);
    collect(&store, 60 * 60 * 1000);
    store.checkpoint().unwrap();
    drop(store);
    for damaged in [false, true] {
        if damaged {
            disk.corrupt("uses", |bytes| bytes[3] ^= 1);
        }
        let (store, _) = open(&disk, &settings);
        let used = store.evicting.sieve().heat(1);
        assert_eq!(used > 0, !damaged, "a damaged file is forgotten, nothing else");
        if !damaged {
            cached(&store, 12);
            assert!(has(&store, &copies[2]) && !has(&store, &copies[0]));
        }
    }
}

#[test]
fn little_that_lives_moves_on_so_that_segments_go() {
    let settings = Settings { cache_bytes: 40 * extent_len(5_000), ..kept() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let copy = |number: u64| {
        let bytes = body(number, 5_000);
        commit(&store, vec![say_put(&format!("{number}"), number, ChunkId::of(&bytes))]).unwrap();
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
        bytes
    };
    let loved = copy(0);
    for number in 1..400 {
        for _ in 0..2 {
            store.read_chunk(DOMAIN, ChunkId::of(&loved), 0..u32::MAX).unwrap();
        }
        copy(number);
        if number % 20 == 0 {
            store.checkpoint().unwrap();
            collect(&store, 0);
        }
    }
    assert!(has(&store, &loved));
    let segments = store.usage().cache.segments;
    assert!(segments <= 6, "{segments} segments for a cache of two");
    audit(&store);
}

#[test]
fn a_cached_copy_becomes_one_that_counts() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = cached(&store, 1);
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    store.settle(|result| result.unwrap());
    store.pump();
    assert_eq!((store.usage().cache.live, store.usage().payload.live), (0, extent_len(40_000)));
    audit(&store);
    let cut = disk.power_cut(1);
    drop(store);
    let (store, _) = open(&cut, &settings);
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
}

#[test]
fn a_settled_copy_survives_and_an_unsettled_one_is_whole_or_absent() {
    for seed in 0..40 {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let (settled, loose) = (body(1, 90_000), body(2, 90_000));
        for (key, bytes) in [("a", &settled), ("b", &loose)] {
            commit(&store, vec![say_put(key, 1, ChunkId::of(bytes))]).unwrap();
        }
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &settled).unwrap());
        store.settle(|result| result.unwrap());
        store.pump();
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &loose).unwrap());
        let cut = disk.power_cut(seed);
        let (store, _) = open(&cut, &settings);
        let read = |bytes: &[u8]| store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX);
        assert_eq!(read(&settled).unwrap(), settled);
        assert!(!has(&store, &loose) || read(&loose).unwrap() == loose);
        audit(&store);
    }
}

#[test]
fn a_collected_chunk_never_races_a_put_of_it() {
    let (store, _) = open(&FaultyDisk::default(), &small());
    let _committer = store.start_committer().unwrap();
    let store: &Arc<Store> = &store;
    let wait = |entry| {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        store.submit(move |_| Ok::<_, ()>(((), vec![entry])), move |result| tell.send(result).unwrap());
        told.recv().unwrap().unwrap();
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut now = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                now += CHUNK_REST_MS;
                store.collect(WallTime(now)).unwrap();
            }
        });
        for number in 0..300 {
            let bytes = body(number % 2, 20_000);
            let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
            wait(say_put("k", number, pin.id()));
            drop(pin);
            assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
            wait(super::world::say_delete("k"));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    audit(store);
}

/// What recovery lets go of is punched out by the collector: it must never be what the index refers to.
fn survives_recovery_and_collection(disk: &FaultyDisk, settings: &Settings, bytes: &[u8]) {
    for _ in 0..3 {
        let (store, recovery) = open(disk, settings);
        assert_eq!(recovery.chunks_dropped, 0);
        store.checkpoint().unwrap();
        collect(&store, 0);
        collect(&store, CHUNK_REST_MS);
        assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX).unwrap(), bytes);
        audit(&store);
    }
}

#[test]
fn a_rebuilt_index_that_was_not_flushed_since_lets_nothing_go() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 90_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    drop(open(&disk, &settings));
    survives_recovery_and_collection(&disk, &settings, &bytes);
}

#[test]
fn a_chunk_committed_while_an_earlier_place_was_still_written_stays() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 90_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    // As by another thread that took the place before and did not get to write it.
    store.live.lock().taken((Area::Payload, 1, 4096));
    put_large(&store, "b", 2, &body(2, 50_000)).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    survives_recovery_and_collection(&disk, &settings, &bytes);
}

/// Overwrites a few keys until the journal has seen many times what they hold.
fn overwritten(disk: &FaultyDisk, settings: &Settings) -> (Arc<Store>, u64) {
    let (store, _) = open(disk, settings);
    put_tree(&store, "tree", 1, &[body(901, 9000), body(902, 9000)]).unwrap();
    put_small(&store, "stays", 2, &body(903, 3000)).unwrap();
    let mut most = 0;
    for round in 0..60_u64 {
        for key in 0..40 {
            let number = round * 40 + key;
            put_small(&store, &format!("key-{key}"), number, &body(number, 40)).unwrap();
        }
        collect(&store, round * CHUNK_REST_MS);
        most = most.max(store.usage().journal.allocated);
    }
    (store, most)
}

#[test]
fn heads_go_once_a_base_says_what_they_said() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, most) = overwritten(&disk, &settings);
    let spares = 3 * settings.journal_segment_bytes;
    assert!(store.lsn() > 2400);
    assert!(most < 6 * settings.journal_segment_bytes + spares, "{most} bytes of journal at the most");
    assert!(
        !disk.list("journal").unwrap().contains(&"0000000001.seg".to_owned()),
        "the first segment is gone"
    );
    audit(&store);
    let (before, chunks) = (super::world::keys(&store.view()), rows(&store.view()));
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.damage, recovery.torn), (vec![], None));
    assert_eq!(super::world::keys(&store.view()), before);
    let held = |rows: std::collections::BTreeMap<_, crate::chunks::row::Row>| {
        rows.into_iter().filter(|(_, row)| row.references > 0).collect::<Vec<_>>()
    };
    assert_eq!(held(rows(&store.view())), held(chunks), "references and places are as they were");
    audit(&store);
    assert_eq!(
        store.read_chunk(DOMAIN, ChunkId::of(&body(903, 3000)), 0..u32::MAX).unwrap(),
        body(903, 3000)
    );
}

#[test]
fn a_base_that_does_not_read_is_said_and_an_index_goes_on_without() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = overwritten(&disk, &settings);
    let before = super::world::keys(&store.view());
    store.checkpoint().unwrap();
    drop(store);
    for at in [5, disk.content("base").len() / 2] {
        disk.corrupt("base", |bytes| bytes[at] ^= 1);
        let (store, recovery) = open(&disk, &settings);
        assert_eq!(recovery.damage, vec![], "the index has it all");
        assert_eq!(super::world::keys(&store.view()), before);
        drop(store);
        let lost = Settings { kept: Some(Arc::default()), ..settings.clone() };
        let copied = disk.copied();
        let (_, recovery) = open(&copied, &lost);
        assert_eq!(recovery.damage.first().map(|damage| damage.from), Some(1), "never papered over");
        assert!(copied.names().contains(&"base.bad".to_owned()), "kept for who can read more of it");
        disk.corrupt("base", |bytes| bytes[at] ^= 1);
    }
}

#[test]
fn an_examination_tells_a_damaged_base_and_a_new_one_is_written_from_the_index() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = overwritten(&disk, &settings);
    let before = super::world::keys(&store.view());
    assert_eq!(store.examine().unwrap().base, None);
    store.checkpoint().unwrap();
    drop(store);
    for part in 0..8 {
        let at = disk.content("base").len() * part / 8 + 5;
        disk.corrupt("base", |bytes| bytes[at] ^= 1);
        let (store, _) = open(&disk, &settings);
        let told = store.examine().unwrap().base.unwrap_or_default();
        assert!(told.contains("base of the journal"), "{told}");
        store.renew_base().unwrap();
        assert_eq!(store.examine().unwrap().base, None, "byte {at}");
        drop(store);
        let lost = Settings { kept: Some(Arc::default()), ..settings.clone() };
        let (store, recovery) = open(&disk, &lost);
        assert_eq!(recovery.damage, vec![], "the new one says it all");
        assert_eq!(super::world::keys(&store.view()), before);
    }
}

/// As after a power cut, which copies are not synced against.
#[test]
fn a_torn_copy_of_a_tree_does_not_keep_the_journal_from_a_base() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let tree = tree_of(&[body(1, 9_000), body(2, 9_000)]);
    commit(&store, vec![say_put("far", 1, ChunkId::of(&tree))]).unwrap();
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Tree, &tree).unwrap());
    store.settle(|result| result.unwrap());
    store.pump();
    let place = rows(&store.view())[&(DOMAIN, ChunkId::of(&tree))].place.unwrap();
    let at = place.offset as usize + header_len(tree.len() as u32) + 5;
    disk.corrupt(&file_name(place.area.folder(), place.segment), |content| content[at] ^= 1);
    for number in 0..1200_u64 {
        put_small(&store, &format!("key-{}", number % 40), number, &body(number, 40)).unwrap();
        if number % 100 == 0 {
            collect(&store, number * CHUNK_REST_MS);
        }
    }
    assert!(disk.names().contains(&"base".to_owned()));
    let before = super::world::keys(&store.view());
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    assert_eq!(super::world::keys(&store.view()), before);
}

#[test]
fn a_base_that_a_scrub_cannot_read_is_written_anew_while_the_index_has_it_all() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = overwritten(&disk, &settings);
    let before = super::world::keys(&store.view());
    let middle = disk.content("base").len() / 2;
    disk.corrupt("base", |bytes| bytes[middle] ^= 1);
    store.begin_scrub(WallTime(1)).unwrap();
    while !store.scrub(u64::MAX, WallTime(1)).unwrap().finished {}
    store.collect(WallTime(0)).unwrap();
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![], "the base is whole again");
    assert_eq!(super::world::keys(&store.view()), before);
    audit(&store);
}

#[test]
fn a_copy_that_cannot_be_read_goes_and_keeps_no_segment() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    let bytes = cached(&store, 1);
    store.settle(|result| result.unwrap());
    store.pump();
    let key = (DOMAIN, ChunkId::of(&bytes));
    let row = rows(&store.view()).remove(&key).unwrap();
    let place = row.place.unwrap();
    let at = place.offset as usize + 5_000;
    disk.corrupt(&file_name(place.area.folder(), place.segment), |content| content[at] ^= 1);
    store.rewrite(key, place, row).unwrap();
    assert_eq!((store.usage().cache.live, has(&store, &bytes)), (0, false));
    audit(&store);
}

#[test]
fn a_copy_that_counts_since_it_was_looked_at_is_not_moved_among_those_that_may_go() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    let bytes = cached(&store, 1);
    store.settle(|result| result.unwrap());
    store.pump();
    let key = (DOMAIN, ChunkId::of(&bytes));
    let row = rows(&store.view()).remove(&key).unwrap();
    let place = row.place.unwrap();
    assert_eq!(place.area, Area::Cache);
    // Another site is told that it is held here, between the collector's look and its move.
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    store.settle(|result| result.unwrap());
    store.pump();
    store.rewrite(key, place, row).unwrap();
    store.settle(|result| result.unwrap());
    store.pump();
    assert!(store.counts(DOMAIN, key.1));
    assert_eq!((store.usage().payload.live, store.usage().cache.live), (extent_len(40_000), 0));
    audit(&store);
    drop(store);
    let (store, _) = open(&disk.power_cut(1), &kept());
    assert_eq!(store.read_chunk(DOMAIN, key.1, 0..u32::MAX).unwrap(), bytes);
}

#[test]
fn a_chunk_counts_while_it_is_written_again_elsewhere() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &kept());
    let bytes = body(1, 50_000);
    let key = (DOMAIN, ChunkId::of(&bytes));
    let _pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
    assert!(!store.counts(DOMAIN, key.1), "nothing has synced it");
    store.settle(|result| result.unwrap());
    store.pump();
    assert!(store.counts(DOMAIN, key.1));
    // As when its segment is emptied: unsynced there, durable where the index says.
    let (area, kind, children) = (Area::Payload, ChunkKind::Leaf, [].into());
    store.write_extent(key, Draft { area, kind, bytes: &bytes, children, moves: true }).unwrap();
    assert!(store.counts(DOMAIN, key.1), "in the midst of it");
    store.settle(|result| result.unwrap());
    store.pump();
    assert!(store.counts(DOMAIN, key.1));
    audit(&store);
}

/// A tree with two leaves, which is damaged, and then deleted and collected.
fn rotten_tree(store: &Store, disk: &FaultyDisk) {
    let tree = (DOMAIN, ChunkId::of(&tree_of(&[body(1, 9_000), body(2, 9_000)])));
    let place = rows(&store.view())[&tree].place.unwrap();
    let at = place.offset as usize + header_len(rows(&store.view())[&tree].stored) + 5;
    disk.corrupt(&file_name(place.area.folder(), place.segment), |content| content[at] ^= 1);
    store.read_chunk(DOMAIN, tree.1, 0..u32::MAX).unwrap_err();
    delete(store, "tree").unwrap();
    for number in 1..6_u64 {
        collect(store, number * CHUNK_REST_MS);
    }
    assert_eq!(rows(&store.view()).len(), 0, "the tree is gone, and so is what it listed");
    audit(store);
}

#[test]
fn what_a_rotten_tree_lists_is_let_go_with_it() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_tree(&store, "tree", 1, &[body(1, 9_000), body(2, 9_000)]).unwrap();
    rotten_tree(&store, &disk);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert_eq!(rows(&store.view()).len(), 0);
    audit(&store);
}

#[test]
fn the_scrub_notes_what_trees_list_that_a_release_before_took_in() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_tree(&store, "tree", 1, &[body(1, 9_000), body(2, 9_000)]).unwrap();
    let tree = (DOMAIN, ChunkId::of(&tree_of(&[body(1, 9_000), body(2, 9_000)])));
    let forget =
        |_: &mut _, changes: &mut crate::store::changes::Changes<'_>, _: &dyn skerry_base::kv::View| {
            changes.note(&crate::chunks::row::listed_key(tree), None);
            Ok(Some(()))
        };
    store.own_group(forget).unwrap();
    store.begin_scrub(WallTime(1)).unwrap();
    while !store.scrub(u64::MAX, WallTime(1)).unwrap().finished {}
    audit(&store);
    rotten_tree(&store, &disk);
}

/// `bases`: a base was written before the tree rots, and after.
fn leaves_outlive_a_rotten_tree(bases: [bool; 2]) {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bodies = [body(1, 9_000), body(2, 9_000)];
    put_tree(&store, "tree", 1, &bodies).unwrap();
    store.checkpoint().unwrap();
    let tree = (DOMAIN, ChunkId::of(&tree_of(&bodies)));
    let row = rows(&store.view())[&tree];
    let place = row.place.unwrap();
    if bases[0] {
        store.renew_base().unwrap();
    }
    let at = place.offset as usize + header_len(row.stored) + 5;
    disk.corrupt(&file_name(place.area.folder(), place.segment), |content| content[at] ^= 1);
    if bases[1] {
        store.renew_base().unwrap();
    }
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.rotten.len(), 1, "{recovery:?}");
    assert_eq!(store.scrub_state().damaged.len(), 1);
    collect(&store, 1);
    for body in &bodies {
        assert_eq!(&store.read_chunk(DOMAIN, ChunkId::of(body), 0..u32::MAX).unwrap(), body, "{bases:?}");
    }
    let _pin = store.put_chunk(DOMAIN, crate::Class::Payload, ChunkKind::Tree, &tree_of(&bodies)).unwrap();
    store.settle(|result| result.unwrap());
    store.pump();
    assert!(store.recheck(DOMAIN, tree.1).unwrap());
    for turn in 1..6 {
        collect(&store, turn * CHUNK_REST_MS);
    }
    for body in &bodies {
        assert_eq!(&store.read_chunk(DOMAIN, ChunkId::of(body), 0..u32::MAX).unwrap(), body, "{bases:?}");
    }
}

#[test]
fn a_rebuild_lets_go_of_nothing_that_a_rotten_tree_may_list() {
    for bases in [[false, false], [true, false], [false, true], [true, true]] {
        leaves_outlive_a_rotten_tree(bases);
    }
}
