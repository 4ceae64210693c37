//! Multipart uploads: what is stored of them and of their parts, and the object that parts become.
//!
//! Which completions are refused is `gateway::service::complete_parts`. An upload lives at its site; its id names that site so
//! that others can forward.
//!
//! Invariants: nothing here is replicated; parts are replaced by number; composing copies no payload.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::hex;
use skerry_base::id::InvalidId;
use skerry_base::{BucketId, ChunkRef, SiteId, WallTime};

use crate::object::{Checksum, ChecksumKind, Headers, LISTED_PARTS, Object};

/// Names an upload and the site it lives at. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UploadId {
    /// Where it lives.
    pub site: SiteId,
    /// Drawn when it was created.
    pub draw: [u8; 16],
}

impl UploadId {
    /// Fixed-width form for keys of the index.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let (site, draw) = bytes.split_at_mut(16);
        site.copy_from_slice(&self.site.0);
        draw.copy_from_slice(&self.draw);
        bytes
    }

    /// Reads back what [`UploadId::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        let (mut site, mut draw) = ([0; 16], [0; 16]);
        site.copy_from_slice(&bytes[..16]);
        draw.copy_from_slice(&bytes[16..]);
        Self { site: SiteId(site), draw }
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex::write(&self.to_bytes(), &mut [0; 64]))
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadId({self})")
    }
}

impl FromStr for UploadId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        hex::parse(text).map(|bytes| Self::from_bytes(&bytes))
    }
}

/// An upload in progress: what its object will carry beside its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// Its name.
    pub id: UploadId,
    /// The bucket.
    pub bucket: BucketId,
    /// The key.
    pub key: String,
    /// When it began.
    pub started: WallTime,
    /// The access key that began it.
    pub writer: String,
    /// Headers of the object.
    pub headers: Headers,
    /// User metadata of the object.
    pub user_metadata: Vec<(String, String)>,
    /// Tags of the object.
    pub tags: Vec<(String, String)>,
    /// The checksum algorithm asked for, and whether the result is composite.
    pub checksum: Option<(ChecksumKind, bool)>,
}

/// One part that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The bucket: the deduplication domain of its chunks.
    pub bucket: BucketId,
    /// The upload.
    pub upload: UploadId,
    /// 1 to [`limits::PARTS`].
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// MD5 of its bytes.
    pub md5: [u8; 16],
    /// Its body: nothing, up to four leaves, or one tree.
    pub chunks: Vec<ChunkRef>,
    /// Checksums beside the MD5.
    pub checksums: Vec<Checksum>,
    /// When it arrived.
    pub modified: WallTime,
}

impl Versioned for Upload {
    const NAME: &'static str = "upload";
    const VERSION: u8 = 1;
}

impl Versioned for Part {
    const NAME: &'static str = "part";
    const VERSION: u8 = 1;
}

/// The object that completing makes; its body still to be composed from [`bodies`] (see [`crate::body`]).
pub fn object(upload: &Upload, parts: &[&Part], etag: String, modified: WallTime) -> Object {
    let listed = parts.len() <= LISTED_PARTS;
    Object {
        size: parts.iter().map(|part| part.size).sum(),
        etag,
        headers: upload.headers.clone(),
        user_metadata: upload.user_metadata.clone(),
        tags: upload.tags.clone(),
        part_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        parts: if listed { parts.iter().map(|part| part.size).collect() } else { Vec::new() },
        modified,
        ..Object::default()
    }
}

/// The chunk lists of the parts, one behind the other.
pub fn bodies(parts: &[&Part]) -> Vec<ChunkRef> {
    parts.iter().flat_map(|part| part.chunks.iter().copied()).collect()
}

#[cfg(test)]
mod tests;
