//! At a site of three or four nodes: opens the tenures of the homes that this node is, and passes on those that it takes over
//! from a node that is gone, or that somebody began to pass on.
//!
//! Invariants: begun only where the nodes of a site keep its homes; one home at a time, so that clients who wait for theirs come in
//! between; what failed is tried again; what a client asked for meanwhile is found done; a look follows what can be seen: the
//! view and the roster are followed where they are kept, not by the records that speak of them.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::Instant;
use skerry_gateway::service::Outcome;

use crate::paths::tenure;
use crate::paths::tenure::due::{self, Homes, Sight};
use crate::site::Site;
use crate::tasks::rest;

/// Between two looks through the homes while something is to be done.
const SOON: Duration = Duration::from_millis(250);
/// Twice as long each time while nothing comes of it, up to …
const LATER: Duration = Duration::from_secs(8);
/// Otherwise a look follows a change of the view, of the roster or of the system bucket, or this: then at all homes, should a
/// change have been missed.
const WHOLE: Duration = Duration::from_secs(600);

/// What a look was made by.
struct Looked {
    homes: Homes,
    /// Which view of the site, and which roster.
    by: (Option<u64>, u64),
    /// When everything was looked at.
    whole: Instant,
}

/// Runs until the server stops.
pub(super) async fn work(site: Arc<Site>) {
    let (mut turning, mut changes) = (site.nodes.turning(), site.changes.follow_system());
    let mut belonging = site.changes.follow_belonging();
    let (mut pause, mut looked) = (SOON, None::<Looked>);
    loop {
        // Not more often, however much there is to be heard.
        rest(SOON).await;
        if !site.is_leased() {
            continue;
        }
        // What changes from here on is seen by this look, or wakes for the next.
        changes.mark_unchanged();
        let by = (*turning.borrow_and_update(), *belonging.borrow_and_update());
        let now = site.clock.now();
        let before = looked.take().filter(|looked| now.since(looked.whole) < WHOLE);
        looked = match turn(&site, before, by, now).await {
            Ok(looked) => Some(looked),
            Err(error) => {
                tracing::warn!(%error, "the homes of this site could not be looked through");
                None
            }
        };
        let is_done = looked.as_ref().is_some_and(|looked| !looked.homes.wait());
        pause = if is_done { SOON } else { LATER.min(pause * 2) };
        let news = async {
            tokio::select! {
                turned = turning.changed() => turned.is_ok(),
                changed = changes.changed() => changed.is_ok(),
                changed = belonging.changed() => changed.is_ok(),
            }
        };
        match tokio::time::timeout(if is_done { WHOLE } else { pause }, news).await {
            Ok(false) => return,
            Ok(true) => pause = SOON,
            Err(_) => {}
        }
    }
}

/// A look, and what follows from it.
async fn turn(
    site: &Arc<Site>,
    before: Option<Looked>,
    by: (Option<u64>, u64),
    now: Instant,
) -> Outcome<Looked> {
    let sight = match &before {
        // Who the nodes of this site are, and were, decides which homes are its own.
        None => Sight::All,
        Some(looked) if looked.by.1 != by.1 => Sight::All,
        Some(looked) if looked.by.0 != by.0 => Sight::Ours,
        Some(_) => Sight::Said,
    };
    let whole = before.as_ref().filter(|_| sight != Sight::All).map_or(now, |looked| looked.whole);
    let due = due::look(site, before.map(|looked| looked.homes).unwrap_or_default(), sight).await?;
    let mut looked = Looked { homes: due.homes, by, whole };
    let view = site.nodes.epoch();
    for (bucket, turn) in due.steps {
        // However it ends: the next look sees what came of it.
        looked.homes.waits(bucket);
        // In another view it may be another node's.
        if site.nodes.epoch() != view {
            continue;
        }
        if let Err(error) = tenure::step(site, bucket, turn).await {
            tracing::debug!(%bucket, %error, "a home was not passed on; it is tried again");
        }
        tokio::task::yield_now().await;
    }
    Ok(looked)
}
