//! Whom to ask.
//!
//! A source's vector tells what it can give: who is known to have more comes first, the nearest of them, one
//! that is not in doubt before one that is. Sites in backoff and without a link are passed over.

use skerry_base::{Instant, SiteId, Vector};

use super::bucket::Bucket;
use crate::context::Context;
use crate::limits;

/// Whom to ask now; else when there will be somebody again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Ask(SiteId),
    Later(Instant),
    Nobody,
}

impl Bucket {
    /// The source of the next pull, for who has (or will have) `mine`.
    pub(super) fn choose(&self, mine: &Vector, cx: &Context<'_>) -> Choice {
        let useful = |site: &SiteId| {
            self.sources.get(site).is_some_and(|source| source.ask || !mine.includes(&source.vector))
        };
        let near = cx.peers.nearest(self.members.iter().copied());
        let useful: Vec<SiteId> = near.into_iter().filter(useful).collect();
        let until = |site: &SiteId| {
            self.sources.get(site).and_then(|source| source.until).filter(|until| *until > cx.now)
        };
        let rank = |site: &SiteId| {
            let source = self.sources.get(site);
            let doubtful = source.is_some_and(|source| source.doubtful);
            let news = source.is_some_and(|source| !mine.includes(&source.vector));
            (self.settling != Some(*site), doubtful, !news, cx.peers.distance(*site))
        };
        let ready = useful.iter().copied().filter(|site| until(site).is_none()).min_by_key(rank);
        match (ready, useful.iter().filter_map(until).min()) {
            (Some(site), _) => Choice::Ask(site),
            (None, Some(at)) => Choice::Later(at),
            (None, None) => Choice::Nobody,
        }
    }

    /// The members that are listened to: the nearest, and one drawn anew with each round of checks, so that
    /// no cluster of near sites keeps its news to itself.
    /// `draw` in 0..1 is the same for all buckets of a round, so that their checks share messages.
    pub(super) fn listened(&self, draw: f64, cx: &Context<'_>) -> Vec<SiteId> {
        let mut near = cx.peers.nearest(self.members.iter().copied());
        let far = near.split_off(near.len().min(limits::SOURCES - 1));
        let index = (far.len() as f64 * draw) as usize;
        near.extend(far.get(index));
        near
    }
}
