//! What is read of the store during one transition.

use core::cell::Cell;
use std::collections::BTreeSet;

use rand::SeedableRng;
use skerry_base::{NodeId, Origin};

use super::*;
use crate::{Config, FeedBatch, FeedItem, Fingerprint, Loose, Share, Span};

/// Counts how often it is asked for a vector; the bucket of all ones cannot be read.
#[derive(Default)]
struct Counting(Cell<u64>);

const BAD: BucketId = BucketId([1; 16]);

impl Replica for Counting {
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        self.0.set(self.0.get() + 1);
        let origin = Origin { node: NodeId(bucket.0), incarnation: 1 };
        if bucket == BAD { Err(Unreadable("torn".into())) } else { Ok(Vector::from_iter([(origin, 3)])) }
    }

    fn origin(&self, _: BucketId) -> Origin {
        Origin::default()
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

    fn after(&self, _: BucketId, _: &Vector, _: Share) -> Result<FeedBatch, Unreadable> {
        Ok(FeedBatch::default())
    }

    fn fingerprint(&self, _: BucketId, _: &Span) -> Result<Fingerprint, Unreadable> {
        Ok(Fingerprint::default())
    }

    fn dots_in(&self, _: BucketId, _: &Span, _: usize) -> Result<Vec<u64>, Unreadable> {
        Ok(Vec::new())
    }

    fn loose(&self, _: BucketId) -> Result<Vec<Loose>, Unreadable> {
        Ok(Vec::new())
    }

    fn records_in(
        &self,
        _: BucketId,
        span: &Span,
        _: &BTreeSet<u64>,
        _: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        Ok((Vec::new(), span.last))
    }
}

#[test]
fn a_vector_is_read_once_however_often_it_is_looked_at() {
    let (replica, mut out, mut stats, mut tickets) = (Counting::default(), Vec::new(), Stats::default(), 0);
    let mut peers = Peers::new(&Config::new(SiteId([1; 16]), 1, 1));
    let mut cx = Context {
        now: Instant(1),
        replica: &replica,
        peers: &mut peers,
        out: &mut out,
        stats: &mut stats,
        rng: &mut StdRng::seed_from_u64(1),
        tickets: &mut tickets,
        vector: None,
    };
    let [one, other] = [2, 3].map(|n| BucketId([n; 16]));
    let first = cx.vector(one);
    assert_eq!((cx.vector(one), replica.0.get()), (first.clone(), 1));
    assert!(cx.vector(other).is_some_and(|vector| Some(&vector) != first.as_ref()));
    assert_eq!((cx.vector(one), replica.0.get()), (first, 3), "the last one is kept");
    // What cannot be read is said each time, and takes nothing away.
    assert_eq!((cx.vector(BAD), cx.vector(BAD), cx.stats.unreadable), (None, None, 2));
    assert!(cx.vector(one).is_some());
    assert_eq!(replica.0.get(), 5);
}
