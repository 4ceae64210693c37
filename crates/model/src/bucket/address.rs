//! Where sites are dialled, when an operator said so: beside what each says of itself.
//!
//! A site that moved tells the others its new address itself, once it has a link to one of them. One that nobody can reach
//! and that reaches nobody cannot; then an operator says it at any other. The word never takes away what the site says of
//! itself: both are dialled, the later first, so that a wrong word costs a try and no link.
//!
//! Invariants: epochs rise with every word; of words of one epoch the same wins everywhere; a word about addresses
//! changes nothing of who the site is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::{BucketId, Hlc, SiteId, WallTime};

use super::system::{SystemKey, document, document_object, each_document};
use crate::merge::Rank;
use crate::object::Object;
use crate::space::{self, SpaceError};

/// An operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressDocument {
    /// Whose.
    pub site: SiteId,
    /// Counts the words about this site's addresses.
    pub epoch: u64,
    /// `host:port`, best first; none takes the word back.
    pub addresses: Vec<String>,
    /// When it was said.
    pub said: WallTime,
    /// At which site.
    pub at: SiteId,
}

impl Versioned for AddressDocument {
    const NAME: &'static str = "address document";
    const VERSION: u8 = 1;
}

/// The word that holds, with its stamp: the highest epoch.
fn word(
    view: &dyn View,
    system: BucketId,
    site: SiteId,
) -> Result<Option<(AddressDocument, Hlc)>, SpaceError> {
    let mut best: Option<((u64, Rank), AddressDocument, Hlc)> = None;
    for head in &space::heads(view, system, &SystemKey::Address(site).to_string())? {
        let found = document::<AddressDocument>(head)?.filter(|found| found.site == site);
        let Some(found) = found else { continue };
        let order = (found.epoch, Rank::of(head));
        if best.as_ref().is_none_or(|(known, ..)| order > *known) {
            best = Some((order, found, head.clock));
        }
    }
    Ok(best.map(|(_, word, clock)| (word, clock)))
}

/// The next word about where a site is dialled: key and object; none if it says what holds already.
pub fn assign_address(
    view: &dyn View,
    system: BucketId,
    next: AddressDocument,
) -> Result<Option<(String, Object)>, SpaceError> {
    let now = word(view, system, next.site)?.map(|(word, _)| word);
    let known = now.as_ref().map(|word| word.addresses.as_slice()).unwrap_or_default();
    if known == next.addresses {
        return Ok(None);
    }
    let epoch = now.map_or(0, |word| word.epoch).saturating_add(1);
    let next = AddressDocument { epoch, ..next };
    Ok(Some((SystemKey::Address(next.site).to_string(), document_object(&next, next.said))))
}

/// Where the sites are dialled about which an operator said so: what was said, and what the site says itself.
pub fn dialled(view: &dyn View, system: BucketId) -> Result<BTreeMap<SiteId, Vec<String>>, SpaceError> {
    let mut sites = Vec::new();
    each_document(view, system, "address/", &mut |key, _| {
        if let SystemKey::Address(site) = key {
            sites.push(site);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut all = BTreeMap::new();
    for site in sites {
        let Some((word, clock)) = word(view, system, site)? else { continue };
        let said = super::site(view, system, site)?;
        let node = said.and_then(|document| document.nodes.into_iter().next());
        let own = node.map(|node| node.addresses).unwrap_or_default();
        let record = space::current(view, system, &SystemKey::Site(site).to_string())?;
        let own_first = record.is_some_and(|record| record.clock > clock);
        let (first, second) = if own_first { (own, word.addresses) } else { (word.addresses, own) };
        let mut addresses = first;
        for address in second {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        all.insert(site, addresses);
    }
    Ok(all)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
