//! Records stored ahead of the vector: *loose* ones.
//!
//! A read of a single object brings a record before its feed does, and a round that has not ended has stored
//! what the vector does not cover yet. Mostly the feed comes and covers them. If their origin lost them (a
//! backup was put back, the disk burned) no vector will ever cover them: members give them to each other by
//! name, and the vectors leave them alone, for what lies before them may still be somewhere.
//!
//! Invariants: an origin is marked iff a stored dot of it lies beyond the vector; the mark is this node's own
//! and lies in `Local`, so that looking for loose records costs nothing where there are none.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::kv::{Batch, Overlay, Table, View};
use skerry_base::{BucketId, Dot, Hlc, Origin, Vector};

use super::feed::{Item, Items, for_each_row, vector_entry};
use super::prints::{self, DotRange, Fingerprint};
use super::rows::DotRow;
use super::{SpaceError, keys, read, reduce, round, subscription};
use crate::entry::Entry;
use crate::record::{Record, Statement};

/// What is stored of one origin beyond the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loose {
    /// Whose.
    pub origin: Origin,
    /// The vector's entry.
    pub covered: u64,
    /// Over the stored dots behind it.
    pub print: Fingerprint,
}

/// Everything stored beyond the vector of a bucket, in order of origin.
pub fn loose(view: &dyn View, bucket: BucketId) -> Result<Vec<Loose>, SpaceError> {
    let named = |origin: Origin| {
        let covered = vector_entry(view, bucket, origin)?;
        let range = DotRange::span(origin, covered.saturating_add(1), u64::MAX);
        Ok(Loose { origin, covered, print: prints::fingerprint(view, bucket, range)? })
    };
    marked(view, bucket)?.into_iter().map(named).collect()
}

/// The origins of which anything is stored beyond the vector, in order.
pub fn marked(view: &dyn View, bucket: BucketId) -> Result<Vec<Origin>, SpaceError> {
    let mut origins = Vec::new();
    view.scan_prefix(Table::Local, &marks(bucket), &mut |name, _| {
        origins.push(keys::split_origin(name).ok_or(SpaceError::Inconsistent("a mark has no origin")));
        ControlFlow::Continue(())
    })?;
    origins.into_iter().collect()
}

/// The stored records of one origin with seqs in `first..=last` but those in `have`, at most about `max_bytes`
/// of them encoded and with their small bodies (one at least), and up to which seq nothing was left out.
pub fn records_in(
    view: &dyn View,
    bucket: BucketId,
    (first, last): (Dot, u64),
    have: &BTreeSet<u64>,
    max_bytes: usize,
) -> Result<(Vec<Item>, u64), SpaceError> {
    records_in_by(view, bucket, (first, last), have, (max_bytes, &mut Item::weight))
}

/// The same where something else than small bodies goes along: each is weighed as it takes its place, and the one behind the last.
pub fn records_in_by(
    view: &dyn View,
    bucket: BucketId,
    (first, last): (Dot, u64),
    have: &BTreeSet<u64>,
    (max_bytes, weigh): (usize, &mut dyn FnMut(&Item) -> usize),
) -> Result<(Vec<Item>, u64), SpaceError> {
    let (mut items, mut upto, mut left) = (Vec::new(), last, max_bytes);
    if first.seq > last {
        return Ok((items, upto));
    }
    let range = (first, Dot { seq: last, ..first });
    let _full = for_each_row(view, bucket, range, &mut |dot, place| {
        if have.contains(&dot.seq) {
            return Ok(ControlFlow::Continue(()));
        }
        let item = Item::load(view, bucket, dot, &place)?;
        let bytes = weigh(&item);
        if bytes > left && !items.is_empty() {
            upto = dot.seq.saturating_sub(1);
            return Ok(ControlFlow::Break(()));
        }
        left = left.saturating_sub(bytes);
        items.push(item);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((items, upto))
}

/// Loose records that are read for one answer. Of more the latest are: a bucket that is being joined has millions of them.
const LOADED: usize = 8192;

/// Records beyond the vector that may have ended the life of what an answer to who has seen `seen` passes over, in order of
/// dot; of more than about `max_bytes`, or among more than [`LOADED`], the latest.
///
/// Whoever feeds what lies up to its vector passes over what is dead there. A killer from beyond the vector is not fed, so
/// it goes along: a receiver that covers the dead without it would have neither, and show an older version or none. An answer
/// that passes over nothing needs none: it holds every dot that it covers, and none of them is spent.
pub fn ahead(
    view: &dyn View,
    bucket: BucketId,
    (seen, found): (&Vector, &Items),
    max_bytes: usize,
) -> Result<Vec<Item>, SpaceError> {
    let covered = found.upto.iter().map(|(origin, last)| last.saturating_sub(seen.get(origin)));
    if covered.sum::<u64>() == found.items.len() as u64 && !found.items.iter().any(|item| item.spent) {
        return Ok(Vec::new());
    }
    let (mut items, mut left) = (Vec::new(), max_bytes);
    for Place { clock, dot, remembered, key } in latest(view, bucket, seen)? {
        let item = Item::load(view, bucket, dot, &DotRow { clock, remembered, key })?;
        if !may_kill(&item.record, seen) {
            continue;
        }
        left = left.saturating_sub(item.weight());
        if left == 0 {
            break;
        }
        items.push(item);
    }
    items.sort_by_key(|item| item.dot);
    Ok(items)
}

/// Where a loose record lies, the earlier first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    clock: Hlc,
    dot: Dot,
    remembered: bool,
    key: String,
}

/// The latest of those beyond the vector that `seen` does not cover, the last first; none is read.
fn latest(view: &dyn View, bucket: BucketId, seen: &Vector) -> Result<Vec<Place>, SpaceError> {
    let mut places = BinaryHeap::new();
    for origin in marked(view, bucket)? {
        let covered = vector_entry(view, bucket, origin)?.max(seen.get(origin));
        let range = (Dot { origin, seq: covered.saturating_add(1) }, Dot { origin, seq: u64::MAX });
        let _all = for_each_row(view, bucket, range, &mut |dot, row| {
            let place = Place { clock: row.clock, dot, remembered: row.remembered, key: row.key };
            places.push(Reverse(place));
            if places.len() > LOADED {
                places.pop();
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(places.into_sorted_vec().into_iter().map(|Reverse(place)| place).collect())
}

/// Whether it could kill something that this vector does not cover.
fn may_kill(record: &Record, seen: &Vector) -> bool {
    match record.statement {
        Statement::Note { .. } => false,
        Statement::Erase { target } if !seen.covers(target) => true,
        _ => record.is_null() && !seen.includes(&record.context),
    }
}

/// The entries that store admitted records which no feed has brought. What an unfinished round has passed over
/// is dead at its source: it goes when the round ends, as if it had been here before.
pub fn keep(view: &dyn View, bucket: BucketId, records: Vec<Record>) -> Result<Vec<Entry>, SpaceError> {
    if records.is_empty() {
        // As with every plain write: what is followed and which rounds are open need not be looked for.
        return Ok(Vec::new());
    }
    let (records, told) = subscription::admit(view, bucket, records)?;
    let mut fresh = Vec::new();
    for record in &records {
        if read::known(view, record)?.is_none() {
            fresh.push(record.dot);
        }
    }
    let mut entries: Vec<Entry> = records.into_iter().map(|record| Entry::Record(Box::new(record))).collect();
    entries.extend(told);
    for mut progress in round::open(view, bucket)? {
        let passed: Vec<Dot> = fresh.iter().copied().filter(|dot| progress.upto.covers(*dot)).collect();
        if !passed.is_empty() {
            progress.dead.extend(passed);
            entries.push(Entry::Progress { bucket, source: progress.source, progress: Some(progress) });
        }
    }
    Ok(entries)
}

/// Looks at the tables as they would be without these records.
pub fn but_for<T>(
    view: &dyn View,
    bucket: BucketId,
    dead: &[Dot],
    look: impl FnOnce(&dyn View) -> T,
) -> Result<T, SpaceError> {
    if dead.is_empty() {
        return Ok(look(view));
    }
    let mut batch = Batch::default();
    reduce::drop_all(bucket, dead, view, &mut batch)?;
    Ok(look(&Overlay::new(view, &batch)))
}

/// The entry by which a node that is no member lets go of records of a key that died elsewhere. Not of what its vector covers:
/// that it lacks such a record would say to others that it is dead, and nothing here would say of what. Nor of what lies below a
/// followed prefix, or a round of a feed is about to settle: there what killed it comes.
pub fn let_go(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    dead: Vec<Dot>,
) -> Result<Option<Entry>, SpaceError> {
    let followed = subscription::subscriptions_of(view, bucket)?;
    if followed.iter().any(|(below, _)| key.starts_with(&below.prefix))
        || !round::open(view, bucket)?.is_empty()
    {
        return Ok(None);
    }
    let mut dots = Vec::new();
    for dot in dead {
        if vector_entry(view, bucket, dot.origin)? < dot.seq {
            dots.push(dot);
        }
    }
    Ok((!dots.is_empty()).then_some(Entry::Drop { bucket, dots }))
}

/// The entries that store admitted records which came without being asked for and follow, seq after seq, on what the
/// vector covers: it is raised over them. None if something before or between them is missing.
pub fn follow(
    view: &dyn View,
    bucket: BucketId,
    records: Vec<Record>,
) -> Result<Option<Vec<Entry>>, SpaceError> {
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(Some(Vec::new())) };
    let origin = first.dot.origin;
    let dense = records.iter().zip(first.dot.seq..).all(|(record, seq)| record.dot == Dot { origin, seq });
    if !dense || vector_entry(view, bucket, origin)?.saturating_add(1) < first.dot.seq {
        return Ok(None);
    }
    let upto = Vector::from_iter([(origin, last.dot.seq)]);
    let mut entries = keep(view, bucket, records)?;
    entries.push(Entry::Vector { bucket, upto });
    Ok(Some(entries))
}

/// Marks and unmarks the origins that a batch touches: called once all other rows of the entry are in it.
pub(super) fn mark(bucket: BucketId, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    let touched = touched(bucket, batch);
    let mut changes = Vec::new();
    {
        let after = Overlay::new(view, batch);
        for (origin, come) in touched {
            let name = [&marks(bucket)[..], &origin.to_bytes()].concat();
            let marked = view.get(Table::Local, &name)?.is_some();
            let covered = vector_entry(&after, bucket, origin)?;
            let ahead = come > covered || (marked && is_any_beyond(&after, bucket, origin, covered)?);
            if ahead != marked {
                changes.push((name, ahead));
            }
        }
    }
    for (name, ahead) in changes {
        match ahead {
            true => batch.put(Table::Local, name, Bytes::from_static(&[1])),
            false => batch.delete(Table::Local, name),
        }
    }
    Ok(())
}

/// Marks an origin of which anything is stored: its entry of the vector goes.
pub(super) fn mark_any(
    bucket: BucketId,
    origin: Origin,
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    if is_any_beyond(view, bucket, origin, 0)? {
        let name = [&marks(bucket)[..], &origin.to_bytes()].concat();
        batch.put(Table::Local, name, Bytes::from_static(&[1]));
    }
    Ok(())
}

/// The origins whose dots or vector entries change, with the last dot of each that comes; 0 for none.
fn touched(bucket: BucketId, batch: &Batch) -> BTreeMap<Origin, u64> {
    let mut touched: BTreeMap<Origin, u64> = BTreeMap::new();
    let from = |table, prefix: Vec<u8>| {
        let rows = batch.writes.range(table, (Bound::Included(&prefix), Bound::Unbounded));
        rows.take_while(move |(name, _)| name.starts_with(&prefix))
    };
    for (name, value) in from(Table::Dots, keys::dots(bucket)) {
        let Some(dot) = keys::split_dot(name) else { continue };
        let last = touched.entry(dot.origin).or_default();
        if value.is_some() {
            *last = (*last).max(dot.seq);
        }
    }
    for (name, _) in from(Table::Vectors, bucket.0.to_vec()) {
        keys::split_origin(name).into_iter().for_each(|origin| {
            touched.entry(origin).or_default();
        });
    }
    touched
}

fn is_any_beyond(
    view: &dyn View,
    bucket: BucketId,
    origin: Origin,
    covered: u64,
) -> Result<bool, SpaceError> {
    let (from, to) =
        (keys::dot(bucket, Dot { origin, seq: covered }), keys::dot(bucket, Dot { origin, seq: u64::MAX }));
    let mut found = false;
    view.scan(Table::Dots, Bound::Excluded(&from), Bound::Included(&to), &mut |_, _| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn marks(bucket: BucketId) -> Vec<u8> {
    [b"model/loose/", &bucket.0[..]].concat()
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod ahead_tests;
#[cfg(test)]
#[path = "dead_tests.rs"]
mod dead_tests;
