//! One extent: a chunk that describes itself.
//!
//! Header, little-endian: `magic "SKPX" · version u8 · kind u8 · area u8 · zero u8 · stored u32 · crc u32 ·
//! domain [16] · id [32] · crc32c u32 per block of 64 KiB`, then the bytes, then anything up to a multiple of 4 KiB.
//! `crc` covers the store's salt, the segment number, the offset and the header with this field zero: a copy of an
//! extent that a client stores inside an object is not taken for one. A segment begins with 4 KiB of its own:
//! `magic "SKPS" · version u32 · number u32 · area u32 · salt [16] · crc u32`.

use skerry_base::limits::CHUNK_BYTES;
use skerry_base::{BucketId, ChunkId, ChunkKind};

use crate::checksum::crc32c;
use crate::chunks::row::Area;
use crate::fields::{Fields, round_up};

use super::GRAIN;

const MAGIC: u32 = u32::from_le_bytes(*b"SKPX");
const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"SKPS");
const VERSION: u8 = 1;
/// Bytes of the header before the checksums of the blocks.
const FIXED: usize = 64;
/// What of the first block of a segment says something.
const SEGMENT_FIXED: usize = 36;
/// Where the header's own checksum lies.
const CRC_AT: usize = 12;
/// Bytes under one checksum.
pub(crate) const BLOCK: usize = 64 << 10;
/// The longest chunk: a full one, and what sealing may add to it.
pub(crate) const LARGEST: u32 = CHUNK_BYTES as u32 + 4096;

/// What an extent holds and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) domain: BucketId,
    pub(crate) id: ChunkId,
    pub(crate) kind: ChunkKind,
    pub(crate) area: Area,
    pub(crate) stored: u32,
    pub(crate) blocks: Vec<u32>,
}

/// The checksums of the blocks of these bytes.
pub(crate) fn block_sums(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(BLOCK).map(|block| crc32c(&[block])).collect()
}

/// Bytes of the header of a chunk of this length.
pub(crate) const fn header_len(stored: u32) -> usize {
    FIXED + (stored as usize).div_ceil(BLOCK) * 4
}

/// Bytes that a chunk of this length takes.
pub(crate) const fn extent_len(stored: u32) -> u64 {
    round_up(header_len(stored) as u64 + stored as u64, GRAIN)
}

/// The checksum of a header with a blank checksum field, at its place.
fn header_sum(salt: &[u8; 16], number: u32, offset: u64, header: &[u8]) -> u32 {
    crc32c(&[salt, &number.to_le_bytes(), &offset.to_le_bytes(), header])
}

impl Extent {
    /// The header, for this place.
    pub(crate) fn encode(&self, salt: &[u8; 16], number: u32, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(header_len(self.stored));
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&[VERSION, u8::from(self.kind == ChunkKind::Tree), self.area as u8, 0]);
        bytes.extend_from_slice(&self.stored.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.domain.0);
        bytes.extend_from_slice(&self.id.0);
        for sum in &self.blocks {
            bytes.extend_from_slice(&sum.to_le_bytes());
        }
        let crc = header_sum(salt, number, offset, &bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header at this place; `bytes` may be longer. None: there is no (whole) header here.
    pub(crate) fn read(bytes: &[u8], salt: &[u8; 16], number: u32, offset: u64) -> Option<Self> {
        let mut fields = Fields::of(bytes);
        if fields.u32()? != MAGIC || fields.u8()? != VERSION {
            return None;
        }
        let kind = match fields.u8()? {
            0 => ChunkKind::Leaf,
            1 => ChunkKind::Tree,
            _ => return None,
        };
        let area = Area::of(fields.u8()?)?;
        fields.u8()?;
        let stored = fields.u32()?;
        let crc = fields.u32()?;
        let mut blank = bytes.get(..header_len(stored))?.to_vec();
        blank.get_mut(CRC_AT..CRC_AT + 4)?.fill(0);
        if header_sum(salt, number, offset, &blank) != crc {
            return None;
        }
        let (domain, id) = (BucketId(fields.array()?), ChunkId(fields.array()?));
        let blocks = (0..(stored as usize).div_ceil(BLOCK)).map(|_| fields.u32()).collect::<Option<_>>()?;
        Some(Self { domain, id, kind, area, stored, blocks })
    }
}

/// The first block of a segment.
pub(crate) fn segment_header(salt: &[u8; 16], number: u32, area: Area) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(GRAIN as usize);
    bytes.extend_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    bytes.extend_from_slice(&u32::from(VERSION).to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&u32::from(area as u8).to_le_bytes());
    bytes.extend_from_slice(salt);
    bytes.extend_from_slice(&crc32c(&[&bytes]).to_le_bytes());
    bytes.resize(GRAIN as usize, 0);
    bytes
}

/// The salt of the store whose segment of this number begins so.
pub(crate) fn segment_salt(bytes: &[u8], number: u32, area: Area) -> Option<[u8; 16]> {
    let salt = Fields::of(bytes.get(16..32)?).array()?;
    bytes.starts_with(segment_header(&salt, number, area).get(..SEGMENT_FIXED)?).then_some(salt)
}

#[cfg(test)]
#[path = "extent_tests.rs"]
mod tests;
