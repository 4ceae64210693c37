//! What a followed prefix costs a member, and what no answer brings back.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::ops::Bound;

use bytes::Bytes;
use skerry_base::kv::{Batch, Reducer, Table, Tables, View, ViewError, Visit};
use skerry_base::{BucketId, Dot, Hlc, NodeId, Origin, SiteId, Vector};

use super::super::{
    Asked, Below, Changes, Fingerprint, Range, SpaceError, SpaceReducer, Subscription, changes_below, extent,
    followed, keep, range_below, rested, take_changes, take_range,
};
use super::{NAMES, SCANNED};
use crate::Entry;
use crate::record::{Record, Scope, Statement, Versioning};

const BUCKET: BucketId = BucketId([7; 16]);

fn below() -> Below {
    Below { bucket: BUCKET, prefix: "oslo/".into() }
}

fn origin(node: u8) -> Origin {
    Origin { node: NodeId([node; 16]), incarnation: 1 }
}

fn dot(node: u8, seq: u64) -> Dot {
    Dot { origin: origin(node), seq }
}

fn put(node: u8, seq: u64, key: &str) -> Record {
    Record {
        bucket: BUCKET,
        dot: dot(node, seq),
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

fn apply(tables: &mut Tables, entries: &[Entry]) {
    for entry in entries {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), tables, &mut batch).unwrap();
        tables.apply(&batch);
    }
}

/// Records of one origin, key after key, of seqs from the first on.
fn store(tables: &mut Tables, (node, first): (u8, u64), keys: impl Iterator<Item = String>) {
    for (seq, key) in (first..).zip(keys) {
        apply(tables, &[Entry::Record(Box::new(put(node, seq, &key)))]);
    }
}

fn cover(tables: &mut Tables, node: u8, seq: u64) {
    let upto = Vector::from_iter([(origin(node), seq)]);
    apply(tables, &[Entry::Vector { bucket: BUCKET, upto }]);
}

/// Counts the rows that scans touch.
struct Counting<'a>(&'a Tables, Cell<usize>);

impl View for Counting<'_> {
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
        self.0.scan(table, from, to, &mut |key, value| {
            self.1.set(self.1.get() + 1);
            visit(key, value)
        })
    }
}

fn changes(tables: &Tables) -> Result<Changes, SpaceError> {
    let (seen, horizon) = (Vector::new(), Vector::new());
    changes_below(tables, &below(), (&seen, Fingerprint::default(), &horizon), usize::MAX)
}

#[test]
fn no_more_of_a_range_is_compared_than_the_asker_can_have() {
    let mut tables = Tables::default();
    store(&mut tables, (1, 1), (0..400).map(|number| format!("oslo/{number:03}")));
    cover(&mut tables, 1, 400);
    let seen = Vector::from_iter([(origin(1), 400)]);
    let few = (1..=3).fold(Fingerprint::default(), |print, seq| print.plus(Fingerprint::of(dot(1, seq))));
    let asked = Asked { after: None, to: None, held: Some((seen, few)) };
    let view = Counting(&tables, Cell::new(0));
    let range = range_below(&view, &below(), &asked, 1).unwrap();
    assert!(!range.same && range.end.is_some(), "{range:?}");
    assert!(view.1.get() < 20, "{} rows for a page of one key", view.1.get());
}

#[test]
fn what_lies_ahead_below_a_prefix_is_told_however_much_does_of_other_keys() {
    let mut tables = Tables::default();
    store(&mut tables, (1, 1), (0..=SCANNED).map(|number| format!("bergen/{number:04}")));
    store(&mut tables, (2, 5), ["oslo/a", "oslo/b"].map(String::from).into_iter());
    let told = changes(&tables).unwrap();
    assert_eq!(
        told.records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(),
        ["oslo/a", "oslo/b"]
    );
    let print = Fingerprint::of(dot(2, 5)).plus(Fingerprint::of(dot(2, 6)));
    assert_eq!(told.loose, print);
    // Found either way it is the same.
    let mut few = Tables::default();
    store(&mut few, (2, 5), ["oslo/a", "oslo/b"].map(String::from).into_iter());
    assert_eq!(changes(&few).unwrap().loose, print);
    // There is an end to it: then it is said.
    store(&mut tables, (3, 1), (0..=NAMES).map(|number| format!("oslo/{number:04}")));
    assert!(matches!(changes(&tables), Err(SpaceError::TooManyLoose)));
}

#[test]
fn how_far_a_bucket_reaches_differs_with_all_that_may_be_told_and_with_nothing_else() {
    let mut tables = Tables::default();
    let mut before = extent(&tables, BUCKET).unwrap();
    let mut differs = |tables: &Tables, what: &str, wanted: bool| {
        let now = extent(tables, BUCKET).unwrap();
        assert_eq!(now != before, wanted, "{what}");
        before = now;
    };
    store(&mut tables, (1, 4), ["oslo/a".to_owned()].into_iter());
    differs(&tables, "a record ahead", true);
    store(&mut tables, (1, 6), ["bergen/a".to_owned()].into_iter());
    differs(&tables, "another", true);
    cover(&mut tables, 1, 6);
    differs(&tables, "both are covered", true);
    let row = Subscription::default();
    apply(&mut tables, &[followed(&below(), Some(&row))]);
    differs(&tables, "a fact of this node", false);
    let other = Record { bucket: BucketId([8; 16]), ..put(1, 9, "oslo/b") };
    apply(&mut tables, &[Entry::Record(Box::new(other))]);
    differs(&tables, "another bucket", false);
}

/// Of a prefix that was taken whole up to here nothing is left.
fn dead_up_to(seq: u64) -> (Tables, Subscription) {
    let upto = Vector::from_iter([(origin(1), seq)]);
    let row = Subscription { upto, complete: true, through: true, ..Subscription::default() };
    let mut tables = Tables::default();
    apply(&mut tables, &[followed(&below(), Some(&row))]);
    (tables, row)
}

fn stores(entries: &[Entry]) -> Vec<Dot> {
    let dot = |entry: &Entry| match entry {
        Entry::Record(record) => Some(record.dot),
        _ => None,
    };
    entries.iter().filter_map(dot).collect()
}

#[test]
fn who_tells_what_is_dead_here_brings_nothing_back() {
    let (tables, row) = dead_up_to(5);
    let told = || vec![put(1, 3, "oslo/dead"), put(1, 7, "oslo/new")];
    let upto = Vector::from_iter([(origin(1), 7)]);
    let changes = Changes { records: told(), upto: upto.clone(), ..Changes::default() };
    let entries = take_changes(&tables, &below(), (origin(2), &row.upto), changes).unwrap().unwrap();
    assert_eq!(stores(&entries), [dot(1, 7)]);
    let mut compares = row;
    compares.compare();
    let mut tables = tables;
    apply(&mut tables, &[followed(&below(), Some(&compares))]);
    let range = Range { records: told(), upto, ..Range::default() };
    let entries = take_range(&tables, &below(), &Asked::default(), range).unwrap().unwrap();
    assert_eq!(stores(&entries), [dot(1, 7)]);
}

#[test]
fn a_prefix_that_ends_or_rests_calls_nothing_dead() {
    let (mut tables, row) = dead_up_to(5);
    let dead = || vec![put(1, 3, "oslo/a")];
    assert_eq!(keep(&tables, BUCKET, dead()).unwrap(), [], "while it is followed");
    let rest = rested(&tables, BUCKET).unwrap();
    apply(&mut tables, &rest);
    assert_eq!(stores(&keep(&tables, BUCKET, dead()).unwrap()), [dot(1, 3)], "at a member");
    apply(&mut tables, &[followed(&below(), Some(&row.ending()))]);
    assert_eq!(stores(&keep(&tables, BUCKET, dead()).unwrap()), [dot(1, 3)], "as it ends");
    assert!(row.ending().ends && row.ending().through && !row.ending().complete);
}
