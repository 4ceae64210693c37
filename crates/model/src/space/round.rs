//! Taking a feed: what becomes of an answer, and how far a round has come.
//!
//! A *round* is the answers of one life of one source until it has no more. Only at its end does the vector
//! advance. Before, the source has passed over dead records whose killers it has yet to send; a vector that
//! covered them already would call them dead to others, and if the source burned now, a version that others
//! still hold would be dropped for a killer that nobody has. So an answer may be taken in parts ([`steps`]): each is one that
//! the source could have given.
//!
//! Invariants: progress is this node's own and lies in `Local`; it decides nothing about which record wins.

use core::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot, Origin, Vector};

use super::read::{get, row};
use super::{SpaceError, change, feed};
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

/// One answer of a feed, with its records or what they are to be read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming<R = Record> {
    /// Of which bucket.
    pub bucket: BucketId,
    /// Whose: the source's origin at the time.
    pub source: Origin,
    /// What the source took as seen.
    pub base: Vector,
    /// Admitted records ([`Record::admit`]) of this bucket.
    pub records: Vec<R>,
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

/// The same answer as answers of at most so many records and bytes (one record at least), to be taken in this order, with nothing
/// left out. What kills from beyond the source's vector comes first: nothing that it killed is covered without it.
pub fn steps<R>(
    incoming: Incoming<R>,
    (records, bytes): (usize, usize),
    dot: impl Fn(&R) -> Dot,
    len: impl Fn(&R) -> usize,
) -> impl Iterator<Item = Incoming<R>> {
    let most = (records.max(1), bytes);
    let Incoming { bucket, source, mut base, records, upto, more } = incoming;
    let (mut covered, ahead): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| upto.covers(dot(record)));
    covered.sort_by_key(&dot);
    let mut left: VecDeque<R> = ahead.into_iter().chain(covered).collect();
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let records: Vec<R> = left.drain(..fitting(left.iter().map(&len), most)).collect();
        ended = left.is_empty();
        let upto = match records.last().map(&dot) {
            Some(last) if !ended => up_to(&upto, last),
            _ => upto.clone(),
        };
        let step = Incoming { bucket, source, base: base.clone(), records, more: more || !ended, upto };
        base.merge(&step.upto);
        Some(step)
    })
}

/// How many of these lengths, from the first on, are no more than so many and so long together; the first always is.
fn fitting(lens: impl Iterator<Item = usize>, (count, bytes): (usize, usize)) -> usize {
    let sums = lens.take(count).scan(0_usize, |sum, len| {
        *sum = sum.saturating_add(len);
        Some(*sum)
    });
    sums.enumerate().take_while(|(index, sum)| *index == 0 || *sum <= bytes).count()
}

/// What of an answer is complete with this record; nothing, with one from beyond it.
fn up_to(whole: &Vector, last: Dot) -> Vector {
    if !whole.covers(last) {
        return Vector::new();
    }
    let until = |(origin, seq)| match Ord::cmp(&origin, &last.origin) {
        Ordering::Less => Some((origin, seq)),
        Ordering::Equal => Some((origin, last.seq)),
        Ordering::Greater => None,
    };
    whole.iter().filter_map(until).collect()
}

/// The entries that carry out an answer, in one commit; none if an earlier answer of the round is missing.
pub fn take(view: &dyn View, incoming: Incoming) -> Result<Option<Vec<Entry>>, SpaceError> {
    let Incoming { bucket, source, base, records, upto, more } = incoming;
    let vector = feed::vector(view, bucket)?;
    let progress = progress(view, bucket, source)?;
    let mut seen = vector.clone();
    progress.iter().for_each(|progress| seen.merge(&progress.upto));
    if !seen.includes(&base) {
        return Ok(None);
    }
    let mut progress = progress.unwrap_or(Progress { source, ..Progress::default() });
    let dots: BTreeSet<Dot> = records.iter().map(|record| record.dot).collect();
    let mut from = vector;
    from.merge(&base);
    change::foresee(view, bucket, (&from, &upto))?;
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
