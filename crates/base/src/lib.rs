//! The words two rooms use: identities, dots and vectors, time and calendar, chunks, the ordered key space, names,
//! limits.
//!
//! Why here: `model`, `federation` and `storage` must not know each other, but they speak of the same dot
//! and the same chunk. A word moves in when a second room needs it, never before.
//!
//! Invariants: pure (no files, sockets, clocks, threads, randomness), no `unsafe`, the encodings are pinned
//! by fixtures, and nothing iterates in an order that depends on a hash.

pub mod calendar;
pub mod chunk;
pub mod codec;
pub mod hex;
pub mod id;
pub mod kv;
pub mod limits;
pub mod name;
pub mod time;
pub mod vector;

pub use chunk::{ChunkId, ChunkKind, ChunkRef};
pub use id::{BucketId, CredentialKeyId, Dot, NodeId, Origin, SiteId};
pub use time::{Hlc, Instant, WallTime};
pub use vector::Vector;
