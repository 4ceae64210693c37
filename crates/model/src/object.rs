//! An object: what a client stored under a key, apart from where its bytes lie.
//!
//! Why here: the gateway shows it, merge compares it, feeds carry it; nobody but this crate defines it.
//!
//! Invariants: at most [`limits::RECORD_CHUNKS`] leaves are listed, or exactly one tree; an empty body has no
//! chunks; the chunks' lengths add up to `size`. [`Object::check`] refuses anything else.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::limits;
use skerry_base::{ChunkKind, ChunkRef, WallTime};

/// Part sizes listed in a record; an upload of more parts says only how many there were.
pub const LISTED_PARTS: usize = 64;
/// Bytes of a system document that a record carries.
pub const DOCUMENT_BYTES: usize = 2 << 10;
/// Tags of an object, as S3 has it.
pub const TAGS: usize = 10;

/// The content of a `Put`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Object {
    /// Bytes of the body.
    pub size: u64,
    /// Hexadecimal MD5, or `md5-of-md5s-N` for an upload of N parts; without quotes.
    pub etag: String,
    /// The body: nothing, up to four leaves, or one tree.
    pub chunks: Vec<ChunkRef>,
    /// The headers a client stores and gets back.
    pub headers: Headers,
    /// `x-amz-meta-…`: names in lower case without the prefix, in the order of the request.
    pub user_metadata: Vec<(String, String)>,
    /// Checksums beside the ETag.
    pub checksums: Vec<Checksum>,
    /// How many parts it was uploaded in; 0 for a plain PUT.
    pub part_count: u32,
    /// Sizes of the parts when there are at most [`LISTED_PARTS`].
    pub parts: Vec<u64>,
    /// When the writer's site accepted it, by its clock on the wall. No part of what makes two writes equal.
    pub modified: WallTime,
    /// Content of a system record (site, claim, key).
    pub document: Option<Bytes>,
    /// How the chunks are sealed: wrapped key and scheme; none for plain chunks.
    pub sealed: Option<Bytes>,
    /// Object lock: not to be erased before.
    pub retain_until: Option<Retention>,
    /// Object lock: legal hold.
    pub legal_hold: Option<bool>,
    /// Tags.
    pub tags: Vec<(String, String)>,
}

/// The standard headers that are stored with an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Headers {
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
    /// `Expires`, as the client wrote it.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
}

/// Until when, and how strictly, a version is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The end of the lock.
    pub until: WallTime,
    /// Compliance mode: nobody may shorten it. Else governance.
    pub compliance: bool,
}

/// A checksum algorithm of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChecksumKind {
    /// CRC-32.
    Crc32,
    /// CRC-32C.
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

/// A checksum as the client reads it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Algorithm.
    pub kind: ChecksumKind,
    /// Base64, with `-N` behind it when composite.
    pub value: String,
    /// A checksum of the parts' checksums, not of the body.
    pub composite: bool,
}

/// Why an object is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Its chunk list is not one of the three shapes, or its lengths do not add up.
    #[error("chunk list of a body of {size} bytes is malformed: {reason}")]
    Chunks {
        /// Bytes of the body.
        size: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// Larger than S3 has it.
    #[error("{what} is {found}, at most {most} allowed")]
    TooMuch {
        /// Which bound.
        what: &'static str,
        /// What was found.
        found: u64,
        /// The bound.
        most: u64,
    },
}

impl Object {
    /// Bytes of names and values of the user metadata, as S3 counts them.
    pub fn user_metadata_bytes(&self) -> usize {
        self.user_metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Refuses what breaks an invariant.
    pub fn check(&self) -> Result<(), ObjectError> {
        at_most("object size", self.size, limits::OBJECT_BYTES)?;
        at_most("user metadata", self.user_metadata_bytes() as u64, limits::USER_METADATA_BYTES as u64)?;
        at_most("document", self.document.as_ref().map_or(0, Bytes::len) as u64, DOCUMENT_BYTES as u64)?;
        at_most("listed parts", self.parts.len() as u64, LISTED_PARTS as u64)?;
        at_most("part count", self.part_count.into(), limits::PARTS.into())?;
        at_most("tags", self.tags.len() as u64, TAGS as u64)?;
        self.check_chunks()
    }

    fn check_chunks(&self) -> Result<(), ObjectError> {
        let refuse = |reason| Err(ObjectError::Chunks { size: self.size, reason });
        let leaves = self.chunks.iter().all(|chunk| chunk.kind == ChunkKind::Leaf);
        if !leaves && self.chunks.len() != 1 {
            return refuse("a tree stands alone");
        }
        if self.chunks.len() > limits::RECORD_CHUNKS {
            return refuse("too many listed, a tree is needed");
        }
        if self.chunks.iter().any(|chunk| chunk.length == 0) {
            return refuse("an empty chunk");
        }
        let sum = self.chunks.iter().try_fold(0u64, |sum, chunk| sum.checked_add(chunk.length));
        if sum == Some(self.size) { Ok(()) } else { refuse("lengths do not add up") }
    }

    /// Whether both say the same to a client: everything but the time of acceptance.
    pub fn same_content(&self, other: &Self) -> bool {
        let Self { modified: _, .. } = self;
        *self == Self { modified: self.modified, ..other.clone() }
    }
}

const fn at_most(what: &'static str, found: u64, most: u64) -> Result<(), ObjectError> {
    if found > most { Err(ObjectError::TooMuch { what, found, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use skerry_base::ChunkId;

    use super::*;

    fn chunk(kind: ChunkKind, length: u64) -> ChunkRef {
        ChunkRef { id: ChunkId::of(b"x"), kind, stored: 1, length }
    }

    fn object(size: u64, chunks: Vec<ChunkRef>) -> Object {
        Object { size, chunks, ..Object::default() }
    }

    #[test]
    fn three_shapes_of_a_body() {
        assert_eq!(object(0, vec![]).check(), Ok(()));
        assert_eq!(object(12, vec![chunk(ChunkKind::Leaf, 3); 4]).check(), Ok(()));
        assert_eq!(object(9, vec![chunk(ChunkKind::Tree, 9)]).check(), Ok(()));
        for (size, chunks) in [
            (1, vec![]),
            (15, vec![chunk(ChunkKind::Leaf, 3); 5]),
            (6, vec![chunk(ChunkKind::Tree, 3); 2]),
            (4, vec![chunk(ChunkKind::Leaf, 3)]),
            (3, vec![chunk(ChunkKind::Leaf, 3), chunk(ChunkKind::Leaf, 0)]),
            (1, vec![chunk(ChunkKind::Leaf, u64::MAX), chunk(ChunkKind::Leaf, 2)]),
        ] {
            assert!(matches!(object(size, chunks).check(), Err(ObjectError::Chunks { .. })));
        }
    }

    #[test]
    fn equal_content_ignores_only_the_time() {
        let one = Object { modified: WallTime(1), etag: "e".into(), ..Object::default() };
        assert!(one.same_content(&Object { modified: WallTime(2), ..one.clone() }));
        assert!(!one.same_content(&Object { etag: "f".into(), ..one.clone() }));
        assert!(!one.same_content(&Object { tags: vec![("a".into(), "b".into())], ..one.clone() }));
    }
}
