//! Payload between two sites that cannot reach each other: the site in between fetches a chunk for itself, keeps it as an
//! evictable copy and gives it on.
//!
//! Before: `source.rs` at a site whose link to the holder is carried. After: the same from here on, by a way that is shorter
//! with each site. Why, when the link could carry it: a way that breaks goes on where it broke, chunk by chunk and hop by
//! hop; and what the next reader behind this site wants is here. Invariants: this site asks for itself, as it may; nothing
//! lies here that may not; a refusal costs the asker nothing but the question, it then has the chunk carried unread; what is
//! on its way to here goes on when a question was answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use skerry_base::{ChunkRef, SiteId};
use skerry_federation::budget::Class;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_storage::ReadError;

use super::answer::tail_of;
use super::bucket::Bucket;
use super::hands::Hands;
use super::source::Chunks;
use super::{list, refusal};
use crate::peers::message::{Response, Tail, Through};
use crate::peers::serve::Asker;
use crate::site::Site;

/// How long a chunk waits for others that are fetched: a slow line may have all the room, and the asker another way.
const ROOM_WAIT: Duration = Duration::from_secs(2);

/// Answers with the chunk, once it is here.
pub(crate) async fn answer(site: &Arc<Site>, from: Asker, asked: Through) -> (Response, Vec<Bytes>) {
    let chunk = match begun(site, (from, false), asked).await {
        Ok(Begun::Here(bytes)) => Ok(Some(bytes)),
        Ok(Begun::Fetch(fetch)) => fetch.await,
        Err(error) => Err(error),
    };
    told(chunk, 0)
}

/// Answers with what the asker lacks of the chunk, or, after a turn, with how far it is; it goes on coming meanwhile.
pub(crate) async fn rest(
    site: &Arc<Site>,
    from: Asker,
    tail: Tail,
    (holder, most): (SiteId, u8),
) -> (Response, Vec<Bytes>) {
    let Tail { domain, chunk, from: begin, .. } = tail;
    // It may wait for its turn here: whoever asks hears how far it is.
    let fetch = match begun(site, (from, true), Through { holder, domain, chunk, most }).await {
        Ok(Begun::Here(bytes)) => return told(Ok(Some(bytes)), begin),
        Ok(Begun::Fetch(fetch)) => fetch,
        Err(error) => return told(Err(error), begin),
    };
    let turn = site.peers.waits().turn;
    // It is kept on the disk, too.
    match Hands::fetched(site, (domain, chunk.id), turn, (fetch, &site.holding)).await {
        Some(chunk) => told(chunk, begin),
        None => (Response::Holding(site.peers.has_of(domain, chunk.id)), Vec::new()),
    }
}

fn told(chunk: Outcome<Option<Bytes>>, from: u32) -> (Response, Vec<Bytes>) {
    match chunk {
        Ok(Some(bytes)) => tail_of(bytes, from),
        Ok(None) => (Response::NoChunk, Vec::new()),
        Err(error) => (list::refused(&error), Vec::new()),
    }
}

fn refuse(message: impl Into<String>) -> ServiceError {
    ServiceError::new(ErrorKind::Unreachable, message)
}

/// A chunk that another site asks for.
enum Begun {
    Here(Bytes),
    Fetch(BoxFuture<'static, Outcome<Option<Bytes>>>),
}

async fn begun(site: &Arc<Site>, (from, waits): (Asker, bool), asked: Through) -> Outcome<Begun> {
    let Through { holder, domain, chunk, most } = asked;
    site.peers.willing().map_err(|why| refuse(format!("{} {why}", site.called())))?;
    let bucket = site.claim_of(domain).await?;
    let bucket = bucket.ok_or_else(|| refuse("the bucket is not known here yet"))?;
    bucket.check_residency(site)?;
    let store = site.store.clone();
    let read = move || store.read_chunk(domain, chunk.id, 0..u32::MAX);
    match tokio::task::spawn_blocking(read).await.map_err(refusal::task)? {
        Ok(bytes) => return Ok(Begun::Here(bytes)),
        Err(ReadError::Absent) => {}
        Err(error) => tracing::error!(chunk = %chunk.id, %error, "a chunk here cannot be read"),
    }
    let near = site.peers.course(holder).is_some_and(|course| course.hops <= most);
    if !near {
        return Err(refuse(format!("{} has no way to it that is shorter", site.called())));
    }
    let site = site.clone();
    Ok(Begun::Fetch(Box::pin(async move {
        let circuits = &site.peers.circuits;
        let busy = || refuse(format!("{} fetches as much for others as it can", site.called()));
        let _place = circuits.through_by.take(from.site).ok_or_else(busy)?;
        let wait = if waits { ROOM_WAIT } else { Duration::ZERO };
        let Ok(Ok(_room)) = tokio::time::timeout(wait, circuits.through.acquire()).await else {
            return Err(busy());
        };
        fetch(&site, &bucket, (from.class, holder), chunk).await
    })))
}

async fn fetch(
    site: &Arc<Site>,
    bucket: &Bucket,
    (class, holder): (Class, SiteId),
    chunk: ChunkRef,
) -> Outcome<Option<Bytes>> {
    let errand = site.peers.errand(class);
    let further = site.peers.chunk_through(errand, holder, bucket.id, &chunk).await;
    let fetched = match further {
        Some(bytes) => Some(bytes),
        None => {
            let fetched = site.peers.chunk_unless_silent(errand, holder, bucket.id, &chunk).await;
            fetched.map_err(|error| refuse(error.to_string()))?
        }
    };
    if let Some(bytes) = &fetched {
        Chunks::new(site, bucket, holder).keep(chunk.kind, bytes.clone()).await;
    }
    Ok(fetched)
}
