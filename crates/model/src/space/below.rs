//! What a member tells a site that follows only the keys below a prefix.
//!
//! Two questions: what has changed below the prefix beyond a vector ([`changes_below`]), and what there is in a range of
//! its keys ([`range_below`]). The first costs the changes of the bucket, the second the range alone.
//!
//! Invariants: all records of a key are told together or not at all in a range, so that nobody drops a version whose killer
//! is still to come; what changed is told only to who has seen every tombstone that is gone here, else he compares ranges
//! first; what killed something here and lies beyond the own vector goes along, for it is fed to nobody.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use serde::{Deserialize, Serialize};
use skerry_base::kv::{Table, View, Visit, prefix_end};
use skerry_base::{BucketId, Dot, Vector};

use super::feed::{self, for_each_row};
use super::loose::{self, Loose, marked};
use super::prints::Fingerprint;
use super::read;
use super::rows::{self, DotRow, Pointer};
use super::{SpaceError, keys};
use crate::record::Record;

/// Dots looked at for one answer: the other keys of the bucket may be many. In tests few are many.
const SCANNED: usize = if cfg!(test) { 256 } else { 1 << 16 };
/// Records below a prefix that are looked through for those ahead of their feeds, where too many of all keys are.
const NAMES: usize = if cfg!(test) { 512 } else { 1 << 18 };
/// Records of one key, in bytes: a range holds whole keys and must fit a message.
const KEY_RECORDS: usize = 3 << 20;
/// Records beyond the vector, in bytes: they are told together, for each may have killed something.
const LOOSE_RECORDS: usize = 2 << 20;

/// The keys of a bucket that begin so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Below {
    /// The bucket.
    pub bucket: BucketId,
    /// How they begin.
    pub prefix: String,
}

impl Below {
    /// Whether a key is one of them.
    pub fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
    }
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Tombstones have gone here that the asker has not seen: ranges are to be compared first. Nothing else is said then.
    pub far: bool,
    /// Live records below the prefix that the asker has not seen.
    pub records: Vec<Record>,
    /// Up to where that is all, once there is no more.
    pub upto: Vector,
    /// Whether there is more.
    pub more: bool,
    /// Over the records below the prefix beyond the own vector. They are among `records` unless the asker has the same.
    pub loose: Fingerprint,
}

/// How far the records of a bucket reach at a member: as long as it is the same nothing has changed below any prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    vector: Vector,
    ahead: Vec<Loose>,
}

/// How far they reach now. Reads counts and fingerprints, and no records.
pub fn extent(view: &dyn View, bucket: BucketId) -> Result<Extent, SpaceError> {
    Ok(Extent { vector: feed::vector(view, bucket)?, ahead: loose::loose(view, bucket)? })
}

/// Records below the prefix that `seen` does not cover, at most about `max_bytes` of them.
///
/// `loose` is what the asker was told last of those beyond the vector of who told it; `horizon` covers the tombstones that
/// have gone here.
pub fn changes_below(
    view: &dyn View,
    below: &Below,
    (seen, loose, horizon): (&Vector, Fingerprint, &Vector),
    max_bytes: usize,
) -> Result<Changes, SpaceError> {
    if !seen.includes(horizon) {
        return Ok(Changes { far: true, loose, ..Changes::default() });
    }
    let mut answer = Changes { loose, ..Changes::default() };
    let (mut left, mut scanned) = (max_bytes, 0_usize);
    for (origin, last) in feed::vector(view, below.bucket)?.iter() {
        let first = seen.get(origin).saturating_add(1);
        let range = (Dot { origin, seq: first }, Dot { origin, seq: last });
        let full = match first > last {
            true => ControlFlow::Continue(()),
            false => for_each_row(view, below.bucket, range, &mut |dot, place| {
                scanned += 1;
                let record = below.record(view, dot, place)?;
                let bytes = record.as_ref().map_or(0, Record::encoded_len);
                let over = bytes > left && !answer.records.is_empty();
                if over || scanned > SCANNED {
                    answer.upto.advance(origin, dot.seq.saturating_sub(1));
                    return Ok(ControlFlow::Break(()));
                }
                left = left.saturating_sub(bytes);
                answer.records.extend(record);
                Ok(ControlFlow::Continue(()))
            })?,
        };
        if full.is_break() {
            answer.more = true;
            return Ok(answer);
        }
        answer.upto.advance(origin, last);
    }
    let (print, ahead) = below.loose(view)?;
    if print != loose {
        answer.records.extend(ahead);
    }
    answer.loose = print;
    Ok(answer)
}

impl Below {
    fn record(&self, view: &dyn View, dot: Dot, place: DotRow) -> Result<Option<Record>, SpaceError> {
        if !self.has(&place.key) {
            return Ok(None);
        }
        let pointer = Pointer { clock: place.clock, dot, remembered: place.remembered };
        read::load(view, self.bucket, &place.key, pointer).map(Some)
    }

    /// What lies beyond the vector, and its fingerprint. Looked for among all that does; where that is too much, as while a
    /// member catches up with other keys, among all records below the prefix.
    fn loose(&self, view: &dyn View) -> Result<Ahead, SpaceError> {
        match self.loose_of_all(view)? {
            Some(found) => Ok(found.told()),
            None => self.loose_of_these(view).map(Gathered::told),
        }
    }

    /// None if too much lies beyond the vector, of whatever keys.
    fn loose_of_all(&self, view: &dyn View) -> Result<Option<Gathered>, SpaceError> {
        let (mut found, mut scanned) = (Gathered::default(), 0);
        for origin in marked(view, self.bucket)? {
            let covered = feed::vector_entry(view, self.bucket, origin)?;
            let range = (Dot { origin, seq: covered.saturating_add(1) }, Dot { origin, seq: u64::MAX });
            let full = for_each_row(view, self.bucket, range, &mut |dot, place| {
                scanned += 1;
                if scanned > SCANNED {
                    return Ok(ControlFlow::Break(()));
                }
                self.record(view, dot, place)?.map_or(Ok(()), |record| found.add(record))?;
                Ok(ControlFlow::Continue(()))
            })?;
            if full.is_break() {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    fn loose_of_these(&self, view: &dyn View) -> Result<Gathered, SpaceError> {
        let vector = feed::vector(view, self.bucket)?;
        let (mut found, mut scanned, mut fault) = (Gathered::default(), 0, None);
        scan_names(view, self, (None, None), &mut |name, value| {
            scanned += 1;
            let dot = name.last_chunk::<32>().map(|tail| Dot::from_bytes(&tail.map(|byte| !byte)));
            let next = match dot {
                _ if scanned > NAMES => Err(SpaceError::TooManyLoose),
                None => Err(SpaceError::Inconsistent("a version has no dot")),
                Some(dot) if vector.covers(dot) => Ok(()),
                Some(_) => rows::version::decode(name, value).and_then(|record| found.add(record)),
            };
            fault = next.err();
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        fault.map_or(Ok(found), Err)
    }
}

type Ahead = (Fingerprint, Vec<Record>);

/// Records beyond the vector, within what a message holds.
#[derive(Default)]
struct Gathered {
    print: Fingerprint,
    records: Vec<Record>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, record: Record) -> Result<(), SpaceError> {
        self.bytes += record.encoded_len();
        if self.bytes > LOOSE_RECORDS {
            return Err(SpaceError::TooManyLoose);
        }
        self.print = self.print.plus(Fingerprint::of(record.dot));
        self.records.push(record);
        Ok(())
    }

    fn told(self) -> Ahead {
        (self.print, self.records)
    }
}

/// A range of keys below a prefix, whole or to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// Keys after this one; none: from the first.
    pub after: Option<String>,
    /// Up to this one; none: to the last.
    pub to: Option<String>,
    /// What the asker has of it: up to this vector it holds dots with this fingerprint. None: nothing that counts.
    pub held: Option<(Vector, Fingerprint)>,
}

/// What there is in a range of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// The asker holds the same of what its vector covers; of that no records are told then.
    pub same: bool,
    /// All stored records of its keys, also those beyond the vector.
    pub records: Vec<Record>,
    /// What of those keys this covers and neither `records` has nor is the same is dead.
    pub upto: Vector,
    /// Up to this key; none: all that was asked for.
    pub end: Option<String>,
}

/// What is stored in a range, at most about `max_bytes` of records but one whole key at least.
pub fn range_below(
    view: &dyn View,
    below: &Below,
    asked: &Asked,
    max_bytes: usize,
) -> Result<Range, SpaceError> {
    let upto = feed::vector(view, below.bucket)?;
    let keys = (asked.after.as_deref(), asked.to.as_deref());
    let known = match &asked.held {
        Some((seen, print)) if upto.includes(seen) => {
            is_same(view, below, keys, (seen, *print))?.then_some(seen)
        }
        _ => None,
    };
    let range = Range { same: known.is_some(), upto, ..Range::default() };
    let mut filling = Filling { range, known, last: None, bytes: 0, of_key: 0, most: max_bytes, fault: None };
    scan_below(view, below, keys, &mut |key, row| filling.add(key, row))?;
    filling.fault.map_or(Ok(filling.range), Err)
}

/// A range on its way into an answer.
struct Filling<'a> {
    range: Range,
    /// Of what this covers the asker has the same.
    known: Option<&'a Vector>,
    last: Option<String>,
    bytes: usize,
    of_key: usize,
    most: usize,
    fault: Option<SpaceError>,
}

impl Filling<'_> {
    fn add(&mut self, key: &str, (name, value): Row<'_>) -> ControlFlow<()> {
        if self.last.as_deref() != Some(key) {
            if self.bytes >= self.most {
                self.range.end = self.last.take();
                return ControlFlow::Break(());
            }
            (self.last, self.of_key) = (Some(key.into()), 0);
        }
        match rows::version::decode(name, value) {
            Ok(record) if self.known.is_some_and(|seen| seen.covers(record.dot)) => {
                return ControlFlow::Continue(());
            }
            Ok(record) => {
                let bytes = record.encoded_len();
                self.bytes += bytes;
                self.of_key += bytes;
                self.range.records.push(record);
            }
            Err(error) => self.fault = Some(error),
        }
        if self.of_key > KEY_RECORDS {
            self.fault = Some(SpaceError::TooManyVersions(key.into()));
        }
        if self.fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Name and value.
type Row<'a> = (&'a [u8], &'a [u8]);
type VisitBelow<'a> = dyn FnMut(&str, Row<'_>) -> ControlFlow<()> + 'a;

/// Visits the stored records of keys after one and up to another, with their keys.
fn scan_below(
    view: &dyn View,
    below: &Below,
    (after, to): (Option<&str>, Option<&str>),
    visit: &mut VisitBelow<'_>,
) -> Result<(), SpaceError> {
    let mut strange = false;
    scan_names(view, below, (after, to), &mut |name, value| {
        let Some((key, _)) = keys::split_object(name) else {
            strange = true;
            return ControlFlow::Break(());
        };
        visit(&key, (name, value))
    })?;
    if strange { Err(SpaceError::Inconsistent("a version has no key")) } else { Ok(()) }
}

fn scan_names(
    view: &dyn View,
    below: &Below,
    (after, to): (Option<&str>, Option<&str>),
    visit: &mut Visit<'_>,
) -> Result<(), SpaceError> {
    let all = keys::prefix(below.bucket, &below.prefix);
    let behind = |key: &str| prefix_end(&keys::object(below.bucket, key));
    let from = after.and_then(behind).unwrap_or_default().max(all.clone());
    let end = match (to.and_then(behind), prefix_end(&all)) {
        (Some(to), Some(end)) => Some(to.min(end)),
        (to, end) => to.or(end),
    };
    if end.as_ref().is_some_and(|end| *end <= from) {
        return Ok(());
    }
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    Ok(view.scan(Table::Versions, Bound::Included(&from), to, visit)?)
}

/// Whether what a vector covers in a range has this fingerprint. No more is looked at than the asker can have, and what is
/// new among it: of a range that has grown much the records are told.
fn is_same(
    view: &dyn View,
    below: &Below,
    keys: (Option<&str>, Option<&str>),
    (seen, print): (&Vector, Fingerprint),
) -> Result<bool, SpaceError> {
    let (mut here, mut others) = (Fingerprint::default(), 0);
    scan_names(view, below, keys, &mut |name, _| {
        let Some(tail) = name.last_chunk::<32>() else { return ControlFlow::Break(()) };
        let dot = Dot::from_bytes(&tail.map(|byte| !byte));
        match seen.covers(dot) {
            true => here = here.plus(Fingerprint::of(dot)),
            false => others += 1,
        }
        let is_over = here.count > print.count || others > SCANNED;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(here == print && others <= SCANNED)
}

/// The dots stored of keys after one and up to another.
pub(super) fn dots_below(
    view: &dyn View,
    below: &Below,
    keys: (Option<&str>, Option<&str>),
) -> Result<BTreeSet<Dot>, SpaceError> {
    let mut dots = BTreeSet::new();
    scan_names(view, below, keys, &mut |name, _| {
        let tail = name.last_chunk::<32>();
        dots.extend(tail.map(|dot| Dot::from_bytes(&dot.map(|byte| !byte))));
        ControlFlow::Continue(())
    })?;
    Ok(dots)
}

/// The fingerprint of those that a vector covers.
pub(super) fn covered_print(dots: &BTreeSet<Dot>, seen: &Vector) -> Fingerprint {
    let covered = dots.iter().filter(|dot| seen.covers(**dot));
    covered.fold(Fingerprint::default(), |print, dot| print.plus(Fingerprint::of(*dot)))
}

/// The last of the next `most` keys after one; none if there are fewer.
pub(super) fn key_ahead(
    view: &dyn View,
    below: &Below,
    after: Option<&str>,
    most: usize,
) -> Result<Option<String>, SpaceError> {
    let (mut count, mut last) = (0, None::<String>);
    scan_below(view, below, (after, None), &mut |key, _| {
        if last.as_deref() != Some(key) {
            if count == most {
                count += 1;
                return ControlFlow::Break(());
            }
            count += 1;
            last = Some(key.into());
        }
        ControlFlow::Continue(())
    })?;
    Ok(last.filter(|_| count > most))
}

#[cfg(test)]
#[path = "followed_tests.rs"]
mod tests;
