//! Tenures: how a home passes from one node of its site to another when the view of the site says that it is gone, and
//! why no two successors are ever named.
//!
//! A site of three or four nodes survives the loss of one. Its home is one of them, and decides alone; but what it
//! decides is answered only when all nodes that hold the site's writes in one view have it. A *tenure* is what those
//! nodes know of one epoch of a home: that its decisions are made that way, and, at its end, the *heir*. An heir is
//! proposed by the home itself (a planned move), or by the owner of the bucket in a view that the home is not in; it is
//! named, by the home document of the next epoch, only after the proposal was durable at all holders of one view. Whoever
//! is live in a later view has heard of it, and proposes that heir again instead of another, as in Paxos.
//!
//! Invariants: of one epoch of a home at most one heir is named; who finds an heir proposed decides nothing any more;
//! nobody proposes, decides or names who does not read the bucket for its site in the view of now. Which of several
//! proposals counts is told by the epoch of the view that it was made in. Before: `home.rs`, for homes at sites of one node.
//!
//! Why this and not decisions by whoever owns a bucket in a view: docs/decisions/2026-11-23-tenures.md.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::{BucketId, NodeId, SiteId, Vector, WallTime};

use super::home::{self, HomeCause, HomeDocument, Named};
use super::seen::{self, Blocks, Seen};
use super::system::{SystemKey, document, document_object};
use crate::object::Object;
use crate::space::{self, SpaceError};

/// What the nodes of a site know of one epoch of a home among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenureDocument {
    /// The bucket.
    pub bucket: BucketId,
    /// The home.
    pub site: SiteId,
    /// Its epoch.
    pub epoch: u64,
    /// The epoch of the site's view in which this was said.
    pub view: u64,
    /// What the home had when its tenure was opened: it may have decided some of it before decisions were made at all
    /// nodes. Who takes over has all of it.
    pub seen: Seen,
    /// Who is to be the next home, once that is proposed.
    pub heir: Option<SiteId>,
}

impl Versioned for TenureDocument {
    const NAME: &'static str = "tenure document";
    const VERSION: u8 = 1;
}

impl TenureDocument {
    /// As it is said: what it has no room for is to be written before.
    pub fn fitted(
        self,
        view: &dyn View,
        system: BucketId,
        wall: WallTime,
    ) -> Result<(Self, Blocks), SpaceError> {
        let (seen, blocks) = self.seen.fitted(view, (system, self.bucket), seen::INLINE_BYTES, wall)?;
        Ok((Self { seen, ..self }, blocks))
    }

    /// Where it lies in the system bucket, and what to put there.
    pub fn written(&self, wall: WallTime) -> (String, Object) {
        (SystemKey::Tenure(self.bucket).to_string(), document_object(self, wall))
    }
}

/// What a node knows of the view of its site, looked at where it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// This node.
    pub me: SiteId,
    /// The epoch of the view.
    pub view: u64,
    /// Whether this node reads the bucket for the site: under a lease of this view, with all that others had let in.
    pub reads: bool,
    /// Whoever fills or ever filled a seat of the site.
    pub nodes: BTreeSet<SiteId>,
    /// Who is live in it: who holds what is written but has not fetched all of it yet decides nothing.
    pub live: BTreeSet<SiteId>,
    /// Who of the live ones takes the bucket over if its home is not among them.
    pub owner: SiteId,
}

/// What is known of a home and its tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The home of the highest epoch.
    pub home: HomeDocument,
    /// What was said of it and of former ones.
    pub tenures: Vec<TenureDocument>,
    /// Whether all is here that the home must have had before it decided.
    pub is_ready: bool,
    /// What there is of it here, where an operator has said that the home is gone for good: what only that one had is gone
    /// with it, by that word.
    pub left: Option<Seen>,
}

/// What a node may do about a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Decide it in this epoch; to be answered when all holders of the view have it.
    Decide(u64),
    /// Say this first: it is the home, and has not said so to the other nodes yet.
    Open(TenureDocument),
    /// Have this at all holders of the view, then name the heir ([`Known::successor`]).
    Pass(TenureDocument),
    /// Have this one do it.
    Elsewhere(SiteId),
    /// What the home must have had has not arrived here.
    Behind,
    /// This node does not read the bucket for its site now.
    Unready,
    /// The home is gone, and never said that the others have what it decided: only an operator can replace it.
    Unopened(SiteId),
}

impl Known {
    /// What is known here; none if no home is named, and no tenure speaks for one.
    pub fn load(view: &dyn View, system: BucketId, bucket: BucketId) -> Result<Option<Self>, SpaceError> {
        let home = home::home(view, system, bucket)?;
        let mut tenures = Vec::new();
        for head in space::heads(view, system, &SystemKey::Tenure(bucket).to_string())? {
            tenures.extend(document::<TenureDocument>(&head)?.filter(|found| found.bucket == bucket));
        }
        let vector = space::vector(view, bucket)?;
        let Some(mut known) = Self::new(home, tenures, &vector) else { return Ok(None) };
        if !known.is_ready {
            known.is_ready = known.has_all(view, (system, bucket), &vector)?;
        }
        let is_gone = |document: super::SiteDocument| document.state != super::SiteState::Member;
        if super::site(view, system, known.home.site)?.is_some_and(is_gone) {
            known.left = Some(Seen::of(&vector));
        }
        // Whatever an operator said of the home: this node may lack what it had itself.
        if home::lost_some(view, system, bucket)? {
            (known.is_ready, known.left) = (false, None);
        }
        Ok(Some(known))
    }

    /// By the home document of the highest epoch that is here, and all that was said of tenures; none without either. A
    /// tenure may be here before the document of the home that opened it: that home is as good as named.
    pub fn new(home: Option<HomeDocument>, tenures: Vec<TenureDocument>, vector: &Vector) -> Option<Self> {
        let known = home.as_ref().map_or(0, |home| home.epoch);
        let later = tenures.iter().filter(|said| said.epoch > known).max_by_key(|said| said.epoch);
        let unique = home.as_ref().is_some_and(|home| home.unique);
        let implied = later.map(|said| HomeDocument {
            bucket: said.bucket,
            site: said.site,
            epoch: said.epoch,
            unique,
            seen: said.seen.clone(),
            cause: HomeCause::Moved,
        });
        let mut known = Self { home: implied.or(home)?, tenures, is_ready: true, left: None };
        let is_ready = known.needs().all(|seen| seen.is_included_in(vector));
        known.is_ready = is_ready;
        Some(known)
    }

    /// Whether all is here that it needs, some of which may be said in blocks.
    fn has_all(
        &self,
        view: &dyn View,
        of: (BucketId, BucketId),
        vector: &Vector,
    ) -> Result<bool, SpaceError> {
        for seen in self.needs() {
            if !seen.is_met(view, of, vector)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What who decides must have.
    fn needs(&self) -> impl Iterator<Item = &Seen> {
        self.tenure().map(|tenure| &tenure.seen).into_iter().chain([&self.home.seen])
    }

    /// What counts of all that was said of this epoch.
    pub fn tenure(&self) -> Option<&TenureDocument> {
        let of_now = |said: &&TenureDocument| said.epoch == self.home.epoch && said.site == self.home.site;
        self.tenures.iter().filter(of_now).max_by_key(|said| (said.view, said.heir))
    }

    /// Whether the nodes of its site, these, take this home over by themselves when it is gone.
    pub fn is_kept_by_its_site(&self, nodes: &BTreeSet<SiteId>) -> bool {
        self.tenure().is_some() || self.inherits(nodes)
    }

    /// Whether it was given by another of these nodes, and decides with them from its first decision on. Who was given it by
    /// another site may have decided alone.
    fn inherits(&self, nodes: &BTreeSet<SiteId>) -> bool {
        let gives = |said: &TenureDocument| {
            said.epoch.checked_add(1) == Some(self.home.epoch)
                && said.heir == Some(self.home.site)
                && nodes.contains(&said.site)
                && nodes.contains(&self.home.site)
        };
        self.tenures.iter().any(gives)
    }

    /// What a home says that it had when it opened its tenure: what it may have decided alone, which is among its own
    /// records, and what former homes elsewhere had decided: it waited for that itself, and the other nodes may not have it
    /// yet.
    pub fn opening(&self, nodes: &BTreeSet<SiteId>, own: &Vector) -> Seen {
        let seen = self.home.seen.clone();
        if self.inherits(nodes) { seen } else { seen.joined(&Seen::of(own)) }
    }

    /// What this node may do.
    pub fn turn(&self, within: &Within) -> Turn {
        let home = &self.home;
        if !within.nodes.contains(&home.site) {
            return Turn::Elsewhere(home.site);
        }
        let whose = if within.live.contains(&home.site) { home.site } else { within.owner };
        if whose != within.me {
            return Turn::Elsewhere(whose);
        }
        if !within.reads {
            return Turn::Unready;
        }
        if !self.is_ready && self.spares(within.me).is_none() {
            return Turn::Behind;
        }
        match self.tenure() {
            Some(tenure) if tenure.heir.is_some() => {
                Turn::Pass(self.lifted(TenureDocument { view: within.view, ..tenure.clone() }))
            }
            Some(_) if home.site == within.me => Turn::Decide(home.epoch),
            None if home.site == within.me => Turn::Open(self.opened(within)),
            _ if self.is_kept_by_its_site(&within.nodes) => Turn::Pass(self.proposed(within, within.me)),
            _ => Turn::Unopened(home.site),
        }
    }

    /// What this node may do where the home is to be given to `to`. An heir that was proposed already stays the heir; a
    /// home that has not opened its tenure does so first, because that says what it decided alone.
    pub fn give(&self, within: &Within, to: SiteId) -> Turn {
        match self.turn(within) {
            Turn::Decide(_) => Turn::Pass(self.proposed(within, to)),
            other => other,
        }
    }

    /// The home that is gone for good, where that spares this node to wait for what the home knew and is not here. What others have
    /// of it is to be heard first: it may have been theirs before. Who is said to be gone and is not has no word of its own that
    /// would spare it.
    pub fn spares(&self, me: SiteId) -> Option<SiteId> {
        let is_spared = self.left.is_some() && !self.is_ready && self.home.site != me;
        is_spared.then_some(self.home.site)
    }

    fn opened(&self, within: &Within) -> TenureDocument {
        let HomeDocument { bucket, site, epoch, .. } = self.home;
        TenureDocument { bucket, site, epoch, view: within.view, seen: self.home.seen.clone(), heir: None }
    }

    fn proposed(&self, within: &Within, heir: SiteId) -> TenureDocument {
        let tenure = self.tenure().cloned().unwrap_or_else(|| self.opened(within));
        self.lifted(TenureDocument { view: within.view, heir: Some(heir), ..tenure })
    }

    /// Nobody waits for what only a home had that is gone for good.
    fn lifted(&self, said: TenureDocument) -> TenureDocument {
        let left = self.left.clone().filter(|_| !self.is_ready);
        TenureDocument { seen: left.unwrap_or(said.seen), ..said }
    }

    /// The home that follows once a tenure with an heir was durable at all holders of one view; none if it was named
    /// already, or no epoch is left. `seen` is what it waits for: see [`awaited`].
    pub fn successor(&self, passed: &TenureDocument, seen: Seen) -> Option<HomeDocument> {
        let is_of_now = passed.epoch == self.home.epoch && passed.site == self.home.site;
        let site = passed.heir.filter(|_| is_of_now)?;
        let (epoch, cause) = (self.home.epoch.checked_add(1)?, HomeCause::Moved);
        Some(HomeDocument { site, epoch, seen, cause, ..self.home.clone() })
    }
}

/// What an heir waits for before it decides: one elsewhere, all that who names it has of the bucket. One among the nodes
/// has what was decided since the tenure was opened, as all that are live do; more may have been lost with the home.
pub fn awaited(passed: &TenureDocument, nodes: &BTreeSet<SiteId>, vector: &Vector) -> Seen {
    let is_fellow = passed.heir.is_some_and(|heir| nodes.contains(&heir));
    if is_fellow { passed.seen.clone() } else { Seen::of(vector) }
}

/// What a home says when it opens its tenure; with what is to be written before.
pub fn open(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    (within, wall): (&Within, WallTime),
) -> Result<Option<(TenureDocument, Blocks)>, SpaceError> {
    let Some(known) = Known::load(view, system, bucket)? else { return Ok(None) };
    let Turn::Open(tenure) = known.turn(within) else { return Ok(None) };
    let nodes: BTreeSet<NodeId> = super::site(view, system, within.me)?
        .into_iter()
        .flat_map(|document| document.nodes)
        .map(|entry| entry.node)
        .collect();
    let vector = space::vector(view, bucket)?;
    let own: Vector = vector.iter().filter(|(origin, _)| nodes.contains(&origin.node)).collect();
    let opened = TenureDocument { seen: known.opening(&within.nodes, &own), ..tenure };
    opened.fitted(view, system, wall).map(Some)
}

/// The document that names the heir of a tenure which was durable at all holders of one view; none if somebody has
/// done so. An error if decisions lie here that the vector does not cover: an heir elsewhere would not wait for them.
pub fn name_heir(
    view: &dyn View,
    system: BucketId,
    passed: &TenureDocument,
    (within, wall): (&Within, WallTime),
) -> Result<Result<Option<Named>, DecisionsAhead>, SpaceError> {
    let bucket = passed.bucket;
    let Some(known) = Known::load(view, system, bucket)? else { return Ok(Ok(None)) };
    let goes_elsewhere = passed.heir.is_some_and(|heir| !within.nodes.contains(&heir));
    if goes_elsewhere && (home::lost_some(view, system, bucket)? || is_ahead(view, system, bucket, within)?) {
        return Ok(Err(DecisionsAhead));
    }
    let seen = awaited(passed, &within.nodes, &space::vector(view, bucket)?);
    let successor = known.successor(passed, seen);
    Ok(Ok(successor.map(|successor| Named::fitted(view, system, successor, wall)).transpose()?))
}

/// Decisions of another node are here ahead of what the vector covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decisions of a node that is away are here ahead of what that node wrote before them")]
pub struct DecisionsAhead;

/// Records of one origin that are looked through at once.
const PAGE: usize = 256 << 10;

/// Whether an heir elsewhere would not wait for something that was decided. Of the register that is whatever a node of its
/// site wrote into the system bucket: also of a home document that was replaced by a later one only its mark may be left.
fn is_ahead(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    within: &Within,
) -> Result<bool, SpaceError> {
    if bucket != system {
        return has_decisions_ahead(view, bucket);
    }
    let marked = space::marked(view, system)?;
    for node in &within.nodes {
        let nodes = super::site(view, system, *node)?.into_iter().flat_map(|document| document.nodes);
        if nodes.into_iter().any(|entry| marked.iter().any(|origin| origin.node == entry.node)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether decisions lie here ahead of what the vector covers: an heir elsewhere would not wait for them. A home is not given
/// to another site while that is so, because an heir that is proposed and cannot be named stays the heir.
pub fn has_decisions_ahead(view: &dyn View, bucket: BucketId) -> Result<bool, SpaceError> {
    for origin in space::marked(view, bucket)? {
        let mut from = space::vector_entry(view, bucket, origin)?;
        while from < u64::MAX {
            let first = skerry_base::Dot { origin, seq: from + 1 };
            let (items, upto) = space::records_in(view, bucket, (first, u64::MAX), &BTreeSet::new(), PAGE)?;
            if items.iter().any(|item| !item.spent && item.record.home.is_some()) {
                return Ok(true);
            }
            if items.is_empty() {
                break;
            }
            from = upto;
        }
    }
    Ok(false)
}

#[cfg(test)]
#[path = "tenure_tests.rs"]
mod tests;
