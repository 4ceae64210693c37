//! Measures what is written to the device for a byte stored, in a steady state of overwrites:
//! `cargo run --release -p skerry-storage --example wear -- DIR [BYTES] [WRITERS] [HELD_MIB] [ROUNDS] [no-holes]`.
//!
//! `HELD_MIB` (default 64) of bodies are written, then overwritten at random keys `ROUNDS` times over (default 6) on a store
//! that may grow to twice of it, with the collector at work. Counted is `write_bytes` of `/proc/self/io`: what this process has the
//! kernel write, index included, without the file system's own. `no-holes`: as where files cannot be punched.
#![expect(clippy::unwrap_used, reason = "a measurement: stops at the first failure")]

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_base::limits::{CHUNK_REST_MS, JOURNAL_BODY_BYTES};
use skerry_base::{BucketId, ChunkId, ChunkKind, Instant, WallTime};
use skerry_storage::disk::{File, Lock};
use skerry_storage::{Class, Disk, Entry, Pin, RealDisk, Settings, SmallBody, StorageError, Store};

const DOMAIN: BucketId = BucketId([1; 16]);

/// Entry: key, number and chunk. Three rows, as a record has; those of the version before go.
struct Objects;

impl Reducer for Objects {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let (key, rest) = entry.split_at(8);
        let (number, chunk) = (&rest[..8], ChunkId(rest[8..40].try_into().unwrap()));
        let key = [b"0123456789abcdefphotos/2026/".as_slice(), key].concat();
        if let Some(old) = view.get(Table::Current, &key)? {
            batch.reference(DOMAIN, ChunkId(old[8..40].try_into().unwrap()), -1);
            batch.delete(Table::Versions, [&key, &old[..8]].concat());
            batch.delete(Table::Dots, [DOMAIN.0.as_slice(), &[9; 24], &old[..8]].concat());
        }
        batch.reference(DOMAIN, chunk, 1);
        batch.put(Table::Versions, [&key, number].concat(), rest.to_vec());
        batch.put(Table::Current, key.clone(), rest[..90].to_vec());
        batch.put(Table::Dots, [DOMAIN.0.as_slice(), &[9; 24], number].concat(), key);
        Ok(())
    }
}

/// The real disk, or one on a file system without holes.
struct Plain(RealDisk, bool);

struct PlainFile(Arc<dyn File>);

impl File for PlainFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.write_at(offset, parts)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.0.next_data(offset)
    }
}

impl Plain {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        if self.1 { file } else { Arc::new(PlainFile(file)) }
    }
}

impl Disk for Plain {
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.create(name, len)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.0.open(name)?))
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.0.sync_dir(folder)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
    fn punches(&self) -> bool {
        self.1
    }
    fn lock(&self) -> io::Result<Lock> {
        self.0.lock()
    }
    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        self.0.remove_folder(folder)
    }
    fn monotonic(&self) -> Instant {
        self.0.monotonic()
    }
    fn native(&self, folder: &str) -> Option<PathBuf> {
        self.0.native(folder)
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
    data.resize(308, 7);
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
    let plan = Plan { len, writers, held, rounds, holes: arguments.next().is_none() };
    let settings = Settings {
        capacity_bytes: Some(2 * held + (96 << 20)),
        journal_segment_bytes: 8 << 20,
        payload_segment_bytes: 16 << 20,
        headroom_bytes: 8 << 20,
        ..Settings::default()
    };
    let disk = Arc::new(Plain(RealDisk::new(folder).unwrap(), plan.holes));
    let (store, _) = Store::open(disk, Arc::new(Objects), settings).unwrap();
    let committer = store.start_committer().unwrap();
    let (tell, told) = sync_channel(writers);
    let mut run = Run { store: store.clone(), tell, told, waiting: BTreeMap::new(), now: 0, refused: 0 };
    let (keys, mut chance, mut before) = (held / len as u64, Chance(9), 0);
    for number in 0..keys * (rounds + 2) {
        // The first rounds fill it and bring it to its steady state.
        if number == keys * 2 {
            before = written();
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
    report(&plan, &store, written() - before, run.refused);
}

fn report(plan: &Plan, store: &Store, written: u64, refused: u64) {
    let usage = store.usage();
    let stored = plan.held * plan.rounds;
    println!(
        "{} B, {} writers, holes {}: {:.3} bytes written for a byte stored ({} MiB stored, {} MiB moved in all, \
         {} MiB on disk for {} MiB that live, {refused} waits for room)",
        plan.len,
        plan.writers,
        plan.holes,
        written as f64 / stored as f64,
        stored >> 20,
        usage.moved >> 20,
        (usage.journal.allocated + usage.payload.allocated) >> 20,
        (usage.journal.live + usage.payload.live) >> 20,
    );
}
