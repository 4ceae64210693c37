//! Both ends of a journal segment: the header, and the table that seals it.
//!
//! Header (64 bytes): `magic "SKJS" · version u32 · number u32 · previous u32 · first_lsn u64 · salt [16] · stripped u32 ·
//! zeros · crc u32`. Table, after the last frame: one line `offset u32 · head_len u32` per frame, then the trailer, the last
//! 40 bytes of the file: `magic "SKJE" · version u32 · table_offset u64 · frames u32 · last_crc u32 · first_lsn u64 ·
//! stripped u32 · crc u32`. The trailer's checksum covers the salt, the table and the trailer before it.
//!
//! A *stripped* segment (1, else 0) holds the heads of its frames, each filled up to a multiple of 8, and no bodies:
//! those that lived were moved on by a later frame.

use crate::checksum::crc32c;
use crate::fields::Fields;

const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"SKJS");
const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"SKJE");
const VERSION: u32 = 1;

/// Bytes before the first frame.
pub(crate) const HEADER: usize = 64;
/// Bytes of the trailer.
pub(crate) const TRAILER: usize = 40;
/// Bytes of a line of the table.
pub(crate) const LINE: usize = 8;

/// What a segment begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u32,
    /// Checksum of the last frame of the segment before.
    pub(crate) previous: u32,
    pub(crate) first_lsn: u64,
    /// Whether the bodies are left out.
    pub(crate) stripped: bool,
}

impl SegmentHeader {
    pub(crate) fn encode(&self, salt: &[u8; 16]) -> [u8; HEADER] {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(&HEADER_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.previous.to_le_bytes());
        bytes.extend_from_slice(&self.first_lsn.to_le_bytes());
        bytes.extend_from_slice(salt);
        bytes.extend_from_slice(&u32::from(self.stripped).to_le_bytes());
        bytes.resize(HEADER - 4, 0);
        bytes.extend_from_slice(&crc32c(&[&bytes]).to_le_bytes());
        let mut out = [0; HEADER];
        out.copy_from_slice(&bytes);
        out
    }

    /// None: blank or damaged.
    pub(crate) fn read(bytes: &[u8], salt: &[u8; 16]) -> Option<Self> {
        let (covered, crc) = bytes.get(..HEADER)?.split_at_checked(HEADER - 4)?;
        let mut fields = Fields::of(covered);
        let right = fields.u32()? == HEADER_MAGIC
            && fields.u32()? == VERSION
            && crc32c(&[covered]) == Fields::of(crc).u32()?;
        let (number, previous, first_lsn) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let ours = fields.array::<16>()? == *salt;
        let stripped = flag(fields.u32()?)?;
        (right && ours).then_some(Self { number, previous, first_lsn, stripped })
    }

    /// The salt of the store whose segment of this number begins so.
    pub(crate) fn salt(bytes: &[u8], number: u32) -> Option<[u8; 16]> {
        let salt = Fields::of(bytes.get(24..40)?).array()?;
        Self::read(bytes, &salt).filter(|header| header.number == number).map(|_| salt)
    }

    /// The version of a header that a later release wrote.
    pub(crate) fn later(bytes: &[u8]) -> Option<u32> {
        let (covered, crc) = bytes.get(..HEADER)?.split_at_checked(HEADER - 4)?;
        let mut fields = Fields::of(covered);
        let ours = fields.u32()? == HEADER_MAGIC && crc32c(&[covered]) == Fields::of(crc).u32()?;
        fields.u32().filter(|version| ours && *version > VERSION)
    }
}

/// 0 or 1; anything else is of a later release.
const fn flag(value: u32) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// One line of the table: where a frame lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) offset: u32,
    pub(crate) head_len: u32,
}

/// The end of a sealed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) first_lsn: u64,
    pub(crate) last_crc: u32,
    /// Whether the bodies are left out.
    pub(crate) stripped: bool,
    pub(crate) lines: Vec<Line>,
}

impl Footer {
    /// Table and trailer; `at` is where they will lie.
    pub(crate) fn encode(&self, at: u64, salt: &[u8; 16]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.lines.len() * LINE + TRAILER);
        for line in &self.lines {
            bytes.extend_from_slice(&line.offset.to_le_bytes());
            bytes.extend_from_slice(&line.head_len.to_le_bytes());
        }
        bytes.extend_from_slice(&TRAILER_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(&(self.lines.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.last_crc.to_le_bytes());
        bytes.extend_from_slice(&self.first_lsn.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.stripped).to_le_bytes());
        bytes.extend_from_slice(&crc32c(&[salt, &bytes]).to_le_bytes());
        bytes
    }

    /// Where the table begins and how many bytes lie from there to the end of the file, from the trailer alone;
    /// none if this is no trailer.
    pub(crate) fn locate(trailer: &[u8], file_len: u64) -> Option<(u64, usize)> {
        let mut fields = Fields::of(trailer);
        if fields.u32()? != TRAILER_MAGIC || fields.u32()? != VERSION {
            return None;
        }
        let at = fields.u64()?;
        let len = fields.u32()? as usize * LINE + TRAILER;
        (at.checked_add(len as u64)? == file_len).then_some((at, len))
    }

    /// Reads table and trailer. None: damaged.
    pub(crate) fn read(bytes: &[u8], salt: &[u8; 16]) -> Option<Self> {
        let (table, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
        let (covered, crc) = bytes.split_at_checked(bytes.len() - 4)?;
        let mut fields = Fields::of(trailer);
        let right = fields.u32()? == TRAILER_MAGIC && crc32c(&[salt, covered]) == Fields::of(crc).u32()?;
        fields.take(16)?;
        let (last_crc, first_lsn) = (fields.u32()?, fields.u64()?);
        let stripped = flag(fields.u32()?)?;
        let mut fields = Fields::of(table);
        let mut lines = Vec::with_capacity(table.len() / LINE);
        while !fields.rest().is_empty() {
            lines.push(Line { offset: fields.u32()?, head_len: fields.u32()? });
        }
        right.then_some(Self { first_lsn, last_crc, stripped, lines })
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
