//! Buckets come and go by claims in the system bucket, which is fed like any other.
//!
//! Clients of two owners claim, use and delete buckets of a few names at all sites, cut off or not; a worker at
//! each site brings back what a deletion had not seen, as the node's does.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, ChunkId, NodeId, SiteId, WallTime};
use skerry_model::Versioning;
use skerry_model::bucket::{
    self, BucketConfig, ClaimRefusal, Claimed, Named, NewBucket, NodeEntry, Resolved, SiteDocument,
    SiteState, SystemKey, document_object,
};
use skerry_model::object::Object;
use skerry_model::space::SpaceError;
use skerry_model::write::Ask;

use super::clients::Wish;
use super::{Bucket, Event, World};
use crate::checkers::{Violation, claims};
use crate::history::Body;
use crate::site::{Answer, Asked, lock};
use crate::trace::Who;
use skerry_scenario::clock::seconds;
use skerry_scenario::draw::{Draw, Ppm};

/// Names that clients fight for.
const NAMES: [&str; 3] = ["photos", "books", "songs"];
/// Who they are.
const OWNERS: [&str; 2] = ["anna", "bjorn"];

/// What is wanted of a claim.
#[derive(Debug, Clone)]
pub(super) enum Claim {
    /// A bucket of this name and owner.
    New { name: &'static str, owner: &'static str, site_name: String, versioned: bool },
    /// That this bucket exists no longer.
    End(&'static str),
    /// That this bucket exists again: its deletion had not seen what is in it.
    Revive(BucketId),
    /// That this bucket exists, as its spare claim says: what it had said is lost.
    Again(BucketId),
    /// That this site is known.
    Enter { joined: u64 },
    /// That this site, the first, keeps the register of names.
    Register,
    /// That the register names the home of this bucket.
    NameHome(BucketId),
    /// That this site, the home of this bucket, hands it over.
    HandOver(BucketId, SiteId),
    /// Whether this site pays for what crosses its link.
    Metered(bool),
    /// What is to be written before a home is handed over.
    Block(String, Box<Object>),
}

/// What a claim becomes at the moment of its commit.
pub(super) fn decide(
    view: &dyn View,
    system: BucketId,
    claim: &Claim,
    site: skerry_base::SiteId,
    wall: WallTime,
) -> Result<Option<Claimed>, ClaimRefusal> {
    match claim {
        Claim::New { name, owner, site_name, versioned } => {
            let versioning = if *versioned { Versioning::Enabled } else { Versioning::Off };
            let config = BucketConfig { versioning, ..BucketConfig::default() };
            let new = NewBucket { name, owner, site, site_name, config };
            bucket::claim(view, system, new, wall).map(Some)
        }
        Claim::End(name) => match bucket::resolve(view, system, name)? {
            Some(found) => bucket::unclaim(view, system, &found.claim, wall).map(first).map(Some),
            None => Ok(None),
        },
        Claim::Revive(bucket) => {
            let revivals = bucket::revivals(view, system, wall)?;
            Ok(revivals.into_iter().find(|claimed| claimed.bucket == *bucket))
        }
        Claim::Again(bucket) => Ok(bucket::lost_claim(view, system, *bucket, wall)?),
        Claim::Enter { joined } => Ok(Some(entered(system, site, *joined, wall))),
        Claim::Register => {
            let known = bucket::register(view, system)?.is_some();
            Ok((!known).then(|| written(Named::first(system, site, false, wall))))
        }
        Claim::NameHome(of) => {
            let named = bucket::name_home(view, system, *of, site, wall);
            Ok(named.ok().flatten().map(written))
        }
        Claim::HandOver(of, to) => {
            let named =
                bucket::hand_over(view, system, (*of, *to), (site, &std::collections::BTreeSet::new()), wall);
            Ok(named.ok().flatten().map(written))
        }
        Claim::Block(key, object) => {
            let (key, object) = (key.clone(), (**object).clone());
            Ok(Some(Claimed { bucket: system, key, object, blocks: Vec::new() }))
        }
        Claim::Metered(pays) => {
            let word = bucket::say_metered(view, system, (site, *pays), wall)?;
            Ok(word.map(|(key, object)| Claimed { bucket: system, key, object, blocks: Vec::new() }))
        }
    }
}

/// The document that names a home, as a claim is written.
fn written(named: Named) -> Claimed {
    let Named { document, key, object, blocks } = named;
    first(Claimed { bucket: document.bucket, key, object, blocks })
}

/// One record is written at a time here: what is to be written before another goes first, and the other is wanted again.
fn first(claimed: Claimed) -> Claimed {
    let bucket = claimed.bucket;
    match claimed.blocks.first().cloned() {
        Some((key, object)) => Claimed { bucket, key, object, blocks: Vec::new() },
        None => Claimed { blocks: Vec::new(), ..claimed },
    }
}

fn entered(system: BucketId, site: SiteId, joined: u64, wall: WallTime) -> Claimed {
    let node = NodeEntry { node: NodeId(site.0), key: [0; 32], addresses: Vec::new() };
    let document = SiteDocument {
        name: format!("site-{}", joined + 1),
        nodes: vec![node],
        admissions: Vec::new(),
        state: SiteState::Member,
        joined: WallTime(joined),
    };
    let key = SystemKey::Site(site).to_string();
    Claimed { bucket: system, key, object: document_object(&document, wall), blocks: Vec::new() }
}

/// What a claim says, as the history knows it.
pub(super) fn said(claimed: &Claimed) -> Body {
    let document = claimed.object.document.as_deref().unwrap_or_default();
    Body { hash: ChunkId::of(document), length: document.len() as u64 }
}

impl World {
    /// A client claims a name or gives it up.
    pub(super) fn claim(&mut self, (site, client): (usize, usize), draw: &mut Draw) -> bool {
        let Some(name) = draw.pick(&NAMES).copied() else { return false };
        let claim = if draw.chance(Ppm::percent(60)) {
            let owner = draw.pick(&OWNERS).copied().unwrap_or("anna");
            let versioned = draw.chance(self.environment.workload.versioned);
            Claim::New { name, owner, site_name: format!("site-{}", site + 1), versioned }
        } else {
            Claim::End(name)
        };
        self.tell(Who::Site(site), format_args!("wants {claim:?}"));
        self.count("claims");
        self.submit_claim((site, Some(client)), claim)
    }

    pub(super) fn submit_claim(&mut self, (site, client): (usize, Option<usize>), claim: Claim) -> bool {
        let system = Bucket { id: self.system, versioning: Versioning::Off };
        self.submit_write(Wish {
            site,
            asked: Asked { client, ..Asked::default() },
            bucket: system,
            key: String::new(),
            ask: Ask::Delete,
            claim: Some(claim),
            race: None,
            said: None,
            small: None,
            pins: Vec::new(),
        })
    }

    /// The buckets that a site can name, and the names it knows.
    pub(super) fn named_at(&self, site: usize) -> Vec<Resolved> {
        let Some(running) = self.running(site) else { return Vec::new() };
        bucket::list_buckets(&running.store.view(), self.system, None).unwrap_or_default()
    }

    /// Whether a site knows of a bucket: one of those that always were, or one whose claim it has.
    pub(super) fn knows(&self, site: usize, bucket: BucketId) -> bool {
        let always = self.buckets.iter().any(|known| known.id == bucket);
        always || self.named_at(site).iter().any(|known| known.claim.bucket == bucket)
    }

    /// Any bucket that a client of the site may use: one of those that always were, or a claimed one.
    pub(super) fn bucket_at(&self, site: usize, draw: &mut Draw) -> Option<Bucket> {
        let named = if draw.chance(Ppm::percent(50)) { self.named_at(site) } else { Vec::new() };
        let of_claim =
            |found: &Resolved| Bucket { id: found.claim.bucket, versioning: found.claim.config.versioning };
        draw.pick(&named).map(of_claim).or_else(|| draw.pick(&self.buckets).copied())
    }

    /// The worker of a site that brings back what a deletion had not seen.
    pub(super) fn revive(&mut self, site: usize) {
        let at = self.queue.now().after(self.draw.span(seconds(4)..=seconds(12)));
        self.queue.plan(at, Event::Revive { site });
        let now = self.queue.now();
        let Some(wall) = self.sites.get(site).map(|place| place.wall.read(now)) else { return };
        if self.environment.canary == Some(crate::canary::Canary::IdleWorker) {
            return;
        }
        let Some(running) = self.running(site) else { return };
        let revivals = bucket::revivals(&running.store.view(), self.system, wall).unwrap_or_default();
        for claimed in revivals {
            self.count("revivals");
            self.tell(Who::Site(site), format_args!("revives {}", claimed.bucket));
            self.submit_claim((site, None), Claim::Revive(claimed.bucket));
        }
        self.look_after_spares(site, wall);
        self.keep_metered(site);
        if self.environment.races && !self.resting {
            self.tend_homes(site);
        }
    }

    /// As the node's worker does: spares say what claims say, and claims of which all is lost are written again once all others
    /// have been heard of the system bucket.
    fn look_after_spares(&mut self, site: usize, wall: WallTime) {
        let system = self.system;
        let Some(running) = self.running(site).filter(|running| !running.anew.contains(system)) else {
            return;
        };
        let view = running.store.view();
        let missing = bucket::lost_claims(&view, system, wall).unwrap_or_default();
        drop(view);
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let members = running.members.clone();
        store.submit_behind(
            move |view| {
                let entries = bucket::spared(view, system, &members)?;
                let entries = entries.iter().map(|entry| skerry_storage::Entry::new(entry.encode()));
                Ok::<_, SpaceError>(((), entries.collect()))
            },
            move |_| lock(&desk).answers.push(Answer::Kept),
        );
        self.plan_pump(site);
        for claimed in missing {
            self.count("claims written again");
            self.tell(Who::Site(site), format_args!("writes the claim of {} again", claimed.bucket));
            self.submit_claim((site, None), Claim::Again(claimed.bucket));
        }
    }

    /// Names and buckets at every site, in the end.
    pub(super) fn judge_claims(&self) -> Vec<Violation> {
        let named: Vec<_> = (0..self.sites.len()).map(|site| (site, self.named_at(site))).collect();
        let mut found = claims::check_names(&named);
        let mut used = self.all_buckets();
        used.retain(|id| *id != self.system && self.buckets.iter().all(|bucket| bucket.id != *id));
        let (lost, may) = (self.unclaimed(), lock(&self.history).was_set_back());
        for (site, _) in &named {
            let Some(running) = self.running(*site) else { continue };
            found.extend(claims::check_used(*site, &running.store.view(), self.system, (&used, &lost, may)));
        }
        found
    }

    /// Buckets of which all that claims said is lost, and every spare with it.
    fn unclaimed(&self) -> BTreeSet<BucketId> {
        let buckets = self.all_buckets();
        let history = lock(&self.history);
        let claim = |bucket: &BucketId| {
            let is_of = |key: &str| matches!(SystemKey::parse(key), Some(SystemKey::Claim { bucket: of, .. }) if of == *bucket);
            history
                .writes_of(self.system)
                .values()
                .filter(|write| is_of(&write.place.1))
                .all(|write| write.is_excused())
        };
        let spared = (0..self.sites.len()).filter_map(|site| self.running(site)).flat_map(|running| {
            let missing = bucket::lost_claims(&running.store.view(), self.system, WallTime::default());
            missing.unwrap_or_default().into_iter().map(|claimed| claimed.bucket)
        });
        let spared: BTreeSet<BucketId> = spared.collect();
        buckets.into_iter().filter(|bucket| claim(bucket) && !spared.contains(bucket)).collect()
    }
}
