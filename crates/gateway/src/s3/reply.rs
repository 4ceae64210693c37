//! Answers: headers, XML documents, errors with their request id.

use std::time::{Duration, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use s3s::dto::{self, ETag, Timestamp};
use s3s::xml;
use skerry_base::WallTime;

use super::REGION;
use super::documents::is_xml;
use super::references::expanded;
use crate::http::body::{Outflow, empty, full};
use crate::service::{Checksum, ChecksumKind, ErrorKind, Outcome, Receipt, ServiceError, VersionId};

/// How each document begins.
const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// An answer being made.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Outflow,
    /// What the body is, where it is a document.
    document: Bytes,
}

impl Reply {
    /// Without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: empty(), document: Bytes::new() }
    }

    /// Begins before its outcome is known, with the declaration of its document.
    pub(super) fn begun(body: impl FnOnce(Bytes) -> Outflow) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        let body = body(Bytes::from_static(DECLARATION));
        Self { status: StatusCode::OK, headers, body, document: Bytes::new() }
    }

    /// What ends an answer that was begun so. Its headers are gone: they would have come first.
    pub(super) fn rest_of_document(self) -> Bytes {
        const END: &[u8] = b"?>";
        let declared = self.document.windows(END.len()).position(|bytes| bytes == END);
        self.document.slice(declared.map_or(0, |at| at + END.len())..)
    }

    /// With a document.
    pub(super) fn xml(document: &impl xml::Serialize) -> Outcome<Self> {
        let mut text = Vec::with_capacity(512);
        let mut serializer = xml::Serializer::new(&mut text);
        serializer.decl().and_then(|()| document.serialize(&mut serializer)).map_err(|error| {
            ServiceError::new(ErrorKind::Internal, format!("the answer could not be written as XML: {error}"))
        })?;
        Ok(Self::of_xml(StatusCode::OK, with_returns(text)))
    }

    /// With a document that repeats a key by which nobody asks again: what XML cannot carry of it is replaced, so that the rest
    /// can be read.
    pub(super) fn echo(document: &impl xml::Serialize) -> Outcome<Self> {
        let reply = Self::xml(document)?;
        match core::str::from_utf8(&reply.document) {
            Ok(text) if !text.chars().all(is_xml) => {
                let readable = text.chars().map(|c| if is_xml(c) { c } else { char::REPLACEMENT_CHARACTER });
                Ok(Self::of_xml(StatusCode::OK, readable.collect::<String>().into_bytes()))
            }
            _ => Ok(reply),
        }
    }

    fn of_xml(status: StatusCode, text: Vec<u8>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
        let document = Bytes::from(text);
        Self { status, headers, body: full(document.clone()), document }
    }

    /// The error document; without it for HEAD and 304.
    pub(super) fn error(error: &ServiceError, resource: &str, ids: [&str; 2], bare: bool) -> Self {
        let status = StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let bare = bare || status == StatusCode::NOT_MODIFIED;
        let mut reply = if bare {
            Self::empty(status)
        } else {
            Self::of_xml(status, error_document(error, resource, ids).into_bytes())
        };
        for (name, value) in error.headers() {
            reply = reply.with(name, value);
        }
        reply
    }

    /// With this body instead.
    pub(super) fn with_body(self, body: Outflow) -> Self {
        Self { body, ..self }
    }

    /// With a header; a value that cannot be one is left out.
    pub(super) fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// With a header if there is a value.
    pub(super) fn with_some(self, name: &'static str, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// With `x-amz-version-id`.
    pub(super) fn with_version(self, version: Option<&VersionId>) -> Self {
        self.with_some("x-amz-version-id", version.map(|version| &version.0))
    }

    /// With the ETag, quoted.
    pub(super) fn with_etag(self, etag: &str) -> Self {
        self.with("etag", format!("\"{etag}\""))
    }

    /// With the checksums and their type.
    pub(super) fn with_checksums(mut self, checksums: &[Checksum]) -> Self {
        for checksum in checksums {
            self = self.with(checksum.kind.header(), &checksum.value);
            self = self.with("x-amz-checksum-type", checksum.shape.name());
        }
        self
    }

    /// With what we say beyond S3.
    pub(super) fn with_receipt(self, receipt: &Receipt) -> Self {
        self.with_some("x-skerry-scope", receipt.scope.as_ref())
            .with_some("x-skerry-token", receipt.token.as_ref())
            .with_some("x-skerry-lost", receipt.lost.as_ref())
    }

    /// With user metadata.
    pub(super) fn with_metadata(mut self, metadata: &[(String, String)]) -> Self {
        for (name, value) in metadata {
            let name = HeaderName::from_bytes(format!("x-amz-meta-{name}").as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&rfc2047(value))) {
                self.headers.insert(name, value);
            }
        }
        self
    }

    /// The answer.
    pub(super) fn finish(self, request_id: &str, host_id: &str) -> Response<Outflow> {
        let reply =
            self.with("x-amz-request-id", request_id).with("x-amz-id-2", host_id).with("server", "Skerry");
        let mut response = Response::new(reply.body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        response
    }
}

/// As S3 returns text that is not visible ASCII.
fn rfc2047(text: &str) -> String {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    format!("=?UTF-8?B?{}?=", STANDARD.encode(text))
}

fn error_document(error: &ServiceError, resource: &str, [request_id, host_id]: [&str; 2]) -> String {
    let (code, message) = (error.kind().code(), escape(error.message()));
    let (resource, host_id) = (escape(resource), escape(host_id));
    let region = error.headers().iter().find(|(name, _)| *name == REGION);
    let region = region.map(|(_, region)| format!("<Region>{}</Region>", escape(region))).unwrap_or_default();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{region}\
         <Resource>{resource}</Resource><RequestId>{request_id}</RequestId><HostId>{host_id}</HostId></Error>"
    )
}

/// Text in XML; what XML cannot carry at all becomes a replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", c as u32)),
            other if is_xml(other) => escaped.push(other),
            _ => escaped.push(char::REPLACEMENT_CHARACTER),
        }
    }
    escaped
}

/// A carriage return as a reference: whoever reads XML takes a bare one for a line feed, and would get another key. The
/// serializer writes none by itself.
fn with_returns(text: Vec<u8>) -> Vec<u8> {
    if !text.contains(&b'\r') {
        return text;
    }
    let mut written = Vec::with_capacity(text.len() + 16);
    for byte in text {
        match byte {
            b'\r' => written.extend_from_slice(b"&#13;"),
            other => written.push(other),
        }
    }
    written
}

/// A document of a request.
pub(super) fn read_xml<T: for<'xml> xml::Deserialize<'xml>>(document: &[u8]) -> Outcome<T> {
    let malformed = || {
        ServiceError::new(
            ErrorKind::MalformedXml,
            "The XML you provided was not well-formed or did not validate against our published schema",
        )
    };
    let document = expanded(document);
    let mut deserializer = xml::Deserializer::new(&document);
    let value = T::deserialize(&mut deserializer).map_err(|_| malformed())?;
    deserializer.expect_eof().map_err(|_| malformed())?;
    Ok(value)
}

/// The last millisecond that a document can say: a year has four digits.
const LAST: WallTime = WallTime(253_402_300_799_999);

/// A time in a document, to the second as in headers: clients compare what a listing says with what a GET said.
pub(super) fn timestamp(time: WallTime) -> Option<Timestamp> {
    (time <= LAST).then(|| Timestamp::from(UNIX_EPOCH + Duration::from_secs(time.0 / 1000)))
}

/// An ETag in a document.
pub(super) fn etag(text: &str) -> Option<ETag> {
    (!text.is_empty()).then(|| ETag::Strong(text.to_owned()))
}

/// An owner in a document.
pub(super) fn owner(name: &str) -> Option<dto::Owner> {
    Some(dto::Owner { id: Some(name.to_owned()), display_name: Some(name.to_owned()) })
}

/// The value of one kind, for documents that have a field for each.
pub(super) fn value_of(checksums: &[Checksum], kind: ChecksumKind) -> Option<String> {
    checksums.iter().find(|sum| sum.kind == kind).map(|sum| sum.value.clone())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use s3s::dto::TimestampFormat;

    use super::*;
    use crate::service::date;

    #[test]
    fn what_a_document_echoes_can_be_read() {
        let of = |key: &str| dto::CreateMultipartUploadOutput {
            key: Some(key.into()),
            upload_id: Some("id".into()),
            ..Default::default()
        };
        let text = |key: &str| {
            let reply = Reply::echo(&of(key)).unwrap();
            assert_eq!(reply.headers[CONTENT_LENGTH], reply.document.len().to_string());
            String::from_utf8(reply.document.to_vec()).unwrap()
        };
        assert!(text("a\u{1}\u{ffff}b").contains("<Key>a\u{fffd}\u{fffd}b</Key>"));
        assert!(text("a\r\nb").contains("<Key>a&#13;\nb</Key>"));
    }

    #[test]
    fn errors_carry_code_resource_and_id() {
        let error = ServiceError::new(ErrorKind::NoSuchKey, "no <key> & no \u{1}");
        let text = error_document(&error, "/b/ü\n", ["ID", "site"]);
        assert!(
            text.contains("<Code>NoSuchKey</Code><Message>no &lt;key&gt; &amp; no \u{fffd}</Message>"),
            "{text}"
        );
        assert!(
            text.contains("<Resource>/b/ü&#10;</Resource><RequestId>ID</RequestId><HostId>site<"),
            "{text}"
        );
    }

    #[test]
    fn a_time_in_a_document_is_what_it_is_in_headers() {
        let said = |time: u64| timestamp(WallTime(time));
        for time in [0, 1, 951_782_399_999, 1_700_000_000_500, 4_107_542_400_000, LAST.0] {
            let mut text = Vec::new();
            said(time).unwrap().format(TimestampFormat::DateTime, &mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), date::iso(WallTime(time / 1000 * 1000)));
        }
        // A clock that is far off says nothing.
        assert!(said(LAST.0 + 1).is_none() && said(u64::MAX).is_none());
    }

    #[test]
    fn metadata_beyond_ascii_comes_back_encoded() {
        assert_eq!(rfc2047("plain text"), "plain text");
        assert_eq!(rfc2047("größe"), "=?UTF-8?B?Z3LDtsOfZQ==?=");
    }
}
