//! Bodies that the live nodes of a site hold and this one lacks.
//!
//! Before: `catch_up.rs`, for who joins the view; [`level`], for who is in it. After: [`crate::paths::scope`], which holds a version.
//! Who is in the view was asked to hold each body that was written at the site, and need not have it: a write that its node
//! answered for alone, because this one was slow, and a disk that was put back from a snapshot of the running node, which no
//! register can tell from a restart. Nobody would see that a body is here once until the other node is lost. So all that was
//! written at the site is looked through after a start, and what came since twice a minute.
//!
//! Invariants: a body is asked of who says that it holds it as one that counts; pages are bounded; looking takes a tenth of
//! the time at most, beside what has to be fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use skerry_base::{BucketId, SiteId, Vector};
use skerry_federation::budget::Class;
use skerry_federation::placement::Spans;
use skerry_gateway::service::{ErrorKind, Outcome};
use skerry_model::{Record, space};
use skerry_storage::Store;

use crate::copies::look::is_here;
use crate::paths::refusal;
use crate::paths::scope::{self, Terms};
use crate::peers::message::{Hold, Holdings, Request, Response};
use crate::peers::serve::Asker;
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Bytes of records that are looked through at once for bodies that are missing.
const LOOK: usize = 512 << 10;
/// Bodies that are fetched at once.
const AT_ONCE: usize = 16;

/// How many times as long as a look took is rested after it.
const REST: u32 = 9;

/// Sees to it that this node has the bodies of what was written at its site, as long as the site runs.
pub(super) async fn level(site: Arc<Site>) {
    let mut looked: BTreeMap<(SiteId, BucketId), Vector> = BTreeMap::new();
    loop {
        let fellows = match site.nodes.holders() {
            Some(view) if view.live.contains(site.nodes.me) => site.holding_members(),
            _ => BTreeSet::new(),
        };
        let buckets = site.memberships();
        looked.retain(|(member, bucket), _| fellows.contains(member) && buckets.contains(bucket));
        for member in fellows.into_iter().filter(|member| *member != site.id) {
            for bucket in &buckets {
                let seen = looked.entry((member, *bucket)).or_default();
                if let Err(error) = fetch(&site, member, (*bucket, seen), true).await {
                    tracing::debug!(%bucket, %error, "bodies that another node holds are looked for again");
                }
            }
        }
        rest(site.peers.waits().levelled).await;
    }
}

/// Fetches the bodies of a bucket that are not here and that this node holds.
pub(super) async fn bodies(site: &Arc<Site>, member: SiteId, bucket: BucketId) -> Outcome<()> {
    fetch(site, member, (bucket, &mut Vector::new()), false).await
}

/// The same of what lies behind `seen`; `levels`: only what was written at this site, and without haste.
async fn fetch(
    site: &Arc<Site>,
    member: SiteId,
    (bucket, seen): (BucketId, &mut Vector),
    levels: bool,
) -> Outcome<()> {
    let ours = levels.then(|| site.peers.roster.ever_of(site.nodes.site));
    loop {
        let (store, from, ours) = (site.store.clone(), seen.clone(), ours.clone());
        let begun = site.clock.now();
        let look = move || lacking_bodies(&store, bucket, &from, ours.as_ref());
        let (lacking, upto, more) = tokio::task::spawn_blocking(look).await.map_err(refusal::task)??;
        let took = site.clock.now().since(begun);
        if !lacking.is_empty() {
            let spans = said_held(site, member, bucket, (seen, &upto)).await?;
            let wanted = lacking.into_iter().filter(|record| spans.contains(record.dot));
            let fetch = |record: Record| {
                let site = site.clone();
                async move { hold(&site, member, &record).await }
            };
            let fetching: Vec<_> = wanted.map(fetch).collect();
            futures::stream::iter(fetching).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        seen.merge(&upto);
        if !more {
            return Ok(());
        }
        if levels {
            rest(took * REST).await;
        }
    }
}

/// Of a piece of a bucket the versions whose bodies are not here; of those that these sites have written, if any are named.
fn lacking_bodies(
    store: &Store,
    bucket: BucketId,
    from: &Vector,
    ours: Option<&BTreeSet<SiteId>>,
) -> Outcome<(Vec<Record>, Vector, bool)> {
    let page = space::records_after(&store.view(), bucket, from, LOOK).map_err(unreadable)?;
    let living = page.items.into_iter().filter(|item| !item.spent).map(|item| item.record);
    let living = living.filter(|record| ours.is_none_or(|ours| ours.contains(&record.site)));
    let lacks = |record: &Record| record.object().is_some_and(|object| !is_here(store, bucket, object));
    Ok((living.filter(lacks).collect(), page.upto, page.more))
}

/// Which versions a node says that it holds, between these.
async fn said_held(
    site: &Arc<Site>,
    member: SiteId,
    bucket: BucketId,
    (from, upto): (&Vector, &Vector),
) -> Outcome<Spans> {
    let (mut from, mut spans) = (from.clone(), Spans::default());
    loop {
        let request = Request::Holdings(Holdings { bucket, life: None, from: from.clone() });
        let answer = site.peers.call(member, &request).await;
        let Ok(Response::Holdings(page)) = answer.map(|answer| answer.response) else {
            return Err(refusal::unreachable("it does not say which bodies it holds"));
        };
        spans.merge(&Spans::decode(&page.spans).map_err(refusal::malformed)?);
        let comes_further = !from.includes(&page.upto);
        from.merge(&page.upto);
        if !page.more || !comes_further || from.includes(upto) {
            return Ok(spans);
        }
    }
}

/// Holds one version that another node holds. A body that is damaged there and nowhere else whole keeps nobody out.
pub(super) async fn hold(site: &Arc<Site>, member: SiteId, record: &Record) -> Outcome<()> {
    let wanted = Hold { bucket: record.bucket, record: record.encode().into(), payload: Vec::new() };
    let from = Asker::plain(member, Class::Copy);
    loop {
        match scope::hold_on(site, from, wanted.clone(), Terms::default()).await {
            Ok(Response::Holding(_)) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                tracing::warn!(dot = %record.dot, %error, "a body that the site holds cannot be fetched");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}
