//! What must be elsewhere before this site may be switched off, as its records and the other sites say it.
//!
//! Before: `workers/drain.rs`. Invariants: only copies that count are counted, here and there: cached ones are of what
//! somebody else holds; pages are bounded and each is a reading of its own; an answer is checked before it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};
use skerry_federation::departure::Standing;
use skerry_federation::drain::{Held, Input, Own, Word};
use skerry_federation::placement::{Candidate, Spans, Want};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{self as model, list_buckets};
use skerry_model::record::Scope;
use skerry_model::space::{self, Item};
use skerry_storage::Store;

use super::look::{Lies, lies};
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::peers::message::{Holdings, Request, Response};
use crate::site::{Site, unreadable};
use crate::workers::copies::candidate;

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Pages of one word of another site.
const PAGES: usize = 100_000;
/// How long another site may take to say what it is to a bucket.
pub(crate) const SAY: Duration = Duration::from_secs(5);
/// Uploads that are counted of a bucket.
const UPLOADS: usize = 1000;

/// The sites that can take over: they belong, are linked, and serve; nearest first. Whether bodies may go to them now, over a link
/// that somebody pays for, is in the candidate.
pub(crate) fn fit(site: &Site) -> Vec<Candidate> {
    let links = site.boxes.links();
    let lost = site.copies.uncounted();
    let serves =
        |other: &SiteId| *other != site.id && !lost.contains(other) && site.duties.of(*other).serves();
    let known = site.peers.roster.all().into_keys().filter(serves);
    let mut fit: Vec<Candidate> =
        known.filter(|other| links.contains_key(other)).map(|other| candidate(site, other, &links)).collect();
    fit.sort_by_key(|candidate| (candidate.distance, candidate.site));
    fit
}

/// The buckets that exist and that this site follows or has records of, and the system bucket.
pub(crate) async fn buckets(site: &Arc<Site>) -> Outcome<Vec<BucketId>> {
    let (system, followed) = (site.system, site.memberships());
    let read = move |view: &dyn View| {
        let alive = alive(view, system)?;
        let here = space::buckets(view).map_err(unreadable)?;
        let all: BTreeSet<BucketId> = here.into_iter().chain(followed).collect();
        Ok(all.into_iter().filter(|bucket| *bucket == system || alive.contains(bucket)).collect())
    };
    site.read(read).await
}

/// The settings of those that exist.
pub(crate) async fn claims(site: &Arc<Site>) -> Outcome<BTreeMap<BucketId, Bucket>> {
    let system = site.system;
    let found = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    Ok(found.into_iter().map(Bucket::of).map(|bucket| (bucket.id, bucket)).collect())
}

/// The buckets that exist.
pub(crate) fn alive(view: &dyn View, system: BucketId) -> Outcome<BTreeSet<BucketId>> {
    let found = list_buckets(view, system, None).map_err(unreadable)?;
    Ok(found.into_iter().map(|found| found.claim.bucket).collect())
}

/// What this site has of each.
pub(crate) async fn own(site: &Arc<Site>) -> Outcome<BTreeMap<BucketId, Own>> {
    let mut all = BTreeMap::new();
    let (system, me) = (site.system, site.id);
    for bucket in buckets(site).await? {
        let members: Vec<SiteId> = match bucket == system {
            true => site.peers.roster.all().into_keys().collect(),
            false => site.drive.ask(move |machine, _| machine.members(bucket)).await.unwrap_or_default(),
        };
        let members = members.into_iter().filter(|member| *member != me).collect();
        let read = move |view: &dyn View| {
            let home = model::home(view, system, bucket).map_err(unreadable)?;
            let vector = space::vector(view, bucket).map_err(unreadable)?;
            let may_be_named = model::may_be_named(view, system, bucket, me).map_err(unreadable)?;
            Ok((vector, home.is_some_and(|home| home.site == me), may_be_named))
        };
        let (vector, home, may_be_named) = site.read(read).await?;
        all.insert(bucket, Own { vector, members, home, may_be_named });
    }
    Ok(all)
}

/// A question about what a site has of a bucket, with the life whose word is known and how far that went.
pub(crate) type Question = (BucketId, SiteId, Option<Origin>, Vector);

/// Asks it.
pub(crate) async fn ask(site: Arc<Site>, question: Question) -> Input {
    let (bucket, other) = (question.0, question.1);
    let said = standing(&site, bucket, other).await;
    match said {
        Some(Standing::Leaves | Standing::Absent) => Input::Goes(bucket, other),
        Some(Standing::Joins) => word(&site, question, None).await,
        Some(Standing::Stays { vector, .. }) => word(&site, question, Some(vector)).await,
        None => Input::Silent(bucket, other),
    }
}

/// What it is to the bucket: asked first, for one that goes counts for nothing, whatever it holds. One that begins to go
/// after it said that it stays hands on all that it has, and not to this site, which has begun to go before it.
async fn standing(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> Option<Standing> {
    let request = Request::Standing { bucket };
    match tokio::time::timeout(SAY, site.peers.call(other, &request)).await.ok()?.ok()?.response {
        Response::Standing(standing) => Some(*standing),
        _ => None,
    }
}

async fn word(site: &Arc<Site>, question: Question, seen: Option<Vector>) -> Input {
    let (bucket, other) = (question.0, question.1);
    match held(site, question).await {
        Some((life, held)) => Input::Said(bucket, other, Word { life, seen, held }),
        None => Input::Silent(bucket, other),
    }
}

/// What it holds and in which life: one that was started anew in between says so.
async fn held(site: &Arc<Site>, (bucket, other, life, from): Question) -> Option<(Origin, Held)> {
    let mut held = Held { from: from.clone(), upto: from, ..Held::default() };
    let mut now: Option<Origin> = None;
    for _ in 0..PAGES {
        let asked = Holdings { bucket, life: None, from: held.upto.clone() };
        let answer = site.peers.call(other, &Request::Holdings(asked)).await.ok()?.response;
        let Response::Holdings(page) = answer else { return None };
        // In another life than the one whose word is known everything is to be said.
        if now.is_none() && life != Some(page.life) && !held.from.is_empty() {
            (now, held) = (Some(page.life), Held::default());
            continue;
        }
        // Started anew while it answered: the next look asks again.
        if now.replace(page.life).is_some_and(|before| before != page.life) {
            return None;
        }
        held.spans.merge(&Spans::decode(&page.spans).ok()?);
        held.upto.merge(&page.upto);
        if !page.more {
            return Some((page.life, held));
        }
    }
    None
}

/// A version that must be elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// Which.
    pub(crate) want: Want,
    /// Its key.
    pub(crate) key: String,
    /// Whether its body lies here, or is kept here and does not read; else its record alone is to be had by name.
    pub(crate) body: bool,
    /// Why the body does not read whole: it cannot be handed over, and goes with this site unless others hold it.
    pub(crate) unread: Option<String>,
    /// What its record says that its write was answered for.
    pub(crate) scope: Scope,
}

impl Kept {
    /// What an item is here: a body that counts, or should, or a loose record.
    fn of(store: &Store, bucket: BucketId, item: Item, loose: bool) -> Option<Self> {
        let object = item.record.object().filter(|_| !item.spent);
        let bytes = object.map_or(0, |object| object.size);
        let lies = object.filter(|object| object.size > 0).map(|object| lies(store, bucket, object));
        let (body, unread) = match lies {
            Some(Lies::Here) => (true, None),
            Some(Lies::Unread(why)) => (true, Some(why)),
            Some(Lies::Not) | None => (false, None),
        };
        let want = Want { dot: item.dot, bytes, here: false, places: 0 };
        let (key, scope) = (item.record.key.clone(), item.record.scope);
        (body || loose).then_some(Self { want, key, body, unread, scope })
    }
}

/// A page of them.
#[derive(Debug)]
pub(crate) struct Found {
    /// In the order of their dots.
    pub(crate) items: Vec<Kept>,
    /// Behind what the next page begins.
    pub(crate) next: Option<Vector>,
}

/// The next page of what lies here of a bucket, covered by its vector: bodies that count, and those that are kept here and do
/// not read.
pub(crate) async fn page(site: &Arc<Site>, bucket: BucketId, mut seen: Vector) -> Outcome<Found> {
    let store = site.store.clone();
    let read = move || -> Outcome<Found> {
        let page = space::records_after(&store.view(), bucket, &seen, PAGE).map_err(unreadable)?;
        seen.merge(&page.upto);
        let kept = |item| Kept::of(&store, bucket, item, false);
        Ok(Found {
            items: page.items.into_iter().filter_map(kept).collect(),
            next: page.more.then_some(seen),
        })
    };
    tokio::task::spawn_blocking(read).await.map_err(refusal::task)?
}

/// Records that no feed covers.
#[derive(Debug, Default)]
pub(crate) struct Loose {
    /// By bucket.
    pub(crate) all: BTreeMap<BucketId, Vec<Kept>>,
    /// From where they were looked through, and how far; none: from the first, to the last.
    pub(crate) from: Option<(BucketId, Dot)>,
    pub(crate) next: Option<(BucketId, Dot)>,
}

impl Loose {
    /// Whether these are all that there are.
    pub(crate) const fn is_all(&self) -> bool {
        self.from.is_none() && self.next.is_none()
    }
}

/// Those of all buckets, at most about `most` of them, from one on. There are few: read alone a moment ago, or of lives that lost
/// what came before them. But at a site that lost part of its journal it may be all that it has.
pub(crate) async fn loose(site: &Arc<Site>, from: Option<(BucketId, Dot)>, most: usize) -> Outcome<Loose> {
    let mut found = Loose { from, ..Loose::default() };
    let mut left = most;
    let begins = |bucket: &BucketId| from.is_none_or(|(first, _)| *bucket >= first);
    for bucket in buckets(site).await?.into_iter().filter(begins) {
        let store = site.store.clone();
        let first = from.filter(|(of, _)| *of == bucket).map(|(_, dot)| dot);
        let read = move || loose_of(&store, bucket, first, left);
        let (some, next) = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
        left = left.saturating_sub(some.len());
        if !some.is_empty() {
            found.all.insert(bucket, some);
        }
        if let Some(next) = next {
            found.next = Some((bucket, next));
            break;
        }
    }
    Ok(found)
}

/// Those of a bucket, and with which to go on if there are more.
fn loose_of(
    store: &Store,
    bucket: BucketId,
    from: Option<Dot>,
    most: usize,
) -> Outcome<(Vec<Kept>, Option<Dot>)> {
    let view = &store.view();
    let have = BTreeSet::new();
    let mut all = Vec::new();
    for origin in space::marked(view, bucket).map_err(unreadable)? {
        let seq = space::vector_entry(view, bucket, origin).map_err(unreadable)?.checked_add(1);
        let begins = seq.map(|seq| Dot { origin, seq });
        let begins = begins.map(|first| from.map_or(first, |from| first.max(from)));
        let mut next = begins.filter(|first| first.origin == origin);
        while let Some(first) = next {
            if all.len() >= most {
                return Ok((all, Some(first)));
            }
            let found = space::records_in(view, bucket, (first, u64::MAX), &have, PAGE);
            let (items, upto) = found.map_err(unreadable)?;
            all.extend(items.into_iter().filter_map(|item| Kept::of(store, bucket, item, true)));
            next = upto.checked_add(1).map(|seq| Dot { origin, seq });
        }
    }
    Ok((all, None))
}

/// Uploads that nobody completed, of all buckets: also those that this site does not follow.
pub(crate) async fn uploads(site: &Arc<Site>) -> Outcome<u64> {
    let system = site.system;
    let read = move |view: &dyn View| {
        let mut count = 0;
        for bucket in alive(view, system)? {
            count += space::list_uploads(view, bucket, "", None, UPLOADS).map_err(unreadable)?.len() as u64;
        }
        Ok(count)
    };
    site.read(read).await
}
