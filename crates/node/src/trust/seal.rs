//! Sealing of small secrets with ChaCha20-Poly1305: access keys in records, under the federation's credential
//! key that every site received when it joined.
//!
//! Invariants: a fresh random nonce per sealing; the `about` text is authenticated, so that a sealed secret
//! moved to another access key does not open. A key seals far fewer than 2^32 secrets: random nonces are safe.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use super::entropy;

/// A symmetric key. What it is encoded as is secret; what it is shown as is not.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingKey([u8; 32]);

/// The sealed bytes are damaged, about something else, or sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed secret does not open: another key, another subject, or damage")]
pub struct NotOpened;

impl SealingKey {
    /// A new key.
    pub fn generate() -> Result<Self, entropy::NoEntropy> {
        entropy::bytes().map(Self)
    }

    /// Takes the stored form.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The stored form. Secret.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.0).ok().map(LessSafeKey::new)
    }

    /// Seals `secret`: nonce, then ciphertext with its tag.
    pub fn seal(&self, about: &str, secret: &[u8]) -> Result<Vec<u8>, entropy::NoEntropy> {
        let nonce = entropy::bytes::<NONCE_LEN>()?;
        let mut sealed = secret.to_vec();
        let tag = self
            .key()
            .and_then(|key| {
                let aad = Aad::from(about.as_bytes());
                key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()
            })
            .ok_or(entropy::NoEntropy)?;
        Ok([&nonce[..], &sealed, tag.as_ref()].concat())
    }

    /// Opens what [`SealingKey::seal`] made about the same subject.
    pub fn open(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(NotOpened)?;
        let mut text = rest.to_vec();
        let key = self.key().ok_or(NotOpened)?;
        let aad = Aad::from(about.as_bytes());
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text);
        Ok(opened.map_err(|_| NotOpened)?.to_vec())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn opens_only_with_its_key_about_its_subject_and_undamaged() {
        let key = SealingKey::generate().unwrap();
        let sealed = key.seal("key AKIA1", b"secret").unwrap();
        assert_eq!(key.open("key AKIA1", &sealed).unwrap(), b"secret");
        assert_eq!(key.open("key AKIA2", &sealed), Err(NotOpened));
        assert_eq!(SealingKey::generate().unwrap().open("key AKIA1", &sealed), Err(NotOpened));
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(key.open("key AKIA1", &bad), Err(NotOpened));
        }
        assert_eq!(key.open("key AKIA1", b"short"), Err(NotOpened));
        assert_ne!(sealed, key.seal("key AKIA1", b"secret").unwrap());
        assert!(!format!("{key:?}").contains(&format!("{:?}", key.0)));
    }
}
