//! What listings and documents share: page sizes, URL encoding, strict elements.

use s3s::dto;
use skerry_base::limits;

use super::Call;
use super::reply::{etag, owner, timestamp};
use super::uri::encode;
use crate::service::{ChecksumKind, ChecksumShape, ErrorKind, ObjectSummary, Outcome, ServiceError};

/// A page size of the query: at most 1000, which is also what its absence means.
pub(super) fn page_size(call: &Call, name: &str) -> Outcome<usize> {
    match call.query.text(name) {
        None => Ok(limits::LIST_KEYS),
        Some(text) => match text.parse::<u32>() {
            Ok(size) if i32::try_from(size).is_ok() => Ok((size as usize).min(limits::LIST_KEYS)),
            _ => Err(ServiceError::new(
                ErrorKind::InvalidArgument,
                format!("the parameter {name} must be a number between 0 and 2147483647"),
            )),
        },
    }
}

/// How names are written in a listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Naming {
    url: bool,
}

impl Naming {
    /// As `encoding-type` asks.
    pub(super) fn of(call: &Call) -> Outcome<Self> {
        match call.query.get("encoding-type") {
            None | Some("") => Ok(Self { url: false }),
            Some("url") => Ok(Self { url: true }),
            Some(_) => Err(ServiceError::new(
                ErrorKind::InvalidArgument,
                "Invalid Encoding Method specified in Request",
            )),
        }
    }

    /// A name.
    pub(super) fn write(self, name: &str) -> String {
        if self.url { encode(name, true) } else { name.to_owned() }
    }

    /// A name that is asked for and echoed.
    pub(super) fn echo(self, call: &Call, parameter: &str) -> Option<String> {
        call.query.text(parameter).map(|value| self.write(&value))
    }

    /// The element that says so.
    pub(super) fn element(self) -> Option<dto::EncodingType> {
        self.url.then(|| dto::EncodingType::from_static(dto::EncodingType::URL))
    }

    /// A common prefix.
    pub(super) fn prefix(self, name: &str) -> dto::CommonPrefix {
        dto::CommonPrefix { prefix: Some(self.write(name)) }
    }

    /// An object.
    pub(super) fn object(self, object: &ObjectSummary, with_owner: bool) -> dto::Object {
        let sum = object.checksums.first();
        dto::Object {
            key: Some(self.write(&object.key)),
            e_tag: etag(&object.etag),
            size: i64::try_from(object.size).ok(),
            last_modified: timestamp(object.modified),
            owner: with_owner.then(|| owner(&object.owner)).flatten(),
            storage_class: Some(dto::ObjectStorageClass::from_static(dto::ObjectStorageClass::STANDARD)),
            checksum_algorithm: sum.map(|sum| vec![algorithm(sum.kind)]),
            checksum_type: sum.map(|sum| shape(sum.shape)),
            restore_status: None,
        }
    }
}

/// A checksum's name in a document.
pub(super) fn algorithm(kind: ChecksumKind) -> dto::ChecksumAlgorithm {
    dto::ChecksumAlgorithm::from_static(kind.name())
}

/// A checksum's shape in a document.
pub(super) fn shape(shape: ChecksumShape) -> dto::ChecksumType {
    dto::ChecksumType::from_static(shape.name())
}

/// A count in a document.
pub(super) fn count(number: usize) -> Option<i32> {
    i32::try_from(number).ok()
}

/// Whether XML 1.0 can carry a character, as itself or as a reference.
pub(super) const fn is_xml(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Refuses a document with elements or sections that its reader would pass over. The first of `known` is the
/// element that holds the others.
pub(super) fn check_elements(document: &[u8], known: &[&str]) -> Outcome<()> {
    let malformed = |what: &str| {
        ServiceError::new(ErrorKind::MalformedXml, format!("the document {what}; write it plainly"))
    };
    let text = core::str::from_utf8(document).map_err(|_| malformed("is not UTF-8"))?;
    if text.chars().any(|c| !is_xml(c)) {
        return Err(malformed("has a character that XML cannot carry"));
    }
    for section in ["<![CDATA[", "<!DOCTYPE", "<!ENTITY"] {
        if text.contains(section) {
            return Err(malformed(&format!("has a section {section}")));
        }
    }
    let mut root = None;
    for tag in text.split('<').skip(1) {
        let name = tag.trim_start_matches('/');
        if name.starts_with(['!', '?']) {
            continue;
        }
        let end =
            name.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/')).unwrap_or(name.len());
        let name = name.get(..end).unwrap_or_default();
        let local = name.rsplit_once(':').map_or(name, |(_, local)| local);
        if local.is_empty() || known.first() != Some(root.get_or_insert(local)) {
            return Err(malformed("is not the one expected here"));
        }
        if !known.contains(&local) {
            return Err(ServiceError::not_implemented(&format!("the element {local} of this document")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_a_reader_would_pass_over_is_refused() {
        let check = |text: &str| check_elements(text.as_bytes(), &["Delete", "Object", "Key"]);
        assert!(
            check("<?xml version=\"1.0\"?>\n<Delete xmlns=\"x\"><Object ><Key>a</Key></Object ></Delete>")
                .is_ok()
        );
        assert!(check("<s3:Delete><Key/></s3:Delete>").is_ok());
        assert_eq!(check("<Delete><Quiet/></Delete>").unwrap_err().kind(), ErrorKind::NotImplemented);
        let raw = "<Delete><Object><Key>a\u{1}</Key></Object></Delete>";
        for text in
            ["<Delete><Key><![CDATA[x]]></Key></Delete>", raw, "<!DOCTYPE a><Delete/>", "<<", "<Key/>"]
        {
            assert_eq!(check(text).unwrap_err().kind(), ErrorKind::MalformedXml);
        }
    }
}
