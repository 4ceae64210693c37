//! Chunks: up to 1 MiB of payload, named by the BLAKE3 hash of its stored bytes, and trees of them.
//!
//! A *leaf* holds payload; a *tree* chunk (manifest) lists chunks, which may be trees again. A body is named
//! by one list of [`ChunkRef`]s whatever its size. Storage counts references by following trees, the gateway
//! side never sees them.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::{self, DecodeError, Versioned};
use crate::hex;
use crate::id::InvalidId;

/// The BLAKE3 hash of a chunk's stored (sealed, when sealed) bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChunkId(pub [u8; 32]);

impl ChunkId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex::write(&self.0, &mut [0; 64]))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

impl core::str::FromStr for ChunkId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        hex::parse(text).map(Self)
    }
}

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChunkKind {
    /// Payload.
    Leaf,
    /// A [`Tree`]: references to other chunks.
    Tree,
}

/// One chunk as part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChunkRef {
    /// Its name.
    pub id: ChunkId,
    /// Leaf or tree.
    pub kind: ChunkKind,
    /// Bytes of the chunk as stored.
    pub stored: u32,
    /// Bytes of the body that it stands for: its own length for an unsealed leaf, the sum below it for a tree.
    pub length: u64,
}

/// The content of a tree chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tree {
    /// The children in body order.
    pub children: Vec<ChunkRef>,
}

impl Versioned for Tree {
    const NAME: &'static str = "tree";
    const VERSION: u8 = 1;
}

impl Tree {
    /// Bytes of the body below this tree.
    pub fn length(&self) -> u64 {
        self.children.iter().map(|child| child.length).sum()
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a stored tree; refuses what is not one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }
}
