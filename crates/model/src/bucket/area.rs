//! Areas by name: what an operator calls the town, the ship or the data centre that a site stands in.
//!
//! Why here: which copies an area lacks must be found alike at every site that has heard the same words. A site is in one
//! area or in none. What its configuration says holds until an operator says otherwise at any site; then that holds, and a
//! restart does not take it back.
//!
//! Invariants: epochs rise with every word of an operator; a configuration speaks in epoch 0; of words of one epoch the same
//! wins everywhere. Releases before pass over these documents.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::name::check_site_name;
use skerry_base::{BucketId, SiteId, WallTime};

use super::system::{SystemKey, document, document_object, each_document};
use crate::merge::Rank;
use crate::object::Object;
use crate::space::{self, SpaceError};

/// A word about the area of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaDocument {
    /// Whose.
    pub site: SiteId,
    /// Counts the words of operators about this site's area; 0: its own configuration says so.
    pub epoch: u64,
    /// The area; empty for none.
    pub area: String,
    /// When it was said.
    pub said: WallTime,
    /// At which site.
    pub at: SiteId,
}

impl Versioned for AreaDocument {
    const NAME: &'static str = "area document";
    const VERSION: u8 = 1;
}

/// Whether an area may be called so: as a site may, and not as the words around it in a setting.
pub fn is_area_name(name: &str) -> bool {
    check_site_name(name).is_ok() && !["each", "all", "none", "in"].contains(&name)
}

/// The word that holds.
pub fn area(view: &dyn View, system: BucketId, site: SiteId) -> Result<Option<AreaDocument>, SpaceError> {
    let mut best: Option<((u64, Rank), AreaDocument)> = None;
    for head in &space::heads(view, system, &SystemKey::Area(site).to_string())? {
        let Some(found) = document::<AreaDocument>(head)?.filter(|found| found.site == site) else {
            continue;
        };
        let order = (found.epoch, Rank::of(head));
        if best.as_ref().is_none_or(|(known, _)| order > *known) {
            best = Some((order, found));
        }
    }
    Ok(best.map(|(_, word)| word))
}

/// The areas of the sites that are in one.
pub fn areas(view: &dyn View, system: BucketId) -> Result<BTreeMap<SiteId, String>, SpaceError> {
    let mut sites = Vec::new();
    each_document(view, system, "area/", &mut |key, _| {
        if let SystemKey::Area(site) = key {
            sites.push(site);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut all = BTreeMap::new();
    for site in sites {
        let word = area(view, system, site)?.filter(|word| is_area_name(&word.area));
        all.extend(word.map(|word| (site, word.area)));
    }
    Ok(all)
}

/// An operator's next word: key and object; none if it says what holds already.
pub fn assign_area(
    view: &dyn View,
    system: BucketId,
    next: AreaDocument,
) -> Result<Option<(String, Object)>, SpaceError> {
    let now = area(view, system, next.site)?;
    let holds = now.as_ref().is_some_and(|word| word.epoch > 0 && word.area == next.area);
    let epoch = now.map_or(0, |word| word.epoch).saturating_add(1);
    Ok((!holds).then(|| stored(AreaDocument { epoch, ..next })))
}

/// What the configuration of a site says of itself: key and object; none if that is known, or an operator has spoken.
pub fn configure_area(
    view: &dyn View,
    system: BucketId,
    own: AreaDocument,
) -> Result<Option<(String, Object)>, SpaceError> {
    let says = match area(view, system, own.site)? {
        None => !own.area.is_empty(),
        Some(word) => word.epoch == 0 && word.area != own.area,
    };
    Ok(says.then(|| stored(AreaDocument { epoch: 0, ..own })))
}

fn stored(word: AreaDocument) -> (String, Object) {
    (SystemKey::Area(word.site).to_string(), document_object(&word, word.said))
}

#[cfg(test)]
#[path = "area_tests.rs"]
mod tests;
