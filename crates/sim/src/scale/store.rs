//! What a site of the scale proof stores: vectors, and nothing of what they cover. Every record lives and is as long as any other, so
//! that a thousand stores fit beside a thousand production machines, and what is measured is the machines'.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use skerry_base::{BucketId, Dot, Origin, Vector};
use skerry_federation::{
    Apply, Drop, FeedBatch, FeedItem, Fingerprint, Fresh, Keep, Loose, Replica, Share, Span, Unreadable,
};

use super::RECORD;

static BODY: [u8; RECORD] = [7; RECORD];

/// One bucket: everything that the vector covers, and some records beyond.
#[derive(Debug, Clone, Default)]
struct Held {
    vector: Vector,
    loose: BTreeSet<Dot>,
}

impl Held {
    fn advance(&mut self, upto: &Vector) {
        self.vector.merge(upto);
        let vector = &self.vector;
        self.loose.retain(|dot| !vector.covers(*dot));
    }
}

/// The store of one site.
#[derive(Debug, Clone, Default)]
pub struct Store {
    buckets: BTreeMap<BucketId, Held>,
    origin: Origin,
}

const fn item(dot: Dot) -> FeedItem {
    FeedItem { dot, record: Bytes::from_static(&BODY), bodies: Vec::new() }
}

impl Store {
    /// Its records are written under this life from now on.
    pub const fn begin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// A write of this site.
    pub fn write(&mut self, bucket: BucketId) {
        let held = self.buckets.entry(bucket).or_default();
        let seq = held.vector.get(self.origin) + 1;
        held.vector.advance(self.origin, seq);
    }

    /// How many records of a bucket are here without a gap before them.
    pub fn count(&self, bucket: BucketId) -> u64 {
        self.buckets.get(&bucket).map_or(0, |held| held.vector.iter().map(|(_, seq)| seq).sum())
    }

    /// A batch of a feed.
    pub fn apply(&mut self, apply: &Apply) -> bool {
        let held = self.buckets.entry(apply.bucket).or_default();
        let fits = held.vector.includes(&apply.base);
        if fits {
            held.advance(&apply.upto);
        }
        fits
    }

    /// Records that came with their news.
    pub fn follow(&mut self, fresh: &Fresh) -> bool {
        let held = self.buckets.entry(fresh.bucket).or_default();
        let (Some(first), Some(last)) = (fresh.items.first(), fresh.items.last()) else { return false };
        let fits = held.vector.get(first.dot.origin) + 1 >= first.dot.seq;
        if fits {
            held.advance(&[(last.dot.origin, last.dot.seq)].into_iter().collect());
        }
        fits
    }

    /// Records that no feed brings.
    pub fn keep(&mut self, keep: &Keep) {
        let held = self.buckets.entry(keep.bucket).or_default();
        let beyond = keep.items.iter().map(|item| item.dot).filter(|dot| !held.vector.covers(*dot));
        held.loose.extend(beyond);
    }

    /// What is dead elsewhere: nothing dies here but what was never covered.
    pub fn drop(&mut self, drop: &Drop) {
        let held = self.buckets.entry(drop.bucket).or_default();
        drop.dots.iter().for_each(|dot| {
            held.loose.remove(dot);
        });
    }

    fn dots(&self, bucket: BucketId, span: &Span) -> impl Iterator<Item = u64> {
        let held = self.buckets.get(&bucket);
        let covered = held.map_or(0, |held| held.vector.get(span.origin)).min(span.last);
        let dot = |seq| Dot { origin: span.origin, seq };
        let range = dot(span.first)..=dot(span.last);
        let loose = held.into_iter().flat_map(move |held| held.loose.range(range.clone())).map(|dot| dot.seq);
        (span.first..=covered).chain(loose)
    }
}

impl Replica for Store {
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        Ok(self.buckets.get(&bucket).map(|held| held.vector.clone()).unwrap_or_default())
    }

    fn origin(&self, _: BucketId) -> Origin {
        self.origin
    }

    fn seen(&self, bucket: BucketId, _: Origin) -> Result<Vector, Unreadable> {
        self.vector(bucket)
    }

    fn horizon(&self, _: BucketId) -> Result<Vector, Unreadable> {
        Ok(Vector::new())
    }

    fn doubt(&self, _: BucketId) -> Result<Vector, Unreadable> {
        Ok(Vector::new())
    }

    fn after(&self, bucket: BucketId, seen: &Vector, share: Share) -> Result<FeedBatch, Unreadable> {
        let Some(held) = self.buckets.get(&bucket) else { return Ok(FeedBatch::default()) };
        let mut batch = FeedBatch::default();
        let mut bytes = 0;
        for (origin, last) in held.vector.iter() {
            for seq in seen.get(origin) + 1..=last {
                let item = item(Dot { origin, seq });
                if bytes > 0 && bytes + item.len() > share.max_bytes {
                    batch.more = true;
                    return Ok(batch);
                }
                bytes += item.len();
                batch.items.push(item);
                batch.upto.advance(origin, seq);
            }
            batch.upto.advance(origin, last.min(seen.get(origin)));
        }
        batch.upto = held.vector.clone();
        Ok(batch)
    }

    fn fingerprint(&self, bucket: BucketId, span: &Span) -> Result<Fingerprint, Unreadable> {
        Ok(self.dots(bucket, span).map(|seq| Dot { origin: span.origin, seq }).collect())
    }

    fn dots_in(&self, bucket: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable> {
        Ok(self.dots(bucket, span).take(limit).collect())
    }

    fn loose(&self, bucket: BucketId) -> Result<Vec<Loose>, Unreadable> {
        let Some(held) = self.buckets.get(&bucket) else { return Ok(Vec::new()) };
        let mut loose: BTreeMap<Origin, Fingerprint> = BTreeMap::new();
        held.loose.iter().for_each(|dot| loose.entry(dot.origin).or_default().add(*dot));
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
        for seq in self.dots(bucket, span).filter(|seq| !have.contains(seq)) {
            let item = item(Dot { origin: span.origin, seq });
            if bytes > 0 && bytes + item.len() > share.max_bytes {
                return Ok((items, seq - 1));
            }
            bytes += item.len();
            items.push(item);
        }
        Ok((items, span.last))
    }
}
