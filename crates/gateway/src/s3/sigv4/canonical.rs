//! The canonical request, the string to sign and the signing key.

use hyper::HeaderMap;
use ring::hmac;
use sha2::{Digest, Sha256};

use super::ALGORITHM;
use crate::s3::uri::{Query, encode};
use crate::service::hex;

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
        let path = raw_path.map_or_else(|| encode(self.path, true), Into::into);
        let query = self.query.canonical("X-Amz-Signature");
        let mut text = format!("{}\n{path}\n{query}\n", self.method);
        for name in self.signed {
            text.push_str(&format!("{name}:{}\n", self.value(name)));
        }
        text.push_str(&format!("\n{}\n{}", self.signed.join(";"), self.payload));
        hex(&Sha256::digest(text))
    }

    fn value(&self, name: &str) -> String {
        let values: Vec<String> =
            self.headers.get_all(name).iter().map(|value| squeeze(value.as_bytes())).collect();
        if values.is_empty() && name == "host" { self.host.to_owned() } else { values.join(",") }
    }
}

/// Trims, and makes runs of spaces one.
fn squeeze(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
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
        hex(hmac::sign(&self.0, text.as_bytes()).as_ref())
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
