//! The JSON shapes of `/_skerry/v1/sites…`: the sites of the federation as one of them knows them.
//!
//! Invariants: as everywhere in administration: every answer carries `version`; fields are added, never changed;
//! unknown fields of a request are refused.

use serde::{Deserialize, Serialize};

/// How the register of names is called among the homes of a site: no bucket has this name.
pub const REGISTER: &str = "(names)";

/// A site as the one that is asked knows it: what its records say, what its links show.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SiteStatus {
    /// Shape version.
    pub version: u32,
    /// Site id: stays whatever the site is called and wherever it is.
    pub site: String,
    /// Site name.
    pub name: String,
    /// `member`, `expelled` or `replaced`.
    pub state: String,
    /// Name of the site that took its place, if one did.
    #[serde(default)]
    pub replaced_by: String,
    /// When it was declared lost, in milliseconds since 1970; none if it is not lost.
    #[serde(default)]
    pub lost_ms: Option<u64>,
    /// Whether it is the site that answers.
    pub here: bool,
    /// `this` (the site that answers), `alive`, `suspect`, `down`, `lost`, `unknown`, or `refused` for one that belongs no more.
    pub link: String,
    /// Where it is dialled, best first.
    pub addresses: Vec<String>,
    /// The area that it stands in; empty for none.
    #[serde(default)]
    pub area: String,
    /// When it was admitted, in milliseconds since 1970.
    pub joined_ms: u64,
    /// Round-trip time, if there is a link.
    pub rtt_ms: Option<f64>,
    /// How long ago it was heard, if ever.
    pub heard_ms: Option<u64>,
    /// Records of the answering site that it is not known to have.
    pub unsent_records: u64,
    /// Bytes of them.
    pub unsent_bytes: u64,
    /// Names of the buckets whose conditions it decides; [`REGISTER`] if it keeps the register of names.
    pub homes: Vec<String>,
    /// What it is there for: `serves`, `frozen`, `draining`, or `empty` once all that it held is elsewhere.
    #[serde(default)]
    pub duty: String,
    /// Counts the words of operators about it; 0 if there was none.
    #[serde(default)]
    pub duty_epoch: u64,
    /// Whether it has heard the last word, as far as is known here.
    #[serde(default)]
    pub duty_heard: bool,
    /// What a site that is being emptied said last of what only it holds.
    #[serde(default)]
    pub drain: Option<DrainStatus>,
    /// Of a site that was replaced: how far the site that answers is with taking its place; none at the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryStatus>,
}

/// A place that the site takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replacing {
    /// Id of the gone site.
    pub site: String,
    /// What it was called.
    pub name: String,
    /// How far it is.
    pub recovery: RecoveryStatus,
}

/// How far a site is that takes the place of a gone one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecoveryStatus {
    /// Every bucket that the gone one was in is here with all that any other site had when it answered, or is named below.
    pub done: bool,
    /// When that was so, in milliseconds since 1970.
    pub done_ms: Option<u64>,
    /// Homes of the gone one that were given to this site or others.
    pub homes_moved: u64,
    /// Of so many.
    pub homes: u64,
    /// Why the others wait; empty if none does.
    pub homes_wait: String,
    /// Buckets that need nothing more.
    pub buckets_complete: u64,
    /// Of so many that are known.
    pub buckets: u64,
    /// Records that others have and this site has not, as far as is known.
    pub missing_records: u64,
    /// Their bytes, by the mean of the records that are here.
    pub missing_bytes: u64,
    /// When all will be here at the rate so far, in milliseconds since 1970; none while there is no rate.
    pub ends_ms: Option<u64>,
    /// What it waits for: sites that have not answered, each with the reason, or what keeps this one from going on.
    pub waits_for: Vec<String>,
    /// Buckets that may not be followed here, by residency, by `join = never` or by an operator's word at this site.
    pub refused: Vec<String>,
    /// Buckets of which nobody else has records: what only the gone one had is lost.
    pub lost: Vec<String>,
}

/// `POST sites/{name}/replace`: an operator's word that a site is gone for ever, and who takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceRequest {
    /// Name or id of the site that takes it.
    pub by: String,
    /// It keeps its own name.
    #[serde(default)]
    pub keep_name: bool,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReplacedSite {
    /// Shape version.
    pub version: u32,
    /// The site that is gone; its homes that wait are those that it still has.
    pub site: SiteStatus,
    /// The site that takes its place.
    pub by: SiteStatus,
    /// Why that one is not called as the gone one was; empty if it is, or is not to be.
    pub name_kept: String,
    /// Why homes wait; empty if none does.
    pub homes_wait: String,
    /// Access keys that work and whose secrets the gone one could open.
    pub exposed_keys: Vec<String>,
}

/// How far a site is that is being emptied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DrainStatus {
    /// Records that no other site was known to have.
    pub records: u64,
    /// Versions whose body no other site was known to hold.
    pub bodies: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Buckets whose conditions it still decided.
    pub homes: u64,
    /// Uploads that nobody completed.
    pub uploads: u64,
    /// When it will be empty, in milliseconds since 1970, if that can be told.
    pub ends_ms: Option<u64>,
    /// What holds it up; empty if nothing does.
    pub waits_for: String,
    /// When it said so, in milliseconds since 1970.
    pub said_ms: u64,
}

/// `POST sites/{name}/duty`: an operator's word about a site, said at any site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DutyRequest {
    /// `serve`, `freeze` or `drain`.
    pub duty: String,
    /// With `drain`: uploads that nobody completed may be lost with the site.
    #[serde(default)]
    pub abandon_uploads: bool,
}

/// `POST sites/{name}/name`: another name. Only at a site that holds an admin key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameRequest {
    /// The new one.
    pub name: String,
}

/// `POST sites/{name}/address`: where it is dialled, beside what it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressRequest {
    /// `host:port`, best first; none takes back what was said before.
    pub addresses: Vec<String>,
}

/// `POST sites/{name}/area`: the area that it stands in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaRequest {
    /// Its name; empty for none.
    pub area: String,
}

/// What an area has of a bucket that wants copies there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AreaCopies {
    /// The bucket's name; empty where it is clear.
    #[serde(default)]
    pub bucket: String,
    /// The area.
    pub area: String,
    /// Copies wanted there.
    pub copies: u64,
    /// Sites there that may hold one. With fewer than copies wanted everything lacks some.
    pub sites: u64,
    /// Versions that lack copies there and are the asked site's to see to.
    pub lacking_versions: u64,
    /// Bytes of them.
    pub lacking_bytes: u64,
}

/// `POST sites/{name}/expel`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpelRequest {}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Expelled {
    /// Shape version.
    pub version: u32,
    /// The site as it is known now; what it is still home of is to be given to others.
    pub site: SiteStatus,
    /// Access keys that work and whose secrets it could open.
    pub exposed_keys: Vec<String>,
}

/// `GET sites`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SiteList {
    /// Shape version.
    pub version: u32,
    /// By name; those that belong no more too.
    pub sites: Vec<SiteStatus>,
}
