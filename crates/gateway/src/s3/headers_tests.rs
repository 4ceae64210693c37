//! Headers in, words out, nonsense refused by name.

#![expect(clippy::unwrap_used, reason = "tests")]

use hyper::header::{HeaderName, HeaderValue};

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn kind<T: core::fmt::Debug>(outcome: Outcome<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn the_encoding_of_the_way_is_not_kept() {
    let encoding =
        |value: &str| object_headers(&headers(&[("content-encoding", value)])).unwrap().content_encoding;
    assert_eq!(encoding("aws-chunked"), None);
    assert_eq!(encoding("gzip, aws-chunked"), Some("gzip".into()));
    assert_eq!(encoding("deflate, gzip"), Some("deflate, gzip".into()));
    assert_eq!(encoding("aws-chunked,deflate,gzip"), Some("deflate, gzip".into()));
    assert_eq!(encoding("gzip,br"), Some("gzip,br".into()));
}

#[test]
fn system_headers_are_bounded_together() {
    let half = "x".repeat(1 << 10);
    let just = headers(&[("content-disposition", &half), ("cache-control", &half), ("x-other", &half)]);
    assert_eq!(object_headers(&just).unwrap().cache_control, Some(half.clone()));
    let over = headers(&[("content-disposition", &half), ("cache-control", &half), ("expires", "0")]);
    assert_eq!(kind(object_headers(&over)), ErrorKind::MetadataTooLarge);
}

#[test]
fn metadata_is_text_sorted_and_bounded() {
    let some = headers(&[("x-amz-meta-b", "größe"), ("x-amz-meta-a", "1"), ("x-amz-other", "x")]);
    let expected = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "größe".to_owned())];
    assert_eq!(user_metadata(&some).unwrap(), expected);
    let large = "x".repeat(limits::USER_METADATA_BYTES);
    assert_eq!(kind(user_metadata(&headers(&[("x-amz-meta-a", &large)]))), ErrorKind::MetadataTooLarge);
    let mut latin = HeaderMap::new();
    latin.insert("x-amz-meta-a", HeaderValue::from_bytes(b"gr\xf6\xdfe").unwrap());
    assert_eq!(kind(user_metadata(&latin)), ErrorKind::InvalidArgument);
}

#[test]
fn only_what_changes_nothing_is_taken_of_classes_and_acls() {
    let check = |name, value| check_new(&headers(&[(name, value)]));
    assert!(check("x-amz-acl", "private").is_ok() && check("x-amz-storage-class", "STANDARD").is_ok());
    assert!(check("x-amz-acl", "bucket-owner-full-control").is_ok());
    assert_eq!(kind(check("x-amz-acl", "bucket-owner-read")), ErrorKind::NotImplemented);
    assert_eq!(kind(check("x-amz-acl", "public-read")), ErrorKind::NotImplemented);
    assert_eq!(kind(check("x-amz-storage-class", "GLACIER")), ErrorKind::NotImplemented);
    assert_eq!(kind(check("x-amz-storage-class", "PAPER")), ErrorKind::InvalidStorageClass);
}

#[test]
fn sources_are_decoded_and_checked() {
    let read = |value: &str| source(&headers(&[("x-amz-copy-source", value)]));
    let found = read("/abc/a%2Fb%3F+c%2Bd%20e?versionId=v1").unwrap();
    assert_eq!((found.bucket.as_str(), found.key.as_str()), ("abc", "a/b? c+d e"));
    assert_eq!(found.version, Some(crate::service::VersionId("v1".into())));
    assert_eq!(read("abc/ü").unwrap().key, "ü");
    assert_eq!(kind(read("abc")), ErrorKind::InvalidArgument);
    assert_eq!(kind(read("abc/")), ErrorKind::InvalidArgument);
    assert_eq!(kind(read("A/k")), ErrorKind::InvalidBucketName);
    assert_eq!(kind(read("arn:aws:s3:::x")), ErrorKind::NotImplemented);
    assert_eq!(kind(read(&format!("abc/{}", "k".repeat(1025)))), ErrorKind::KeyTooLong);
}

#[test]
fn write_conditions_are_star_or_etag() {
    let read = |pairs: &[(&'static str, &str)]| write_condition(&headers(pairs));
    assert!(read(&[]).unwrap().is_none());
    assert!(read(&[("if-none-match", "*")]).unwrap().absent);
    assert_eq!(kind(read(&[("if-none-match", "\"a\"")])), ErrorKind::NotImplemented);
    assert_eq!(kind(read(&[("if-match", "")])), ErrorKind::InvalidArgument);
    // Of a read it is as if it were not there; of the source of a copy it is refused.
    let dated = headers(&[("if-modified-since", "yesterday")]);
    assert_eq!(read_conditions(&dated, "").unwrap(), ReadConditions::default());
    let source = headers(&[("x-amz-copy-source-if-modified-since", "yesterday")]);
    assert_eq!(kind(read_conditions(&source, "x-amz-copy-source-")), ErrorKind::InvalidArgument);
}

#[test]
fn one_checksum_in_one_place() {
    let read = |pairs: &[(&'static str, &str)]| declared(&headers(pairs));
    let crc = ("x-amz-checksum-crc32", "AAAAAA==");
    assert_eq!(read(&[]).unwrap(), None);
    assert_eq!(read(&[crc]).unwrap(), Some((ChecksumKind::Crc32, Declared::Value("AAAAAA==".into()))));
    let trailer = ("x-amz-trailer", "X-Amz-Checksum-Sha1");
    assert_eq!(read(&[trailer]).unwrap(), Some((ChecksumKind::Sha1, Declared::Trailer)));
    let named = ("x-amz-sdk-checksum-algorithm", "SHA256");
    assert_eq!(read(&[named]).unwrap(), Some((ChecksumKind::Sha256, Declared::Nothing)));
    for wrong in [&[crc, trailer][..], &[crc, named], &[crc, ("x-amz-checksum-sha1", "x")]] {
        assert_eq!(kind(read(wrong)), ErrorKind::InvalidRequest, "{wrong:?}");
    }
    assert_eq!(kind(read(&[("x-amz-checksum-crc32", "AAAA")])), ErrorKind::InvalidRequest);
    assert_eq!(kind(read(&[("x-amz-trailer", "x-amz-other")])), ErrorKind::NotImplemented);
    assert_eq!(kind(read(&[("x-amz-sdk-checksum-algorithm", "MD5")])), ErrorKind::NotImplemented);
}

#[test]
fn a_digest_that_cannot_be_one_is_invalid() {
    let read = |value: &str| content_md5(&headers(&[("content-md5", value)]));
    assert_eq!(read("1B2M2Y8AsgTpgAmY7PhCfg==").unwrap().unwrap()[0], 0xd4);
    for wrong in ["", "x", "AAAA", "1B2M2Y8AsgTpgAmY7PhCfg"] {
        assert_eq!(kind(read(wrong)), ErrorKind::InvalidDigest, "{wrong}");
    }
}
