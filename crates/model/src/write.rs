//! The next own record: what a write that was asked for becomes.
//!
//! Why here: seq, context, clock and conditions must be decided together, on the commit thread, against what
//! earlier proposals of the same group did; nothing else may assign them.
//!
//! Invariants: the record covers every head it replaces and what those had seen; conflict losers among them are
//! kept; a write covers all own records of the key, so that contexts stay exact.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, Dot, Hlc, Origin, SiteId, Vector, WallTime, limits};

use crate::merge;
use crate::object::Object;
use crate::record::{HomeDecision, Kept, PlacementRef, Record, RecordError, Scope, Statement, Versioning};
use crate::space::{self, SpaceError, State, VersionId};

/// How long a conflict's loser stays readable though it was listed: 30 days in milliseconds.
pub const KEEP_LOSERS_MS: u64 = 30 * 24 * 3600 * 1000;
/// An equal PUT this long after the first is a try of the same one again: clients wait 60 s for an answer, a scope that is
/// not reached is refused after 45 s, and the body is sent once more. Later it is a write of its own, with a time of its own.
pub const REPEATED_MS: u64 = 5 * 60 * 1000;
/// A context of more origins than this is cut down to what still covers something.
pub const CONTEXT_ORIGINS: usize = 64;

/// A write that was asked for.
#[derive(Debug, Clone)]
pub struct Intent<'a> {
    /// The bucket.
    pub bucket: BucketId,
    /// The key.
    pub key: &'a str,
    /// The node's life.
    pub origin: Origin,
    /// The node's site.
    pub site: SiteId,
    /// The clock on the wall.
    pub wall: WallTime,
    /// What may be taken for the present where something expires; none expires nothing.
    pub present: Option<WallTime>,
    /// In force at the bucket.
    pub versioning: Versioning,
    /// The access key.
    pub writer: &'a str,
    /// The scope that will be reached before it is acknowledged.
    pub scope: Scope,
    /// When it is a conditional operation that this node decides as home.
    pub home: Option<HomeDecision>,
    /// The placement planned.
    pub placement: Option<PlacementRef>,
    /// What must hold.
    pub conditions: &'a Conditions,
    /// What is asked for.
    pub ask: Ask,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Store this object.
    Put(Box<Object>),
    /// Hide the key.
    Delete,
    /// Remove one version for good.
    Erase(VersionId),
    /// State a fact about one version.
    Note {
        /// The version.
        target: VersionId,
        /// What kind of fact.
        topic: u16,
        /// The fact.
        content: Bytes,
    },
}

/// A test of the ETag of the current version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtagTest {
    /// `*`: whatever exists.
    Any,
    /// One of these, without quotes.
    OneOf(Vec<String>),
}

impl EtagTest {
    /// Whether an existing object passes.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(etags) => etags.iter().any(|wanted| wanted == etag),
        }
    }
}

/// What must hold of the current version for a write to go through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<EtagTest>,
    /// `If-None-Match`.
    pub if_none_match: Option<EtagTest>,
    /// `If-Unmodified-Since`, to the second.
    pub unmodified_since: Option<WallTime>,
    /// `x-amz-if-match-last-modified-time`, to the second.
    pub modified_at: Option<WallTime>,
    /// `x-amz-if-match-size`.
    pub size: Option<u64>,
}

impl Conditions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they hold of the object a read gets.
    pub fn check(&self, current: Option<&Object>) -> Result<(), WriteRefusal> {
        let Some(object) = current else {
            let wants = self.if_match.is_some() || self.modified_at.is_some() || self.size.is_some();
            return if wants { Err(WriteRefusal::NoSuchKey) } else { Ok(()) };
        };
        let seconds = |time: WallTime| time.0 / 1000;
        let failed = if self.if_match.as_ref().is_some_and(|test| !test.matches(&object.etag)) {
            "If-Match"
        } else if self.if_none_match.as_ref().is_some_and(|test| test.matches(&object.etag)) {
            "If-None-Match"
        } else if self.unmodified_since.is_some_and(|time| seconds(object.modified) > seconds(time)) {
            "If-Unmodified-Since"
        } else if self.modified_at.is_some_and(|time| seconds(object.modified) != seconds(time)) {
            "x-amz-if-match-last-modified-time"
        } else if self.size.is_some_and(|size| object.size != size) {
            "x-amz-if-match-size"
        } else {
            return Ok(());
        };
        Err(WriteRefusal::Precondition(failed))
    }
}

/// Why a write does not become a record.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteRefusal {
    /// 412 `PreconditionFailed`; the header that failed.
    #[error("{0} does not hold")]
    Precondition(&'static str),
    /// 404 `NoSuchKey`: a condition asks for an object that is not there.
    #[error("there is no such key")]
    NoSuchKey,
    /// 404 `NoSuchVersion`: a note about a version that is not there.
    #[error("there is no such version")]
    NoSuchVersion,
    /// The record would break a bound.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The tables could not be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// What a write becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposed {
    /// A new record, for [`crate::Entry::Write`].
    Write {
        /// The record.
        record: Box<Record>,
        /// Kept losers beyond `limits::CONFLICTS_PER_KEY` that this write lets go, oldest first.
        folded: Vec<Dot>,
    },
    /// It was written a moment ago already, or says nothing new about the system: acknowledge that one.
    Same(Box<Record>),
    /// There is nothing to delete or erase: acknowledge it.
    Nothing,
}

/// Decides what a write becomes, against a view that holds everything earlier.
pub fn propose(view: &dyn View, intent: Intent<'_>, clock: &mut HlcClock) -> Result<Proposed, WriteRefusal> {
    let state = State::load(view, intent.bucket, intent.key)?;
    let heads = state.heads();
    intent.conditions.check(heads.first().and_then(|head| head.object()))?;
    match &intent.ask {
        Ask::Erase(id) => aim(view, &intent, *id, clock, None),
        Ask::Note { target, topic, content } => {
            aim(view, &intent, *target, clock, Some((*topic, content.clone())))
        }
        Ask::Put(object) => match repeated(&heads, object, intent.versioning) {
            Some(head) => Ok(Proposed::Same(Box::new(head.clone()))),
            None => replace(view, &intent, &state, Statement::Put(object.clone()), clock),
        },
        Ask::Delete => {
            let hidden = heads.iter().all(|head| head.is_delete());
            match intent.versioning == Versioning::Off && hidden {
                // The delete that hides it may not have reached yet what this one is to be answered for.
                true => Ok(heads
                    .first()
                    .map_or(Proposed::Nothing, |head| Proposed::Same(Box::new((*head).clone())))),
                false => replace(view, &intent, &state, Statement::Delete, clock),
            }
        }
    }
}

/// The current head, when all heads say what this object says and a client cannot tell whether it was written again.
fn repeated<'a>(heads: &[&'a Record], object: &Object, versioning: Versioning) -> Option<&'a Record> {
    if versioning == Versioning::Enabled {
        return None;
    }
    let same = |head: &&Record| head.object().is_some_and(|stored| stored.same_content(object));
    let head = heads.first().filter(|_| heads.iter().all(same))?;
    let is_again = head.object().is_some_and(|stored| is_again(stored, object));
    (head.is_null() && is_again).then_some(head)
}

/// Whether an equal object is the same write tried again. Documents are said anew whenever somebody looks, and mean the
/// same at any time.
fn is_again(stored: &Object, object: &Object) -> bool {
    object.document.is_some() || stored.modified.0.abs_diff(object.modified.0) <= REPEATED_MS
}

/// A version that replaces the heads.
fn replace(
    view: &dyn View,
    intent: &Intent<'_>,
    state: &State,
    statement: Statement,
    clock: &mut HlcClock,
) -> Result<Proposed, WriteRefusal> {
    let heads = state.heads();
    let covered = covered_heads(&heads, intent.origin);
    let mut context = state.covered.clone();
    for stored in &state.active {
        if stored.record.target().is_some() {
            context.merge(&stored.record.context);
        }
    }
    covered.iter().for_each(|head| context.add(head.dot));
    if context.len() > CONTEXT_ORIGINS {
        context = needed(view, intent, &covered, &context)?;
    }
    let predecessor = state.alive().map(|record| record.clock).max();
    let clock = clock.stamp(intent.wall, predecessor);
    let (keeps, folded) = keeps(view, intent, state, &context, clock)?;
    let versioning = intent.versioning;
    finish(view, intent, Parts { clock, context, versioning, keeps, folded, statement })
}

/// Of the heads, those a write covers: the current one, the own ones, and as many losers as can be kept. The
/// rest stay heads beside it: nothing is lost, a further write covers them.
fn covered_heads<'a>(heads: &[&'a Record], origin: Origin) -> Vec<&'a Record> {
    let mut room = limits::CONFLICTS_PER_KEY;
    let mut covered = Vec::new();
    for (at, &head) in heads.iter().enumerate() {
        let free = at == 0 || head.dot.origin == origin;
        if free || room > 0 {
            covered.push(head);
            room = room.saturating_sub(usize::from(!free));
        }
    }
    covered
}

/// The part of a long context that covers a living version. What is cut off covered only the dead; records that
/// killed those stay as spent until all vectors cover them.
fn needed(
    view: &dyn View,
    intent: &Intent<'_>,
    covered: &[&Record],
    context: &Vector,
) -> Result<Vector, SpaceError> {
    let mut needed: Vector = covered.iter().map(|head| (head.dot.origin, head.dot.seq)).collect();
    space::for_each_alive(view, intent.bucket, intent.key, &mut |record| {
        if context.covers(record.dot) {
            needed.advance(record.dot.origin, context.get(record.dot.origin));
        }
    })?;
    // Own records must be covered all: others take an own dot in a context for all before it.
    needed.advance(intent.origin, context.get(intent.origin));
    Ok(needed)
}

/// Which living null-type versions that a null-type write covers must stay readable.
fn keeps(
    view: &dyn View,
    intent: &Intent<'_>,
    state: &State,
    context: &Vector,
    now: Hlc,
) -> Result<(Vec<Kept>, Vec<Dot>), SpaceError> {
    if intent.versioning == Versioning::Enabled {
        return Ok((Vec::new(), Vec::new()));
    }
    let kept: BTreeMap<Dot, Hlc> =
        state.kept().into_iter().map(|(record, since)| (record.dot, since)).collect();
    let mut keeps = Vec::new();
    for dot in to_keep(state) {
        let since = kept.get(&dot).copied().unwrap_or(now);
        // Not by the stamp: it follows those of others, whose clocks may be months ahead.
        let old = intent.present.is_some_and(|now| now.0.saturating_sub(since.wall().0) >= KEEP_LOSERS_MS);
        let expired = old && was_listed(view, intent.bucket, dot)?;
        if context.covers(dot) && !expired {
            keeps.push(Kept { dot, since });
        }
    }
    keeps.sort_by_key(|kept| std::cmp::Reverse((kept.since, kept.dot)));
    let folded = keeps.split_off(keeps.len().min(limits::CONFLICTS_PER_KEY));
    keeps.sort();
    Ok((keeps, folded.into_iter().rev().map(|kept| kept.dot).collect()))
}

/// Null-type objects that lost: beside the current head, beside the null version, or kept already.
fn to_keep(state: &State) -> BTreeSet<Dot> {
    let mut null: Vec<&Record> = state.alive().filter(|record| record.is_null()).collect();
    null.sort_by(|one, other| merge::by_rank(one, other));
    let lost = merge::losers(&state.heads()).into_iter().chain(merge::losers(&null));
    let kept = state.kept().into_iter().map(|(record, _)| record);
    let objects = lost.chain(kept).filter(|record| record.is_null() && record.object().is_some());
    objects.map(|record| record.dot).collect()
}

/// An `Erase` of a version, or a note about it. An erase takes its target's place.
fn aim(
    view: &dyn View,
    intent: &Intent<'_>,
    id: VersionId,
    clock: &mut HlcClock,
    note: Option<(u16, Bytes)>,
) -> Result<Proposed, WriteRefusal> {
    let Some(target) = space::version(view, intent.bucket, intent.key, id)? else {
        return if note.is_some() { Err(WriteRefusal::NoSuchVersion) } else { Ok(Proposed::Nothing) };
    };
    let clock = clock.stamp(intent.wall, Some(target.clock));
    let versioning = target.versioning;
    let parts = match note {
        Some((topic, content)) => {
            let statement = Statement::Note { target: target.dot, topic, content };
            let (context, keeps) = (Vector::new(), Vec::new());
            Parts { clock, context, versioning, keeps, folded: Vec::new(), statement }
        }
        None => {
            let statement = Statement::Erase { target: target.dot };
            let mut context = target.context;
            context.add(target.dot);
            Parts { clock, context, versioning, keeps: target.keeps, folded: Vec::new(), statement }
        }
    };
    finish(view, intent, parts)
}

/// What was decided about a record.
struct Parts {
    clock: Hlc,
    context: Vector,
    versioning: Versioning,
    keeps: Vec<Kept>,
    folded: Vec<Dot>,
    statement: Statement,
}

/// The next dot of this life. Another may have handed over records that it calls ours, ahead of what was written here: a
/// write under a dot of theirs would be taken for stored, and be lost.
fn next_dot(view: &dyn View, bucket: BucketId, origin: Origin) -> Result<Dot, SpaceError> {
    let mut seq = space::vector_entry(view, bucket, origin)?;
    loop {
        seq = seq.checked_add(1).ok_or(SpaceError::Inconsistent("a life that has written all there is"))?;
        let dot = Dot { origin, seq };
        if !space::is_stored(view, bucket, dot)? {
            return Ok(dot);
        }
    }
}

fn finish(view: &dyn View, intent: &Intent<'_>, parts: Parts) -> Result<Proposed, WriteRefusal> {
    let record = Record {
        bucket: intent.bucket,
        dot: next_dot(view, intent.bucket, intent.origin)?,
        key: intent.key.into(),
        clock: parts.clock,
        context: parts.context,
        versioning: parts.versioning,
        keeps: parts.keeps,
        scope: intent.scope,
        home: intent.home,
        placement: intent.placement,
        writer: intent.writer.into(),
        site: intent.site,
        statement: parts.statement,
    };
    record.check()?;
    Ok(Proposed::Write { record: Box::new(record), folded: parts.folded })
}

/// Name of the node-local fact that a conflict's loser was listed to somebody: an [`crate::Entry::Local`] of
/// any value.
pub fn listed_fact(bucket: BucketId, loser: Dot) -> Bytes {
    [b"listed/", &bucket.0[..], &loser.to_bytes()].concat().into()
}

fn was_listed(view: &dyn View, bucket: BucketId, loser: Dot) -> Result<bool, SpaceError> {
    Ok(space::local(view, &listed_fact(bucket, loser))?.is_some())
}

#[cfg(test)]
mod tests;
