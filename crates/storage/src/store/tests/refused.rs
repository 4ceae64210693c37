//! What the file system refuses the index now it may grant later: nobody takes that for damage, unless it never ends.

use std::sync::Arc;

use skerry_base::kv::{Table, ViewError};
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::recovering::{lose, reads, settle};
use super::world::{
    DOMAIN, Keys, audit, body, commit, kept, keys, open, put_large, put_small, put_tree, say_put, tree_of,
};
use crate::chunks::row::{APPLIED, chunk_key};
use crate::disk::faulty::FaultyDisk;
use crate::index::Refused;
use crate::index::health::MARKER;
use crate::store::{IndexState, Store};
use crate::{Class, ReadError, Settings, StorageError};

fn too_many_files() -> ViewError {
    ViewError::Refused("too many open files".into())
}

/// The row of a chunk cannot be read.
fn fail_row(settings: &Settings, bytes: &[u8], error: ViewError) {
    let row = chunk_key((DOMAIN, ChunkId::of(bytes)));
    settings.kept.as_ref().unwrap().fail(Some((Table::Chunks, row, error)));
}

fn heal(settings: &Settings) {
    settings.kept.as_ref().unwrap().fail(None);
}

fn is_marked(disk: &FaultyDisk) -> bool {
    disk.names().contains(&MARKER.to_owned())
}

/// Flushes go through all the time: somebody has to say that merges do not.
#[test]
fn an_index_that_is_refused_its_flushes_or_its_merges_all_the_time_is_marked() {
    for merges in [true, false] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let index = settings.kept.as_ref().unwrap();
        let refuse = |count| {
            index.refuse(match merges {
                true => Refused { merges: count, flushes: 0 },
                false => Refused { flushes: count, merges: 0 },
            });
        };
        let step = |count| {
            refuse(count);
            store.checkpoint().unwrap();
            store.collect(WallTime(1)).unwrap();
        };
        store.view().guarded(|| Err::<(), _>(too_many_files())).unwrap_err();
        (0..20).for_each(|_| step(20));
        assert!(!is_marked(&disk), "not tried again since");
        assert_eq!(index.merged_again(), if merges { 20 } else { 0 });
        step(0);
        (1..12).for_each(step);
        step(1);
        (2..12).for_each(step);
        assert!(!is_marked(&disk), "it went through once");
        step(12);
        assert!(is_marked(&disk));
        let tried = index.merged_again();
        step(13);
        assert_eq!(index.merged_again(), tried, "each try wears the disk");
    }
}

/// Its extent is on the disk and is to enter the index with the next group, whosever that is.
#[test]
fn a_chunk_whose_row_cannot_be_read_just_now_enters_the_index_later_and_stops_nobody() {
    for damaged in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bytes = body(1, 9_000);
        let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
        store.sync_payload().unwrap();
        let error = if damaged { ViewError::Unreadable("a bad block".into()) } else { too_many_files() };
        fail_row(&settings, &bytes, error);
        put_small(&store, "other", 1, b"1").unwrap();
        let refused = commit(&store, vec![say_put("a", 2, pin.id())]).unwrap_err();
        assert_eq!(matches!(refused, StorageError::Lacking { .. }), !damaged, "{refused}");
        store.own_group(|_, _, _| Ok(Some(()))).unwrap_err();
        assert!(store.check_poison().is_ok() && reads(&store, &bytes));
        assert_eq!((is_marked(&disk), store.usage().index_bad), (damaged, damaged));
        heal(&settings);
        commit(&store, vec![say_put("a", 2, pin.id())]).unwrap();
        assert!(!store.live.lock().has_fresh());
        drop(pin);
        audit(&store);
        drop(store);
        if damaged {
            lose(&settings);
        }
        let (store, recovery) = open(&disk.power_cut(1), &settings);
        assert_eq!(matches!(recovery.index, IndexState::Rebuilt(_)), damaged);
        assert!(reads(&store, &bytes) && keys(&store.view()).len() == 2);
        audit(&store);
    }
}

/// The record is acknowledged; its tree is known to the index only when what it lists can be counted.
#[test]
fn a_tree_whose_leaves_cannot_be_counted_just_now_is_counted_later() {
    for crashes in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (mut store, _) = open(&disk, &settings);
        store.checkpoint().unwrap();
        let bodies = [body(1, 9_000), body(2, 9_000)];
        fail_row(&settings, &bodies[1], too_many_files());
        put_tree(&store, "tree", 1, &bodies).unwrap_err();
        heal(&settings);
        let pins = bodies
            .each_ref()
            .map(|bytes| store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, bytes).unwrap());
        let tree = tree_of(&bodies);
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree).unwrap());
        fail_row(&settings, &bodies[1], too_many_files());
        commit(&store, vec![say_put("tree", 1, ChunkId::of(&tree))]).unwrap();
        drop(pins);
        // What it notes is from where the next start looks.
        store.checkpoint().unwrap();
        assert!(store.live.lock().has_fresh());
        heal(&settings);
        if crashes {
            drop(store);
            store = open(&disk.power_cut(1), &settings).0;
        }
        settle(&store);
        assert!(!store.live.lock().has_fresh());
        assert!(bodies.iter().all(|bytes| reads(&store, bytes)) && reads(&store, &tree));
        audit(&store);
    }
}

/// `skerry check` would rebuild it, and throw away what only it says.
#[test]
fn what_cannot_be_looked_up_just_now_is_not_told_as_a_damaged_index() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    fail_row(&settings, &bytes, too_many_files());
    let id = ChunkId::of(&bytes);
    let read = store.read_chunk(DOMAIN, id, 0..u32::MAX);
    assert!(matches!(read, Err(ReadError::Store(StorageError::Lacking { .. }))), "{read:?}");
    assert!(matches!(store.recheck(DOMAIN, id), Err(StorageError::Lacking { .. })));
    let examined = store.examine();
    assert!(matches!(examined, Err(StorageError::Lacking { .. })), "{examined:?}");
    assert!(!is_marked(&disk));
    heal(&settings);
    assert!(store.examine().unwrap().damaged.is_empty());
}

#[test]
fn a_start_that_cannot_read_the_index_just_now_leaves_it_as_it_is() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"1").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    settings.kept.as_ref().unwrap().fail(Some((Table::Storage, APPLIED.to_vec(), too_many_files())));
    let refused = Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone()).map(drop);
    assert!(matches!(refused, Err(StorageError::Lacking { .. })), "{refused:?}");
    heal(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.index, keys(&store.view()).len()), (IndexState::Opened, 1));
}

/// So many open files that the next is refused.
fn at_the_limit() -> std::io::Result<()> {
    Err(std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()))
}

/// It says nothing of the disk: who asks is told to ask again, and a scrub lets go of no copy for it.
#[test]
fn a_segment_that_cannot_be_opened_just_now_marks_nothing() {
    for class in [Class::Payload, Class::Cache] {
        let (disk, settings) = (FaultyDisk::default(), Settings { open_files: 1, ..kept() });
        let (store, _) = open(&disk, &settings);
        let (bytes, other) = (body(1, 20_000), body(2, 20_000));
        let id = ChunkId::of(&bytes);
        commit(&store, vec![say_put("a", 1, id)]).unwrap();
        drop(store.put_chunk(DOMAIN, class, ChunkKind::Leaf, &bytes).unwrap());
        put_large(&store, "b", 2, &other).unwrap();
        settle(&store);
        let segment = match class {
            Class::Payload => "payload/0000000001.seg",
            Class::Cache => "cache/0000000001.seg",
        };
        store.files.forget(crate::chunks::row::Area::Payload, 1);
        store.files.forget(crate::chunks::row::Area::Cache, 1);
        disk.on_open(segment, at_the_limit);
        let read = store.read_chunk(DOMAIN, id, 0..u32::MAX);
        assert!(matches!(read, Err(ReadError::Store(StorageError::Lacking { .. }))), "{class:?}: {read:?}");
        store.begin_scrub(WallTime(1)).unwrap();
        let step = store.scrub(u64::MAX, WallTime(1));
        assert!(matches!(step, Err(StorageError::Lacking { .. })), "{class:?}: {step:?}");
        assert!(store.has_chunk(DOMAIN, id).unwrap(), "{class:?}: others are told that it is here");
        assert!(store.live.lock().damaged.is_empty());
        disk.on_open("none", || Ok(()));
        assert!(reads(&store, &bytes), "{class:?}");
        while !store.scrub(u64::MAX, WallTime(1)).unwrap().finished {}
        assert!(store.scrub_state().damaged.is_empty() && reads(&store, &bytes), "{class:?}");
    }
}

/// "Not here" of the only holder is what makes others tell a client that it is lost.
#[test]
fn an_index_that_cannot_be_asked_is_no_no() {
    for error in [too_many_files(), ViewError::Unreadable("a bad block".into())] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bytes = body(1, 9_000);
        put_large(&store, "a", 1, &bytes).unwrap();
        fail_row(&settings, &bytes, error);
        store.has_chunk(DOMAIN, ChunkId::of(&bytes)).unwrap_err();
        heal(&settings);
        assert!(store.has_chunk(DOMAIN, ChunkId::of(&bytes)).unwrap());
    }
}

/// A cable that was loose: nobody need wait for a round of the scrub to count on it again.
#[test]
fn a_damaged_chunk_that_is_read_whole_is_here_again() {
    for part in [0..u32::MAX, 0..9_000, 0..8_999] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bytes = body(1, 9_000);
        put_large(&store, "a", 1, &bytes).unwrap();
        let id = ChunkId::of(&bytes);
        disk.spoil("payload/0000000001.seg", 4096..8192);
        let read = store.read_chunk(DOMAIN, id, 0..u32::MAX);
        assert!(matches!(read, Err(ReadError::Damaged(_))), "{read:?}");
        assert!(!store.has_chunk(DOMAIN, id).unwrap());
        disk.heal("payload/0000000001.seg");
        store.read_chunk(DOMAIN, id, part.clone()).unwrap();
        assert_eq!(store.has_chunk(DOMAIN, id).unwrap(), part.end >= 9_000, "{part:?}");
    }
}

/// STATE `full` has sites hand their writes to others.
#[test]
fn a_segment_that_cannot_be_made_just_now_does_not_fill_the_disk() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    disk.fail_syncs_of_folder(Some(crate::journal::FOLDER));
    let mut refused = 0;
    for number in 0..60 {
        let put = put_small(&store, &format!("{number}"), number, &body(number, 3000));
        refused += u32::from(matches!(put, Err(StorageError::Lacking { .. })));
    }
    assert!(refused > 0 && !store.space.is_full());
    disk.fail_syncs_of_folder(None);
    put_small(&store, "a", 100, &body(100, 3000)).unwrap();
    audit(&store);
}

/// Else one bad block of the index would keep all space from coming back until the next start.
#[test]
fn a_chunk_that_cannot_enter_the_index_keeps_no_space_from_coming_back() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_large(&store, "gone", 1, &body(1, 60_000)).unwrap();
    put_large(&store, "stays", 2, &body(2, 60_000)).unwrap();
    let bytes = body(3, 9_000);
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    store.sync_payload().unwrap();
    fail_row(&settings, &bytes, ViewError::Unreadable("a bad block".into()));
    super::world::delete(&store, "gone").unwrap();
    let mut told = 0;
    for step in 1..6 {
        told += u32::from(store.collect(WallTime(step * skerry_base::limits::CHUNK_REST_MS)).is_err());
        store.checkpoint().unwrap();
    }
    assert!(told > 0, "it is told");
    assert_eq!(store.usage().payload.dead, 0, "{:?}", store.usage().payload);
    assert!(store.has_chunk(DOMAIN, ChunkId::of(&body(2, 60_000))).unwrap());
    heal(&settings);
    settle(&store);
    assert!(!store.live.lock().has_fresh() && reads(&store, &bytes));
    audit(&store);
}
