//! An index is given up: what was given up before it and may know more stays, and no start fails for ever upon a bad block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use skerry_base::kv::{Table, View};

use super::world::{Held, Keys, body, keys, open_on, put_small, small};
use crate::chunks::row::{APPLIED, MISSED, REBUILDING};
use crate::disk::real::RealDisk;
use crate::index::Writes;
use crate::index::health::MARKER;
use crate::store::{IndexState, Recovery, Store};
use crate::{Engine, Settings, StorageError};

fn settings() -> Settings {
    Settings { engine: Engine::Lsm, journal_heads_bytes: u64::MAX, memtable_bytes: 1 << 20, ..small() }
}

fn open(folder: &Path, settings: &Settings) -> Result<(Arc<Store>, Recovery), StorageError> {
    Store::open(Arc::new(RealDisk::new(folder).unwrap()), Arc::new(Keys), settings.clone())
}

fn note(folder: &Path, name: &'static [u8]) {
    let (store, _) = open(folder, &settings()).unwrap();
    let noted = store.own_group(|_, changes, _| {
        changes.note(name, Some(Vec::new()));
        Ok(Some(()))
    });
    noted.unwrap();
    store.checkpoint().unwrap();
}

/// One that was given up lies there already, and the next is given up in every way.
#[test]
fn an_index_that_was_given_up_makes_way_only_for_one_that_knows_as_much() {
    let rebuild = || Settings { rebuild: true, ..settings() };
    for (given, first_stays, later) in [
        ("none", true, false),
        ("interrupted", true, false),
        ("without", true, true),
        ("rotten", true, true),
        ("whole", false, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (store, _) = open(folder.path(), &settings()).unwrap();
        (0..20).for_each(|number| put_small(&store, &format!("key-{number}"), number, b"x").unwrap());
        store.checkpoint().unwrap();
        let before = keys(&store.view());
        drop(store);
        std::fs::create_dir(path("index-aside")).unwrap();
        std::fs::write(path("index-aside/first"), b"1").unwrap();
        match given {
            "none" => std::fs::remove_dir_all(path("index")).unwrap(),
            "interrupted" => note(folder.path(), REBUILDING),
            "without" => note(folder.path(), MISSED),
            "rotten" => std::fs::write(path("index/current"), b"rotten").unwrap(),
            _ => {}
        }
        let asked = if ["without", "whole"].contains(&given) { rebuild() } else { settings() };
        let (store, recovery) = open(folder.path(), &asked).unwrap();
        assert!(matches!(recovery.index, IndexState::Rebuilt(_)), "{given}: {recovery:?}");
        assert_eq!(keys(&store.view()), before, "{given}");
        assert_eq!(path("index-aside/first").exists(), first_stays, "{given}");
        assert_eq!(path("index-aside-later").exists(), later, "{given}");
    }
}

/// A byte of its largest table.
fn flip_index(folder: &Path, part: usize) {
    let mut folders = vec![folder.join("index")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let largest = files.into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let at = bytes.len() * part / 8 + 5;
    bytes[at] ^= 1;
    std::fs::write(&largest, bytes).unwrap();
}

fn with_tail(folder: &Path) -> BTreeMap<Vec<u8>, Held> {
    let (store, _) = open_on_files(folder);
    (0..300)
        .for_each(|number| put_small(&store, &format!("key-{number}"), number, &body(number, 40)).unwrap());
    store.checkpoint().unwrap();
    // Whose rows the replay reads.
    (0..300).step_by(5).for_each(|number| {
        put_small(&store, &format!("key-{number}"), 1000 + number, &body(number, 41)).unwrap();
    });
    keys(&store.view())
}

fn open_on_files(folder: &Path) -> (Arc<Store>, Recovery) {
    open_on(Arc::new(RealDisk::new(folder).unwrap()), &settings())
}

/// The end of the journal is replayed upon it.
#[test]
fn an_index_that_fails_a_start_is_rebuilt_by_the_next() {
    let mut failed = 0;
    for part in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let before = with_tail(folder.path());
        flip_index(folder.path(), part);
        if let Err(error) = open(folder.path(), &settings()) {
            assert!(error.to_string().contains("start again"), "{error}");
            assert!(folder.path().join(MARKER).exists());
            failed += 1;
        }
        let (store, recovery) = open_on_files(folder.path());
        assert!(matches!(recovery.index, IndexState::Rebuilt(_) | IndexState::Opened), "{recovery:?}");
        assert_eq!(keys(&store.view()), before, "{part}");
        assert!(!folder.path().join(MARKER).exists());
    }
    assert!(failed > 0);
}

/// While only it knows what the base said, the error says what to do, and the mark stays.
#[test]
fn a_marked_index_that_fails_a_start_keeps_its_mark() {
    let mut failed = 0;
    for part in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_on_files(folder.path());
        put_small(&store, "first", 1, b"1").unwrap();
        store.renew_base().unwrap();
        drop(store);
        let before = with_tail(folder.path());
        let base = folder.path().join("base");
        let mut bytes = std::fs::read(&base).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&base, bytes).unwrap();
        std::fs::write(folder.path().join(MARKER), []).unwrap();
        flip_index(folder.path(), part);
        match open(folder.path(), &settings()) {
            Err(error) => {
                assert!(error.to_string().contains("move the folder `index` away"), "{error}");
                assert!(folder.path().join(MARKER).exists() && folder.path().join("index").exists());
                failed += 1;
            }
            Ok((_, recovery)) if recovery.index == IndexState::Opened => {
                assert!(!folder.path().join(MARKER).exists());
            }
            Ok(_) => assert!(before.len() == 301),
        }
    }
    assert!(failed > 0);
}

/// A start looks at no segment that its index knows; a rebuild looks at all, and of one of payload that does not read it goes no
/// further. The site served everything else before.
#[test]
fn a_rebuild_that_was_asked_for_and_comes_to_no_end_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), &settings()).unwrap();
    (0..20).for_each(|number| put_small(&store, &format!("key-{number}"), number, b"x").unwrap());
    super::world::put_large(&store, "large", 99, &body(99, 20_000)).unwrap();
    store.checkpoint().unwrap();
    let before = keys(&store.view());
    drop(store);
    // What a rebuild needs, and cannot read.
    std::fs::create_dir(folder.path().join("base")).unwrap();
    let refused = open(folder.path(), &Settings { rebuild: true, ..settings() }).map(drop).unwrap_err();
    assert!(refused.to_string().contains("put back as it was"), "{refused}");
    assert!(!folder.path().join("index-aside").exists());
    std::fs::remove_dir(folder.path().join("base")).unwrap();
    let (store, recovery) = open(folder.path(), &settings()).unwrap();
    assert_eq!((recovery.index, keys(&store.view())), (IndexState::Opened, before));
}

/// Marks what the index says of itself as of this version, and starts.
fn start_as_of(version: u8) -> (IndexState, bool) {
    let folder = tempfile::tempdir().unwrap();
    let before = with_tail(folder.path());
    {
        let (store, _) = open_on_files(folder.path());
        let noted = store.view().get(Table::Storage, APPLIED).unwrap().unwrap();
        assert_eq!(noted.first(), Some(&2), "releases before do not read it");
        let mut writes = Writes::default();
        let noted = [&[version], &noted[1..]].concat();
        writes.insert(Table::Storage, APPLIED.to_vec(), Some(noted.into()));
        store.index.apply(&writes, u64::MAX).unwrap();
        store.index.checkpoint(None).unwrap();
    }
    let (store, recovery) = open_on_files(folder.path());
    let noted = store.view().get(Table::Storage, APPLIED).unwrap().unwrap();
    assert_eq!(noted.first(), Some(&2));
    (recovery.index, keys(&store.view()) == before)
}

/// That of a release before is gone on with. One whose rows this release may not read is built anew, as a release before does
/// with those of this one.
#[test]
fn an_index_of_a_later_release_is_given_up_and_one_of_a_release_before_is_not() {
    assert_eq!(start_as_of(1), (IndexState::Opened, true));
    let (state, is_same) = start_as_of(3);
    assert!(is_same && matches!(state, IndexState::Rebuilt(why) if why.contains("of version 3")));
}
