//! Holding what another node of this site writes: its version, durable here, within the epoch that it asked in.
//!
//! Before: [`super::talk`] with a question of a node that fills a seat. After: [`crate::paths::scope`], where versions are
//! held for other sites as well. Invariants: nothing is let in, and nothing is answered for, in another epoch than was
//! asked for; what this node may not keep (residency, `join = never`) it answers for all the same, and then never reads
//! that bucket for the site.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::{BucketId, SiteId};
use skerry_federation::budget::Class;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};

use super::Nodes;
use super::ask::Told;
use crate::paths::bucket::Bucket;
use crate::paths::scope::{self, Terms};
use crate::peers::message::{Hold, Response};
use crate::peers::serve::Asker;
use crate::site::Site;

/// How long a large body is taken before it is said how far that is: within the patience of a site.
const TURN: Duration = Duration::from_millis(500);
/// How long this node may take to hear of a view that the asker is in.
const TURNED: Duration = Duration::from_millis(200);
/// How long the claim of a bucket that was just made may take to arrive by itself.
const CLAIM: Duration = Duration::from_millis(300);

/// Within one epoch only. Asked on the commit thread.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    nodes: Arc<Nodes>,
    epoch: u64,
}

impl Fence {
    /// Refuses in any other epoch.
    pub(crate) fn check(&self) -> Outcome<()> {
        match self.nodes.may_hold(self.epoch) {
            true => Ok(()),
            false => Err(ServiceError::new(ErrorKind::Unavailable, "the view of this site is another one")),
        }
    }
}

/// Holds a version for another node.
pub(super) async fn hold(site: &Arc<Site>, from: SiteId, epoch: Option<u64>, hold: Hold) -> Outcome<Told> {
    if let Some(epoch) = epoch {
        site.nodes.turns(epoch, TURNED).await;
    }
    let fence = epoch.map(|epoch| Fence { nodes: site.nodes.clone(), epoch });
    let bucket = claimed(site, hold.bucket).await?;
    if !keeps(site, &bucket) {
        site.nodes.excuse(bucket.id);
        fence.iter().try_for_each(Fence::check)?;
        return Ok(Told::Held);
    }
    let terms = Terms { fence, turn: TURN };
    Ok(match scope::hold_on(site, Asker::plain(from, Class::Read), hold, terms).await? {
        Response::Holding(bytes) => Told::Holding(bytes),
        _ => Told::Held,
    })
}

/// The bucket; its claim may be on its way.
async fn claimed(site: &Arc<Site>, id: BucketId) -> Outcome<Bucket> {
    let mut changes = site.changes.follow_system();
    let arrives = async {
        loop {
            changes.mark_unchanged();
            match site.bucket_of(id).await {
                Ok(None) if changes.changed().await.is_ok() => {}
                found => return found,
            }
        }
    };
    match tokio::time::timeout(CLAIM, arrives).await {
        Ok(found) => found?.ok_or_else(|| ServiceError::no_such_bucket(&id.to_string())),
        Err(_) => scope::claimed(site, id).await,
    }
}

/// Whether this node keeps what is written into a bucket.
pub(super) fn keeps(site: &Site, bucket: &Bucket) -> bool {
    bucket.check_residency(site).is_ok() && site.check_takes(bucket).is_ok()
}
