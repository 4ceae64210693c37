//! Percent-encoding as S3 and its signatures have it, and the query of a request.

use crate::service::{ErrorKind, Outcome, ServiceError};

/// Decodes percent-encoding; `None` if it is broken or not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex_digit(rest.next()?)? * 16 + hex_digit(rest.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Encodes all but the unreserved characters, and `/` if it is to be kept.
pub(crate) fn encode(text: &str, keep_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    encode_into(&mut encoded, text, keep_slash);
    encoded
}

/// Appends what [`encode`] answers.
pub(crate) fn encode_into(encoded: &mut String, text: &str, keep_slash: bool) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            b'/' if keep_slash => encoded.push('/'),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
}

/// The query of a request, decoded, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URI behind `?`.
    pub(crate) fn parse(raw: Option<&str>) -> Outcome<Self> {
        let pairs = raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name, true)?, decode(value, true)?))
        });
        decoded.collect::<Option<Vec<_>>>().map(Self).ok_or_else(|| {
            ServiceError::new(
                ErrorKind::InvalidUri,
                "the query is not percent-encoded UTF-8; encode it again",
            )
        })
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// The value of a name, unless empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).filter(|value| !value.is_empty()).map(Into::into)
    }

    /// Whether it is there, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names with their values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The canonical query of a signature, without the parameter named.
    pub(crate) fn canonical(&self, without: &str) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let kept = self.0.iter().filter(|(name, _)| name != without);
        let mut pairs: Vec<(String, String)> =
            kept.map(|(name, value)| (encode(name, false), encode(value, false))).collect();
        pairs.sort();
        let joined: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        joined.join("&")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn encoding_goes_there_and_back() {
        let text = "a b/ü+%\u{10348}~";
        assert_eq!(encode(text, true), "a%20b/%C3%BC%2B%25%F0%90%8D%88~");
        assert_eq!(decode(&encode(text, false), true).unwrap(), text);
        assert_eq!(decode("a+b", false).unwrap(), "a+b");
        assert_eq!(decode("%4", false), None);
        assert_eq!(decode("%zz", false), None);
        assert_eq!(decode("%ff", false), None);
    }

    #[test]
    fn queries_keep_empty_values_and_sort_when_canonical() {
        let query = Query::parse(Some("prefix=a%2Fb&acl&X=1&X-Amz-Signature=s")).unwrap();
        assert_eq!(query.get("prefix"), Some("a/b"));
        assert!(query.has("acl") && !query.has("b"));
        assert_eq!(query.text("acl"), None);
        assert_eq!(query.canonical("X-Amz-Signature"), "X=1&acl=&prefix=a%2Fb");
        assert!(Query::parse(Some("a=%f")).is_err());
    }
}
