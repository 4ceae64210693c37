//! Every kind of byte on disk is flipped once, each on a copy of the same store: what is wrong is said and never served,
//! and who brings the bytes again (as the node does with what another site holds) mends it.
//!
//! `SKERRY_FLIPS=every` flips every byte instead of each field and some of what lies between: minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{
    DOMAIN, Held, Keys, body, commit, delete, kept, keys, open, open_on, put_large, put_small, put_tree,
    rows, say_put, small, tree_of,
};
use crate::disk::faulty::FaultyDisk;
use crate::disk::real::RealDisk;
use crate::store::{ScrubStep, Store};
use crate::{Class, Engine, IndexState, ReadError, Settings, StorageError};

/// What a store holds: each key with its entry and its bytes, and the bytes of every chunk below it.
struct Content {
    keys: BTreeMap<Vec<u8>, (Held, Vec<u8>)>,
    chunks: Vec<(ChunkKind, Vec<u8>)>,
    /// Chunks that are here as evictable copies.
    copies: Vec<ChunkId>,
}

/// Small and large bodies, a tree, a copy; much that is dead; a base, stripped and sealed segments.
fn filled(store: &Store) -> Content {
    for round in 0..12_u64 {
        for key in 0..40 {
            put_small(store, &format!("over-{key}"), round, &body(round * 40 + key, 150)).unwrap();
        }
        store.collect(WallTime(round * CHUNK_REST_MS)).unwrap();
        store.checkpoint().unwrap();
    }
    let mut bodies = BTreeMap::new();
    let mut chunks = Vec::new();
    for n in 0..30 {
        put_small(store, &format!("small-{n}"), n, &body(1000 + n, 3000)).unwrap();
        bodies.insert(format!("small-{n}"), body(1000 + n, 3000));
    }
    for n in 0..6 {
        put_large(store, &format!("large-{n}"), n, &body(2000 + n, 90_000)).unwrap();
        bodies.insert(format!("large-{n}"), body(2000 + n, 90_000));
        put_large(store, &format!("gone-{n}"), n, &body(3000 + n, 20_000)).unwrap();
        delete(store, &format!("gone-{n}")).unwrap();
    }
    let parts = [body(4001, 70_000), body(4002, 70_000)];
    put_tree(store, "tree", 1, &parts).unwrap();
    bodies.insert("tree".to_owned(), tree_of(&parts));
    let copy = body(5000, 50_000);
    commit(store, vec![say_put("far", 1, ChunkId::of(&copy))]).unwrap();
    drop(store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &copy).unwrap());
    bodies.insert("far".to_owned(), copy.clone());
    for key in 0..40 {
        bodies.insert(format!("over-{key}"), body(11 * 40 + key, 150));
    }
    store.settle(|settled| settled.unwrap());
    store.pump();
    let found = keys(&store.view());
    assert_eq!(found.len(), bodies.len());
    chunks.extend(parts.into_iter().map(|part| (ChunkKind::Leaf, part)));
    for (key, bytes) in &bodies {
        let kind = if key == "tree" { ChunkKind::Tree } else { ChunkKind::Leaf };
        chunks.push((kind, bytes.clone()));
    }
    let keys = found
        .into_iter()
        .map(|(key, held)| {
            let bytes = bodies[std::str::from_utf8(&key).unwrap()].clone();
            (key, (held, bytes))
        })
        .collect();
    Content { keys, chunks, copies: vec![ChunkId::of(&copy)] }
}

/// What came of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// The store does not open.
    Refused,
    /// It was said, and what is wrong is not served.
    Said,
    /// Nothing that lives lies there.
    Harmless,
}

/// Opens the store and reads everything, whole and in parts, compares it with its content and mends it.
fn judge(disk: &FaultyDisk, settings: &Settings, content: &Content, flip: &str) -> Fate {
    let opened = Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone());
    let Ok((store, recovery)) = opened else { return Fate::Refused };
    let mut said = !recovery.damage.is_empty() || recovery.torn.is_some() || !recovery.strange.is_empty();
    let found = keys(&store.view());
    for (key, held) in &found {
        let known = content.keys.get(key).map(|(held, _)| held);
        assert!(known == Some(held) || said, "{flip}: {key:?} holds what was never or no more there");
    }
    let missing = content.keys.keys().filter(|key| !found.contains_key(*key)).count();
    assert!(missing == 0 || said, "{flip}: {missing} keys are gone and nothing was said");
    let seen: ScrubStep = store.examine().unwrap();
    let unread = unread(&store, content, flip);
    for (id, error) in &unread {
        let listed = seen.damaged.iter().any(|chunk| chunk.id == *id);
        let copy = content.copies.contains(id) && seen.torn_copies > 0;
        let dropped = recovery.chunks_dropped > 0 && matches!(error, ReadError::Absent);
        assert!(listed || copy || dropped || said, "{flip}: {id}: {error} and nothing was said");
    }
    said |=
        !unread.is_empty() || !seen.damaged.is_empty() || !seen.segments.is_empty() || seen.torn_copies > 0;
    if !said {
        return Fate::Harmless;
    }
    mended(&store, content, flip);
    Fate::Said
}

/// Reads all chunks. Wrong bytes are a failure; those that are not given are told.
fn unread(store: &Store, content: &Content, flip: &str) -> Vec<(ChunkId, ReadError)> {
    let mut unread = Vec::new();
    for (_, bytes) in &content.chunks {
        let (id, len) = (ChunkId::of(bytes), bytes.len() as u32);
        for range in [0..u32::MAX, len / 2..len / 2 + 1, len - 1..len] {
            let wanted = &bytes[range.start as usize..range.end.min(len) as usize];
            if let Some(open) = store.open_chunk_now(DOMAIN, id, len)
                && let Some(read) = open.read_now(range.start..range.end.min(len))
            {
                assert_eq!(read, wanted, "{flip}: wrong bytes were served at once");
            }
            match store.read_chunk(DOMAIN, id, range) {
                Ok(read) => assert_eq!(read, wanted, "{flip}: wrong bytes were served"),
                Err(error) => unread.push((id, error)),
            }
        }
    }
    unread
}

/// Who has all bytes puts them again; all of it is well then, also after the next start.
fn mended(store: &Store, content: &Content, flip: &str) {
    for (kind, bytes) in &content.chunks {
        drop(store.put_chunk(DOMAIN, Class::Payload, *kind, bytes).unwrap());
    }
    for (key, (held, _)) in &content.keys {
        let key = std::str::from_utf8(key).unwrap();
        commit(store, vec![say_put(key, held.number, held.chunk)]).unwrap();
    }
    store.settle(|settled| settled.unwrap());
    store.pump();
    for (held, bytes) in content.keys.values() {
        let read = store.read_chunk(DOMAIN, held.chunk, 0..u32::MAX);
        assert_eq!(read.unwrap_or_else(|error| panic!("{flip}: not mended: {error}")), *bytes);
    }
}

#[expect(clippy::disallowed_methods, reason = "how much is tried is said on the command line of the tests")]
fn every() -> bool {
    std::env::var("SKERRY_FLIPS").is_ok_and(|which| which == "every")
}

/// Each field of the head of an extent: `magic · version · kind · area · stored · crc · domain · id · sums`.
const HEAD: [usize; 10] = [0, 4, 5, 6, 8, 12, 16, 32, 63, 64];

/// Which bytes of a file: each field of what it begins and ends with, and some between.
fn places(len: usize) -> Vec<usize> {
    if every() {
        return (0..len).collect();
    }
    let head = (0..len.min(200)).step_by(7);
    let middle = (0..len).step_by((len / 20).max(1)).map(|at| at + at % 7);
    let tail = (len.saturating_sub(120)..len).step_by(7);
    let mut places: Vec<usize> = head.chain(middle).chain(tail).filter(|at| *at < len).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Flips bytes of all files; how often what came of it, by folder.
fn flip_all(settings: &dyn Fn() -> Settings) -> BTreeMap<(String, Fate), u32> {
    let (disk, first) = (FaultyDisk::default(), settings());
    let (store, _) = open(&disk, &first);
    let content = filled(&store);
    store.checkpoint().unwrap();
    let living: Vec<(String, u64, u64)> = rows(&store.view())
        .values()
        // What only rests is dropped by a rebuild.
        .filter(|row| row.references > 0)
        .filter_map(|row| Some((row.place?, u64::from(row.stored))))
        .map(|(place, stored)| {
            let name = crate::journal::file_name(place.area.folder(), place.segment);
            let header = if place.area == crate::chunks::row::Area::Journal { 0 } else { 64 };
            (name, place.offset, place.offset + header + stored)
        })
        .collect();
    drop(store);
    let index = first.kept.as_ref().map(|kept| kept.copied());
    let mut fates = BTreeMap::new();
    for name in disk.names() {
        let len = disk.content(&name).len();
        let heads = living.iter().filter(|(file, ..)| *file == name && !name.starts_with("journal"));
        let fields = heads.take(4).flat_map(|(_, from, _)| HEAD.map(|field| *from as usize + field));
        let all: BTreeSet<usize> = places(len).into_iter().chain(fields).collect();
        for at in all {
            let copy = disk.copied();
            copy.corrupt(&name, |bytes| bytes[at] ^= 0x40);
            let mut settings = first.clone();
            settings.kept = index.as_ref().map(|index| Arc::new(index.copied()));
            let fate = judge(&copy, &settings, &content, &format!("{name}, byte {at}"));
            let at = at as u64;
            let lives = living.iter().any(|(file, from, to)| *file == name && (*from..*to).contains(&at));
            assert!(
                !lives || fate != Fate::Harmless,
                "{name}, byte {at} is part of a body and was not missed"
            );
            let folder = name.split('/').next().unwrap_or_default().to_owned();
            *fates.entry((folder, fate)).or_insert(0) += 1;
        }
    }
    println!("{fates:?}");
    fates
}

/// That there was something of each kind, and that it was found.
fn all_kinds_were_met(fates: &BTreeMap<(String, Fate), u32>) {
    let count = |folder: &str, fate| fates.get(&(folder.to_owned(), fate)).copied().unwrap_or(0);
    assert!(count("journal", Fate::Said) > 20, "{fates:?}");
    assert!(count("payload", Fate::Said) > 20, "{fates:?}");
    assert!(count("cache", Fate::Said) > 5, "{fates:?}");
    // Who the store is its segments say, too.
    assert!(count("store", Fate::Harmless) > 0 && count("store", Fate::Refused) == 0, "{fates:?}");
    // Positions and counters are forgotten, nothing else.
    assert_eq!(count("scrub", Fate::Refused) + count("uses", Fate::Refused), 0, "{fates:?}");
}

#[test]
fn no_flipped_byte_of_any_file_is_served_while_the_index_stands() {
    let fates = flip_all(&kept);
    all_kinds_were_met(&fates);
    assert_eq!(fates.get(&("journal".to_owned(), Fate::Refused)), None, "the index has it all: {fates:?}");
}

#[test]
fn no_flipped_byte_of_any_file_is_served_by_a_rebuilt_index() {
    let fates = flip_all(&small);
    all_kinds_were_met(&fates);
    assert!(fates.get(&("base".to_owned(), Fate::Said)).is_some_and(|count| *count > 20), "{fates:?}");
}

fn index_files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.join("index")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Looks up every key of the application by name, and all by a scan; an error or a panic of the engine is "said".
fn looked_up(store: &Store, wanted: &BTreeMap<Vec<u8>, Held>) -> Result<bool, String> {
    let look = || -> Result<bool, String> {
        let view = store.view();
        let mut same = true;
        for (key, held) in wanted {
            let found = view.get(Table::Current, key).map_err(|error| error.to_string())?;
            let found = found.map(|bytes| codec::decode::<Held>(&bytes)).transpose();
            same &= found.map_err(|error| error.to_string())?.as_ref() == Some(held);
        }
        let mut seen = BTreeMap::new();
        view.scan_prefix(Table::Current, &[], &mut |key, value| {
            seen.insert(key.to_vec(), value.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .map_err(|error| error.to_string())?;
        Ok(same && seen.keys().eq(wanted.keys()))
    };
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

#[test]
fn no_flipped_byte_of_the_index_changes_an_answer() {
    answers_as_before(false);
}

#[test]
fn no_flipped_byte_of_a_packed_index_changes_an_answer() {
    answers_as_before(true);
}

fn answers_as_before(packs_index: bool) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, packs_index, ..small() };
    let disk = |folder: &Path| Arc::new(RealDisk::new(folder).unwrap());
    let (store, _) = open_on(disk(folder.path()), &settings);
    let content = filled(&store);
    store.checkpoint().unwrap();
    drop(store);
    let wanted: BTreeMap<Vec<u8>, Held> =
        content.keys.iter().map(|(key, (held, _))| (key.clone(), held.clone())).collect();
    let (mut rebuilt, mut said, mut harmless) = (0, 0, 0);
    for file in index_files(folder.path()) {
        let whole = std::fs::read(&file).unwrap();
        for at in places(whole.len()) {
            let copy = tempfile::tempdir().unwrap();
            copy_all(folder.path(), copy.path());
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let here = copy.path().join(file.strip_prefix(folder.path()).unwrap());
            std::fs::write(&here, bytes).unwrap();
            let flip = format!("{}, byte {at}", here.file_name().unwrap().display());
            let (store, recovery) = open_on(disk(copy.path()), &settings);
            match looked_up(&store, &wanted) {
                Ok(same) => {
                    assert!(same, "{flip}: the index answers something else and nothing was said");
                    if recovery.index == IndexState::Opened { harmless += 1 } else { rebuilt += 1 }
                }
                Err(_) => {
                    said += 1;
                    // Noted as damaged: the next start builds it anew.
                    drop(store);
                    let (store, recovery) = open_on(disk(copy.path()), &settings);
                    assert!(matches!(recovery.index, IndexState::Rebuilt(_)), "{flip}: {recovery:?}");
                    assert_eq!(looked_up(&store, &wanted), Ok(true), "{flip}");
                }
            }
        }
    }
    println!("index: {rebuilt} rebuilt at the open, {said} said when read, {harmless} of no consequence");
    assert!(rebuilt > 0 && said > 0, "{rebuilt} rebuilt, {said} said");
}

/// What waits to be collected, and what waits to be merged: nobody else ever asks for it.
#[test]
fn a_part_of_the_index_that_only_the_store_reads_is_noted_when_it_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, ..small() };
    let disk = |folder: &Path| Arc::new(RealDisk::new(folder).unwrap());
    let (store, _) = open_on(disk(folder.path()), &settings);
    for n in 0..300 {
        put_small(&store, &format!("gone-{n}"), n, &body(n, 100)).unwrap();
    }
    (0..300).for_each(|n| delete(&store, &format!("gone-{n}")).unwrap());
    store.checkpoint().unwrap();
    drop(store);
    let mut told = 0;
    for file in index_files(folder.path()) {
        let whole = std::fs::read(&file).unwrap();
        for at in places(whole.len()).into_iter().step_by(if every() { 1 } else { 4 }) {
            let copy = tempfile::tempdir().unwrap();
            copy_all(folder.path(), copy.path());
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            std::fs::write(copy.path().join(file.strip_prefix(folder.path()).unwrap()), bytes).unwrap();
            let (store, recovery) = open_on(disk(copy.path()), &settings);
            if recovery.index != IndexState::Opened {
                continue;
            }
            for step in 0..3 {
                let said = store.collect(WallTime(step * CHUNK_REST_MS)).map(drop);
                let said = said.and_then(|()| store.checkpoint());
                if let Err(StorageError::Index(why)) = said {
                    told += 1;
                    let marked = copy.path().join(crate::index::health::MARKER).exists();
                    assert!(marked, "{}, byte {at}: {why} and nothing was noted", file.display());
                    break;
                }
            }
        }
    }
    assert!(told > 0);
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_all(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
