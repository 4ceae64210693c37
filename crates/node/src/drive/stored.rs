//! What the drive keeps in this node's own table: horizons, doubts, memberships, the life counter.
//!
//! Invariant: every value is versioned; a key is a short text, then the bucket where there is one.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::{BucketId, NodeId, Vector};
use skerry_model::Entry;

/// Kinds of facts, each under its own prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Covers the tombstones that were dropped or passed over.
    Horizon,
    /// Tombstones passed over, not yet settled.
    Doubt,
    /// This site is a member of the bucket.
    Member,
    /// It is to leave the bucket.
    Leaving,
    /// It has left the bucket; records that are still here go.
    Left,
    /// When it becomes a member, whatever the bucket says.
    Join,
    /// At a site of several nodes: this one may lack what the site acknowledged.
    Gap,
    /// A body that lies here may have been written by the word of the bucket's home, while this site follows a prefix only.
    Deciding,
    /// What this site has seen of it for how long.
    Rest,
}

impl Stored {
    /// All keys of this kind begin so.
    pub(crate) const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Horizon => b"horizon/",
            Self::Doubt => b"doubt/",
            Self::Member => b"member/",
            Self::Leaving => b"leaving/",
            Self::Left => b"left/",
            Self::Join => b"join/",
            Self::Gap => b"gap/",
            Self::Deciding => b"deciding/",
            Self::Rest => b"rest/",
        }
    }

    /// The key of a bucket's fact.
    pub(crate) fn key(self, bucket: BucketId) -> Vec<u8> {
        [self.prefix(), &bucket.0].concat()
    }

    /// The bucket of a key.
    pub(crate) fn bucket(self, key: &[u8]) -> Option<BucketId> {
        key.strip_prefix(self.prefix())?.try_into().ok().map(BucketId)
    }
}

/// The entry that makes this site a member of a bucket: complete, or still taking what others have.
pub(crate) fn membership(bucket: BucketId, complete: bool) -> Entry {
    let key = Bytes::from(Stored::Member.key(bucket));
    let value = Bytes::from_static(if complete { COMPLETE } else { JOINING });
    Entry::Local { key, value: Some(value) }
}

/// The entry that says a fact that needs no value.
pub(crate) fn say(what: Stored, bucket: BucketId) -> Entry {
    Entry::Local { key: Bytes::from(what.key(bucket)), value: Some(Bytes::from_static(JOINING)) }
}

/// The entry that forgets a fact.
pub(crate) fn forget(what: Stored, bucket: BucketId) -> Entry {
    Entry::Local { key: Bytes::from(what.key(bucket)), value: None }
}

/// Nothing is left of a former membership that is still to go.
pub(crate) fn swept(bucket: BucketId) -> Entry {
    forget(Stored::Left, bucket)
}

/// Whether a stored membership is complete.
pub(crate) fn is_complete(value: &[u8]) -> bool {
    value == COMPLETE
}

const JOINING: &[u8] = &[1];
const COMPLETE: &[u8] = &[2];

/// The key of the life counter: rises with every start.
pub(crate) const LIFE: &[u8] = b"life";
/// The key of the flag that `skerry link cut` sets.
pub(crate) const CUT: &[u8] = b"cut";
/// The key of the nodes that `skerry link cut --from` keeps this one apart from: their ids one after the other.
pub(crate) const APART: &[u8] = b"apart";

/// The nodes of [`APART`].
pub(crate) fn nodes(bytes: &[u8]) -> BTreeSet<NodeId> {
    bytes.as_chunks().0.iter().map(|id| NodeId(*id)).collect()
}

/// A vector in the local table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct VectorFile(pub(crate) Vector);

impl Versioned for VectorFile {
    const NAME: &'static str = "stored vector";
    const VERSION: u8 = 1;
}
