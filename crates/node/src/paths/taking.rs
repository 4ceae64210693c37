//! Payload that is being made this site's own for another site that asks to hold it: chunk by chunk, turn by turn.
//!
//! Before: `scope.rs`, which answers each question within a turn. After: `hands.rs` and `source.rs`, which fetch what is
//! not here, and the store. Invariants: leaves before the tree that counts them; what came stays until it is asked for again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, ChunkKind, ChunkRef};
use skerry_federation::budget::Class as Urgency;
use skerry_gateway::service::Outcome;
use skerry_model::body::{Step, Walk};
use skerry_model::{Object, Record};
use skerry_storage::{Class, Pin, SmallBody};

use super::bucket::Bucket;
use super::hands::{self, Hands};
use super::refusal;
use super::source::Chunks;
use crate::copies::look;
use crate::copies::others::Aside;
use crate::site::Site;

/// Payload that is being made this site's own.
pub(super) struct Taking {
    /// How urgent it is to fetch what was not sent along.
    pub(super) class: Urgency,
    pub(super) bytes: u64,
    pub(super) pins: Vec<Pin>,
    pub(super) small: Option<SmallBody>,
    pub(super) turn: Duration,
}

impl Taking {
    /// Whether a large body is here already as one that counts; then it is pinned.
    pub(super) async fn has_all(&mut self, site: &Arc<Site>, bucket: &Bucket, object: &Object) -> Outcome<bool> {
        if object.size <= JOURNAL_BODY_BYTES as u64 {
            return Ok(false);
        }
        let (store, id, object) = (site.store.clone(), bucket.id, object.clone());
        let look = move || look::pinned(&store, id, &object);
        let pins = tokio::task::spawn_blocking(look).await.map_err(refusal::task)?;
        Ok(pins.map(|mut pins| self.pins.append(&mut pins)).is_some())
    }

    /// Likewise one leaf of it.
    async fn has_leaf(&mut self, site: &Arc<Site>, bucket: &Bucket, chunk: &ChunkRef) -> Outcome<bool> {
        if chunk.kind != ChunkKind::Leaf {
            return Ok(false);
        }
        let (store, domain, id) = (site.store.clone(), bucket.id, chunk.id);
        let look = move || store.pin(domain, id).filter(|_| store.counts(domain, id));
        let Some(pin) = tokio::task::spawn_blocking(look).await.map_err(refusal::task)? else {
            return Ok(false);
        };
        self.bytes += u64::from(chunk.stored);
        self.pins.push(pin);
        Ok(true)
    }

    /// Takes all chunks: those that were sent along, those that are here, the rest from who has them. False after a turn: what
    /// is on its way then goes on coming, for the next question.
    pub(super) async fn take(
        &mut self,
        site: &Arc<Site>,
        bucket: &Bucket,
        record: &Record,
        object: &Object,
        sent: Vec<Bytes>,
    ) -> Outcome<bool> {
        let (begun, mut came) = (site.clock.now(), false);
        let chunks = Arc::new(Chunks::as_urgent(self.class, site, bucket, record.site));
        let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
        let mut sent = sent.into_iter();
        let mut trees = Vec::new();
        while let Some(step) = walk.next() {
            let worked = site.clock.now().since(begun);
            if came && worked >= self.turn {
                return Ok(false);
            }
            let (Step::Tree(chunk) | Step::Leaf(chunk, _)) = step;
            // What came in a turn before is not read again: of a large body that would take the whole turn.
            if object.size > JOURNAL_BODY_BYTES as u64 && self.has_leaf(site, bucket, &chunk).await? {
                sent.next();
                continue;
            }
            let bytes = match sent.next().filter(|bytes| skerry_base::ChunkId::of(bytes) == chunk.id) {
                Some(bytes) => {
                    // Many sites may have many versions held here at once; clients do not wait for them.
                    let room = bytes.len().min(site.holding.bytes());
                    site.holding.take(room).await?.attach(bytes)
                }
                None => {
                    came |= !site.store.has_chunk(bucket.id, chunk.id);
                    // If nothing came at all it is worth to wait a little longer: releases before take that for the end.
                    let most = self.turn + if came { Duration::ZERO } else { self.turn / 2 };
                    match fetched(&chunks, bucket.id, chunk, most.saturating_sub(worked)).await {
                        Some(bytes) => bytes?,
                        None => {
                            self.bytes += site.peers.has_of(bucket.id, chunk.id);
                            return Ok(false);
                        }
                    }
                }
            };
            self.bytes += bytes.len() as u64;
            if chunk.kind == ChunkKind::Tree {
                walk.supply(&bytes).map_err(refusal::malformed)?;
                trees.push(bytes);
            } else if object.size <= JOURNAL_BODY_BYTES as u64 && object.chunks.len() == 1 {
                self.small = Some(SmallBody::new(bucket.id, bytes));
            } else {
                self.pins.push(own(site, bucket, ChunkKind::Leaf, bytes).await?);
            }
        }
        // A tree counts its children when it is put, so it comes after them.
        for bytes in trees.into_iter().rev() {
            self.pins.push(own(site, bucket, ChunkKind::Tree, bytes).await?);
        }
        Ok(true)
    }
}

/// A chunk from here or from who has it; none if it has not come within this time.
async fn fetched(
    chunks: &Arc<Chunks>,
    domain: BucketId,
    chunk: ChunkRef,
    within: Duration,
) -> Option<Outcome<Bytes>> {
    let (site, source) = (chunks.site(), chunks.clone());
    let fetch = async move {
        let room = source.room().wait(chunk.stored as usize).await?;
        let bytes = source.whole(chunk).await?;
        if chunk.kind == ChunkKind::Tree {
            // Every turn begins with it, and it counts only once its children are here.
            source.keep(chunk.kind, bytes.clone()).await;
        }
        Ok(Some(room.attach(bytes)))
    };
    let gone = || refusal::unreachable("the payload is gone where it was fetched from");
    let came = Hands::fetched(site, (domain, chunk.id), within, fetch).await?;
    Some(came.and_then(|bytes| bytes.ok_or_else(gone)))
}

/// What came stays until it is asked for again: nothing refers to it yet, and the collector does not wait.
pub(super) fn keep_between_turns(came: (Vec<Pin>, Option<Aside>)) {
    drop(tokio::spawn(async move {
        tokio::time::timeout(hands::NEXT, std::future::pending::<()>()).await.ok();
        drop(came);
    }));
}

async fn own(site: &Arc<Site>, bucket: &Bucket, kind: ChunkKind, bytes: Bytes) -> Outcome<Pin> {
    let (store, domain) = (site.store.clone(), bucket.id);
    let put = move || store.put_chunk(domain, Class::Payload, kind, &bytes);
    tokio::task::spawn_blocking(put).await.map_err(refusal::task)?.map_err(refusal::storage)
}
