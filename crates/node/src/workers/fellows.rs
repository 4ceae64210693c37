//! At a site of several nodes: each node follows the buckets that another one follows, so that keys are listed and
//! found through any of them.
//!
//! Invariants: where an operator has said of this node that it does not follow a bucket, or residency keeps it away, that
//! holds; nothing is done at a site of one node.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{Joins, list_buckets};

use super::Worker;
use crate::duties::Act;
use crate::paths::bucket::Bucket;
use crate::site::{Site, unreadable};

/// Looks through the buckets now and then.
pub(super) struct Fellows(pub(super) Arc<Site>);

#[async_trait]
impl Worker for Fellows {
    async fn turn(&mut self) -> bool {
        if self.0.nodes.are_several()
            && let Err(error) = once(&self.0).await
        {
            tracing::warn!(%error, "what the other nodes of this site follow could not be looked through");
        }
        false
    }
}

async fn once(site: &Arc<Site>) -> Outcome<()> {
    let others = site.peers.roster.others(site.id);
    // One that stands still, or is emptied, takes nothing on.
    if others.is_empty() || site.duties.check(Act::Hold).is_err() {
        return Ok(());
    }
    let system = site.system;
    let buckets = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    let wanted = buckets.into_iter().map(Bucket::of).filter(|bucket| may_follow(site, bucket));
    let wanted: Vec<BucketId> = wanted.map(|bucket| bucket.id).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for bucket in followed(site, wanted, others).await {
        tracing::info!(%bucket, "another node of this site follows a bucket: so does this one");
        site.join(bucket).await?;
    }
    Ok(())
}

fn may_follow(site: &Site, bucket: &Bucket) -> bool {
    let is_told = matches!(site.joins_here(bucket.id), Some(Joins::Manual | Joins::Never));
    !site.is_member(bucket.id) && !is_told && site.joins(bucket) != Joins::Never && bucket.may_lie_at(site.id)
}

/// Those that one of the others is a member of, as far as is known here.
async fn followed(site: &Site, of: Vec<BucketId>, others: BTreeSet<SiteId>) -> Vec<BucketId> {
    let find = site.drive.ask(move |machine, _| {
        let is_there =
            |bucket: &BucketId| machine.members(*bucket).into_iter().any(|one| others.contains(&one));
        of.into_iter().filter(is_there).collect::<Vec<_>>()
    });
    find.await.unwrap_or_default()
}
