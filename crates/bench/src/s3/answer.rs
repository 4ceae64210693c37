//! What is read of S3's documents: the code of an error, the keys of a page.
//!
//! Why by hand: counting elements of a page costs less than a parser of XML, and each element meant is named once.

use hyper::HeaderMap;
use hyper::header::ETAG;

/// No answer but an object is longer: a page of a thousand keys of a kilobyte, encoded.
pub(super) const ANSWER_BYTES: usize = 16 << 20;

/// A page of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: u64,
    /// The token for the next one.
    pub(super) next: Option<String>,
}

impl Page {
    pub(super) fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let keys = text.matches("<Key>").count() as u64;
        let next = element(&text, "NextContinuationToken");
        let truncated = element(&text, "IsTruncated").is_some_and(|value| value == "true");
        Self { keys, next: next.filter(|next| truncated && !next.is_empty()) }
    }
}

/// The text of the first element of a name.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(pairs.into_iter().fold(inner.to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// The code by which a refusal is counted, and what it says.
pub(super) fn error_of(status: u16, text: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(text);
    let code = element(&text, "Code").filter(|code| code.len() <= 64 && !code.contains([',', '\n']));
    let said = element(&text, "Message").unwrap_or_else(|| text.chars().take(200).collect());
    match code {
        Some(code) => (format!("{status} {code}"), format!("HTTP {status} {code}: {said}")),
        None => (status.to_string(), format!("HTTP {status} {said}")),
    }
}

/// The MD5 sum that an ETag is, unless it is of another kind (multipart, encrypted).
pub(super) fn md5_of(headers: &HeaderMap) -> Option<String> {
    let etag = headers.get(ETAG)?.to_str().ok()?.trim_matches('"');
    let is_sum = etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then(|| etag.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_and_followed() {
        let more =
            b"<L><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents><Contents><Key>b</Key>\
                     </Contents><NextContinuationToken>x&amp;y</NextContinuationToken></L>";
        assert_eq!(Page::of(more), Page { keys: 2, next: Some("x&y".into()) });
        let last = b"<L><IsTruncated>false</IsTruncated><NextContinuationToken>x</NextContinuationToken></L>";
        assert_eq!(Page::of(last), Page { keys: 0, next: None });
    }

    #[test]
    fn refusals_are_counted_by_status_and_code() {
        let text = b"<Error><Code>SlowDown</Code><Message>Reduce your rate &amp; wait</Message></Error>";
        assert_eq!(
            error_of(503, text),
            ("503 SlowDown".into(), "HTTP 503 SlowDown: Reduce your rate & wait".into())
        );
        assert_eq!(error_of(502, b"<html>bad gateway</html>").0, "502");
        assert_eq!(error_of(404, b"").0, "404");
    }

    #[test]
    fn only_sums_are_sums() {
        let etag = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, hyper::header::HeaderValue::from_static(text));
            md5_of(&headers)
        };
        assert_eq!(
            etag("\"D41D8CD98F00B204E9800998ECF8427E\"").as_deref(),
            Some("d41d8cd98f00b204e9800998ecf8427e")
        );
        assert_eq!(etag("\"d41d8cd98f00b204e9800998ecf8427e-2\""), None);
    }
}
