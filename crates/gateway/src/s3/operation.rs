//! The S3 operations we carry out, how a request names one, and what it may carry.
//!
//! Invariant: this table is the whole truth. A sub-resource, an AWS parameter, an `x-amz-` or an `If-` header
//! that its row does not allow is refused by name ([`Row::check`]), so that nothing is silently ignored.

use std::collections::BTreeSet;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};

use super::uri::Query;
use crate::service::{ErrorKind, Outcome, ServiceError};

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The service.
    Root,
    /// A bucket.
    Bucket,
    /// A key.
    Object,
}

/// Declares the operations with their S3 names.
macro_rules! operations {
    ($($name:ident),* $(,)?) => {
        /// An operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation { $(#[doc = stringify!($name)] $name,)* }

        impl Operation {
            /// Its S3 name.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

operations! {
    ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation, GetBucketVersioning,
    PutBucketVersioning, ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads, DeleteObjects,
    GetObject, HeadObject, PutObject, CopyObject, DeleteObject, GetObjectTagging, CreateMultipartUpload,
    UploadPart, UploadPartCopy, CompleteMultipartUpload, AbortMultipartUpload, ListParts, GetObjectAttributes,
    GetBucketAcl, GetObjectAcl, PutBucketAcl, PutObjectAcl, GetBucketAccelerateConfiguration, GetBucketCors,
    GetBucketEncryption, GetBucketLifecycleConfiguration, GetBucketLogging, GetBucketNotificationConfiguration,
    GetBucketOwnershipControls, GetBucketPolicy, GetBucketPolicyStatus, GetBucketReplication,
    GetBucketRequestPayment, GetBucketTagging, GetBucketWebsite, GetObjectLockConfiguration, GetPublicAccessBlock,
    DeleteBucketCors, DeleteBucketEncryption, DeleteBucketLifecycle, DeleteBucketOwnershipControls,
    DeleteBucketPolicy, DeleteBucketReplication, DeleteBucketTagging, DeleteBucketWebsite,
    DeletePublicAccessBlock, DeleteObjectTagging,
}

impl Operation {
    /// Whether it may be silent for longer than clients are patient. Their clients look for an error in an answer of status 200.
    pub(crate) const fn may_take_long(self) -> bool {
        matches!(self, Self::CopyObject | Self::UploadPartCopy | Self::CompleteMultipartUpload)
    }
}

/// How a request names an operation, and what it may carry.
#[derive(Debug)]
pub(crate) struct Row {
    /// The operation.
    pub(crate) operation: Operation,
    method: &'static str,
    level: Level,
    /// Query names that must be there.
    selectors: &'static [&'static str],
    /// Further query names that may be there.
    queries: &'static [&'static str],
    /// Groups of headers that may be there.
    headers: &'static [&'static [&'static str]],
    /// Whether `x-amz-meta-` may be there.
    metadata: bool,
    /// Whether the body streams to the service; else it is read before, up to the limit of documents.
    pub(crate) streams: bool,
}

/// Headers of signatures and of SDKs, and ours, on every operation.
const EVERY: &[&str] = &[
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-user-agent",
    // The SDK for C++ says with everything but uploads which edition of the interface it speaks; there is one.
    "x-amz-api-version",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
    "x-skerry-read",
    "x-skerry-token",
    "x-skerry-scope",
];
/// Checksums of the body that comes with the request.
const SUMS: &[&str] = &[
    "x-amz-sdk-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
];
/// The SDK for Java offers to check a digest that comes behind the body of an answer; none does.
const TRAILED: &[&str] = &["x-amz-te"];
/// Conditions of a read.
const READ_IF: &[&str] =
    &["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
/// Conditions of a write.
const WRITE_IF: &[&str] = &["if-match", "if-none-match"];
/// Properties of a new object; only the values that change nothing are taken, see `s3::headers`.
const NEW: &[&str] = &["x-amz-acl", "x-amz-storage-class"];
/// Asks that a lock be passed over, which no object has.
const UNLOCKED: &[&str] = &["x-amz-bypass-governance-retention"];
/// What a listing is to tell of each object beyond the usual; only what none has is taken, see `s3::headers`.
const LISTED: &[&str] = &["x-amz-optional-object-attributes"];
/// The source of a copy.
const SOURCE: &[&str] = &[
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-unmodified-since",
];
/// Overrides of response headers.
const OVERRIDES: &[&str] = &[
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];

const fn row(operation: Operation, method: &'static str, level: Level) -> Row {
    let (selectors, queries, headers): (&[_], &[_], &[&[_]]) = (&[], &[], &[]);
    Row { operation, method, level, selectors, queries, headers, metadata: false, streams: false }
}

/// A setting that no bucket has: see `s3::unset`.
const fn unset(operation: Operation, method: &'static str, selectors: &'static [&'static str]) -> Row {
    Row { selectors, ..row(operation, method, Level::Bucket) }
}

/// All operations; of those that fit, the first counts.
pub(crate) const TABLE: &[Row] = &[
    unset(Operation::GetBucketAcl, "GET", &["acl"]),
    unset(Operation::GetBucketAccelerateConfiguration, "GET", &["accelerate"]),
    unset(Operation::GetBucketCors, "GET", &["cors"]),
    unset(Operation::GetBucketEncryption, "GET", &["encryption"]),
    unset(Operation::GetBucketLifecycleConfiguration, "GET", &["lifecycle"]),
    unset(Operation::GetBucketLogging, "GET", &["logging"]),
    unset(Operation::GetBucketNotificationConfiguration, "GET", &["notification"]),
    unset(Operation::GetBucketOwnershipControls, "GET", &["ownershipControls"]),
    unset(Operation::GetBucketPolicy, "GET", &["policy"]),
    unset(Operation::GetBucketPolicyStatus, "GET", &["policyStatus"]),
    unset(Operation::GetBucketReplication, "GET", &["replication"]),
    unset(Operation::GetBucketRequestPayment, "GET", &["requestPayment"]),
    unset(Operation::GetBucketTagging, "GET", &["tagging"]),
    unset(Operation::GetBucketWebsite, "GET", &["website"]),
    unset(Operation::GetObjectLockConfiguration, "GET", &["object-lock"]),
    unset(Operation::GetPublicAccessBlock, "GET", &["publicAccessBlock"]),
    unset(Operation::DeleteBucketCors, "DELETE", &["cors"]),
    unset(Operation::DeleteBucketEncryption, "DELETE", &["encryption"]),
    unset(Operation::DeleteBucketLifecycle, "DELETE", &["lifecycle"]),
    unset(Operation::DeleteBucketOwnershipControls, "DELETE", &["ownershipControls"]),
    unset(Operation::DeleteBucketPolicy, "DELETE", &["policy"]),
    unset(Operation::DeleteBucketReplication, "DELETE", &["replication"]),
    unset(Operation::DeleteBucketTagging, "DELETE", &["tagging"]),
    unset(Operation::DeleteBucketWebsite, "DELETE", &["website"]),
    unset(Operation::DeletePublicAccessBlock, "DELETE", &["publicAccessBlock"]),
    Row { headers: &[SUMS, &["x-amz-acl"]], ..unset(Operation::PutBucketAcl, "PUT", &["acl"]) },
    Row {
        selectors: &["acl"],
        queries: &["versionId"],
        headers: &[SUMS, &["x-amz-acl"]],
        ..row(Operation::PutObjectAcl, "PUT", Level::Object)
    },
    Row {
        selectors: &["acl"],
        queries: &["versionId"],
        ..row(Operation::GetObjectAcl, "GET", Level::Object)
    },
    Row {
        selectors: &["attributes"],
        queries: &["versionId"],
        headers: &[&["x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker"]],
        ..row(Operation::GetObjectAttributes, "GET", Level::Object)
    },
    Row {
        selectors: &["tagging"],
        queries: &["versionId"],
        ..row(Operation::DeleteObjectTagging, "DELETE", Level::Object)
    },
    Row {
        queries: &["prefix", "max-buckets", "continuation-token", "bucket-region"],
        ..row(Operation::ListBuckets, "GET", Level::Root)
    },
    Row {
        selectors: &["versioning"],
        headers: &[SUMS],
        ..row(Operation::PutBucketVersioning, "PUT", Level::Bucket)
    },
    Row {
        headers: &[SUMS, &["x-amz-acl", "x-amz-bucket-object-lock-enabled", "x-amz-object-ownership"]],
        ..row(Operation::CreateBucket, "PUT", Level::Bucket)
    },
    row(Operation::HeadBucket, "HEAD", Level::Bucket),
    row(Operation::DeleteBucket, "DELETE", Level::Bucket),
    Row { selectors: &["location"], ..row(Operation::GetBucketLocation, "GET", Level::Bucket) },
    Row { selectors: &["versioning"], ..row(Operation::GetBucketVersioning, "GET", Level::Bucket) },
    Row {
        selectors: &["versions"],
        queries: &["prefix", "delimiter", "encoding-type", "key-marker", "version-id-marker", "max-keys"],
        headers: &[LISTED],
        ..row(Operation::ListObjectVersions, "GET", Level::Bucket)
    },
    Row {
        selectors: &["uploads"],
        queries: &["prefix", "delimiter", "encoding-type", "key-marker", "upload-id-marker", "max-uploads"],
        ..row(Operation::ListMultipartUploads, "GET", Level::Bucket)
    },
    Row {
        selectors: &["list-type"],
        queries: &[
            "prefix",
            "delimiter",
            "encoding-type",
            "start-after",
            "continuation-token",
            "fetch-owner",
            "max-keys",
        ],
        headers: &[LISTED],
        ..row(Operation::ListObjectsV2, "GET", Level::Bucket)
    },
    Row {
        queries: &["prefix", "delimiter", "encoding-type", "marker", "max-keys"],
        headers: &[LISTED],
        ..row(Operation::ListObjects, "GET", Level::Bucket)
    },
    Row {
        selectors: &["delete"],
        headers: &[SUMS, UNLOCKED],
        ..row(Operation::DeleteObjects, "POST", Level::Bucket)
    },
    Row {
        selectors: &["uploadId"],
        queries: &["max-parts", "part-number-marker"],
        ..row(Operation::ListParts, "GET", Level::Object)
    },
    Row {
        selectors: &["tagging"],
        queries: &["versionId"],
        ..row(Operation::GetObjectTagging, "GET", Level::Object)
    },
    Row {
        queries: &["versionId", "partNumber"],
        headers: &[READ_IF, SUMS, TRAILED, &["x-amz-checksum-mode"]],
        ..row(Operation::GetObject, "GET", Level::Object)
    },
    Row {
        queries: &["versionId", "partNumber"],
        headers: &[READ_IF, SUMS, TRAILED, &["x-amz-checksum-mode"]],
        ..row(Operation::HeadObject, "HEAD", Level::Object)
    },
    Row {
        selectors: &["uploadId", "partNumber"],
        headers: &[SOURCE, &["x-amz-copy-source-range"]],
        ..row(Operation::UploadPartCopy, "PUT", Level::Object)
    },
    Row {
        selectors: &["uploadId", "partNumber"],
        headers: &[SUMS, &["x-amz-checksum-algorithm", "x-amz-checksum-type"]],
        streams: true,
        ..row(Operation::UploadPart, "PUT", Level::Object)
    },
    Row {
        headers: &[
            SOURCE,
            NEW,
            WRITE_IF,
            &["x-amz-metadata-directive", "x-amz-tagging-directive", "x-amz-checksum-algorithm"],
        ],
        metadata: true,
        ..row(Operation::CopyObject, "PUT", Level::Object)
    },
    Row {
        headers: &[SUMS, NEW, WRITE_IF, &["x-amz-checksum-algorithm", "x-amz-checksum-type"]],
        metadata: true,
        streams: true,
        ..row(Operation::PutObject, "PUT", Level::Object)
    },
    Row {
        selectors: &["uploads"],
        headers: &[NEW, &["x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-sdk-checksum-algorithm"]],
        metadata: true,
        ..row(Operation::CreateMultipartUpload, "POST", Level::Object)
    },
    Row {
        selectors: &["uploadId"],
        headers: &[SUMS, WRITE_IF, &["x-amz-checksum-type", "x-amz-mp-object-size"]],
        ..row(Operation::CompleteMultipartUpload, "POST", Level::Object)
    },
    Row { selectors: &["uploadId"], ..row(Operation::AbortMultipartUpload, "DELETE", Level::Object) },
    Row {
        queries: &["versionId"],
        headers: &[&["if-match"], UNLOCKED],
        ..row(Operation::DeleteObject, "DELETE", Level::Object)
    },
];

/// Every sub-resource of S3's API. One that no row takes is 501.
pub(crate) const SUBRESOURCES: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "events",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploads",
    "versioning",
    "versions",
    "website",
    "append",
    "position",
];

/// Parameters of S3's API that are no sub-resources. One that the row does not take is an error of the caller.
const PARAMETERS: &[&str] = &[
    "bucket-region",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "select-type",
    "start-after",
    "upload-id-marker",
    "uploadId",
    "version-id-marker",
    "versionId",
];

/// What a presigned link carries of its signature, behind `x-amz-`.
const SIGNATURE: &[&str] =
    &["algorithm", "credential", "date", "expires", "signedheaders", "signature", "content-sha256"];

/// Headers that a presigned link carries as parameters: SDKs sign them so, because whoever opens the link sends none.
/// They count as if they had been sent, but for checksums: an SDK that signs a link without having the body puts that
/// of nothing into it (`x-amz-checksum-crc32=AAAAAA==`), and S3 does not look at it.
pub(crate) fn take_hoisted(query: &Query, headers: &mut HeaderMap) -> Outcome<()> {
    for (name, value) in query.pairs() {
        let name = name.to_ascii_lowercase();
        let hoisted = name.strip_prefix("x-amz-").is_some_and(|rest| !SIGNATURE.contains(&rest));
        if !hoisted || SUMS.contains(&name.as_str()) || headers.contains_key(name.as_str()) {
            continue;
        }
        let header = HeaderName::from_bytes(name.as_bytes());
        let (Ok(header), Ok(value)) = (header, HeaderValue::from_bytes(value.as_bytes())) else {
            let message = format!("the parameter {name} stands for a header and cannot be one; leave it out");
            return Err(ServiceError::new(ErrorKind::InvalidArgument, message));
        };
        headers.insert(header, value);
    }
    Ok(())
}

/// Whether some row takes a sub-resource as what it is about.
#[cfg(any(test, feature = "conformance"))]
pub(crate) fn carries_out(method: &str, level: Level, subresource: &str) -> bool {
    let takes = |row: &&Row| row.method == method && row.level == level;
    TABLE.iter().filter(takes).any(|row| row.selectors.contains(&subresource))
}

/// The row of a request.
pub(crate) fn route(
    method: &Method,
    level: Level,
    query: &Query,
    headers: &HeaderMap,
) -> Outcome<&'static Row> {
    let copies = headers.contains_key("x-amz-copy-source");
    let fits = |row: &&Row| {
        let is_copy = matches!(row.operation, Operation::CopyObject | Operation::UploadPartCopy);
        row.method == method.as_str()
            && row.level == level
            && row.selectors.iter().all(|name| query.has(name))
            && (!is_copy || copies)
    };
    let row = TABLE.iter().find(fits).ok_or_else(|| unknown(method, level, query))?;
    row.check(query, headers)?;
    Ok(row)
}

/// Why a request without a signature is refused. Browsers sign neither of what they send by themselves, and a key would
/// not help them.
pub(crate) fn unsigned(method: &Method, headers: &HeaderMap) -> ServiceError {
    let content = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    match method.as_str() {
        "OPTIONS" => ServiceError::not_implemented("cross-origin requests (CORS)"),
        "POST" if content.starts_with(b"multipart/form-data") => {
            ServiceError::not_implemented("the upload of a browser form (POST Object)")
        }
        _ => ServiceError::new(ErrorKind::AccessDenied, "Access Denied: sign the request with a key"),
    }
}

fn unknown(method: &Method, level: Level, query: &Query) -> ServiceError {
    let named = query.names().find(|name| SUBRESOURCES.contains(name));
    match (named, method.as_str()) {
        (Some(name), _) => ServiceError::not_implemented(&format!("{method} with the sub-resource ?{name}")),
        (None, "POST") if level == Level::Bucket => {
            ServiceError::not_implemented("the upload of a browser form (POST Object)")
        }
        (None, "OPTIONS") => ServiceError::not_implemented("cross-origin requests (CORS)"),
        _ => ServiceError::new(
            ErrorKind::MethodNotAllowed,
            format!("the method {method} is not allowed against this resource"),
        )
        .with_header("allow", allowed(level, query)),
    }
}

/// The methods that what a request names takes.
fn allowed(level: Level, query: &Query) -> String {
    let takes = |row: &&Row| row.level == level && row.selectors.iter().all(|name| query.has(name));
    let methods: BTreeSet<&str> = TABLE.iter().filter(takes).map(|row| row.method).collect();
    methods.into_iter().collect::<Vec<_>>().join(", ")
}

impl Row {
    fn check(&self, query: &Query, headers: &HeaderMap) -> Outcome<()> {
        let presigned = query.has("X-Amz-Signature");
        // It was taken for a header, and is checked as one.
        let hoisted = |name: &str| {
            let starts = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
            presigned && starts && (headers.contains_key(name) || self.takes_sum(name))
        };
        query.names().filter(|&name| !hoisted(name)).try_for_each(|name| self.check_query(name))?;
        headers.keys().try_for_each(|name| self.check_header(name.as_str()))
    }

    fn takes_sum(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        SUMS.contains(&name.as_str()) && self.headers.iter().any(|group| group.contains(&name.as_str()))
    }

    fn check_query(&self, name: &str) -> Outcome<()> {
        let overrides = self.operation == Operation::GetObject || self.operation == Operation::HeadObject;
        if self.selectors.contains(&name)
            || self.queries.contains(&name)
            || (overrides && OVERRIDES.contains(&name))
        {
            return Ok(());
        }
        let operation = self.operation.name();
        if SUBRESOURCES.contains(&name) {
            return Err(ServiceError::not_implemented(&format!("the sub-resource ?{name} of {operation}")));
        }
        match name.to_ascii_lowercase().strip_prefix("x-amz-") {
            Some(rest) if SIGNATURE.contains(&rest) => Ok(()),
            Some(_) => Err(ServiceError::not_implemented(&format!("the parameter {name} of {operation}"))),
            None if PARAMETERS.contains(&name) || OVERRIDES.contains(&name) => Err(ServiceError::new(
                ErrorKind::InvalidArgument,
                format!("the parameter {name} has no meaning for {operation}; leave it out"),
            )),
            None => Ok(()),
        }
    }

    fn check_header(&self, name: &str) -> Outcome<()> {
        // The last is MinIO's, by which a delete would be one of all that the key begins.
        let watched = ["x-amz-", "x-skerry-", "if-", "x-minio-force-delete"];
        let watched = watched.iter().any(|prefix| name.starts_with(prefix));
        let taken = EVERY.contains(&name)
            || self.headers.iter().any(|group| group.contains(&name))
            || (self.metadata && name.starts_with("x-amz-meta-"));
        if watched && !taken {
            let operation = self.operation.name();
            return Err(ServiceError::not_implemented(&format!("the header {name} of {operation}")));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
