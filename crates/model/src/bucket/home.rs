//! Homes: which site decides the conditional operations of a bucket, and since when nobody can doubt it.
//!
//! Two cut islands that make the same bucket each take themselves for its home. So a claim alone lets nobody decide:
//! a home is *named* by a document of the system bucket, and each document is written by the one site that may. The
//! home of the system bucket is the *register of names*: it names the first home of every other bucket, in the order
//! of its commits. A named home names its successor and decides nothing afterwards; a home that is lost for good is
//! replaced by the register, on an operator's word. A home at a site of several nodes passes from one to another of them
//! by itself: `tenure.rs`.
//!
//! Invariants: epochs of a bucket rise by one and each is given by one site in one commit, so two sites never decide
//! in the same epoch; a successor decides nothing before it has all that its predecessor had; what is not named is
//! refused, never guessed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector, WallTime};

use super::seen::{self, Blocks, Seen};
use super::system::{SystemKey, document, document_object, sites};
use super::tenure::Known;
use super::{ClaimState, SiteState};
use crate::merge::Rank;
use crate::object::Object;
use crate::space::{self, SpaceError};

/// The epoch of a home that never changed hands.
pub const FIRST_EPOCH: u64 = 1;

/// Who decides, since which epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeDocument {
    /// The bucket; the system bucket's home is the register of names.
    pub bucket: BucketId,
    /// Who decides.
    pub site: SiteId,
    /// Counts homes of this bucket.
    pub epoch: u64,
    /// Whether the name was asked for before the bucket was made: it keeps it against claims that were not.
    pub unique: bool,
    /// What the former home had seen of the bucket: the new one decides nothing before it has that.
    pub seen: Seen,
    /// Why.
    pub cause: HomeCause,
}

impl Versioned for HomeDocument {
    const NAME: &'static str = "home document";
    const VERSION: u8 = 1;
}

impl HomeDocument {
    /// Of the first home of a bucket: only for who may name it.
    pub fn first(bucket: BucketId, site: SiteId, unique: bool) -> Self {
        let (epoch, seen, cause) = (FIRST_EPOCH, Seen::default(), HomeCause::Named);
        Self { bucket, site, epoch, unique, seen, cause }
    }
}

/// Why a site became the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HomeCause {
    /// The register named it, or the name is the site's own.
    Named,
    /// The former home handed it over.
    Moved,
    /// An operator said that this one, the former, is lost for good.
    Replaced(SiteId),
}

/// What a site may do with a conditional operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Decide it, in this epoch.
    Decides(u64),
    /// Have this site decide it.
    Elsewhere(SiteId),
    /// It is the home, but has not yet all that the former home had, or lost some of it and has not heard from all others.
    Behind(u64),
    /// No home is named: another island may have made the same bucket.
    Unnamed,
}

/// Why a home is not named or not moved.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HomeRefusal {
    /// Only this site may.
    #[error("only the site {0} may do that")]
    Only(SiteId),
    /// Nobody keeps the register of names, as far as is known here.
    #[error("it is not known here which site keeps the register of names")]
    NoRegister,
    /// The bucket is not known here.
    #[error("the bucket is not known here")]
    NoBucket,
    /// Not a site of the federation.
    #[error("there is no such site in the federation")]
    NoSite,
    /// It is not the home.
    #[error("that site is not the home, {0} is")]
    NotHome(SiteId),
    /// The home itself has not yet all that the former home had.
    #[error("this site has not yet all that the former home had")]
    Behind,
    /// The home waits for what nobody has any more: it may be told to wait no longer, and then give the home on.
    #[error(
        "{0} is the home, and waits for what nobody has that could be asked; it decides again without that once it is named itself (--to), and may then hand the home over"
    )]
    Waits(SiteId),
    /// What it waits for is not known here.
    #[error("{0} is the home, and what it waits for has not all arrived here; try again in a moment")]
    Unread(SiteId),
    /// The nodes of its site agree on who follows it.
    #[error(
        "the home is a node of a site of several, whose nodes give it to one of them by themselves when it is gone; to name another site in the place of a lost one expel all nodes of its site first, and give {0} as the lost one"
    )]
    Kept(SiteId),
    /// No epoch follows that of the home.
    #[error(
        "the epoch of the home is the last there is: a damaged or hostile document says so, and no other home can follow"
    )]
    LastEpoch,
    /// The tables could not be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// A document that names a home: `Ask::Put(object)` at `key` of the system bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What it says.
    pub document: HomeDocument,
    /// Key in the system bucket.
    pub key: String,
    /// What to put there.
    pub object: Object,
    /// To be written before it: what the former home had, as far as the document has no room for it.
    pub blocks: Blocks,
}

impl Named {
    /// As it shall be written, if it has no more to say than there is room for.
    pub fn new(document: HomeDocument, wall: WallTime) -> Self {
        let key = SystemKey::Home(document.bucket).to_string();
        let object = document_object(&document, wall);
        Self { document, key, object, blocks: Vec::new() }
    }

    /// As it shall be written.
    pub(super) fn fitted(
        view: &dyn View,
        system: BucketId,
        document: HomeDocument,
        wall: WallTime,
    ) -> Result<Self, SpaceError> {
        let of = (system, document.bucket);
        let (seen, blocks) = document.seen.fitted(view, of, seen::INLINE_BYTES, wall)?;
        Ok(Self { blocks, ..Self::new(HomeDocument { seen, ..document }, wall) })
    }

    /// The first home of a bucket: only for who may name it.
    pub fn first(bucket: BucketId, site: SiteId, unique: bool, wall: WallTime) -> Self {
        Self::new(HomeDocument::first(bucket, site, unique), wall)
    }
}

/// The named home of a bucket: the highest epoch that is known here.
pub fn home(view: &dyn View, system: BucketId, bucket: BucketId) -> Result<Option<HomeDocument>, SpaceError> {
    let heads = space::heads(view, system, &SystemKey::Home(bucket).to_string())?;
    let mut best: Option<(u64, Rank, HomeDocument)> = None;
    for head in &heads {
        let Some(found) = document::<HomeDocument>(head)?.filter(|found| found.bucket == bucket) else {
            continue;
        };
        let rank = Rank::of(head);
        if best.as_ref().is_none_or(|(epoch, known, _)| (found.epoch, rank) > (*epoch, *known)) {
            best = Some((found.epoch, rank, found));
        }
    }
    Ok(best.map(|(_, _, found)| found))
}

/// The site that keeps the register of names.
pub fn register(view: &dyn View, system: BucketId) -> Result<Option<SiteId>, SpaceError> {
    Ok(home(view, system, system)?.map(|home| home.site))
}

/// What `me` may do with a conditional operation on this bucket. Asked again on the commit thread, where every
/// decision is made: whoever gave the home away in an earlier commit decides nothing any more.
pub fn standing(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    me: SiteId,
) -> Result<Standing, SpaceError> {
    let Some(home) = home(view, system, bucket)? else { return Ok(Standing::Unnamed) };
    if home.site != me {
        return Ok(Standing::Elsewhere(home.site));
    }
    let vector = space::vector(view, bucket)?;
    let ready = home.seen.is_met(view, (system, bucket), &vector)? && !lost_some(view, system, bucket)?;
    Ok(if ready { Standing::Decides(home.epoch) } else { Standing::Behind(home.epoch) })
}

/// Whether this node lost part of its journal and has not heard yet from all others what it lost: a home that it gave away, or what
/// it decided.
pub(super) fn lost_some(view: &dyn View, system: BucketId, bucket: BucketId) -> Result<bool, SpaceError> {
    Ok(space::is_anew(view, system)? || (bucket != system && space::is_anew(view, bucket)?))
}

/// The register names the home of a bucket: the claimant, or itself if that one is no site any more or about to go. None if one is
/// named already. Only the register may, and only once it has all that a former register had.
pub fn name_home(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    me: SiteId,
    wall: WallTime,
) -> Result<Option<Named>, HomeRefusal> {
    keeps_register(view, system, me)?;
    Ok(first_home(view, system, bucket, me)?.map(|document| Named::new(document, wall)))
}

/// What the register, which is `me`, is to name as the first home of a bucket; none if one is named.
pub fn first_home(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    me: SiteId,
) -> Result<Option<HomeDocument>, HomeRefusal> {
    // A tenure speaks for a home whose document has not arrived here.
    if is_named(view, system, bucket)? {
        return Ok(None);
    }
    let claims = super::claim::claims_of(view, system, bucket)?;
    let claim = claims.into_iter().next().ok_or(HomeRefusal::NoBucket)?;
    let stays = is_member(view, system, claim.site)? && !super::duty(view, system, claim.site)?.leaves();
    let site = if stays { claim.site } else { me };
    Ok(Some(HomeDocument::first(bucket, site, false)))
}

/// Whether the register would name `me` as the first home of a bucket, if it has heard that `me` made it and not that `me` goes.
pub fn may_be_named(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    me: SiteId,
) -> Result<bool, SpaceError> {
    if bucket == system || is_named(view, system, bucket)? {
        return Ok(false);
    }
    let claims = super::claim::claims_of(view, system, bucket)?;
    Ok(claims.iter().any(|claim| claim.site == me && claim.state == ClaimState::Live))
}

/// Whether this site was given the name by the register and has been the bucket's home ever since: a home leaves no bucket, so
/// if it is no member it never was one.
pub fn is_claimant(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    me: SiteId,
) -> Result<bool, SpaceError> {
    let home = home(view, system, bucket)?;
    Ok(home.is_some_and(|home| home.unique && home.epoch == FIRST_EPOCH && home.site == me))
}

/// Buckets without a named home that the register, if this site keeps it, names one for now.
pub fn unnamed(view: &dyn View, system: BucketId, me: SiteId) -> Result<Vec<BucketId>, SpaceError> {
    if !matches!(standing(view, system, system, me)?, Standing::Decides(_)) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for claim in super::claim::all_claims(view, system)? {
        if claim.state == ClaimState::Live && !is_named(view, system, claim.bucket)? {
            found.push(claim.bucket);
        }
    }
    Ok(found)
}

/// The home hands over to another site: from this commit on it decides nothing. `fellows` are the other nodes of its site.
pub fn hand_over(
    view: &dyn View,
    system: BucketId,
    (bucket, to): (BucketId, SiteId),
    (me, fellows): (SiteId, &BTreeSet<SiteId>),
    wall: WallTime,
) -> Result<Option<Named>, HomeRefusal> {
    let Some(home) = home(view, system, bucket)? else {
        return Err(keeps_register(view, system, me).err().unwrap_or(HomeRefusal::NoBucket));
    };
    match standing(view, system, bucket, me)? {
        Standing::Decides(_) => {}
        Standing::Behind(_) => return Err(HomeRefusal::Behind),
        Standing::Elsewhere(_) | Standing::Unnamed => return Err(HomeRefusal::Only(home.site)),
    }
    if is_kept_by_its_site(view, system, bucket, (me, fellows))? {
        return Err(HomeRefusal::Kept(home.site));
    }
    if !is_member(view, system, to)? {
        return Err(HomeRefusal::NoSite);
    }
    if to == me {
        return Ok(None);
    }
    let seen = Seen::of(&space::vector(view, bucket)?);
    let epoch = home.epoch.checked_add(1).ok_or(HomeRefusal::LastEpoch)?;
    let (site, cause) = (to, HomeCause::Moved);
    Ok(Some(Named::fitted(view, system, HomeDocument { site, epoch, seen, cause, ..home }, wall)?))
}

/// An operator's word that a home is lost for good.
#[derive(Debug, Clone)]
pub struct Loss<'a> {
    /// Whose home.
    pub bucket: BucketId,
    /// The lost one.
    pub lost: SiteId,
    /// Who shall decide from now on.
    pub to: SiteId,
    /// What the sites that could be asked have of the bucket: the new home waits for it.
    pub heard: &'a Vector,
    /// The other nodes of its site.
    pub fellows: &'a BTreeSet<SiteId>,
}

/// The register replaces a home that an operator says is lost for good. What the lost one had decided and nobody
/// who could be asked has is lost with it.
///
/// A home may have been given away by a site that was lost before the heir had all of it: the heir waits for what nobody
/// has any more. Then the heir itself may be named once more, in the next epoch, with what there is. Another may not: in
/// the epoch of the heir nobody but the heir decides, whatever it comes to have.
pub fn replace_home(
    view: &dyn View,
    system: BucketId,
    loss: Loss<'_>,
    me: SiteId,
    wall: WallTime,
) -> Result<Named, HomeRefusal> {
    let Loss { bucket, lost, to, heard, fellows } = loss;
    may_replace(view, system, bucket, lost, me)?;
    // Of what it has seen and lost nobody would be told to wait for.
    if lost_some(view, system, bucket)? {
        return Err(HomeRefusal::Behind);
    }
    if to == lost || !is_member(view, system, to)? {
        return Err(HomeRefusal::NoSite);
    }
    let known = Known::load(view, system, bucket)?.map(|known| known.home);
    let mut seen = space::vector(view, bucket)?;
    seen.merge(heard);
    if let Some(home) = known.as_ref().filter(|home| home.site != lost) {
        let awaited = home.seen.resolved(view, system, bucket)?;
        match (awaited.is_included_in(&seen), home.site == to) {
            // The heir may know what it waits for, and have it: then it may hand over in the very epoch that would be given here.
            (false, _) if !awaited.is_whole() => return Err(HomeRefusal::Unread(home.site)),
            (true, _) => return Err(HomeRefusal::NotHome(home.site)),
            (false, false) => return Err(HomeRefusal::Waits(home.site)),
            (false, true) => {}
        }
    }
    if is_kept_by_its_site(view, system, bucket, (lost, fellows))? {
        for fellow in fellows {
            // It may take the home over, or have done so, in the same epoch.
            if is_member(view, system, *fellow)? {
                return Err(HomeRefusal::Kept(lost));
            }
        }
    }
    let seen = Seen::of(&seen);
    let before = known.as_ref().map_or(FIRST_EPOCH - 1, |home| home.epoch);
    let epoch = before.checked_add(1).ok_or(HomeRefusal::LastEpoch)?;
    let unique = known.is_some_and(|home| home.unique);
    let cause = HomeCause::Replaced(lost);
    Ok(Named::fitted(view, system, HomeDocument { bucket, site: to, epoch, unique, seen, cause }, wall)?)
}

/// Who may replace: the register; for the register itself the eldest site that is left.
fn may_replace(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    lost: SiteId,
    me: SiteId,
) -> Result<(), HomeRefusal> {
    let register_lost = register(view, system)?.is_none_or(|register| register == lost);
    if bucket != system && !register_lost {
        return keeps_register(view, system, me);
    }
    if bucket != system {
        return Err(HomeRefusal::NoRegister);
    }
    match eldest(view, system, lost)? {
        Some(eldest) if eldest == me => Ok(()),
        Some(eldest) => Err(HomeRefusal::Only(eldest)),
        None => Err(HomeRefusal::NoSite),
    }
}

/// The site that was admitted first, but for one.
pub fn eldest(view: &dyn View, system: BucketId, but: SiteId) -> Result<Option<SiteId>, SpaceError> {
    let members = sites(view, system)?.into_iter();
    let members = members.filter(|(site, document)| *site != but && document.state == SiteState::Member);
    Ok(members.min_by_key(|(site, document)| (document.joined, *site)).map(|(site, _)| site))
}

/// Whether `me` keeps the register and has all that a former one had.
pub fn keeps_register(view: &dyn View, system: BucketId, me: SiteId) -> Result<(), HomeRefusal> {
    match standing(view, system, system, me)? {
        Standing::Decides(_) => Ok(()),
        Standing::Behind(_) => Err(HomeRefusal::Behind),
        Standing::Elsewhere(register) => Err(HomeRefusal::Only(register)),
        Standing::Unnamed => Err(HomeRefusal::NoRegister),
    }
}

/// Whether a home is named, or a tenure speaks for one.
fn is_named(view: &dyn View, system: BucketId, bucket: BucketId) -> Result<bool, SpaceError> {
    Ok(home(view, system, bucket)?.is_some() || Known::load(view, system, bucket)?.is_some())
}

fn is_kept_by_its_site(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    (home, fellows): (SiteId, &BTreeSet<SiteId>),
) -> Result<bool, SpaceError> {
    let mut nodes = fellows.clone();
    nodes.insert(home);
    Ok(Known::load(view, system, bucket)?.is_some_and(|known| known.is_kept_by_its_site(&nodes)))
}

fn is_member(view: &dyn View, system: BucketId, site: SiteId) -> Result<bool, SpaceError> {
    Ok(super::site(view, system, site)?.is_some_and(|document| document.state == SiteState::Member))
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
