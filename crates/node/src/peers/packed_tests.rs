//! Fixtures of what was ever said, hostile bytes, and what packing is good for.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use skerry_base::hex;
use skerry_base::{
    BucketId, ChunkId, ChunkKind, ChunkRef, Dot, Hlc, NodeId, Origin, SiteId, Vector, WallTime,
};
use skerry_federation::message::Batch;
use skerry_federation::{FeedItem, Message};
use skerry_model::object::{Checksum, ChecksumKind, Headers};
use skerry_model::record::Scope;
use skerry_model::{Object, Record, Statement, Versioning};

use super::*;
use crate::nodes::is_word;
use crate::peers::mark;

/// Bytes that no two runs draw differently (xorshift).
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| (self.number() >> 32) as u8)
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A photo of 0.1 to 4 MiB as a camera's upload leaves it: what is drawn here is what cannot be foretold.
fn photo(draw: &mut Draw, bucket: BucketId, site: SiteId, dot: Dot) -> Record {
    let size = 100_000 + draw.number() % 4_000_000;
    let leaf = |at: u64, draw: &mut Draw| {
        let length = (size - at).min(1 << 20);
        ChunkRef { id: ChunkId(draw.bytes()), kind: ChunkKind::Leaf, stored: length as u32, length }
    };
    let chunks = (0..size).step_by(1 << 20).map(|at| leaf(at, draw)).collect();
    let now = 1_795_000_000_000 + dot.seq * 1_700 + draw.number() % 1000;
    let checksum =
        Checksum { kind: ChecksumKind::Crc64Nvme, value: base64(&draw.bytes::<8>()), composite: false };
    let object = Object {
        size,
        etag: hex::text(&draw.bytes::<16>()),
        chunks,
        headers: Headers { content_type: Some("image/jpeg".into()), ..Headers::default() },
        user_metadata: vec![
            ("camera".into(), "Pixel 9".into()),
            ("mtime".into(), format!("{}.{:06}", now / 1000 - 86_400, draw.number() % 1_000_000)),
        ],
        checksums: vec![checksum],
        modified: WallTime(now),
        ..Object::default()
    };
    Record {
        bucket,
        dot,
        key: format!("photos/2026/11/img_{:04}.jpg", dot.seq),
        clock: Hlc(now << 16),
        context: Vector::new(),
        versioning: Versioning::Off,
        keeps: Vec::new(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: "SKB7Q2LM4XTVZ0AH5RPE".into(),
        site,
        statement: Statement::Put(Box::new(object)),
    }
}

/// A feed's answer with so many of them.
fn batch(count: u64, seed: u64) -> Vec<u8> {
    let mut draw = Draw(seed | 1 << 40);
    let (bucket, site) = (BucketId(draw.bytes()), SiteId(draw.bytes()));
    let origin = Origin { node: NodeId(draw.bytes()), incarnation: draw.number() };
    let first = 1 + draw.number() % 5000;
    let dots = (first..first + count).map(|seq| Dot { origin, seq });
    let records = dots.map(|dot| photo(&mut draw, bucket, site, dot));
    let items = records
        .map(|record| FeedItem { dot: record.dot, record: record.encode().into(), bodies: Vec::new() })
        .collect();
    let upto = Vector::from_iter([(origin, first + count - 1)]);
    let batch = Batch {
        ticket: 7,
        bucket,
        source: origin,
        index: 0,
        last: true,
        items,
        upto: upto.clone(),
        end: true,
        vector: upto,
        horizon: Vector::new(),
        doubt: Vector::new(),
    };
    Message::Batch(batch).encode()
}

/// What a release of dialect 3 may have sent: a match that repeats itself, literals, and the end.
#[test]
fn version_d0_is_read_for_ever() {
    assert_eq!(open(FIXTURE.to_vec()).unwrap(), b"abcdabcdabcdabcdabcdabcdabcd-12345".to_vec());
}

/// `abcd` seven times and `-12345`: token 4f (4 literals, match of 15 + 4 + 5), `abcd`, offset 4, length 5; token 60 (6
/// literals).
const FIXTURE: &[u8] =
    &[0xd0, 0, 0, 0, 34, 0x4f, b'a', b'b', b'c', b'd', 4, 0, 5, 0x60, b'-', b'1', b'2', b'3', b'4', b'5'];

#[test]
fn what_is_not_packed_is_left_as_it_is() {
    assert_eq!(pack(&[7; LEAST_BYTES - 1]), None);
    assert_eq!(pack(&Draw(5).bytes::<4000>()), None, "noise does not become shorter");
    for plain in [vec![], vec![1], vec![129, 3], vec![0xc0, 1, 2]] {
        assert_eq!(open(plain.clone()).unwrap(), plain);
    }
    let frame = pack(&batch(3, 1)).unwrap();
    assert!(!is_word(&frame) && mark::read(&frame).0.is_none());
    assert!(Message::decode(&frame).is_err(), "a release of dialect 2 passes it over");
}

#[test]
fn a_frame_says_how_long_it_will_be() {
    let plain = vec![7; 1 << 20];
    let frame = pack(&plain).unwrap();
    assert!(frame.len() < 10_000 && plain_length(&frame) == plain.len());
    for frame in [&[][..], &[LZ4], &[1, 2, 3], &plain] {
        assert_eq!(plain_length(frame), frame.len());
    }
}

#[tokio::test]
async fn long_ones_are_packed_beside_the_runtime_and_are_the_same() {
    for count in [1, 10, 1000] {
        let plain = batch(count, count);
        let frame = packed(plain.clone()).await;
        assert_eq!(Some(&frame[..]), pack(&plain).as_deref());
        assert_eq!(open(frame.to_vec()).unwrap(), plain);
    }
    assert_eq!(packed(vec![1, 2, 3]).await, vec![1, 2, 3]);
}

#[test]
fn a_bomb_is_refused_before_anything_is_allocated() {
    let bomb = |length: u32, block: &[u8]| {
        let head = std::iter::once(LZ4).chain(length.to_be_bytes());
        open(head.chain(block.iter().copied()).collect()).unwrap_err()
    };
    assert_eq!(bomb(u32::MAX, &[0; 100]), Unreadable::TooLong { length: 0xffff_ffff });
    let over = limits::MESSAGE_BYTES as u32 + 1;
    assert_eq!(bomb(over, &[0; 1 << 20]), Unreadable::TooLong { length: limits::MESSAGE_BYTES + 1 });
    assert!(matches!(bomb(4 << 20, &[0; 1000]), Unreadable::Damaged(_)));
    assert!(matches!(bomb(1, &[]), Unreadable::Damaged(_)));
    for short in 1..HEAD_BYTES {
        assert_eq!(open(vec![LZ4; short]), Err(Unreadable::Short(short)));
    }
    // What says less than it is, or more.
    let zeros = pack(&[0; 10_000]).unwrap();
    for length in [0_u32, 9_999, 10_001] {
        let mut wrong = zeros.clone();
        wrong[1..5].copy_from_slice(&length.to_be_bytes());
        assert!(matches!(open(wrong), Err(Unreadable::Damaged(_))), "{length}");
    }
}

/// Bytes that repeat themselves more or less.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = (vec(any::<u8>(), 1..40), 1_usize..50);
    vec(piece, 0..30)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(bytes, times)| bytes.repeat(times)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_packed_comes_out_as_it_was(plain in text()) {
        if let Some(frame) = pack(&plain) {
            prop_assert!(frame.len() < plain.len());
            prop_assert_eq!(open(frame).unwrap(), plain);
        }
    }

    /// Any bytes at all behind a head that is believable.
    #[test]
    fn hostile_bytes_are_an_error_or_what_they_say(length in 0_u32..100_000, block in vec(any::<u8>(), 0..3000)) {
        let frame = std::iter::once(LZ4).chain(length.to_be_bytes()).chain(block).collect();
        if let Ok(plain) = open(frame) {
            prop_assert_eq!(plain.len(), length as usize);
        }
    }

    /// A real frame with bytes changed, taken out, cut off.
    #[test]
    fn damage_is_an_error_or_as_long_as_it_says(
        plain in text(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<proptest::sample::Index>(),
    ) {
        let Some(mut frame) = pack(&plain) else { return Ok(()) };
        for (at, byte) in changes {
            let at = at.index(frame.len() - HEAD_BYTES) + HEAD_BYTES;
            frame[at] = byte;
        }
        frame.truncate(HEAD_BYTES + cut.index(frame.len() - HEAD_BYTES + 1));
        if let Ok(read) = open(frame) {
            prop_assert_eq!(read.len(), plain.len());
        }
    }
}

/// Records of photos become shorter by so much at least, one by one and in heaps.
#[test]
fn a_feed_is_shorter_by_what_was_promised() {
    for (count, percent) in [(1, 90), (10, 70), (1000, 65)] {
        let plain = batch(count, 11);
        let packed = pack(&plain).map_or(plain.len(), |frame| frame.len());
        println!("{count} records: {} bytes, packed {packed}", plain.len());
        assert!(packed * 100 <= plain.len() * percent, "{count} records: {packed} of {} bytes", plain.len());
    }
}

/// `cargo test --release -p skerry-node --lib -- --ignored --nocapture packing_costs`: bytes, and time for a byte.
#[test]
#[ignore = "prints figures; asserts nothing"]
fn packing_costs() {
    println!("records, plain bytes, packed bytes, of a record, pack MB/s, open MB/s");
    for count in [1, 3, 10, 100, 1000] {
        let plains: Vec<Vec<u8>> = (0..20).map(|seed| batch(count, seed)).collect();
        let frames: Vec<Vec<u8>> =
            plains.iter().map(|plain| pack(plain).unwrap_or_else(|| plain.clone())).collect();
        let bytes: usize = plains.iter().map(Vec::len).sum();
        let short: usize = frames.iter().map(Vec::len).sum();
        let rounds = 1 + 20_000_000 / bytes;
        let begun = Instant::now();
        let done: usize =
            (0..rounds).flat_map(|_| &plains).filter_map(|plain| pack(plain)).map(|frame| frame.len()).sum();
        let packing = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let opened: usize =
            (0..rounds).flat_map(|_| &frames).map(|frame| open(frame.clone()).unwrap().len()).sum();
        let opening = begun.elapsed().as_secs_f64();
        assert!(done > 0 && opened > 0);
        let rate = |seconds: f64| (bytes * rounds) as f64 / 1e6 / seconds;
        println!(
            "{count}, {}, {}, {:.0}, {:.0}, {:.0}",
            bytes / 20,
            short / 20,
            short as f64 / 20.0 / count as f64,
            rate(packing),
            rate(opening)
        );
    }
}
