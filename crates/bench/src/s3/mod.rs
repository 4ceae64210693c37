//! Any S3 endpoint as a target: plain HTTP or TLS, Signature V4.
//!
//! Invariants: one request for one operation (a listing of all pages apart), and none is repeated, so that a failure of
//! the service is seen; the one exception is a kept connection that the server had closed before the request was
//! read, which is opened again once, and its time counted as connecting.

mod answer;
mod endpoint;
mod upload;

use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use skerry_base::WallTime;
use skerry_base::hex;
use skerry_gateway::s3::sign::{Signer, UNSIGNED_PAYLOAD, encode_key, encode_value};
use tokio_rustls::TlsConnector;

use self::answer::Page;
use self::endpoint::{Connection, Endpoint};
use self::upload::{Sum, Upload};
use crate::body::spread;
use crate::plan::Verify;
use crate::target::{Ask, Done, Failure, Operation, Slot, Target, WRONG_BYTES, WRONG_LISTING, judge_read};

/// Code of an exchange that broke off.
const BROKEN: &str = "broken";
/// Pages of a listing that are followed: ten million keys.
const PAGES: u64 = 10_000;

/// How to reach an S3 service.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Config {
    /// `http://HOST:PORT` or `https://HOST:PORT`; with several, see `choose`.
    pub endpoints: Vec<String>,
    /// Access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// Region in the signature.
    #[serde(default = "default_region")]
    pub region: String,
    /// Which endpoint an operation goes to.
    #[serde(default)]
    pub choose: Choose,
    /// Where the bucket's name stands.
    #[serde(default)]
    pub addressing: Addressing,
    /// Whether the signature covers the body (SHA-256, costs CPU).
    #[serde(default)]
    pub sign_payload: bool,
    /// Certificates (PEM) of authorities to trust, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_pem: Option<String>,
}

impl std::fmt::Debug for S3Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Config").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Which of several endpoints an operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// Worker n to endpoint n, around.
    #[default]
    Worker,
    /// Any: by the hash of worker, operation and key.
    Hash,
}

/// Where the bucket's name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// In the path.
    #[default]
    Path,
    /// Before the host's name.
    Virtual,
}

fn default_region() -> String {
    "us-east-1".into()
}

/// Why an S3 target cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// An S3 service under load.
pub struct S3Target {
    config: S3Config,
    endpoints: Vec<Endpoint>,
    signer: Signer,
    tls: Option<TlsConnector>,
}

impl S3Target {
    /// Checks the settings; connects to nothing.
    pub fn new(config: S3Config) -> Result<Self, ConfigError> {
        let endpoints: Vec<Endpoint> =
            config.endpoints.iter().map(|text| Endpoint::parse(text)).collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(ConfigError("no endpoint is named".into()));
        }
        let tls = match endpoints.iter().any(Endpoint::is_tls) {
            true => Some(endpoint::connector(config.authorities_pem.as_deref().unwrap_or_default())?),
            false => None,
        };
        let signer = Signer::new(&config.access_key, &config.secret_key, &config.region);
        Ok(Self { config, endpoints, signer, tls })
    }

    fn endpoint_of(&self, slot: &Slot, ask: &Ask) -> usize {
        let number = match self.config.choose {
            Choose::Worker => slot.worker,
            Choose::Hash => spread(slot.worker ^ ask.operation as u64, &ask.key),
        };
        (number % self.endpoints.len() as u64) as usize
    }
}

#[async_trait]
impl Target for S3Target {
    fn describe(&self) -> String {
        format!("s3 {}", self.config.endpoints.join(" "))
    }

    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done {
        let index = self.endpoint_of(slot, ask);
        let Some(endpoint) = self.endpoints.get(index) else { return Done::default() };
        let mut kept: Kept = slot.take().unwrap_or_default();
        kept.0.resize_with(self.endpoints.len(), || None);
        let open = kept.0.get_mut(index).and_then(Option::take);
        let mut exchange =
            Exchange { target: self, endpoint, ask, begin: Instant::now(), open, done: Done::default() };
        let ended =
            if ask.operation == Operation::List { exchange.list().await } else { exchange.one().await };
        let Exchange { open, mut done, .. } = exchange;
        // After a failure the state of a connection is anyone's guess, unless the answer was read to its end.
        if let Some(place) = kept.0.get_mut(index) {
            *place = open;
        }
        slot.keep(kept);
        done.failure = ended.err();
        done
    }
}

/// Connections of a worker, one for each endpoint.
#[derive(Default)]
struct Kept(Vec<Option<Connection>>);

/// One operation on its way.
struct Exchange<'a> {
    target: &'a S3Target,
    endpoint: &'a Endpoint,
    ask: &'a Ask,
    begin: Instant,
    /// The connection, while it can be used again.
    open: Option<Connection>,
    done: Done,
}

impl Exchange<'_> {
    fn nanos(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn story(&self, text: impl std::fmt::Display) -> String {
        let Ask { operation, bucket, key, .. } = self.ask;
        format!("{operation} {bucket}/{key} at {}: {text}", self.endpoint.authority)
    }

    fn broken(&self, error: &dyn std::error::Error) -> Failure {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        Failure::new(BROKEN, self.story(text))
    }

    /// Everything but a listing: one request.
    async fn one(&mut self) -> Result<(), Failure> {
        let wants_sum = self.ask.verify == Verify::Md5 && self.ask.operation == Operation::Put;
        let sum: Option<Sum> = wants_sum.then(Sum::default);
        let (connection, response) = self.send("", sum.as_ref()).await?;
        if !response.status().is_success() {
            return Err(self.refused(connection, response).await);
        }
        let etag = answer::md5_of(response.headers());
        let found = match self.ask.operation {
            Operation::Get => self.read(connection, response.into_body(), etag).await?,
            Operation::Put => {
                self.drain(connection, response.into_body()).await?;
                self.done.bytes = self.ask.body.length;
                let sent = sum.map(|sum| {
                    hex::text(&sum.lock().unwrap_or_else(PoisonError::into_inner).clone().finalize())
                });
                sent.zip(etag).filter(|(sent, etag)| sent != etag)
            }
            _ => {
                self.drain(connection, response.into_body()).await?;
                None
            }
        };
        match found {
            Some((ours, theirs)) => {
                Err(Failure::new(WRONG_BYTES, self.story(format!("MD5 here {ours}, ETag there {theirs}"))))
            }
            None => Ok(()),
        }
    }

    /// Reads an object and looks at it; answers the sums if they differ.
    async fn read(
        &mut self,
        mut connection: Connection,
        mut body: Incoming,
        etag: Option<String>,
    ) -> Result<Option<(String, String)>, Failure> {
        let mut checker = self.ask.body.check();
        let mut sum = (self.ask.verify == Verify::Md5).then(Md5::new);
        let looks = self.ask.verify != Verify::None;
        let mut read = 0;
        while let Some(piece) = connection.frame(&mut body).await.map_err(|error| self.broken(&*error))? {
            read += piece.len() as u64;
            if looks {
                checker.take(&piece);
            }
            if let Some(sum) = &mut sum {
                sum.update(&piece);
            }
        }
        self.done.bytes = read;
        self.open = Some(connection);
        if let Some(failure) = judge_read(self.ask, &checker) {
            return Err(failure);
        }
        let ours = sum.map(|sum| hex::text(&sum.finalize()));
        Ok(ours.zip(etag).filter(|(ours, theirs)| ours != theirs))
    }

    /// Reads a short answer to its end.
    async fn drain(&mut self, mut connection: Connection, mut body: Incoming) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        while let Some(piece) = connection.frame(&mut body).await.map_err(|error| self.broken(&*error))? {
            if text.len() + piece.len() > answer::ANSWER_BYTES {
                return Err(Failure::new(BROKEN, self.story("the answer is longer than any of S3's")));
            }
            text.extend_from_slice(&piece);
        }
        self.open = Some(connection);
        Ok(text)
    }

    async fn refused(&mut self, connection: Connection, response: Response<Incoming>) -> Failure {
        let status = response.status().as_u16();
        match self.drain(connection, response.into_body()).await {
            Ok(text) => {
                let (code, message) = answer::error_of(status, &text);
                Failure::new(code, self.story(message))
            }
            Err(_) => Failure::new(
                status.to_string(),
                self.story(format!("HTTP {status}, and the answer broke off")),
            ),
        }
    }

    /// A listing: one page, or all of them when the number of keys is known.
    async fn list(&mut self) -> Result<(), Failure> {
        let prefix = encode_value(&self.ask.key);
        let mut token = String::new();
        let mut keys = 0;
        for _ in 0..PAGES {
            let query = format!("?list-type=2{token}&prefix={prefix}");
            let (connection, response) = self.send(&query, None).await?;
            if !response.status().is_success() {
                return Err(self.refused(connection, response).await);
            }
            let text = self.drain(connection, response.into_body()).await?;
            self.done.bytes += text.len() as u64;
            let page = Page::of(&text);
            keys += page.keys;
            let Some(expected) = self.ask.expected else { return Ok(()) };
            match page.next {
                Some(next) => token = format!("&continuation-token={}", encode_value(&next)),
                None if keys == expected => return Ok(()),
                None => {
                    let text = self.story(format!("{keys} keys are shown, {expected} are there"));
                    return Err(Failure::new(WRONG_LISTING, text));
                }
            }
        }
        Err(Failure::new(WRONG_LISTING, self.story("the listing does not end")))
    }

    /// Sends a request and waits for the head of its answer. The connection comes back with it: whoever reads the
    /// answer to its end may keep it.
    async fn send(
        &mut self,
        query: &str,
        sum: Option<&Sum>,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        if let Some(mut connection) = self.open.take() {
            let request = self.request(query, sum)?;
            match connection.send(request).await {
                Ok(response) => return Ok(self.first_byte(connection, response)),
                Err(Broken { stale: true, .. }) => {}
                Err(Broken { error, .. }) => return Err(self.broken(&error)),
            }
        }
        let before = self.nanos();
        let mut connection = self.endpoint.connect(self.target.tls.as_ref()).await?;
        self.done.connect_ns += self.nanos() - before;
        if let Some(sum) = sum {
            *sum.lock().unwrap_or_else(PoisonError::into_inner) = Md5::new();
        }
        let request = self.request(query, sum)?;
        let response = connection.send(request).await.map_err(|broken| self.broken(&broken.error))?;
        Ok(self.first_byte(connection, response))
    }

    fn first_byte(
        &mut self,
        connection: Connection,
        response: Response<Incoming>,
    ) -> (Connection, Response<Incoming>) {
        if self.done.first_byte_ns == 0 {
            self.done.first_byte_ns = self.nanos();
        }
        (connection, response)
    }

    fn request(&self, query: &str, sum: Option<&Sum>) -> Result<Request<Upload>, Failure> {
        let config = &self.target.config;
        let (method, body) = match self.ask.operation {
            Operation::Put => (Method::PUT, Upload::of(self.ask.body.frames(), sum.map(Arc::clone))),
            Operation::CreateBucket => (Method::PUT, Upload::given(location(&config.region))),
            Operation::Get | Operation::List => (Method::GET, Upload::given(Bytes::new())),
            Operation::Head => (Method::HEAD, Upload::given(Bytes::new())),
            Operation::Delete | Operation::DeleteBucket => (Method::DELETE, Upload::given(Bytes::new())),
        };
        let bucket = &self.ask.bucket;
        let key =
            if self.ask.operation == Operation::List { String::new() } else { encode_key(&self.ask.key) };
        let (host, target) = match config.addressing {
            Addressing::Path if key.is_empty() => {
                (self.endpoint.authority.clone(), format!("/{bucket}{query}"))
            }
            Addressing::Path => (self.endpoint.authority.clone(), format!("/{bucket}/{key}{query}")),
            Addressing::Virtual => {
                (format!("{bucket}.{}", self.endpoint.authority), format!("/{key}{query}"))
            }
        };
        let payload = match self.ask.operation {
            _ if !config.sign_payload => UNSIGNED_PAYLOAD.to_owned(),
            Operation::Put => hash(self.ask.body.frames()),
            Operation::CreateBucket => hash([location(&config.region)]),
            _ => hash([]),
        };
        let unfit = |error: &dyn std::error::Error| Failure::new("unfit", self.story(error));
        let mut request = Request::new(body);
        *request.uri_mut() = target.parse().map_err(|error| unfit(&error))?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&host).map_err(|error| unfit(&error))?);
        let signed = self.target.signer.sign(method.as_str(), &target, headers, &payload, now());
        signed.map_err(|error| unfit(&error))?;
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("skerry-bench/", env!("CARGO_PKG_VERSION"))),
        );
        if method == Method::PUT {
            let length = request.body().length();
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        *request.method_mut() = method;
        Ok(request)
    }
}

/// The document that names a region; the classic one takes none.
fn location(region: &str) -> Bytes {
    if region == "us-east-1" {
        return Bytes::new();
    }
    format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
    )
    .into()
}

fn hash(pieces: impl IntoIterator<Item = Bytes>) -> String {
    let mut hash = Sha256::new();
    pieces.into_iter().for_each(|piece| hash.update(&piece));
    hex::text(&hash.finalize())
}

fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64))
}

/// A request that did not get its answer.
struct Broken {
    error: hyper::Error,
    /// The connection had ended before the request was on it.
    stale: bool,
}

impl Connection {
    /// Sends, driving the connection meanwhile.
    async fn send(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, Broken> {
        let Self { sender, moving } = self;
        let exchange = async {
            sender.ready().await.map_err(|error| Broken { error, stale: true })?;
            let sent = sender.try_send_request(request).await;
            sent.map_err(|mut unsent| {
                let stale = unsent.take_message().is_some();
                Broken { error: unsent.into_error(), stale }
            })
        };
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            // It only moves bytes; when it ends first the exchange still holds what was read, or says why not.
            _ = moving => exchange.await,
        }
    }

    /// The next piece of an answer; none at its end.
    async fn frame(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Box<hyper::Error>> {
        use http_body_util::BodyExt;
        loop {
            let next = async { body.frame().await };
            let mut next = std::pin::pin!(next);
            let frame = tokio::select! {
                biased;
                frame = &mut next => frame,
                _ = &mut self.moving => next.await,
            };
            match frame.transpose().map_err(Box::new)? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}
