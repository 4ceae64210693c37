//! The credential keys that a site has: the federation's first, from its invitation, and later ones in `credential.keys`, each with
//! what its maker said of it.
//!
//! Which of them seals, and who is told which, is decided in [`skerry_model::bucket`]. Invariants: a later key counts once its
//! file is synced, and nobody who opens a secret waits for that; what was sealed with one begins with its name, and what the
//! first sealed with a nonce; a document of a key is believed if the site that it says made it signed it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::{CredentialKeyId, SiteId};
use skerry_model::bucket::{CredentialDocument, Sealer, sealed_with};

use super::seal::NotOpened;
use super::{Identity, PublicKey, SealingKey, SiteTrust, TrustError, files};

const FILE: &str = "credential.keys";
const TAG: &str = "SKERRY LATER CREDENTIAL KEY";
const PURPOSE: &str = "credential key v1";

/// A later key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterKey {
    /// Its bytes.
    pub key: SealingKey,
    /// What its maker said.
    pub said: CredentialDocument,
}

impl Versioned for LaterKey {
    const NAME: &'static str = "later credential key";
    const VERSION: u8 = 1;
}

/// Keys that are kept: of another maker, and in all. Whoever makes more is not heard; so many are left for own ones.
const OF_ONE: usize = 256;
const MOST: usize = 1024;

/// Keys by name.
type Later = BTreeMap<CredentialKeyId, LaterKey>;

/// The keys of one site.
#[derive(Debug)]
pub struct CredentialRing {
    path: PathBuf,
    own: SiteId,
    signer: Identity,
    first: SealingKey,
    later: RwLock<Later>,
    /// Whoever writes the file.
    writing: Mutex<()>,
}

impl CredentialRing {
    /// Reads the file, if there is one.
    pub fn load(directory: &Path, trust: &SiteTrust) -> Result<Self, TrustError> {
        let path = directory.join(FILE);
        let text = if files::exists(&path)? { files::read_secret(&path)? } else { String::new() };
        let later = read(&path, &text).map_err(|error| told_again(&path, &error))?;
        let signer = Identity::from_pkcs8(trust.identity.pkcs8())?;
        let (first, later) = (trust.credentials.clone(), RwLock::new(later));
        let own = trust.statement.site;
        Ok(Self { path, own, signer, first, later, writing: Mutex::default() })
    }

    /// Whether a key is here.
    pub fn has(&self, id: CredentialKeyId) -> bool {
        self.later().contains_key(&id)
    }

    /// A later key, if it is here. Secret.
    pub fn get(&self, id: CredentialKeyId) -> Option<SealingKey> {
        self.later().get(&id).map(|later| later.key.clone())
    }

    /// What their makers said of the later keys that are here.
    pub fn said(&self) -> Vec<CredentialDocument> {
        self.later().values().map(|later| later.said.clone()).collect()
    }

    fn later(&self) -> std::sync::RwLockReadGuard<'_, Later> {
        self.later.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps later keys, as many as there is room for. Blocks: they are on the disk when it returns.
    pub fn add(&self, keys: impl IntoIterator<Item = LaterKey>) -> Result<(), TrustError> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.later().clone();
        let mut all = before.clone();
        for later in keys {
            let maker = later.said.at;
            let of_one = || all.values().filter(|other| other.said.at == maker).count();
            let has_room = match maker == self.own {
                true => all.len() < MOST,
                false => all.len() < MOST - OF_ONE && of_one() < OF_ONE,
            };
            if has_room {
                all.insert(later.said.id(), later);
            }
        }
        if all != before {
            let text: String = all.values().map(|later| files::pem(TAG, &codec::encode(later))).collect();
            files::write_secret(&self.path, &text)?;
            *self.later.write().unwrap_or_else(PoisonError::into_inner) = all;
        }
        Ok(())
    }

    /// Seals a secret.
    pub fn seal(&self, sealer: Sealer, about: &str, secret: &[u8]) -> Result<Vec<u8>, TrustError> {
        match sealer {
            Sealer::First => Ok(self.first.seal(about, secret)?),
            Sealer::Later(id) => {
                let key = self.get(id).ok_or(TrustError::NoCredentialKey(id))?;
                Ok([&id.0[..], &key.seal(about, secret)?].concat())
            }
        }
    }

    /// Opens what [`Self::seal`] made about the same subject, at whichever site.
    pub fn open(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
        let later = sealed_with(sealed).and_then(|id| self.get(id));
        match later.and_then(|key| key.open(about, sealed.get(ID_BYTES..)?).ok()) {
            Some(secret) => Ok(secret),
            None => self.first.open(about, sealed),
        }
    }

    /// Signs what this site says of a key that it made.
    pub fn sign(&self, said: CredentialDocument) -> CredentialDocument {
        let signature = self.signer.sign(PURPOSE, &said.signed()).0.into();
        CredentialDocument { signature, ..said }
    }
}

const ID_BYTES: usize = size_of::<CredentialKeyId>();

/// Whether a document of a key was signed with this key of the site that it names.
pub fn is_signed(said: &CredentialDocument, maker: &PublicKey) -> bool {
    maker.verifies(PURPOSE, &said.signed(), &said.signature)
}

fn read(path: &Path, text: &str) -> Result<Later, String> {
    let mut later = BTreeMap::new();
    for bytes in files::all_from_pem(path, TAG, text).map_err(|error| error.to_string())? {
        let key: LaterKey = codec::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        if !key.said.is_of(key.key.as_bytes()) {
            return Err(format!("{}: a key is not the one that is said of it", path.display()));
        }
        later.insert(key.said.id(), key);
    }
    Ok(later)
}

/// Other sites have those that were ever told.
fn told_again(path: &Path, reason: &str) -> TrustError {
    let what = "move the file away: other sites tell the keys again that they have";
    TrustError::File { path: path.display().to_string(), reason: format!("{reason}; {what}") }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
