//! The rows of the store's own tables.

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::{BucketId, ChunkId};

use super::Key;

/// Which kind of segment. The number is stored: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub(crate) enum Area {
    Journal = 0,
    Payload = 1,
    Cache = 2,
}

impl Area {
    /// The area of a stored number.
    pub(crate) const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Journal),
            1 => Some(Self::Payload),
            2 => Some(Self::Cache),
            _ => None,
        }
    }

    /// The folder of its segments.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Journal => crate::journal::FOLDER,
            Self::Payload => "payload",
            Self::Cache => "cache",
        }
    }
}

/// Where a chunk lies: an extent, or a body in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) area: Area,
    pub(crate) segment: u32,
    /// Of the extent, or of the body itself.
    pub(crate) offset: u64,
    /// Checksum of a body in the journal; an extent brings its own.
    pub(crate) crc: u32,
}

/// What the index knows of a chunk. There is a row while it is stored or referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    /// None: referred to, but not here.
    pub(crate) place: Option<Place>,
    /// Of a chunk that is here.
    pub(crate) tree: bool,
    /// Bytes of a chunk that is here.
    pub(crate) stored: u32,
    /// By records, and by trees that are here.
    pub(crate) references: i64,
}

impl Row {
    /// Whether it is here and nothing refers to it.
    pub(crate) const fn is_unwanted(&self) -> bool {
        self.place.is_some() && self.references <= 0
    }

    /// Whether the row says nothing.
    pub(crate) const fn is_void(&self) -> bool {
        self.place.is_none() && self.references == 0
    }

    /// Bytes it takes in its segment.
    pub(crate) fn taken(&self) -> u64 {
        match self.place {
            None => 0,
            Some(place) if place.area == Area::Journal => u64::from(self.stored),
            Some(_) => crate::payload::extent::extent_len(self.stored),
        }
    }
}

impl Versioned for Row {
    const NAME: &'static str = "chunk row";
    const VERSION: u8 = 1;
}

/// What has been taken into the index: applied journal, and from where payload may hold more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    /// LSN of the next frame.
    pub(crate) lsn: u64,
    pub(crate) previous: u32,
    /// Number of the group that wrote this.
    pub(crate) mark: u64,
    /// Segment and offset before which all extents are known, payload and cache.
    pub(crate) payload: (u32, u64),
    pub(crate) cache: (u32, u64),
}

impl Versioned for Applied {
    const NAME: &'static str = "applied position";
    /// Of 2 the reducer's rows may be of a kind that releases before do not read: they give such an index up at the start
    /// and build it anew, where they would else answer errors. What it says is said alike.
    const VERSION: u8 = 2;
}

impl Applied {
    /// Reads it, also of version 1.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.split_first() {
            Some((1, rest)) => codec::decode(&[&[Self::VERSION], rest].concat()),
            _ => codec::decode(bytes),
        }
    }
}

/// A note of the store in the journal: what was collected, so that a replay does not bring it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Note {
    /// These chunks were let go from these places.
    Collected(Vec<(BucketId, ChunkId, Place)>),
    /// The bodies beside this note were moved here from an older segment.
    Moved,
}

impl Versioned for Note {
    const NAME: &'static str = "storage note";
    const VERSION: u8 = 1;
}

/// Space to give back once the index no longer needs it after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Freeing {
    /// Bytes from the place on; 0: the whole segment.
    pub(crate) len: u64,
}

impl Versioned for Freeing {
    const NAME: &'static str = "space to free";
    const VERSION: u8 = 1;
}

/// The account of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) live: u64,
    pub(crate) freed: u64,
    pub(crate) dead: u64,
}

impl Versioned for Account {
    const NAME: &'static str = "segment account";
    const VERSION: u8 = 1;
}

/// Key of [`Applied`] in table `Storage`.
pub(crate) const APPLIED: &[u8] = b"applied";
/// There while an index is being rebuilt: found at open, the rebuild starts over.
pub(crate) const REBUILDING: &[u8] = b"rebuilding";
/// The journal segments that a rebuild could not read whole (numbers, u32 little-endian): only they say what the index lacks.
pub(crate) const LACKING: &[u8] = b"lacking";
/// There if a rebuild found a part of the journal gone or unreadable: an index that was given up may say what it said.
pub(crate) const MISSED: &[u8] = b"missed";
/// The journal positions that damage took with it and this index did not know (pairs of u64, little-endian: the first one lost, the
/// first that reads again): who goes by what the journal says is to hear of it, also after a start that went on from here.
pub(crate) const LOST: &[u8] = b"lost";
/// What is noted of damage to the journal.
pub(crate) const UNKNOWN: [&[u8]; 3] = [LACKING, MISSED, LOST];
/// The payload segments (numbers, u32 little-endian) in which something lies that the disk could not read and the index does
/// not know: they stay until a rebuild reads them.
pub(crate) const UNREAD: &[u8] = b"unread";
/// Prefix of unwanted chunks; the value is empty, or the wall time in milliseconds (u64, little-endian) since when, and behind it
/// for how many (another) if not for the usual time.
pub(crate) const UNWANTED: &[u8] = b"z";
/// Prefix of space to free, by the mark of the group that let go of it.
pub(crate) const FREEING: &[u8] = b"f";
/// Prefix of copies that are kept whatever the cache's cap; the value is the bytes they take (u64, little-endian).
pub(crate) const KEPT: &[u8] = b"p";
/// Prefix of what trees list that are here: the ids of their children, one after the other. What a tree counts is let go
/// with it, though it can be read no more.
pub(crate) const LISTED: &[u8] = b"t";
/// Prefix of the accounts of segments.
pub(crate) const ACCOUNT: &[u8] = b"s";

/// Key in table `Chunks`, and behind [`UNWANTED`].
pub(crate) fn chunk_key((domain, id): Key) -> Vec<u8> {
    [&domain.0[..], &id.0[..]].concat()
}

/// Reads back [`chunk_key`].
pub(crate) fn read_chunk_key(bytes: &[u8]) -> Option<Key> {
    let mut fields = crate::fields::Fields::of(bytes);
    Some((BucketId(fields.array()?), ChunkId(fields.array()?)))
}

/// Key of an unwanted chunk.
pub(crate) fn unwanted_key(key: Key) -> Vec<u8> {
    [UNWANTED, &chunk_key(key)].concat()
}

/// Key of a copy that is kept.
pub(crate) fn kept_key(key: Key) -> Vec<u8> {
    [KEPT, &chunk_key(key)].concat()
}

/// Key of what a tree lists.
pub(crate) fn listed_key(key: Key) -> Vec<u8> {
    [LISTED, &chunk_key(key)].concat()
}

/// The value behind [`listed_key`].
pub(crate) fn write_listed(children: &[ChunkId]) -> Vec<u8> {
    children.iter().flat_map(|child| child.0).collect()
}

/// Reads back [`write_listed`].
pub(crate) fn read_listed(bytes: &[u8]) -> Option<Vec<ChunkId>> {
    let (ids, rest) = bytes.as_chunks();
    rest.is_empty().then(|| ids.iter().map(|id| ChunkId(*id)).collect())
}

/// Key of space to free.
pub(crate) fn freeing_key(mark: u64, area: Area, segment: u32, offset: u64) -> Vec<u8> {
    [FREEING, &mark.to_be_bytes(), &[area as u8], &segment.to_be_bytes(), &offset.to_be_bytes()].concat()
}

/// Reads back [`freeing_key`].
pub(crate) fn read_freeing_key(bytes: &[u8]) -> Option<(u64, Area, u32, u64)> {
    let mut fields = crate::fields::Fields::of(bytes.strip_prefix(FREEING)?);
    let mark = u64::from_be_bytes(fields.array()?);
    let area = Area::of(fields.u8()?)?;
    Some((mark, area, u32::from_be_bytes(fields.array()?), u64::from_be_bytes(fields.array()?)))
}

/// Key of the account of a segment.
pub(crate) fn account_key(area: Area, number: u32) -> Vec<u8> {
    [ACCOUNT, &[area as u8], &number.to_be_bytes()].concat()
}

/// Reads back [`account_key`].
pub(crate) fn read_account_key(bytes: &[u8]) -> Option<(Area, u32)> {
    let mut fields = crate::fields::Fields::of(bytes.strip_prefix(ACCOUNT)?);
    Some((Area::of(fields.u8()?)?, u32::from_be_bytes(fields.array()?)))
}

/// Reads a row; a row of another version is damage, because rows are rebuilt, not migrated.
pub(crate) fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, DecodeError> {
    codec::decode(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn applied_positions_of_both_versions() {
        let applied =
            Applied { segment: 3, offset: 300, lsn: 9, previous: 7, mark: 8, payload: (1, 2), cache: (4, 5) };
        let bytes = codec::encode(&applied);
        assert_eq!(bytes, [2, 3, 0xac, 2, 9, 7, 8, 1, 2, 4, 5]);
        assert_eq!(Applied::read(&bytes).unwrap(), applied);
        assert_eq!(Applied::read(&[1, 3, 0xac, 2, 9, 7, 8, 1, 2, 4, 5]).unwrap(), applied);
        assert!(Applied::read(&[3, 3, 0xac, 2, 9, 7, 8, 1, 2, 4, 5]).is_err());
        assert!(Applied::read(&[1]).is_err() && Applied::read(&[]).is_err());
    }
}
