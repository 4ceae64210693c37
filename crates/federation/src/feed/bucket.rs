//! The state of one followed bucket.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{Instant, SiteId, Vector};

use crate::context::Context;
use crate::message::Batch;
use crate::{Ticket, limits};

/// A pull on its way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) ticket: u64,
    pub(super) source: SiteId,
    /// Where the next batch starts.
    pub(super) base: Vector,
    /// The index of the next batch.
    pub(super) next: u8,
    /// How many batches were asked for.
    pub(super) batches: u8,
    /// Batches that overtook others.
    pub(super) early: BTreeMap<u8, Batch>,
    pub(super) deadline: Instant,
    /// The source told news meanwhile: its end is not the end.
    pub(super) again: bool,
    /// Whether this site had nothing of the bucket when it started with this source.
    pub(super) fresh: bool,
}

/// What is known of another member.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// It has at least this.
    pub(super) vector: Vector,
    /// Pull from it though it is not known to have more.
    pub(super) ask: bool,
    /// It is in doubt itself: the last to be asked.
    pub(super) doubtful: bool,
    pub(super) tries: u8,
    /// After failures: not asked before.
    pub(super) until: Option<Instant>,
    /// Bytes of a batch that it managed in time, doubled.
    pub(super) bytes: u32,
}

/// Who wants news.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) until: Instant,
    pub(super) told: Vector,
}

/// A batch handed to the shell.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) source: SiteId,
    /// The source has nothing beyond it.
    pub(super) end: bool,
}

/// One followed bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) members: BTreeSet<SiteId>,
    pub(super) sources: BTreeMap<SiteId, Source>,
    pub(super) pull: Option<Running>,
    pub(super) pending: VecDeque<Pending>,
    /// What the batches on their way to the store will add to the vector.
    pub(super) handed: Vector,
    /// A batch was refused by the store: those behind it will be as well.
    pub(super) broken: bool,
    pub(super) refusals: u8,
    /// After refusals of the store: no pull before.
    pub(super) hold: Option<Instant>,
    /// Everything came from this source since there was nothing: no doubt about it.
    pub(super) fresh_from: Option<SiteId>,
    pub(super) doubtful: bool,
    /// After a comparison that did not settle the doubt: no other before.
    pub(super) doubt_at: Option<Instant>,
    pub(super) doubt_tries: u8,
    pub(super) compare_with: Option<SiteId>,
    pub(super) comparing: Option<SiteId>,
    pub(super) settling: Option<SiteId>,
    pub(super) check_at: Option<Instant>,
    pub(super) check_every: Duration,
    pub(super) listeners: BTreeMap<SiteId, Listener>,
    pub(super) news_at: Option<Instant>,
    pub(super) told_at: Option<Instant>,
    /// When a source in backoff may be asked again.
    pub(super) retry_at: Option<Instant>,
    pub(super) scheduled_at: Option<Instant>,
}

impl Bucket {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            members: BTreeSet::new(),
            sources: BTreeMap::new(),
            pull: None,
            pending: VecDeque::new(),
            handed: Vector::new(),
            broken: false,
            refusals: 0,
            hold: None,
            fresh_from: None,
            doubtful: false,
            doubt_at: None,
            doubt_tries: 0,
            compare_with: None,
            comparing: None,
            settling: None,
            check_at: Some(now.after(limits::CHECK_MIN)),
            check_every: limits::CHECK_MIN,
            listeners: BTreeMap::new(),
            news_at: None,
            told_at: None,
            retry_at: None,
            scheduled_at: None,
        }
    }

    /// What is known of a source. Of many, those that are no members any more give way first.
    pub(super) fn source(&mut self, site: SiteId) -> &mut Source {
        if self.sources.len() >= limits::SITES && !self.sources.contains_key(&site) {
            let members = &self.members;
            self.sources.retain(|known, _| members.contains(known));
        }
        self.sources
            .entry(site)
            .or_insert_with(|| Source { bytes: limits::BATCH_BYTES_FIRST, ..Source::default() })
    }

    /// Forgets a member.
    pub(super) fn forget(&mut self, site: SiteId) {
        self.members.remove(&site);
        self.sources.remove(&site);
        self.listeners.remove(&site);
    }

    /// A new connection to a member.
    pub(super) fn meet(&mut self, site: SiteId) {
        let source = self.source(site);
        (source.tries, source.until) = (0, None);
    }

    /// A source failed: not at once again.
    pub(super) fn failed(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let tries = self.source(site).tries;
        let until = cx.backoff(limits::BACKOFF_MIN, tries);
        let source = self.source(site);
        (source.tries, source.until) = (tries.saturating_add(1), Some(until));
    }

    /// Something happened: checks are close together again.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.check_every != limits::CHECK_MIN {
            self.check_every = limits::CHECK_MIN;
            self.check_at = Some(now.after(limits::CHECK_MIN));
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let deadline = self.pull.as_ref().map(|pull| pull.deadline);
        [deadline, self.check_at, self.news_at, self.retry_at, self.hold, self.doubt_at]
            .into_iter()
            .flatten()
            .min()
    }
}
