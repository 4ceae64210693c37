//! Frees chunks that nothing refers to, evicts copies beyond their cap and those of buckets that may not lie here any
//! more, moves the living together.
//!
//! Invariant: what is moved is moved a second's pace at a time, with a rest behind each that is as long as it took at least: a device
//! that is slower than it says is never held for long, nor more than half of the time.

use std::sync::Arc;
use std::time::Duration;

use skerry_gateway::service::Outcome;
use skerry_model::bucket::list_buckets;
use skerry_storage::{StorageError, Store};

use super::{COLLECT, Worker};
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::site::{Site, unreadable};
use crate::tasks::rest;

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

/// What is moved at once is what the pace gives in so long.
const PIECE: Duration = Duration::from_secs(1);

pub(super) struct Collector {
    site: Arc<Site>,
    turns: u32,
}

impl Collector {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site, turns: 0 }
    }

    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Store) -> Result<T, StorageError> + Send + 'static,
    ) -> Option<T> {
        let store = self.site.store.clone();
        match tokio::task::spawn_blocking(move || step(&store)).await {
            Ok(Ok(done)) => Some(done),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the collector stopped for now");
                None
            }
            Err(_) => None,
        }
    }

    /// Copies that were kept before their bucket was bound to other sites.
    async fn leave(&self) -> Outcome<()> {
        let system = self.site.system;
        let all = self.site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
        for bucket in all.into_iter().map(Bucket::of).filter(|bucket| !bucket.may_lie_at(self.site.id)) {
            let (store, id) = (self.site.store.clone(), bucket.id);
            let drop_all = move || -> Result<(), StorageError> {
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
        let (begun, now) = (self.site.clock.now(), self.site.clock.wall());
        let Some(collected) = self.step(move |store| store.collect(now)).await else { return false };
        if collected.more {
            return true;
        }
        // Most of that was looking, not moving; nothing is let go of while it rests.
        let (mut moved, mut taken) = (collected.moved, self.site.clock.now().since(begun).min(COLLECT));
        while moved > 0 {
            rest(pause(moved, self.site.store.move_bytes(), taken)).await;
            let again = self.site.clock.now();
            if again.since(begun) >= COLLECT {
                break;
            }
            moved = self.step(|store| store.move_on()).await.unwrap_or(0);
            taken = self.site.clock.now().since(again);
        }
        false
    }
}

/// Behind so many bytes that were moved in this time, where so many may be in a second.
fn pause(moved: u64, pace: u64, taken: Duration) -> Duration {
    Duration::from_secs_f64(moved as f64 / pace.max(1) as f64).max(PIECE).max(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_rests_by_its_pace_and_by_what_the_device_gives() {
        let seconds = Duration::from_secs_f64;
        for (moved, pace, taken, rests) in [
            (32, 32, 0.1, 1.0),
            // A chunk or the end of a segment.
            (1, 32, 0.1, 1.0),
            (4, 1, 0.2, 4.0),
            // It says that it is fast: 20 MB/s, read and written.
            (32, 32, 3.2, 3.2),
        ] {
            assert_eq!(pause(moved << 20, pace << 20, seconds(taken)), seconds(rests), "{moved} of {pace}");
        }
    }
}
