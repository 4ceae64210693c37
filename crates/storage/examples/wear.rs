//! Measures what is written to the device for a byte stored, in a steady state of overwrites:
//! `cargo run --release -p skerry-storage --example wear -- DIR [BYTES] [WRITERS] [HELD_MIB] [ROUNDS] [no-holes] [packed] [wide]`.
//!
//! `HELD_MIB` (default 64) of bodies are written, then overwritten at random keys `ROUNDS` times over (default 6) on a store
//! that may grow to twice of it, with the collector at work. Counted is `write_bytes` of `/proc/self/io`: what this process has the
//! kernel write, index included, without the file system's own; and by cause, which blocks were written to which files between
//! two syncs (what is left is the index). `no-holes`: as where files cannot be punched.
//! `packed`: blocks of the index are packed, as on a card. The rows are made up, as long as those of `skerry-model` are for a body
//! that is overwritten (its test `what_the_rows_of_an_overwritten_object_take` prints them); `wide`: as long as before 29 November.
#![expect(clippy::unwrap_used, reason = "a measurement: stops at the first failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_base::limits::{CHUNK_REST_MS, JOURNAL_BODY_BYTES};
use skerry_base::{BucketId, ChunkId, ChunkKind, Instant, WallTime};
use skerry_storage::disk::{File, Lock};
use skerry_storage::{Class, Disk, Entry, Pin, RealDisk, Settings, SmallBody, StorageError, Store};

const DOMAIN: BucketId = BucketId([1; 16]);

/// Of 32 bytes of an entry so many say nothing.
const PACKS: usize = 11;

/// Bytes of the values of `Versions` and `Current`, and before 29 November.
const VALUES: (usize, usize) = (95, 56);
const VALUES_WIDE: (usize, usize) = (248, 80);

/// Entry: key, number and chunk. Three rows, as a record has; those of the version before go.
struct Objects {
    values: (usize, usize),
}

/// What a row says that no other says, and of what is left bytes that are the same in all.
fn filled(said: &[&[u8]], len: usize) -> Vec<u8> {
    let mut value = said.concat();
    value.resize(len, 7);
    value
}

/// Key of a row of `Versions`: newest first, a clock and a dot behind the key.
fn version(key: &[u8], number: &[u8]) -> Vec<u8> {
    let newest: Vec<u8> = number.iter().map(|byte| !byte).collect();
    [key, &[0], &newest, &[9; 24], &newest].concat()
}

impl Reducer for Objects {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let (key, rest) = entry.split_at(8);
        let (number, chunk) = (&rest[..8], ChunkId(rest[8..40].try_into().unwrap()));
        let key = [b"0123456789abcdefphotos/2026/".as_slice(), key, b".jpg\0\0"].concat();
        let dot = |number: &[u8]| [DOMAIN.0.as_slice(), &[0], &[9; 24], number].concat();
        if let Some(old) = view.get(Table::Current, &key)? {
            let old = &old[..8];
            let row = view.get(Table::Versions, &version(&key, old))?.unwrap();
            batch.reference(DOMAIN, ChunkId(row[..32].try_into().unwrap()), -1);
            batch.delete(Table::Versions, version(&key, old));
            batch.delete(Table::Dots, dot(old));
        }
        batch.reference(DOMAIN, chunk, 1);
        let (md5, (of_version, of_current)) = (&rest[40..56], self.values);
        batch.put(Table::Versions, version(&key, number), filled(&[&chunk.0, md5], of_version));
        batch.put(Table::Current, key.clone(), filled(&[number, md5], of_current));
        batch.put(Table::Dots, dot(number), filled(&[number, &key[16..40]], 36));
        Ok(())
    }
}

/// Bytes of blocks that were written, by what the file is for.
type Causes = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// The real disk, or one on a file system without holes; counts what is written to which kind of file.
struct Counted {
    real: RealDisk,
    holes: bool,
    causes: Causes,
}

struct CountedFile {
    real: Arc<dyn File>,
    holes: bool,
    cause: &'static str,
    causes: Causes,
    /// Blocks written since the last sync: written again they cost nothing more.
    dirty: Mutex<BTreeSet<u64>>,
}

const BLOCK: u64 = 4096;

impl File for CountedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.real.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let end = offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut dirty = self.dirty.lock().unwrap();
        let new = (offset / BLOCK..end.div_ceil(BLOCK)).filter(|&block| dirty.insert(block)).count();
        *self.causes.lock().unwrap().entry(self.cause).or_default() += new as u64 * BLOCK;
        self.real.write_at(offset, parts)
    }
    fn sync(&self) -> io::Result<()> {
        self.dirty.lock().unwrap().clear();
        self.real.sync()
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.holes { self.real.punch(offset, len) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.real.truncate(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.real.next_data(offset)
    }
}

/// What a file is for, by its name as it is made.
fn cause(name: &str) -> &'static str {
    match name.split_once('/') {
        Some(("journal", file)) if file.ends_with(".stripped") => "stripped",
        Some(("journal", _)) => "journal",
        Some(("payload", _)) => "payload",
        None if name.starts_with("base") => "base",
        _ => "other",
    }
}

impl Counted {
    fn file(&self, name: &str, real: Arc<dyn File>) -> Arc<dyn File> {
        let (holes, cause, causes) = (self.holes, cause(name), self.causes.clone());
        Arc::new(CountedFile { real, holes, cause, causes, dirty: Mutex::default() })
    }
}

impl Disk for Counted {
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.real.create(name, len)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.real.open(name)?))
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.real.list(folder)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.real.sync_dir(folder)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.real.free_bytes()
    }
    fn punches(&self) -> bool {
        self.holes
    }
    fn lock(&self) -> io::Result<Lock> {
        self.real.lock()
    }
    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        self.real.remove_folder(folder)
    }
    fn monotonic(&self) -> Instant {
        self.real.monotonic()
    }
    fn native(&self, folder: &str) -> Option<PathBuf> {
        self.real.native(folder)
    }
}

fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}

/// A repeatable source of chance.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// The entry of a write, with its body beside it or on disk.
fn write(store: &Store, key: u64, number: u64, len: usize) -> Result<(Entry, Option<Pin>), StorageError> {
    let mut body = vec![number as u8; len];
    body[..8].copy_from_slice(&number.to_le_bytes());
    let (id, small, pin) = if len <= JOURNAL_BODY_BYTES {
        let small = SmallBody::new(DOMAIN, Bytes::from(body));
        (small.id(), Some(small), None)
    } else {
        let pin = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &body)?;
        (pin.id(), None, Some(pin))
    };
    let mut data = [key.to_be_bytes(), number.to_be_bytes()].concat();
    data.extend_from_slice(&id.0);
    let mut chance = Chance(number);
    data.extend((data.len()..308).map(|at| if at % 32 < PACKS { 7 } else { chance.next() as u8 }));
    let entry = small.into_iter().fold(Entry::new(data), Entry::with_body);
    Ok((entry, pin))
}

/// What is measured.
struct Plan {
    len: usize,
    writers: usize,
    held: u64,
    rounds: u64,
    holes: bool,
}

/// Writers of one kind at work.
struct Run {
    store: Arc<Store>,
    tell: SyncSender<(u64, bool)>,
    told: Receiver<(u64, bool)>,
    /// Writes that were not answered yet, and what keeps their payload.
    waiting: BTreeMap<u64, Option<Pin>>,
    now: u64,
    refused: u64,
}

impl Run {
    fn collect(&mut self, after_ms: u64) {
        self.now += after_ms;
        self.store.collect(WallTime(self.now)).unwrap();
    }

    fn hear(&mut self) {
        let (number, done) = self.told.recv().unwrap();
        self.waiting.remove(&number);
        self.refused += u64::from(!done);
    }

    /// Writes one; waits for room, and for an answer when all writers wait.
    fn write(&mut self, plan: &Plan, key: u64, number: u64) {
        loop {
            let Ok((entry, pin)) = write(&self.store, key, number, plan.len) else {
                self.refused += 1;
                self.collect(CHUNK_REST_MS);
                continue;
            };
            let tell = self.tell.clone();
            let done = move |result: Result<(), _>| tell.send((number, result.is_ok())).unwrap();
            self.store.submit(move |_| Ok::<_, ()>(((), vec![entry])), done);
            self.waiting.insert(number, pin);
            break;
        }
        if self.waiting.len() == plan.writers {
            self.hear();
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let mut number = |other: u64| arguments.next().map_or(other, |text| text.parse().unwrap());
    let (len, writers) = (number(65_536) as usize, number(16) as usize);
    let (held, rounds) = (number(64) << 20, number(6));
    let words: Vec<String> = arguments.collect();
    let said = |word| words.iter().any(|said| said == word);
    let plan = Plan { len, writers, held, rounds, holes: !said("no-holes") };
    let settings = Settings {
        capacity_bytes: Some(2 * held + (96 << 20)),
        journal_segment_bytes: 8 << 20,
        payload_segment_bytes: 16 << 20,
        headroom_bytes: 8 << 20,
        packs_index: said("packed"),
        ..Settings::default()
    };
    let values = if said("wide") { VALUES_WIDE } else { VALUES };
    let causes = Causes::default();
    let disk =
        Arc::new(Counted { real: RealDisk::new(folder).unwrap(), holes: plan.holes, causes: causes.clone() });
    let (store, _) = Store::open(disk, Arc::new(Objects { values }), settings).unwrap();
    let committer = store.start_committer().unwrap();
    let (tell, told) = sync_channel(writers);
    let mut run = Run { store: store.clone(), tell, told, waiting: BTreeMap::new(), now: 0, refused: 0 };
    let (keys, mut chance, mut before) = (held / len as u64, Chance(9), Written::default());
    for number in 0..keys * (rounds + 2) {
        // The first rounds fill it and bring it to its steady state.
        if number == keys * 2 {
            before = Written::now(&store, &causes);
        }
        let key = if number < keys { number } else { chance.next() % keys };
        run.write(&plan, key, number);
        // A step for each MiB that comes in.
        if number % ((1 << 20) / len as u64).max(1) == 0 {
            run.collect(CHUNK_REST_MS / 64);
        }
    }
    while !run.waiting.is_empty() {
        run.hear();
    }
    drop(committer);
    report(&plan, &store, &before, &Written::now(&store, &causes), run.refused);
}

/// What was written so far.
#[derive(Default)]
struct Written {
    all: u64,
    causes: BTreeMap<&'static str, u64>,
    moved_bodies: u64,
    moved: u64,
    syncs: u64,
}

impl Written {
    fn now(store: &Store, causes: &Causes) -> Self {
        let usage = store.usage();
        let (moved_bodies, moved, syncs) = (usage.moved_bodies, usage.moved, usage.journal_syncs.count);
        Self { all: written(), causes: causes.lock().unwrap().clone(), moved_bodies, moved, syncs }
    }
}

fn report(plan: &Plan, store: &Store, before: &Written, after: &Written, refused: u64) {
    let usage = store.usage();
    let stored = (plan.held * plan.rounds) as f64;
    let part = |bytes: u64| bytes as f64 / stored;
    println!(
        "{} B, {} writers, holes {}: {:.3} bytes written for a byte stored ({} MiB stored, {} MiB on disk for {} MiB \
         that live, index {} MiB, {refused} waits for room, {} syncs of the journal)",
        plan.len,
        plan.writers,
        plan.holes,
        part(after.all - before.all),
        (plan.held * plan.rounds) >> 20,
        (usage.journal.allocated + usage.payload.allocated) >> 20,
        (usage.journal.live + usage.payload.live) >> 20,
        usage.index >> 20,
        after.syncs - before.syncs,
    );
    let mut rest = after.all - before.all;
    for (cause, bytes) in &after.causes {
        let bytes = bytes - before.causes.get(cause).copied().unwrap_or(0);
        rest = rest.saturating_sub(bytes);
        println!("  {cause} {:.3}", part(bytes));
    }
    let (bodies, payload) = (after.moved_bodies - before.moved_bodies, after.moved - before.moved);
    println!(
        "  index {:.3}; bodies moved {:.3}, payload moved {:.3}",
        part(rest),
        part(bodies),
        part(payload)
    );
}
