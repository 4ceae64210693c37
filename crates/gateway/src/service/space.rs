//! Administration: where the disk went, and what of it is held for other sites.
//!
//! Invariant: as in [`super::admin`].

use serde::{Deserialize, Serialize};

use super::StorageStatus;

/// `GET space`: where the disk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceQuery {
    /// Reads records to tell classes and origins apart; else only what is counted as it changes.
    #[serde(default)]
    pub scan: bool,
}

/// What `GET space` answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpaceReport {
    /// Shape version.
    pub version: u32,
    /// The site.
    pub site: String,
    /// Bytes on disk by class of file.
    pub storage: StorageStatus,
    /// Bytes of cached copies of other sites' objects: given back when room is wanted.
    pub cached_bytes: u64,
    /// Bytes of them that are pinned: never evicted.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// Copies are evicted beyond so many bytes.
    #[serde(default)]
    pub cache_cap_bytes: u64,
    /// Bytes read from copies that had been read before, since the start of the site.
    #[serde(default)]
    pub cache_hit_bytes: u64,
    /// Bytes of copies evicted since then.
    #[serde(default)]
    pub cache_evicted_bytes: u64,
    /// What is held for other sites, as copies that count.
    #[serde(default)]
    pub others: OthersStatus,
    /// Whole days until writes are refused, at the growth of the last week; none if it does not grow or is not known.
    #[serde(default)]
    pub days_to_full: Option<u64>,
    /// Bytes of what is written that no other site is known to have: records; none where that is not known (offline).
    pub unsent_bytes: Option<u64>,
    /// What lies in buckets, by bucket, class and origin.
    pub rows: Vec<SpaceRow>,
    /// Records read for it; 0: all is from counters.
    pub scanned: u64,
    /// Whether the scan ended before all records were read: rows are then lower bounds.
    pub partial: bool,
}

/// Bytes of one kind in one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpaceRow {
    /// The bucket's name here, or its id.
    pub bucket: String,
    /// `live`, `noncurrent`, `conflicts`; without a scan `live` and `other versions`.
    pub class: String,
    /// The site that wrote it; empty without a scan.
    pub origin: String,
    /// Versions.
    pub versions: u64,
    /// Bytes of their bodies, as clients see them.
    pub bytes: u64,
}

/// What a site holds for others, as copies that count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OthersStatus {
    /// Bytes of the bodies: as counted last, and what was taken since.
    pub bytes: u64,
    /// It takes no more than so many; none if the size of the disk is not known, or the site does not run.
    #[serde(default)]
    pub cap_bytes: Option<u64>,
    /// Questions to hold more that were refused for it since the start.
    #[serde(default)]
    pub refused: u64,
}
