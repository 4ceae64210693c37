//! Sites that were declared lost while a bucket was begun anew, and that come back after it was whole.
//!
//! What they alone have of what was lost here is nowhere, as this site says since. So they are kept out
//! ([`crate::peers::kept_out`]) until this process is started anew ([`crate::server::Core::begins_anew`]), which takes the
//! buckets' vectors back once more and hears them. In the same process it is not done: all that was counted and told on these
//! vectors would have to be found and taken back, which a start does by itself.
//!
//! Invariants: whoever is passed over is kept out before the bucket is said to be whole; that it came back is durable before
//! the process ends; who came back is waited for [`WAITED`], whatever its operator says, and after it as everybody.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::space::{self, SpaceError, Unheard};
use tokio::sync::watch;

use crate::site::{Site, entry, unreadable};
use crate::tasks::rest;

/// How long a start waits for sites that came back, where they are still declared lost.
const WAITED: Duration = Duration::from_secs(600);

/// As the store says at the start: who is kept out, and who came back to be heard.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) out: BTreeSet<SiteId>,
    pub(super) back: BTreeSet<SiteId>,
}

impl Known {
    pub(super) fn read(view: &dyn View) -> Result<Self, SpaceError> {
        let mut known = Self::default();
        for of in space::all_unheard(view)?.into_values() {
            let to = if of.is_back { &mut known.back } else { &mut known.out };
            to.extend(of.sites);
        }
        Ok(known)
    }
}

/// The buckets that are to be begun anew, as somebody came back whom they had not waited for.
pub(super) fn due(view: &dyn View) -> Result<BTreeSet<BucketId>, SpaceError> {
    let mut due = BTreeSet::new();
    for (bucket, _) in space::all_unheard(view)?.into_iter().filter(|(_, of)| of.is_back) {
        due.extend((!space::is_anew(view, bucket)?).then_some(bucket));
    }
    Ok(due)
}

/// Whom a bucket passes over that is whole now. From here on they are kept out; none where one of them was linked before that:
/// it is heard like all others.
pub(super) fn pass_over(site: &Site, bucket: BucketId) -> Option<BTreeSet<SiteId>> {
    let others = site.peers.roster.all().into_keys().filter(|other| *other != site.id);
    let unheard: BTreeSet<SiteId> = site.anew.state().waits(bucket, others).into_iter().collect();
    let new: BTreeSet<SiteId> = unheard.difference(&site.peers.kept_out.all()).copied().collect();
    site.peers.kept_out.add(&new);
    let is_linked = new.iter().any(|other| site.linked(*other));
    if is_linked {
        site.peers.kept_out.spare(&new);
    }
    (!is_linked).then_some(unheard)
}

/// The entry that says whom a whole bucket passed over.
pub(super) fn passed_over(bucket: BucketId, sites: BTreeSet<SiteId>) -> skerry_model::Entry {
    let of = Unheard { sites, is_back: false };
    space::unheard(bucket, Some(&of).filter(|of| !of.sites.is_empty()))
}

/// Sees that this process is started anew once one of those is back, by a link or by its operator's word. Never ends.
pub(super) async fn heed(site: &Arc<Site>, begins: &watch::Sender<bool>) {
    let (mut kept, mut belonging) = (site.peers.kept_out.follow(), site.changes.follow_belonging());
    loop {
        kept.mark_unchanged();
        belonging.mark_unchanged();
        let back = back(site);
        if !back.is_empty() {
            match remember(site, back).await {
                Ok(()) => {
                    begins.send_replace(true);
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "that a site came back that was declared lost could not be stored")
                }
            }
            rest(super::TURN).await;
            continue;
        }
        tokio::select! {
            _ = kept.changed() => {}
            _ = belonging.changed() => {}
        }
    }
}

/// Who of them is back.
fn back(site: &Site) -> BTreeSet<SiteId> {
    let (kept, losses) = (&site.peers.kept_out, site.copies.losses());
    let is_found = |other: &SiteId| losses.get(other).is_some_and(|loss| !loss.is_lost);
    let mut back = kept.came();
    back.extend(kept.all().into_iter().filter(is_found));
    back
}

async fn remember(site: &Arc<Site>, back: BTreeSet<SiteId>) -> Outcome<()> {
    let names: Vec<String> = back.iter().map(|other| site.peers.roster.name(*other)).collect();
    let propose = move |view: &dyn View| {
        let entries = space::are_back(view, &back).map_err(unreadable)?;
        Ok(((), entries.iter().map(|one| entry(one).freeing()).collect()))
    };
    site.commit_behind(site.system, propose).await?;
    tracing::error!(
        sites = names.join(", "),
        "back, and declared lost when this site went on without what its journal had lost: it starts anew, to hear it"
    );
    Ok(())
}

/// Who came back is not waited for beyond this, where nobody takes back that it is lost.
pub(super) async fn give_up(site: &Arc<Site>) {
    rest(WAITED).await;
    site.anew.back().clear();
    std::future::pending().await
}
