//! Reads that are the site's: under this node's lease, or under that of another node, which says what it has.
//!
//! Before: `paths/within.rs`. Invariants: a lease is looked at after the request came in and before the tables are read, so
//! that what is read has seen every write that the site acknowledged before the request; whoever does not keep all of a
//! bucket does not read it for the site.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::{BucketId, Instant, NodeId, SiteId, Vector};
use skerry_federation::site_view::limits::SILENCE;
use skerry_federation::site_view::{Seat, Seats};
use skerry_gateway::service::Outcome;
use skerry_model::{Record, space};

use super::ask::{Ask, Told, ask};
use super::{Nodes, lock};
use crate::paths::{heard, list, refusal, write};
use crate::peers::message::{List, Page, Which};
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// How long another node may take: a client waits, and what is here can be answered.
const PATIENCE: Duration = Duration::from_millis(500);
/// How soon it is asked again what it has seen.
const AGAIN: Duration = Duration::from_millis(20);

impl Nodes {
    /// Whether a node was heard so lately that it is worth while asking it.
    pub(super) fn is_near(&self, seat: Seat, now: Instant) -> bool {
        self.heard(seat).is_some_and(|at| now.since(at) <= SILENCE)
    }

    /// Whether writes can be the site's now, as far as this node knows: it holds them in a view, and it hears a majority of
    /// such as can.
    pub(crate) fn can_settle(&self, now: Instant) -> bool {
        let Some(view) = self.holders() else { return false };
        let voters = view.voters(self.all);
        let others = voters.iter().filter(|seat| *seat != self.me && self.is_near(*seat, now));
        let near: Seats = others.filter(|seat| !self.does_refuse(*seat)).collect();
        near.with(self.me).and(voters).len() >= voters.majority()
    }

    /// Who holds the site's writes, but this node.
    pub(crate) fn other_holders(&self) -> Seats {
        self.holders().map(|view| view.holders().without(self.me)).unwrap_or_default()
    }
}

impl Site {
    /// Whether this node may read for the site now.
    pub(crate) fn is_leased(&self) -> bool {
        let until = lock(&self.nodes.shown).reads_until;
        until.is_some_and(|until| self.clock.since_boot() < until)
    }

    /// Whether what is in the tables of a bucket from now on is what the site has.
    pub(crate) fn reads_for_site(&self, bucket: BucketId) -> bool {
        self.is_leased() && self.is_complete(bucket) && !self.nodes.has_gap(bucket)
    }

    /// Other nodes that may hold a lease, those that were heard lately.
    fn leased_others(&self) -> Vec<(SiteId, NodeId)> {
        let (nodes, now) = (&self.nodes, self.clock.since_boot());
        let live = lock(&nodes.shown).view.map(|view| view.live).unwrap_or_default();
        let near = live.without(nodes.me).iter().filter(|seat| nodes.is_near(*seat, now));
        near.filter_map(|seat| self.peers.roster.holder(nodes.site, seat)).collect()
    }
}

/// Asks the others for the heads of a key, or one version of it, until one says what it has under a lease; and which one. That
/// there is nothing is the word of one that has seen this goal.
pub(crate) async fn heads(
    site: &Arc<Site>,
    bucket: BucketId,
    key: &str,
    version: Option<space::VersionId>,
    goal: &Vector,
) -> Option<(SiteId, Vec<Record>)> {
    for (member, node) in site.leased_others() {
        // Before the question: what comes there after its answer is not in it.
        let has_seen = has_seen(site, member, bucket, goal).await;
        let question = Ask::Heads { bucket, key: key.into(), version: version.map(write::which) };
        let Ok(Told::Heads(records)) = ask(site, node, question, PATIENCE).await else { continue };
        let admitted = |bytes: &bytes::Bytes| {
            Record::admit(bytes).ok().filter(|record| record.bucket == bucket && record.key == key)
        };
        let records: Option<Vec<Record>> = records.iter().map(admitted).collect();
        if let Some(records) = records.filter(|records| has_seen || !records.is_empty()) {
            return Some((member, records));
        }
    }
    None
}

/// Asks the others for a page, those that have seen what was written here (whoever wrote through this node lists what it wrote) and
/// what the reader has seen.
pub(crate) async fn page(site: &Arc<Site>, list: &List, versions: bool, goal: &Vector) -> Option<Page> {
    let mut seen = written_here(site, list.bucket).await.ok()?;
    seen.merge(goal);
    for (member, node) in site.leased_others() {
        if !has_seen(site, member, list.bucket, &seen).await {
            continue;
        }
        let question = Ask::Page { list: list.clone(), versions };
        if let Ok(Told::Page(page)) = ask(site, node, question, PATIENCE).await {
            return Some(page);
        }
    }
    None
}

/// What this node itself wrote into a bucket, in whatever life.
async fn written_here(site: &Arc<Site>, bucket: BucketId) -> Outcome<Vector> {
    let me = site.stamps.origin.node;
    let read = move |view: &dyn skerry_base::kv::View| {
        let vector = space::vector(view, bucket).map_err(unreadable)?;
        Ok(vector.iter().filter(|(origin, _)| origin.node == me).collect())
    };
    site.read(read).await
}

/// Whether another node has seen this, or sees it in a moment: it is fed what is written here, whatever the view.
async fn has_seen(site: &Site, member: SiteId, bucket: BucketId, mine: &Vector) -> bool {
    let comes = async {
        loop {
            match heard::seen_by(site, bucket, &[member]).await {
                (seen, _) if seen.includes(mine) => return true,
                // It says nothing of a bucket that it has not all of.
                (_, 0) => return false,
                _ => rest(AGAIN).await,
            }
        }
    };
    mine.is_empty() || tokio::time::timeout(PATIENCE, comes).await.is_ok_and(|has_seen| has_seen)
}

fn check(site: &Site, bucket: BucketId) -> Outcome<()> {
    let reads = site.reads_for_site(bucket);
    reads.then_some(()).ok_or_else(|| refusal::unreachable("this node does not read that for the site now"))
}

/// Answers another node with what a key has here.
pub(super) async fn answer_heads(
    site: &Arc<Site>,
    bucket: BucketId,
    key: String,
    version: Option<Which>,
) -> Outcome<Told> {
    check(site, bucket)?;
    let read = move |view: &dyn skerry_base::kv::View| -> Outcome<Vec<Record>> {
        match version {
            None => space::heads(view, bucket, &key).map_err(unreadable),
            Some(which) => {
                let named = space::version(view, bucket, &key, list::version_of(which));
                Ok(named.map_err(unreadable)?.into_iter().collect::<Vec<_>>())
            }
        }
    };
    let records = site.read(read).await?;
    Ok(Told::Heads(records.iter().map(|record| record.encode().into()).collect()))
}

/// Answers another node with a page.
pub(super) async fn answer_page(site: &Arc<Site>, list: List, versions: bool) -> Outcome<Told> {
    check(site, list.bucket)?;
    let bucket = list.bucket;
    let page = site.read(move |view| list::local(view, &list, versions, None)).await?.page;
    // Unless it was left meanwhile: then the tables said less than there is.
    if site.is_complete(bucket) { Ok(Told::Page(page)) } else { Err(refusal::just_left()) }
}
