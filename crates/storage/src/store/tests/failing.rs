//! Syncs and writes fail, and every thread that counted on them hears of it; a new start believes the medium, not the
//! page cache.

use std::io;
use std::sync::mpsc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, Instant, WallTime};

use super::world::{
    DOMAIN, audit, body, commit, delete, kept, keys, open, put_large, put_small, put_tree, rows, say_put,
    tree_of,
};
use crate::chunks::row::Area;
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::journal::{file_name, numbers};
use crate::store::Store;
use crate::{Class, Settings, StorageError};

fn put(store: &Store, number: u64) -> Result<(), StorageError> {
    store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(number, 50_000)).map(drop)
}

/// A sync takes what waits before it begins: who comes while it is under way finds nothing left to sync, and may go on
/// only once it ended well.
#[test]
fn who_waits_behind_a_payload_sync_that_fails_is_told_so() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put(&store, 1).unwrap();
    let (began, has_begun) = mpsc::sync_channel(1);
    let (fail, may_fail) = mpsc::sync_channel::<()>(1);
    let may_fail = std::sync::Mutex::new(may_fail);
    disk.on_sync(&file_name("payload", 1), move || {
        began.send(()).unwrap();
        may_fail.lock().unwrap().recv().unwrap();
        Err(io::Error::other("Input/output error"))
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| store.sync_payload());
        has_begun.recv().unwrap();
        // It has passed every look at whether the store still writes; the first thread holds the turn, so it waits, or
        // comes when that has failed.
        let second = scope.spawn(|| store.sync_payload());
        fail.send(()).unwrap();
        assert!(matches!(first.join().unwrap(), Err(StorageError::Poisoned(_))));
        assert!(matches!(second.join().unwrap(), Err(StorageError::Poisoned(_))));
    });
    assert!(!store.is_settled(), "nor is anybody told that it is held");
    drop(store);
    let (store, _) = open(&disk.power_cut(1), &settings);
    assert!(!store.has_chunk(DOMAIN, ChunkId::of(&body(1, 50_000))).unwrap());
}

/// A leaf of a tree is lost with a rebuild of the index, and the tree is not. Who puts all of it again has put nothing but
/// that leaf, and its record names the tree.
#[test]
fn what_came_again_under_a_tree_that_was_here_is_synced_before_the_answer() {
    for (key, seed) in ["a", "b"].into_iter().flat_map(|key| (0..6).map(move |seed| (key, seed))) {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let bodies = [body(1, 30_000), body(2, 30_000), body(3, 30_000)];
        put_tree(&store, "a", 1, &bodies).unwrap();
        let leaf = (DOMAIN, ChunkId::of(&bodies[1]));
        let place = rows(&store.view())[&leaf].place.unwrap();
        drop(store);
        disk.corrupt(&file_name("payload", place.segment), |bytes| bytes[place.offset as usize + 9_000] ^= 1);
        settings.kept.as_ref().unwrap().lose();
        let (store, _) = open(&disk, &settings);
        assert!(!store.has_chunk(leaf.0, leaf.1).unwrap(), "one of the last segments: it may be torn");
        // In the place of the former version, too: nothing refers to the tree more often than before.
        put_tree(&store, key, 2, &bodies).unwrap();
        assert!(store.is_settled(), "it was answered");
        drop(store);
        let (store, _) = open(&disk.power_cut(seed), &settings);
        assert_eq!(store.read_chunk(leaf.0, leaf.1, 0..u32::MAX).unwrap(), bodies[1], "seed {seed}");
        audit(&store);
    }
}

/// Somebody reads it, or the scrub does, between its put and the commit: it reads well, and is not on the disk yet.
#[test]
fn what_mends_a_leaf_is_synced_before_the_answer_though_it_was_found_well_meanwhile() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bodies = [body(1, 30_000), body(2, 30_000)];
    put_tree(&store, "a", 1, &bodies).unwrap();
    store.checkpoint().unwrap();
    let leaf = (DOMAIN, ChunkId::of(&bodies[1]));
    let place = rows(&store.view())[&leaf].place.unwrap();
    disk.corrupt(&file_name("payload", place.segment), |bytes| bytes[place.offset as usize + 9_000] ^= 1);
    store.check_chunk(leaf.0, leaf.1).unwrap_err();
    let pin = store.put_chunk(leaf.0, Class::Payload, ChunkKind::Leaf, &bodies[1]).unwrap();
    store.check_chunk(leaf.0, leaf.1).unwrap();
    assert!(!store.has_chunk(leaf.0, leaf.1).unwrap(), "a power cut would have the damaged one back");
    let tree = store.put_chunk(leaf.0, Class::Payload, ChunkKind::Tree, &tree_of(&bodies)).unwrap();
    commit(&store, vec![say_put("b", 2, tree.id())]).unwrap();
    drop((pin, tree));
    assert!(store.has_chunk(leaf.0, leaf.1).unwrap() && store.is_settled());
    drop(store);
    let (store, _) = open(&disk.power_cut(1), &settings);
    assert_eq!(store.read_chunk(leaf.0, leaf.1, 0..u32::MAX).unwrap(), bodies[1]);
}

/// A delete, and a write of something else, do not wait for the uploads of others.
#[test]
fn what_names_no_tree_waits_for_no_payload_of_others() {
    let (store, _) = open(&FaultyDisk::default(), &kept());
    put_tree(&store, "a", 1, &[body(1, 30_000), body(2, 30_000)]).unwrap();
    put(&store, 9).unwrap();
    put_small(&store, "small", 2, b"small").unwrap();
    delete(&store, "a").unwrap();
    assert!(!store.is_settled());
}

/// Spares of the former length go at the start; nobody may look for what they hold later.
#[test]
fn a_start_with_segments_of_another_length_stops_no_collector() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let settings = Settings { journal_segment_bytes: 32 << 10, ..settings };
    let (store, _) = open(&disk, &settings);
    for number in 0..60 {
        put_small(&store, &format!("{}", number % 20), number, &body(number, 3000)).unwrap();
    }
    let files = disk.names().iter().filter(|name| name.starts_with("journal/")).count() as u64;
    assert_eq!(store.usage().journal.segments, files, "what is counted is there");
    for step in 1..20 {
        store.checkpoint().unwrap();
        store.collect(WallTime(step * CHUNK_REST_MS)).unwrap();
    }
    assert!(store.usage().journal.live < 21 * 3000 && store.usage().journal.dead == 0, "{:?}", store.usage());
    audit(&store);
}

/// The kernel tells a failed write once, and shows the pages on as if they were well. What was refused does not come back
/// with the next start to vanish with the power cut after it.
#[test]
fn a_start_after_a_failed_sync_believes_the_medium() {
    for large in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        put_small(&store, "before", 1, b"before").unwrap();
        put_large(&store, "old", 2, &body(2, 50_000)).unwrap();
        store.checkpoint().unwrap();
        put_small(&store, "since", 3, b"since").unwrap();
        disk.fail_syncs(true);
        let refused = match large {
            true => put_large(&store, "refused", 4, &body(4, 50_000)),
            false => put_small(&store, "refused", 4, b"refused"),
        };
        assert!(matches!(refused, Err(StorageError::Poisoned(_))), "{refused:?}");
        disk.fail_syncs(false);
        drop(store);
        // The process is begun again, the machine is not.
        let (store, recovery) = open(&disk, &settings);
        assert_eq!(recovery.damage, vec![]);
        assert!(!keys(&store.view()).contains_key(b"refused".as_slice()));
        put_small(&store, "after", 5, b"after").unwrap();
        put_large(&store, "after too", 6, &body(6, 50_000)).unwrap();
        let before = keys(&store.view());
        assert_eq!(before.len(), 5);
        drop(store);
        for seed in 0..4 {
            let (store, recovery) = open(&disk.power_cut(seed), &settings);
            assert_eq!(recovery.damage, vec![], "nothing was built upon what is not there");
            assert_eq!(keys(&store.view()), before);
            audit(&store);
        }
    }
}

/// As a small body's frame is: an extent that a record names is looked for where its bytes are to be.
#[test]
fn a_start_after_a_failed_payload_sync_takes_no_extent_that_is_not_there() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(4, 50_000);
    // A record of another site's object, and its copy, which is to count.
    commit(&store, vec![say_put("held", 1, ChunkId::of(&bytes))]).unwrap();
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    disk.fail_syncs(true);
    assert!(matches!(store.sync_payload(), Err(StorageError::Poisoned(_))));
    disk.fail_syncs(false);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert!(!store.counts(DOMAIN, ChunkId::of(&bytes)));
}

/// The disk was ill for a moment: what is half made then is in nobody's way, and takes no room that nobody knows of.
#[test]
fn a_segment_that_could_not_be_made_is_made_later() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    disk.fail_syncs(true);
    let before = disk.names();
    for _ in 0..3 {
        assert!(matches!(put(&store, 1), Err(StorageError::Io { .. })));
    }
    let mut core = store.core();
    let spares = core.writer.spares();
    for _ in 0..3 {
        assert!(matches!(store.add_spares(&mut core, spares + 1), Err(StorageError::Io { .. })));
    }
    drop(core);
    assert_eq!(disk.names(), before);
    disk.fail_syncs(false);
    put_large(&store, "a", 1, &body(1, 50_000)).unwrap();
    for number in 0..60 {
        put_small(&store, "b", number, &body(number, 3000)).unwrap();
    }
    audit(&store);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert_eq!(keys(&store.view()).len(), 2);
    audit(&store);
}

#[test]
fn what_the_last_run_left_unfinished_goes_at_the_start() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    drop(open(&disk, &settings));
    let before = disk.names();
    disk.create("base.new", 1 << 20).unwrap();
    disk.create("journal/0000000007.stripped", 4096).unwrap();
    drop(open(&disk, &settings));
    assert_eq!(disk.names(), before);
}

/// Where the file system cannot reserve room a full disk shows at the write, which has to stop the store: who reads why is
/// not to be told that freed space is enough.
#[test]
fn a_journal_that_finds_no_room_says_that_the_store_stopped() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    disk.on_write(&file_name("journal", 1), || Err(io::ErrorKind::StorageFull.into()));
    let refused = put_small(&store, "b", 2, b"b");
    assert!(matches!(refused, Err(StorageError::Poisoned(_))), "{refused:?}");
    let why = store.usage().poisoned.unwrap();
    assert!(why.starts_with("write the journal: ") && why.contains("start it again"), "{why}");
    assert!(!why.contains("until space is freed"), "{why}");
}

/// Of names that no sync of their folder covered any may last: the marker is not gone while the index it speaks of is there.
#[test]
fn an_index_that_was_marked_as_damaged_is_not_found_again_without_its_mark() {
    let made = || {
        let (disk, settings) = (FaultyDisk::default(), kept());
        drop(open(&disk, &settings));
        // The engine of these tests has no files of its own.
        for name in ["index", "index-bad"] {
            disk.create(name, 0).unwrap();
        }
        disk.sync_dir(".").unwrap();
        settings.kept.as_ref().unwrap().lose();
        (disk, settings)
    };
    let (disk, settings) = made();
    let before = disk.ops();
    drop(open(&disk, &settings));
    let ops = disk.ops() - before;
    assert!(disk.names().contains(&"index-aside".to_owned()));
    for (op, seed) in (0..ops).flat_map(|op| (0..8).map(move |seed| (op, seed))) {
        let (disk, settings) = made();
        disk.cut_at(Some(disk.ops() + op));
        drop(Store::open(
            std::sync::Arc::new(disk.clone()),
            std::sync::Arc::new(super::world::Keys),
            settings,
        ));
        let names = disk.power_cut(seed).names();
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(!has("index") || has("index-bad"), "cut at {op}, seed {seed}: {names:?}");
    }
}

/// A dead spot of the card, where the first write of each life would go.
#[test]
fn a_segment_that_cannot_be_written_is_passed_over_by_the_next_life() {
    let failed = || Err(std::io::Error::other("Input/output error"));
    for (case, name) in
        ["journal/0000000001.seg", "journal/0000000001.seg", "payload/0000000001.seg"].iter().enumerate()
    {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        put_small(&store, "a", 1, b"1").unwrap();
        put_large(&store, "b", 2, &body(2, 20_000)).unwrap();
        match case {
            0 => disk.on_write(name, failed),
            _ => disk.on_sync(name, failed),
        }
        let put = |store: &Store, number| {
            put_large(store, &format!("{number}"), number, &body(number, 20_000))?;
            put_small(store, &format!("small {number}"), number, &body(number, 900))
        };
        put(&store, 3).unwrap_err();
        put(&store, 4).unwrap_err();
        drop(store);
        for life in 0..3_u64 {
            let (store, recovery) = open(&disk, &settings);
            assert_eq!(recovery.damage, vec![], "case {case}, life {life}");
            put(&store, 10 + life).unwrap();
            let held = keys(&store.view());
            assert!(held.contains_key(b"a".as_slice()) && held.contains_key(b"b".as_slice()));
            audit(&store);
            drop(store);
            if life == 1 {
                settings.kept.as_ref().unwrap().lose();
            }
        }
        let notes = disk.names().into_iter().filter(|name| name.starts_with("unwritable")).count();
        assert_eq!(notes, 0, "case {case}: nobody would write there again");
        // The power goes, and what was acknowledged is there.
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&disk.power_cut(case as u64), &settings);
        assert_eq!(recovery.damage, vec![], "case {case}");
        assert!(
            (10..13).all(|number| keys(&store.view()).contains_key(format!("small {number}").as_bytes()))
        );
        audit(&store);
    }
}

/// `errors=remount-ro`: nothing is written any more, and what is there is read, be its segment open or not.
#[test]
fn a_file_system_that_became_read_only_is_read_on() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, &body(1, 3000)).unwrap();
    put_large(&store, "b", 2, &body(2, 20_000)).unwrap();
    disk.become_read_only();
    put_small(&store, "c", 3, b"3").unwrap_err();
    for (area, bytes) in [(Area::Journal, body(1, 3000)), (Area::Payload, body(2, 20_000))] {
        store.files.forget(area, 1);
        let id = ChunkId::of(&bytes);
        assert_eq!(store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap(), bytes);
        assert!(store.has_chunk(DOMAIN, id).unwrap());
    }
}

/// A disk that hangs: nothing fails, and whoever asks hears for how long already, without waiting for it.
#[test]
fn a_sync_that_does_not_come_back_is_told() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    assert_eq!(store.usage().sync_waits, 0.0);
    let (begun, has_begun) = std::sync::mpsc::sync_channel(1);
    let (goes_on, waits) = std::sync::mpsc::sync_channel::<()>(1);
    let waits = std::sync::Mutex::new(waits);
    disk.set_time(Instant(5_000_000_000));
    disk.on_sync(&file_name("journal", 1), move || {
        begun.send(()).unwrap();
        waits.lock().unwrap().recv().unwrap();
        Ok(())
    });
    std::thread::scope(|scope| {
        let put = scope.spawn(|| put_small(&store, "b", 2, b"b"));
        has_begun.recv().unwrap();
        disk.set_time(Instant(47_000_000_000));
        assert_eq!(store.usage().sync_waits, 42.0);
        goes_on.send(()).unwrap();
        put.join().unwrap().unwrap();
    });
    assert_eq!(store.usage().sync_waits, 0.0);
}

/// Else each later attempt would meet the same name, and the journal had no other spare until a start.
#[test]
fn what_an_attempt_at_a_spare_left_behind_is_passed_by() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, b"a").unwrap();
    let next = numbers(&disk.list("journal").unwrap()).last().unwrap() + 1;
    drop(disk.create(&file_name("journal", next), 0).unwrap());
    assert!(matches!(store.core().writer.add_spare(), Err(StorageError::Io { .. })));
    assert_eq!(store.core().writer.add_spare().unwrap(), next + 1);
}

/// A tree of which it was not noted what it lists is asked for that itself when it goes: what it listed would stay for ever.
#[test]
fn a_tree_is_not_let_go_of_unread_for_want_of_open_files() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bodies = [body(1, 40_000), body(2, 40_000)];
    put_tree(&store, "tree", 1, &bodies).unwrap();
    let key = (DOMAIN, ChunkId::of(&tree_of(&bodies)));
    let place = rows(&store.view())[&key].place.unwrap();
    let name = file_name(place.area.folder(), place.segment);
    disk.on_open(&name, || Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error())));
    store.files.forget(place.area, place.segment);
    assert!(matches!(store.children_or_none(key), Err(StorageError::Lacking { .. })));
    disk.on_open("none", || Ok(()));
    assert_eq!(store.children_or_none(key).unwrap().len(), 2);
    disk.spoil(&name, 0..1 << 20);
    store.files.forget(place.area, place.segment);
    assert!(store.children_or_none(key).unwrap().is_empty(), "what does not read does not read later");
}

/// Whether or not the name lasts, it is the shorter file that lies behind it: the longer one was held open, and counted, until a start.
#[test]
fn a_stripped_segment_whose_name_could_not_be_synced_counts_as_it_is() {
    let (disk, settings) = (FaultyDisk::default(), Settings { journal_heads_bytes: u64::MAX, ..kept() });
    let (store, _) = open(&disk, &settings);
    for number in 0..300 {
        put_small(&store, &format!("{number}"), number, &body(number, 1200)).unwrap();
    }
    (0..300)
        .filter(|number| number % 20 != 3)
        .for_each(|number| delete(&store, &format!("{number}")).unwrap());
    let whole = disk.content(&file_name("journal", 1)).len();
    for step in 0..12 {
        store.checkpoint().unwrap();
        disk.fail_syncs_of_folder((step > 0).then_some("journal"));
        store.collect(WallTime(CHUNK_REST_MS * step.min(1))).ok();
        disk.fail_syncs_of_folder(None);
    }
    let stripped = disk.content(&file_name("journal", 1)).len();
    assert!(stripped < whole, "{stripped} of {whole}");
    for number in numbers(&disk.list("journal").unwrap()) {
        let len = disk.content(&file_name("journal", number)).len() as u64;
        assert_eq!(store.space.of(Area::Journal, number).len, len, "segment {number}");
    }
}
