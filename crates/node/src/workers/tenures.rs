//! At a site of three or four nodes: opens the tenures of the homes that this node is, and passes on those that it takes over
//! from a node that is gone, or that somebody began to pass on.
//!
//! Invariants: begun only where the nodes of a site keep its homes; one home at a time, so that clients who wait for theirs come in
//! between; what failed is tried again; what a client asked for meanwhile is found done.

use std::sync::Arc;
use std::time::Duration;

use crate::paths::tenure;
use crate::site::Site;
use crate::tasks::rest;

/// Between two looks through the homes while something is to be done.
const SOON: Duration = Duration::from_millis(250);
/// Twice as long each time while nothing comes of it, up to …
const LATER: Duration = Duration::from_secs(8);
/// Otherwise a look follows a change of the view or of the system bucket, or this.
const IDLE: Duration = Duration::from_secs(60);

/// Runs until the server stops.
pub(super) async fn work(site: Arc<Site>) {
    let (mut turning, mut changes) = (site.nodes.turning(), site.changes.follow_system());
    let mut pause = SOON;
    loop {
        // Not more often, however much there is to be heard.
        rest(SOON).await;
        if !site.is_leased() {
            continue;
        }
        turning.mark_unchanged();
        changes.mark_unchanged();
        let is_done = match turn(&site).await {
            Ok(is_done) => is_done,
            Err(error) => {
                tracing::warn!(%error, "the homes of this site could not be looked through");
                false
            }
        };
        pause = if is_done { SOON } else { LATER.min(pause * 2) };
        let news = async {
            tokio::select! {
                turned = turning.changed() => turned.is_ok(),
                changed = changes.changed() => changed.is_ok(),
            }
        };
        match tokio::time::timeout(if is_done { IDLE } else { pause }, news).await {
            Ok(false) => return,
            Ok(true) => pause = SOON,
            Err(_) => {}
        }
    }
}

/// Whether nothing is left to be done.
async fn turn(site: &Arc<Site>) -> skerry_gateway::service::Outcome<bool> {
    let due = tenure::due(site).await?;
    let mut is_done = due.steps.is_empty() && !due.waits;
    let view = site.nodes.epoch();
    for (bucket, turn) in due.steps {
        // In another view it may be another node's.
        if site.nodes.epoch() != view {
            return Ok(false);
        }
        if let Err(error) = tenure::step(site, bucket, turn).await {
            tracing::debug!(%bucket, %error, "a home was not passed on; it is tried again");
            is_done = false;
        }
        tokio::task::yield_now().await;
    }
    Ok(is_done)
}
