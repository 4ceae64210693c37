//! What an index that is being built does not hold: most of what a replay asks for is new, and was never written.
//!
//! A reading of the index would look for it in each table that has not been merged yet. Here it is known from what was
//! written since the index was empty: a Bloom filter over rows that are asked for by name, and of rows that end with a
//! number the highest of each beginning. Memory is fixed, and what may be there is looked for in the index.
//!
//! Invariant: a row that a reading has was noted before. So an answer "not there" is exact; "perhaps" never harms.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use bytes::Bytes;
use skerry_base::kv::{Table, View, ViewError, Visit, prefix_end};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::StorageError;
use crate::index::{Reading, Writes};

/// The filter takes at most so much: some seven bits for each of the rows that ten million objects have in it.
const MOST: u64 = 16 << 20;
/// Bytes of journal and base for one byte of the filter.
const SHARE: u64 = 512;
/// Words of a block: one line of the processor's cache.
const BLOCK: usize = 8;
/// Bits that a row sets in its block, and how many of its hash name each.
const BITS: u32 = 5;
const NAMED_BY: u32 = 9;
/// How rows of table `Dots` begin: bucket, kind and dot. What is longer belongs to that dot.
const DOT: usize = 49;
/// The number at the end of a dot.
const NUMBER: usize = 8;
/// Beginnings of dots whose highest number is known, at most.
const BEGINNINGS: usize = 4096;

/// The filter: blocks of one line each, so that a question costs one access to memory. Why it is our own:
/// `docs/decisions/2026-11-23-filter-of-rebuilds.md`.
struct Filter(Vec<u64>);

impl Filter {
    fn of(bytes: u64) -> Self {
        let words = (bytes / 8).max(BLOCK as u64).next_power_of_two();
        Self(vec![0; words as usize])
    }

    /// Where the block of a hash begins, and the bits in it.
    fn places(&self, hash: u64) -> (usize, impl Iterator<Item = (usize, u64)> + use<>) {
        let blocks = self.0.len() / BLOCK;
        let block = (hash >> (BITS * NAMED_BY)) as usize & (blocks - 1);
        let bits = (0..BITS).map(move |at| {
            let bit = (hash >> (at * NAMED_BY)) as usize & (BLOCK * 64 - 1);
            (bit / 64, 1 << (bit % 64))
        });
        (block * BLOCK, bits)
    }

    fn note(&mut self, hash: u64) {
        let (start, bits) = self.places(hash);
        for (word, bit) in bits {
            if let Some(word) = self.0.get_mut(start + word) {
                *word |= bit;
            }
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        let (start, mut bits) = self.places(hash);
        bits.all(|(word, bit)| self.0.get(start + word).is_none_or(|word| word & bit != 0))
    }
}

fn hash(table: Table, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, table as u64)
}

/// The tables whose rows are in the filter by name.
const fn is_filtered(table: Table) -> bool {
    matches!(table, Table::Chunks | Table::Current | Table::Heads | Table::Conflicts | Table::Local)
}

/// It is noted in while readings ask it.
pub(super) type Shared = Rc<RefCell<Written>>;

/// What was written since the index was empty.
pub(super) struct Written {
    filter: Filter,
    /// Of dots with the same beginning the highest number.
    highest: BTreeMap<[u8; DOT - NUMBER], [u8; NUMBER]>,
    /// Whether all beginnings are among them.
    has_all: bool,
}

impl Written {
    /// Over an index that will hold what so many bytes say. None if it holds anything already: of that nothing is known.
    pub(super) fn over(view: &dyn View, bytes: u64) -> Result<Option<Shared>, StorageError> {
        let mut is_empty = true;
        // Each group leaves a row there.
        view.scan_prefix(Table::Storage, &[], &mut |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty.then(|| Rc::new(RefCell::new(Self::sized(bytes)))))
    }

    fn sized(bytes: u64) -> Self {
        let filter = Filter::of((bytes / SHARE).min(MOST));
        Self { filter, highest: BTreeMap::new(), has_all: true }
    }

    /// These are about to be in the index.
    pub(super) fn note(&mut self, writes: &Writes) {
        for (table, key, value) in writes.iter() {
            match table {
                _ if value.is_none() => {}
                Table::Dots => self.note_dot(key),
                table if is_filtered(table) => self.filter.note(hash(table, key)),
                _ => {}
            }
        }
    }

    fn note_dot(&mut self, key: &[u8]) {
        let Some((beginning, number)) = split_dot(key) else {
            if let Some(dot) = key.get(..DOT) {
                self.filter.note(hash(Table::Dots, dot));
            }
            return;
        };
        let known = self.highest.len();
        match self.highest.get_mut(beginning) {
            Some(highest) => *highest = (*highest).max(*number),
            None if known < BEGINNINGS => drop(self.highest.insert(*beginning, *number)),
            None => self.has_all = false,
        }
    }

    /// Whether a row of this name was never written.
    fn lacks(&self, table: Table, key: &[u8]) -> bool {
        match table {
            Table::Dots => self.lacks_dot(key),
            table => is_filtered(table) && !self.filter.may_have(hash(table, key)),
        }
    }

    fn lacks_dot(&self, key: &[u8]) -> bool {
        let Some((beginning, number)) = split_dot(key) else { return false };
        self.highest.get(beginning).map_or(self.has_all, |highest| number > highest)
    }

    /// Whether no row was ever written that begins so.
    fn lacks_all(&self, table: Table, prefix: &[u8]) -> bool {
        table == Table::Dots && self.lacks_dot(prefix) && !self.filter.may_have(hash(table, prefix))
    }
}

/// A dot without its number, and that.
fn split_dot(key: &[u8]) -> Option<(&[u8; DOT - NUMBER], &[u8; NUMBER])> {
    let (beginning, number) = key.split_at_checked(DOT - NUMBER)?;
    Some((beginning.try_into().ok()?, number.try_into().ok()?))
}

/// A reading of an index that is being built, with what is known not to be in it.
pub(super) struct Sight {
    reading: Reading,
    written: Option<Shared>,
}

impl Sight {
    /// Nothing is known if it was not empty at first.
    pub(super) const fn of(reading: Reading, written: Option<Shared>) -> Self {
        Self { reading, written }
    }

    fn knows(&self, lacks: impl FnOnce(&Written) -> bool) -> bool {
        self.written.as_ref().is_some_and(|written| lacks(&written.borrow()))
    }
}

impl View for Sight {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        if self.knows(|written| written.lacks(table, key)) {
            return Ok(None);
        }
        self.reading.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        if let (Bound::Included(prefix), Bound::Excluded(end)) = (from, to)
            && table == Table::Dots
            && prefix_end(prefix).as_deref() == Some(end)
            && self.knows(|written| written.lacks_all(table, prefix))
        {
            return Ok(());
        }
        self.reading.scan(table, from, to, visit)
    }
}

#[cfg(test)]
#[path = "absent_tests.rs"]
mod tests;
