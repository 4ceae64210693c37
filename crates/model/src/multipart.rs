//! Multipart uploads: bookkeeping of parts and what completes into an object.
//!
//! Why here: the rules (order, smallest part, ETag of ETags) are what an upload *is*; gateway and node only
//! carry them out. An upload lives at its site; its id names that site so that others can forward.
//!
//! Invariants: nothing here is replicated; parts are replaced by number; composing copies no payload.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::id::{InvalidId, parse_hex};
use skerry_base::limits;
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
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        parse_hex(text).map(|bytes| Self::from_bytes(&bytes))
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

/// A part as the client lists it in CompleteMultipartUpload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its number.
    pub number: u32,
    /// Its ETag without quotes.
    pub etag: String,
}

/// Why an upload cannot complete. Each has a name in S3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompleteError {
    /// `InvalidPartOrder`.
    #[error("parts are not in ascending order at part {0}")]
    Order(u32),
    /// `InvalidPart`.
    #[error("part {0} was not uploaded, or its ETag differs")]
    Part(u32),
    /// `EntityTooSmall`.
    #[error("part {number} has {size} bytes; all but the last need {least}")]
    TooSmall {
        /// The part.
        number: u32,
        /// Its bytes.
        size: u64,
        /// The least allowed.
        least: u64,
    },
    /// `EntityTooLarge`.
    #[error("the object would have {0} bytes")]
    TooLarge(u64),
    /// `MalformedXML`: no part is named.
    #[error("no parts are named")]
    Empty,
}

/// Chooses the stored parts that `claimed` names, by the rules of S3. `stored` is in order of number.
pub fn choose<'a>(claimed: &[Claimed], stored: &'a [Part]) -> Result<Vec<&'a Part>, CompleteError> {
    let mut chosen: Vec<&Part> = Vec::with_capacity(claimed.len().min(stored.len()));
    for claim in claimed {
        if chosen.last().is_some_and(|last| last.number >= claim.number) {
            return Err(CompleteError::Order(claim.number));
        }
        let found = stored.binary_search_by_key(&claim.number, |part| part.number).ok();
        let part = found.and_then(|at| stored.get(at)).filter(|part| same_etag(part, &claim.etag));
        chosen.push(part.ok_or(CompleteError::Part(claim.number))?);
    }
    let (_, full) = chosen.split_last().ok_or(CompleteError::Empty)?;
    let least = limits::PART_BYTES_MIN;
    if let Some(small) = full.iter().find(|part| part.size < least) {
        return Err(CompleteError::TooSmall { number: small.number, size: small.size, least });
    }
    let size = chosen.iter().map(|part| part.size).fold(0u64, u64::saturating_add);
    if size > limits::OBJECT_BYTES { Err(CompleteError::TooLarge(size)) } else { Ok(chosen) }
}

fn same_etag(part: &Part, etag: &str) -> bool {
    etag.eq_ignore_ascii_case(&hex(&part.md5))
}

/// The ETag of an upload: the MD5 of the parts' MD5s, and how many there are. `md5` hashes.
pub fn etag(parts: &[&Part], md5: impl FnOnce(&[u8]) -> [u8; 16]) -> String {
    let digests: Vec<u8> = parts.iter().flat_map(|part| part.md5).collect();
    format!("{}-{}", hex(&md5(&digests)), parts.len())
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
