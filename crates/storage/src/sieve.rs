//! Which cached copies go first: SIEVE over the log of the cache, with counters instead of a bit.
//!
//! SIEVE (Zhang and others, "SIEVE is Simpler than LRU", NSDI 2024) keeps what is cached in the order in which it
//! came; a hand goes from the oldest to the newest, lets what was used stay where it is and evicts the rest. The log
//! of the cache *is* that order, so nothing is moved and no list is kept: only how often each place was used.
//! Counters to three, taken down by the hand as it passes (as the main queue of S3-FIFO does), make of recency
//! recency and frequency. The first reading is not counted as use: it is the one that brought the copy.
//!
//! Invariants: memory is two bits per grain of cache, and the grain is such that the cap has at most [`GRAINS`];
//! no order and no answer depends on anything but the calls made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;

use crate::payload::GRAIN;

/// Counters of a cache that is full: a quarter of a MiB of memory.
const GRAINS: u64 = 1 << 20;
/// Counters in a byte.
const IN_BYTE: u64 = 4;
/// The highest count.
const MOST: u8 = 3;
/// Up to this a place goes when the hand comes: read once, by who brought it.
const UNUSED: u8 = 1;

/// Where in the log: segment and offset.
pub(crate) type At = (u32, u64);

/// The counters and the hand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Sieve {
    /// Bytes of the log under one counter.
    grain: u64,
    /// Four counters a byte, by segment; those at the end that are missing are zero.
    counts: BTreeMap<u32, Vec<u8>>,
    /// What the hand looks at next.
    hand: At,
    /// Whether a counter changed since [`Sieve::take_changed`].
    #[serde(skip)]
    changed: bool,
}

impl Versioned for Sieve {
    const NAME: &'static str = "uses of cached copies";
    const VERSION: u8 = 1;
}

impl Sieve {
    /// Nothing used yet, for a cache of this size.
    pub(crate) fn new(cap: u64) -> Self {
        Self { grain: Self::grain_of(cap), ..Self::default() }
    }

    /// Bytes under one counter.
    fn grain_of(cap: u64) -> u64 {
        cap.div_ceil(GRAINS).next_power_of_two().max(GRAIN)
    }

    /// Goes on with what was remembered, if it is of a cache of this size.
    pub(crate) fn resume(remembered: Self, cap: u64) -> Self {
        if remembered.grain == Self::grain_of(cap) { remembered } else { Self::new(cap) }
    }

    fn slot(&self, offset: u64) -> (usize, u32) {
        let index = offset / self.grain;
        ((index / IN_BYTE) as usize, (index % IN_BYTE * 2) as u32)
    }

    /// How often a place was used.
    pub(crate) fn count(&self, (segment, offset): At) -> u8 {
        let (byte, shift) = self.slot(offset);
        self.counts.get(&segment).and_then(|counts| counts.get(byte)).map_or(0, |byte| byte >> shift & MOST)
    }

    fn set(&mut self, (segment, offset): At, count: u8) {
        let (byte, shift) = self.slot(offset);
        let counts = self.counts.entry(segment).or_default();
        if counts.len() <= byte {
            counts.resize(byte + 1, 0);
        }
        if let Some(byte) = counts.get_mut(byte) {
            *byte = *byte & !(MOST << shift) | count << shift;
        }
        self.changed = true;
    }

    /// The place was read. Answers whether it had been read before: then the cache saved a fetch.
    pub(crate) fn touch(&mut self, at: At) -> bool {
        let count = self.count(at);
        if count < MOST {
            self.set(at, count + 1);
        }
        count >= UNUSED
    }

    /// What lay at one place lies at another now.
    pub(crate) fn moved(&mut self, from: At, to: At) {
        let count = self.count(from);
        if count > 0 {
            self.set(to, count);
        }
    }

    /// The hand comes by a place: true if it goes.
    pub(crate) fn pass(&mut self, at: At) -> bool {
        let count = self.count(at);
        if count <= UNUSED {
            return true;
        }
        self.set(at, count - 1);
        false
    }

    /// What the hand looks at next.
    pub(crate) const fn hand(&self) -> At {
        self.hand
    }

    /// Puts the hand there.
    pub(crate) const fn set_hand(&mut self, at: At) {
        self.hand = at;
    }

    /// How much a segment was used, all in all.
    pub(crate) fn heat(&self, segment: u32) -> u64 {
        let four =
            |byte: &u8| (0..IN_BYTE as u32).map(|slot| u64::from(byte >> (slot * 2) & MOST)).sum::<u64>();
        self.counts.get(&segment).map_or(0, |counts| counts.iter().map(four).sum())
    }

    /// A segment is gone.
    pub(crate) fn forget(&mut self, segment: u32) {
        self.counts.remove(&segment);
    }

    /// Forgets all segments but these.
    pub(crate) fn keep_only(&mut self, is_there: impl Fn(u32) -> bool) {
        self.counts.retain(|segment, _| is_there(*segment));
    }

    /// Whether a counter changed since this was last asked.
    pub(crate) const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.changed, false)
    }
}

#[cfg(test)]
#[path = "sieve_tests.rs"]
mod tests;
