//! Frees chunks that nothing refers to, evicts copies beyond their cap and those of buckets that may not lie here any
//! more, moves the living together.

use std::sync::Arc;

use skerry_gateway::service::Outcome;
use skerry_model::bucket::list_buckets;

use super::Worker;
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::site::{Site, unreadable};

/// Turns between two looks for copies of buckets that may not lie here: a minute.
const LOOK: u32 = 12;

/// Makes durable what was answered before it was: beside the collector, whose steps may take long.
pub(super) struct Syncer(pub(super) Arc<Site>);

#[async_trait::async_trait]
impl Worker for Syncer {
    async fn turn(&mut self) -> bool {
        let store = self.0.store.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || store.sync_answered()).await {
            tracing::warn!(%error, "what was answered before it was on disk was not synced");
        }
        false
    }
}

pub(super) struct Collector {
    site: Arc<Site>,
    turns: u32,
}

impl Collector {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site, turns: 0 }
    }

    /// Copies that were kept before their bucket was bound to other sites.
    async fn leave(&self) -> Outcome<()> {
        let system = self.site.system;
        let all = self.site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
        for bucket in all.into_iter().map(Bucket::of).filter(|bucket| !bucket.may_lie_at(self.site.id)) {
            let (store, id) = (self.site.store.clone(), bucket.id);
            let drop_all = move || -> Result<(), skerry_storage::StorageError> {
                while store.drop_copies(id)? {}
                Ok(())
            };
            tokio::task::spawn_blocking(drop_all).await.map_err(refusal::task)?.map_err(refusal::storage)?;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Worker for Collector {
    async fn turn(&mut self) -> bool {
        self.turns += 1;
        if self.turns % LOOK == 1
            && let Err(error) = self.leave().await
        {
            tracing::warn!(%error, "copies that may not lie here were not let go of");
        }
        let (store, now) = (self.site.store.clone(), self.site.clock.wall());
        match tokio::task::spawn_blocking(move || store.collect(now)).await {
            Ok(Ok(collected)) => collected.more,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the collector stopped for now");
                false
            }
            Err(_) => false,
        }
    }
}
