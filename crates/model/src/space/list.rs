//! Listings: pages over visible keys and over versions.
//!
//! A page costs the page: common prefixes are skipped by seeking to their end, whatever lies below them, and of a key with many
//! versions those on the page are read. Keys of which only a tombstone rests are passed over row by row, without a seek for each.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::kv::{Table, View, prefix_end};
use skerry_base::{BucketId, Dot};

use super::change::{State, each_alive_behind};
use super::read::{self, VersionId};
use super::rows::{self, Listed};
use super::{SpaceError, keys};
use crate::record::{Record, Versioning};

/// What to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor<'a> {
    /// Keys that begin so.
    pub prefix: &'a str,
    /// Keys after this one; a common prefix of an earlier page skips all below it.
    pub start_after: Option<&'a str>,
    /// Folds keys that contain it after the prefix; none or empty folds nothing.
    pub delimiter: Option<&'a str>,
    /// Keys and common prefixes on the page.
    pub max: usize,
    /// Keys of which nothing is shown that a page of versions passes over at most, such as those of which only a tombstone rests:
    /// it ends there, be it empty. None passes over all.
    pub skips: Option<usize>,
}

impl Cursor<'_> {
    /// The common prefix that a key is folded into.
    fn common_prefix(&self, key: &str) -> Option<String> {
        let delimiter = self.delimiter.filter(|delimiter| !delimiter.is_empty())?;
        let tail = key.strip_prefix(self.prefix)?;
        let at = tail.find(delimiter)? + self.prefix.len() + delimiter.len();
        key.get(..at).map(str::to_owned)
    }

    /// Whether a key is listed by itself.
    fn lists(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && self.common_prefix(key).is_none()
    }
}

/// A page of visible keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Keys in order.
    pub keys: Vec<(String, Listed)>,
    /// Common prefixes in order.
    pub prefixes: Vec<String>,
    /// What to pass as `start_after` for the next page; none at the end.
    pub next: Option<String>,
}

/// One version as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// How clients name it.
    pub id: VersionId,
    /// Whether a plain read gets it.
    pub is_latest: bool,
    /// The version; a `Delete` is a delete marker.
    pub record: Record,
}

/// A page of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Versions {
    /// By key, newest first.
    pub versions: Vec<Shown>,
    /// Common prefixes in order.
    pub prefixes: Vec<String>,
    /// Key and, unless all its versions were shown, version after which the next page starts.
    pub next: Option<(String, Option<VersionId>)>,
}

/// A walk over the object keys of a table that folds common prefixes.
struct Walk<'a> {
    view: &'a dyn View,
    table: Table,
    bucket: BucketId,
    cursor: Cursor<'a>,
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    /// Rows are read ahead: seeks cost more than neighbours.
    ahead: std::collections::VecDeque<(Vec<u8>, Bytes)>,
    exhausted: bool,
    /// So many rows are read ahead the next time: as many as are likely to be used.
    most: usize,
}

/// A row, or a common prefix in place of the rows below it.
enum Step {
    Row(Found),
    Prefix(String),
}

/// A row of an object key.
struct Found {
    name: Vec<u8>,
    key: String,
    value: Bytes,
}

/// Rows read ahead at most.
const AHEAD: usize = 128;
/// Rows read ahead where common prefixes hold more rows than are read: fewer save little beside the seek to the next one, and would
/// have each small one sought that comes behind large ones.
const AHEAD_OF_PREFIXES: usize = 16;

impl<'a> Walk<'a> {
    fn new(view: &'a dyn View, table: Table, bucket: BucketId, cursor: Cursor<'a>) -> Self {
        let from = keys::prefix(bucket, cursor.prefix);
        let end = prefix_end(&from);
        // Of one key there may be any number of versions.
        let most = if table == Table::Current { AHEAD } else { 1 };
        let mut walk =
            Self { view, table, bucket, cursor, from, end, ahead: [].into(), exhausted: false, most };
        if let Some(after) = cursor.start_after {
            let folded = walk.common_prefix(after).is_some_and(|prefix| prefix == after);
            match folded {
                true => walk.skip(&keys::prefix(bucket, after)),
                false => walk.skip(&keys::object(bucket, after)),
            }
        }
        walk
    }

    /// Goes on behind everything that begins so.
    fn skip(&mut self, bytes: &[u8]) {
        match prefix_end(bytes) {
            Some(next) if next > self.from => self.from = next,
            Some(_) => {}
            None => self.exhausted = true,
        }
        while self.ahead.front().is_some_and(|(name, _)| *name < self.from) {
            self.ahead.pop_front();
        }
    }

    fn common_prefix(&self, key: &str) -> Option<String> {
        self.cursor.common_prefix(key)
    }

    /// Reads ahead, unless there is something of before; whether it did.
    fn fill(&mut self, want: usize) -> Result<bool, SpaceError> {
        if self.exhausted || !self.ahead.is_empty() {
            return Ok(false);
        }
        let to = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let most = want.clamp(1, self.most);
        let ahead = &mut self.ahead;
        self.view.scan(self.table, Bound::Included(&self.from), to, &mut |name, value| {
            ahead.push_back((name.to_vec(), Bytes::copy_from_slice(value)));
            if ahead.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.exhausted = self.ahead.len() < most;
        Ok(true)
    }

    /// The next row or common prefix. Rows of one object key all come, one by one.
    fn next(&mut self, want: usize) -> Result<Option<Step>, SpaceError> {
        let is_first = self.fill(want)?;
        let Some((name, value)) = self.ahead.pop_front() else { return Ok(None) };
        let (key, _) = keys::split_object(&name).ok_or(SpaceError::Inconsistent("a row has no key"))?;
        match self.common_prefix(&key) {
            Some(prefix) => {
                self.skip(&keys::prefix(self.bucket, &prefix));
                if !self.ahead.is_empty() {
                    self.farther();
                } else if is_first {
                    // All that was read is of this one.
                    self.most = self.most.min(AHEAD_OF_PREFIXES.max(self.most / 2));
                }
                Ok(Some(Step::Prefix(prefix)))
            }
            None => {
                self.from = [&name[..], &[0]].concat();
                Ok(Some(Step::Row(Found { name, key, value })))
            }
        }
    }

    /// More of what is read ahead will be used.
    fn farther(&mut self) {
        self.most = (self.most * 2).min(AHEAD);
    }

    /// The next of the object keys whose rows are versions, and whether its first row says with those read ahead that nothing
    /// of it is shown. What lives comes first.
    fn next_key(&mut self) -> Result<Option<(Step, bool)>, SpaceError> {
        let found = match self.next(AHEAD)? {
            Some(Step::Row(found)) => found,
            other => return Ok(other.map(|step| (step, false))),
        };
        let object = keys::object(self.bucket, &found.key);
        let rests = match found.name.get(object.len()) {
            Some(&keys::ALIVE) => {
                self.is_last_alive(&found.key)
                    && is_hidden(&rows::version::decode(&found.name, &found.value)?)
            }
            _ => true,
        };
        self.skip(&object);
        Ok(Some((Step::Row(found), rests)))
    }

    /// Visits the versions of a key that a client sees; whether there is one.
    fn shows(&self, key: &str, visit: &mut dyn FnMut(Shown) -> ControlFlow<()>) -> Result<bool, SpaceError> {
        let mut is_shown = false;
        each_shown(self.view, self.bucket, key, None, &mut |shown| {
            is_shown = true;
            visit(shown)
        })?;
        Ok(is_shown)
    }

    /// A key was shown, which may have any number of versions, or passed over, as the next one may be.
    fn passed(&mut self, is_shown: bool) {
        if is_shown {
            self.most = 1;
        } else {
            self.farther();
        }
    }

    /// Whether it is known that no other version of a key lives behind the row that came last.
    fn is_last_alive(&self, key: &str) -> bool {
        let alive = keys::region(self.bucket, key, keys::ALIVE);
        self.ahead.front().map_or(self.exhausted, |(name, _)| !name.starts_with(&alive))
    }
}

/// A tombstone of a key that never had versioning.
fn is_hidden(record: &Record) -> bool {
    record.is_delete() && record.versioning == Versioning::Off
}

/// A page of the visible keys of a bucket.
pub fn list_current(view: &dyn View, bucket: BucketId, cursor: Cursor<'_>) -> Result<Listing, SpaceError> {
    let mut walk = Walk::new(view, Table::Current, bucket, cursor);
    let mut page = Listing::default();
    let mut last = None;
    if cursor.max == 0 {
        return Ok(page);
    }
    loop {
        let found = page.keys.len() + page.prefixes.len();
        let Some(step) = walk.next(cursor.max + 1 - found)? else { return Ok(page) };
        if found == cursor.max {
            page.next = last;
            return Ok(page);
        }
        match step {
            Step::Row(Found { key, value, .. }) => {
                if !walk.ahead.is_empty() {
                    walk.farther();
                }
                last = Some(key.clone());
                page.keys.push((key, rows::current::decode(&value)?));
            }
            Step::Prefix(prefix) => {
                last = Some(prefix.clone());
                page.prefixes.push(prefix);
            }
        }
    }
}

/// A page of the versions of a bucket. `after` names the version of the key `cursor.start_after` behind which
/// the page starts; without it the page starts behind all versions of that key. Tombstones of a bucket that
/// never had versioning are not shown.
pub fn list_versions(
    view: &dyn View,
    bucket: BucketId,
    cursor: Cursor<'_>,
    after: Option<VersionId>,
) -> Result<Versions, SpaceError> {
    let mut page = Versions::default();
    if cursor.max == 0 {
        return Ok(page);
    }
    if let (Some(key), Some(after)) = (cursor.start_after.filter(|key| cursor.lists(key)), after) {
        each_shown(view, bucket, key, Some(after), &mut |shown| page.add(shown, cursor.max))?;
    }
    let mut walk = Walk::new(view, Table::Versions, bucket, cursor);
    let mut skips = Skips(cursor.skips);
    while page.next.is_none() {
        let full = page.versions.len() + page.prefixes.len() == cursor.max;
        let Some((step, rests)) = walk.next_key()? else { break };
        match step {
            Step::Row(Found { key, .. }) => {
                let mut visit = |shown| page.add(shown, cursor.max);
                let is_shown = !rests && walk.shows(&key, &mut visit)?;
                walk.passed(is_shown);
                if !is_shown && skips.end() {
                    page.next = Some((key, Some(VersionId::Null)));
                }
            }
            Step::Prefix(prefix) => match below(view, bucket, (&prefix, cursor.start_after), &mut skips)? {
                Below::Nothing => {}
                Below::Unknown(upto) => page.next = Some((upto, None)),
                Below::Something if full => page.next = page.end(),
                Below::Something => page.prefixes.push(prefix),
            },
        }
    }
    Ok(page)
}

/// Keys that may be passed over still.
struct Skips(Option<usize>);

impl Skips {
    /// One was; whether it was the last.
    fn end(&mut self) -> bool {
        self.0 = self.0.map(|left| left.saturating_sub(1));
        self.0 == Some(0)
    }
}

impl Versions {
    /// Adds a version where the page has room; one that finds none sets `next` and is the last that is looked at.
    fn add(&mut self, shown: Shown, max: usize) -> ControlFlow<()> {
        if self.versions.len() + self.prefixes.len() < max {
            self.versions.push(shown);
            return ControlFlow::Continue(());
        }
        self.next = self.end();
        ControlFlow::Break(())
    }

    /// Behind all that is on the page. A version is named though it is the last of its key: clients take what S3 gives with each key.
    fn end(&self) -> Option<(String, Option<VersionId>)> {
        let (version, prefix) = (self.versions.last(), self.prefixes.last());
        let later = version.filter(|shown| prefix.is_none_or(|prefix| *prefix < shown.record.key));
        match later {
            Some(shown) => Some((shown.record.key.clone(), Some(shown.id))),
            None => prefix.map(|prefix| (prefix.clone(), None)),
        }
    }
}

/// Visits the versions of a key that a client sees, newest first, or those behind one of them, until the visitor breaks. A key
/// of which nothing is shown costs its rows alone.
fn each_shown(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    after: Option<VersionId>,
    visit: &mut dyn FnMut(Shown) -> ControlFlow<()>,
) -> Result<(), SpaceError> {
    let mut named = match after {
        Some(VersionId::Null) => Some(Named::of(view, bucket, key)?),
        _ => None,
    };
    let dot = match after {
        Some(VersionId::Dot(dot)) => Some(dot),
        Some(VersionId::Null) => named.as_ref().and_then(|named| named.null),
        None => None,
    };
    let place = dot.map(|dot| place_of(view, bucket, key, dot)).transpose()?.flatten();
    let mut failed = None;
    each_alive_behind(view, bucket, key, place.as_deref(), &mut |record| {
        if is_hidden(&record) {
            return ControlFlow::Continue(());
        }
        let known = match named.take().map_or_else(|| Named::of(view, bucket, key), Ok) {
            Ok(known) => known,
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        };
        let id = if Some(record.dot) == known.null { VersionId::Null } else { VersionId::Dot(record.dot) };
        let is_latest = Some(record.dot) == known.latest;
        named = Some(known);
        visit(Shown { id, is_latest, record })
    })?;
    failed.map_or(Ok(()), Err)
}

/// What of a key decides how its versions are named and shown.
struct Named {
    latest: Option<Dot>,
    null: Option<Dot>,
}

impl Named {
    fn of(view: &dyn View, bucket: BucketId, key: &str) -> Result<Self, SpaceError> {
        let state = State::load(view, bucket, key)?;
        let latest = state.heads().first().map(|head| head.dot);
        Ok(Self { latest, null: state.null().map(|record| record.dot) })
    }
}

/// Where a version of a key stands among its living ones, though it lives no more; none if nothing is left of it.
fn place_of(view: &dyn View, bucket: BucketId, key: &str, dot: Dot) -> Result<Option<Vec<u8>>, SpaceError> {
    let row = read::dot_row(view, bucket, dot)?.filter(|row| row.key == key);
    Ok(row.map(|row| keys::version(bucket, key, keys::ALIVE, row.clock, dot)))
}

/// What a common prefix stands for.
enum Below {
    Something,
    Nothing,
    /// Up to this key nothing a client sees; too many were passed over.
    Unknown(String),
}

/// Whether a client sees anything below a common prefix, behind the key after which the page starts.
fn below(
    view: &dyn View,
    bucket: BucketId,
    (prefix, start_after): (&str, Option<&str>),
    skips: &mut Skips,
) -> Result<Below, SpaceError> {
    let start_after = start_after.filter(|after| after.starts_with(prefix));
    let cursor = Cursor { prefix, start_after, ..Cursor::default() };
    let mut walk = Walk::new(view, Table::Versions, bucket, cursor);
    while let Some((Step::Row(Found { key, .. }), rests)) = walk.next_key()? {
        if !rests && walk.shows(&key, &mut |_| ControlFlow::Break(()))? {
            return Ok(Below::Something);
        }
        walk.passed(false);
        if skips.end() {
            return Ok(Below::Unknown(key));
        }
    }
    Ok(Below::Nothing)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
