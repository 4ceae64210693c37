//! Hearing who asks ([`super::answers`] gives), and telling news to who listens.
//!
//! Only what is durable is fed, and news are told after durability: both read the store, not the outputs. News of a
//! few small records bring them along ([`super::fresh`]).

use skerry_base::{BucketId, SiteId, Vector};

use super::Feed;
use super::bucket::{Bucket, Listener};
use super::fresh::Packing;
use super::known::{Known, STALE};
use crate::context::Context;
use crate::limits;
use crate::message::{Message, Pull, Refusal};

impl Feed {
    /// Answers a pull by a few batches in a row ([`super::answers`]).
    pub(crate) fn serve(&mut self, from: SiteId, pull: Pull, cx: &mut Context<'_>) {
        let (ticket, id) = (pull.ticket, pull.bucket);
        if !self.has_joined(id) {
            let reason = Refusal::NotMember;
            return cx.send(from, Message::PullRefused { ticket, bucket: id, reason });
        }
        self.listen(id, from, Some(&pull.seen), cx);
        // Links repeat messages. A second answer may be cut in other places: among batches of both, one could skip
        // records that neither of the others brings. Who cannot be remembered gets one batch.
        let listener = self.buckets.get_mut(&id).and_then(|bucket| bucket.listeners.get_mut(&from));
        let most = if listener.is_some() { limits::BATCHES_PER_PULL } else { 1 };
        if listener.is_some_and(|listener| listener.served.replace(ticket) == Some(ticket)) {
            return cx.stale();
        }
        self.answer(from, pull, most, cx);
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
        self.plan_news(id, cx);
    }

    /// The listeners are told what they lack, as soon as they may be.
    pub(super) fn plan_news(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
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
        self.tell_in_turn(from, id, vector, cx);
        self.proceed(id, cx);
    }
}
