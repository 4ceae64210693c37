//! Identities: nodes, sites, buckets, origins and dots.
//!
//! All are plain bytes with a fixed order, so that they sort the same on every machine.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::hex;

/// Declares a 16-byte identity that prints as 32 lower-case hexadecimal digits and parses back.
macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; 32];
                f.write_str(hex::write(&self.0, &mut text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl core::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                hex::parse(text).map(Self)
            }
        }
    };
}

identity! {
    /// One `skerry` process: the first 16 bytes of the BLAKE3 hash of its Ed25519 public key.
    NodeId
}
identity! {
    /// The nodes on one LAN; the unit that lives or is cut off together. Drawn once when the site is made.
    SiteId
}
identity! {
    /// One incarnation of a bucket. A bucket that is deleted and made again has another id.
    BucketId
}
identity! {
    /// A later credential key: a hash of its document.
    CredentialKeyId
}

/// A text that is not as many hexadecimal digits as it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not hexadecimal digits, two for each byte: an identity has 32 of them, the name of a chunk 64")]
pub struct InvalidId;

/// Who wrote: a node in one of its lives. The incarnation is drawn at each process start that writes, so a
/// restored backup, a cloned card or a rolled-back disk never reuses a dot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The node that wrote.
    pub node: NodeId,
    /// Its life, drawn at process start.
    pub incarnation: u64,
}

impl Origin {
    /// Fixed-width form for keys of the index: sorts like the value.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.node.0);
        bytes[16..].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes
    }

    /// Reads back what [`Origin::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; 24]) -> Self {
        let mut node = [0; 16];
        let mut incarnation = [0; 8];
        node.copy_from_slice(&bytes[..16]);
        incarnation.copy_from_slice(&bytes[16..]);
        Self { node: NodeId(node), incarnation: u64::from_be_bytes(incarnation) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.node, self.incarnation)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// The identity of a record within its bucket: the `seq`-th record this origin accepted there.
/// `seq` starts at 1 and is dense per (origin, bucket).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Dot {
    /// Who wrote.
    pub origin: Origin,
    /// Which of its records in the bucket, from 1.
    pub seq: u64,
}

impl Dot {
    /// Fixed-width form for keys of the index: sorts like the value.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&self.origin.to_bytes());
        bytes[24..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// Reads back what [`Dot::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        let mut origin = [0; 24];
        let mut seq = [0; 8];
        origin.copy_from_slice(&bytes[..24]);
        seq.copy_from_slice(&bytes[24..]);
        Self { origin: Origin::from_bytes(&origin), seq: u64::from_be_bytes(seq) }
    }
}

impl fmt::Display for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.origin, self.seq)
    }
}

impl fmt::Debug for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dot({self})")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn identities_print_and_parse() {
        let id = BucketId(*b"0123456789abcdef");
        assert_eq!(id.to_string().parse::<BucketId>().unwrap(), id);
        assert_eq!("xyz".parse::<BucketId>(), Err(InvalidId));
        assert_eq!("zz".repeat(16).parse::<BucketId>(), Err(InvalidId));
    }

    #[test]
    fn dots_keep_their_order_as_bytes() {
        let origin = |n: u8, incarnation| Origin { node: NodeId([n; 16]), incarnation };
        let mut dots = vec![
            Dot { origin: origin(2, 1), seq: 1 },
            Dot { origin: origin(1, 256), seq: 1 },
            Dot { origin: origin(1, 255), seq: 300 },
            Dot { origin: origin(1, 255), seq: 3 },
        ];
        let mut bytes: Vec<_> = dots.iter().map(|dot| dot.to_bytes()).collect();
        dots.sort();
        bytes.sort();
        assert_eq!(bytes.iter().map(Dot::from_bytes).collect::<Vec<_>>(), dots);
    }
}
