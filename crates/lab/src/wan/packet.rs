//! What a TUN device hands over: a header of ten bytes (virtio), then an IPv4 packet, perhaps a super-packet that
//! a network card would still cut into wire segments.
//!
//! Invariant: nothing here trusts a length that stands in a packet; what does not fit together is `None`.

use std::net::Ipv4Addr;
use std::ops::Range;

/// Bytes before the packet.
pub(super) const PREFIX: usize = 10;
/// The largest read: the prefix and 64 KiB.
pub(super) const READ_MAX: usize = PREFIX + 65_536;

const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_UDP: u8 = 5;
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// What the shuttle must know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) from: Ipv4Addr,
    pub(super) to: Ipv4Addr,
    /// Bytes of the IP packet as it stands.
    pub(super) device_bytes: u64,
    /// Wire packets it is cut into.
    pub(super) segments: u64,
    /// Bytes of all of them.
    pub(super) wire_bytes: u64,
    /// Headers of IP and above, which every segment repeats; 0 if there is only one segment.
    headers: usize,
    /// Payload per segment.
    per_segment: usize,
}

/// Reads the shape of what a device gave, prefix and all.
pub(super) fn shape(frame: &[u8]) -> Option<Shape> {
    let ip = frame.get(PREFIX..)?;
    if ip.first()? >> 4 != 4 || ip.len() < 20 {
        return None;
    }
    let whole = Shape {
        from: address(ip.get(12..16)?)?,
        to: address(ip.get(16..20)?)?,
        device_bytes: ip.len() as u64,
        segments: 1,
        wire_bytes: ip.len() as u64,
        headers: 0,
        per_segment: 0,
    };
    let per_segment = usize::from(u16::from_le_bytes([*frame.get(4)?, *frame.get(5)?]));
    let kind = *frame.get(1)?;
    if per_segment == 0 || kind == GSO_NONE {
        return Some(whole);
    }
    let transport = usize::from(ip.first()? & 15) * 4;
    let headers = match (kind, *ip.get(9)?) {
        (GSO_TCP4, TCP) => transport + usize::from(ip.get(transport + 12)? >> 4) * 4,
        (GSO_UDP, UDP) => transport + 8,
        _ => return None,
    };
    let payload = ip.len().checked_sub(headers)?;
    let segments = payload.div_ceil(per_segment).max(1) as u64;
    let wire_bytes = payload as u64 + segments * headers as u64;
    Some(Shape { segments, wire_bytes, headers, per_segment, ..whole })
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = bytes.try_into().ok()?;
    Some(octets.into())
}

impl Shape {
    /// Wire bytes of one full segment.
    pub(super) const fn segment_bytes(&self) -> u64 {
        if self.segments <= 1 { self.wire_bytes } else { (self.headers + self.per_segment) as u64 }
    }
}

/// Cuts a super-packet into pieces of at most so many segments each; a plain packet stays whole.
pub(super) fn cut(frame: &[u8], shape: &Shape, segments: u64) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let payload = shape.device_bytes as usize - shape.headers;
    let step = shape.per_segment.saturating_mul(usize::try_from(segments.max(1)).unwrap_or(usize::MAX));
    let mut at = 0;
    while at < payload {
        let range = at..payload.min(at + step);
        at = range.end;
        pieces.extend(piece(frame, shape, range, payload));
    }
    pieces
}

/// One piece: the headers again, corrected, and its part of the payload.
fn piece(frame: &[u8], shape: &Shape, part: Range<usize>, payload: usize) -> Option<Vec<u8>> {
    let start = PREFIX + shape.headers;
    let mut piece = Vec::with_capacity(start + part.len());
    piece.extend_from_slice(frame.get(..start)?);
    piece.extend_from_slice(frame.get(start + part.start..start + part.end)?);
    if part.len() <= shape.per_segment {
        // A plain packet whose transport checksum the receiver need not check: flag NEEDS_CSUM stays.
        *piece.get_mut(1)? = GSO_NONE;
        piece.get_mut(4..6)?.fill(0);
    }
    let ip = piece.get_mut(PREFIX..)?;
    let transport = usize::from(*ip.first()? & 15) * 4;
    let segment = (part.start / shape.per_segment) as u16;
    put(ip, 2, u16::try_from(ip.len()).unwrap_or(u16::MAX))?;
    let number = get(ip, 4)?.wrapping_add(segment);
    put(ip, 4, number)?;
    put(ip, 10, 0)?;
    let sum = !fold(sum(ip.get(..transport)?));
    put(ip, 10, sum)?;
    match *ip.get(9)? {
        TCP => tcp(ip, transport, part.start, part.end == payload)?,
        _ => put(ip, transport + 4, u16::try_from(ip.len() - transport).unwrap_or(u16::MAX))?,
    }
    pseudo_checksum(ip, transport)?;
    Some(piece)
}

/// The sequence number moves on; PSH and FIN belong to the last segment, CWR to the first.
fn tcp(ip: &mut [u8], transport: usize, offset: usize, is_last: bool) -> Option<()> {
    let field = ip.get_mut(transport + 4..transport + 8)?;
    let sequence = u32::from_be_bytes(<[u8; 4]>::try_from(&*field).ok()?).wrapping_add(offset as u32);
    field.copy_from_slice(&sequence.to_be_bytes());
    let flags = ip.get_mut(transport + 13)?;
    if !is_last {
        *flags &= !TCP_FIN_PSH;
    }
    if offset > 0 {
        *flags &= !TCP_CWR;
    }
    Some(())
}

/// The unfinished checksum that a card would complete: the sum over addresses, protocol and length.
fn pseudo_checksum(ip: &mut [u8], transport: usize) -> Option<()> {
    let protocol = *ip.get(9)?;
    let length = (ip.len() - transport) as u32;
    let total = sum(ip.get(12..20)?) + u32::from(protocol) + length;
    let field = transport + if protocol == TCP { 16 } else { 6 };
    put(ip, field, fold(total))
}

fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn put(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    bytes.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(get(pair, 0).unwrap_or_default())).sum()
}

const fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
#[path = "packet_tests.rs"]
pub(super) mod tests;
