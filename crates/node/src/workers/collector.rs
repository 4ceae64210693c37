//! Frees chunks that nothing refers to, evicts copies beyond their cap, moves the living together.

use std::sync::Arc;

use super::Worker;
use crate::site::Site;

pub(super) struct Collector {
    site: Arc<Site>,
}

impl Collector {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

#[async_trait::async_trait]
impl Worker for Collector {
    async fn turn(&mut self) -> bool {
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
