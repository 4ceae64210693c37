//! Reconciliation: finds what is dead though its tombstone is gone.
//!
//! Whoever passes over tombstones that their source has dropped (it was away for longer than they were kept)
//! may still hold what they killed, and is in *doubt*: durably, in the commit that passed over them. It goes on
//! pulling; caught up with another member, it compares with it the live dots that both vectors cover. What only
//! one side holds there is dead. A member that is not in doubt itself and covers all that caused the doubt settles
//! it; so do all members together, as whoever dropped a tombstone never takes back what it killed. Before anything is dropped the feed is pulled once more: a dot
//! may be gone because something newer replaced it, which must be here first. A member that leaves the bucket and joins it again
//! between two steps lacks what it has let go of: it answers for no more than its vector covers, and whoever asks believes
//! nothing of a comparison at whose end the other stamps its records otherwise than at its begin.
//!
//! The ranges compared are spans of one origin's seqs, not ranges of keys: cut to what both vectors cover,
//! records that are merely new on one side never show up as differences, and equal sets of any size compare in
//! one message each way. [`session`] asks, [`answer`] answers without keeping anything.
//!
//! Invariants: one session per bucket, [`limits::SESSIONS`] in all; a session holds at most
//! [`limits::DEAD`] dots; doubt is cleared only if nothing was cut short.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};

use crate::context::Context;
use crate::message::{Holding, Message, Verdict};
use crate::{Output, Report, Ticket, limits};

mod answer;
mod session;

use session::{Session, Step};

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All was compared.
    Whole,
    /// More was found than a session holds: the rest is for the next.
    Cut,
    /// Not with this site, or not now.
    Failed,
    /// It could not begin: others go on.
    Waits,
}

/// A session that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) bucket: BucketId,
    pub(crate) with: SiteId,
    pub(crate) end: End,
}

/// What the feed is asked to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Pull once more and say when it is done.
    Settle(BucketId, SiteId),
    /// Go on.
    Done(Done),
}

/// The reconciliation machine.
#[derive(Debug, Default)]
pub(crate) struct Reconcile {
    sessions: BTreeMap<BucketId, Session>,
    drops: BTreeMap<Ticket, BucketId>,
    /// Drops that other sites asked for.
    foreign: BTreeSet<Ticket>,
    next: Vec<Next>,
}

impl Reconcile {
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.sessions.values().filter_map(Session::next_wake).min()
    }

    pub(crate) fn take_next(&mut self) -> Vec<Next> {
        core::mem::take(&mut self.next)
    }

    /// Starts comparing. The feed has just caught up with this site, in this life of its.
    /// `last` says that every other member was compared since the doubt arose.
    pub(crate) fn start(
        &mut self,
        bucket: BucketId,
        (with, life): (SiteId, Option<Origin>),
        last: bool,
        cx: &mut Context<'_>,
    ) {
        if self.sessions.contains_key(&bucket) || self.sessions.len() >= limits::SESSIONS {
            return self.next.push(Next::Done(Done { bucket, with, end: End::Waits }));
        }
        match Session::start(bucket, (with, life), last, cx) {
            Some(session) => {
                self.sessions.insert(bucket, session);
            }
            None => self.next.push(Next::Done(Done { bucket, with, end: End::Failed })),
        }
    }

    pub(crate) fn compared(
        &mut self,
        from: SiteId,
        ticket: u64,
        bucket: BucketId,
        (doubt, verdict): (Vector, Verdict),
        cx: &mut Context<'_>,
    ) {
        let Some(session) = self.session(from, ticket, bucket) else { return cx.stale() };
        let step = session.compared(verdict, &doubt, cx);
        self.act(bucket, step, cx);
    }

    pub(crate) fn probed(
        &mut self,
        from: SiteId,
        ticket: u64,
        bucket: BucketId,
        (doubt, holdings): (Vector, &[Holding]),
        cx: &mut Context<'_>,
    ) {
        let Some(session) = self.session(from, ticket, bucket) else { return cx.stale() };
        let step = session.probed(holdings, &doubt, cx);
        self.act(bucket, step, cx);
    }

    /// The feed has everything that could replace what is to be dropped; if the other is still what it was. Who has left the
    /// bucket meanwhile and come back has let go of what it had, and has less to say than when it was compared.
    pub(crate) fn settled(
        &mut self,
        bucket: BucketId,
        (with, life): (SiteId, Option<Origin>),
        cx: &mut Context<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(&bucket).filter(|session| session.with == with) else {
            return;
        };
        if session.life != life {
            return self.end(bucket, false, cx);
        }
        for drop in session.drops(cx) {
            self.drops.insert(drop.ticket, bucket);
            cx.stats.dropped += drop.dots.len() as u64;
            cx.out.push(Output::Drop(drop));
        }
    }

    /// The store's answer to a drop; answers whether it was one of these.
    pub(crate) fn applied(&mut self, ticket: Ticket, ok: bool, cx: &mut Context<'_>) -> bool {
        if self.foreign.remove(&ticket) {
            return true;
        }
        let Some(bucket) = self.drops.remove(&ticket) else { return false };
        let Some(session) = self.sessions.get_mut(&bucket) else { return true };
        if let Some(ok) = session.dropped(ticket, ok) {
            self.end(bucket, ok, cx);
        }
        true
    }

    /// A member says that dots are dead which it covers. Believed if we have all that it had: then what
    /// replaced them is here.
    pub(crate) fn dead(
        &mut self,
        from: SiteId,
        bucket: BucketId,
        vector: &Vector,
        dots: Vec<Dot>,
        cx: &mut Context<'_>,
    ) {
        let state = || Ok((cx.replica.vector(bucket)?, cx.replica.doubt(bucket)?));
        let Some((mine, doubt)) = cx.read(state()) else { return };
        if dots.iter().any(|dot| !vector.covers(*dot)) {
            return cx.refuse(from, "dead dots that the vector does not cover");
        }
        if !mine.includes(vector) || !doubt.is_empty() || self.foreign.len() >= limits::SESSIONS {
            return cx.stale();
        }
        let ticket = cx.ticket();
        self.foreign.insert(ticket);
        cx.stats.dropped += dots.len() as u64;
        let mut horizon = Vector::new();
        dots.iter().for_each(|dot| horizon.add(*dot));
        cx.out.push(Output::Drop(crate::Drop { ticket, bucket, dots, horizon, settles: Vector::new() }));
    }

    pub(crate) fn link_down(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let with = |(bucket, session): (&BucketId, &Session)| (session.with == site).then_some(*bucket);
        let lost: Vec<BucketId> = self.sessions.iter().filter_map(with).collect();
        lost.into_iter().for_each(|bucket| self.end(bucket, false, cx));
    }

    pub(crate) fn leave(&mut self, bucket: BucketId) {
        self.sessions.remove(&bucket);
        self.drops.retain(|_, of| *of != bucket);
    }

    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        let late = |session: &Session| session.next_wake().is_some_and(|at| at <= cx.now);
        let late: Vec<BucketId> =
            self.sessions.iter().filter(|(_, session)| late(session)).map(|(bucket, _)| *bucket).collect();
        for bucket in late {
            let Some(session) = self.sessions.get_mut(&bucket) else { continue };
            let step = session.again(cx);
            self.act(bucket, step, cx);
        }
        cx.hold(self.sessions.len() <= limits::SESSIONS, "more sessions than may");
        cx.hold(
            self.drops.values().all(|bucket| self.sessions.contains_key(bucket)),
            "a drop without a session",
        );
    }

    fn session(&mut self, from: SiteId, ticket: u64, bucket: BucketId) -> Option<&mut Session> {
        self.sessions.get_mut(&bucket).filter(|session| session.with == from && session.awaits(ticket))
    }

    fn act(&mut self, bucket: BucketId, step: Step, cx: &mut Context<'_>) {
        match step {
            Step::Wait => {}
            Step::Failed => self.end(bucket, false, cx),
            Step::Found => {
                if let Some(session) = self.sessions.get(&bucket) {
                    self.next.push(Next::Settle(bucket, session.with));
                }
            }
        }
    }

    /// Ends a session: reports it, tells the other side what is dead there.
    fn end(&mut self, bucket: BucketId, ok: bool, cx: &mut Context<'_>) {
        let Some(session) = self.sessions.remove(&bucket) else { return };
        self.drops.retain(|_, of| *of != bucket);
        let with = session.with;
        if ok {
            let (dropped, told, rounds) = (session.found(), session.theirs().len() as u64, session.rounds);
            // In doubt, we may lack a tombstone whose victims we have not even seen: others must keep it. And what killed it here
            // may lie beyond the vector, where the other cannot see that it has not come yet: then it dies there when that comes.
            let state = || {
                let is_sure = cx.replica.doubt(bucket)?.is_empty() && cx.replica.loose(bucket)?.is_empty();
                Ok(is_sure.then_some(cx.replica.vector(bucket)?))
            };
            if let Some(vector) = cx.read(state()).flatten() {
                for piece in session.theirs().chunks(limits::DROP_DOTS) {
                    let (vector, dots) = (vector.clone(), piece.to_vec());
                    cx.send(with, Message::Dead { bucket, vector, dots });
                }
            }
            cx.stats.reconciled += 1;
            cx.out.push(Output::Report(Report::Reconciled { bucket, with, dropped, told, rounds }));
        }
        let end = match (ok, session.is_cut()) {
            (false, _) => End::Failed,
            (true, true) => End::Cut,
            (true, false) => End::Whole,
        };
        self.next.push(Next::Done(Done { bucket, with, end }));
    }
}
