//! TLS 1.3 with raw public keys (RFC 7250): both ends prove an Ed25519 key, there are no certificates.
//!
//! Invariants: TLS 1.3 only; a link is offered only to keys of the set; a stranger is told apart by the
//! protocol it asks for (ALPN) and gets its own configuration; nothing is resumed, so that a key that was taken
//! from the set is refused at its next connection.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use crate::trust::{Identity, PublicKey};

/// The protocol of links between members.
pub(super) const LINK: &[u8] = b"skerry/1";
/// The protocol of a further connection beside a link that stands.
pub(super) const SUBFLOW: &[u8] = b"skerry-subflow/1";
/// The protocol of the one stream of a node that wants to join.
pub(super) const JOIN: &[u8] = b"skerry-join/1";

/// DER of a SubjectPublicKeyInfo of an Ed25519 key, up to the key.
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Whose keys are known, shared with the verifier of incoming links.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Links are kept to these.
    pub(super) known: BTreeSet<PublicKey>,
    /// These belonged once, and are told that they do no more.
    pub(super) gone: BTreeSet<PublicKey>,
}

/// The same, shared.
pub(super) type KnownKeys = Arc<RwLock<Keys>>;

/// TLS as one node speaks it.
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
    /// For incoming links: only known keys.
    pub(super) link: Arc<ServerConfig>,
    /// For incoming joins: any key, proven.
    pub(super) join: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new(identity: &Identity, known: KnownKeys) -> Result<Self, Error> {
        let provider = Arc::new(provider());
        let spki = [&SPKI_HEAD[..], &identity.public().0].concat();
        let signer = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8()))?;
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer));
        let server = |accepted, protocols: &[&[u8]]| {
            let verifier = Arc::new(Verifier::new(accepted, &provider));
            let mut config = ServerConfig::builder_with_provider(provider.clone())
                .with_protocol_versions(&[&TLS13])?
                .with_client_cert_verifier(verifier)
                .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.clone())));
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            config.send_tls13_tickets = 0;
            Ok::<_, Error>(Arc::new(config))
        };
        let link = server(Accepted::Known(known), &[LINK, SUBFLOW])?;
        let join = server(Accepted::Any, &[JOIN])?;
        Ok(Self { provider, key, link, join })
    }

    /// For dialling a node that must prove `key`.
    pub(super) fn client(&self, key: PublicKey, protocol: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let verifier = Arc::new(Verifier::new(Accepted::Only(key), &self.provider));
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.key.clone())));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// The name that TLS asks for; it is not sent and proves nothing, the key does.
pub(super) fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into())
}

/// The key that the other end proved.
pub(super) fn peer_key(certificates: Option<&[CertificateDer<'_>]>) -> Option<PublicKey> {
    key_of(certificates?.first()?)
}

fn key_of(spki: &[u8]) -> Option<PublicKey> {
    let key: &[u8; 32] = spki.strip_prefix(&SPKI_HEAD)?.try_into().ok()?;
    Some(PublicKey(*key))
}

/// ring, with the cipher that this processor is quick at first: a Raspberry Pi before the 5 has no AES.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    if !aes_in_hardware() {
        let chacha = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != chacha);
    }
    provider
}

fn aes_in_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Whom a verifier accepts.
enum Accepted {
    Known(KnownKeys),
    Only(PublicKey),
    Any,
}

struct Verifier {
    accepted: Accepted,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    fn new(accepted: Accepted, provider: &CryptoProvider) -> Self {
        Self { accepted, algorithms: provider.signature_verification_algorithms }
    }

    fn check(&self, spki: &CertificateDer<'_>) -> Result<(), Error> {
        let key = key_of(spki).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let refused = |why| Err(Error::InvalidCertificate(why));
        match &self.accepted {
            Accepted::Known(keys) => {
                let keys = keys.read().unwrap_or_else(PoisonError::into_inner);
                match (keys.known.contains(&key), keys.gone.contains(&key)) {
                    (true, _) => Ok(()),
                    // The alert that says so is another one than strangers get.
                    (false, true) => refused(CertificateError::Revoked),
                    (false, false) => refused(CertificateError::ApplicationVerificationFailure),
                }
            }
            Accepted::Only(wanted) if *wanted != key => {
                refused(CertificateError::ApplicationVerificationFailure)
            }
            Accepted::Only(_) | Accepted::Any => Ok(()),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(spki.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signed, &self.algorithms)
    }
}

fn no_tls12() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
