//! What the machines read of the local store, synchronously and without effect.
//!
//! Order of reading: within one call of `handle` the vector must not be newer than the dots (read it first, or
//! read all from one snapshot). Then "my vector covers it and I lack it" is always true when it is said.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};

use crate::limits;

/// The store could not be read. Nothing may be concluded from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("replica unreadable: {0}")]
pub struct Unreadable(pub String);

/// One record on a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedItem {
    /// Its identity in the bucket.
    pub dot: Dot,
    /// The record as stored; opaque here.
    pub record: Bytes,
    /// Chunks of its body, when the whole is at most `skerry_base::limits::FEED_BODY_BYTES`, or goes along to another node of
    /// the site ([`Share::fellow`]); else empty.
    pub bodies: Vec<Bytes>,
}

impl FeedItem {
    /// Bytes it takes in a batch, but for a few.
    pub fn len(&self) -> usize {
        self.record.len() + self.bodies.iter().map(Bytes::len).sum::<usize>() + 40
    }

    /// Whether its body goes only to another node of the site.
    pub fn is_whole(&self) -> bool {
        self.bodies.iter().map(Bytes::len).sum::<usize>() > skerry_base::limits::FEED_BODY_BYTES
    }

    /// Whether it carries nothing at all.
    pub fn is_empty(&self) -> bool {
        self.record.is_empty() && self.bodies.is_empty()
    }
}

/// What one answer may bring, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Bytes by [`FeedItem::len`].
    pub max_bytes: usize,
    /// Another node of this site: bodies of what this node has written go along up to `skerry_base::limits::JOURNAL_BODY_BYTES`,
    /// but for those that it holds already, or may not hold. None: anybody else.
    pub fellow: Option<SiteId>,
    /// Nothing of this is wanted with bodies longer than all get: the answer ends before a record with which one would go along, and
    /// no such body is read.
    pub is_short: bool,
}

impl Share {
    /// For anybody.
    pub const fn of(max_bytes: usize) -> Self {
        Self { max_bytes, fellow: None, is_short: false }
    }
}

/// A piece of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedBatch {
    /// Live records that `seen` does not cover and the own vector covers, in order of (origin, seq).
    pub items: Vec<FeedItem>,
    /// What who has seen `seen` has complete with these items. If `more` is false: the own vector.
    pub upto: Vector,
    /// Whether there is more beyond `upto`.
    pub more: bool,
    /// Records beyond the own vector that may have ended the life of what `upto` covers and `items` lack, in order of
    /// (origin, seq): whoever covers the dead must have what killed them.
    pub ahead: Vec<FeedItem>,
}

/// The dots of one origin with seq in `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// Whose.
    pub origin: Origin,
    /// From this seq.
    pub first: u64,
    /// To this seq, itself included.
    pub last: u64,
}

impl Span {
    /// Cuts a span into at most [`limits::SPAN_CHILDREN`] pieces of equal length (the last may be shorter).
    /// Both sides cut alike, and pieces are powers of [`limits::SPAN_CHILDREN`] long and lie on multiples of
    /// their length (from seq 1), so that a store that keeps fingerprints of such blocks answers without a scan.
    pub fn children(&self) -> Vec<Self> {
        let wide = limits::SPAN_CHILDREN as u64;
        let (from, to) = (self.first.saturating_sub(1), self.last.saturating_sub(1));
        let mut block = 1u64;
        while to / block - from / block >= wide {
            block = block.saturating_mul(wide);
        }
        let bounds = |index: u64| {
            let first = (index * block).max(from) + 1;
            let last = (index * block).saturating_add(block - 1).min(to).saturating_add(1);
            Self { origin: self.origin, first, last }
        };
        (from / block..=to / block).map(bounds).collect()
    }

    /// How many seqs it spans.
    pub const fn width(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Whether a seq lies in it.
    pub const fn contains(&self, seq: u64) -> bool {
        self.first <= seq && seq <= self.last
    }
}

/// A set of dots in 24 bytes: how many and the sum of their hashes. Fingerprints of disjoint sets add up, and a
/// dot can be taken out again, so that a store keeps them per block of seqs without a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many dots.
    pub count: u64,
    /// Sum of the first 16 bytes of their BLAKE3 hashes, modulo 2^128, big-endian.
    pub sum: [u8; 16],
}

impl Fingerprint {
    fn term(dot: Dot) -> u128 {
        let mut head = [0; 16];
        for (to, from) in head.iter_mut().zip(blake3::hash(&dot.to_bytes()).as_bytes()) {
            *to = *from;
        }
        u128::from_be_bytes(head)
    }

    /// Adds one dot.
    pub fn add(&mut self, dot: Dot) {
        self.count = self.count.wrapping_add(1);
        self.sum = u128::from_be_bytes(self.sum).wrapping_add(Self::term(dot)).to_be_bytes();
    }

    /// Takes one dot out.
    pub fn remove(&mut self, dot: Dot) {
        self.count = self.count.wrapping_sub(1);
        self.sum = u128::from_be_bytes(self.sum).wrapping_sub(Self::term(dot)).to_be_bytes();
    }

    /// Adds a disjoint set.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = u128::from_be_bytes(self.sum).wrapping_add(u128::from_be_bytes(other.sum)).to_be_bytes();
    }
}

impl FromIterator<Dot> for Fingerprint {
    fn from_iter<I: IntoIterator<Item = Dot>>(dots: I) -> Self {
        let mut print = Self::default();
        dots.into_iter().for_each(|dot| print.add(dot));
        print
    }
}

/// Writes a list of seqs of a span as distances, the first from its start.
pub(crate) fn encode_gaps(span: &Span, seqs: &[u64]) -> Vec<u64> {
    let mut before = span.first;
    seqs.iter().map(|seq| seq.saturating_sub(core::mem::replace(&mut before, *seq))).collect()
}

/// Reads it; none if it leaves the span.
pub(crate) fn decode_gaps(span: &Span, gaps: &[u64]) -> Option<Vec<u64>> {
    let mut seqs = Vec::with_capacity(gaps.len());
    let mut at = span.first;
    for (index, gap) in gaps.iter().enumerate() {
        if index > 0 && *gap == 0 {
            return None;
        }
        at = at.checked_add(*gap).filter(|seq| span.contains(*seq))?;
        seqs.push(at);
    }
    Some(seqs)
}

/// What is stored of one origin beyond the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loose {
    /// Whose.
    pub origin: Origin,
    /// The vector's entry.
    pub covered: u64,
    /// Over the live dots behind it.
    pub print: Fingerprint,
}

/// The local store as the machines see it. "Live" here: a record (tombstones included) that is stored.
///
/// Contract: within one call of the machine all answers are of one moment.
pub trait Replica {
    /// Up to where everything of a bucket is durable here; empty for an unknown bucket.
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable>;

    /// This store's life in a bucket: what it stamps its own records with. A store set back to an older state has another,
    /// and so has one whose site has left the bucket meanwhile.
    fn origin(&self, bucket: BucketId) -> Origin;

    /// What to send as seen when asking this life of a source: the vector, and what an unfinished round with it
    /// has brought so far.
    fn seen(&self, bucket: BucketId, source: Origin) -> Result<Vector, Unreadable>;

    /// Covers every tombstone that is covered by the own vector and no longer stored: dropped here (the store
    /// adds its dot), or passed over by [`crate::Apply::horizon`]. Whoever does not cover it may hold what the
    /// tombstone killed. A tombstone may be dropped only when the own vector covers its context too.
    fn horizon(&self, bucket: BucketId) -> Result<Vector, Unreadable>;

    /// Not empty: tombstones were passed over (their source had dropped them), so that what they killed may still
    /// be stored here. It is the vector of those sources; a comparison with a member that covers it settles it.
    fn doubt(&self, bucket: BucketId) -> Result<Vector, Unreadable>;

    /// The next piece of the feed for who has seen `seen`: at most what the share allows, but at least one item if there is
    /// any.
    fn after(&self, bucket: BucketId, seen: &Vector, share: Share) -> Result<FeedBatch, Unreadable>;

    /// The fingerprint of the live dots within a span.
    fn fingerprint(&self, bucket: BucketId, span: &Span) -> Result<Fingerprint, Unreadable>;

    /// The seqs of the live dots within a span, in order, at most `limit`.
    fn dots_in(&self, bucket: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable>;

    /// What is stored beyond the own vector, in order of origin. Asked often: cheap where there is nothing.
    fn loose(&self, bucket: BucketId) -> Result<Vec<Loose>, Unreadable>;

    /// The records of a span but those with the seqs in `have`: at most what the share allows, but at least one item if
    /// there is any; and up to which seq of the span none was left out.
    fn records_in(
        &self,
        bucket: BucketId,
        span: &Span,
        have: &BTreeSet<u64>,
        share: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable>;
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
