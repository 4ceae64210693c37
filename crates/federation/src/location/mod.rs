//! Location: who is a member of a bucket, by way of landmarks.
//!
//! A site tells its landmarks of which buckets it is a member ([`publish`]); who looks for a bucket asks its
//! landmarks in waves, nearest first ([`ask`]); a landmark passes the question on to the nearest member it
//! knows, who answers the asker. With one level (K = 1) every site is a landmark of every other
//! ([`landmarks::Landmarks`] is where levels come in). What was heard is kept in [`table`].
//! A question may say what is wanted of a member ([`crate::message::Seek`]): it is passed on to the one with the shortest whole
//! way, who gives it to the asker at once, and each asker only once ([`given`]). What that is nobody here knows.
//!
//! Honest negatives: a landmark that has not heard all live sites since its start says "not yet" for a while ([`untold`]),
//! then whom it has not heard, never "no"; who concludes "unknown" names the sites that could not be asked.

use std::collections::BTreeSet;

use bytes::Bytes;
use skerry_base::{BucketId, Instant, SiteId};

use crate::areas::ring;
use crate::context::Context;
use crate::message::{Census as CensusQuestion, Message, Publish, Rolls, Said};
use crate::peers::Peers;
use crate::{AreasReport, Config, Near, Ticket};

mod answer;
mod ask;
mod census;
mod given;
mod landmarks;
mod publish;
mod sought;
mod table;
mod untold;

pub(crate) use answer::Question;
use answer::Waiting;
use ask::{Questions, Search};
use census::Census;
use given::Given;
use landmarks::Landmarks;
use publish::Publisher;
pub(crate) use table::Change;
use table::Holders;
use untold::Untold;

/// The location machine: publisher, landmark and asker in one.
pub(crate) struct Location {
    me: SiteId,
    system: BTreeSet<BucketId>,
    publisher: Publisher,
    holders: Holders,
    questions: Questions,
    waiting: Waiting,
    census: Census,
    untold: Untold,
    given: Given,
    waves: bool,
    /// Every site that is there has told this one what it holds, or need not.
    whole: bool,
    changes: Vec<Change>,
}

impl Location {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            me: config.site,
            system: config.system.clone(),
            publisher: Publisher::new(config.life),
            holders: Holders::default(),
            questions: Questions::default(),
            waiting: Waiting::default(),
            census: Census::default(),
            untold: Untold::default(),
            given: Given::default(),
            waves: config.waves,
            whole: true,
            changes: Vec::new(),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let census = self.census.next_wake();
        [self.publisher.next_wake(), self.questions.next_wake(), self.waiting.next_wake(), census]
            .into_iter()
            .flatten()
            .min()
    }

    /// Known members but this site; for a system bucket all sites.
    pub(crate) fn members(&self, bucket: BucketId, cx: &Context<'_>) -> BTreeSet<SiteId> {
        match self.system.contains(&bucket) {
            true => cx.peers.roster().clone(),
            false => self.holders.of(bucket),
        }
    }

    /// As [`Self::members`], without asking who is in the roster.
    pub(crate) fn published(&self, bucket: BucketId) -> BTreeSet<SiteId> {
        self.holders.of(bucket)
    }

    /// The buckets that a site is known to be a member of.
    pub(crate) fn buckets_of(&self, site: SiteId) -> Vec<BucketId> {
        self.holders.buckets_of(site)
    }

    /// Whether a site has said, since this machine's start, of what it is a member, and not of this.
    pub(crate) fn is_surely_no_member(&self, site: SiteId, bucket: BucketId, cx: &Context<'_>) -> bool {
        if self.system.contains(&bucket) {
            return false;
        }
        let told = || self.unheard(bucket, cx).is_some_and(|unheard| !unheard.contains(&site));
        self.holders.is_surely_no_member(site, bucket)
            || (!cx.peers.one_level() && !self.holders.of(bucket).contains(&site) && told())
    }

    /// Sites that have told this one of what they are members, and not of this; or, with more than one level, have told
    /// the landmark that named the members of this bucket.
    pub(crate) fn said_no(&self, bucket: BucketId, peers: &Peers) -> BTreeSet<SiteId> {
        if self.system.contains(&bucket) {
            return BTreeSet::new();
        }
        let members = self.holders.of(bucket);
        let unheard = if peers.one_level() { None } else { self.census.unheard(bucket) };
        let told = |site: SiteId| unheard.is_some_and(|unheard| !unheard.contains(&site));
        let said = |site: &&SiteId| {
            self.holders.is_surely_no_member(**site, bucket) || (!members.contains(*site) && told(**site))
        };
        peers.roster().iter().filter(said).copied().collect()
    }

    /// Whether every member of a bucket is known here, those apart that have not been heard for long.
    pub(crate) fn knows_all_members(&self, bucket: BucketId) -> bool {
        self.system.contains(&bucket)
            || self.whole
            || self.census.unheard(bucket).is_some_and(BTreeSet::is_empty)
    }

    /// Whether every site has said since this machine's start whether it is a member, those that are away among them: who was
    /// remembered before it may be one.
    pub(crate) fn has_heard_all(&self, bucket: BucketId, peers: &Peers) -> bool {
        // A landmark that everybody tells is whole though somebody is away.
        let tells_here = peers.one_level() || self.whole;
        if self.system.contains(&bucket) || !tells_here {
            return self.knows_all_members(bucket);
        }
        let members = self.holders.of(bucket);
        let said = |site: &SiteId| members.contains(site) || self.holders.is_surely_no_member(*site, bucket);
        peers.roster().iter().all(said)
    }

    /// With more than one level: who may be a member though nothing is known of it.
    fn unheard(&self, bucket: BucketId, cx: &Context<'_>) -> Option<BTreeSet<SiteId>> {
        let own = || self.own_unheard(cx).map(|unheard| unheard.into_iter().collect());
        self.census.unheard(bucket).cloned().or_else(own)
    }

    /// Whom this site has not heard, if everybody tells it and it waits for none of them any more.
    fn own_unheard(&self, cx: &Context<'_>) -> Option<Vec<SiteId>> {
        self.untold_here(cx).filter(|unheard| !unheard.iter().any(|site| self.untold.waits_for(*site, cx)))
    }

    /// Whom this site has not heard, if everybody tells it.
    fn untold_here(&self, cx: &Context<'_>) -> Option<Vec<SiteId>> {
        let is_top = !cx.peers.one_level() && cx.peers.view().is_top();
        is_top.then(|| self.holders.unheard(cx.peers.roster()))
    }

    /// Takes note of who is there and has not told; whether this site is told everything by all who are.
    fn look(&mut self, cx: &Context<'_>) -> bool {
        let unheard = self.untold_here(cx);
        let is_there = |site: SiteId| cx.peers.view().knows(site);
        self.untold.look(unheard.as_deref().unwrap_or_default(), is_there, cx.now);
        unheard.is_some_and(|unheard| !unheard.into_iter().any(is_there))
    }

    /// Memberships that changed since last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    pub(crate) fn join(&mut self, bucket: BucketId, cx: &mut Context<'_>) {
        if !self.system.contains(&bucket) {
            self.publisher.set(bucket, true);
            self.publisher.sync(cx);
            self.census.join(bucket);
        }
        self.waiting.heard(bucket, self.me, cx);
    }

    pub(crate) fn leave(&mut self, bucket: BucketId, cx: &mut Context<'_>) {
        if !self.system.contains(&bucket) {
            self.publisher.set(bucket, false);
            self.publisher.sync(cx);
            self.census.leave(bucket);
        }
    }

    pub(crate) fn link_up(&mut self, site: SiteId, cx: &mut Context<'_>) {
        self.holders.link_up(site);
        self.publisher.link_up(site, cx);
        self.publisher.sync(cx);
    }

    pub(crate) fn link_down(&mut self, site: SiteId, cx: &Context<'_>) {
        self.publisher.link_down(site);
        self.census.link_down(site, cx.now);
    }

    /// The other end of a link has said what it understands: it may have to be told now, or be asked.
    pub(crate) fn spoke(&mut self, site: SiteId, cx: &mut Context<'_>) {
        self.publisher.weigh(site, cx);
        self.publisher.sync(cx);
        // Among many, all would ask anew whenever anybody comes.
        if cx.peers.is_top(site) || !cx.peers.is_crowded() {
            self.census.again(cx.now);
        }
    }

    /// Who is told, or can be asked, may be others now.
    pub(crate) fn turned(&mut self, cx: &mut Context<'_>) {
        self.publisher.turned(cx);
        self.publisher.sync(cx);
        self.census.again(cx.now);
    }

    /// Sites that left the roster hold nothing.
    pub(crate) fn roster_changed(&mut self, gone: &[SiteId], cx: &mut Context<'_>) {
        for site in gone {
            let changes = self.holders.forget(*site);
            self.note(changes, cx);
            self.publisher.link_down(*site);
        }
        self.turned(cx);
    }

    /// How this site finds others.
    pub(crate) fn areas(&self, peers: &Peers) -> AreasReport {
        let view = peers.view();
        let cluster: BTreeSet<SiteId> = self.holders.cluster().filter(|site| view.knows(*site)).collect();
        let near = |site: SiteId| {
            let distance = view.distances().to(site);
            Near {
                site,
                level: view.level(site),
                rtt: distance.rtt,
                source: distance.source,
                landmark: peers.tells(site),
                tells: cluster.contains(&site),
                linked: peers.is_linked(site),
                coordinate: view.distances().coordinate(site).copied(),
            }
        };
        let mut sites: Vec<Near> = peers.present().map(near).collect();
        sites.sort_by_key(|near| (near.rtt, near.site));
        let distances = cluster.iter().map(|site| view.distances().to(*site).rtt);
        AreasReport {
            k: view.k(),
            level: view.level(self.me),
            coordinate: *view.distances().own(),
            sites,
            left_out: view.bunch().left_out,
            told: self.publisher.told(),
            entries: self.holders.entries(),
            areas: ring::around(self.me, distances, 2),
        }
    }

    pub(crate) fn locate(
        &mut self,
        ticket: Ticket,
        bucket: BucketId,
        wanted: Option<Bytes>,
        cx: &mut Context<'_>,
    ) {
        let known = self.known(bucket, cx);
        let knows_all = self.is_member(bucket) || cx.peers.one_level() || cx.peers.view().is_top();
        let plan = Landmarks::of(cx.peers).waves(cx.peers, self.waves);
        self.questions.open(Search { ticket, bucket, wanted, plan, known, knows_all }, cx);
    }

    /// A site that was named says that it is no member.
    pub(crate) fn refuted(&mut self, bucket: BucketId, site: SiteId, cx: &mut Context<'_>) {
        let changes = self.holders.refute(site, bucket);
        self.note(changes, cx);
    }

    pub(crate) fn published_by(&mut self, from: SiteId, publish: Publish, cx: &mut Context<'_>) {
        let (ticket, life) = (publish.ticket, publish.life);
        let Some(changes) = self.holders.take(from, publish) else {
            cx.refuse(from, "more buckets than a site may be a member of");
            return;
        };
        for change in changes.iter().filter(|change| change.member) {
            self.waiting.heard(change.bucket, change.site, cx);
        }
        self.note(changes, cx);
        let digest = self.holders.digest(from, life);
        cx.send(from, Message::Published { ticket, life, digest });
    }

    pub(crate) fn acknowledged(&mut self, from: SiteId, ticket: u64, digest: u64, cx: &mut Context<'_>) {
        self.publisher.acknowledged(from, ticket, digest, cx);
    }

    /// A question to this site as a landmark.
    pub(crate) fn asked(&mut self, question: Question, cx: &mut Context<'_>) {
        let (from, bucket) = (question.asker, question.bucket);
        if self.is_member(bucket) {
            return self.given.answer(question, cx);
        }
        let members: BTreeSet<SiteId> =
            self.members(bucket, cx).into_iter().filter(|site| *site != from).collect();
        let none = self.nothing(from, cx);
        self.waiting.answer(question, &members, none, cx);
    }

    /// What to say of a bucket of which nothing is known here.
    fn nothing(&self, asker: SiteId, cx: &Context<'_>) -> Said {
        if cx.peers.one_level() {
            return if self.holders.complete(cx) { Said::No } else { Said::NotYet };
        }
        let top = cx.peers.view().is_top();
        match (self.own_unheard(cx), cx.peers.understands(asker)) {
            (Some(unheard), true) => Said::NotHeard(unheard),
            (None, true) if !top => Said::NotHere,
            _ => Said::NotYet,
        }
    }

    /// A member asks who the others are.
    pub(crate) fn census_asked(&self, from: SiteId, question: &CensusQuestion, cx: &mut Context<'_>) {
        let own = |bucket| self.publisher.is_member(bucket);
        let unheard = self.own_unheard(cx);
        if cx.peers.understands(from) {
            let answer = census::answer(from, question, (self.me, own), unheard, &self.holders);
            cx.send(from, answer);
        }
    }

    pub(crate) fn rolled(&mut self, from: SiteId, rolls: Rolls, cx: &mut Context<'_>) {
        let mine = |bucket| self.publisher.is_member(bucket);
        for (bucket, site) in self.census.rolled(from, rolls, (mine, &self.holders), cx) {
            self.met(site, bucket, cx);
        }
    }

    /// A site is seen to follow a bucket that is followed here.
    pub(crate) fn met(&mut self, site: SiteId, bucket: BucketId, cx: &mut Context<'_>) {
        // With one level everybody is told; but word that overtook the telling may have undone it.
        let told = cx.peers.one_level() && !self.holders.has_denied(site, bucket);
        let new = !told && self.publisher.is_member(bucket);
        if new && site != self.me && !self.holders.of(bucket).contains(&site) {
            let changes = self.holders.hint(site, bucket);
            self.note(changes, cx);
        }
    }

    /// This site is no landmark of another any more.
    pub(crate) fn withdrawn(&mut self, from: SiteId, ticket: u64, cx: &mut Context<'_>) {
        let changes = self.holders.withdrawn(from, |bucket| self.publisher.is_member(bucket));
        self.note(changes, cx);
        cx.send(from, Message::Published { ticket, life: 0, digest: 0 });
    }

    /// A question that a landmark passed on to this site as a member.
    pub(crate) fn passed_on(&mut self, from: SiteId, question: Question, cx: &mut Context<'_>) {
        let bucket = question.bucket;
        if self.is_member(bucket) {
            self.given.answer(question, cx);
        } else {
            cx.send(from, Message::NotMember { bucket });
        }
    }

    /// An answer to a question of this site.
    pub(crate) fn said(&mut self, from: SiteId, answer: (u64, BucketId, Said), cx: &mut Context<'_>) {
        let (ticket, bucket, said) = answer;
        if !self.questions.is_open(ticket, bucket) {
            cx.stale();
            return;
        }
        if matches!(said, Said::Member | Said::Giving) && !self.system.contains(&bucket) {
            let changes = self.holders.hint(from, bucket);
            self.note(changes, cx);
        }
        let known = self.known(bucket, cx);
        self.questions.said(from, ticket, said, known, cx);
    }

    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        self.publisher.tick(cx);
        // Who is named may hold what this site was not told of: of those it asks, as all do.
        let needless = self.look(cx);
        self.whole = cx.peers.one_level() || needless;
        self.census.tick(self.publisher.mine(), needless, &self.holders, cx);
        self.waiting.tick(cx);
        for (ticket, bucket) in self.questions.due(cx.now) {
            let known = self.known(bucket, cx);
            self.questions.tick(ticket, known, cx);
        }
        cx.hold(self.waiting.is_bounded(), "more questions wait than may");
        cx.hold(self.questions.is_bounded(), "more questions are open than may");
    }

    fn is_member(&self, bucket: BucketId) -> bool {
        self.system.contains(&bucket) || self.publisher.is_member(bucket)
    }

    /// Members as far as known here, this site included if it is one.
    fn known(&self, bucket: BucketId, cx: &Context<'_>) -> ask::Known {
        let members = self.members(bucket, cx);
        let mut reachable = cx.peers.reachable(members.iter().copied());
        let apart = members.iter().copied().filter(|site| !cx.peers.is_reachable(*site)).collect();
        if self.is_member(bucket) {
            reachable.insert(0, self.me);
        }
        let unheard = self.own_unheard(cx).map(|unheard| unheard.into_iter().collect());
        ask::Known { reachable, apart, unheard }
    }

    fn note(&mut self, changes: Vec<Change>, cx: &mut Context<'_>) {
        cx.out.extend(changes.iter().map(Change::output));
        self.changes.extend(changes);
    }
}
