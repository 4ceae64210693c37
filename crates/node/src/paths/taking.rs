//! Payload that is being made this site's own for another site that asks to hold it: chunk by chunk, turn by turn.
//!
//! Before: `scope.rs`, which answers each question within a turn. After: `hands.rs` and `source.rs`, which fetch what is
//! not here, and the store. Invariants: leaves before the tree that counts them; a turn goes on where the last one stood, so
//! what a body costs does not grow with its turns; what came stays until it is asked for again, a minute in use
//! (`Waits::next`) and [`REST`] on the disk where there is room for it, so that a link that is there for an hour a day carries a body of many hours.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Dot, Instant, WallTime};
use skerry_gateway::service::{Bound, Outcome};
use skerry_model::Object;
use skerry_model::body::{Step, Walk};
use skerry_storage::{Pin, SmallBody};

use super::bucket::Bucket;
use super::hands::Hands;
use super::refusal;
use super::source::Chunks;
use crate::copies::look;
use crate::copies::others::Aside;
use crate::site::Site;

/// How long a part rests for which nobody asked in time: a day, and hours by which the next one may be late.
const REST: Duration = Duration::from_secs(30 * 60 * 60);
/// Parts that are kept in use at once; of others the next question looks through what is here.
const PARTS: usize = 256;
/// Parts that rest at once: those behind these go after the usual time.
const RESTING: usize = 1024;

/// A version.
type Key = (BucketId, Dot);

/// How far a body is here.
pub(super) struct Part {
    top: Vec<ChunkRef>,
    is_large: bool,
    walk: Walk,
    /// What the walk said and is not here yet.
    step: Option<Step>,
    /// Chunks that were walked over.
    passed: usize,
    /// Trees that were walked through, the outermost first: each is put once all that it lists is here.
    trees: Vec<ChunkRef>,
    bytes: u64,
    /// What is here of the chunk that is on its way.
    of_next: u64,
    pub(super) pins: Vec<Pin>,
    /// The whole of a body that lies beside its record.
    pub(super) small: Option<SmallBody>,
}

impl Part {
    fn none_of(object: &Object) -> Self {
        Self {
            top: object.chunks.clone(),
            is_large: object.size > JOURNAL_BODY_BYTES as u64,
            walk: Walk::new(object.chunks.clone(), 0..object.size),
            step: None,
            passed: 0,
            trees: Vec::new(),
            bytes: 0,
            of_next: 0,
            pins: Vec::new(),
            small: None,
        }
    }

    /// Bytes that are here.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes + self.of_next
    }

    /// The chunk that is to be here next.
    fn next(&mut self) -> Option<ChunkRef> {
        if self.step.is_none() {
            self.step = self.walk.next();
        }
        self.step.as_ref().map(|(Step::Tree(chunk) | Step::Leaf(chunk, _))| *chunk)
    }

    /// It is.
    fn has(&mut self, bytes: u64) {
        self.step = None;
        self.passed += 1;
        self.of_next = 0;
        self.bytes += bytes;
    }
}

/// Payload that is being made this site's own.
pub(super) struct Taking {
    site: Arc<Site>,
    bucket: Bucket,
    chunks: Arc<Chunks>,
    part: Part,
    /// Chunks that were sent along.
    sent: std::vec::IntoIter<Bytes>,
    turn: Duration,
    begun: Instant,
    /// Whether anything came over a link.
    came: bool,
}

impl Taking {
    /// Begins, or goes on from where an earlier question left it; for so long at a time.
    pub(super) fn new(
        site: &Arc<Site>,
        bucket: &Bucket,
        (dot, object): (Dot, &Object),
        chunks: Chunks,
        turn: Duration,
        sent: Vec<Bytes>,
    ) -> Self {
        let part = site.parts.resume((bucket.id, dot), object).unwrap_or_else(|| Part::none_of(object));
        // What is sent along comes in the order of the walk, from its begin, with each question.
        let mut sent = sent.into_iter();
        sent.by_ref().take(part.passed).for_each(drop);
        Self {
            site: site.clone(),
            bucket: bucket.clone(),
            chunks: Arc::new(chunks),
            part,
            sent,
            turn,
            begun: site.clock.now(),
            came: false,
        }
    }

    /// What is here.
    pub(super) fn into_part(self) -> Part {
        self.part
    }

    /// Whether all of it is here, now or after a turn.
    pub(super) async fn is_whole(&mut self, object: &Object) -> Outcome<bool> {
        Ok(self.has_all(object).await? || self.take().await?)
    }

    /// Whether a large body is here already as one that counts; then it is pinned.
    async fn has_all(&mut self, object: &Object) -> Outcome<bool> {
        // Nothing else makes it whole while it is taken, and to look again costs what the body is long.
        if !self.part.is_large || self.part.bytes > 0 {
            return Ok(false);
        }
        let (store, id, object) = (self.site.store.clone(), self.bucket.id, object.clone());
        let look = move || look::pinned(&store, id, &object);
        let pins = tokio::task::spawn_blocking(look).await.map_err(refusal::task)?;
        Ok(pins.map(|mut pins| self.part.pins.append(&mut pins)).is_some())
    }

    /// Takes all chunks: those that were sent along, those that are here, the rest from who has them. False after a turn: what
    /// is on its way then goes on coming, for the next question.
    async fn take(&mut self) -> Outcome<bool> {
        while let Some(chunk) = self.part.next() {
            if self.is_over() {
                return Ok(false);
            }
            // What came before is not read again: of a large body that would take the whole turn.
            if self.part.is_large && chunk.kind == ChunkKind::Leaf && self.has_leaf(chunk).await? {
                self.sent.next();
                continue;
            }
            let Some(bytes) = self.bytes_of(chunk).await? else { return Ok(false) };
            self.put(chunk, bytes).await?;
        }
        // A tree counts its children when it is put, so it comes after them.
        while let Some(&tree) = self.part.trees.last() {
            let Some(bytes) = self.bytes_of(tree).await? else { return Ok(false) };
            self.own(ChunkKind::Tree, bytes).await?;
            self.part.trees.pop();
        }
        Ok(true)
    }

    fn worked(&self) -> Duration {
        self.site.clock.now().since(self.begun)
    }

    fn is_over(&self) -> bool {
        self.came && self.worked() >= self.turn
    }

    /// Whether a leaf is here already as one that counts; then it is pinned.
    async fn has_leaf(&mut self, chunk: ChunkRef) -> Outcome<bool> {
        let (store, domain, id) = (self.site.store.clone(), self.bucket.id, chunk.id);
        let look = move || store.pin(domain, id).filter(|_| store.counts(domain, id));
        let Some(pin) = tokio::task::spawn_blocking(look).await.map_err(refusal::task)? else {
            return Ok(false);
        };
        self.part.has(u64::from(chunk.stored));
        self.part.pins.push(pin);
        Ok(true)
    }

    /// A chunk that was sent along, or from who has it; none if it has not come within the turn.
    async fn bytes_of(&mut self, chunk: ChunkRef) -> Outcome<Option<Bytes>> {
        if let Some(bytes) = self.sent.next().filter(|bytes| ChunkId::of(bytes) == chunk.id) {
            // Many sites may have many versions held here at once; clients do not wait for them. Whoever asks does not wait longer
            // than for a turn: one that has gone meanwhile would keep a place among the questions, and its body in memory.
            let left = self.turn.saturating_sub(self.worked());
            let room = self.site.holding.wait_for(bytes.len(), left).await;
            return room.map(|room| Ok(room?.attach(bytes))).transpose();
        }
        let worked = self.worked();
        self.came |= matches!(self.site.store.has_chunk(self.bucket.id, chunk.id), Ok(false));
        // If nothing came at all it is worth to wait a little longer: releases before take that for the end.
        let most = self.turn + if self.came { Duration::ZERO } else { self.turn / 2 };
        match fetched(&self.chunks, self.bucket.id, chunk, most.saturating_sub(worked)).await {
            Some(bytes) => bytes.map(Some),
            None => {
                self.part.of_next = self.site.peers.has_of(self.bucket.id, chunk.id);
                Ok(None)
            }
        }
    }

    /// What came is made the site's own; a tree once all that it lists is here.
    async fn put(&mut self, chunk: ChunkRef, bytes: Bytes) -> Outcome<()> {
        let length = bytes.len() as u64;
        if chunk.kind == ChunkKind::Tree {
            self.part.walk.supply(&bytes).map_err(refusal::malformed)?;
            self.part.trees.push(chunk);
        } else if !self.part.is_large && self.part.top.len() == 1 {
            self.part.small = Some(SmallBody::new(self.bucket.id, bytes));
        } else {
            self.own(ChunkKind::Leaf, bytes).await?;
        }
        self.part.has(length);
        Ok(())
    }

    async fn own(&mut self, kind: ChunkKind, bytes: Bytes) -> Outcome<()> {
        let pin = self.chunks.own(kind, bytes).await?;
        self.part.pins.push(pin);
        Ok(())
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
            // It is asked for again at the end, and counts only once its children are here.
            source.keep(chunk.kind, bytes.clone()).await;
        }
        Ok(Some(room.attach(bytes)))
    };
    let gone = || refusal::unreachable("the payload is gone where it was fetched from");
    let came = Hands::fetched(site, (domain, chunk.id), within, (fetch, chunks.room())).await?;
    Some(came.and_then(|bytes| bytes.ok_or_else(gone)))
}

/// Parts of bodies between two questions for them.
#[derive(Default)]
pub(crate) struct Parts(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Counts what was kept: who waits for the end of it knows whether it is still that.
    number: u64,
    kept: BTreeMap<Key, Kept>,
    resting: BTreeMap<Key, Resting>,
}

/// A part that rests, or is about to: its room is taken before the disk is asked.
struct Resting {
    since: WallTime,
    bytes: u64,
    /// The index says so.
    is_noted: bool,
}

struct Kept {
    number: u64,
    part: Part,
    /// Room for the version among what is held for others.
    _room: Option<Aside>,
}

impl Inner {
    /// Whether this much more may rest, among what does, if that may take so much.
    fn may_rest(&mut self, key: Key, (bytes, most): (u64, u64), now: WallTime) -> bool {
        let over = |since: WallTime| since.0.saturating_add(REST.as_millis() as u64) <= now.0;
        self.resting.retain(|other, resting| *other != key && !over(resting.since));
        let taken: u64 = self.resting.values().map(|resting| resting.bytes).sum();
        let fits = self.resting.len() < RESTING && taken.saturating_add(bytes) <= most;
        if fits {
            self.resting.insert(key, Resting { since: now, bytes, is_noted: false });
        }
        fits
    }

    /// Whether it came to that; what does not rest takes nothing of what may.
    fn rests(&mut self, key: Key, does: bool) {
        if !does {
            self.resting.remove(&key);
        } else if let Some(resting) = self.resting.get_mut(&key) {
            resting.is_noted = true;
        }
    }
}

impl Parts {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept under this number, if nobody has asked for it since.
    fn unasked(&self, key: Key, number: u64) -> Option<Kept> {
        let mut inner = self.lock();
        let is_it = inner.kept.get(&key).is_some_and(|kept| kept.number == number);
        if is_it { inner.kept.remove(&key) } else { None }
    }

    /// How many there are, in use and resting.
    pub(crate) fn bounds(&self) -> [Bound; 2] {
        let inner = self.lock();
        [
            Bound::places("parts", PARTS, inner.kept.len()),
            Bound::places("parts_resting", RESTING, inner.resting.len()),
        ]
    }

    /// Bytes of parts of which the index says that they rest.
    #[cfg(test)]
    pub(crate) fn resting(&self) -> u64 {
        let inner = self.lock();
        inner.resting.values().filter(|resting| resting.is_noted).map(|resting| resting.bytes).sum()
    }

    /// What is here of a body since the last question for it.
    fn resume(&self, key: Key, object: &Object) -> Option<Part> {
        let kept = self.lock().kept.remove(&key)?;
        // Another record under the same dot is another site's fault, and begins anew.
        (kept.part.top == object.chunks).then_some(kept.part)
    }

    /// What came stays until it is asked for again: nothing refers to it yet, and the collector does not wait.
    pub(super) fn keep(site: &Arc<Site>, key: Key, part: Part, room: Option<Aside>) {
        if part.pins.is_empty() {
            return;
        }
        let number = {
            let mut inner = site.parts.lock();
            let is_behind = inner.kept.get(&key).is_some_and(|kept| kept.part.bytes > part.bytes);
            if is_behind || inner.kept.len() >= PARTS {
                return;
            }
            inner.number += 1;
            let number = inner.number;
            inner.kept.insert(key, Kept { number, part, _room: room });
            number
        };
        let (site, next) = (Arc::downgrade(site), site.peers.waits().next);
        drop(tokio::spawn(async move {
            tokio::time::timeout(next, std::future::pending::<()>()).await.ok();
            let Some(site) = site.upgrade() else { return };
            let kept = site.parts.unasked(key, number);
            if let Some(kept) = kept {
                let_rest(&site, key, kept.part).await;
            }
        }));
    }
}

/// Nobody asked in time: the next may be tomorrow. Parts may take together what copies for readers may.
async fn let_rest(site: &Arc<Site>, key: Key, part: Part) {
    let (now, most) = (site.clock.wall(), site.store.usage().cached.cap);
    let may_rest = site.parts.lock().may_rest(key, (part.bytes, most), now);
    let noted = note_rest(site, key, part, may_rest.then_some(now)).await;
    site.parts.lock().rests(key, may_rest && noted.is_ok());
    if let Err(why) = noted {
        tracing::warn!(why, "what came of a body rests no longer than usual");
    }
}

/// On the disk and in the index; the pins go with the part, whatever comes of it. A copy of a tree would count what it lists for as
/// long as nobody evicts it, and no longer: it goes, so that the rest of what came ends when it is to, and not before.
async fn note_rest(site: &Arc<Site>, key: Key, part: Part, from: Option<WallTime>) -> Result<(), String> {
    // A part of which nothing was written down yet.
    site.settle().await.map_err(|error| error.to_string())?;
    let store = site.store.clone();
    let rest = move || {
        let trees: Vec<ChunkId> = part.trees.iter().map(|tree| tree.id).collect();
        store.let_go_of_copies(key.0, &trees)?;
        let Some(now) = from else { return Ok(()) };
        let ids: Vec<ChunkId> = part.pins.iter().map(Pin::id).collect();
        store.let_rest(key.0, &ids, now, REST.as_millis() as u64)
    };
    let rested = tokio::task::spawn_blocking(rest).await.map_err(|error| error.to_string())?;
    rested.map_err(|error| error.to_string())
}
