//! Questions and answers between sites over streams of [`Net`], and the control streams of the federation
//! machine.
//!
//! Why here: `net` moves bytes by node, `federation` speaks of sites; this folder joins the two and frames
//! what is said. Invariants: one question at a time on a stream; every answer is bounded before it is read; chunks are
//! believed only under their name; what waits for a slow peer is bounded and then dropped (machine messages)
//! or waits (payload).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::limits::CHUNK_BYTES;
use skerry_base::{BucketId, ChunkId, ChunkRef, Instant, NodeId, SiteId};
use skerry_federation::budget::Class;
use tokio::io::AsyncReadExt;

use crate::clock::Clock;
use crate::net::{Net, NetError, Stream, frame};
use crate::telemetry::{Kind, Wan};

pub(crate) mod circuits;
mod kept;
pub(crate) mod mark;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod packed;
pub(crate) mod refused;
pub(crate) mod roster;
pub(crate) mod serve;
pub(crate) mod uplink;

use message::{Request, Response, Through};
use roster::Roster;

/// How long an answer may take to begin: a link that is up but silent must not hold a client for ever.
const ANSWER_WAIT: Duration = Duration::from_secs(15);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// Not in the roster.
    #[error("site {0} is not in the roster")]
    Stranger(SiteId),
    /// No link, neither directly nor by way of others.
    #[error("{0}")]
    Apart(String),
    /// The network refused, or the link broke.
    #[error("{0}")]
    Net(#[from] NetError),
    /// The stream broke, or the answer was no frame.
    #[error("{0}")]
    Frame(#[from] frame::FrameError),
    /// The stream broke.
    #[error("the link broke: {0}")]
    Io(#[from] std::io::Error),
    /// The answer was none.
    #[error("{0}")]
    Malformed(#[from] codec::DecodeError),
    /// What was said cannot be unpacked.
    #[error("{0}")]
    Unreadable(#[from] packed::Unreadable),
    /// Silence.
    #[error("no answer within {} seconds", ANSWER_WAIT.as_secs())]
    Silent,
    /// The budget of a metered link is used up, here or there.
    #[error("{0}")]
    Metered(String),
    /// The answer does not fit the question, or a chunk is not what its name says.
    #[error("{0}")]
    Senseless(&'static str),
}

/// Asks other sites.
pub(crate) struct Peers {
    net: Arc<dyn Net>,
    /// Who the sites are.
    pub(crate) roster: Roster,
    wan: Arc<Wan>,
    /// What may cross.
    pub(crate) uplink: uplink::Uplink,
    /// Links by way of others.
    pub(crate) circuits: circuits::Circuits,
    clock: Clock,
    noted: Mutex<Noted>,
    speech: Mutex<BTreeMap<NodeId, Speech>>,
    kept: kept::Kept,
}

/// What the other end of a link understands: the dialect that it said on this very link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speech(Arc<AtomicU8>);

impl Speech {
    /// It said so.
    pub(crate) fn set(&self, dialect: u8) {
        self.0.store(dialect, Ordering::Relaxed);
    }

    /// What it said; none as long as it has not.
    pub(crate) fn said(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|dialect| *dialect > 0)
    }

    /// Whether marks may be said to it ([`mark`]).
    pub(crate) fn has_marks(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::MARKS
    }

    /// Whether it takes another question for a chunk on a stream on which it gave one ([`kept`]).
    fn keeps_streams(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::KEEPS
    }
}

/// The answer to the question which words a site understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// These.
    Said(u8),
    /// It ended the stream: a release of before does so, and a site that has too much to do.
    HungUp,
    /// There was none.
    Unheard,
}

/// What is noted of other sites for status and metrics.
#[derive(Default)]
struct Noted {
    heard: BTreeMap<SiteId, Instant>,
    behind: BTreeMap<SiteId, Instant>,
}

impl Peers {
    /// Over this network; the roster is empty.
    pub(crate) fn new(net: Arc<dyn Net>, wan: Arc<Wan>, clock: Clock, circuits: circuits::Circuits) -> Self {
        let uplink = uplink::Uplink::new(net.clone(), clock);
        let (noted, speech, kept) = (Mutex::default(), Mutex::default(), kept::Kept::default());
        Self { net, roster: Roster::default(), wan, uplink, circuits, clock, noted, speech, kept }
    }

    /// There is a new link to a node: nothing is known yet of what it understands.
    pub(crate) fn meet(&self, node: NodeId) -> Speech {
        let speech = Speech::default();
        self.speech.lock().unwrap_or_else(PoisonError::into_inner).insert(node, speech.clone());
        speech
    }

    /// The link to a node is gone.
    pub(crate) fn part(&self, node: NodeId) {
        self.speech.lock().unwrap_or_else(PoisonError::into_inner).remove(&node);
        self.kept.forget(node);
    }

    /// Whether a node has said that it knows marks and packed frames.
    pub(crate) fn has_marks(&self, node: NodeId) -> bool {
        self.speech_of(node).is_some_and(|speech| speech.has_marks())
    }

    fn speech_of(&self, node: NodeId) -> Option<Speech> {
        self.speech.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    /// The clocks that it reads.
    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A site said something.
    pub(crate) fn hear(&self, site: SiteId) {
        self.noted().heard.insert(site, self.clock.now());
    }

    /// When a site was heard last.
    pub(crate) fn heard_of(&self, site: SiteId) -> Option<Instant> {
        self.noted().heard.get(&site).copied()
    }

    /// Takes note of how many records of a site are missing here; since when some are.
    pub(crate) fn note_lag(&self, site: SiteId, records: u64) -> Option<Instant> {
        let now = self.clock.now();
        let mut noted = self.noted();
        if records == 0 {
            noted.behind.remove(&site);
            return None;
        }
        Some(*noted.behind.entry(site).or_insert(now))
    }

    /// Since when records of a site are missing here.
    pub(crate) fn behind_since(&self, site: SiteId) -> Option<Instant> {
        self.noted().behind.get(&site).copied()
    }

    /// Counts bytes that were sent to a node.
    pub(crate) fn sent(&self, node: NodeId, kind: Kind, bytes: usize) {
        self.wan.peer(node, &self.roster.node_name(node)).sent(kind, bytes as u64);
    }

    /// Counts bytes that came from a node.
    pub(crate) fn received(&self, node: NodeId, kind: Kind, bytes: usize) {
        self.wan.peer(node, &self.roster.node_name(node)).received(kind, bytes as u64);
    }

    /// The network below.
    pub(crate) fn net(&self) -> &Arc<dyn Net> {
        &self.net
    }

    /// Asks one question; the stream then holds what follows the answer.
    pub(crate) async fn call(&self, site: SiteId, request: &Request) -> Result<Answer, PeerError> {
        self.call_as(uplink::class(request).unwrap_or(Class::Read), site, request).await
    }

    /// The same, as urgent as this: what a budget lets through is told by the question, or by this where it is less.
    pub(crate) async fn call_as(
        &self,
        class: Class,
        site: SiteId,
        request: &Request,
    ) -> Result<Answer, PeerError> {
        let node = self.roster.node(site).ok_or(PeerError::Stranger(site))?;
        let held = self.uplink.may_ask(node, request, class).map_err(PeerError::Metered)?;
        match tokio::time::timeout(patience(request), self.exchange(node, class, request)).await {
            Ok(Ok(answer)) => Ok(Answer { _held: held, ..answer }),
            Ok(Err(PeerError::Net(NetError::NoLink(_)))) => Err(PeerError::Apart(self.apart(site))),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PeerError::Silent),
        }
    }

    async fn exchange(&self, node: NodeId, class: Class, request: &Request) -> Result<Answer, PeerError> {
        let is_chunk = matches!(request, Request::Chunk { .. } | Request::Through(_));
        if is_chunk && let Some(stream) = self.kept.take(node, self.clock.now()) {
            match self.exchange_on(stream, node, class, request).await {
                Ok(answer) => return Ok(answer),
                // It ended meanwhile: then the others did, too.
                Err(_) => self.kept.forget(node),
            }
        }
        let stream = self.net.open(node).await?;
        self.exchange_on(stream, node, class, request).await
    }

    async fn exchange_on(
        &self,
        mut stream: Stream,
        node: NodeId,
        class: Class,
        request: &Request,
    ) -> Result<Answer, PeerError> {
        stream.rank(class);
        let mut asked = codec::encode(request);
        if self.has_marks(node) {
            asked = mark::marked(class, &asked);
        }
        frame::write(&mut stream, &asked).await?;
        let payload = payload_of(request);
        if payload > 0 {
            self.sent(node, Kind::Payload, payload);
        }
        if !matches!(
            request,
            Request::Chunk { .. } | Request::Through(_) | Request::Size { .. } | Request::Words { .. }
        ) {
            self.sent(node, Kind::Record, asked.len() - payload);
        }
        let answer =
            frame::read(&mut stream).await?.ok_or(PeerError::Senseless("closed without an answer"))?;
        let crossed = answer.len();
        let response = codec::decode(&packed::open(answer)?)?;
        if carries_records(&response) {
            self.received(node, Kind::Record, crossed);
        }
        Ok(Answer { response, stream, node, _held: None })
    }

    /// Asks which words a site understands.
    pub(crate) async fn dialect(&self, site: SiteId) -> Dialect {
        match self.call(site, &Request::Words { dialect: mark::DIALECT }).await.map(|answer| answer.response)
        {
            Ok(Response::Words { dialect }) => Dialect::Said(dialect),
            Err(
                PeerError::Silent
                | PeerError::Stranger(_)
                | PeerError::Net(_)
                | PeerError::Apart(_)
                | PeerError::Metered(_),
            ) => Dialect::Unheard,
            Ok(_) | Err(_) => Dialect::HungUp,
        }
    }

    /// One chunk of `site`, verified by its name; none if it is not there.
    pub(crate) async fn chunk(
        &self,
        class: Class,
        site: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Result<Option<Bytes>, PeerError> {
        self.chunk_of((class, site), &Request::Chunk { domain, chunk: chunk.id }, chunk).await
    }

    /// One chunk of a site that is reached by way of others, fetched by the first of them for itself and given on; none
    /// if that one will not, or cannot.
    pub(crate) async fn chunk_through(
        &self,
        class: Class,
        holder: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Option<Bytes> {
        let course = self.course(holder).filter(|course| course.hops > 0)?;
        let relay = self.roster.site(course.via?)?;
        let asked = Through { holder, domain, chunk: *chunk, most: course.hops - 1 };
        match self.chunk_of((class, relay), &Request::Through(asked), chunk).await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(relay = self.roster.name(relay), %error, "did not fetch a chunk for this site");
                None
            }
        }
    }

    async fn chunk_of(
        &self,
        (class, site): (Class, SiteId),
        request: &Request,
        chunk: &ChunkRef,
    ) -> Result<Option<Bytes>, PeerError> {
        let mut answer = self.call_as(class, site, request).await?;
        match answer.response {
            Response::Chunk(length) if length == chunk.stored => {
                let bytes = self.receive(&mut answer, chunk.id, length).await?;
                if self.speech_of(answer.node).is_some_and(|speech| speech.keeps_streams()) {
                    self.kept.put(answer.node, answer.stream, self.clock.now());
                }
                Ok(Some(bytes))
            }
            Response::NoChunk | Response::NotMember => Ok(None),
            Response::Refused { message, .. } => Err(PeerError::Metered(message)),
            _ => Err(PeerError::Senseless("another answer than the chunk")),
        }
    }

    /// The next chunk that follows an answer on its stream, verified by its name.
    pub(crate) async fn receive(
        &self,
        answer: &mut Answer,
        id: ChunkId,
        length: u32,
    ) -> Result<Bytes, PeerError> {
        if length as usize > 2 * CHUNK_BYTES {
            return Err(PeerError::Senseless("a chunk longer than chunks are"));
        }
        let mut bytes = vec![0; length as usize];
        let read = answer.stream.read_exact(&mut bytes);
        tokio::time::timeout(PAYLOAD_WAIT, read).await.map_err(|_| PeerError::Silent)??;
        self.received(answer.node, Kind::Payload, bytes.len());
        if ChunkId::of(&bytes) != id {
            return Err(PeerError::Senseless("a chunk that is not what its name says"));
        }
        Ok(bytes.into())
    }
}

/// How long an answer may take to begin.
const fn patience(request: &Request) -> Duration {
    match request {
        // It begins when the chunk is whole where it is asked for.
        Request::Through(_) => PAYLOAD_WAIT,
        // It may wait there for something to tell.
        Request::Below(_) => BELOW_WAIT,
        _ => ANSWER_WAIT,
    }
}

/// How long an answer about a prefix may take: what it may wait at most where it is asked, and an answer's time.
const BELOW_WAIT: Duration = Duration::from_secs(45);

/// How long one chunk may take: 70 kbit/s at the slowest.
const PAYLOAD_WAIT: Duration = Duration::from_secs(120);

/// The answer to a question.
pub(crate) struct Answer {
    /// What was said.
    pub(crate) response: Response,
    /// What follows it.
    pub(crate) stream: Stream,
    node: NodeId,
    /// What follows may take of a metered link.
    _held: Option<uplink::Held>,
}

/// Bytes of payload that a question carries.
fn payload_of(request: &Request) -> usize {
    match request {
        Request::Hold(hold) => hold.payload.iter().map(Bytes::len).sum(),
        _ => 0,
    }
}

pub(crate) const fn carries_records(response: &Response) -> bool {
    matches!(
        response,
        Response::Object(_)
            | Response::Page(_)
            | Response::Decided(_)
            | Response::Upload(_)
            | Response::Parts(..)
            | Response::Below(_)
    )
}
