//! What the runner and its client processes say to each other: one JSON document per line.
//!
//! A client reads [`Ask`]s from its standard input and answers each with [`Said`]s on its standard output. Anybody can
//! do the same by hand: `skerry-lab client < ask.json`. The line [`STOP`] ends what it is at, with the answer so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skerry_bench::plan::Plan;

use crate::rivals::TargetConfig;

/// The line that asks a client to begin no further operation.
pub const STOP: &str = "\"stop\"";

/// Work for a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What to do; one phase of one trial.
    pub plan: Plan,
    /// Against what.
    pub target: TargetConfig,
}

/// What a client says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// How far it is.
    Progress {
        /// Operations that ended.
        operations: u64,
        /// Those that failed.
        failures: u64,
        /// Payload moved.
        bytes: u64,
    },
    /// The end of an ask.
    Done {
        /// When the phase began, in milliseconds since 1970.
        started_wall_ms: u64,
        /// How long it took.
        seconds: f64,
        /// Every operation, as `skerry_bench::sample::write_csv` writes it.
        csv: String,
        /// For each code of failure the story of the first.
        examples: BTreeMap<String, String>,
    },
    /// The ask could not be carried out at all.
    Failed {
        /// Why.
        reason: String,
    },
}
