//! The client of a site's admin face: one connection, one request, one JSON answer.
//!
//! Invariants: nothing waits longer than the deadline; an answer is bounded. A token goes to the loopback or over TLS
//! unless an operator said otherwise: with `s3.insecure` in the site's own configuration, which is what is followed
//! where a directory is named, or with `--insecure` where an endpoint is ([`crate::place`] looks at that).

mod endpoint;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, CertificateError};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::exit::{Failure, Outcome};

pub(crate) use endpoint::Endpoint;

/// No answer is longer.
const ANSWER_BYTES: usize = 16 << 20;

/// How to ask one site.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Where it listens.
    pub(crate) endpoint: Endpoint,
    /// What lets one in.
    pub(crate) token: Option<String>,
    /// The authority that its certificate comes from, if it speaks TLS.
    pub(crate) authority: Option<PathBuf>,
    /// How long to wait for an answer.
    pub(crate) timeout: Duration,
    /// Whether endpoint and token are those of a site's directory.
    pub(crate) is_directory_s: bool,
}

/// An answer with its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Client {
    /// Asks.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        self.json(Method::GET, path, Bytes::new()).await
    }

    /// Asks for what may not be there: none if it is not.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Outcome<Option<T>> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            _ => self.read(&answer, path).map(Some),
        }
    }

    /// Acts.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        self.json(Method::POST, path, encode(body)?).await
    }

    /// Changes.
    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        self.json(Method::PATCH, path, encode(body)?).await
    }

    async fn json<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Outcome<T> {
        let answer = self.send(method, path, body).await?;
        self.read(&answer, path)
    }

    fn read<T: DeserializeOwned>(&self, answer: &Answer, path: &str) -> Outcome<T> {
        if !answer.status.is_success() {
            return Err(self.refusal(answer));
        }
        let unreadable =
            |error| Failure::failed(format!("{}{path}: unreadable answer: {error}", self.endpoint));
        serde_json::from_slice(&answer.body).map_err(unreadable)
    }

    /// One request, whatever the status of its answer.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Outcome<Answer> {
        let silent =
            |_| Failure::unreachable(format!("{}: no answer within {:?}", self.endpoint, self.timeout));
        tokio::time::timeout(self.timeout, self.exchange(method, path, body)).await.map_err(silent)?
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Outcome<Answer> {
        let stream = TcpStream::connect((self.endpoint.host.as_str(), self.endpoint.port)).await;
        let stream = stream.map_err(|error| self.unreachable(error))?;
        if !self.endpoint.tls {
            return self.talk(stream, method, path, body).await;
        }
        let name = ServerName::try_from(self.endpoint.host.clone())
            .map_err(|error| Failure::usage(format!("{}: {error}", self.endpoint)))?;
        let stream =
            self.connector()?.connect(name, stream).await.map_err(|error| self.no_handshake(&error))?;
        self.talk(stream, method, path, body).await
    }

    async fn talk<S>(&self, stream: S, method: Method, path: &str, body: Bytes) -> Outcome<Answer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.unreachable(error))?;
        let request = self.request(method, path, body)?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(|error| self.no_http(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| self.unreachable(error))?.to_bytes();
            Ok(Answer { status, body })
        };
        tokio::pin!(exchange);
        tokio::select! {
            // The connection only moves bytes; when it ends first the exchange still holds what was read.
            _ = connection => exchange.await,
            answer = &mut exchange => answer,
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Outcome<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, self.endpoint.authority());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|error| Failure::usage(format!("{path}: {error}")))
    }

    fn connector(&self) -> Outcome<tokio_rustls::TlsConnector> {
        let Some(path) = &self.authority else {
            let hint = "name the certificate of its authority with --ca FILE";
            return Err(Failure::usage(format!("{} speaks TLS; {hint}", self.endpoint)));
        };
        let unusable = |error: String| {
            let hint = "--ca names a file (PEM) with the certificate of the authority, as tls/ca.pem in a site's directory";
            Failure::usage(format!("{} cannot be used as --ca: {error}; {hint}", path.display()))
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))? {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable("there is no certificate in it".into()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(tokio_rustls::TlsConnector::from(Arc::new(config)))
    }

    fn unreachable(&self, error: impl std::fmt::Display) -> Failure {
        Failure::unreachable(format!("{}: {error}", self.endpoint))
    }

    /// Who answers, and not in HTTP.
    fn no_http(&self, error: &hyper::Error) -> Failure {
        match error.is_parse() {
            true => self.unreachable(
                "what listens there speaks no HTTP: if it has a certificate say https:// and --ca FILE, and a port for \
                 other sites (peer.listen) is none for this",
            ),
            // Who has a certificate may hang up on what is no TLS without a word.
            false if error.is_incomplete_message() || error.is_canceled() || is_hung_up(error) => self.unreachable(
                "what listens there hung up without an answer: if it has a certificate say https:// and --ca FILE",
            ),
            false => self.unreachable(error),
        }
    }

    /// Who answers, and not in our TLS.
    fn no_handshake(&self, error: &std::io::Error) -> Failure {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::AlertReceived(
                AlertDescription::HandshakeFailure
                | AlertDescription::CertificateRequired
                | AlertDescription::NoApplicationProtocol,
            )) => self.unreachable(
                "what listens there talks to other sites: that is a port of peer.listen, not of S3 or admin.listen",
            ),
            Some(rustls::Error::InvalidMessage(_)) => {
                self.unreachable("what listens there speaks no TLS: say http://")
            }
            Some(rustls::Error::InvalidCertificate(wrong)) => self.no_certificate(wrong),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof
                || error.kind() == std::io::ErrorKind::ConnectionReset =>
            {
                self.unreachable("what listens there hung up on TLS: if it has no certificate say http://")
            }
            _ => self.unreachable(error),
        }
    }

    /// Who answers in our TLS, and cannot prove who it is: nothing was said to it.
    fn no_certificate(&self, wrong: &CertificateError) -> Failure {
        let authority = self.authority.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let host = &self.endpoint.host;
        self.unreachable(match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "its certificate is not of the authority in {authority}: name that of the site that listens there with --ca FILE \
                 (tls/ca.pem in its directory, if `--tls` made it)"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "its certificate is not for {host}: ask it by a name that it was made for (`skerry init --tls NAME`)"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired, or the clock of this machine is wrong".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: the clock of this machine, or of the one that made it, is wrong".into()
            }
            other => format!("its certificate cannot be trusted: {other}"),
        })
    }

    /// Why a token may be refused.
    const fn hint(&self) -> &'static str {
        match (self.is_directory_s, &self.token) {
            (true, _) => {
                "the token is the one in the directory: does this site run, or does another one listen at its address?"
            }
            (false, Some(_)) => {
                "wrong admin token: give DIR/admin.token of the site that listens there as SKERRY_TOKEN"
            }
            (false, None) => {
                "no admin token: give DIR/admin.token of the site that listens there as SKERRY_TOKEN"
            }
        }
    }

    /// What an answer that is no success means.
    fn refusal(&self, answer: &Answer) -> Failure {
        let text = String::from_utf8_lossy(&answer.body);
        let said = serde_json::from_slice::<Value>(&answer.body).ok().and_then(|body| message(&body));
        let said = said.unwrap_or_else(|| text.chars().take(400).collect());
        let message = format!("{}: {said}", self.endpoint);
        match answer.status.as_u16() {
            401 => Failure::refused(format!("{}: {} (HTTP 401: {said})", self.endpoint, self.hint())),
            // Whoever answers 503 is there, and will not now.
            403 | 404 | 409 | 503 => Failure::refused(message),
            400 if REFUSED.contains(&code(&answer.body).as_str()) => Failure::refused(message),
            400 | 422 => Failure::usage(message),
            502 | 504 => Failure::unreachable(message),
            status => Failure::failed(format!("{message} (HTTP {status})")),
        }
    }
}

/// Whether the other end ended the connection.
fn is_hung_up(error: &hyper::Error) -> bool {
    use std::io::ErrorKind;
    let inner = std::error::Error::source(error).and_then(|inner| inner.downcast_ref::<std::io::Error>());
    inner.is_some_and(|inner| {
        matches!(inner.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
    })
}

/// What is 400 by S3's word and says nothing against the command line: names of buckets are looked at before a site is asked, so
/// it is one that is another site's own; a site of a release before says `InvalidRequest` of what cannot be as things are.
const REFUSED: [&str; 3] = ["TooManyBuckets", "InvalidBucketName", "InvalidRequest"];

/// The code of an error document.
fn code(body: &[u8]) -> String {
    let code = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|body| Some(body.get("error")?.as_str()?.to_owned()));
    code.unwrap_or_default()
}

/// The message of an error document, flat or under `error`.
fn message(body: &Value) -> Option<String> {
    let found =
        body.get("message").or_else(|| body.get("error")?.get("message")).or_else(|| body.get("error"))?;
    found.as_str().map(str::to_owned)
}

fn encode(body: &impl Serialize) -> Outcome<Bytes> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| Failure::failed(format!("JSON: {error}")))
}

/// A name as a segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests;
