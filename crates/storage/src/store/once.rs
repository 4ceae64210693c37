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
#[path = "once_tests.rs"]
mod tests;
