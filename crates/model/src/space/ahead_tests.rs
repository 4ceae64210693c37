//! What goes along with an answer from beyond the vector, and what it costs while a large bucket is being joined.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;

use skerry_base::kv::{Tables, View};
use skerry_base::{Dot, Hlc, Vector};

use super::super::tests::{BUCKET, Counting, apply, origin, put, store};
use super::super::{Item, records_after};
use super::{LOADED, ahead};
use crate::Entry;
use crate::record::{Record, Statement, Versioning};

const OWN: u64 = 20;

/// Site 1 has written, and takes what site 2 has: much of it is here, and its vector does not cover it yet.
fn joining(loose: usize) -> Tables {
    let mut tables = Tables::default();
    for seq in 1..=OWN {
        store(&mut tables, plain(1, seq, &format!("own-{seq}")));
    }
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto: own() });
    for seq in 1..=loose as u64 {
        store(&mut tables, plain(2, seq, &format!("their-{seq}")));
    }
    tables
}

fn own() -> Vector {
    Vector::from_iter([(origin(1), OWN)])
}

fn plain(site: u8, seq: u64, key: &str) -> Record {
    Record { versioning: Versioning::Off, ..put(site, seq, key) }
}

/// What replaces an own one.
fn killer(seq: u64, of: u64) -> Record {
    let context = Vector::from_iter([(origin(1), of)]);
    Record { context, clock: Hlc(1 << 40), ..plain(2, seq, &format!("own-{of}")) }
}

/// The dots that go along with an answer, and how many rows and records that costs beside the answer.
fn along(tables: &Tables, seen: &Vector) -> (Vec<Dot>, usize) {
    let view = Counting(tables, Cell::new(0));
    let found = records_after(tables, BUCKET, seen, usize::MAX).unwrap();
    let items = ahead(&view as &dyn View, BUCKET, (seen, &found), 512 << 10).unwrap();
    (items.into_iter().map(|Item { dot, .. }| dot).collect(), view.1.get())
}

#[test]
fn an_answer_that_passes_over_nothing_reads_none_of_what_is_loose() {
    let tables = joining(1000);
    assert_eq!(along(&tables, &Vector::new()), (vec![], 0));
    assert_eq!(along(&tables, &Vector::from_iter([(origin(1), OWN - 3)])), (vec![], 0));
    assert_eq!(along(&tables, &own()), (vec![], 0));
}

#[test]
fn what_replaced_the_dead_goes_along_and_who_asks_is_not_looked_for_what_it_has() {
    let mut tables = joining(100);
    store(&mut tables, killer(101, 7));
    let dot = Dot { origin: origin(2), seq: 101 };
    assert_eq!(along(&tables, &Vector::new()).0, [dot]);
    let behind = Vector::from_iter([(origin(1), 6)]);
    assert_eq!(along(&tables, &behind).0, [dot]);
    let beyond = Vector::from_iter([(origin(1), 7)]);
    assert_eq!(along(&tables, &beyond), (vec![], 0), "the dead one is known there");
    let has_it = Vector::from_iter([(origin(2), 101)]);
    let (dots, cost) = along(&tables, &has_it);
    assert!(dots.is_empty() && cost < 10, "{cost}");
}

#[test]
fn a_version_that_is_spent_goes_with_what_ended_it() {
    let mut tables = Tables::default();
    store(&mut tables, put(1, 1, "key"));
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto: Vector::from_iter([(origin(1), 1)]) });
    let target = Dot { origin: origin(1), seq: 1 };
    store(&mut tables, Record { statement: Statement::Erase { target }, ..put(2, 1, "key") });
    let found = records_after(&tables, BUCKET, &Vector::new(), usize::MAX).unwrap();
    assert!(found.items.iter().all(|item| item.spent), "{found:?}");
    assert_eq!(along(&tables, &Vector::new()).0, [Dot { origin: origin(2), seq: 1 }]);
}

#[test]
fn of_very_many_the_latest_are_read() {
    let mut tables = joining(LOADED + 1000);
    let last = LOADED as u64 + 1001;
    store(&mut tables, killer(last, 7));
    let (dots, cost) = along(&tables, &Vector::new());
    assert_eq!(dots, [Dot { origin: origin(2), seq: last }]);
    // A row for each, and what is read of the latest.
    assert!(cost < LOADED + 1100 + 2 * LOADED, "{cost}");
}
