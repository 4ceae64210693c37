//! Taking a feed: what becomes of an answer, and what a node remembers about its feeds.
//!
//! A *round* is the answers of one life of one source until it has no more. Only at its end does the vector
//! advance. Before, the source has passed over dead records whose killers it has yet to send; a vector that
//! covered them already would call them dead to others, and if the source burned now, a version that others
//! still hold would be dropped for a killer that nobody has.
//!
//! Invariants: progress, horizon and doubt are this node's own and lie in `Local`; they decide nothing about
//! which record wins.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot, Origin, Vector};

use super::read::get;
use super::{SpaceError, feed};
use crate::entry::Entry;
use crate::record::Record;

/// How far a round has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The source's life: another life begins another round, it may have lost what it was about to send.
    pub source: Origin,
    /// What the answers so far were complete to.
    pub upto: Vector,
    /// Stored here by reads of single objects, dead at the source: dropped at the end, when what replaced them
    /// is here.
    pub dead: Vec<Dot>,
}

impl Versioned for Progress {
    const NAME: &'static str = "progress of a feed";
    const VERSION: u8 = 1;
}

/// A vector as a row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct VectorRow(Vector);

impl Versioned for VectorRow {
    const NAME: &'static str = "vector row";
    const VERSION: u8 = 1;
}

/// One answer of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Of which bucket.
    pub bucket: BucketId,
    /// Whose: the source's origin at the time.
    pub source: Origin,
    /// What the source took as seen.
    pub base: Vector,
    /// Admitted records ([`Record::admit`]) of this bucket.
    pub records: Vec<Record>,
    /// What is complete with them.
    pub upto: Vector,
    /// Whether the source has more.
    pub more: bool,
}

/// What to send as seen when asking this source: the vector, and what its round has brought so far.
pub fn seen(view: &dyn View, bucket: BucketId, source: Origin) -> Result<Vector, SpaceError> {
    let mut seen = feed::vector(view, bucket)?;
    if let Some(progress) = progress(view, bucket, source)? {
        seen.merge(&progress.upto);
    }
    Ok(seen)
}

fn progress(view: &dyn View, bucket: BucketId, source: Origin) -> Result<Option<Progress>, SpaceError> {
    let row: Option<Progress> = get(view, Table::Local, &progress_name(bucket, source))?;
    Ok(row.filter(|progress| progress.source == source))
}

/// The entries that carry out an answer, in one commit; none if an earlier answer of the round is missing.
pub fn take(view: &dyn View, incoming: Incoming) -> Result<Option<Vec<Entry>>, SpaceError> {
    let Incoming { bucket, source, base, records, upto, more } = incoming;
    if !seen(view, bucket, source)?.includes(&base) {
        return Ok(None);
    }
    let mut progress = progress(view, bucket, source)?.unwrap_or(Progress { source, ..Progress::default() });
    let dots: BTreeSet<Dot> = records.iter().map(|record| record.dot).collect();
    let vector = feed::vector(view, bucket)?;
    let mut from = vector;
    from.merge(&base);
    progress.dead.extend(feed::absent(view, bucket, &from, &upto, &dots)?);
    progress.upto.merge(&upto);
    let mut entries: Vec<Entry> = records.into_iter().map(|record| Entry::Record(Box::new(record))).collect();
    if more {
        entries.push(Entry::Progress { bucket, source, progress: Some(progress) });
        return Ok(Some(entries));
    }
    if !progress.dead.is_empty() {
        entries.push(Entry::Drop { bucket, dots: progress.dead });
    }
    entries.push(Entry::Vector { bucket, upto: progress.upto });
    entries.push(Entry::Progress { bucket, source, progress: None });
    Ok(Some(entries))
}

/// Covers the tombstones that are gone here: dropped, or passed over by a feed from where they were gone.
pub fn horizon(view: &dyn View, bucket: BucketId) -> Result<Vector, SpaceError> {
    Ok(get::<VectorRow>(view, Table::Local, &name(b"model/horizon/", bucket))?.unwrap_or_default().0)
}

/// Not empty while tombstones were passed over whose victims may still be stored here.
pub fn doubt(view: &dyn View, bucket: BucketId) -> Result<Vector, SpaceError> {
    Ok(get::<VectorRow>(view, Table::Local, &name(b"model/doubt/", bucket))?.unwrap_or_default().0)
}

fn name(kind: &[u8], bucket: BucketId) -> Vec<u8> {
    [kind, &bucket.0].concat()
}

/// One row for each source node: an older life's is overwritten.
fn progress_name(bucket: BucketId, source: Origin) -> Vec<u8> {
    [&name(b"model/progress/", bucket)[..], &source.node.0].concat()
}

pub(super) fn put_progress(bucket: BucketId, source: Origin, progress: Option<&Progress>, batch: &mut Batch) {
    let name = progress_name(bucket, source);
    match progress {
        Some(progress) => batch.put(Table::Local, name, codec::encode(progress)),
        None => batch.delete(Table::Local, name),
    }
}

pub(super) fn raise_horizon(
    bucket: BucketId,
    upto: &Vector,
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    let mut merged = horizon(view, bucket)?;
    merged.merge(upto);
    batch.put(Table::Local, name(b"model/horizon/", bucket), codec::encode(&VectorRow(merged)));
    Ok(())
}

pub(super) fn raise_doubt(
    bucket: BucketId,
    upto: &Vector,
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    let mut merged = doubt(view, bucket)?;
    merged.merge(upto);
    batch.put(Table::Local, name(b"model/doubt/", bucket), codec::encode(&VectorRow(merged)));
    Ok(())
}

pub(super) fn settle(
    bucket: BucketId,
    by: &Vector,
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    if by.includes(&doubt(view, bucket)?) {
        batch.delete(Table::Local, name(b"model/doubt/", bucket));
    }
    Ok(())
}
