//! Request headers as words of the services.

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::HeaderMap;
use skerry_base::{WallTime, limits};

use super::address::{check_bucket, check_key};
use super::uri::decode;
use crate::service::{
    ChecksumKind, ChecksumShape, Declared, ErrorKind, EtagTest, IfRange, ObjectHeaders, Outcome,
    ReadConditions, ServiceError, Source, WriteCondition, date,
};

/// Bytes of the headers that are stored with an object and are no user metadata, as S3 has it.
const SYSTEM_METADATA_BYTES: usize = 2 << 10;

/// A header as text; values of several headers are joined.
pub(crate) fn text(headers: &HeaderMap, name: &str) -> Outcome<Option<String>> {
    let values = headers.get_all(name).iter().map(|value| core::str::from_utf8(value.as_bytes()));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(|_| argument(name, "is not UTF-8"))?;
    Ok(if values.is_empty() { None } else { Some(values.join(",")) })
}

/// `InvalidArgument` about a header.
pub(crate) fn argument(name: &str, what: &str) -> ServiceError {
    ServiceError::new(ErrorKind::InvalidArgument, format!("the header {name} {what}; correct it"))
}

fn number(headers: &HeaderMap, name: &str) -> Outcome<Option<u64>> {
    let Some(value) = text(headers, name)? else { return Ok(None) };
    value.trim().parse().map(Some).map_err(|_| argument(name, "is not a number"))
}

/// `Content-Length`.
pub(crate) fn content_length(headers: &HeaderMap) -> Outcome<Option<u64>> {
    number(headers, "content-length")
}

/// `x-amz-decoded-content-length`.
pub(crate) fn decoded_length(headers: &HeaderMap) -> Outcome<Option<u64>> {
    number(headers, "x-amz-decoded-content-length")
}

/// `x-amz-mp-object-size`.
pub(crate) fn object_size(headers: &HeaderMap) -> Outcome<Option<u64>> {
    number(headers, "x-amz-mp-object-size")
}

/// The encodings of the object itself, as they were written: how the body came is not one of them.
fn without_chunks(encodings: &str) -> String {
    let is_kept = |one: &&str| !one.trim().eq_ignore_ascii_case("aws-chunked");
    match encodings.split(',').all(|one| is_kept(&one)) {
        true => encodings.to_owned(),
        false => encodings.split(',').filter(is_kept).map(str::trim).collect::<Vec<_>>().join(", "),
    }
}

/// System headers of a new object.
pub(crate) fn object_headers(headers: &HeaderMap) -> Outcome<ObjectHeaders> {
    let encoding = text(headers, "content-encoding")?.map(|value| without_chunks(&value));
    let kept = ObjectHeaders {
        content_type: text(headers, "content-type")?.filter(|value| !value.is_empty()),
        cache_control: text(headers, "cache-control")?,
        content_disposition: text(headers, "content-disposition")?,
        content_encoding: encoding.filter(|value| !value.is_empty()),
        content_language: text(headers, "content-language")?,
        expires: text(headers, "expires")?,
    };
    check_size(&kept)?;
    Ok(kept)
}

/// Refused before a byte of the body is read: a record has no room for more.
fn check_size(headers: &ObjectHeaders) -> Outcome<()> {
    let ObjectHeaders {
        content_type,
        cache_control,
        content_disposition,
        content_encoding,
        content_language,
        expires,
    } = headers;
    let all = [content_type, cache_control, content_disposition, content_encoding, content_language, expires];
    let bytes: usize = all.into_iter().flatten().map(String::len).sum();
    if bytes <= SYSTEM_METADATA_BYTES {
        return Ok(());
    }
    let message = format!(
        "Content-Type, Cache-Control, Content-Disposition, Content-Encoding, Content-Language and Expires have {bytes} \
         bytes together, at most {SYSTEM_METADATA_BYTES}"
    );
    Err(ServiceError::new(ErrorKind::MetadataTooLarge, message))
}

/// `x-amz-meta-…`, by name; what came in RFC 2047 stays as it came.
pub(crate) fn user_metadata(headers: &HeaderMap) -> Outcome<Vec<(String, String)>> {
    let mut metadata = Vec::new();
    for name in headers.keys() {
        if let Some(short) = name.as_str().strip_prefix("x-amz-meta-") {
            metadata.push((short.to_owned(), text(headers, name.as_str())?.unwrap_or_default()));
        }
    }
    metadata.sort();
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > limits::USER_METADATA_BYTES {
        return Err(ServiceError::new(
            ErrorKind::MetadataTooLarge,
            format!("the user metadata has {bytes} bytes, at most {}", limits::USER_METADATA_BYTES),
        ));
    }
    Ok(metadata)
}

/// Refuses properties of a new object that we do not carry out.
pub(crate) fn check_new(headers: &HeaderMap) -> Outcome<()> {
    check_acl(headers)?;
    let Some(class) = text(headers, "x-amz-storage-class")? else { return Ok(()) };
    match class.as_str() {
        "STANDARD" => Ok(()),
        "REDUCED_REDUNDANCY"
        | "STANDARD_IA"
        | "ONEZONE_IA"
        | "INTELLIGENT_TIERING"
        | "GLACIER"
        | "DEEP_ARCHIVE"
        | "OUTPOSTS"
        | "GLACIER_IR"
        | "SNOW"
        | "EXPRESS_ONEZONE"
        | "FSX_OPENZFS" => Err(ServiceError::not_implemented(&format!("the storage class {class}"))),
        _ => Err(ServiceError::new(
            ErrorKind::InvalidStorageClass,
            "The storage class you specified is not valid",
        )),
    }
}

/// Of what a listing can tell of each object beyond the usual only whether it is being restored from an archive: none is in one, so
/// that there is nothing to tell.
pub(crate) fn check_optional(headers: &HeaderMap) -> Outcome<()> {
    const NAME: &str = "x-amz-optional-object-attributes";
    let asked = text(headers, NAME)?.unwrap_or_default();
    match asked.split(',').map(str::trim).find(|name| !matches!(*name, "" | "RestoreStatus")) {
        Some(_) => Err(argument(NAME, "may be RestoreStatus and nothing else")),
        None => Ok(()),
    }
}

/// Refuses canned ACLs but those that say what everything is: `private`, and the bucket's owner's, who is the owner of all in it.
pub(crate) fn check_acl(headers: &HeaderMap) -> Outcome<()> {
    match text(headers, "x-amz-acl")?.as_deref() {
        None | Some("private" | "bucket-owner-full-control") => Ok(()),
        Some(acl) => Err(ServiceError::not_implemented(&format!("the canned ACL {acl}"))),
    }
}

fn etag_test(headers: &HeaderMap, name: &str) -> Outcome<Option<EtagTest>> {
    let Some(value) = text(headers, name)? else { return Ok(None) };
    match EtagTest::parse(&value) {
        EtagTest::OneOf(list) if list.is_empty() => Err(argument(name, "names no ETag")),
        test => Ok(Some(test)),
    }
}

/// The date of a condition. One that cannot be read is as if it were not there (RFC 9110, 13.1.3), but for the source of a
/// copy: what would be made of it is there afterwards.
fn date_of(headers: &HeaderMap, prefix: &str, name: &str) -> Outcome<Option<WallTime>> {
    let name = format!("{prefix}{name}");
    let Some(value) = text(headers, &name)? else { return Ok(None) };
    match date::parse_http(&value) {
        None if !prefix.is_empty() => Err(argument(&name, "is not an HTTP date")),
        found => Ok(found),
    }
}

/// Conditions of a read; with the prefix `x-amz-copy-source-` those of a source.
pub(crate) fn read_conditions(headers: &HeaderMap, prefix: &str) -> Outcome<ReadConditions> {
    Ok(ReadConditions {
        if_match: etag_test(headers, &format!("{prefix}if-match"))?,
        if_none_match: etag_test(headers, &format!("{prefix}if-none-match"))?,
        if_modified_since: date_of(headers, prefix, "if-modified-since")?,
        if_unmodified_since: date_of(headers, prefix, "if-unmodified-since")?,
    })
}

/// `If-Range`.
pub(crate) fn if_range(headers: &HeaderMap) -> Outcome<Option<IfRange>> {
    Ok(text(headers, "if-range")?.map(|value| IfRange::parse(&value)))
}

/// Condition of a write.
pub(crate) fn write_condition(headers: &HeaderMap) -> Outcome<WriteCondition> {
    let absent = match etag_test(headers, "if-none-match")? {
        None => false,
        Some(EtagTest::Any) => true,
        Some(EtagTest::OneOf(_)) => {
            return Err(ServiceError::not_implemented("If-None-Match of a write with anything but *"));
        }
    };
    Ok(WriteCondition { absent, matches: etag_test(headers, "if-match")? })
}

/// Where a copy comes from.
pub(crate) fn source(headers: &HeaderMap) -> Outcome<Source> {
    const NAME: &str = "x-amz-copy-source";
    let raw = text(headers, NAME)?.unwrap_or_default();
    if raw.starts_with("arn:") {
        return Err(ServiceError::not_implemented("a copy source named by an ARN"));
    }
    let (path, version) = match raw.split_once("?versionId=") {
        Some((path, version)) => (path, Some(super::version_id(version)?)),
        None => (raw.as_str(), None),
    };
    // Encoded as in a form, as S3 takes it: SDKs say `%2B` for a plus.
    let path = decode(path, true).ok_or_else(|| argument(NAME, "is not percent-encoded UTF-8"))?;
    let Some((bucket, key)) = path.strip_prefix('/').unwrap_or(&path).split_once('/') else {
        return Err(argument(NAME, "must be bucket/key"));
    };
    check_bucket(bucket)?;
    check_key(key)?;
    if key.is_empty() {
        return Err(argument(NAME, "names no key"));
    }
    let conditions = read_conditions(headers, "x-amz-copy-source-")?;
    Ok(Source { bucket: bucket.into(), key: key.into(), version, conditions })
}

/// `Content-MD5`.
pub(crate) fn content_md5(headers: &HeaderMap) -> Outcome<Option<[u8; 16]>> {
    let Some(value) = text(headers, "content-md5")? else { return Ok(None) };
    let bytes = STANDARD.decode(value.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Some).ok_or_else(|| {
        ServiceError::new(
            ErrorKind::InvalidDigest,
            "The Content-MD5 you specified is not valid: base64 of 16 bytes",
        )
    })
}

/// The checksum a header names, such as `x-amz-checksum-algorithm`.
pub(crate) fn algorithm(headers: &HeaderMap, name: &str) -> Outcome<Option<ChecksumKind>> {
    let Some(value) = text(headers, name)? else { return Ok(None) };
    match ChecksumKind::parse(&value) {
        Some(kind) => Ok(Some(kind)),
        None => Err(ServiceError::not_implemented(&format!("the checksum {value}"))),
    }
}

/// `x-amz-checksum-type`.
pub(crate) fn shape(headers: &HeaderMap) -> Outcome<Option<ChecksumShape>> {
    match text(headers, "x-amz-checksum-type")?.as_deref() {
        None => Ok(None),
        Some("FULL_OBJECT") => Ok(Some(ChecksumShape::Full)),
        Some("COMPOSITE") => Ok(Some(ChecksumShape::Composite)),
        Some(_) => Err(argument("x-amz-checksum-type", "is neither FULL_OBJECT nor COMPOSITE")),
    }
}

/// The checksum value a request carries; at most one.
pub(crate) fn checksum_value(headers: &HeaderMap) -> Outcome<Option<(ChecksumKind, String)>> {
    let mut found = ChecksumKind::ALL.into_iter().filter(|kind| headers.contains_key(kind.header()));
    let (first, second) = (found.next(), found.next());
    if second.is_some() {
        return Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum types are not allowed.",
        ));
    }
    let Some(kind) = first else { return Ok(None) };
    Ok(text(headers, kind.header())?.map(|value| (kind, value)))
}

/// Names in `x-amz-trailer`, lower-case.
pub(crate) fn trailer_names(headers: &HeaderMap) -> Outcome<Vec<String>> {
    let names = text(headers, "x-amz-trailer")?.unwrap_or_default().to_ascii_lowercase();
    Ok(names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect())
}

/// The checksum that a request names for its body.
pub(crate) fn declared(headers: &HeaderMap) -> Outcome<Option<(ChecksumKind, Declared)>> {
    let value = checksum_value(headers)?;
    let mut trailing = None;
    for name in trailer_names(headers)? {
        let kind = ChecksumKind::ALL.into_iter().find(|kind| kind.header() == name);
        trailing = Some(kind.ok_or_else(|| ServiceError::not_implemented(&format!("the trailer {name}")))?);
    }
    let named = match algorithm(headers, "x-amz-sdk-checksum-algorithm")? {
        Some(kind) => Some(kind),
        None => algorithm(headers, "x-amz-checksum-algorithm")?,
    };
    let (kind, declared) = match (value, trailing) {
        (Some(_), Some(_)) => {
            return Err(ServiceError::new(
                ErrorKind::InvalidRequest,
                "a checksum comes either in a header or in a trailer; leave one out",
            ));
        }
        (Some((kind, value)), None) if kind.is_value(&value) => (kind, Declared::Value(value)),
        (Some((kind, _)), None) => {
            return Err(ServiceError::new(
                ErrorKind::InvalidRequest,
                format!("Value for {} header is invalid.", kind.header()),
            ));
        }
        (None, Some(kind)) => (kind, Declared::Trailer),
        (None, None) => return Ok(named.map(|kind| (kind, Declared::Nothing))),
    };
    match named {
        Some(named) if named != kind => Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            format!("the checksum is {} and {} was named", kind.name(), named.name()),
        )),
        _ => Ok(Some((kind, declared))),
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
