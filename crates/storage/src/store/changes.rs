//! What one group changes: the reducer's tables, the rows of chunks, the accounts of segments.
//!
//! The same code carries out commits, replays and rebuilds, so that all three agree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use skerry_base::ChunkId;
use skerry_base::codec::encode;
use skerry_base::kv::{Batch, Overlay, Reducer, Table, View, ViewError, Visit};

use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{
    APPLIED, Account, Applied, Area, Freeing, Place, Row, account_key, chunk_key, decode, freeing_key,
    listed_key, read_listed, unwanted_key, write_listed,
};
use crate::index::Writes;
use crate::payload::whole_blocks;
use crate::space::Space;

/// A reading that remembers why it failed: who reads it tells only in words.
struct Watched<V> {
    below: V,
    failed: RefCell<Option<ViewError>>,
}

impl<V> Watched<V> {
    fn note<T>(&self, read: Result<T, ViewError>) -> Result<T, ViewError> {
        read.inspect_err(|error| *self.failed.borrow_mut() = Some(error.clone()))
    }
}

impl<V: View> View for Watched<V> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.note(self.below.get(table, key))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.note(self.below.scan(table, from, to, visit))
    }
}

/// A chunk that has come to lie somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) place: Place,
    pub(crate) tree: bool,
    pub(crate) stored: u32,
    /// Of a tree.
    pub(crate) children: Arc<[ChunkId]>,
}

struct RowChange {
    before: Row,
    now: Row,
    /// Whether something came to refer to it, be it in the place of what referred to it before.
    wanted: bool,
}

#[derive(Default)]
struct AccountChange {
    live: i64,
    dead: i64,
    freed: i64,
}

/// Changes in the making.
pub(crate) struct Changes<'a> {
    below: &'a dyn View,
    batch: Batch,
    rows: BTreeMap<Key, RowChange>,
    accounts: BTreeMap<(Area, u32), AccountChange>,
    /// Segments whose files are gone.
    removed: BTreeSet<(Area, u32)>,
    mark: u64,
}

impl<'a> Changes<'a> {
    /// Nothing changed yet over `below`; `mark` numbers the group.
    pub(crate) fn over(below: &'a dyn View, mark: u64) -> Self {
        Self {
            below,
            batch: Batch::default(),
            rows: BTreeMap::new(),
            accounts: BTreeMap::new(),
            removed: BTreeSet::new(),
            mark,
        }
    }

    /// The tables as they will be.
    pub(crate) fn view(&self) -> Overlay<'_> {
        Overlay::new(self.below, &self.batch)
    }

    /// How much has been gathered, to bound a replay's batches.
    pub(crate) fn len(&self) -> usize {
        self.batch.writes.len() + self.rows.len()
    }

    /// What the entries of one proposal mean over all that came before. Nothing is taken in yet.
    pub(crate) fn reduce<'e>(
        &self,
        reducer: &dyn Reducer,
        entries: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Batch, StorageError> {
        let view = Watched { below: self.view(), failed: RefCell::default() };
        let mut mine = Batch::default();
        for entry in entries {
            let mut one = Batch::default();
            let reduced = reducer.reduce(entry, &Overlay::new(&view, &mine), &mut one);
            // It is not the entry that is refused if the index does not read.
            reduced.map_err(|error| view.failed.take().map_or_else(|| error.into(), StorageError::from))?;
            if mine.is_empty() {
                mine = one;
                continue;
            }
            mine.writes.extend(one.writes);
            mine.references.append(&mut one.references);
        }
        Ok(mine)
    }

    /// Takes in what [`Changes::reduce`] answered.
    pub(crate) fn absorb(&mut self, mine: Batch) -> Result<(), StorageError> {
        self.batch.writes.extend(mine.writes);
        for reference in mine.references {
            self.refer((reference.domain, reference.chunk), i64::from(reference.delta))?;
        }
        Ok(())
    }

    /// The chunks whose rows change.
    pub(crate) fn referred(&self) -> impl Iterator<Item = Key> + '_ {
        self.rows.keys().copied()
    }

    /// The trees that the index knows and something comes to refer to: what they list need not be what was written with them.
    pub(crate) fn wants_a_tree(&self) -> bool {
        self.rows.values().any(|change| change.wanted && change.now.tree)
    }

    /// The chunks that come to lie elsewhere, or nowhere: then they are gone.
    pub(crate) fn moved(&self) -> Vec<(Key, bool)> {
        let moved = self.rows.iter().filter(|(_, change)| change.before.place != change.now.place);
        moved.map(|(&key, change)| (key, change.now.place.is_none())).collect()
    }

    /// A row as it will be.
    pub(crate) fn row(&mut self, key: Key) -> Result<Row, StorageError> {
        self.change(key).map(|change| change.now)
    }

    fn change(&mut self, key: Key) -> Result<&mut RowChange, StorageError> {
        let below = self.below;
        match self.rows.entry(key) {
            std::collections::btree_map::Entry::Occupied(found) => Ok(found.into_mut()),
            std::collections::btree_map::Entry::Vacant(free) => {
                let row = load_row(below, key)?;
                Ok(free.insert(RowChange { before: row, now: row, wanted: false }))
            }
        }
    }

    /// Reads the rows that [`Changes::place`] changes, which does not fail half-way then.
    pub(crate) fn load(&mut self, key: Key, children: &[ChunkId]) -> Result<(), StorageError> {
        self.change(key)?;
        children.iter().try_for_each(|&child| self.change((key.0, child)).map(drop))
    }

    /// Counts references.
    pub(crate) fn refer(&mut self, key: Key, delta: i64) -> Result<(), StorageError> {
        let change = self.change(key)?;
        change.now.references = change.now.references.saturating_add(delta);
        change.wanted |= delta > 0;
        Ok(())
    }

    fn refer_children(&mut self, key: Key, children: &[ChunkId], delta: i64) -> Result<(), StorageError> {
        children.iter().try_for_each(|&child| self.refer((key.0, child), delta))
    }

    /// A chunk lies here now; where it lay before is let go. What lay here as a tree stays one, though the same bytes came as
    /// a leaf of something else; what a tree lists is counted once, when it begins to be one.
    pub(crate) fn place(&mut self, key: Key, placed: &Placed) -> Result<(), StorageError> {
        let old = self.row(key)?;
        if old.place == Some(placed.place) {
            return Ok(());
        }
        let was_tree = old.tree && old.place.is_some();
        let now = Row {
            place: Some(placed.place),
            tree: placed.tree || was_tree,
            stored: placed.stored,
            references: old.references,
        };
        self.change(key)?.now = now;
        let account = self.accounts.entry((placed.place.area, placed.place.segment)).or_default();
        account.live += now.taken() as i64;
        if placed.tree && !placed.children.is_empty() {
            self.list(key, &placed.children);
        }
        self.let_go(&old, true);
        if placed.tree && !was_tree {
            self.refer_children(key, &placed.children, 1)?;
        }
        Ok(())
    }

    /// A chunk is not here any more. `frees`: its space is given back; else that of its whole segment is. `read` tells what
    /// a tree lists that was taken in by a release before, and has not been read since.
    pub(crate) fn unplace(
        &mut self,
        key: Key,
        read: impl FnOnce() -> Result<Arc<[ChunkId]>, StorageError>,
        frees: bool,
    ) -> Result<(), StorageError> {
        let old = self.row(key)?;
        self.change(key)?.now = Row { references: old.references, ..Row::default() };
        self.let_go(&old, frees);
        if old.tree && old.place.is_some() {
            let children = listed(&self.view(), key)?.map_or_else(read, Ok)?;
            self.batch.delete(Table::Storage, listed_key(key));
            self.refer_children(key, &children, -1)?;
        }
        Ok(())
    }

    /// Notes what a tree lists that is here.
    pub(crate) fn list(&mut self, key: Key, children: &[ChunkId]) {
        self.batch.put(Table::Storage, listed_key(key), write_listed(children));
    }

    fn let_go(&mut self, old: &Row, frees: bool) {
        let Some(place) = old.place else { return };
        let account = self.accounts.entry((place.area, place.segment)).or_default();
        account.live -= old.taken() as i64;
        if frees {
            self.free(place.area, place.segment, place.offset, old.taken());
        }
    }

    /// Space to be given back once this group survives a crash. A body in the journal that holds no whole block fills no
    /// hole: its space comes back with its segment, and two rows of the index for each would be written for nothing.
    pub(crate) fn free(&mut self, area: Area, segment: u32, offset: u64, len: u64) {
        if area == Area::Journal && whole_blocks(offset, len).is_empty() {
            return;
        }
        self.accounts.entry((area, segment)).or_default().dead += len as i64;
        let key = freeing_key(self.mark, area, segment, offset);
        self.batch.put(Table::Storage, key, encode(&Freeing { len }));
    }

    /// A whole segment to be removed once this group survives a crash.
    pub(crate) fn free_segment(&mut self, area: Area, segment: u32) {
        let key = freeing_key(self.mark, area, segment, 0);
        self.batch.put(Table::Storage, key, encode(&Freeing { len: 0 }));
    }

    /// Space was given back.
    pub(crate) fn freed(&mut self, key: &[u8], area: Area, segment: u32, dead: u64, freed: u64) {
        self.batch.delete(Table::Storage, key);
        let account = self.accounts.entry((area, segment)).or_default();
        account.dead -= dead as i64;
        account.freed += freed as i64;
    }

    /// A segment was written anew, without what had been punched out of it.
    pub(crate) fn rewritten(&mut self, area: Area, segment: u32, freed_before: u64) {
        self.accounts.entry((area, segment)).or_default().freed -= freed_before as i64;
    }

    /// The file of a segment is gone.
    pub(crate) fn removed(&mut self, key: &[u8], area: Area, segment: u32) {
        self.batch.delete(Table::Storage, key);
        self.removed.insert((area, segment));
    }

    /// Sets or removes a note in the store's own table.
    pub(crate) fn note(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.batch.put(Table::Storage, key, value),
            None => self.batch.delete(Table::Storage, key),
        }
    }

    /// The writes for the index. Changes the accounts of `space`.
    pub(crate) fn finish(mut self, applied: &Applied, space: &Space) -> Writes {
        for (&key, change) in &self.rows {
            if change.before == change.now {
                continue;
            }
            let row_key = chunk_key(key);
            if change.now.is_void() {
                self.batch.delete(Table::Chunks, row_key);
            } else {
                self.batch.put(Table::Chunks, row_key, encode(&change.now));
            }
            match (change.before.is_unwanted(), change.now.is_unwanted()) {
                (false, true) => self.batch.put(Table::Storage, unwanted_key(key), Vec::new()),
                (true, false) => self.batch.delete(Table::Storage, unwanted_key(key)),
                _ => {}
            }
        }
        for &(area, number) in &self.removed {
            space.removed(area, number);
            self.batch.delete(Table::Storage, account_key(area, number));
        }
        self.accounts.retain(|segment, _| !self.removed.contains(segment));
        for (&(area, number), change) in &self.accounts {
            let account = space.edit(area, number, |used| {
                used.live = used.live.saturating_add_signed(change.live);
                used.dead = used.dead.saturating_add_signed(change.dead);
                used.freed = used.freed.saturating_add_signed(change.freed);
                Account { live: used.live, freed: used.freed, dead: used.dead }
            });
            self.batch.put(Table::Storage, account_key(area, number), encode(&account));
        }
        self.batch.put(Table::Storage, APPLIED, encode(applied));
        self.batch.writes
    }
}

/// Changes without what they lie over: kept from one frame of a replay to the next.
pub(crate) struct Held {
    batch: Batch,
    rows: BTreeMap<Key, RowChange>,
    accounts: BTreeMap<(Area, u32), AccountChange>,
    removed: BTreeSet<(Area, u32)>,
    mark: u64,
}

impl Held {
    pub(crate) fn of(changes: Changes<'_>) -> Self {
        let Changes { batch, rows, accounts, removed, mark, .. } = changes;
        Self { batch, rows, accounts, removed, mark }
    }

    /// Over the same reading as before.
    pub(crate) fn resume(self, below: &dyn View) -> Changes<'_> {
        let Self { batch, rows, accounts, removed, mark } = self;
        Changes { below, batch, rows, accounts, removed, mark }
    }
}

/// What a tree lists, as it was noted when it came to lie here; none: by a release before.
pub(crate) fn listed(view: &dyn View, key: Key) -> Result<Option<Arc<[ChunkId]>>, StorageError> {
    let Some(bytes) = view.get(Table::Storage, &listed_key(key))? else { return Ok(None) };
    let children = read_listed(&bytes);
    let damaged = || StorageError::Index("what a tree lists does not read".into());
    Ok(Some(children.ok_or_else(damaged)?.into()))
}

/// The row of a chunk; a void one if there is none.
pub(crate) fn load_row(view: &dyn View, key: Key) -> Result<Row, StorageError> {
    match view.get(Table::Chunks, &chunk_key(key))? {
        None => Ok(Row::default()),
        Some(bytes) => decode(&bytes).map_err(|error| StorageError::Index(error.to_string())),
    }
}
