//! Prefixes that this site follows without being a member of their buckets.
//!
//! Before: `skerry bucket join NAME --prefix P`. After: [`work`], which asks members, and [`answer`], which tells others; what is
//! told and what is taken is decided in [`skerry_model::space`]. Here is what reads and writes look at, in memory.
//!
//! Invariants: a read is answered by what is here only below a prefix that was taken whole and is followed still, before
//! and after it was looked up; while the site is a member of the bucket, it reads as a member.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Instant, Origin, SiteId, Vector};
use skerry_gateway::service::{ErrorKind, FollowRequest, FollowedPrefix, Outcome, ServiceError};
use skerry_model::bucket::Joins;
use skerry_model::space::{self, Below, Fingerprint, SpaceError, Subscription};
use tokio::sync::{Notify, Semaphore};

use crate::drive::stored::Stored;
use crate::duties::Act;
use crate::paths::bucket::Bucket;
use crate::site::{Site, entry, unreadable};

pub(crate) mod answer;
pub(crate) mod joining;
pub(crate) mod work;

/// Prefixes that a site follows at most: each is a question that waits at a member.
const MOST: usize = 16;
/// Records of a prefix that are counted for who asks how it stands.
const COUNTED: u64 = 1 << 17;
/// Questions of others that wait here at once at most; more are answered without waiting.
const WAITING: usize = 256;

/// How a prefix stands.
#[derive(Debug, Clone, Default)]
struct Standing {
    complete: bool,
    through: bool,
    ends: bool,
    /// The last question was answered to its end: nothing more is known to be elsewhere.
    current: bool,
    /// Why the last question was not answered; at a member what made it one, if it was a write.
    reason: Option<String>,
    heard: Option<Instant>,
    compared: Option<Instant>,
    /// Who answered last.
    near: Option<SiteId>,
    /// Keys that are compared at once.
    width: usize,
    /// The write that made the site a member.
    joined: Option<String>,
    /// Lives of members that answered.
    lives: BTreeMap<SiteId, Origin>,
}

impl Standing {
    fn of(row: &Subscription) -> Self {
        let Subscription { complete, through, ends, .. } = *row;
        Self { complete, through, ends, width: space::COMPARED, ..Self::default() }
    }
}

/// How far what is here may be trusted for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Another site may have more.
    Whole,
    /// Nothing more is known to be elsewhere.
    Current,
}

/// The prefixes that a site follows.
#[derive(Debug)]
pub(crate) struct Following {
    all: Mutex<BTreeMap<Below, Standing>>,
    /// Held while it is judged whether a prefix may be followed, until it is.
    gate: tokio::sync::Mutex<()>,
    wake: Notify,
    waiting: Semaphore,
    /// How often a bucket was looked at for those who wait.
    looks: AtomicU64,
    deciding: joining::Deciding,
}

impl Default for Following {
    fn default() -> Self {
        let (wake, waiting) = (Notify::new(), Semaphore::new(WAITING));
        let (all, gate, deciding) =
            (Mutex::default(), tokio::sync::Mutex::default(), joining::Deciding::default());
        Self { all, gate, wake, waiting, looks: AtomicU64::new(0), deciding }
    }
}

impl Following {
    /// What was remembered.
    pub(crate) fn resume(view: &dyn View) -> Result<Self, SpaceError> {
        let rows = space::subscriptions(view)?;
        let all = rows.into_iter().map(|(below, row)| (below, Standing::of(&row))).collect();
        Ok(Self { all: Mutex::new(all), ..Self::default() })
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Below, Standing>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of<T>(&self, bucket: BucketId, find: impl Fn(&Below, &Standing) -> Option<T>) -> Option<T> {
        let all = self.all();
        let first = Below { bucket, prefix: String::new() };
        let mut rows = all.range(first..).take_while(|(below, _)| below.bucket == bucket);
        rows.find_map(|(below, standing)| find(below, standing).filter(|_| !standing.ends))
    }

    /// Whether anything of a bucket is followed.
    pub(crate) fn any_of(&self, bucket: BucketId) -> bool {
        self.of(bucket, |_, _| Some(())).is_some()
    }

    /// Whether keys that begin so are followed, how far they are here, and who said so last; none if not.
    fn trust(&self, bucket: BucketId, key: &str) -> Option<(Trust, Option<SiteId>)> {
        self.of(bucket, |below, standing| {
            let trust = if standing.current { Trust::Current } else { Trust::Whole };
            (below.has(key) && standing.complete).then_some((trust, standing.near))
        })
    }

    /// The followed prefix below which keys lie that begin so.
    fn covering(&self, bucket: BucketId, prefix: &str) -> Option<Below> {
        self.of(bucket, |below, _| below.has(prefix).then(|| below.clone()))
    }

    /// Whether keys that begin so lie below a prefix that is followed, or would be if the site were no member.
    pub(crate) fn has(&self, bucket: BucketId, prefix: &str) -> bool {
        self.covering(bucket, prefix).is_some()
    }

    /// Whether writes to a bucket go to a member.
    fn writes_through(&self, bucket: BucketId) -> bool {
        self.of(bucket, |_, standing| standing.through.then_some(())).is_some()
    }

    /// What is here of a bucket goes: nothing is answered from it any more.
    pub(crate) fn begin_anew(&self, bucket: BucketId) {
        for (_, standing) in self.all().iter_mut().filter(|(below, _)| below.bucket == bucket) {
            (standing.complete, standing.current, standing.joined) = (false, false, None);
        }
    }

    /// What is followed of a bucket has become a member's, because of this; whether that was not known.
    fn note_joined(&self, bucket: BucketId, why: &str) -> bool {
        let mut all = self.all();
        let of_bucket = all.iter_mut().filter(|(below, _)| below.bucket == bucket);
        let fresh = of_bucket.map(|(_, standing)| standing.joined.replace(why.into()).is_none());
        fresh.fold(false, |any, fresh| any | fresh)
    }

    /// A bucket is looked at for a question that waits.
    fn looked(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Questions that wait here.
    pub(crate) fn waiting(&self) -> u32 {
        WAITING.saturating_sub(self.waiting.available_permits()) as u32
    }

    /// How many prefixes are followed, and how many of them are not whole or not current.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let all = self.all();
        let behind = all.values().filter(|standing| !standing.complete || !standing.current).count();
        (all.len() as u64, behind as u64)
    }
}

impl Site {
    /// Whether this site, no member, answers for keys that begin so from what is here.
    pub(crate) fn trusts(&self, bucket: BucketId, key: &str) -> Option<Trust> {
        if self.is_member(bucket) || self.leaving.sweeps(bucket) {
            return None;
        }
        let (trust, near) = self.following.trust(bucket, key)?;
        // Who said that there is no more is silent now.
        let is_near = near.is_some_and(|near| self.linked(near));
        Some(if is_near { trust } else { Trust::Whole })
    }

    /// Whether it follows something of a bucket and is no member: then nothing but a write or an operator makes it one.
    pub(crate) fn follows_part(&self, bucket: BucketId) -> bool {
        !self.is_member(bucket) && self.following.any_of(bucket)
    }

    /// Whether a record that a member told, and that is not here any more, is answered all the same: what a site drops that
    /// leaves its bucket lives elsewhere. Below a prefix that it follows it is known to be dead. `swept`: it was being
    /// dropped when it was asked for.
    pub(crate) fn outlives(&self, bucket: BucketId, key: &str, swept: bool) -> bool {
        swept || (self.stamps.is_out(bucket) && self.trusts(bucket, key).is_none())
    }

    /// Whether writes to a bucket go to a member because of a prefix that is followed.
    pub(crate) fn writes_through(&self, bucket: BucketId) -> bool {
        !self.is_member(bucket) && self.following.writes_through(bucket)
    }
}

/// Up to where records are here, and what was told beyond that.
pub(crate) type Seen = (Vector, Fingerprint);

/// What a pin rests on: whether what lies below it is here whole, and up to where.
pub(crate) async fn pinned(
    site: &Arc<Site>,
    bucket: BucketId,
    prefix: &str,
) -> Outcome<Option<(bool, Seen)>> {
    let Some(below) = site.following.covering(bucket, prefix).filter(|_| !site.is_member(bucket)) else {
        return Ok(None);
    };
    let row = site.read(move |view| space::subscription(view, &below).map_err(unreadable)).await?;
    Ok(row.map(|row| (row.complete, (row.upto, row.loose))))
}

/// Whether a prefix of a bucket of which this site is no member lies below one that it follows.
pub(crate) fn covers(site: &Site, bucket: BucketId, prefix: &str) -> bool {
    !site.is_member(bucket) && site.following.covering(bucket, prefix).is_some()
}

/// Whether what is decided of a key is stored at this site, which has left the bucket, because it follows the key.
pub(crate) fn stores(view: &dyn View, bucket: BucketId, key: &str) -> Outcome<bool> {
    let sweeps = view.get(Table::Local, &Stored::Left.key(bucket));
    if sweeps.map_err(|error| unreadable(error.into()))?.is_some() {
        return Ok(false);
    }
    let rows = space::subscriptions_of(view, bucket).map_err(unreadable)?;
    Ok(rows.iter().any(|(below, row)| below.has(key) && !row.ends))
}

/// Begins to follow a prefix, says where its writes go, or ends it.
pub(crate) async fn act(site: &Arc<Site>, bucket: &Bucket, request: FollowRequest) -> Outcome<()> {
    let below = Below { bucket: bucket.id, prefix: request.prefix };
    if request.ends {
        end(site, bucket, below).await
    } else {
        begin(site, bucket, below, request.writes).await
    }
}

async fn begin(site: &Arc<Site>, bucket: &Bucket, below: Below, writes: Option<String>) -> Outcome<()> {
    let through = match writes.as_deref() {
        None => None,
        Some("join") => Some(false),
        Some("through") => Some(true),
        Some(other) => return Err(ServiceError::invalid(format!("writes is join or through, not {other}"))),
    };
    let _gate = site.following.gate.lock().await;
    refuse(site, bucket, &below)?;
    let (place, fresh) = (below.clone(), through.unwrap_or_default());
    let propose = move |view: &dyn View| {
        let known = space::subscription(view, &place).map_err(unreadable)?;
        let known = known.unwrap_or(Subscription { through: fresh, ..Subscription::default() });
        let row = Subscription { through: through.unwrap_or(known.through), ..known };
        let fact = space::followed(&place, Some(&row));
        Ok((row, vec![entry(&fact)]))
    };
    let row = site.commit(site.system, (), propose).await?;
    let mut all = site.following.all();
    all.entry(below)
        .and_modify(|standing| standing.through = row.through)
        .or_insert_with(|| Standing::of(&row));
    drop(all);
    site.following.wake.notify_one();
    tracing::info!(bucket = bucket.name, "this site follows a prefix of the bucket");
    Ok(())
}

/// Why a prefix cannot be followed, if so.
fn refuse(site: &Site, bucket: &Bucket, below: &Below) -> Outcome<()> {
    let (name, prefix) = (&bucket.name, &below.prefix);
    site.duties.check(Act::Hold)?;
    if prefix.is_empty() || prefix.len() > skerry_base::limits::KEY_BYTES {
        let most = skerry_base::limits::KEY_BYTES;
        return Err(ServiceError::invalid(format!(
            "a prefix has 1 to {most} bytes; for all keys: `skerry bucket join {name}`"
        )));
    }
    if site.is_member(bucket.id) {
        return Err(ServiceError::refused(format!(
            "{} is a member of {name} and has all of it; to follow a prefix only: `skerry bucket leave {name}` first",
            site.called()
        )));
    }
    if bucket.config.joins() == Joins::Never {
        let message = format!(
            "{name} lets no site follow it (join = never); `skerry bucket set {name} --join manual` first"
        );
        return Err(ServiceError::new(ErrorKind::NotResident, message));
    }
    if site.nodes.are_several() {
        return Err(ServiceError::refused("prefixes are followed at sites of one node only"));
    }
    let all = site.following.all();
    if all.get(below).is_some_and(|standing| standing.ends) {
        return Err(ServiceError::refused(format!(
            "what was below {prefix:?} is still being dropped; try again in a moment"
        )));
    }
    let of_bucket = all.keys().filter(|other| other.bucket == below.bucket && *other != below);
    let mut overlapping = of_bucket.filter(|other| other.has(prefix) || below.has(&other.prefix));
    if let Some(other) = overlapping.next() {
        return Err(ServiceError::refused(format!(
            "{prefix:?} and {0:?}, which is followed here, overlap; `skerry bucket leave {name} --prefix {0}` first",
            other.prefix
        )));
    }
    if !all.contains_key(below) && all.len() >= MOST {
        return Err(ServiceError::refused(format!("a site follows at most {MOST} prefixes")));
    }
    Ok(())
}

async fn end(site: &Arc<Site>, bucket: &Bucket, below: Below) -> Outcome<()> {
    let known = site.following.all().get(&below).map(|standing| standing.ends);
    match known {
        Some(true) => return Ok(()),
        Some(false) => {}
        None => {
            return Err(ServiceError::refused(format!(
                "{} below {:?} is not followed here",
                bucket.name, below.prefix
            )));
        }
    }
    if site.pins.any_below(bucket.id, &below.prefix) && !site.is_member(bucket.id) {
        let message = format!(
            "something below {0:?} is pinned here: `skerry bucket unpin {1} --prefix …` first",
            below.prefix, bucket.name
        );
        return Err(ServiceError::refused(message));
    }
    let ended = work::end(site, &below).await;
    if ended.is_err()
        && let Some(standing) = site.following.all().get_mut(&below)
    {
        (standing.ends, standing.complete) = (false, false);
    }
    site.following.wake.notify_one();
    ended
}

/// What is followed of a bucket, and how far it is here.
pub(crate) async fn status(site: &Arc<Site>, bucket: BucketId) -> Outcome<Vec<FollowedPrefix>> {
    let all: Vec<(Below, Standing)> = {
        let all = site.following.all();
        let rows = all.iter().filter(|(below, _)| below.bucket == bucket);
        rows.map(|(below, standing)| (below.clone(), standing.clone())).collect()
    };
    let (is_member, now) = (site.is_member(bucket), site.clock.now());
    // One of them speaks for all writes to the bucket.
    let through = all.iter().any(|(_, standing)| standing.through && !standing.ends);
    let mut found = Vec::with_capacity(all.len());
    for (below, standing) in all {
        let prefix = below.prefix.clone();
        let held =
            site.read(move |view| space::held_below(view, &below, COUNTED).map_err(unreadable)).await?;
        let state = match &standing {
            _ if is_member => "member",
            Standing { ends: true, .. } => "ending",
            Standing { complete: false, .. } => "taking",
            Standing { current: false, .. } => "behind",
            _ => "current",
        };
        found.push(FollowedPrefix {
            prefix,
            state: state.into(),
            records: held.0,
            at_least: held.0 >= COUNTED,
            bytes: held.1,
            heard_ms: standing.heard.map(|heard| now.since(heard).as_millis() as u64),
            writes: if through { "through" } else { "join" }.into(),
            reason: standing.joined.filter(|_| is_member).or(standing.reason).unwrap_or_default(),
        });
    }
    Ok(found)
}
