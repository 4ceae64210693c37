//! Fixtures of version 1, bounds, and hostile bytes.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use skerry_base::hex;
use skerry_base::{ChunkId, ChunkKind, ChunkRef, NodeId, Origin, WallTime};

use super::*;
use crate::object::{Checksum, ChecksumKind, Headers, Retention};

fn origin(n: u8) -> Origin {
    Origin { node: NodeId([n; 16]), incarnation: 0x0102_0304_0506_0708 }
}

fn full_object() -> Object {
    let text = |text: &str| Some(text.to_owned());
    Object {
        size: 5,
        etag: "5d41402abc4b2a76b9719d911017c592".into(),
        chunks: vec![ChunkRef { id: ChunkId([0xcc; 32]), kind: ChunkKind::Leaf, stored: 5, length: 5 }],
        headers: Headers {
            content_type: text("text/plain"),
            cache_control: text("no-cache"),
            content_disposition: text("inline"),
            content_encoding: text("gzip"),
            content_language: text("de"),
            expires: text("0"),
            website_redirect: text("/"),
        },
        user_metadata: vec![("a".into(), "b".into())],
        checksums: vec![Checksum { kind: ChecksumKind::Sha256, value: "x".into(), composite: true }],
        part_count: 2,
        parts: vec![3, 2],
        modified: WallTime(1_700_000_000_000),
        document: Some(Bytes::from_static(b"doc")),
        sealed: Some(Bytes::from_static(b"key")),
        retain_until: Some(Retention { until: WallTime(9), compliance: true }),
        legal_hold: Some(false),
        tags: vec![("t".into(), "u".into())],
    }
}

fn record(statement: Statement) -> Record {
    Record {
        bucket: BucketId([0xbb; 16]),
        dot: Dot { origin: origin(1), seq: 300 },
        key: "photos/é.jpg".into(),
        clock: Hlc(0x0001_8bcf_e568_0007),
        context: Vector::from_iter([(origin(1), 7), (origin(2), 1)]),
        versioning: Versioning::Suspended,
        keeps: vec![Kept { dot: Dot { origin: origin(2), seq: 1 }, since: Hlc(5) }],
        scope: Scope::Sites(2),
        home: Some(HomeDecision { epoch: 1, n: 2 }),
        placement: Some(PlacementRef { dot: Dot { origin: origin(2), seq: 4 }, epoch: 3 }),
        writer: "AKIA".into(),
        site: SiteId([0x51; 16]),
        statement,
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn statements() -> [(&'static str, Statement); 5] {
    let target = Dot { origin: origin(2), seq: 1 };
    [
        (include_str!("fixtures/put.v1.hex"), Statement::Put(Box::new(full_object()))),
        (include_str!("fixtures/put-empty.v1.hex"), Statement::Put(Box::default())),
        (include_str!("fixtures/delete.v1.hex"), Statement::Delete),
        (include_str!("fixtures/erase.v1.hex"), Statement::Erase { target }),
        (
            include_str!("fixtures/note.v1.hex"),
            Statement::Note { target, topic: 9, content: Bytes::from_static(b"n") },
        ),
    ]
}

/// Fixtures of version 1 must decode for ever, to the same statements. Never regenerate them.
#[test]
fn fixtures_of_version_1() {
    for (fixture, statement) in statements() {
        let expected = record(statement);
        assert_eq!(Record::admit(&bytes(fixture)).unwrap(), expected);
        assert_eq!(hex::text(&expected.encode()), fixture.trim());
    }
}

#[test]
fn later_versions_are_refused_by_name() {
    let mut newer = record(Statement::Delete).encode();
    newer[0] = 2;
    let refused = RecordError::Decode(DecodeError::Version { name: "record", found: 2, known: 1 });
    assert_eq!(Record::admit(&newer), Err(refused));
    let mut unknown = record(Statement::Delete).encode();
    *unknown.last_mut().unwrap() = 99;
    assert!(matches!(Record::admit(&unknown), Err(RecordError::Decode(DecodeError::Malformed { .. }))));
}

#[test]
fn bounds() {
    let delete = record(Statement::Delete);
    let refused = |record: Record| Record::admit(&record.encode()).unwrap_err();
    assert_eq!(refused(Record { key: String::new(), ..delete.clone() }), RecordError::Key(0));
    assert_eq!(refused(Record { key: "k".repeat(1025), ..delete.clone() }), RecordError::Key(1025));
    assert!(Record::admit(&Record { key: "k".repeat(1024), ..delete.clone() }.encode()).is_ok());
    let zero = Dot { seq: 0, ..delete.dot };
    assert_eq!(refused(Record { dot: zero, ..delete.clone() }), RecordError::Contradiction("seq 0"));
    let context = Vector::from_iter([(origin(1), 300)]);
    let seen = RecordError::Contradiction("has seen itself");
    assert_eq!(refused(Record { context: context.clone(), ..delete.clone() }), seen);
    let target = delete.dot;
    let aims = RecordError::Contradiction("aims at itself");
    assert_eq!(refused(record(Statement::Erase { target })), aims);
    let keeps = delete.keeps.iter().copied().cycle().take(17).collect();
    assert_eq!(
        refused(Record { keeps, ..delete.clone() }),
        RecordError::Contradiction("too many kept versions")
    );
    let found = delete.budgeted_bytes() - 4 + 4096;
    let writer = "w".repeat(4096);
    assert!(
        matches!(refused(Record { writer, ..delete }), RecordError::TooLarge { found: f, most: 4096 } if f >= found)
    );
}

#[test]
fn key_and_user_metadata_do_not_count() {
    let user_metadata = vec![("m".repeat(1000), "v".repeat(1048))];
    let object = Object { user_metadata, ..Object::default() };
    let largest = Record { key: "k".repeat(1024), ..record(Statement::Put(Box::new(object))) };
    assert!(largest.budgeted_bytes() < 400);
    assert_eq!(Record::admit(&largest.encode()).unwrap(), largest);
}

#[test]
fn other_encodings_of_the_same_are_refused() {
    let mut twice = record(Statement::Delete);
    twice.context = Vector::new();
    let mut bytes = twice.encode();
    // seq 300 is the varint ac 02; ac 82 00 says the same in three bytes.
    let at = bytes.windows(2).position(|pair| pair == [0xac, 0x02]).unwrap();
    bytes.splice(at..at + 2, [0xac, 0x82, 0x00]);
    assert_eq!(Record::decode(&bytes).unwrap(), twice);
    assert_eq!(Record::admit(&bytes), Err(RecordError::NotCanonical));
}

proptest! {
    #[test]
    fn hostile_bytes_are_refused_or_canonical(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [&[1][..], &noise].concat();
        if let Ok(record) = Record::admit(&bytes) {
            prop_assert_eq!(record.encode(), bytes);
        }
    }

    /// Flips, cuts and claims of great lengths anywhere in a good record.
    #[test]
    fn damaged_records_are_refused_or_canonical(
        which in 0usize..5, at in any::<prop::sample::Index>(), with in any::<u8>(), length in any::<bool>(),
    ) {
        let [first, second, third, fourth, fifth] = statements().map(|(_, statement)| record(statement).encode());
        let mut bytes = [first, second, third, fourth, fifth][which].clone();
        let at = at.index(bytes.len());
        if length {
            bytes.splice(at..at + 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        } else {
            bytes[at] ^= with;
        }
        if let Ok(record) = Record::admit(&bytes) {
            prop_assert_eq!(record.encode(), bytes);
        }
    }
}
