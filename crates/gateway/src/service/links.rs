//! The JSON shapes of links and of their budgets.
//!
//! Invariants: as in `admin.rs`.

use serde::{Deserialize, Serialize};

/// `POST link`: cuts this site off from all others or from one, or heals it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    /// Cut or heal.
    pub cut: bool,
    /// The site from which it is kept apart, as if nothing joined the two; none: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What `POST link` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// Shape version.
    pub version: u32,
    /// Whether the links are cut now.
    pub cut: bool,
    /// Sites from which it is kept apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<String>,
}

/// The budget of a metered uplink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkBudget {
    /// Bytes of a period, both directions.
    pub bytes: u64,
    /// `month` or `day`.
    pub period: String,
    /// The day of the month on which it begins anew, 1 to 28.
    pub reset_day: u8,
    /// Copies cross from the first hour to the second only.
    #[serde(default)]
    pub hours: Option<(u8, u8)>,
    /// The zone of days and hours, in minutes east of UTC.
    #[serde(default)]
    pub zone_minutes: i16,
}

/// `POST link/budget`: sets the budget of this site's uplink, or lifts it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UplinkRequest {
    /// None: it is not metered.
    pub budget: Option<UplinkBudget>,
}

/// `GET link/budget`, and what `POST link/budget` answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UplinkState {
    /// Shape version.
    pub version: u32,
    /// None: it is not metered.
    pub budget: Option<UplinkBudget>,
    /// Bytes that crossed in the period under way.
    pub used_bytes: u64,
    /// When it began, in milliseconds since 1970.
    pub since_ms: u64,
    /// When the next begins.
    pub ends_ms: Option<u64>,
    /// What may cross now, the most important first.
    pub classes: Vec<UplinkClass>,
}

/// Whether a class of what crosses may cross now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UplinkClass {
    /// `conditional operations`, `records`, `reads`, `copies`.
    pub name: String,
    /// Whether it may.
    pub goes: bool,
    /// Else from when on, in milliseconds since 1970.
    pub not_before_ms: Option<u64>,
}
