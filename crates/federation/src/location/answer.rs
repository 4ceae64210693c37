//! A landmark's answers: pass on to the member nearest on the whole way, or wait a moment for one to be published.
//!
//! Invariant: at most [`limits::WAITING`] questions wait, the oldest give way.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use skerry_base::{BucketId, Instant, SiteId};

use crate::context::Context;
use crate::limits;
use crate::message::{Message, Said, Seek};

/// A question of another site.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) asker: SiteId,
    pub(crate) ticket: u64,
    pub(crate) bucket: BucketId,
    /// What the asker wants of a member.
    pub(crate) wanted: Option<Bytes>,
}

impl Question {
    pub(crate) fn of(seek: Seek, asker: SiteId) -> Self {
        let Seek { ticket, bucket, wanted } = seek;
        Self { asker, ticket, bucket, wanted: Some(wanted) }
    }

    pub(super) fn say(&self, said: Said, cx: &mut Context<'_>) {
        cx.send(self.asker, Message::Said { ticket: self.ticket, bucket: self.bucket, said });
    }

    /// For the answer alone.
    fn pass_on(&self, to: SiteId, cx: &mut Context<'_>) {
        let Self { asker, ticket, bucket, .. } = *self;
        cx.send(to, Message::PassOn { ticket, bucket, asker });
    }

    /// For the answer and for what is wanted, if anything is that the member understands.
    fn pass_on_whole(&self, to: SiteId, cx: &mut Context<'_>) {
        let Self { asker, ticket, bucket, .. } = *self;
        match self.wanted.clone().filter(|_| cx.peers.speaks_at_least(to, limits::SEEKS)) {
            Some(wanted) => cx.send(to, Message::SeekOn { seek: Seek { ticket, bucket, wanted }, asker }),
            None => self.pass_on(to, cx),
        }
    }
}

/// Unmatched questions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<(Instant, Question)>,
}

impl Waiting {
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.queue.front().map(|(until, _)| *until)
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.queue.len() <= limits::WAITING
    }

    /// Answers by what is known of the members; `none` is what to say if nothing is.
    pub(super) fn answer(
        &mut self,
        question: Question,
        members: &BTreeSet<SiteId>,
        none: Said,
        cx: &mut Context<'_>,
    ) {
        let mut reachable = cx.peers.reachable(members.iter().copied());
        if cx.peers.one_level() {
            reachable.truncate(1);
        } else {
            reachable = cx.peers.on_the_way(&reachable, question.asker);
        }
        // One gives: what a second one gave would mostly be for nothing. That it is there it says all the same.
        reachable.iter().skip(1).for_each(|holder| question.pass_on(*holder, cx));
        if let Some(best) = reachable.first() {
            question.pass_on_whole(*best, cx);
            question.say(Said::PassedOn(*best), cx);
            return;
        }
        if self.queue.len() >= limits::WAITING {
            self.queue.pop_front();
        }
        // Whoever is heard of later says that it is there: thousands of questions may wait here, and are short so.
        let waits = Question { wanted: None, ..question.clone() };
        self.queue.push_back((cx.now.after(limits::WAIT), waits));
        let known = || Said::Known(members.iter().copied().take(limits::FOUND).collect());
        question.say(if members.is_empty() { none } else { known() }, cx);
    }

    /// A member was published (or is this site): who waits for it is served.
    pub(super) fn heard(&mut self, bucket: BucketId, member: SiteId, cx: &mut Context<'_>) {
        let (matched, rest) = self.queue.drain(..).partition(|(_, question)| question.bucket == bucket);
        self.queue = rest;
        let matched: VecDeque<(Instant, Question)> = matched;
        for (_, question) in matched {
            match cx.peers.knows(member) {
                true if member != question.asker => question.pass_on(member, cx),
                true => {}
                false => question.say(Said::Member, cx),
            }
        }
    }

    /// Forgets who waited long enough; they were answered when they asked.
    pub(super) fn tick(&mut self, cx: &Context<'_>) {
        while self.queue.front().is_some_and(|(until, _)| *until <= cx.now) {
            self.queue.pop_front();
        }
    }
}
