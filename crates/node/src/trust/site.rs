//! What one site holds of the trust, and its files: `node.key`, `credential.key`, `trust.json`; where sites may be
//! invited, `admin.key`; at a further node of a site, `seat.admission`; before its first start, `unstarted`.
//!
//! Secrets lie in files that only the owner reads (`seal = file`); the disk itself is not sealed.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use skerry_base::codec;

use super::admission::{AdminCertificate, AdminKey, SignedSite, SiteStatement};
use super::identity::{Identity, PublicKey};
use super::{SealingKey, SeatStatement, SignedSeat, TrustError, Untrusted, files};

const NODE_KEY: &str = "node.key";
const CREDENTIAL_KEY: &str = "credential.key";
const ADMIN_KEY: &str = "admin.key";
const TRUST: &str = "trust.json";
/// What the store is known by.
const STORE: &str = "data/store";
const SEAT: &str = "seat.admission";
/// Made with the site, gone after its first start: tells a new disk of a new machine from the emptied one of an old.
const UNSTARTED: &str = "unstarted";
const KEY_TAG: &str = "PRIVATE KEY";
const CREDENTIAL_TAG: &str = "SKERRY CREDENTIAL KEY";
const CERTIFICATE_TAG: &str = "SKERRY ADMIN CERTIFICATE";

/// The keys of a site and its proof of membership.
#[derive(Debug)]
pub struct SiteTrust {
    /// The node's own key.
    pub identity: Identity,
    /// The federation's root.
    pub root: PublicKey,
    /// Why other sites believe that this one belongs.
    pub admission: SignedSite,
    /// What the admission states.
    pub statement: SiteStatement,
    /// Seals the secrets of access keys, the same on all sites; later ones are in [`super::CredentialRing`].
    pub credentials: SealingKey,
    /// The key that admits sites, at sites that may invite.
    pub admin: Option<AdminKey>,
    /// The seat that this node fills at a site whose first node is another one.
    pub seat: Option<SignedSeat>,
}

/// `trust.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    version: u8,
    root: String,
    admission: String,
}

impl SiteTrust {
    /// Whether a directory holds a site; who may not look into it does not know.
    pub fn exists(directory: &Path) -> Result<bool, TrustError> {
        files::exists(&directory.join(TRUST))
    }

    /// Whether keys of a site or its store lie there, and no proof of membership beside them: no interrupted try, but a site
    /// that lost a file.
    pub fn is_torn(directory: &Path) -> Result<bool, TrustError> {
        let has = |name: &str| files::exists(&directory.join(name));
        Ok(!has(TRUST)? && !has(UNSTARTED)? && (has(NODE_KEY)? || has(STORE)?))
    }

    /// Writes the files. `unstarted` comes first: keys without it are of a site that was started. `trust.json` comes last: with it
    /// the site exists.
    pub fn store(&self, directory: &Path) -> Result<(), TrustError> {
        self.store_keys(directory)?;
        self.store_trust(directory)
    }

    /// All of them but `trust.json`.
    pub(super) fn store_keys(&self, directory: &Path) -> Result<(), TrustError> {
        files::private_directory(directory)?;
        files::write_text(&directory.join(UNSTARTED), "this site was never started\n")?;
        files::write_secret(&directory.join(NODE_KEY), &files::pem(KEY_TAG, self.identity.pkcs8()))?;
        let credentials = files::pem(CREDENTIAL_TAG, self.credentials.as_bytes());
        files::write_secret(&directory.join(CREDENTIAL_KEY), &credentials)?;
        if let Some(admin) = &self.admin {
            admin.store(&directory.join(ADMIN_KEY))?;
        }
        if let Some(seat) = &self.seat {
            files::write_text(&directory.join(SEAT), &(STANDARD.encode(seat.encode()) + "\n"))?;
        }
        Ok(())
    }

    /// `trust.json`.
    pub(super) fn store_trust(&self, directory: &Path) -> Result<(), TrustError> {
        let admission = STANDARD.encode(self.admission.encode());
        let file = TrustFile { version: 1, root: self.root.to_string(), admission };
        let path = directory.join(TRUST);
        let text = serde_json::to_string_pretty(&file).map_err(|error| damaged(&path, error))?;
        files::write_text(&path, &(text + "\n"))
    }

    /// Reads the files and checks that they fit together.
    pub fn load(directory: &Path) -> Result<Self, TrustError> {
        let path = directory.join(TRUST);
        let file: TrustFile =
            serde_json::from_str(&files::read_text(&path)?).map_err(|error| damaged(&path, error))?;
        if file.version != 1 {
            return Err(damaged(&path, format!("version {}; this release reads version 1", file.version)));
        }
        let root: PublicKey = file.root.parse().map_err(|error| damaged(&path, error))?;
        let admission = STANDARD.decode(&file.admission).map_err(|error| damaged(&path, error))?;
        let admission: SignedSite = codec::decode(&admission).map_err(|error| damaged(&path, error))?;
        let statement = admission.verify(&root)?;
        let identity = load_identity(&directory.join(NODE_KEY))?;
        if statement.node != identity.public() {
            return Err(damaged(&path, "the admission is for another node key than node.key"));
        }
        let credentials = load_credentials(&directory.join(CREDENTIAL_KEY))?;
        let admin_path = directory.join(ADMIN_KEY);
        let admin =
            if files::exists(&admin_path)? { Some(AdminKey::load(&admin_path, &root)?) } else { None };
        let seat_path = directory.join(SEAT);
        let seat = if files::exists(&seat_path)? { Some(load_seat(&seat_path)?) } else { None };
        if let Some(seat) = &seat {
            seat.verify(&root, statement.site, &identity.public())?;
        }
        Ok(Self { identity, root, admission, statement, credentials, admin, seat })
    }

    /// What the seat's admission states, if this node fills one.
    pub fn seated(&self) -> Option<SeatStatement> {
        self.seat.as_ref()?.verify(&self.root, self.statement.site, &self.identity.public()).ok()
    }

    /// Whether the site in a directory was never started.
    pub fn is_unstarted(directory: &Path) -> bool {
        files::exists(&directory.join(UNSTARTED)).unwrap_or(false)
    }

    /// It was: what its disk has from now on is all that there is.
    pub fn started(directory: &Path) -> Result<(), TrustError> {
        files::remove(&directory.join(UNSTARTED))
    }
}

/// Keys of a founding that came to no end: they lie in the site's directory, and nothing was signed with them yet.
pub(super) struct Unfinished {
    pub(super) identity: Identity,
    pub(super) credentials: SealingKey,
    pub(super) admin: AdminKey,
}

impl Unfinished {
    /// What an earlier try left in a directory under this root key; none if there is a site, or a key of another federation.
    pub(super) fn load(directory: &Path, root: &PublicKey) -> Result<Option<Self>, TrustError> {
        let has = |name: &str| files::exists(&directory.join(name));
        // One that was started is no try, whatever became of its files.
        if has(TRUST)? || !has(UNSTARTED)? || !has(ADMIN_KEY)? {
            return Ok(None);
        }
        let Ok(admin) = AdminKey::load(&directory.join(ADMIN_KEY), root) else { return Ok(None) };
        let identity = load_identity(&directory.join(NODE_KEY))?;
        let credentials = load_credentials(&directory.join(CREDENTIAL_KEY))?;
        Ok(Some(Self { identity, credentials, admin }))
    }
}

impl AdminKey {
    /// Writes the key and its certificate to one secret file.
    pub fn store(&self, path: &Path) -> Result<(), TrustError> {
        let key = files::pem(KEY_TAG, self.identity.pkcs8());
        files::write_secret(path, &(key + &files::pem(CERTIFICATE_TAG, &codec::encode(&self.certificate))))
    }

    /// Reads the file and checks the certificate.
    pub fn load(path: &Path, root: &PublicKey) -> Result<Self, TrustError> {
        let identity = load_identity(path)?;
        let bytes = files::from_pem(path, CERTIFICATE_TAG, &files::read_secret(path)?)?;
        let certificate: AdminCertificate = codec::decode(&bytes).map_err(|error| damaged(path, error))?;
        certificate.verify(root)?;
        if certificate.key != identity.public() {
            return Err(Untrusted::Admin.into());
        }
        Ok(Self { identity, certificate })
    }
}

impl codec::Versioned for AdminCertificate {
    const NAME: &'static str = "admin certificate";
    const VERSION: u8 = 1;
}

pub(super) fn load_identity(path: &Path) -> Result<Identity, TrustError> {
    Ok(Identity::from_pkcs8(&files::from_pem(path, KEY_TAG, &files::read_secret(path)?)?)?)
}

fn load_seat(path: &Path) -> Result<SignedSeat, TrustError> {
    let bytes = STANDARD.decode(files::read_text(path)?.trim()).map_err(|error| damaged(path, error))?;
    codec::decode(&bytes).map_err(|error| damaged(path, error))
}

fn load_credentials(path: &Path) -> Result<SealingKey, TrustError> {
    let bytes = files::from_pem(path, CREDENTIAL_TAG, &files::read_secret(path)?)?;
    let bytes = bytes.try_into().map_err(|_| damaged(path, "a credential key has 32 bytes"))?;
    Ok(SealingKey::from_bytes(bytes))
}

fn damaged(path: &Path, reason: impl ToString) -> TrustError {
    TrustError::File { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
