//! The certificate authority that `skerry init` and `skerry join --tls` make for the S3 endpoint: a root for clients to trust and a
//! certificate for the endpoint's names. Nothing to do with the links between sites, which use no certificates.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::{TrustError, files};

/// File of the authority's certificate, for clients.
pub const CA_CERTIFICATE: &str = "ca.pem";
/// File of the authority's private key.
pub const CA_KEY: &str = "ca.key";
/// File of the endpoint's certificate chain.
pub const CERTIFICATE: &str = "server.pem";
/// File of the endpoint's private key.
pub const KEY: &str = "server.key";

/// A certificate with its private key, both as PEM.
pub struct Certified {
    /// The certificate (for the endpoint: the chain).
    pub certificate: String,
    /// The private key. Secret.
    pub key: String,
}

fn failed(error: rcgen::Error) -> TrustError {
    TrustError::Certificate(error.to_string())
}

// Fixed years instead of "now plus": a site whose clock was never set makes certificates that hold as well.
const NOT_BEFORE: i32 = 2026;
const NOT_AFTER: i32 = 2056;

/// Makes an authority.
pub fn authority(name: &str) -> Result<Certified, TrustError> {
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = authority_params(name)?.self_signed(&key).map_err(failed)?.pem();
    Ok(Certified { certificate, key: key.serialize_pem() })
}

fn authority_params(name: &str) -> Result<CertificateParams, TrustError> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = rcgen::date_time_ymd(NOT_BEFORE, 1, 1);
    params.not_after = rcgen::date_time_ymd(NOT_AFTER, 1, 1);
    Ok(params)
}

/// Makes a certificate for an endpoint: `names` are host names (also `*.` ones) and addresses.
/// `name` is what the authority was made with.
pub fn endpoint(ca: &Certified, name: &str, names: &[String]) -> Result<Certified, TrustError> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(failed)?;
    let issuer = Issuer::new(authority_params(name)?, ca_key);
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
    let first = names.first().map_or("skerry", String::as_str);
    params.distinguished_name.push(DnType::CommonName, first);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params.not_before = rcgen::date_time_ymd(NOT_BEFORE, 1, 1);
    params.not_after = rcgen::date_time_ymd(NOT_AFTER, 1, 1);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?.pem();
    Ok(Certified { certificate: certificate + &ca.certificate, key: key.serialize_pem() })
}

/// Whether a certificate can be made for these names.
pub fn check_names(names: &[String]) -> Result<(), TrustError> {
    for name in names {
        let checked = CertificateParams::new(vec![name.clone()]).map(drop);
        checked.map_err(|error| TrustError::Certificate(format!("{name}: {error}")))?;
    }
    Ok(())
}

/// Makes what is missing in the `tls` directory: the authority once, the endpoint's certificate anew.
pub fn store(directory: &Path, federation: &str, names: &[String]) -> Result<(), TrustError> {
    files::private_directory(directory)?;
    let (ca_path, key_path) = (directory.join(CA_CERTIFICATE), directory.join(CA_KEY));
    let name = format!("Skerry {federation}");
    let ca = if files::exists(&ca_path)? {
        Certified { certificate: files::read_text(&ca_path)?, key: files::read_secret(&key_path)? }
    } else {
        let made = authority(&name)?;
        files::write_secret(&key_path, &made.key)?;
        files::write_text(&ca_path, &made.certificate)?;
        made
    };
    let made = endpoint(&ca, &name, names)?;
    files::write_secret(&directory.join(KEY), &made.key)?;
    files::write_text(&directory.join(CERTIFICATE), &made.certificate)
}

#[cfg(test)]
#[path = "ca_tests.rs"]
mod tests;
