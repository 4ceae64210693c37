//! The chain that every site checks for itself: root key → admin key → statement that a site belongs.
//!
//! Invariants: nothing is believed because of who sent it; a statement names its federation, so that one from
//! another federation that shares an admin by mistake is refused.

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::{NodeId, SiteId, WallTime};

use super::identity::{Identity, PublicKey, Signature};

const ADMIN: &str = "admin key v1";
const SITE: &str = "site admission v1";

/// The identity of a federation: the first 16 bytes of the BLAKE3 hash of its root public key.
pub fn federation_id(root: &PublicKey) -> [u8; 16] {
    root.node().0
}

/// The root's word that a key may admit sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminCertificate {
    /// The admin key.
    pub key: PublicKey,
    /// What people call it.
    pub name: String,
    /// By the root key.
    pub signature: Signature,
}

impl AdminCertificate {
    /// The root certifies an admin key.
    pub fn issue(root: &Identity, key: PublicKey, name: &str) -> Self {
        let signature = root.sign(ADMIN, &Self::message(&root.public(), &key, name));
        Self { key, name: name.into(), signature }
    }

    /// Whether the root signed this.
    pub fn verify(&self, root: &PublicKey) -> Result<(), Untrusted> {
        let message = Self::message(root, &self.key, &self.name);
        if root.verifies(ADMIN, &message, &self.signature.0) { Ok(()) } else { Err(Untrusted::Admin) }
    }

    fn message(root: &PublicKey, key: &PublicKey, name: &str) -> Vec<u8> {
        [&federation_id(root), &key.0[..], name.as_bytes()].concat()
    }
}

/// An admin key with its certificate.
#[derive(Debug)]
pub struct AdminKey {
    /// The private key.
    pub identity: Identity,
    /// The root's word for it.
    pub certificate: AdminCertificate,
}

impl AdminKey {
    /// Admits a site.
    pub fn admit(&self, statement: &SiteStatement) -> SignedSite {
        let statement = codec::encode(statement);
        let signature = self.identity.sign(SITE, &statement);
        SignedSite { statement, certificate: self.certificate.clone(), signature }
    }
}

/// What an admin states about a site. What a site says of itself (addresses) is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteStatement {
    /// The federation it belongs to.
    pub federation: [u8; 16],
    /// The site.
    pub site: SiteId,
    /// Its name.
    pub name: String,
    /// The key of its node.
    pub node: PublicKey,
    /// When it was admitted, by the admin's clock.
    pub admitted: WallTime,
}

impl Versioned for SiteStatement {
    const NAME: &'static str = "site statement";
    const VERSION: u8 = 1;
}

impl SiteStatement {
    /// The site's node.
    pub fn node(&self) -> NodeId {
        self.node.node()
    }
}

/// A [`SiteStatement`] with the chain that makes it believable: what a site document carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedSite {
    /// The encoded statement, exactly the bytes that are signed.
    pub statement: Vec<u8>,
    /// Who signed, and the root's word for that key.
    pub certificate: AdminCertificate,
    /// By the admin key.
    pub signature: Signature,
}

impl Versioned for SignedSite {
    const NAME: &'static str = "site admission";
    const VERSION: u8 = 1;
}

impl SignedSite {
    /// The form that travels in a site document.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// What it states, if the chain from `root` holds.
    pub fn verify(&self, root: &PublicKey) -> Result<SiteStatement, Untrusted> {
        self.certificate.verify(root)?;
        if !self.certificate.key.verifies(SITE, &self.statement, &self.signature.0) {
            return Err(Untrusted::Site);
        }
        let statement: SiteStatement =
            codec::decode(&self.statement).map_err(|error| Untrusted::Malformed(error.to_string()))?;
        if statement.federation != federation_id(root) {
            return Err(Untrusted::Federation);
        }
        Ok(statement)
    }
}

/// Checks the admission that a site document carries: every site does so on receipt, whoever sent it.
pub fn verify_site_document(root: &PublicKey, admission: &[u8]) -> Result<SiteStatement, Untrusted> {
    let signed: SignedSite =
        codec::decode(admission).map_err(|error| Untrusted::Malformed(error.to_string()))?;
    signed.verify(root)
}

/// Why a statement is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// The admin key is not certified by the root of this federation.
    #[error("signed by a key that this federation's root did not certify")]
    Admin,
    /// The admin did not sign the statement.
    #[error("the admin's signature does not fit the statement")]
    Site,
    /// Another federation's.
    #[error("made for another federation")]
    Federation,
    /// Not a statement.
    #[error("{0}")]
    Malformed(String),
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
