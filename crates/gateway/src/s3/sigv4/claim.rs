//! What a request claims: who signed what, when, for how long.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use skerry_base::WallTime;
use skerry_base::hex;

use super::canonical::string_to_sign;
use super::keys::{SigningKeys, Used};
use super::{ALGORITHM, Canonical};
use crate::s3::REGION;
use crate::s3::uri::Query;
use crate::service::{ErrorKind, Outcome, ServiceError, date};

/// Links live at most seven days.
const EXPIRES_MAX: u64 = 7 * 24 * 3600;
/// Names that a signature covers: more than a request has headers, few enough to be looked through before anything is proven.
const SIGNED_MAX: usize = 512;

/// How the body is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Its hash is signed.
    Hash([u8; 32]),
    /// Not at all.
    Unsigned,
    /// It comes in `aws-chunked` encoding.
    Chunked {
        /// Every chunk carries a signature.
        signed: bool,
        /// Headers come after the last one.
        trailer: bool,
    },
}

impl Payload {
    fn parse(text: &str) -> Outcome<Self> {
        match text {
            "UNSIGNED-PAYLOAD" => Ok(Self::Unsigned),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Ok(Self::Chunked { signed: true, trailer: false }),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Ok(Self::Chunked { signed: true, trailer: true }),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Self::Chunked { signed: false, trailer: true }),
            other if other.starts_with("STREAMING-AWS4-ECDSA") => {
                Err(ServiceError::not_implemented("signature V4A"))
            }
            other => hex::parse(other).map(Self::Hash).map_err(|_| {
                argument("x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a streaming kind or a SHA-256 in hexadecimal")
            }),
        }
    }
}

/// A claim, not yet believed.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The access key id.
    pub(crate) access_key: String,
    date: String,
    region: String,
    /// `time` as the signature has it.
    stamp: String,
    /// When it was signed.
    pub(crate) time: WallTime,
    /// Seconds a presigned link lives.
    pub(crate) expires: Option<u64>,
    /// How the body is protected.
    pub(crate) payload: Payload,
    payload_text: String,
    signed: Vec<String>,
    signature: [u8; 32],
}

impl Claim {
    /// Reads the claim from the Authorization header or from a presigned query. `None` if there is none.
    pub(crate) fn read(headers: &HeaderMap, query: &Query) -> Outcome<Option<Self>> {
        let header = headers.get(AUTHORIZATION).map(|value| value.to_str());
        let presigned = query.has("X-Amz-Algorithm") || query.has("X-Amz-Signature");
        if query.has("Signature") && query.has("AWSAccessKeyId") {
            return Err(version_two());
        }
        match (header, presigned) {
            (None, false) => Ok(None),
            (Some(_), true) => {
                Err(argument("sign either by the Authorization header or by the query, not both"))
            }
            (None, true) => Self::from_query(headers, query).map(Some),
            (Some(Ok(text)), false) => Self::from_header(text, headers).map(Some),
            (Some(Err(_)), false) => Err(malformed("the Authorization header is not text")),
        }
    }

    fn from_header(text: &str, headers: &HeaderMap) -> Outcome<Self> {
        let fields = match text.split_once(' ') {
            Some((ALGORITHM, fields)) => fields,
            Some(("AWS4-ECDSA-P256-SHA256", _)) => {
                return Err(ServiceError::not_implemented("signature V4A"));
            }
            Some(("AWS", _)) => return Err(version_two()),
            _ => return Err(argument("the authorization type is not supported; sign with AWS4-HMAC-SHA256")),
        };
        let field = |name: &str| {
            let mut found = fields.split(',').filter_map(|field| field.trim().split_once('='));
            let value = found.find(|(one, _)| *one == name).map(|(_, value)| value.trim());
            value.ok_or_else(|| malformed(&format!("the Authorization header lacks {name}")))
        };
        let stamp = header(headers, "x-amz-date");
        let time = match stamp {
            Some(stamp) => date::parse_amz(stamp).or_else(|| date::parse_http(stamp)),
            None => header(headers, "date").and_then(date::parse_http),
        };
        let Some(time) = time else {
            return Err(ServiceError::new(
                ErrorKind::AccessDenied,
                "a signed request needs x-amz-date in the form 20060102T150405Z",
            ));
        };
        let Some(payload) = header(headers, "x-amz-content-sha256") else {
            return Err(ServiceError::new(
                ErrorKind::InvalidRequest,
                "Missing required header for this request: x-amz-content-sha256",
            ));
        };
        Self::build(field("Credential")?, field("SignedHeaders")?, field("Signature")?, time, None, payload)
    }

    fn from_query(headers: &HeaderMap, query: &Query) -> Outcome<Self> {
        let field = |name: &str| {
            query.get(name).ok_or_else(|| {
                ServiceError::new(
                    ErrorKind::AuthorizationQueryParametersError,
                    format!("the presigned link lacks {name}"),
                )
            })
        };
        match field("X-Amz-Algorithm")? {
            ALGORITHM => {}
            "AWS4-ECDSA-P256-SHA256" => return Err(ServiceError::not_implemented("signature V4A")),
            _ => return Err(argument("X-Amz-Algorithm only supports AWS4-HMAC-SHA256")),
        }
        let time = date::parse_amz(field("X-Amz-Date")?)
            .ok_or_else(|| bad_link("X-Amz-Date must be in the form 20060102T150405Z"))?;
        let expires: u64 = field("X-Amz-Expires")?
            .parse()
            .map_err(|_| bad_link("X-Amz-Expires must be a number of seconds"))?;
        if !(1..=EXPIRES_MAX).contains(&expires) {
            return Err(bad_link("X-Amz-Expires must be between 1 and 604800 seconds"));
        }
        let signed = field("X-Amz-SignedHeaders")?;
        let named = signed.split(';').any(|name| name.eq_ignore_ascii_case("x-amz-content-sha256"));
        let payload = query
            .get("X-Amz-Content-Sha256")
            .or_else(|| header(headers, "x-amz-content-sha256").filter(|_| named))
            .unwrap_or("UNSIGNED-PAYLOAD");
        Self::build(
            field("X-Amz-Credential")?,
            signed,
            field("X-Amz-Signature")?,
            time,
            Some(expires),
            payload,
        )
    }

    fn build(
        credential: &str,
        signed: &str,
        signature: &str,
        time: WallTime,
        expires: Option<u64>,
        payload: &str,
    ) -> Outcome<Self> {
        let malformed = match expires {
            Some(_) => bad_link,
            None => malformed,
        };
        // The access key may hold slashes, what follows cannot.
        let mut fields = credential.rsplitn(5, '/');
        let (Some("aws4_request"), Some(service), Some(region), Some(date), Some(access_key)) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(malformed("the credential must be KEY/20060102/region/s3/aws4_request"));
        };
        if service != "s3" {
            return Err(malformed("the service in the credential must be s3"));
        }
        let stamp = date::amz(time);
        if !stamp.starts_with(date) || date.len() != 8 {
            return Err(malformed("the date in the credential is not that of the request"));
        }
        let mut signed: Vec<String> = signed.split(';').map(str::to_ascii_lowercase).collect();
        if signed.len() > SIGNED_MAX {
            return Err(malformed(&format!(
                "SignedHeaders has {} names, at most {SIGNED_MAX}",
                signed.len()
            )));
        }
        signed.sort_unstable();
        // Each name brings all values of its header into what is hashed, and nothing is proven yet: named a thousand times
        // one header would be a thousand times as much of it.
        if let Some([name, _]) = signed.array_windows().find(|[one, next]| one == next) {
            return Err(malformed(&format!("SignedHeaders names {name} twice")));
        }
        let signature = hex::parse(signature).map_err(|_| {
            ServiceError::new(ErrorKind::SignatureDoesNotMatch, "the signature is not 64 hexadecimal digits")
        })?;
        Ok(Self {
            access_key: access_key.into(),
            date: date.into(),
            region: region.into(),
            stamp,
            time,
            expires,
            payload: Payload::parse(payload)?,
            payload_text: payload.into(),
            signed,
            signature,
        })
    }

    /// Refuses another region than the one configured.
    pub(crate) fn check_region(&self, wanted: Option<&str>) -> Outcome<()> {
        match wanted {
            Some(wanted) if wanted != self.region => {
                let malformed = match self.expires {
                    Some(_) => bad_link,
                    None => malformed,
                };
                let refused =
                    malformed(&format!("the region '{}' is wrong; expecting '{wanted}'", self.region));
                // Clients read it there, and sign anew.
                Err(refused.with_header(REGION, wanted))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a request that carries what it did not sign: the host must be, every `x-amz-` header, and every `x-skerry-` one,
    /// by which who was handed a link would choose which sites are asked, or whoever is on the way how little a write waits for.
    pub(crate) fn check_signed(&self, headers: &HeaderMap) -> Outcome<()> {
        let exempt = |name: &str| self.expires.is_some() && name == "x-amz-content-sha256";
        let is_ours = |name: &&str| name.starts_with("x-amz-") || name.starts_with("x-skerry-");
        let ours = headers.keys().map(hyper::header::HeaderName::as_str).filter(is_ours);
        let missing = ours.filter(|name| !exempt(name)).chain(["host"]).find(|name| !self.has_signed(name));
        match missing {
            Some(name) => Err(ServiceError::new(
                ErrorKind::AccessDenied,
                format!("There were headers present in the request which were not signed: {name}"),
            )),
            None => Ok(()),
        }
    }

    fn has_signed(&self, name: &str) -> bool {
        self.signed.binary_search_by(|one| one.as_str().cmp(name)).is_ok()
    }

    /// Whether the secret made this signature over this request; `path` is raw. Answers the keys for the
    /// chunks that follow. `kept` saves the derivation of the key.
    pub(crate) fn verify(
        &self,
        secret: &str,
        request: Canonical<'_>,
        raw_path: &str,
        kept: &SigningKeys,
    ) -> Outcome<super::ChunkKeys> {
        let request = Canonical { signed: &self.signed, payload: &self.payload_text, ..request };
        let used = Used { access_key: &self.access_key, secret, date: &self.date, region: &self.region };
        let key = kept.of(used);
        let stamp = self.stamp.clone();
        let scope = format!("{}/{}/s3/aws4_request", self.date, self.region);
        let text = |raw| string_to_sign(&stamp, &scope, &request.hash(raw));
        if !key.verify(&text(None), &self.signature) && !key.verify(&text(Some(raw_path)), &self.signature) {
            return Err(ServiceError::new(
                ErrorKind::SignatureDoesNotMatch,
                "The request signature we calculated does not match the signature you provided. \
                 Check your key and signing method.",
            ));
        }
        kept.keep(used, &key);
        Ok(super::ChunkKeys { key, stamp, scope, previous: hex::text(&self.signature) })
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn malformed(message: &str) -> ServiceError {
    ServiceError::new(ErrorKind::AuthorizationHeaderMalformed, message)
}

/// The same of a presigned link.
fn bad_link(message: &str) -> ServiceError {
    ServiceError::new(ErrorKind::AuthorizationQueryParametersError, message)
}

fn argument(message: &str) -> ServiceError {
    ServiceError::new(ErrorKind::InvalidArgument, message)
}

fn version_two() -> ServiceError {
    ServiceError::new(
        ErrorKind::InvalidRequest,
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    )
}
