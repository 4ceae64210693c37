//! What is handed to a store: entries, small bodies, classes.

use bytes::Bytes;
use skerry_base::{BucketId, ChunkId};

/// A part of a long proposal: what [`crate::Store::submit_steps`] asks for.
#[derive(Debug, Default)]
pub struct Step {
    /// To be committed, together.
    pub entries: Vec<Entry>,
    /// Whether another follows.
    pub more: bool,
}

/// How a chunk lies here as a copy that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// Durable, and not known to be damaged.
    Counts,
    /// It is kept here, and known to be damaged: whoever lets go of the disk lets go of what else is here of its body.
    Damaged,
    /// It is not kept here; a cached copy may lie here.
    Not,
}

/// One journal entry.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// For the reducer; opaque here.
    pub data: Vec<u8>,
    /// Bodies that lie beside it in the journal. Each becomes a leaf chunk.
    pub bodies: Vec<SmallBody>,
    /// Lets go of space (a delete): carried out from the reserve when the disk is full.
    pub frees: bool,
    /// May be answered once the operating system has it, where [`crate::Settings::lazy`] lets it.
    pub lazy: bool,
}

impl Entry {
    /// An entry without bodies.
    pub fn new(data: Vec<u8>) -> Self {
        Self { data, bodies: Vec::new(), frees: false, lazy: false }
    }

    /// Bytes that it takes, with what lies beside it.
    pub(super) fn len(&self) -> usize {
        self.data.len() + self.bodies.iter().map(|body| body.bytes().len()).sum::<usize>()
    }

    /// With one more body.
    #[must_use]
    pub fn with_body(mut self, body: SmallBody) -> Self {
        self.bodies.push(body);
        self
    }

    /// Marked as one that need not be on disk before it is answered.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// Marked as one that lets go of space.
    #[must_use]
    pub fn freeing(mut self) -> Self {
        self.frees = true;
        self
    }
}

/// A body of at most [`skerry_base::limits::JOURNAL_BODY_BYTES`], stored in the journal as a leaf chunk.
/// Hashed where it is made, so that the commit thread need not.
#[derive(Debug, Clone)]
pub struct SmallBody {
    domain: BucketId,
    id: ChunkId,
    crc: u32,
    bytes: Bytes,
}

impl SmallBody {
    /// Names the bytes (BLAKE3) and checksums them.
    pub fn new(domain: BucketId, bytes: Bytes) -> Self {
        let id = ChunkId::of(&bytes);
        Self { domain, id, crc: crate::checksum::crc32c(&[&bytes]), bytes }
    }

    /// Deduplication domain.
    pub const fn domain(&self) -> BucketId {
        self.domain
    }

    /// Its name.
    pub const fn id(&self) -> ChunkId {
        self.id
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// CRC32C of the bytes.
    pub(crate) const fn crc(&self) -> u32 {
        self.crc
    }
}

/// What a chunk is to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A copy that counts: synced before the record that refers to it.
    Payload,
    /// An evictable copy: never synced, dropped when torn, evicted under a cap.
    Cache,
}
