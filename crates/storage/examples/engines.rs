//! Measures an index engine under the store: `cargo run --release -p skerry-storage --features redb --example engines -- lsm|redb 300000 DIR [MEMTABLE_MIB]`.
//!
//! One object is three rows (version, listing, dot) and a journal entry; groups of 32; syncs of the journal are left
//! out (they are the same for all engines), the engine's own are not. What the engine wrote is what the process wrote
//! without what went through the journal's files.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement: reads the clock and the machine's figures, and stops at the first failure"
)]

use std::io;
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_storage::disk::Lock;
use skerry_storage::{Disk, Engine, Entry, File, RealDisk, Settings, Store};

/// The real disk without syncs of its own files, which counts what goes through it.
struct Counting {
    real: RealDisk,
    written: Arc<AtomicU64>,
}

struct CountingFile {
    real: Arc<dyn File>,
    written: Arc<AtomicU64>,
}

impl Disk for Counting {
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>> {
        let real = self.real.create(name, len)?;
        Ok(Arc::new(CountingFile { real, written: self.written.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let real = self.real.open(name)?;
        Ok(Arc::new(CountingFile { real, written: self.written.clone() }))
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

    fn lock(&self) -> io::Result<Lock> {
        self.real.lock()
    }

    fn native(&self, folder: &str) -> Option<PathBuf> {
        self.real.native(folder)
    }
}

impl File for CountingFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.real.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.written.fetch_add(parts.iter().map(|part| part.len() as u64).sum(), Ordering::Relaxed);
        self.real.write_at(offset, parts)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.real.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.real.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }
}

/// The number of an object is the entry; its keys are spread like hashed names.
struct Objects;

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

fn name(number: u64) -> Vec<u8> {
    format!("0123456789abcdefphotos/2026/{:016x}.jpg", mixed(number)).into_bytes()
}

fn filler(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|index| (mixed(number ^ (index << 40)) >> 7) as u8).collect()
}

impl Reducer for Objects {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let number = u64::from_le_bytes(entry[..8].try_into().unwrap());
        let name = name(number);
        if view.get(Table::Current, &name)?.is_some() {
            return Ok(());
        }
        let dot = [b"0123456789abcdef".as_slice(), &[9; 24], &number.to_be_bytes()].concat();
        batch.put(Table::Versions, [name.as_slice(), &number.to_be_bytes()].concat(), filler(number, 300));
        batch.put(Table::Current, name.clone(), filler(number, 90));
        batch.put(Table::Dots, dot, name);
        Ok(())
    }
}

fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn quantile(sorted: &[Duration], q: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let engine = match arguments.next().as_deref() {
        Some("lsm") => Engine::Lsm,
        #[cfg(feature = "redb")]
        Some("redb") => Engine::Redb,
        other => panic!("which engine? {other:?}"),
    };
    let count: u64 = arguments.next().unwrap().parse().unwrap();
    let folder = PathBuf::from(arguments.next().unwrap());
    let memtable: u64 = arguments.next().map_or(8, |text| text.parse().unwrap());
    let settings =
        Settings { engine, queue_proposals: 1 << 20, memtable_bytes: memtable << 20, ..Settings::default() };
    let written = Arc::new(AtomicU64::new(0));
    let open = || {
        let start = Instant::now();
        let disk = Counting { real: RealDisk::new(&folder).unwrap(), written: written.clone() };
        let (store, recovery) = Store::open(Arc::new(disk), Arc::new(Objects), settings.clone()).unwrap();
        (store, recovery, start.elapsed())
    };
    let (store, _, _) = open();
    println!("idle RSS {} KiB", field("/proc/self/status", "VmRSS:"));
    let committer = store.start_committer().unwrap();
    let times = insert(&store, count);
    println!("VmHWM {} KiB", field("/proc/self/status", "VmHWM:"));
    let engine_bytes = field("/proc/self/io", "wchar:") - written.load(Ordering::Relaxed);
    println!("engine wrote {} B/object", engine_bytes / count);
    report("group of 32", times);
    drop(committer);
    println!("index on disk {} MiB", store.usage().index >> 20);
    read(&store, count);
    drop(store);
    let (store, recovery, time) = open();
    println!("open after kill: {time:?}, {} frames replayed, index {:?}", recovery.replayed, recovery.index);
    store.checkpoint().unwrap();
    drop(store);
    let (store, recovery, time) = open();
    println!("open after checkpoint: {time:?}, {} frames replayed", recovery.replayed);
    drop(store);
    std::fs::remove_dir_all(folder.join("index")).unwrap();
    let (store, recovery, time) = open();
    println!("rebuild: {time:?}, {} frames replayed, index {:?}", recovery.replayed, recovery.index);
    let view = store.view();
    assert!(view.get(Table::Current, &name(count - 1)).unwrap().is_some());
}

fn insert(store: &Arc<Store>, count: u64) -> Vec<Duration> {
    let mut times = Vec::new();
    let begun = Instant::now();
    for first in (0..count).step_by(32) {
        let start = Instant::now();
        let (tell, told) = std::sync::mpsc::sync_channel(64);
        for number in first..(first + 32).min(count) {
            let tell = tell.clone();
            // An entry as long as a record is.
            let entry = [number.to_le_bytes().as_slice(), &filler(number, 300)].concat();
            store.submit(
                move |_| Ok::<_, ()>(((), vec![Entry::new(entry)])),
                move |result| tell.send(result.is_ok()).unwrap(),
            );
        }
        drop(tell);
        assert!(told.iter().all(|done| done));
        times.push(start.elapsed());
    }
    println!("{:.0} objects/s", count as f64 / begun.elapsed().as_secs_f64());
    times
}

fn read(store: &Arc<Store>, count: u64) {
    let (mut hits, mut misses, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..20_000 {
        let view = store.view();
        let number = mixed(step) % count;
        let start = Instant::now();
        assert!(view.get(Table::Current, &name(number)).unwrap().is_some());
        hits.push(start.elapsed());
        let start = Instant::now();
        assert!(view.get(Table::Current, &name(number + count)).unwrap().is_none());
        misses.push(start.elapsed());
        if step % 100 == 0 {
            let start = Instant::now();
            let mut left = 1000;
            let from = name(number);
            view.scan(Table::Current, Bound::Included(&from), Bound::Unbounded, &mut |_, _| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
            lists.push(start.elapsed());
        }
    }
    report("get, there", hits);
    report("get, not there", misses);
    report("list of 1000", lists);
    println!("RSS {} KiB", field("/proc/self/status", "VmRSS:"));
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|q| quantile(&times, q));
    println!("{what}: p50 {p50:?} p99 {p99:?} max {max:?}");
}
