//! Administration of memberships: the shapes of `/_skerry/v1/buckets/{name}/join` and `…/leave`.

use serde::{Deserialize, Serialize};

/// `POST buckets/{name}/join`: this site becomes a member; or, with `when`, only says when it does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// `on-read`, `always`, `manual`, `never`, or `bucket` for as the bucket says: for this site alone.
    #[serde(default)]
    pub when: Option<String>,
}

/// `POST buckets/{name}/leave`: this site leaves, once others have all that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {}

/// What both answer, and `GET buckets/{name}/leave`: what this site is to a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MembershipState {
    /// Shape version.
    pub version: u32,
    /// The bucket.
    pub bucket: String,
    /// Name of the site.
    pub site: String,
    /// `member`, `joining` (still taking what others have), `leaving`, or `none`.
    pub standing: String,
    /// When a read makes this site a member: `on-read`, `always`, `manual` or `never`.
    pub join: String,
    /// Whether that was said for this site alone.
    pub join_here: bool,
    /// While it leaves: why it has not yet.
    pub reason: String,
    /// While it leaves: versions whose payload others do not hold yet, as far as looked.
    pub versions: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether records of a bucket that was left are still being dropped.
    pub sweeping: bool,
}
