//! Following only the keys below a prefix: what a site holds of them without being a member of the bucket.
//!
//! The records lie in the tables like all others, *loose*: no vector of the bucket covers them, and nothing is claimed of
//! them to anybody. What they are complete to is said by a row of this node's own, for each prefix. What came from members is
//! carried out by [`take_changes`] and [`take_range`], each in one commit.
//!
//! Invariants: of the keys below the prefix everything that the row's vector covers is here or dead, and nothing that is dead
//! by it comes back ([`admit`]); the vector advances only with the last answer of a round, when what killed the dead is here;
//! a site that leaves a bucket which it followed whole begins anew with its prefixes, for what it had of them goes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot, Origin, Vector};

use super::below::{Asked, Below, Changes, Range, covered_print, dots_below, key_ahead};
use super::feed::absent_of;
use super::prints::Fingerprint;
use super::read::{self, get, row};
use super::round::Progress;
use super::{SpaceError, keys};
use crate::entry::Entry;
use crate::record::Record;

/// Keys whose dots are compared at once, to begin with: what differs costs the records of so many.
pub const COMPARED: usize = 128;
/// And at most, after so many that were the same.
const COMPARED_MOST: usize = 2048;

/// How a prefix is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subscription {
    /// Everything below the prefix up to here is stored or dead.
    pub upto: Vector,
    /// Whether it was taken whole once.
    pub complete: bool,
    /// Changes that are being taken.
    pub round: Option<Progress>,
    /// Ranges that are being taken or compared.
    pub ranges: Option<Ranges>,
    /// What was told last of records beyond the vector of who told it.
    pub loose: Fingerprint,
    /// Writes here go to a member instead of making this site one.
    pub through: bool,
    /// It is to end: what is stored of it goes.
    pub ends: bool,
}

impl Versioned for Subscription {
    const NAME: &'static str = "followed prefix";
    const VERSION: u8 = 1;
}

/// How far a walk over the ranges of a prefix has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ranges {
    /// Up to this key, itself included.
    pub after: Option<String>,
    /// What each range so far is complete to; none before the first.
    pub base: Option<Vector>,
}

impl Ranges {
    /// Whether the walk has been at a key.
    fn passed(&self, key: &str) -> bool {
        self.after.as_deref().is_some_and(|after| key <= after)
    }
}

/// What is to be asked next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// What has changed beyond this vector, and what was told of loose records.
    Changes(Vector, Fingerprint),
    /// What there is in this range.
    Range(Asked),
    /// Nothing: it ends.
    End,
}

/// All prefixes that are followed, in order.
pub fn subscriptions(view: &dyn View) -> Result<Vec<(Below, Subscription)>, SpaceError> {
    rows(view, PREFIX)
}

/// Those of one bucket.
pub fn subscriptions_of(view: &dyn View, bucket: BucketId) -> Result<Vec<(Below, Subscription)>, SpaceError> {
    rows(view, &[PREFIX, &bucket.0].concat())
}

/// One of them.
pub fn subscription(view: &dyn View, below: &Below) -> Result<Option<Subscription>, SpaceError> {
    get(view, Table::Local, &name(below))
}

fn rows(view: &dyn View, first: &[u8]) -> Result<Vec<(Below, Subscription)>, SpaceError> {
    let mut found = Vec::new();
    view.scan_prefix(Table::Local, first, &mut |key, value| {
        found.push((below_of(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    let named = |(below, value): (Option<Below>, Bytes)| {
        Ok((below.ok_or(SpaceError::Inconsistent("a followed prefix has no bucket"))?, row(&value)?))
    };
    found.into_iter().map(named).collect()
}

const PREFIX: &[u8] = b"model/followed/";

fn name(below: &Below) -> Vec<u8> {
    [PREFIX, &below.bucket.0, below.prefix.as_bytes()].concat()
}

fn below_of(name: &[u8]) -> Option<Below> {
    let (bucket, prefix) = name.strip_prefix(PREFIX)?.split_first_chunk::<16>()?;
    Some(Below { bucket: BucketId(*bucket), prefix: String::from_utf8(prefix.to_vec()).ok()? })
}

/// The entry that remembers how a prefix is followed; none forgets it.
pub fn followed(below: &Below, row: Option<&Subscription>) -> Entry {
    let value = row.map(|row| Bytes::from(codec::encode(row)));
    Entry::Local { key: name(below).into(), value }
}

/// Whether a prefix is whole after these entries.
pub fn completes(below: &Below, entries: &[Entry]) -> Result<bool, SpaceError> {
    let row_of = |entry: &Entry| match entry {
        Entry::Local { key, value: Some(value) } if *key == name(below) => Some(value.clone()),
        _ => None,
    };
    let last = entries.iter().rev().find_map(row_of);
    Ok(last.map(|value| row::<Subscription>(&value)).transpose()?.is_some_and(|row| row.complete))
}

/// How many keys to compare after so many: twice as many if they were the same, else few again. So what differs costs no
/// more records than there were keys without a difference before it.
pub const fn compares(compared: usize, same: bool) -> usize {
    match same {
        true if compared < COMPARED_MOST => compared * 2,
        true => compared,
        false => COMPARED,
    }
}

/// What to ask next of a member in this life of it, so many keys at a time where they are compared.
pub fn next(
    view: &dyn View,
    below: &Below,
    row: &Subscription,
    (source, compared): (Option<Origin>, usize),
) -> Result<Step, SpaceError> {
    if row.ends {
        return Ok(Step::End);
    }
    let walk = row.ranges.clone().or_else(|| (!row.complete).then(Ranges::default));
    let Some(Ranges { after, .. }) = walk else {
        return Ok(Step::Changes(row.seen(source), row.loose));
    };
    if !row.complete {
        return Ok(Step::Range(Asked { after, to: None, held: None }));
    }
    let to = key_ahead(view, below, after.as_deref(), compared)?;
    let print = covered_print(&dots_below(view, below, (after.as_deref(), to.as_deref()))?, &row.upto);
    Ok(Step::Range(Asked { after, to, held: Some((row.upto.clone(), print)) }))
}

impl Subscription {
    /// What was seen, with what an unfinished round with this life of a member has brought.
    pub fn seen(&self, source: Option<Origin>) -> Vector {
        let mut seen = self.upto.clone();
        if let Some(round) = self.round.as_ref().filter(|round| Some(round.source) == source) {
            seen.merge(&round.upto);
        }
        seen
    }

    /// Followed still, or ending, with nothing taken: what is here is not vouched for.
    pub fn anew(&self) -> Self {
        Self { through: self.through, ends: self.ends, ..Self::default() }
    }

    /// To end: from now on nothing is vouched for, before anything is dropped.
    pub fn ending(&self) -> Self {
        Self { ends: true, ..self.anew() }
    }

    /// Ranges are to be compared: tombstones may be gone, or it is time.
    pub fn compare(&mut self) {
        self.round = None;
        self.ranges.get_or_insert_with(Ranges::default);
    }
}

/// The entries that carry out what changed since `base` by the word of a member, in one commit; none if they do not go on
/// what was taken before, or the prefix is followed no more.
pub fn take_changes(
    view: &dyn View,
    below: &Below,
    (source, base): (Origin, &Vector),
    changes: Changes,
) -> Result<Option<Vec<Entry>>, SpaceError> {
    let Some(mut row) = subscription(view, below)?.filter(|row| row.complete && !row.ends) else {
        return Ok(None);
    };
    if row.ranges.is_some() || !row.seen(Some(source)).includes(base) {
        return Ok(None);
    }
    if changes.far {
        row.compare();
        return Ok(Some(vec![followed(below, Some(&row))]));
    }
    let told: BTreeSet<Dot> = changes.records.iter().map(|record| record.dot).collect();
    let came = alive(view, below, &row, changes.records)?;
    let round = row.round.take().filter(|round| round.source == source);
    let mut round = round.unwrap_or(Progress { source, ..Progress::default() });
    let mut from = row.upto.clone();
    from.merge(base);
    let is_below = |key: &str| below.has(key);
    round.dead.extend(absent_of(view, below.bucket, (&from, &changes.upto), &told, &is_below)?);
    round.upto.merge(&changes.upto);
    let mut entries: Vec<Entry> = records(came);
    if changes.more {
        row.round = Some(round);
    } else {
        if !round.dead.is_empty() {
            entries.push(Entry::Drop { bucket: below.bucket, dots: round.dead });
        }
        row.upto.merge(&round.upto);
        row.loose = changes.loose;
    }
    entries.push(followed(below, Some(&row)));
    Ok(Some(entries))
}

/// Of what a member told what the prefix, as it was before, does not call dead: that member may be behind.
fn alive(
    view: &dyn View,
    below: &Below,
    row: &Subscription,
    mut records: Vec<Record>,
) -> Result<Vec<Record>, SpaceError> {
    let mut dead = BTreeSet::new();
    for record in records.iter().filter(|record| row.is_dead(record)) {
        if read::dot_row(view, below.bucket, record.dot)?.is_none() {
            dead.insert(record.dot);
        }
    }
    records.retain(|record| !dead.contains(&record.dot));
    Ok(records)
}

fn records(records: Vec<Record>) -> Vec<Entry> {
    records.into_iter().map(|record| Entry::Record(Box::new(record))).collect()
}

/// The entries that carry out what a member told of a range that was asked for, likewise.
pub fn take_range(
    view: &dyn View,
    below: &Below,
    asked: &Asked,
    range: Range,
) -> Result<Option<Vec<Entry>>, SpaceError> {
    let Some(mut row) = subscription(view, below)?.filter(|row| !row.ends) else { return Ok(None) };
    let walk = row.ranges.take().or_else(|| (!row.complete).then(Ranges::default));
    let Some(mut walk) = walk.filter(|walk| walk.after == asked.after) else { return Ok(None) };
    let same = match (&asked.held, range.same) {
        (Some((seen, _)), true) => seen.clone(),
        (None, true) => return Ok(None),
        (_, false) => Vector::new(),
    };
    let Range { records: came, upto, end, .. } = range;
    let upmost = end.as_deref().or(asked.to.as_deref());
    let here = dots_below(view, below, (asked.after.as_deref(), upmost))?;
    let told: BTreeSet<Dot> = came.iter().map(|record| record.dot).collect();
    let is_dead = |dot: &Dot| upto.covers(*dot) && !same.covers(*dot) && !told.contains(dot);
    let dots: Vec<Dot> = here.into_iter().filter(is_dead).collect();
    let mut entries = records(alive(view, below, &row, came)?);
    if !dots.is_empty() {
        entries.push(Entry::Drop { bucket: below.bucket, dots });
    }
    walk.base = Some(walk.base.map_or_else(|| upto.clone(), |base| lesser(&base, &upto)));
    walk.after = end.or_else(|| asked.to.clone());
    if walk.after.is_some() {
        row.ranges = Some(walk);
    } else {
        walk.base.iter().for_each(|base| row.upto.merge(base));
        row = Subscription { complete: true, round: None, loose: Fingerprint::default(), ..row };
    }
    entries.push(followed(below, Some(&row)));
    Ok(Some(entries))
}

/// What both cover.
fn lesser(one: &Vector, other: &Vector) -> Vector {
    one.iter().map(|(origin, seq)| (origin, seq.min(other.get(origin)))).filter(|(_, seq)| *seq > 0).collect()
}

/// Of records that no member told of a followed prefix those that may be stored, and the entries that say so to rounds that
/// are open. What the prefix is complete to, and is not here, is dead.
pub(super) fn admit(
    view: &dyn View,
    bucket: BucketId,
    mut records: Vec<Record>,
) -> Result<(Vec<Record>, Vec<Entry>), SpaceError> {
    let mut entries = Vec::new();
    for (below, mut row) in subscriptions_of(view, bucket)? {
        let mut passed = Vec::new();
        let mut admitted = Vec::with_capacity(records.len());
        for record in records {
            if below.has(&record.key) && read::dot_row(view, bucket, record.dot)?.is_none() {
                if row.is_dead(&record) {
                    continue;
                }
                if row.round.as_ref().is_some_and(|round| round.upto.covers(record.dot)) {
                    passed.push(record.dot);
                }
            }
            admitted.push(record);
        }
        records = admitted;
        if let Some(round) = row.round.as_mut().filter(|_| !passed.is_empty()) {
            round.dead.extend(passed);
            entries.push(followed(&below, Some(&row)));
        }
    }
    Ok((records, entries))
}

impl Subscription {
    /// Whether a record below the prefix that is not here is dead.
    fn is_dead(&self, record: &Record) -> bool {
        let walked = |walk: &Ranges| {
            walk.passed(&record.key) && walk.base.as_ref().is_some_and(|base| base.covers(record.dot))
        };
        self.upto.covers(record.dot) || self.ranges.as_ref().is_some_and(walked)
    }
}

/// The site leaves a bucket that it followed whole, and drops what it has of it: prefixes begin anew.
pub(super) fn forget(bucket: BucketId, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    for (below, row) in subscriptions_of(view, bucket)? {
        batch.put(Table::Local, name(&below), codec::encode(&row.anew()));
    }
    Ok(())
}

/// The entries by which prefixes of a bucket claim nothing any more: the site becomes a member, and feeds judge what is here.
pub fn rested(view: &dyn View, bucket: BucketId) -> Result<Vec<Entry>, SpaceError> {
    let rows = subscriptions_of(view, bucket)?;
    Ok(rows.into_iter().map(|(below, row)| followed(&below, Some(&row.anew()))).collect())
}

/// The next records below a prefix that is followed no more, for [`Entry::Drop`]: whole keys, at most `max` records unless
/// one key alone has more; then its oldest.
pub fn left_below(view: &dyn View, below: &Below, max: usize) -> Result<Vec<Dot>, SpaceError> {
    super::leave::left_in(view, &keys::prefix(below.bucket, &below.prefix), max)
}

/// How many records are stored below a prefix, and their encoded bytes, as [`super::Sums`] counts them; counted up to so many.
pub fn held_below(view: &dyn View, below: &Below, most: u64) -> Result<(u64, u64), SpaceError> {
    let (mut count, mut bytes, mut fault) = (0, 0, None);
    view.scan_prefix(Table::Versions, &keys::prefix(below.bucket, &below.prefix), &mut |name, value| {
        count += 1;
        match super::rows::version::decode(name, value) {
            Ok(record) => bytes += record.encoded_len() as u64,
            Err(error) => fault = Some(error),
        }
        if count < most && fault.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    fault.map_or(Ok((count, bytes)), Err)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_base::NodeId;
    use skerry_base::kv::{Reducer, Tables};

    use super::*;
    use crate::space::SpaceReducer;

    fn below() -> Below {
        Below { bucket: BucketId([7; 16]), prefix: "oslo/".into() }
    }

    fn row() -> Subscription {
        let source = Origin { node: NodeId([1; 16]), incarnation: 2 };
        let dead = vec![Dot { origin: source, seq: 7 }];
        Subscription {
            upto: Vector::from_iter([(source, 300)]),
            complete: true,
            round: Some(Progress { source, upto: Vector::new(), dead }),
            ranges: Some(Ranges { after: Some("k".into()), base: None }),
            loose: Fingerprint { count: 1, sum: 5 },
            through: true,
            ends: false,
        }
    }

    fn apply(tables: &mut Tables, entry: &Entry) {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), tables, &mut batch).unwrap();
        tables.apply(&batch);
    }

    #[test]
    fn subscription_v1_fixture() {
        let origin = format!("{}02", "01".repeat(16));
        let expected = format!("0101{origin}ac020101{origin}0001{origin}070101016b0001050100");
        let bytes = codec::encode(&row());
        assert_eq!(skerry_base::hex::text(&bytes), expected);
        assert_eq!(codec::decode::<Subscription>(&bytes).unwrap(), row());
    }

    #[test]
    fn who_leaves_the_bucket_begins_anew_with_its_prefixes() {
        let mut tables = Tables::default();
        apply(&mut tables, &followed(&below(), Some(&row())));
        let other = Below { bucket: BucketId([8; 16]), ..below() };
        apply(&mut tables, &followed(&other, Some(&row())));
        apply(&mut tables, &Entry::Leave { bucket: below().bucket });
        let anew = Subscription { through: true, ..Subscription::default() };
        assert_eq!(subscriptions(&tables).unwrap(), [(below(), anew), (other.clone(), row())]);
        apply(&mut tables, &followed(&below(), None));
        assert_eq!(subscriptions(&tables).unwrap(), [(other, row())]);
    }

    #[test]
    fn an_answer_to_an_older_question_is_passed_over() {
        let mut tables = Tables::default();
        let source = Origin { node: NodeId([1; 16]), incarnation: 2 };
        let changes = || Changes { upto: Vector::from_iter([(source, 9)]), ..Changes::default() };
        let take = |tables: &Tables, base: &Vector| {
            take_changes(tables, &below(), (source, base), changes()).unwrap()
        };
        assert_eq!(take(&tables, &Vector::new()), None, "it is not followed");
        apply(&mut tables, &followed(&below(), Some(&Subscription::default())));
        assert_eq!(take(&tables, &Vector::new()), None, "it was not taken whole");
        let range =
            |tables: &Tables, asked: &Asked| take_range(tables, &below(), asked, Range::default()).unwrap();
        let second = Asked { after: Some("oslo/b".into()), ..Asked::default() };
        assert_eq!(range(&tables, &second), None, "the first range is missing");
        for entry in range(&tables, &Asked::default()).unwrap() {
            apply(&mut tables, &entry);
        }
        let ahead = Vector::from_iter([(source, 3)]);
        assert_eq!(take(&tables, &ahead), None, "what came before is missing");
        for entry in take(&tables, &Vector::new()).unwrap() {
            apply(&mut tables, &entry);
        }
        let taken = subscription(&tables, &below()).unwrap().unwrap();
        assert!(taken.complete && taken.upto == changes().upto);
        let ends = Subscription { ends: true, ..taken };
        apply(&mut tables, &followed(&below(), Some(&ends)));
        assert_eq!(take(&tables, &ahead), None, "it ends");
        assert_eq!(next(&tables, &below(), &ends, (None, COMPARED)).unwrap(), Step::End);
    }

    #[test]
    fn the_longer_nothing_differs_the_more_keys_are_compared_at_once() {
        let mut compared = COMPARED;
        let mut asked = 0;
        let mut keys = 0;
        while keys < 10_000_000 {
            keys += compared;
            asked += 1;
            compared = compares(compared, true);
        }
        assert!(asked < 5_000, "{asked} questions");
        assert_eq!(compares(compared, false), COMPARED);
    }
}
