//! Sets of dots as ranges of seqs: what a site says it holds, in a few bytes per run instead of a record per version.
//!
//! Why: versions are copied in the order in which they were written, so that what one site holds of another's writes
//! is nearly always one range. A range may run over dots that are dead or were never about a body: who reads it asks
//! only about versions that live.
//!
//! Invariants: the ranges of an origin ascend and do not touch; no range is empty or begins at 0; equal sets are
//! equal values; what comes from elsewhere is checked when it is decoded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skerry_base::codec::{DecodeError, Versioned};
use skerry_base::{Dot, Origin, Vector, codec};

use super::limits;

/// A set of dots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spans(BTreeMap<Origin, Vec<(u64, u64)>>);

/// As it is stored and sent: per origin the distance from the end before, and the length less one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored(Vec<(Origin, Vec<(u64, u64)>)>);

impl Versioned for Stored {
    const NAME: &'static str = "set of held versions";
    const VERSION: u8 = 1;
}

impl Spans {
    /// Whether a dot is in it.
    pub fn contains(&self, dot: Dot) -> bool {
        let Some(ranges) = self.0.get(&dot.origin) else { return false };
        let after = ranges.partition_point(|(_, last)| *last < dot.seq);
        ranges.get(after).is_some_and(|(first, _)| *first <= dot.seq)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges it is made of: what it costs.
    pub fn ranges(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Adds one dot.
    pub fn insert(&mut self, dot: Dot) {
        self.insert_range(dot.origin, dot.seq, dot.seq);
    }

    /// Adds all dots of an origin from `first` to `last`; nothing if that is no range.
    pub fn insert_range(&mut self, origin: Origin, first: u64, last: u64) {
        if first == 0 || first > last {
            return;
        }
        let ranges = self.0.entry(origin).or_default();
        let from = ranges.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = ranges.partition_point(|(start, _)| *start <= last.saturating_add(1));
        let touched = ranges.get(from..to).unwrap_or_default();
        let first = touched.first().map_or(first, |(start, _)| first.min(*start));
        let last = touched.last().map_or(last, |(_, end)| last.max(*end));
        ranges.splice(from..to.max(from), [(first, last)]);
    }

    /// Takes one dot out.
    pub fn remove(&mut self, dot: Dot) {
        let Some(ranges) = self.0.get_mut(&dot.origin) else { return };
        let at = ranges.partition_point(|(_, last)| *last < dot.seq);
        let Some(&(first, last)) = ranges.get(at).filter(|(first, _)| *first <= dot.seq) else { return };
        let before = (first < dot.seq).then(|| (first, dot.seq - 1));
        let after = (dot.seq < last).then(|| (dot.seq + 1, last));
        ranges.splice(at..=at, before.into_iter().chain(after));
        if ranges.is_empty() {
            self.0.remove(&dot.origin);
        }
    }

    /// Adds all of another: holders unite, in any order, as often as one likes.
    pub fn merge(&mut self, other: &Self) {
        for (origin, first, last) in other.iter() {
            self.insert_range(origin, first, last);
        }
    }

    /// Whether all of another is in it.
    pub fn includes(&self, other: &Self) -> bool {
        other.iter().all(|(origin, first, last)| {
            let Some(ranges) = self.0.get(&origin) else { return false };
            let after = ranges.partition_point(|(_, end)| *end < first);
            ranges.get(after).is_some_and(|(start, end)| *start <= first && last <= *end)
        })
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, u64, u64)> + '_ {
        let of = |(origin, ranges): (&Origin, &Vec<(u64, u64)>)| {
            let origin = *origin;
            ranges.clone().into_iter().map(move |(first, last)| (origin, first, last))
        };
        self.0.iter().flat_map(of)
    }

    /// Everything behind `from` up to `upto`, but `without`.
    pub fn between(from: &Vector, upto: &Vector, without: &[Dot]) -> Self {
        let mut spans = Self::default();
        for (origin, last) in upto.iter() {
            spans.insert_range(origin, from.get(origin).saturating_add(1), last);
        }
        without.iter().for_each(|dot| spans.remove(*dot));
        spans
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let gaps = |ranges: &[(u64, u64)]| {
            let mut before = 0;
            let gap =
                |(first, last): &(u64, u64)| (first - core::mem::replace(&mut before, *last), last - first);
            ranges.iter().map(gap).collect()
        };
        codec::encode(&Stored(self.0.iter().map(|(origin, ranges)| (*origin, gaps(ranges))).collect()))
    }

    /// Reads a stored form; refuses one that is out of order or has too many ranges.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let refuse = |reason: &str| DecodeError::Malformed { name: Stored::NAME, reason: reason.into() };
        let Stored(stored) = codec::decode(bytes)?;
        let mut spans = Self::default();
        let mut left = limits::RANGES;
        for (origin, gaps) in stored {
            left = left.checked_sub(gaps.len()).ok_or_else(|| refuse("too many ranges"))?;
            let mut before = 0u64;
            for (gap, more) in gaps {
                let first = before.checked_add(gap).filter(|_| gap > 0);
                let range = first.and_then(|first| Some((first, first.checked_add(more)?)));
                let (first, last) = range.ok_or_else(|| refuse("ranges out of order"))?;
                spans.insert_range(origin, first, last);
                before = last;
            }
        }
        if spans.encode() == bytes { Ok(spans) } else { Err(refuse("not in its canonical encoding")) }
    }
}

impl FromIterator<Dot> for Spans {
    fn from_iter<I: IntoIterator<Item = Dot>>(dots: I) -> Self {
        let mut spans = Self::default();
        dots.into_iter().for_each(|dot| spans.insert(dot));
        spans
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
