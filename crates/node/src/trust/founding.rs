//! The making of a federation: a root key that leaves the machine, two admin keys that it certifies.
//!
//! Invariants: the root key is written to its own directory and to no site; admin keys are the only ones that admit sites,
//! and the second is a spare to be kept elsewhere. Neither file of a federation is written over. What was interrupted is
//! taken up: the site's keys come first, then the root, and `trust.json`, with which the site exists, last.

use std::path::Path;

use skerry_base::{SiteId, WallTime};

use super::admission::{AdminCertificate, AdminKey, SiteStatement, federation_id};
use super::identity::Identity;
use super::site::{self, SiteTrust};
use super::{SealingKey, TrustError, entropy, files};

/// File of the root key in the federation directory.
pub const ROOT_KEY: &str = "root.key";
/// File of the spare admin key in the federation directory.
pub const SPARE_ADMIN_KEY: &str = "admin-2.key";

/// A federation that was just made.
#[derive(Debug)]
pub struct Founding {
    root: Identity,
    spare: AdminKey,
    /// What the first site is to hold; [`SiteTrust::store`] puts it into the site's directory.
    pub first: SiteTrust,
}

impl Founding {
    /// Makes a federation and its first site.
    pub fn new(first_site: &str, now: WallTime) -> Result<Self, TrustError> {
        let root = Identity::generate()?;
        let admin = certified(&root, "admin-1")?;
        let identity = Identity::generate()?;
        let statement = SiteStatement {
            federation: federation_id(&root.public()),
            site: SiteId(entropy::bytes()?),
            name: first_site.into(),
            node: identity.public(),
            admitted: now,
        };
        let first = SiteTrust {
            identity,
            root: root.public(),
            admission: admin.admit(&statement),
            statement,
            credentials: SealingKey::generate()?,
            admin: Some(admin),
            seat: None,
        };
        Ok(Self { spare: certified(&root, "admin-2")?, root, first })
    }

    /// The same, or what an earlier try left of it: a root key whose only site is the one that was not finished in `site`.
    pub fn begin(first_site: &str, now: WallTime, site: &Path, root: &Path) -> Result<Self, TrustError> {
        let path = root.join(ROOT_KEY);
        if !files::exists(&path)? {
            return Self::new(first_site, now);
        }
        let root = site::load_identity(&path)?;
        // A root key that certified another site's admin key, or has signed a site, is a federation's.
        let Some(kept) = site::Unfinished::load(site, &root.public())? else { return Err(taken(&path)) };
        let statement = SiteStatement {
            federation: federation_id(&root.public()),
            site: SiteId(entropy::bytes()?),
            name: first_site.into(),
            node: kept.identity.public(),
            admitted: now,
        };
        let first = SiteTrust {
            identity: kept.identity,
            root: root.public(),
            admission: kept.admin.admit(&statement),
            statement,
            credentials: kept.credentials,
            admin: Some(kept.admin),
            seat: None,
        };
        Ok(Self { spare: certified(&root, "admin-2")?, root, first })
    }

    /// Makes the site in `site` and lays the root key and the spare admin key into `root`, to be carried away. Refused where
    /// there is something of another federation.
    pub fn store(&self, site: &Path, root: &Path) -> Result<(), TrustError> {
        self.refuse_others(root)?;
        self.first.store_keys(site)?;
        self.store_root(root)?;
        self.first.store_trust(site)
    }

    /// Writes the root key and the spare admin key to a directory to be carried away. An existing federation
    /// there is refused.
    pub fn store_root(&self, directory: &Path) -> Result<(), TrustError> {
        self.refuse_others(directory)?;
        files::private_directory(directory)?;
        let (path, spare) = (directory.join(ROOT_KEY), directory.join(SPARE_ADMIN_KEY));
        // In this order: a spare without its root key is one whose root key was carried away.
        if !files::exists(&path)? {
            files::write_secret(&path, &files::pem("PRIVATE KEY", self.root.pkcs8()))?;
        }
        if files::exists(&spare)? { Ok(()) } else { self.spare.store(&spare) }
    }

    /// Refuses a directory that has a key of another federation: the root key may have been carried away, and the spare be
    /// all that is left when the first box burns.
    fn refuse_others(&self, directory: &Path) -> Result<(), TrustError> {
        let (path, spare) = (directory.join(ROOT_KEY), directory.join(SPARE_ADMIN_KEY));
        let has_root = files::exists(&path)?;
        if has_root && site::load_identity(&path)?.public() != self.root.public() {
            return Err(taken(&path));
        }
        let is_other = || AdminKey::load(&spare, &self.root.public()).is_err();
        if files::exists(&spare)? && (!has_root || is_other()) {
            return Err(taken(&spare));
        }
        Ok(())
    }
}

fn taken(path: &Path) -> TrustError {
    TrustError::Taken(path.display().to_string())
}

fn certified(root: &Identity, name: &str) -> Result<AdminKey, TrustError> {
    let identity = Identity::generate()?;
    let certificate = AdminCertificate::issue(root, identity.public(), name);
    Ok(AdminKey { identity, certificate })
}
