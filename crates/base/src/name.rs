//! Names of buckets and of sites: what they are made of.
//!
//! Why here: the gateway refuses what cannot be a name before it asks, the model refuses what may not become one, the command
//! line says so before it dials.
//!
//! Bucket names follow the rules of S3 for general purpose buckets. A site's name is part of names of buckets.

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Wrong length.
    #[error("a bucket name has 3 to 63 characters")]
    Length,
    /// A character that is not allowed.
    #[error("a bucket name holds only lower-case letters, digits, dots and hyphens")]
    Character,
    /// Begins or ends with a dot or hyphen.
    #[error("a bucket name begins and ends with a letter or digit")]
    Edge,
    /// `..`.
    #[error("a bucket name holds no two dots side by side")]
    Dots,
    /// Like `192.168.5.4`.
    #[error("a bucket name must not look like an IP address")]
    Address,
    /// Begins with what S3 reserves.
    #[error("bucket names that begin with `{0}` are reserved")]
    Prefix(&'static str),
    /// Ends with what S3 reserves.
    #[error("bucket names that end with `{0}` are reserved")]
    Suffix(&'static str),
    /// Not a site name.
    #[error("a site name has 1 to 32 lower-case letters, digits and single hyphens between them")]
    Site,
}

const PREFIXES: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
const SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// Refuses what cannot be the name of a bucket, whoever asks.
pub fn check_form(name: &str) -> Result<(), NameError> {
    if !(3..=63).contains(&name.len()) {
        return Err(NameError::Length);
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !name.bytes().all(|byte| allowed(byte) || byte == b'.' || byte == b'-') {
        return Err(NameError::Character);
    }
    if !name.bytes().next().is_some_and(allowed) || !name.bytes().last().is_some_and(allowed) {
        return Err(NameError::Edge);
    }
    if name.contains("..") { Err(NameError::Dots) } else { Ok(()) }
}

/// Refuses for a new bucket what S3 refuses.
pub fn check_name(name: &str) -> Result<(), NameError> {
    check_form(name)?;
    if looks_like_an_address(name) {
        return Err(NameError::Address);
    }
    if let Some(prefix) = PREFIXES.into_iter().find(|prefix| name.starts_with(prefix)) {
        return Err(NameError::Prefix(prefix));
    }
    match SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)) {
        Some(suffix) => Err(NameError::Suffix(suffix)),
        None => Ok(()),
    }
}

/// Four numbers with dots between, also those beyond 255.
fn looks_like_an_address(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split('.').count() == 4 && name.split('.').all(is_number)
}

/// Refuses what would make `name--site` ambiguous, for a site's name is part of names of buckets.
pub fn check_site_name(name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let parts = name.split('-').all(|part| !part.is_empty() && part.bytes().all(allowed));
    if (1..=32).contains(&name.len()) && parts { Ok(()) } else { Err(NameError::Site) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_buckets() {
        for name in ["abc", "a.b", "1-2", "a--b", "my.bucket-1", &"a".repeat(63), "1.2.3", "1.2.3.4a"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, refusal) in [
            ("ab", NameError::Length),
            (&"a".repeat(64), NameError::Length),
            ("Abc", NameError::Character),
            ("a_c", NameError::Character),
            ("aé", NameError::Character),
            ("a/c", NameError::Character),
            ("-abc", NameError::Edge),
            ("abc.", NameError::Edge),
            ("a..c", NameError::Dots),
            ("192.168.5.4", NameError::Address),
            ("999.999.999.999", NameError::Address),
            ("xn--abc", NameError::Prefix("xn--")),
            ("sthree-abc", NameError::Prefix("sthree-")),
            ("amzn-s3-demo-abc", NameError::Prefix("amzn-s3-demo-")),
            ("abc-s3alias", NameError::Suffix("-s3alias")),
            ("abc--ol-s3", NameError::Suffix("--ol-s3")),
            ("abc.mrap", NameError::Suffix(".mrap")),
            ("abc--x-s3", NameError::Suffix("--x-s3")),
            ("abc--table-s3", NameError::Suffix("--table-s3")),
        ] {
            assert_eq!(check_name(name), Err(refusal), "{name}");
            let is_kept = matches!(refusal, NameError::Address | NameError::Prefix(_) | NameError::Suffix(_));
            assert_eq!(check_form(name).is_ok(), is_kept, "{name}");
        }
    }

    #[test]
    fn names_of_sites() {
        for name in ["a", "site-1", "pos-hamburg-2", &"a".repeat(32)] {
            assert_eq!(check_site_name(name), Ok(()), "{name}");
        }
        for name in ["", "a--b", "-a", "a-", "A", "a.b", &"a".repeat(33)] {
            assert_eq!(check_site_name(name), Err(NameError::Site), "{name}");
        }
    }
}
