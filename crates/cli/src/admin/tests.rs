//! What the client makes of answers, and of who does not answer as a site does.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::exit::Exit;

#[test]
fn a_site_that_refuses_is_no_site_that_is_away() {
    let client = Client {
        endpoint: "http://127.0.0.1:1".parse().unwrap(),
        token: None,
        authority: None,
        timeout: Duration::from_secs(1),
        is_directory_s: false,
    };
    for (status, exit) in [
        (400, Exit::Usage),
        (401, Exit::Refused),
        (403, Exit::Refused),
        (404, Exit::Refused),
        (409, Exit::Refused),
        (503, Exit::Refused),
        (502, Exit::Unreachable),
        (504, Exit::Unreachable),
        (500, Exit::Failed),
    ] {
        let body = Bytes::from_static(br#"{"error":"Kind","message":"oslo is frozen"}"#);
        let failure = client.refusal(&Answer { status: StatusCode::from_u16(status).unwrap(), body });
        assert_eq!(failure.exit, exit, "{status}");
        assert!(failure.message.contains("oslo is frozen"), "{}", failure.message);
        assert_eq!(failure.message.contains("SKERRY_TOKEN"), status == 401, "{}", failure.message);
    }
    for code in REFUSED {
        let body = Bytes::from(format!(r#"{{"error":"{code}","message":"oslo is full"}}"#));
        let failure = client.refusal(&Answer { status: StatusCode::BAD_REQUEST, body });
        assert_eq!(failure.exit, Exit::Refused, "{code}");
    }
}

/// Serves one connection with these bytes and asks it.
async fn asked(scheme: &str, bytes: &'static [u8]) -> Failure {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("{scheme}://{}", listener.local_addr().unwrap());
    let authority = authority_of_a_site();
    let client = Client {
        endpoint: endpoint.parse().unwrap(),
        token: None,
        authority: Some(authority.path().join("ca.pem")),
        timeout: Duration::from_secs(10),
        is_directory_s: false,
    };
    let serve = async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 512]).await.unwrap() > 0, "it speaks first");
        stream.write_all(bytes).await.unwrap();
        // Until the other end has read and gone.
        while stream.read(&mut [0; 512]).await.is_ok_and(|read| read > 0) {}
    };
    let (answer, ()) = tokio::join!(client.send(Method::GET, "/", Bytes::new()), serve);
    answer.err().unwrap()
}

fn authority_of_a_site() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    skerry_node::trust::ca::store(directory.path(), "box", &["127.0.0.1".to_owned()]).unwrap();
    directory
}

#[tokio::test]
async fn a_wrong_scheme_or_port_is_told_as_such() {
    // A TLS alert: handshake failure.
    let alert = b"\x15\x03\x03\x00\x02\x02\x28";
    let failure = asked("http", alert).await;
    assert!(failure.message.contains("https://") && failure.exit == Exit::Unreachable, "{}", failure.message);
    let failure = asked("https", alert).await;
    assert!(failure.message.contains("peer.listen"), "{}", failure.message);
    let failure = asked("https", b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    assert!(failure.message.contains("say http://"), "{}", failure.message);
}

#[tokio::test]
async fn who_hangs_up_is_asked_in_the_other_scheme() {
    for (scheme, other) in [("http", "say https://"), ("https", "say http://")] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("{scheme}://{}", listener.local_addr().unwrap());
        let authority = authority_of_a_site();
        let client = client(&endpoint, authority.path().join("ca.pem"));
        let hang_up = async {
            use tokio::io::AsyncReadExt;
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0, "it speaks first");
        };
        let (answer, ()) = tokio::join!(client.send(Method::GET, "/", Bytes::new()), hang_up);
        let failure = answer.err().unwrap();
        assert!(failure.message.contains(other), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_wrong_authority_is_told_in_words() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let (its, other) = (authority_of_a_site(), authority_of_a_site());
    let read = |file: &str| std::fs::read(its.path().join(file)).unwrap();
    let chain = CertificateDer::pem_slice_iter(&read(skerry_node::trust::ca::CERTIFICATE))
        .map(Result::unwrap)
        .collect();
    let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(&read(skerry_node::trust::ca::KEY)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        assert!(acceptor.accept(stream).await.is_err(), "nothing is said to it");
    };
    let client = client(&endpoint, other.path().join("ca.pem"));
    let (answer, ()) = tokio::join!(client.send(Method::GET, "/", Bytes::new()), serve);
    let failure = answer.err().unwrap();
    let told = failure.message.contains("not of the authority in") && failure.message.contains("--ca FILE");
    assert!(told && failure.exit == Exit::Unreachable, "{}", failure.message);
}

#[tokio::test]
async fn a_file_that_holds_no_certificate_is_named() {
    let its = authority_of_a_site();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    for (file, why) in
        [(skerry_node::trust::ca::KEY, "no certificate in it"), ("nothing.pem", "cannot be used as --ca")]
    {
        let failure = client(&endpoint, its.path().join(file)).send(Method::GET, "/", Bytes::new()).await;
        let failure = failure.err().unwrap();
        assert!(failure.message.contains(why) && failure.exit == Exit::Usage, "{}", failure.message);
    }
}

fn client(endpoint: &str, authority: PathBuf) -> Client {
    Client {
        endpoint: endpoint.parse().unwrap(),
        token: None,
        authority: Some(authority),
        timeout: Duration::from_secs(10),
        is_directory_s: false,
    }
}
