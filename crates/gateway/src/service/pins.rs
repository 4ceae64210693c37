//! Administration of pins: the shapes of `/_skerry/v1/pins`.

use serde::{Deserialize, Serialize};

/// `POST pins`: what a site keeps below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// The bucket.
    pub bucket: String,
    /// Keys that begin so; empty for all.
    #[serde(default)]
    pub prefix: String,
    /// What to do.
    pub act: PinAct,
}

/// What is done with a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinAct {
    /// Fetch what is there and what will come, and keep it.
    Pin,
    /// Keep it no longer.
    Unpin,
    /// Fetch what is there, once.
    Prefetch,
}

/// `GET pins`, and what `POST pins` answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PinList {
    /// Shape version.
    pub version: u32,
    /// Bytes of copies that are kept for pins.
    pub pinned_bytes: u64,
    /// So many may be.
    pub most_bytes: u64,
    /// By bucket and prefix.
    pub pins: Vec<PinStatus>,
}

/// How far a pinned or prefetched prefix is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PinStatus {
    /// The bucket's name here.
    pub bucket: String,
    /// Keys that begin so.
    pub prefix: String,
    /// Whether it is kept; else it is fetched once.
    pub pinned: bool,
    /// Current objects below it.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Of them here.
    pub here_bytes: u64,
    /// Whether all that is known of it is here.
    pub complete: bool,
    /// Why something of it is not.
    pub reason: Option<String>,
    /// Whether more of its records are on their way here: what is counted is not all, and what is not here may come by itself.
    #[serde(default)]
    pub taking: bool,
}
