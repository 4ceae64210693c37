//! Buckets that were deleted while somebody wrote to them come back, and that is said loudly; the register of names
//! names the homes of new ones.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_model::bucket::{revivals, unnamed};

use crate::paths::bucket::Declared;
use crate::paths::home;
use crate::site::{Site, unreadable};

/// Looks after every change, as often as one look takes.
pub(super) async fn revive(site: Arc<Site>) {
    let mut changes = site.changes.follow();
    changes.mark_changed();
    // Whoever did this before may have taken the marks and not looked.
    let mut looks = true;
    while changes.changed().await.is_ok() {
        // Only a bucket that a feed changed can come back; own writes go to living buckets.
        looks |= !site.changes.take_dirty().is_empty();
        if !std::mem::take(&mut looks) {
            continue;
        }
        if let Err(error) = once(&site).await {
            tracing::warn!(%error, "deleted buckets could not be looked through");
        }
    }
}

async fn once(site: &Arc<Site>) -> skerry_gateway::service::Outcome<()> {
    let system = site.system;
    let wall = site.clock.wall();
    let found = site.read(move |view| revivals(view, system, wall).map_err(unreadable)).await?;
    for claimed in found {
        let bucket = claimed.bucket;
        let decide = move |view: &dyn View, wall| {
            let again = revivals(view, system, wall).map_err(unreadable)?;
            let claimed = again.into_iter().find(|claimed| claimed.bucket == bucket);
            let revived = claimed.is_some();
            Ok((revived, claimed.map(|claimed| Declared::claim(claimed, false))))
        };
        if site.declare("", decide).await? {
            tracing::warn!(%bucket, "a deleted bucket is back: somebody wrote to it before hearing of the deletion");
        }
    }
    Ok(())
}

/// At the site that keeps the register: names a home for every bucket that it hears of.
pub(super) async fn name_homes(site: Arc<Site>) {
    let mut changes = site.changes.follow_system();
    changes.mark_changed();
    while changes.changed().await.is_ok() {
        let (system, me) = (site.system, site.id);
        let found = site.read(move |view| unnamed(view, system, me).map_err(unreadable)).await;
        for bucket in found.unwrap_or_default() {
            if let Err(error) = home::name_here(&site, bucket, Vec::new()).await {
                tracing::warn!(%bucket, %error, "the home of a bucket was not named");
            }
        }
    }
}
