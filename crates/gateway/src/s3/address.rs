//! Which bucket and key a request is about: in the path, or the bucket in the host name.

use std::net::Ipv4Addr;

use skerry_base::{limits, name};

use super::operation::Level;
use super::uri::decode;
use crate::service::{ErrorKind, Outcome, ServiceError};

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The path, decoded: what the signature is over.
    pub(crate) path: String,
    /// The bucket of the host name, if it has one.
    pub(crate) host_bucket: Option<String>,
}

impl Address {
    /// Reads host and raw path. `domains` are the base domains of virtual-host names.
    pub(crate) fn read(host: &str, raw_path: &str, domains: &[String]) -> Outcome<Self> {
        let path = decode(raw_path, false).filter(|path| path.starts_with('/')).ok_or_else(|| {
            ServiceError::new(ErrorKind::InvalidUri, "the path is not percent-encoded UTF-8; encode it again")
        })?;
        Ok(Self { path, host_bucket: host_bucket(host, domains) })
    }

    /// Whether it is ours and not S3's: under a virtual-host name `/_skerry/…` is an ordinary key.
    pub(crate) fn is_admin(&self) -> bool {
        self.host_bucket.is_none() && (self.path == "/_skerry" || self.path.starts_with("/_skerry/"))
    }

    /// Bucket and key, checked.
    pub(crate) fn target(&self) -> Outcome<(Level, String, String)> {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        let (bucket, key) = match &self.host_bucket {
            Some(bucket) => (bucket.as_str(), path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        if bucket.is_empty() && key.is_empty() {
            return Ok((Level::Root, String::new(), String::new()));
        }
        check_bucket(bucket)?;
        check_key(key)?;
        let level = if key.is_empty() { Level::Bucket } else { Level::Object };
        Ok((level, bucket.into(), key.into()))
    }
}

/// The labels before a base domain; the longest domain that fits counts.
fn host_bucket(host: &str, domains: &[String]) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => &host,
    };
    let fits = |domain: &String| {
        let bucket = name.strip_suffix(domain.to_ascii_lowercase().as_str())?;
        Some((domain.len(), bucket))
    };
    let (_, bucket) = domains.iter().filter_map(fits).max_by_key(|(length, _)| *length)?;
    bucket.strip_suffix('.').filter(|bucket| !bucket.is_empty()).map(Into::into)
}

/// Refuses what is no bucket name of S3's. The names that are kept for others and are refused to new buckets may be asked
/// for: there is nothing under them.
pub fn check_bucket(name: &str) -> Outcome<()> {
    let is_kept = name.starts_with("xn--") || name.parse::<Ipv4Addr>().is_ok();
    if name::check_form(name).is_ok() && !is_kept {
        return Ok(());
    }
    Err(ServiceError::new(
        ErrorKind::InvalidBucketName,
        "The specified bucket is not valid: 3 to 63 lower-case letters, digits, dots and hyphens",
    ))
}

/// Refuses keys above 1024 bytes.
pub(crate) fn check_key(key: &str) -> Outcome<()> {
    if key.len() > limits::KEY_BYTES {
        return Err(ServiceError::new(
            ErrorKind::KeyTooLong,
            format!("Your key is too long: {} bytes, at most {}", key.len(), limits::KEY_BYTES),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn target(host: &str, path: &str) -> Outcome<(Level, String, String)> {
        Address::read(host, path, &["s3.island".into(), "island".into()])?.target()
    }

    fn bucket_key(host: &str, path: &str) -> (String, String) {
        let (_, bucket, key) = target(host, path).unwrap();
        (bucket, key)
    }

    #[test]
    fn path_style() {
        assert_eq!(target("127.0.0.1:7600", "/").unwrap().0, Level::Root);
        assert_eq!(target("localhost", "/abc/").unwrap(), (Level::Bucket, "abc".into(), String::new()));
        assert_eq!(bucket_key("s3.island:80", "/abc//x/%C3%BC+"), ("abc".into(), "/x/ü+".into()));
        assert_eq!(bucket_key("[::1]:80", "/abc/./../x"), ("abc".into(), "./../x".into()));
    }

    #[test]
    fn virtual_host_style() {
        assert_eq!(bucket_key("abc.s3.island:443", "/"), ("abc".into(), String::new()));
        assert_eq!(bucket_key("a.b.S3.Island", "/k/"), ("a.b".into(), "k/".into()));
        assert_eq!(bucket_key("abc.s3.island", "/_skerry/metrics").1, "_skerry/metrics");
        assert_eq!(bucket_key("notisland.example", "/abc/k"), ("abc".into(), "k".into()));
    }

    #[test]
    fn ours_is_only_ours_in_path_style() {
        let is_admin =
            |host: &str, path: &str| Address::read(host, path, &["island".into()]).unwrap().is_admin();
        assert!(is_admin("127.0.0.1", "/_skerry/health/live") && is_admin("island", "/_skerry"));
        assert!(!is_admin("abc.island", "/_skerry/health/live") && !is_admin("island", "/_skerryx/y"));
    }

    #[test]
    fn names_are_checked() {
        for name in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "192.168.1.1", "xn--abc", "_skerry"] {
            assert_eq!(target("h", &format!("/{name}")).unwrap_err().kind(), ErrorKind::InvalidBucketName);
        }
        assert!(check_bucket(&"a".repeat(64)).is_err());
        for name in ["abc", "a.b-c", "pos--site-1", "1ab", &"a".repeat(63)] {
            assert!(check_bucket(name).is_ok(), "{name}");
        }
        assert!(target("h", &format!("/abc/{}", "k".repeat(1024))).is_ok());
        let long = format!("/abc/{}", "%C3%BC".repeat(513));
        assert_eq!(target("h", &long).unwrap_err().kind(), ErrorKind::KeyTooLong);
        assert_eq!(target("h", "/abc/%FF").unwrap_err().kind(), ErrorKind::InvalidUri);
        assert_eq!(target("h", "*").unwrap_err().kind(), ErrorKind::InvalidUri);
    }
}
