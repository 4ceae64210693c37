//! What is stored and which of several statements wins: records, merge, buckets, uploads, keys.
//!
//! Why here: every site must come to the same answer from the same records, so the answer is computed by pure
//! functions that the node, the simulator and the property tests share.
//!
//! Invariants: no files, sockets, clocks, threads or randomness; the same set of records gives the same tables
//! in any order with repeats; every stored and wire type is versioned and pinned by fixtures.

pub mod body;
pub mod bucket;
pub mod entry;
pub mod merge;
pub mod multipart;
pub mod object;
pub mod policy;
pub mod record;
pub mod rest;
pub mod retire;
pub mod space;
pub mod write;

pub use entry::Entry;
pub use object::Object;
pub use record::{Record, Statement, Versioning};
