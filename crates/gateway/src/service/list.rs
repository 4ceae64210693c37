//! Listings: pages of current keys, of versions, of uploads.
//!
//! Invariants: byte order of keys; at most 1000 entries a page; with a delimiter, an entry is a key or a
//! common prefix, and every entry's name is greater than `after`, so that a page goes on where the last ended.

use skerry_base::WallTime;

use super::{Checksum, Receipt, VersionId};

/// ListObjects of either version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are folded into common prefixes.
    pub delimiter: Option<String>,
    /// Only entries whose name is greater (marker, start-after, continuation); may be a common prefix.
    pub after: String,
    /// At most so many entries; 0 for an empty page.
    pub limit: usize,
}

/// A current object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSummary {
    /// The key.
    pub key: String,
    /// Unquoted.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// When it was written.
    pub modified: WallTime,
    /// Whom it belongs to.
    pub owner: String,
    /// Checksums kept with it.
    pub checksums: Vec<Checksum>,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntry {
    /// An object.
    Object(ObjectSummary),
    /// A common prefix, delimiter included.
    Prefix(String),
}

impl ListEntry {
    /// The key or the common prefix.
    pub fn name(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// In byte order of their names.
    pub entries: Vec<ListEntry>,
    /// Whether more follow after the last entry.
    pub more: bool,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

/// ListObjectVersions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionQuery {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are folded into common prefixes.
    pub delimiter: Option<String>,
    /// Only entries whose name is greater, or, with `after_version`, not smaller.
    pub after: String,
    /// Of the key `after` itself, go on behind this version.
    pub after_version: Option<VersionId>,
    /// At most so many entries; 0 for an empty page.
    pub limit: usize,
}

/// A version or delete marker in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSummary {
    /// Key, ETag, size, time, owner; ETag is empty and size 0 for a delete marker.
    pub object: ObjectSummary,
    /// Its version id, `null` for the null version.
    pub version: VersionId,
    /// Whether it is the current one of its key.
    pub latest: bool,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
}

/// An entry of a list of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionEntry {
    /// A version or a delete marker.
    Version(VersionSummary),
    /// A common prefix, delimiter included.
    Prefix(String),
}

/// A page of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionPage {
    /// Keys in byte order, each newest first.
    pub entries: Vec<VersionEntry>,
    /// Whether more follow after the last entry.
    pub more: bool,
    /// Key and version behind which the next page starts, where that is not the last entry: what is passed over because a client
    /// sees nothing of it is bounded, and a page may be empty though more follow.
    pub next: Option<(String, Option<VersionId>)>,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

/// ListMultipartUploads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadQuery {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are folded into common prefixes.
    pub delimiter: Option<String>,
    /// Only entries whose name is greater, or, with `after_upload`, not smaller.
    pub after: String,
    /// Of the key `after` itself, only uploads whose id is greater.
    pub after_upload: Option<String>,
    /// At most so many entries; 0 for an empty page.
    pub limit: usize,
}

/// An upload in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSummary {
    /// The key.
    pub key: String,
    /// The id.
    pub upload: String,
    /// When it was begun.
    pub initiated: WallTime,
    /// Access key of whom began it.
    pub initiator: String,
    /// Owner of whom began it.
    pub owner: String,
}

/// An entry of a list of uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadEntry {
    /// An upload.
    Upload(UploadSummary),
    /// A common prefix, delimiter included.
    Prefix(String),
}

/// A page of uploads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadPage {
    /// By key, then by upload id.
    pub entries: Vec<UploadEntry>,
    /// Whether more follow after the last entry.
    pub more: bool,
}
