//! What the index cannot flush lies in memory, and is bounded whatever clients send.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use skerry_base::Instant;

use super::world::{Keys, kept, keys, open, put_small, say_delete, small, small_put};
use crate::disk::faulty::FaultyDisk;
use crate::disk::real::RealDisk;
use crate::store::Store;
use crate::{CommitError, Engine, Entry, Settings, StorageError};

const MEMTABLE: u64 = 64 << 10;
/// What one proposal of these adds, with what the store notes beside it.
const GROUP: u64 = 4 << 10;

fn store(folder: &Path) -> Arc<Store> {
    let settings = Settings {
        engine: Engine::Lsm,
        journal_segment_bytes: 1 << 20,
        journal_heads_bytes: u64::MAX,
        memtable_bytes: MEMTABLE,
        ..small()
    };
    Store::open(Arc::new(RealDisk::new(folder).unwrap()), Arc::new(Keys), settings).unwrap().0
}

/// Through the thread that commits.
fn commit(store: &Arc<Store>, entry: Entry) -> Result<(), StorageError> {
    let (tell, told) = sync_channel(1);
    store.submit(move |_| Ok::<_, ()>(((), vec![entry])), move |result| tell.send(result).unwrap());
    told.recv().unwrap().map_err(|error| match error {
        CommitError::Storage(error) => error,
        other => panic!("{other:?}"),
    })
}

/// Has every flush refused from now on: the lists of tables that it would write are folders.
fn refuse_flushes(folder: &Path) -> Vec<std::path::PathBuf> {
    let current = std::fs::read(folder.join("index/current")).unwrap();
    let number = u64::from_le_bytes(current[..8].try_into().unwrap());
    let lists: Vec<_> = (1..200).map(|next| folder.join(format!("index/v{}", number + next))).collect();
    lists.iter().for_each(|list| std::fs::create_dir(list).unwrap());
    lists
}

#[test]
fn while_flushes_fail_writes_and_then_deletes_are_refused_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let committer = store.start_committer().unwrap();
    commit(&store, small_put("first", 0, b"x")).unwrap();
    let lists = refuse_flushes(folder.path());
    let mut number = 0;
    let refused = loop {
        number += 1;
        match commit(&store, small_put(&format!("key-{number:08}"), number, b"x")) {
            Ok(()) => assert!(number < 10_000, "nothing bounds it"),
            Err(error) => break error,
        }
        let unflushed = store.index.unflushed();
        assert!(unflushed <= MEMTABLE * 3 / 2 + GROUP, "{unflushed} bytes are not flushed");
    };
    assert!(matches!(refused, StorageError::Behind), "{refused}");
    assert!(store.index.unflushed() >= MEMTABLE * 3 / 2, "it was refused too early");
    let mut deleted = 0;
    while commit(&store, say_delete("first")).is_ok() {
        deleted += 1;
        assert!(deleted < 10_000, "nothing bounds deletes");
        let unflushed = store.index.unflushed();
        assert!(unflushed <= MEMTABLE * 3 + GROUP, "{unflushed} bytes are not flushed");
    }
    assert!(deleted > 10, "deletes go on where writes do not");
    lists.iter().for_each(|list| std::fs::remove_dir(list).unwrap());
    // Who asks for it is not held back, and then nobody is.
    store.checkpoint().unwrap();
    commit(&store, small_put("last", number, b"x")).unwrap();
    assert!(store.index.unflushed() < MEMTABLE);
    drop(committer);
    assert!(keys(&store.view()).keys().any(|key| key.ends_with(b"last")));
}

#[test]
fn a_store_starts_while_flushes_are_refused_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(folder.path());
    let committer = first.start_committer().unwrap();
    commit(&first, small_put("first", 0, b"x")).unwrap();
    let lists = refuse_flushes(folder.path());
    // Long keys: most of what lies there is read again.
    let long = "k".repeat(600);
    let mut number = 0;
    while commit(&first, small_put(&format!("key-{number:08}-{long}"), number + 1, b"x")).is_ok() {
        number += 1;
        assert!(number < 10_000, "nothing bounds it");
    }
    let before = first.index.unflushed();
    drop(committer);
    drop(first);
    // No flush for each batch that is read again, and no end for want of one.
    let again = store(folder.path());
    assert!(
        again.index.unflushed() >= MEMTABLE,
        "of {before} bytes {} are read again",
        again.index.unflushed()
    );
    let committer = again.start_committer().unwrap();
    commit(&again, say_delete("first")).unwrap();
    lists.iter().for_each(|list| std::fs::remove_dir(list).unwrap());
    again.checkpoint().unwrap();
    commit(&again, small_put("last", number + 3, b"x")).unwrap();
    drop(committer);
    let found = keys(&again.view());
    let found = found.keys().filter(|key| key.windows(4).any(|part| part == b"key-")).count();
    assert_eq!(found as u64, number, "all that was acknowledged");
}

/// Each try writes megabytes before it fails, and each write asks for one.
#[test]
fn a_flush_that_failed_is_not_tried_again_by_each_write() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let index = settings.kept.as_ref().unwrap();
    index.fill();
    let mut tried = Vec::new();
    for ms in 0..20_000_u64 {
        disk.set_time(Instant(ms * 1_000_000));
        put_small(&store, "a", ms, b"1").unwrap();
        if index.failed() > tried.len() {
            tried.push(ms);
        }
    }
    assert_eq!(tried, [0, 250, 750, 1_750, 3_750, 7_750, 15_750]);
}
