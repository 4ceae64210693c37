//! Buckets without a complete member: those who are joining hold what there is, and have nobody to wait for.
//!
//! Before: `members::complete`, now and then for each bucket that is still being joined. After: [`skerry_federation::alone`],
//! which judges what all others say of a bucket whose whole members burned, or were begun anew. Invariants: only an operator's
//! word (`declare-lost`, `expel`) makes a site count as lost, unless it is linked, and speaks for no other site; every other one
//! must be linked and have said itself that nothing lies there, or that it is joining as well and has nothing that is not here;
//! nothing may have come meanwhile; who waits says for whom, and what ends it; while this site takes the place of one that was in
//! the bucket, `workers/replace.rs` says what there is, and what is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId};
use skerry_federation::alone::{self, Held, Looks, Remains, Waits, Word};
use skerry_gateway::service::Outcome;
use skerry_model::space;

use super::{heard, refusal};
use crate::leaving;
use crate::peers::message::{Request, Response};
use crate::replacing::is_taken;
use crate::site::{Site, unreadable};

/// How long another site may take to say what it is to the bucket.
const SAY: Duration = Duration::from_secs(5);

/// Why nothing is held yet of a bucket that no other site has.
const TAKEN: &str = "this site takes the place of one that is gone, and says what of it is lost before it answers for the bucket: \
    `skerry site show` of that one tells how far it is";

/// Others that are asked at once.
const AT_ONCE: usize = 16;
/// Sites that are named for one reason: it is read by people.
const NAMED: usize = 16;

/// What was here of such buckets when it was looked last.
#[derive(Default)]
pub(super) struct Orphans {
    alone: Looks,
    /// Who was waited for then, and could be asked.
    waited: BTreeMap<BucketId, SiteId>,
}

impl Orphans {
    /// Whether this site may take itself for a complete member: nobody is there who could be one, as at the look before,
    /// and nothing came since. `takes`: there is somebody to take it from, for all that is known; then the others are asked only
    /// where a site is lost, which may have been all that had it whole.
    pub(super) async fn settle(&mut self, site: &Arc<Site>, bucket: BucketId, takes: bool) -> bool {
        if takes && site.copies.lost().is_empty() {
            return false;
        }
        let Ok(own) = site.read(move |view| held(view, bucket)).await else { return false };
        let (words, is_acquainted) = ask(site, bucket, self.waited.get(&bucket).copied()).await;
        let waits = alone::judge(&own, &words, is_acquainted);
        match waits.first() {
            Some(first) => self.waited.insert(bucket, first),
            None => self.waited.remove(&bucket),
        };
        let here = site.clone();
        let is_taken =
            waits.is_over() && site.read(move |view| is_taken(view, &here, bucket)).await.unwrap_or(true);
        if !takes {
            let said = if is_taken { Some(TAKEN.into()) } else { said(site, bucket, &waits).await };
            site.leaving.set_waits(bucket, said);
        }
        let settled = !is_taken && self.alone.look(bucket, own, &waits);
        if settled {
            tracing::warn!(
                %bucket,
                "no other site that counts has anything of a bucket; this one, which was joining, holds what there is"
            );
        }
        settled
    }

    /// Of all but these, which are still being joined, nothing is remembered.
    pub(super) fn keep(&mut self, site: &Site, incomplete: &[BucketId]) {
        self.waited.retain(|bucket, _| incomplete.contains(bucket));
        self.alone.keep(incomplete);
        site.leaving.keep_waits(incomplete);
    }
}

/// What this site holds of a bucket.
fn held(view: &dyn View, bucket: BucketId) -> Outcome<Held> {
    let vector = space::vector(view, bucket).map_err(unreadable)?;
    let loose = space::loose(view, bucket).map_err(unreadable)?;
    Ok(Held { vector, loose: loose.into_iter().map(leaving::shown).collect() })
}

/// Asks all others what lies there, and what sites they know; nobody while somebody is away. Who was waited for before is asked
/// first, and if that is so still, alone.
async fn ask(site: &Arc<Site>, bucket: BucketId, waited: Option<SiteId>) -> (BTreeMap<SiteId, Word>, bool) {
    let (lost, mut words, mut linked) = (site.copies.lost(), BTreeMap::new(), Vec::new());
    for other in site.peers.roster.all().into_keys().filter(|other| *other != site.id) {
        if site.linked(other) {
            linked.push(other);
        } else {
            words.insert(other, if lost.contains(&other) { Word::Lost } else { Word::Away });
        }
    }
    if words.values().any(|word| *word == Word::Away) {
        return (words, true);
    }
    let is_waited = |other: &SiteId| Some(*other) == waited;
    let (first, rest): (Vec<SiteId>, Vec<SiteId>) = linked.iter().copied().partition(is_waited);
    for some in [first.as_slice()].into_iter().chain(rest.chunks(AT_ONCE)) {
        let asked = some.iter().map(|other| async { (*other, remains(site, bucket, *other).await) });
        words.extend(futures::future::join_all(asked).await);
        let keeps =
            |word: &Word| matches!(word, Word::Silent | Word::Said(Remains::Records | Remains::Whole));
        if words.values().any(keeps) {
            return (words, true);
        }
    }
    let (known, said) = heard::seen_by(site, site.system, &linked).await;
    let system = site.system;
    let own = site.read(move |view| space::vector(view, system).map_err(unreadable)).await;
    (words, said == linked.len() && own.is_ok_and(|own| own.includes(&known)))
}

async fn remains(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> Word {
    let request = Request::Remains { bucket };
    match tokio::time::timeout(SAY, site.peers.call(other, &request))
        .await
        .map(|said| said.map(|said| said.response))
    {
        Ok(Ok(Response::Remains(remains))) => Word::Said(*remains),
        _ => Word::Silent,
    }
}

/// Answers a site that is still taking a bucket and finds nobody to take it from.
pub(crate) async fn answer(site: &Arc<Site>, bucket: BucketId) -> Outcome<Response> {
    let standing = || (site.is_member(bucket), site.is_complete(bucket));
    let before = standing();
    let is_followed = site.following.any_of(bucket) || site.leaving.sweeps(bucket);
    let remains = match before {
        (_, true) => Remains::Whole,
        (true, false) => Remains::Joins(site.read(move |view| held(view, bucket)).await?),
        (false, false) if is_followed => Remains::Records,
        (false, false) => site.read(move |view| left(view, bucket)).await?,
    };
    if standing() != before {
        return Err(refusal::unreachable(
            "this site has just begun to follow the bucket, or left it: ask again",
        ));
    }
    Ok(Response::Remains(Box::new(remains)))
}

/// What lies at a site that is no member.
fn left(view: &dyn View, bucket: BucketId) -> Outcome<Remains> {
    let is_empty = space::left(view, bucket, 1).map_err(unreadable)?.is_empty();
    Ok(if is_empty { Remains::Nothing } else { Remains::Records })
}

/// For whom this site waits, and what ends it, in words; none if it is just taking what others have.
async fn said(site: &Arc<Site>, bucket: BucketId, waits: &Waits) -> Option<String> {
    if waits.is_over() || !waits.ahead.is_empty() {
        return None;
    }
    let name = site.claim_of(bucket).await.ok().flatten().map(|claim| claim.name);
    let name = name.unwrap_or_else(|| bucket.to_string());
    let mut reasons = Vec::new();
    let mut say = |sites: &[SiteId], words: &dyn Fn(String) -> String| {
        reasons.extend(sites.iter().take(NAMED).map(|other| words(site.peers.roster.name(*other))));
        if let Some(more) = sites.len().checked_sub(NAMED).filter(|more| *more > 0) {
            reasons.push(format!("the same of {more} more"));
        }
    };
    say(&waits.away, &|other| {
        format!(
            "{other} is not linked, and may have it (if it is lost for good: `skerry site declare-lost {other}`)"
        )
    });
    say(&waits.records, &|other| {
        format!(
            "records of it lie at {other}, which is no member, or follows a part of it (`skerry bucket join {name}` there brings them)"
        )
    });
    say(&waits.silent, &|other| {
        format!("{other} does not say what lies there (slow, or of a release before: update it)")
    });
    if waits.unacquainted && reasons.is_empty() {
        reasons.push("not all that others know of sites has come yet".into());
    }
    Some(format!(
        "nobody is linked who has all of it; without one this site answers for it by itself once every other is linked and has \
         nothing of it: {}",
        reasons.join("; ")
    ))
}
