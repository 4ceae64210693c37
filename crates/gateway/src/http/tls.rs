//! TLS from PEM texts, replaced without a restart.
//!
//! Why texts and not paths: this room opens no files. Whoever watches the files hands over what they say now.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No PEM, or none of the kind.
    #[error("the {what} is not PEM: {reason}")]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// The key is not that of the certificate, or of a kind we do not speak.
    #[error("the certificate and its private key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate in use; clones share it.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// Serves this chain with this key.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(RwLock::new(configure(certificates, key)?))))
    }

    /// New connections get this chain from now on; on an error the old one stays.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let config = configure(certificates, key)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl core::fmt::Debug for Tls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Tls")
    }
}

fn configure(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |what, error: rustls_pki_types::pem::Error| TlsError::Pem { what, reason: error.to_string() };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .map_err(|e| pem("certificate", e))?;
    if chain.is_empty() {
        return Err(TlsError::Pem { what: "certificate", reason: "it holds no certificate".into() });
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| pem("private key", e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // HTTP/2 for who speaks nothing else: hyper answers no `Expect: 100-continue` over it, so that clients of S3 that ask before
    // they send would wait in vain before every body.
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    Ok(Arc::new(config))
}
