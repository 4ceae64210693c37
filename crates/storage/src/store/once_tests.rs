//! Readings of the index that are made once.

#![expect(clippy::unwrap_used, reason = "tests")]
use std::cell::Cell;
use std::ops::ControlFlow;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use skerry_base::kv::{Batch, Tables};

use super::*;

/// Counts what it is asked for; fails as often as it is told to.
#[derive(Default)]
struct Counted {
    tables: Tables,
    asked: Cell<usize>,
    scanned: Cell<usize>,
    faults: Cell<usize>,
}

impl Counted {
    fn fault(&self) -> Result<(), ViewError> {
        if self.faults.get() > 0 {
            self.faults.set(self.faults.get() - 1);
            return Err(ViewError::Unreadable("unreadable".into()));
        }
        Ok(())
    }
}

impl View for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.asked.set(self.asked.get() + 1);
        self.fault()?;
        self.tables.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.scanned.set(self.scanned.get() + 1);
        self.tables.scan(table, from, to, visit)?;
        self.fault()
    }
}

fn with(rows: &[(Table, &[u8], Bytes)]) -> Counted {
    let mut batch = Batch::default();
    rows.iter().for_each(|(table, key, value)| batch.put(*table, *key, value.clone()));
    let mut counted = Counted::default();
    counted.tables.apply(&batch);
    counted
}

/// The keys in these bounds, the first `most` of them.
fn keys(view: &dyn View, from: Bound<&[u8]>, to: Bound<&[u8]>, most: usize) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    view.scan(Table::Sums, from, to, &mut |key, value| {
        assert_eq!(key, value, "each row has its key for a value");
        keys.push(key.to_vec());
        if keys.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    keys
}

fn named(names: &[&'static str]) -> Counted {
    let rows: Vec<_> = names
        .iter()
        .map(|name| (Table::Sums, name.as_bytes(), Bytes::from_static(name.as_bytes())))
        .collect();
    with(&rows)
}

#[test]
fn each_row_is_asked_for_once_be_it_there_or_not() {
    let below = with(&[(Table::Sums, b"a", Bytes::from_static(b"1")), (Table::Local, b"a", Bytes::new())]);
    let once = Once::over(&below);
    for _ in 0..3 {
        assert_eq!(once.get(Table::Sums, b"a").unwrap().unwrap(), "1");
        assert_eq!(once.get(Table::Local, b"a").unwrap().unwrap(), "", "of another table");
        assert_eq!(once.get(Table::Dots, b"a").unwrap(), None);
    }
    assert_eq!(below.asked.get(), 3);
}

#[test]
fn a_stretch_is_asked_for_once_with_all_that_lies_in_it() {
    let below = named(&["b", "d", "x"]);
    let once = Once::over(&below);
    let (from, to) = (Bound::Included(&b"a"[..]), Bound::Excluded(&b"f"[..]));
    for _ in 0..3 {
        assert_eq!(keys(&once, from, to, 9), [b"b", b"d"]);
    }
    assert_eq!(keys(&once, Bound::Excluded(b"b"), Bound::Included(b"d"), 9), [b"d"]);
    assert!(keys(&once, Bound::Included(b"e"), to, 9).is_empty());
    assert_eq!(once.get(Table::Sums, b"d").unwrap().unwrap(), "d");
    assert_eq!(once.get(Table::Sums, b"c").unwrap(), None);
    assert_eq!((below.scanned.get(), below.asked.get()), (1, 0));
    assert_eq!(once.get(Table::Sums, b"f").unwrap(), None, "the bound is beyond what was asked");
    assert_eq!(below.asked.get(), 1);
    assert_eq!(keys(&once, from, Bound::Unbounded, 9), [b"b", b"d", b"x"]);
    assert_eq!(keys(&once, Bound::Excluded(b"x"), Bound::Unbounded, 9), [[]; 0]);
    assert_eq!(below.scanned.get(), 2, "only what was not known");
}

#[test]
fn of_a_scan_that_stops_is_known_how_far_it_came() {
    let below = named(&["b", "d", "x"]);
    let once = Once::over(&below);
    assert_eq!(keys(&once, Bound::Unbounded, Bound::Unbounded, 2), [b"b", b"d"]);
    assert_eq!(once.get(Table::Sums, b"c").unwrap(), None);
    assert_eq!(once.get(Table::Sums, b"d").unwrap().unwrap(), "d");
    assert_eq!(below.asked.get(), 0);
    assert_eq!(once.get(Table::Sums, b"e").unwrap(), None);
    assert_eq!(below.asked.get(), 1);
    assert_eq!(keys(&once, Bound::Unbounded, Bound::Unbounded, 9), [b"b", b"d", b"x"]);
}

#[test]
fn what_could_not_be_read_is_asked_for_again() {
    let below = named(&["a"]);
    below.faults.set(2);
    let once = Once::over(&below);
    assert!(once.get(Table::Sums, b"a").is_err());
    let (from, to) = (Bound::Included(&b"b"[..]), Bound::Unbounded);
    assert!(once.scan(Table::Sums, from, to, &mut |_, _| ControlFlow::Continue(())).is_err());
    assert_eq!(once.get(Table::Sums, b"a").unwrap().unwrap(), "a");
    assert!(keys(&once, from, to, 9).is_empty());
    assert_eq!(below.scanned.get(), 2, "a scan that failed says nothing of what it did not meet");
}

#[test]
fn beyond_the_bound_nothing_more_is_remembered() {
    let large = Bytes::from(vec![7; REMEMBERED]);
    let below =
        with(&[(Table::Sums, b"large", large.clone()), (Table::Sums, b"a", Bytes::from_static(b"1"))]);
    let once = Once::over(&below);
    for _ in 0..2 {
        assert_eq!(once.get(Table::Sums, b"large").unwrap().unwrap(), large);
        assert_eq!(once.get(Table::Sums, b"a").unwrap().unwrap(), "1");
    }
    assert_eq!(below.asked.get(), 3, "only the small one is remembered");
    assert!(once.seen.borrow().bytes <= REMEMBERED);
}

/// Of a long scan the first rows are remembered, and nothing is said of what comes behind them.
#[test]
fn a_long_scan_is_not_remembered_whole() {
    let names: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n]).collect();
    let rows: Vec<_> =
        names.iter().map(|name| (Table::Sums, &name[..], Bytes::copy_from_slice(name))).collect();
    let below = with(&rows);
    let once = Once::over(&below);
    for _ in 0..2 {
        assert_eq!(keys(&once, Bound::Unbounded, Bound::Unbounded, 999), names);
    }
    assert_eq!(once.seen.borrow().tables[&Table::Sums].rows.len(), 2 * ROWS_OF_SCAN);
}

proptest! {
    /// Whatever was asked before, the answer is that of what lies below.
    #[test]
    fn answers_are_those_of_what_lies_below(
        rows in btree_set("[ab]{0,3}", 0..12),
        asked in vec(("[ab]{0,3}", "[ab]{0,3}", 0..3u8, 0..3u8, 1..5usize), 1..20),
    ) {
        let rows: Vec<_> = rows.iter().map(|row| (Table::Sums, row.as_bytes(), row.clone().into())).collect();
        let below = with(&rows);
        let once = Once::over(&below);
        let bound = |kind, key| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        for (from, to, lower, upper, most) in &asked {
            let (from, to) = (bound(*lower, from.as_bytes()), bound(*upper, to.as_bytes()));
            prop_assert_eq!(keys(&once, from, to, *most), keys(&below, from, to, *most));
            for (key, ..) in &asked[..*most.min(&asked.len())] {
                let key = key.as_bytes();
                prop_assert_eq!(once.get(Table::Sums, key).unwrap(), below.get(Table::Sums, key).unwrap());
            }
        }
    }
}
