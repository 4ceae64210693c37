//! The canonical request, the string to sign and the signing key.

use hyper::HeaderMap;
use ring::hmac;
use sha2::{Digest, Sha256};
use skerry_base::hex;

use super::ALGORITHM;
use crate::s3::uri::{Query, encode_into};

/// What a signature is computed over, apart from time and scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canonical<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The path, decoded.
    pub(crate) path: &'a str,
    /// The query.
    pub(crate) query: &'a Query,
    /// All headers of the request.
    pub(crate) headers: &'a HeaderMap,
    /// The host, when HTTP/2 carries it outside of the headers.
    pub(crate) host: &'a str,
    /// Names of the signed ones, lower-case, sorted.
    pub(crate) signed: &'a [String],
    /// `x-amz-content-sha256` or what stands for it.
    pub(crate) payload: &'a str,
}

impl Canonical<'_> {
    /// The hash of the canonical request. `raw_path` replaces the path encoded by us, for clients that sign
    /// what they send.
    pub(crate) fn hash(&self, raw_path: Option<&str>) -> String {
        let mut text = String::with_capacity(1024);
        text.push_str(self.method);
        text.push('\n');
        match raw_path {
            Some(path) => text.push_str(path),
            None => encode_into(&mut text, self.path, true),
        }
        text.push('\n');
        text.push_str(&self.query.canonical("X-Amz-Signature"));
        text.push('\n');
        for name in self.signed {
            text.push_str(name);
            text.push(':');
            self.push_value(&mut text, name);
            text.push('\n');
        }
        for (index, name) in self.signed.iter().enumerate() {
            text.push(if index == 0 { '\n' } else { ';' });
            text.push_str(name);
        }
        text.push('\n');
        text.push_str(self.payload);
        hex::text(&Sha256::digest(text))
    }

    fn push_value(&self, text: &mut String, name: &str) {
        let mut any = false;
        for value in self.headers.get_all(name) {
            if any {
                text.push(',');
            }
            any = true;
            push_squeezed(text, value.as_bytes());
        }
        if !any && name == "host" {
            text.push_str(self.host);
        }
    }
}

/// Appends it trimmed, and with runs of spaces made one.
fn push_squeezed(text: &mut String, value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    let mut words = value.split(' ').filter(|word| !word.is_empty());
    text.push_str(words.next().unwrap_or_default());
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
}

/// The text whose HMAC is the signature.
pub(crate) fn string_to_sign(stamp: &str, scope: &str, hash: &str) -> String {
    format!("{ALGORITHM}\n{stamp}\n{scope}\n{hash}")
}

/// The key of one day, region and service.
#[derive(Clone)]
pub(crate) struct SigningKey(hmac::Key);

impl SigningKey {
    /// Derives it from a secret.
    pub(crate) fn derive(secret: &str, date: &str, region: &str, service: &str) -> Self {
        let step =
            |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let first = step(format!("AWS4{secret}").as_bytes(), date);
        let second = step(first.as_ref(), region);
        let third = step(second.as_ref(), service);
        let last = step(third.as_ref(), "aws4_request");
        Self(hmac::Key::new(hmac::HMAC_SHA256, last.as_ref()))
    }

    /// The signature in hexadecimal.
    pub(crate) fn sign(&self, text: &str) -> String {
        hex::text(hmac::sign(&self.0, text.as_bytes()).as_ref())
    }

    /// Whether `signature` is that of `text`; takes the same time whatever differs.
    pub(crate) fn verify(&self, text: &str, signature: &[u8; 32]) -> bool {
        hmac::verify(&self.0, text.as_bytes(), signature).is_ok()
    }
}

impl core::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SigningKey")
    }
}
