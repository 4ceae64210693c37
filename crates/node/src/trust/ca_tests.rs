//! A TLS client that trusts the authority accepts the endpoint under its names and no others.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::*;

async fn handshake(directory: &Path, name: &str) -> std::io::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let text = files::read_text(&directory.join(CERTIFICATE)).unwrap();
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(files::read_secret(&directory.join(KEY)).unwrap().as_bytes());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key.unwrap())
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    let ca = files::read_text(&directory.join(CA_CERTIFICATE)).unwrap();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (a, b) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from(name.to_string()).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let (connected, _) = tokio::join!(connector.connect(name, a), acceptor.accept(b));
    connected.map(drop)
}

#[tokio::test]
async fn names_and_addresses_are_accepted_and_others_refused() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["s3.island.example", "*.s3.island.example", "127.0.0.1"].map(String::from);
    store(dir.path(), "test", &names).unwrap();
    handshake(dir.path(), "s3.island.example").await.unwrap();
    handshake(dir.path(), "pictures.s3.island.example").await.unwrap();
    handshake(dir.path(), "127.0.0.1").await.unwrap();
    assert!(handshake(dir.path(), "elsewhere.example").await.is_err());
}

#[tokio::test]
async fn new_names_keep_the_authority() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), "test", &["a.example".into()]).unwrap();
    let ca = files::read_text(&dir.path().join(CA_CERTIFICATE)).unwrap();
    store(dir.path(), "test", &["b.example".into()]).unwrap();
    assert_eq!(files::read_text(&dir.path().join(CA_CERTIFICATE)).unwrap(), ca);
    handshake(dir.path(), "b.example").await.unwrap();
}
