//! The value of a row of `Current`: a visible key as a listing shows it.
//!
//! Layout of version 2: the version; origin (24) and clock (8) as in keys; then postcard: seq, size, by how much it was accepted
//! at another time than its clock says, and the ETag, of which an MD5 is 16 bytes. Version 1 is plain postcard: releases before
//! 29 November wrote it, and it is read for ever.

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::{Dot, Hlc, Origin};

use super::{Listed, etag, version};

const VERSION: u8 = 2;

/// The order is stored.
#[derive(Serialize, Deserialize)]
enum Etag {
    Md5([u8; 16]),
    Text(String),
}

/// What stands behind the origin and the clock.
#[derive(Serialize, Deserialize)]
struct Rest {
    seq: u64,
    size: u64,
    lag: i64,
    etag: Etag,
}

/// The value of the row.
pub(crate) fn encode(listed: &Listed) -> Vec<u8> {
    let Listed { dot, clock, size, etag, modified } = listed;
    let rest = Rest {
        seq: dot.seq,
        size: *size,
        lag: version::lag(*modified, *clock),
        etag: etag::md5(etag).map_or_else(|| Etag::Text(etag.clone()), Etag::Md5),
    };
    let mut bytes = Vec::with_capacity(64);
    bytes.push(VERSION);
    bytes.extend_from_slice(&dot.origin.to_bytes());
    bytes.extend_from_slice(&clock.0.to_be_bytes());
    // Postcard into a Vec fails only for types whose length is unknown beforehand; none of these is.
    postcard::to_extend(&rest, bytes).unwrap_or_default()
}

/// Reads it, of either version.
pub(crate) fn decode(bytes: &[u8]) -> Result<Listed, DecodeError> {
    let malformed = |reason: String| DecodeError::Malformed { name: Listed::NAME, reason };
    let rest = match bytes.split_first() {
        Some((&VERSION, rest)) => rest,
        Some((&found, _)) if found != Listed::VERSION => {
            return Err(DecodeError::Version { name: Listed::NAME, found, known: VERSION });
        }
        _ => return codec::decode(bytes),
    };
    let split = rest.split_first_chunk::<24>();
    let split = split.and_then(|(origin, rest)| Some((origin, rest.split_first_chunk::<8>()?)));
    let (origin, (clock, rest)) = split.ok_or_else(|| malformed("too short".into()))?;
    let (Rest { seq, size, lag, etag }, tail) =
        postcard::take_from_bytes(rest).map_err(|error| malformed(error.to_string()))?;
    if !tail.is_empty() {
        return Err(malformed(format!("{} bytes too many", tail.len())));
    }
    let clock = Hlc(u64::from_be_bytes(*clock));
    let etag = match etag {
        Etag::Md5(md5) => etag::of_md5(md5),
        Etag::Text(text) => text,
    };
    let dot = Dot { origin: Origin::from_bytes(origin), seq };
    Ok(Listed { dot, clock, size, etag, modified: version::modified(lag, clock) })
}
