//! Rows that are asked for again and again, kept beside the library.
//!
//! Why here: a row that the library finds in its cache costs some 15,000 instructions in an index of a million keys (each run
//! and level has a filter and a block index), two of them a sixth of a HEAD. What is asked for again soon is kept as it is.
//!
//! Invariants: a row that is kept is what every reading from its number on finds: it is kept only if no group was under way or applied
//! between the begin of the reading that found it and the keeping, and each group drops what it writes before any reading sees it.
//! Memory is bounded: so many places, [`ROWS`] in each, none longer than [`LONGEST`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use skerry_base::kv::Table;
use xxhash_rust::xxh3::xxh3_64;

/// Places, by the hash of a row's name.
const PLACES: usize = 512;
/// Rows in a place, and names that it missed last: hot rows that meet in one do not push each other out.
const ROWS: usize = 4;
/// Bytes of key and value together.
const LONGEST: usize = 1 << 10;

/// Tables of which reads of objects ask for rows by name.
pub(super) const fn is_asked(table: Table) -> bool {
    matches!(table, Table::Current | Table::Versions | Table::Chunks)
}

#[derive(Debug, Default)]
struct Place {
    rows: [Option<Box<Row>>; ROWS],
    /// Hashes of who was asked for here last and not found.
    missed: [u64; ROWS],
    /// Rows kept and misses noted so far: which one the next takes the place of.
    kept: usize,
    noted: usize,
}

impl Place {
    fn at(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let is_it = |row: &Row| row.hash == hash && row.key == key;
        self.rows.iter().position(|row| row.as_deref().is_some_and(is_it))
    }
}

#[derive(Debug)]
struct Row {
    hash: u64,
    key: Vec<u8>,
    value: Bytes,
    since: u64,
}

/// Says that no group was under way when it was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket(u64);

/// All that is kept.
#[derive(Debug)]
pub(super) struct Hot {
    places: Box<[Mutex<Place>]>,
    /// Begins and ends of groups: odd while one is under way.
    turns: AtomicU64,
    /// Rows that readings had from here.
    #[cfg(test)]
    pub(super) hits: AtomicU64,
}

impl Default for Hot {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
            turns: AtomicU64::default(),
            #[cfg(test)]
            hits: AtomicU64::default(),
        }
    }
}

impl Hot {
    fn place(&self, hash: u64) -> MutexGuard<'_, Place> {
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        self.places[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row as a reading of this number finds it.
    pub(super) fn get(&self, key: &[u8], seq: u64) -> Option<Bytes> {
        let hash = xxh3_64(key);
        let place = self.place(hash);
        let row = place.at(hash, key).and_then(|at| place.rows[at].as_ref());
        let value = row.filter(|row| row.since <= seq).map(|row| row.value.clone());
        #[cfg(test)]
        self.hits.fetch_add(value.is_some().into(), Ordering::Relaxed);
        value
    }

    /// Before a reading of this number asks the library. None where something was applied since it began, or is being applied.
    pub(super) fn ticket(&self, seq: u64, visible: impl FnOnce() -> u64) -> Option<Ticket> {
        let turn = self.turns.load(Ordering::SeqCst);
        (turn.is_multiple_of(2) && visible() == seq).then_some(Ticket(turn))
    }

    /// The library had this, which is kept if it was asked for before, and nothing else meanwhile.
    pub(super) fn found(&self, key: &[u8], value: &Bytes, (seq, ticket): (u64, Ticket)) {
        if key.len() + value.len() > LONGEST {
            return;
        }
        let hash = xxh3_64(key);
        let mut place = self.place(hash);
        if !place.missed.contains(&hash) {
            let at = place.noted % ROWS;
            (place.missed[at], place.noted) = (hash, at + 1);
        } else if self.turns.load(Ordering::SeqCst) == ticket.0 {
            let at = place.at(hash, key).unwrap_or(place.kept % ROWS);
            let row = Row { hash, key: key.to_vec(), value: value.clone(), since: seq };
            (place.rows[at], place.kept) = (Some(Box::new(row)), at + 1);
        }
    }

    /// A group begins: called by who applies, alone. Where that one dies in it nothing is kept until the next has ended, which shows
    /// what of it was written; so it does not end by being dropped.
    pub(super) fn begin(&self) {
        self.turns.fetch_or(1, Ordering::SeqCst);
    }

    /// A group was shown.
    pub(super) fn end(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    /// A row was written, within a group.
    pub(super) fn drop_row(&self, key: &[u8]) {
        let hash = xxh3_64(key);
        let mut place = self.place(hash);
        if let Some(at) = place.at(hash, key) {
            place.rows[at] = None;
        }
    }
}

#[cfg(test)]
#[path = "hot_tests.rs"]
mod tests;
