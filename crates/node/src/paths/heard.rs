//! What others have seen of a bucket: asked, and waited for until this site has seen it as well.
//!
//! Before: who needs what others may know and this site not yet, as a name that was claimed a moment ago. After: `peers`.
//! Invariants: who is not asked, or does not answer, speaks for nobody, and nobody for it; however many wait for the same, each site is
//! asked once a round trip; who is taken to have seen what this site has said that it has just that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector};
use skerry_gateway::service::Outcome;
use skerry_model::space;

use super::{members, refusal};
use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};
use crate::trust::entropy;

/// How long a member may take to say what it has seen.
const SAY: Duration = Duration::from_secs(5);
/// How long a reader waits for records that others are known to have.
pub(super) const CATCH_UP: Duration = Duration::from_secs(5);

/// Rounds of questions for claims of names. Who comes while one is under way waits for the next one, all of them for the same:
/// however many names are asked for that nobody has, each site is asked once a round trip.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    begun: AtomicU64,
    ended: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

impl Rounds {
    /// Comes back once a round is over that began after this was called: the caller's own, or another's.
    async fn join(&self, round: impl Future<Output = ()>) {
        let before = self.begun.load(Ordering::SeqCst);
        let _turn = self.turn.lock().await;
        // One whose caller went away meanwhile has not ended, and told nothing.
        if self.ended.load(Ordering::SeqCst) > before {
            return;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        round.await;
        self.ended.store(number, Ordering::SeqCst);
    }
}

/// The rounds of a site: with few that are near, and with all.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    some: Rounds,
    all: Rounds,
}

/// With more links than this a few sites are asked first. Less is not worth a second round trip for a name that nobody has.
const MANY: usize = 16;
/// Near sites of those few, beside one that is drawn: what a whole cluster has not heard yet it may have.
const NEAR: usize = 2;
/// How long those may take: all are asked then.
const SAY_SOON: Duration = Duration::from_secs(1);

/// What a look-up in the system bucket finds, at last with what all sites that can be reached know of it.
pub(crate) async fn find<T, F>(site: &Site, look: impl Fn() -> F) -> Outcome<Option<T>>
where
    F: Future<Output = Outcome<Option<T>>>,
{
    if let Some(found) = look().await? {
        return Ok(Some(found));
    }
    if hear_some_claims(site).await
        && let Some(found) = look().await?
    {
        return Ok(Some(found));
    }
    hear_claims(site).await;
    look().await
}

/// Takes what a few of many sites know of the system bucket: what is not known here may have been claimed a moment ago, and what
/// they say is mostly what all know. False with few links. That something is nowhere only all can say together
/// ([`hear_claims`]), landmarks no better than any other: claims come by feed.
fn hear_some_claims<'a>(site: &'a Site) -> BoxFuture<'a, bool> {
    Box::pin(async move {
        let few = few(site, entropy::share());
        if few.is_empty() {
            return false;
        }
        site.claims.some.join(hear_of(site, &few, SAY_SOON)).await;
        true
    })
}

/// Takes what all sites that can be reached know of the system bucket.
pub(crate) fn hear_claims<'a>(site: &'a Site) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let others = site.peers.roster.all().len() > 1;
        while others && site.boxes.linked().is_empty() && site.waits_for_links().await {}
        let round = async { hear_of(site, &site.boxes.linked(), SAY).await };
        site.claims.all.join(round).await;
    })
}

async fn hear_of(site: &Site, sites: &[SiteId], within: Duration) {
    let goal = together(&say(site, site.system, sites, within).await);
    if let Err(error) = seen(site, site.system, &goal).await {
        tracing::debug!(%error, "claims of others have not arrived");
    }
}

/// Whom to ask first: none if there are few links.
fn few(site: &Site, draw: f64) -> Vec<SiteId> {
    let linked = site.boxes.linked();
    let rtt = |other: &SiteId| {
        let node = site.peers.roster.node(*other);
        node.and_then(|node| site.peers.net().rtt(node)).unwrap_or(Duration::MAX)
    };
    let distances = linked.iter().map(|other| (rtt(other), *other)).collect();
    chosen(distances, draw)
}

/// The nearest and one drawn of the others, if there are many; `draw` in 0..1.
fn chosen(mut sites: Vec<(Duration, SiteId)>, draw: f64) -> Vec<SiteId> {
    if sites.len() <= MANY {
        return Vec::new();
    }
    sites.sort_unstable();
    let others = sites.split_off(NEAR);
    let drawn = others.get((others.len() as f64 * draw) as usize);
    sites.iter().chain(drawn).map(|(_, site)| *site).collect()
}

/// What these sites have seen of a bucket together, and how many of them said so.
pub(crate) async fn seen_by(site: &Site, bucket: BucketId, sites: &[SiteId]) -> (Vector, usize) {
    let said = seen_by_each(site, bucket, sites).await;
    (together(&said), said.len())
}

pub(super) fn together(said: &[(SiteId, Arc<Vector>)]) -> Vector {
    let mut all = Vector::new();
    let mut last: Option<&Arc<Vector>> = None;
    for (_, vector) in said {
        // Mostly all have what is here, and that is one.
        if last.is_none_or(|last| !Arc::ptr_eq(last, vector)) {
            all.merge(vector);
        }
        last = Some(vector);
    }
    all
}

/// What each of these sites has seen of a bucket, as far as they said so; in their order.
pub(super) async fn seen_by_each(
    site: &Site,
    bucket: BucketId,
    sites: &[SiteId],
) -> Vec<(SiteId, Arc<Vector>)> {
    say(site, bucket, sites, SAY).await
}

/// The same within a time. Who has seen just what was seen here when this began says no more than that: a vector has an entry for
/// each start of each site that wrote, and all of them said theirs.
async fn say(
    site: &Site,
    bucket: BucketId,
    sites: &[SiteId],
    within: Duration,
) -> Vec<(SiteId, Arc<Vector>)> {
    let own = site.read(move |view| space::vector(view, bucket).map_err(unreadable)).await;
    let own = own.ok().filter(|own| !own.is_empty()).map(|own| (digest(&own), Arc::new(own)));
    let asked = sites.iter().map(|member| {
        let own = own.as_ref().filter(|_| site.peers.compares(*member));
        let request = match own {
            Some((digest, _)) => Request::Seen { bucket, digest: *digest },
            None => Request::Size { bucket },
        };
        async move {
            match tokio::time::timeout(within, site.peers.call(*member, &request)).await.ok()?.ok()?.response
            {
                Response::Size { vector, .. } => Some((*member, Arc::new(vector))),
                Response::Same => own.map(|(_, own)| (*member, Arc::clone(own))),
                _ => None,
            }
        }
    });
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

/// What tells whether two vectors are equal.
pub(crate) fn digest(vector: &Vector) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("skerry 2026-11-26 what was seen of a bucket");
    for (origin, seq) in vector.iter() {
        hasher.update(&origin.to_bytes());
        hasher.update(&seq.to_be_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Answers what a complete member has seen of a bucket: to who has seen just that, that it is the same.
pub(crate) async fn answer(site: &Arc<Site>, bucket: BucketId, theirs: [u8; 32]) -> Outcome<Response> {
    if !site.is_complete(bucket) {
        return Ok(members::not_complete(site, bucket));
    }
    let read = move |view: &dyn View| {
        let vector = space::vector(view, bucket).map_err(unreadable)?;
        if digest(&vector) == theirs {
            return Ok(Response::Same);
        }
        let bytes = space::sums(view, bucket).map_err(unreadable)?.record_bytes;
        Ok(Response::Size { bytes, vector })
    };
    let said = site.read(read).await?;
    Ok(if site.is_complete(bucket) { said } else { members::not_complete(site, bucket) })
}

/// Waits until this site has seen all of `goal`.
pub(crate) fn seen<'a>(site: &'a Site, bucket: BucketId, goal: &'a Vector) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(async move {
        let mut changes = site.changes.follow();
        let wait = async {
            loop {
                changes.mark_unchanged();
                let own = site.read(move |view| space::vector(view, bucket).map_err(unreadable)).await?;
                if own.includes(goal) || changes.changed().await.is_err() {
                    return Ok(());
                }
            }
        };
        let late = || refusal::unreachable("what others have of the bucket has not arrived; try again");
        tokio::time::timeout(CATCH_UP, wait).await.map_err(|_| late())?
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn who_comes_during_a_round_shares_the_next_one_and_a_round_cut_short_counts_for_nobody() {
        let (rounds, made) = (Rounds::default(), AtomicU64::new(0));
        let (end, ended) = oneshot::channel::<()>();
        let first = async {
            made.fetch_add(1, Ordering::Relaxed);
            ended.await.ok();
        };
        let mut first = Box::pin(rounds.join(first));
        assert!(poll!(&mut first).is_pending());
        let other = || async {
            made.fetch_add(1, Ordering::Relaxed);
        };
        let (mut one, mut two) = (pin!(rounds.join(other())), pin!(rounds.join(other())));
        assert!(poll!(&mut one).is_pending() && poll!(&mut two).is_pending());
        end.send(()).ok();
        first.await;
        one.await;
        two.await;
        assert_eq!(made.load(Ordering::Relaxed), 2, "the first one's, and one for both");
        let mut cut = Box::pin(rounds.join(std::future::pending()));
        assert!(poll!(&mut cut).is_pending());
        let mut late = pin!(rounds.join(other()));
        assert!(poll!(&mut late).is_pending());
        drop(cut);
        late.await;
        assert_eq!(made.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn of_many_the_nearest_are_asked_first_and_one_that_is_drawn() {
        let site = |n: u8| (Duration::from_millis((50 - n).into()), SiteId([n; 16]));
        let near = |count: u8, draw| chosen((0..count).map(site).collect(), draw);
        assert!(near(16, 0.5).is_empty(), "all are asked at once");
        let ids = |ids: [u8; 3]| ids.map(|n| SiteId([n; 16])).to_vec();
        assert_eq!(near(17, 0.0), ids([16, 15, 14]));
        assert_eq!(near(17, 0.999), ids([16, 15, 0]));
    }

    #[test]
    fn a_digest_tells_vectors_apart_and_what_all_have_counts_once() {
        let vector = |seq| Vector::from_iter([(skerry_base::Origin::default(), seq)]);
        assert_ne!(digest(&vector(1)), digest(&vector(2)));
        assert_ne!(digest(&vector(1)), digest(&Vector::new()));
        let (own, other) = (Arc::new(vector(3)), Arc::new(vector(7)));
        let said = [&own, &own, &other, &own].map(|seen| (SiteId([1; 16]), Arc::clone(seen)));
        assert_eq!(together(&said), vector(7));
    }
}
