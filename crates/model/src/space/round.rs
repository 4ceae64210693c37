//! Taking a feed: what becomes of an answer, and how far a round has come.
//!
//! A *round* is the answers of one life of one source until it has no more. Only at its end does the vector
//! advance. Before, the source has passed over dead records whose killers it has yet to send; a vector that
//! covered them already would call them dead to others, and if the source burned now, a version that others
//! still hold would be dropped for a killer that nobody has.
//!
//! Invariants: progress is this node's own and lies in `Local`; it decides nothing about which record wins.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot, Origin, Vector};

use super::read::{get, row};
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

/// The rounds that have not ended.
pub(super) fn open(view: &dyn View, bucket: BucketId) -> Result<Vec<Progress>, SpaceError> {
    let mut rows = Vec::new();
    view.scan_prefix(Table::Local, &progress_prefix(bucket), &mut |_, value| {
        rows.push(Bytes::copy_from_slice(value));
        ControlFlow::Continue(())
    })?;
    rows.iter().map(row).collect()
}

fn progress_prefix(bucket: BucketId) -> Vec<u8> {
    [b"model/progress/", &bucket.0[..]].concat()
}

/// One row for each source node: an older life's is overwritten.
fn progress_name(bucket: BucketId, source: Origin) -> Vec<u8> {
    [&progress_prefix(bucket)[..], &source.node.0].concat()
}

pub(super) fn put_progress(bucket: BucketId, source: Origin, progress: Option<&Progress>, batch: &mut Batch) {
    let name = progress_name(bucket, source);
    match progress {
        Some(progress) => batch.put(Table::Local, name, codec::encode(progress)),
        None => batch.delete(Table::Local, name),
    }
}
