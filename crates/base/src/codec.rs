//! Stored and wire encoding: one version byte, then postcard.
//!
//! Every type that leaves the process implements [`Versioned`]; its module keeps fixtures of all versions
//! ever released. Decoding refuses unknown versions and trailing bytes with the name of what was expected.

use postcard::ser_flavors::Size;
use serde::{Serialize, de::DeserializeOwned};

/// A type with a pinned encoding.
pub trait Versioned: Serialize + DeserializeOwned {
    /// What it is, for errors.
    const NAME: &'static str;
    /// The version written.
    const VERSION: u8;
}

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a release that this one does not know.
    #[error("{name} of version {found}; this release reads version {known}")]
    Version {
        /// What was expected.
        name: &'static str,
        /// The version found.
        found: u8,
        /// The newest version known.
        known: u8,
    },
    /// Damaged or hostile.
    #[error("not a valid {name}: {reason}")]
    Malformed {
        /// What was expected.
        name: &'static str,
        /// Why not.
        reason: String,
    },
}

/// Room that an encoding begins with. It grows byte by byte, and from nothing it would be moved five times for a row of a table.
const ENCODED: usize = 128;

/// The stored form.
pub fn encode<T: Versioned>(value: &T) -> Vec<u8> {
    // Postcard into a Vec fails only for types whose length is unknown beforehand; none of ours is.
    let mut bytes = Vec::with_capacity(ENCODED);
    bytes.push(T::VERSION);
    postcard::to_extend(value, bytes).unwrap_or_default()
}

/// How long the stored form is, without making it.
pub fn encoded_len<T: Versioned>(value: &T) -> usize {
    postcard::serialize_with_flavor(value, Size::default()).map_or(0, |bytes: usize| bytes + 1)
}

/// Reads a stored form; the whole of `bytes` must be it.
pub fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let malformed = |reason: String| DecodeError::Malformed { name: T::NAME, reason };
    match bytes.split_first() {
        None => Err(malformed("empty".into())),
        Some((&found, _)) if found != T::VERSION => {
            Err(DecodeError::Version { name: T::NAME, found, known: T::VERSION })
        }
        Some((_, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            Ok((_, tail)) => Err(malformed(format!("{} bytes too many", tail.len()))),
            Err(error) => Err(malformed(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::chunk::{ChunkId, ChunkKind, ChunkRef, Tree};

    fn tree() -> Tree {
        let id = ChunkId::of(b"skerry");
        Tree { children: vec![ChunkRef { id, kind: ChunkKind::Leaf, stored: 6, length: 6 }] }
    }

    #[test]
    fn round_trip_and_refusals() {
        let bytes = encode(&tree());
        assert_eq!(decode::<Tree>(&bytes).unwrap(), tree());
        assert_eq!(encoded_len(&tree()), bytes.len());
        assert!(matches!(decode::<Tree>(&[]), Err(DecodeError::Malformed { .. })));
        assert!(matches!(decode::<Tree>(&bytes[..9]), Err(DecodeError::Malformed { .. })));
        assert!(matches!(decode::<Tree>(&[&bytes[..], b"x"].concat()), Err(DecodeError::Malformed { .. })));
        let mut newer = bytes;
        newer[0] = 9;
        assert_eq!(decode::<Tree>(&newer), Err(DecodeError::Version { name: "tree", found: 9, known: 1 }));
    }

    /// Fixture of version 1: must decode for ever.
    #[test]
    fn tree_v1_fixture() {
        let hex = crate::hex::text(&encode(&tree()));
        let id = ChunkId::of(b"skerry");
        assert_eq!(hex, format!("0101{id}000606"));
    }
}
