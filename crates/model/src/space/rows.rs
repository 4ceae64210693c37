//! Values of the tables. Stored, so versioned.
//!
//! Those of which there is one for each object are smaller than what they say: [`version`] and [`current`].

pub(crate) mod current;
mod etag;
pub(crate) mod version;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::{Dot, Hlc, Vector, WallTime};

use crate::record::Record;

/// Points to a record of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pointer {
    pub(crate) clock: Hlc,
    pub(crate) dot: Dot,
    /// Lies in the region of what is only remembered.
    pub(crate) remembered: bool,
}

/// Row of `Heads`: what decides about the next record of a key. Absent when that is the current version alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadsRow {
    /// All heads, and all null-type records, living or remembered.
    pub(crate) active: Vec<Pointer>,
    /// What the living versions cover together, when the active ones alone do not tell.
    pub(crate) covered: Option<Vector>,
}

impl Versioned for HeadsRow {
    const NAME: &'static str = "heads row";
    const VERSION: u8 = 1;
}

/// A visible key as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The current version.
    pub dot: Dot,
    /// Its clock.
    pub clock: Hlc,
    /// Bytes of its body.
    pub size: u64,
    /// ETag without quotes.
    pub etag: String,
    /// When it was accepted.
    pub modified: WallTime,
}

impl Versioned for Listed {
    const NAME: &'static str = "current row";
    const VERSION: u8 = 1;
}

impl Listed {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let object = record.object()?;
        Some(Self {
            dot: record.dot,
            clock: record.clock,
            size: object.size,
            etag: object.etag.clone(),
            modified: object.modified,
        })
    }
}

/// Row of `Dots`: where a stored record lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DotRow {
    pub(crate) clock: Hlc,
    pub(crate) remembered: bool,
    pub(crate) key: String,
}

impl Versioned for DotRow {
    const NAME: &'static str = "dot row";
    const VERSION: u8 = 1;
}

/// Row of `Conflicts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConflictRow {
    pub(crate) current: Dot,
    pub(crate) losers: Vec<Loser>,
    pub(crate) more: u32,
}

impl Versioned for ConflictRow {
    const NAME: &'static str = "conflict row";
    const VERSION: u8 = 1;
}

/// A version that lost a conflict and is still readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loser {
    /// The version.
    pub dot: Dot,
    /// Its clock.
    pub clock: Hlc,
    /// A delete that hid nothing of what it had not seen.
    pub is_delete: bool,
    /// Since when a later write keeps it; none while it is still a head beside the current one.
    pub kept_since: Option<Hlc>,
}

/// What a bucket amounts to at this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sums {
    /// Visible keys.
    pub keys: u64,
    /// Bytes of the visible objects.
    pub bytes: u64,
    /// Bytes of all living versions.
    pub stored_bytes: u64,
    /// Stored records, remembered ones included.
    pub records: u64,
    /// Their encoded bytes: what following this bucket costs.
    pub record_bytes: u64,
    /// Keys with a conflict or a kept loser.
    pub conflicts: u64,
}

impl Versioned for Sums {
    const NAME: &'static str = "sums row";
    const VERSION: u8 = 1;
}

#[cfg(test)]
mod tests;
