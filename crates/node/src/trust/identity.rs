//! Ed25519 keys: what a node is, what a federation trusts, and signatures.
//!
//! Invariants: a private key is written once, with mode 0600, and never printed; every signature covers a
//! context text first, so that a signature made for one purpose is no signature for another.

use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use skerry_base::NodeId;
use skerry_base::hex;
use skerry_base::id::InvalidId;

use super::entropy;

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// The node that holds this key: the first 16 bytes of the BLAKE3 hash of the key.
    pub fn node(&self) -> NodeId {
        let hash = blake3::hash(&self.0);
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        NodeId(id)
    }

    /// Whether `signature` was made over `message` for `purpose` by the holder of this key.
    pub fn verifies(&self, purpose: &str, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&framed(purpose, message), signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex::write(&self.0, &mut [0; 64]))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl std::str::FromStr for PublicKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        hex::parse(text).map(Self)
    }
}

/// A signature: 64 bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature(pub Vec<u8>);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({} bytes)", self.0.len())
    }
}

/// A private key with its public half.
pub struct Identity {
    pair: Ed25519KeyPair,
    pkcs8: Vec<u8>,
    key: PublicKey,
}

/// Not a private key, or none could be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable Ed25519 private key: {0}")]
pub struct InvalidKey(pub String);

impl Identity {
    /// A new key.
    pub fn generate() -> Result<Self, InvalidKey> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(entropy::source())
            .map_err(|_| InvalidKey("the system gave no randomness".into()))?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    /// Reads the form that [`Identity::pkcs8`] gives.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, InvalidKey> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|error| InvalidKey(error.to_string()))?;
        let mut key = [0; 32];
        key.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { pair, pkcs8: pkcs8.to_vec(), key: PublicKey(key) })
    }

    /// The stored form. Secret.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.key
    }

    /// The node this key stands for.
    pub fn node(&self) -> NodeId {
        self.key.node()
    }

    /// Signs `message` for `purpose`.
    pub fn sign(&self, purpose: &str, message: &[u8]) -> Signature {
        sign(&self.pair, purpose, message)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.node())
    }
}

/// Signs with a bare key pair, as for invitations, whose keys have no stored form.
pub(super) fn sign(pair: &Ed25519KeyPair, purpose: &str, message: &[u8]) -> Signature {
    Signature(pair.sign(&framed(purpose, message)).as_ref().to_vec())
}

/// What is really signed: the purpose, a zero byte (no purpose holds one), the message.
fn framed(purpose: &str, message: &[u8]) -> Vec<u8> {
    let mut text = format!("skerry {purpose}\0").into_bytes();
    text.extend_from_slice(message);
    text
}
