//! Everything is read again: damage is found, told, never served, and mended by who puts the bytes again.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, audit, body, delete, kept, keys, open, put_large, put_small, put_tree, rows, small,
};
use crate::chunks::row::{Area, Place};
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::{Extent, block_sums, header_len};
use crate::store::{DamagedChunk, ScrubStep, Store};
use crate::{Class, IndexState, ReadError, Settings, StorageError};

const NOW: WallTime = WallTime(1_000);

/// Scrubs to the end of the round; the steps together.
fn round(store: &Store, most: u64) -> ScrubStep {
    store.begin_scrub(NOW).unwrap();
    let mut sum = ScrubStep::default();
    for _ in 0..10_000 {
        let step = store.scrub(most, NOW).unwrap();
        assert!(step.worked);
        sum.chunks += step.chunks;
        sum.bytes += step.bytes;
        sum.torn_copies += step.torn_copies;
        sum.damaged.extend(step.damaged);
        sum.segments.extend(step.segments);
        if step.finished {
            return sum;
        }
    }
    panic!("the round does not end");
}

/// A byte of the chunk changes where it lies now.
fn rot(disk: &FaultyDisk, store: &Store, id: ChunkId) {
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    flip(disk, &file_name(place.area.folder(), place.segment), place.offset as usize + 70_000);
}

/// Several payload segments, sealed journal segments, a tree, a copy.
fn fill(store: &Store) {
    for n in 0..40 {
        put_small(store, &format!("small-{n}"), n, &body(n, 3000)).unwrap();
    }
    for n in 100..106 {
        put_large(store, &format!("large-{n}"), n, &body(n, 90_000)).unwrap();
    }
    put_tree(store, "tree", 200, &[body(201, 70_000), body(202, 70_000)]).unwrap();
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &body(300, 50_000)).unwrap());
    store.settle(|settled| settled.unwrap());
    store.pump();
}

fn settle(store: &Store) {
    store.settle(|settled| settled.unwrap());
    store.pump();
}

fn flip(disk: &FaultyDisk, file: &str, at: usize) {
    disk.corrupt(file, |bytes| bytes[at] ^= 1);
}

#[test]
fn a_round_reads_every_chunk_and_segment_once_whatever_the_step() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let here = rows(&store.view()).values().filter(|row| row.place.is_some()).count() as u64;
    let whole = round(&store, u64::MAX);
    assert_eq!((whole.chunks, whole.damaged.len(), whole.segments.len()), (here, 0, 0));
    assert!(whole.bytes > 800_000);
    assert_eq!(ScrubStep { damaged: vec![], ..round(&store, 1) }, whole, "one chunk a step");
    let state = store.scrub_state();
    assert_eq!((state.round, state.running, state.finished), (2, false, Some(NOW)));
    assert_eq!(store.scrub(1, NOW).unwrap(), ScrubStep::default(), "nothing to do between rounds");
}

#[test]
fn damage_of_every_kind_is_found_told_and_not_served() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let places = rows(&store.view());
    let place = |bytes: &[u8]| places[&(DOMAIN, ChunkId::of(bytes))].place.unwrap();
    let in_file = |bytes: &[u8], skip: u64| {
        let place = place(bytes);
        (file_name(place.area.folder(), place.segment), (place.offset + skip) as usize)
    };
    let (small_body, header, data, copy) =
        (body(3, 3000), body(100, 90_000), body(101, 90_000), body(300, 50_000));
    for (file, at) in
        [in_file(&small_body, 7), in_file(&header, 30), in_file(&data, 80_000), in_file(&copy, 40_000)]
    {
        flip(&disk, &file, at);
    }
    // A head of a frame in a sealed segment: a chunk in it is not touched.
    let first = place(&body(0, 3000));
    assert_eq!((first.area, first.segment), (Area::Journal, 1));
    flip(&disk, "journal/0000000001.seg", 64 + 50);
    let found = round(&store, 100_000);
    let mut ids: Vec<ChunkId> = found.damaged.iter().map(|chunk| chunk.id).collect();
    ids.sort();
    let mut expected = [&small_body, &header, &data].map(|bytes| ChunkId::of(bytes));
    expected.sort();
    assert_eq!(ids, expected);
    assert_eq!(found.torn_copies, 1);
    assert_eq!(found.segments.iter().map(|found| found.segment).collect::<Vec<_>>(), [1]);
    for bytes in [&small_body, &header, &data] {
        assert!(!store.has_chunk(DOMAIN, ChunkId::of(bytes)).unwrap(), "others are not told that it is here");
        let read = store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX);
        assert!(matches!(read, Err(ReadError::Damaged(_))));
    }
    assert_eq!(store.scrub_state().damaged.len(), 3);
}

#[test]
fn who_puts_the_bytes_again_mends_and_the_list_survives_a_restart() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let bytes = body(102, 90_000);
    let id = ChunkId::of(&bytes);
    rot(&disk, &store, id);
    assert_eq!(round(&store, u64::MAX).damaged.len(), 1);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert_eq!(store.scrub_state().damaged.iter().map(|chunk| chunk.id).collect::<Vec<_>>(), [id]);
    assert!(!store.recheck(DOMAIN, id).unwrap());
    // As the node does with what another site sent.
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    assert!(store.recheck(DOMAIN, id).unwrap());
    let state = store.scrub_state();
    assert_eq!((state.damaged.len(), state.found, state.mended), (0, 1, 1));
    settle(&store);
    audit(&store);
    let mended = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    assert_eq!(mended.area, Area::Payload, "what counted goes on to count");
    assert_eq!(round(&store, u64::MAX).damaged, vec![]);
}

#[test]
fn what_a_read_found_and_mended_is_counted_once() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let bytes = body(102, 90_000);
    let id = ChunkId::of(&bytes);
    rot(&disk, &store, id);
    for _ in 0..2 {
        assert!(matches!(store.read_chunk(DOMAIN, id, 0..u32::MAX), Err(ReadError::Damaged(_))));
    }
    // As the node does with what another site sent.
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes).unwrap());
    settle(&store);
    assert_eq!(store.scrub_state().found, 0, "the read told nobody yet");
    let found: Vec<ChunkId> = store.note_come_across().unwrap().iter().map(|chunk| chunk.id).collect();
    assert_eq!(found, [id]);
    assert!(store.recheck(DOMAIN, id).unwrap());
    let state = store.scrub_state();
    assert_eq!((state.damaged.len(), state.found, state.mended), (0, 1, 1));
    assert_eq!(store.note_come_across().unwrap(), vec![]);
    // What the scrub finds by itself is on its list, and not found once more.
    rot(&disk, &store, id);
    assert_eq!(round(&store, u64::MAX).damaged.len(), 1);
    assert_eq!(store.note_come_across().unwrap(), vec![]);
    assert_eq!(store.scrub_state().found, 2);
}

/// Others ask whether it is here before they let go of theirs, and a client is told to send it again.
#[test]
fn what_is_known_to_be_damaged_does_not_count_after_a_restart_and_is_mended_by_who_puts_it() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let bytes = body(102, 90_000);
    let id = ChunkId::of(&bytes);
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    rot(&disk, &store, id);
    assert_eq!(round(&store, u64::MAX).damaged.len(), 1);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert!(!store.counts(DOMAIN, id) && !store.has_chunk(DOMAIN, id).unwrap());
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    settle(&store);
    assert_ne!(rows(&store.view())[&(DOMAIN, id)].place, Some(place));
    assert!(store.counts(DOMAIN, id) && store.recheck(DOMAIN, id).unwrap());
    audit(&store);
}

#[test]
fn what_the_list_has_no_room_for_is_counted_by_the_next_round_anew() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let chunk = |number: u64| DamagedChunk {
        domain: DOMAIN,
        id: ChunkId::of(&number.to_le_bytes()),
        tree: false,
        stored: 1,
        why: "a test".into(),
    };
    store.note_damaged((0..1030).map(chunk).collect()).unwrap();
    store.begin_scrub(NOW).unwrap();
    store.scrub(1, NOW).unwrap();
    assert_eq!(store.scrub_state().unlisted, 6, "this round may find it still");
    drop(store);
    let (store, _) = open(&disk, &settings);
    round(&store, 1);
    assert_eq!(store.scrub_state().unlisted, 6, "part of it was read by the start before");
    round(&store, 1);
    assert_eq!(store.scrub_state().unlisted, 0);
}

#[test]
fn a_damaged_segment_that_was_found_on_a_full_disk_gets_its_base_when_there_is_room() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    fill(&store);
    flip(&disk, "journal/0000000001.seg", 64 + 50);
    store.begin_scrub(NOW).unwrap();
    disk.set_room(Some(0));
    let refused = (0..100).find_map(|_| store.scrub(u64::MAX, NOW).err());
    assert!(matches!(refused, Some(StorageError::Full)), "{refused:?}");
    disk.set_room(None);
    assert!(store.only_the_index_says(&ScrubStep::default()).is_some());
    store.collect(NOW).unwrap();
    assert!(disk.names().contains(&"base".to_owned()));
}

#[test]
fn a_copy_that_is_evicted_while_it_waits_for_its_turn_is_not_torn() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    let evicts = Arc::downgrade(&store);
    disk.on_open("payload/0000000001.seg", move || {
        evicts.upgrade().unwrap().drop_copies(DOMAIN).unwrap();
        Ok(())
    });
    assert_eq!(round(&store, u64::MAX).torn_copies, 0);
    assert_eq!(store.usage().cached.bytes, 0, "it is gone");
}

#[test]
fn what_is_deleted_leaves_the_list() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let id = ChunkId::of(&body(103, 90_000));
    rot(&disk, &store, id);
    round(&store, u64::MAX);
    delete(&store, "large-103").unwrap();
    store.collect(NOW).unwrap();
    store.collect(WallTime(NOW.0 + 700_000)).unwrap();
    assert!(store.recheck(DOMAIN, id).unwrap());
    let state = store.scrub_state();
    assert_eq!((state.damaged.len(), state.mended), (0, 0));
}

/// A cable that came loose, too many open files: the bytes were right all the time.
#[test]
fn what_could_not_be_read_once_counts_again_when_it_reads_well() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let id = ChunkId::of(&body(103, 90_000));
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    let (file, at) = (file_name(place.area.folder(), place.segment), place.offset as usize + 70_000);
    flip(&disk, &file, at);
    assert!(store.read_chunk(DOMAIN, id, 0..u32::MAX).is_err());
    assert!(!store.has_chunk(DOMAIN, id).unwrap() && !store.counts(DOMAIN, id));
    flip(&disk, &file, at);
    assert!(store.recheck(DOMAIN, id).unwrap());
    assert!(store.has_chunk(DOMAIN, id).unwrap() && store.counts(DOMAIN, id));
    audit(&store);
}

/// A bit that flipped in memory after the chunk was named: all checksums are those of the wrong bytes.
fn misname(disk: &FaultyDisk, place: Place) {
    disk.corrupt(&file_name(place.area.folder(), place.segment), |bytes| {
        let (salt, at) = (small().salt, place.offset as usize);
        let extent = Extent::read(&bytes[at..], &salt, place.segment, place.offset).unwrap();
        let (head, stored) = (header_len(extent.stored), extent.stored as usize);
        let data = &mut bytes[at + head..at + head + stored];
        data[4711] ^= 1;
        let blocks = block_sums(data);
        let header = Extent { blocks, ..extent }.encode(&salt, place.segment, place.offset);
        bytes[at..at + head].copy_from_slice(&header);
    });
}

#[test]
fn wrong_bytes_under_right_checksums_are_not_served_once_found() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let bytes = body(103, 90_000);
    let id = ChunkId::of(&bytes);
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    misname(&disk, place);
    assert_eq!(round(&store, u64::MAX).damaged.len(), 1);
    let read = || store.read_chunk(DOMAIN, id, 0..u32::MAX);
    assert!(matches!(read(), Err(ReadError::Damaged(_))), "{:?}", read());
    assert!(store.open_chunk_now(DOMAIN, id, 90_000).is_none());
    assert!(!store.recheck(DOMAIN, id).unwrap());
    // By who puts it again.
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    store.settle(|settled| settled.unwrap());
    store.pump();
    assert_eq!(read().unwrap(), bytes);
    assert!(store.recheck(DOMAIN, id).unwrap());
    audit(&store);
}

#[test]
fn a_round_goes_on_after_a_restart_and_after_a_power_cut() {
    for power in [false, true] {
        let (mut disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        fill(&store);
        let whole = round(&store, u64::MAX);
        store.begin_scrub(NOW).unwrap();
        let mut read = 0;
        while read * 2 < whole.bytes {
            read += store.scrub(1, NOW).unwrap().bytes;
        }
        // Asking it to rest writes the position.
        store.pause_scrub(true).unwrap();
        drop(store);
        if power {
            disk = disk.power_cut(9);
        }
        let (store, _) = open(&disk, &settings);
        assert!(store.scrub_state().paused && store.scrub_state().running);
        assert_eq!(store.scrub(u64::MAX, NOW).unwrap(), ScrubStep::default(), "paused");
        store.pause_scrub(false).unwrap();
        let rest = round(&store, 50_000);
        assert_eq!(read + rest.bytes, whole.bytes, "power cut: {power}");
        assert_eq!(store.scrub_state().round, 2);
    }
}

#[test]
fn a_position_that_does_not_read_only_begins_anew() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    round(&store, u64::MAX);
    drop(store);
    let len = disk.content("scrub").len();
    for at in 0..len {
        flip(&disk, "scrub", at);
        let (store, _) = open(&disk, &settings);
        assert_eq!(store.scrub_state().round, 0, "flipped at {at}");
        drop(store);
        flip(&disk, "scrub", at);
    }
    disk.corrupt("scrub", Vec::clear);
    let (store, _) = open(&disk, &settings);
    assert_eq!(round(&store, u64::MAX).damaged, vec![]);
    assert_eq!(store.scrub_state().round, 1);
}

#[test]
fn looking_after_copies_is_not_using_them() {
    let (store, _) = open(&FaultyDisk::default(), &small());
    for n in 0..4 {
        drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &body(n, 60_000)).unwrap());
    }
    store.settle(|settled| settled.unwrap());
    store.pump();
    store.read_chunk(DOMAIN, ChunkId::of(&body(0, 60_000)), 0..10).unwrap();
    let used: Vec<u64> = (1..6).map(|number| store.evicting.sieve().heat(number)).collect();
    let before = store.activity();
    round(&store, u64::MAX);
    assert_eq!((1..6).map(|number| store.evicting.sieve().heat(number)).collect::<Vec<_>>(), used);
    assert_eq!(used.iter().sum::<u64>(), 1);
    assert_eq!(store.activity(), before, "nor is it work that the scrub itself would make room for");
}

#[test]
fn what_a_rebuild_drops_as_torn_stays_on_the_list_until_it_is_back() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let bytes = body(202, 70_000);
    let id = ChunkId::of(&bytes);
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    flip(&disk, &file_name(place.area.folder(), place.segment), place.offset as usize + 60_000);
    assert_eq!(store.examine().unwrap().damaged.len(), 1);
    round(&store, u64::MAX);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert!(matches!(recovery.index, IndexState::Rebuilt(_)));
    assert!(rows(&store.view())[&(DOMAIN, id)].place.is_none(), "one of the last segments: it may be torn");
    assert!(!store.recheck(DOMAIN, id).unwrap());
    assert_eq!(store.scrub_state().damaged.len(), 1);
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    assert!(!store.recheck(DOMAIN, id).unwrap(), "a power cut would lose it again");
    settle(&store);
    assert!(store.recheck(DOMAIN, id).unwrap());
    assert_eq!(store.scrub_state().damaged.len(), 0);
}

#[test]
fn a_rebuild_takes_the_body_that_mended_an_extent_and_not_the_rotten_one_that_still_lies_there() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(7, 9_000);
    let id = ChunkId::of(&bytes);
    put_large(&store, "held", 7, &bytes).unwrap();
    // So that it is none of the last segments, which a rebuild verifies.
    for n in 100..120 {
        put_large(&store, &format!("large-{n}"), n, &body(n, 90_000)).unwrap();
    }
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    let rot = || flip(&disk, &file_name(place.area.folder(), place.segment), place.offset as usize + 5_000);
    rot();
    store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap_err();
    put_small(&store, "again", 8, &bytes).unwrap();
    let mended = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    assert_eq!(mended.area, Area::Journal, "written anew");
    drop(store);
    // The extent was not punched; nor does the base that is written then say otherwise.
    for with_base in [false, true] {
        let lost = Settings { kept: Some(Arc::default()), ..settings.clone() };
        let (store, _) = open(&disk, &lost);
        assert_eq!(store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap(), bytes, "with a base: {with_base}");
        audit(&store);
        store.renew_base().unwrap();
    }
    // Once both are rotten it does not matter; once only the body is, the extent is taken.
    rot();
    flip(&disk, &file_name(mended.area.folder(), mended.segment), mended.offset as usize + 9);
    let lost = Settings { kept: Some(Arc::default()), ..settings.clone() };
    let (store, _) = open(&disk, &lost);
    assert_eq!(store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap(), bytes);
    audit(&store);
}

#[test]
fn what_a_damaged_segment_said_is_written_into_a_base_before_a_rebuild_could_lose_it() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    fill(&store);
    let before = keys(&store.view());
    flip(&disk, "journal/0000000001.seg", 64 + 50);
    let found = round(&store, u64::MAX);
    assert_eq!(found.segments.iter().map(|found| found.segment).collect::<Vec<_>>(), [1]);
    // It is not forgotten over a restart.
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &settings);
    let told = store.only_the_index_says(&ScrubStep::default()).unwrap();
    assert!(told.starts_with("journal segment 1: "), "{told}");
    store.collect(NOW).unwrap();
    assert!(disk.names().contains(&"base".to_owned()));
    assert_eq!(round(&store, u64::MAX).segments, vec![], "it is not needed any more");
    assert_eq!(store.only_the_index_says(&found), None);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![]);
    assert_eq!(keys(&store.view()), before);
    audit(&store);
}

/// The index was built without it: a base written from that would only make who could read more of it let it go.
#[test]
fn a_damaged_segment_that_the_index_lacks_is_kept_and_no_base_is_written_for_it() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    fill(&store);
    drop(store);
    flip(&disk, "journal/0000000001.seg", 64 + 50);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage.len(), 1);
    drop(store);
    let (store, _) = open(&disk, &settings);
    let found = round(&store, u64::MAX);
    assert_eq!((found.segments.len(), store.only_the_index_says(&found)), (1, None));
    store.collect(NOW).unwrap();
    assert!(!disk.names().contains(&"base".to_owned()));
    // Nor does it go when a base comes for another reason and nothing lives in it.
    for n in 0..40 {
        delete(&store, &format!("small-{n}")).unwrap();
    }
    store.renew_base().unwrap();
    for step in 1..10 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
    assert!(disk.names().contains(&"journal/0000000001.seg".to_owned()));
    assert!(!disk.names().contains(&"journal/0000000002.seg".to_owned()));
}

/// Nor is what nobody knows forgotten by a rebuild that begins with a base: the segment stays, and what was lost is told.
#[test]
fn a_damaged_segment_that_the_index_lacks_is_kept_by_a_rebuild_from_a_base() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    fill(&store);
    drop(store);
    flip(&disk, "journal/0000000001.seg", 64 + 50);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    let lost = recovery.lost;
    assert_eq!(lost.len(), 1);
    for n in 0..40 {
        delete(&store, &format!("small-{n}")).unwrap();
    }
    store.renew_base().unwrap();
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    let told = recovery.lost;
    for step in 1..10 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
    assert!(disk.names().contains(&"journal/0000000001.seg".to_owned()), "what could be read of it is gone");
    assert_eq!(told, lost);
}
