//! How a site finds others, as the admin face shows it.
//!
//! Invariant: fields are added, never changed.

use serde::{Deserialize, Serialize};

/// A place in the network, from which round trips are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PlaceStatus {
    /// In five dimensions, in milliseconds of round trip.
    pub place_ms: [f32; 5],
    /// What every way to the site crosses, in milliseconds.
    pub height_ms: f32,
    /// Relative error of estimates from here, 0 to 1; 1 knows nothing.
    pub error: f32,
}

/// Another site.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NearStatus {
    /// Which.
    pub site: String,
    /// What people call it.
    pub name: String,
    /// Its level; the highest is a landmark of all sites.
    pub level: u8,
    /// The site asked tells it what it holds, and asks it.
    pub landmark: bool,
    /// It tells the site asked all that it holds.
    pub tells: bool,
    /// A link stands.
    pub linked: bool,
    /// The round trip in milliseconds.
    pub rtt_ms: f64,
    /// `measured`, `estimated` from coordinates, or `assumed`.
    pub source: String,
    /// Where it says it is, if it has.
    pub place: Option<PlaceStatus>,
}

/// The sites within a radius that tell one of their landmarks what they hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AreaStatus {
    /// In milliseconds of round trip; none: all of them.
    pub radius_ms: Option<u64>,
    /// How many, the landmark among them.
    pub sites: usize,
}

/// `GET areas`: how a site finds who holds a bucket.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AreasReport {
    /// Shape version.
    pub version: u32,
    /// What people call this site.
    pub site_name: String,
    /// Levels of landmarks, K: with one every site tells every other.
    pub k: u8,
    /// Of this site.
    pub level: u8,
    /// Where this site is.
    pub place: PlaceStatus,
    /// Sites that are told what this one holds.
    pub told: usize,
    /// Of them those that have said that they know it all.
    pub know: usize,
    /// Landmarks that were left out because there were too many.
    pub left_out: usize,
    /// Memberships of other sites that this one holds.
    pub entries: usize,
    /// The others that are there, nearest first.
    pub sites: Vec<NearStatus>,
    /// The areas around this site, smallest first.
    pub areas: Vec<AreaStatus>,
}
