//! Multipart uploads as S3 sees them.

use skerry_base::WallTime;

use super::{
    Checksum, ChecksumKind, ChecksumShape, ObjectHeaders, Source, UploadBody, VersionId, WriteCondition,
};

/// Names an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadTarget {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The id that CreateMultipartUpload answered; it also names the upload's site.
    pub upload: String,
}

/// CreateMultipartUpload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// System headers of the object to be.
    pub headers: ObjectHeaders,
    /// User metadata of the object to be.
    pub user_metadata: Vec<(String, String)>,
    /// The checksum of the parts and of the object; never absent: CRC64NVME over the whole by default.
    pub checksum: ChecksumKind,
    /// Over the whole object, or over the parts' checksums.
    pub shape: ChecksumShape,
    /// Whether the client named the checksum; else it is ours and listings do not show it.
    pub declared: bool,
}

/// An upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedUpload {
    /// Its id, unguessable, in `[A-Za-z0-9._~-]`.
    pub upload: String,
}

/// UploadPart.
#[derive(Debug)]
pub struct PutPart {
    /// Which upload.
    pub target: UploadTarget,
    /// 1 to 10,000.
    pub number: u32,
    /// The bytes: read to the end, then [`UploadBody::finish`], then commit. Tell it the upload's checksum
    /// first with [`UploadBody::also`], so that every part has it.
    pub body: UploadBody,
}

/// UploadPartCopy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPart {
    /// Which upload.
    pub target: UploadTarget,
    /// 1 to 10,000.
    pub number: u32,
    /// From where.
    pub source: Source,
    /// First and last byte, both included; must lie within the source.
    pub range: Option<(u64, u64)>,
}

/// What a part answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutPartOutcome {
    /// Unquoted MD5.
    pub etag: String,
    /// When it was written.
    pub modified: WallTime,
    /// Bytes.
    pub size: u64,
    /// Checksums kept with it: that of the upload, and what the request declared.
    pub checksums: Vec<Checksum>,
    /// The version that was copied, if it was.
    pub source_version: Option<VersionId>,
}

/// One part as CompleteMultipartUpload names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// Its number.
    pub number: u32,
    /// Unquoted.
    pub etag: String,
    /// Checksums that must be those of the part.
    pub checksums: Vec<(ChecksumKind, String)>,
}

/// CompleteMultipartUpload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteUpload {
    /// Which upload.
    pub target: UploadTarget,
    /// The parts in the client's order; [`super::complete_parts`] refuses a wrong one.
    pub parts: Vec<CompletedPart>,
    /// A checksum of the whole that must come out.
    pub checksum: Option<(ChecksumKind, String)>,
    /// The shape the client expects.
    pub shape: Option<ChecksumShape>,
    /// `x-amz-mp-object-size`: the size that must come out.
    pub size: Option<u64>,
    /// The service decides it, atomically with the write.
    pub condition: WriteCondition,
}

/// ListParts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListParts {
    /// Which upload.
    pub target: UploadTarget,
    /// Parts of higher number than this; 0 for all.
    pub after: u32,
    /// At most so many; 1 to 1000, or 0 for an empty page.
    pub limit: usize,
}

/// One part in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSummary {
    /// Its number.
    pub number: u32,
    /// Unquoted.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// When it was written.
    pub modified: WallTime,
    /// Checksums kept with it.
    pub checksums: Vec<Checksum>,
}

/// A page of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPage {
    /// By number.
    pub parts: Vec<PartSummary>,
    /// Whether more follow after the last.
    pub more: bool,
    /// Access key of whom began the upload.
    pub initiator: String,
    /// Owner of whom began the upload.
    pub owner: String,
    /// The upload's checksum, if the client named it.
    pub checksum: Option<(ChecksumKind, ChecksumShape)>,
}
