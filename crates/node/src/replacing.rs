//! Who took whose place, and what this site knows of one that is gone: remembered when it leaves the roster, told to the
//! newcomer that asks.
//!
//! Before: `roster_watch.rs`, a question of the newcomer. After: `workers/replace.rs` at the newcomer. Invariants: the
//! buckets of a gone site are written down before the machine forgets them; a question is answered in full only by a site
//! that has itself heard who took the place, and has no link to the gone one any more; every page is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, SiteId, Vector, WallTime};
use skerry_gateway::service::{Outcome, RecoveryStatus};
use skerry_model::bucket as model;
use skerry_model::{Entry, space};

use crate::peers::message::{KnownBucket, KnownIn, Replaced, Response};
use crate::site::{Site, entry, unreadable};

/// Bytes of one page of an answer, but for one bucket at least.
const PAGE: usize = 256 << 10;
/// Bytes that an entry of a vector takes at most.
const VECTOR_ENTRY: usize = 40;

/// The buckets that a site was known to be in when it left the roster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct WasIn(Vec<BucketId>);

impl Versioned for WasIn {
    const NAME: &'static str = "buckets of a site that is gone";
    const VERSION: u8 = 1;
}

impl WasIn {
    fn key(of: SiteId) -> Vec<u8> {
        [b"was-in/".as_slice(), &of.0].concat()
    }

    fn read(view: &dyn View, of: SiteId) -> Outcome<Self> {
        let found = view.get(Table::Local, &Self::key(of)).map_err(|error| unreadable(error.into()))?;
        Ok(found.and_then(|bytes| codec::decode(&bytes).ok()).unwrap_or_default())
    }
}

/// How far the newcomer is with one site's place, on its disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RecoveryFile {
    /// When it began here.
    pub(crate) begun: WallTime,
    /// The buckets that the gone site was in, as far as anybody said.
    pub(crate) found: BTreeSet<BucketId>,
    /// Of those: may not be followed here.
    pub(crate) refused: BTreeSet<BucketId>,
    /// Of those: nobody else had records.
    pub(crate) alone: BTreeSet<BucketId>,
    /// When nothing was lacking.
    pub(crate) done: Option<WallTime>,
}

impl Versioned for RecoveryFile {
    const NAME: &'static str = "recovery of a site that is gone";
    const VERSION: u8 = 1;
}

const RECOVERIES: &[u8] = b"replacing/";

impl RecoveryFile {
    /// All of them.
    pub(crate) fn all(view: &dyn View) -> Outcome<BTreeMap<SiteId, Self>> {
        let mut found = BTreeMap::new();
        let each = &mut |key: &[u8], value: &[u8]| {
            let site = key.strip_prefix(RECOVERIES).and_then(|id| id.try_into().ok()).map(SiteId);
            found.extend(site.zip(codec::decode(value).ok()));
            ControlFlow::Continue(())
        };
        view.scan_prefix(Table::Local, RECOVERIES, each).map_err(|error| unreadable(error.into()))?;
        Ok(found)
    }

    /// Writes it down.
    pub(crate) async fn keep(&self, site: &Site, of: SiteId) -> Outcome<()> {
        let key = [RECOVERIES, &of.0].concat();
        let fact = Entry::Local { key: key.into(), value: Some(codec::encode(self).into()) };
        site.commit(site.system, (), move |_| Ok(((), vec![entry(&fact)]))).await
    }
}

/// Whether a place is being taken here of a site that was in a bucket, as far as is known: what there is of it, and what is lost
/// with that site, is for that to say.
pub(crate) fn is_taken(view: &dyn View, site: &Site, bucket: BucketId) -> Outcome<bool> {
    let (places, files) =
        (model::replacements(view, site.system, site.id).map_err(unreadable)?, RecoveryFile::all(view)?);
    let begins = |file: &RecoveryFile| file.done.is_none() && file.found.contains(&bucket);
    // Where nothing is written down it has just begun, or nothing was found yet.
    Ok(places.iter().any(|gone| files.get(gone).is_none_or(begins)))
}

/// What is shown of places that this site takes, and of homes that it is to give to others.
#[derive(Debug, Default)]
pub(crate) struct Replacing {
    shown: Mutex<BTreeMap<SiteId, RecoveryStatus>>,
    homes_wait: Mutex<BTreeMap<SiteId, String>>,
}

impl Replacing {
    /// How far this site is with the place of another.
    pub(crate) fn of(&self, gone: SiteId) -> Option<RecoveryStatus> {
        self.shown().get(&gone).cloned()
    }

    /// What is shown of all.
    pub(crate) fn shown(&self) -> MutexGuard<'_, BTreeMap<SiteId, RecoveryStatus>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why homes of gone sites wait here.
    pub(crate) fn homes_wait(&self) -> MutexGuard<'_, BTreeMap<SiteId, String>> {
        self.homes_wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down what the machine knows of sites that are about to leave the roster.
pub(crate) async fn remember(site: &Arc<Site>, going: Vec<SiteId>) -> Outcome<()> {
    for gone in going {
        let known = site.drive.ask(move |machine, _| machine.buckets_of(gone)).await.unwrap_or_default();
        if known.is_empty() {
            continue;
        }
        let note = move |view: &dyn View| {
            let mut all = WasIn::read(view, gone)?.0;
            let before = all.len();
            all.extend(known);
            all.sort_unstable();
            all.dedup();
            let value = Some(codec::encode(&WasIn(all.clone())).into());
            let fact = Entry::Local { key: Bytes::from(WasIn::key(gone)), value };
            Ok(((), if all.len() > before { vec![entry(&fact).freeing()] } else { Vec::new() }))
        };
        site.commit(site.system, (), note).await?;
    }
    Ok(())
}

/// The buckets that a gone site is known here to have been in: it was seen as a member, claimed them, decides or decided their
/// conditions, or its nodes wrote to what is followed here.
pub(crate) fn known_in(view: &dyn View, site: &Site, gone: SiteId) -> Outcome<BTreeSet<BucketId>> {
    let system = site.system;
    let mut known: BTreeSet<BucketId> = WasIn::read(view, gone)?.0.into_iter().collect();
    let nodes = model::site(view, system, gone).map_err(unreadable)?.map(|known| known.nodes);
    let nodes: BTreeSet<_> = nodes.unwrap_or_default().into_iter().map(|node| node.node).collect();
    let live = model::all_buckets(view, system).map_err(unreadable)?;
    for bucket in &live {
        let id = bucket.claim.bucket;
        let decides = bucket
            .home
            .as_ref()
            .is_some_and(|home| home.site == gone || home.cause == model::HomeCause::Replaced(gone));
        let wrote = || -> Outcome<bool> {
            let vector = space::vector(view, id).map_err(unreadable)?;
            Ok(vector.iter().any(|(origin, _)| nodes.contains(&origin.node)))
        };
        if bucket.claim.site == gone || decides || (site.is_member(id) && wrote()?) {
            known.insert(id);
        }
    }
    let live: BTreeSet<BucketId> = live.into_iter().map(|bucket| bucket.claim.bucket).collect();
    known.retain(|bucket| live.contains(bucket));
    Ok(known)
}

/// Answers the newcomer.
pub(crate) async fn answer(site: &Arc<Site>, from: SiteId, asked: Replaced) -> Outcome<Response> {
    let (gone, here) = (asked.gone, site.clone());
    let linked = move |site: &Site| site.linked(gone) || site.peers.roster.node(gone).is_some();
    let not_heard = || Response::KnownIn(Box::default());
    if linked(site) {
        return Ok(not_heard());
    }
    let read = move |view: &dyn View| {
        if model::successor(view, here.system, gone).map_err(unreadable)? != Some(from) {
            return Ok(KnownIn::default());
        }
        page(view, &here, asked)
    };
    let mut page = site.read(read).await?;
    // After it was read: what is let go of from now on changes the next answer.
    (page.life, page.left) = (site.stamps.origin.incarnation, site.stamps.left());
    Ok(if linked(site) { not_heard() } else { Response::KnownIn(Box::new(page)) })
}

fn page(view: &dyn View, site: &Site, asked: Replaced) -> Outcome<KnownIn> {
    let known = known_in(view, site, asked.gone)?;
    let all: BTreeSet<BucketId> = known.iter().copied().chain(asked.also).collect();
    let mut page = KnownIn { heard: true, ..KnownIn::default() };
    let mut bytes = 0;
    for bucket in all.into_iter().filter(|bucket| asked.after.is_none_or(|after| *bucket > after)) {
        let vector = match site.is_member(bucket) {
            true => Some(space::vector(view, bucket).map_err(unreadable)?),
            false => None,
        };
        // Let go of while it was read.
        let vector = vector.filter(|_| site.is_member(bucket));
        if vector.is_none() && !known.contains(&bucket) {
            continue;
        }
        bytes += 20 + VECTOR_ENTRY * vector.as_ref().map_or(0, Vector::len);
        if bytes > PAGE && !page.buckets.is_empty() {
            page.more = true;
            break;
        }
        page.buckets.push(KnownBucket { bucket, vector });
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Fixtures of version 1: must decode for ever.
    #[test]
    fn v1_fixtures() {
        let was = WasIn(vec![BucketId([1; 16])]);
        assert_eq!(codec::encode(&was), [&[1, 1][..], &[1; 16]].concat());
        assert_eq!(codec::decode::<WasIn>(&codec::encode(&was)).unwrap(), was);
        let file = RecoveryFile {
            begun: WallTime(300),
            found: [BucketId([1; 16]), BucketId([2; 16])].into(),
            refused: [BucketId([1; 16])].into(),
            alone: BTreeSet::new(),
            done: Some(WallTime(5)),
        };
        let expected = [&[1, 0xac, 2, 2][..], &[1; 16], &[2; 16], &[1], &[1; 16], &[0, 1, 5]].concat();
        assert_eq!(codec::encode(&file), expected);
        assert_eq!(codec::decode::<RecoveryFile>(&expected).unwrap(), file);
    }
}
