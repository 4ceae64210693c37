//! What others are to hold before this site goes, out of a bucket or for good: as the bucket wants copies, areas too, and as
//! single writes were answered for.
//!
//! Before: `leaving/hand_over.rs`, `workers/drain.rs`. After: [`left_behind`], which decides. Invariants: who is lost, about
//! to go, or said that it takes nothing of the bucket is not waited for; what only this site remembers of a promise counts
//! like what the record says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::Together;
use skerry_federation::departure::left_behind;
use skerry_federation::placement::Demand;
use skerry_gateway::service::Outcome;
use skerry_model::record::Scope;

use super::book;
use super::wanted::rules;
use crate::paths::bucket::Bucket;
use crate::site::{Site, unreadable};

/// What is asked for of a bucket's versions before this site goes.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    /// What the bucket wants.
    pub(crate) wish: Demand,
    /// Who of the others may hold it, reached or not.
    pub(crate) all: BTreeSet<SiteId>,
    /// Who burns together.
    pub(crate) together: Together,
    /// What this site promised and the records do not say.
    promises: Arc<BTreeMap<Dot, usize>>,
}

/// For how many sites a write was answered, as its record says; 0 if for none.
pub(crate) const fn answered_for(scope: Scope) -> usize {
    match scope {
        Scope::Sites(count) => count as usize,
        _ => 0,
    }
}

impl Behind {
    /// Of a bucket, as it is known now; of the system bucket, which all sites keep, without its claim.
    pub(crate) async fn of(site: &Arc<Site>, id: BucketId, bucket: Option<&Bucket>) -> Outcome<Self> {
        let promises = site.read(move |view| book::promises(view, id).map_err(unreadable)).await?;
        let (uncounted, refusing) = (site.copies.uncounted(), site.copies.refusing(id));
        let mut all: BTreeSet<SiteId> = site.peers.roster.all().into_keys().collect();
        all.retain(|other| {
            let may = bucket.is_none_or(|bucket| bucket.may_lie_at(*other));
            *other != site.id && may && !uncounted.contains(other) && !refusing.contains(other)
        });
        let wish = bucket.map_or(Demand::anywhere(1), |bucket| rules(site, bucket).demand);
        let (together, promises) = (site.peers.roster.together(), Arc::new(promises));
        Ok(Self { wish, all, together, promises })
    }

    /// For how many sites a write was answered, whoever remembers it.
    pub(crate) fn promised(&self, dot: Dot, scope: Scope) -> usize {
        answered_for(scope).max(self.promises.get(&dot).copied().unwrap_or_default())
    }

    /// The largest number that this site remembers.
    pub(crate) fn most_promised(&self) -> usize {
        self.promises.values().copied().max().unwrap_or_default()
    }

    /// What is asked for of a version, where these can be asked now.
    pub(crate) fn demand(&self, promised: usize, near: &BTreeSet<SiteId>) -> Demand {
        left_behind(&self.wish, promised, near, &self.all, &self.together)
    }
}
