//! The other side of Signature V4: a client of ours signs its requests.
//!
//! Why here: one reading of the canonical request serves whoever verifies and whoever signs. The time comes in.

use std::sync::{Mutex, PoisonError};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue};
use skerry_base::WallTime;

use super::sigv4::{ALGORITHM, Canonical, SigningKey, string_to_sign};
use super::uri::{self, Query};
use crate::service::date;

/// A body that the signature does not cover.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Signs for one access key in one region.
pub struct Signer {
    access_key: String,
    secret: String,
    region: String,
    /// The key of the day last signed for: deriving it costs four times as much as using it.
    day: Mutex<Option<(String, SigningKey)>>,
}

impl Signer {
    /// With these credentials.
    pub fn new(access_key: &str, secret: &str, region: &str) -> Self {
        let (access_key, secret, region) = (access_key.into(), secret.into(), region.into());
        Self { access_key, secret, region, day: Mutex::new(None) }
    }

    /// Adds `x-amz-date`, `x-amz-content-sha256` and `authorization`. `target` is path and query as they will be
    /// sent; the headers hold `host`, and all of them are signed; `payload` is the hash of the body in hexadecimal
    /// or [`UNSIGNED_PAYLOAD`].
    pub fn sign(
        &self,
        method: &str,
        target: &str,
        headers: &mut HeaderMap,
        payload: &str,
        time: WallTime,
    ) -> Result<(), InvalidHeaderValue> {
        let stamp = date::amz(time);
        headers.insert("x-amz-date", HeaderValue::from_str(&stamp)?);
        headers.insert("x-amz-content-sha256", HeaderValue::from_str(payload)?);
        let mut signed: Vec<String> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        signed.sort();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = uri::decode(path, false).unwrap_or_default();
        let query = Query::parse(Some(query)).unwrap_or_default();
        let canonical =
            Canonical { method, path: &path, query: &query, headers, host: "", signed: &signed, payload };
        let day = stamp.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let signature = self.key(day).sign(&string_to_sign(&stamp, &scope, &canonical.hash(None)));
        let authorization = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
            self.access_key,
            signed.join(";"),
        );
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&authorization)?);
        Ok(())
    }

    fn key(&self, day: &str) -> SigningKey {
        let mut kept = self.day.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some((of, key)) if of == day => key.clone(),
            _ => {
                let key = SigningKey::derive(&self.secret, day, &self.region, "s3");
                *kept = Some((day.to_owned(), key.clone()));
                key
            }
        }
    }
}

impl core::fmt::Debug for Signer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Signer").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// A key as the path of a request has it.
pub fn encode_key(key: &str) -> String {
    uri::encode(key, true)
}

/// A value as the query of a request has it.
pub fn encode_value(value: &str) -> String {
    uri::encode(value, false)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The worked example of the S3 documentation: GET with a range.
    #[test]
    fn the_documented_signature() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let signer = Signer::new("AKIAIOSFODNN7EXAMPLE", secret, "us-east-1");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for _ in 0..2 {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static("examplebucket.s3.amazonaws.com"));
            headers.insert("range", HeaderValue::from_static("bytes=0-9"));
            let time = date::parse_amz("20130524T000000Z").unwrap();
            signer.sign("GET", "/test.txt", &mut headers, empty, time).unwrap();
            let found = headers.get(AUTHORIZATION).unwrap().to_str().unwrap();
            let wanted = "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
            assert!(found.ends_with(wanted), "{found}");
        }
    }
}
