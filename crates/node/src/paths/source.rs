//! A body on its way out: leaf after leaf, from this disk or from the nearest site that has it.
//!
//! Before: `paths/get.rs` with a record. After: the gateway streams to the client, or another site gets it.
//! Invariants: every byte was verified (block checksums here, the chunk's name when it came over a link);
//! what was fetched is kept as an evictable copy; at most [`AHEAD_FAR`] chunks of a body are in memory, and read ahead is
//! only while there is room for all downloads together (`bulk.rs`): beyond it they go on in small pieces.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use skerry_base::{BucketId, ChunkKind, ChunkRef, Instant, SiteId};
use skerry_federation::budget::Class as Urgency;
use skerry_federation::flow::Errand;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::body::{Step, Walk};
use skerry_storage::{Class, OpenChunk, PIECE_BLOCKS, Pin, ReadError};
use tokio_util::task::AbortOnDropHandle;

use super::bucket::Bucket;
use super::nearby::{Nearby, rounds};
use super::refusal;
use crate::bulk::{Bulk, Grant};
use crate::peers::chunks::breath;
use crate::site::Site;

/// Chunks read ahead while they lie here.
const AHEAD_NEAR: usize = 2;
/// Chunks on the way at once while they come from elsewhere, where the link has room for so many.
pub(super) const AHEAD_FAR: usize = 8;
/// What is longer than this is read ahead of in parts only, and pinned as long as it is read.
const LONG: u64 = 2 << 20;
/// What is read of a chunk at once when there is no room for all of it: a block, with its checksum.
const PIECE: u32 = 64 << 10;

/// How long a link is waited for that broke before anything came: dialled at once, it mostly stands within a second or two.
const ANOTHER: Duration = Duration::from_secs(5);

/// Gets chunks, wherever they are.
pub(crate) struct Chunks {
    site: Arc<Site>,
    domain: BucketId,
    nearby: Nearby,
    /// Whether copies may lie here.
    keeps: bool,
    /// How urgent it is to fetch what is not here.
    urgency: Urgency,
    /// Who this is, of all who fetch something.
    reader: u64,
    /// Chunks that were asked for so far.
    places: AtomicU64,
    /// When something of this body came from elsewhere last; none if nothing did.
    came: AtomicU64,
    /// A link was waited for that broke before anything came.
    waited: AtomicBool,
}

/// Why nobody gave a chunk.
struct Tried {
    words: Vec<String>,
    /// Those who were asked, of whom some may have it.
    sites: Vec<SiteId>,
    /// Whether a link broke, or was not there, rather than that somebody said no.
    is_apart: bool,
    /// Whether one broke that was there when it was asked over.
    is_broken: bool,
}

impl Chunks {
    /// Chunks of a record of a bucket that was written at this site.
    pub(crate) fn new(site: &Arc<Site>, bucket: &Bucket, written: SiteId) -> Arc<Self> {
        Arc::new(Self::as_urgent(Urgency::Read, site, bucket, written))
    }

    /// The same, for something else than a reader who waits.
    pub(crate) fn as_urgent(urgency: Urgency, site: &Arc<Site>, bucket: &Bucket, written: SiteId) -> Self {
        let nearby = Nearby::new(bucket.id, written, bucket.home);
        Self::with(site, bucket.id, (nearby, bucket.may_lie_at(site.id), urgency))
    }

    /// Chunks of a bucket whichever record names them, to mend them.
    pub(crate) fn mending(site: &Arc<Site>, domain: BucketId, home: SiteId) -> Self {
        Self::with(site, domain, (Nearby::new(domain, home, home), true, Urgency::Copy))
    }

    fn with(site: &Arc<Site>, domain: BucketId, (nearby, keeps, urgency): (Nearby, bool, Urgency)) -> Self {
        let (reader, places, came) = (site.peers.reader(), AtomicU64::new(0), AtomicU64::new(0));
        let waited = AtomicBool::new(false);
        Self { site: site.clone(), domain, nearby, keeps, urgency, reader, places, came, waited }
    }

    /// The site that reads it.
    pub(super) const fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Memory for chunks that become this site's own.
    pub(super) fn room(&self) -> &Bulk {
        if self.urgency == Urgency::Copy { &self.site.bringing } else { &self.site.holding }
    }

    /// The next chunk of this body, behind those before it.
    pub(super) fn errand(&self) -> Errand {
        let place = self.places.fetch_add(1, Ordering::Relaxed);
        Errand { class: self.urgency, reader: self.reader, place }
    }

    /// Bytes of a chunk that lie here.
    async fn read_here(&self, chunk: ChunkRef, range: Range<u32>) -> Outcome<Result<Bytes, ReadError>> {
        let (store, domain) = (self.site.store.clone(), self.domain);
        let read = move || store.read_chunk(domain, chunk.id, range);
        tokio::task::spawn_blocking(read).await.map_err(refusal::task)
    }

    /// A piece of a chunk, and whether it had to be fetched. What was fetched but could not be kept is given up to `end`.
    async fn read(
        &self,
        errand: Errand,
        chunk: ChunkRef,
        piece: Range<u32>,
        end: u32,
    ) -> Outcome<(Bytes, bool)> {
        let missing = match self.read_here(chunk, piece.clone()).await? {
            Ok(bytes) => return Ok((bytes, false)),
            Err(ReadError::Absent) => "not here".to_owned(),
            Err(error) => {
                tracing::error!(chunk = %chunk.id, %error, "a chunk here cannot be read");
                error.to_string()
            }
        };
        let in_pieces = piece.end < end;
        // Held until the chunk is kept; until a slow client has taken it only where nothing may be kept.
        let room = if in_pieces { Some(self.site.arriving.take(chunk.stored as usize).await?) } else { None };
        let bytes = self.fetch_for(errand, chunk, &missing).await?;
        if in_pieces && let Ok(piece) = self.read_here(chunk, piece.clone()).await? {
            return Ok((piece, true));
        }
        let (from, to) = (piece.start as usize, (end as usize).min(bytes.len()));
        let bytes = bytes.slice(from.min(to)..to);
        Ok((room.map_or(bytes.clone(), |room| room.attach(bytes)), true))
    }

    /// A whole chunk from the first holder that has it; a copy stays here.
    pub(crate) async fn fetch(&self, chunk: ChunkRef, missing: &str) -> Outcome<Bytes> {
        self.fetch_for(self.errand(), chunk, missing).await
    }

    async fn fetch_for(&self, errand: Errand, chunk: ChunkRef, missing: &str) -> Outcome<Bytes> {
        let bytes = self.ask(errand, chunk, missing).await?;
        self.keep(chunk.kind, bytes.clone()).await;
        // It waits for who makes a segment or syncs one.
        let (store, domain) = (self.site.store.clone(), self.domain);
        tokio::task::spawn_blocking(move || store.note_read(domain, chunk.id))
            .await
            .map_err(refusal::task)?;
        Ok(bytes)
    }

    /// A whole chunk from here or from the first holder that has it; what to do with it is the caller's affair.
    pub(crate) async fn whole(&self, chunk: ChunkRef) -> Outcome<Bytes> {
        let (store, domain) = (self.site.store.clone(), self.domain);
        let read = move || store.read_chunk(domain, chunk.id, 0..u32::MAX);
        match tokio::task::spawn_blocking(read).await.map_err(refusal::task)? {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::Absent) => self.ask(self.errand(), chunk, "not here").await,
            Err(error) => self.ask(self.errand(), chunk, &error.to_string()).await,
        }
    }

    /// From whoever has it. Where a link broke over which something of this body came a moment ago, that is waited for, and
    /// what is still to come is asked for again; one that broke before anything came is waited for once, for as long as
    /// another takes to be made. Where there was none, the reader hears at once that it is an island.
    async fn ask(&self, errand: Errand, chunk: ChunkRef, missing: &str) -> Outcome<Bytes> {
        let (site, mut had) = (&self.site, self.site.peers.has_of(self.domain, chunk.id));
        loop {
            let tried = match self.ask_all(errand, chunk).await {
                Ok(bytes) => {
                    self.note_came();
                    return Ok(bytes);
                }
                Err(tried) => tried,
            };
            let has = site.peers.has_of(self.domain, chunk.id);
            if has > had {
                self.note_came();
            }
            had = has;
            if !tried.is_apart || !self.is_back(&tried).await {
                return Err(self.lost(&chunk, missing, &tried.words));
            }
        }
    }

    fn note_came(&self) {
        self.came.store(self.site.clock.now().0, Ordering::Relaxed);
    }

    /// Waits until one of those who were asked has a link, if there is reason to; whether one has.
    async fn is_back(&self, tried: &Tried) -> bool {
        let (site, came) = (&self.site, self.came.load(Ordering::Relaxed));
        let mut until = Instant(came).after(site.peers.waits().stall);
        if came == 0 {
            if !tried.is_broken || self.waited.swap(true, Ordering::Relaxed) {
                return false;
            }
            until = site.clock.now().after(ANOTHER);
        }
        while site.clock.now() < until {
            breath().await;
            if tried.sites.iter().any(|other| site.linked(*other)) {
                return true;
            }
        }
        false
    }

    /// From who is near and has it, then from who is known to have it; if none of them answers with it, from whoever is
    /// linked and has it: just after a cut not all members are known here again.
    async fn ask_all(&self, errand: Errand, chunk: ChunkRef) -> Result<Bytes, Tried> {
        let site = &self.site;
        let mut tried = Tried { words: Vec::new(), sites: Vec::new(), is_apart: false, is_broken: false };
        let likely = self.nearby.likely(site, chunk.id).await;
        if let Some(likely) = likely {
            if let Some(bytes) = self.ask_these(errand, chunk, &[likely], &mut tried).await {
                return Ok(bytes);
            }
            self.nearby.failed(likely);
        }
        let mut holders = self.nearby.holders(site).await;
        holders.retain(|holder| Some(*holder) != likely);
        if let Some(bytes) = self.ask_these(errand, chunk, &holders, &mut tried).await {
            return Ok(bytes);
        }
        for round in rounds(site.boxes.linked(), &holders) {
            let others = self.nearby.having(site, chunk.id, round).await;
            if let Some(bytes) = self.ask_these(errand, chunk, &others, &mut tried).await {
                return Ok(bytes);
            }
        }
        Err(tried)
    }

    async fn ask_these(
        &self,
        errand: Errand,
        chunk: ChunkRef,
        holders: &[SiteId],
        tried: &mut Tried,
    ) -> Option<Bytes> {
        let peers = &self.site.peers;
        for &site in holders {
            if let Some(bytes) = peers.chunk_through(errand, site, self.domain, &chunk).await {
                self.nearby.gave(site);
                return Some(bytes);
            }
            match peers.chunk_or_around(errand, site, self.domain, &chunk).await {
                Ok(Some(bytes)) => {
                    self.nearby.gave(site);
                    return Some(bytes);
                }
                Ok(None) => tried.words.push(format!("{} does not have it", peers.roster.name(site))),
                Err(error) => {
                    tried.words.push(format!("{}: {error}", peers.roster.name(site)));
                    tried.is_apart |= error.is_apart();
                    tried.is_broken |= error.is_broken();
                    tried.sites.push(site);
                }
            }
        }
        None
    }

    fn lost(&self, chunk: &ChunkRef, missing: &str, tried: &[String]) -> ServiceError {
        let tried =
            if tried.is_empty() { "no other site is known to have it".into() } else { tried.join("; ") };
        let kind = if missing == "not here" { ErrorKind::Unreachable } else { ErrorKind::Damaged };
        let here = if missing == "not here" { missing.to_owned() } else { format!("damaged ({missing})") };
        ServiceError::new(kind, format!("chunk {} is {here}, and {tried}", chunk.id))
    }

    /// Keeps a copy; waited for, so that a slow disk slows the fetch down instead of filling the memory. A
    /// copy that cannot be kept costs only another fetch.
    pub(crate) async fn keep(&self, kind: ChunkKind, bytes: Bytes) {
        let (store, domain) = (self.site.store.clone(), self.domain);
        if !self.keeps || store.usage_of_cache().cap == 0 {
            return;
        }
        let put = move || store.put_chunk(domain, Class::Cache, kind, &bytes).map(drop);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(put).await {
            tracing::debug!(%error, "a fetched chunk was not kept");
        }
    }

    /// Makes a chunk this site's own.
    pub(super) async fn own(&self, kind: ChunkKind, bytes: Bytes) -> Outcome<Pin> {
        let (store, domain) = (self.site.store.clone(), self.domain);
        let put = move || store.put_chunk(domain, Class::Payload, kind, &bytes);
        tokio::task::spawn_blocking(put).await.map_err(refusal::task)?.map_err(refusal::storage)
    }

    /// Keeps what of these lies here for as long as it is read: a body goes to its end though its object is overwritten or
    /// deleted meanwhile, however slow the client is.
    async fn pinned(&self, chunks: Vec<ChunkRef>) -> Outcome<Vec<Pin>> {
        let (store, domain) = (self.site.store.clone(), self.domain);
        let pin = move || chunks.iter().filter_map(|chunk| store.pin(domain, chunk.id)).collect();
        tokio::task::spawn_blocking(pin).await.map_err(refusal::task)
    }

    /// Takes the step of a walk over a tree.
    pub(crate) async fn descend(&self, walk: &mut Walk, tree: ChunkRef) -> Outcome<()> {
        let (bytes, _) = self.read(self.errand(), tree, 0..u32::MAX, u32::MAX).await?;
        walk.supply(&bytes).map_err(|error| ServiceError::new(ErrorKind::Damaged, error.to_string()))
    }

    /// The bytes of a range of a body, in order.
    pub(crate) fn stream(
        self: Arc<Self>,
        top: Vec<ChunkRef>,
        range: Range<u64>,
    ) -> impl Stream<Item = Outcome<Bytes>> + Send + 'static {
        let is_long = range.end.saturating_sub(range.start) > LONG;
        let unpinned = is_long.then(|| top.clone());
        let walk = Walk::new(top, range);
        let (near, ahead, rest, pins) = (None, VecDeque::new(), None, Vec::new());
        let (in_pieces, far) = (false, false);
        let state = Reading { chunks: self, walk, near, ahead, rest, in_pieces, far, unpinned, pins };
        futures::stream::try_unfold(state, |mut state| async move {
            let next = state.next().await?;
            Ok(next.map(|bytes| (bytes, state)))
        })
    }
}

/// A piece on its way, and how long it is if nothing more comes with it.
type Ahead = (AbortOnDropHandle<Outcome<(Bytes, bool)>>, u32);

/// A chunk that lies here and is being sent piece by piece.
struct Near {
    open: OpenChunk,
    chunk: ChunkRef,
    left: Range<u32>,
}

impl Near {
    /// The next piece, of several blocks while there is room; none if it cannot be had without waiting.
    fn piece(&mut self, room: &Bulk) -> Option<Bytes> {
        let until = |blocks| self.open.piece_end(self.left.start, blocks).min(self.left.end);
        let (small, large) = (until(1), until(PIECE_BLOCKS));
        let grant =
            if large > small { room.try_take_of_half((large - self.left.start) as usize) } else { None };
        let end = if grant.is_some() { large } else { small };
        let bytes = self.open.read_now(self.left.start..end)?;
        self.left.start = end;
        Some(held(grant, bytes))
    }
}

struct Reading {
    chunks: Arc<Chunks>,
    walk: Walk,
    near: Option<Near>,
    ahead: VecDeque<Ahead>,
    /// What of a chunk comes next, before anything else of the body.
    rest: Option<(ChunkRef, Range<u32>)>,
    /// What was asked for last is a first piece, and more may come with it.
    in_pieces: bool,
    far: bool,
    /// What is to be kept from the collector before anything is read.
    unpinned: Option<Vec<ChunkRef>>,
    pins: Vec<Pin>,
}

impl Reading {
    async fn next(&mut self) -> Outcome<Option<Bytes>> {
        if let Some(top) = self.unpinned.take() {
            self.pins = self.chunks.pinned(top).await?;
        }
        if let Some(bytes) = self.next_near() {
            return Ok(Some(bytes));
        }
        let most = if self.far { AHEAD_FAR } else { AHEAD_NEAR };
        while self.ahead.len() < most {
            let (chunk, range) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.walk.next() {
                    None => break,
                    Some(Step::Tree(tree)) => {
                        self.chunks.descend(&mut self.walk, tree).await?;
                        continue;
                    }
                    Some(Step::Leaf(chunk, range)) => (chunk, within(&range)),
                },
            };
            // In place only while nothing before it is still on its way.
            if self.ahead.is_empty() && self.open_near(chunk, &range) {
                if let Some(bytes) = self.next_near() {
                    return Ok(Some(bytes));
                }
            } else if !self.ask(chunk, range) {
                break;
            }
        }
        let Some((first, expected)) = self.ahead.pop_front() else { return Ok(None) };
        let (bytes, far) = first.await.map_err(refusal::task)??;
        self.far |= far;
        self.skip((bytes.len() as u32).saturating_sub(expected));
        Ok(Some(bytes))
    }
}

impl Reading {
    /// Whether the chunk lies here and can be sent piece by piece.
    fn open_near(&mut self, chunk: ChunkRef, range: &Range<u32>) -> bool {
        let site = &self.chunks.site;
        if !site.quick.allows() {
            return false;
        }
        let begun = site.clock.now();
        let open =
            site.store.open_chunk_now(self.chunks.domain, chunk.id, range.end.saturating_sub(range.start));
        site.quick.took(Duration::from_nanos(site.clock.now().0.saturating_sub(begun.0)));
        let Some(open) = open else { return false };
        let left = range.start..range.end.min(open.stored());
        self.near = Some(Near { open, chunk, left });
        true
    }

    /// The next piece of the chunk that is being sent. What cannot be had without waiting is asked for.
    fn next_near(&mut self) -> Option<Bytes> {
        let mut near = self.near.take()?;
        let Some(bytes) = near.piece(&self.chunks.site.outgoing) else {
            self.ask(near.chunk, near.left);
            return None;
        };
        if !near.left.is_empty() {
            self.near = Some(near);
        }
        Some(bytes)
    }

    /// Has it read, all at once or, where there is no room for that, its first piece. Whether something was asked for:
    /// without room only what is next is, and the rest waits.
    fn ask(&mut self, chunk: ChunkRef, range: Range<u32>) -> bool {
        // Behind a first piece nothing is asked for until it is known how much came with it.
        let waits = self.in_pieces && !self.ahead.is_empty();
        let grant = if waits { None } else { self.chunks.site.outgoing.try_take(range.len()) };
        if grant.is_none() && !self.ahead.is_empty() {
            self.rest = Some((chunk, range));
            return false;
        }
        let piece = if grant.is_some() { range.clone() } else { first_piece(&range) };
        self.in_pieces = piece.end < range.end;
        if piece.end < range.end {
            self.rest = Some((chunk, piece.end..range.end));
        }
        let (chunks, expected) = (self.chunks.clone(), piece.end - piece.start);
        // In the order of the body, whichever task comes first.
        let errand = chunks.errand();
        let read = tokio::spawn(async move {
            let (bytes, far) = chunks.read(errand, chunk, piece, range.end).await?;
            Ok((held(grant, bytes), far))
        });
        self.ahead.push_back((AbortOnDropHandle::new(read), expected));
        true
    }

    /// What came before it was asked for need not be asked for.
    fn skip(&mut self, bytes: u32) {
        if bytes > 0
            && let Some((_, left)) = &mut self.rest
        {
            left.start = left.start.saturating_add(bytes).min(left.end);
        }
        self.rest.take_if(|(_, left)| left.start >= left.end);
    }
}

/// Bytes with the room they take.
pub(super) fn held(grant: Option<Grant>, bytes: Bytes) -> Bytes {
    match grant {
        Some(grant) => grant.attach(bytes),
        None => bytes,
    }
}

/// Up to the end of the block that it begins in.
fn first_piece(range: &Range<u32>) -> Range<u32> {
    let end = (range.start / PIECE + 1).saturating_mul(PIECE);
    range.start..end.min(range.end)
}

/// Offsets within one chunk, which is never longer than 32 bits tell.
fn within(range: &Range<u64>) -> Range<u32> {
    let offset = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    offset(range.start)..offset(range.end)
}
