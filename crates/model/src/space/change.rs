//! The state of one key, and how one record that comes or goes changes it.
//!
//! Invariants: what is left is what [`crate::merge`] defines over all records applied. `covered` is the merge
//! of the contexts of all living versions, so a version is superseded iff `covered` covers it: contexts merge
//! by maximum, and a version never covers itself.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use skerry_base::kv::{Batch, Table, View, prefix_end};
use skerry_base::{BucketId, Dot, Vector};

use super::read::{self, get};
use super::rows::{self, ConflictRow, DotRow, HeadsRow, Listed, Loser, Pointer, Sums};
use super::{SpaceError, keys, prints};
use crate::merge;
use crate::record::Record;

/// A stored record of the key.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Shared: a record that comes is active and written.
    pub(crate) record: Arc<Record>,
    /// Erase, note or spent version.
    pub(crate) remembered: bool,
}

impl Stored {
    fn of(record: Record, remembered: bool) -> Self {
        Self { record: Arc::new(record), remembered }
    }

    pub(super) fn lives(&self) -> bool {
        !self.remembered
    }

    fn pointer(&self) -> Pointer {
        let Self { record, remembered } = self;
        Pointer { clock: record.clock, dot: record.dot, remembered: *remembered }
    }
}

/// What decides about the next record of a key.
#[derive(Debug, Clone)]
pub(crate) struct State {
    bucket: BucketId,
    key: String,
    /// All heads and all null-type records.
    pub(crate) active: Vec<Stored>,
    /// What the living versions cover together.
    pub(crate) covered: Vector,
    listed: Option<Listed>,
    has_heads_row: bool,
}

impl State {
    /// Reads it: one row and one record, mostly.
    pub(crate) fn load(view: &dyn View, bucket: BucketId, key: &str) -> Result<Self, SpaceError> {
        let name = keys::object(bucket, key);
        let listed = read::listed(view, &name)?;
        let heads: Option<HeadsRow> = get(view, Table::Heads, &name)?;
        let has_heads_row = heads.is_some();
        let (pointers, covered) = match (heads, &listed) {
            (Some(HeadsRow { active, covered }), _) => (active, covered),
            (None, Some(Listed { dot, clock, .. })) => {
                (vec![Pointer { clock: *clock, dot: *dot, remembered: false }], None)
            }
            (None, None) => (Vec::new(), None),
        };
        let stored = |pointer: Pointer| {
            let record = read::load(view, bucket, key, pointer)?;
            Ok(Stored::of(record, pointer.remembered))
        };
        let active: Vec<Stored> = pointers.into_iter().map(stored).collect::<Result<_, SpaceError>>()?;
        let covered = covered.unwrap_or_else(|| covered_by(&active));
        Ok(Self { bucket, key: key.into(), active, covered, listed, has_heads_row })
    }

    /// The living versions among the active.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &Record> {
        self.active.iter().filter(|stored| stored.lives()).map(|stored| stored.record.as_ref())
    }

    /// The version called `null`: of the living null-type ones that none of the others has seen, the one of the highest
    /// rank. A delete that keeps losers of a conflict has seen them, and is the version of that name.
    pub(crate) fn null(&self) -> Option<&Record> {
        let null: Vec<&Record> = self.alive().filter(|record| record.is_null()).collect();
        let is_seen =
            |one: &&Record| null.iter().any(|other| other.dot != one.dot && other.context.covers(one.dot));
        null.iter().copied().filter(|one| !is_seen(one)).min_by(|one, other| merge::by_rank(one, other))
    }

    pub(crate) fn into_alive(self) -> impl Iterator<Item = Record> {
        self.active.into_iter().filter(Stored::lives).map(|stored| Arc::unwrap_or_clone(stored.record))
    }

    /// The heads, highest rank first.
    pub(crate) fn heads(&self) -> Vec<&Record> {
        let mut heads: Vec<_> = self.alive().filter(|record| !self.covered.covers(record.dot)).collect();
        heads.sort_by(|one, other| merge::by_rank(one, other));
        heads
    }

    pub(crate) fn into_heads(self) -> Vec<Record> {
        let covered = self.covered.clone();
        let mut heads: Vec<_> = self.into_alive().filter(|record| !covered.covers(record.dot)).collect();
        heads.sort_by(merge::by_rank);
        heads
    }

    /// Whether the record, not stored yet, is killed and leaves nothing to remember.
    pub(crate) fn forgets(&self, view: &dyn View, record: &Record) -> Result<bool, SpaceError> {
        Ok(self.fate(view, record, record.subject().seq)?.0)
    }

    /// Whether it would be forgotten, and whether it is killed at all. Asks what speaks of its subject, and where nothing does
    /// of those behind it up to this seq.
    fn fate(&self, view: &dyn View, record: &Record, until: u64) -> Result<(bool, bool), SpaceError> {
        let aimed = aimed_at(view, self.bucket, &self.key, (record.subject(), until))?;
        let mut fate = (false, false);
        for killer in self.active.iter().chain(&aimed).map(|stored| &stored.record) {
            if merge::kills(killer, record) {
                fate = (fate.0 || merge::subsumes(killer, record), true);
            }
        }
        Ok(fate)
    }

    /// A record comes that is neither stored nor covered.
    pub(super) fn arrive(self, view: &dyn View, record: Record, batch: &mut Batch) -> Result<(), SpaceError> {
        let until = record.subject().seq;
        self.arrive_before(view, record, until, batch)
    }

    /// The same of an own write. Nobody can have spoken of it yet, nor of those behind it: a view that remembers where nothing
    /// was is asked once for all writes of a group.
    pub(super) fn arrive_own(
        self,
        view: &dyn View,
        record: Record,
        batch: &mut Batch,
    ) -> Result<(), SpaceError> {
        let until = if record.target().is_none() { u64::MAX } else { record.subject().seq };
        self.arrive_before(view, record, until, batch)
    }

    fn arrive_before(
        mut self,
        view: &dyn View,
        record: Record,
        until: u64,
        batch: &mut Batch,
    ) -> Result<(), SpaceError> {
        let (forgotten, killed) = self.fate(view, &record, until)?;
        if forgotten {
            return Ok(());
        }
        let mut change = Change::default();
        for passive in self.passive_targets(view, &record)? {
            self.active.push(passive);
        }
        for stored in std::mem::take(&mut self.active) {
            if !merge::kills(&record, &stored.record) {
                self.active.push(stored);
            } else if merge::subsumes(&record, &stored.record) {
                change.gone.push(stored);
            } else {
                self.spend(stored, &mut change);
            }
        }
        let remembered = killed || !record.is_version();
        if !remembered {
            self.covered.merge(&record.context);
        }
        let stored = Stored::of(record, remembered);
        change.come.push(stored.clone());
        self.active.push(stored);
        self.settle(view, change, batch)
    }

    /// Living versions turn into what is only remembered.
    fn spend(&mut self, stored: Stored, change: &mut Change) {
        let spent = Stored { remembered: true, ..stored.clone() };
        if stored.lives() {
            change.gone.push(stored);
            change.come.push(spent.clone());
        }
        self.active.push(spent);
    }

    /// What an erase hits outside the active: an older enabled version, notes about it.
    fn passive_targets(&self, view: &dyn View, record: &Record) -> Result<Vec<Stored>, SpaceError> {
        let Some(target) = record.target() else { return Ok(Vec::new()) };
        let mut found = aimed_at(view, self.bucket, &self.key, (target, target.seq))?;
        if let Some(DotRow { clock, remembered, key }) = read::dot_row(view, self.bucket, target)?
            && key == self.key
        {
            let pointer = Pointer { clock, dot: target, remembered };
            let record = read::load(view, self.bucket, &self.key, pointer)?;
            found.push(Stored::of(record, remembered));
        }
        let known: BTreeSet<Dot> = self.active.iter().map(|stored| stored.record.dot).collect();
        found.retain(|stored| !known.contains(&stored.record.dot));
        Ok(found)
    }

    /// Stored records of this key go without a successor.
    pub(super) fn drop_records(
        mut self,
        view: &dyn View,
        dots: &BTreeSet<Dot>,
        batch: &mut Batch,
    ) -> Result<(), SpaceError> {
        let mut change = Change::default();
        for &dot in dots {
            let Some(DotRow { clock, remembered, key }) = read::dot_row(view, self.bucket, dot)? else {
                continue;
            };
            let record = read::load(view, self.bucket, &key, Pointer { clock, dot, remembered })?;
            change.gone.push(Stored::of(record, remembered));
        }
        if change.gone.is_empty() {
            return Ok(());
        }
        self.active.retain(|stored| !dots.contains(&stored.record.dot));
        self.settle(view, change, batch)
    }

    /// Finds the new heads and writes all rows.
    fn settle(mut self, view: &dyn View, change: Change, batch: &mut Batch) -> Result<(), SpaceError> {
        let mut left = covered_by(&self.active);
        let lost = change.gone.iter().filter(|stored| stored.lives());
        if lost.into_iter().any(|stored| !left.includes(&stored.record.context)) {
            self.promote(view, &change)?;
        }
        let covered = self.covered.clone();
        self.active.retain(|stored| {
            let head = stored.lives() && !covered.covers(stored.record.dot);
            head || stored.record.is_null()
        });
        self.active.sort_by_key(Stored::pointer);
        left = covered_by(&self.active);
        let extra = (left != self.covered).then_some(self.covered.clone());
        self.write(view, &change, extra, batch)
    }

    /// Something living went and covered what nobody known covers: reads all living versions of the key to
    /// find who is a head now.
    fn promote(&mut self, view: &dyn View, change: &Change) -> Result<(), SpaceError> {
        let mut known: BTreeSet<Dot> = self.active.iter().map(|stored| stored.record.dot).collect();
        known.extend(change.gone.iter().map(|stored| stored.record.dot));
        let mut others: Vec<Record> = Vec::new();
        for_each_alive(view, self.bucket, &self.key, &mut |record| {
            if !known.contains(&record.dot) {
                others.push(record);
            }
        })?;
        let contexts = self.alive().chain(&others).map(|record| &record.context);
        let mut covered = Vector::new();
        contexts.for_each(|context| covered.merge(context));
        others.retain(|record| !covered.covers(record.dot));
        self.active.extend(others.into_iter().map(|record| Stored::of(record, false)));
        self.covered = covered;
        Ok(())
    }

    fn write(
        &self,
        view: &dyn View,
        change: &Change,
        extra: Option<Vector>,
        batch: &mut Batch,
    ) -> Result<(), SpaceError> {
        let mut sums = read::sums(view, self.bucket)?;
        change.write(self.bucket, &mut sums, batch);
        prints::update(view, self.bucket, &change.dots(), batch)?;
        self.write_current(&mut sums, batch);
        self.write_conflict(view, &mut sums, batch)?;
        self.write_heads(extra, batch);
        let name = keys::sums(self.bucket);
        // Of nothing there is no row, as where nothing ever was.
        match sums == Sums::default() {
            true => batch.delete(Table::Sums, name),
            false => batch.put(Table::Sums, name, skerry_base::codec::encode(&sums)),
        }
        Ok(())
    }

    fn write_current(&self, sums: &mut Sums, batch: &mut Batch) {
        let now = self.heads().first().and_then(|head| Listed::of(head));
        if now == self.listed {
            return;
        }
        if let Some(was) = &self.listed {
            sums.keys = sums.keys.saturating_sub(1);
            sums.bytes = sums.bytes.saturating_sub(was.size);
        }
        let name = keys::object(self.bucket, &self.key);
        match now {
            Some(now) => {
                sums.keys += 1;
                sums.bytes = sums.bytes.saturating_add(now.size);
                batch.put(Table::Current, name, rows::current::encode(&now));
            }
            None => batch.delete(Table::Current, name),
        }
    }

    fn write_conflict(&self, view: &dyn View, sums: &mut Sums, batch: &mut Batch) -> Result<(), SpaceError> {
        let name = keys::object(self.bucket, &self.key);
        // Who has a conflict has more than one object alone, and so a row of heads.
        let was = if self.has_heads_row { view.get(Table::Conflicts, &name)? } else { None };
        let now = self.conflict().map(|row| Bytes::from(skerry_base::codec::encode(&row)));
        if was == now {
            return Ok(());
        }
        sums.conflicts = sums.conflicts.saturating_sub(was.is_some().into()) + u64::from(now.is_some());
        match now {
            Some(row) => batch.put(Table::Conflicts, name, row),
            None => batch.delete(Table::Conflicts, name),
        }
        Ok(())
    }

    /// Losers still heads, then losers kept by a later write.
    pub(crate) fn conflict(&self) -> Option<ConflictRow> {
        let heads = self.heads();
        let loser = |record: &Record, kept_since| Loser {
            dot: record.dot,
            clock: record.clock,
            is_delete: record.is_delete(),
            kept_since,
        };
        let open = merge::losers(&heads).into_iter().map(|record| loser(record, None));
        let kept = self.kept().into_iter().map(|(record, since)| loser(record, Some(since)));
        let mut losers: Vec<Loser> = open.chain(kept).collect();
        let surplus = losers.len().saturating_sub(skerry_base::limits::CONFLICTS_PER_KEY);
        losers.truncate(skerry_base::limits::CONFLICTS_PER_KEY);
        let current = heads.first().filter(|_| !losers.is_empty())?.dot;
        Some(ConflictRow { current, losers, more: u32::try_from(surplus).unwrap_or(u32::MAX) })
    }

    /// Living versions that are no heads and that a living null-type version keeps, with since when.
    pub(crate) fn kept(&self) -> Vec<(&Record, skerry_base::Hlc)> {
        let superseded = |record: &&Record| record.is_null() && self.covered.covers(record.dot);
        let since = |record: &Record| {
            let keeps = self.alive().filter(|keeper| keeper.is_null()).flat_map(|keeper| &keeper.keeps);
            keeps.filter(|kept| kept.dot == record.dot).map(|kept| kept.since).min()
        };
        let mut kept: Vec<_> = self
            .alive()
            .filter(superseded)
            .filter_map(|record| since(record).map(|since| (record, since)))
            .collect();
        kept.sort_by(|(one, _), (other, _)| merge::by_rank(one, other));
        kept
    }

    fn write_heads(&self, extra: Option<Vector>, batch: &mut Batch) {
        let name = keys::object(self.bucket, &self.key);
        let plain = match &self.active[..] {
            [] => extra.is_none(),
            [only] => only.lives() && only.record.object().is_some() && extra.is_none(),
            _ => false,
        };
        if plain {
            if self.has_heads_row {
                batch.delete(Table::Heads, name);
            }
            return;
        }
        let active = self.active.iter().map(Stored::pointer).collect();
        let row = HeadsRow { active, covered: extra };
        batch.put(Table::Heads, name, skerry_base::codec::encode(&row));
    }
}

/// Records that come and go.
#[derive(Debug, Default)]
struct Change {
    gone: Vec<Stored>,
    come: Vec<Stored>,
}

impl Change {
    fn write(&self, bucket: BucketId, sums: &mut Sums, batch: &mut Batch) {
        for stored in &self.gone {
            unwrite(bucket, stored, sums, batch);
        }
        for stored in &self.come {
            write(bucket, stored, sums, batch);
        }
    }

    /// The dots that change, each once: spending a version moves it but keeps its dot.
    fn dots(&self) -> Vec<(Dot, bool)> {
        let of = |list: &[Stored]| list.iter().map(|stored| stored.record.dot).collect::<BTreeSet<_>>();
        let (gone, come) = (of(&self.gone), of(&self.come));
        let removed = gone.difference(&come).map(|&dot| (dot, false));
        removed.chain(come.difference(&gone).map(|&dot| (dot, true))).collect()
    }
}

fn names(bucket: BucketId, stored: &Stored) -> (Vec<u8>, Vec<u8>, Option<Vec<u8>>) {
    let Stored { record, remembered } = stored;
    let at = if *remembered { keys::REMEMBERED } else { keys::ALIVE };
    let version = keys::version(bucket, &record.key, at, record.clock, record.dot);
    let aim = record.target().map(|target| keys::erase(bucket, target, record.dot));
    (version, keys::dot(bucket, record.dot), aim)
}

fn write(bucket: BucketId, stored: &Stored, sums: &mut Sums, batch: &mut Batch) {
    let Stored { record, remembered } = stored;
    let (version, dot, aim) = names(bucket, stored);
    let row = DotRow { clock: record.clock, remembered: *remembered, key: record.key.clone() };
    sums.records += 1;
    sums.record_bytes += record.encoded_len() as u64;
    batch.put(Table::Versions, version, rows::version::encode(record));
    batch.put(Table::Dots, dot, skerry_base::codec::encode(&row));
    if let Some(aim) = aim {
        batch.put(Table::Dots, aim, record.clock.0.to_be_bytes().to_vec());
    }
    count(bucket, stored, 1, sums, batch);
}

fn unwrite(bucket: BucketId, stored: &Stored, sums: &mut Sums, batch: &mut Batch) {
    let (version, dot, aim) = names(bucket, stored);
    sums.records = sums.records.saturating_sub(1);
    sums.record_bytes = sums.record_bytes.saturating_sub(stored.record.encoded_len() as u64);
    batch.delete(Table::Versions, version);
    batch.delete(Table::Dots, dot);
    if let Some(aim) = aim {
        batch.delete(Table::Dots, aim);
    }
    count(bucket, stored, -1, sums, batch);
}

/// A living object holds its chunks.
fn count(bucket: BucketId, stored: &Stored, delta: i32, sums: &mut Sums, batch: &mut Batch) {
    let Some(object) = stored.record.object().filter(|_| stored.lives()) else { return };
    sums.stored_bytes = match delta > 0 {
        true => sums.stored_bytes.saturating_add(object.size),
        false => sums.stored_bytes.saturating_sub(object.size),
    };
    for chunk in &object.chunks {
        batch.reference(bucket, chunk.id, delta);
    }
}

/// What the living versions among these cover together.
fn covered_by(stored: &[Stored]) -> Vector {
    let mut covered = Vector::new();
    for stored in stored.iter().filter(|stored| stored.lives()) {
        covered.merge(&stored.record.context);
    }
    covered
}

/// Seqs of a stretch that is looked at in one piece.
const STRETCH: u64 = 256;

/// Asks whether anything is stored of the versions in (`seen`, `upto`] or speaks of them: one question for what is asked of each
/// when it arrives, for a view that remembers where nothing was. It is asked of a whole stretch of seqs, so that the steps
/// that follow ask for nothing new.
pub(super) fn foresee(
    view: &dyn View,
    bucket: BucketId,
    (seen, upto): (&Vector, &Vector),
) -> Result<(), SpaceError> {
    for (origin, last) in upto.iter() {
        let first = Dot { origin, seq: seen.get(origin).saturating_add(1) };
        let last = Dot { origin, seq: last | (STRETCH - 1) };
        if upto.covers(first) {
            look(view, (keys::dot(bucket, first), keys::dot(bucket, last)))?;
            look(view, (keys::erases_of(bucket, first), keys::erases_of(bucket, last)))?;
        }
    }
    Ok(())
}

/// Asks for the first row of the dots from the one key on to what begins with the other.
fn look(view: &dyn View, (first, last): (Vec<u8>, Vec<u8>)) -> Result<(), SpaceError> {
    let end = prefix_end(&last);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    Ok(view.scan(Table::Dots, Bound::Included(&first), to, &mut |_, _| ControlFlow::Break(()))?)
}

/// The erases of a version and the notes about it; looked for up to the version of this seq, which costs no more where there
/// is nothing.
fn aimed_at(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    (target, until): (Dot, u64),
) -> Result<Vec<Stored>, SpaceError> {
    let mut found = Vec::new();
    let start = keys::erases_of(bucket, target);
    let end = prefix_end(&keys::erases_of(bucket, Dot { seq: until, ..target }));
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    view.scan(Table::Dots, Bound::Included(&start), to, &mut |name, _| {
        if !name.starts_with(&start) {
            return ControlFlow::Break(());
        }
        found.extend(keys::split_dot(name));
        ControlFlow::Continue(())
    })?;
    let mut aimed = Vec::new();
    for dot in found {
        let row = read::dot_row(view, bucket, dot)?;
        let Some(DotRow { clock, key: other, .. }) = row.filter(|row| row.key == key) else { continue };
        let record = read::load(view, bucket, &other, Pointer { clock, dot, remembered: true })?;
        aimed.push(Stored::of(record, true));
    }
    Ok(aimed)
}

/// Visits all living versions of a key, newest first.
pub(crate) fn for_each_alive(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    visit: &mut dyn FnMut(Record),
) -> Result<(), SpaceError> {
    each_alive_behind(view, bucket, key, None, &mut |record| {
        visit(record);
        ControlFlow::Continue(())
    })
}

/// The same behind the place of one of them, which may be gone, until the visitor breaks.
pub(super) fn each_alive_behind(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    place: Option<&[u8]>,
    visit: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> Result<(), SpaceError> {
    let mut failed = None;
    let region = keys::region(bucket, key, keys::ALIVE);
    let end = prefix_end(&region);
    let from = place.map_or(Bound::Included(&region[..]), Bound::Excluded);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    view.scan(Table::Versions, from, to, &mut |name, value| match rows::version::decode(name, value) {
        Ok(record) => visit(record),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}
