//! TLS and HTTP/2 over real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tests::Served;
use super::*;

/// A certificate for `island` and its key.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["island".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

async fn connect(
    address: SocketAddr,
    certificate: &str,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_offering(address, certificate, &[protocol]).await
}

async fn connect_offering(
    address: SocketAddr,
    certificate: &str,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("island").unwrap(), stream).await
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_restart() {
    let ((first, key), (second, second_key)) = (certificate(), certificate());
    let tls = Tls::from_pem(first.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::start(Limits::default(), Some(tls.clone())).await;
    assert!(connect(served.address, &first, b"http/1.1").await.is_ok());
    assert!(connect(served.address, &second, b"http/1.1").await.is_err());
    assert!(tls.replace(second.as_bytes(), key.as_bytes()).is_err(), "the key of another certificate");
    assert!(tls.replace(b"nonsense", second_key.as_bytes()).is_err());
    assert!(connect(served.address, &first, b"http/1.1").await.is_ok(), "the old one stays after an error");
    tls.replace(second.as_bytes(), second_key.as_bytes()).unwrap();
    assert!(connect(served.address, &second, b"http/1.1").await.is_ok());
    assert!(connect(served.address, &first, b"http/1.1").await.is_err());
    served.stop().await;
}

#[tokio::test]
async fn http_2_is_spoken_over_tls() {
    let (pem, key) = certificate();
    let tls = Tls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::start(Limits::default(), Some(tls)).await;
    let stream = connect(served.address, &pem, b"h2").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request =
        Request::get("https://island/_skerry/health/ready").body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.version(), hyper::Version::HTTP_2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"version\":1,\"ready\":true"));
    let request = Request::get("https://abc.island.test/key").body(Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 403);
    drop(sender);
    driver.await.unwrap().unwrap();
    served.stop().await;
}

/// Who speaks both gets the one over which `Expect: 100-continue` is answered.
#[tokio::test]
async fn who_speaks_both_speaks_http_1() {
    let (pem, key) = certificate();
    let tls = Tls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::start(Limits::default(), Some(tls)).await;
    for (offered, chosen) in [(&[&b"h2"[..], b"http/1.1"][..], &b"http/1.1"[..]), (&[b"h2"], b"h2")] {
        let stream = connect_offering(served.address, &pem, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
    served.stop().await;
}

/// To send one is an error of the protocol.
#[tokio::test]
async fn a_head_over_http_2_is_answered_without_a_body() {
    let (pem, key) = certificate();
    let tls = Tls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::start(Limits::default(), Some(tls)).await;
    let stream = connect(served.address, &pem, b"h2").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    for (path, status) in [("health/live", 200), ("health/ready", 200), ("nowhere", 404)] {
        let request = Request::head(format!("https://island/_skerry/{path}"));
        let response =
            sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert!(response.headers().contains_key("content-length"), "{path}");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "{path}");
    }
    drop(sender);
    driver.await.unwrap().unwrap();
    served.stop().await;
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_refused() {
    let (pem, key) = certificate();
    let tls = Tls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::start(Limits::default(), Some(tls)).await;
    let answer = super::tests::exchange(served.address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
    served.stop().await;
}
