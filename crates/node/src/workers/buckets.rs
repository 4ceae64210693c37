//! Buckets that were deleted while somebody wrote to them come back, and that is said loudly; the register of names
//! names the homes of new ones.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_model::bucket::{revivals, unnamed};

use super::again;
use crate::paths::bucket::Declared;
use crate::paths::home;
use crate::site::{Site, unreadable};

/// Looks after every change, as often as one look takes.
pub(super) async fn revive(site: Arc<Site>) {
    let mut changes = site.changes.follow();
    // Whoever did this before may have taken the marks and not looked.
    let mut looks = true;
    loop {
        changes.mark_unchanged();
        // Only a bucket that a feed changed can come back; own writes go to living buckets.
        looks |= !site.changes.take_dirty().is_empty();
        if looks {
            let looked = once(&site).await;
            looks = looked.is_err();
            if let Err(error) = looked {
                tracing::warn!(%error, "deleted buckets could not be looked through; it is tried again");
            }
        }
        if !again(&mut changes, !looks).await {
            return;
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
    loop {
        changes.mark_unchanged();
        let is_done = name_all(&site).await;
        if !again(&mut changes, is_done).await {
            return;
        }
    }
}

/// Whether none is left that could not be named.
async fn name_all(site: &Arc<Site>) -> bool {
    let (system, me) = (site.system, site.id);
    let found = match site.read(move |view| unnamed(view, system, me).map_err(unreadable)).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "buckets without a home could not be looked for; it is tried again");
            return false;
        }
    };
    let mut is_done = true;
    for bucket in found {
        if let Err(error) = home::name_here(site, bucket, Vec::new()).await {
            tracing::warn!(%bucket, %error, "the home of a bucket was not named; it is tried again");
            is_done = false;
        }
    }
    is_done
}
