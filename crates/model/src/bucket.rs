//! Buckets: names, claims on names, incarnations, settings; and the system bucket that holds them.
//!
//! Why here: which bucket a name means must be the same at every site that has seen the same claims. A claim is
//! a record of the system bucket, which every site follows, so claims travel like objects.
//!
//! Invariants: a bucket's id is derived ([`incarnation`]), never drawn, so that two cut-off sites that make the
//! same bucket for the same owner make the same one; data and policies of two incarnations never merge.

mod ack;
mod address;
mod area;
mod by_id;
mod claim;
mod credential;
mod duty;
mod home;
mod loss;
mod metered;
mod name;
mod naming;
mod replaced;
mod seen;
mod spare;
mod system;
mod tenure;
mod wish;

pub use ack::AREA_PLACES;
pub use address::{AddressDocument, assign_address, dialled};
pub use area::{AreaDocument, area, areas, assign_area, configure_area, is_area_name};
pub use by_id::{ClaimNames, Deleted, LATE, claimed_since, resolve_id};
pub use claim::{
    ClaimDocument, ClaimRefusal, ClaimState, Claimed, NewBucket, Resolved, all_buckets, claim,
    deleted_buckets, is_deleted, list_buckets, new_claim, resolve, revival, revivals, unclaim, unclaim_after,
};
pub use credential::{CredentialDocument, CredentialKeys, Sealer, sealed_with};
pub use duty::{Duty, DutyDocument, DutyReport, OnDuty, assign_duty, duties, duty, report_duty};
pub use home::{
    FIRST_EPOCH, HomeCause, HomeDocument, HomeRefusal, Loss, Named, Standing, eldest, first_home, hand_over,
    home, is_claimant, keeps_register, may_be_named, name_home, register, replace_home, standing, unnamed,
};
pub use loss::{
    LIVES_NAMED, LossCause, LossDocument, LossRefusal, LossWord, declare_loss, lives_of, loss, losses,
    next_count, take_back_loss,
};
pub use metered::{MeteredDocument, metered, say_metered};
pub use name::{SITE_SEPARATOR, reserved_for};
pub use naming::{Later, Naming, NamingDocument, has_begun, names_at_once, namings, resumed};
pub use replaced::{ReplaceRefusal, deleted, homes_of, replace_site, replacements, successor, was_called_so};
pub use seen::{Blocks, Seen, SeenDocument, seen_blocks};
pub use spare::{forget_spare, lost_claim, lost_claims, spared, spared_buckets};
pub use system::{
    KeyDocument, KeyStatus, NodeEntry, SiteDocument, SiteState, SystemKey, document, document_object, keys,
    site, sites, system_bucket,
};
pub use tenure::{
    DecisionsAhead, Known, TenureDocument, Turn, Within, awaited, has_decisions_ahead, name_heir, open,
};
pub use wish::{AreaWish, COPIES_MOST, WishError};

use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, Dot, SiteId};

use crate::record::{Scope, Versioning};

/// The id of the bucket that `owner` makes under this name after having seen `last_delete` as the last deletion
/// of a bucket of that name.
pub fn incarnation(name: &str, owner: &str, last_delete: Option<Dot>) -> BucketId {
    let mut hasher = blake3::Hasher::new();
    for text in [name, owner] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    if let Some(dot) = last_delete {
        hasher.update(&dot.to_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    BucketId(id)
}

/// Settings of a bucket; part of its claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketConfig {
    /// Whether writes keep older versions.
    pub versioning: Versioning,
    /// Copies of the payload at distinct sites.
    pub copies: u8,
    /// How far a write must be durable before it is acknowledged, as every release knows it ([`Self::ack_scope`]).
    pub scope: Scope,
    /// Acknowledge though the scope was not reached.
    pub accept_less: bool,
    /// What feeds carry beside records.
    pub follow: Follow,
    /// When a site becomes a member.
    pub join: Join,
    /// What a miss does at a member that is behind.
    pub miss: Miss,
    /// Where plain writes are accepted.
    pub writes: Writes,
    /// Of releases before homes were named by documents of their own; not used any more.
    pub home: Option<(SiteId, u64)>,
    /// Reliability over a period, in parts of a million that may be lost; none for copies only.
    pub loss_ppm: Option<u32>,
    /// Sites that may hold copies; empty for all.
    pub residency: Vec<SiteId>,
    /// Chunks are stored plain: readable without keys.
    pub public: bool,
    /// Settings of later releases and tags, by name.
    pub more: Vec<(String, String)>,
}

/// When a site becomes a member of a bucket, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Joins {
    /// On the first read when the records are few.
    OnRead,
    /// On the first read.
    Always,
    /// By command or by a write only.
    Manual,
    /// Not at all: writes go to a member.
    Never,
}

impl Joins {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::OnRead, "on-read"),
        (Self::Always, "always"),
        (Self::Manual, "manual"),
        (Self::Never, "never"),
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnRead => "on-read",
            Self::Always => "always",
            Self::Manual => "manual",
            Self::Never => "never",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(joins, _)| *joins)
    }
}

/// The name among [`BucketConfig::more`] under which stands what a client called the bucket's place.
const LOCATION: &str = "location";

/// The setting among [`BucketConfig::more`] that releases before it take for `manual`.
const NEVER: (&str, &str) = ("join", "never");

impl BucketConfig {
    /// When a site becomes a member.
    pub fn joins(&self) -> Joins {
        let never = self.more.iter().any(|(name, value)| (name.as_str(), value.as_str()) == NEVER);
        match self.join {
            _ if never => Joins::Never,
            Join::WhenFew => Joins::OnRead,
            Join::Always => Joins::Always,
            Join::Asked => Joins::Manual,
        }
    }

    /// What the client that made it called its place (`LocationConstraint`); it means nothing here.
    pub fn location(&self) -> Option<&str> {
        self.more.iter().find(|(name, _)| name == LOCATION).map(|(_, value)| value.as_str())
    }

    /// Keeps what a client calls its place.
    pub fn set_location(&mut self, location: Option<String>) {
        self.more.retain(|(name, _)| name != LOCATION);
        self.more.extend(location.map(|location| (LOCATION.into(), location)));
    }

    /// Says when.
    pub fn set_joins(&mut self, joins: Joins) {
        self.more.retain(|(name, _)| name != NEVER.0);
        self.join = match joins {
            Joins::OnRead => Join::WhenFew,
            Joins::Always => Join::Always,
            Joins::Manual | Joins::Never => Join::Asked,
        };
        if joins == Joins::Never {
            self.more.push((NEVER.0.into(), NEVER.1.into()));
        }
    }
}

impl Default for BucketConfig {
    fn default() -> Self {
        Self {
            versioning: Versioning::Off,
            copies: 2,
            scope: Scope::Site,
            accept_less: false,
            follow: Follow::Records,
            join: Join::WhenFew,
            miss: Miss::Ask,
            writes: Writes::Anywhere,
            home: None,
            loss_ppm: None,
            residency: Vec::new(),
            public: false,
            more: Vec::new(),
        }
    }
}

/// What a feed carries beside records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Follow {
    /// Records, and bodies of at most `limits::FEED_BODY_BYTES`.
    #[default]
    Records,
    /// Bodies that lie in the journal too.
    Small,
    /// All payload.
    All,
}

/// When a site becomes a member of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Join {
    /// On the first read when the records are few, else by repeated use.
    #[default]
    WhenFew,
    /// On the first read.
    Always,
    /// By command or by a write only.
    Asked,
}

/// What a read of an unknown key does at a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Miss {
    /// Ask on while the vector is known to be behind.
    #[default]
    Ask,
    /// Answer from what is here.
    Local,
}

/// Where plain writes are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Writes {
    /// At every site.
    #[default]
    Anywhere,
    /// At the home only.
    Home,
}

#[cfg(test)]
mod tests;
