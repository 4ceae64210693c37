//! A small application on the store: keys that name bodies. Its reducer, an audit of every invariant that can be
//! recounted, and helpers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::chunk::Tree;
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef};

use crate::chunks::Key;
use crate::chunks::row::{Area, Row, UNWANTED, decode, read_chunk_key};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::index::kept::Kept;
use crate::store::changes::listed;
use crate::store::{Entry, Recovery, SmallBody, Store, StoreView};
use crate::{CommitError, Engine, Settings, StorageError};

pub(super) const DOMAIN: BucketId = BucketId([7; 16]);

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Say {
    Put { key: Vec<u8>, number: u64, chunk: ChunkId },
    Delete { key: Vec<u8> },
}

impl Versioned for Say {
    const NAME: &'static str = "test entry";
    const VERSION: u8 = 1;
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) number: u64,
    pub(super) chunk: ChunkId,
}

impl Versioned for Held {
    const NAME: &'static str = "test value";
    const VERSION: u8 = 1;
}

pub(super) struct Keys;

impl Reducer for Keys {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let say: Say = codec::decode(entry).map_err(|error| ReduceError(error.to_string()))?;
        let key = match &say {
            Say::Put { key, .. } | Say::Delete { key } => key.clone(),
        };
        if let Some(old) = view.get(Table::Current, &key)? {
            let old: Held = codec::decode(&old).map_err(|error| ReduceError(error.to_string()))?;
            batch.reference(DOMAIN, old.chunk, -1);
        }
        match say {
            Say::Put { key, number, chunk } => {
                batch.reference(DOMAIN, chunk, 1);
                batch.put(Table::Current, key, codec::encode(&Held { number, chunk }));
            }
            Say::Delete { key } => batch.delete(Table::Current, key),
        }
        Ok(())
    }
}

/// Small everything, so that segments roll and flushes happen within a short test.
pub(super) fn small() -> Settings {
    Settings {
        engine: Engine::Memory,
        journal_segment_bytes: 64 << 10,
        journal_heads_bytes: 16 << 10,
        payload_segment_bytes: 256 << 10,
        cache_segment_bytes: 128 << 10,
        cache_bytes: 256 << 10,
        headroom_bytes: 0,
        memtable_bytes: 16 << 10,
        index_cache_bytes: 64 << 10,
        dirty_bytes: 128 << 10,
        salt: [3; 16],
        ..Settings::default()
    }
}

/// Small settings with an index of which the last checkpoint survives.
pub(super) fn kept() -> Settings {
    Settings { kept: Some(Arc::new(Kept::default())), ..small() }
}

pub(super) fn open(disk: &FaultyDisk, settings: &Settings) -> (Arc<Store>, Recovery) {
    Store::open(Arc::new(disk.clone()), Arc::new(Keys), settings.clone()).unwrap()
}

pub(super) fn open_on(disk: Arc<dyn Disk>, settings: &Settings) -> (Arc<Store>, Recovery) {
    Store::open(disk, Arc::new(Keys), settings.clone()).unwrap()
}

/// Where the result of a proposal is left.
pub(super) type Answer = Arc<Mutex<Option<Result<(), CommitError<()>>>>>;

/// Submits entries without running them.
pub(super) fn submit(store: &Store, entries: Vec<Entry>) -> Answer {
    let answer = Answer::default();
    let left = answer.clone();
    store.submit(move |_| Ok::<_, ()>(((), entries)), move |result| *left.lock().unwrap() = Some(result));
    answer
}

/// Commits entries by pumping.
pub(super) fn commit(store: &Store, entries: Vec<Entry>) -> Result<(), StorageError> {
    let answer = submit(store, entries);
    store.pump();
    let result = answer.lock().unwrap().take().unwrap();
    result.map_err(|error| match error {
        CommitError::Storage(error) => error,
        CommitError::Refused(()) => unreachable!("nothing is refused here"),
    })
}

pub(super) fn say_put(key: &str, number: u64, chunk: ChunkId) -> Entry {
    Entry::new(codec::encode(&Say::Put { key: key.into(), number, chunk }))
}

pub(super) fn say_delete(key: &str) -> Entry {
    Entry::new(codec::encode(&Say::Delete { key: key.into() })).freeing()
}

/// An entry with its body in the journal.
pub(super) fn small_put(key: &str, number: u64, body: &[u8]) -> Entry {
    let body = SmallBody::new(DOMAIN, Bytes::copy_from_slice(body));
    say_put(key, number, body.id()).with_body(body)
}

pub(super) fn put_small(store: &Store, key: &str, number: u64, body: &[u8]) -> Result<(), StorageError> {
    commit(store, vec![small_put(key, number, body)])
}

pub(super) fn put_large(store: &Store, key: &str, number: u64, body: &[u8]) -> Result<(), StorageError> {
    let pin = store.put_chunk(DOMAIN, crate::Class::Payload, ChunkKind::Leaf, body)?;
    commit(store, vec![say_put(key, number, pin.id())])
}

pub(super) fn delete(store: &Store, key: &str) -> Result<(), StorageError> {
    commit(store, vec![say_delete(key)])
}

/// A tree over these bodies: its bytes, and its name.
pub(super) fn tree_of(bodies: &[Vec<u8>]) -> Vec<u8> {
    let child = |body: &Vec<u8>| {
        let id = ChunkId::of(body);
        ChunkRef { id, kind: ChunkKind::Leaf, stored: body.len() as u32, length: body.len() as u64 }
    };
    Tree { children: bodies.iter().map(child).collect() }.encode()
}

pub(super) fn put_tree(
    store: &Store,
    key: &str,
    number: u64,
    bodies: &[Vec<u8>],
) -> Result<(), StorageError> {
    let class = crate::Class::Payload;
    let mut pins = Vec::new();
    for body in bodies {
        pins.push(store.put_chunk(DOMAIN, class, ChunkKind::Leaf, body)?);
    }
    let pin = store.put_chunk(DOMAIN, class, ChunkKind::Tree, &tree_of(bodies))?;
    commit(store, vec![say_put(key, number, pin.id())])
}

/// What stands in the application's table.
pub(super) fn keys(view: &StoreView) -> BTreeMap<Vec<u8>, Held> {
    let mut found = BTreeMap::new();
    view.scan_prefix(Table::Current, &[], &mut |key, value| {
        found.insert(key.to_vec(), codec::decode(value).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// The rows of chunks.
pub(super) fn rows(view: &StoreView) -> BTreeMap<Key, Row> {
    let mut found = BTreeMap::new();
    view.scan_prefix(Table::Chunks, &[], &mut |key, value| {
        found.insert(read_chunk_key(key).unwrap(), decode(value).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Recounts what can be recounted: references, unwanted chunks, live bytes; reads every chunk that is here.
pub(super) fn audit(store: &Store) {
    let view = store.view();
    let rows = rows(&view);
    let mut counted: BTreeMap<Key, i64> = BTreeMap::new();
    for held in keys(&view).values() {
        *counted.entry((DOMAIN, held.chunk)).or_default() += 1;
    }
    let mut live: BTreeMap<(Area, u32), u64> = BTreeMap::new();
    for (&key, row) in &rows {
        let Some(place) = row.place else { continue };
        *live.entry((place.area, place.segment)).or_default() += row.taken();
        match store.check_chunk(key.0, key.1) {
            Ok(()) => {}
            Err(error) => assert_eq!(place.area, Area::Cache, "{key:?} at {place:?}: {error}"),
        }
        if row.tree {
            let children = store.read_children(key).unwrap();
            assert_eq!(listed(&view, key).unwrap(), Some(children.clone()), "what {key:?} lists");
            for &child in children.iter() {
                *counted.entry((key.0, child)).or_default() += 1;
            }
        }
    }
    for (key, row) in &rows {
        assert_eq!(row.references, counted.remove(key).unwrap_or(0), "references of {key:?} {row:?}");
        assert!(!row.is_void());
    }
    assert!(counted.is_empty(), "no row for {counted:?}");
    let mut unwanted = Vec::new();
    view.scan_prefix(Table::Storage, UNWANTED, &mut |key, _| {
        unwanted.push(read_chunk_key(&key[1..]).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    let expected: Vec<Key> = rows.iter().filter(|(_, row)| row.is_unwanted()).map(|(&key, _)| key).collect();
    assert_eq!(unwanted, expected);
    for area in [Area::Journal, Area::Payload, Area::Cache] {
        for (number, used) in store.space.each(area) {
            assert_eq!(
                used.live,
                live.get(&(area, number)).copied().unwrap_or(0),
                "{area:?} {number}: {used:?}"
            );
            // The file may be gone while its removal is yet to be noted.
            assert!(
                used.len == 0 || used.freed + used.live <= used.len.max(used.live),
                "{area:?} {number}: {used:?}"
            );
        }
    }
}

/// Bytes that differ by `seed`.
pub(super) fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = crate::disk::faulty::Chance(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&chance.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
