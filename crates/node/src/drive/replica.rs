//! The store as the federation machine reads it: one snapshot per call.
//!
//! Invariant: all answers within one call of the machine come from one view, so the vector is never newer than
//! the dots.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::limits::FEED_BODY_BYTES;
use skerry_base::{BucketId, Dot, Origin, Vector};
use skerry_federation::limits::AHEAD_BYTES;
use skerry_federation::{FeedBatch, FeedItem, Fingerprint, Loose, Replica, Span, Unreadable};
use skerry_model::space;
use skerry_storage::{Store, StoreView};

use super::Replicas;
use super::stored::{Stored, VectorFile};
use crate::site::Stamps;

/// Makes a [`StoreReplica`] per call.
pub(crate) struct StoreReplicas {
    pub(crate) store: Arc<Store>,
    /// The lives of this process.
    pub(crate) stamps: Arc<Stamps>,
}

impl Replicas for StoreReplicas {
    fn with(&self, read: &mut dyn FnMut(&dyn Replica)) {
        read(&StoreReplica { store: &self.store, view: self.store.view(), stamps: &self.stamps });
    }
}

struct StoreReplica<'a> {
    store: &'a Store,
    view: StoreView,
    stamps: &'a Stamps,
}

fn unreadable(error: impl ToString) -> Unreadable {
    Unreadable(error.to_string())
}

impl StoreReplica<'_> {
    /// The chunks of a small body, to travel with the record; empty if they are large or not here.
    fn bodies(&self, bucket: BucketId, item: &space::Item) -> Vec<Bytes> {
        let small =
            item.record.object().filter(|object| object.size <= FEED_BODY_BYTES as u64 && !item.spent);
        let read = |chunk: &skerry_base::ChunkRef| self.store.read_chunk(bucket, chunk.id, 0..u32::MAX).ok();
        let bodies = small.map(|object| object.chunks.iter().map(read).collect::<Option<Vec<_>>>());
        bodies.flatten().unwrap_or_default()
    }

    fn fed(&self, bucket: BucketId, item: &space::Item) -> FeedItem {
        FeedItem { dot: item.dot, record: item.encoded.clone(), bodies: self.bodies(bucket, item) }
    }

    fn stored(&self, what: Stored, bucket: BucketId) -> Result<Vector, Unreadable> {
        let found = self.view.get(Table::Local, &what.key(bucket)).map_err(unreadable)?;
        let decode = |bytes: Bytes| codec::decode::<VectorFile>(&bytes).map_err(unreadable);
        Ok(found.map(decode).transpose()?.map(|file| file.0).unwrap_or_default())
    }
}

impl Replica for StoreReplica<'_> {
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        space::vector(&self.view, bucket).map_err(unreadable)
    }

    fn origin(&self, bucket: BucketId) -> Origin {
        self.stamps.origin_of(bucket)
    }

    fn seen(&self, bucket: BucketId, source: Origin) -> Result<Vector, Unreadable> {
        space::seen(&self.view, bucket, source).map_err(unreadable)
    }

    fn horizon(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        self.stored(Stored::Horizon, bucket)
    }

    fn doubt(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        self.stored(Stored::Doubt, bucket)
    }

    fn after(&self, bucket: BucketId, seen: &Vector, max_bytes: usize) -> Result<FeedBatch, Unreadable> {
        let found = space::records_after(&self.view, bucket, seen, max_bytes).map_err(unreadable)?;
        let ahead = space::ahead(&self.view, bucket, (seen, &found), AHEAD_BYTES).map_err(unreadable)?;
        let fed = |items: &[space::Item]| items.iter().map(|item| self.fed(bucket, item)).collect();
        Ok(FeedBatch { items: fed(&found.items), upto: found.upto, more: found.more, ahead: fed(&ahead) })
    }

    fn fingerprint(&self, bucket: BucketId, span: &Span) -> Result<Fingerprint, Unreadable> {
        space::fingerprint(&self.view, bucket, range(span)).map(print).map_err(unreadable)
    }

    fn dots_in(&self, bucket: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable> {
        let dots = space::dots_in(&self.view, bucket, range(span), limit).map_err(unreadable)?;
        Ok(dots.into_iter().map(|dot| dot.seq).collect())
    }

    fn loose(&self, bucket: BucketId) -> Result<Vec<Loose>, Unreadable> {
        let loose = space::loose(&self.view, bucket).map_err(unreadable)?;
        let said =
            |space::Loose { origin, covered, print: all }| Loose { origin, covered, print: print(all) };
        Ok(loose.into_iter().map(said).collect())
    }

    fn records_in(
        &self,
        bucket: BucketId,
        span: &Span,
        have: &BTreeSet<u64>,
        max_bytes: usize,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        let first = Dot { origin: span.origin, seq: span.first };
        let found = space::records_in(&self.view, bucket, (first, span.last), have, max_bytes);
        let (items, upto) = found.map_err(unreadable)?;
        Ok((items.iter().map(|item| self.fed(bucket, item)).collect(), upto))
    }
}

fn print(print: space::Fingerprint) -> Fingerprint {
    Fingerprint { count: print.count, sum: print.sum.to_be_bytes() }
}

fn range(span: &Span) -> space::DotRange {
    space::DotRange::span(span.origin, span.first, span.last)
}

#[cfg(test)]
mod tests {
    use skerry_base::NodeId;

    use super::*;

    /// What is counted as loose is told and asked for as well, or it is asked for for ever.
    #[test]
    fn the_last_record_of_a_life_lies_in_its_span() {
        let origin = Origin { node: NodeId([1; 16]), incarnation: 1 };
        let all = range(&Span { origin, first: 4, last: u64::MAX });
        assert!(all.contains(Dot { origin, seq: 4 }) && all.contains(Dot { origin, seq: u64::MAX }));
        let few = range(&Span { origin, first: 4, last: 6 });
        assert!(few.contains(Dot { origin, seq: 6 }) && !few.contains(Dot { origin, seq: 7 }));
    }
}
