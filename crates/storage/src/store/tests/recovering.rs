//! What recovery does not understand it leaves: damage costs what it hit, however often the store is opened or its index
//! built anew after that.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, Held, Keys, audit, body, commit, delete, kept, keys, open, open_on, put_large, put_small,
    put_tree, rows, say_put, small, tree_of,
};
use crate::chunks::row::Place;
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::disk::real::RealDisk;
use crate::index::health::MARKER;
use crate::journal::file_name;
use crate::store::open::lacking_of;
use crate::store::{DamagedChunk, ScrubStep, Store};
use crate::{Class, Engine, IndexState, ReadError, Settings};

/// Where the frames of a journal segment begin.
fn frames(disk: &FaultyDisk, number: u32) -> Vec<usize> {
    let bytes = disk.content(&file_name("journal", number));
    let magic = crate::journal::frame::MAGIC.to_le_bytes();
    (0..bytes.len() - 8).step_by(8).filter(|&at| bytes[at..].starts_with(&magic)).collect()
}

pub(super) fn flip(disk: &FaultyDisk, name: &str, at: usize) {
    disk.corrupt(name, |bytes| bytes[at] ^= 1);
}

pub(super) fn place_of(store: &Store, bytes: &[u8]) -> Place {
    rows(&store.view())[&(DOMAIN, ChunkId::of(bytes))].place.unwrap()
}

pub(super) fn reads(store: &Store, bytes: &[u8]) -> bool {
    store.check_chunk(DOMAIN, ChunkId::of(bytes)).is_ok()
}

pub(super) fn settle(store: &Store) {
    store.settle(|settled| settled.unwrap());
    store.pump();
}

/// Some steps of the collector at one moment.
pub(super) fn collect(store: &Store, now: u64) {
    for _ in 0..6 {
        store.checkpoint().unwrap();
        store.collect(WallTime(now)).unwrap();
    }
}

/// No base comes of itself.
fn heads_stay() -> Settings {
    Settings { journal_heads_bytes: u64::MAX, ..kept() }
}

pub(super) fn lose(settings: &Settings) {
    settings.kept.as_ref().unwrap().lose();
}

/// Six frames in the active segment, of which one rots.
fn rotten_third(settings: &Settings) -> FaultyDisk {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, settings);
    for number in 0..6 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    drop(store);
    flip(&disk, &file_name("journal", 1), frames(&disk, 1)[2] + 50);
    disk
}

/// Its table names the frames that were found; a rebuild reads them all.
#[test]
fn damage_in_a_segment_that_was_sealed_later_costs_a_rebuild_nothing_behind_it() {
    // Sealed at once, or after a start with an index that knows what lies behind the damage.
    for flushed in [false, true] {
        let settings = heads_stay();
        let disk = rotten_third(&settings);
        let (mut store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.damage.len(), keys(&store.view()).len()), (1, 5));
        if flushed {
            store.checkpoint().unwrap();
            drop(store);
            store = open(&disk, &settings).0;
        }
        for number in 10..160 {
            put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
        }
        let before = keys(&store.view());
        assert!(store.core().writer.tail().segment > 2, "it was sealed");
        drop(store);
        lose(&settings);
        let (store, recovery) = open(&disk, &settings);
        let lost: u64 = recovery.damage.iter().map(|damage| damage.to - damage.from).sum();
        assert_eq!((lost, keys(&store.view()) == before), (1, true), "flushed: {flushed}: {recovery:?}");
        audit(&store);
    }
}

/// Whoever goes by what the journal says hears of it, however a start ended that met the damage; not of what the index knew.
#[test]
fn what_damage_took_with_it_is_told_at_later_starts_as_well() {
    let settings = heads_stay();
    let disk = rotten_third(&settings);
    let (store, recovery) = open(&disk, &settings);
    let lost: Vec<_> = recovery.damage.iter().map(|damage| (damage.from, damage.to)).collect();
    assert_eq!((recovery.lost.clone(), lost.len()), (lost.clone(), 1), "{recovery:?}");
    store.checkpoint().unwrap();
    drop(store);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.lost, lost, "{recovery:?}");
    // Another frame rots that the index knows: nothing more is lost, until the index is built again.
    drop(store);
    flip(&disk, &file_name("journal", 1), frames(&disk, 1)[0] + 50);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.lost, lost);
    drop(store);
    lose(&settings);
    let (_store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.lost.len(), recovery.lost.last()), (2, lost.last()), "{recovery:?}");
}

/// As a release before left it: its table names only what was walked at the last start.
#[test]
fn a_table_that_leaves_frames_out_costs_none_of_them() {
    let settings = heads_stay();
    let disk = rotten_third(&settings);
    let (store, _) = open(&disk, &settings);
    store.core().writer.forget_lines();
    for number in 10..160 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    let before = keys(&store.view());
    drop(store);
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    assert_eq!(keys(&store.view()), before);
}

/// A record is gone; what it names is left to the collector's rest: another member may send the record back.
#[test]
fn the_payload_of_a_lost_record_rests_before_it_goes() {
    for rebuilds in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), heads_stay());
        let (store, _) = open(&disk, &settings);
        let bodies = [body(1, 50_000), body(2, 50_000), body(3, 50_000)];
        let leaves = [body(4, 9_000), body(5, 9_000)];
        put_large(&store, "a", 1, &bodies[0]).unwrap();
        put_large(&store, "b", 2, &bodies[1]).unwrap();
        put_tree(&store, "t", 3, &leaves).unwrap();
        put_large(&store, "c", 4, &bodies[2]).unwrap();
        drop(store);
        for frame in [1, 2] {
            flip(&disk, &file_name("journal", 1), frames(&disk, 1)[frame] + 50);
        }
        if rebuilds {
            lose(&settings);
        }
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.chunks_dropped, keys(&store.view()).len()), (0, 2), "{recovery:?}");
        let lost = [&bodies[1], &leaves[0], &leaves[1], &tree_of(&leaves)];
        collect(&store, 1);
        assert!(lost.iter().all(|bytes| reads(&store, bytes)), "rebuilds: {rebuilds}");
        // The record comes again, by another member.
        commit(&store, vec![say_put("b", 2, ChunkId::of(&bodies[1]))]).unwrap();
        (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        assert!(reads(&store, &bodies[1]) && reads(&store, &bodies[0]) && reads(&store, &bodies[2]));
        assert!(!lost[1..].iter().any(|bytes| reads(&store, bytes)), "nothing stays for ever");
        audit(&store);
    }
}

/// What was collected is not left for records that are missing: put again it would be found here, and a rebuild goes by
/// the note that it was collected.
#[test]
fn what_was_collected_does_not_come_back_where_records_are_missing() {
    let (disk, settings) = (FaultyDisk::default(), heads_stay());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "s", 1, &body(1, 1000)).unwrap();
    let bytes = body(2, 50_000);
    put_large(&store, "x", 2, &bytes).unwrap();
    put_large(&store, "y", 3, &body(3, 50_000)).unwrap();
    delete(&store, "x").unwrap();
    for turn in 0..3 {
        store.collect(WallTime(turn * CHUNK_REST_MS)).unwrap();
    }
    assert!(!store.has_chunk(DOMAIN, ChunkId::of(&bytes)).unwrap());
    put_small(&store, "z", 4, &body(4, 1000)).unwrap();
    drop(store);
    flip(&disk, &file_name("journal", 1), frames(&disk, 1)[0] + 50);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage.len(), 1, "{recovery:?}");
    assert!(!store.has_chunk(DOMAIN, ChunkId::of(&bytes)).unwrap());
    put_large(&store, "x", 5, &bytes).unwrap();
    drop(store);
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    assert!(reads(&store, &bytes));
    (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
    assert!(reads(&store, &bytes));
    audit(&store);
}

/// Nobody knows that it is a tree, nor what it listed.
#[test]
fn a_rebuild_lets_go_of_nothing_that_a_tree_without_a_header_may_list() {
    for unread in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bodies = [body(1, 9_000), body(2, 9_000)];
        put_tree(&store, "tree", 1, &bodies).unwrap();
        put_large(&store, "behind", 2, &body(3, 9_000)).unwrap();
        store.checkpoint().unwrap();
        let place = place_of(&store, &tree_of(&bodies));
        drop(store);
        let name = file_name("payload", place.segment);
        if unread {
            disk.spoil(&name, place.offset..place.offset + 512);
        } else {
            flip(&disk, &name, place.offset as usize + 20);
        }
        lose(&settings);
        let (store, _) = open(&disk, &settings);
        collect(&store, 1);
        assert!(bodies.iter().all(|bytes| reads(&store, bytes)), "unread: {unread}");
        // It is fetched again; what it lists is counted again.
        let tree = tree_of(&bodies);
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree).unwrap());
        settle(&store);
        (1..6).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        assert!(bodies.iter().all(|bytes| reads(&store, bytes)), "unread: {unread}");
        audit(&store);
    }
}

/// As `skerry check --repair` does it: what the examination found is on the list before the index is built anew.
#[test]
fn a_rebuild_asks_the_list_of_the_scrub_for_trees() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bodies = [body(1, 9_000), body(2, 9_000)];
    put_tree(&store, "tree", 1, &bodies).unwrap();
    let place = place_of(&store, &tree_of(&bodies));
    let chunk = DamagedChunk {
        domain: DOMAIN,
        id: ChunkId::of(&tree_of(&bodies)),
        tree: true,
        stored: 100,
        why: "the header".into(),
    };
    store.note_damaged(vec![chunk]).unwrap();
    drop(store);
    // All of it reads as a hole.
    disk.corrupt(&file_name("payload", place.segment), |bytes| {
        bytes[place.offset as usize..place.offset as usize + 4096].fill(0);
    });
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    collect(&store, 1);
    assert!(bodies.iter().all(|bytes| reads(&store, bytes)));
}

/// It is referred to, and may be read again one day.
#[test]
fn a_leaf_that_cannot_be_read_just_now_stays_and_is_told() {
    for rebuilds in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bytes = body(1, 90_000);
        put_large(&store, "a", 1, &bytes).unwrap();
        let (place, id) = (place_of(&store, &bytes), ChunkId::of(&bytes));
        drop(store);
        let name = file_name("payload", place.segment);
        disk.spoil(&name, place.offset + 40_960..place.offset + 41_472);
        if rebuilds {
            lose(&settings);
        }
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.chunks_dropped, recovery.rotten.len()), (0, 1), "{rebuilds}: {recovery:?}");
        assert_eq!(store.scrub_state().damaged.iter().map(|chunk| chunk.id).collect::<Vec<_>>(), [id]);
        assert!(!store.has_chunk(DOMAIN, id).unwrap() && !store.counts(DOMAIN, id), "nobody counts on it");
        (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        drop(store);
        disk.heal(&name);
        if rebuilds {
            lose(&settings);
        }
        let (store, _) = open(&disk, &settings);
        assert_eq!(store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap(), bytes);
        assert!(store.recheck(DOMAIN, id).unwrap());
        audit(&store);
    }
}

/// One that is rotten in a segment that a rebuild verifies is dropped, and who refers to it is told.
#[test]
fn a_rotten_leaf_that_a_rebuild_drops_is_on_the_list() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 90_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    let place = place_of(&store, &bytes);
    drop(store);
    flip(&disk, &file_name("payload", place.segment), place.offset as usize + 40_000);
    lose(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.rotten.iter().map(|chunk| chunk.id).collect::<Vec<_>>(), [ChunkId::of(&bytes)]);
    assert_eq!(store.scrub_state().damaged.len(), 1);
    let read = store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
    assert!(matches!(read, Err(ReadError::Absent)), "{read:?}");
}

/// The index is older than the segment, or gone: only the frames in it say that it is in use.
#[test]
fn a_journal_segment_without_its_first_sector_is_damaged_and_no_spare() {
    for (garbage, loses) in [(false, false), (true, false), (false, true)] {
        let (disk, settings) = (FaultyDisk::default(), heads_stay());
        let (store, _) = open(&disk, &settings);
        let mut number = 0;
        let put = |number: u64| {
            put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
        };
        while store.core().writer.tail().segment < 2 {
            put(number);
            number += 1;
        }
        (number..number + 5).for_each(put);
        let before = keys(&store.view());
        drop(store);
        let name = file_name("journal", 2);
        disk.corrupt(&name, |bytes| bytes[..512].fill(if garbage { 0x5a } else { 0 }));
        if loses {
            lose(&settings);
        }
        let (store, recovery) = open(&disk, &settings);
        let lost: u64 = recovery.damage.iter().map(|damage| damage.to - damage.from).sum();
        assert_eq!((lost, keys(&store.view()).len() + 1), (1, before.len()), "{recovery:?}");
        assert!(recovery.damage.iter().any(|damage| damage.segment == 2));
        put_small(&store, "after", 1000, b"after").unwrap();
        let before = keys(&store.view());
        drop(store);
        let (store, _) = open(&disk, &settings);
        assert_eq!(keys(&store.view()), before);
        for number in 2000..2150 {
            put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
        }
        let before = keys(&store.view());
        drop(store);
        lose(&settings);
        let (store, _) = open(&disk, &settings);
        assert_eq!(keys(&store.view()), before);
        audit(&store);
    }
}

/// It was written again, and the power went before the second was whole.
#[test]
fn a_torn_newer_extent_hides_no_whole_older_one() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 90_000);
    let key = (DOMAIN, ChunkId::of(&bytes));
    put_large(&store, "a", 1, &bytes).unwrap();
    let first = place_of(&store, &bytes);
    store.live.lock().damaged.insert(key);
    drop(store.put_chunk(key.0, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    let second = store.live.lock().fresh[&key].place;
    assert!(second > first);
    drop(store);
    for torn in [true, false] {
        let disk = disk.copied();
        if torn {
            flip(&disk, &file_name("payload", second.segment), second.offset as usize + 70_000);
        }
        let settings =
            Settings { kept: Some(Arc::new(settings.kept.as_ref().unwrap().copied())), ..settings.clone() };
        let (store, _) = open(&disk, &settings);
        assert_eq!(store.read_chunk(key.0, key.1, 0..u32::MAX).unwrap(), bytes, "torn: {torn}");
        assert_eq!(place_of(&store, &bytes), if torn { first } else { second });
        let dead = crate::payload::extent::extent_len(90_000);
        assert_eq!(store.usage().payload.dead, dead, "the other comes back");
        // The last of a segment may wait for one behind it.
        put_large(&store, "behind", 2, &body(2, 9_000)).unwrap();
        collect(&store, 1);
        assert_eq!(store.usage().payload.dead, 0);
        audit(&store);
    }
}

/// More cannot be read of it than a scan bears: copies that may go at any time keep no site from starting.
#[test]
fn a_dying_segment_of_the_cache_keeps_no_start_from_coming_up() {
    let settings = Settings { cache_segment_bytes: 8 << 20, cache_bytes: 64 << 20, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    put_large(&store, "a", 1, &body(1, 50_000)).unwrap();
    for number in 10..18 {
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &body(number, 1 << 20)).unwrap());
    }
    settle(&store);
    commit(&store, vec![say_put("copy", 17, ChunkId::of(&body(17, 1 << 20)))]).unwrap();
    let copy = place_of(&store, &body(17, 1 << 20));
    drop(store);
    disk.spoil(&file_name("cache", 1), 8192..6 << 20);
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    assert!(reads(&store, &body(1, 50_000)));
    assert!(copy.segment == 1 || reads(&store, &body(17, 1 << 20)), "nor is another segment passed over");
    audit(&store);
    for number in 20..28 {
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &body(number, 1 << 20)).unwrap());
    }
    settle(&store);
    assert!(reads(&store, &body(27, 1 << 20)));
}

/// The same of payload is an error that names the file.
#[test]
fn a_dying_segment_of_payload_is_an_error_that_names_it() {
    let settings = Settings { payload_segment_bytes: 8 << 20, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    put_large(&store, "a", 1, &body(1, 1 << 20)).unwrap();
    drop(store);
    disk.spoil(&file_name("payload", 1), 8192..6 << 20);
    lose(&settings);
    let opened = Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings);
    let why = opened.map(drop).unwrap_err().to_string();
    assert!(why.contains(&file_name("payload", 1)), "{why}");
}

/// Only what an index lacks is kept for ever for who can read more.
#[test]
fn a_journal_segment_that_lost_nothing_is_not_kept_for_ever() {
    let settings = heads_stay();
    let prepared = FaultyDisk::default();
    let (store, _) = open(&prepared, &settings);
    for number in 0..150 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    drop(store);
    let name = file_name("journal", 1);
    let len = prepared.content(&name).len();
    // The header, the trailer, the table.
    for at in [10, len - 10, len - 100] {
        let disk = prepared.copied();
        flip(&disk, &name, at);
        lose(&settings);
        let (store, recovery) = open(&disk, &settings);
        assert!(!recovery.damage.is_empty());
        assert_eq!(lacking_of(&*store.index).unwrap(), [].into(), "byte {at}");
        assert!(store.only_the_index_says(&ScrubStep::default()).is_some(), "byte {at}");
        (0..150).for_each(|number| delete(&store, &format!("key-{number}")).unwrap());
        (1..6).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        assert!(!disk.names().contains(&name), "byte {at}: a base made it go");
        audit(&store);
    }
}

/// What is missing was in another file: the one behind it is whole.
#[test]
fn a_segment_behind_a_missing_one_lacks_nothing() {
    use crate::disk::Disk;
    let settings = heads_stay();
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    for number in 0..150 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    drop(store);
    disk.remove(&file_name("journal", 2)).unwrap();
    lose(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert!(recovery.damage.iter().any(|damage| damage.to > damage.from + 20), "{recovery:?}");
    assert_eq!(lacking_of(&*store.index).unwrap(), [].into());
    audit(&store);
}

/// Written by a later release: to be read by that, not to be overwritten.
#[test]
fn frames_of_a_later_version_are_no_torn_tail() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    for number in 0..6 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    drop(store);
    let at = *frames(&disk, 1).last().unwrap();
    disk.corrupt(&file_name("journal", 1), |bytes| {
        crate::journal::frame::as_of_version(&mut bytes[at..], 2, &settings.salt);
    });
    let before = disk.content(&file_name("journal", 1));
    for _ in 0..2 {
        let opened = Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone());
        let why = opened.map(drop).unwrap_err().to_string();
        assert!(why.contains("version 2") && why.contains("later release"), "{why}");
    }
    assert_eq!(disk.content(&file_name("journal", 1)), before);
}

/// A store of many keys on files, with a base; and what it says.
fn based(folder: &std::path::Path) -> (Settings, std::collections::BTreeMap<Vec<u8>, Held>) {
    let settings = Settings { engine: Engine::Lsm, journal_heads_bytes: u64::MAX, ..small() };
    let (store, _) = open_on(Arc::new(RealDisk::new(folder).unwrap()), &settings);
    for number in 0..150 {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    store.renew_base().unwrap();
    let before = keys(&store.view());
    (settings, before)
}

/// A byte of its header, or one that shows only when all of it is read.
fn rot_base(folder: &std::path::Path, header: bool) {
    let base = folder.join("base");
    let mut bytes = std::fs::read(&base).unwrap();
    let at = if header { 9 } else { bytes.len() / 2 };
    bytes[at] ^= 1;
    std::fs::write(&base, bytes).unwrap();
}

/// Too many open files, a loose cable: nobody takes that for damage while the index alone says what the base said.
#[test]
fn an_index_that_cannot_be_read_just_now_is_not_thrown_away_while_only_it_knows() {
    for rotten in [Some(true), Some(false), None] {
        let folder = tempfile::tempdir().unwrap();
        let disk = || Arc::new(RealDisk::new(folder.path()).unwrap());
        let (settings, before) = based(folder.path());
        let (list, aside) = (folder.path().join("index/current"), folder.path().join("aside"));
        std::fs::rename(&list, &aside).unwrap();
        std::fs::create_dir(&list).unwrap();
        if let Some(header) = rotten {
            rot_base(folder.path(), header);
            let why =
                Store::open(disk(), Arc::new(Keys), settings.clone()).map(drop).unwrap_err().to_string();
            assert!(why.contains("move the folder `index` away"), "{why}");
            std::fs::remove_dir(&list).unwrap();
            std::fs::rename(&aside, &list).unwrap();
        }
        let (store, recovery) = open_on(disk(), &settings);
        assert_eq!(
            recovery.index == IndexState::Opened,
            rotten.is_some(),
            "it is rebuilt from what is whole: {recovery:?}"
        );
        assert_eq!(keys(&store.view()), before);
    }
}

/// The mark says that one part could not be read once: what reads of it is more than there is without it.
#[test]
fn an_index_that_is_marked_is_used_on_while_only_it_knows() {
    for rotten in [Some(true), Some(false), None] {
        let folder = tempfile::tempdir().unwrap();
        let disk = || Arc::new(RealDisk::new(folder.path()).unwrap());
        let (settings, before) = based(folder.path());
        std::fs::write(folder.path().join(MARKER), []).unwrap();
        rotten.into_iter().for_each(|header| rot_base(folder.path(), header));
        let (store, recovery) = open_on(disk(), &settings);
        assert_eq!(recovery.index == IndexState::Opened, rotten.is_some(), "{recovery:?}");
        assert_eq!(keys(&store.view()), before);
        assert!(!folder.path().join(MARKER).exists(), "it is marked anew if it is damaged");
        // Now the base says it again, and the next mark costs a rebuild and nothing else.
        store.collect(WallTime(1)).unwrap();
        drop(store);
        std::fs::write(folder.path().join(MARKER), []).unwrap();
        let (store, recovery) = open_on(disk(), &settings);
        assert_ne!(recovery.index, IndexState::Opened);
        assert_eq!(keys(&store.view()), before);
    }
}

/// What fails for want of something that the machine has again in a moment is tried again, also where no other segment begins.
#[test]
fn a_base_that_is_needed_is_tried_again_after_the_file_system_refused_it() {
    let (disk, settings) = (FaultyDisk::default(), heads_stay());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, &body(1, 1000)).unwrap();
    store.sweep.lock().unwrap().base.damaged = true;
    disk.fail_syncs(true);
    // Nothing else syncs in that step.
    assert!(store.collect(WallTime(1)).is_err());
    disk.fail_syncs(false);
    assert!(store.check_poison().is_ok());
    store.collect(WallTime(2)).unwrap();
    assert!(!disk.names().contains(&"base".to_owned()), "not in each step");
    for _ in 0..12 {
        store.collect(WallTime(3)).unwrap();
    }
    assert!(disk.names().contains(&"base".to_owned()));
}

/// All of it is written before it is known that it does not read back.
#[test]
fn a_base_that_the_file_system_refuses_on_and_on_is_tried_less_and_less() {
    let (disk, settings) = (FaultyDisk::default(), heads_stay());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, &body(1, 1000)).unwrap();
    store.sweep.lock().unwrap().base.damaged = true;
    disk.fail_syncs(true);
    let tries =
        |steps: usize| -> Vec<usize> { (0..steps).filter(|_| store.collect(WallTime(1)).is_err()).collect() };
    assert_eq!(tries(200), [0, 13, 38, 87, 184]);
    assert!(tries(2_000).len() >= 3, "never less than once an hour");
    disk.fail_syncs(false);
    for _ in 0..721 {
        store.collect(WallTime(1)).unwrap();
    }
    assert!(disk.names().contains(&"base".to_owned()));
    store.sweep.lock().unwrap().base.damaged = true;
    disk.fail_syncs(true);
    assert_eq!(tries(20), [0, 13], "from the beginning");
}

/// A segment of the journal is gone, and with it what it said: an index that was given up may say that.
#[test]
fn an_index_that_was_given_up_stays_where_a_part_of_the_journal_is_gone() {
    for gone in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), heads_stay());
        let (store, _) = open(&disk, &settings);
        for number in 0..150 {
            put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
        }
        drop(store);
        if gone {
            disk.remove(&file_name("journal", 1)).unwrap();
        }
        lose(&settings);
        // It stays in later lives, too.
        for life in 0..3 {
            let (store, _) = open(&disk, &settings);
            disk.create("index-aside/table", 100).ok();
            if life == 1 {
                store.renew_base().unwrap();
            }
            store.drop_aside(&mut store.sweep.lock().unwrap()).unwrap();
            let is_there = disk.names().contains(&"index-aside/table".to_owned());
            assert_eq!(is_there, gone, "life {life}");
        }
    }
}
