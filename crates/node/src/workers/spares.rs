//! Spare claims: what is known of followed buckets lies beside their memberships as well, and a claim of which nothing is left is
//! written again.
//!
//! Before: every change, looked at when claims or memberships are others. After: `skerry_model::bucket::spared`, which says what
//! to write. Invariants: nothing is written again before all other sites have been heard of the system bucket; a look takes a
//! hundredth of a processor, or what one in ten minutes takes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{lost_claim, lost_claims, spared};

use super::again;
use crate::paths::bucket::Declared;
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Rows written in one commit.
const TOGETHER: usize = 256;
/// The rest after a look: so many times what it took, and at least and at most this.
const SHARE: u32 = 100;
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// What was seen by the last look.
type Seen = (u64, Vec<BucketId>);

/// Looks after every change of what is claimed or followed.
pub(super) async fn keep(site: Arc<Site>) {
    let mut changes = site.changes.follow();
    let mut seen: Option<Seen> = None;
    loop {
        changes.mark_unchanged();
        let now = (site.changes.system_count(), site.memberships());
        // While all is begun anew nobody knows yet what is missing.
        let is_due = seen.as_ref() != Some(&now) && site.check_whole(site.system).is_ok();
        let (begun, mut is_done) = (site.clock.now(), true);
        if is_due {
            match look(&site, &now.1).await {
                Ok(()) => seen = Some(now),
                Err(error) => {
                    is_done = false;
                    tracing::warn!(%error, "spare claims were not looked after; it is tried again");
                }
            }
        }
        // Also where nothing was due: each write wakes it.
        let took = site.clock.now().since(begun);
        rest((took * SHARE).clamp(REST.0, REST.1)).await;
        if !again(&mut changes, is_done).await {
            return;
        }
    }
}

async fn look(site: &Site, followed: &[BucketId]) -> Outcome<()> {
    let (system, wall) = (site.system, site.clock.wall());
    let lost = site.read(move |view| lost_claims(view, system, wall).map_err(unreadable)).await?;
    for claimed in lost {
        write_again(site, claimed.bucket).await?;
    }
    // One that another claim overtakes is written once more by the next look.
    let followed: BTreeSet<BucketId> = followed.iter().copied().collect();
    let rows = site.read(move |view| spared(view, system, &followed).map_err(unreadable)).await?;
    for some in rows.chunks(TOGETHER) {
        site.note_down(some.to_vec()).await?;
    }
    Ok(())
}

async fn write_again(site: &Site, bucket: BucketId) -> Outcome<()> {
    let system = site.system;
    let decide = move |view: &dyn View, wall| {
        let claimed = lost_claim(view, system, bucket, wall).map_err(unreadable)?;
        Ok((claimed.is_some(), claimed.map(|claimed| Declared::claim(claimed, false))))
    };
    if site.declare("", decide).await? {
        tracing::error!(%bucket, "the claim of a bucket was lost, and is written again as this site knew it");
    }
    Ok(())
}
