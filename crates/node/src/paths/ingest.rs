//! A body on its way in: cut into chunks, named, written unsynced, with bounded memory.
//!
//! Before: `paths/put.rs` or `paths/part.rs` with the gateway's body. After: the commit of a record that
//! refers to the chunks. Invariants: at most three chunks of a body are in memory; a body that fails leaves
//! only chunks that nothing refers to; what is pinned stays until the record is committed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use skerry_base::limits::{CHUNK_BYTES, JOURNAL_BODY_BYTES, PUT_BYTES};
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef};
use skerry_gateway::service::{Digests, ErrorKind, Outcome, ServiceError, UploadBody};
use skerry_model::body::{Composed, Composer};
use skerry_storage::{Class, Pin, SmallBody, StorageError, Store};
use tokio::task::JoinHandle;

use super::refusal;

/// Writes of one body on their way to the disk.
const WRITES: usize = 2;

/// A body that is written and pinned, but referred to by nothing yet.
#[derive(Default)]
pub(crate) struct Body {
    /// Bytes.
    pub(crate) size: u64,
    /// What names it.
    pub(crate) chunks: Vec<ChunkRef>,
    /// A small body goes into the journal beside its record instead.
    pub(crate) small: Option<SmallBody>,
    /// Keep until the record is committed.
    pub(crate) pins: Vec<Pin>,
}

/// Reads a body to its end and checks its digests.
pub(crate) async fn ingest(
    store: &Arc<Store>,
    domain: BucketId,
    mut upload: UploadBody,
) -> Outcome<(Body, Digests)> {
    let mut intake = Intake::new(store.clone(), domain);
    while let Some(bytes) = upload.next().await {
        intake.take(bytes?).await?;
    }
    let digests = upload.finish()?;
    Ok((intake.finish().await?, digests))
}

/// Takes bytes in any pieces and makes a [`Body`].
pub(crate) struct Intake {
    store: Arc<Store>,
    domain: BucketId,
    size: u64,
    buffer: BytesMut,
    writes: FuturesOrdered<JoinHandle<Result<(ChunkRef, Pin), StorageError>>>,
    composer: Composer,
    /// Of leaves that no tree names yet.
    leaves: Vec<Pin>,
    /// Of trees.
    trees: Vec<Pin>,
}

impl Intake {
    /// Nothing taken yet.
    pub(crate) fn new(store: Arc<Store>, domain: BucketId) -> Self {
        Self {
            store,
            domain,
            size: 0,
            buffer: BytesMut::new(),
            writes: FuturesOrdered::new(),
            composer: Composer::default(),
            leaves: Vec::new(),
            trees: Vec::new(),
        }
    }

    /// Takes the next bytes; waits while the disk is behind.
    pub(crate) async fn take(&mut self, mut bytes: Bytes) -> Outcome<()> {
        self.size += bytes.len() as u64;
        if self.size > PUT_BYTES {
            let message = "more than 5 GiB in one request; use a multipart upload";
            return Err(ServiceError::new(ErrorKind::EntityTooLarge, message));
        }
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.buffer.len();
            let piece = bytes.split_to(room.min(bytes.len()));
            self.buffer.extend_from_slice(&piece);
            if self.buffer.len() == CHUNK_BYTES {
                let full = self.buffer.split().freeze();
                self.write(full).await?;
            }
        }
        Ok(())
    }

    /// What came, once all of it is written.
    pub(crate) async fn finish(mut self) -> Outcome<Body> {
        let rest = self.buffer.split().freeze();
        if self.size <= JOURNAL_BODY_BYTES as u64 {
            return Ok(small(self.domain, rest));
        }
        if !rest.is_empty() {
            self.write(rest).await?;
        }
        while let Some(written) = self.writes.next().await {
            self.written(written).await?;
        }
        let composed = self.composer.finish();
        let mut pins = self.leaves;
        pins.append(&mut self.trees);
        let chunks = composed.top.clone();
        pins.append(&mut put_trees(&self.store, self.domain, composed).await?);
        Ok(Body { size: self.size, chunks, small: None, pins })
    }

    async fn write(&mut self, bytes: Bytes) -> Outcome<()> {
        let (store, domain) = (self.store.clone(), self.domain);
        self.writes.push_back(tokio::task::spawn_blocking(move || {
            let id = ChunkId::of(&bytes);
            let stored = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let pin = store.put_chunk(domain, Class::Payload, ChunkKind::Leaf, &bytes)?;
            Ok((ChunkRef { id, kind: ChunkKind::Leaf, stored, length: bytes.len() as u64 }, pin))
        }));
        while self.writes.len() >= WRITES {
            if let Some(written) = self.writes.next().await {
                self.written(written).await?;
            }
        }
        Ok(())
    }

    async fn written(
        &mut self,
        written: Result<Result<(ChunkRef, Pin), StorageError>, tokio::task::JoinError>,
    ) -> Outcome<()> {
        let (reference, pin) = written.map_err(refusal::task)?.map_err(refusal::storage)?;
        self.leaves.push(pin);
        let trees = self.composer.push(reference);
        if !trees.is_empty() {
            let full = Composed { top: Vec::new(), trees };
            self.trees.append(&mut put_trees(&self.store, self.domain, full).await?);
            // Only now: a tree that is written counts its children.
            self.leaves.clear();
        }
        Ok(())
    }
}

fn small(domain: BucketId, bytes: Bytes) -> Body {
    if bytes.is_empty() {
        return Body::default();
    }
    let size = bytes.len() as u64;
    let small = SmallBody::new(domain, bytes);
    let stored = u32::try_from(size).unwrap_or(u32::MAX);
    let reference = ChunkRef { id: small.id(), kind: ChunkKind::Leaf, stored, length: size };
    Body { size, chunks: vec![reference], small: Some(small), pins: Vec::new() }
}

/// Writes the trees of a composed body, children before parents.
pub(crate) async fn put_trees(store: &Arc<Store>, domain: BucketId, composed: Composed) -> Outcome<Vec<Pin>> {
    if composed.trees.is_empty() {
        return Ok(Vec::new());
    }
    let store = store.clone();
    let put = move || {
        let put = |tree: &skerry_model::body::TreeChunk| {
            store.put_chunk(domain, Class::Payload, ChunkKind::Tree, &tree.bytes)
        };
        composed.trees.iter().map(put).collect::<Result<Vec<_>, _>>()
    };
    tokio::task::spawn_blocking(put).await.map_err(refusal::task)?.map_err(refusal::storage)
}
