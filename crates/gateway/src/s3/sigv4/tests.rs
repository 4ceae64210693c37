//! The worked examples of the S3 documentation, and what must not pass.

#![expect(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::{Canonical, ChunkKeys, Claim, Decoder, SigningKey, SigningKeys};
use crate::s3::uri::Query;
use crate::service::{ErrorKind, Outcome};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn verify(method: &str, path: &str, query: &str, headers: &HeaderMap) -> Outcome<ChunkKeys> {
    let query = Query::parse(Some(query))?;
    let claim = Claim::read(headers, &query)?.unwrap();
    assert_eq!(claim.access_key, "AKIAIOSFODNN7EXAMPLE");
    let request = Canonical { method, path, query: &query, headers, host: "", signed: &[], payload: "" };
    claim.verify(SECRET, request, path, &SigningKeys::default())
}

fn get_example() -> HeaderMap {
    headers(&[
        ("host", "examplebucket.s3.amazonaws.com"),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
    ])
}

/// 32 KiB of them would be 128 MiB to be hashed, for whoever knows the id of a key.
#[test]
fn a_header_is_signed_once() {
    let mut twice = get_example();
    let said = twice["authorization"].to_str().unwrap().replace("host;range;", "host;range;Range;");
    twice.insert("authorization", HeaderValue::from_str(&said).unwrap());
    let refused = Claim::read(&twice, &Query::parse(None).unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AuthorizationHeaderMalformed);
    assert!(refused.message().contains("range twice"), "{refused}");
}

/// Each header of a request is looked for among them.
#[test]
fn few_enough_names_are_signed() {
    let named = |more: usize| {
        let names: String = (0..more).map(|n| format!("x-{n:04};")).collect();
        let mut example = get_example();
        let said = example["authorization"].to_str().unwrap().replace("range;", &format!("range;{names}"));
        example.insert("authorization", HeaderValue::from_str(&said).unwrap());
        Claim::read(&example, &Query::parse(None).unwrap()).map(Option::unwrap)
    };
    let claim = named(508).unwrap();
    let signs = |name: &str| claim.check_signed(&headers(&[("host", "h"), (name, "v")])).is_ok();
    for name in ["range", "x-amz-date", "x-amz-content-sha256"] {
        assert!(signs(name), "{name}");
    }
    for name in ["x-amz-a", "x-amz-z", "x-skerry-scope"] {
        assert!(!signs(name), "{name}");
    }
    assert_eq!(named(509).unwrap_err().kind(), ErrorKind::AuthorizationHeaderMalformed);
}

#[test]
fn the_documented_get_verifies_and_no_other() {
    assert!(verify("GET", "/test.txt", "", &get_example()).is_ok());
    let kind = |outcome: Outcome<ChunkKeys>| outcome.unwrap_err().kind();
    assert_eq!(kind(verify("PUT", "/test.txt", "", &get_example())), ErrorKind::SignatureDoesNotMatch);
    assert_eq!(kind(verify("GET", "/test.tx", "", &get_example())), ErrorKind::SignatureDoesNotMatch);
    assert_eq!(kind(verify("GET", "/test.txt", "acl", &get_example())), ErrorKind::SignatureDoesNotMatch);
    let mut other = get_example();
    other.insert("range", HeaderValue::from_static("bytes=0-8"));
    assert_eq!(kind(verify("GET", "/test.txt", "", &other)), ErrorKind::SignatureDoesNotMatch);
}

#[test]
fn the_documented_list_verifies() {
    let query = "max-keys=2&prefix=J";
    let example = headers(&[
        ("host", "examplebucket.s3.amazonaws.com"),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;x-amz-content-sha256;x-amz-date,\
             Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ]);
    assert!(verify("GET", "/", query, &example).is_ok());
}

const LINK: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
    &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

#[test]
fn the_documented_link_verifies() {
    let host = headers(&[("host", "examplebucket.s3.amazonaws.com")]);
    assert!(verify("GET", "/test.txt", LINK, &host).is_ok());
    assert!(verify("GET", "/test.txt", &LINK.replace("86400", "86401"), &host).is_err());
}

#[test]
fn links_live_seven_days_at_most() {
    let host = headers(&[("host", "h")]);
    let read = |seconds: &str| {
        let query = Query::parse(Some(&LINK.replace("86400", seconds))).unwrap();
        Claim::read(&host, &query).map(|claim| claim.unwrap().expires)
    };
    assert_eq!(read("604800").unwrap(), Some(604_800));
    for refused in ["604801", "0", "-1", "x", ""] {
        assert_eq!(
            read(refused).unwrap_err().kind(),
            ErrorKind::AuthorizationQueryParametersError,
            "{refused}"
        );
    }
}

fn refused(pairs: &[(&str, &str)], query: &str) -> ErrorKind {
    Claim::read(&headers(pairs), &Query::parse(Some(query)).unwrap()).unwrap_err().kind()
}

#[test]
fn other_mechanisms_are_refused_by_name() {
    assert_eq!(refused(&[("authorization", "AWS AKIA:c2ln")], ""), ErrorKind::InvalidRequest);
    assert_eq!(refused(&[], "AWSAccessKeyId=a&Signature=b&Expires=1"), ErrorKind::InvalidRequest);
    assert_eq!(refused(&[("authorization", "Basic x")], ""), ErrorKind::InvalidArgument);
    assert_eq!(refused(&[("authorization", "AWS4-ECDSA-P256-SHA256 x")], ""), ErrorKind::NotImplemented);
    assert_eq!(refused(&[("authorization", "AWS4-HMAC-SHA256 x")], LINK), ErrorKind::InvalidArgument);
    assert!(Claim::read(&HeaderMap::new(), &Query::default()).unwrap().is_none());
}

#[test]
fn every_amz_header_must_be_signed() {
    let mut example = get_example();
    let query = Query::default();
    let claim = Claim::read(&example, &query).unwrap().unwrap();
    assert!(claim.check_signed(&example).is_ok());
    example.insert("x-amz-meta-added", HeaderValue::from_static("by somebody else"));
    assert_eq!(claim.check_signed(&example).unwrap_err().kind(), ErrorKind::AccessDenied);
    assert!(claim.check_region(None).is_ok() && claim.check_region(Some("us-east-1")).is_ok());
    let wrong = claim.check_region(Some("island")).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::AuthorizationHeaderMalformed);
}

fn keys(seed: &str) -> ChunkKeys {
    ChunkKeys {
        key: SigningKey::derive(SECRET, "20130524", "us-east-1", "s3"),
        stamp: "20130524T000000Z".into(),
        scope: "20130524/us-east-1/s3/aws4_request".into(),
        previous: seed.into(),
    }
}

/// Feeds a body in slices of a size; answers payload and trailers.
type Decoded = (Vec<u8>, Vec<(String, String)>);

fn decode(mut decoder: Decoder, body: &[u8], slice: usize) -> Outcome<Decoded> {
    let mut payload = Vec::new();
    for part in body.chunks(slice) {
        let mut input = Bytes::copy_from_slice(part);
        while let Some(bytes) = decoder.next(&mut input)? {
            payload.extend_from_slice(&bytes);
        }
    }
    decoder.finish().map(|trailers| (payload, trailers))
}

fn chunk(head: &str, data: &[u8]) -> Vec<u8> {
    [head.as_bytes(), b"\r\n", data, b"\r\n"].concat()
}

/// The documented upload of 65 KiB of `a`, with a chosen end.
fn signed_body(signatures: [&str; 3], end: &str) -> Vec<u8> {
    let [first, second, third] = signatures;
    let mut body = chunk(&format!("10000;chunk-signature={first}"), &[b'a'; 65_536]);
    body.extend(chunk(&format!("400;chunk-signature={second}"), &[b'a'; 1024]));
    body.extend(format!("0;chunk-signature={third}\r\n{end}").into_bytes());
    body
}

const PLAIN_SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const PLAIN: [&str; 3] = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
];

#[test]
fn the_documented_chunks_verify_however_they_are_cut() {
    let body = signed_body(PLAIN, "\r\n");
    for slice in [1, 7, 1000, 65_536, body.len()] {
        let (payload, trailers) = decode(Decoder::new(Some(keys(PLAIN_SEED)), vec![]), &body, slice).unwrap();
        assert_eq!(payload, [b'a'; 66_560]);
        assert!(trailers.is_empty());
    }
}

#[test]
fn a_changed_byte_or_a_missing_end_is_refused() {
    let body = signed_body(PLAIN, "\r\n");
    let decode = |body: &[u8]| decode(Decoder::new(Some(keys(PLAIN_SEED)), vec![]), body, 4096);
    let mut changed = body.clone();
    changed[100] = b'b';
    assert_eq!(decode(&changed).unwrap_err().kind(), ErrorKind::SignatureDoesNotMatch);
    let before_last = body.len() - 86;
    for short in [before_last, 1000, 0] {
        assert_eq!(decode(&body[..short]).unwrap_err().kind(), ErrorKind::IncompleteBody, "{short}");
    }
    let unsigned = [chunk("5", b"hello"), b"0\r\n\r\n".to_vec()].concat();
    assert_eq!(decode(&unsigned).unwrap_err().kind(), ErrorKind::InvalidRequest);
}

const TRAILER_SEED: &str = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
const TRAILED: [&str; 3] = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
];
const TRAILER: &str = "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:\
    d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\n\r\n";

#[test]
fn the_documented_trailer_verifies() {
    let announced = || vec!["x-amz-checksum-crc32c".to_owned()];
    let decode = |end: &str| {
        let decoder = Decoder::new(Some(keys(TRAILER_SEED)), announced());
        decode(decoder, &signed_body(TRAILED, end), 5000).map(|(_, trailers)| trailers)
    };
    assert_eq!(decode(TRAILER).unwrap(), [("x-amz-checksum-crc32c".to_owned(), "sOO8/Q==".to_owned())]);
    let kind = |end: &str| decode(end).unwrap_err().kind();
    assert_eq!(kind(&TRAILER.replace("sOO8", "sOO9")), ErrorKind::SignatureDoesNotMatch);
    assert_eq!(kind("x-amz-checksum-crc32c:sOO8/Q==\r\n"), ErrorKind::InvalidRequest);
    assert_eq!(kind(&TRAILER.replace("crc32c", "sha1")), ErrorKind::InvalidRequest);
    assert_eq!(kind(&"x".repeat(9000)), ErrorKind::InvalidRequest);
}

#[test]
fn unsigned_chunks_with_a_trailer_pass() {
    let body =
        [chunk("5", b"hello"), chunk("1", b"!"), b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n".to_vec()];
    let decoder = || Decoder::new(None, vec!["x-amz-checksum-crc32".into()]);
    for slice in [1, 3, 100] {
        let (payload, trailers) = decode(decoder(), &body.concat(), slice).unwrap();
        assert_eq!(payload, b"hello!");
        assert_eq!(trailers[0].1, "AAAAAA==");
    }
    for broken in ["\r\n", "x\r\nhello", "-5\r\nhello", "5;what=1\r\nhello\r\n", "5\r\nhello!!\r\n"] {
        assert_eq!(decode(decoder(), broken.as_bytes(), 3).unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
    assert_eq!(
        decode(decoder(), "9".repeat(300).as_bytes(), 50).unwrap_err().kind(),
        ErrorKind::InvalidRequest
    );
}

proptest::proptest! {
    /// Whatever comes, it is read or refused.
    #[test]
    fn nothing_breaks_the_readers(text in "\\PC{0,120}", bytes in proptest::collection::vec(0_u8.., 0..300), slice in 1_usize..40) {
        let mut some = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&text) {
            some.insert("authorization", value);
            some.insert("x-amz-date", HeaderValue::from_static("20130524T000000Z"));
            some.insert("x-amz-content-sha256", HeaderValue::from_static(EMPTY));
        }
        let query = Query::parse(Some(&text)).unwrap_or_default();
        let _ = Claim::read(&some, &query);
        let _ = Claim::read(&HeaderMap::new(), &Query::parse(Some(&format!("X-Amz-Algorithm=AWS4-HMAC-SHA256&{text}"))).unwrap_or_default());
        let _ = decode(Decoder::new(None, vec![]), &bytes, slice);
        let _ = decode(Decoder::new(Some(keys(PLAIN_SEED)), vec![]), &bytes, slice);
    }
}
