//! What is said to sites of this release and of the one before: marks and packed frames only to who knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Vector, codec};
use skerry_federation::Message;
use skerry_federation::budget::Class;
use skerry_federation::message::Pull;
use skerry_gateway::service::{PinAct, PinRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::world::{TestSite, TestWorld, noise};
use crate::net::memory::MemoryNet;
use crate::net::{Net, PeerAddress, Stream, frame};
use crate::peers::message::{List, Request, Response};
use crate::peers::serve::QUESTIONS;
use crate::peers::{mark, packed};

const OBJECTS: u64 = 60;

/// A site of some release: what it hears, frame by frame.
pub(super) struct Release {
    net: Arc<MemoryNet>,
    /// The first frame of each stream that the other site opens, and what follows on control streams.
    pub(super) heard: Arc<Mutex<Vec<Vec<u8>>>>,
    messages: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The kinds of messages of each control stream: whether they are signs of life.
    pub(super) signs: Arc<Mutex<Vec<BTreeSet<bool>>>>,
}

impl Release {
    /// In the place of `two`, beside `one`; says that it speaks this dialect, or, as the first release did, nothing.
    pub(super) fn start(one: &TestSite, two: &TestSite, dialect: Option<u8>) -> Self {
        let net = two.bare();
        let (heard, messages, signs) = (Arc::default(), Arc::default(), Arc::default());
        let release = Self { net: net.clone(), heard, messages, signs };
        let taken = (release.heard.clone(), release.messages.clone(), release.signs.clone());
        net.set_peers(vec![PeerAddress { key: one.key(), addresses: Vec::new() }]);
        tokio::spawn(async move {
            while let Some((_, stream)) = net.accept().await {
                tokio::spawn(hear(stream, dialect, taken.clone()));
            }
        });
        release
    }

    async fn ask(&self, one: &TestSite, question: &[u8]) -> Vec<u8> {
        let mut stream = self.net.open(one.node()).await.unwrap();
        frame::write(&mut stream, question).await.unwrap();
        frame::read(&mut stream).await.unwrap().unwrap()
    }

    pub(super) async fn ask_for_records(&self, one: &TestSite, bucket: BucketId, ticket: u64) {
        let mut stream = self.net.open(one.node()).await.unwrap();
        frame::write(&mut stream, &codec::encode(&Request::Control)).await.unwrap();
        let pull = Pull { ticket, bucket, seen: Vector::new(), max_bytes: 1 << 20, batches: 1 };
        frame::write(&mut stream, &Message::Pull(pull).encode()).await.unwrap();
    }

    /// What the other site's machine said.
    pub(super) fn messages(&self) -> Vec<Message> {
        let read = |frame: &Vec<u8>| Message::decode(&packed::open(frame.clone()).unwrap()).unwrap();
        self.messages.lock().unwrap().iter().map(read).collect()
    }

    /// All records of a bucket, as a control frame of the site asked.
    pub(super) async fn pull(&self, one: &TestSite, bucket: BucketId) -> Vec<u8> {
        self.ask_for_records(one, bucket, 77).await;
        let found = || {
            let messages = self.messages.lock().unwrap();
            messages.iter().find(|frame| batch(frame).is_some_and(|records| records == OBJECTS)).cloned()
        };
        one.until("the records came", || async { found().is_some() }).await;
        found().unwrap()
    }
}

/// How many records are in a control frame that answers the pull.
fn batch(frame: &[u8]) -> Option<u64> {
    match Message::decode(&packed::open(frame.to_vec()).unwrap()) {
        Ok(Message::Batch(batch)) if batch.ticket == 77 => Some(batch.items.len() as u64),
        _ => None,
    }
}

type Frames = Arc<Mutex<Vec<Vec<u8>>>>;

async fn hear(
    mut stream: Stream,
    dialect: Option<u8>,
    (heard, messages, signs): (Frames, Frames, Arc<Mutex<Vec<BTreeSet<bool>>>>),
) {
    let Ok(Some(first)) = frame::read(&mut stream).await else { return };
    heard.lock().unwrap().push(first.clone());
    match (codec::decode(&first), dialect) {
        (Ok(Request::Words { .. }), Some(dialect)) => {
            frame::write(&mut stream, &codec::encode(&Response::Words { dialect })).await.ok();
            stream.shutdown().await.ok();
        }
        (Ok(Request::Control), _) => {
            let number = {
                let mut signs = signs.lock().unwrap();
                signs.push(BTreeSet::new());
                signs.len() - 1
            };
            while let Ok(Some(frame)) = frame::read(&mut stream).await {
                let message = Message::decode(&packed::open(frame.clone()).unwrap()).unwrap();
                signs.lock().unwrap()[number].insert(message.is_datagram());
                messages.lock().unwrap().push(frame);
            }
        }
        _ => {}
    }
}

pub(super) async fn full_bucket(one: &TestSite) -> BucketId {
    one.create_bucket("photos").await.unwrap();
    for n in 0..OBJECTS {
        one.put("photos", &format!("2026/11/img_{n:04}.jpg"), noise(1000, n)).await.unwrap();
    }
    one.site().bucket("photos").await.unwrap().unwrap().id
}

/// Asked over a link whose other end has said what it speaks.
async fn asked(one: &TestSite, two: &TestSite, release: &Release, bucket: BucketId) -> Vec<u8> {
    let words = |frame: &Vec<u8>| matches!(codec::decode(frame), Ok(Request::Words { .. }));
    one.until("it was asked what it speaks", || async { release.heard.lock().unwrap().iter().any(words) })
        .await;
    let begun = release.heard.lock().unwrap().len();
    let question = Request::Size { bucket };
    one.site().peers.call_as(Class::Copy, two.id(), &question).await.map(drop).unwrap_err();
    let wanted = codec::encode(&question);
    let heard = release.heard.lock().unwrap();
    heard.iter().skip(begun).find(|frame| frame.ends_with(&wanted)).unwrap().clone()
}

fn listing(bucket: BucketId) -> Vec<u8> {
    codec::encode(&Request::List(List {
        bucket,
        prefix: String::new(),
        delimiter: None,
        after: String::new(),
        after_version: None,
        limit: 1000,
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_hear_what_they_always_heard() {
    for dialect in [Some(2), None] {
        let mut world = TestWorld::new(2).await;
        let bucket = full_bucket(&world.sites[0]).await;
        world.sites[1].stop().await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let release = Release::start(one, two, dialect);
        one.until("they are linked", || async { one.site().linked(two.id()) }).await;
        assert_eq!(asked(one, two, &release, bucket).await, codec::encode(&Request::Size { bucket }));
        let frame = release.pull(one, bucket).await;
        assert!(Message::decode(&frame).is_ok(), "as it always was");
        let answer = release.ask(one, &listing(bucket)).await;
        let Response::Page(page) = codec::decode(&answer).unwrap() else { panic!("a page") };
        assert_eq!(page.entries.len() as u64, OBJECTS);
        let (heard, messages) =
            (release.heard.lock().unwrap().clone(), release.messages.lock().unwrap().clone());
        assert!(heard.iter().all(|first| codec::decode::<Request>(first).is_ok()));
        assert!(messages.iter().all(|message| Message::decode(message).is_ok()));
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_speaks_dialect_3_hears_marks_and_fewer_bytes() {
    let mut world = TestWorld::new(2).await;
    let bucket = full_bucket(&world.sites[0]).await;
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let release = Release::start(one, two, Some(mark::DIALECT));
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    let question = asked(one, two, &release, bucket).await;
    assert_eq!(mark::read(&question), (Some(Class::Copy), &codec::encode(&Request::Size { bucket })[..]));
    let before = release.net.traffic()[0].received;
    let frame = release.pull(one, bucket).await;
    let plain = packed::open(frame.clone()).unwrap();
    assert!(frame.len() * 10 <= plain.len() * 8, "{} of {} bytes", frame.len(), plain.len());
    // What a metered link counts is what crossed.
    let crossed = release.net.traffic()[0].received - before;
    println!(
        "{OBJECTS} records: {} bytes, packed {}, crossed with all else {crossed}",
        plain.len(),
        frame.len()
    );
    assert!(crossed < plain.len() as u64, "{crossed} bytes crossed for {}", plain.len());
    // Answers, to who marks its questions; to others as ever.
    let answer = release.ask(one, &mark::marked(Class::Read, &listing(bucket))).await;
    let plain = release.ask(one, &listing(bucket)).await;
    assert!(answer.len() * 10 <= plain.len() * 6, "{} of {} bytes", answer.len(), plain.len());
    assert_eq!(packed::open(answer).unwrap(), plain);
    // Packed messages are read, too.
    let pull = Pull { ticket: 78, bucket, seen: Vector::new(), max_bytes: 1 << 20, batches: 1 };
    let plain = Message::Pull(Pull { seen: many(), ..pull }).encode();
    let mut stream = release.net.open(one.node()).await.unwrap();
    frame::write(&mut stream, &codec::encode(&Request::Control)).await.unwrap();
    frame::write(&mut stream, &packed::pack(&plain).unwrap()).await.unwrap();
    let answered = |frame: &Vec<u8>| {
        let message = Message::decode(&packed::open(frame.clone()).unwrap());
        matches!(message, Ok(Message::Batch(batch)) if batch.ticket == 78)
    };
    one.until("it was answered", || async { release.messages.lock().unwrap().iter().any(answered) }).await;
    // Signs of life have a stream to themselves, so that no heap of records is before them.
    let streams = || release.signs.lock().unwrap().clone();
    one.until("there was a sign of life", || async { streams().contains(&[true].into()) }).await;
    assert!(streams().iter().all(|kinds| kinds.len() <= 1) && streams().contains(&[false].into()));
    world.stop().await;
}

/// A GET and a pin ask for chunks in the same words; who has them hears which of the two it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_chunk_hears_whether_somebody_waits_for_it() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        two.create_bucket("photos").await.unwrap();
        for (n, key) in ["read", "pinned", "small"].into_iter().enumerate() {
            let length = if key == "small" { 100 } else { 100_000 };
            two.put("photos", key, noise(length, n as u64)).await.unwrap();
        }
        one.until("the bucket is known", || async { one.site().bucket("photos").await.unwrap().is_some() })
            .await;
        one.get("photos", "small").await.unwrap();
        world.converged("photos").await;
    }
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let release = Release::start(one, two, Some(mark::DIALECT));
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    let asked = || -> Vec<Class> {
        let heard = release.heard.lock().unwrap();
        let chunk = |frame: &Vec<u8>| match mark::read(frame) {
            (class, question) if matches!(codec::decode(question), Ok(Request::Chunk { .. })) => class,
            _ => None,
        };
        heard.iter().filter_map(chunk).collect()
    };
    // It answers nothing.
    one.get("photos", "read").await.unwrap_err();
    let reads = asked();
    assert!(!reads.is_empty() && reads.iter().all(|class| *class == Class::Read), "{reads:?}");
    let pin = PinRequest { bucket: "photos".into(), prefix: "pinned".into(), act: PinAct::Pin };
    one.services().admin.set_pin(pin).await.unwrap();
    one.until("the pin asked", || async { asked().len() > reads.len() }).await;
    assert!(asked().iter().skip(reads.len()).all(|class| *class == Class::Copy), "{:?}", asked());
    world.stop().await;
}

/// A vector that is worth packing.
fn many() -> Vector {
    let origin = |n: u64| skerry_base::Origin { node: skerry_base::NodeId([9; 16]), incarnation: n };
    (1..50).map(|n| (origin(n), 1)).collect()
}

/// A site that gives chunks: on each stream as many as it is to, before it ends it. How many it gave on each.
async fn give(
    mut stream: Stream,
    dialect: u8,
    most: usize,
    (chunks, given): (Chunks, Arc<Mutex<Vec<usize>>>),
) {
    let mut here = None;
    while let Ok(Some(frame)) = frame::read(&mut stream).await {
        let chunk = match codec::decode(mark::read(&frame).1) {
            Ok(Request::Words { .. }) => {
                frame::write(&mut stream, &codec::encode(&Response::Words { dialect })).await.ok();
                return;
            }
            Ok(Request::Chunk { chunk, .. }) => chunk,
            _ => return,
        };
        // Before the last byte: who asked may end the test then.
        let count = {
            let mut given = given.lock().unwrap();
            let here = *here.get_or_insert_with(|| {
                given.push(0);
                given.len() - 1
            });
            given[here] += 1;
            given[here]
        };
        let bytes = chunks.get(&chunk).cloned().unwrap();
        frame::write(&mut stream, &codec::encode(&Response::Chunk(bytes.len() as u32))).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
        if count == most {
            return;
        }
    }
}

type Chunks = Arc<BTreeMap<ChunkId, bytes::Bytes>>;

/// Nine chunks, one after the other, from a site that speaks this and gives so many on a stream.
async fn streams_of_nine(dialect: u8, most: usize) -> Vec<usize> {
    let mut world = TestWorld::new(2).await;
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let bodies = (0..9).map(|n| noise(300_000, n));
    let chunks: Chunks = Arc::new(bodies.map(|bytes| (ChunkId::of(&bytes), bytes)).collect());
    let (net, given) = (two.bare(), Arc::default());
    net.set_peers(vec![PeerAddress { key: one.key(), addresses: Vec::new() }]);
    let shared = (chunks.clone(), Arc::clone(&given));
    tokio::spawn(async move {
        while let Some((_, stream)) = net.accept().await {
            tokio::spawn(give(stream, dialect, most, shared.clone()));
        }
    });
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    for (id, bytes) in chunks.iter() {
        let stored = bytes.len() as u32;
        let chunk = ChunkRef { id: *id, kind: ChunkKind::Leaf, stored, length: u64::from(stored) };
        let domain = BucketId([1; 16]);
        let peers = &one.site().peers;
        let got =
            peers.chunk_unless_silent(peers.errand(Class::Read), two.id(), domain, &chunk).await.unwrap();
        assert_eq!(got.as_deref(), Some(&bytes[..]));
    }
    world.stop().await;
    let given = given.lock().unwrap();
    given.clone()
}

/// The window of a stream grows while it is read, so chunks are asked for on one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_gave_a_chunk_is_asked_for_the_next() {
    assert_eq!(streams_of_nine(mark::KEEPS, usize::MAX).await, [9]);
}

/// An end that comes between two questions is nobody's error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_ended_meanwhile_costs_a_new_one() {
    assert_eq!(streams_of_nine(mark::KEEPS, 4).await, [4, 4, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_give_one_chunk_on_a_stream() {
    assert_eq!(streams_of_nine(mark::MARKS, 1).await, [1; 9]);
}

/// A site of this release answers on, chunk after chunk, and only chunks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_follow_each_other_on_a_stream_and_nothing_else_does() {
    let mut world = TestWorld::new(2).await;
    let bucket = full_bucket(&world.sites[0]).await;
    let body = noise(100_000, 7);
    world.sites[0].put("photos", "large", body.clone()).await.unwrap();
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let release = Release::start(one, two, Some(mark::DIALECT));
    one.until("they are linked", || async { one.site().linked(two.id()) }).await;
    let question = codec::encode(&Request::Chunk { domain: bucket, chunk: ChunkId::of(&body) });
    let mut stream = release.net.open(one.node()).await.unwrap();
    for class in [Class::Read, Class::Copy, Class::Read] {
        frame::write(&mut stream, &mark::marked(class, &question)).await.unwrap();
        let answer = frame::read(&mut stream).await.unwrap().unwrap();
        assert_eq!(codec::decode::<Response>(&answer).unwrap(), Response::Chunk(body.len() as u32));
        let mut bytes = vec![0; body.len()];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, body);
    }
    frame::write(&mut stream, &codec::encode(&Request::Size { bucket })).await.unwrap();
    assert!(!matches!(frame::read(&mut stream).await, Ok(Some(_))), "another question has no place here");
    world.stop().await;
}

/// More streams that gave a chunk and wait than questions of one site are answered at once: they take no room from the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_wait_keep_no_question_waiting() {
    let mut world = TestWorld::new(2).await;
    let bucket = full_bucket(&world.sites[0]).await;
    let body = noise(100_000, 7);
    world.sites[0].put("photos", "large", body.clone()).await.unwrap();
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let release = Release::start(one, two, Some(mark::DIALECT));
    one.until("they are linked", || async { one.site().linked(two.id()) }).await;
    let question = codec::encode(&Request::Chunk { domain: bucket, chunk: ChunkId::of(&body) });
    let mut waiting = Vec::new();
    for _ in 0..QUESTIONS + 1 {
        let asked = async {
            let mut stream = release.net.open(one.node()).await.unwrap();
            frame::write(&mut stream, &question).await.unwrap();
            frame::read(&mut stream).await.unwrap().unwrap();
            let mut bytes = vec![0; body.len()];
            stream.read_exact(&mut bytes).await.unwrap();
            waiting.push(stream);
        };
        let answered = tokio::time::timeout(Duration::from_secs(10), asked).await;
        assert!(answered.is_ok(), "a question waits for idle streams");
    }
    world.stop().await;
}
