//! What was seen of a bucket, in a document of 2 KiB, whatever number of lives wrote into it.
//!
//! Why here: homes, tenures and deletions say what who follows must have (`home.rs`, `tenure.rs`, `claim.rs`). That is a
//! vector, which has an entry for each start of each node that ever wrote. What no longer fits goes into *blocks*: documents
//! of their own, at `seen/<bucket>/<hash>` of the system bucket, named by what they say, written in the same commit before
//! the document that names them. A block may name one below it, so that what was written down once is not again: the next
//! document names the same blocks and says what lies beyond them.
//!
//! Invariants: what is said is exact, by blocks or without; a block that is not here counts as what nobody has seen, so who
//! lacks one waits. A name stands among the entries with a seq that no origin has: a release that does not know of
//! blocks waits for it in vain, and decides and revives nothing, as when it has not all that is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Origin, Vector, WallTime};

use super::system::{SystemKey, document_object, each_document};
use crate::object::Object;
use crate::record::Record;
use crate::space::{self, SpaceError};

/// Encoded bytes that a document says itself: some 130 entries. The rest of it is small, but for the settings in a claim.
pub(super) const INLINE_BYTES: usize = 1536;
/// Encoded bytes of what a block says: some 150 entries.
const BLOCK_BYTES: usize = 1920;
/// Blocks that are followed from one document: more lives than a bucket can have that is fed.
const BLOCKS: usize = 1024;
/// Blocks that nobody names, looked at for one to build upon.
const TOPS: usize = 64;
/// The seq of an entry that is the name of a block. No vector gets there: a life would have to write for ever.
const BLOCK: u64 = u64::MAX;

/// Documents to be written in the same commit, and before the one that names them: their keys in the system bucket, and the
/// objects that carry them.
pub type Blocks = Vec<(String, Object)>;

/// A vector in short: 8 bytes of each origin's hash, 11 with its seq. What does not fit into a document lies in blocks that are named here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen(BTreeMap<u64, u64>);

/// A block: what was seen at least, by whoever names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenDocument {
    /// Of this bucket.
    pub bucket: BucketId,
    /// This, and what the block below it says.
    pub seen: Seen,
}

impl Versioned for SeenDocument {
    const NAME: &'static str = "seen document";
    const VERSION: u8 = 1;
}

impl Seen {
    /// The short form.
    pub fn of(vector: &Vector) -> Self {
        Self(vector.iter().map(|(origin, seq)| (short(&origin.to_bytes()), seq.min(BLOCK - 1))).collect())
    }

    /// What either has seen.
    pub fn joined(mut self, other: &Self) -> Self {
        self.merge(other);
        self
    }

    fn merge(&mut self, other: &Self) {
        for (origin, seq) in &other.0 {
            let known = self.0.entry(*origin).or_default();
            *known = (*known).max(*seq);
        }
    }

    /// Whether the vector covers all of it, as far as it is said without blocks; with them it does not.
    pub fn is_included_in(&self, vector: &Vector) -> bool {
        Self::of(vector).includes(self)
    }

    fn includes(&self, other: &Self) -> bool {
        other.0.iter().all(|(origin, seq)| self.0.get(origin).is_some_and(|covered| covered >= seq))
    }

    /// Whether the vector covers all of it; it does not while a block is not here.
    pub fn is_met(
        &self,
        view: &dyn View,
        (system, bucket): (BucketId, BucketId),
        vector: &Vector,
    ) -> Result<bool, SpaceError> {
        Ok(self.resolved(view, system, bucket)?.is_included_in(vector))
    }

    /// The names of blocks in it.
    fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(|(_, seq)| **seq == BLOCK).map(|(name, _)| *name)
    }

    /// Whether all of it is known: no block is missing, of what [`Self::resolved`] gave.
    pub fn is_whole(&self) -> bool {
        self.blocks().next().is_none()
    }

    /// Up to which record of an origin it reaches; 0 for none.
    pub(super) fn get(&self, origin: Origin) -> u64 {
        self.0.get(&short(&origin.to_bytes())).copied().unwrap_or(0)
    }

    /// All that it says, with what its blocks say; one that is not here stays a name.
    pub(super) fn resolved(
        &self,
        view: &dyn View,
        system: BucketId,
        bucket: BucketId,
    ) -> Result<Self, SpaceError> {
        let read = &mut |name| Ok(block(view, system, (bucket, name))?.map(|(seen, _)| seen));
        Ok(self.followed(read)?.0)
    }

    /// The same by what `read` gives, and how many blocks it took.
    fn followed(
        &self,
        read: &mut dyn FnMut(u64) -> Result<Option<Self>, SpaceError>,
    ) -> Result<(Self, usize), SpaceError> {
        let (mut whole, mut met) = (self.clone(), BTreeSet::new());
        let mut open: Vec<u64> = whole.blocks().collect();
        while let Some(name) = open.pop().filter(|_| met.len() < BLOCKS) {
            if !met.insert(name) {
                continue;
            }
            if let Some(below) = read(name)? {
                whole.0.remove(&name);
                open.extend(below.blocks().filter(|next| !met.contains(next)));
                whole.merge(&Self(below.0.into_iter().filter(|(next, _)| !met.contains(next)).collect()));
            }
        }
        Ok((whole, met.len()))
    }

    /// As it stands in a document that has room for so many bytes of it, and the blocks to be written before.
    pub(super) fn fitted(
        &self,
        view: &dyn View,
        (system, bucket): (BucketId, BucketId),
        room: usize,
        wall: WallTime,
    ) -> Result<(Self, Blocks), SpaceError> {
        if self.bytes() <= room {
            return Ok((self.clone(), Vec::new()));
        }
        let whole = self.resolved(view, system, bucket)?;
        let (mut below, base) = base(view, system, bucket, &whole)?.unzip();
        let base = base.unwrap_or_default();
        let rest: Vec<_> = whole.0.iter().filter(|(origin, seq)| base.0.get(origin) < Some(seq)).collect();
        let mut seen = Self::naming(below);
        seen.0.extend(rest.iter().map(|(origin, seq)| (**origin, **seq)));
        if seen.bytes() <= room || rest.is_empty() {
            return Ok((seen, Vec::new()));
        }
        let mut blocks = Vec::new();
        let mut rest = rest.into_iter().peekable();
        while rest.peek().is_some() {
            let mut seen = Self::naming(below);
            while seen.bytes() < BLOCK_BYTES
                && let Some((origin, seq)) = rest.next()
            {
                seen.0.insert(*origin, *seq);
            }
            let document = SeenDocument { bucket, seen };
            let name = short(&codec::encode(&document));
            blocks.push((SystemKey::Seen(bucket, name).to_string(), document_object(&document, wall)));
            below = Some(name);
        }
        Ok((Self::naming(below), blocks))
    }

    /// What names this block, and nothing else.
    fn naming(block: Option<u64>) -> Self {
        Self(block.map(|name| (name, BLOCK)).into_iter().collect())
    }

    /// How long it is in a document.
    fn bytes(&self) -> usize {
        let entries: usize = self.0.iter().map(|(origin, seq)| varint(*origin) + varint(*seq)).sum();
        entries + varint(self.0.len() as u64)
    }
}

/// Encoded bytes of a number: seven bits in each.
const fn varint(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// The name of what these bytes say.
fn short(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    let mut name = [0; 8];
    name.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(name)
}

/// What a record of the system bucket says, if it is the block of this name.
fn says(record: &Record, (bucket, name): (BucketId, u64)) -> Option<Seen> {
    let bytes = record.object()?.document.as_ref().filter(|bytes| short(bytes) == name)?;
    // One of a later release counts as not here.
    codec::decode::<SeenDocument>(bytes).ok().filter(|found| found.bucket == bucket).map(|found| found.seen)
}

/// A block that is here, and its record.
fn block(
    view: &dyn View,
    system: BucketId,
    of: (BucketId, u64),
) -> Result<Option<(Seen, Record)>, SpaceError> {
    let heads = space::heads(view, system, &SystemKey::Seen(of.0, of.1).to_string())?;
    Ok(heads.into_iter().find_map(|head| Some((says(&head, of)?, head))))
}

/// The records of all blocks that what was seen of a bucket rests on, as far as they are here: whoever is told of it ahead of a
/// feed is told these, too.
pub fn seen_blocks(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    seen: &[Seen],
) -> Result<Vec<Record>, SpaceError> {
    let mut records = BTreeMap::new();
    for seen in seen {
        seen.followed(&mut |name| {
            let Some((seen, record)) = block(view, system, (bucket, name))? else { return Ok(None) };
            records.insert(name, record);
            Ok(Some(seen))
        })?;
    }
    Ok(records.into_values().collect())
}

/// The block that says most of this and nothing else, and what it says with those below it. One whose blocks are many more than
/// they need be is not built upon.
fn base(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    whole: &Seen,
) -> Result<Option<(u64, Seen)>, SpaceError> {
    let mut all = BTreeMap::new();
    each_document(view, system, &format!("seen/{bucket}/"), &mut |key, record| {
        if let SystemKey::Seen(of, name) = key
            && let Some(seen) = says(&record, (of, name))
        {
            all.insert(name, seen);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let below: BTreeSet<u64> = all.values().flat_map(Seen::blocks).collect();
    let mut best: Option<(u64, Seen)> = None;
    for name in all.keys().filter(|name| !below.contains(name)).take(TOPS) {
        let (found, count) = Seen::naming(Some(*name)).followed(&mut |name| Ok(all.get(&name).cloned()))?;
        let is_short = count <= 2 * found.bytes().div_ceil(BLOCK_BYTES) + 4;
        let is_more = best.as_ref().is_none_or(|(_, known)| found.0.len() > known.0.len());
        if is_short && is_more && found.is_whole() && whole.includes(&found) {
            best = Some((*name, found));
        }
    }
    Ok(best)
}

/// Whether something is visible in a bucket that this does not cover: whoever deletes it had not seen that.
pub(super) fn shows_beyond(view: &dyn View, bucket: BucketId, seen: &Seen) -> Result<bool, SpaceError> {
    if !seen.is_whole() {
        return Ok(false);
    }
    let origins = space::vector(view, bucket)?.iter().map(|(origin, _)| origin).collect::<Vec<_>>();
    let origins = origins.into_iter().chain(space::marked(view, bucket)?);
    let covered: Vector = origins.map(|origin| (origin, seen.get(origin))).collect();
    let (mut found, mut failed) = (false, None);
    let is_shown = |dot: Dot, key: &str| {
        Ok(space::current(view, bucket, key)?.is_some_and(|now| now.dot == dot && now.object().is_some()))
    };
    space::keys_after(view, bucket, &covered, &mut |dot, key| {
        if !found && failed.is_none() {
            match is_shown(dot, key) {
                Ok(shown) => found = shown,
                Err(error) => failed = Some(error),
            }
        }
    })?;
    failed.map_or(Ok(found), Err)
}

#[cfg(test)]
#[path = "seen_tests.rs"]
mod tests;
