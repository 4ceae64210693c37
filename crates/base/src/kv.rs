//! The ordered key space between what decides and what stores.
//!
//! `model` turns a journal entry into a [`Batch`] by reading a [`View`]; `storage` keeps the tables and offers
//! the view. Neither knows the other. A [`Reducer`] is deterministic: replaying the journal over an older
//! index gives the same index.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use crate::{BucketId, ChunkId};

mod rows;

pub use rows::Rows;

/// The tables of a node's index. The number is stored: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Storage's own notes (applied position, segments).
    Storage = 0,
    /// Storage's own: (domain, chunk) → where it lies and how often it is referenced.
    Chunks = 1,
    /// Visible keys: (bucket, key) → listing entry.
    Current = 16,
    /// (bucket, key) → heads of the key, tombstones included.
    Heads = 17,
    /// (bucket, key, newest first) → record.
    Versions = 18,
    /// (bucket, dot) → key and clock of a live record.
    Dots = 19,
    /// (bucket, origin) → contiguous seq.
    Vectors = 20,
    /// Multipart uploads in progress at this site.
    Uploads = 21,
    /// (upload, part number) → part.
    Parts = 22,
    /// (bucket, key) of keys with a conflict.
    Conflicts = 23,
    /// Facts of this node alone: membership, counters, settings.
    Local = 24,
    /// Per-bucket sums: keys, bytes, records.
    Sums = 25,
}

impl Table {
    /// All that a reducer makes of the entries of a journal.
    pub const REDUCED: [Self; 10] = [
        Self::Current,
        Self::Heads,
        Self::Versions,
        Self::Dots,
        Self::Vectors,
        Self::Uploads,
        Self::Parts,
        Self::Conflicts,
        Self::Local,
        Self::Sums,
    ];
    /// Those that storage keeps for itself.
    pub const OWN: [Self; 2] = [Self::Storage, Self::Chunks];
}

/// The index could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ViewError {
    /// What lies there is not what was written, or is lost.
    #[error("index unreadable: {0}")]
    Unreadable(String),
    /// The system refused it now (too many open files, no memory), which says nothing of what lies there: try again.
    #[error("the index cannot be read just now: {0}")]
    Refused(String),
}

/// What a visitor of a scan is given: key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A consistent reading of the tables.
pub trait View {
    /// The value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError>;

    /// Visits keys in order within the bounds until the visitor breaks.
    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError>;

    /// Visits all keys that start with `prefix`, in order.
    fn scan_prefix(&self, table: Table, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), ViewError> {
        match prefix_end(prefix) {
            Some(end) => self.scan(table, Bound::Included(prefix), Bound::Excluded(&end), visit),
            None => self.scan(table, Bound::Included(prefix), Bound::Unbounded, visit),
        }
    }
}

/// The first key after all keys that start with `prefix`; none if there is no such key.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Some(end)
}

/// A change of the reference count of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Deduplication domain.
    pub domain: BucketId,
    /// The chunk at the top: leaf or tree; storage follows trees.
    pub chunk: ChunkId,
    /// How many references are added or dropped.
    pub delta: i32,
}

/// What becomes of rows: the last write of a key wins, `None` deletes.
pub type Writes = Rows<Option<Bytes>>;

/// Changes that become visible together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// What becomes of the tables.
    pub writes: Writes,
    /// Reference counts to change.
    pub references: Vec<Reference>,
}

impl Batch {
    /// Sets a key.
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Bytes>) {
        self.writes.insert(table, key.into(), Some(value.into()));
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: impl Into<Vec<u8>>) {
        self.writes.insert(table, key.into(), None);
    }

    /// Counts a reference up (+1) or down (-1).
    pub fn reference(&mut self, domain: BucketId, chunk: ChunkId, delta: i32) {
        self.references.push(Reference { domain, chunk, delta });
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.references.is_empty()
    }
}

/// Turns journal entries into changes of the tables, the same way every time.
pub trait Reducer: Send + Sync {
    /// Reads `entry` and what stands in `view`, writes the consequences to `batch`.
    /// An entry that cannot be decoded is an error: the caller stops rather than skip it.
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError>;
}

/// A journal entry that makes no sense to this release.
#[derive(Debug, Clone, thiserror::Error)]
#[error("journal entry refused: {0}")]
pub struct ReduceError(pub String);

impl From<ViewError> for ReduceError {
    fn from(error: ViewError) -> Self {
        Self(error.to_string())
    }
}

/// A view with the changes of a batch laid over it: what later proposals of one commit group see.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    below: &'a dyn View,
    above: &'a Batch,
}

impl<'a> Overlay<'a> {
    /// Lays `above` over `below`.
    pub const fn new(below: &'a dyn View, above: &'a Batch) -> Self {
        Self { below, above }
    }
}

impl View for Overlay<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.above.writes.get(table, key) {
            Some(value) => Ok(value.clone()),
            None => self.below.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let mut above = self.above.writes.range(table, (from, to)).peekable();
        let mut stopped = false;
        self.below.scan(table, from, to, &mut |key, value| {
            while let Some((own, change)) = above.next_if(|(own, _)| *own < key) {
                if let Some(own_value) = change
                    && visit(own, own_value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match above.next_if(|(own, _)| *own == key) {
                Some((_, Some(changed))) => visit(key, changed),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            stopped = flow.is_break();
            flow
        })?;
        for (own, change) in above {
            let Some(value) = change else { continue };
            if stopped || visit(own, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Tables in memory: the index of tests and of the simulator.
#[derive(Debug, Clone, Default)]
pub struct Tables(Rows<Bytes>);

impl Tables {
    /// Carries out the writes of a batch (not its references).
    pub fn apply(&mut self, batch: &Batch) {
        for (table, key, change) in batch.writes.iter() {
            match change {
                Some(value) => self.0.insert(table, key.to_vec(), value.clone()),
                None => self.0.remove(table, key),
            }
        }
    }

    /// Everything in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Table, &[u8], &Bytes)> {
        self.0.iter()
    }
}

impl View for Tables {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.0.get(table, key).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        for (key, value) in self.0.range(table, (from, to)) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "kv_tests.rs"]
mod tests;
