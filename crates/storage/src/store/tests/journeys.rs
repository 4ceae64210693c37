//! What a caller relies on, one promise per test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::Table;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, Held, Keys, audit, body, commit, delete, kept, keys, open, open_on, put_large, put_small,
    put_tree, rows, say_put, small, small_put, submit,
};
use crate::chunks::Key;
use crate::chunks::row::{Area, Row};
use crate::disk::faulty::FaultyDisk;
use crate::disk::real::RealDisk;
use crate::index::kept::Kept;
use crate::journal::file_name;
use crate::store::changes::Changes;
use crate::store::{Entry, SmallBody, Store};
use crate::{Class, CommitError, Engine, IndexState, ReadError, Settings, StorageError};

fn read(store: &Store, bytes: &[u8]) -> Result<Bytes, ReadError> {
    store.read_chunk(DOMAIN, ChunkId::of(bytes), 0..u32::MAX)
}

#[test]
fn what_is_committed_is_read_back_also_after_reopening() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.index, IndexState::New);
    let (a, b) = (body(1, 4096), body(2, 200_000));
    put_small(&store, "a", 1, &a).unwrap();
    put_large(&store, "b", 2, &b).unwrap();
    let before = keys(&store.view());
    drop(store);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.replayed, recovery.lsn), (2, 2));
    assert_eq!(keys(&store.view()), before);
    assert_eq!(read(&store, &a).unwrap(), a);
    for range in [0..1, 0..65_536, 65_535..65_537, 131_072..200_000, 199_999..200_000, 70_000..70_000] {
        let found = store.read_chunk(DOMAIN, ChunkId::of(&b), range.clone()).unwrap();
        assert_eq!(found, b[range.start as usize..range.end as usize]);
    }
    let beyond = store.read_chunk(DOMAIN, ChunkId::of(&b), 200_001..200_002);
    assert!(matches!(beyond, Err(ReadError::Range(200_000))));
    assert!(matches!(read(&store, b"never put"), Err(ReadError::Absent)));
    audit(&store);
}

#[test]
fn a_group_shares_one_sync_and_sees_itself() {
    let (store, _) = open(&FaultyDisk::default(), &small());
    let syncs = || store.usage().journal_syncs.count;
    let before = syncs();
    let first: Vec<_> = (0..50).map(|n| submit(&store, vec![small_put("key", n, &body(n, 100))])).collect();
    let seen = Arc::new(AtomicUsize::new(0));
    let left = seen.clone();
    store.submit(
        move |view| {
            let held: super::world::Held =
                codec::decode(&view.get(Table::Current, b"key").unwrap().unwrap()).unwrap();
            left.store(held.number as usize, Ordering::Relaxed);
            Ok::<_, ()>(((), vec![]))
        },
        |_| {},
    );
    assert_eq!(store.pump(), 51);
    assert_eq!(syncs() - before, 1);
    assert_eq!(seen.load(Ordering::Relaxed), 49);
    assert!(first.iter().all(|answer| matches!(*answer.lock().unwrap(), Some(Ok(())))));
    assert_eq!(store.pump(), 0);
    assert_eq!(syncs() - before, 1);
}

#[test]
fn a_group_asks_the_index_for_each_row_once() {
    let index = Arc::new(Kept::default());
    let settings = Settings { kept: Some(index.clone()), ..small() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    put_small(&store, "key", 0, &body(0, 100)).unwrap();
    let before = index.asked();
    for n in 1..=20 {
        let entry = small_put("key", n, &body(n, 100));
        store.submit(
            move |view| {
                (0..5).for_each(|_| assert!(view.get(Table::Current, b"key").unwrap().is_some()));
                Ok::<_, ()>(((), vec![entry]))
            },
            |result| assert!(result.is_ok()),
        );
    }
    assert_eq!(store.pump(), 20);
    // That of the key, and those of 21 chunks.
    assert_eq!(index.asked() - before, 22);
    assert_eq!(keys(&store.view()).values().map(|held| held.number).collect::<Vec<_>>(), [20]);
    audit(&store);
}

#[test]
fn a_refusal_writes_nothing_and_harms_nobody() {
    let (store, _) = open(&FaultyDisk::default(), &small());
    let good = submit(&store, vec![small_put("a", 1, b"a")]);
    let malformed = submit(&store, vec![small_put("b", 2, b"b"), Entry::new(vec![0xff])]);
    let refused = Arc::new(AtomicUsize::new(0));
    let heard = refused.clone();
    store.submit(
        |_| Err::<((), Vec<Entry>), _>("no"),
        move |result| {
            assert!(matches!(result, Err(CommitError::Refused("no"))));
            heard.store(1, Ordering::Relaxed);
        },
    );
    let large = submit(&store, vec![Entry::new(vec![0; 100_000])]);
    let body = SmallBody::new(DOMAIN, Bytes::from(vec![0; 40_000]));
    let large_body = submit(&store, vec![say_put("c", 3, body.id()).with_body(body)]);
    store.pump();
    let take = |answer: &super::world::Answer| answer.lock().unwrap().take().unwrap();
    assert!(take(&good).is_ok());
    assert!(matches!(take(&malformed), Err(CommitError::Storage(StorageError::Reduce(_)))));
    assert!(matches!(take(&large), Err(CommitError::Storage(StorageError::Reduce(_)))));
    assert!(matches!(
        take(&large_body),
        Err(CommitError::Storage(StorageError::TooLarge { found: 40_000, .. }))
    ));
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    assert_eq!(store.lsn(), 1);
    assert_eq!(keys(&store.view()).len(), 1);
    audit(&store);
}

#[test]
fn a_failed_sync_stops_all_writing_and_nothing_becomes_visible() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"one").unwrap();
    disk.fail_syncs(true);
    assert!(matches!(put_small(&store, "b", 2, b"two"), Err(StorageError::Poisoned(_))));
    disk.fail_syncs(false);
    assert!(matches!(put_small(&store, "c", 3, b"three"), Err(StorageError::Poisoned(_))));
    let put = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, b"chunk");
    assert!(matches!(put, Err(StorageError::Poisoned(_))));
    assert!(store.collect(WallTime(0)).is_err());
    assert!(store.usage().poisoned.is_some());
    assert_eq!(keys(&store.view()).len(), 1);
    assert_eq!(read(&store, b"one").unwrap(), &b"one"[..]);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert!(keys(&store.view()).contains_key(b"a".as_slice()));
    put_small(&store, "c", 3, b"three").unwrap();
    audit(&store);
}

#[test]
fn what_is_refused_in_a_group_whose_sync_fails_is_not_decided() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &small());
    let taken = submit(&store, vec![small_put("a", 1, b"a")]);
    let refused = Arc::new(AtomicUsize::new(0));
    let heard = refused.clone();
    store.submit(
        |_| Err::<((), Vec<Entry>), _>("the key is taken"),
        move |result| {
            assert!(matches!(result, Err(CommitError::Storage(StorageError::Poisoned(_)))));
            heard.store(1, Ordering::Relaxed);
        },
    );
    disk.fail_syncs(true);
    store.pump();
    assert!(matches!(*taken.lock().unwrap(), Some(Err(_))));
    assert_eq!(refused.load(Ordering::Relaxed), 1);
}

#[test]
fn a_failed_payload_sync_commits_nothing() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &small());
    let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(1, 50_000)).unwrap();
    disk.fail_syncs(true);
    let result = commit(&store, vec![say_put("a", 1, pin.id())]);
    assert!(matches!(result, Err(StorageError::Poisoned(_))), "{result:?}");
    assert!(keys(&store.view()).is_empty());
}

/// Who syncs has taken what waits, but none of it is on the disk before the sync comes back: a commit that refers to it
/// has to wait for that.
#[test]
fn what_a_sync_under_way_covers_is_not_durable_yet() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    let refers = |id: ChunkId| {
        let reading = store.index.read();
        let mut changes = Changes::over(&*reading, 1);
        changes.refer((DOMAIN, id), 1).unwrap();
        store.refers_unsynced(&changes)
    };
    for trusts in [false, true] {
        let bytes = body(u64::from(trusts), 50_000);
        let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap();
        assert!(refers(pin.id()) && !store.is_settled());
        if trusts {
            store.live.lock().trust_unsynced();
        }
        let (keys, files) = store.live.lock().take_unsynced();
        assert!(refers(pin.id()) && !store.is_settled(), "the sync has only begun");
        for file in files {
            file.sync().unwrap();
        }
        store.live.lock().sync_ended(keys);
        assert!(!refers(pin.id()) && store.is_settled());
    }
}

#[test]
fn one_directory_one_store() {
    let (disk, settings) = (FaultyDisk::default(), small());
    let (store, _) = open(&disk, &settings);
    let second = || Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone());
    assert!(matches!(second(), Err(StorageError::Locked)));
    drop(store);
    assert!(second().is_ok());

    let folder = tempfile::tempdir().unwrap();
    let disk = || Arc::new(RealDisk::new(folder.path()).unwrap());
    let (store, _) = open_on(disk(), &settings);
    let second = || Store::open(disk(), Arc::new(Keys), settings.clone());
    assert!(matches!(second(), Err(StorageError::Locked)));
    drop(store);
    assert!(second().is_ok());
}

#[test]
fn the_same_bytes_are_stored_once() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &small());
    let (a, b) = (body(1, 9000), body(2, 100_000));
    for number in 0..5 {
        put_small(&store, &format!("a{number}"), number, &a).unwrap();
        put_large(&store, &format!("b{number}"), number, &b).unwrap();
    }
    let usage = store.usage();
    assert_eq!(usage.journal.live, 9000);
    assert_eq!(usage.payload.live, crate::payload::extent::extent_len(100_000));
    let other = store.put_chunk(skerry_base::BucketId([8; 16]), Class::Payload, ChunkKind::Leaf, &b).unwrap();
    store.settle(|result| result.unwrap());
    store.pump();
    assert_eq!(store.usage().payload.live, 2 * usage.payload.live);
    drop(other);
    audit_rows(&store, 5);
}

fn audit_rows(store: &Store, references: i64) {
    let rows = rows(&store.view());
    assert_eq!(rows.values().filter(|row| row.references == references).count(), 2);
}

#[test]
fn a_tree_that_is_none_is_refused() {
    let (store, _) = open(&FaultyDisk::default(), &small());
    let put = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, b"no tree");
    assert!(matches!(put, Err(StorageError::Damaged(_))));
    let put = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &vec![0; (1 << 20) + 5000]);
    assert!(matches!(put, Err(StorageError::TooLarge { .. })));
}

/// A store with a few frames in one journal segment, closed.
fn prepared(count: u64, settings: &Settings) -> FaultyDisk {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, settings);
    for number in 0..count {
        put_small(&store, &format!("key-{number}"), number, &body(number, 1000)).unwrap();
    }
    disk
}

/// Where the frames of a journal segment begin.
fn frames(disk: &FaultyDisk, number: u32) -> Vec<usize> {
    let bytes = disk.content(&file_name("journal", number));
    let magic = crate::journal::frame::MAGIC.to_le_bytes();
    (0..bytes.len() - 8).step_by(8).filter(|&at| bytes[at..].starts_with(&magic)).collect()
}

#[test]
fn a_torn_tail_is_the_end_and_is_said() {
    let settings = small();
    let disk = prepared(5, &settings);
    let last = *frames(&disk, 1).last().unwrap();
    for damage in [0, 30, 60, 200, 900] {
        let disk = disk.power_cut(0);
        disk.corrupt(&file_name("journal", 1), |bytes| bytes[last + damage] ^= 1);
        let (store, recovery) = open(&disk, &settings);
        assert_eq!(recovery.torn.as_ref().map(|torn| (torn.segment, torn.offset)), Some((1, last as u64)));
        assert_eq!((recovery.damage, recovery.lsn), (vec![], 4));
        assert_eq!(keys(&store.view()).len(), 4);
        // What is written over it lasts, and what lay behind it does not come back.
        put_small(&store, "new", 9, b"new").unwrap();
        drop(store);
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.torn, recovery.lsn, keys(&store.view()).len()), (None, 5, 5));
        audit(&store);
    }
}

#[test]
fn damage_before_the_tail_is_reported_and_the_rest_is_kept() {
    let settings = small();
    let disk = prepared(6, &settings);
    let third = frames(&disk, 1)[2];
    disk.corrupt(&file_name("journal", 1), |bytes| bytes[third + 50] ^= 1);
    let (store, recovery) = open(&disk, &settings);
    let damage = &recovery.damage[0];
    assert_eq!((damage.segment, damage.offset, damage.from, damage.to), (1, third as u64, 3, 4));
    assert_eq!((recovery.damage.len(), recovery.torn, recovery.lsn), (1, None, 6));
    assert_eq!(keys(&store.view()).len(), 5);
    audit(&store);
}

#[test]
fn damage_in_a_sealed_segment_is_reported_when_it_is_read() {
    let settings = kept();
    let disk = prepared(150, &settings);
    let (head, tail) = (frames(&disk, 1)[7], *frames(&disk, 1).last().unwrap());
    disk.corrupt(&file_name("journal", 1), |bytes| {
        bytes[head] ^= 1;
        bytes[tail + 40] ^= 1;
    });
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    let spans: Vec<(u64, u64)> = recovery.damage.iter().map(|damage| (damage.from, damage.to)).collect();
    assert_eq!((spans.len(), spans[0]), (2, (8, 9)));
    assert_eq!(spans[1].1, spans[1].0 + 1);
    assert_eq!((recovery.lsn, keys(&store.view()).len()), (150, 148));
    assert!(matches!(recovery.index, IndexState::Rebuilt(_)));
}

#[test]
fn a_damaged_table_or_header_loses_no_frame() {
    let settings = kept();
    let prepared = prepared(150, &settings);
    let len = prepared.content(&file_name("journal", 1)).len();
    for at in [10, len - 10, len - 100] {
        let disk = prepared.power_cut(0);
        disk.corrupt(&file_name("journal", 1), |bytes| bytes[at] ^= 1);
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((recovery.lsn, keys(&store.view()).len()), (150, 150), "byte {at}");
        assert!(recovery.damage.iter().all(|damage| damage.from == damage.to), "byte {at}: {recovery:?}");
        assert!(!recovery.damage.is_empty(), "byte {at}");
    }
}

#[test]
fn a_missing_journal_is_not_papered_over() {
    use crate::disk::Disk;
    let settings = kept();
    let disk = prepared(150, &settings);
    let (store, _) = open(&disk, &settings);
    store.checkpoint().unwrap();
    drop(store);
    let cut = disk.power_cut(0);
    for name in cut.list("journal").unwrap() {
        cut.remove(&format!("journal/{name}")).unwrap();
    }
    let opened = Store::open(Arc::new(cut), Arc::new(Keys), settings.clone());
    assert!(matches!(opened, Err(StorageError::Damaged(_))));
    let cut = disk.power_cut(0);
    cut.remove(&file_name("journal", 1)).unwrap();
    settings.kept.as_ref().unwrap().lose();
    let (_, recovery) = open(&cut, &settings);
    assert_eq!(recovery.damage[0].from, 1);
    assert!(recovery.damage.iter().any(|damage| damage.to > 30), "{recovery:?}");
}

#[test]
fn a_flipped_bit_is_never_served_and_a_put_mends_it() {
    let settings = small();
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    let (a, b) = (body(1, 4096), body(2, 150_000));
    put_small(&store, "a", 1, &a).unwrap();
    put_large(&store, "b", 2, &b).unwrap();
    let place = |bytes: &[u8]| rows(&store.view())[&(DOMAIN, ChunkId::of(bytes))].place.unwrap();
    let at = place(&a).offset as usize;
    disk.corrupt(&file_name("journal", 1), |bytes| bytes[at + 4095] ^= 0x10);
    assert!(matches!(read(&store, &a), Err(ReadError::Damaged(_))));
    assert!(!store.has_chunk(DOMAIN, ChunkId::of(&a)).unwrap());
    put_small(&store, "a2", 3, &a).unwrap();
    assert_eq!(read(&store, &a).unwrap(), a);
    // Magic, kind, length, checksum, domain, name, sum of a block, first and last byte of data.
    for skip in [0, 5, 8, 12, 16, 32, 64, 76, 150_000 + 75] {
        let at = place(&b).offset as usize;
        let segment = place(&b).segment;
        disk.corrupt(&file_name("payload", segment), |bytes| bytes[at + skip] ^= 0x10);
        assert!(matches!(read(&store, &b), Err(ReadError::Damaged(_))), "byte {skip}");
        assert!(!store.has_chunk(DOMAIN, ChunkId::of(&b)).unwrap());
        let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &b).unwrap();
        assert_eq!(read(&store, &b).unwrap(), b, "byte {skip}");
        store.settle(|result| result.unwrap());
        store.pump();
        drop(pin);
        assert!(store.has_chunk(DOMAIN, ChunkId::of(&b)).unwrap());
    }
    // Damage in one block leaves the others readable.
    let at = place(&b).offset as usize;
    let segment = place(&b).segment;
    disk.corrupt(&file_name("payload", segment), |bytes| bytes[at + 149_000] ^= 1);
    assert_eq!(store.read_chunk(DOMAIN, ChunkId::of(&b), 0..65_536).unwrap(), b[..65_536]);
    assert!(matches!(
        store.read_chunk(DOMAIN, ChunkId::of(&b), 140_000..140_001),
        Err(ReadError::Damaged(_))
    ));
}

/// What was put again because it was damaged is there after a crash, though the index that was flushed names the
/// damaged place.
#[test]
fn a_put_that_mended_a_chunk_outlives_a_crash() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 90_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    store.checkpoint().unwrap();
    let place = rows(&store.view())[&(DOMAIN, ChunkId::of(&bytes))].place.unwrap();
    let at = place.offset as usize + 70_000;
    disk.corrupt(&file_name("payload", place.segment), |content| content[at] ^= 0x10);
    assert!(matches!(read(&store, &bytes), Err(ReadError::Damaged(_))));
    put_large(&store, "b", 2, &bytes).unwrap();
    assert_eq!(read(&store, &bytes).unwrap(), bytes);
    drop(store);
    let (store, recovery) = open(&disk.power_cut(1), &settings);
    assert_eq!(recovery.chunks_dropped, 0);
    assert_eq!(read(&store, &bytes).unwrap(), bytes);
    audit(&store);
}

/// Likewise a chunk that only a tree lists: the tree was whole, and is not written again.
#[test]
fn a_put_that_mended_a_chunk_of_a_tree_outlives_a_crash() {
    for seed in 0..8 {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bodies = [body(1, 30_000), body(2, 30_000), body(3, 30_000)];
        put_tree(&store, "a", 1, &bodies).unwrap();
        store.checkpoint().unwrap();
        let place = rows(&store.view())[&(DOMAIN, ChunkId::of(&bodies[1]))].place.unwrap();
        let at = place.offset as usize + 20_000;
        disk.corrupt(&file_name("payload", place.segment), |content| content[at] ^= 0x10);
        assert!(matches!(read(&store, &bodies[1]), Err(ReadError::Damaged(_))));
        put_tree(&store, "b", 2, &bodies).unwrap();
        drop(store);
        let (store, _) = open(&disk.power_cut(seed), &settings);
        assert_eq!(read(&store, &bodies[1]).unwrap(), bodies[1], "seed {seed}");
        audit(&store);
    }
}

#[test]
fn a_copy_of_a_segment_inside_an_object_is_not_taken_for_one() {
    let settings = kept();
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    put_large(&store, "secret", 1, &body(1, 30_000)).unwrap();
    // A client stores what our segment looks like, so that it lies on the grain if the header before it is lost.
    let segment = disk.content(&file_name("payload", 1));
    let copy = [vec![0; 4096 - 64 - 4], segment[4096..60_000].to_vec()].concat();
    put_large(&store, "copy", 2, &copy).unwrap();
    let row = rows(&store.view())[&(DOMAIN, ChunkId::of(&copy))];
    let at = row.place.unwrap().offset as usize;
    drop(store);
    disk.corrupt(&file_name("payload", 1), |bytes| bytes[at] ^= 1);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    let place = rows(&store.view())[&(DOMAIN, ChunkId::of(&body(1, 30_000)))].place.unwrap();
    assert_eq!((place.area, place.offset), (Area::Payload, 4096));
    assert_eq!(read(&store, &body(1, 30_000)).unwrap(), body(1, 30_000));
}

/// Work of all kinds, so that there is something to rebuild.
fn busy(store: &Store) {
    for number in 0..60 {
        put_small(store, &format!("s{}", number % 40), number, &body(number, 2000)).unwrap();
        put_large(store, &format!("l{}", number % 7), number, &body(number, 40_000)).unwrap();
        let parts = [body(number, 40_000), body(number + 1, 20_000)];
        put_tree(store, &format!("t{}", number % 5), number, &parts).unwrap();
        if number % 10 == 9 {
            delete(store, &format!("l{}", number % 7)).unwrap();
            store.collect(WallTime(number * 700_000)).unwrap();
            store.checkpoint().unwrap();
            store.collect(WallTime(number * 700_000)).unwrap();
        }
    }
}

/// All tables but the store's own notes, once everything unwanted is gone (a rebuild lets nothing rest).
fn essence(store: &Store) -> (BTreeMap<Vec<u8>, Held>, BTreeMap<Key, Row>) {
    for step in 0..20 {
        store.collect(WallTime((1 << 40) + step * 1_000_000)).unwrap();
    }
    (keys(&store.view()), rows(&store.view()))
}

#[test]
fn a_lost_index_is_rebuilt_equal() {
    let settings = kept();
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    busy(&store);
    let before = essence(&store);
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, recovery) = open(&disk, &settings);
    assert!(matches!(recovery.index, IndexState::Rebuilt(_)));
    assert!(essence(&store) == before);
    audit(&store);
}

/// A segment of small records takes half a minute on an SD card, and all that is old lies in the base.
#[test]
fn a_rebuild_tells_how_far_it_is_within_a_segment_and_within_the_base() {
    for has_base in [false, true] {
        let settings = Settings { journal_segment_bytes: 16 << 20, ..kept() };
        let disk = FaultyDisk::default();
        let (store, _) = open(&disk, &settings);
        for group in 0..20 {
            let put =
                |number: u64| small_put(&format!("key-{group}-{number}"), number, &number.to_le_bytes());
            commit(&store, (0..1000).map(put).collect()).unwrap();
        }
        if has_base {
            store.renew_base().unwrap();
        }
        drop(store);
        settings.kept.as_ref().unwrap().lose();
        let told: Arc<Mutex<Vec<crate::Progress>>> = Arc::default();
        let heard = told.clone();
        let watch = crate::Watch(Arc::new(move |progress| heard.lock().unwrap().push(progress)));
        open(&disk, &Settings { watch: Some(watch), ..settings });
        let told = told.lock().unwrap();
        let told = told.iter().filter(|progress| progress.stage == crate::Stage::RebuildJournal);
        let done: Vec<u64> = told.map(|progress| progress.done.min(progress.total)).collect();
        assert!(done.len() >= 4 && done.is_sorted_by(|one, next| one < next), "{has_base}: {done:?}");
    }
}

fn index_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.join("index")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

#[test]
fn what_the_index_and_payload_take_of_memory_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, ..small() };
    let (store, _) = open_on(Arc::new(RealDisk::new(folder.path()).unwrap()), &settings);
    let most = store.bounds();
    let limits = [most.memtables, most.index_cache, most.dirty].map(|bound| bound.most);
    assert_eq!(limits, [settings.memtable_bytes, settings.index_cache_bytes, settings.dirty_bytes]);
    put_small(&store, "small", 1, b"body").unwrap();
    assert!(store.bounds().memtables.taken > 100, "{:?}", store.bounds());
    let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(1, 70_000)).unwrap();
    assert!(store.bounds().dirty.taken >= 70_000, "{:?}", store.bounds());
    commit(&store, vec![say_put("large", 2, pin.id())]).unwrap();
    assert_eq!(store.bounds().dirty.taken, 0, "a sync has covered it");
    store.checkpoint().unwrap();
    assert!(store.bounds().memtables.taken < 100, "it is flushed: {:?}", store.bounds());
    assert_eq!(keys(&store.view()).len(), 2);
    assert!(store.bounds().index_cache.taken > 0, "it was read from a file: {:?}", store.bounds());
}

#[test]
fn an_lsm_index_that_is_deleted_or_garbage_is_rebuilt_equal() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, ..small() };
    let disk = || Arc::new(RealDisk::new(folder.path()).unwrap());
    let (store, _) = open_on(disk(), &settings);
    busy(&store);
    store.checkpoint().unwrap();
    let before = essence(&store);
    drop(store);
    let (store, recovery) = open_on(disk(), &settings);
    assert_eq!(recovery.index, IndexState::Opened);
    assert!(essence(&store) == before);
    drop(store);
    let harms: [fn(&std::path::Path); 3] = [
        |folder| std::fs::remove_dir_all(folder.join("index")).unwrap(),
        |folder| index_files(folder).iter().for_each(|path| std::fs::write(path, b"garbage").unwrap()),
        |folder| std::fs::write(folder.join("index-bad"), b"").unwrap(),
    ];
    for harm in harms {
        let (store, _) = open_on(disk(), &settings);
        let before = essence(&store);
        drop(store);
        harm(folder.path());
        let (store, recovery) = open_on(disk(), &settings);
        assert!(matches!(recovery.index, IndexState::Rebuilt(_)), "{recovery:?}");
        assert_eq!(recovery.damage, vec![]);
        assert!(essence(&store) == before);
        audit(&store);
    }
}

#[test]
fn many_threads_put_read_and_collect() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, ..small() };
    let disk = || Arc::new(RealDisk::new(folder.path()).unwrap());
    let (store, _) = open_on(disk(), &settings);
    let committer = store.start_committer().unwrap();
    assert!(matches!(store.start_committer(), Err(StorageError::Busy)));
    let wait = |entries: Vec<Entry>| {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        store.submit(move |_| Ok::<_, ()>(((), entries)), move |result| tell.send(result).unwrap());
        told.recv().unwrap().unwrap();
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (store, wait) = (&store, &wait);
            scope.spawn(move || {
                for number in 0..40 {
                    // The threads put the same bytes at the same time.
                    let (small, large) = (body(number, 3000), body(number % 5, 50_000));
                    let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &large).unwrap();
                    wait(vec![
                        small_put(&format!("{thread}-s{number}"), number, &small),
                        say_put(&format!("{thread}-l{}", number % 3), number, pin.id()),
                    ]);
                    drop(pin);
                    assert_eq!(read(store, &large).unwrap(), large);
                    assert_eq!(read(store, &small).unwrap(), small);
                    wait(vec![super::world::say_delete(&format!("{thread}-l{}", (number + 1) % 3))]);
                    store.collect(WallTime(number * 400_000)).unwrap();
                }
            });
        }
    });
    drop(committer);
    audit(&store);
    let before = essence(&store);
    drop(store);
    let (store, _) = open_on(disk(), &settings);
    assert!(essence(&store) == before);
    audit(&store);
}

#[test]
fn a_dropped_committer_finishes_what_was_submitted() {
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &small());
    let committer = store.start_committer().unwrap();
    let answers: Vec<_> = (0..500).map(|n| submit(&store, vec![small_put("k", n, &body(n, 50))])).collect();
    drop(committer);
    assert!(answers.iter().all(|answer| matches!(*answer.lock().unwrap(), Some(Ok(())))));
    let late = submit(&store, vec![small_put("k", 0, b"late")]);
    assert!(matches!(*late.lock().unwrap(), Some(Err(CommitError::Storage(StorageError::Closed)))));
}

#[test]
fn a_panic_below_poisons_and_nobody_waits_for_ever() {
    struct Panics;
    impl skerry_base::kv::Reducer for Panics {
        fn reduce(
            &self,
            _: &[u8],
            _: &dyn skerry_base::kv::View,
            _: &mut skerry_base::kv::Batch,
        ) -> Result<(), skerry_base::kv::ReduceError> {
            panic!("as a damaged index engine does")
        }
    }
    let disk = FaultyDisk::default();
    let (store, _) = Store::open(Arc::new(disk.clone()), Arc::new(Panics), small()).unwrap();
    let _committer = store.start_committer().unwrap();
    let (tell, told) = std::sync::mpsc::sync_channel::<bool>(1);
    store.submit(
        |_| Ok::<_, ()>(((), vec![Entry::new(vec![1])])),
        move |result| tell.send(result.is_ok()).unwrap(),
    );
    assert!(told.recv().is_err(), "the sender was dropped");
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    store.submit(|_| Ok::<_, ()>(((), vec![])), move |result| tell.send(result).unwrap());
    assert!(matches!(told.recv().unwrap(), Err(CommitError::Storage(StorageError::Poisoned(_)))));
    assert!(!disk.content("index-bad").iter().any(|_| true));
}

#[test]
fn a_full_queue_says_busy() {
    let settings = Settings { queue_proposals: 3, ..small() };
    let (store, _) = open(&FaultyDisk::default(), &settings);
    let answers: Vec<_> = (0..4).map(|n| submit(&store, vec![small_put("k", n, b"x")])).collect();
    let busy = answers[3].lock().unwrap().take();
    assert!(matches!(busy, Some(Err(CommitError::Storage(StorageError::Busy)))));
    assert_eq!(store.pump(), 3);
}
