//! Objects and uploads as S3 sees them.

use async_trait::async_trait;
use skerry_base::WallTime;

use super::{
    ByteRange, Checksum, ChecksumKind, CompleteUpload, CopyPart, CreateUpload, CreatedUpload, DownloadBody,
    ErrorKind, IfRange, ListPage, ListParts, ListQuery, Outcome, PartPage, PutPart, PutPartOutcome,
    ReadConditions, Receipt, RequestContext, Selection, ServiceError, UploadBody, UploadPage, UploadQuery,
    UploadTarget, VersionPage, VersionQuery, WriteCondition,
};

/// An S3 version id; `null` for the null version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub String);

impl VersionId {
    /// The version that writes make while versioning is off or suspended.
    pub fn null() -> Self {
        Self("null".into())
    }
}

impl core::fmt::Display for VersionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// System headers kept with an object, as they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectHeaders {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Encoding`, without `aws-chunked`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Expires`, verbatim.
    pub expires: Option<String>,
}

/// What is known of a stored version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its version id; `None` while the bucket never had versioning.
    pub version: Option<VersionId>,
    /// Hexadecimal, unquoted; `md5-N` for a multipart object.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// When it was written, as its site's clock said.
    pub modified: WallTime,
    /// System headers.
    pub headers: ObjectHeaders,
    /// `x-amz-meta-…`: lower-case name without the prefix, value as text.
    pub user_metadata: Vec<(String, String)>,
    /// Checksums kept with it.
    pub checksums: Vec<Checksum>,
    /// Sizes of the parts of a multipart object in order; empty otherwise.
    pub parts: Vec<u64>,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

impl ObjectInfo {
    /// What is answered instead of the object says of it what the object's own answer would: who keeps it goes by that.
    fn beside(&self, refused: ServiceError) -> ServiceError {
        if refused.kind() != ErrorKind::NotModified {
            return refused;
        }
        let said = [
            ("cache-control", self.headers.cache_control.clone()),
            ("expires", self.headers.expires.clone()),
            ("x-amz-version-id", self.version.as_ref().map(|version| version.0.clone())),
        ];
        let add = |refused: ServiceError, (name, value): (_, Option<String>)| match value {
            Some(value) => refused.with_header(name, value),
            None => refused,
        };
        said.into_iter().fold(refused, add)
    }
}

/// GetObject and HeadObject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// A certain version, else the current one.
    pub version: Option<VersionId>,
    /// A byte range as asked; resolve it with [`GetObject::select`].
    pub range: Option<ByteRange>,
    /// One part of a multipart object.
    pub part: Option<u32>,
    /// Conditions; checked by [`GetObject::select`].
    pub conditions: ReadConditions,
    /// `If-Range`: the range only counts for this version, else the whole object is meant.
    pub if_range: Option<IfRange>,
}

impl GetObject {
    /// Checks the conditions against the version found, then says which bytes are meant. Every
    /// implementation calls it once it knows the version and before it reads a byte.
    pub fn select(&self, info: &ObjectInfo) -> Outcome<Selection> {
        self.conditions.check(&info.etag, info.modified).map_err(|refused| info.beside(refused))?;
        let current = |test: &IfRange| test.holds(&info.etag, info.modified);
        let range = self.range.filter(|_| self.if_range.as_ref().is_none_or(current));
        match (range, self.part) {
            (Some(_), Some(_)) => Err(ServiceError::new(
                ErrorKind::InvalidRequest,
                "a request names either a range or a part number; leave one out",
            )),
            (Some(range), None) => range.select(info.size),
            (None, Some(part)) => Selection::part(part, &info.parts, info.size),
            (None, None) => Ok(Selection::whole(info.size)),
        }
    }
}

/// A version and which of its bytes are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHead {
    /// The version.
    pub info: ObjectInfo,
    /// What [`GetObject::select`] answered.
    pub selection: Selection,
}

/// A version and the bytes that were asked for.
#[derive(Debug)]
pub struct ObjectRead {
    /// The version.
    pub info: ObjectInfo,
    /// What [`GetObject::select`] answered.
    pub selection: Selection,
    /// Exactly the selected bytes; an error ends the connection, so that a short answer is never taken for whole.
    pub body: DownloadBody,
}

/// PutObject.
#[derive(Debug)]
pub struct PutObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// System headers.
    pub headers: ObjectHeaders,
    /// `x-amz-meta-…`: lower-case name without the prefix, value as text.
    pub user_metadata: Vec<(String, String)>,
    /// The service decides it, atomically with the write.
    pub condition: WriteCondition,
    /// The bytes: read to the end, then [`UploadBody::finish`], then commit.
    pub body: UploadBody,
}

/// What a PUT answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutOutcome {
    /// Unquoted.
    pub etag: String,
    /// Its version, when the bucket has or had versioning.
    pub version: Option<VersionId>,
    /// Bytes stored.
    pub size: u64,
    /// Checksums kept with it.
    pub checksums: Vec<Checksum>,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

/// One key of DeleteObjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteTarget {
    /// The key.
    pub key: String,
    /// Erase this version; without it the key is deleted (a delete marker under versioning).
    pub version: Option<VersionId>,
    /// `If-Match` on DELETE, `ETag` in DeleteObjects.
    pub condition: WriteCondition,
}

/// DeleteObject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteObject {
    /// The bucket.
    pub bucket: String,
    /// What to delete.
    pub target: DeleteTarget,
}

/// What a DELETE answers; of a key that is not there, too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteOutcome {
    /// A delete marker was made, or the version erased was one.
    pub delete_marker: bool,
    /// The marker made or the version erased.
    pub version: Option<VersionId>,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

/// Where a copy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// A certain version, else the current one.
    pub version: Option<VersionId>,
    /// `x-amz-copy-source-if-…`; a failed one is `PreconditionFailed`, see [`ReadConditions::check_source`].
    pub conditions: ReadConditions,
}

/// Which metadata a copy carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataDirective {
    /// The source's.
    Copy,
    /// These.
    Replace {
        /// System headers.
        headers: ObjectHeaders,
        /// User metadata.
        user_metadata: Vec<(String, String)>,
    },
}

/// CopyObject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyObject {
    /// From where.
    pub source: Source,
    /// The bucket written to.
    pub bucket: String,
    /// The key written to.
    pub key: String,
    /// Which metadata.
    pub metadata: MetadataDirective,
    /// `x-amz-checksum-algorithm`: compute this one over the copy; `None` keeps the source's.
    pub checksum: Option<ChecksumKind>,
    /// The service decides it, atomically with the write.
    pub condition: WriteCondition,
}

/// What a copy answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOutcome {
    /// When the copy was written.
    pub modified: WallTime,
    /// The version that was copied, when its bucket has or had versioning.
    pub source_version: Option<VersionId>,
    /// As for a PUT.
    pub put: PutOutcome,
}

/// What S3 does with objects. All writes are durable in the scope of their [`Receipt`] when they answer.
#[async_trait]
pub trait ObjectService: Send + Sync + 'static {
    /// Stores an object. On any error nothing of it is visible.
    async fn put(&self, context: &RequestContext, request: PutObject) -> Outcome<PutOutcome>;
    /// Reads an object. A delete marker is `NoSuchKey` with `x-amz-delete-marker`, when named by its
    /// version `MethodNotAllowed`.
    async fn get(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectRead>;
    /// The same without the bytes.
    async fn head(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectHead>;
    /// Deletes a key or erases a version.
    async fn delete(&self, context: &RequestContext, request: DeleteObject) -> Outcome<DeleteOutcome>;
    /// Deletes up to 1000; one answer per target in their order. An outer error means none was tried. Each that succeeded
    /// bears the receipt of them all: the scope that every one of them reached, if it is the same, and a token that
    /// includes them all.
    async fn delete_many(
        &self,
        context: &RequestContext,
        bucket: &str,
        targets: Vec<DeleteTarget>,
    ) -> Outcome<Vec<Outcome<DeleteOutcome>>>;
    /// Copies within the federation.
    async fn copy(&self, context: &RequestContext, request: CopyObject) -> Outcome<CopyOutcome>;
    /// One page of current keys, in byte order; see [`super::Folder`].
    async fn list(&self, context: &RequestContext, query: ListQuery) -> Outcome<ListPage>;
    /// One page of all versions: keys in byte order, each newest first.
    async fn list_versions(&self, context: &RequestContext, query: VersionQuery) -> Outcome<VersionPage>;
    /// Begins an upload.
    async fn create_upload(&self, context: &RequestContext, request: CreateUpload) -> Outcome<CreatedUpload>;
    /// Stores a part; the same number again replaces it.
    async fn put_part(&self, context: &RequestContext, request: PutPart) -> Outcome<PutPartOutcome>;
    /// Stores a part from an object.
    async fn copy_part(&self, context: &RequestContext, request: CopyPart) -> Outcome<PutPartOutcome>;
    /// Makes the object; see [`super::complete_parts`]. Repeating a completion that succeeded answers the same.
    async fn complete_upload(&self, context: &RequestContext, request: CompleteUpload)
    -> Outcome<PutOutcome>;
    /// Gives the upload up.
    async fn abort_upload(&self, context: &RequestContext, target: UploadTarget) -> Outcome<()>;
    /// One page of the parts, by number.
    async fn list_parts(&self, context: &RequestContext, query: ListParts) -> Outcome<PartPage>;
    /// One page of the uploads: by key, then by upload id.
    async fn list_uploads(&self, context: &RequestContext, query: UploadQuery) -> Outcome<UploadPage>;
}
