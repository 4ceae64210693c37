//! Vectors, and what a feed carries.
//!
//! A foreign record never advances the vector by itself, also when it is the next of its origin: a record
//! killed before its turn leaves no trace, so how far such an advance went would depend on the order of
//! arrival. The feed's `upto` advances it, in the same commit group as the records.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::kv::{Table, View};
use skerry_base::limits::FEED_BODY_BYTES;
use skerry_base::{BucketId, Dot, Origin, Vector};

use super::read::row;
use super::reduce::number;
use super::rows::{DotRow, Pointer};
use super::{SpaceError, keys, loose, read};
use crate::record::Record;

/// One record on a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its identity.
    pub dot: Dot,
    /// What it says.
    pub record: Record,
    /// The same as it is sent.
    pub encoded: Bytes,
    /// A spent version: it is fed to kill what comes late, its payload is gone.
    pub spent: bool,
}

impl Item {
    /// Reads what lies at this place.
    pub(super) fn load(
        view: &dyn View,
        bucket: BucketId,
        dot: Dot,
        place: &DotRow,
    ) -> Result<Self, SpaceError> {
        let pointer = Pointer { clock: place.clock, dot, remembered: place.remembered };
        let record = read::load(view, bucket, &place.key, pointer)?;
        let encoded = record.encode().into();
        let spent = place.remembered && record.is_version();
        Ok(Self { dot, record, encoded, spent })
    }

    /// Bytes that it takes on a feed, with the small body that goes along.
    pub fn weight(&self) -> usize {
        let body = self.record.object().and_then(|object| usize::try_from(object.size).ok());
        self.encoded.len() + body.filter(|body| *body <= FEED_BODY_BYTES).unwrap_or(0)
    }
}

/// What a feed answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Items {
    /// In order of (origin, seq).
    pub items: Vec<Item>,
    /// What the receiver may advance its vector to once the items are durable.
    pub upto: Vector,
    /// Whether there is more beyond.
    pub more: bool,
}

/// The vector of a bucket: up to where everything was stored or is dead.
pub fn vector(view: &dyn View, bucket: BucketId) -> Result<Vector, SpaceError> {
    let mut entries = Vec::new();
    view.scan_prefix(Table::Vectors, &bucket.0, &mut |name, value| {
        entries.push((keys::split_origin(name), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    let mut vector = Vector::new();
    for (origin, value) in entries {
        let origin = origin.ok_or(SpaceError::Inconsistent("a vector entry has no origin"))?;
        vector.advance(origin, number(&value)?);
    }
    Ok(vector)
}

/// One entry of it.
pub fn vector_entry(view: &dyn View, bucket: BucketId, origin: Origin) -> Result<u64, SpaceError> {
    view.get(Table::Vectors, &keys::vector(bucket, origin))?.map_or(Ok(0), |value| number(&value))
}

/// The records that `seen` lacks and this node's vector covers, at most about `max_bytes` of them encoded and
/// with their small bodies (one at least). What lies beyond the own vector is not fed: nothing could be promised about its neighbours.
pub fn records_after(
    view: &dyn View,
    bucket: BucketId,
    seen: &Vector,
    max_bytes: usize,
) -> Result<Items, SpaceError> {
    records_after_by(view, bucket, seen, (max_bytes, &mut Item::weight))
}

/// The same where something else than small bodies goes along: each is weighed as it takes its place, and the one behind the last.
pub fn records_after_by(
    view: &dyn View,
    bucket: BucketId,
    seen: &Vector,
    (max_bytes, weigh): (usize, &mut dyn FnMut(&Item) -> usize),
) -> Result<Items, SpaceError> {
    let mut answer = Items::default();
    let mut left = max_bytes;
    for (origin, last) in vector(view, bucket)?.iter() {
        let first = seen.get(origin).saturating_add(1);
        if first > last {
            answer.upto.advance(origin, last);
            continue;
        }
        let range = (Dot { origin, seq: first }, Dot { origin, seq: last });
        let full = for_each_row(view, bucket, range, &mut |dot, place| {
            let item = Item::load(view, bucket, dot, &place)?;
            let bytes = weigh(&item);
            if bytes > left && !answer.items.is_empty() {
                answer.upto.advance(origin, dot.seq.saturating_sub(1));
                return Ok(ControlFlow::Break(()));
            }
            left = left.saturating_sub(bytes);
            answer.items.push(item);
            Ok(ControlFlow::Continue(()))
        })?;
        if full.is_break() {
            answer.more = true;
            return Ok(answer);
        }
        answer.upto.advance(origin, last);
    }
    Ok(answer)
}

/// The keys of what is stored here and `seen` does not cover, also beyond the own vector, one row read for each; and what to
/// give as seen the next time: what lies beyond the vector is told again until that covers it.
pub fn keys_after(
    view: &dyn View,
    bucket: BucketId,
    seen: &Vector,
    visit: &mut dyn FnMut(Dot, &str),
) -> Result<Vector, SpaceError> {
    let upto = vector(view, bucket)?;
    let mut ends: BTreeMap<Origin, u64> =
        upto.iter().filter(|(origin, last)| *last > seen.get(*origin)).collect();
    ends.extend(loose::marked(view, bucket)?.into_iter().map(|origin| (origin, u64::MAX)));
    for (origin, last) in ends {
        let range = (Dot { origin, seq: seen.get(origin).saturating_add(1) }, Dot { origin, seq: last });
        let _all = for_each_row(view, bucket, range, &mut |dot, place| {
            visit(dot, &place.key);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(upto)
}

/// Of the dots in (`seen`, `upto`] that are stored here, those that a complete feed answer did not hold: they
/// are dead at its sender, so they are dead. To be dropped when the answer had no `more`.
pub fn absent(
    view: &dyn View,
    bucket: BucketId,
    seen: &Vector,
    upto: &Vector,
    items: &BTreeSet<Dot>,
) -> Result<Vec<Dot>, SpaceError> {
    absent_of(view, bucket, (seen, upto), items, &|_| true)
}

/// The same of some keys only.
pub(super) fn absent_of(
    view: &dyn View,
    bucket: BucketId,
    (seen, upto): (&Vector, &Vector),
    items: &BTreeSet<Dot>,
    is_asked: &dyn Fn(&str) -> bool,
) -> Result<Vec<Dot>, SpaceError> {
    let mut dead = Vec::new();
    for (origin, last) in upto.iter() {
        let first = seen.get(origin).saturating_add(1);
        if first <= last {
            let range = (Dot { origin, seq: first }, Dot { origin, seq: last });
            let _all = for_each_row(view, bucket, range, &mut |dot, place| {
                if !items.contains(&dot) && is_asked(&place.key) {
                    dead.push(dot);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    Ok(dead)
}

/// Rows gathered in one go: bounds memory, and the time a scan holds the index.
const ROWS_AT_ONCE: usize = 1024;

/// What is done with the place of a dot.
pub(super) type VisitRow<'a> = dyn FnMut(Dot, DotRow) -> Result<ControlFlow<()>, SpaceError> + 'a;

/// Visits the stored dots from the first to the last, both included, until the visitor breaks.
pub(super) fn for_each_row(
    view: &dyn View,
    bucket: BucketId,
    (first, last): (Dot, Dot),
    visit: &mut VisitRow<'_>,
) -> Result<ControlFlow<()>, SpaceError> {
    let mut from = Bound::Included(keys::dot(bucket, first));
    let to = keys::dot(bucket, last);
    loop {
        let mut rows = Vec::new();
        let start = from.as_ref().map(Vec::as_slice);
        view.scan(Table::Dots, start, Bound::Included(&to), &mut |name, value| {
            rows.push((name.to_vec(), Bytes::copy_from_slice(value)));
            if rows.len() == ROWS_AT_ONCE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        for (name, value) in &rows {
            let dot = keys::split_dot(name).ok_or(SpaceError::Inconsistent("a dot row has no dot"))?;
            if visit(dot, row(value)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match rows.pop() {
            Some((name, _)) if rows.len() + 1 == ROWS_AT_ONCE => from = Bound::Excluded(name),
            _ => return Ok(ControlFlow::Continue(())),
        }
    }
}
