//! All rows of one moment, one by one, for who takes minutes over them.
//!
//! Before: the writer of a base, which visits every row while writes go on. After: the engine. Invariant: what it holds back
//! is bounded by what there was at that moment: not by what is written before it ends, as is what a [`Reading`] holds.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use skerry_base::kv::{Table, ViewError, prefix_end};

use super::Reading;

/// Rows read at once.
const BATCH: usize = 1024;

/// A table, or what of it begins with these bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part(pub(crate) Table, pub(crate) &'static [u8]);

impl Part {
    pub(super) fn bounds(self) -> (Bound<&'static [u8]>, Bound<Vec<u8>>) {
        (Bound::Included(self.1), prefix_end(self.1).map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// A key without its table, and the value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);
/// In the order of their keys. After an error it says nothing more that counts.
pub(crate) type Rows = Box<dyn Iterator<Item = Result<Row, ViewError>> + Send>;

/// By a reading that is held to the end.
pub(super) struct Held {
    reading: Reading,
    part: Part,
    after: Option<Vec<u8>>,
    rows: VecDeque<Row>,
}

impl Held {
    pub(super) const fn new(reading: Reading, part: Part) -> Self {
        Self { reading, part, after: None, rows: VecDeque::new() }
    }

    fn read(&mut self) -> Result<(), ViewError> {
        let (first, last) = self.part.bounds();
        let from = self.after.as_deref().map_or(first, Bound::Excluded);
        let rows = &mut self.rows;
        self.reading.scan(self.part.0, from, last.as_ref().map(Vec::as_slice), &mut |key, value| {
            rows.push_back((key.to_vec(), value.to_vec()));
            if rows.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.after = self.rows.back().map(|(key, _)| key.clone());
        Ok(())
    }
}

impl Iterator for Held {
    type Item = Result<Row, ViewError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rows.is_empty()
            && let Err(error) = self.read()
        {
            return Some(Err(error));
        }
        self.rows.pop_front().map(Ok)
    }
}
