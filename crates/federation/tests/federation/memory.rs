//! A replica in memory: a set of dots with vectors and tombstones, as the contract of outputs says.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, Dot, Origin, Vector, limits};
use skerry_federation::{
    Apply, Drop, FeedBatch, FeedItem, Fingerprint, Fresh, Keep, Loose, Replica, Share, Span, Unreadable,
};

/// What the records of these tests say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: u32,
    pub(crate) context: Vector,
    pub(crate) tombstone: bool,
    pub(crate) payload: Bytes,
}

impl Record {
    pub(crate) fn kills(&self, dot: Dot, other: &Self) -> bool {
        self.key == other.key && self.context.covers(dot)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    pub(crate) live: BTreeMap<Dot, Record>,
    pub(crate) keys: BTreeMap<u32, BTreeSet<Dot>>,
    pub(crate) vector: Vector,
    pub(crate) horizon: Vector,
    pub(crate) doubt: Vector,
}

impl Held {
    fn remove(&mut self, dot: Dot) {
        if let Some(record) = self.live.remove(&dot)
            && let Some(dots) = self.keys.get_mut(&record.key)
        {
            dots.remove(&dot);
        }
    }

    fn of_key(&self, key: u32) -> Vec<Dot> {
        self.keys.get(&key).into_iter().flatten().copied().collect()
    }

    pub(crate) fn store(&mut self, dot: Dot, record: Record) {
        let others = self.of_key(record.key);
        let dead = others.iter().any(|other| self.live[other].kills(dot, &record));
        if self.live.contains_key(&dot) || self.vector.covers(dot) || dead {
            return;
        }
        for other in others {
            if record.kills(other, &self.live[&other]) {
                self.remove(other);
            }
        }
        self.keys.entry(record.key).or_default().insert(dot);
        self.live.insert(dot, record);
    }
}

/// One site's store. What is in it is durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) buckets: BTreeMap<BucketId, Held>,
    /// This life.
    pub(crate) origin: Origin,
    /// A full disk, once.
    pub(crate) refuse_next: bool,
    /// Records that it never takes, and nothing that comes with them.
    pub(crate) unwanted: BTreeSet<Dot>,
    /// Bodies, whatever of bucket and key.
    pub(crate) bodies: BTreeMap<Dot, Bytes>,
    /// How many bodies were read that not everybody gets.
    pub(crate) long_read: Cell<usize>,
}

impl Memory {
    pub(crate) fn held(&mut self, bucket: BucketId) -> &mut Held {
        self.buckets.entry(bucket).or_default()
    }

    /// A write at this site; answers its dot and record.
    pub(crate) fn write(
        &mut self,
        bucket: BucketId,
        origin: Origin,
        record: (u32, bool, Bytes),
    ) -> (Dot, Record) {
        self.origin = origin;
        let held = self.held(bucket);
        let (key, tombstone, payload) = record;
        let mut context = Vector::new();
        for dot in held.of_key(key) {
            context.add(dot);
            context.merge(&held.live[&dot].context);
        }
        let dot = Dot { origin, seq: held.vector.get(origin) + 1 };
        let record = Record { key, context, tombstone, payload };
        held.store(dot, record.clone());
        held.vector.add(dot);
        (dot, record)
    }

    /// The body that goes along with a record, and whether it is longer than everybody gets.
    fn body(&self, dot: Dot, share: Share) -> (Option<&Bytes>, bool) {
        let is_own = dot.origin.node == self.origin.node;
        let most = if share.fellow.is_some() && is_own {
            limits::JOURNAL_BODY_BYTES
        } else {
            limits::FEED_BODY_BYTES
        };
        let body = self.bodies.get(&dot).filter(|body| body.len() <= most);
        (body, body.is_some_and(|body| body.len() > limits::FEED_BODY_BYTES))
    }

    /// A record with the body that goes along.
    fn item(&self, dot: Dot, record: &Record, share: Share) -> FeedItem {
        let (body, is_long) = self.body(dot, share);
        self.long_read.set(self.long_read.get() + usize::from(is_long));
        FeedItem {
            dot,
            record: postcard::to_stdvec(record).unwrap().into(),
            bodies: body.into_iter().cloned().collect(),
        }
    }

    fn take(&mut self, items: &[FeedItem]) {
        for item in items {
            self.bodies.extend(item.bodies.first().map(|body| (item.dot, body.clone())));
        }
    }

    pub(crate) fn apply(&mut self, apply: &Apply) -> bool {
        let is_unwanted = apply.items.iter().any(|item| self.unwanted.contains(&item.dot));
        if std::mem::take(&mut self.refuse_next) || is_unwanted {
            return false;
        }
        let held = self.held(apply.bucket);
        if !held.vector.includes(&apply.base) {
            return false;
        }
        let given: BTreeSet<Dot> = apply.items.iter().map(|item| item.dot).collect();
        let stray = |dot: &Dot| !held.vector.covers(*dot) && apply.upto.covers(*dot) && !given.contains(dot);
        let strays: Vec<Dot> = held.live.keys().copied().filter(stray).collect();
        strays.into_iter().for_each(|dot| held.remove(dot));
        for item in &apply.items {
            held.store(item.dot, postcard::from_bytes(&item.record).unwrap());
        }
        held.vector.merge(&apply.upto);
        held.horizon.merge(&apply.horizon);
        held.doubt.merge(&apply.doubt);
        self.take(&apply.items);
        true
    }

    pub(crate) fn follow(&mut self, fresh: &Fresh) -> bool {
        let is_unwanted = fresh.items.iter().any(|item| self.unwanted.contains(&item.dot));
        let refused = std::mem::take(&mut self.refuse_next) || is_unwanted;
        let held = self.held(fresh.bucket);
        let (first, last) = (fresh.items[0].dot, fresh.items[fresh.items.len() - 1].dot);
        if refused || held.vector.get(first.origin) + 1 < first.seq {
            return false;
        }
        for item in &fresh.items {
            held.store(item.dot, postcard::from_bytes(&item.record).unwrap());
        }
        held.vector.add(last);
        self.take(&fresh.items);
        true
    }

    /// This double ends every round at once, so none has passed over anything.
    pub(crate) fn keep(&mut self, keep: &Keep) -> bool {
        if keep.items.iter().any(|item| self.unwanted.contains(&item.dot)) {
            return false;
        }
        let held = self.held(keep.bucket);
        for item in &keep.items {
            held.store(item.dot, postcard::from_bytes(&item.record).unwrap());
        }
        self.take(&keep.items);
        true
    }

    pub(crate) fn drop(&mut self, drop: &Drop) {
        let held = self.held(drop.bucket);
        drop.dots.iter().for_each(|dot| held.remove(*dot));
        held.horizon.merge(&drop.horizon);
        if drop.settles.includes(&held.doubt) {
            held.doubt = Vector::new();
        }
    }

    /// Drops every tombstone whose context is covered, as a store does after its horizon.
    pub(crate) fn forget_tombstones(&mut self, bucket: BucketId) {
        let held = self.held(bucket);
        let old: Vec<Dot> = held
            .live
            .iter()
            .filter(|(dot, record)| {
                record.tombstone && held.vector.covers(**dot) && held.vector.includes(&record.context)
            })
            .map(|(dot, _)| *dot)
            .collect();
        for dot in old {
            held.remove(dot);
            held.horizon.add(dot);
        }
    }

    pub(crate) fn visible(&self, bucket: BucketId) -> BTreeSet<Dot> {
        let live = self.buckets.get(&bucket).into_iter().flat_map(|held| &held.live);
        live.filter(|(_, record)| !record.tombstone).map(|(dot, _)| *dot).collect()
    }

    fn span<'a>(&'a self, bucket: BucketId, span: &Span) -> impl Iterator<Item = Dot> + 'a {
        let dot = |seq| Dot { origin: span.origin, seq };
        let range = dot(span.first)..=dot(span.last);
        let held = self.buckets.get(&bucket).into_iter();
        held.flat_map(move |held| held.live.range(range.clone())).map(|(dot, _)| *dot)
    }
}

impl Replica for Memory {
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        Ok(self.buckets.get(&bucket).map(|held| held.vector.clone()).unwrap_or_default())
    }

    fn origin(&self, _: BucketId) -> Origin {
        self.origin
    }

    /// This double takes every batch as if it ended a round.
    fn seen(&self, bucket: BucketId, _: Origin) -> Result<Vector, Unreadable> {
        self.vector(bucket)
    }

    fn horizon(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        Ok(self.buckets.get(&bucket).map(|held| held.horizon.clone()).unwrap_or_default())
    }

    fn doubt(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        Ok(self.buckets.get(&bucket).map(|held| held.doubt.clone()).unwrap_or_default())
    }

    fn after(&self, bucket: BucketId, seen: &Vector, share: Share) -> Result<FeedBatch, Unreadable> {
        let Some(held) = self.buckets.get(&bucket) else { return Ok(FeedBatch::default()) };
        let mut batch = FeedBatch::default();
        let mut bytes = 0;
        for (origin, last) in held.vector.iter() {
            if last <= seen.get(origin) {
                continue;
            }
            let first = Dot { origin, seq: seen.get(origin) + 1 };
            for (dot, record) in held.live.range(first..=Dot { origin, seq: last }) {
                let item = self.item(*dot, record, share);
                if bytes > 0 && bytes + item.len() > share.max_bytes {
                    batch.upto.advance(origin, dot.seq - 1);
                    batch.more = true;
                    return Ok(batch);
                }
                bytes += item.len();
                batch.items.push(item);
            }
            batch.upto.advance(origin, last);
        }
        batch.upto = held.vector.clone();
        Ok(batch)
    }

    fn fingerprint(&self, bucket: BucketId, span: &Span) -> Result<Fingerprint, Unreadable> {
        Ok(self.span(bucket, span).collect())
    }

    fn dots_in(&self, bucket: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable> {
        Ok(self.span(bucket, span).take(limit).map(|dot| dot.seq).collect())
    }

    fn loose(&self, bucket: BucketId) -> Result<Vec<Loose>, Unreadable> {
        let Some(held) = self.buckets.get(&bucket) else { return Ok(Vec::new()) };
        let mut loose: BTreeMap<Origin, Fingerprint> = BTreeMap::new();
        for dot in held.live.keys().filter(|dot| !held.vector.covers(**dot)) {
            loose.entry(dot.origin).or_default().add(*dot);
        }
        let named = |(origin, print)| Loose { origin, covered: held.vector.get(origin), print };
        Ok(loose.into_iter().map(named).collect())
    }

    fn records_in(
        &self,
        bucket: BucketId,
        span: &Span,
        have: &BTreeSet<u64>,
        share: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        for dot in self.span(bucket, span).filter(|dot| !have.contains(&dot.seq)) {
            if share.is_short && self.body(dot, share).1 {
                return Ok((items, dot.seq - 1));
            }
            let item = self.item(dot, &self.buckets[&bucket].live[&dot], share);
            if bytes > 0 && bytes + item.len() > share.max_bytes {
                return Ok((items, dot.seq - 1));
            }
            bytes += item.len();
            items.push(item);
        }
        Ok((items, span.last))
    }
}
