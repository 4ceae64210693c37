//! Who is trusted and why: keys, the federation's root, admission of sites and of their further nodes, join tokens,
//! sealed secrets.
//!
//! Why here: `model` says what a site document holds, this folder says whether to believe it.
//!
//! Invariants: the root key is on no site; what is not signed by the chain root → admin → statement is
//! refused, whoever sent it; secrets never appear in `Debug` or in logs.

pub mod access;
pub mod admission;
pub mod ca;
pub mod entropy;
pub mod files;
pub mod founding;
pub mod identity;
pub mod invite;
pub mod join;
pub mod ring;
pub mod seal;
pub mod seat;
pub mod site;
pub mod token;

pub use admission::{
    AdminCertificate, AdminKey, SignedSite, SiteStatement, Untrusted, federation_id, verify_site_document,
};
pub use identity::{Identity, InvalidKey, PublicKey, Signature};
pub use ring::{CredentialRing, LaterKey};
pub use seal::SealingKey;
pub use seat::{SeatOffer, SeatStatement, SignedSeat};
pub use site::SiteTrust;
pub use token::JoinToken;

/// Why an act on keys or trust files failed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// The disk has no room for a file.
    #[error("{0}: the disk is full")]
    Full(String),
    /// A key of a federation lies where another one was to be made.
    #[error("{0}: there is a federation already; its keys are never overwritten")]
    Taken(String),
    /// A key is not one.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] entropy::NoEntropy),
    /// A credential key that is not here was to seal.
    #[error("the credential key {0} is not here")]
    NoCredentialKey(skerry_base::CredentialKeyId),
    /// Not signed by whom it should be.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// A certificate could not be made.
    #[error("certificate: {0}")]
    Certificate(String),
}
