//! Payload between two sites that cannot reach each other: the site in between fetches a chunk for itself, keeps it as an
//! evictable copy and gives it on.
//!
//! Before: `source.rs` at a site whose link to the holder is carried. After: the same from here on, by a way that is shorter
//! with each site. Why, when the link could carry it: a way that breaks goes on where it broke, chunk by chunk and hop by
//! hop; and what the next reader behind this site wants is here. Invariants: this site asks for itself, as it may; nothing
//! lies here that may not; a refusal costs the asker nothing but the question, it then has the chunk carried unread.

use std::sync::Arc;

use bytes::Bytes;
use skerry_federation::budget::Class;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_storage::ReadError;

use super::source::Chunks;
use super::{bucket, list, refusal};
use crate::peers::message::{Response, Through};
use crate::site::Site;

/// Answers with the chunk.
pub(crate) async fn answer(site: &Arc<Site>, class: Class, asked: Through) -> (Response, Vec<Bytes>) {
    match chunk(site, class, asked).await {
        Ok(Some(bytes)) => (Response::Chunk(u32::try_from(bytes.len()).unwrap_or(u32::MAX)), vec![bytes]),
        Ok(None) => (Response::NoChunk, Vec::new()),
        Err(error) => (list::refused(&error), Vec::new()),
    }
}

fn refuse(message: impl Into<String>) -> ServiceError {
    ServiceError::new(ErrorKind::Unreachable, message)
}

async fn chunk(site: &Arc<Site>, class: Class, asked: Through) -> Outcome<Option<Bytes>> {
    let Through { holder, domain, chunk, most } = asked;
    site.peers.willing().map_err(|why| refuse(format!("{} {why}", site.called())))?;
    let system = site.system;
    let bucket = site.read(move |view| bucket::claim_of(view, system, domain)).await?;
    let bucket = bucket.ok_or_else(|| refuse("the bucket is not known here yet"))?;
    bucket.check_residency(site)?;
    let store = site.store.clone();
    let read = move || store.read_chunk(domain, chunk.id, 0..u32::MAX);
    match tokio::task::spawn_blocking(read).await.map_err(refusal::task)? {
        Ok(bytes) => return Ok(Some(bytes)),
        Err(ReadError::Absent) => {}
        Err(error) => tracing::error!(chunk = %chunk.id, %error, "a chunk here cannot be read"),
    }
    let near = site.peers.course(holder).is_some_and(|course| course.hops <= most);
    if !near {
        return Err(refuse(format!("{} has no way to it that is shorter", site.called())));
    }
    let Ok(_room) = site.peers.circuits.through.try_acquire() else {
        return Err(refuse(format!("{} fetches as much for others as it can", site.called())));
    };
    let further = site.peers.chunk_through(class, holder, domain, &chunk).await;
    let fetched = match further {
        Some(bytes) => Some(bytes),
        None => {
            let fetched = site.peers.chunk(class, holder, domain, &chunk).await;
            fetched.map_err(|error| refuse(error.to_string()))?
        }
    };
    if let Some(bytes) = &fetched {
        Chunks::new(site, &bucket, holder).keep(chunk.kind, bytes.clone()).await;
    }
    Ok(fetched)
}
