//! Fingerprints of ranges of stored dots, kept up to date, for reconciling two replicas.
//!
//! The fingerprint of a set of dots is how many they are and the sum of their hashes: it grows and shrinks by
//! one dot at a time. Per origin, a row keeps that of each block of [`BLOCK`] seqs, so comparing ten million
//! dots reads some 2,500 rows, and a write changes one row that its origin's next write changes again.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot, Origin};

use super::feed::for_each_row;
use super::read::{get, row};
use super::{SpaceError, keys};

/// Seqs of one origin that share a row: 1 to 4096, and so on. Comparisons cut spans at powers of 16 from seq 1,
/// so the wide ones are whole blocks.
const BLOCK: u64 = 4096;

const fn block_of(seq: u64) -> u64 {
    seq.saturating_sub(1) / BLOCK
}

/// How many dots, and the sum of their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many.
    pub count: u64,
    /// Sum, modulo 2^128, of the first 16 bytes of each dot's BLAKE3 hash, big-endian.
    pub sum: u128,
}

impl Versioned for Fingerprint {
    const NAME: &'static str = "fingerprint row";
    const VERSION: u8 = 1;
}

impl Fingerprint {
    /// That of one dot.
    pub fn of(dot: Dot) -> Self {
        let hash = blake3::hash(&dot.to_bytes());
        let mut low = [0; 16];
        low.copy_from_slice(&hash.as_bytes()[..16]);
        Self { count: 1, sum: u128::from_be_bytes(low) }
    }

    /// That of both sets, which share no dot.
    pub const fn plus(self, other: Self) -> Self {
        let count = self.count.wrapping_add(other.count);
        Self { count, sum: self.sum.wrapping_add(other.sum) }
    }

    const fn minus(self, other: Self) -> Self {
        let count = self.count.wrapping_sub(other.count);
        Self { count, sum: self.sum.wrapping_sub(other.sum) }
    }
}

/// The dots from `from` on, up to but without `to`; no end when that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DotRange {
    /// The first.
    pub from: Dot,
    /// The first that is not in it.
    pub to: Option<Dot>,
}

impl DotRange {
    /// All dots.
    pub const ALL: Self = Self { from: FIRST, to: None };

    /// The dots of one origin with these seqs, first and last included.
    pub fn span(origin: Origin, first: u64, last: u64) -> Self {
        let from = Dot { origin, seq: first };
        Self { from, to: after(Dot { origin, seq: last }) }
    }

    /// Whether the dot is in it.
    pub fn contains(&self, dot: Dot) -> bool {
        dot >= self.from && self.to.is_none_or(|to| dot < to)
    }

    fn last(&self) -> Option<Dot> {
        match self.to {
            None => Some(LAST),
            Some(to) => before(to).filter(|last| *last >= self.from),
        }
    }
}

const FIRST: Dot = Dot { origin: Origin { node: skerry_base::NodeId([0; 16]), incarnation: 0 }, seq: 0 };
const LAST: Dot =
    Dot { origin: Origin { node: skerry_base::NodeId([0xff; 16]), incarnation: u64::MAX }, seq: u64::MAX };

/// The dot right after this one, in the order of their bytes.
fn after(dot: Dot) -> Option<Dot> {
    let mut bytes = dot.to_bytes();
    for byte in bytes.iter_mut().rev() {
        let (more, carry) = byte.overflowing_add(1);
        *byte = more;
        if !carry {
            return Some(Dot::from_bytes(&bytes));
        }
    }
    None
}

/// The dot right before this one, in the order of their bytes.
fn before(dot: Dot) -> Option<Dot> {
    let mut bytes = dot.to_bytes();
    for byte in bytes.iter_mut().rev() {
        let (less, borrow) = byte.overflowing_sub(1);
        *byte = less;
        if !borrow {
            return Some(Dot::from_bytes(&bytes));
        }
    }
    None
}

/// The fingerprint of the stored dots in the range.
pub fn fingerprint(view: &dyn View, bucket: BucketId, range: DotRange) -> Result<Fingerprint, SpaceError> {
    let Some(last) = range.last() else { return Ok(Fingerprint::default()) };
    let mut sum = Fingerprint::default();
    for ((origin, number), print) in blocks(view, bucket, (range.from, last))? {
        let first_of = Dot { origin, seq: number.saturating_mul(BLOCK).saturating_add(1) };
        let last_of = Dot { origin, seq: first_of.seq.saturating_add(BLOCK - 1) };
        if range.contains(first_of) && range.contains(last_of) {
            sum = sum.plus(print);
            continue;
        }
        let edges = (first_of.max(range.from), last_of.min(last));
        let _all = for_each_row(view, bucket, edges, &mut |dot, _| {
            sum = sum.plus(Fingerprint::of(dot));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(sum)
}

type Blocks = Vec<((Origin, u64), Fingerprint)>;

fn blocks(view: &dyn View, bucket: BucketId, (first, last): (Dot, Dot)) -> Result<Blocks, SpaceError> {
    let from = keys::block(bucket, first.origin, block_of(first.seq));
    let to = keys::block(bucket, last.origin, block_of(last.seq));
    let mut rows = Vec::new();
    view.scan(Table::Sums, Bound::Included(&from), Bound::Included(&to), &mut |name, value| {
        rows.push((keys::split_block(name), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    let named = |(block, value): &(Option<(Origin, u64)>, Bytes)| {
        Ok((block.ok_or(SpaceError::Inconsistent("a block has no origin"))?, row(value)?))
    };
    rows.iter().map(named).collect()
}

/// The stored dots in the range, in order, at most `max`.
pub fn dots_in(
    view: &dyn View,
    bucket: BucketId,
    range: DotRange,
    max: usize,
) -> Result<Vec<Dot>, SpaceError> {
    let mut found = Vec::new();
    let Some(last) = range.last().filter(|_| max > 0) else { return Ok(found) };
    let _all = for_each_row(view, bucket, (range.from, last), &mut |dot, _| {
        found.push(dot);
        Ok(if found.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Dots come (`true`) or go.
pub(super) fn update(
    view: &dyn View,
    bucket: BucketId,
    dots: &[(Dot, bool)],
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    let mut changed: BTreeMap<Vec<u8>, Fingerprint> = BTreeMap::new();
    for &(dot, comes) in dots {
        let name = keys::block(bucket, dot.origin, block_of(dot.seq));
        let was = match changed.get(&name) {
            Some(&was) => was,
            None => get(view, Table::Sums, &name)?.unwrap_or_default(),
        };
        let print = Fingerprint::of(dot);
        changed.insert(name, if comes { was.plus(print) } else { was.minus(print) });
    }
    for (name, print) in changed {
        match print {
            Fingerprint { count: 0, .. } => batch.delete(Table::Sums, name),
            _ => batch.put(Table::Sums, name, codec::encode(&print)),
        }
    }
    Ok(())
}
