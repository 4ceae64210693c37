//! A body on its way in: cut into chunks, named, written unsynced, with bounded memory.
//!
//! Before: `paths/put.rs` or `paths/upload.rs` with the gateway's body. After: the commit of a record that
//! refers to the chunks. Invariants: at most three chunks of a body are in memory; a body that fails leaves
//! only chunks that nothing refers to; what is pinned stays until the record is committed.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use skerry_base::limits::{CHUNK_BYTES, JOURNAL_BODY_BYTES, PUT_BYTES};
use skerry_base::{BucketId, ChunkKind, ChunkRef, Instant};
use skerry_gateway::service::{
    Digests, ErrorKind, Md5Batch, Md5Sum, Md5Work, Outcome, ServiceError, Standing, UploadBody,
};
use skerry_model::body::{Composed, Composer};
use skerry_storage::{Buffer, Class, Pin, SmallBody, StorageError, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::refusal;
use crate::bulk::Grant;
use crate::clock::Clock;
use crate::incoming::{self, Incoming};
use crate::site::Site;

/// Writes of one body on their way to the disk.
const WRITES: usize = 2;
/// From this length on the MD5 of a chunk takes longer than a thread for it costs.
const LONG: usize = 512 << 10;

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
    site: &Site,
    domain: BucketId,
    mut upload: UploadBody,
) -> Outcome<(Body, Digests)> {
    let expected = upload.announced().unwrap_or(0);
    let mut intake = Intake::new(site, domain, expected);
    intake.standing = upload.take_standing();
    if expected <= JOURNAL_BODY_BYTES as u64 {
        intake.fill(&mut upload).await?;
        let digests = upload.finish()?;
        return Ok((intake.finish().await?.0, digests));
    }
    upload.leave_md5();
    intake.md5 = Some(site.md5.begin());
    intake.fill(&mut upload).await?;
    // What is written of a body whose digests are wrong is referred to by nothing.
    match intake.finish().await? {
        (body, Some(md5)) => Ok((body, upload.finish_with(md5)?)),
        // Fewer bytes came than were announced; that is what ending it says.
        (body, None) => Ok((body, upload.finish_with([0; 16])?)),
    }
}

/// Takes bytes in any pieces and makes a [`Body`].
pub(super) struct Intake<'a> {
    store: Arc<Store>,
    incoming: &'a Incoming,
    /// How many chunks are written at once, of all bodies.
    writing: Arc<Semaphore>,
    domain: BucketId,
    size: u64,
    /// The chunk that is being taken in.
    buffer: Option<Buffer>,
    /// Room for the buffer, if it is for more than a small body.
    grant: Option<Grant>,
    /// When it was there.
    began: Instant,
    clock: Clock,
    /// How it waits for room.
    standing: Standing,
    /// Bytes that will come, as far as known.
    expected: u64,
    /// A body that came in one piece and need not be copied.
    whole: Option<Bytes>,
    /// Where the MD5 of bodies is computed.
    sums: &'a Arc<Md5Batch>,
    /// That of this one; else somebody else computes it.
    md5: Option<Md5Sum>,
    /// The same, while it is computed beside the last write.
    beside: Option<JoinHandle<Option<[u8; 16]>>>,
    /// Whether its commit waits for a sync.
    syncs: bool,
    writes: FuturesOrdered<JoinHandle<Result<(ChunkRef, Pin), StorageError>>>,
    composer: Composer,
    /// Of leaves that no tree names yet.
    leaves: Vec<Pin>,
    /// Of trees.
    trees: Vec<Pin>,
}

impl<'a> Intake<'a> {
    /// Nothing taken yet, and so many bytes to come, if that is known.
    pub(super) fn new(site: &'a Site, domain: BucketId, expected: u64) -> Self {
        Self {
            store: site.store.clone(),
            incoming: &site.incoming,
            writing: site.writing.clone(),
            domain,
            size: 0,
            buffer: None,
            grant: None,
            began: Instant::default(),
            clock: site.clock,
            standing: Standing::default(),
            expected,
            whole: None,
            sums: &site.md5,
            md5: None,
            beside: None,
            syncs: !site.lazy,
            writes: FuturesOrdered::new(),
            composer: Composer::default(),
            leaves: Vec::new(),
            trees: Vec::new(),
        }
    }

    /// Takes all of a body.
    async fn fill(&mut self, upload: &mut UploadBody) -> Outcome<()> {
        while let Some(bytes) = self.outwait(upload.next()).await {
            self.take(bytes?).await?;
        }
        Ok(())
    }

    /// What is waited for; the chunk that is begun makes way for others where that takes long.
    pub(super) async fn outwait<T>(&mut self, next: impl Future<Output = T>) -> T {
        let mut next = pin!(next);
        while self.grant.as_ref().is_some_and(|grant| self.incoming.is_in_the_way(grant)) {
            match timeout(incoming::SLOW, &mut next).await {
                Ok(next) => return next,
                Err(_) => self.make_way(),
            }
        }
        next.await
    }

    fn make_way(&mut self) {
        self.grant = self.grant.take().map(|grant| self.incoming.make_way(grant));
    }

    /// Takes the next bytes; waits while the disk is behind.
    pub(super) async fn take(&mut self, mut bytes: Bytes) -> Outcome<()> {
        self.size += bytes.len() as u64;
        if self.size > PUT_BYTES {
            let message = "more than 5 GiB in one request; use a multipart upload";
            return Err(ServiceError::new(ErrorKind::EntityTooLarge, message));
        }
        if self.size == self.expected && bytes.len() as u64 == self.size && bytes.len() <= CHUNK_BYTES {
            self.whole = Some(bytes);
            return Ok(());
        }
        if let Some(whole) = self.whole.take() {
            let mut buffer = self.begin_chunk(0).await?;
            buffer.push(&whole);
            self.buffer = Some(buffer);
        }
        while !bytes.is_empty() {
            let mut buffer = match self.buffer.take() {
                Some(buffer) => buffer,
                None => self.begin_chunk(self.size - bytes.len() as u64).await?,
            };
            let room = CHUNK_BYTES - buffer.len();
            buffer.push(&bytes.split_to(room.min(bytes.len())));
            let is_full = buffer.len() == CHUNK_BYTES;
            self.buffer = Some(buffer);
            if is_full {
                let full = self.end_chunk();
                let is_last = bytes.is_empty() && self.size == self.expected;
                self.write(full, is_last).await?;
            } else if incoming::is_slow(self.began, self.clock.now()) {
                self.make_way();
            }
        }
        Ok(())
    }

    /// Makes room for the next chunk, after so many bytes; waits while other uploads have all of it.
    async fn begin_chunk(&mut self, come: u64) -> Outcome<Buffer> {
        let left = self.expected.saturating_sub(come).min(CHUNK_BYTES as u64) as usize;
        // Nobody knows how much comes of a body that was not announced.
        let wanted = if left == 0 { CHUNK_BYTES } else { left };
        if wanted > JOURNAL_BODY_BYTES {
            let room = async {
                match self.incoming.try_take(wanted) {
                    Some(grant) => Ok(grant),
                    None => {
                        // What waits for its MD5 with others is done now, whoever computes that of this body.
                        let sums = Arc::clone(self.sums);
                        drop(tokio::task::spawn_blocking(move || sums.clear()));
                        self.incoming.take(wanted).await
                    }
                }
            };
            // Also where there is room: who comes first has a place in its connection to its end.
            self.grant = Some(self.standing.wait(room).await??);
            self.began = self.clock.now();
        }
        Ok(self.store.gather(wanted))
    }

    /// What was taken since the last chunk.
    fn end_chunk(&mut self) -> Bytes {
        let bytes = self.buffer.take().map(Buffer::freeze).unwrap_or_default();
        match self.grant.take() {
            Some(grant) => grant.attach(bytes),
            None => bytes,
        }
    }

    /// What came, once all of it is written, and its MD5, where that was computed here.
    pub(super) async fn finish(mut self) -> Outcome<(Body, Option<[u8; 16]>)> {
        let rest = self.whole.take().unwrap_or_else(|| self.end_chunk());
        if self.size <= JOURNAL_BODY_BYTES as u64 {
            return Ok((small(self.domain, rest), None));
        }
        if !rest.is_empty() {
            self.write(rest, true).await?;
        }
        while let Some(written) = self.writes.next().await {
            self.written(written).await?;
        }
        let composed = self.composer.finish();
        let mut pins = self.leaves;
        pins.append(&mut self.trees);
        let chunks = composed.top.clone();
        pins.append(&mut put_trees(&self.store, self.domain, composed).await?);
        let md5 = match (self.beside.take(), self.md5.take()) {
            (Some(sum), _) => Some(known(sum.await.map_err(refusal::task)?)?),
            (None, Some(sum)) => Some(digest(sum).await?),
            (None, None) => None,
        };
        Ok((Body { size: self.size, chunks, small: None, pins }, md5))
    }

    async fn write(&mut self, bytes: Bytes, is_last: bool) -> Outcome<()> {
        let (store, domain) = (self.store.clone(), self.domain);
        let is_beside = is_last && self.sum_beside(&bytes);
        // Of a longer body the chunks before it may still be written, and its trees are: its commit syncs them all.
        let syncs = is_beside && self.syncs && self.size <= CHUNK_BYTES as u64;
        let md5 = self.md5.as_ref().map(|sum| {
            // Handed in before a thread is free, so that another upload may take it along.
            let number = sum.push(bytes.clone());
            Summing { work: sum.work(), number, room: self.incoming.clone(), is_last }
        });
        let may_write = self.writing.clone().acquire_owned().await.map_err(|_| refusal::stopping())?;
        self.writes.push_back(tokio::task::spawn_blocking(move || {
            let written = write_chunk(&store, domain, bytes, md5)?;
            drop(may_write);
            if syncs {
                store.sync_ahead();
            }
            Ok(written)
        }));
        while self.writes.len() >= WRITES {
            if let Some(written) = self.writes.next().await {
                self.written(written).await?;
            }
        }
        Ok(())
    }

    /// Computes the MD5 of a body with its last chunk on another thread while that is written and synced, where nobody comes beside
    /// it: uploads that do share what computes their MD5, and the sync of their commits.
    fn sum_beside(&mut self, last: &Bytes) -> bool {
        let is_alone = |sum: &mut Md5Sum| last.len() >= LONG && !sum.work().has_company();
        let Some(sum) = self.md5.take_if(is_alone) else { return false };
        sum.push(last.clone());
        self.beside = Some(tokio::task::spawn_blocking(move || sum.finish()));
        true
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

/// The MD5 of a body whose chunks are written.
async fn digest(sum: Md5Sum) -> Outcome<[u8; 16]> {
    let digest = if sum.is_ready() {
        sum.finish()
    } else {
        tokio::task::spawn_blocking(move || sum.finish()).await.map_err(refusal::task)?
    };
    known(digest)
}

fn known(digest: Option<[u8; 16]>) -> Outcome<[u8; 16]> {
    digest.ok_or_else(|| ServiceError::new(ErrorKind::Internal, "the MD5 of the body was lost"))
}

/// The MD5 of a body at one of its chunks.
struct Summing {
    work: Md5Work,
    /// The chunk, counted from 1.
    number: u64,
    /// Where its memory was taken.
    room: Incoming,
    is_last: bool,
}

impl Summing {
    /// Takes in what was handed in; on a thread that may wait. As long as memory is plenty, one chunk waits beside other uploads for
    /// the next: then those have one too, and all are computed at the price of one.
    fn catch_up(&self) {
        let waits = !self.is_last && self.room.is_plenty() && self.work.has_company();
        self.work.catch_up(self.number.saturating_sub(u64::from(waits)));
    }
}

/// Writes a chunk and takes it into the MD5 of its body; on a thread that may wait.
fn write_chunk(
    store: &Store,
    domain: BucketId,
    bytes: Bytes,
    md5: Option<Summing>,
) -> Result<(ChunkRef, Pin), StorageError> {
    let pin = store.put_chunk(domain, Class::Payload, ChunkKind::Leaf, &bytes)?;
    let length = bytes.len();
    // Whoever computes it has it; it is not to stay longer than that.
    drop(bytes);
    if let Some(summing) = md5 {
        summing.catch_up();
    }
    let stored = u32::try_from(length).unwrap_or(u32::MAX);
    Ok((ChunkRef { id: pin.id(), kind: ChunkKind::Leaf, stored, length: length as u64 }, pin))
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
