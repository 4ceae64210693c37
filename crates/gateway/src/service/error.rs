//! The one error of the services: few kinds, each with one S3 code, and a message that says what to do.
//!
//! Invariant: a refusal that a retry cannot mend within seconds is 4xx (501 if never), because S3 clients
//! retry 5xx several times; 503 is for what passes by itself soon.

use super::Reason;

/// What a service answers.
pub type Outcome<T> = Result<T, ServiceError>;

/// Declares the kinds with their S3 code and HTTP status, in one table.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:literal $code:literal;)*) => {
        /// Why a request was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        impl ErrorKind {
            /// The code in the error document, S3's where S3 has one.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$kind => $code,)* }
            }

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$kind => $status,)* }
            }

            /// Every kind, for tests and documents.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    /// The condition of a read holds against it: what the client has is current.
    NotModified = 304 "NotModified";
    /// The principal may not do this.
    AccessDenied = 403 "AccessDenied";
    /// No such access key here, or it is disabled.
    InvalidAccessKeyId = 403 "InvalidAccessKeyId";
    /// The signature is not that of the key.
    SignatureDoesNotMatch = 403 "SignatureDoesNotMatch";
    /// The request's time is too far from the server's.
    RequestTimeTooSkewed = 403 "RequestTimeTooSkewed";
    /// The Authorization header or its scope cannot be used.
    AuthorizationHeaderMalformed = 400 "AuthorizationHeaderMalformed";
    /// Those of a presigned link.
    AuthorizationQueryParametersError = 400 "AuthorizationQueryParametersError";
    /// No such bucket, here or at any site that could be asked.
    NoSuchBucket = 404 "NoSuchBucket";
    /// No such key.
    NoSuchKey = 404 "NoSuchKey";
    /// No such version of the key.
    NoSuchVersion = 404 "NoSuchVersion";
    /// No such multipart upload.
    NoSuchUpload = 404 "NoSuchUpload";
    /// No such site in the federation, as far as is known here, or it belongs to it no more.
    NoSuchSite = 404 "NoSuchSite";
    /// No such access key to act on, as far as is known here.
    NoSuchAccessKey = 404 "NoSuchAccessKey";
    /// The key has no conflict, as far as is known here.
    NoSuchConflict = 404 "NoSuchConflict";
    /// Settings that no bucket has.
    NoSuchCors = 404 "NoSuchCORSConfiguration";
    /// The same.
    NoSuchEncryption = 404 "ServerSideEncryptionConfigurationNotFoundError";
    /// The same.
    NoSuchLifecycle = 404 "NoSuchLifecycleConfiguration";
    /// The same.
    NoSuchOwnershipControls = 404 "OwnershipControlsNotFoundError";
    /// The same.
    NoSuchBucketPolicy = 404 "NoSuchBucketPolicy";
    /// The same.
    NoSuchReplication = 404 "ReplicationConfigurationNotFoundError";
    /// The same.
    NoSuchTagSet = 404 "NoSuchTagSet";
    /// The same.
    NoSuchWebsite = 404 "NoSuchWebsiteConfiguration";
    /// The same.
    NoSuchObjectLock = 404 "ObjectLockConfigurationNotFoundError";
    /// The same.
    NoSuchPublicAccessBlock = 404 "NoSuchPublicAccessBlockConfiguration";
    /// What was named is a delete marker.
    MethodNotAllowed = 405 "MethodNotAllowed";
    /// The name belongs to somebody else.
    BucketAlreadyExists = 409 "BucketAlreadyExists";
    /// The bucket is the caller's already.
    BucketAlreadyOwnedByYou = 409 "BucketAlreadyOwnedByYou";
    /// The bucket still has objects.
    BucketNotEmpty = 409 "BucketNotEmpty";
    /// Not a bucket name.
    InvalidBucketName = 400 "InvalidBucketName";
    /// Not a name of a place.
    InvalidLocationConstraint = 400 "InvalidLocationConstraint";
    /// A key of more than 1024 bytes.
    KeyTooLong = 400 "KeyTooLongError";
    /// An argument that cannot be used.
    InvalidArgument = 400 "InvalidArgument";
    /// A request that makes no sense as a whole.
    InvalidRequest = 400 "InvalidRequest";
    /// A path that is not percent-encoded UTF-8.
    InvalidUri = 400 "InvalidURI";
    /// The body is not the XML that was expected.
    MalformedXml = 400 "MalformedXML";
    /// The body is larger than this request may carry.
    MaxMessageLengthExceeded = 400 "MaxMessageLengthExceeded";
    /// User metadata above 2 KiB.
    MetadataTooLarge = 400 "MetadataTooLarge";
    /// A body without a length.
    MissingContentLength = 411 "MissingContentLength";
    /// No byte of the range exists.
    InvalidRange = 416 "InvalidRange";
    /// No part of this number in the object.
    InvalidPartNumber = 416 "InvalidPartNumber";
    /// A part that was named was not uploaded, or with another ETag.
    InvalidPart = 400 "InvalidPart";
    /// The parts are not in ascending order.
    InvalidPartOrder = 400 "InvalidPartOrder";
    /// A part before the last below 5 MiB.
    EntityTooSmall = 400 "EntityTooSmall";
    /// An object above 5 GiB in one PUT, or above 5 TiB.
    EntityTooLarge = 400 "EntityTooLarge";
    /// The body is not what its digest said.
    BadDigest = 400 "BadDigest";
    /// A digest that cannot be one.
    InvalidDigest = 400 "InvalidDigest";
    /// The body is not what the signed hash said.
    ContentSha256Mismatch = 400 "XAmzContentSHA256Mismatch";
    /// The body ended before its announced length.
    IncompleteBody = 400 "IncompleteBody";
    /// The client sent nothing for too long.
    RequestTimeout = 400 "RequestTimeout";
    /// Not a storage class we have.
    InvalidStorageClass = 400 "InvalidStorageClass";
    /// A condition does not hold.
    PreconditionFailed = 412 "PreconditionFailed";
    /// The write is kept but did not reach the acknowledgement scope that was asked for.
    ScopeNotReached = 409 "ScopeNotReached";
    /// A condition can only be decided at the bucket's home, which cannot be reached.
    HomeUnreachable = 409 "HomeUnreachable";
    /// The bucket has no home yet that could decide a condition: another island may have made the same bucket.
    HomeNotNamed = 409 "HomeNotNamed";
    /// What was asked for exists or may exist, but no site that has it can be reached.
    Unreachable = 409 "Unreachable";
    /// The bucket may not lie at this site, and no site where it may can be reached.
    NotResident = 409 "NotResident";
    /// An act of an operator that makes sense and cannot be, as things are: the name is taken, the seat is filled.
    Refused = 409 "OperationRefused";
    /// An operator froze this site or is emptying it: it takes no writes until it is called back.
    NotServing = 409 "SiteNotServing";
    /// Every copy that can be reached is damaged.
    Damaged = 409 "ObjectDamaged";
    /// The disk is full: reads and deletes go on.
    StorageFull = 507 "InsufficientStorage";
    /// A site follows no more buckets than this.
    TooManyBuckets = 400 "TooManyBuckets";
    /// The bucket's or the principal's quota is used up.
    QuotaFull = 507 "QuotaExceeded";
    /// Never carried out by this release.
    NotImplemented = 501 "NotImplemented";
    /// Too much at once: come back a little later.
    SlowDown = 503 "SlowDown";
    /// A short outage: starting, stopping, changing hands.
    Unavailable = 503 "ServiceUnavailable";
    /// Our own fault.
    Internal = 500 "InternalError";
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", kind.code(), on_one_line(message))]
pub struct ServiceError {
    kind: ErrorKind,
    message: String,
    headers: Vec<(&'static str, String)>,
    reason: Option<Reason>,
}

/// A message may hold a key as its client wrote it, which is not to write lines of the log, nor to colour them.
fn on_one_line(message: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    message.chars().map(escaped).collect()
}

impl ServiceError {
    /// A refusal; the message says what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), headers: Vec::new(), reason: None }
    }

    /// What was asked for cannot be asked for: says what can.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// What an operator asks for cannot be as things are: says what keeps it, and what to do.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// A bound has no more: come back a little later.
    pub fn full(of: Reason, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::SlowDown, message).because(of)
    }

    /// With the reason under which a 503 is counted.
    #[must_use]
    pub fn because(mut self, of: Reason) -> Self {
        self.reason = Some(of);
        self
    }

    /// Why its client is to come back later; none if it is not.
    pub const fn later(&self) -> Option<Reason> {
        match (self.kind, self.reason) {
            (ErrorKind::SlowDown | ErrorKind::Unavailable, Some(reason)) => Some(reason),
            (ErrorKind::SlowDown, None) => Some(Reason::Other),
            (ErrorKind::Unavailable, None) => Some(Reason::Unavailable),
            _ => None,
        }
    }

    /// Adds a response header that the status asks for, such as `content-range` on 416.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Why.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to do about it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Headers of the answer, lower-case names.
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    /// No such bucket.
    pub fn no_such_bucket(bucket: &str) -> Self {
        Self::new(
            ErrorKind::NoSuchBucket,
            format!("no bucket is named {bucket}; create it or correct the name"),
        )
    }

    /// No such key.
    pub fn no_such_key(key: &str) -> Self {
        Self::new(ErrorKind::NoSuchKey, format!("no object has the key {key}"))
    }

    /// No such site.
    pub fn no_such_site(site: &str) -> Self {
        let message = format!("there is no site named {site} in the federation, as far as is known here");
        Self::new(ErrorKind::NoSuchSite, message)
    }

    /// No such upload.
    pub fn no_such_upload(upload: &str) -> Self {
        Self::new(
            ErrorKind::NoSuchUpload,
            format!("no upload {upload}: it was completed, aborted or never begun; begin a new one"),
        )
    }

    /// Not carried out by this release.
    pub fn not_implemented(what: &str) -> Self {
        Self::new(
            ErrorKind::NotImplemented,
            format!("{what} is not carried out by this server; leave it out"),
        )
    }
}
