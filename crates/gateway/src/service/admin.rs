//! Administration: the JSON shapes of `/_skerry/v1/…` and the trait behind them.
//!
//! Invariants: every answer carries `version`; fields are added, never changed; unknown ones of a request are refused.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    AddressRequest, AreaCopies, AreaRequest, AreasReport, DutyRequest, ExpelRequest, Expelled, FollowRequest,
    FollowedPrefix, HomeRequest, HomeState, JoinRequest, JoiningBucket, LinkRequest, LinkState, LossPage,
    LossQuery, LossRequest, LossState, MembershipState, NodesReport, OthersStatus, Outcome, PinList,
    PinRequest, PinStatus, RenameRequest, ReplaceRequest, ReplacedSite, Replacing, SeatRequest, ServiceError,
    SiteList, SiteStatus, SpaceQuery, SpaceReport, UplinkRequest, UplinkState,
};

/// The version of all shapes here.
pub const VERSION: u32 = 1;

/// Whether the node can serve; never depends on other sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Shape version.
    pub version: u32,
    /// Whether requests are served.
    pub ready: bool,
    /// Why not, or `serving`.
    pub reason: String,
}

/// `GET status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Shape version.
    pub version: u32,
    /// The release that runs.
    pub release: String,
    /// The commit that it was built from; empty if that is not known.
    #[serde(default)]
    pub commit: String,
    /// Site id.
    pub site: String,
    /// Site name.
    pub site_name: String,
    /// Node id.
    pub node: String,
    /// Seconds since start.
    pub uptime_seconds: u64,
    /// Whether the links of this site are cut by `link cut`.
    pub cut: bool,
    /// Whether the wall clock was synchronised since boot.
    pub clock_trusted: bool,
    /// What its machine does not give to links, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_lack: Option<String>,
    /// The other sites by name.
    pub peers: Vec<PeerStatus>,
    /// The disk.
    pub storage: StorageStatus,
    /// Buckets known.
    pub buckets: u64,
    /// Conflicts kept.
    pub conflicts: u64,
    /// Bytes that die if one site burns now: of what this site sees to, and asks for copies, what one only is known to hold.
    #[serde(default)]
    pub unprotected_bytes: u64,
    /// Of them those that no place is known to have: what is here of them does not read whole, or who may have them is away.
    #[serde(default)]
    pub nowhere_bytes: u64,
    /// Buckets whose records cannot be read here: all that they store counts as unprotected, and they get no copies from here.
    #[serde(default)]
    pub unread_buckets: Vec<String>,
    /// Buckets with one copy of which this site is a member: not counted there.
    #[serde(default)]
    pub single_copy_buckets: u64,
    /// Prefixes that it follows without being a member of their buckets.
    #[serde(default)]
    pub followed_prefixes: u64,
    /// Those of which more may be elsewhere.
    #[serde(default)]
    pub followed_behind: u64,
    /// Copies too many at this site: what it holds beyond what its buckets want, and is to let go of.
    #[serde(default)]
    pub surplus: SurplusStatus,
    /// What it holds for other sites.
    #[serde(default)]
    pub others: OthersStatus,
    /// Sites that take no more copies from this one: each holds as much for others as it is to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_cap: Vec<String>,
    /// Areas that lack copies of what this site is to see to, or have too few sites for them.
    #[serde(default)]
    pub areas: Vec<AreaCopies>,
    /// What this site is there for: `serves`, `frozen`, `draining` or `empty`.
    #[serde(default)]
    pub duty: String,
    /// Whether this process runs beside another with the same key that the others keep: it takes no writes.
    #[serde(default)]
    pub copied: bool,
    /// Whether others said that this site was expelled or replaced: it takes no writes.
    #[serde(default)]
    pub gone: bool,
    /// How long ago another site turned away another process with this site's key; none if none did lately.
    #[serde(default)]
    pub copy_ms: Option<u64>,
    /// Sites whose place this one takes, and how far that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacing: Vec<Replacing>,
    /// Buckets that it follows, and of which nobody is there who has all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joining: Vec<JoiningBucket>,
    /// What it takes anew because part of its journal is lost; none where all is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<AnewStatus>,
    /// The nodes of this site; none where it is one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesReport>,
}

/// What a site that lost part of its journal has not heard yet from all others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnewStatus {
    /// Buckets of which it has not: it decides no condition in them.
    pub buckets: u64,
    /// Whether that is so of names, homes, keys and sites: then it decides none at all.
    pub names: bool,
    /// Sites that have not said what they have, or have more than is here; those that are not linked say so.
    pub waits: Vec<String>,
    /// How many more.
    pub more: u64,
}

/// Copies too many.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SurplusStatus {
    /// Versions here of which enough other sites hold a copy, as the last look found them; small bodies are not counted.
    pub versions: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Why they are still here; empty if there are none.
    #[serde(default)]
    pub reason: String,
    /// Versions that were let go of since the start.
    pub released_versions: u64,
    /// Bytes of them.
    pub released_bytes: u64,
}

/// Another site as this one sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Site id.
    pub site: String,
    /// Site name.
    pub name: String,
    /// `alive`, `suspect`, `down`, `unknown`, `refuses` (this site's key), `copied` (it keeps another process with this
    /// site's key), or `lost`: declared so, and not there.
    pub state: String,
    /// Where it is dialled.
    pub addresses: Vec<String>,
    /// Round-trip time, if known.
    pub rtt_ms: Option<f64>,
    /// The site that carries the link to it; none if the link is direct, or there is none.
    #[serde(default)]
    pub via: Option<String>,
    /// Sites between this one and it.
    #[serde(default)]
    pub hops: u8,
    /// TCP connections to it: one is its link, others stand beside that while much is under way over a far line.
    #[serde(default)]
    pub connections: u32,
    /// How long ago it was heard, if ever.
    pub heard_ms: Option<u64>,
    /// By how much its records lag here, if known.
    pub lag_ms: Option<u64>,
    /// Records of ours that it is not known to have.
    pub unsent_records: u64,
    /// Bytes of them.
    pub unsent_bytes: u64,
    /// When it was declared lost, in milliseconds since 1970; none if it is not lost.
    #[serde(default)]
    pub lost_ms: Option<u64>,
    /// It is lost, and nothing of its disk had been heard where that was said: nobody can tell whether it is back with it.
    #[serde(default)]
    pub disk_unheard: bool,
    /// How long ago this site turned away another process with its key; none if it did not lately.
    #[serde(default)]
    pub copy_ms: Option<u64>,
    /// What it is there for: `serves`, `frozen`, `draining` or `empty`.
    #[serde(default)]
    pub duty: String,
}

/// The disk of this node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StorageStatus {
    /// Bytes of journal segments.
    pub journal_bytes: u64,
    /// Bytes of payload segments.
    pub payload_bytes: u64,
    /// Bytes of cache segments.
    pub cache_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes in use by what lives.
    pub live_bytes: u64,
    /// Bytes free on the device.
    pub free_bytes: u64,
    /// Whether writes are refused for want of space.
    pub full: bool,
    /// Chunks found damaged and not mended yet; a release before they were counted says nothing.
    #[serde(default)]
    pub damaged_chunks: u64,
    /// Journal segments that the last scrub found damaged.
    #[serde(default)]
    pub damaged_segments: u64,
    /// Chunks that were found damaged since the store was made, by the scrub or by a read, and mended.
    #[serde(default)]
    pub mended_chunks: u64,
    /// Payload segments that are kept, with all that is dead in them, because the disk could not read a part of them.
    #[serde(default)]
    pub unread_segments: u64,
    /// Whether part of the index does not read: keys in it are answered by errors until the site is started anew, which builds the
    /// index again.
    #[serde(default)]
    pub damaged_index: bool,
    /// Seconds for which the disk has not answered a sync, where that is half a minute or more: nothing that is written is
    /// acknowledged meanwhile.
    #[serde(default)]
    pub sync_waits_seconds: u64,
    /// Conditional writes with their bodies here of which it is not known whether their bucket's home decided them: these are kept
    /// until it is.
    #[serde(default)]
    pub undecided_writes: u64,
    /// Bytes of their bodies.
    #[serde(default)]
    pub undecided_bytes: u64,
    /// Sites that are waited for, by name.
    #[serde(default)]
    pub undecided_at: Vec<String>,
    /// Whether plain writes are answered before they are on disk (`storage.sync = os`).
    #[serde(default)]
    pub lazy: bool,
    /// Bytes that were answered so and are not there yet: what a power cut would lose now.
    #[serde(default)]
    pub unsynced_bytes: u64,
}

/// `POST scrub`: what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// Rests until told otherwise, or goes on.
    #[serde(default)]
    pub pause: Option<bool>,
    /// Begins a round now, unless one is under way.
    #[serde(default)]
    pub begin: bool,
}

/// `GET scrub`, and what `POST scrub` answers: reading everything again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Shape version.
    pub version: u32,
    /// Whether it rests until told otherwise.
    pub paused: bool,
    /// Whether a round is under way.
    pub running: bool,
    /// Rounds begun.
    pub round: u64,
    /// When the last one began, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// When the last one ended.
    pub finished_ms: Option<u64>,
    /// Chunks read in the last round.
    pub chunks: u64,
    /// Bytes read in the last round.
    pub bytes: u64,
    /// Damaged chunks found since the store was made.
    pub found: u64,
    /// Of them mended.
    pub mended: u64,
    /// Those that are damaged still.
    pub damaged_chunks: u64,
    /// Which, each with what is wrong; not all of very many.
    pub damaged: Vec<String>,
    /// Journal segments that the last round found damaged.
    pub damaged_segments: Vec<u32>,
}

/// `GET conflicts`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConflictQuery {
    /// Only of this bucket.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Go on after this `next`.
    #[serde(default)]
    pub after: Option<String>,
    /// At most so many; 1000 by default.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Being listed does not count as seen this time.
    #[serde(default)]
    pub unseen: bool,
}

/// One version that lost against a concurrent one and is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version that lost: readable by this version id.
    pub version_id: String,
    /// Where it was written.
    pub site: String,
    /// By which access key.
    pub writer: String,
    /// When, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Its size.
    pub size: u64,
    /// Its ETag.
    pub etag: String,
    /// Whether it is a delete.
    pub delete: bool,
    /// The version that won, if the key has one.
    pub winner: Option<String>,
}

/// A page of conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictPage {
    /// Shape version.
    pub version: u32,
    /// By bucket, key and version.
    pub conflicts: Vec<Conflict>,
    /// Give it as `after` for the next page.
    pub next: Option<String>,
    /// Buckets that appear under another name than theirs, on the first page.
    #[serde(default)]
    pub names: Vec<NameConflict>,
}

/// A bucket whose name another one keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameConflict {
    /// The name that both claimed.
    pub name: String,
    /// The name under which this one appears.
    pub appears_as: String,
    /// Its id.
    pub bucket: String,
    /// Whom it belongs to.
    pub owner: String,
    /// Where it was made.
    pub site: String,
    /// When, in milliseconds since 1970.
    pub created_ms: u64,
}

/// `GET conflict`: one key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConflictKey {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Being shown does not count as seen this time.
    #[serde(default)]
    pub unseen: bool,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictDetail {
    /// Shape version.
    pub version: u32,
    /// What a read gets.
    pub current: Option<Conflict>,
    /// What lost, best first.
    pub losers: Vec<Conflict>,
    /// How many more lost than are listed.
    pub more: u32,
}

/// `POST conflict`: ends it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConflictEnd {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version that shall be current; absent: the one that is.
    #[serde(default)]
    pub keep: Option<String>,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConflictEnded {
    /// Shape version.
    pub version: u32,
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version that was chosen.
    pub kept: String,
    /// Versions that are erased; in a bucket with versioning they stay as older versions.
    pub erased: Vec<String>,
}

/// `POST invites`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// Name of the site that will join.
    pub site: String,
    /// Seconds it is good for; a day by default.
    #[serde(default)]
    pub expires_seconds: Option<u64>,
    /// The seat that it is to fill, if it is a further node of a site that is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<SeatRequest>,
}

/// What `POST invites` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// Shape version.
    pub version: u32,
    /// Goes to `skerry join`, once.
    pub token: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: u64,
    /// Whether an earlier one of the same name, not used yet, is good no more.
    #[serde(default)]
    pub took_back: bool,
}

/// An access key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatus {
    /// Shape version.
    pub version: u32,
    /// The access key id.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whom it belongs to.
    pub owner: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether it may sign.
    pub enabled: bool,
    /// Names of sites that were expelled or replaced and may know its secret, at most 16 and how many more: make another one, and
    /// disable this.
    #[serde(default)]
    pub known_to: Vec<String>,
}

/// `GET keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyList {
    /// Shape version.
    pub version: u32,
    /// By id.
    pub keys: Vec<KeyStatus>,
}

/// `POST keys`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// What to call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Whom it belongs to; the first owner by default.
    #[serde(default)]
    pub owner: Option<String>,
}

/// What `POST keys` answers: the only time the secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreated {
    /// The key.
    #[serde(flatten)]
    pub key: KeyStatus,
    /// Its secret.
    pub secret: String,
}

impl core::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyCreated").field("key", &self.key).finish_non_exhaustive()
    }
}

/// `POST buckets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketCreate {
    /// The name.
    pub name: String,
    /// Whom it belongs to; the first owner by default.
    #[serde(default)]
    pub owner: Option<String>,
    /// Asks the register of names first, so that no island can have the same name; refused if it cannot be asked.
    #[serde(default)]
    pub unique: bool,
    /// Copies wanted at distinct sites.
    #[serde(default)]
    pub copies: Option<u32>,
    /// The same with areas, as `2 in oslo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies_in: Option<String>,
}

/// A bucket with its settings and figures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BucketStatus {
    /// Shape version.
    pub version: u32,
    /// The name here.
    pub name: String,
    /// The bucket's id.
    pub id: String,
    /// Whom it belongs to.
    pub owner: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// `off`, `enabled` or `suspended`.
    pub versioning: String,
    /// The default acknowledgement scope of its writes.
    pub ack_scope: String,
    /// Copies wanted at distinct sites.
    pub copies: u32,
    /// Copies wanted in areas, as `1 in each area, 2 in oslo`; empty for none.
    #[serde(default)]
    pub copies_in: String,
    /// The area that its payload is to move to; empty for none.
    #[serde(default)]
    pub lives_in: String,
    /// What these areas have of it, as far as the site that is asked is to see to it.
    #[serde(default)]
    pub areas: Vec<AreaCopies>,
    /// Copies too many at the site that is asked: what it is to let go of.
    #[serde(default)]
    pub surplus: SurplusStatus,
    /// `records`, `small` or `all`: what members take along with the records.
    pub follow: String,
    /// Names of the sites where its payload may lie, cached copies too; empty for all.
    #[serde(default)]
    pub residency: Vec<String>,
    /// `ask` or `local`: what a read of an unknown key does at a member that is behind.
    #[serde(default)]
    pub miss: String,
    /// Current objects known here.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of what this site sees to that one site only is known to hold; 0 if the bucket wants one copy only.
    pub unprotected_bytes: u64,
    /// Conflicts kept.
    pub conflicts: u64,
    /// Names of the member sites known.
    pub members: Vec<String>,
    /// Name of the site that decides conditions; empty while none is named.
    #[serde(default)]
    pub home: String,
    /// Counts the homes it had; 0 while none is named.
    #[serde(default)]
    pub home_epoch: u64,
    /// Name of the site that is to be the next home, while it is on its way there; else empty.
    #[serde(default)]
    pub home_heir: String,
    /// `on-read`, `always`, `manual` or `never`: when a read makes a site a member.
    #[serde(default)]
    pub join: String,
    /// The same as said for this site alone; empty if it was not.
    #[serde(default)]
    pub join_here: String,
    /// What of it is pinned here, and how far that is.
    #[serde(default)]
    pub pins: Vec<PinStatus>,
    /// What this site is to it: `member`, `joining`, `leaving` or `none`.
    #[serde(default)]
    pub standing: String,
    /// Prefixes of it that this site follows without being a member.
    #[serde(default)]
    pub prefixes: Vec<FollowedPrefix>,
}

/// `GET buckets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketList {
    /// Shape version.
    pub version: u32,
    /// By name.
    pub buckets: Vec<BucketStatus>,
}

/// `PATCH buckets/{name}`: what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketPatch {
    /// `enabled` or `suspended`.
    #[serde(default)]
    pub versioning: Option<String>,
    /// The default acknowledgement scope of writes.
    #[serde(default)]
    pub ack_scope: Option<String>,
    /// Copies wanted at distinct sites; alone it asks nothing of areas.
    #[serde(default)]
    pub copies: Option<u32>,
    /// The same with areas, as `2 in oslo`, `1 in each area` or `3, 1 in oslo, 1 in bergen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies_in: Option<String>,
    /// The area that its payload is to move to; `all` or nothing for everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lives_in: Option<String>,
    /// `records`, `small` or `all`.
    #[serde(default)]
    pub follow: Option<String>,
    /// Names of the sites where its payload may lie, cached copies too; empty for all.
    #[serde(default)]
    pub residency: Option<Vec<String>>,
    /// `ask` or `local`: what a read of an unknown key does at a member that is behind.
    #[serde(default)]
    pub miss: Option<String>,
    /// `on-read`, `always`, `manual` or `never`: when a read makes a site a member.
    #[serde(default)]
    pub join: Option<String>,
}

/// What an operator does. The bearer of the admin token may do all of it.
#[async_trait]
pub trait AdminService: Send + Sync + 'static {
    /// Whether the node can serve; must not wait for another site.
    async fn ready(&self) -> Readiness;
    /// The state of this site and what it knows of others.
    async fn status(&self) -> Outcome<StatusReport>;
    /// All sites ever admitted, as this one knows them.
    async fn sites(&self) -> Outcome<SiteList>;
    /// One of them, by name.
    async fn site(&self, name: &str) -> Outcome<SiteStatus>;
    /// Says what one of them is there for.
    async fn set_duty(&self, name: &str, request: DutyRequest) -> Outcome<SiteStatus>;
    /// Gives one of them another name.
    async fn rename_site(&self, name: &str, request: RenameRequest) -> Outcome<SiteStatus>;
    /// Says where one of them is dialled.
    async fn set_address(&self, name: &str, request: AddressRequest) -> Outcome<SiteStatus>;
    /// Says which area one of them stands in.
    async fn set_area(&self, name: &str, request: AreaRequest) -> Outcome<SiteStatus>;
    /// Expels one of them for ever.
    async fn expel(&self, name: &str, request: ExpelRequest) -> Outcome<Expelled>;
    /// Has another site take the place of one that is gone for ever.
    async fn replace(&self, name: &str, request: ReplaceRequest) -> Outcome<ReplacedSite>;
    /// How this site finds others.
    async fn areas(&self) -> Outcome<AreasReport>;
    /// Where the disk went.
    async fn space(&self, query: SpaceQuery) -> Outcome<SpaceReport>;
    /// How far the scrub is and what it found.
    async fn scrub(&self) -> Outcome<ScrubReport>;
    /// Pauses the scrub, lets it go on, begins a round.
    async fn set_scrub(&self, request: ScrubRequest) -> Outcome<ScrubReport>;
    /// Cuts or heals the links of this site.
    async fn set_link(&self, request: LinkRequest) -> Outcome<LinkState>;
    /// How the uplink of this site stands.
    async fn uplink(&self) -> Outcome<UplinkState>;
    /// Sets or lifts its budget.
    async fn set_uplink(&self, request: UplinkRequest) -> Outcome<UplinkState>;
    /// Lists conflicts; being listed counts as seen.
    async fn conflicts(&self, query: ConflictQuery) -> Outcome<ConflictPage>;
    /// One conflict; being shown counts as seen.
    async fn conflict(&self, key: ConflictKey) -> Outcome<ConflictDetail>;
    /// Ends a conflict: one version stays.
    async fn end_conflict(&self, request: ConflictEnd) -> Outcome<ConflictEnded>;
    /// What was said of a site's disks.
    async fn loss(&self, site: &str) -> Outcome<LossState>;
    /// Declares a site lost, or found.
    async fn declare_loss(&self, site: &str, request: LossRequest) -> Outcome<LossState>;
    /// What has its only copy at a site, page by page.
    async fn only_at(&self, site: &str, query: LossQuery) -> Outcome<LossPage>;
    /// Makes a one-time token for a new site.
    async fn invite(&self, request: InviteRequest) -> Outcome<Invite>;
    /// All access keys.
    async fn keys(&self) -> Outcome<KeyList>;
    /// Makes an access key.
    async fn create_key(&self, request: KeyCreate) -> Outcome<KeyCreated>;
    /// Disables an access key, everywhere it is heard.
    async fn disable_key(&self, id: &str) -> Outcome<KeyStatus>;
    /// All buckets known here.
    async fn buckets(&self) -> Outcome<BucketList>;
    /// Makes a bucket.
    async fn create_bucket(&self, request: BucketCreate) -> Outcome<BucketStatus>;
    /// One bucket.
    async fn bucket(&self, name: &str) -> Outcome<BucketStatus>;
    /// Moves a bucket's home, or replaces a lost one.
    async fn move_home(&self, name: &str, request: HomeRequest) -> Outcome<HomeState>;
    /// Moves the register of names, or replaces a lost one.
    async fn move_register(&self, request: HomeRequest) -> Outcome<HomeState>;
    /// Changes its settings.
    async fn update_bucket(&self, name: &str, patch: BucketPatch) -> Outcome<BucketStatus>;
    /// This site becomes a member of a bucket, or says when it does. A single site need not.
    async fn join_bucket(&self, _name: &str, _request: JoinRequest) -> Outcome<MembershipState> {
        Err(ServiceError::not_implemented("memberships of a single site"))
    }
    /// What is pinned here, and how far it is.
    async fn pins(&self) -> Outcome<PinList> {
        Err(ServiceError::not_implemented("pins of a single site"))
    }
    /// Pins, unpins or prefetches below a prefix.
    async fn set_pin(&self, _request: PinRequest) -> Outcome<PinList> {
        Err(ServiceError::not_implemented("pins of a single site"))
    }
    /// This site leaves a bucket once others have all that it holds.
    async fn leave_bucket(&self, _name: &str) -> Outcome<MembershipState> {
        Err(ServiceError::not_implemented("memberships of a single site"))
    }
    /// This site follows keys below a prefix of a bucket, or ends that.
    async fn follow_prefix(&self, _name: &str, _request: FollowRequest) -> Outcome<MembershipState> {
        Err(ServiceError::not_implemented("memberships of a single site"))
    }
    /// What this site is to a bucket.
    async fn membership(&self, _name: &str) -> Outcome<MembershipState> {
        Err(ServiceError::not_implemented("memberships of a single site"))
    }
}
