//! Chunks from other sites, in as many goes as it takes.
//!
//! Before: `paths/source.rs` and whoever else misses a chunk. After: streams of `peers`. Invariants: no more is asked for than
//! the link gives within seconds ([`flows`]); nothing is given up while bytes come; what came before a stream broke is not asked
//! for again ([`parts`]) where the other site understands the question; a chunk is believed only under its name, whoever gave
//! which part of it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::limits::CHUNK_BYTES;
use skerry_base::{BucketId, ChunkId, ChunkRef, Instant, NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::flow::Errand;

use super::flows::Pass;
use super::message::{Request, Response, Tail, Through};
use super::parts::{Part, Parts};
use super::{Answer, PeerError, Peers, Speech};
use crate::telemetry::Kind;

#[cfg(doc)]
use super::{flows, parts};

/// Between two questions that were answered alike.
const BREATH: Duration = Duration::from_millis(500);
/// How often it is looked whether it is known what a node speaks.
const GLANCE: Duration = Duration::from_millis(20);

/// Whom to fetch a chunk from for the asker, over how many sites at most.
pub(super) type Way = Option<(SiteId, u8)>;

impl Peers {
    /// Whoever reads a body, or makes a copy of one, as others ask beside it.
    pub(crate) fn reader(&self) -> u64 {
        self.readers.fetch_add(1, Ordering::Relaxed)
    }

    /// One chunk on its own.
    pub(crate) fn errand(&self, class: Class) -> Errand {
        Errand { class, reader: self.reader(), place: 0 }
    }

    /// Bytes that have come of a chunk that is not here yet.
    pub(crate) fn has_of(&self, domain: BucketId, chunk: ChunkId) -> u64 {
        self.parts.have((domain, chunk))
    }

    /// One chunk of a site that is reached by way of others, fetched by the first of them for itself and given on; none
    /// if that one will not, or cannot.
    pub(crate) async fn chunk_through(
        &self,
        errand: Errand,
        holder: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Option<Bytes> {
        let course = self.course(holder).filter(|course| course.hops > 0)?;
        let relay = self.roster.site(course.via?)?;
        let way = Some((holder, course.hops - 1));
        match self.come(errand, relay, (domain, chunk), (way, &AtomicU64::new(0))).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(relay = self.roster.name(relay), %error, "did not fetch a chunk for this site");
                None
            }
        }
    }

    /// A chunk of `site`, verified by its name, or by way of it; none if it is not there. `signs`: counts up whenever something of it
    /// comes, or whoever fetches it says that it has more.
    pub(super) async fn come(
        &self,
        errand: Errand,
        site: SiteId,
        (domain, chunk): (BucketId, &ChunkRef),
        (way, signs): (Way, &AtomicU64),
    ) -> Result<Option<Bytes>, PeerError> {
        if chunk.stored as usize > 2 * CHUNK_BYTES {
            return Err(PeerError::Senseless("a chunk longer than chunks are"));
        }
        let node = self.roster.node(site).ok_or(PeerError::Stranger(site))?;
        let key = (domain, chunk.id);
        let is_worth = self.parts.have(key) > 0 || way.is_some();
        let resumes = if is_worth { self.will_resume(node).await } else { self.resumes(node) };
        let mut part =
            if resumes { self.parts.take(key, chunk.stored) } else { self.parts.begin(key, chunk.stored) };
        loop {
            let from = part.have();
            let pass = self.flows.pass(node, errand, part.left() as u64).await;
            // It is its turn now.
            signs.fetch_add(1, Ordering::Relaxed);
            let request = match way {
                way if resumes && (from > 0 || way.is_some()) => {
                    Request::Tail(Box::new(Tail { domain, chunk: *chunk, from, way }))
                }
                Some((holder, most)) => Request::Through(Through { holder, domain, chunk: *chunk, most }),
                None => Request::Chunk { domain, chunk: chunk.id },
            };
            if !self.rest((errand.class, site), &request, &mut part, (&pass, signs)).await? {
                return Ok(None);
            }
            match part.whole() {
                Some(bytes) => return Ok(Some(bytes)),
                // Whoever gave the first part may have given something else: all of it from one.
                None if from > 0 => {}
                None => return Err(PeerError::Senseless("a chunk that is not what its name says")),
            }
        }
    }

    /// What is to come of a chunk; false if it is not there.
    async fn rest(
        &self,
        (class, site): (Class, SiteId),
        request: &Request,
        part: &mut Part,
        (pass, signs): (&Pass, &AtomicU64),
    ) -> Result<bool, PeerError> {
        let mut answer = self.answer_or_wait(class, site, request, signs).await?;
        match answer.response {
            Response::Chunk(length) if length as usize == part.left() => {
                self.take_in(&mut answer, part, (pass, signs)).await?;
                self.keep_stream(answer);
                Ok(true)
            }
            Response::NoChunk | Response::NotMember => Ok(false),
            Response::Refused { message, .. } => Err(PeerError::Metered(message)),
            _ => Err(PeerError::Senseless("another answer than the chunk")),
        }
    }

    /// The answer; asked again as long as who fetches the chunk for this site comes nearer.
    async fn answer_or_wait(
        &self,
        class: Class,
        site: SiteId,
        request: &Request,
        signs: &AtomicU64,
    ) -> Result<Answer, PeerError> {
        let mut progress = Progress::new(self.clock.now());
        loop {
            let answer = self.call_as(class, site, request).await?;
            let Response::Holding(bytes) = answer.response else { return Ok(answer) };
            let now = self.clock.now();
            if progress.note(bytes, now) {
                signs.fetch_add(u64::from(bytes > 0), Ordering::Relaxed);
            } else {
                if progress.rests(now) >= self.waits().stall {
                    return Err(PeerError::Silent);
                }
                breath().await;
            }
        }
    }

    /// Reads the rest of a chunk. Only silence ends it, and a stream that breaks.
    async fn take_in(
        &self,
        answer: &mut Answer,
        part: &mut Part,
        (pass, signs): (&Pass, &AtomicU64),
    ) -> Result<(), PeerError> {
        let stall = self.waits().stall;
        // What landmarks forwarded does not say that this link carries questions.
        let answered = (!answer.is_given).then(|| self.answered.of(answer.node));
        while part.left() > 0 {
            let read = tokio::time::timeout(stall, part.read(&mut answer.stream));
            let bytes = read.await.map_err(|_| PeerError::Silent)??;
            if bytes == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "ended within a chunk").into());
            }
            pass.came(bytes);
            if let Some(answered) = &answered {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            signs.fetch_add(1, Ordering::Relaxed);
            self.received(answer.node, Kind::Payload, bytes);
        }
        Ok(())
    }

    /// The next chunk that follows an answer on its stream, verified by its name. What came of it before the stream broke is
    /// kept for who asks for the rest.
    pub(crate) async fn receive(
        &self,
        answer: &mut Answer,
        errand: Errand,
        domain: BucketId,
        (id, length): (ChunkId, u32),
    ) -> Result<Bytes, PeerError> {
        if length as usize > 2 * CHUNK_BYTES {
            return Err(PeerError::Senseless("a chunk longer than chunks are"));
        }
        let mut part = Parts::begin(&self.parts, (domain, id), length);
        let pass = self.flows.begun(answer.node, errand, u64::from(length));
        self.take_in(answer, &mut part, (&pass, &AtomicU64::new(0))).await?;
        part.whole().ok_or(PeerError::Senseless("a chunk that is not what its name says"))
    }

    /// All that was asked for on this stream came.
    pub(crate) fn keep_stream(&self, answer: Answer) {
        if self.speech_of(answer.node).is_some_and(|speech| speech.keeps_streams()) {
            self.kept.put(answer.node, answer.into_warm(), self.clock.now());
        }
    }

    /// All of an object that was asked for came.
    pub(crate) fn keep_object_stream(&self, answer: Answer) {
        if !answer.is_given && self.resumes(answer.node) {
            self.kept.put(answer.node, answer.into_warm(), self.clock.now());
        }
    }

    /// Whether a node gives the rest of a chunk, as far as it has said over the link that stands.
    fn resumes(&self, node: NodeId) -> bool {
        self.speech_of(node).is_some_and(|speech| speech.resumes())
    }

    /// The same once it has said what it speaks: over a link that has just come back that takes a round trip, and to ask for
    /// all of a chunk meanwhile could take longer than such a link lasts.
    async fn will_resume(&self, node: NodeId) -> bool {
        self.will(node, Speech::resumes).await
    }

    /// Whether a node takes what a forwarded write replaces, once it has said what it speaks.
    pub(crate) async fn will_replace(&self, node: NodeId) -> bool {
        self.will(node, Speech::replaces).await
    }

    /// The same of the end of an upload.
    pub(crate) async fn will_complete(&self, node: NodeId) -> bool {
        self.will(node, Speech::completes).await
    }

    /// The same of at how many sites a version is to be kept.
    pub(crate) async fn will_promise(&self, node: NodeId) -> bool {
        self.will(node, Speech::promises).await
    }

    async fn will(&self, node: NodeId, can: fn(&Speech) -> bool) -> bool {
        let begun = self.clock.now();
        loop {
            let speech = self.speech_of(node);
            let most = if speech.is_some() { self.waits().back } else { BREATH };
            match speech.filter(|speech| speech.said().is_some()) {
                Some(speech) => return can(&speech),
                None if self.clock.now().since(begun) >= most => return false,
                None => glance().await,
            }
        }
    }
}

/// A short while, so that a question that is answered alike at once is not asked without end.
pub(crate) async fn breath() {
    tokio::time::timeout(BREATH, std::future::pending::<()>()).await.ok();
}

async fn glance() {
    tokio::time::timeout(GLANCE, std::future::pending::<()>()).await.ok();
}

/// How far somebody else is who is asked again and again, and since when no further.
pub(crate) struct Progress {
    most: Option<u64>,
    since: Instant,
}

impl Progress {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { most: None, since: now }
    }

    /// Whether that is further than before.
    pub(crate) fn note(&mut self, bytes: u64, now: Instant) -> bool {
        let is_further = self.most.is_none_or(|most| bytes > most);
        if is_further {
            (self.most, self.since) = (Some(bytes), now);
        }
        is_further
    }

    /// How long it came no further.
    pub(crate) const fn rests(&self, now: Instant) -> Duration {
        now.since(self.since)
    }
}
