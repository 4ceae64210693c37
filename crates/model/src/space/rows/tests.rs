//! Rows of both versions: fixtures, round trips, hostile bytes, one beside the other, and what they take.

#![expect(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use proptest::prelude::*;
use skerry_base::codec;
use skerry_base::hex;
use skerry_base::kv::{Table, Tables, View};
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, NodeId, Origin, SiteId};

use super::version::Named;
use super::*;
use crate::object::{Checksum, ChecksumKind, Headers, Object, Retention};
use crate::record::{HomeDecision, Kept, PlacementRef, Scope, Statement, Versioning};
use crate::space::tests::{BUCKET, apply, origin};
use crate::space::{self, Below, Cursor, keys};
use crate::{Entry, Record};

const MD5: &str = "5d41402abc4b2a76b9719d911017c592";

/// A body of one leaf, as most are.
fn plain(etag: &str, size: u32) -> Object {
    let chunk = ChunkRef {
        id: ChunkId::of(etag.as_bytes()),
        kind: ChunkKind::Leaf,
        stored: size,
        length: size.into(),
    };
    let modified = WallTime(1_764_400_000_123);
    Object { size: size.into(), etag: etag.into(), chunks: vec![chunk], modified, ..Object::default() }
}

/// An overwrite of a key by the node that wrote it before, as most are.
fn record(key: &str, object: Object) -> Record {
    let origin = Origin { node: NodeId([0xa1; 16]), incarnation: 0x9182_7364_5546_3728 };
    Record {
        bucket: BucketId([0xbb; 16]),
        dot: Dot { origin, seq: 70_000 },
        key: key.into(),
        clock: Hlc::at(WallTime(1_764_400_000_125)).next(),
        context: Vector::from_iter([(origin, 60_000)]),
        versioning: Versioning::Off,
        keeps: Vec::new(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: "AKIAIOSFODNN7EXAMPLE".into(),
        site: SiteId([0x51; 16]),
        statement: Statement::Put(Box::new(object)),
    }
}

fn full() -> Record {
    let text = |text: &str| Some(text.to_owned());
    let object = Object {
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
        document: Some(Bytes::from_static(b"doc")),
        sealed: Some(Bytes::from_static(b"key")),
        retain_until: Some(Retention { until: WallTime(9), compliance: true }),
        legal_hold: Some(false),
        tags: vec![("t".into(), "u".into())],
        ..plain("5d41402abc4b2a76b9719d911017c592-2", 5)
    };
    let dot = |n, seq| Dot { origin: origin(n), seq };
    let mut record = record("photos/é\0.jpg", object);
    record.context.add(dot(1, 7));
    record.context.advance(Origin { incarnation: 4, ..record.dot.origin }, 3);
    Record {
        versioning: Versioning::Suspended,
        keeps: vec![Kept { dot: dot(2, 1), since: Hlc(5) }],
        scope: Scope::Sites(2),
        home: Some(HomeDecision { epoch: 1, n: 2 }),
        placement: Some(PlacementRef { dot: dot(2, 4), epoch: 3 }),
        ..record
    }
}

fn name(record: &Record) -> Vec<u8> {
    keys::version(record.bucket, &record.key, keys::ALIVE, record.clock, record.dot)
}

fn listed(record: &Record) -> Listed {
    Listed::of(record).unwrap()
}

/// Fixtures must decode for ever, to the same. Never regenerate them.
#[test]
fn fixtures_of_both_versions() {
    let (one, id) = (record("k", plain(MD5, 4096)), ChunkId::of(MD5.as_bytes()));
    let (site, own, bucket, writer) =
        ("51".repeat(16), "a1".repeat(16), "bb".repeat(16), hex::text(b"\x14AKIAIOSFODNN7EXAMPLE"));
    let incarnation = "a8ee98aac5ec9cc19101";
    let old = format!(
        "01{bucket}{own}{incarnation}f0a204016b8180f4e3f6cdb3cd0101{own}{incarnation}e0d4030000000000\
         {writer}{site}008020{:02x}{}01{id}00802080200000000000000000000000fbd8bdf3ac330000000000",
        32,
        hex::text(MD5.as_bytes())
    );
    let new = format!("0203{site}0100e0d403{writer}802003{MD5}{id}");
    let found = (hex::text(&one.encode()), hex::text(&version::encode(&one)));
    assert_eq!(found.1, new);
    assert_eq!(found.0, old);
    let shown = listed(&one);
    let old = format!(
        "01{own}{incarnation}f0a2048180f4e3f6cdb3cd01802020{}fbd8bdf3ac33",
        hex::text(MD5.as_bytes())
    );
    let new = format!("02{own}9182736455463728019ace6f6c7d0001f0a20480200300{MD5}");
    let found = (hex::text(&codec::encode(&shown)), hex::text(&current::encode(&shown)));
    assert_eq!((found.0, found.1), (old, new));
    for bytes in [one.encode(), version::encode(&one)] {
        assert_eq!(version::decode(&name(&one), &bytes).unwrap(), one);
    }
    for bytes in [codec::encode(&shown), current::encode(&shown)] {
        assert_eq!(current::decode(&bytes).unwrap(), shown);
    }
}

#[test]
fn every_field_of_a_record_comes_back() {
    let target = full().dot;
    let note = Statement::Note { target, topic: 9, content: Bytes::from_static(b"n") };
    let mut all = vec![full(), record("k", Object::default()), record("k", plain("no MD5", 7))];
    all.push(record("k", plain(&MD5.to_uppercase(), 7)));
    all.extend(
        [Statement::Delete, Statement::Erase { target }, note]
            .map(|statement| Record { statement, ..full() }),
    );
    let tree = ChunkRef { id: ChunkId([7; 32]), kind: ChunkKind::Tree, stored: 90, length: 1 << 40 };
    let sealed = ChunkRef { id: ChunkId([7; 32]), kind: ChunkKind::Leaf, stored: 116, length: 100 };
    for chunk in [tree, sealed] {
        all.push(record("k", Object { size: chunk.length, chunks: vec![chunk], ..plain(MD5, 1) }));
    }
    for modified in [WallTime(0), WallTime(u64::MAX)] {
        all.push(record("k", Object { modified, ..plain(MD5, 1) }));
    }
    for one in all {
        let bytes = version::encode(&one);
        assert_eq!(bytes.first(), Some(&2));
        assert_eq!(version::decode(&name(&one), &bytes).unwrap(), one, "{one:?}");
        if let Some(shown) = Listed::of(&one) {
            assert_eq!(current::decode(&current::encode(&shown)).unwrap(), shown);
        }
        for len in 0..bytes.len() {
            assert!(version::decode(&name(&one), &bytes[..len]).is_err());
        }
        assert!(version::decode(&name(&one), &[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn later_versions_and_unknown_bits_are_refused() {
    let one = record("k", plain(MD5, 9));
    let refused = |bytes: &[u8]| version::decode(&name(&one), bytes).unwrap_err().to_string();
    assert!(refused(&[3, 0]).contains("version row of version 3; this release reads version 2"));
    assert!(refused(&[2, 0x80, 0x80, 0x80, 1]).contains("a bit that says nothing"));
    assert!(current::decode(&[3]).unwrap_err().to_string().contains("of version 3"));
    assert!(current::decode(&[]).is_err() && current::decode(&[2; 20]).is_err());
    assert!(version::decode(b"no key of a version", &version::encode(&one)).is_err());
    // A leaf of more than a chunk can have.
    let mut huge = one.clone();
    if let Statement::Put(object) = &mut huge.statement {
        object.size = 1 << 40;
    }
    let large = version::encode(&huge);
    assert_eq!(version::decode(&name(&huge), &large).unwrap(), huge);
}

fn any_origin() -> impl Strategy<Value = Origin> {
    (0u8..3, prop_oneof![Just(0), Just(u64::MAX), any::<u64>()])
        .prop_map(|(n, incarnation)| Origin { node: NodeId([n; 16]), incarnation })
}

prop_compose! {
    fn any_object()(
        etag in prop_oneof!["[0-9a-f]{32}", "[0-9A-F]{31,33}", "[a-z0-9-]{0,36}"],
        stored in any::<u32>(), more in prop_oneof![Just(0u64), 1..=9u64],
        kind in prop_oneof![Just(ChunkKind::Leaf), Just(ChunkKind::Tree)],
        chunks in 0usize..3, modified in any::<u64>(), content_type in any::<Option<String>>(),
        expires in any::<Option<String>>(), part_count in 0u32..2, tags in any::<Vec<(String, String)>>(),
    ) -> Object {
        let chunk = ChunkRef { id: ChunkId([9; 32]), kind, stored, length: u64::from(stored) + more };
        Object {
            size: chunk.length * chunks as u64, etag, chunks: vec![chunk; chunks],
            headers: Headers { content_type, expires, ..Headers::default() },
            modified: WallTime(modified), part_count, tags, ..Object::default()
        }
    }
}

prop_compose! {
    fn any_record()(
        object in any_object(), called in "[a\0é/]{1,9}", origin in any_origin(), seq in any::<u64>(),
        clock in any::<u64>(), context in proptest::collection::vec((any_origin(), any::<u64>()), 0..4),
        author in "[A-Z]{0,20}", enabled in any::<bool>(), is_delete in any::<bool>(),
    ) -> Record {
        let statement = if is_delete { Statement::Delete } else { Statement::Put(Box::new(object)) };
        Record {
            dot: Dot { origin, seq }, clock: Hlc(clock), context: context.into_iter().collect(), writer: author,
            versioning: if enabled { Versioning::Enabled } else { Versioning::Off },
            statement, ..record(&called, Object::default())
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(one in any_record()) {
        for bytes in [one.encode(), version::encode(&one)] {
            prop_assert_eq!(&version::decode(&name(&one), &bytes).unwrap(), &one);
        }
        if let Some(shown) = Listed::of(&one) {
            for bytes in [codec::encode(&shown), current::encode(&shown)] {
                prop_assert_eq!(&current::decode(&bytes).unwrap(), &shown);
            }
        }
    }

    /// Flips and claims of great lengths anywhere in a good row, and noise: an error, or some record.
    #[test]
    fn hostile_bytes_do_not_panic(
        noise in proptest::collection::vec(any::<u8>(), 0..200), version in 1u8..4,
        at in any::<prop::sample::Index>(), with in any::<u8>(), length in any::<bool>(),
    ) {
        let named = || Named { bucket: BUCKET, key: "k".into(), clock: Hlc(u64::MAX), dot: full().dot };
        let mut rows = [version::encode(&full()), current::encode(&listed(&full()))];
        for bytes in &mut rows {
            let at = at.index(bytes.len());
            match length {
                true => drop(bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])),
                false => bytes[at] ^= with,
            }
        }
        let noise = [&[version][..], &noise].concat();
        for bytes in rows.iter().chain([&noise]) {
            let _record = version::decode_named(named(), bytes);
            let _shown = current::decode(bytes);
        }
        let _named = version::decode(&noise, &rows[0]);
    }
}

/// The same rows as a release before wrote them.
fn as_before(tables: &Tables) -> Tables {
    let (mut before, mut batch) = (tables.clone(), skerry_base::kv::Batch::default());
    for (table, name, value) in tables.iter() {
        match table {
            Table::Versions => batch.put(table, name, version::decode(name, value).unwrap().encode()),
            Table::Current => batch.put(table, name, codec::encode(&current::decode(value).unwrap())),
            _ => {}
        }
    }
    before.apply(&batch);
    before
}

/// All that anybody reads of a bucket.
fn told(view: &dyn View) -> impl PartialEq + core::fmt::Debug + use<> {
    let below = Below { bucket: BUCKET, prefix: "k".into() };
    let none = (&Vector::new(), space::Fingerprint::default(), &Vector::new());
    let cursor = Cursor { max: 100, ..Cursor::default() };
    let heads = (0..9).map(|n| space::resting(view, BUCKET, &format!("k{n}")).unwrap());
    (
        (space::list_current(view, BUCKET, cursor).unwrap(), space::sums(view, BUCKET).unwrap()),
        space::list_versions(view, BUCKET, cursor, None).unwrap(),
        space::census(view, None, 1000).unwrap(),
        space::records_after(view, BUCKET, &Vector::new(), 1 << 20).unwrap(),
        space::changes_below(view, &below, none, 1 << 20).unwrap(),
        space::range_below(view, &below, &space::Asked::default(), 1 << 20).unwrap(),
        heads.collect::<Vec<_>>(),
        space::conflicts(view, None, None, 100).unwrap(),
    )
}

/// Writes of three origins that do not all know of each other, over few keys.
fn history() -> Vec<Entry> {
    let (mut seqs, mut entries) = ([0u64; 3], Vec::new());
    for step in 0..60u64 {
        let (n, key) = ((step % 3) as u8, format!("k{}", step * 7 % 5));
        let seq = seqs[usize::from(n)] + 1;
        seqs[usize::from(n)] = seq;
        let seen = seqs.iter().zip(0u8..).map(|(seq, other)| (origin(other + 1), *seq));
        let dot = Dot { origin: origin(n + 1), seq };
        // Of the others one sees less and less.
        let context = seen.filter(|(other, _)| *other == dot.origin || step % 4 != 0);
        let context = context.map(|(other, upto)| (other, if other == dot.origin { seq - 1 } else { upto }));
        let statement = match step % 11 {
            5 => Statement::Delete,
            8 => Statement::Erase { target: Dot { seq: seq - 1, ..dot } },
            _ => Statement::Put(Box::new(plain(&hex::text(&[step as u8; 16]), 10 + step as u32))),
        };
        let is_erase = matches!(statement, Statement::Erase { .. });
        entries.push(Entry::Record(Box::new(Record {
            bucket: BUCKET,
            dot,
            clock: Hlc(1000 + step),
            context: if is_erase { Vector::from_iter([(dot.origin, seq - 1)]) } else { context.collect() },
            versioning: if step % 2 == 0 { Versioning::Enabled } else { Versioning::Off },
            statement,
            ..record(&key, Object::default())
        })));
        entries.push(Entry::Vector { bucket: BUCKET, upto: Vector::from_iter([(dot.origin, seq)]) });
    }
    entries
}

/// An index that a release before wrote is gone on with: what it says is the same after each step, and once no row of it is
/// left it is the same byte for byte.
#[test]
fn rows_of_both_versions_beside_each_other() {
    let history = history();
    let (mut new, mut mixed) = (Tables::default(), Tables::default());
    for (step, entry) in history.iter().enumerate() {
        apply(&mut new, entry);
        apply(&mut mixed, entry);
        if step % 17 == 9 {
            mixed = as_before(&mixed);
        }
        assert_eq!(format!("{:?}", told(&new)), format!("{:?}", told(&mixed)), "after {step}");
    }
    let count = |tables: &Tables, version| {
        let rows = tables.iter().filter(|(table, ..)| *table == Table::Versions);
        rows.filter(|(_, _, value)| value.first() == Some(&version)).count()
    };
    assert!(count(&mixed, 1) > 3 && count(&mixed, 2) > 3, "both lie there");
    assert_eq!(count(&new, 1), 0);
    for bucket in [BUCKET] {
        while let dots @ [_, ..] = &space::left(&mixed, bucket, 7).unwrap()[..] {
            let entry = Entry::Drop { bucket, dots: dots.to_vec() };
            apply(&mut new, &entry);
            apply(&mut mixed, &entry);
            assert_eq!(format!("{:?}", told(&new)), format!("{:?}", told(&mixed)));
        }
    }
    assert!(new.iter().eq(mixed.iter()));
}

/// `cargo test -p skerry-model what_the_rows -- --nocapture` prints the table of the decision (2026-11-29).
#[test]
fn what_the_rows_of_an_overwritten_object_take() {
    let mut tables = Tables::default();
    let one = record("photos/2026/00000123.jpg", plain(MD5, 4096));
    let first = Record { dot: Dot { seq: 60_000, ..one.dot }, context: Vector::new(), ..one.clone() };
    apply(&mut tables, &Entry::Write(Box::new(first)));
    apply(&mut tables, &Entry::Write(Box::new(one)));
    let before = as_before(&tables);
    let (mut sum, mut sum_before) = (0, 0);
    for ((table, name, value), (.., was)) in tables.iter().zip(before.iter()) {
        if !matches!(table, Table::Versions | Table::Current | Table::Dots) {
            continue;
        }
        println!("{table:?}: key {}, value {} (before {})", name.len() + 1, value.len(), was.len());
        sum += name.len() + 1 + value.len();
        sum_before += name.len() + 1 + was.len();
    }
    println!("of the model: {sum} (before {sum_before})");
    assert!(sum + 150 < sum_before && sum < 390, "{sum}, before {sum_before}");
}
