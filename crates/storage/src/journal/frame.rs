//! One frame: what one proposal wrote, whole or not at all.
//!
//! Layout, little-endian, begins at a multiple of 8:
//! `magic u32 · version u8 · kind u8 · zero u16 · lsn u64 · after u64 · previous u32 · entries_len u32 · bodies u32 ·
//! bodies_len u32 · crc u32 · zero u32`, then the entries (each `len u32` and its bytes), then a table of the bodies
//! (`domain [16] · id [32] · len u32 · crc u32` each), then the bodies, then zeros up to a multiple of 8.
//!
//! `crc` covers the store's salt, the header before it, the entries and the table: the *head*. A body has a checksum
//! of its own, so that it can be punched out while the head stays readable. Every version keeps where the header's fields lie and
//! what `crc` covers: a release that does not know a version tells a frame of it from a damaged one. `after` is the last LSN known durable
//! when the frame was written: a bad frame with a later one that says "you were durable" is damage, not a torn tail.

use std::ops::Range;

use skerry_base::{BucketId, ChunkId};

use crate::checksum::crc32c;
use crate::fields::{Fields, round_up};

/// First bytes of a frame: `SKJF`.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"SKJF");
/// The version written.
const VERSION: u8 = 1;
/// Bytes before the entries.
pub(crate) const HEADER: usize = 48;
/// Bytes of one line of the table of bodies.
pub(crate) const BODY_LINE: usize = 56;
/// Bytes covered by the checksum within the header.
const COVERED: usize = 40;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Entries for the reducer.
    Entries,
    /// A note of the store itself.
    Note,
}

/// The identity of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) kind: Kind,
    pub(crate) lsn: u64,
    pub(crate) after: u64,
    pub(crate) previous: u32,
}

/// A body as the head of its frame names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLine {
    pub(crate) domain: BucketId,
    pub(crate) id: ChunkId,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

/// The fixed part of a head, not yet verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) stamp: Stamp,
    entries_len: u32,
    bodies: u32,
    bodies_len: u32,
    crc: u32,
}

/// A verified head.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) stamp: Stamp,
    /// The checksum: the next frame names it.
    pub(crate) crc: u32,
    /// Where the entries lie in the bytes of the head.
    pub(crate) entries: Vec<Range<usize>>,
    pub(crate) bodies: Vec<BodyLine>,
    /// Bytes of the head: the first body begins there.
    pub(crate) head_len: usize,
    /// Bytes of the whole frame.
    pub(crate) frame_len: u64,
}

/// What to put into a frame.
pub(crate) struct Draft<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) entries: &'a [&'a [u8]],
    pub(crate) bodies: &'a [(BodyLine, &'a [u8])],
}

/// Bytes of a frame with these entries and bodies.
pub(crate) fn frame_len(entries: impl Iterator<Item = usize>, bodies: impl Iterator<Item = usize>) -> u64 {
    let entries: u64 = entries.map(|len| len as u64 + 4).sum();
    let bodies: u64 = bodies.map(|len| (len + BODY_LINE) as u64).sum();
    round_up(HEADER as u64 + entries + bodies, 8)
}

/// Appends the frame to `out`; returns its checksum and the bytes of its head.
pub(crate) fn encode(draft: &Draft<'_>, salt: &[u8; 16], out: &mut Vec<u8>) -> (u32, usize) {
    let start = out.len();
    let entries_len: usize = draft.entries.iter().map(|entry| entry.len() + 4).sum();
    let bodies_len: usize = draft.bodies.iter().map(|(_, bytes)| bytes.len()).sum();
    let stamp = &draft.stamp;
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[VERSION, u8::from(stamp.kind == Kind::Note), 0, 0]);
    out.extend_from_slice(&stamp.lsn.to_le_bytes());
    out.extend_from_slice(&stamp.after.to_le_bytes());
    out.extend_from_slice(&stamp.previous.to_le_bytes());
    out.extend_from_slice(&(entries_len as u32).to_le_bytes());
    out.extend_from_slice(&(draft.bodies.len() as u32).to_le_bytes());
    out.extend_from_slice(&(bodies_len as u32).to_le_bytes());
    let crc_at = out.len();
    out.extend_from_slice(&[0; 8]);
    let rest_at = out.len();
    for entry in draft.entries {
        out.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        out.extend_from_slice(entry);
    }
    for (line, _) in draft.bodies {
        out.extend_from_slice(&line.domain.0);
        out.extend_from_slice(&line.id.0);
        out.extend_from_slice(&line.len.to_le_bytes());
        out.extend_from_slice(&line.crc.to_le_bytes());
    }
    let head_len = out.len() - start;
    let crc = crc32c(&[salt, &out[start..crc_at], &out[rest_at..]]);
    out[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    for (_, bytes) in draft.bodies {
        out.extend_from_slice(bytes);
    }
    let end = start as u64 + round_up((out.len() - start) as u64, 8);
    out.resize(end as usize, 0);
    (crc, head_len)
}

/// Bytes of the head of what says that it is a frame of a later version.
pub(crate) fn later_len(bytes: &[u8]) -> Option<u64> {
    let mut fields = Fields::of(bytes);
    let ours = fields.u32()? == MAGIC && fields.u8()? > VERSION;
    // Kind, zero, LSN, after, previous.
    fields.take(23)?;
    let (entries_len, bodies) = (u64::from(fields.u32()?), u64::from(fields.u32()?));
    ours.then_some(HEADER as u64 + entries_len + bodies * BODY_LINE as u64)
}

/// The version of a frame that a later release wrote, if this is the whole head of one.
pub(crate) fn later(head: &[u8], salt: &[u8; 16]) -> Option<u8> {
    let head = head.get(..later_len(head)? as usize)?;
    let (header, rest) = head.split_at_checked(HEADER)?;
    let (covered, crc) = header.split_at_checked(COVERED)?;
    let right = crc32c(&[salt, covered, rest]) == Fields::of(crc).u32()?;
    head.get(4).copied().filter(|_| right)
}

impl Header {
    /// Reads the fixed part. The error says what is wrong.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        Self::fields(bytes).ok_or_else(|| "frame header cut short".to_owned())?
    }

    fn fields(bytes: &[u8]) -> Option<Result<Self, String>> {
        let mut fields = Fields::of(bytes);
        if fields.u32()? != MAGIC {
            return Some(Err("no frame begins here".into()));
        }
        let version = fields.u8()?;
        let kind = fields.u8()?;
        let zero = fields.u16()?;
        let kind = match (version, kind, zero) {
            (VERSION, 0, 0) => Kind::Entries,
            (VERSION, 1, 0) => Kind::Note,
            _ => {
                return Some(Err(format!(
                    "frame of version {version}, kind {kind}; version {VERSION} is known"
                )));
            }
        };
        let stamp = Stamp { kind, lsn: fields.u64()?, after: fields.u64()?, previous: fields.u32()? };
        let header = Self {
            stamp,
            entries_len: fields.u32()?,
            bodies: fields.u32()?,
            bodies_len: fields.u32()?,
            crc: fields.u32()?,
        };
        Some(if fields.u32()? == 0 { Ok(header) } else { Err("frame header damaged".into()) })
    }

    /// Bytes of the head.
    pub(crate) const fn head_len(&self) -> u64 {
        HEADER as u64 + self.entries_len as u64 + self.bodies as u64 * BODY_LINE as u64
    }

    /// Bytes of the frame.
    pub(crate) const fn frame_len(&self) -> u64 {
        round_up(self.head_len() + self.bodies_len as u64, 8)
    }
}

impl Head {
    /// Verifies the head; `bytes` begin with it and may be longer.
    pub(crate) fn read(bytes: &[u8], salt: &[u8; 16]) -> Result<Self, String> {
        let header = Header::read(bytes)?;
        let head_len = header.head_len() as usize;
        let head = bytes.get(..head_len).ok_or("frame cut short")?;
        let (covered, rest) = head.split_at_checked(HEADER).ok_or("frame cut short")?;
        let covered = covered.get(..COVERED).ok_or("frame cut short")?;
        if crc32c(&[salt, covered, rest]) != header.crc {
            return Err("frame checksum does not match".into());
        }
        Self::parts(&header, rest).ok_or_else(|| "frame lengths do not match".to_owned())
    }

    /// Takes a head apart whose checksum is right.
    fn parts(header: &Header, rest: &[u8]) -> Option<Self> {
        let (entries_bytes, table) = rest.split_at_checked(header.entries_len as usize)?;
        let mut entries = Vec::new();
        let mut fields = Fields::of(entries_bytes);
        while !fields.rest().is_empty() {
            let len = fields.u32()? as usize;
            let start = HEADER + entries_bytes.len() - fields.rest().len();
            fields.take(len)?;
            entries.push(start..start + len);
        }
        let mut fields = Fields::of(table);
        let mut bodies = Vec::with_capacity(table.len() / BODY_LINE);
        while !fields.rest().is_empty() {
            let domain = BucketId(fields.array()?);
            bodies.push(BodyLine {
                domain,
                id: ChunkId(fields.array()?),
                len: fields.u32()?,
                crc: fields.u32()?,
            });
        }
        let bodies_len: u64 = bodies.iter().map(|line| u64::from(line.len)).sum();
        (bodies_len == u64::from(header.bodies_len)).then(|| Self {
            stamp: header.stamp,
            crc: header.crc,
            entries,
            bodies,
            head_len: header.head_len() as usize,
            frame_len: header.frame_len(),
        })
    }

    /// Bytes of the frame in a stripped segment.
    pub(crate) const fn stripped_len(&self) -> u64 {
        round_up(self.head_len as u64, 8)
    }

    /// The bodies with where each begins, counted from the start of the frame.
    pub(crate) fn body_offsets(&self) -> impl Iterator<Item = (u64, &BodyLine)> {
        let mut at = self.head_len as u64;
        self.bodies.iter().map(move |line| {
            let start = at;
            at += u64::from(line.len);
            (start, line)
        })
    }
}

/// Makes this frame one of another version, as sound as it was.
#[cfg(test)]
pub(crate) fn as_of_version(frame: &mut [u8], version: u8, salt: &[u8; 16]) {
    let head_len = Header::read(frame).map_or(0, |header| header.head_len()) as usize;
    frame[4] = version;
    let crc = crc32c(&[salt, &frame[..COVERED], &frame[HEADER..head_len]]);
    frame[COVERED..COVERED + 4].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
