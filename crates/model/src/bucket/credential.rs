//! Credential keys: what the secrets of access keys are sealed with, and which sites are not told which of them.
//!
//! Why here: a secret must open at every site that belongs, cut off or not, and what is made after a site was expelled must not
//! open with what that site's disk holds. The first key comes with the federation and is told to whoever joins. A later one is
//! made by whoever has something to seal and finds that sites that are gone have all others; its document says whom it is kept
//! from, and travels as any record does. Its bytes never do: whoever hears of it asks the others for them.
//!
//! Invariants: a later key is named by all that its document says, the bytes of the key included, so that nobody says something
//! else of it; its maker signs it; it is kept from whoever was gone as far as its maker had heard, and never from its maker; what
//! others say of gone sites in their documents is nobody's word but theirs.
//!
//! Why so: docs/decisions/2026-11-28-credential-keys.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, CredentialKeyId, SiteId, WallTime};

use super::system::{SystemKey, document, document_object, each_document};
use crate::object::Object;
use crate::space::{self, SpaceError};

/// Sites that a document names.
const NAMED: usize = 96;
const NAME: &str = "skerry 2026-11-28 name of a credential key";
const BYTES: &str = "skerry 2026-11-28 bytes of a credential key";
const GONE: &str = "skerry 2026-11-28 sites that a credential key is kept from";

/// With which of the later keys something was sealed, if with one: it begins with the name.
pub fn sealed_with(sealed: &[u8]) -> Option<CredentialKeyId> {
    sealed.first_chunk().map(|first| CredentialKeyId(*first))
}

/// That there is a later credential key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialDocument {
    /// A hash of its bytes and of all that follows but the signature: whoever has not the bytes says nothing of them.
    pub bytes: [u8; 32],
    /// Sites that are not told it: those that were gone, or some of them where these are many.
    pub kept_from: BTreeSet<SiteId>,
    /// A hash of all of those.
    pub all_gone: [u8; 16],
    /// When it was made.
    pub made: WallTime,
    /// At which site.
    pub at: SiteId,
    /// Its signature over [`CredentialDocument::signed`].
    pub signature: Bytes,
}

impl Versioned for CredentialDocument {
    const NAME: &'static str = "credential key document";
    const VERSION: u8 = 1;
}

impl CredentialDocument {
    /// What is to be signed of a key that is made now. `latest`: when the latest was made that its maker has.
    pub fn of(
        key: &[u8; 32],
        gone: &BTreeSet<SiteId>,
        (wall, at): (WallTime, SiteId),
        latest: Option<WallTime>,
    ) -> Self {
        // A clock that is behind would make it look older than those before it.
        let made = latest.map_or(wall, |latest| wall.max(WallTime(latest.0.saturating_add(1))));
        let kept_from = gone.iter().filter(|gone| **gone != at).copied().take(NAMED).collect();
        let all_gone = digest(gone);
        let said = Self { bytes: [0; 32], kept_from, all_gone, made, at, signature: Bytes::new() };
        Self { bytes: said.hash(key), ..said }
    }

    fn hash(&self, key: &[u8; 32]) -> [u8; 32] {
        let said = Self { bytes: [0; 32], ..self.clone() }.signed();
        blake3::derive_key(BYTES, &[&key[..], &said].concat())
    }

    /// What is signed.
    pub fn signed(&self) -> Vec<u8> {
        codec::encode(&Self { signature: Bytes::new(), ..self.clone() })
    }

    /// The name of the key.
    pub fn id(&self) -> CredentialKeyId {
        CredentialKeyId(first(&blake3::derive_key(NAME, &codec::encode(self))))
    }

    /// Whether these are the bytes of the key.
    pub fn is_of(&self, key: &[u8; 32]) -> bool {
        self.hash(key) == self.bytes
    }

    /// Which of the sites that are gone may have it.
    fn known_to(&self, gone: &BTreeSet<SiteId>) -> BTreeSet<SiteId> {
        let is_kept = |site: &SiteId| *site != self.at && self.kept_from.contains(site);
        match digest(gone) == self.all_gone && !gone.contains(&self.at) {
            true => BTreeSet::new(),
            false => gone.iter().filter(|site| !is_kept(site)).copied().collect(),
        }
    }

    /// Where it lies in the system bucket, and what to put there.
    pub fn stored(&self) -> (String, Object) {
        (SystemKey::Credential(self.id()).to_string(), document_object(self, self.made))
    }
}

fn first(hash: &[u8; 32]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    first
}

fn digest(gone: &BTreeSet<SiteId>) -> [u8; 16] {
    let ids: Vec<u8> = gone.iter().flat_map(|site| site.0).collect();
    first(&blake3::derive_key(GONE, &ids))
}

/// What is known of later credential keys, without their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CredentialKeys(BTreeMap<CredentialKeyId, CredentialDocument>);

/// What to seal with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sealer {
    /// The key that the federation began with.
    First,
    /// A later one.
    Later(CredentialKeyId),
}

impl CredentialKeys {
    /// What records say, where this holds of it: that it was signed by its maker. What says something else than its name does,
    /// or does not read, is passed over.
    pub fn load(
        view: &dyn View,
        system: BucketId,
        is_signed: &mut dyn FnMut(&CredentialDocument) -> bool,
    ) -> Result<Self, SpaceError> {
        let mut ids = Vec::new();
        each_document(view, system, "credential/", &mut |key, _| {
            if let SystemKey::Credential(id) = key {
                ids.push(id);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let mut known = Self::default();
        for id in ids {
            for head in &space::heads(view, system, &SystemKey::Credential(id).to_string())? {
                let said = document::<CredentialDocument>(head).ok().flatten();
                let is_so = |said: &CredentialDocument| said.id() == id && said.kept_from.len() <= NAMED;
                if let Some(said) = said.filter(|said| is_so(said) && is_signed(said)) {
                    known.hear(said);
                }
            }
        }
        Ok(known)
    }

    /// Takes a document.
    pub fn hear(&mut self, said: CredentialDocument) {
        self.0.insert(said.id(), said);
    }

    /// A document.
    pub fn get(&self, id: CredentialKeyId) -> Option<&CredentialDocument> {
        self.0.get(&id)
    }

    /// Those that there are, the latest first.
    pub fn latest_first(&self) -> impl Iterator<Item = CredentialKeyId> {
        let made: BTreeSet<_> = self.0.iter().map(|(id, said)| (said.made, *id)).collect();
        made.into_iter().rev().map(|(_, id)| id)
    }

    /// What a secret was sealed with, as far as is known here.
    pub fn of(&self, sealed: &[u8]) -> Sealer {
        let later = sealed_with(sealed).filter(|id| self.0.contains_key(id));
        later.map_or(Sealer::First, Sealer::Later)
    }

    /// Which of the sites that are gone may open what was sealed so.
    pub fn known_to(&self, sealer: Sealer, gone: &BTreeSet<SiteId>) -> BTreeSet<SiteId> {
        let Sealer::Later(id) = sealer else { return gone.clone() };
        self.0.get(&id).map_or_else(|| gone.clone(), |said| said.known_to(gone))
    }

    /// Whether a member may be told the bytes of a key.
    pub fn may_tell(&self, id: CredentialKeyId, asker: SiteId) -> bool {
        self.0.get(&id).is_some_and(|said| !said.kept_from.contains(&asker))
    }

    /// What to seal with, of the keys that are here; none if sites that are gone have each of them.
    pub fn sealer(
        &self,
        is_here: impl Fn(CredentialKeyId) -> bool,
        gone: &BTreeSet<SiteId>,
    ) -> Option<Sealer> {
        let later = self.latest_first().filter(|id| is_here(*id)).map(Sealer::Later);
        later.chain([Sealer::First]).find(|sealer| self.may_seal(*sealer, gone))
    }

    /// Sites that are gone do not have it, and whoever is not gone, as far as is known here, may be told it: a member may have
    /// made one that is kept from others.
    fn may_seal(&self, sealer: Sealer, gone: &BTreeSet<SiteId>) -> bool {
        let is_told = match sealer {
            Sealer::First => true,
            Sealer::Later(id) => self.0.get(&id).is_some_and(|said| said.kept_from.is_subset(gone)),
        };
        is_told && self.known_to(sealer, gone).is_empty()
    }
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
