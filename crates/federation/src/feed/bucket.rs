//! The state of one followed bucket.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{Instant, Origin, SiteId, Vector};

use super::known::{Floor, Known, Most, Open};
use super::loose::Gathering;
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
    /// Batches that overtook others.
    pub(super) early: BTreeMap<u8, Batch>,
    pub(super) deadline: Instant,
    /// As long as nothing came: when another source is looked for.
    pub(super) patience: Option<Instant>,
    pub(super) started: Instant,
    /// It was asked of another node of this site, with the bodies.
    pub(super) whole: bool,
    /// Bytes that it may bring.
    pub(super) asked: u32,
    /// Bytes that came.
    pub(super) received: u64,
    /// The source told this meanwhile: an end before it is not the end.
    pub(super) told: Vector,
    /// Whatever comes, another pull must follow.
    pub(super) again: bool,
}

impl Running {
    /// What this pull taught about the link: at most four times as much as before, at most what comes in
    /// [`limits::WINDOW_SECONDS`]. A short pull teaches nothing.
    pub(super) fn next_window(&self, window: u32, now: Instant) -> u32 {
        let seconds = now.since(self.started).as_secs_f64().max(0.001);
        let bearable = self.received as f64 / seconds * limits::WINDOW_SECONDS;
        let full = self.received * 2 >= u64::from(window.min(self.asked));
        if !full && seconds < limits::WINDOW_SECONDS {
            return window;
        }
        let next = bearable.min(f64::from(window) * 4.0) as u32;
        next.clamp(limits::BATCH_BYTES_MIN, limits::WINDOW_MAX)
    }
}

/// What is known of another member.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Its life, once it has answered.
    pub(super) life: Option<Origin>,
    /// It has at least this.
    pub(super) vector: Known,
    /// It is in doubt itself: the last to be asked.
    pub(super) doubtful: bool,
    pub(super) tries: u8,
    /// Batches of it that the store refused one after the other.
    pub(super) refused: u8,
    /// After failures: not asked before.
    pub(super) until: Option<Instant>,
    /// Bytes of the next pull.
    pub(super) window: u32,
}

/// Who wants news.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) until: Instant,
    pub(super) told: Known,
    /// Its last pull that was answered.
    pub(super) served: Option<u64>,
}

/// A batch handed to the shell.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) source: SiteId,
    /// The source has nothing beyond it.
    pub(super) end: bool,
    /// It came with its news: no pull ends with it.
    pub(super) fresh: bool,
}

/// One followed bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) members: BTreeSet<SiteId>,
    /// What is known of sources and listeners rests on it.
    pub(super) floor: Floor,
    pub(super) sources: BTreeMap<SiteId, Source>,
    /// What any of the sources has at most.
    pub(super) most: Most,
    /// Sources to pull from though they are not known to have more.
    pub(super) asks: BTreeSet<SiteId>,
    pub(super) pull: Option<Running>,
    pub(super) pending: VecDeque<Pending>,
    /// What the batches on their way to the store will add to the vector.
    pub(super) handed: Vector,
    /// A batch was refused by the store: those behind it will be as well.
    pub(super) broken: bool,
    /// After a refusal of the store: no pull before.
    pub(super) hold: Option<Instant>,
    pub(super) doubtful: bool,
    /// What sources had that passed over tombstones: whatever those killed is covered by it.
    pub(super) passed: Vector,
    /// After a comparison that did not settle the doubt: no other before.
    pub(super) doubt_at: Option<Instant>,
    pub(super) doubt_tries: u8,
    /// Members compared with since the doubt last grew.
    pub(super) compared: BTreeSet<SiteId>,
    /// The doubt grew while a comparison ran: it does not count.
    pub(super) void: bool,
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
    /// Digests of what members last said to hold beyond their vectors.
    pub(super) loose_told: BTreeMap<SiteId, u64>,
    pub(super) gathering: Option<Gathering>,
}

impl Bucket {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            members: BTreeSet::new(),
            floor: Floor::default(),
            sources: BTreeMap::new(),
            most: Most::default(),
            asks: BTreeSet::new(),
            pull: None,
            pending: VecDeque::new(),
            handed: Vector::new(),
            broken: false,
            hold: None,
            doubtful: false,
            passed: Vector::new(),
            doubt_at: None,
            doubt_tries: 0,
            compared: BTreeSet::new(),
            void: false,
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
            loose_told: BTreeMap::new(),
            gathering: None,
        }
    }

    /// Has what is known of others rest on the own vector, if more than so many of its entries have changed.
    pub(super) fn settle(&mut self, mine: &Vector, stale: usize) {
        let sources = self.sources.values_mut().map(|source| &mut source.vector);
        let listeners = self.listeners.values_mut().map(|listener| &mut listener.told);
        self.floor.settle(mine, stale, sources.chain(listeners));
    }

    /// All that a site with `mine` has.
    pub(super) fn all(&mut self, mine: &Vector) -> Known {
        if let Some(all) = self.floor.all(mine) {
            return all;
        }
        self.settle(mine, 0);
        Known::all(&self.floor.mine(mine))
    }

    /// A source has this as well.
    pub(super) fn learn(&mut self, site: SiteId, vector: &Vector) {
        self.source(site);
        if let Some(source) = self.sources.get_mut(&site) {
            source.vector.merge(&self.floor, vector);
            self.most.raise(vector);
        }
    }

    /// A batch of this source passes over tombstones, or over what its source did. After a start all that it is known to have
    /// stands for what was passed over before.
    pub(super) fn passes(&mut self, site: SiteId, batch: &Batch) {
        if self.passed.is_empty()
            && let Some(source) = self.sources.get(&site)
        {
            self.passed = source.vector.whole(&self.floor);
        }
        if !batch.horizon.is_empty() {
            self.passed.merge(&batch.vector);
        }
    }

    /// Whoever is known to have what a site with `mine` lacks.
    pub(super) fn ahead(&mut self, mine: &Vector) -> BTreeSet<SiteId> {
        let open = self.most.open(mine);
        if open.is_empty() {
            return BTreeSet::new();
        }
        let ahead = self.ahead_in(&open, mine);
        if ahead.is_empty() {
            // Who had it has been forgotten, or has taken it back.
            self.most.lower(mine);
        }
        ahead
    }

    fn ahead_in(&self, open: &Open, mine: &Vector) -> BTreeSet<SiteId> {
        let is_ahead = |source: &Source| source.vector.is_ahead(&self.floor, open, mine);
        self.sources.iter().filter(|(_, source)| is_ahead(source)).map(|(site, _)| *site).collect()
    }

    /// Whether to pull from a site though it is not known to have more.
    pub(super) fn ask(&mut self, site: SiteId, ask: bool) {
        self.source(site);
        if ask {
            self.asks.insert(site);
        } else {
            self.asks.remove(&site);
        }
    }

    /// What is known of a source. Of many, those that are no members any more give way first.
    pub(super) fn source(&mut self, site: SiteId) -> &mut Source {
        if self.sources.len() >= limits::SITES && !self.sources.contains_key(&site) {
            let members = &self.members;
            self.sources.retain(|known, _| members.contains(known));
            self.asks.retain(|asked| members.contains(asked));
        }
        self.sources
            .entry(site)
            .or_insert_with(|| Source { window: limits::WINDOW_FIRST, ..Source::default() })
    }

    /// Forgets a member.
    pub(super) fn forget(&mut self, site: SiteId) {
        self.members.remove(&site);
        self.sources.remove(&site);
        self.asks.remove(&site);
        self.listeners.remove(&site);
        self.part(site);
    }

    /// The connection to a site is gone: what it said of loose records may not hold when it comes back.
    pub(super) fn part(&mut self, site: SiteId) {
        self.loose_told.remove(&site);
        let lost = |gathering: &Gathering| gathering.source == site && gathering.deadline.is_some();
        if self.gathering.as_ref().is_some_and(lost) {
            self.gathering = None;
        }
    }

    /// A new connection to a member.
    pub(super) fn meet(&mut self, site: SiteId) {
        if let Some(source) = self.sources.get_mut(&site) {
            (source.tries, source.until) = (0, None);
        }
        self.loose_told.remove(&site);
    }

    /// A source failed: not at once again.
    pub(super) fn failed(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let tries = self.source(site).tries;
        let until = cx.backoff(limits::BACKOFF_MIN, tries);
        let source = self.source(site);
        (source.tries, source.until) = (tries.saturating_add(1), Some(until));
    }

    /// The store has taken a batch of this source, or has not: then others are asked that have the same, for one record that
    /// is taken from nobody must not keep back all that lies behind it.
    pub(super) fn took(&mut self, site: SiteId, ok: bool, cx: &mut Context<'_>) {
        let broken = self.broken;
        let Some(source) = self.sources.get_mut(&site) else { return };
        if ok {
            source.refused = 0;
        } else if !broken {
            // What is behind a refused one is refused as well, and no other fault.
            source.refused = source.refused.saturating_add(1);
            source.until = Some(cx.backoff(limits::BACKOFF_MIN, source.refused));
        }
    }

    /// Something happened: checks are close together again.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.check_every != limits::CHECK_MIN {
            self.check_every = limits::CHECK_MIN;
            self.check_at = Some(now.after(limits::CHECK_MIN));
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let deadline =
            self.pull.as_ref().map(|pull| pull.patience.map_or(pull.deadline, |at| at.min(pull.deadline)));
        let gathered = self.gathering.as_ref().and_then(|gathering| gathering.deadline);
        [deadline, gathered, self.check_at, self.news_at, self.retry_at, self.hold, self.doubt_at]
            .into_iter()
            .flatten()
            .min()
    }
}
