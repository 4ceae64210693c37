//! Measures a lone writer's PUT against one fdatasync: `cargo run --release -p skerry-storage --example puts -- DIR [COUNT] [BYTES]`.
//!
//! The bar: p50 of a 4 KiB PUT ≤ 1.3 × one fdatasync of a 4 KiB overwrite + 0.3 ms, CPU ≤ 0.35 ms.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measurement: reads the clock and the machine's figures, and stops at the first failure"
)]

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use skerry_base::kv::{Batch, ReduceError, Reducer, Table, View};
use skerry_base::{BucketId, ChunkId, ChunkKind};
use skerry_storage::{Class, Entry, RealDisk, Settings, SmallBody, Store};

const DOMAIN: BucketId = BucketId([1; 16]);

/// Entry: number and chunk. Three rows, as a record has.
struct Objects;

impl Reducer for Objects {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let (number, rest) = entry.split_at(8);
        let key = [b"0123456789abcdefphotos/2026/".as_slice(), number].concat();
        let _ = view.get(Table::Current, &key)?;
        batch.reference(DOMAIN, ChunkId(rest[..32].try_into().unwrap()), 1);
        batch.put(Table::Versions, [&key, number].concat(), rest.to_vec());
        batch.put(Table::Current, key.clone(), rest[..90].to_vec());
        batch.put(Table::Dots, [DOMAIN.0.as_slice(), &[9; 24], number].concat(), key);
        Ok(())
    }
}

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> =
        text.rsplit(')').next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // utime and stime, in hundredths of a second; the state letter is not a number.
    Duration::from_millis((fields[10] + fields[11]) * 10)
}

fn report(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize];
    println!("{what}: p50 {:?} p90 {:?} p99 {:?} max {:?}", at(0.5), at(0.9), at(0.99), at(1.0));
    at(0.5)
}

fn entry(number: u64, id: ChunkId) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend_from_slice(&id.0);
    data.resize(300, 7);
    data
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let count: u64 = arguments.next().map_or(2000, |text| text.parse().unwrap());
    let len: usize = arguments.next().map_or(4096, |text| text.parse().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    baseline(&folder, count);
    let disk = Arc::new(RealDisk::new(folder.join("store")).unwrap());
    let (store, _) = Store::open(disk, Arc::new(Objects), Settings::default()).unwrap();
    let committer = store.start_committer().unwrap();
    let bodies: Vec<Vec<u8>> = (0..count)
        .map(|number| {
            let mut body = vec![number as u8; len];
            body[..8].copy_from_slice(&number.to_le_bytes());
            body
        })
        .collect();
    let (tell, told) = sync_channel(64);
    let mut times = Vec::new();
    let before = cpu();
    for (number, body) in (0..).zip(&bodies) {
        let start = Instant::now();
        let mut pin = None;
        let entry = if len <= skerry_base::limits::JOURNAL_BODY_BYTES {
            let body = SmallBody::new(DOMAIN, Bytes::copy_from_slice(body));
            Entry::new(entry(number, body.id())).with_body(body)
        } else {
            let put = store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, body).unwrap();
            let id = put.id();
            pin = Some(put);
            Entry::new(entry(number, id))
        };
        let tell = tell.clone();
        store.submit(
            move |_| Ok::<_, ()>(((), vec![entry])),
            move |result| tell.send(result.is_ok()).unwrap(),
        );
        assert!(told.recv().unwrap());
        times.push(start.elapsed());
        drop(pin);
    }
    println!("CPU per PUT {:?}", (cpu() - before) / count as u32);
    report("one writer", times);
    crowd(&store, count);
    let usage = store.usage();
    println!("journal syncs {:?}", usage.journal_syncs);
    drop(committer);
}

/// Sixteen at once: what group commit gives.
fn crowd(store: &Arc<Store>, count: u64) {
    let start = Instant::now();
    let syncs = store.usage().journal_syncs.count;
    let (tell, told) = sync_channel(64);
    let mut waiting = 0;
    for number in count..5 * count {
        let body = SmallBody::new(DOMAIN, Bytes::from(vec![1; 4096 - (number % 1000) as usize]));
        let entry = Entry::new(entry(number, body.id())).with_body(body);
        let tell = tell.clone();
        store.submit(
            move |_| Ok::<_, ()>(((), vec![entry])),
            move |result| tell.send(result.is_ok()).unwrap(),
        );
        waiting += 1;
        if waiting == 16 {
            assert!(told.recv().unwrap());
            waiting -= 1;
        }
    }
    (0..waiting).for_each(|_| assert!(told.recv().unwrap()));
    let syncs = store.usage().journal_syncs.count - syncs;
    println!(
        "16 waiting: {:.0} PUT/s, {syncs} syncs for {}",
        4.0 * count as f64 / start.elapsed().as_secs_f64(),
        4 * count
    );
}

fn baseline(folder: &std::path::Path, count: u64) {
    let file = std::fs::File::create(folder.join("baseline")).unwrap();
    file.write_all_at(&vec![1; 8 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let mut times = Vec::new();
    for number in 0..count {
        let start = Instant::now();
        file.write_all_at(&[number as u8; 4096], (number % 2048) * 4096).unwrap();
        file.sync_data().unwrap();
        times.push(start.elapsed());
    }
    report("fdatasync of a 4 KiB overwrite", times);
}
