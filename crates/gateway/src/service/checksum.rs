//! The checksums of S3: over a whole object, and of parts put together.

use base64::{Engine, engine::general_purpose::STANDARD};
use crc_fast::{CrcAlgorithm, checksum_combine};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Which checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChecksumKind {
    /// CRC-32 (ISO-HDLC).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME; the default.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl ChecksumKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// As `x-amz-checksum-algorithm` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The header that carries its value.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// Reads the name in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of its value.
    pub const fn width(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Whether `value` is base64 of a value of this kind.
    pub fn is_value(self, value: &str) -> bool {
        STANDARD.decode(value).is_ok_and(|bytes| bytes.len() == self.width())
    }

    /// Whether multipart objects may have it in this shape: CRCs of parts can be put together to that of the
    /// whole, hashes cannot; CRC64NVME is only ever of the whole.
    pub const fn allows(self, shape: ChecksumShape) -> bool {
        !matches!(
            (self, shape),
            (Self::Crc64Nvme, ChecksumShape::Composite) | (Self::Sha1 | Self::Sha256, ChecksumShape::Full)
        )
    }

    const fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }
}

/// Over what a checksum was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChecksumShape {
    /// All bytes of the object.
    Full,
    /// The checksums of its parts; the value ends in `-N`.
    Composite,
}

impl ChecksumShape {
    /// As `x-amz-checksum-type` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL_OBJECT",
            Self::Composite => "COMPOSITE",
        }
    }
}

/// A checksum with its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Checksum {
    /// Which.
    pub kind: ChecksumKind,
    /// Base64, with `-N` for a composite one.
    pub value: String,
    /// Over what.
    pub shape: ChecksumShape,
}

impl Checksum {
    /// Of parts in order, each with its own checksum of this kind and its size. `None` if a part's value is
    /// not one, or the kind has no such shape.
    pub fn of_parts(kind: ChecksumKind, shape: ChecksumShape, parts: &[(&str, u64)]) -> Option<Self> {
        let value = match shape {
            _ if !kind.allows(shape) => return None,
            ChecksumShape::Full => combined(kind.crc()?, kind.width(), parts)?,
            ChecksumShape::Composite => {
                let mut hasher = Hasher::new(kind);
                for (value, _) in parts {
                    hasher.update(&STANDARD.decode(value).ok().filter(|bytes| bytes.len() == kind.width())?);
                }
                format!("{}-{}", hasher.finish(), parts.len())
            }
        };
        Some(Self { kind, value, shape })
    }
}

/// The CRC of the whole from those of its parts.
fn combined(algorithm: CrcAlgorithm, width: usize, parts: &[(&str, u64)]) -> Option<String> {
    let mut whole: Option<u64> = None;
    for run in parts.chunk_by(|(_, one), (_, next)| one == next) {
        let (_, size) = run.first()?;
        // The library finds out anew for each part what so many bytes do.
        let appended = (run.len() > 2 * BITS).then(|| Appended::new(algorithm, *size));
        for (value, size) in run {
            let bytes = STANDARD.decode(value).ok().filter(|bytes| bytes.len() == width)?;
            let part = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
            whole = Some(match (whole, &appended) {
                (None, _) => part,
                (Some(before), Some(appended)) => appended.to(before) ^ part,
                (Some(before), None) => checksum_combine(algorithm, before, part, *size),
            });
        }
    }
    let whole = whole?.to_be_bytes();
    whole.get(8 - width..).map(|bytes| STANDARD.encode(bytes))
}

/// Bits of the widest CRC.
const BITS: usize = 64;

/// What becomes of a CRC when so many bytes are appended, before those themselves are added: it is linear, so that it is known from
/// what becomes of each bit.
struct Appended([u64; BITS]);

impl Appended {
    fn new(algorithm: CrcAlgorithm, bytes: u64) -> Self {
        Self(std::array::from_fn(|bit| checksum_combine(algorithm, 1 << bit, 0, bytes)))
    }

    fn to(&self, crc: u64) -> u64 {
        let of_bit = |(bit, column): (usize, &u64)| if crc >> bit & 1 == 1 { *column } else { 0 };
        self.0.iter().enumerate().map(of_bit).fold(0, |sum, column| sum ^ column)
    }
}

/// Computes one checksum while bytes pass.
pub struct Hasher {
    kind: ChecksumKind,
    state: State,
}

enum State {
    Crc(Box<crc_fast::Digest>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    /// Nothing passed yet.
    pub fn new(kind: ChecksumKind) -> Self {
        let state = match kind.crc() {
            Some(algorithm) => State::Crc(Box::new(crc_fast::Digest::new(algorithm))),
            None if kind == ChecksumKind::Sha1 => State::Sha1(Sha1::new()),
            None => State::Sha256(Sha256::new()),
        };
        Self { kind, state }
    }

    /// Which checksum.
    pub const fn kind(&self) -> ChecksumKind {
        self.kind
    }

    /// These bytes pass.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(digest) => digest.update(bytes),
            State::Sha1(digest) => digest.update(bytes),
            State::Sha256(digest) => digest.update(bytes),
        }
    }

    /// The value in base64.
    pub fn finish(self) -> String {
        match self.state {
            State::Crc(digest) => {
                let value = digest.finalize().to_be_bytes();
                STANDARD.encode(value.get(8 - self.kind.width()..).unwrap_or_default())
            }
            State::Sha1(digest) => STANDARD.encode(digest.finalize()),
            State::Sha256(digest) => STANDARD.encode(digest.finalize()),
        }
    }
}

impl core::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Hasher").field(&self.kind).finish()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn of(kind: ChecksumKind, bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(kind);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The check values of the catalogues and standards over "123456789", and of the empty text.
    #[test]
    fn known_values() {
        let hex = |text: &str| skerry_base::hex::text(&STANDARD.decode(text).unwrap());
        let nine = b"123456789";
        assert_eq!(hex(&of(ChecksumKind::Crc32, nine)), "cbf43926");
        assert_eq!(hex(&of(ChecksumKind::Crc32c, nine)), "e3069283");
        assert_eq!(hex(&of(ChecksumKind::Crc64Nvme, nine)), "ae8b14860a799888");
        assert_eq!(hex(&of(ChecksumKind::Sha1, b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(of(ChecksumKind::Sha256, b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn crcs_of_parts_are_that_of_the_whole() {
        let body: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c, ChecksumKind::Crc64Nvme] {
            // Few, many of one size, and many with another one before and behind them.
            for (first, size) in [(33_333, 33_333), (500, 500), (777, 300)] {
                let (head, tail) = body.split_at(first);
                let parts = std::iter::once(head).chain(tail.chunks(size));
                let parts: Vec<(String, u64)> =
                    parts.map(|part| (of(kind, part), part.len() as u64)).collect();
                let parts: Vec<(&str, u64)> =
                    parts.iter().map(|(value, size)| (value.as_str(), *size)).collect();
                let whole = Checksum::of_parts(kind, ChecksumShape::Full, &parts).unwrap();
                assert_eq!(whole.value, of(kind, &body), "{kind:?} {size}");
            }
        }
    }

    #[test]
    fn composites_hash_the_values_and_count_the_parts() {
        let (one, two) = (of(ChecksumKind::Sha256, b"one"), of(ChecksumKind::Sha256, b"two"));
        let parts = [(one.as_str(), 3), (two.as_str(), 3)];
        let sum = Checksum::of_parts(ChecksumKind::Sha256, ChecksumShape::Composite, &parts).unwrap();
        let joined = [STANDARD.decode(&one).unwrap(), STANDARD.decode(&two).unwrap()].concat();
        assert_eq!(sum.value, format!("{}-2", of(ChecksumKind::Sha256, &joined)));
        assert!(Checksum::of_parts(ChecksumKind::Sha256, ChecksumShape::Full, &parts).is_none());
        assert!(Checksum::of_parts(ChecksumKind::Crc32, ChecksumShape::Full, &[("AAAA", 3)]).is_none());
    }
}
