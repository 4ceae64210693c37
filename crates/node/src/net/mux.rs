//! The frames of the multiplexer, as they lie between it and its socket: where each begins, and whose it is.
//!
//! Layout of a head: version, kind, two bytes of flags, stream, length, big-endian; only data (kind 0) have a body, of that length
//! ([specification](https://github.com/hashicorp/yamux/blob/master/spec.md)).

/// Header of a frame.
pub(super) const HEAD_BYTES: usize = 12;
/// Kinds that belong to a stream.
pub(super) const DATA: u8 = 0;
pub(super) const WINDOW: u8 = 1;
/// The frame begins its stream.
pub(super) const SYN: u16 = 1;
/// It ends it, whatever else it says.
pub(super) const RST: u16 = 8;

/// What stands in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) flags: u16,
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl Head {
    const fn read(bytes: [u8; HEAD_BYTES]) -> Self {
        let [_, kind, f0, f1, s0, s1, s2, s3, l0, l1, l2, l3] = bytes;
        Self {
            kind,
            flags: u16::from_be_bytes([f0, f1]),
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// Bytes that follow.
    pub(super) const fn body(&self) -> usize {
        if self.kind == DATA { self.length as usize } else { 0 }
    }
}

/// A head that is whole, or so many bytes of a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Head(Head),
    Body(usize),
}

/// Follows one direction, however it is cut.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    filled: usize,
    body: usize,
}

impl Frames {
    /// Whether the next byte begins a frame.
    pub(super) const fn is_between(&self) -> bool {
        self.filled == 0 && self.body == 0
    }

    /// Says what is in the next bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut say: impl FnMut(Piece)) {
        while !bytes.is_empty() {
            if self.body > 0 {
                let (piece, rest) = bytes.split_at(self.body.min(bytes.len()));
                self.body -= piece.len();
                say(Piece::Body(piece.len()));
                bytes = rest;
                continue;
            }
            let (piece, rest) = bytes.split_at((HEAD_BYTES - self.filled).min(bytes.len()));
            for (to, from) in self.head.iter_mut().skip(self.filled).zip(piece) {
                *to = *from;
            }
            self.filled += piece.len();
            bytes = rest;
            if self.filled == HEAD_BYTES {
                self.filled = 0;
                let head = Head::read(self.head);
                self.body = head.body();
                say(Piece::Head(head));
            }
        }
    }
}
