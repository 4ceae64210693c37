//! Namings: what the register of names is about to name, where it is one of several nodes of a site and may be lost in
//! between.
//!
//! A home document counts on whatever disk it lies, for whoever hears of it; so of one epoch there must be one, and a name
//! that was given to one is given to nobody else. A register that is lost with a home document that nobody has heard of
//! yet must not be followed by one that names another. So each naming is said first, in a document that names nobody, and is
//! carried out (the home document, and with it the claim of a name that was asked for) only when all nodes that hold the
//! site's writes in one view have that document. The register passes from node to node as any home does (`tenure.rs`);
//! whoever keeps it next finds what the former one had begun, says it again in its own epoch, and carries it out before
//! anything else. A register at a site of one or two nodes decides alone: what it says and what it carries out is one commit.
//!
//! Invariants: of several such documents the one of the latest register counts, and nobody writes over one of a later
//! register; what was begun leaves the document only once it is carried out for whoever keeps the register next.
//!
//! Why this: docs/decisions/2026-11-23-register-of-names.md.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId, WallTime};

use super::claim::{ClaimDocument, Claimed};
use super::home::{self, FIRST_EPOCH, HomeDocument, Named};
use super::system::{SystemKey, document, document_object};
use super::tenure::Known;
use crate::object::{DOCUMENT_BYTES, Object};
use crate::space::{self, SpaceError};

/// What a document that is said again may have grown by: its epoch.
const SPARE: usize = 16;

/// One home that is to be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naming {
    /// As it will be written.
    pub home: HomeDocument,
    /// The claim that is written with it, if the register was asked for the name.
    pub claim: Option<ClaimDocument>,
}

/// What the register is about to name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NamingDocument {
    /// The epoch of the register that said it.
    pub epoch: u64,
    /// What was begun and may not be known yet to whoever keeps the register next.
    pub namings: Vec<Naming>,
}

impl Versioned for NamingDocument {
    const NAME: &'static str = "naming document";
    const VERSION: u8 = 1;
}

/// A later register has spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another site keeps the register of names by now, which has not been heard here yet")]
pub struct Later;

impl NamingDocument {
    /// Of all that was said, what counts.
    pub fn latest(said: impl IntoIterator<Item = Self>) -> Option<Self> {
        said.into_iter().reduce(|one, other| if other.epoch > one.epoch { other } else { one })
    }

    /// What the register of this epoch has to say again: what was begun and is not done.
    pub fn carried(said: Option<Self>, epoch: u64, is_done: impl Fn(&Naming) -> bool) -> Result<Self, Later> {
        let Self { epoch: known, mut namings } = said.unwrap_or_default();
        if known > epoch {
            return Err(Later);
        }
        namings.retain(|naming| !is_done(naming));
        Ok(Self { epoch, namings })
    }

    /// Whether it can be said: a document is bounded ([`DOCUMENT_BYTES`]), some seven claims or forty homes fit into one, and
    /// what was begun by then is to be carried out first.
    pub fn fits(&self) -> bool {
        codec::encode(self).len() + SPARE <= DOCUMENT_BYTES
    }

    /// Where it lies in the system bucket, and what to put there.
    pub fn written(&self, wall: WallTime) -> (String, Object) {
        (SystemKey::Namings.to_string(), document_object(self, wall))
    }
}

impl Naming {
    /// Whether it is carried out, as far as is known here.
    pub fn is_written(&self, view: &dyn View, system: BucketId) -> Result<bool, SpaceError> {
        let known = Known::load(view, system, self.home.bucket)?;
        let is_named = known.is_some_and(|known| known.home.epoch >= self.home.epoch);
        let Some(key) = self.claim_key().filter(|_| is_named) else { return Ok(is_named) };
        Ok(!space::heads(view, system, &key)?.is_empty())
    }

    /// Whether it is carried out, by a record of which this holds of each document.
    pub fn is_kept(
        &self,
        view: &dyn View,
        system: BucketId,
        is_kept: &dyn Fn(Dot) -> bool,
    ) -> Result<bool, SpaceError> {
        if !self.is_written(view, system)? {
            return Ok(false);
        }
        if let Some(key) = self.claim_key()
            && !space::heads(view, system, &key)?.iter().any(|head| is_kept(head.dot))
        {
            return Ok(false);
        }
        for head in space::heads(view, system, &self.home_key())? {
            let names = document::<HomeDocument>(&head)?.is_some_and(|home| home.epoch >= self.home.epoch);
            if names && is_kept(head.dot) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys of its documents.
    pub fn keys(&self) -> Vec<String> {
        self.claim_key().into_iter().chain([self.home_key()]).collect()
    }

    fn home_key(&self) -> String {
        SystemKey::Home(self.home.bucket).to_string()
    }

    fn claim_key(&self) -> Option<String> {
        let claim = self.claim.as_ref()?;
        Some(SystemKey::Claim { name: claim.name.clone(), bucket: claim.bucket }.to_string())
    }

    /// Its documents, but for those that are here: a claim may be deleted by now.
    pub fn documents(
        &self,
        view: &dyn View,
        system: BucketId,
        wall: WallTime,
    ) -> Result<Vec<(String, Object)>, SpaceError> {
        let mut documents = Vec::new();
        if let (Some(claim), Some(key)) = (&self.claim, self.claim_key())
            && space::heads(view, system, &key)?.is_empty()
        {
            let Claimed { key, object, .. } = Claimed::new(claim, wall);
            documents.push((key, object));
        }
        let known = Known::load(view, system, self.home.bucket)?;
        if known.is_none_or(|known| known.home.epoch < self.home.epoch) {
            let Named { key, object, .. } = Named::new(self.home.clone(), wall);
            documents.push((key, object));
        }
        Ok(documents)
    }
}

/// What the register was about to name last, as far as is known here.
pub fn namings(view: &dyn View, system: BucketId) -> Result<Option<NamingDocument>, SpaceError> {
    let mut said = Vec::new();
    for head in space::heads(view, system, &SystemKey::Namings.to_string())? {
        said.extend(document::<NamingDocument>(&head)?);
    }
    Ok(NamingDocument::latest(said))
}

/// Whether something was begun that is not carried out here.
pub fn has_begun(view: &dyn View, system: BucketId) -> Result<bool, SpaceError> {
    for naming in namings(view, system)?.unwrap_or_default().namings {
        if !naming.is_written(view, system)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a register that decides alone has to do about what former ones had begun, before it names anything: `None` if
/// nothing. What it says keeps what its vector does not cover: whoever follows it waits for that vector, and for the document.
pub fn resumed(
    view: &dyn View,
    system: BucketId,
    epoch: u64,
) -> Result<Result<Option<NamingDocument>, Later>, SpaceError> {
    let said = namings(view, system)?;
    if is_current(said.as_ref(), epoch) {
        return Ok(Ok(None));
    }
    let vector = space::vector(view, system)?;
    let covers = |dot: Dot| vector.get(dot.origin) >= dot.seq;
    let mut done = BTreeSet::new();
    for naming in said.iter().flat_map(|said| &said.namings) {
        if naming.is_kept(view, system, &covers)? {
            done.insert((naming.home.bucket, naming.home.epoch));
        }
    }
    let is_done = |naming: &Naming| done.contains(&(naming.home.bucket, naming.home.epoch));
    Ok(NamingDocument::carried(said, epoch, is_done).map(Some))
}

/// Whether nothing that former registers may have begun stands in the way of the one of this epoch.
fn is_current(said: Option<&NamingDocument>, epoch: u64) -> bool {
    said.map_or(epoch == FIRST_EPOCH, |said| said.epoch == epoch)
}

/// Whether this site keeps the register by itself and may name at once, in the commit that makes a bucket.
pub fn names_at_once(view: &dyn View, system: BucketId, me: SiteId) -> Result<bool, SpaceError> {
    let home::Standing::Decides(epoch) = home::standing(view, system, system, me)? else { return Ok(false) };
    Ok(is_current(namings(view, system)?.as_ref(), epoch))
}

#[cfg(test)]
#[path = "naming_tests.rs"]
mod tests;
