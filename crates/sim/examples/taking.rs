//! Measures the processor time of a record on its way from one store to another, over the real code of model and storage:
//! `cargo run --release -p skerry-sim --example taking -- DIR [RECORDS] [ROUNDS]`.
//!
//! Two stores in `DIR` (in memory is best: the disk is not what is measured) write `RECORDS` objects each (default 50,000,
//! bodies of 200 bytes, 64 at once), then the second takes those of the first as a feed brings them: answers of 256 KiB in steps of
//! 16 records. Printed is the CPU of all threads for each record, in µs: of an own write, of serving one, of taking one.
#![expect(clippy::unwrap_used, reason = "a measurement: stops at the first failure")]
#![expect(
    clippy::disallowed_methods,
    reason = "it reads what the kernel counts, and clears up behind itself"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use skerry_base::{BucketId, ChunkKind, ChunkRef, Dot, Hlc, NodeId, Origin, SiteId, Vector, WallTime};
use skerry_model::object::{Checksum, ChecksumKind, Headers, Object};
use skerry_model::record::{Scope, Statement, Versioning};
use skerry_model::space::{self, Incoming, SpaceReducer};
use skerry_model::{Entry, Record};
use skerry_storage::{RealDisk, Settings, SmallBody, Step, Store};

const BUCKET: BucketId = BucketId([7; 16]);
const BODY: usize = 200;
const AT_ONCE: u64 = 64;
/// What a feed answers at once.
const ANSWER: usize = 256 << 10;
/// Records and bytes of a step.
const STEP: (usize, usize) = (16, 128 << 10);

/// Seconds of processor time that the threads of this process have had.
fn cpu() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let nanos = |path: PathBuf| {
        // A thread may end meanwhile.
        let stat = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        stat.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    threads.map(|thread| nanos(thread.path())).sum::<f64>() / 1e9
}

fn site(number: u8) -> Origin {
    Origin { node: NodeId([number; 16]), incarnation: 1 }
}

fn body(origin: Origin, seq: u64) -> Bytes {
    let mut body = vec![origin.node.0[0]; BODY];
    body[..8].copy_from_slice(&seq.to_le_bytes());
    body.into()
}

/// A photo, as `PUT` writes it down.
fn record(origin: Origin, seq: u64, chunk: ChunkRef) -> Record {
    let headers = Headers { content_type: Some("image/jpeg".into()), ..Headers::default() };
    let value = "w1RYxMzPuoo=".into();
    let object = Object {
        size: BODY as u64,
        etag: format!("{:032x}", u128::from(seq).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        chunks: vec![chunk],
        headers,
        checksums: vec![Checksum { kind: ChecksumKind::Crc64Nvme, value, composite: false }],
        modified: WallTime(1_795_000_000_000 + seq),
        ..Object::default()
    };
    Record {
        bucket: BUCKET,
        dot: Dot { origin, seq },
        key: format!("photos/2026/{:02}/{:08}.jpg", origin.node.0[0], seq.wrapping_mul(7_919) % 99_999_989),
        clock: Hlc((1_795_000_000_000 + seq) << 16),
        context: Vector::new(),
        versioning: Versioning::Off,
        keeps: Vec::new(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: "SKAAAAAAAAAAAAAAAAAA".into(),
        site: SiteId(origin.node.0),
        statement: Statement::Put(Box::new(object)),
    }
}

fn open(folder: &Path) -> Arc<Store> {
    let disk = Arc::new(RealDisk::new(folder.to_owned()).unwrap());
    Store::open(disk, Arc::new(SpaceReducer), Settings::default()).unwrap().0
}

/// Writes objects of an origin, so many at once.
fn write(store: &Store, origin: Origin, count: u64) {
    let (tell, told) = sync_channel(AT_ONCE as usize);
    for seq in 1..=count {
        let bytes = body(origin, seq);
        let small = SmallBody::new(BUCKET, bytes);
        let length = BODY as u64;
        let chunk = ChunkRef { id: small.id(), kind: ChunkKind::Leaf, stored: BODY as u32, length };
        let tell = tell.clone();
        store.submit(
            move |_| {
                let data = Entry::Write(Box::new(record(origin, seq, chunk))).encode();
                Ok::<_, String>(((), vec![skerry_storage::Entry::new(data).with_body(small)]))
            },
            move |result| tell.send(result.is_ok()).unwrap(),
        );
        if seq > AT_ONCE {
            assert!(told.recv().unwrap());
        }
    }
    (0..count.min(AT_ONCE)).for_each(|_| assert!(told.recv().unwrap()));
}

/// A record on its way.
struct Sent {
    dot: Dot,
    record: Bytes,
    bodies: Vec<Bytes>,
}

/// All answers of a feed.
fn serve(store: &Store, source: Origin) -> Vec<Incoming<Sent>> {
    let (mut answers, mut base) = (Vec::new(), Vector::new());
    loop {
        let view = store.view();
        let found = space::records_after(&view, BUCKET, &base, ANSWER).unwrap();
        let send = |item: space::Item| {
            let chunks = item.record.object().map(|object| object.chunks.clone()).unwrap_or_default();
            let read = |chunk: ChunkRef| store.read_chunk(BUCKET, chunk.id, 0..u32::MAX).unwrap();
            Sent { dot: item.dot, record: item.encoded, bodies: chunks.into_iter().map(read).collect() }
        };
        let records = found.items.into_iter().map(send).collect();
        let (upto, more) = (found.upto, found.more);
        answers.push(Incoming {
            bucket: BUCKET,
            source,
            base: base.clone(),
            records,
            upto: upto.clone(),
            more,
        });
        base.merge(&upto);
        if !more {
            return answers;
        }
    }
}

/// The entries of a step, as the node makes them.
fn step(
    view: &dyn skerry_base::kv::View,
    incoming: Incoming<Sent>,
) -> Result<Vec<skerry_storage::Entry>, String> {
    let Incoming { bucket, source, base, records, upto, more } = incoming;
    let admitted = records.iter().map(|sent| Record::admit(&sent.record).unwrap()).collect();
    let incoming = Incoming { bucket, source, base, records: admitted, upto, more };
    let taken = space::take(view, incoming).map_err(|error| error.to_string())?.ok_or("out of order")?;
    let mut records = records.into_iter();
    let stored = |taken: &Entry| match taken {
        Entry::Record(_) => {
            let sent = records.next().unwrap();
            let whole = skerry_storage::Entry::new(Entry::encode_admitted(&sent.record));
            let bodies = sent.bodies.into_iter().map(|bytes| SmallBody::new(bucket, bytes));
            bodies.fold(whole, skerry_storage::Entry::with_body)
        }
        taken => skerry_storage::Entry::new(taken.encode()),
    };
    Ok(taken.iter().map(stored).collect())
}

fn take(store: &Store, answers: Vec<Incoming<Sent>>) {
    let (tell, told) = sync_channel(1);
    for answer in answers {
        let len = |sent: &Sent| sent.record.len() + sent.bodies.iter().map(Bytes::len).sum::<usize>();
        let mut steps = space::steps(answer, STEP, |sent| sent.dot, len).collect::<Vec<_>>().into_iter();
        let tell = tell.clone();
        store.submit_steps(
            move |view| {
                let Some(incoming) = steps.next() else { return Ok(Step::default()) };
                Ok::<_, String>(Step { entries: step(view, incoming)?, more: steps.len() > 0 })
            },
            move |result| tell.send(result.map_err(|error| error.to_string())).unwrap(),
        );
        told.recv().unwrap().unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let mut number = |other: u64| arguments.next().map_or(other, |text| text.parse().unwrap());
    let (count, rounds) = (number(50_000), number(3));
    for round in 0..rounds {
        let [one, two] = [1, 2].map(|number| folder.join(format!("{round}-{number}")));
        let (source, taker) = (open(&one), open(&two));
        let threads = [source.start_committer().unwrap(), taker.start_committer().unwrap()];
        let micros = |since: f64| (cpu() - since) * 1e6 / count as f64;
        let began = cpu();
        write(&source, site(1), count);
        let wrote = micros(began);
        write(&taker, site(2), count);
        let began = cpu();
        let answers = serve(&source, site(1));
        let served = micros(began);
        let began = cpu();
        take(&taker, answers);
        let took = micros(began);
        let sums = space::sums(&taker.view(), BUCKET).unwrap();
        assert_eq!((sums.keys, sums.records), (2 * count, 2 * count), "all are there");
        println!("own write {wrote:.1} µs, to serve one {served:.1}, to take one {took:.1}");
        drop((threads, source, taker));
        std::fs::remove_dir_all(one).unwrap();
        std::fs::remove_dir_all(two).unwrap();
    }
}
