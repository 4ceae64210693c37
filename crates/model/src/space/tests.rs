//! Listings, fingerprints and feeds against the plain definition, and what they cost.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use proptest::prelude::*;
use skerry_base::kv::{Batch, Reducer, Table, Tables, View, ViewError, Visit};
use skerry_base::{
    BucketId, ChunkId, ChunkKind, ChunkRef, Dot, Hlc, NodeId, Origin, SiteId, Vector, WallTime,
};

use super::*;
use crate::multipart::{Part, Upload, UploadId};
use crate::object::{Headers, Object};
use crate::record::{Record, Scope, Statement, Versioning};
use crate::{Entry, space};

pub(super) const BUCKET: BucketId = BucketId([0xff; 16]);

pub(super) fn origin(n: u8) -> Origin {
    Origin { node: NodeId([n; 16]), incarnation: 1 }
}

pub(super) fn put(n: u8, seq: u64, key: &str) -> Record {
    Record {
        bucket: BUCKET,
        dot: Dot { origin: origin(n), seq },
        key: key.into(),
        clock: Hlc(seq),
        context: Vector::new(),
        versioning: Versioning::Enabled,
        keeps: Vec::new(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: String::new(),
        site: SiteId([0; 16]),
        statement: Statement::Put(Box::default()),
    }
}

pub(super) fn apply(tables: &mut Tables, entry: &Entry) -> Batch {
    let mut batch = Batch::default();
    SpaceReducer.reduce(&entry.encode(), tables, &mut batch).unwrap();
    tables.apply(&batch);
    batch
}

pub(super) fn store(tables: &mut Tables, record: Record) {
    apply(tables, &Entry::Record(Box::new(record)));
}

/// Counts the rows that scans touch.
pub(super) struct Counting<'a>(pub(super) &'a Tables, pub(super) Cell<usize>);

impl View for Counting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.1.set(self.1.get() + 1);
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.0.scan(table, from, to, &mut |key, value| {
            self.1.set(self.1.get() + 1);
            visit(key, value)
        })
    }
}

/// What a listing of all keys shows, by the book.
fn by_the_book(keys: &BTreeSet<String>, prefix: &str, delimiter: Option<&str>) -> Vec<String> {
    let fold = |key: &String| {
        let tail = key.strip_prefix(prefix)?;
        let cut = delimiter.and_then(|delimiter| tail.find(delimiter).map(|at| at + delimiter.len()));
        Some(cut.map_or(key.clone(), |cut| key[..prefix.len() + cut].to_owned()))
    };
    let mut shown: Vec<String> = keys.iter().filter_map(fold).collect();
    shown.dedup();
    shown
}

fn any_key() -> impl Strategy<Value = String> {
    "[ab/\0é]{1,5}"
}

proptest! {
    #[test]
    fn pages_add_up_to_the_listing(
        keys in proptest::collection::btree_set(any_key(), 0..30), prefix in "[ab/]{0,2}",
        delimiter in prop_oneof![Just(None), Just(Some("/")), Just(Some("b/")), Just(Some(""))], max in 1usize..6,
    ) {
        let mut tables = Tables::default();
        for (seq, key) in (1..).zip(&keys) {
            store(&mut tables, put(1, seq, key));
        }
        let folding = delimiter.filter(|delimiter| !delimiter.is_empty());
        let expected = by_the_book(&keys, &prefix, folding);
        let (mut shown, mut versions) = (Vec::new(), Vec::new());
        let mut after: Option<String> = None;
        loop {
            let cursor = Cursor { prefix: &prefix, start_after: after.as_deref(), delimiter, max, ..Cursor::default() };
            let page = list_current(&tables, BUCKET, cursor).unwrap();
            let mut merged: Vec<String> = page.keys.into_iter().map(|(key, _)| key).chain(page.prefixes).collect();
            merged.sort();
            prop_assert!(merged.len() == max || page.next.is_none());
            shown.extend(merged);
            after = page.next;
            if after.is_none() { break }
        }
        prop_assert_eq!(&shown, &expected);
        let mut next: Option<(String, Option<VersionId>)> = None;
        loop {
            let start = next.as_ref().map(|(key, _)| key.as_str());
            let cursor = Cursor { prefix: &prefix, start_after: start, delimiter, max, ..Cursor::default() };
            let page = list_versions(&tables, BUCKET, cursor, next.as_ref().and_then(|next| next.1)).unwrap();
            let keys = page.versions.into_iter().map(|shown| shown.record.key);
            let mut merged: Vec<String> = keys.chain(page.prefixes).collect();
            merged.sort();
            versions.extend(merged);
            next = page.next;
            if next.is_none() { break }
        }
        prop_assert_eq!(&versions, &expected);
    }

    #[test]
    fn start_after_any_key(
        keys in proptest::collection::btree_set(any_key(), 0..30), after in any_key(), folded in any::<bool>(),
    ) {
        let mut tables = Tables::default();
        for (seq, key) in (1..).zip(&keys) {
            store(&mut tables, put(1, seq, key));
        }
        let delimiter = folded.then_some("/");
        let cursor = Cursor { prefix: "", start_after: Some(&after), delimiter, max: 99, ..Cursor::default() };
        let page = list_current(&tables, BUCKET, cursor).unwrap();
        let folds = delimiter.is_some() && after.find('/') == Some(after.len() - 1);
        let later = keys.iter().filter(|key| **key > after && !(folds && key.starts_with(&after))).cloned().collect();
        let mut merged: Vec<String> = page.keys.into_iter().map(|(key, _)| key).chain(page.prefixes).collect();
        merged.sort();
        prop_assert_eq!(merged, by_the_book(&later, "", delimiter));
    }

    #[test]
    fn fingerprints_of_any_range(
        dots in proptest::collection::btree_set((0u8..3, 1u64..4000), 0..40),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        from in (0u8..3, 0u64..4000), to in proptest::option::of((0u8..4, 0u64..4000)),
    ) {
        let mut tables = Tables::default();
        let mut dots: Vec<Dot> = dots.into_iter().map(|(n, seq)| Dot { origin: origin(n), seq }).collect();
        for dot in &dots {
            store(&mut tables, Record { dot: *dot, ..put(0, dot.seq, &dot.seq.to_string()) });
        }
        for gone in gone {
            if !dots.is_empty() {
                let dot = dots.remove(gone.index(dots.len()));
                apply(&mut tables, &Entry::Drop { bucket: BUCKET, dots: vec![dot] });
            }
        }
        let of = |(n, seq)| Dot { origin: origin(n), seq };
        for range in [DotRange { from: of(from), to: to.map(of) }, DotRange::ALL] {
            let inside: Vec<Dot> = dots.iter().copied().filter(|dot| range.contains(*dot)).collect();
            let naive = inside.iter().map(|dot| Fingerprint::of(*dot)).fold(Fingerprint::default(), Fingerprint::plus);
            prop_assert_eq!(fingerprint(&tables, BUCKET, range).unwrap(), naive);
            prop_assert_eq!(&dots_in(&tables, BUCKET, range, 3).unwrap(), &inside[..inside.len().min(3)]);
            prop_assert_eq!(dots_in(&tables, BUCKET, range, 99).unwrap(), inside);
        }
    }
}

/// The version 1 form of what was added last: it pins how many variants come before.
#[test]
fn the_entry_of_a_leave_v1_fixture() {
    let entry = Entry::Leave { bucket: BucketId([3; 16]) };
    let hex = skerry_base::hex::text(&entry.encode());
    assert_eq!(hex, format!("0109{}", "03".repeat(16)));
    assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
}

/// What a bucket that was left still says at this node.
fn standing(tables: &Tables) -> (Vector, usize, usize) {
    let dots = dots_in(tables, BUCKET, DotRange::ALL, 99).unwrap();
    (vector(tables, BUCKET).unwrap(), dots.len(), loose(tables, BUCKET).unwrap().len())
}

#[test]
fn who_leaves_vouches_for_nothing_and_drops_whole_keys() {
    let mut tables = Tables::default();
    for (seq, key) in (1..).zip(["a", "a", "a", "b", "b", "c"]) {
        let mut record = put(1, seq, key);
        record.context = if seq > 1 { Vector::from_iter([(origin(1), seq - 1)]) } else { Vector::new() };
        store(&mut tables, record);
    }
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto: Vector::from_iter([(origin(1), 6)]) });
    assert_eq!(standing(&tables), (Vector::from_iter([(origin(1), 6)]), 6, 0));
    let source = origin(9);
    let progress = Progress { source, upto: Vector::from_iter([(origin(2), 4)]), dead: Vec::new() };
    apply(&mut tables, &Entry::Progress { bucket: BUCKET, source, progress: Some(progress) });
    apply(&mut tables, &Entry::Leave { bucket: BUCKET });
    assert_eq!(standing(&tables), (Vector::new(), 6, 1), "all of it is loose");
    assert_eq!(seen(&tables, BUCKET, source).unwrap(), Vector::new(), "the round is over");
    // Three of one key, then two and one: never a part of a key that fits.
    let mut shown = Vec::new();
    loop {
        let dots = left(&tables, BUCKET, 4).unwrap();
        if dots.is_empty() {
            break;
        }
        apply(&mut tables, &Entry::Drop { bucket: BUCKET, dots });
        let page = list_current(&tables, BUCKET, Cursor { max: 9, ..Cursor::default() }).unwrap();
        shown.push(page.keys.into_iter().map(|(key, listed)| (key, listed.dot.seq)).collect::<Vec<_>>());
    }
    assert_eq!(shown, [vec![("b".to_owned(), 5), ("c".to_owned(), 6)], vec![]]);
    assert_eq!(standing(&tables), (Vector::new(), 0, 0));
    assert_eq!(sums(&tables, BUCKET).unwrap(), Sums::default());
    assert_eq!(buckets(&tables).unwrap(), [], "nothing is left of the bucket");
    // What comes again is new: nothing is taken for dead.
    assert_eq!(accept(&tables, &put(1, 1, "a")).unwrap(), Verdict::New);
}

#[test]
fn of_a_key_with_very_many_versions_the_oldest_go_first() {
    let mut tables = Tables::default();
    for seq in 1..=5 {
        let mut record = put(1, seq, "a");
        record.context = if seq > 1 { Vector::from_iter([(origin(1), seq - 1)]) } else { Vector::new() };
        store(&mut tables, record);
    }
    let seqs: Vec<u64> = left(&tables, BUCKET, 2).unwrap().iter().map(|dot| dot.seq).collect();
    assert_eq!(seqs, [1, 2]);
    assert_eq!(left(&tables, BUCKET, 9).unwrap().len(), 5);
}

/// The seqs of a step, what origins 1 and 2 are complete to before and after it, and whether more comes.
type Cut = (Vec<u64>, [u64; 2], [u64; 2], bool);

/// However long.
const ALL: usize = usize::MAX;

/// Steps of an answer with these records as seqs of origins 1 and 2, complete to 1:9 and 2:7, seen to 1:2; each is as long as its seq.
fn cut(records: &[(u8, u64)], most: (usize, usize), more: bool) -> Vec<Cut> {
    let vector = |one, two| Vector::from_iter([(origin(1), one), (origin(2), two)]);
    let records = records.iter().map(|&(node, seq)| put(node, seq, "a")).collect();
    let incoming =
        Incoming { bucket: BUCKET, source: origin(9), base: vector(2, 0), records, upto: vector(9, 7), more };
    let ends = |vector: &Vector| [vector.get(origin(1)), vector.get(origin(2))];
    steps(incoming, most, |record: &Record| record.dot, |record| record.dot.seq as usize)
        .map(|step| {
            let seqs = step.records.iter().map(|record| record.dot.seq).collect();
            (seqs, ends(&step.base), ends(&step.upto), step.more)
        })
        .collect()
}

#[test]
fn an_answer_in_steps_is_answers_that_follow_on_each_other() {
    let whole = cut(&[(1, 3), (1, 5), (2, 6)], (8, ALL), false);
    assert_eq!(whole, [(vec![3, 5, 6], [2, 0], [9, 7], false)]);
    assert_eq!(cut(&[], (8, ALL), true), [(vec![], [2, 0], [9, 7], true)], "it passes over all");
    // Out of order, and with 1:12 from beyond the source's vector: that comes first, and nothing is complete with it.
    let steps = cut(&[(2, 6), (1, 5), (1, 3), (1, 12), (2, 2)], (1, ALL), false);
    let expected = [
        (vec![12], [2, 0], [0, 0], true),
        (vec![3], [2, 0], [3, 0], true),
        (vec![5], [3, 0], [5, 0], true),
        (vec![2], [5, 0], [9, 2], true),
        (vec![6], [9, 2], [9, 7], false),
    ];
    assert_eq!(steps, expected);
    assert_eq!(
        cut(&[(1, 3), (1, 5), (2, 6)], (2, ALL), true),
        [(vec![3, 5], [2, 0], [5, 0], true), (vec![6], [5, 0], [9, 7], true),]
    );
}

#[test]
fn a_step_is_cut_where_its_records_are_too_long_together() {
    let all = [(1, 3), (1, 4), (1, 5), (1, 9), (2, 1), (2, 2), (2, 3)];
    let seqs = |most| cut(&all, most, false).into_iter().map(|(seqs, ..)| seqs).collect::<Vec<_>>();
    // One that is too long goes alone.
    assert_eq!(seqs((8, 8)), [vec![3, 4], vec![5], vec![9], vec![1, 2, 3]]);
    assert_eq!(seqs((2, 8)), [vec![3, 4], vec![5], vec![9], vec![1, 2], vec![3]]);
    assert_eq!(seqs((0, 0)).len(), 7, "one at least");
}

#[test]
fn spans_hold_their_ends() {
    let dot = |seq| Dot { origin: origin(1), seq };
    let span = DotRange::span(origin(1), 3, 5);
    assert_eq!((1..9).filter(|&seq| span.contains(dot(seq))).collect::<Vec<_>>(), [3, 4, 5]);
    let open = DotRange::span(origin(1), 3, u64::MAX);
    assert!(open.contains(dot(u64::MAX)) && !open.contains(Dot { origin: origin(2), seq: 3 }));
}

#[test]
fn common_prefixes_are_skipped_not_scanned() {
    let mut tables = Tables::default();
    for seq in 1..=3000 {
        store(&mut tables, put(1, seq, &format!("{}/{seq}", seq % 3)));
    }
    let view = Counting(&tables, Cell::new(0));
    let cursor = Cursor { delimiter: Some("/"), max: 1000, ..Cursor::default() };
    let page = list_current(&view, BUCKET, cursor).unwrap();
    assert_eq!(page.prefixes, ["0/", "1/", "2/"]);
    assert!(view.1.get() <= 4 * 128, "{} rows", view.1.get());
    let view = Counting(&tables, Cell::new(0));
    list_current(&view, BUCKET, Cursor { prefix: "1/", max: 10, ..Cursor::default() }).unwrap();
    assert!(view.1.get() <= 12, "{} rows", view.1.get());
}

/// A key with many versions, each over the one before.
fn chain(key: &str, versions: u64) -> Tables {
    let mut tables = Tables::default();
    for seq in 1..=versions {
        let context = Vector::from_iter([(origin(1), seq - 1)]);
        store(&mut tables, Record { context, ..put(1, seq, key) });
    }
    tables
}

#[test]
fn a_page_of_versions_reads_what_is_on_it() {
    let tables = chain("dir/hot", 2000);
    let view = Counting(&tables, Cell::new(0));
    let middle = VersionId::Dot(Dot { origin: origin(1), seq: 1000 });
    let cursor = Cursor { start_after: Some("dir/hot"), max: 10, ..Cursor::default() };
    let page = list_versions(&view, BUCKET, cursor, Some(middle)).unwrap();
    let shown: Vec<u64> = page.versions.iter().map(|shown| shown.record.dot.seq).collect();
    assert_eq!(shown, (990..1000).rev().collect::<Vec<_>>());
    assert!(view.1.get() <= 20, "{} rows for ten versions", view.1.get());
    let view = Counting(&tables, Cell::new(0));
    let page = list_versions(&view, BUCKET, Cursor { max: 10, ..Cursor::default() }, None).unwrap();
    assert_eq!(page.versions.len(), 10);
    assert!(view.1.get() <= 20, "{} rows for the first page", view.1.get());
    let view = Counting(&tables, Cell::new(0));
    let folded = Cursor { delimiter: Some("/"), max: 10, ..Cursor::default() };
    assert_eq!(list_versions(&view, BUCKET, folded, None).unwrap().prefixes, ["dir/"]);
    assert!(view.1.get() <= 20, "{} rows for a common prefix", view.1.get());
}

/// Keys of which only a tombstone rests, then one that is shown.
fn resting(tombstones: u64) -> Tables {
    let mut tables = Tables::default();
    for seq in 1..=tombstones {
        store(
            &mut tables,
            Record {
                versioning: Versioning::Off,
                statement: Statement::Delete,
                ..put(1, seq, &format!("dir/{seq:06}"))
            },
        );
    }
    store(&mut tables, put(1, tombstones + 1, "dir/z"));
    tables
}

#[test]
fn a_page_of_versions_passes_over_a_bounded_number_of_resting_deletes() {
    let tables = resting(1000);
    for delimiter in [None, Some("/")] {
        let (mut after, mut shown, mut pages) = (None::<(String, Option<VersionId>)>, Vec::new(), 0);
        loop {
            let view = Counting(&tables, Cell::new(0));
            let start_after = after.as_ref().map(|(key, _)| key.as_str());
            let cursor = Cursor { start_after, delimiter, max: 10, skips: Some(100), ..Cursor::default() };
            let version = after.as_ref().and_then(|(_, version)| *version);
            let page = list_versions(&view, BUCKET, cursor, version).unwrap();
            assert!(view.1.get() <= 100 * 4 + 20, "{} rows for 100 keys", view.1.get());
            pages += 1;
            shown.extend(page.versions.iter().map(|shown| shown.record.key.clone()));
            shown.extend(page.prefixes);
            let Some((next, version)) = page.next else { break };
            // Clients take a version with each key; below a prefix it is none of the key that is shown.
            assert_eq!(version, delimiter.is_none().then_some(VersionId::Null));
            after = Some((next, version));
        }
        let expected = if delimiter.is_some() { "dir/" } else { "dir/z" };
        assert_eq!((shown, pages), (vec![expected.to_owned()], 11), "{delimiter:?}");
        let cursor = Cursor { delimiter, max: 10, ..Cursor::default() };
        let page = list_versions(&tables, BUCKET, cursor, None).unwrap();
        assert_eq!((page.versions.len() + page.prefixes.len(), page.next), (1, None));
    }
}

#[test]
fn a_put_reads_and_writes_a_bounded_number_of_rows() {
    let mut tables = Tables::default();
    for seq in 1..=500 {
        let context = Vector::from_iter([(origin(1), seq - 1)]);
        store(&mut tables, Record { context, ..put(1, seq, "versions") });
    }
    let upto = Vector::from_iter([(origin(1), 500)]);
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto });
    let view = Counting(&tables, Cell::new(0));
    let mut batch = Batch::default();
    let context = Vector::from_iter([(origin(1), 500)]);
    let entry = Entry::Write(Box::new(Record { context, clock: Hlc(9_000), ..put(1, 501, "versions") }));
    SpaceReducer.reduce(&entry.encode(), &view, &mut batch).unwrap();
    assert!(view.1.get() <= 16, "{} reads", view.1.get());
    assert_eq!(batch.writes.len(), 7, "current, version, dot, vector, sums, fingerprint, own clock");
}

#[test]
fn a_feed_is_capped_and_goes_on() {
    let mut tables = Tables::default();
    for seq in 1..=2500 {
        apply(&mut tables, &Entry::Write(Box::new(put(1, seq, &seq.to_string()))));
        if seq % 3 == 0 {
            apply(&mut tables, &Entry::Write(Box::new(put(2, seq / 3, &format!("x{seq}")))));
        }
    }
    let one = put(1, 1, "1").encode().len();
    let (mut seen, mut found) = (Vector::new(), Vec::new());
    let mut answers = 0;
    loop {
        let answer = records_after(&tables, BUCKET, &seen, 100 * one).unwrap();
        assert!(answer.items.iter().map(|item| item.record.encode().len()).sum::<usize>() <= 100 * one);
        found.extend(answer.items.iter().map(|item| item.dot));
        seen.merge(&answer.upto);
        answers += 1;
        if !answer.more {
            break;
        }
    }
    assert!(answers > 30);
    assert!(found.is_sorted());
    assert_eq!(found.len(), 2500 + 833);
    assert_eq!(seen, vector(&tables, BUCKET).unwrap());
    assert_eq!(records_after(&tables, BUCKET, &Vector::new(), 0).unwrap().items.len(), 1);
    assert!(records_after(&tables, BUCKET, &seen, 99).unwrap().items.is_empty());
}

#[test]
fn small_bodies_that_go_along_count_into_what_a_feed_answers() {
    let mut tables = Tables::default();
    let one = |seq| Record {
        statement: Statement::Put(Box::new(Object { size: 200, ..Object::default() })),
        ..put(1, seq, &seq.to_string())
    };
    for seq in 1..=100 {
        apply(&mut tables, &Entry::Write(Box::new(one(seq))));
    }
    let whole = one(100).encode().len() + 200;
    let answer = records_after(&tables, BUCKET, &Vector::new(), 20 * whole).unwrap();
    assert!((20..22).contains(&answer.items.len()), "{}", answer.items.len());
}

#[test]
fn a_foreign_record_does_not_advance_the_vector() {
    let mut tables = Tables::default();
    store(&mut tables, put(1, 1, "a"));
    assert!(vector(&tables, BUCKET).unwrap().is_empty());
    let upto = Vector::from_iter([(origin(1), 3)]);
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto: upto.clone() });
    assert_eq!(vector(&tables, BUCKET).unwrap(), upto);
    assert_eq!(accept(&tables, &put(1, 1, "a")).unwrap(), Verdict::Duplicate);
    assert_eq!(accept(&tables, &put(1, 2, "b")).unwrap(), Verdict::Dead);
    assert_eq!(accept(&tables, &put(1, 4, "b")).unwrap(), Verdict::New);
    let lower = Vector::from_iter([(origin(1), 2)]);
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto: lower });
    assert_eq!(vector(&tables, BUCKET).unwrap(), upto);
}

#[test]
fn the_own_clock_is_remembered_but_not_the_future() {
    let mut tables = Tables::default();
    let write = |record: Record| Entry::Write(Box::new(record));
    assert_eq!(own_clock(&tables).unwrap(), Hlc(0));
    apply(&mut tables, &write(Record { clock: Hlc(50), ..put(1, 1, "a") }));
    assert_eq!(own_clock(&tables).unwrap(), Hlc(50));
    store(&mut tables, Record { clock: Hlc(9_000), ..put(2, 1, "a") });
    apply(&mut tables, &write(Record { clock: Hlc(9_001), ..put(1, 2, "a") }));
    assert_eq!(own_clock(&tables).unwrap(), Hlc(50));
    apply(&mut tables, &write(Record { clock: Hlc(60), ..put(1, 3, "b") }));
    apply(&mut tables, &write(Record { clock: Hlc(55), ..put(1, 4, "c") }));
    assert_eq!(own_clock(&tables).unwrap(), Hlc(60));
}

/// Every write passes here, nearly all of them with nothing.
#[test]
fn a_key_rests_on_its_heads_and_on_the_latest_erases() {
    let mut tables = Tables::default();
    let version = |seq| Dot { origin: origin(1), seq };
    for seq in 1..=100 {
        let context = Vector::from_iter([(origin(1), seq - 1)]);
        store(&mut tables, Record { context, ..put(1, seq, "key") });
    }
    let rests = |tables: &Tables| -> Vec<Dot> {
        let records = space::resting(tables, BUCKET, "key").unwrap();
        records.into_iter().map(|record| record.dot).collect()
    };
    assert_eq!(rests(&tables), [version(100)]);
    let erase = |key: &str, seq: u64, target: Dot| Record {
        statement: Statement::Erase { target },
        clock: Hlc(100 + seq),
        ..put(2, seq, key)
    };
    // Not the newest first: the last that is erased is the head.
    for seq in 1..=70 {
        store(&mut tables, erase("key", seq, version(seq + 30)));
    }
    store(&mut tables, erase("other", 71, version(300)));
    let found = rests(&tables);
    assert_eq!(found[0], version(30), "all behind it are erased");
    let latest: Vec<Dot> = (7..=70).rev().map(|seq| Dot { origin: origin(2), seq }).collect();
    assert_eq!(found[1..], latest[..]);
    // Of versions that are overwritten erases are among what a write looks at: they stand there once.
    let null = Record { versioning: Versioning::Off, clock: Hlc(200), ..put(3, 1, "null") };
    let erased = Record { versioning: Versioning::Off, ..erase("null", 72, null.dot) };
    store(&mut tables, null);
    store(&mut tables, erased.clone());
    assert_eq!(space::resting(&tables, BUCKET, "null").unwrap(), [erased]);
}

#[test]
fn keeping_nothing_reads_nothing() {
    struct Unread;
    impl View for Unread {
        fn get(&self, _: Table, _: &[u8]) -> Result<Option<Bytes>, ViewError> {
            Err(ViewError::Unreadable("read".into()))
        }

        fn scan(
            &self,
            _: Table,
            _: Bound<&[u8]>,
            _: Bound<&[u8]>,
            _: &mut Visit<'_>,
        ) -> Result<(), ViewError> {
            Err(ViewError::Unreadable("read".into()))
        }
    }
    assert!(keep(&Unread, BUCKET, Vec::new()).unwrap().is_empty());
    assert!(keep(&Unread, BUCKET, vec![put(1, 1, "a")]).is_err());
}

#[test]
fn a_key_is_listed_as_long_as_a_read_gets_an_object() {
    let mut tables = Tables::default();
    let mut check = |record: Option<Record>, listed| {
        record.into_iter().for_each(|record| store(&mut tables, record));
        assert_eq!(is_listed(&tables, BUCKET, "a").unwrap(), listed);
        let current = current(&tables, BUCKET, "a").unwrap();
        assert_eq!(current.is_some_and(|record| record.object().is_some()), listed);
    };
    check(None, false);
    check(Some(put(1, 1, "a")), true);
    let context = Vector::from_iter([(origin(1), 1)]);
    check(Some(Record { context, statement: Statement::Delete, ..put(1, 2, "a") }), false);
    check(Some(put(2, 1, "ab")), false);
}

#[test]
fn buckets_with_anything_in_them() {
    let mut tables = Tables::default();
    for n in [3, 1, 255, 2] {
        for seq in 1..5 {
            store(&mut tables, Record { bucket: BucketId([n; 16]), ..put(1, seq, &seq.to_string()) });
        }
    }
    assert_eq!(buckets(&tables).unwrap(), [1, 2, 3, 255].map(|n| BucketId([n; 16])));
}

#[test]
fn conflicts_are_listed_by_bucket_and_page() {
    let mut tables = Tables::default();
    let etag = |etag: &str| Statement::Put(Box::new(Object { etag: etag.into(), ..Object::default() }));
    for key in ["a", "b", "c"] {
        let seq = u64::from(key.as_bytes()[0]);
        store(&mut tables, put(1, seq, key));
        store(&mut tables, Record { statement: etag("other"), ..put(2, seq, key) });
        store(&mut tables, put(3, seq, key));
    }
    let all = conflicts(&tables, None, None, 99).unwrap();
    assert_eq!(all.iter().map(|conflict| conflict.key.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(all.iter().all(|conflict| conflict.losers.len() == 1), "equal content is no conflict");
    let page = conflicts(&tables, Some(BUCKET), Some((BUCKET, "a")), 1).unwrap();
    assert_eq!(page, all[1..2]);
    assert!(conflicts(&tables, Some(BucketId([1; 16])), None, 99).unwrap().is_empty());
    assert_eq!(space::sums(&tables, BUCKET).unwrap().conflicts, 3);
}

#[test]
fn uploads_and_parts() {
    let mut tables = Tables::default();
    let id = |n: u8| UploadId { site: SiteId([1; 16]), draw: [n; 16] };
    let begin = |key: &str, n: u8| Upload {
        id: id(n),
        bucket: BUCKET,
        key: key.into(),
        started: WallTime(0),
        writer: "w".into(),
        headers: Headers::default(),
        user_metadata: Vec::new(),
        tags: Vec::new(),
        checksum: None,
    };
    for (key, n) in [("a", 1), ("a", 2), ("b", 0)] {
        apply(&mut tables, &Entry::Upload(Box::new(begin(key, n))));
    }
    let other = BucketId([3; 16]);
    apply(&mut tables, &Entry::Upload(Box::new(Upload { bucket: other, ..begin("z", 4) })));
    assert_eq!(uploading(&tables).unwrap(), [other, BUCKET]);
    assert!(uploading(&Tables::default()).unwrap().is_empty());
    let ids = |list: Vec<Upload>| list.into_iter().map(|upload| upload.id.draw[0]).collect::<Vec<_>>();
    assert_eq!(ids(list_uploads(&tables, BUCKET, "", None, 9).unwrap()), [1, 2, 0]);
    assert_eq!(ids(list_uploads(&tables, BUCKET, "", Some(("a", Some(id(1)))), 9).unwrap()), [2, 0]);
    assert_eq!(ids(list_uploads(&tables, BUCKET, "", Some(("a", None)), 9).unwrap()), [0]);
    assert_eq!(ids(list_uploads(&tables, BUCKET, "a", None, 1).unwrap()), [1]);
    let chunk = |n: u8| ChunkRef { id: ChunkId([n; 32]), kind: ChunkKind::Leaf, stored: 1, length: 1 };
    let part_of = |number: u32, n: u8| Part {
        bucket: BUCKET,
        upload: id(1),
        number,
        size: 1,
        md5: [n; 16],
        chunks: vec![chunk(n)],
        checksums: Vec::new(),
        modified: WallTime(0),
    };
    let mut counts: BTreeMap<ChunkId, i32> = BTreeMap::new();
    let mut count = |batch: &Batch| {
        batch.references.iter().for_each(|one| *counts.entry(one.chunk).or_default() += one.delta);
        counts.clone()
    };
    for (number, n) in [(300, 1), (2, 2), (300, 3)] {
        count(&apply(&mut tables, &Entry::Part(Box::new(part_of(number, n)))));
    }
    let numbers =
        |list: Vec<Part>| list.into_iter().map(|part| (part.number, part.md5[0])).collect::<Vec<_>>();
    assert_eq!(numbers(list_parts(&tables, BUCKET, id(1), 0, 9).unwrap()), [(2, 2), (300, 3)]);
    assert_eq!(numbers(list_parts(&tables, BUCKET, id(1), 2, 9).unwrap()), [(300, 3)]);
    assert_eq!(part(&tables, BUCKET, id(1), 2).unwrap(), Some(part_of(2, 2)));
    let left = count(&apply(&mut tables, &Entry::UploadEnd { bucket: BUCKET, key: "a".into(), id: id(1) }));
    assert!(left.values().all(|&count| count == 0));
    assert_eq!(upload(&tables, BUCKET, "a", id(1)).unwrap(), None);
    assert!(list_parts(&tables, BUCKET, id(1), 0, 9).unwrap().is_empty());
    assert!(upload(&tables, BUCKET, "a", id(2)).unwrap().is_some());
}

#[test]
fn version_ids_print_and_parse() {
    let dot = VersionId::Dot(Dot { origin: origin(7), seq: 9 });
    assert_eq!(dot.to_string().parse::<VersionId>().unwrap(), dot);
    assert_eq!("null".parse::<VersionId>().unwrap(), VersionId::Null);
    assert!("nil".parse::<VersionId>().is_err());
}

/// Fixtures of version 1 must be read for ever: a journal outlives the release that wrote it.
#[test]
fn entry_v1_fixtures() {
    let dot = Dot { origin: origin(1), seq: 2 };
    let id = UploadId { site: SiteId([4; 16]), draw: [5; 16] };
    let fixtures = [
        (
            "0102ffffffffffffffffffffffffffffffff01010101010101010101010101010101010102",
            Entry::Vector { bucket: BUCKET, upto: Vector::from_iter([(dot.origin, 2)]) },
        ),
        (
            "0103ffffffffffffffffffffffffffffffff01010101010101010101010101010101010102",
            Entry::Drop { bucket: BUCKET, dots: vec![dot] },
        ),
        (
            "0105ffffffffffffffffffffffffffffffff016b0404040404040404040404040404040405050505050505050505050505050505",
            Entry::UploadEnd { bucket: BUCKET, key: "k".into(), id },
        ),
        ("0107016b010176", Entry::Local { key: "k".into(), value: Some("v".into()) }),
    ];
    for (fixture, entry) in fixtures {
        let hex = skerry_base::hex::text(&entry.encode());
        assert_eq!(hex, fixture.replace(' ', ""));
        assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
    }
    let record = put(1, 2, "k");
    let tagged = |tag: u8| [&[1, tag][..], &record.encode()[1..]].concat();
    assert_eq!(Entry::decode(&tagged(0)).unwrap(), Entry::Write(Box::new(record.clone())));
    assert_eq!(Entry::decode(&tagged(1)).unwrap(), Entry::Record(Box::new(record.clone())));
    assert_eq!(Entry::encode_admitted(&record.encode()), Entry::Record(Box::new(record.clone())).encode());
    assert!(Entry::decode(&tagged(8)).is_err());
    let mut batch = Batch::default();
    assert!(SpaceReducer.reduce(&tagged(8), &Tables::default(), &mut batch).is_err());
}

#[test]
fn a_census_visits_every_living_version_once_with_its_standing() {
    let mut tables = Tables::default();
    // Two versions in a row, two written without each other, one deleted.
    store(&mut tables, put(1, 1, "a"));
    let mut second = put(1, 2, "a");
    second.context = Vector::from_iter([(origin(1), 1)]);
    store(&mut tables, second);
    store(&mut tables, put(1, 3, "b"));
    let mut other = put(2, 1, "b");
    other.statement = Statement::Put(Box::new(Object { etag: "other".into(), ..Object::default() }));
    store(&mut tables, other);
    store(&mut tables, put(1, 4, "c"));
    let mut delete = put(1, 5, "c");
    delete.statement = Statement::Delete;
    delete.context = Vector::from_iter([(origin(1), 4)]);
    store(&mut tables, delete);
    let expected = [
        ("a", origin(1), 2, Standing::Current),
        ("a", origin(1), 1, Standing::Noncurrent),
        ("b", origin(1), 3, Standing::Current),
        ("b", origin(2), 1, Standing::Conflict),
    ];
    for look in [1, 2, 3, 1000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = census(&tables, after.as_deref(), look).unwrap();
            let puts = page.versions.into_iter().filter(|(record, _)| record.object().is_some());
            found.extend(
                puts.map(|(record, standing)| {
                    (record.key.clone(), record.dot.origin, record.dot.seq, standing)
                }),
            );
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let shown: Vec<_> =
            found.iter().map(|(key, origin, seq, is)| (key.as_str(), *origin, *seq, *is)).collect();
        assert_eq!(shown[..4], expected, "pages of {look}");
        // What is deleted is an older version as long as it is kept.
        assert!(shown[4..].iter().all(|(key, .., is)| *key == "c" && *is == Standing::Noncurrent));
    }
}

/// Remembers the stretches of dots that scans asked for.
struct Stretches<'a>(&'a Tables, std::cell::RefCell<Vec<(Vec<u8>, Vec<u8>)>>);

impl View for Stretches<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        if let (Table::Dots, Bound::Included(from), Bound::Excluded(to)) = (table, from, to) {
            self.1.borrow_mut().push((from.to_vec(), to.to_vec()));
        }
        self.0.scan(table, from, to, visit)
    }
}

/// A scan costs more than all else that a record of a feed does to the tables: who takes an answer asks once what speaks of
/// its versions, and each of them asks for nothing beyond that.
#[test]
fn what_speaks_of_the_records_of_an_answer_is_asked_for_in_one_piece() {
    let tables = Tables::default();
    let records: Vec<Record> = (1..=9).map(|seq| put(1, seq, &format!("key-{seq}"))).collect();
    let upto = Vector::from_iter([(origin(1), 9)]);
    let (base, source) = (Vector::new(), origin(1));
    let incoming = Incoming { bucket: BUCKET, source, base, records, upto, more: true };
    let view = Stretches(&tables, Default::default());
    let entries = take(&view, incoming).unwrap().unwrap();
    let asked = view.1.take();
    let foreseen =
        |(from, to): &(Vec<u8>, Vec<u8>)| asked.iter().any(|(start, end)| start <= from && to <= end);
    assert_eq!(asked.len(), 2, "what is there, and what speaks of it");
    for entry in entries {
        SpaceReducer.reduce(&entry.encode(), &view, &mut Batch::default()).unwrap();
    }
    let each = view.1.take();
    assert_eq!(each.len(), 9);
    assert!(each.iter().all(foreseen));
}

/// Own writes ask at once for what speaks of those behind them, of which there can be nothing.
#[test]
fn of_own_writes_the_first_asks_for_all_that_follow() {
    let tables = Tables::default();
    let view = Stretches(&tables, Default::default());
    for seq in 1..=3 {
        let entry = Entry::Write(Box::new(put(1, seq, &format!("key-{seq}"))));
        SpaceReducer.reduce(&entry.encode(), &view, &mut Batch::default()).unwrap();
    }
    let asked = view.1.take();
    assert!(asked[1..].iter().all(|(from, to)| *from >= asked[0].0 && *to <= asked[0].1));
}
