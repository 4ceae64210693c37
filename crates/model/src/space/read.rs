//! Reading single keys.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use core::fmt;
use core::str::FromStr;

use bytes::Bytes;
use skerry_base::codec::{self, Versioned};
use skerry_base::hex;
use skerry_base::id::InvalidId;
use skerry_base::kv::{Table, View, prefix_end};
use skerry_base::{BucketId, Dot, Hlc};

use super::change::State;
use super::rows::version::Named;
use super::rows::{self, ConflictRow, DotRow, Listed, Pointer};
use super::{Loser, SpaceError, Sums, Verdict, feed, keys};
use crate::record::{Record, Statement, Versioning};

/// How a client names a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VersionId {
    /// `null`: the version written while versioning was off or suspended.
    Null,
    /// 64 hexadecimal digits: the dot.
    Dot(Dot),
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Dot(dot) => f.write_str(hex::write(&dot.to_bytes(), &mut [0; 64])),
        }
    }
}

impl FromStr for VersionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text {
            "null" => Ok(Self::Null),
            _ => hex::parse(text).map(|bytes| Self::Dot(Dot::from_bytes(&bytes))),
        }
    }
}

/// A key with a conflict, or with losers that are still kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The bucket.
    pub bucket: BucketId,
    /// The key.
    pub key: String,
    /// The version a read gets.
    pub current: Dot,
    /// The others, highest rank first, kept ones last; at most `limits::CONFLICTS_PER_KEY`.
    pub losers: Vec<Loser>,
    /// How many more there are.
    pub more: u32,
}

pub(super) fn row<T: Versioned>(bytes: &Bytes) -> Result<T, SpaceError> {
    Ok(codec::decode(bytes)?)
}

pub(super) fn get<T: Versioned>(view: &dyn View, table: Table, key: &[u8]) -> Result<Option<T>, SpaceError> {
    view.get(table, key)?.as_ref().map(row).transpose()
}

pub(super) fn load(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    pointer: Pointer,
) -> Result<Record, SpaceError> {
    let Pointer { clock, dot, remembered } = pointer;
    let at = if remembered { keys::REMEMBERED } else { keys::ALIVE };
    let found = view.get(Table::Versions, &keys::version(bucket, key, at, clock, dot))?;
    let value = found.ok_or(SpaceError::Inconsistent("a pointer leads to no record"))?;
    Ok(rows::version::decode_named(Named { bucket, key: key.into(), clock, dot }, &value)?)
}

/// A visible key by its name in `Current`.
pub(super) fn listed(view: &dyn View, name: &[u8]) -> Result<Option<Listed>, SpaceError> {
    let found = view.get(Table::Current, name)?;
    Ok(found.map(|value| rows::current::decode(&value)).transpose()?)
}

pub(super) fn dot_row(view: &dyn View, bucket: BucketId, dot: Dot) -> Result<Option<DotRow>, SpaceError> {
    get(view, Table::Dots, &keys::dot(bucket, dot))
}

/// Whether any record is stored under this dot.
pub(crate) fn is_stored(view: &dyn View, bucket: BucketId, dot: Dot) -> Result<bool, SpaceError> {
    Ok(view.get(Table::Dots, &keys::dot(bucket, dot))?.is_some())
}

/// The record a read of the key gets: a `Put`, or the `Delete` that hides it; none if nothing is known.
pub fn current(view: &dyn View, bucket: BucketId, key: &str) -> Result<Option<Record>, SpaceError> {
    if let Some(Listed { dot, clock, .. }) = listed(view, &keys::object(bucket, key))? {
        return load(view, bucket, key, Pointer { clock, dot, remembered: false }).map(Some);
    }
    Ok(heads(view, bucket, key)?.into_iter().next())
}

/// Whether a read of the key gets an object: one row, and no record.
pub fn is_listed(view: &dyn View, bucket: BucketId, key: &str) -> Result<bool, SpaceError> {
    Ok(view.get(Table::Current, &keys::object(bucket, key))?.is_some())
}

/// The heads of a key, highest rank first: the current one, then the conflicts and their equals.
pub fn heads(view: &dyn View, bucket: BucketId, key: &str) -> Result<Vec<Record>, SpaceError> {
    Ok(State::load(view, bucket, key)?.into_heads())
}

/// What is remembered of a key is looked through for erases up to so many records, the newest first: what is older has been
/// everywhere, or costs more than it tells.
const ERASES: usize = 64;

/// All on which it rests what a key shows now: its heads, and what erased versions or says something of them.
pub fn resting(view: &dyn View, bucket: BucketId, key: &str) -> Result<Vec<Record>, SpaceError> {
    let active = State::load(view, bucket, key)?.active.into_iter();
    let counts = active.filter(|stored| stored.lives() || !stored.record.is_version());
    let mut resting: Vec<Record> = counts.map(|stored| Arc::unwrap_or_clone(stored.record)).collect();
    let stands: BTreeSet<Dot> = resting.iter().map(|record| record.dot).collect();
    let erases = erases(view, bucket, key)?.into_iter();
    resting.extend(erases.filter(|erase| !stands.contains(&erase.dot)));
    Ok(resting)
}

/// The latest erases of a key's versions. Those of versions that nothing overwrites are no part of what a write looks at.
fn erases(view: &dyn View, bucket: BucketId, key: &str) -> Result<Vec<Record>, SpaceError> {
    let region = keys::region(bucket, key, keys::REMEMBERED);
    let (mut erases, mut looked, mut failed) = (Vec::new(), 0, None);
    view.scan_prefix(Table::Versions, &region, &mut |name, value| {
        looked += 1;
        match rows::version::decode(name, value) {
            Ok(record) if matches!(record.statement, Statement::Erase { .. }) => erases.push(record),
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || looked == ERASES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    failed.map_or(Ok(erases), Err)
}

/// One stored record by its dot, whatever it says; a spent one has lost its payload and is not returned.
pub fn record(view: &dyn View, bucket: BucketId, key: &str, dot: Dot) -> Result<Option<Record>, SpaceError> {
    let Some(DotRow { clock, remembered, key: found }) = dot_row(view, bucket, dot)? else {
        return Ok(None);
    };
    if found != key {
        return Ok(None);
    }
    let record = load(view, bucket, key, Pointer { clock, dot, remembered })?;
    Ok((!remembered || !record.is_version()).then_some(record))
}

/// One living version as a client names it.
pub fn version(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    id: VersionId,
) -> Result<Option<Record>, SpaceError> {
    match id {
        VersionId::Null => null_version(view, bucket, key),
        VersionId::Dot(dot) => Ok(record(view, bucket, key, dot)?.filter(Record::is_version)),
    }
}

/// The version called `null`, if there is one to be named: losers of a conflict beside it are named by their dots, and a delete
/// in a bucket that never had versions is no version to clients.
pub fn null_version(view: &dyn View, bucket: BucketId, key: &str) -> Result<Option<Record>, SpaceError> {
    let state = State::load(view, bucket, key)?;
    let is_shown = |record: &&Record| !(record.is_delete() && record.versioning == Versioning::Off);
    Ok(state.null().filter(is_shown).cloned())
}

/// What the arriving record means here; the reducer does accordingly.
pub fn accept(view: &dyn View, record: &Record) -> Result<Verdict, SpaceError> {
    if let Some(verdict) = known(view, record)? {
        return Ok(verdict);
    }
    let state = State::load(view, record.bucket, &record.key)?;
    let forgotten = state.forgets(view, record)?;
    Ok(if forgotten { Verdict::Dead } else { Verdict::New })
}

/// What its dot alone tells.
pub(super) fn known(view: &dyn View, record: &Record) -> Result<Option<Verdict>, SpaceError> {
    if dot_row(view, record.bucket, record.dot)?.is_some() {
        return Ok(Some(Verdict::Duplicate));
    }
    let covered = feed::vector_entry(view, record.bucket, record.dot.origin)? >= record.dot.seq;
    Ok(covered.then_some(Verdict::Dead))
}

/// Keys with conflicts in order of (bucket, key), after the given one; of one bucket or of all.
pub fn conflicts(
    view: &dyn View,
    bucket: Option<BucketId>,
    after: Option<(BucketId, &str)>,
    max: usize,
) -> Result<Vec<Conflict>, SpaceError> {
    let start = after.map(|(bucket, key)| keys::object(bucket, key));
    let first = bucket.map_or_else(Vec::new, |bucket| bucket.0.to_vec());
    let from = match &start {
        Some(start) if *start >= first => Bound::Excluded(start.as_slice()),
        _ => Bound::Included(first.as_slice()),
    };
    let end = bucket.and_then(|bucket| prefix_end(&bucket.0));
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut found = Vec::new();
    view.scan(Table::Conflicts, from, to, &mut |name, value| {
        if found.len() == max {
            return ControlFlow::Break(());
        }
        found.push((name.to_vec(), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    found.iter().map(|(name, value)| named_conflict(name, value)).collect()
}

/// The conflict of one key.
pub fn conflict(view: &dyn View, bucket: BucketId, key: &str) -> Result<Option<Conflict>, SpaceError> {
    let name = keys::object(bucket, key);
    let found = view.get(Table::Conflicts, &name)?;
    found.map(|value| named_conflict(&name, &value)).transpose()
}

fn named_conflict(name: &[u8], value: &Bytes) -> Result<Conflict, SpaceError> {
    let malformed = SpaceError::Inconsistent("a conflict has no key");
    let Some((id, (key, _))) = name.first_chunk::<16>().zip(keys::split_object(name)) else {
        return Err(malformed);
    };
    let ConflictRow { current, losers, more } = row(value)?;
    Ok(Conflict { bucket: BucketId(*id), key, current, losers, more })
}

/// The buckets of which anything is stored here, in order.
pub fn buckets(view: &dyn View) -> Result<Vec<BucketId>, SpaceError> {
    let mut found: Vec<BucketId> = Vec::new();
    let mut from = Some(Vec::new());
    while let Some(start) = from.take() {
        view.scan(Table::Sums, Bound::Included(&start), Bound::Unbounded, &mut |name, _| {
            found.extend(name.first_chunk::<16>().map(|id| BucketId(*id)));
            from = name.first_chunk::<16>().and_then(|id| prefix_end(id));
            ControlFlow::Break(())
        })?;
    }
    Ok(found)
}

/// The highest stamp of this node's own clock, for `HlcClock::resume`. Stamps that follow a predecessor from the
/// future do not count.
pub fn own_clock(view: &dyn View) -> Result<Hlc, SpaceError> {
    let row = view.get(Table::Local, OWN_CLOCK)?;
    row.map_or(Ok(Hlc::default()), |row| Ok(Hlc(super::reduce::number(&row)?)))
}

/// Name of the node-local row of [`own_clock`].
pub(super) const OWN_CLOCK: &[u8] = b"model/clock";

/// Keys after `after` whose heads are not just one object.
pub(crate) fn keys_with_heads(
    view: &dyn View,
    bucket: BucketId,
    after: Option<&str>,
    max: usize,
) -> Result<Vec<String>, SpaceError> {
    let from = after.map_or_else(|| bucket.0.to_vec(), |key| keys::object(bucket, key));
    let end = prefix_end(&bucket.0);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut names = Vec::new();
    view.scan(Table::Heads, Bound::Excluded(&from), to, &mut |name, _| {
        if names.len() == max {
            return ControlFlow::Break(());
        }
        names.push(keys::split_object(name).map(|(key, _)| key));
        ControlFlow::Continue(())
    })?;
    let malformed = SpaceError::Inconsistent("a heads row has no key");
    names.into_iter().collect::<Option<_>>().ok_or(malformed)
}

/// Erases and notes of the versions after `after`, by target; at most about `max`.
pub(crate) fn aimed(
    view: &dyn View,
    bucket: BucketId,
    after: Option<Dot>,
    max: usize,
) -> Result<Vec<(Dot, Record)>, SpaceError> {
    let first = keys::erases(bucket);
    let from = match after {
        Some(after) => prefix_end(&keys::erases_of(bucket, after)).unwrap_or(first.clone()),
        None => first.clone(),
    };
    let end = prefix_end(&first);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut found: Vec<(Dot, Dot)> = Vec::new();
    view.scan(Table::Dots, Bound::Included(&from), to, &mut |name, _| {
        let Some((target, dot)) = keys::split_erase(name) else { return ControlFlow::Continue(()) };
        if found.len() >= max && found.last().is_some_and(|(last, _)| *last != target) {
            return ControlFlow::Break(());
        }
        found.push((target, dot));
        ControlFlow::Continue(())
    })?;
    let mut aimed = Vec::new();
    for (target, dot) in found {
        let Some(DotRow { clock, remembered, key }) = dot_row(view, bucket, dot)? else { continue };
        aimed.push((target, load(view, bucket, &key, Pointer { clock, dot, remembered })?));
    }
    Ok(aimed)
}

/// What the bucket amounts to at this node.
pub fn sums(view: &dyn View, bucket: BucketId) -> Result<Sums, SpaceError> {
    Ok(get(view, Table::Sums, &keys::sums(bucket))?.unwrap_or_default())
}
