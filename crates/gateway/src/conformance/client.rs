//! A small S3 client that signs, and that can be told to sign wrongly.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, DATE, HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use md5::Md5;
use sha2::{Digest, Sha256};
use skerry_base::WallTime;
use skerry_base::hex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::s3::sigv4::{ALGORITHM, Canonical, SigningKey, string_to_sign};
use crate::s3::uri::{Query, decode, encode};
use crate::service::date;

/// An access key and its secret.
#[derive(Clone)]
pub struct Credentials {
    /// The access key id.
    pub access_key: String,
    /// Its secret.
    pub secret: String,
}

impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

impl Answer {
    /// A header as text, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The texts of all elements of a name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let text = self.text();
        let found =
            text.split(&open).skip(1).filter_map(|rest| rest.split_once(&close).map(|(inner, _)| inner));
        found.map(unescape).collect()
    }

    /// The text of the first element of a name, or nothing.
    pub fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_default()
    }
}

fn unescape(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    pairs.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A request to be made.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    /// Path and query as sent.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// What the signature says of the body; its hash, if absent.
    pub(super) payload: Option<&'static str>,
    /// Seconds that the clock of the client is ahead.
    pub(super) ahead: i64,
}

impl Ask {
    /// Without a body.
    pub(super) fn new(method: &'static str, target: impl Into<String>) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, target: target.into(), headers, body, payload: None, ahead: 0 }
    }

    /// With a body.
    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With a header.
    pub(super) fn header(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_bytes(value.as_ref().as_bytes()) {
            self.headers.append(HeaderName::from_static(name), value);
        }
        self
    }
}

/// Speaks to one endpoint.
#[derive(Debug, Clone)]
pub struct Client {
    authority: String,
    credentials: Credentials,
}

/// What a signature needs beside the request.
pub(super) struct Seal {
    pub(super) key: SigningKey,
    pub(super) stamp: String,
    pub(super) scope: String,
    pub(super) signature: String,
}

impl Client {
    /// For an endpoint such as `http://127.0.0.1:7600`.
    pub fn new(endpoint: &str, credentials: Credentials) -> Self {
        let authority = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { authority, credentials }
    }

    /// The same endpoint with another key.
    pub(super) fn with(&self, access_key: &str, secret: &str) -> Self {
        let credentials = Credentials { access_key: access_key.into(), secret: secret.into() };
        Self { credentials, ..self.clone() }
    }

    /// Host and port.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The access key in use.
    pub(super) fn access_key(&self) -> &str {
        &self.credentials.access_key
    }

    /// The secret in use.
    pub(super) fn secret(&self) -> &str {
        &self.credentials.secret
    }

    /// Signs and sends.
    pub(super) async fn send(&self, mut ask: Ask) -> Result<Answer, String> {
        self.seal(&mut ask);
        self.send_as_is(ask).await
    }

    /// Sends without signing.
    pub(super) async fn send_as_is(&self, mut ask: Ask) -> Result<Answer, String> {
        let error = |error: &dyn core::fmt::Display| format!("{} {}: {error}", ask.method, ask.target);
        let stream = TcpStream::connect(&self.authority).await.map_err(|e| error(&e))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| error(&e))?;
        let mut request = Request::builder().method(ask.method).uri(&ask.target);
        if let Some(headers) = request.headers_mut() {
            headers.extend(core::mem::take(&mut ask.headers));
            headers.entry(HOST).or_insert_with(|| self.host());
            if ask.body.is_empty() && matches!(ask.method, "PUT" | "POST") {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        }
        let request = request.body(Full::new(ask.body.clone())).map_err(|e| error(&e))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|e| error(&e))?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|e| error(&e))?.to_bytes();
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        // The connection only moves while it is polled, and ends when the sender is dropped.
        let driven = async {
            let _ = connection.await;
            core::future::pending::<()>().await;
        };
        tokio::select! {
            answer = exchange => answer,
            () = driven => Err(error(&"the connection ended")),
        }
    }

    /// Writes the head of a signed request and then these bytes, ends the sending side, and reads all.
    pub(super) async fn send_raw(&self, ask: Ask, body: &[u8]) -> Result<String, String> {
        let head = self.raw_head(ask);
        let exchange = async {
            let mut stream = TcpStream::connect(&self.authority).await?;
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body).await?;
            stream.shutdown().await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
        };
        exchange.await.map_err(|error| error.to_string())
    }

    fn raw_head(&self, mut ask: Ask) -> String {
        self.seal(&mut ask);
        let mut head = format!("{} {} HTTP/1.1\r\n", ask.method, ask.target);
        for (name, value) in &ask.headers {
            head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
        }
        head + "\r\n"
    }

    /// The head of a signed request with an unsigned payload, as it goes over the wire: for tests of what
    /// happens between the bytes.
    pub fn head(&self, method: &'static str, target: &str, headers: &[(&'static str, &str)]) -> String {
        let ask = Ask { payload: Some("UNSIGNED-PAYLOAD"), ..Ask::new(method, target) };
        self.raw_head(headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)))
    }

    fn host(&self) -> HeaderValue {
        HeaderValue::from_str(&self.authority).unwrap_or(HeaderValue::from_static("localhost"))
    }

    /// Adds the signature, and the time: in `Date`, where the request has one, as boto3 does.
    pub(super) fn seal(&self, ask: &mut Ask) -> Seal {
        let time = now(ask.ahead);
        let stamp = date::amz(time);
        let payload = ask.payload.map_or_else(|| hex::text(&Sha256::digest(&ask.body)), Into::into);
        ask.headers.insert(HOST, self.host());
        let (dated, day) = match ask.headers.contains_key(DATE) {
            true => ("date", date::http(time).replace("GMT", "-0000")),
            false => ("x-amz-date", stamp.clone()),
        };
        for (name, value) in [(dated, &day), ("x-amz-content-sha256", &payload)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                ask.headers.insert(name, value);
            }
        }
        let mut signed: Vec<String> = ask.headers.keys().map(|name| name.as_str().to_owned()).collect();
        signed.sort();
        let seal = self.sign(ask, &signed, &payload, stamp);
        let authorization = format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={}",
            self.credentials.access_key,
            seal.scope,
            signed.join(";"),
            seal.signature
        );
        if let Ok(value) = HeaderValue::from_str(&authorization) {
            ask.headers.insert(AUTHORIZATION, value);
        }
        seal
    }

    fn sign(&self, ask: &Ask, signed: &[String], payload: &str, stamp: String) -> Seal {
        let (path, query) = ask.target.split_once('?').unwrap_or((&ask.target, ""));
        let path = decode(path, false).unwrap_or_default();
        let query = Query::parse(Some(query)).unwrap_or_default();
        let (headers, method) = (&ask.headers, ask.method);
        let canonical = Canonical { method, path: &path, query: &query, headers, host: "", signed, payload };
        let day = stamp.get(..8).unwrap_or_default();
        let scope = format!("{day}/island-1/s3/aws4_request");
        let key = SigningKey::derive(&self.credentials.secret, day, "island-1", "s3");
        let signature = key.sign(&string_to_sign(&stamp, &scope, &canonical.hash(None)));
        Seal { key, stamp, scope, signature }
    }

    /// A presigned target, good for some seconds from a time `ahead` of now.
    pub(super) fn presign(&self, method: &'static str, target: &str, seconds: u64, ahead: i64) -> String {
        let stamp = date::amz(now(ahead));
        let day = stamp.get(..8).unwrap_or_default().to_owned();
        let credential =
            encode(&format!("{}/{day}/island-1/s3/aws4_request", self.credentials.access_key), false);
        let joint = if target.contains('?') { '&' } else { '?' };
        let target = format!(
            "{target}{joint}X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={credential}&X-Amz-Date={stamp}\
             &X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host"
        );
        let mut ask = Ask::new(method, target.clone());
        ask.headers.insert(HOST, self.host());
        let seal = self.sign(&ask, &["host".into()], "UNSIGNED-PAYLOAD", stamp);
        format!("{target}&X-Amz-Signature={}", seal.signature)
    }
}

/// The time of this machine, some seconds ahead.
fn now(ahead: i64) -> WallTime {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    WallTime((millis + ahead * 1000).max(0) as u64)
}

/// `Content-MD5` of bytes.
pub(super) fn content_md5(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

/// The ETag of bytes put in one go, quoted.
pub(super) fn etag_of(bytes: &[u8]) -> String {
    format!("\"{}\"", hex::text(&Md5::digest(bytes)))
}
