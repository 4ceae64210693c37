//! Claims: which bucket a name means.
//!
//! A name is kept by the earliest living claim; later ones of concurrent sites appear as `name--site`. Deleting
//! a bucket is a claim that says so and what of the bucket had been seen; a write that it had not seen makes
//! the bucket visible again, and the member that notices writes the claim anew.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::name::{NameError, check_name};
use skerry_base::{BucketId, Dot, SiteId, Vector, WallTime};

use super::home::{HomeDocument, home};
use super::name::SITE_SEPARATOR;
use super::seen::{self, Blocks, Seen};
use super::spare;
use super::system::{SystemKey, document, document_object, each_document};
use super::{BucketConfig, incarnation};
use crate::merge::Rank;
use crate::object::Object;
use crate::record::Versioning;
use crate::space::{self, Cursor, SpaceError};

/// A claim on a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimDocument {
    /// The name.
    pub name: String,
    /// The incarnation.
    pub bucket: BucketId,
    /// Whose it is.
    pub owner: String,
    /// When it was claimed first. The earliest keeps the name.
    pub created: WallTime,
    /// Where.
    pub site: SiteId,
    /// Name of that site: the suffix of the name under which it appears when another keeps the name.
    pub site_name: String,
    /// Living or deleted.
    pub state: ClaimState,
    /// How often a write that a deletion had not seen brought it back.
    pub revived: u32,
    /// Settings.
    pub config: BucketConfig,
}

impl Versioned for ClaimDocument {
    const NAME: &'static str = "claim document";
    const VERSION: u8 = 1;
}

/// Whether the bucket exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimState {
    /// It does.
    Live,
    /// It was deleted when it was empty as far as this had been seen.
    Deleted(Seen),
}

/// A bucket under the name by which it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The name that finds it: the claimed one, or `name--site`.
    pub name: String,
    /// Its claim.
    pub claim: ClaimDocument,
    /// Its home, if one is named.
    pub home: Option<HomeDocument>,
}

/// A claim to be written: `Ask::Put(object)` at `key` of the system bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The bucket claimed.
    pub bucket: BucketId,
    /// Key in the system bucket.
    pub key: String,
    /// What to put there.
    pub object: Object,
    /// To be written before it: what a deletion had seen, as far as the claim has no room for it.
    pub blocks: Blocks,
}

impl Claimed {
    /// A claim as it shall be from now on: also how settings change.
    pub fn new(claim: &ClaimDocument, wall: WallTime) -> Self {
        let key = SystemKey::Claim { name: claim.name.clone(), bucket: claim.bucket };
        let (bucket, object) = (claim.bucket, document_object(claim, wall));
        Self { bucket, key: key.to_string(), object, blocks: Vec::new() }
    }
}

/// Why a bucket is not made or not deleted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClaimRefusal {
    /// `InvalidBucketName`.
    #[error(transparent)]
    Name(#[from] NameError),
    /// `BucketAlreadyOwnedByYou`.
    #[error("you own this bucket already")]
    Yours(Box<Resolved>),
    /// `BucketAlreadyExists`.
    #[error("the name is taken")]
    Taken(Box<Resolved>),
    /// `BucketNotEmpty`.
    #[error("the bucket is not empty")]
    NotEmpty,
    /// The tables could not be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// One current claim, and the record it came in.
struct Found {
    claim: ClaimDocument,
    rank: Rank,
    dot: Dot,
    home: Option<HomeDocument>,
}

fn claims_below(view: &dyn View, system: BucketId, prefix: &str) -> Result<Vec<Found>, SpaceError> {
    let mut found = Vec::new();
    each_document(view, system, prefix, &mut |key, record| {
        if let (SystemKey::Claim { name, bucket }, Some(claim)) = (key, document::<ClaimDocument>(&record)?)
            && claim.name == name
            && claim.bucket == bucket
        {
            let home = home(view, system, bucket)?;
            found.push(Found { claim, rank: Rank::of(&record), dot: record.dot, home });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn claims_on(view: &dyn View, system: BucketId, name: &str) -> Result<Vec<Found>, SpaceError> {
    claims_below(view, system, &format!("claim/{name}/"))
}

/// All claims, living and deleted.
pub(super) fn all_claims(view: &dyn View, system: BucketId) -> Result<Vec<ClaimDocument>, SpaceError> {
    Ok(claims_below(view, system, "claim/")?.into_iter().map(|found| found.claim).collect())
}

/// The claims of one bucket: one, whatever name it has.
pub(super) fn claims_of(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
) -> Result<Vec<ClaimDocument>, SpaceError> {
    Ok(all_claims(view, system)?.into_iter().filter(|claim| claim.bucket == bucket).collect())
}

/// The buckets that are deleted, as far as is known here, and their names.
pub fn deleted_buckets(view: &dyn View, system: BucketId) -> Result<BTreeMap<BucketId, String>, SpaceError> {
    let mut gone: BTreeMap<BucketId, String> = BTreeMap::new();
    each_document(view, system, "claim/", &mut |key, record| {
        if let (SystemKey::Claim { name, bucket }, Some(claim)) = (key, document::<ClaimDocument>(&record)?)
            && claim.state != ClaimState::Live
        {
            gone.insert(bucket, name);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(gone)
}

/// Whether a bucket that was claimed under this name is deleted, as far as is known here.
pub fn is_deleted(
    view: &dyn View,
    system: BucketId,
    name: &str,
    bucket: BucketId,
) -> Result<bool, SpaceError> {
    let found = claims_on(view, system, name)?.into_iter().find(|found| found.claim.bucket == bucket);
    Ok(found.is_some_and(|found| found.claim.state != ClaimState::Live))
}

/// The living claims on one name with the names that find them, the keeper first: one that asked the register before
/// it was made, else the earliest. None has a name that is claimed as such: there another bucket is found, and this one would
/// be nowhere.
fn named(view: &dyn View, system: BucketId, found: Vec<Found>) -> Result<Vec<Resolved>, SpaceError> {
    let mut live: Vec<Found> =
        found.into_iter().filter(|found| found.claim.state == ClaimState::Live).collect();
    let unique = |found: &Found| found.home.as_ref().is_some_and(|home| home.unique);
    live.sort_by_key(|found| (!unique(found), found.claim.created, found.claim.bucket));
    let mut named: Vec<Resolved> = Vec::new();
    for Found { claim, home, .. } in live {
        let with_site = [&claim.name, SITE_SEPARATOR, &claim.site_name].concat();
        let with_id = format!("{with_site}{SITE_SEPARATOR}{}", claim.bucket);
        let mut name = claim.bucket.to_string();
        for wish in [claim.name.clone(), with_site, with_id] {
            let shown = named.iter().any(|other| other.name == wish);
            if !shown && (wish == claim.name || !is_claimed(view, system, &wish)?) {
                name = wish;
                break;
            }
        }
        named.push(Resolved { name, claim, home });
    }
    Ok(named)
}

/// Whether a living bucket was claimed under just this name.
fn is_claimed(view: &dyn View, system: BucketId, name: &str) -> Result<bool, SpaceError> {
    Ok(claims_on(view, system, name)?.iter().any(|found| found.claim.state == ClaimState::Live))
}

/// The bucket that a name finds: the keeper of the name, else the one that appears under it.
pub fn resolve(view: &dyn View, system: BucketId, name: &str) -> Result<Option<Resolved>, SpaceError> {
    let mut base = name;
    loop {
        let named = named(view, system, claims_on(view, system, base)?)?;
        if let Some(found) = named.into_iter().find(|resolved| resolved.name == name) {
            return Ok(Some(found));
        }
        match base.rsplit_once(SITE_SEPARATOR) {
            Some((shorter, _)) => base = shorter,
            None => return Ok(None),
        }
    }
}

/// All buckets, each under a name of its own.
pub fn all_buckets(view: &dyn View, system: BucketId) -> Result<Vec<Resolved>, SpaceError> {
    let mut by_name: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for found in claims_below(view, system, "claim/")? {
        by_name.entry(found.claim.name.clone()).or_default().push(found);
    }
    let mut buckets = Vec::new();
    for found in by_name.into_values() {
        buckets.append(&mut named(view, system, found)?);
    }
    Ok(buckets)
}

/// All buckets, or one owner's, by name.
pub fn list_buckets(
    view: &dyn View,
    system: BucketId,
    owner: Option<&str>,
) -> Result<Vec<Resolved>, SpaceError> {
    let mut buckets = all_buckets(view, system)?;
    buckets.retain(|found| owner.is_none_or(|owner| found.claim.owner == owner));
    buckets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(buckets)
}

/// A bucket that is asked for.
#[derive(Debug, Clone)]
pub struct NewBucket<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose it shall be.
    pub owner: &'a str,
    /// Where it is claimed.
    pub site: SiteId,
    /// Name of that site.
    pub site_name: &'a str,
    /// Settings.
    pub config: BucketConfig,
}

/// A new bucket: its id, and the claim to write. Names reserved for a site are the caller's to refuse
/// ([`super::reserved_for`]): it knows the roster.
pub fn claim(
    view: &dyn View,
    system: BucketId,
    new: NewBucket<'_>,
    wall: WallTime,
) -> Result<Claimed, ClaimRefusal> {
    Ok(Claimed::new(&new_claim(view, system, new, wall)?, wall))
}

/// The same, not written yet.
pub fn new_claim(
    view: &dyn View,
    system: BucketId,
    new: NewBucket<'_>,
    wall: WallTime,
) -> Result<ClaimDocument, ClaimRefusal> {
    check_name(new.name)?;
    if let Some(resolved) = resolve(view, system, new.name)? {
        let yours = resolved.claim.owner == new.owner;
        let resolved = Box::new(resolved);
        return Err(if yours { ClaimRefusal::Yours(resolved) } else { ClaimRefusal::Taken(resolved) });
    }
    let deleted = claims_on(view, system, new.name)?;
    let last_delete = deleted.iter().max_by_key(|found| found.rank).map(|found| found.dot);
    let bucket = incarnation(new.name, new.owner, last_delete);
    // Its claim was lost here, and who makes it again means the one that was.
    if let Some(claim) = spare::lost(view, system, bucket)? {
        return Ok(claim);
    }
    Ok(ClaimDocument {
        name: new.name.into(),
        bucket,
        owner: new.owner.into(),
        created: wall,
        site: new.site,
        site_name: new.site_name.into(),
        state: ClaimState::Live,
        revived: 0,
        config: new.config,
    })
}

/// The deletion of a bucket: the claim to write. Refused while anything in it is visible here. Kept losers of
/// conflicts do not count; they stay readable by the bucket's id.
pub fn unclaim(
    view: &dyn View,
    system: BucketId,
    claim: &ClaimDocument,
    wall: WallTime,
) -> Result<Claimed, ClaimRefusal> {
    unclaim_after(view, system, claim, Vector::new(), wall)
}

/// The same where the bucket is not kept whole: a member that had seen this much said that it is empty. Who has not seen
/// as much does not take what is visible there for a reason to revive it.
pub fn unclaim_after(
    view: &dyn View,
    system: BucketId,
    claim: &ClaimDocument,
    heard: Vector,
    wall: WallTime,
) -> Result<Claimed, ClaimRefusal> {
    let bucket = claim.bucket;
    let cursor = Cursor { max: 1, ..Cursor::default() };
    let versions = claim.config.versioning != Versioning::Off
        && !space::list_versions(view, bucket, cursor, None)?.versions.is_empty();
    if versions || !space::list_current(view, bucket, cursor)?.keys.is_empty() {
        return Err(ClaimRefusal::NotEmpty);
    }
    let mut seen = heard;
    seen.merge(&space::vector(view, bucket)?);
    let seen = Seen::of(&seen);
    let mut claimed = deleted(view, system, claim, (&seen, seen::INLINE_BYTES), wall)?;
    // Settings may leave less room.
    if claimed.object.check().is_err() {
        claimed = deleted(view, system, claim, (&seen, 0), wall)?;
    }
    Ok(claimed)
}

fn deleted(
    view: &dyn View,
    system: BucketId,
    claim: &ClaimDocument,
    (seen, room): (&Seen, usize),
    wall: WallTime,
) -> Result<Claimed, SpaceError> {
    let (seen, blocks) = seen.fitted(view, (system, claim.bucket), room, wall)?;
    let state = ClaimState::Deleted(seen);
    Ok(Claimed { blocks, ..Claimed::new(&ClaimDocument { state, ..claim.clone() }, wall) })
}

/// The living bucket of this id that was claimed under this name, with the name that finds it.
pub(super) fn claimed_as(
    view: &dyn View,
    system: BucketId,
    name: &str,
    bucket: BucketId,
) -> Result<Option<Resolved>, SpaceError> {
    let all = named(view, system, claims_on(view, system, name)?)?;
    Ok(all.into_iter().find(|found| found.claim.bucket == bucket))
}

/// The claim of a bucket under the name that it was claimed under, living or deleted.
pub(super) fn claim_on(
    view: &dyn View,
    system: BucketId,
    (name, bucket): (&str, BucketId),
) -> Result<Option<ClaimDocument>, SpaceError> {
    let key = SystemKey::Claim { name: name.to_owned(), bucket }.to_string();
    let Some(record) = space::current(view, system, &key)? else { return Ok(None) };
    Ok(document::<ClaimDocument>(&record)?.filter(|claim| claim.name == name && claim.bucket == bucket))
}

/// The claim to write because the deletion of this bucket had not seen what is visible in it now. Only if this node has
/// seen all that the deletion saw: else what is visible may be what was deleted. Of that some may be nowhere any more,
/// burned with whoever deleted: whoever `is_late`, having waited for it for long, goes by what is visible and lies beyond
/// all that was seen. Who has not waited must not: what a client deleted where it was known ahead of its feed does so, too.
pub fn revival(
    view: &dyn View,
    system: BucketId,
    of: (&str, BucketId),
    (wall, is_late): (WallTime, bool),
) -> Result<Option<Claimed>, SpaceError> {
    let found = claim_on(view, system, of)?;
    Ok(found.map(|claim| revived(view, system, claim, (wall, is_late))).transpose()?.flatten())
}

fn revived(
    view: &dyn View,
    system: BucketId,
    claim: ClaimDocument,
    (wall, is_late): (WallTime, bool),
) -> Result<Option<Claimed>, SpaceError> {
    let (bucket, ClaimState::Deleted(seen)) = (claim.bucket, &claim.state) else { return Ok(None) };
    if space::sums(view, bucket)?.keys == 0 {
        return Ok(None);
    }
    let seen = seen.resolved(view, system, bucket)?;
    let is_unseen = seen.is_included_in(&space::vector(view, bucket)?)
        || (is_late && seen::shows_beyond(view, bucket, &seen)?);
    if !is_unseen {
        return Ok(None);
    }
    let count = claim.revived.saturating_add(1);
    let claim = ClaimDocument { state: ClaimState::Live, revived: count, ..claim };
    Ok(Some(Claimed::new(&claim, wall)))
}

/// Such claims of all buckets, where this node has seen all that their deletions saw.
pub fn revivals(view: &dyn View, system: BucketId, wall: WallTime) -> Result<Vec<Claimed>, SpaceError> {
    let all = claims_below(view, system, "claim/")?.into_iter();
    let all =
        all.map(|found| revived(view, system, found.claim, (wall, false))).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten().collect())
}
