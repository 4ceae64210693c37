//! A reading that remembers what it was asked for: the proposals of a group ask for the same rows again and again.
//!
//! Why: who decides a write, who reduces it and who counts its chunks read the same rows of its key, and every proposal of a
//! group those of its bucket; each time the engine searched its memtables and tables anew, which was a sixth of the CPU of a DELETE.
//! A scan searches every table there is, so what lies between the rows that it met is remembered too: where a batch of a feed asks once
//! whether anything is there of a stretch of dots, nobody asks for any of them again.
//! Invariants: what is below does not change while this lives, so an answer is the same however often it is given; what is
//! remembered is bounded, and beyond the bound everything is asked below.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use skerry_base::kv::{Table, View, ViewError, Visit};

/// Bytes of keys and values that are remembered: a thousand small writes, the most that a group has.
const REMEMBERED: usize = 1 << 20;
/// What a row takes beside its bytes.
const AROUND: usize = 96;
/// Rows of one scan that are remembered: those of a bucket's vector, or the first of something long.
const ROWS_OF_SCAN: usize = 64;

/// A reading, asked once for each row, and once for each stretch of few.
pub(super) struct Once<'a> {
    below: &'a dyn View,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    tables: BTreeMap<Table, Known>,
    bytes: usize,
}

/// What is known of a table.
#[derive(Default)]
struct Known {
    /// By key, also those that are not there.
    rows: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// Where no row is: from the one key on up to the other, without it; none: to the end of the table.
    gaps: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Once<'a> {
    /// Nothing asked for yet.
    pub(super) fn over(below: &'a dyn View) -> Self {
        Self { below, seen: RefCell::default() }
    }
}

impl Known {
    fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.rows.get(key).cloned().or_else(|| self.gap(key).map(|_| None))
    }

    /// Where the gap ends in which this key lies.
    fn gap(&self, key: &[u8]) -> Option<Option<&Vec<u8>>> {
        let (_, end) = self.gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        end.as_ref().is_none_or(|end| key < end.as_slice()).then_some(end.as_ref())
    }
}

impl Seen {
    fn get(&self, table: Table, key: &[u8]) -> Option<Option<Bytes>> {
        self.tables.get(&table)?.get(key)
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + AROUND + bytes <= REMEMBERED;
        self.bytes += if fits { AROUND + bytes } else { 0 };
        fits
    }

    fn note(&mut self, table: Table, key: &[u8], value: Option<Bytes>) {
        if self.has_room(key.len() + value.as_ref().map_or(0, Bytes::len)) {
            self.tables.entry(table).or_default().rows.insert(key.to_vec(), value);
        }
    }

    fn note_gap(&mut self, table: Table, from: &[u8], to: Option<&[u8]>) {
        if to.is_none_or(|to| from < to) && self.has_room(from.len() + to.map_or(0, <[u8]>::len)) {
            let gaps = &mut self.tables.entry(table).or_default().gaps;
            gaps.insert(from.to_vec(), to.map(<[u8]>::to_vec));
        }
    }

    /// The first row that is known from this key on, with nothing between; else up to where nothing is, for certain.
    fn walk(&self, table: Table, from: &[u8]) -> Walked {
        let Some(known) = self.tables.get(&table) else { return Walked::Unknown };
        if let Some(Some(value)) = known.rows.get(from) {
            return Walked::Row(value.clone());
        }
        known.gap(from).map_or(Walked::Unknown, |end| Walked::Gap(end.cloned()))
    }
}

/// What is known to come.
enum Walked {
    Row(Bytes),
    Gap(Option<Vec<u8>>),
    Unknown,
}

/// The first key after this one.
fn next(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Whether a scan ends before this key.
fn is_beyond(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
        Bound::Unbounded => false,
    }
}

impl Once<'_> {
    /// Visits what is known of a scan and answers from where on it is not; none if that was all.
    fn recall(
        &self,
        table: Table,
        mut from: Vec<u8>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Option<Vec<u8>> {
        while !is_beyond(&from, to) {
            let walked = self.seen.borrow().walk(table, &from);
            from = match walked {
                Walked::Unknown => return Some(from),
                Walked::Gap(end) => end?,
                Walked::Row(value) if visit(&from, &value).is_break() => return None,
                Walked::Row(_) => next(&from),
            };
        }
        None
    }
}

impl View for Once<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        if let Some(known) = self.seen.borrow().get(table, key) {
            return Ok(known);
        }
        let value = self.below.get(table, key)?;
        self.seen.borrow_mut().note(table, key, value.clone());
        Ok(value)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let first = match from {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => next(key),
            Bound::Unbounded => Vec::new(),
        };
        let Some(mut from) = self.recall(table, first, to, visit) else { return Ok(()) };
        let start = from.clone();
        let (mut left, mut stopped) = (ROWS_OF_SCAN, false);
        self.below.scan(table, Bound::Included(&start), to, &mut |key, value| {
            if left > 0 {
                left -= 1;
                let mut seen = self.seen.borrow_mut();
                seen.note_gap(table, &from, Some(key));
                seen.note(table, key, Some(Bytes::copy_from_slice(value)));
                from = next(key);
            }
            let flow = visit(key, value);
            stopped |= flow.is_break();
            flow
        })?;
        if left > 0 && !stopped {
            let end = match to {
                Bound::Included(key) => Some(next(key)),
                Bound::Excluded(key) => Some(key.to_vec()),
                Bound::Unbounded => None,
            };
            self.seen.borrow_mut().note_gap(table, &from, end.as_deref());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
        let below =
            with(&[(Table::Sums, b"a", Bytes::from_static(b"1")), (Table::Local, b"a", Bytes::new())]);
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
}
