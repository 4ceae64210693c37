//! The store as the federation machine reads it: one snapshot per call.
//!
//! Invariant: all answers within one call of the machine come from one view, so the vector is never newer than
//! the dots.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::limits::{FEED_BODY_BYTES, JOURNAL_BODY_BYTES};
use skerry_base::{BucketId, Dot, NodeId, Origin, SiteId, Vector};
use skerry_federation::limits::AHEAD_BYTES;
use skerry_federation::{FeedBatch, FeedItem, Fingerprint, Loose, Replica, Share, Span, Unreadable};
use skerry_model::space;
use skerry_storage::{Store, StoreView};

use super::Replicas;
use super::stored::{Stored, VectorFile};
use crate::site::{Site, Stamps};

/// Makes a [`StoreReplica`] per call.
pub(crate) struct StoreReplicas {
    pub(crate) store: Arc<Store>,
    /// The lives of this process.
    pub(crate) stamps: Arc<Stamps>,
    /// What of its bodies goes to other nodes of the site. The thread that reads here does not keep it from ending.
    pub(crate) site: Weak<Site>,
}

impl Replicas for StoreReplicas {
    fn with(&self, read: &mut dyn FnMut(&dyn Replica)) {
        let Self { store, stamps, site } = self;
        read(&StoreReplica { store, view: store.view(), stamps, site });
    }
}

struct StoreReplica<'a> {
    store: &'a Store,
    view: StoreView,
    stamps: &'a Stamps,
    site: &'a Weak<Site>,
}

/// Which bodies go along with the records of one answer. Decided once for each, as it is weighed.
struct Along {
    /// The node of this site that it is for, and this one; none for anybody else.
    fellow: Option<(Arc<Site>, SiteId, NodeId)>,
    dots: BTreeSet<Dot>,
    /// The answer ends before the first record with which a longer body would go.
    is_short: bool,
    /// Where it ends so.
    ends: Option<Dot>,
}

impl Along {
    /// Bytes that a record takes with what goes along.
    fn weigh(&mut self, bucket: BucketId, item: &space::Item) -> usize {
        let size = item.record.object().map_or(0, |object| object.size);
        let is_small = size <= FEED_BODY_BYTES as u64;
        let goes = size > 0 && !item.spent && (is_small || self.is_whole(bucket, item, size));
        if !goes {
            return item.encoded.len();
        }
        if self.is_short && !is_small {
            self.ends.get_or_insert(item.dot);
            return usize::MAX;
        }
        self.dots.insert(item.dot);
        item.encoded.len() + usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// Whether a longer body goes along: of what this node wrote itself, that nobody else need have. What another node wrote
    /// that one gives along, and whoever has heard of it from there has the body.
    fn is_whole(&self, bucket: BucketId, item: &space::Item, size: u64) -> bool {
        self.fellow.as_ref().is_some_and(|(site, fellow, me)| {
            size <= JOURNAL_BODY_BYTES as u64
                && item.dot.origin.node == *me
                && !site.nodes.is_held_for(*fellow, (bucket, item.dot), site)
        })
    }

    /// For nobody but who gets short ones.
    const fn short() -> Self {
        Self { fellow: None, dots: BTreeSet::new(), is_short: false, ends: None }
    }
}

fn unreadable(error: impl ToString) -> Unreadable {
    Unreadable(error.to_string())
}

impl StoreReplica<'_> {
    /// What goes along with an answer.
    fn along(&self, bucket: BucketId, share: Share) -> Along {
        let fellow = share.fellow.and_then(|fellow| {
            let site = self.site.upgrade().filter(|site| site.may_lie_at(bucket, fellow))?;
            Some((site, fellow, self.stamps.origin.node))
        });
        Along { fellow, is_short: share.is_short, ..Along::short() }
    }

    /// The chunks of a body that goes along; empty if they are not here, or damaged.
    fn bodies(&self, bucket: BucketId, item: &space::Item, along: &Along) -> Vec<Bytes> {
        let small = item.record.object().filter(|_| along.dots.contains(&item.dot));
        let read = |chunk: &skerry_base::ChunkRef| self.store.read_chunk(bucket, chunk.id, 0..u32::MAX).ok();
        let bodies = small.map(|object| object.chunks.iter().map(read).collect::<Option<Vec<_>>>());
        bodies.flatten().unwrap_or_default()
    }

    fn fed(&self, bucket: BucketId, item: &space::Item, along: &Along) -> FeedItem {
        FeedItem { dot: item.dot, record: item.encoded.clone(), bodies: self.bodies(bucket, item, along) }
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

    fn after(&self, bucket: BucketId, seen: &Vector, share: Share) -> Result<FeedBatch, Unreadable> {
        let mut along = self.along(bucket, share);
        let weigh = &mut |item: &space::Item| along.weigh(bucket, item);
        let found = space::records_after_by(&self.view, bucket, seen, (share.max_bytes, weigh));
        let found = found.map_err(unreadable)?;
        let ahead = space::ahead(&self.view, bucket, (seen, &found), AHEAD_BYTES).map_err(unreadable)?;
        // These are weighed by their records alone: no longer body goes along, be they this node's own of an earlier life.
        let mut beside = Along::short();
        ahead.iter().for_each(|item| _ = beside.weigh(bucket, item));
        let fed = |items: &[space::Item], along: &Along| {
            items.iter().map(|item| self.fed(bucket, item, along)).collect()
        };
        let (items, ahead) = (fed(&found.items, &along), fed(&ahead, &beside));
        Ok(FeedBatch { items, upto: found.upto, more: found.more, ahead })
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
        share: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        let first = Dot { origin: span.origin, seq: span.first };
        let mut along = self.along(bucket, share);
        let weigh = &mut |item: &space::Item| along.weigh(bucket, item);
        let found =
            space::records_in_by(&self.view, bucket, (first, span.last), have, (share.max_bytes, weigh));
        let (mut items, mut upto) = found.map_err(unreadable)?;
        if let Some(end) = along.ends {
            items.retain(|item| item.dot < end);
            upto = upto.min(end.seq.saturating_sub(1));
        }
        Ok((items.iter().map(|item| self.fed(bucket, item, &along)).collect(), upto))
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
