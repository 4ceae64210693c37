//! One comparison with one member, from the asking side.
//!
//! Depth first, so that what is left to compare stays small: a step asks for up to
//! [`limits::SPANS_PER_PROBE`] spans, each answered by its children or by the list of its dots.

use std::collections::BTreeSet;

use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};

use crate::context::Context;
use crate::message::{Compare, Holding, Message, Probe, Verdict};
use crate::replica::decode_gaps;
use crate::{Drop, Fingerprint, Span, Ticket, Unreadable, limits};

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Another question is on its way, or drops are.
    Wait,
    /// All differences are known.
    Found,
    /// Not with this site.
    Failed,
}

/// What was asked.
#[derive(Debug)]
enum Asked {
    All,
    Spans(Vec<Span>),
}

#[derive(Debug)]
pub(super) struct Session {
    bucket: BucketId,
    pub(super) with: SiteId,
    /// What the other stamped its records of this bucket with when the session began: another once it has left the bucket.
    pub(super) life: Option<Origin>,
    /// What both vectors cover.
    limit: Vector,
    doubt: Vector,
    /// Every other member was compared since the doubt arose: this comparison settles it, whoever answers.
    last: bool,
    /// The answerer was not in doubt at any step.
    clean: bool,
    /// Differing spans, deepest last.
    open: Vec<Span>,
    asked: Asked,
    ticket: u64,
    /// None while the store drops.
    due: Option<Instant>,
    /// All differences are known, the feed is pulled once more.
    settling: bool,
    tries: u8,
    pub(super) rounds: u32,
    /// Held here, dead there.
    mine: Vec<Dot>,
    /// Held there, dead here.
    theirs: Vec<Dot>,
    /// Too much was found for one session: the rest is for the next.
    cut: bool,
    drops: BTreeSet<Ticket>,
    found: u64,
    ok: bool,
}

/// The fingerprint of all live dots within a limit.
pub(super) fn within(bucket: BucketId, limit: &Vector, cx: &Context<'_>) -> Result<Fingerprint, Unreadable> {
    let mut all = Fingerprint::default();
    for (origin, last) in limit.iter() {
        all.merge(&cx.replica.fingerprint(bucket, &Span { origin, first: 1, last })?);
    }
    Ok(all)
}

impl Session {
    /// Asks for the first step; none if the store cannot be read. This site has all that the other has: it has just caught up
    /// with it. Its doubt may name more, which nobody has that is there: then the comparison finds what is dead, and does not
    /// settle the doubt, unless it is the last.
    pub(super) fn start(
        bucket: BucketId,
        (with, life): (SiteId, Option<Origin>),
        last: bool,
        cx: &mut Context<'_>,
    ) -> Option<Self> {
        let state = || Ok((cx.replica.vector(bucket)?, cx.replica.doubt(bucket)?));
        let (limit, doubt) = cx.read(state())?;
        let mut session = Self {
            bucket,
            with,
            life,
            limit,
            doubt,
            last,
            clean: true,
            open: Vec::new(),
            asked: Asked::All,
            ticket: 0,
            due: None,
            settling: false,
            tries: 0,
            rounds: 0,
            mine: Vec::new(),
            theirs: Vec::new(),
            cut: false,
            drops: BTreeSet::new(),
            found: 0,
            ok: true,
        };
        session.ask(cx).then_some(session)
    }

    pub(super) const fn next_wake(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn awaits(&self, ticket: u64) -> bool {
        self.due.is_some() && !self.settling && self.ticket == ticket
    }

    /// Whether more was found than it holds.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) const fn found(&self) -> u64 {
        self.found
    }

    pub(super) fn theirs(&self) -> &[Dot] {
        &self.theirs
    }

    /// Sends what is asked now; answers whether it could be read.
    fn ask(&mut self, cx: &mut Context<'_>) -> bool {
        self.ticket = cx.ticket().0;
        let (ticket, bucket) = (self.ticket, self.bucket);
        let message = match &self.asked {
            Asked::All => {
                let Some(all) = cx.read(within(bucket, &self.limit, cx)) else { return false };
                Message::Compare(Compare { ticket, bucket, limit: self.limit.clone(), all })
            }
            Asked::Spans(spans) => Message::Probe(Probe { ticket, bucket, spans: spans.clone() }),
        };
        self.due = Some(cx.now.after(limits::PROBE_TIMEOUT + cx.peers.rtt(self.with) * 4));
        self.rounds += 1;
        cx.send(self.with, message);
        true
    }

    /// No answer in time.
    pub(super) fn again(&mut self, cx: &mut Context<'_>) -> Step {
        self.tries += 1;
        if !self.settling && self.tries < limits::PROBE_TRIES && self.ask(cx) {
            Step::Wait
        } else {
            Step::Failed
        }
    }

    /// Whether this answerer may be believed: what it passed over and lacks may be dropped here only if both
    /// cover all that its doubt is about, so that nothing killed by it can still come; or if all members were compared, and
    /// so nobody is left from whom it could.
    fn believes(&mut self, doubt: &Vector) -> bool {
        self.clean &= doubt.is_empty();
        self.last || self.limit.includes(doubt)
    }

    /// Takes the answer to the first step; to a later one, if the other cannot answer it any more.
    pub(super) fn compared(&mut self, verdict: Verdict, doubt: &Vector, cx: &mut Context<'_>) -> Step {
        match verdict {
            // At any step.
            Verdict::Unfit => Step::Failed,
            _ if !matches!(self.asked, Asked::All) => Step::Wait,
            Verdict::Equal | Verdict::Differs(_) if !self.believes(doubt) => Step::Failed,
            Verdict::Equal => self.advance(cx),
            Verdict::Beyond(vector) => {
                let lesser = |(origin, seq): (_, u64)| (origin, seq.min(vector.get(origin)));
                let limit: Vector = self.limit.iter().map(lesser).collect();
                self.tries += 1;
                let shrunk = limit != self.limit && self.tries < limits::PROBE_TRIES;
                self.limit = limit;
                if shrunk && self.ask(cx) { Step::Wait } else { Step::Failed }
            }
            Verdict::Differs(origins) if origins.len() != self.limit.len() => {
                cx.refuse(self.with, "fingerprints for other origins than asked");
                Step::Failed
            }
            Verdict::Differs(origins) => {
                let spans = self.limit.iter().map(|(origin, last)| Span { origin, first: 1, last }).collect();
                self.keep_differing(spans, &origins, cx)
            }
        }
    }

    /// Takes the answer to a probe.
    pub(super) fn probed(&mut self, holdings: &[Holding], doubt: &Vector, cx: &mut Context<'_>) -> Step {
        let Asked::Spans(spans) = core::mem::replace(&mut self.asked, Asked::Spans(Vec::new())) else {
            return Step::Failed;
        };
        if !self.believes(doubt) {
            return Step::Failed;
        }
        if spans.len() != holdings.len() {
            cx.refuse(self.with, "answers to other spans than asked");
            return Step::Failed;
        }
        for (span, holding) in spans.iter().zip(holdings) {
            let fits = match holding {
                Holding::Children(prints) => {
                    let children = span.children();
                    if prints.len() != children.len() || children.len() < 2 {
                        false
                    } else if self.differing(children, prints, cx).is_none() {
                        return Step::Failed;
                    } else {
                        true
                    }
                }
                Holding::Dots(gaps) => match decode_gaps(span, gaps) {
                    None => false,
                    Some(seqs) => {
                        if !self.weigh(span, &seqs, cx) {
                            return Step::Failed;
                        }
                        true
                    }
                },
            };
            if !fits {
                cx.refuse(self.with, "a holding that does not fit its span");
                return Step::Failed;
            }
        }
        self.advance(cx)
    }

    fn keep_differing(&mut self, spans: Vec<Span>, prints: &[Fingerprint], cx: &mut Context<'_>) -> Step {
        match self.differing(spans, prints, cx) {
            Some(()) => self.advance(cx),
            None => Step::Failed,
        }
    }

    /// Keeps the spans whose fingerprint is not ours.
    fn differing(&mut self, spans: Vec<Span>, prints: &[Fingerprint], cx: &mut Context<'_>) -> Option<()> {
        for (span, print) in spans.into_iter().zip(prints) {
            if cx.read(cx.replica.fingerprint(self.bucket, &span))? != *print {
                self.open.push(span);
            }
        }
        Some(())
    }

    /// Compares a list of theirs with ours; false if ours cannot be read.
    fn weigh(&mut self, span: &Span, theirs: &[u64], cx: &mut Context<'_>) -> bool {
        let room = limits::DEAD.saturating_sub(self.mine.len()) + theirs.len();
        let Some(ours) = cx.read(cx.replica.dots_in(self.bucket, span, room + 1)) else { return false };
        self.cut |= ours.len() > room;
        let dot = |seq: &u64| Dot { origin: span.origin, seq: *seq };
        let held: BTreeSet<u64> = theirs.iter().copied().collect();
        let own: BTreeSet<u64> = ours.into_iter().collect();
        self.mine.extend(own.difference(&held).take(room).map(dot));
        // Our list may have been cut: what lies behind its end says nothing.
        if !self.cut && self.theirs.len() < limits::DEAD {
            self.theirs.extend(held.difference(&own).map(dot));
        }
        true
    }

    /// The next spans, or the end.
    fn advance(&mut self, cx: &mut Context<'_>) -> Step {
        self.tries = 0;
        self.cut |= self.mine.len() >= limits::DEAD;
        if self.open.is_empty() || self.cut {
            self.due = Some(cx.now.after(limits::SETTLE_TIMEOUT));
            self.settling = true;
            return Step::Found;
        }
        let from = self.open.len().saturating_sub(limits::SPANS_PER_PROBE);
        self.asked = Asked::Spans(self.open.split_off(from));
        if self.ask(cx) { Step::Wait } else { Step::Failed }
    }

    /// Whether the doubt is settled: by an answerer without doubt that covers it, or by all together.
    fn settles(&self) -> bool {
        !self.cut && (self.last || (self.clean && self.limit.includes(&self.doubt)))
    }

    /// What is to be dropped here; the last one settles the doubt. What is dropped may be a tombstone, so it
    /// belongs to the horizon.
    pub(super) fn drops(&mut self, cx: &mut Context<'_>) -> Vec<Drop> {
        self.due = None;
        let dots = core::mem::take(&mut self.mine);
        self.found = dots.len() as u64;
        let mut pieces: Vec<Vec<Dot>> = dots.chunks(limits::DROP_DOTS).map(<[Dot]>::to_vec).collect();
        if pieces.is_empty() {
            pieces.push(Vec::new());
        }
        let bucket = self.bucket;
        let drop = |dots: Vec<Dot>| {
            let (ticket, settles) = (cx.ticket(), Vector::new());
            let horizon = dots.iter().map(|dot| (dot.origin, dot.seq)).collect();
            Drop { ticket, bucket, dots, horizon, settles }
        };
        let mut drops: Vec<Drop> = pieces.into_iter().map(drop).collect();
        if let Some(last) = drops.last_mut().filter(|_| self.settles()) {
            last.settles = self.doubt.clone();
        }
        self.drops = drops.iter().map(|drop| drop.ticket).collect();
        drops
    }

    /// The store's answer; whether all went well, once the last one is here.
    pub(super) fn dropped(&mut self, ticket: Ticket, ok: bool) -> Option<bool> {
        self.drops.remove(&ticket);
        self.ok &= ok;
        self.drops.is_empty().then_some(self.ok)
    }
}
