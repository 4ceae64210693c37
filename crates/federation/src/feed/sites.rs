//! Other sites as sources, over all buckets: who answers no pull of one bucket will hardly answer one of another.
//!
//! Invariants: one site has at most [`limits::PULLS_PER_SOURCE`] of the pulls on their way, so that no other is kept waiting by
//! its silence, and they ask for no more together than its link holds; one that failed is asked for nothing until its pause is over, and then by one pull at a time until it answers;
//! who waits for a site is let go when it may be asked again.

use core::ops::Bound;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{BucketId, Instant, SiteId};

use crate::{Pulls, limits};

/// Buckets that wait, oldest first, each once.
#[derive(Debug, Default)]
pub(super) struct Line {
    order: VecDeque<BucketId>,
    in_it: BTreeSet<BucketId>,
}

impl Line {
    pub(super) fn push(&mut self, bucket: BucketId) {
        if self.in_it.insert(bucket) {
            self.order.push_back(bucket);
        }
    }

    pub(super) fn pop(&mut self) -> Option<BucketId> {
        let bucket = self.order.pop_front()?;
        self.in_it.remove(&bucket);
        Some(bucket)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn remove(&mut self, bucket: BucketId) {
        if self.in_it.remove(&bucket) {
            self.order.retain(|other| *other != bucket);
        }
    }
}

/// Whether a site may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// When fewer pulls from it are on their way.
    Behind,
    Later(Instant),
}

#[derive(Debug, Default)]
struct Standing {
    /// Pulls on their way.
    running: usize,
    /// Bytes that they asked for.
    asked: u32,
    /// Failures in a row.
    tries: u8,
    until: Option<Instant>,
    /// When a batch came from it last, of any bucket.
    gave: Option<Instant>,
    line: Line,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sites {
    sites: BTreeMap<SiteId, Standing>,
    /// Whose pause ends when.
    pauses: BTreeSet<(Instant, SiteId)>,
    /// Sites for which buckets wait.
    awaited: BTreeSet<SiteId>,
    /// Whose line moved last: the next is another's.
    moved: SiteId,
    /// Pulls on their way from all.
    running: usize,
}

impl Sites {
    pub(super) fn turn(&self, site: SiteId, now: Instant) -> Turn {
        let Some(standing) = self.sites.get(&site) else { return Turn::Now };
        let most = if standing.tries > 0 { 1 } else { limits::PULLS_PER_SOURCE };
        match standing.until.filter(|until| *until > now) {
            Some(until) => Turn::Later(until),
            None if standing.running >= most => Turn::Behind,
            None => Turn::Now,
        }
    }

    /// What one more pull from a site may ask for: an equal share of what a link holds, as far as others left of it.
    pub(super) fn share(&self, site: SiteId) -> u32 {
        let standing = self.sites.get(&site);
        let (running, asked) = standing.map_or((0, 0), |standing| (standing.running, standing.asked));
        let share = limits::WINDOW_MAX / u32::try_from(running + 1).unwrap_or(u32::MAX);
        share.min(limits::WINDOW_MAX.saturating_sub(asked)).max(limits::BATCH_BYTES_MIN)
    }

    /// A pull of so many bytes from a site is on its way.
    pub(super) fn began(&mut self, site: SiteId, bytes: u32) {
        let standing = self.sites.entry(site).or_default();
        standing.running += 1;
        standing.asked += bytes;
        self.running += 1;
    }

    /// It is not any more.
    pub(super) fn ended(&mut self, site: SiteId, bytes: u32) {
        if let Some(standing) = self.sites.get_mut(&site).filter(|standing| standing.running > 0) {
            standing.running -= 1;
            standing.asked = standing.asked.saturating_sub(bytes);
            self.running -= 1;
        }
    }

    /// A bucket waits until a site may be asked.
    pub(super) fn wait(&mut self, site: SiteId, bucket: BucketId) {
        self.sites.entry(site).or_default().line.push(bucket);
        self.awaited.insert(site);
    }

    /// The next bucket that waits for a site which may be asked now; site after site.
    pub(super) fn next(&mut self, now: Instant) -> Option<BucketId> {
        let after = (Bound::Excluded(self.moved), Bound::Unbounded);
        let mut sites = self.awaited.range(after).chain(self.awaited.range(..=self.moved)).copied();
        let site = sites.find(|site| self.turn(*site, now) == Turn::Now)?;
        self.moved = site;
        let line = &mut self.sites.get_mut(&site)?.line;
        let bucket = line.pop();
        if line.is_empty() {
            self.awaited.remove(&site);
        }
        bucket
    }

    /// How often a site has failed before; none if that is counted already: several pulls that began together end together.
    pub(super) fn tries(&self, site: SiteId, now: Instant) -> Option<u8> {
        let standing = self.sites.get(&site);
        let rests = standing.is_some_and(|standing| standing.until.is_some_and(|until| until > now));
        (!rests).then(|| standing.map_or(0, |standing| standing.tries))
    }

    /// A site failed: not before this is it asked again.
    pub(super) fn failed(&mut self, site: SiteId, until: Instant) {
        let standing = self.sites.entry(site).or_default();
        standing.tries = standing.tries.saturating_add(1);
        if let Some(before) = standing.until.replace(until) {
            self.pauses.remove(&(before, site));
        }
        self.pauses.insert((until, site));
    }

    /// A batch came from a site; whether it had failed before.
    pub(super) fn gave(&mut self, site: SiteId, now: Instant) -> bool {
        if let Some(standing) = self.sites.get_mut(&site) {
            standing.gave = Some(now);
        }
        self.well(site)
    }

    /// Whether one came within this time.
    pub(super) fn gave_within(&self, site: SiteId, span: Duration, now: Instant) -> bool {
        let gave = self.sites.get(&site).and_then(|standing| standing.gave);
        gave.is_some_and(|gave| now < gave.after(span))
    }

    /// A site answered, or there is a new link to it; whether it had failed before.
    pub(super) fn well(&mut self, site: SiteId) -> bool {
        let Some(standing) = self.sites.get_mut(&site) else { return false };
        if let Some(until) = standing.until.take() {
            self.pauses.remove(&(until, site));
        }
        core::mem::take(&mut standing.tries) > 0
    }

    /// There is no link to a site any more: nobody waits for it.
    pub(super) fn part(&mut self, site: SiteId) {
        self.well(site);
        self.awaited.remove(&site);
        if let Some(standing) = self.sites.get_mut(&site) {
            standing.line = Line::default();
        }
    }

    /// A bucket is followed no more.
    pub(super) fn forget(&mut self, bucket: BucketId) {
        for (site, standing) in &mut self.sites {
            standing.line.remove(bucket);
            if standing.line.is_empty() {
                self.awaited.remove(site);
            }
        }
    }

    /// When the next pause ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.pauses.first().map(|(at, _)| *at)
    }

    /// Whether pauses are over that were not when this was asked last.
    pub(super) fn rested(&mut self, now: Instant) -> bool {
        let mut rested = false;
        while self.pauses.first().is_some_and(|(at, _)| *at <= now) {
            self.pauses.pop_first();
            rested = true;
        }
        rested
    }

    /// What is on its way to a site, and who waits for it.
    pub(super) fn pulls(&self, site: SiteId) -> Pulls {
        let of = |standing: &Standing| Pulls {
            count: standing.running,
            bytes: u64::from(standing.asked),
            waiting: standing.line.in_it.len(),
        };
        self.sites.get(&site).map(of).unwrap_or_default()
    }

    /// Pulls on their way from all.
    pub(super) const fn running(&self) -> usize {
        self.running
    }
}
