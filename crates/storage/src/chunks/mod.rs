//! Chunks: where each lies, how often it is referred to, and which are in use at this moment.

pub(crate) mod live;
pub(crate) mod row;

use skerry_base::{BucketId, ChunkId};

/// A chunk in its deduplication domain.
pub(crate) type Key = (BucketId, ChunkId);
