//! What is said not to be there was never written.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use skerry_base::kv::{Batch, Tables};

use super::*;

/// Rows of all kinds: dots of two origins, what belongs to dots, objects, and rows that are only passed on.
fn rows(count: u64) -> Batch {
    let mut batch = Batch::default();
    for number in 0..count {
        let origin = [number as u8 % 2; DOT - NUMBER];
        batch.put(Table::Dots, [&origin[..], &(2 * number).to_be_bytes()].concat(), vec![1]);
        if number % 7 == 0 {
            let dot = [&[9; DOT - NUMBER][..], &number.to_be_bytes()].concat();
            batch.put(Table::Dots, [&dot[..], &[3; 32]].concat(), vec![2]);
        }
        for table in [Table::Current, Table::Chunks, Table::Versions, Table::Sums] {
            batch.put(table, format!("photos/{number}"), vec![3]);
        }
    }
    batch
}

struct Here(Tables);

impl View for Here {
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
        self.0.scan(table, from, to, visit)
    }
}

fn found(view: &dyn View, prefix: &[u8]) -> usize {
    let mut rows = 0;
    view.scan_prefix(Table::Dots, prefix, &mut |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    rows
}

fn noted(batch: &Batch, bytes: u64) -> (Tables, Sight) {
    let mut tables = Tables::default();
    tables.apply(batch);
    let written = Written::over(&Tables::default(), bytes).unwrap().unwrap();
    written.borrow_mut().note(&batch.writes);
    (tables.clone(), Sight::of(Arc::new(Here(tables)), Some(written)))
}

/// Also when the filter is much too small, and there are more origins than are remembered.
#[test]
fn what_was_written_is_found() {
    for bytes in [0, 64 << 10, 64 << 20] {
        let mut batch = rows(3000);
        for origin in 0..2 * BEGINNINGS as u64 {
            let name = [&[8; DOT - 2 * NUMBER][..], &origin.to_be_bytes(), &[0; NUMBER]].concat();
            batch.put(Table::Dots, name, vec![4]);
        }
        let (tables, sight) = noted(&batch, bytes);
        for (table, key, value) in tables.iter() {
            assert_eq!(sight.get(table, key).unwrap().as_ref(), Some(value), "{table:?} {key:?}");
            if table == Table::Dots {
                let prefix = &key[..DOT];
                assert_eq!(found(&sight, prefix), found(&tables, prefix), "{key:?}");
            }
        }
        assert_eq!(found(&sight, &[]), found(&tables, &[]));
        assert_eq!(found(&sight, &[9; 20]), found(&tables, &[9; 20]));
    }
}

/// A view that must not be asked.
struct Unasked;

impl View for Unasked {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Err(ViewError::Unreadable(format!("asked for {table:?} {key:?}")))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        _to: Bound<&[u8]>,
        _visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        Err(ViewError::Unreadable(format!("scanned {table:?} from {from:?}")))
    }
}

/// What a new object asks for costs no look into the index: its dot, what was said of that, its key, its chunk.
#[test]
fn what_is_new_is_not_looked_for() {
    let written = Written::over(&Tables::default(), 64 << 20).unwrap().unwrap();
    written.borrow_mut().note(&rows(3000).writes);
    let sight = Sight::of(Arc::new(Unasked), Some(written));
    let mut asked = 0;
    for number in 3000..6000_u64 {
        let dot = [&[number as u8 % 2; DOT - NUMBER][..], &(2 * number).to_be_bytes()].concat();
        assert_eq!(sight.get(Table::Dots, &dot).unwrap(), None);
        asked +=
            usize::from(sight.scan_prefix(Table::Dots, &dot, &mut |_, _| ControlFlow::Continue(())).is_err());
        for table in [Table::Current, Table::Chunks, Table::Heads, Table::Conflicts] {
            asked += usize::from(sight.get(table, format!("photos/{number}").as_bytes()).is_err());
        }
    }
    assert!(asked < 150, "{asked} of 15,000 were looked for");
}

/// Of rows that were there before nothing is known.
#[test]
fn an_index_that_holds_anything_is_always_asked() {
    let mut tables = Tables::default();
    let mut batch = Batch::default();
    batch.put(Table::Storage, b"applied".to_vec(), vec![1]);
    tables.apply(&batch);
    assert!(Written::over(&tables, 1 << 20).unwrap().is_none());
    let sight = Sight::of(Arc::new(Unasked), None);
    assert!(sight.get(Table::Current, b"new").is_err());
}
