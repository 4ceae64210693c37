//! What pages cost: how often the index is asked, and how many rows it gives.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::ops::Bound;

use bytes::Bytes;
use skerry_base::kv::{Table, Tables, View, ViewError, Visit};
use skerry_base::{Dot, Vector};

use super::super::tests::{BUCKET, origin, put, store};
use super::{Cursor, list_current, list_versions};
use crate::record::{Record, Statement, Versioning};

/// Counts scans and gets, and rows.
struct Asked<'a>(&'a Tables, Cell<usize>, Cell<usize>);

impl<'a> Asked<'a> {
    fn new(tables: &'a Tables) -> Self {
        Self(tables, Cell::new(0), Cell::new(0))
    }
}

impl View for Asked<'_> {
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
        self.1.set(self.1.get() + 1);
        self.0.scan(table, from, to, &mut |key, value| {
            self.2.set(self.2.get() + 1);
            visit(key, value)
        })
    }
}

fn deleted(seq: u64, key: &str) -> Record {
    Record { versioning: Versioning::Off, statement: Statement::Delete, ..put(1, seq, key) }
}

#[test]
fn resting_deletes_are_passed_over_without_asking_for_each() {
    let mut tables = Tables::default();
    for seq in 1..=5000 {
        store(&mut tables, deleted(seq, &format!("dir/{seq:06}")));
    }
    for (seq, key) in (5001..).zip(["dir/z", "zoo"]) {
        store(&mut tables, put(1, seq, key));
    }
    for (delimiter, shown) in [(None, ["dir/z", "zoo"]), (Some("/"), ["dir/", "zoo"])] {
        let view = Asked::new(&tables);
        let cursor = Cursor { delimiter, max: 10, ..Cursor::default() };
        let page = list_versions(&view, BUCKET, cursor, None).unwrap();
        let keys = page.versions.into_iter().map(|shown| shown.record.key);
        let mut found: Vec<String> = keys.chain(page.prefixes).collect();
        found.sort();
        assert_eq!(found, shown, "{delimiter:?}");
        let (asked, rows) = (view.1.get(), view.2.get());
        assert!(asked <= 5000 / 40 && rows <= 5500, "asked {asked} times for {rows} rows");
    }
}

/// A tombstone that was read ahead is no word about the key's other versions, wherever the rows that were read end.
#[test]
fn what_lives_beside_a_tombstone_is_shown_wherever_reading_ends() {
    // Reads end behind 1, 3, 7, .. rows.
    for before in [0..20, 29..34, 61..66, 125..130, 253..258].into_iter().flatten() {
        let mut tables = Tables::default();
        for seq in 1..=before {
            store(&mut tables, deleted(seq, &format!("a{seq:04}")));
        }
        // Nobody has seen the other: both live, the delete newest.
        store(&mut tables, put(2, 1, "b"));
        let newest = deleted(before + 1, "b");
        store(&mut tables, Record { clock: skerry_base::Hlc(9_000), ..newest });
        let page = list_versions(&tables, BUCKET, Cursor { max: 10, ..Cursor::default() }, None).unwrap();
        let dots: Vec<Dot> = page.versions.iter().map(|shown| shown.record.dot).collect();
        assert_eq!(dots, [Dot { origin: origin(2), seq: 1 }], "behind {before}");
    }
}

#[test]
fn of_large_folders_few_rows_are_read_and_small_ones_are_not_sought() {
    let mut tables = Tables::default();
    let mut seq = 0;
    for folder in 0..40 {
        // Large ones, then small ones, then large ones.
        for object in 0..if (10..30).contains(&folder) { 1 } else { 500 } {
            seq += 1;
            store(&mut tables, put(1, seq, &format!("{folder:03}/{object:03}")));
        }
    }
    let view = Asked::new(&tables);
    let cursor = Cursor { delimiter: Some("/"), max: 1000, ..Cursor::default() };
    let page = list_current(&view, BUCKET, cursor).unwrap();
    assert_eq!(page.prefixes, (0..40).map(|folder| format!("{folder:03}/")).collect::<Vec<_>>());
    let (asked, rows) = (view.1.get(), view.2.get());
    assert!(asked <= 20 + 10, "asked {asked} times");
    assert!(rows <= 2 * (128 + 64 + 32 + 10 * 16) + 3 * 128, "{rows} rows");
}

/// A version of a bucket with versioning that has seen those of before.
fn version(seq: u64, key: &str, statement: Option<Statement>) -> Record {
    let mut context = Vector::new();
    context.advance(origin(1), seq - 1);
    let record = put(1, seq, key);
    Record { context, statement: statement.unwrap_or_else(|| record.statement.clone()), ..record }
}

/// What is read for a page is what it shows, and some that is read ahead: of no version behind the newest, of no key whose newest
/// is a delete marker, and of no folder in which there is nothing else.
#[test]
fn a_page_reads_no_older_versions_and_no_delete_markers() {
    let mut tables = Tables::default();
    let mut seq = 0;
    let mut write = |key: &str, statement| {
        seq += 1;
        store(&mut tables, version(seq, key, statement));
    };
    for key in ["dir/a", "m"] {
        (0..1500).for_each(|_| write(key, None));
    }
    for number in 0..40 {
        (0..20).for_each(|_| write(&format!("dir/n{number:02}"), None));
    }
    for number in 0..1500 {
        for folder in ["dir/b", "gone", "p"] {
            write(&format!("{folder}/{number:05}"), None);
            write(&format!("{folder}/{number:05}"), Some(Statement::Delete));
        }
    }
    write("z", None);
    for (delimiter, shown) in [(None, 43), (Some("/"), 3)] {
        let view = Asked::new(&tables);
        let page = list_current(&view, BUCKET, Cursor { delimiter, max: 1000, ..Cursor::default() }).unwrap();
        assert_eq!(page.keys.len() + page.prefixes.len(), shown, "{delimiter:?}");
        let (asked, rows) = (view.1.get(), view.2.get());
        assert!(asked <= 3 && rows <= 2 * 43, "{delimiter:?}: asked {asked} times for {rows} rows");
    }
    // Folders of markers are shown where versions are, each by its first row.
    let view = Asked::new(&tables);
    let cursor = Cursor { delimiter: Some("/"), max: 1000, ..Cursor::default() };
    let page = list_versions(&view, BUCKET, cursor, None).unwrap();
    assert_eq!((page.versions.len(), page.next.is_some()), (998, true));
    assert_eq!(page.prefixes, ["dir/", "gone/"]);
    let (asked, rows) = (view.1.get(), view.2.get());
    assert!(asked <= 30 && rows <= 1000 + 130, "asked {asked} times for {rows} rows");
}
