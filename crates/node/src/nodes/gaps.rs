//! Which buckets this node does not read for its site ([`Gaps`]), in memory and on its disk: one entry each.
//!
//! Invariants: nothing is answered for that is not kept here before the gap is durable; that this node has fetched what
//! another has is said after its gaps are durable; who is asked says its gaps before it says what it holds, so that they
//! are none less than it had then.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, NodeId};
use skerry_federation::site_view::{self, Fetched, Gaps, Seat};
use skerry_gateway::service::Outcome;
use skerry_model::space::SpaceError;

use super::ask::{Ask, Told, ask};
use super::catch_up::{PATIENCE, check};
use super::{Nodes, lock};
use crate::drive::stored::{Stored, forget, say};
use crate::paths::refusal;
use crate::site::{Site, entry};

/// What another node said of itself before it said what it holds.
pub(super) struct Said {
    view: site_view::View,
    from: Seat,
    since: u64,
    gaps: BTreeSet<BucketId>,
}

/// Those that are stored.
pub(super) fn read(view: &dyn View) -> Result<BTreeSet<BucketId>, SpaceError> {
    let mut found = BTreeSet::new();
    view.scan_prefix(Table::Local, Stored::Gap.prefix(), &mut |key, _| {
        found.extend(Stored::Gap.bucket(key));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

impl Nodes {
    /// Whether this node may lack what the site has acknowledged of a bucket.
    pub(crate) fn has_gap(&self, bucket: BucketId) -> bool {
        lock(&self.gaps).contain(bucket)
    }

    /// The seats that somebody fills.
    fn filled(&self, site: &Site) -> site_view::Seats {
        self.all.iter().filter(|seat| site.peers.roster.holder(self.site, *seat).is_some()).collect()
    }
}

impl Site {
    /// Whether something that this node follows is a gap: whoever has it is then asked for all of it.
    pub(super) fn follows_gaps(&self) -> bool {
        lock(&self.nodes.gaps).all().into_iter().any(|bucket| self.is_member(bucket))
    }

    /// This node answers for what is written into a bucket without keeping it, or lets go of what it had.
    pub(crate) async fn excuse(&self, bucket: BucketId) -> Outcome<()> {
        if !self.nodes.are_several() {
            return Ok(());
        }
        lock(&self.nodes.gaps).open(bucket);
        self.store_gaps().await
    }

    /// Has the disk say what the memory says.
    async fn store_gaps(&self) -> Outcome<()> {
        let mut stored = self.nodes.stored_gaps.lock().await;
        let now = lock(&self.nodes.gaps).all();
        let opened = now.difference(&stored).map(|bucket| say(Stored::Gap, *bucket));
        let closed = stored.difference(&now).map(|bucket| forget(Stored::Gap, *bucket));
        // A full disk must not end a site's view.
        let entries: Vec<_> = opened.chain(closed).map(|of| entry(&of).freeing()).collect();
        if !entries.is_empty() {
            self.commit(self.system, (), move |_| Ok(((), entries))).await?;
        }
        *stored = now;
        Ok(())
    }
}

/// Asks a node for its gaps, in this epoch.
pub(super) async fn asked(site: &Site, (from, node): (Seat, NodeId), epoch: u64) -> Outcome<Said> {
    let nodes = &site.nodes;
    let view = lock(&nodes.shown).view.filter(|view| view.epoch == epoch);
    let view = view.ok_or_else(|| refusal::unreachable("this node is in another view"))?;
    let since = lock(&nodes.gaps).turn();
    let told = ask(site, node, Ask::Gaps { epoch }, PATIENCE).await;
    match told.map_err(|error| refusal::unreachable(error.to_string()))? {
        Told::Gaps(gaps) => Ok(Said { view, from, since, gaps: gaps.into_iter().collect() }),
        Told::Not(why) => Err(refusal::unreachable(why)),
        _ => Err(refusal::unreachable("it answered something else")),
    }
}

/// All that it holds is durable here, but for what is not kept here.
pub(super) async fn fetched(site: &Site, said: Said, unkept: &BTreeSet<BucketId>) -> Outcome<()> {
    let nodes = &site.nodes;
    let Said { view, from, since, gaps } = said;
    let (me, filled) = (nodes.me, nodes.filled(site));
    let of = Fetched { view: &view, me, filled, from, since, theirs: &gaps, unkept };
    lock(&nodes.gaps).fetch(of);
    site.store_gaps().await
}

/// Says what the gaps are here, in this epoch.
pub(super) async fn answer(site: &Site, epoch: u64) -> Outcome<Told> {
    site.nodes.turns(epoch, super::catch_up::TURNED).await;
    check(&site.nodes, epoch)?;
    Ok(Told::Gaps(lock(&site.nodes.gaps).all().into_iter().collect()))
}

/// As the disk left them.
pub(super) fn begin(stored: &BTreeSet<BucketId>) -> Gaps {
    Gaps::new(stored.clone())
}
