//! Rows in memory, by table and by key: what a batch writes, what the tables of tests hold.
//!
//! Why not one map of both: who asks for a row has its key as bytes that lie elsewhere, and would copy them for each
//! question.
//! Invariant: no table is empty, so that equal rows are equal.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use super::Table;

type Keyed<V> = BTreeMap<Vec<u8>, V>;

/// Rows, in the order of tables and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<V>(BTreeMap<Table, Keyed<V>>);

impl<V> Default for Rows<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> Rows<V> {
    /// What stands under a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<&V> {
        self.0.get(&table)?.get(key)
    }

    /// Sets a row; the last one of a key stays.
    pub fn insert(&mut self, table: Table, key: Vec<u8>, value: V) {
        self.0.entry(table).or_default().insert(key, value);
    }

    /// Removes a row.
    pub fn remove(&mut self, table: Table, key: &[u8]) {
        if let btree_map::Entry::Occupied(mut rows) = self.0.entry(table) {
            rows.get_mut().remove(key);
            if rows.get().is_empty() {
                rows.remove();
            }
        }
    }

    /// Takes in others, which replace those of the same keys.
    pub fn extend(&mut self, others: Self) {
        for (table, rows) in others.0 {
            match self.0.entry(table) {
                btree_map::Entry::Vacant(free) => drop(free.insert(rows)),
                // Not `append`, which builds the whole map anew.
                btree_map::Entry::Occupied(mut known) => known.get_mut().extend(rows),
            }
        }
    }

    /// The rows of a table between two keys, in order; nothing where the first lies behind the last.
    pub fn range<'a>(
        &'a self,
        table: Table,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = (&'a [u8], &'a V)> + use<'a, V> {
        let rows = self.0.get(&table).filter(|_| !is_void(bounds)).map(|rows| rows.range::<[u8], _>(bounds));
        rows.into_iter().flatten().map(|(key, value)| (key.as_slice(), value))
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Table, &[u8], &V)> {
        self.0
            .iter()
            .flat_map(|(&table, rows)| rows.iter().map(move |(key, value)| (table, key.as_slice(), value)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bounds between which nothing lies, which the maps of the standard library do not take.
fn is_void(bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(first), Bound::Included(last)) => first > last,
        (Bound::Included(first) | Bound::Excluded(first), Bound::Included(last) | Bound::Excluded(last)) => {
            first >= last
        }
    }
}
