//! Walks every sub-resource and every header of AWS over every operation: taken by its row, or refused.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

/// Every request header of the S3 API reference that begins with `x-amz-`, and every `If-` header.
const HEADERS: &[&str] = &[
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "if-match-last-modified-time",
    "x-amz-abort-date",
    "x-amz-abort-rule-id",
    "x-amz-acl",
    "x-amz-api-version",
    "x-amz-bucket-namespace",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-bucket-object-lock-token",
    "x-amz-bypass-governance-retention",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-md5",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-sha512",
    "x-amz-checksum-type",
    "x-amz-checksum-xxhash128",
    "x-amz-checksum-xxhash3",
    "x-amz-checksum-xxhash64",
    "x-amz-client-token",
    "x-amz-confirm-remove-self-bucket-access",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-copy-source-range",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
    "x-amz-create-session-mode",
    "x-amz-expected-bucket-owner",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-max-parts",
    "x-amz-metadata-directive",
    "x-amz-mfa",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-ownership",
    "x-amz-optional-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-rename-source",
    "x-amz-rename-source-if-match",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-skip-destination-validation",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-te",
    "x-amz-transition-default-minimum-object-size",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-something-new",
];

fn headers(names: &[&'static str]) -> HeaderMap {
    names.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("x"))).collect()
}

/// The plain request of a row.
fn ask(row: &Row, query: &str, names: &[&'static str]) -> Outcome<&'static Row> {
    let base = row.selectors.join("&");
    let query = Query::parse(Some(&format!("{base}&{query}"))).unwrap();
    let method = Method::from_bytes(row.method.as_bytes()).unwrap();
    let mut headers = headers(names);
    if matches!(row.operation, Operation::CopyObject | Operation::UploadPartCopy) {
        headers.insert("x-amz-copy-source", HeaderValue::from_static("b/k"));
    }
    route(&method, row.level, &query, &headers)
}

#[test]
fn every_row_is_reached() {
    for row in TABLE {
        assert_eq!(ask(row, "", &[]).unwrap().operation, row.operation);
        assert_eq!(ask(row, "x-id=X&unknown=1", &["x-amz-date"]).unwrap().operation, row.operation);
    }
}

#[test]
fn every_sub_resource_is_taken_or_not_implemented() {
    let mut refused = 0;
    for row in TABLE {
        for name in SUBRESOURCES {
            match ask(row, name, &[]) {
                // It made another operation of it, or it is this row's own selector.
                Ok(found) => assert!(found.selectors.contains(name), "{:?} ?{name}", row.operation),
                // It names another operation, which then does not take this row's own selector.
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                    let other = |one: &Row| one.method == row.method && one.selectors.contains(name);
                    assert!(TABLE.iter().any(other), "{:?} ?{name}", row.operation);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotImplemented, "{:?} ?{name}", row.operation);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 800, "{refused}");
}

#[test]
fn sub_resources_of_methods_without_a_row_are_not_implemented() {
    for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::HEAD] {
        for level in [Level::Root, Level::Bucket, Level::Object] {
            for name in SUBRESOURCES {
                let query = Query::parse(Some(name)).unwrap();
                match route(&method, level, &query, &HeaderMap::new()) {
                    Ok(row) => assert!(row.selectors.contains(name), "{method} {level:?} ?{name}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotImplemented, "{method} ?{name}"),
                }
            }
        }
    }
}

#[test]
fn every_header_is_taken_by_its_row_or_not_implemented() {
    let mut refused = 0;
    for row in TABLE {
        for name in HEADERS {
            let allowed = EVERY.contains(name) || row.headers.iter().any(|group| group.contains(name));
            match ask(row, "", &[*name]) {
                // A copy source makes a copy of a put.
                Ok(found) => {
                    assert!(allowed || found.operation != row.operation, "{:?} {name}", row.operation)
                }
                Err(error) => {
                    assert!(!allowed, "{:?} {name}", row.operation);
                    assert_eq!(error.kind(), ErrorKind::NotImplemented, "{:?} {name}", row.operation);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1400, "{refused}");
}

/// What SDKs add by themselves to what their callers ask for.
#[test]
fn requests_of_sdks_are_taken() {
    for row in TABLE {
        assert!(ask(row, "", &["x-amz-api-version"]).is_ok(), "C++: {:?}", row.operation);
    }
    let java = ["x-amz-te", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"];
    for row in
        TABLE.iter().filter(|row| matches!(row.operation, Operation::GetObject | Operation::HeadObject))
    {
        assert!(ask(row, "", &java).is_ok(), "Java: {:?}", row.operation);
    }
    let minio = ["x-amz-checksum-algorithm", "x-amz-checksum-crc32c", "x-amz-checksum-type"];
    for row in
        TABLE.iter().filter(|row| matches!(row.operation, Operation::PutObject | Operation::UploadPart))
    {
        assert!(ask(row, "", &minio).is_ok(), "minio-go: {:?}", row.operation);
    }
    let lists = [Operation::ListObjects, Operation::ListObjectsV2, Operation::ListObjectVersions];
    for row in TABLE.iter().filter(|row| lists.contains(&row.operation)) {
        let asked = ask(row, "", &["x-amz-optional-object-attributes"]);
        assert!(asked.is_ok(), "Mountpoint: {:?}", row.operation);
    }
}

#[test]
fn a_method_that_is_refused_is_told_which_are_taken() {
    let told = |method: Method, level, query: &str| {
        let refused =
            route(&method, level, &Query::parse(Some(query)).unwrap(), &HeaderMap::new()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::MethodNotAllowed);
        refused.headers().to_vec()
    };
    let allow = |methods: &str| vec![("allow", methods.to_owned())];
    assert_eq!(told(Method::DELETE, Level::Root, ""), allow("GET"));
    assert_eq!(told(Method::PATCH, Level::Bucket, "x-id=1"), allow("DELETE, GET, HEAD, PUT"));
    assert_eq!(told(Method::PATCH, Level::Object, "uploadId=1"), allow("DELETE, GET, HEAD, POST, PUT"));
}

#[test]
fn metadata_is_taken_where_objects_are_made() {
    for row in TABLE {
        assert_eq!(ask(row, "", &["x-amz-meta-colour"]).is_ok(), row.metadata, "{:?}", row.operation);
    }
}

#[test]
fn misplaced_parameters_and_methods_are_refused() {
    let kind = |method: Method, level, query: &str| {
        let query = Query::parse(Some(query)).unwrap();
        route(&method, level, &query, &HeaderMap::new()).unwrap_err().kind()
    };
    assert_eq!(kind(Method::PUT, Level::Object, "versionId=1"), ErrorKind::InvalidArgument);
    assert_eq!(kind(Method::GET, Level::Bucket, "X-Amz-Security-Token=t"), ErrorKind::NotImplemented);
    assert_eq!(kind(Method::GET, Level::Bucket, "response-expires=1"), ErrorKind::InvalidArgument);
    assert_eq!(kind(Method::PATCH, Level::Object, ""), ErrorKind::MethodNotAllowed);
    assert_eq!(kind(Method::POST, Level::Bucket, ""), ErrorKind::NotImplemented);
    assert_eq!(kind(Method::OPTIONS, Level::Object, ""), ErrorKind::NotImplemented);
}

/// The page for users names every operation, and every sub-resource that is 501.
#[test]
fn the_page_says_what_the_table_does() {
    let page = include_str!("../../../../docs/s3.md");
    for row in TABLE {
        assert!(
            page.contains(&format!("| {} |", row.operation.name())),
            "docs/s3.md lacks {}",
            row.operation.name()
        );
    }
    let taken = |name: &&&str| TABLE.iter().any(|row| row.selectors.contains(*name));
    for name in SUBRESOURCES.iter().filter(|name| !taken(name)) {
        assert!(page.contains(&format!("`?{name}`")), "docs/s3.md lacks ?{name}");
    }
}

/// As the links of current SDKs are: what they would send as headers is in the query.
#[test]
fn headers_that_a_presigned_link_carries_count_as_sent() {
    let parse = |text: &str| Query::parse(Some(text)).unwrap();
    let link = parse("x-id=GetObject&X-Amz-Date=d&X-Amz-Checksum-Mode=ENABLED&X-Amz-Signature=s");
    let mut headers = HeaderMap::new();
    take_hoisted(&link, &mut headers).unwrap();
    assert_eq!((headers.len(), headers["x-amz-checksum-mode"].as_bytes()), (1, &b"ENABLED"[..]));
    let row = route(&Method::GET, Level::Object, &link, &headers).unwrap();
    assert_eq!(row.operation, Operation::GetObject);
    let kind = |method: &Method, query: &Query, headers: &HeaderMap| {
        route(method, Level::Object, query, headers).unwrap_err().kind()
    };
    assert_eq!(
        kind(&Method::PUT, &link, &headers),
        ErrorKind::NotImplemented,
        "PutObject takes no such header"
    );
    let unsigned = parse("X-Amz-Checksum-Mode=ENABLED");
    assert_eq!(kind(&Method::GET, &unsigned, &headers), ErrorKind::NotImplemented, "only of a link");
    let mut sent = HeaderMap::new();
    sent.insert("x-amz-checksum-mode", HeaderValue::from_static("x"));
    take_hoisted(&link, &mut sent).unwrap();
    assert_eq!(sent["x-amz-checksum-mode"].as_bytes(), b"x", "what was sent counts first");
    // What JavaScript's getSignedUrl(PutObject) makes: the sum of the empty body, whatever will be sent.
    let put = parse("x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&X-Amz-Signature=s");
    let mut none = HeaderMap::new();
    take_hoisted(&put, &mut none).unwrap();
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(route(&Method::PUT, Level::Object, &put, &none).unwrap().operation, Operation::PutObject);
    assert_eq!(kind(&Method::DELETE, &put, &none), ErrorKind::NotImplemented, "of what has a sum");
    let broken = parse("x-amz-acl=%0A&X-Amz-Signature=s");
    assert_eq!(take_hoisted(&broken, &mut sent).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
