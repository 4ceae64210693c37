//! Who pays for what crosses its link: a site says so itself, to all.
//!
//! Why here: it is part of the draw of who is a landmark, and that must be read alike at every site, linked or not. How long a
//! link rests is said over it; that some site pays is a document. A site that never had a budget has none.
//!
//! Invariants: epochs rise with every word; of words of one epoch the same wins everywhere; what cannot be read (of a later
//! release, or spoilt) is as if it had not been said, and keeps nobody from reading the others. Releases before pass over
//! these documents.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, WallTime};

use super::system::{SystemKey, document_object, each_document};
use crate::merge::Rank;
use crate::object::Object;
use crate::record::Record;
use crate::space::{self, SpaceError};

/// What a site says of its link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeteredDocument {
    /// Whose.
    pub site: SiteId,
    /// Counts what it said of it.
    pub epoch: u64,
    /// Whether it pays by the byte.
    pub pays: bool,
    /// When it was said.
    pub said: WallTime,
}

impl Versioned for MeteredDocument {
    const NAME: &'static str = "metered document";
    const VERSION: u8 = 1;
}

fn read(record: &Record, site: SiteId) -> Option<MeteredDocument> {
    let bytes = record.object()?.document.as_ref()?;
    codec::decode::<MeteredDocument>(bytes).ok().filter(|found| found.site == site)
}

/// What a site said last, as far as is known here; and whether it also said what cannot be read.
fn word(
    view: &dyn View,
    system: BucketId,
    site: SiteId,
) -> Result<(Option<MeteredDocument>, bool), SpaceError> {
    let heads = space::heads(view, system, &SystemKey::Metered(site).to_string())?;
    let found = heads.iter().filter_map(|head| Some((read(head, site)?, Rank::of(head))));
    let best = found.max_by(|(one, a), (other, b)| (one.epoch, a).cmp(&(other.epoch, b)));
    let odd = heads.iter().any(|head| head.object().is_some() && read(head, site).is_none());
    Ok((best.map(|(word, _)| word), odd))
}

/// The sites that pay, whether they still belong or not.
pub fn metered(view: &dyn View, system: BucketId) -> Result<BTreeSet<SiteId>, SpaceError> {
    let mut pay = BTreeSet::new();
    each_document(view, system, "metered/", &mut |key, _| {
        if let SystemKey::Metered(site) = key
            && word(view, system, site)?.0.is_some_and(|word| word.pays)
        {
            pay.insert(site);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(pay)
}

/// What a site has to say of itself: key and object; none if that is known.
pub fn say_metered(
    view: &dyn View,
    system: BucketId,
    (site, pays): (SiteId, bool),
    said: WallTime,
) -> Result<Option<(String, Object)>, SpaceError> {
    let (known, odd) = word(view, system, site)?;
    // What a later release of this site said holds for others of that release, until it is said anew.
    if known.as_ref().is_some_and(|word| word.pays) == pays && !odd {
        return Ok(None);
    }
    let epoch = known.map_or(0, |word| word.epoch).saturating_add(1);
    let next = MeteredDocument { site, epoch, pays, said };
    Ok(Some((SystemKey::Metered(site).to_string(), document_object(&next, said))))
}

#[cfg(test)]
#[path = "metered_tests.rs"]
mod tests;
