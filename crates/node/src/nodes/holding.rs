//! Holding what another node of this site writes: its version, durable here, within the epoch that it asked in.
//!
//! Before: [`super::talk`] with a question of a node that fills a seat. After: [`crate::paths::scope`], where versions are
//! held for other sites as well. Invariants: nothing is let in, and nothing is answered for, in another epoch than was
//! asked for; what this node may not keep (residency, `join = never`) it answers for all the same, and then does not
//! read that bucket for the site; but nothing that a decision rests on: whoever decides next would not find it here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId};
use skerry_federation::budget::Class;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::{Record, space};

use super::ask::Told;
use crate::duties::Act;
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::paths::scope::{self, Terms};
use crate::peers::message::{Hold, Response};
use crate::peers::serve::Asker;
use crate::site::{Site, entry, unreadable};

/// How long a large body is taken before it is said how far that is: within the patience of a site.
const TURN: Duration = Duration::from_millis(500);
/// How long this node may take to hear of a view that the asker is in.
const TURNED: Duration = Duration::from_millis(200);
/// How long the claim of a bucket that was just made may take to arrive by itself.
const CLAIM: Duration = Duration::from_millis(300);

/// Within one epoch only. Asked on the commit thread.
#[derive(Clone)]
pub(crate) struct Fence {
    site: Arc<Site>,
    /// Who asked.
    from: SiteId,
    epoch: u64,
}

impl Fence {
    /// Refuses in any other epoch, and whoever has lost its seat: this node may have taken over what that one decided.
    pub(crate) fn check(&self) -> Outcome<()> {
        let nodes = &self.site.nodes;
        let seat = self.site.peers.roster.seat(nodes.site, self.from);
        let is_seated = seat.is_some_and(|seat| nodes.all.without(nodes.me).contains(seat));
        match is_seated && nodes.may_hold(self.epoch) {
            true => Ok(()),
            false => Err(ServiceError::new(ErrorKind::Unavailable, "the view of this site is another one")),
        }
    }
}

/// Holds a version for another node.
pub(super) async fn hold(
    site: &Arc<Site>,
    from: SiteId,
    (epoch, is_bound): (Option<u64>, bool),
    hold: Hold,
) -> Outcome<Told> {
    if let Some(epoch) = epoch {
        site.nodes.turns(epoch, TURNED).await;
    }
    let fence = epoch.map(|epoch| Fence { site: site.clone(), from, epoch });
    let bucket = claimed(site, hold.bucket).await?;
    if let Some(why) = why_not(site, &bucket) {
        if is_bound {
            return Ok(Told::Never(why));
        }
        site.excuse(bucket.id).await?;
        fence.iter().try_for_each(Fence::check)?;
        return Ok(Told::Held);
    }
    let terms = Terms { fence, turn: Some(TURN), copies: 0 };
    Ok(match scope::hold_on(site, Asker::plain(from, Class::Read), hold, terms).await? {
        Response::Holding(bytes) => Told::Holding(bytes),
        _ => Told::Held,
    })
}

/// Has records durable on which a decision of another node rests.
pub(super) async fn have(
    site: &Arc<Site>,
    (from, epoch): (SiteId, u64),
    bucket: BucketId,
    records: Vec<Bytes>,
) -> Outcome<Told> {
    site.nodes.turns(epoch, TURNED).await;
    let fence = Fence { site: site.clone(), from, epoch };
    fence.check()?;
    // What the nodes agree on about a home is held whatever else is.
    if bucket != site.system {
        if let Some(why) = why_not(site, &claimed(site, bucket).await?) {
            return Ok(Told::Never(why));
        }
        site.duties.check(Act::Hold)?;
        site.join(bucket).await?;
    }
    let mut admitted = Vec::new();
    for bytes in &records {
        let record = Record::admit(bytes).map_err(refusal::malformed)?;
        if record.bucket != bucket {
            return Err(refusal::malformed("a record of another bucket"));
        }
        admitted.push(record);
    }
    let life = site.stamps.origin_of(bucket);
    let (stamps, within) = (site.stamps.clone(), fence.clone());
    let propose = move |view: &dyn View| {
        within.check()?;
        if stamps.is_out(bucket) {
            return Err(refusal::just_left());
        }
        let kept = space::keep(view, bucket, admitted).map_err(unreadable)?;
        Ok(((), kept.iter().map(entry).collect()))
    };
    site.commit(bucket, (), propose).await?;
    // What was here before may have been answered before it was on disk.
    site.settle_lazy().await?;
    if bucket != site.system {
        scope::stays(site, bucket, life)?;
    }
    fence.check()?;
    Ok(Told::Held)
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
    why_not(site, bucket).is_none()
}

fn why_not(site: &Site, bucket: &Bucket) -> Option<String> {
    let may = bucket.check_residency(site).and_then(|()| site.check_takes(bucket));
    may.err().map(|error| error.message().to_owned())
}
