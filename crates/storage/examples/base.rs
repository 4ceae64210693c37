//! What a base takes of memory while writes go on: `cargo run --release -p skerry-storage --example base -- DIR [COUNT] [RATE]`.
//!
//! Fills a store with COUNT records where DIR holds none, writes a base of them while RATE records a second are written, and
//! prints the memory of the process before, at the most meanwhile, and after.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measurement: reads the clock and the machine's figures, and stops at the first failure"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_storage::{Entry, RealDisk, Settings, Store};

/// Records in one entry of the filling.
const AT_ONCE: u64 = 500;

/// Entry: first number and how many. Three rows each, as a record has.
struct Objects;

impl Reducer for Objects {
    fn reduce(&self, entry: &[u8], _view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let number = |at: usize| u64::from_be_bytes(entry[at..at + 8].try_into().unwrap());
        for number in number(0)..number(0) + number(8) {
            let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let key = [b"0123456789abcdefphotos/2026/".as_slice(), &mixed].concat();
            let value: Vec<u8> = mixed.iter().copied().cycle().take(90).collect();
            batch.put(Table::Versions, [&key, &mixed[..]].concat(), [&value[..], &value, &value].concat());
            batch.put(Table::Current, key.clone(), value);
            batch.put(Table::Dots, [&[9; 40], &number.to_be_bytes()[..]].concat(), key);
        }
        Ok(())
    }
}

fn write(store: &Store, first: u64, count: u64) {
    let (tell, told) = sync_channel(1);
    let entry = Entry::new([first.to_be_bytes(), count.to_be_bytes()].concat());
    store.submit(move |_| Ok::<_, ()>(((), vec![entry])), move |result| tell.send(result.is_ok()).unwrap());
    assert!(told.recv().unwrap());
}

/// MiB of memory that the process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let count: u64 = arguments.next().map_or(1_000_000, |text| text.parse().unwrap());
    let rate: u64 = arguments.next().map_or(500, |text| text.parse().unwrap());
    let disk = Arc::new(RealDisk::new(folder).unwrap());
    let (store, recovery) = Store::open(disk, Arc::new(Objects), Settings::default()).unwrap();
    let committer = store.start_committer().unwrap();
    if recovery.lsn < count / AT_ONCE {
        (0..count).step_by(AT_ONCE as usize).for_each(|first| write(&store, first, AT_ONCE));
    }
    store.checkpoint().unwrap();
    let (ended, written, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    println!("{count} records, an index of {} MiB; memory {} MiB", store.usage().index >> 20, resident());
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let due = start.elapsed().as_millis() as u64 * rate / 1000;
                let before = written.load(Ordering::Relaxed);
                match (due - before).min(AT_ONCE) {
                    0 => std::thread::sleep(Duration::from_millis(1)),
                    some => {
                        write(&store, u64::MAX / 2 + before, some);
                        written.fetch_add(some, Ordering::Relaxed);
                    }
                }
                most.fetch_max(resident(), Ordering::Relaxed);
            }
        });
        store.renew_base().unwrap();
        ended.store(true, Ordering::Relaxed);
    });
    let seconds = start.elapsed().as_secs_f64();
    println!("the base took {seconds:.1} s, in which {} records were written", written.into_inner());
    println!("memory: {} MiB at the most, {} MiB after", most.into_inner(), resident());
    drop(committer);
}
