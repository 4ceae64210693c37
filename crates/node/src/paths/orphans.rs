//! Buckets whose complete members are all lost: those who were joining hold what there is, and have nobody to wait for.
//!
//! Before: `members::complete`, now and then for each bucket that is still being joined. Invariants: only an operator's
//! word (`declare-lost`, `expel`) makes a site count as lost, unless it is linked; every other site must be linked and have said itself that it is no
//! member, or is joining as well, and what the latter have seen must be known, and here; nothing may have come meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector};
use skerry_federation::departure::Standing;
use skerry_model::space;

use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};

/// How long another site may take to say what it is to the bucket.
const SAY: Duration = Duration::from_secs(5);

/// What was here of such buckets when it was looked last.
#[derive(Default)]
pub(super) struct Orphans(BTreeMap<BucketId, Vector>);

impl Orphans {
    /// Whether this site may take itself for a complete member: nobody is there who could be one, as at the look before,
    /// and nothing came since.
    pub(super) async fn settle(&mut self, site: &Arc<Site>, bucket: BucketId) -> bool {
        let Some(own) = orphaned(site, bucket).await else {
            self.0.remove(&bucket);
            return false;
        };
        let before = self.0.insert(bucket, own.clone());
        let settled = before == Some(own);
        if settled {
            self.0.remove(&bucket);
            tracing::warn!(%bucket, "all complete members are lost; those that were joining hold what there is");
        }
        settled
    }
}

/// What this site has seen of a bucket that has no complete member but lost ones.
pub(crate) async fn orphaned(site: &Arc<Site>, bucket: BucketId) -> Option<Vector> {
    let lost = site.copies.lost();
    if lost.is_empty() {
        return None;
    }
    let known = site
        .drive
        .ask(move |machine, _| (machine.strangers(bucket), machine.members(bucket), machine.seen(bucket)));
    let (strangers, members, seen) = known.await?;
    let own = site.read(move |view: &dyn View| space::vector(view, bucket).map_err(unreadable)).await.ok()?;
    let seen: BTreeMap<SiteId, Vector> = seen.into_iter().collect();
    for other in site.peers.roster.all().into_keys().filter(|other| *other != site.id) {
        let is_out = strangers.contains(&other) && !members.contains(&other);
        match (lost.contains(&other), site.linked(other)) {
            (true, false) => continue,
            (false, true) if is_out => continue,
            (false, true) => {}
            // Who is back is lost no more, and may have it all. What somebody said who is silent now may be so no more.
            (true, true) | (false, false) => return None,
        }
        // An empty vector is of who has said nothing yet.
        let has_all = seen.get(&other).is_some_and(|seen| !seen.is_empty() && own.includes(seen));
        if !has_all || !joins_too(site, bucket, other).await {
            return None;
        }
    }
    Some(own)
}

/// Whether another member says that it has not yet taken what others have.
async fn joins_too(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> bool {
    let request = Request::Standing { bucket };
    let asked = tokio::time::timeout(SAY, site.peers.call(other, &request)).await;
    let Ok(Ok(answer)) = asked else { return false };
    matches!(answer.response, Response::Standing(standing) if *standing == Standing::Joins)
}
