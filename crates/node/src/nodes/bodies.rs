//! Bodies that the live nodes of a site hold and this one lacks.
//!
//! Before: `catch_up.rs`, for who joins the view. After: [`crate::paths::scope`], which holds a version. Invariants: a body is asked
//! of who says that it holds it as one that counts; pages are bounded.

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

/// Bytes of records that are looked through at once for bodies that are missing.
const LOOK: usize = 512 << 10;
/// Bodies that are fetched at once.
const AT_ONCE: usize = 16;

/// Fetches the bodies of a bucket that are not here and that this node holds.
pub(super) async fn bodies(site: &Arc<Site>, member: SiteId, bucket: BucketId) -> Outcome<()> {
    let mut seen = Vector::new();
    loop {
        let (store, from) = (site.store.clone(), seen.clone());
        let look = move || lacking_bodies(&store, bucket, &from);
        let (lacking, upto, more) = tokio::task::spawn_blocking(look).await.map_err(refusal::task)??;
        if !lacking.is_empty() {
            let spans = said_held(site, member, bucket, (&seen, &upto)).await?;
            let wanted = lacking.into_iter().filter(|record| spans.contains(record.dot));
            let fetch = |record: Record| {
                let site = site.clone();
                async move { hold(&site, member, &record).await }
            };
            let fetching: Vec<_> = wanted.map(fetch).collect();
            futures::stream::iter(fetching).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        if !more {
            return Ok(());
        }
        seen.merge(&upto);
    }
}

fn lacking_bodies(store: &Store, bucket: BucketId, from: &Vector) -> Outcome<(Vec<Record>, Vector, bool)> {
    let page = space::records_after(&store.view(), bucket, from, LOOK).map_err(unreadable)?;
    let living = page.items.into_iter().filter(|item| !item.spent).map(|item| item.record);
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
