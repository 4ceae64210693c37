//! Signature V4: what a request claims, whether the claim is true, and the chunks of a streamed body.
//!
//! Why our own and not the S3 library's: that one reads the machine's clock itself, holds a whole chunk in
//! memory before it checks it (a client may send a file as one chunk), and takes a stream that lacks its last chunk
//! (`docs/decisions/2026-11-21-s3s.md`).
//!
//! Invariants: pure, the time comes in; signatures are compared in constant time; nothing is trusted before
//! [`Claim::verify`] succeeded.

mod canonical;
mod chunked;
mod claim;
mod clock;
mod keys;

pub(crate) use canonical::{Canonical, SigningKey, string_to_sign};
pub(crate) use chunked::{ChunkKeys, Decoder};
pub(crate) use claim::{Claim, Payload};
pub use clock::{ClockReading, ClockRule};
pub(crate) use keys::SigningKeys;

/// The only algorithm we take.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

#[cfg(test)]
mod tests;
