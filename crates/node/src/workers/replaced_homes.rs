//! The homes of sites whose place was taken go to the newcomer: at the site that keeps the register of names, which alone may
//! name them; the register itself by the eldest site.
//!
//! Before: an operator's word about the gone site, in the roster. After: `paths/home.rs`, as by an operator's verb. Invariants:
//! who decides is asked again on the commit thread; a home is not given away while a site that does not answer may hold what
//! was decided there; one that was given to others before is not touched; what waits says why, and is tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{self as model, Joins, SiteState};

use super::Worker;
use crate::paths::bucket::Bucket;
use crate::paths::{heard, home, refusal};
use crate::site::{Site, unreadable};

/// After a try that failed, unless something changed that it may depend on.
const AGAIN: Duration = Duration::from_secs(5);

/// What a try depends on: the system bucket and the links.
type Seen = (u64, BTreeMap<SiteId, u64>);

/// One of them per site.
pub(super) struct Homes {
    site: Arc<Site>,
    /// As it was when there was nothing to give.
    idle: Option<u64>,
    /// As it was when a try failed, and when that was.
    failed: Option<(Seen, Instant)>,
}

impl Homes {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site, idle: None, failed: None }
    }
}

#[async_trait]
impl Worker for Homes {
    async fn turn(&mut self) -> bool {
        let (count, now) = (self.site.changes.system_count(), self.site.clock.now());
        let seen = (count, self.site.boxes.links());
        let rests = self.failed.as_ref().is_some_and(|(then, at)| *then == seen && now < at.after(AGAIN));
        if self.idle == Some(count) || rests {
            return false;
        }
        self.failed = None;
        match once(&self.site).await {
            Ok(Tried::Nothing) => self.idle = Some(count),
            Ok(Tried::Given) => {}
            Ok(Tried::Waits) => self.failed = Some((seen, now)),
            Err(error) => tracing::warn!(%error, "homes of a site that is gone could not be looked through"),
        }
        false
    }
}

/// How a look ended.
enum Tried {
    Nothing,
    Given,
    Waits,
}

/// A home that this site is to give away.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Due {
    bucket: BucketId,
    name: String,
    gone: SiteId,
    to: SiteId,
    /// Whether residency and the bucket's own word let that one follow it: a home that does not decides nothing.
    may_follow: bool,
}

/// One try for each home that is this site's to give.
async fn once(site: &Arc<Site>) -> Outcome<Tried> {
    let (system, me) = (site.system, site.id);
    let due = site.read(move |view| due(view, system, me)).await?;
    let (mut waits, mut tried) = (BTreeMap::new(), Tried::Nothing);
    let heard = match due.iter().any(|due| due.may_follow) {
        true => all_heard(site).await,
        false => Ok(()),
    };
    for Due { bucket, name, gone, to, may_follow } in due {
        if !may_follow {
            let new = site.peers.roster.name(to);
            let why = format!(
                "{new} may not follow {name}: `skerry bucket home {name} --to SITE --destroyed {gone}`"
            );
            waits.insert(gone, why);
            continue;
        }
        let given = match &heard {
            Ok(()) => home::shift(site, "", home::Move { bucket, to, lost: Some(gone) }).await.map(drop),
            Err(error) => Err(refusal::unreachable(error.message())),
        };
        if let Err(error) = given {
            waits.insert(gone, format!("{name}: {}", error.message()));
            tried = Tried::Waits;
            continue;
        }
        let home = site.peers.roster.name(to);
        tracing::warn!(bucket = name, home, "a home was given to who took the place");
        tried = if matches!(tried, Tried::Nothing) { Tried::Given } else { tried };
    }
    let mut shown = site.replacing.homes_wait();
    if *shown != waits {
        waits.values().for_each(|why| tracing::info!(why, "homes of a site that is gone wait"));
        *shown = waits;
    }
    Ok(tried)
}

fn due(view: &dyn View, system: BucketId, me: SiteId) -> Outcome<Vec<Due>> {
    let mut found = Vec::new();
    for (gone, document) in model::sites(view, system).map_err(unreadable)? {
        if !matches!(document.state, SiteState::Replaced(_)) {
            continue;
        }
        let Some(to) = model::successor(view, system, gone).map_err(unreadable)? else { continue };
        let (left, _) = model::homes_of(view, system, gone).map_err(unreadable)?;
        if left.contains(&system) {
            // The others are the next register's to give.
            if model::eldest(view, system, gone).map_err(unreadable)? == Some(me) {
                found.push(Due {
                    bucket: system,
                    name: "the register of names".into(),
                    gone,
                    to,
                    may_follow: true,
                });
            }
        } else if !left.is_empty() && model::keeps_register(view, system, me).is_ok() {
            let all = model::all_buckets(view, system).map_err(unreadable)?.into_iter().map(Bucket::of);
            let its = all.filter(|bucket| left.contains(&bucket.id));
            found.extend(its.map(|bucket| {
                let may_follow = bucket.may_lie_at(to) && bucket.config.joins() != Joins::Never;
                Due { bucket: bucket.id, name: bucket.name, gone, to, may_follow }
            }));
        }
    }
    Ok(found)
}

/// Nobody that is not lost may know of a home that was handed over, of a site that is older than this one, or of another
/// register: whoever acts by itself has nobody who would know better.
pub(crate) async fn all_heard(site: &Arc<Site>) -> Outcome<()> {
    let losses = site.copies.losses();
    let is_lost = |other: &SiteId| losses.get(other).is_some_and(|loss| loss.is_lost);
    let others = site.peers.roster.all().into_keys();
    let others: Vec<SiteId> = others.filter(|other| *other != site.id && !is_lost(other)).collect();
    let apart: Vec<String> = others
        .iter()
        .filter(|other| !site.linked(**other))
        .map(|other| site.peers.roster.name(*other))
        .collect();
    let (goal, answered) = match apart.is_empty() {
        true => heard::seen_by(site, site.system, &others).await,
        false => Default::default(),
    };
    if !apart.is_empty() || answered < others.len() {
        let who = if apart.is_empty() { "a site".to_owned() } else { apart.join(", ") };
        return Err(refusal::unreachable(format!(
            "{who} did not answer, and one that does not may know better who decides: it is tried again; expel or \
             replace a site that is gone, or declare it lost"
        )));
    }
    heard::seen(site, site.system, &goal).await
}
