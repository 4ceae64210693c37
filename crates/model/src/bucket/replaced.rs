//! Sites whose place another one took: the word of an operator that says so, and who stands where they stood.
//!
//! Why here: every site must find the same successor once it has heard the same words. The word is the state of the gone
//! site's own document; a successor may be replaced in its turn, so links are followed.
//!
//! Invariants: who was replaced belongs never again; of two words that were said without knowing of each other one holds,
//! the same everywhere ([`super::site`]); a circle of words, said at two sites that are cut off, leaves nobody.

use std::collections::BTreeSet;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, WallTime};

use super::area::{AreaDocument, area, assign_area};
use super::home::{HomeCause, home, register};
use super::system::{SiteDocument, SiteState, SystemKey, document_object, site, sites};
use super::{ClaimState, all_buckets};
use crate::object::Object;
use crate::space::SpaceError;

/// Links that are followed; beyond it nobody stands there.
const LINKS: usize = 64;

/// Why a site is not replaced.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplaceRefusal {
    /// Never admitted.
    #[error("there is no such site in the federation")]
    NoSite,
    /// The site that is asked.
    #[error("this site is not gone: it answers you; ask another")]
    Myself,
    /// By itself.
    #[error(
        "a site cannot take its own place: invite a new machine under another name, and have that one take it"
    )]
    Itself,
    /// The newcomer does not belong.
    #[error("the site that is to take the place is no member: `skerry invite` and `skerry join` first")]
    NoMember,
    /// Another one did.
    #[error("its place was taken by {0} already: if that one is gone as well, replace that one")]
    By(SiteId),
    /// The tables could not be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// The member that stands where a site stood: itself, if it belongs; none if nobody does.
pub fn successor(view: &dyn View, system: BucketId, of: SiteId) -> Result<Option<SiteId>, SpaceError> {
    let mut at = of;
    for _ in 0..LINKS {
        match site(view, system, at)?.map(|known| known.state) {
            Some(SiteState::Member) => return Ok(Some(at)),
            Some(SiteState::Replaced(by)) => at = by,
            Some(SiteState::Expelled) | None => return Ok(None),
        }
    }
    Ok(None)
}

/// The sites whose place `by` has taken, directly or after others.
pub fn replacements(view: &dyn View, system: BucketId, by: SiteId) -> Result<Vec<SiteId>, SpaceError> {
    let mut found = Vec::new();
    for (id, document) in sites(view, system)? {
        if matches!(document.state, SiteState::Replaced(_)) && successor(view, system, id)? == Some(by) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Whether a site that belongs no more was called so: it may have made buckets of its own name, of which nobody has heard.
pub fn was_called_so(view: &dyn View, system: BucketId, name: &str) -> Result<bool, SpaceError> {
    let gone = |document: &SiteDocument| document.state != SiteState::Member && document.name == name;
    Ok(sites(view, system)?.iter().any(|(_, document)| gone(document)))
}

/// An operator says at `me` that a site is gone for ever and who takes its place: what is to be written, nothing if that is
/// known. The newcomer stands in the area of the gone one from then on, unless it stands in one.
pub fn replace_site(
    view: &dyn View,
    system: BucketId,
    (gone, by): (SiteId, SiteId),
    me: SiteId,
    wall: WallTime,
) -> Result<Vec<(String, Object)>, ReplaceRefusal> {
    let known = site(view, system, gone)?.ok_or(ReplaceRefusal::NoSite)?;
    if gone == me {
        return Err(ReplaceRefusal::Myself);
    }
    if gone == by {
        return Err(ReplaceRefusal::Itself);
    }
    if site(view, system, by)?.is_none_or(|known| known.state != SiteState::Member) {
        return Err(ReplaceRefusal::NoMember);
    }
    if let SiteState::Replaced(before) = known.state {
        return match successor(view, system, gone)? == Some(by) {
            true => Ok(Vec::new()),
            false => Err(ReplaceRefusal::By(before)),
        };
    }
    let replaced = SiteDocument { state: SiteState::Replaced(by), ..known };
    let mut documents = vec![(SystemKey::Site(gone).to_string(), document_object(&replaced, wall))];
    let stands = |of| area(view, system, of).map(|word| word.map(|word| word.area).unwrap_or_default());
    let (of_gone, of_new) = (stands(gone)?, stands(by)?);
    if of_new.is_empty() && !of_gone.is_empty() {
        let word = AreaDocument { site: by, epoch: 0, area: of_gone, said: wall, at: me };
        documents.extend(assign_area(view, system, word)?);
    }
    Ok(documents)
}

/// The homes of a site: those that it decides still, the register of names among them, and how many others were given
/// because it is gone.
pub fn homes_of(view: &dyn View, system: BucketId, of: SiteId) -> Result<(Vec<BucketId>, u64), SpaceError> {
    let (mut left, mut moved) = (Vec::new(), 0);
    if register(view, system)? == Some(of) {
        left.push(system);
    }
    let register = home(view, system, system)?;
    let buckets = all_buckets(view, system)?.into_iter().filter_map(|bucket| bucket.home);
    for named in register.into_iter().chain(buckets) {
        if named.site == of && named.bucket != system {
            left.push(named.bucket);
        }
        moved += u64::from(named.cause == HomeCause::Replaced(of));
    }
    Ok((left, moved))
}

/// Buckets that were deleted.
pub fn deleted(view: &dyn View, system: BucketId) -> Result<BTreeSet<BucketId>, SpaceError> {
    let claims = super::claim::all_claims(view, system)?.into_iter();
    Ok(claims.filter(|claim| claim.state != ClaimState::Live).map(|claim| claim.bucket).collect())
}

#[cfg(test)]
#[path = "replaced_tests.rs"]
mod tests;
