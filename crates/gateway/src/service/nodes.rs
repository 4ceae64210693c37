//! The nodes of a site of several, as its administration tells of them.

use serde::{Deserialize, Serialize};

/// The nodes of this site, and how it agrees on who counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodesReport {
    /// Id of the site: that of its first node.
    pub site: String,
    /// Its name.
    pub site_name: String,
    /// Its seats.
    pub seats: u32,
    /// Which of them this node fills.
    pub seat: u32,
    /// `leased`: serves under a lease of the view. `holding`: is in the view, without a lease. `apart`: in no view with a
    /// majority. `blank`: without memory, until the others take it in.
    pub standing: String,
    /// The view's number; none while nothing is known to be agreed on.
    pub epoch: Option<u64>,
    /// By seat.
    pub nodes: Vec<NodeStatus>,
}

/// One seat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Which.
    pub seat: u32,
    /// Name of the node that fills it; empty if none does.
    pub name: String,
    /// Its node id.
    pub node: String,
    /// What it is in the view: `live`, `joining`, `out`; `vacant`: nobody has the seat (it was given to nobody, or its machine was expelled).
    pub role: String,
    /// How long ago it was heard; none for this node, or if never.
    pub heard_ms: Option<u64>,
    /// Why it does not listen to this node, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses: Option<String>,
    /// Why it cannot hold what the others write, if it said so: it is left out of the view meanwhile, if that can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unable: Option<String>,
}

/// Which seat an invitation is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatRequest {
    /// Name of the site: of its first node.
    pub of: String,
    /// Which of its seats: 1 to 3.
    pub seat: u32,
    /// Whether the machine that fills it now is to be replaced.
    #[serde(default)]
    pub replace: bool,
}
