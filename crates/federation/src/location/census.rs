//! Who else is a member: asked of one landmark that everybody tells, when there is more than one level.
//!
//! With one level every site tells every other of what it is a member. With more it tells its landmarks, and the
//! members of a bucket learn of each other in two ways: who begins to follow asks here and says so to all that are
//! named (a check, which makes it known to them); and every member asks again now and then, 24 bytes a bucket and
//! no answer but for what differs, because a site that was silent then may have been heard since.
//!
//! A landmark names whom it has not heard. Is one of them there, it may tell another landmark and not this one, as it does that
//! has not read who pays: then the next one is asked of the same buckets, until nobody who is there is left of those whom none
//! of them has heard.
//!
//! Invariants: one question on its way; a landmark that is silent gives way to the next; what is not answered is
//! asked again at the next round; nothing is remembered of a bucket that is not followed.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{BucketId, Instant, SiteId};

use super::table::Holders;
use crate::context::Context;
use crate::limits;
use crate::message::{Census as Question, Message, Rolls};

/// Sites named in one answer.
const NAMED: usize = 16_384;

#[derive(Debug)]
struct Open {
    ticket: u64,
    landmark: SiteId,
    until: Instant,
    buckets: Vec<BucketId>,
    /// Landmarks that have answered for these in this round.
    asked: BTreeSet<SiteId>,
}

/// Buckets of which others are asked as well, because somebody is there whom none of these has heard.
#[derive(Debug)]
struct Doubted {
    buckets: Vec<BucketId>,
    asked: BTreeSet<SiteId>,
}

/// This site's questions about the members of its buckets.
#[derive(Debug)]
pub(super) struct Census {
    queue: VecDeque<BucketId>,
    /// Before all that is in the queue.
    doubted: Option<Doubted>,
    open: Option<Open>,
    /// Landmarks that did not answer in this round.
    silent: BTreeSet<SiteId>,
    due: Option<Instant>,
    pause: Duration,
    /// By bucket: which sites had not been heard by any of those that answered. All others that are not known as members are none.
    rolled: BTreeMap<BucketId, BTreeSet<SiteId>>,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            doubted: None,
            open: None,
            silent: BTreeSet::new(),
            due: None,
            pause: limits::CENSUS_MIN,
            rolled: BTreeMap::new(),
        }
    }
}

/// Order-free digest of a set of sites.
fn digest(sites: impl Iterator<Item = SiteId>) -> u64 {
    let head = |site: SiteId| {
        let hash = blake3::hash(&site.0);
        hash.as_bytes().iter().take(8).fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte))
    };
    sites.map(head).fold(0, u64::wrapping_add)
}

impl Census {
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.until).into_iter().chain(self.due).min()
    }

    /// Which sites had not been heard when a bucket's members were last told; none if they were not.
    pub(super) fn unheard(&self, bucket: BucketId) -> Option<&BTreeSet<SiteId>> {
        self.rolled.get(&bucket)
    }

    /// This site follows a bucket from now on.
    pub(super) fn join(&mut self, bucket: BucketId) {
        self.queue.push_back(bucket);
    }

    pub(super) fn leave(&mut self, bucket: BucketId) {
        self.queue.retain(|queued| *queued != bucket);
        if let Some(doubted) = &mut self.doubted {
            doubted.buckets.retain(|doubted| *doubted != bucket);
        }
        self.rolled.remove(&bucket);
    }

    /// Landmarks changed, or can be asked again: everything once more, soon and then slower each time.
    pub(super) fn again(&mut self, now: Instant) {
        self.pause = limits::CENSUS_MIN;
        let soon = now.after(crate::areas::limits::SETTLE);
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        self.silent.clear();
    }

    pub(super) fn link_down(&mut self, site: SiteId, now: Instant) {
        if let Some(open) = self.open.as_mut().filter(|open| open.landmark == site) {
            open.until = now;
        }
    }

    /// Asks what is due. `mine` are the buckets that this site follows; `needless` says that it has itself been told
    /// by everybody.
    pub(super) fn tick(
        &mut self,
        mine: impl Iterator<Item = BucketId>,
        needless: bool,
        holders: &Holders,
        cx: &mut Context<'_>,
    ) {
        if cx.peers.one_level() || needless {
            (self.open, self.due, self.pause) = (None, None, limits::CENSUS_MIN);
            (self.queue, self.doubted) = (VecDeque::new(), None);
            self.rolled.clear();
            return;
        }
        if let Some(open) = self.open.take_if(|open| open.until <= cx.now) {
            self.silent.insert(open.landmark);
            if open.asked.is_empty() {
                open.buckets.into_iter().rev().for_each(|bucket| self.queue.push_front(bucket));
            } else {
                self.doubted = Some(Doubted { buckets: open.buckets, asked: open.asked });
            }
        }
        if self.due.is_none_or(|due| due <= cx.now) {
            (self.queue, self.doubted) = (mine.collect(), None);
            // Who was silent then may speak now, and have heard whom the others have not.
            self.silent.clear();
            self.due = Some(cx.now.after(self.pause));
            self.pause = (self.pause * 2).min(cx.peers.census_max());
        }
        self.ask(holders, cx);
    }

    /// Whom to ask but these.
    fn landmark(&self, but: &BTreeSet<SiteId>, cx: &Context<'_>) -> Option<SiteId> {
        let fit =
            |site: &SiteId| cx.peers.understands(*site) && !self.silent.contains(site) && !but.contains(site);
        // Nearest first. Last is who may be no landmark by its own draw and then never knows who the members are; before it who
        // pays, which is a landmark only where too few others are.
        let last = |site: &SiteId| (cx.peers.draws_otherwise(*site), cx.peers.is_light(*site));
        cx.peers.top().into_iter().filter(fit).min_by_key(last)
    }

    fn ask(&mut self, holders: &Holders, cx: &mut Context<'_>) {
        if self.open.is_some() {
            return;
        }
        // Nobody else: then those are named that none of them has heard.
        if let Some(Doubted { buckets, asked }) =
            self.doubted.take().filter(|doubted| !doubted.buckets.is_empty())
            && let Some(landmark) = self.landmark(&asked, cx)
        {
            return self.question(landmark, buckets, asked, holders, cx);
        }
        if self.queue.is_empty() {
            return;
        }
        let Some(landmark) = self.landmark(&BTreeSet::new(), cx) else {
            // Nobody can be asked: what was told counts no more.
            self.queue.iter().for_each(|bucket| {
                self.rolled.remove(bucket);
            });
            self.queue.clear();
            self.silent.clear();
            return;
        };
        let count = self.queue.len().min(limits::ROLLS);
        let buckets: Vec<BucketId> = self.queue.drain(..count).collect();
        self.question(landmark, buckets, BTreeSet::new(), holders, cx);
    }

    fn question(
        &mut self,
        landmark: SiteId,
        buckets: Vec<BucketId>,
        asked: BTreeSet<SiteId>,
        holders: &Holders,
        cx: &mut Context<'_>,
    ) {
        let known = |bucket: &BucketId| (*bucket, digest(holders.of(*bucket).into_iter()));
        let entries = buckets.iter().map(known).collect();
        let ticket = cx.ticket().0;
        let until = cx.now.after(limits::CENSUS_TIMEOUT + cx.peers.rtt(landmark) * 2);
        self.open = Some(Open { ticket, landmark, until, buckets, asked });
        cx.send(landmark, Message::Census(Question { ticket, entries }));
    }

    /// Takes an answer; answers who is a member of what. `mine` says whether this site follows a bucket still.
    pub(super) fn rolled(
        &mut self,
        from: SiteId,
        rolls: Rolls,
        (mine, holders): (impl Fn(BucketId) -> bool, &Holders),
        cx: &mut Context<'_>,
    ) -> Vec<(BucketId, SiteId)> {
        let fits = |open: &mut Open| open.ticket == rolls.ticket && open.landmark == from;
        let Some(open) = self.open.take_if(fits) else {
            cx.stale();
            return Vec::new();
        };
        let mut buckets = open.buckets;
        let last = rolls.rolls.last().and_then(|(last, _)| buckets.iter().position(|bucket| bucket == last));
        if let Some(last) = last.filter(|_| rolls.more) {
            buckets.drain(last + 1..).rev().for_each(|bucket| self.queue.push_front(bucket));
        }
        buckets.retain(|bucket| mine(*bucket));
        self.note(&buckets, rolls.unheard.as_deref(), open.asked.is_empty());
        let is_there = |site: &SiteId| cx.peers.view().knows(*site);
        let named =
            |bucket: &BucketId| self.rolled.get(bucket).is_some_and(|unheard| unheard.iter().any(is_there));
        let named: Vec<BucketId> = buckets.iter().copied().filter(named).collect();
        let asked = open.asked.into_iter().chain([from]).collect();
        self.doubted = (!named.is_empty()).then_some(Doubted { buckets: named, asked });
        let mut found = Vec::new();
        for (bucket, members) in rolls.rolls.into_iter().filter(|(bucket, _)| buckets.contains(bucket)) {
            let known = holders.of(bucket);
            let new = members.into_iter().filter(|site| cx.peers.knows(*site) && !known.contains(site));
            found.extend(new.map(|site| (bucket, site)));
        }
        if !found.is_empty() {
            self.pause = limits::CENSUS_MIN;
        }
        found
    }

    /// Whom a landmark has not heard. The first one's word is new; another one's leaves those whom neither has heard, and if it
    /// cannot say, those whom the former had not.
    fn note(&mut self, buckets: &[BucketId], unheard: Option<&[SiteId]>, is_first: bool) {
        let unheard: Option<BTreeSet<SiteId>> = unheard.map(|unheard| unheard.iter().copied().collect());
        for bucket in buckets {
            match (&unheard, self.rolled.get_mut(bucket)) {
                (Some(unheard), Some(before)) if !is_first => before.retain(|site| unheard.contains(site)),
                (Some(unheard), _) => {
                    self.rolled.insert(*bucket, unheard.clone());
                }
                (None, _) if is_first => {
                    self.rolled.remove(bucket);
                }
                (None, _) => {}
            }
        }
    }
}

/// A landmark's answer. `own` says of which buckets it is a member itself; `unheard` who has not told it anything.
pub(super) fn answer(
    asker: SiteId,
    question: &Question,
    (me, own): (SiteId, impl Fn(BucketId) -> bool),
    unheard: Option<Vec<SiteId>>,
    holders: &Holders,
) -> Message {
    let (mut rolls, mut named, mut more) = (Vec::new(), 0, false);
    for (bucket, known) in &question.entries {
        let mut members = holders.of(*bucket);
        members.remove(&asker);
        if own(*bucket) {
            members.insert(me);
        }
        if digest(members.iter().copied()) == *known {
            continue;
        }
        if named + members.len() > NAMED && named > 0 {
            more = true;
            break;
        }
        named += members.len();
        rolls.push((*bucket, members.into_iter().collect()));
    }
    Message::Rolls(Rolls { ticket: question.ticket, rolls, unheard, more })
}
