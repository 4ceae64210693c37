//! Own records that no other site is told of yet ([`crate::Replica::withheld`]).
//!
//! A site of several nodes acknowledges what all its live nodes have. A record that travels by a feed before that is known
//! where its body is not: if its node is lost at that moment, the key is unreadable at the whole site, though the version before
//! lies at every node of it. So what is on its way to the other nodes is on no feed. They have it from who asks them to hold
//! it, body and all; everybody else hears of it a moment later.

use std::rc::Rc;

use skerry_base::{BucketId, Origin, Vector};

use crate::FeedBatch;
use crate::context::Context;

/// The first seq of this site's present life that is not told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Withheld {
    own: Origin,
    from: u64,
}

impl Withheld {
    /// What of a bucket is withheld, if anything.
    pub(super) fn of(bucket: BucketId, cx: &Context<'_>) -> Option<Self> {
        let from = cx.replica.withheld(bucket)?;
        Some(Self { own: cx.replica.origin(bucket), from })
    }

    /// A vector as it is told.
    pub(super) fn short(self, vector: &Vector) -> Vector {
        let most = self.from.saturating_sub(1);
        let short =
            |(origin, seq): (Origin, u64)| (origin, if origin == self.own { seq.min(most) } else { seq });
        vector.iter().map(short).filter(|(_, seq)| *seq > 0).collect()
    }

    /// What the store is asked behind: once all below what is withheld is seen, that is passed over as if it were. Else a piece
    /// could be of nothing else, and a batch of nothing that does not end is no batch.
    pub(super) fn passing(self, seen: &Vector, stored: &Vector) -> Vector {
        let mut passed = seen.clone();
        if seen.get(self.own).saturating_add(1) >= self.from {
            passed.advance(self.own, stored.get(self.own));
        }
        passed
    }

    /// A piece of the feed as it goes out.
    pub(super) fn cut(self, mut piece: FeedBatch) -> FeedBatch {
        piece.items.retain(|item| item.dot.origin != self.own || item.dot.seq < self.from);
        piece.upto = self.short(&piece.upto);
        piece
    }
}

/// What others are told that this site has.
pub(super) fn told_vector(bucket: BucketId, cx: &mut Context<'_>) -> Option<Rc<Vector>> {
    let vector = cx.vector(bucket)?;
    Some(match Withheld::of(bucket, cx) {
        Some(withheld) => Rc::new(withheld.short(&vector)),
        None => vector,
    })
}
