//! Counts what is held here for other sites: a walk through all records, so that what was deleted or let go of makes room.
//!
//! Before: what came is in the account already (`copies/others.rs`). Invariants: a page at a time, each a reading of its own;
//! a walk takes a small share of the time, but for the first of a store; near the cap it comes again soon, elsewhere seldom;
//! what comes meanwhile is written down, so that a start before its end begins with it.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::Instant;
use skerry_base::kv::View;
use skerry_federation::Together;
use skerry_gateway::service::Outcome;
use skerry_model::bucket as model;
use skerry_model::space;
use tokio::sync::watch;

use super::Worker;
use crate::copies::look::is_here;
use crate::copies::others::{self, counted};
use crate::paths::refusal;
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Rows of one page.
const PAGE: usize = 1024;
/// A page that took so long is followed by this many times as long of rest, and so is a walk.
const SHARE: u32 = 50;
/// Between two walks near the cap.
const NEAR: Duration = Duration::from_secs(5);
/// Between two walks where there is room.
const FAR: Duration = Duration::from_secs(600);

pub(super) struct Counter {
    site: Arc<Site>,
    changes: watch::Receiver<u64>,
    not_before: Instant,
    /// When it is counted though it is not near the cap.
    due: Instant,
}

#[async_trait::async_trait]
impl Worker for Counter {
    async fn turn(&mut self) -> bool {
        others::remember(&self.site, false).await;
        let now = self.site.clock.now();
        let is_time = now >= self.due || (now >= self.not_before && self.site.others.is_near());
        if !is_time || !self.changes.has_changed().unwrap_or(false) {
            return false;
        }
        self.changes.mark_unchanged();
        let worked = self.count().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is held for other sites could not be counted");
            self.changes.mark_changed();
            Duration::ZERO
        });
        let now = self.site.clock.now();
        (self.not_before, self.due) = (now.after(NEAR.max(worked * SHARE)), now.after(FAR));
        false
    }
}

impl Counter {
    pub(super) fn new(site: Arc<Site>) -> Self {
        let mut changes = site.changes.follow();
        changes.mark_changed();
        let now = site.clock.now();
        Self { site, changes, not_before: now, due: now }
    }

    /// One walk; how long it worked since it rested last.
    async fn count(&self) -> Outcome<Duration> {
        let site = &self.site;
        let (system, me) = (site.system, site.id);
        let places = move |view: &dyn View| model::replacements(view, system, me).map_err(unreadable);
        site.others.set_taken_over(site.read(places).await?.into_iter().collect());
        let together = Arc::new(site.peers.roster.together());
        let is_first = site.others.begin_count();
        let (mut bytes, mut after, mut begun) = (0, None, site.clock.now());
        loop {
            let (found, next) = page(site, &together, after).await?;
            bytes += found;
            after = next;
            if after.is_none() {
                break;
            }
            if !is_first {
                others::remember(site, false).await;
                rest(site.clock.now().since(begun) * SHARE).await;
                begun = site.clock.now();
            }
        }
        let worked = site.clock.now().since(begun);
        site.others.end_count(bytes);
        others::remember(site, true).await;
        Ok(worked)
    }
}

/// What the next records count, and from where to go on.
async fn page(
    site: &Arc<Site>,
    together: &Arc<Together>,
    after: Option<Vec<u8>>,
) -> Outcome<(u64, Option<Vec<u8>>)> {
    let (site, together) = (site.clone(), together.clone());
    let read = move || {
        let page = space::census(&site.store.view(), after.as_deref(), PAGE).map_err(unreadable)?;
        let mut bytes = 0;
        for (record, _) in &page.versions {
            let object = counted(&site.others, (site.id, &together), record);
            let held = object.filter(|object| is_here(&site.store, record.bucket, object));
            bytes += held.map_or(0, |object| object.size);
        }
        Ok((bytes, page.next))
    };
    tokio::task::spawn_blocking(read).await.map_err(refusal::task)?
}
