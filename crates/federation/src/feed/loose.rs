//! Loose records: stored here, beyond the vector, and perhaps nowhere else.
//!
//! A read of a single object, or a round that its source did not live to end, leaves records that the vector
//! does not cover. Mostly a feed comes and covers them. If their origin has lost them, nobody's vector ever
//! will, and no feed serves them: then members give them to each other by name. Who holds some says so beside
//! its checks, to a member that did not say the same last; who lacks some asks for them, a span of one origin
//! at a time, and says which it has. Vectors are left alone: what lies before a loose record may be somewhere.
//!
//! Invariants: nothing is told or asked for while somebody who is linked can still bring it by a feed, so that
//! no record crosses a link twice because two sites catch up at once; one gathering per bucket,
//! [`limits::GATHERINGS`] in all; at rest, with equal loose records, not a byte is sent.

use std::collections::{BTreeSet, VecDeque};

use skerry_base::{BucketId, Instant, Origin, SiteId, Vector, limits as bounds};

use super::Feed;
use super::bucket::Bucket;
use crate::context::Context;
use crate::message::{Gather, Gathered, Message};
use crate::replica::{Loose, Span, decode_gaps, encode_gaps};
use crate::{FeedItem, Keep, Output, Share, Ticket, limits};

/// Taking loose records from another member.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) source: SiteId,
    /// Of the question, then of the commit of its answer.
    ticket: Ticket,
    /// What is asked for now.
    span: Span,
    /// What we have of it.
    have: BTreeSet<u64>,
    /// Origins still to be asked for, with the vector's entry.
    rest: VecDeque<(Origin, u64)>,
    /// None while the store commits.
    pub(super) deadline: Option<Instant>,
    /// Pieces that the store refused.
    refused: u8,
}

impl Feed {
    /// Tells a member what is loose here, unless it is known to have the same; of how many origins.
    pub(super) fn tell_loose(&mut self, id: BucketId, to: SiteId, cx: &mut Context<'_>) -> usize {
        let Some(bucket) = self.buckets.get(&id) else { return 0 };
        let Some(mine) = cx.read(bucket.loose(id, cx)) else { return 0 };
        if mine.is_empty() || bucket.loose_told.get(&to) == Some(&digest(&mine)) {
            return 0;
        }
        let origins = mine.len();
        send_loose(id, to, mine, true, cx);
        origins
    }

    /// Another member says what is loose there.
    pub(crate) fn loose(
        &mut self,
        from: SiteId,
        (id, answer, theirs): (BucketId, bool, Vec<Loose>),
        cx: &mut Context<'_>,
    ) {
        if !self.has_joined(id) {
            return cx.send(from, Message::NotMember { bucket: id });
        }
        let vector = theirs.iter().map(|loose| (loose.origin, loose.covered)).collect();
        self.told(from, id, &vector, cx);
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.loose_told.insert(from, digest(&theirs));
        let Some(mine) = cx.read(bucket.loose(id, cx)) else { return };
        if answer {
            send_loose(id, from, mine, false, cx);
        }
        if bucket.gathering.is_some() || self.gatherings() >= limits::GATHERINGS {
            return;
        }
        let Some(bucket) = self.buckets.get(&id) else { return };
        let Some(mut rest) = cx.read(bucket.lacking(id, &theirs, cx)) else { return };
        // What this store has written in its present life it has.
        let own = cx.replica.origin(id);
        rest.retain(|(origin, _)| *origin != own);
        self.gather(id, from, rest, cx);
        self.reschedule(id);
    }

    /// Of how many buckets they are gathered. A few at a time: all that are not followed, or have ended, are let go of here.
    fn gatherings(&mut self) -> usize {
        let gathers = |id: &BucketId| self.buckets.get(id).is_some_and(|bucket| bucket.gathering.is_some());
        self.gathering.retain(gathers);
        self.gathering.len()
    }

    /// Asks for the next origin; ends the gathering after the last one.
    fn gather(
        &mut self,
        id: BucketId,
        source: SiteId,
        mut rest: VecDeque<(Origin, u64)>,
        cx: &mut Context<'_>,
    ) {
        let next = rest.pop_front();
        let asked = next.and_then(|(origin, covered)| ask(id, source, (origin, covered), cx));
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        self.gathering.insert(id);
        bucket.gathering = asked.map(|(ticket, span, have)| {
            let deadline = Some(cx.now.after(limits::PULL_TIMEOUT + cx.peers.rtt(source) * 4));
            Gathering { source, ticket, span, have, rest, deadline, refused: 0 }
        });
    }

    /// Gives what was asked for. Of what the vector covers the feed speaks, with all that it says beside.
    pub(crate) fn gather_asked(&self, from: SiteId, gather: Gather, cx: &mut Context<'_>) {
        let Gather { ticket, bucket, span, have, max_bytes } = gather;
        if !self.has_joined(bucket) {
            return cx.send(from, Message::NotMember { bucket });
        }
        let Some(have) = decode_gaps(&span, &have) else {
            return cx.refuse(from, "a list of dots that leaves its span");
        };
        let bytes = max_bytes.clamp(limits::BATCH_BYTES_MIN, bounds::FEED_BATCH_BYTES as u32) as usize;
        let found = || {
            let covered = cx.replica.vector(bucket)?.get(span.origin);
            let first = span.first.max(covered.saturating_add(1));
            match first > span.last {
                true => Ok((Vec::new(), span.last)),
                false => {
                    let have = have.into_iter().collect();
                    cx.replica.records_in(bucket, &Span { first, ..span }, &have, Share::of(bytes))
                }
            }
        };
        let Some((items, upto)) = cx.read(found()) else { return };
        cx.stats.items_out += items.len() as u64;
        cx.send(from, Message::Gathered(Gathered { ticket, bucket, items, upto }));
    }

    /// What was asked for comes.
    pub(crate) fn gathered(&mut self, from: SiteId, gathered: Gathered, cx: &mut Context<'_>) {
        let Gathered { ticket, bucket: id, items, upto } = gathered;
        let Some(bucket) = self.buckets.get_mut(&id) else { return cx.stale() };
        let waits = |gathering: &&mut Gathering| {
            gathering.source == from && gathering.ticket.0 == ticket && gathering.deadline.is_some()
        };
        let Some(gathering) = bucket.gathering.as_mut().filter(waits) else { return cx.stale() };
        if !gathering.fits(&items, upto) {
            bucket.gathering = None;
            self.reschedule(id);
            return cx.refuse(from, "loose records that were not asked for");
        }
        let ticket = cx.ticket();
        let whole = Span { last: upto, ..gathering.span };
        (gathering.ticket, gathering.deadline) = (ticket, None);
        gathering.go_on_behind(whole);
        if items.is_empty() {
            return self.gather_on(id, cx);
        }
        cx.stats.items_in += items.len() as u64;
        self.keeps.insert(ticket, id);
        cx.out.push(Output::Keep(Keep { ticket, from, bucket: id, items }));
        self.reschedule(id);
    }

    /// The store's answer to a [`Keep`]; answers whether it was one.
    pub(super) fn kept(&mut self, ticket: Ticket, ok: bool, cx: &mut Context<'_>) -> bool {
        let Some(id) = self.keeps.remove(&ticket) else { return false };
        let Some(bucket) = self.buckets.get_mut(&id) else { return true };
        bucket.rest(cx.now);
        if bucket.gathering.as_ref().is_some_and(|gathering| gathering.ticket == ticket) {
            if let Some(gathering) = bucket.gathering.as_mut().filter(|_| !ok) {
                gathering.refused += 1;
            }
            self.gather_on(id, cx);
        }
        self.reschedule(id);
        true
    }

    /// The next piece: also behind one that the store refused, for what it takes from nobody must not keep back all others.
    /// Not for ever: it may be full.
    fn gather_on(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(done) = self.buckets.get_mut(&id).and_then(|bucket| bucket.gathering.take()) else { return };
        if done.refused < limits::LOOSE_REFUSED {
            self.gather(id, done.source, done.rest, cx);
            if let Some(next) = self.buckets.get_mut(&id).and_then(|bucket| bucket.gathering.as_mut()) {
                next.refused = done.refused;
            }
        }
        self.reschedule(id);
    }
}

impl Gathering {
    /// Whether these answer what was asked.
    fn fits(&self, items: &[FeedItem], upto: u64) -> bool {
        let span = &self.span;
        let asked = |item: &FeedItem| {
            item.dot.origin == span.origin
                && span.contains(item.dot.seq)
                && item.dot.seq <= upto
                && !self.have.contains(&item.dot.seq)
        };
        let progress = upto == span.last || (upto < span.last && !items.is_empty());
        progress && items.iter().all(asked)
    }

    /// What comes after this piece: the rest of its origin first.
    fn go_on_behind(&mut self, piece: Span) {
        if piece.last < u64::MAX {
            self.rest.push_front((piece.origin, piece.last));
        }
    }
}

impl Bucket {
    /// What is loose here and nobody who is linked is known to bring.
    fn loose(&self, id: BucketId, cx: &Context<'_>) -> Result<Vec<Loose>, crate::Unreadable> {
        let mut loose = cx.replica.loose(id)?;
        loose.retain(|loose| !self.is_coming(loose.origin, loose.covered, cx));
        loose.truncate(limits::LOOSE_ORIGINS);
        Ok(loose)
    }

    /// Whether a feed will bring more of an origin.
    fn is_coming(&self, origin: Origin, covered: u64, cx: &Context<'_>) -> bool {
        let more = |(site, source): (&SiteId, &super::bucket::Source)| {
            cx.peers.is_linked(*site) && source.vector.get(&self.floor, origin) > covered
        };
        self.sources.iter().any(more)
    }

    /// Origins of which the other holds something loose that we lack. Where the vectors differ a feed comes first.
    fn lacking(
        &self,
        id: BucketId,
        theirs: &[Loose],
        cx: &Context<'_>,
    ) -> Result<VecDeque<(Origin, u64)>, crate::Unreadable> {
        let vector: Vector = cx.replica.vector(id)?;
        let mut lacking = VecDeque::new();
        for Loose { origin, covered, print } in theirs.iter().copied() {
            if vector.get(origin) == covered && !self.is_coming(origin, covered, cx) {
                let behind = Span { origin, first: covered.saturating_add(1), last: u64::MAX };
                if cx.replica.fingerprint(id, &behind)? != print {
                    lacking.push_back((origin, covered));
                }
            }
        }
        Ok(lacking)
    }
}

/// Asks for what lies behind a seq of an origin, as far as what we have of it fits a message.
fn ask(
    id: BucketId,
    source: SiteId,
    (origin, behind): (Origin, u64),
    cx: &mut Context<'_>,
) -> Option<(Ticket, Span, BTreeSet<u64>)> {
    let mut span = Span { origin, first: behind.saturating_add(1), last: u64::MAX };
    let mut have = cx.read(cx.replica.dots_in(id, &span, limits::LOOSE_DOTS + 1))?;
    if have.len() > limits::LOOSE_DOTS {
        have.truncate(limits::LOOSE_DOTS);
        span.last = have.last().copied().unwrap_or(u64::MAX);
    }
    let ticket = cx.ticket();
    let gaps = encode_gaps(&span, &have);
    let max_bytes = limits::WINDOW_FIRST;
    cx.send(source, Message::Gather(Gather { ticket: ticket.0, bucket: id, span, have: gaps, max_bytes }));
    Some((ticket, span, have.into_iter().collect()))
}

fn send_loose(id: BucketId, to: SiteId, loose: Vec<Loose>, answer: bool, cx: &mut Context<'_>) {
    cx.send(to, Message::Loose { bucket: id, answer, loose });
}

/// Eight bytes that tell whether the same is loose at two sites.
fn digest(loose: &[Loose]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for Loose { origin, covered, print } in loose {
        hasher.update(&origin.to_bytes());
        hasher.update(&covered.to_be_bytes());
        hasher.update(&print.count.to_be_bytes());
        hasher.update(&print.sum);
    }
    super::head(&hasher.finalize())
}
