//! A reading that remembers what it was asked for: the proposals of a group ask for the same rows again and again.
//!
//! Why: who decides a write, who reduces it and who counts its chunks read the same rows of its key, and every proposal of a
//! group those of its bucket; each time the engine searched its memtables and tables anew, which was a sixth of the CPU of a DELETE.
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

/// Rows by key, also those that are not there.
type Rows = BTreeMap<Vec<u8>, Option<Bytes>>;

/// A reading, asked once for each row.
pub(super) struct Once<'a> {
    below: &'a dyn View,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    tables: BTreeMap<Table, Rows>,
    bytes: usize,
}

impl<'a> Once<'a> {
    /// Nothing asked for yet.
    pub(super) fn over(below: &'a dyn View) -> Self {
        Self { below, seen: RefCell::default() }
    }
}

impl Seen {
    fn get(&self, table: Table, key: &[u8]) -> Option<Option<Bytes>> {
        self.tables.get(&table)?.get(key).cloned()
    }

    fn note(&mut self, table: Table, key: &[u8], value: &Option<Bytes>) {
        let bytes = AROUND + key.len() + value.as_ref().map_or(0, Bytes::len);
        if self.bytes + bytes <= REMEMBERED {
            self.bytes += bytes;
            self.tables.entry(table).or_default().insert(key.to_vec(), value.clone());
        }
    }
}

impl View for Once<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        if let Some(known) = self.seen.borrow().get(table, key) {
            return Ok(known);
        }
        let value = self.below.get(table, key)?;
        self.seen.borrow_mut().note(table, key, &value);
        Ok(value)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.below.scan(table, from, to, visit)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::Cell;
    use std::ops::ControlFlow;

    use skerry_base::kv::{Batch, Tables};

    use super::*;

    /// Counts what it is asked for; fails as often as it is told to.
    #[derive(Default)]
    struct Counted {
        tables: Tables,
        asked: Cell<usize>,
        faults: Cell<usize>,
    }

    impl View for Counted {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
            self.asked.set(self.asked.get() + 1);
            if self.faults.get() > 0 {
                self.faults.set(self.faults.get() - 1);
                return Err(ViewError::Unreadable("unreadable".into()));
            }
            self.tables.get(table, key)
        }

        fn scan(
            &self,
            table: Table,
            from: Bound<&[u8]>,
            to: Bound<&[u8]>,
            visit: &mut Visit<'_>,
        ) -> Result<(), ViewError> {
            self.tables.scan(table, from, to, visit)
        }
    }

    fn with(rows: &[(Table, &[u8], Bytes)]) -> Counted {
        let mut batch = Batch::default();
        rows.iter().for_each(|(table, key, value)| batch.put(*table, *key, value.clone()));
        let mut counted = Counted::default();
        counted.tables.apply(&batch);
        counted
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
        let mut rows = 0;
        once.scan(Table::Sums, Bound::Unbounded, Bound::Unbounded, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn what_could_not_be_read_is_asked_for_again() {
        let below = with(&[(Table::Sums, b"a", Bytes::from_static(b"1"))]);
        below.faults.set(1);
        let once = Once::over(&below);
        assert!(once.get(Table::Sums, b"a").is_err());
        assert_eq!(once.get(Table::Sums, b"a").unwrap().unwrap(), "1");
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
}
