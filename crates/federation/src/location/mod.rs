//! Location: who is a member of a bucket, by way of landmarks.
//!
//! A site tells its landmarks of which buckets it is a member ([`publish`]); who looks for a bucket asks its
//! landmarks in waves, nearest first ([`ask`]); a landmark passes the question on to the nearest member it
//! knows, who answers the asker. With one level (K = 1) every site is a landmark of every other
//! ([`landmarks::Landmarks`] is where levels come in). What was heard is kept in [`table`].
//!
//! Honest negatives: a landmark that has not heard all live sites since its start says "not yet", never "no";
//! who concludes "unknown" names the sites that could not be asked.

use std::collections::BTreeSet;

use skerry_base::{BucketId, Instant, SiteId};

use crate::context::Context;
use crate::message::{Message, Publish, Said};
use crate::{Config, Ticket};

mod answer;
mod ask;
mod landmarks;
mod publish;
mod table;

use answer::Waiting;
use ask::Questions;
use publish::Publisher;
pub(crate) use table::Change;
use table::Holders;

/// The location machine: publisher, landmark and asker in one.
pub(crate) struct Location {
    me: SiteId,
    system: BTreeSet<BucketId>,
    publisher: Publisher,
    holders: Holders,
    questions: Questions,
    waiting: Waiting,
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
            changes: Vec::new(),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        [self.publisher.next_wake(), self.questions.next_wake(), self.waiting.next_wake()]
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

    /// Whether a site has said, since this machine's start, of what it is a member, and not of this.
    pub(crate) fn is_surely_no_member(&self, site: SiteId, bucket: BucketId) -> bool {
        !self.system.contains(&bucket) && self.holders.is_surely_no_member(site, bucket)
    }

    /// Memberships that changed since last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    pub(crate) fn join(&mut self, bucket: BucketId, cx: &mut Context<'_>) {
        if !self.system.contains(&bucket) {
            self.publisher.set(bucket, true);
            self.publisher.sync(cx);
        }
        self.waiting.heard(bucket, self.me, cx);
    }

    pub(crate) fn leave(&mut self, bucket: BucketId, cx: &mut Context<'_>) {
        if !self.system.contains(&bucket) {
            self.publisher.set(bucket, false);
            self.publisher.sync(cx);
        }
    }

    pub(crate) fn link_up(&mut self, site: SiteId, cx: &mut Context<'_>) {
        self.holders.link_up(site);
        self.publisher.link_up(site);
        self.publisher.sync(cx);
    }

    pub(crate) fn link_down(&mut self, site: SiteId) {
        self.publisher.link_down(site);
    }

    /// Sites that left the roster hold nothing.
    pub(crate) fn roster_changed(&mut self, gone: &[SiteId], cx: &mut Context<'_>) {
        for site in gone {
            let changes = self.holders.forget(*site);
            self.note(changes, cx);
            self.publisher.link_down(*site);
        }
        for site in cx.peers.near() {
            self.publisher.meet(site);
        }
        self.publisher.sync(cx);
    }

    pub(crate) fn locate(&mut self, ticket: Ticket, bucket: BucketId, cx: &mut Context<'_>) {
        let known = self.known(bucket, cx);
        self.questions.open(ticket, bucket, known, cx);
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
    pub(crate) fn asked(&mut self, from: SiteId, ticket: u64, bucket: BucketId, cx: &mut Context<'_>) {
        if self.is_member(bucket) {
            cx.send(from, Message::Said { ticket, bucket, said: Said::Member });
            return;
        }
        let members: BTreeSet<SiteId> =
            self.members(bucket, cx).into_iter().filter(|site| *site != from).collect();
        let complete = self.holders.complete(cx);
        self.waiting.answer(answer::Question { asker: from, ticket, bucket }, &members, complete, cx);
    }

    /// A question that a landmark passed on to this site as a member.
    pub(crate) fn passed_on(&mut self, from: SiteId, asked: (SiteId, u64, BucketId), cx: &mut Context<'_>) {
        let (asker, ticket, bucket) = asked;
        if self.is_member(bucket) {
            cx.send(asker, Message::Said { ticket, bucket, said: Said::Member });
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
        if said == Said::Member && !self.system.contains(&bucket) {
            let changes = self.holders.hint(from, bucket);
            self.note(changes, cx);
        }
        let known = self.known(bucket, cx);
        self.questions.said(from, ticket, said, known, cx);
    }

    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        self.publisher.tick(cx);
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
        let mut reachable = cx.peers.nearest(members.iter().copied());
        let apart = members.iter().copied().filter(|site| !reachable.contains(site)).collect();
        if self.is_member(bucket) {
            reachable.insert(0, self.me);
        }
        ask::Known { reachable, apart }
    }

    fn note(&mut self, changes: Vec<Change>, cx: &mut Context<'_>) {
        cx.out.extend(changes.iter().map(Change::output));
        self.changes.extend(changes);
    }
}
