//! Stretches of the key space in which nothing lives, as scans found them, so that the next ones pass over them in one seek.
//!
//! Why here: what is deleted stays in the index until it is merged away, and the library goes over each such delete, about 1 µs each.
//! A stretch that took long is remembered, whatever lies in it; nothing of it is stored.
//!
//! Invariants: a stretch that is passed over holds nothing for any reading from the number on that is named with it: it was empty for one
//! that began after it was watched, and what was put since has parted it. Where groups were applied while it was gone over it is only
//! watched from then on, and passed over once it was gone over again. Both under the lock of who applies, so that no group is under
//! way then. Parts count for half each, so that many small ones are not sought one by one. Memory, and what is looked through for the
//! next stretch, is bounded: what is only watched goes first, then what was not used for longest.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// From one row to the next it takes some 1 µs, and a seek some 40: what takes longer than this is worth being remembered.
pub(super) const SLOW_NS: u64 = 200_000;
/// So many times as long is worth merging deletes away for: some 4,000 of them.
const LONG: u64 = 20;
/// Bytes that are remembered at most.
const BYTES: usize = 256 << 10;
/// Stretches that are remembered at most: looking through all of them for the next should take less than a seek.
const STRETCHES: usize = 1024;
/// Bytes that a stretch takes beside its keys.
const AROUND: usize = 96;

/// Keys from the first on, without the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

/// The key behind this one.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Of a stretch that begins at its key in the map.
#[derive(Debug, Clone)]
struct Stretch {
    to: Vec<u8>,
    /// Watched: nothing was put there since. Passed over: nothing is there for readings of this number on.
    since: u64,
    /// What it took to go over it, if that is known to be in vain.
    cost_ns: Option<u64>,
    used: u64,
}

#[derive(Debug, Default)]
struct Known {
    /// None overlaps another.
    stretches: BTreeMap<Vec<u8>, Stretch>,
    bytes: usize,
    clock: u64,
}

/// All that is known.
#[derive(Debug)]
pub(super) struct Gaps {
    known: Mutex<Known>,
    /// Whether there is any.
    any: AtomicBool,
    slow_ns: AtomicU64,
    begun: Instant,
    /// Stretches that readings were told to pass over.
    #[cfg(test)]
    pub(super) jumps: AtomicU64,
    /// What the clock says next.
    #[cfg(test)]
    clock: Mutex<std::collections::VecDeque<u64>>,
}

impl Default for Gaps {
    #[expect(
        clippy::disallowed_methods,
        reason = "what is remembered goes by what it took, what scans find does not"
    )]
    fn default() -> Self {
        let begun = Instant::now();
        Self {
            known: Mutex::default(),
            any: AtomicBool::default(),
            slow_ns: SLOW_NS.into(),
            begun,
            #[cfg(test)]
            jumps: AtomicU64::default(),
            #[cfg(test)]
            clock: Mutex::default(),
        }
    }
}

impl Gaps {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A clock of its own.
    pub(super) fn now_ns(&self) -> u64 {
        #[cfg(test)]
        if let Some(now) = self.clock.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            return now;
        }
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_slow(&self, ns: u64) -> bool {
        ns >= self.slow_ns.load(Ordering::Relaxed)
    }

    /// Whether it is worth merging what lies there away, beside being remembered.
    pub(super) fn is_long(&self, ns: u64) -> bool {
        ns >= self.slow_ns.load(Ordering::Relaxed).saturating_mul(LONG)
    }

    /// From here on a stretch is remembered.
    #[cfg(test)]
    pub(super) fn set_slow(&self, ns: u64) {
        self.slow_ns.store(ns, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn set_clock(&self, says: &[u64]) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).extend(says);
    }

    /// The first stretch within this span that a reading of this number may pass over.
    pub(super) fn next(&self, span: &Span, seq: u64) -> Option<Span> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let next = self.lock().next(span, seq);
        #[cfg(test)]
        self.jumps.fetch_add(next.is_some().into(), Ordering::Relaxed);
        next
    }

    /// A row was put. Called before any reading sees it, by who applies.
    pub(super) fn put(&self, key: &[u8]) {
        if self.any.load(Ordering::Acquire) {
            let mut known = self.lock();
            known.part(key, self.slow_ns.load(Ordering::Relaxed));
            known.shrink();
        }
    }

    /// The deletes of each stretch may be merged away: all are only watched until one finds that it still takes long.
    pub(super) fn merged(&self) {
        if self.any.load(Ordering::Acquire) {
            self.lock().stretches.values_mut().for_each(|stretch| stretch.cost_ns = None);
        }
    }

    /// A reading of this number found nothing in this span, which took so long. Called while nobody applies; `visible` is what
    /// readings that begin now see.
    pub(super) fn found(&self, span: &Span, cost_ns: u64, (seq, visible): (u64, u64)) {
        let mut known = self.lock();
        known.found(span, cost_ns, (seq, visible));
        known.shrink();
        self.any.store(!known.stretches.is_empty(), Ordering::Release);
    }
}

impl Known {
    fn insert(&mut self, from: Vec<u8>, stretch: Stretch) {
        if from < stretch.to {
            self.bytes += from.len() + stretch.to.len() + AROUND;
            self.stretches.insert(from, stretch);
        }
    }

    fn remove(&mut self, from: &[u8]) -> Option<Stretch> {
        let stretch = self.stretches.remove(from)?;
        self.bytes -= from.len() + stretch.to.len() + AROUND;
        Some(stretch)
    }

    /// Where the stretch begins that holds this key, or the first one behind it.
    fn at_or_behind(&self, key: &[u8]) -> Option<&Vec<u8>> {
        let before = self.stretches.range::<[u8], _>((Unbounded, Included(key))).next_back();
        let at = before.filter(|(_, stretch)| *stretch.to > *key).map(|(from, _)| from);
        at.or_else(|| self.from(key))
    }

    /// The first that begins there or behind it.
    fn from(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.stretches.range::<[u8], _>((Included(key), Unbounded)).next().map(|(from, _)| from)
    }

    fn next(&mut self, span: &Span, seq: u64) -> Option<Span> {
        let first = self.at_or_behind(&span.from)?.clone();
        if first >= span.to {
            return None;
        }
        let mut within = self.stretches.range_mut(first..span.to.clone());
        let (from, stretch) =
            within.find(|(_, stretch)| stretch.cost_ns.is_some() && stretch.since <= seq)?;
        self.clock += 1;
        stretch.used = self.clock;
        Some(Span { from: from.clone(), to: stretch.to.clone() })
    }

    fn part(&mut self, key: &[u8], slow_ns: u64) {
        let Some(from) = self.at_or_behind(key).filter(|from| from.as_slice() <= key).cloned() else {
            return;
        };
        let Some(stretch) = self.remove(&from) else { return };
        let cost_ns = stretch.cost_ns.map(|cost| cost / 2).filter(|cost| *cost >= slow_ns);
        let stretch = Stretch { cost_ns, ..stretch };
        self.insert(behind(key), stretch.clone());
        self.insert(from, Stretch { to: key.to_vec(), ..stretch });
    }

    /// What is watched since before this reading holds nothing for it and for all later ones; the rest is watched from now on.
    fn found(&mut self, span: &Span, cost_ns: u64, (seq, visible): (u64, u64)) {
        self.clock += 1;
        let used = self.clock;
        let mut from = span.from.clone();
        while from < span.to {
            let next = self.at_or_behind(&from).filter(|next| **next < span.to).cloned();
            // Nothing is known of what comes first, unless nothing was put since the reading began.
            let upto = next.clone().unwrap_or_else(|| span.to.clone());
            if from < upto {
                let cost_ns = (seq >= visible).then_some(cost_ns);
                let watched = Stretch { to: upto.clone(), since: visible, cost_ns, used };
                self.insert(std::mem::replace(&mut from, upto), watched);
            }
            let Some((begin, stretch)) = next.and_then(|next| Some((next.clone(), self.remove(&next)?)))
            else {
                break;
            };
            from = self.settle(begin, stretch, (span, from), (seq, cost_ns));
        }
        self.join(span);
    }

    /// Of a stretch that reaches into what was found empty; returns where it ends.
    fn settle(
        &mut self,
        begin: Vec<u8>,
        stretch: Stretch,
        (span, from): (&Span, Vec<u8>),
        (seq, cost_ns): (u64, u64),
    ) -> Vec<u8> {
        let end = stretch.to.clone();
        if stretch.cost_ns.is_some() || stretch.since > seq {
            self.insert(begin, stretch);
            return end;
        }
        let to = end.clone().min(span.to.clone());
        let since = seq.max(stretch.since);
        self.insert(to.clone(), stretch.clone());
        self.insert(begin, Stretch { to: from.clone(), ..stretch.clone() });
        self.insert(from, Stretch { to, since, cost_ns: Some(cost_ns), used: self.clock });
        end
    }

    /// What meets and is of one kind becomes one, in this span and beside it.
    fn join(&mut self, span: &Span) {
        let before = self.stretches.range::<[u8], _>((Unbounded, Excluded(&*span.from))).next_back();
        let mut from = before.map_or_else(|| span.from.clone(), |(from, _)| from.clone());
        while from <= span.to {
            let Some(stretch) = self.stretches.get(&from) else {
                let Some(next) = self.from(&from).cloned() else { return };
                from = next;
                continue;
            };
            let to = stretch.to.clone();
            let is_one_kind = |other: &Stretch| other.cost_ns.is_some() == stretch.cost_ns.is_some();
            if !self.stretches.get(&to).is_some_and(is_one_kind) {
                from = to;
                continue;
            }
            let (Some(one), Some(other)) = (self.remove(&from), self.remove(&to)) else { return };
            let cost_ns = one.cost_ns.max(other.cost_ns);
            let (since, used) = (one.since.max(other.since), one.used.max(other.used));
            self.insert(from.clone(), Stretch { to: other.to, since, cost_ns, used });
        }
    }

    fn is_within(&self, bytes: usize, stretches: usize) -> bool {
        self.bytes <= bytes && self.stretches.len() <= stretches
    }

    /// Forgets a quarter at once, so that it is looked through once in some hundred puts.
    fn shrink(&mut self) {
        if self.is_within(BYTES, STRETCHES) {
            return;
        }
        let by_use = self.stretches.iter().map(|(from, it)| (it.cost_ns.is_some(), it.used, from.clone()));
        let mut by_use: Vec<_> = by_use.collect();
        by_use.sort_unstable();
        for (_, _, from) in by_use {
            if self.is_within(BYTES - BYTES / 4, STRETCHES - STRETCHES / 4) {
                break;
            }
            self.remove(&from);
        }
    }
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
