//! Where an S3 service listens, and the connections to it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::ConfigError;
use super::upload::Upload;
use crate::target::{CONNECT, Failure};

/// After so long without a word the other side's kernel is asked, three times.
const PROBE: Duration = Duration::from_secs(15);

/// An endpoint as it was written, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    tls: bool,
    host: String,
    port: u16,
    /// `host:port` as the Host header has it.
    pub(super) authority: String,
}

impl Endpoint {
    /// Reads `http://HOST[:PORT]`.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong =
            || ConfigError(format!("{text:?} is no endpoint; say http://HOST:PORT or https://HOST:PORT"));
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (tls, usual) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(wrong()),
        };
        let authority = rest.trim_end_matches('/');
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, usual),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let odd = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '@');
        if host.is_empty() || host.contains(odd) {
            return Err(wrong());
        }
        Ok(Self { tls, host: host.to_owned(), port, authority: authority.to_owned() })
    }

    /// Whether it speaks TLS.
    pub(super) const fn is_tls(&self) -> bool {
        self.tls
    }

    async fn dial(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        // A service whose connection broke on a crowded path may never get word of it through: who waits for an answer
        // asks the kernel of the other side, and fails in seconds instead of after all its patience.
        let probes = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE).with_retries(3);
        SockRef::from(&stream).set_tcp_keepalive(&probes)?;
        Ok(stream)
    }

    /// Opens a connection, ready for a request.
    pub(super) async fn connect(&self, tls: Option<&TlsConnector>) -> Result<Connection, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(CONNECT, format!("{}: {error}", self.authority));
        let stream = self.dial().await.map_err(|error| failed(&error))?;
        let Some(tls) = tls.filter(|_| self.tls) else {
            return Connection::over(stream).await.map_err(|error| failed(&error));
        };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| failed(&error))?;
        let stream = tls.connect(name, stream).await.map_err(|error| failed(&error))?;
        Connection::over(stream).await.map_err(|error| failed(&error))
    }
}

impl Connection {
    async fn over<S>(stream: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let moving = async {
            // Whoever waits for an answer hears of the error as well.
            let _ = connection.await;
        };
        Ok(Self { sender, moving: moving.boxed().fuse() })
    }
}

/// A connection that is only driven while a request is on it: no task of its own, so nothing to wake.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Upload>,
    /// Moves the bytes; ends with the connection, whose error its requests tell, too.
    pub(super) moving: Fuse<BoxFuture<'static, ()>>,
}

/// TLS that trusts these authorities (PEM).
pub(super) fn connector(authorities_pem: &str) -> Result<TlsConnector, ConfigError> {
    let unusable =
        |error: &dyn std::fmt::Display| ConfigError(format!("certificates of authorities: {error}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        // A system's bundle may hold one that the library cannot read; the others still count.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(ConfigError(
            "https needs the certificate (PEM) of an authority to trust, and there is none".into(),
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let parse = |text| Endpoint::parse(text).unwrap();
        assert_eq!(parse("http://127.0.0.1:7600/").port, 7600);
        assert_eq!(parse("https://s3.eu-west-1.amazonaws.com").port, 443);
        let six = parse("http://[::1]:9000");
        assert_eq!((six.host.as_str(), six.port, six.authority.as_str()), ("::1", 9000, "[::1]:9000"));
        assert_eq!(parse("http://[::1]").port, 80);
        for wrong in [
            "",
            "127.0.0.1:7600",
            "ftp://h",
            "http://",
            "http://h:x",
            "http://h:70000",
            "http://h/x:1",
            "http://a b",
        ] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_service_that_vanished_is_noticed_by_the_kernel() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let stream = endpoint.dial().await.unwrap();
        assert!(SockRef::from(&stream).keepalive().unwrap());
        assert_eq!(SockRef::from(&stream).tcp_keepalive_time().unwrap(), PROBE);
    }
}
