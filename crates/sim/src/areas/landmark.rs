//! A landmark: what it was told, and what it answers.
//!
//! A question is passed on to the holder for which the rest of the way, from here to the holder and from there to
//! the asker, is shortest. The holder nearest to the landmark may lie on the far side of it, and the bound would be
//! (2K−1)·d instead of K·d. But the second leg is an estimate, and the nearest holder is measured: it is asked as
//! well if it is another, so that wrong coordinates cost no more than that (docs/decisions/2026-11-22-areas.md).
//!
//! Honest: "no" is said for all only by a landmark of the top level that has heard every living site in this life
//! of its own; before that it says "not yet".
//!
//! Invariants: the index by bucket says what the entries of all publishers say; in one life of a publisher the
//! highest version is true; what an earlier life said counts until the new one has said everything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::areas::Coordinate;
use skerry_federation::areas::distance::Distances;

use super::limits;
use super::message::{Message, Publish, Said};

/// Order-free digest of a set of buckets: the sum of these.
pub fn term(bucket: BucketId) -> u64 {
    let hash = blake3::hash(&bucket.0);
    hash.as_bytes().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[derive(Debug, Default)]
struct Heard {
    life: u64,
    entries: BTreeMap<BucketId, (u64, bool)>,
    stale: BTreeSet<BucketId>,
    digest: u64,
    complete: bool,
}

impl Heard {
    fn holds(&self, bucket: BucketId) -> bool {
        self.entries.get(&bucket).map_or_else(|| self.stale.contains(&bucket), |(_, member)| *member)
    }

    fn begin(&mut self, life: u64) {
        let old = core::mem::take(&mut self.entries).into_iter();
        self.stale.extend(old.filter(|(_, (_, member))| *member).map(|(bucket, _)| bucket));
        (self.life, self.digest, self.complete) = (life, 0, false);
    }

    fn set(&mut self, bucket: BucketId, version: u64, member: bool) {
        let old = self.entries.get(&bucket).copied();
        if old.is_some_and(|(known, _)| known >= version) {
            return;
        }
        self.entries.insert(bucket, (version, member));
        self.stale.remove(&bucket);
        match (old.is_some_and(|(_, was)| was), member) {
            (false, true) => self.digest = self.digest.wrapping_add(term(bucket)),
            (true, false) => self.digest = self.digest.wrapping_sub(term(bucket)),
            _ => {}
        }
    }
}

/// A question that waits for a holder.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who asks.
    pub asker: SiteId,
    /// Of the asker.
    pub ticket: u64,
    /// Which.
    pub bucket: BucketId,
    /// Where the asker is.
    pub from: Option<Coordinate>,
    /// Holders that did not answer.
    pub except: Vec<SiteId>,
}

/// What the landmark has to know of its surroundings to answer.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// How far everybody is.
    pub distances: &'a Distances,
    /// Whether this site is of the top level.
    pub top: bool,
    /// Who lives, this site apart.
    pub alive: &'a BTreeSet<SiteId>,
    /// Now.
    pub now: Instant,
}

/// The table of one landmark.
#[derive(Debug)]
pub struct Table {
    started: Instant,
    heard: BTreeMap<SiteId, Heard>,
    index: BTreeMap<BucketId, BTreeSet<SiteId>>,
    waiting: VecDeque<(Instant, Question)>,
}

impl Table {
    /// Knows nothing; a restarted landmark begins so too.
    pub const fn new(started: Instant) -> Self {
        Self { started, heard: BTreeMap::new(), index: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Takes a publication; answers who became a holder, and nothing if it is more than a publisher may hold.
    pub fn take(&mut self, from: SiteId, publish: &Publish) -> Option<Vec<BucketId>> {
        if publish.withdraw {
            self.forget(from);
            return Some(Vec::new());
        }
        let heard = self.heard.entry(from).or_default();
        if publish.life < heard.life {
            return Some(Vec::new());
        }
        if heard.entries.len() + publish.changes.len() > 2 * limits::BUCKETS {
            return None;
        }
        if publish.life > heard.life {
            heard.begin(publish.life);
        }
        let mut touched = BTreeSet::new();
        for change in &publish.changes {
            heard.set(change.bucket, change.version, change.member);
            touched.insert(change.bucket);
        }
        heard.complete = heard.digest == publish.digest;
        if heard.complete {
            touched.append(&mut heard.stale);
        }
        Some(self.reindex(from, touched))
    }

    /// What is held of a publisher in this life of it.
    pub fn digest(&self, site: SiteId, life: u64) -> u64 {
        self.heard.get(&site).filter(|heard| heard.life == life).map_or(0, |heard| heard.digest)
    }

    /// A publisher that is gone, or tells others now.
    pub fn forget(&mut self, site: SiteId) {
        if let Some(heard) = self.heard.remove(&site) {
            self.reindex(site, heard.entries.into_keys().chain(heard.stale).collect());
        }
    }

    /// A holder that says it is none.
    pub fn refute(&mut self, site: SiteId, bucket: BucketId) {
        if let Some(heard) = self.heard.get_mut(&site) {
            heard.stale.remove(&bucket);
            if let Some((_, true)) = heard.entries.remove(&bucket) {
                heard.digest = heard.digest.wrapping_sub(term(bucket));
            }
            self.reindex(site, [bucket].into());
        }
    }

    /// Who holds a bucket, as far as told.
    pub fn holders(&self, bucket: BucketId) -> impl Iterator<Item = SiteId> {
        self.index.get(&bucket).into_iter().flatten().copied()
    }

    /// The sites that publish here: the cluster of this landmark.
    pub fn cluster(&self) -> impl Iterator<Item = SiteId> {
        self.heard.keys().copied()
    }

    /// Entries held: what being a landmark costs.
    pub fn entries(&self) -> usize {
        self.heard.values().map(|heard| heard.entries.len() + heard.stale.len()).sum()
    }

    /// The holder by way of which the answer reaches the asker first, and the nearest one if that is another.
    pub fn choose(&self, question: &Question, distances: &Distances) -> Vec<SiteId> {
        let fit = |site: &SiteId| *site != question.asker && !question.except.contains(site);
        let near = |site: SiteId| (distances.to(site).rtt, site);
        let way = |site: SiteId| {
            let at = question.from.as_ref();
            (distances.to(site).rtt + distances.onward(site, (question.asker, at)), site)
        };
        let holders = || self.holders(question.bucket).filter(fit);
        let (best, nearest) = (holders().map(way).min(), holders().map(near).min());
        let mut chosen: Vec<SiteId> = [best, nearest].into_iter().flatten().map(|(_, site)| site).collect();
        chosen.dedup();
        chosen
    }

    /// Answers a question; what has no answer waits a moment for a holder to be published.
    pub fn ask(&mut self, question: Question, around: Around<'_>) -> Vec<(SiteId, Message)> {
        let chosen = self.choose(&question, around.distances);
        if !chosen.is_empty() {
            return pass_on(&question, chosen);
        }
        let said = self.negative(around);
        let answer = answer(&question, said);
        if self.waiting.len() >= limits::WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((around.now.after(limits::WAIT), question));
        vec![answer]
    }

    fn negative(&self, around: Around<'_>) -> Said {
        let heard = |site: &SiteId| self.heard.get(site).is_some_and(|heard| heard.complete);
        match around.top {
            true if around.alive.iter().all(heard) => Said::No { whole: true },
            true => Said::NotYet,
            false if around.now < self.started.after(limits::GRACE) => Said::NotYet,
            false => Said::No { whole: false },
        }
    }

    /// A holder was published: who waits for it is served.
    pub fn serve(&mut self, bucket: BucketId, distances: &Distances) -> Vec<(SiteId, Message)> {
        let (matched, rest): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|(_, question)| question.bucket == bucket);
        self.waiting = rest;
        let mut out = Vec::new();
        for (until, question) in matched {
            match self.choose(&question, distances) {
                chosen if chosen.is_empty() => self.waiting.push_back((until, question)),
                chosen => out.extend(pass_on(&question, chosen)),
            }
        }
        out
    }

    /// Forgets who asks no more.
    pub fn cancel(&mut self, asker: SiteId, ticket: u64) {
        self.waiting.retain(|(_, question)| (question.asker, question.ticket) != (asker, ticket));
    }

    /// Forgets who waited long enough; they had their answer when they asked.
    pub fn tick(&mut self, now: Instant) {
        self.waiting.retain(|(until, _)| *until > now);
    }

    /// When [`Self::tick`] has something to do.
    pub fn next_wake(&self) -> Option<Instant> {
        self.waiting.iter().map(|(until, _)| *until).min()
    }

    fn reindex(&mut self, site: SiteId, buckets: BTreeSet<BucketId>) -> Vec<BucketId> {
        let heard = self.heard.get(&site);
        let mut came = Vec::new();
        for bucket in buckets {
            let sites = self.index.entry(bucket).or_default();
            if heard.is_some_and(|heard| heard.holds(bucket)) {
                if sites.len() < limits::HOLDERS && sites.insert(site) {
                    came.push(bucket);
                }
            } else {
                sites.remove(&site);
            }
            if sites.is_empty() {
                self.index.remove(&bucket);
            }
        }
        came
    }
}

fn answer(question: &Question, said: Said) -> (SiteId, Message) {
    (question.asker, Message::Answer { ticket: question.ticket, bucket: question.bucket, said })
}

fn pass_on(question: &Question, chosen: Vec<SiteId>) -> Vec<(SiteId, Message)> {
    let Question { asker, ticket, bucket, .. } = *question;
    let passed = chosen.iter().map(|holder| (*holder, Message::PassOn { ticket, bucket, asker }));
    let mut out: Vec<(SiteId, Message)> = passed.collect();
    out.push(answer(question, Said::PassedOn(chosen)));
    out
}
