//! Random work against a model, with the store reopened at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::fed::Feeder;
use super::world::{self, Answer, DOMAIN, body, keys, submit};
use crate::disk::faulty::Chance;
use crate::store::{Entry, Store};
use crate::{Class, ReadError};

/// What a key should hold: number, and the chunk with whether it must be here.
pub(super) type State = BTreeMap<Vec<u8>, (u64, ChunkId)>;

/// A client that knows what it was promised.
pub(super) struct Client {
    pub(super) chance: Chance,
    /// States after each proposal in order; `history[acknowledged]` is the least that must be there.
    pub(super) history: Vec<State>,
    pub(super) acknowledged: usize,
    /// Whether it lets the store answer before a sync.
    lazy: bool,
    /// The same for what a sync has covered, which is all that outlives a power cut then; and the number of that put.
    secured: (usize, u64),
    /// Bytes of every chunk ever named; `local`: stored here by its writer.
    pub(super) contents: BTreeMap<ChunkId, Vec<u8>>,
    remote: Vec<ChunkId>,
    /// Of lazy writes, those whose record outlived a power cut and whose payload did not: the last such put.
    lost: BTreeMap<ChunkId, u64>,
    waiting: Vec<(usize, Answer)>,
    /// What was put as payload last, while nothing else was, and whether it is to come again first in the next life: it
    /// was let go of, and its place given back.
    last: Option<Vec<u8>>,
    comes_again: bool,
    opened: bool,
    number: u64,
    now: u64,
    /// Who brings batches beside it, if anybody.
    feeder: Option<Feeder>,
}

impl Client {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            chance: Chance(seed),
            history: vec![State::new()],
            acknowledged: 0,
            lazy: false,
            secured: (0, 0),
            contents: BTreeMap::new(),
            remote: Vec::new(),
            lost: BTreeMap::new(),
            waiting: Vec::new(),
            last: None,
            comes_again: false,
            opened: false,
            number: 0,
            now: 1_000_000,
            feeder: None,
        }
    }

    /// One beside whom batches are fed.
    pub(super) fn fed(seed: u64) -> Self {
        Self { feeder: Some(Feeder::new(seed)), ..Self::new(seed) }
    }

    /// One that lets the store answer before a sync.
    pub(super) fn lazy(seed: u64) -> Self {
        Self { lazy: true, ..Self::new(seed) }
    }

    /// What was acknowledged so far lasts.
    fn secure(&mut self) {
        self.secured = (self.acknowledged, self.number_at(self.acknowledged));
        self.feeder.iter_mut().for_each(Feeder::secure);
    }

    /// The number of the last put of a state.
    fn number_at(&self, index: usize) -> u64 {
        let numbers = self.history.iter().take(index + 1).flat_map(|state| state.values());
        numbers.map(|(number, _)| *number).max().unwrap_or(0)
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.chance.below(24))
    }

    fn content(&mut self, least: u64, most: u64) -> Vec<u8> {
        // Few different seeds: the same bytes come again, at any stage of their life.
        let seed = self.chance.below(12);
        let len = least + (seed * 7919) % (most - least);
        body(seed ^ (least << 32), len as usize)
    }

    fn put(&mut self, store: &Store, chunk: ChunkId, entry: impl FnOnce(&str, u64) -> Entry) {
        let key = self.key();
        self.number += 1;
        let mut state = self.history[self.history.len() - 1].clone();
        state.insert(key.clone().into_bytes(), (self.number, chunk));
        self.propose(store, state, entry(&key, self.number));
    }

    fn propose(&mut self, store: &Store, state: State, entry: Entry) {
        self.history.push(state);
        let entry = if self.lazy { entry.lazy() } else { entry };
        self.waiting.push((self.history.len() - 1, submit(store, vec![entry])));
    }

    /// One random act. Errors of the store are the end of this life.
    pub(super) fn act(&mut self, store: &Arc<Store>) {
        if std::mem::take(&mut self.opened) && self.comes_again {
            self.put_again(store);
        }
        if let Some(feeder) = &mut self.feeder {
            feeder.act(store, &mut self.contents);
        }
        match self.chance.below(100) {
            0..30 => {
                let bytes = self.content(1, 9000);
                let chunk = self.learn(&bytes);
                self.put(store, chunk, |key, number| world::small_put(key, number, &bytes));
            }
            30..45 => self.put_large(store),
            45..52 => self.put_tree(store),
            52..58 => self.put_remote(store),
            58..64 => self.fetch(store),
            64..80 => {
                let key = self.key();
                let mut state = self.history[self.history.len() - 1].clone();
                state.remove(key.as_bytes());
                self.propose(store, state, world::say_delete(&key));
            }
            80..90 => {
                self.now += self.chance.below(20 * 60 * 1000);
                self.pump(store);
                if store.collect(WallTime(self.now)).is_ok() {
                    self.secure();
                }
            }
            90..94 if store.checkpoint().is_ok() => self.secure(),
            90..94 => {}
            94 => {
                let settled = Arc::new(std::sync::atomic::AtomicBool::new(false));
                let told = settled.clone();
                store.settle(move |result| told.store(result.is_ok(), std::sync::atomic::Ordering::Relaxed));
                self.pump(store);
                if settled.load(std::sync::atomic::Ordering::Relaxed) {
                    self.secure();
                }
            }
            95..98 => self.scrub(store),
            98 => self.give_up_last(store),
            _ => {}
        }
        if self.chance.one_in(3) {
            self.pump(store);
        }
    }

    /// Steps of a round, wherever it is: there is no damage to be found, also of chunks that come and go.
    fn scrub(&mut self, store: &Store) {
        let now = WallTime(self.now);
        if store.begin_scrub(now).is_err() {
            return;
        }
        for _ in 0..1 + self.chance.below(8) {
            if let Ok(step) = store.scrub(self.chance.below(200_000), now) {
                assert_eq!((step.damaged, step.segments), (vec![], vec![]));
            }
        }
    }

    /// A chunk could not be read once (a loose cable, too many open files), and is put again as another site sends it.
    fn doubt(&mut self, store: &Store) {
        let known = self.chance.below(self.contents.len() as u64) as usize;
        let Some((&id, bytes)) = self.contents.iter().nth(known) else { return };
        store.live.lock().damaged.insert((DOMAIN, id));
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, bytes));
    }

    fn learn(&mut self, bytes: &[u8]) -> ChunkId {
        let id = ChunkId::of(bytes);
        self.contents.insert(id, bytes.to_vec());
        id
    }

    /// What was put as payload last is let go of, and its place given back as far as that may be.
    fn give_up_last(&mut self, store: &Store) {
        let Some(chunk) = self.last.as_ref().map(|bytes| ChunkId::of(bytes)) else { return };
        let mut state = self.history[self.history.len() - 1].clone();
        let holding = state.iter().filter(|(_, held)| held.1 == chunk).map(|(key, _)| key.clone());
        for key in holding.collect::<Vec<_>>() {
            state.remove(&key);
            self.propose(store, state.clone(), world::say_delete(std::str::from_utf8(&key).unwrap()));
        }
        self.pump(store);
        for _ in 0..3 {
            self.now += skerry_base::limits::CHUNK_REST_MS;
            if store.collect(WallTime(self.now)).is_ok() && store.checkpoint().is_ok() {
                self.secure();
            }
        }
        self.comes_again = true;
    }

    /// As a backup that is repeated.
    fn put_again(&mut self, store: &Store) {
        self.comes_again = false;
        if let Some(bytes) = self.last.take() {
            self.put_payload(store, bytes);
        }
    }

    fn put_large(&mut self, store: &Store) {
        let bytes = self.content(9000, 100_000);
        self.put_payload(store, bytes);
    }

    fn put_payload(&mut self, store: &Store, bytes: Vec<u8>) {
        let Ok(pin) = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes) else { return };
        let chunk = self.learn(&bytes);
        (self.last, self.comes_again) = (Some(bytes), false);
        self.remote.retain(|id| *id != chunk);
        self.put(store, chunk, |key, number| world::say_put(key, number, chunk));
        // The pin must outlive the commit, as the contract says.
        self.pump(store);
        drop(pin);
    }

    fn put_tree(&mut self, store: &Store) {
        let bodies: Vec<Vec<u8>> =
            (0..1 + self.chance.below(3)).map(|_| self.content(5000, 40_000)).collect();
        let mut pins = Vec::new();
        for bytes in &bodies {
            let Ok(pin) = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, bytes) else { return };
            pins.push(pin);
            self.learn(bytes);
        }
        let tree = world::tree_of(&bodies);
        let Ok(pin) = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree) else { return };
        self.last = None;
        let chunk = self.learn(&tree);
        self.put(store, chunk, |key, number| world::say_put(key, number, chunk));
        self.pump(store);
        drop((pin, pins));
    }

    /// A record whose payload is elsewhere.
    fn put_remote(&mut self, store: &Store) {
        let bytes = self.content(100_000, 110_000);
        let chunk = self.learn(&bytes);
        self.remote.push(chunk);
        self.put(store, chunk, |key, number| world::say_put(key, number, chunk));
    }

    /// The payload of one of those comes, to the cache or to stay.
    fn fetch(&mut self, store: &Store) {
        if self.chance.one_in(4) {
            return self.doubt(store);
        }
        let Some(&chunk) = self.remote.get(self.chance.below(self.remote.len() as u64) as usize) else {
            return;
        };
        let class = if self.chance.one_in(2) { Class::Cache } else { Class::Payload };
        drop(store.put_chunk(DOMAIN, class, ChunkKind::Leaf, &self.contents[&chunk]));
        // Some are read again, so that the hand spares them.
        for _ in 0..self.chance.below(4) {
            if let Ok(bytes) = store.read_chunk(DOMAIN, chunk, 0..u32::MAX) {
                assert_eq!(bytes, self.contents[&chunk]);
            }
        }
    }

    pub(super) fn pump(&mut self, store: &Store) {
        store.pump();
        self.hear();
    }

    fn hear(&mut self) {
        for (index, answer) in std::mem::take(&mut self.waiting) {
            if let Some(Ok(())) = answer.lock().unwrap().take() {
                self.acknowledged = self.acknowledged.max(index);
            }
        }
        self.feeder.iter_mut().for_each(Feeder::hear);
    }

    /// The store was opened anew: it must stand at some state not before what was acknowledged.
    pub(super) fn check(&mut self, store: &Arc<Store>) {
        self.hear();
        let found: State =
            keys(&store.view()).into_iter().map(|(key, held)| (key, (held.number, held.chunk))).collect();
        let (fed, own): (State, State) = found.into_iter().partition(|(key, _)| Feeder::owns(key));
        self.feeder.iter_mut().for_each(|feeder| feeder.check(&fed, self.lazy));
        let least = if self.lazy { self.secured.0 } else { self.acknowledged };
        let at = (least..self.history.len()).find(|&at| self.history[at] == own);
        let Some(at) = at else {
            panic!("acknowledged {} of {}: {own:?}", self.acknowledged, self.history.len());
        };
        self.history.truncate(at + 1);
        (self.acknowledged, self.opened) = (at, true);
        for (_, (number, chunk)) in own.into_iter().chain(fed) {
            match store.read_chunk(DOMAIN, chunk, 0..u32::MAX) {
                Ok(bytes) => assert_eq!(bytes, self.contents[&chunk]),
                Err(ReadError::Absent) if self.remote.contains(&chunk) => {}
                Err(ReadError::Absent) if self.lost.get(&chunk).is_some_and(|lost| *lost >= number) => {}
                // The record came to the disk and its payload did not: said, never served.
                Err(ReadError::Absent) if self.lazy && number > self.secured.1 => {
                    self.lost.insert(chunk, number);
                }
                Err(error) => panic!("chunk {chunk} of put {number}: {error}"),
            }
        }
        world::audit(store);
        // What was found was read, so it lasts from now on.
        self.secured = (at, self.number_at(at));
    }
}

mod runs {
    use super::*;
    use crate::disk::faulty::FaultyDisk;
    use crate::disk::real::RealDisk;
    use crate::{Engine, Settings};

    fn run_on_memory(mut client: Client, settings: &Settings) {
        let disk = FaultyDisk::default();
        for _ in 0..12 {
            let (store, recovery) = world::open(&disk, settings);
            assert_eq!((recovery.torn, recovery.damage), (None, vec![]));
            client.check(&store);
            for _ in 0..60 {
                client.act(&store);
            }
            client.pump(&store);
            assert_eq!(client.acknowledged, client.history.len() - 1);
            while store.pump() > 0 {}
            client.hear();
            assert!(client.feeder.as_ref().is_none_or(Feeder::is_done));
        }
    }

    #[test]
    fn memory_index() {
        (0..12).for_each(|seed| run_on_memory(Client::new(seed), &world::small()));
    }

    #[test]
    fn index_that_lags() {
        (100..112).for_each(|seed| run_on_memory(Client::new(seed), &world::kept()));
    }

    #[test]
    fn batches_behind_it() {
        (200..212).for_each(|seed| run_on_memory(Client::fed(seed), &world::kept()));
    }

    fn run_on_files(seed: u64, engine: Engine) {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { engine, ..world::small() };
        let mut client = Client::new(seed);
        for life in 0..8 {
            let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
            let (store, recovery) = world::open_on(disk, &settings);
            if life > 0 {
                assert_eq!(recovery.index, crate::IndexState::Opened, "seed {seed} life {life}");
            }
            client.check(&store);
            for _ in 0..60 {
                client.act(&store);
            }
            client.pump(&store);
            assert_eq!(client.acknowledged, client.history.len() - 1);
        }
    }

    #[test]
    fn lsm_on_files() {
        (0..4).for_each(|seed| run_on_files(seed, Engine::Lsm));
    }

    #[cfg(feature = "redb")]
    #[test]
    fn redb_on_files() {
        (0..4).for_each(|seed| run_on_files(seed, Engine::Redb));
    }
}
