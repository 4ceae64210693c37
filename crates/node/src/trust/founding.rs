//! The making of a federation: a root key that leaves the machine, two admin keys that it certifies.
//!
//! Invariant: the root key is written to its own directory and to no site; admin keys are the only ones that
//! admit sites, and the second is a spare to be kept elsewhere.

use std::path::Path;

use skerry_base::{SiteId, WallTime};

use super::admission::{AdminCertificate, AdminKey, SiteStatement, federation_id};
use super::identity::Identity;
use super::site::SiteTrust;
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

    /// Writes the root key and the spare admin key to a directory to be carried away. An existing federation
    /// there is refused.
    pub fn store_root(&self, directory: &Path) -> Result<(), TrustError> {
        let path = directory.join(ROOT_KEY);
        if files::exists(&path)? {
            let reason = "there is a federation already; its root key is never overwritten".into();
            return Err(TrustError::File { path: path.display().to_string(), reason });
        }
        files::private_directory(directory)?;
        self.spare.store(&directory.join(SPARE_ADMIN_KEY))?;
        files::write_secret(&path, &files::pem("PRIVATE KEY", self.root.pkcs8()))
    }
}

fn certified(root: &Identity, name: &str) -> Result<AdminKey, TrustError> {
    let identity = Identity::generate()?;
    let certificate = AdminCertificate::issue(root, identity.public(), name);
    Ok(AdminKey { identity, certificate })
}
