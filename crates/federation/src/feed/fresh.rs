//! Fresh records: what a site has just written travels with the news of it.
//!
//! News, a pull and its batch take one and a half round trips until a record is at another member. A few small
//! records can go with the news instead and are there after half a round trip: a batch that nobody asked for
//! ([`Batch::FRESH`]). Only the writer's own records of its present life, only all of them from the seq that the
//! listener was last told of, so that the receiver's vector may follow at once: nothing between was passed over,
//! and no tombstone that is gone. Whoever is not exactly there takes it as news and pulls, as ever.
//!
//! Who wants them says so on each connection by a check of nothing, which older releases overlook, as they
//! overlook a batch that they did not ask for. Who does not say so gets news.
//!
//! To another node of the site no record goes whose body would have to be left behind: it pulls both.
//!
//! Invariants: at most [`limits::FRESH_ITEMS`] records and [`limits::FRESH_BYTES`] bytes; never while this site is
//! in doubt; a round in progress is left alone (see [`crate::Fresh`]).

use std::collections::BTreeMap;

use skerry_base::{BucketId, Instant, Origin, SiteId, Vector};

use super::Feed;
use super::bucket::{Bucket, Pending, Source};
use super::pull::{forges, is_full};
use crate::context::Context;
use crate::message::{Batch, Message};
use crate::{FeedItem, Fresh, Output, Report, Share, Span, limits};

/// What is known of other sites' wish for fresh records.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Those who said that they take them on this connection.
    takers: std::collections::BTreeSet<SiteId>,
    /// When this site said so last.
    said: BTreeMap<SiteId, Instant>,
}

impl Wanted {
    pub(super) fn is_taker(&self, site: SiteId) -> bool {
        self.takers.contains(&site)
    }

    /// The connection is gone.
    pub(super) fn part(&mut self, site: SiteId) {
        self.takers.remove(&site);
        self.said.remove(&site);
    }
}

impl Feed {
    /// Tells a site that its fresh records are welcome.
    pub(super) fn want_fresh(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if self.fresh && cx.peers.is_linked(site) {
            self.wanted.said.insert(site, cx.now);
            cx.send(site, Message::Check { listen: false, entries: Vec::new() });
        }
    }

    /// A site takes fresh records.
    pub(crate) fn wants_fresh(&mut self, site: SiteId) {
        if self.fresh && self.wanted.takers.len() < limits::SITES {
            self.wanted.takers.insert(site);
        }
    }

    /// News of a few records came without them: the site may not have heard that they are welcome.
    pub(super) fn remind(&mut self, from: SiteId, few: bool, cx: &mut Context<'_>) {
        let again = |said: &Instant| said.after(limits::FRESH_REMIND) <= cx.now;
        if self.fresh && few && self.wanted.said.get(&from).is_none_or(again) {
            self.want_fresh(from, cx);
        }
    }

    /// Fresh records are durable: who waits to have seen all that the source has is told, as at the end of a pull. No
    /// comparison may start or settle by them: they pass over nothing, but they ask for nothing either.
    pub(super) fn told_all(&self, id: BucketId, from: SiteId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get(&id) else { return };
        let Some(mine) = cx.vector(id) else { return };
        let has_all = |source: &Source| source.vector.is_within(&bucket.floor.mine(&mine));
        if bucket.sources.get(&from).is_some_and(has_all) {
            cx.out.push(Output::Report(Report::CaughtUp { bucket: id, source: from }));
        }
    }

    /// A batch that nobody asked for: its records are taken if they follow on what is here, else it is news.
    pub(super) fn pushed(&mut self, from: SiteId, batch: Batch, cx: &mut Context<'_>) {
        if self.has_joined(batch.bucket) && forges(batch.bucket, &batch, cx) {
            return cx.refuse(from, "records of this site that it has not written");
        }
        let Batch { bucket: id, source, items, vector, .. } = batch;
        if !are_dense(&items) || items.iter().any(|item| item.dot.origin != source) {
            return cx.refuse(from, "fresh records with gaps between");
        }
        if self.fresh && self.has_joined(id) && cx.peers.is_linked(from) {
            let Some(mine) = cx.vector(id) else { return };
            if let Some(bucket) = self.buckets.get_mut(&id)
                && let Some(fresh) = bucket.follow_on(id, from, (&*mine, items), cx)
            {
                self.applies.insert(fresh.ticket, id, &fresh.items);
                cx.out.push(Output::Fresh(fresh));
                // A pull on its way need not be followed by another for these.
                let others = vector.iter().filter(|(origin, _)| *origin != source).collect();
                self.told(from, id, &others, cx);
                if let Some(bucket) =
                    self.buckets.get_mut(&id).filter(|found| found.sources.contains_key(&from))
                {
                    bucket.learn(from, &vector);
                }
                return;
            }
        }
        self.told(from, id, &vector, cx);
    }
}

impl Bucket {
    /// Those of the items that follow at once on what is here or on its way to the store.
    fn follow_on(
        &mut self,
        id: BucketId,
        from: SiteId,
        (mine, mut items): (&Vector, Vec<FeedItem>),
        cx: &mut Context<'_>,
    ) -> Option<Fresh> {
        let (first, last) = (items.first()?.dot, items.last()?.dot);
        let here = mine.get(first.origin).max(self.handed.get(first.origin));
        if here.saturating_add(1) < first.seq || here >= last.seq {
            return None;
        }
        if is_full(&self.pending) || self.broken || self.hold.is_some_and(|until| until > cx.now) {
            return None;
        }
        // The store refused what it sent: it is asked again after a while, and what it pushes meanwhile is news. Else it would hold up
        // what all others have.
        if self.sources.get(&from).and_then(|source| source.until).is_some_and(|until| until > cx.now) {
            return None;
        }
        items.retain(|item| item.dot.seq > here);
        let ticket = cx.ticket();
        cx.stats.items_in += items.len() as u64;
        cx.stats.fresh_in += items.len() as u64;
        self.handed.add(last);
        self.pending.push_back(Pending { ticket, source: from, end: false, fresh: true });
        self.rest(cx.now);
        Some(Fresh { ticket, from, bucket: id, items })
    }
}

/// Whether these are records of one origin, seq after seq.
fn are_dense(items: &[FeedItem]) -> bool {
    let follows = |pair: &[FeedItem]| match pair {
        [one, next] => one.dot.origin == next.dot.origin && one.dot.seq.checked_add(1) == Some(next.dot.seq),
        _ => true,
    };
    !items.is_empty() && items.windows(2).all(follows)
}

/// What can go with the news of one bucket, by the seq that a listener was told of last.
pub(super) struct Packing {
    id: BucketId,
    origin: Origin,
    last: u64,
    /// Below, tombstones are gone; nothing at all may go while the site is in doubt.
    horizon: Option<u64>,
    /// By where they begin, and for which other node of this site.
    packed: BTreeMap<(u64, Option<SiteId>), Option<Vec<FeedItem>>>,
}

impl Packing {
    /// For a site that has this much.
    pub(super) fn new(id: BucketId, vector: &Vector, cx: &mut Context<'_>) -> Self {
        let origin = cx.replica.origin(id);
        let state = || Ok((cx.replica.horizon(id)?, cx.replica.doubt(id)?));
        let state = cx.read(state());
        let horizon = state.filter(|(_, doubt)| doubt.is_empty()).map(|(horizon, _)| horizon.get(origin));
        Self { id, origin, last: vector.get(origin), horizon, packed: BTreeMap::new() }
    }

    /// Whose records go.
    pub(super) const fn origin(&self) -> Origin {
        self.origin
    }

    /// The message for a listener who was told of that origin's up to `from`; none if news must do.
    pub(super) fn message(
        &mut self,
        to: SiteId,
        from: u64,
        news: &Vector,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let fellow = Some(to).filter(|to| cx.peers.is_fellow(*to));
        if !self.packed.contains_key(&(from, fellow)) {
            let items = self.pack(from, fellow, cx);
            self.packed.insert((from, fellow), items);
        }
        let items = self.packed.get(&(from, fellow))?.clone()?;
        cx.stats.items_out += items.len() as u64;
        Some(Message::Batch(Batch {
            ticket: Batch::FRESH,
            bucket: self.id,
            source: self.origin,
            index: 0,
            last: true,
            items,
            upto: Vector::from_iter([(self.origin, self.last)]),
            end: news.len() == 1,
            vector: news.clone(),
            horizon: Vector::new(),
            doubt: Vector::new(),
        }))
    }

    /// Every record behind `from`, if they are few and small and all there.
    fn pack(&self, from: u64, fellow: Option<SiteId>, cx: &mut Context<'_>) -> Option<Vec<FeedItem>> {
        let count = self.last.checked_sub(from).filter(|count| (1..=limits::FRESH_ITEMS).contains(count))?;
        if self.horizon? > from {
            return None;
        }
        let span = Span { origin: self.origin, first: from + 1, last: self.last };
        let none = std::collections::BTreeSet::new();
        let share = Share { max_bytes: limits::FRESH_BYTES, fellow, is_short: true };
        let found = cx.read(cx.replica.records_in(self.id, &span, &none, share));
        let (items, upto) = found?;
        let bytes: usize = items.iter().map(FeedItem::len).sum();
        // A replica that gives such bodies all the same gives too much.
        let all = upto >= self.last && items.len() as u64 == count && !items.iter().any(FeedItem::is_whole);
        (all && bytes <= limits::FRESH_BYTES && are_dense(&items)).then_some(items)
    }
}
