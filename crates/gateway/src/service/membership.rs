//! Administration of memberships: the shapes of `/_skerry/v1/buckets/{name}/join` and `…/leave`.

use serde::{Deserialize, Serialize};

/// `POST buckets/{name}/join`: this site becomes a member; or, with `when`, only says when it does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// `on-read`, `always`, `manual`, `never`, or `bucket` for as the bucket says: for this site alone.
    #[serde(default)]
    pub when: Option<String>,
    /// Only keys that begin so: this site follows them and is no member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// With a prefix: `join` (a write here makes this site a member) or `through` (it is written at a member).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<String>,
}

/// What is asked of a prefix: to be followed, or no more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowRequest {
    /// How the keys begin.
    pub prefix: String,
    /// `join` or `through`; none for as it is.
    pub writes: Option<String>,
    /// It ends.
    pub ends: bool,
}

/// A prefix that a site follows without being a member.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FollowedPrefix {
    /// How the keys begin.
    pub prefix: String,
    /// `taking` what members have, `current`, `behind` (nobody answers, or more is on the way), `ending`, or `member`: the site
    /// has become one.
    pub state: String,
    /// Records here.
    pub records: u64,
    /// Whether they are more than were counted.
    #[serde(default)]
    pub at_least: bool,
    /// Their bytes.
    pub bytes: u64,
    /// How long ago a member answered.
    pub heard_ms: Option<u64>,
    /// `join` or `through`: what a write to the bucket does here, whatever its key.
    pub writes: String,
    /// Why the last question was not answered; where the site has become a member, the write that made it one.
    pub reason: String,
}

/// A bucket that a site has begun to follow, and of which nobody is there who has all: it answers for nothing that it lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JoiningBucket {
    /// Its name.
    pub bucket: String,
    /// For whom it waits, and what ends that.
    pub reason: String,
}

/// `POST buckets/{name}/leave`: this site leaves, once others have all that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// Only this prefix is followed no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

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
    /// While it leaves: why it has not yet. While it joins, and nobody is there to take it from: for whom it waits.
    pub reason: String,
    /// While it leaves: versions whose payload others do not hold yet, as far as looked.
    pub versions: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether records of a bucket that was left are still being dropped.
    pub sweeping: bool,
    /// Prefixes of it that this site follows without being a member.
    #[serde(default)]
    pub prefixes: Vec<FollowedPrefix>,
}
