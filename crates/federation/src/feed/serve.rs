//! Giving records to who asks, and news to who listens.
//!
//! Only what is durable is fed, and news are told after durability: both read the store, not the outputs. News of a
//! few small records bring them along ([`super::fresh`]).

use skerry_base::{BucketId, Origin, SiteId, Vector, limits as bounds};

use super::Feed;
use super::bucket::{Bucket, Listener};
use super::fresh::Packing;
use super::known::{Known, STALE};
use crate::context::Context;
use crate::message::{Batch, Message, Pull, Refusal};
use crate::{FeedBatch, Share, limits};

impl Feed {
    /// Answers a pull by a few batches in a row.
    pub(crate) fn serve(&mut self, from: SiteId, pull: Pull, cx: &mut Context<'_>) {
        let (ticket, id) = (pull.ticket, pull.bucket);
        let refuse = |reason| Message::PullRefused { ticket, bucket: id, reason };
        if !self.has_joined(id) {
            return cx.send(from, refuse(Refusal::NotMember));
        }
        self.listen(id, from, Some(&pull.seen), cx);
        // Links repeat messages. A second answer may be cut in other places: among batches of both, one could skip
        // records that neither of the others brings. Who cannot be remembered gets one batch.
        let listener = self.buckets.get_mut(&id).and_then(|bucket| bucket.listeners.get_mut(&from));
        let most = if listener.is_some() { limits::BATCHES_PER_PULL } else { 1 };
        if listener.is_some_and(|listener| listener.served.replace(ticket) == Some(ticket)) {
            return cx.stale();
        }
        if self.spent.contains(&from) {
            return cx.send(from, refuse(Refusal::Busy));
        }
        let state = || Ok((cx.replica.vector(id)?, cx.replica.horizon(id)?, cx.replica.doubt(id)?));
        let Some((vector, horizon, doubt)) = cx.read(state()) else {
            return cx.send(from, refuse(Refusal::Busy));
        };
        let takes_ahead = pull.batches & Pull::AHEAD != 0;
        let least = limits::BATCH_BYTES_MIN as usize;
        let room = room_beside([&vector, &vector, &horizon, &doubt], takes_ahead);
        if room < least {
            cx.send(from, refuse(Refusal::Busy));
            return cx.refuse(from, "a pull of a bucket of more origins than a message has room for");
        }
        let bytes = (pull.max_bytes as usize).clamp(least, room.min(bounds::FEED_BATCH_BYTES));
        let count = pull.most().clamp(1, most);
        let is_whole = pull.batches & Pull::WHOLE != 0 && cx.peers.is_fellow(from);
        let share = Share { max_bytes: bytes, fellow: is_whole.then_some(from) };
        let mut seen = pull.seen;
        for index in 0..count {
            let Some(piece) = cx.read(cx.replica.after(id, &seen, share)) else {
                return cx.send(from, refuse(Refusal::Busy));
            };
            let passed = !seen.includes(&horizon);
            let FeedBatch { mut items, upto, more, ahead } = piece;
            if takes_ahead && !ahead.is_empty() {
                items.extend(ahead);
                items.sort_by_key(|item| item.dot);
            }
            let batch = Batch {
                ticket,
                bucket: id,
                source: cx.replica.origin(id),
                index,
                last: !more || index + 1 == count,
                upto: upto.beyond(&seen),
                end: !more,
                vector: if passed { vector.clone() } else { vector.beyond(&seen) },
                horizon: if passed { horizon.clone() } else { Vector::new() },
                doubt: doubt.clone(),
                items,
            };
            cx.stats.items_out += batch.items.len() as u64;
            seen.merge(&upto);
            cx.send(from, Message::Batch(batch));
            if !more {
                break;
            }
        }
    }

    /// Who asks wants to hear of what comes; and what it has seen, if it says so.
    pub(super) fn listen(&mut self, id: BucketId, site: SiteId, seen: Option<&Vector>, cx: &Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let until = cx.now.after(limits::LISTEN);
        if bucket.listeners.len() >= limits::LISTENERS && !bucket.listeners.contains_key(&site) {
            return;
        }
        let fresh = || Listener { until, told: Known::default(), served: None };
        let listener = bucket.listeners.entry(site).or_insert_with(fresh);
        listener.until = until;
        if let Some(seen) = seen {
            listener.told.merge(&bucket.floor, seen);
        }
    }

    /// The store has new durable records: tell the listeners, at most once per [`limits::NEWS_PAUSE`].
    pub(crate) fn news(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.rest(cx.now);
        let soonest = bucket.told_at.map(|told| told.after(limits::NEWS_PAUSE)).filter(|at| *at > cx.now);
        bucket.news_at = bucket.news_at.or(Some(soonest.unwrap_or(cx.now)));
        self.tell_due(id, cx);
        self.reschedule(id);
    }

    /// Tells the news that are due.
    pub(super) fn tell_due(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        if bucket.news_at.is_none_or(|at| at > cx.now) {
            return;
        }
        bucket.news_at = None;
        bucket.told_at = Some(cx.now);
        bucket.listeners.retain(|_, listener| listener.until > cx.now);
        if bucket.listeners.is_empty() {
            return;
        }
        let Some(vector) = cx.vector(id) else { return };
        bucket.settle(&vector, STALE);
        let Bucket { floor, sources, listeners, .. } = bucket;
        let (mut packing, mine) = (Packing::new(id, &vector, cx), floor.mine(&vector));
        for (site, listener) in listeners {
            // What came from there is known there.
            if let Some(source) = sources.get(site) {
                listener.told.merge_known(floor, &source.vector);
            }
            let news = listener.told.lacks(&mine);
            if !news.is_empty() && cx.peers.is_linked(*site) {
                let wanted = self.wanted.is_taker(*site) && !self.spent.contains(site);
                let told = listener.told.get(floor, packing.origin());
                let with = if wanted { packing.message(*site, told, &news, cx) } else { None };
                listener.told.merge(floor, &news);
                cx.send(*site, with.unwrap_or(Message::News { bucket: id, vector: news }));
            }
        }
    }

    /// Another member tells what it has, without records.
    pub(crate) fn news_came(&mut self, from: SiteId, id: BucketId, vector: &Vector, cx: &mut Context<'_>) {
        if self.has_joined(id) && vector.len() == 1 {
            let mine = cx.vector(id).unwrap_or_default();
            let missing = vector.iter().map(|(origin, seq)| seq.saturating_sub(mine.get(origin)));
            let few = (1..=limits::FRESH_ITEMS).contains(&missing.fold(0, u64::saturating_add));
            self.remind(from, few, cx);
        }
        self.told(from, id, vector, cx);
    }

    /// Another member has this much.
    pub(crate) fn told(&mut self, from: SiteId, id: BucketId, vector: &Vector, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else {
            return cx.send(from, Message::NotMember { bucket: id });
        };
        if bucket.sources.len() >= limits::SITES && !bucket.sources.contains_key(&from) {
            return cx.refuse(from, "news of more sites than there are");
        }
        // A message is bounded, and all that one site says one after the other has to be as well.
        let known = bucket.sources.get(&from).map(|source| &source.vector);
        if known.is_some_and(|known| known.len_with(&bucket.floor, vector) > limits::ORIGINS) {
            return cx.refuse(from, "news of more origins than a vector has");
        }
        bucket.members.insert(from);
        bucket.learn(from, vector);
        if let Some(pull) = bucket.pull.as_mut().filter(|pull| pull.source == from) {
            pull.told.merge(vector);
        }
        self.proceed(id, cx);
    }
}

/// Bytes of records that fit into a batch beside these vectors, whole as they may have to be said, and beside what goes along
/// beyond the vector. Origins are few where sites are: only many lives of many sites leave less than a batch may have.
fn room_beside(vectors: [&Vector; 4], takes_ahead: bool) -> usize {
    let seqs = |vector: &Vector| vector.iter().map(|(origin, seq)| entry_bytes(origin, seq)).sum::<usize>();
    let said: usize = vectors.into_iter().map(seqs).sum();
    let ahead = if takes_ahead { limits::AHEAD_BYTES } else { 0 };
    bounds::MESSAGE_BYTES.saturating_sub(said + ahead + HEAD_BYTES)
}

/// What a batch holds beside vectors and records; one record, which goes whatever its size, and more.
const HEAD_BYTES: usize = (64 << 10) + bounds::JOURNAL_BODY_BYTES;

/// An entry of a vector on the wire.
fn entry_bytes(origin: Origin, seq: u64) -> usize {
    let number = |value: u64| (u64::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize;
    size_of_val(&origin.node) + number(origin.incarnation) + number(seq)
}
