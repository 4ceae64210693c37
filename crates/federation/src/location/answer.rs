//! A landmark's answers: pass on to the member nearest on the whole way, or wait a moment for one to be published.
//!
//! Invariant: at most [`limits::WAITING`] questions wait, the oldest give way.

use std::collections::{BTreeSet, VecDeque};

use skerry_base::{BucketId, Instant, SiteId};

use crate::context::Context;
use crate::limits;
use crate::message::{Message, Said};

/// A question of another site.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) asker: SiteId,
    pub(super) ticket: u64,
    pub(super) bucket: BucketId,
}

impl Question {
    fn say(self, said: Said, cx: &mut Context<'_>) {
        cx.send(self.asker, Message::Said { ticket: self.ticket, bucket: self.bucket, said });
    }

    fn pass_on(self, to: SiteId, cx: &mut Context<'_>) {
        let Self { asker, ticket, bucket } = self;
        cx.send(to, Message::PassOn { ticket, bucket, asker });
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
        let mut reachable = cx.peers.nearest(members.iter().copied());
        if cx.peers.one_level() {
            reachable.truncate(1);
        } else {
            reachable = cx.peers.on_the_way(&reachable, question.asker);
        }
        reachable.iter().for_each(|holder| question.pass_on(*holder, cx));
        if let Some(best) = reachable.first() {
            question.say(Said::PassedOn(*best), cx);
            return;
        }
        if self.queue.len() >= limits::WAITING {
            self.queue.pop_front();
        }
        self.queue.push_back((cx.now.after(limits::WAIT), question));
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
