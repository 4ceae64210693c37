//! Vectors that are taken back: a node lost part of its journal, and what it had seen by its vectors may be what it lost.
//!
//! A vector says of everything up to it that it is here or dead. Behind lost entries that is not so: a later own write, or the
//! end of a feed, has raised it over records that came with them. So the node begins anew with all that it vouched for
//! ([`anew`]): the records stay, loose, as those of a bucket that was left, and are covered, or found dead, by the next feed.
//! Until it has heard from all others what they have ([`is_anew`]) it is nobody's home: what it decided may lie there alone.
//! Then what is still missing is nowhere, and the former vector is true again ([`whole_again`]): everything up to it is here
//! or gone.
//!
//! Invariants: the vector goes in the entry behind the one that remembers it; beginning anew twice forgets nothing of the
//! first time; what is said of it lies in `Local`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View, prefix_end};
use skerry_base::{BucketId, Vector};

use super::read::{get, row};
use super::{SpaceError, feed, subscription};
use crate::entry::Entry;

/// What a vector said before it was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Former(Vector);

impl Versioned for Former {
    const NAME: &'static str = "vector that was taken back";
    const VERSION: u8 = 1;
}

const PREFIX: &[u8] = b"model/anew/";

/// The lost parts of the journal (the first position lost, the first that reads again) after which all was begun anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Lost(Vec<(u64, u64)>);

impl Versioned for Lost {
    const NAME: &'static str = "lost parts of a journal";
    const VERSION: u8 = 1;
}

const LOST: &[u8] = b"model/lost";

fn lost_before(view: &dyn View) -> Result<Vec<(u64, u64)>, SpaceError> {
    Ok(get::<Lost>(view, Table::Local, LOST)?.map(|lost| lost.0).unwrap_or_default())
}

/// Whether any of these parts of the journal is lost newly: all is to be begun anew. An index that is built again meets those
/// of before, behind which all was begun anew in the journal itself; one that lies before them is another loss nevertheless.
pub fn is_new_loss(view: &dyn View, lost: &[(u64, u64)]) -> Result<bool, SpaceError> {
    let before = lost_before(view)?;
    let is_known = |part: &(u64, u64)| before.iter().any(|known| known.0 <= part.0 && part.1 <= known.1);
    Ok(!lost.iter().all(is_known))
}

/// The entry that says that all was begun anew after these losses; the last of those that do it.
pub fn begun_anew(view: &dyn View, lost: &[(u64, u64)]) -> Result<Entry, SpaceError> {
    let all: BTreeSet<(u64, u64)> = lost_before(view)?.into_iter().chain(lost.iter().copied()).collect();
    let value = Some(Bytes::from(codec::encode(&Lost(all.into_iter().collect()))));
    Ok(Entry::Local { key: Bytes::from_static(LOST), value })
}

fn name(bucket: BucketId) -> Vec<u8> {
    [PREFIX, &bucket.0].concat()
}

/// The buckets that are followed whole: a vector says something of them, or was taken back. Both go in the commit in which the
/// membership goes; who finds none beside them has lost it.
pub fn followed_whole(view: &dyn View) -> Result<BTreeSet<BucketId>, SpaceError> {
    let mut buckets: BTreeSet<BucketId> = all_anew(view)?.into_keys().collect();
    let mut from = Some(Vec::new());
    while let Some(start) = from.take() {
        view.scan(Table::Vectors, Bound::Included(&start), Bound::Unbounded, &mut |name, _| {
            let bucket = name.first_chunk::<16>().map(|id| BucketId(*id));
            buckets.extend(bucket);
            from = bucket.and_then(|bucket| prefix_end(&bucket.0));
            ControlFlow::Break(())
        })?;
    }
    Ok(buckets)
}

/// The buckets of which this node vouches for anything: by a vector, or for a prefix.
pub fn vouched(view: &dyn View) -> Result<BTreeSet<BucketId>, SpaceError> {
    let mut buckets = followed_whole(view)?;
    buckets.extend(subscription::subscriptions(view)?.into_iter().map(|(below, _)| below.bucket));
    Ok(buckets)
}

/// The entries that begin a bucket anew, in one commit.
pub fn anew(view: &dyn View, bucket: BucketId) -> Result<Vec<Entry>, SpaceError> {
    let mut vector = feed::vector(view, bucket)?;
    vector.merge(&former(view, bucket)?.unwrap_or_default());
    Ok(vec![said(bucket, Some(vector)), Entry::Leave { bucket }])
}

/// The entry of a bucket of which nothing is vouched for that could be taken back: all others are to be heard nevertheless.
pub fn to_be_heard(bucket: BucketId) -> Entry {
    said(bucket, Some(Vector::new()))
}

/// What the vector said before it was taken back; none if it was not, or is true again.
pub fn former(view: &dyn View, bucket: BucketId) -> Result<Option<Vector>, SpaceError> {
    Ok(get::<Former>(view, Table::Local, &name(bucket))?.map(|former| former.0))
}

/// Whether the vector was taken back, and not all was heard yet that others have.
pub fn is_anew(view: &dyn View, bucket: BucketId) -> Result<bool, SpaceError> {
    Ok(view.get(Table::Local, &name(bucket))?.is_some())
}

/// All buckets of which that is so, with what their vectors said.
pub fn all_anew(view: &dyn View) -> Result<BTreeMap<BucketId, Vector>, SpaceError> {
    let mut rows = Vec::new();
    view.scan_prefix(Table::Local, PREFIX, &mut |key, value| {
        let bucket = key.strip_prefix(PREFIX).and_then(|id| id.try_into().ok()).map(BucketId);
        rows.push((bucket, Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    let named = |(bucket, value): (Option<BucketId>, Bytes)| {
        let bucket = bucket.ok_or(SpaceError::Inconsistent("a vector that was taken back has no bucket"))?;
        Ok((bucket, row::<Former>(&value)?.0))
    };
    rows.into_iter().map(named).collect()
}

/// The entries of a bucket of which all that others have is here: what the vector covered before and is not here is nowhere.
pub fn whole_again(view: &dyn View, bucket: BucketId) -> Result<Vec<Entry>, SpaceError> {
    let Some(upto) = former(view, bucket)? else { return Ok(Vec::new()) };
    Ok(vec![Entry::Vector { bucket, upto }, said(bucket, None)])
}

/// The entries of a bucket that is followed no more, or was never: nothing is vouched for, and nothing is to be heard.
pub fn not_anew(bucket: BucketId) -> Entry {
    said(bucket, None)
}

fn said(bucket: BucketId, former: Option<Vector>) -> Entry {
    let value = former.map(|vector| Bytes::from(codec::encode(&Former(vector))));
    Entry::Local { key: name(bucket).into(), value }
}

#[cfg(test)]
#[path = "anew_tests.rs"]
mod tests;
