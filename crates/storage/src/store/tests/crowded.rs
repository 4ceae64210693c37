//! Several threads on a disk that is nearly full, beside a collector that never rests: what was answered is there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, kept, open, say_delete, say_put, tree_of};
use crate::disk::faulty::{Chance, FaultyDisk};
use crate::store::{Entry, Store};
use crate::{Class, CommitError, Settings, StorageError};

const WRITERS: usize = 4;
/// Of each writer.
const ACTS: usize = 250;
const KEYS: u64 = 14;
/// Bodies that all draw from.
const SHARED: u64 = 40;
const LEAF: usize = 15_000;

/// Whether it was answered; a full disk is no fault.
fn is_done<T>(result: Result<T, StorageError>) -> bool {
    match result {
        Ok(_) => true,
        Err(StorageError::Full) => false,
        Err(error) => panic!("{error}"),
    }
}

fn commit(store: &Store, entry: Entry) -> bool {
    let (tell, told) = mpsc::sync_channel(1);
    store.submit(move |_| Ok::<_, ()>(((), vec![entry])), move |result| tell.send(result).unwrap());
    is_done(told.recv().unwrap().map_err(|error| match error {
        CommitError::Storage(error) => error,
        CommitError::Refused(()) => unreachable!(),
    }))
}

/// One thread's objects: the leaves of each, by key.
struct Writer<'a> {
    store: &'a Store,
    chance: Chance,
    held: BTreeMap<String, Vec<u64>>,
    /// A leaf that nobody had before.
    fresh: u64,
    name: u64,
}

impl Writer<'_> {
    fn act(&mut self) {
        let key = format!("{}-{}", self.name, self.chance.below(KEYS));
        if self.chance.one_in(4) {
            if commit(self.store, say_delete(&key)) {
                self.held.remove(&key);
            }
        } else if self.chance.one_in(5) {
            let bytes = body(self.chance.below(SHARED), LEAF);
            is_done(self.store.put_chunk(DOMAIN, Class::Cache, ChunkKind::Leaf, &bytes));
        } else {
            self.upload(key);
        }
        let any = self.chance.below(KEYS) as usize;
        self.held.values().nth(any).into_iter().for_each(|leaves| self.reads(leaves));
    }

    fn upload(&mut self, key: String) {
        let (mut pins, mut leaves) = (Vec::new(), Vec::new());
        for _ in 0..=self.chance.below(8) {
            self.fresh += 1;
            let leaf = if self.chance.one_in(3) { self.fresh } else { self.chance.below(SHARED) };
            match self.store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body(leaf, LEAF)) {
                Ok(pin) => pins.push(pin),
                full => return assert!(!is_done(full)),
            }
            leaves.push(leaf);
        }
        let bodies: Vec<Vec<u8>> = leaves.iter().map(|leaf| body(*leaf, LEAF)).collect();
        match self.store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree_of(&bodies)) {
            Ok(top) if commit(self.store, say_put(&key, self.fresh, top.id())) => {
                self.held.insert(key, leaves);
            }
            Ok(_) => {}
            full => assert!(!is_done(full)),
        }
    }

    fn reads(&self, leaves: &[u64]) {
        for leaf in leaves {
            let bytes = body(*leaf, LEAF);
            let read = self.store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
            assert!(read.as_ref().is_ok_and(|read| *read == bytes), "{:?}", read.err());
        }
    }
}

/// A writer that is not through, nor has panicked.
struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does all of it; what each writer holds in the end.
fn crowd(store: &Store, seed: u64) -> Vec<Vec<u64>> {
    let busy = AtomicUsize::new(WRITERS);
    let (held, now) = std::thread::scope(|scope| {
        let write = |name: u64| {
            let (chance, fresh) = (Chance(seed * 100 + name), (name + 1) << 40);
            let mut writer = Writer { store, chance, held: BTreeMap::new(), fresh, name };
            let _busy = Busy(&busy);
            (0..ACTS).for_each(|_| writer.act());
            writer.held.into_values().flatten().collect::<Vec<u64>>()
        };
        let writers: Vec<_> = (0..WRITERS as u64).map(|name| scope.spawn(move || write(name))).collect();
        let mut now = 0;
        while busy.load(Ordering::Relaxed) > 0 {
            now += CHUNK_REST_MS / 3;
            store.collect(WallTime(now)).unwrap();
        }
        (writers.into_iter().map(|writer| writer.join().unwrap()).collect(), now)
    });
    store.checkpoint().unwrap();
    store.collect(WallTime(now + CHUNK_REST_MS)).unwrap();
    held
}

#[test]
fn what_was_answered_on_a_crowded_disk_is_there() {
    for (seed, disk) in [(1, FaultyDisk::default()), (2, FaultyDisk::without_holes())] {
        let settings = Settings {
            payload_segment_bytes: 64 << 10,
            cache_segment_bytes: 64 << 10,
            cache_bytes: 400 << 10,
            capacity_bytes: Some(5 << 20),
            journal_heads_bytes: 32 << 10,
            ..kept()
        };
        let (store, _) = open(&disk, &settings);
        let committer = store.start_committer().unwrap();
        let held = crowd(&store, seed);
        drop(committer);
        let all = |store: &Store| {
            let reader = Writer { store, chance: Chance(0), held: BTreeMap::new(), fresh: 0, name: 0 };
            held.iter().for_each(|leaves| reader.reads(leaves));
            audit(store);
        };
        all(&store);
        drop(store);
        settings.kept.as_ref().unwrap().lose();
        all(&open(&disk, &settings).0);
    }
}
