//! Questions and answers between sites over streams of [`Net`], and the control streams of the federation
//! machine.
//!
//! Why here: `net` moves bytes by node, `federation` speaks of sites; this folder joins the two and frames
//! what is said. Invariants: one question at a time on a stream; every answer is bounded before it is read; chunks are
//! believed only under their name; what waits for a slow peer is bounded and then dropped (machine messages)
//! or waits (payload).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skerry_base::codec;
use skerry_base::{Instant, NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::flow;

use crate::clock::Clock;
use crate::net::{Net, NetError, PeerTraffic, Stream, frame};
use crate::telemetry::{Kind, Wan};

pub(crate) mod chunks;
pub(crate) mod circuits;
mod detour;
mod doubts;
mod flows;
pub(crate) mod gifts;
mod heed;
mod kept;
pub(crate) mod kept_out;
pub(crate) mod mark;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod packed;
mod parts;
pub(crate) mod refused;
pub(crate) mod roster;
pub(crate) mod serve;
pub(crate) mod uplink;

use kept::Warm;
use message::{Request, Response};
use roster::Roster;

/// How long an answer may take to begin.
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
    #[error("no answer within {} seconds, or no further byte of it within a minute", ANSWER_WAIT.as_secs())]
    Silent,
    /// Silence so far, where another way may be better.
    #[error("its link is silent")]
    Quiet,
    /// Nor did those give it who were asked to fetch it.
    #[error("{error}; asked to fetch it, {refused}")]
    Around {
        /// Why it did not come from the holder itself.
        error: Box<Self>,
        /// Who refused, and why.
        refused: String,
    },
    /// The budget of a metered link is used up, here or there.
    #[error("{0}")]
    Metered(String),
    /// The answer does not fit the question, or a chunk is not what its name says.
    #[error("{0}")]
    Senseless(&'static str),
}

impl PeerError {
    /// Whether it was the link, rather than that who was asked would not or could not.
    pub(crate) const fn is_apart(&self) -> bool {
        matches!(
            self,
            Self::Apart(_)
                | Self::Net(_)
                | Self::Frame(_)
                | Self::Io(_)
                | Self::Silent
                | Self::Quiet
                | Self::Around { .. }
        )
    }

    /// Whether it was asked over a link that broke meanwhile.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Self::Frame(_) | Self::Io(_) => true,
            Self::Around { error, .. } => error.is_broken(),
            _ => false,
        }
    }

    /// Whether it was never asked: of anything else it is not known what came of it.
    pub(crate) const fn is_unsent(&self) -> bool {
        matches!(self, Self::Net(_) | Self::Apart(_) | Self::Stranger(_) | Self::Metered(_))
    }
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
    /// Who is not heard.
    pub(crate) kept_out: kept_out::KeptOut,
    clock: Clock,
    noted: Mutex<Noted>,
    speech: Mutex<BTreeMap<NodeId, Speech>>,
    kept: kept::Kept,
    parts: Arc<parts::Parts>,
    flows: Arc<flows::Flows>,
    detours: detour::Known,
    answered: detour::Answered,
    gifts: gifts::Gifts,
    /// Sites to and from which what crosses is paid for, here or there.
    paid: Mutex<BTreeSet<SiteId>>,
    readers: AtomicU64,
    waits: Mutex<Waits>,
    /// Who waits for the news of links.
    heed: heed::Heed,
    /// Objects that were asked for.
    #[cfg(test)]
    pub(crate) reads: AtomicU64,
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

    /// Whether it gives the rest of a chunk, and takes further questions behind an object too.
    fn resumes(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::RESUMES
    }

    /// Whether it takes what a forwarded write replaces.
    fn replaces(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::REPLACES
    }

    /// Whether it takes what the end of an upload replaces.
    fn completes(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::COMPLETES
    }

    /// Whether it takes at how many sites a version is to be kept.
    fn promises(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::PROMISES
    }

    /// Whether it compares what was seen by a digest.
    fn compares(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= mark::COMPARES
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
    /// Somebody has heard a site: it is dialled if there is no link.
    pub(crate) fn heard(&self, site: SiteId) {
        if let Some(node) = self.roster.node(site) {
            self.net.heard(node);
        }
    }

    /// How long the link to a site rests, if longer than others do, and whether one of the ends pays for what crosses.
    pub(crate) fn rests(&self, site: SiteId, every: Option<Duration>, is_paid: bool) {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        match is_paid {
            true => paid.insert(site),
            false => paid.remove(&site),
        };
        drop(paid);
        if let Some(node) = self.roster.node(site) {
            self.net.set_rest(node, every);
        }
    }

    /// Whether what crosses to and from a site is paid for, here or there.
    pub(crate) fn is_paid(&self, site: SiteId) -> bool {
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).contains(&site)
    }

    /// Over this network; the roster is empty.
    pub(crate) fn new(net: Arc<dyn Net>, wan: Arc<Wan>, clock: Clock, circuits: circuits::Circuits) -> Self {
        let uplink = uplink::Uplink::new(net.clone(), clock);
        let (noted, speech, kept) = (Mutex::default(), Mutex::default(), kept::Kept::default());
        Self {
            net,
            roster: Roster::default(),
            wan,
            uplink,
            circuits,
            kept_out: kept_out::KeptOut::default(),
            clock,
            noted,
            speech,
            kept,
            parts: parts::Parts::new(clock),
            flows: flows::Flows::new(clock),
            detours: detour::Known::default(),
            answered: detour::Answered::default(),
            gifts: gifts::Gifts::default(),
            paid: Mutex::default(),
            readers: AtomicU64::new(0),
            waits: Mutex::default(),
            heed: heed::Heed::default(),
            #[cfg(test)]
            reads: AtomicU64::new(0),
        }
    }

    /// How long is waited for what.
    pub(crate) fn waits(&self) -> Waits {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Streams that are kept to a node.
    #[cfg(test)]
    pub(crate) fn kept_with(&self, node: NodeId) -> usize {
        self.kept.count(node)
    }

    /// The same for tests, whose links are not as slow as slow ones are.
    #[cfg(test)]
    pub(crate) fn set_waits(&self, waits: Waits) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
    }

    /// There is a new link to a node: nothing is known yet of what it understands.
    pub(crate) fn meet(&self, node: NodeId) -> Speech {
        let speech = Speech::default();
        // Each end has heard the other.
        self.answered.count(node);
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
        self.parts.purge();
        self.kept.purge(self.clock.now(), kept::spell(true));
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
        match self.patiently(node, request, self.exchange(node, class, request)).await {
            Some(Ok(answer)) => Ok(Answer { _held: held, ..answer }),
            Some(Err(PeerError::Net(NetError::NoLink(_)))) => Err(PeerError::Apart(self.apart(site))),
            Some(Err(error)) => Err(error),
            None => Err(PeerError::Silent),
        }
    }

    /// What comes of an exchange; none if nothing did. Over a slow link that is busy an answer lies behind other things.
    async fn patiently<T>(
        &self,
        node: NodeId,
        request: &Request,
        exchange: impl Future<Output = T>,
    ) -> Option<T> {
        let (wait, times) = patience(self.waits(), request);
        let is_upload = matches!(request, Request::Upload(_));
        let mut exchange = std::pin::pin!(exchange);
        let mut before = self.crossed(node);
        for _ in 0..times {
            if let Ok(result) = tokio::time::timeout(wait, &mut exchange).await {
                return Some(result);
            }
            let now = self.crossed(node);
            let bytes = now.saturating_sub(before);
            // Payload of a part crosses before its answer, be the link slow or fast.
            let goes_on = flow::is_held_up(bytes, wait) || is_upload && bytes >= UPLOAD_BYTES;
            if !goes_on {
                return None;
            }
            before = now;
        }
        None
    }

    /// Bytes that crossed the link to a node, either way: where others carry it, the link to the first of them, on which they are
    /// counted.
    fn crossed(&self, node: NodeId) -> u64 {
        let node = self.net.course(node).and_then(|course| course.via).unwrap_or(node);
        let of = |traffic: &PeerTraffic| traffic.node == node;
        self.net.traffic().iter().find(|traffic| of(traffic)).map_or(0, |found| found.sent + found.received)
    }

    async fn exchange(&self, node: NodeId, class: Class, request: &Request) -> Result<Answer, PeerError> {
        if let Some(warm) = self.warm(node, request) {
            match self.exchange_on(warm, node, class, request).await {
                Ok(answer) => return Ok(answer),
                // It ended meanwhile: then the others did, too.
                Err(_) => self.kept.forget(node),
            }
        }
        let among = self.net.connections(node);
        if is_bulk(request)
            && among > 1
            && let Ok(stream) = self.net.open_bulk(node).await
        {
            match self.exchange_on(Warm { stream, among }, node, class, request).await {
                // A connection beside the link may end with the stream that was to begin.
                Err(PeerError::Io(_) | PeerError::Frame(_)) => {}
                answered => return answered,
            }
        }
        let stream = self.net.open(node).await?;
        self.exchange_on(Warm { stream, among: 1 }, node, class, request).await
    }

    /// A stream that was used a while ago, where this question may follow on it.
    fn warm(&self, node: NodeId, request: &Request) -> Option<Warm> {
        let resumes = self.speech_of(node).is_some_and(|speech| speech.resumes());
        let may = match request {
            request if is_bulk(request) => true,
            Request::Read(read) => resumes && read.part != message::Part::Nothing,
            _ => false,
        };
        let least = if is_bulk(request) { self.net.connections(node) } else { 1 };
        may.then(|| self.kept.take(node, least, (self.clock.now(), kept::spell(resumes)))).flatten()
    }

    async fn exchange_on(
        &self,
        Warm { mut stream, among }: Warm,
        node: NodeId,
        class: Class,
        request: &Request,
    ) -> Result<Answer, PeerError> {
        stream.rank(class);
        #[cfg(test)]
        if matches!(request, Request::Read(_)) {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        let mut asked = codec::encode(request);
        if self.has_marks(node) {
            asked = mark::marked(class, &asked);
        }
        frame::write(&mut stream, &asked).await?;
        let payload = payload_of(request);
        if payload > 0 {
            self.sent(node, Kind::Payload, payload);
        }
        let is_about_records = !is_bulk(request)
            && !matches!(request, Request::Size { .. } | Request::Seen { .. } | Request::Words { .. });
        if is_about_records {
            self.sent(node, Kind::Record, asked.len() - payload);
        }
        let answer =
            frame::read(&mut stream).await?.ok_or(PeerError::Senseless("closed without an answer"))?;
        self.answered.count(node);
        let crossed = answer.len();
        let response = codec::decode(&packed::open(answer)?)?;
        if carries_records(&response) {
            self.received(node, Kind::Record, crossed);
        }
        Ok(Answer { response, stream, node, among, is_given: false, _held: None })
    }

    /// Whether a site compares what was seen by a digest, as far as it has said over the link that stands.
    pub(crate) fn compares(&self, site: SiteId) -> bool {
        let speech = self.roster.node(site).and_then(|node| self.speech_of(node));
        speech.is_some_and(|speech| speech.compares())
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
}

/// Whether a chunk is asked for: its bytes need not lie before those of others.
const fn is_bulk(request: &Request) -> bool {
    matches!(request, Request::Chunk { .. } | Request::Through(_) | Request::Tail(_))
}

/// How long is waited, and how often again while a slow link is busy with what comes before the answer.
fn patience(waits: Waits, request: &Request) -> (Duration, u32) {
    match request {
        // It begins when the chunk is whole where it is asked for.
        Request::Through(_) => (waits.stall * 2, 1),
        // It may wait there for something to tell.
        Request::Below(_) => (BELOW_WAIT, 1),
        // Answered once the payload of a part is there, or of a copy where releases before fetch it.
        Request::Upload(_) | Request::Hold(_) | Request::HoldFor(_) => (waits.answer, HELD_UP_LONG),
        _ => (waits.answer, HELD_UP),
    }
}

/// How long an answer about a prefix may take: what it may wait at most where it is asked, and an answer's time.
const BELOW_WAIT: Duration = Duration::from_secs(45);
/// Fewer in the time of an answer are signs of life.
const UPLOAD_BYTES: u64 = 16 << 10;
/// How often an answer is waited for again on a slow link that is busy: two minutes in all.
const HELD_UP: u32 = 8;
/// The same where payload must cross before it: ten minutes.
const HELD_UP_LONG: u32 = 40;

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// For an answer to begin: a link that is up but silent must not hold a client for ever.
    pub(crate) answer: Duration,
    /// For the next byte of what has begun to come, and for the link to come back that it came over.
    pub(crate) stall: Duration,
    /// For a link that broke while a copy was asked for of which nothing has come yet, and over a link that came back for word
    /// of what the other end speaks.
    pub(crate) back: Duration,
    /// Who holds a large body for another says after this how far it is.
    pub(crate) turn: Duration,
    /// For the next question about it: so long what came of it stays in use. Longer than whoever asks rests after one that failed.
    pub(crate) next: Duration,
    /// For other sites to hold what a write, or all of a DeleteObjects, asks them to; S3 clients give up after a minute.
    pub(crate) reached: Duration,
    /// For a large body to reach the other nodes of the site.
    pub(crate) staged: Duration,
    /// Until a node looks again for bodies that the other nodes of its site hold and it lacks.
    pub(crate) levelled: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            answer: ANSWER_WAIT,
            stall: Duration::from_secs(60),
            back: Duration::from_secs(5),
            turn: Duration::from_secs(8),
            next: Duration::from_secs(60),
            reached: Duration::from_secs(45),
            staged: Duration::from_secs(45),
            levelled: Duration::from_secs(30),
        }
    }
}

/// The answer to a question.
pub(crate) struct Answer {
    /// What was said.
    pub(crate) response: Response,
    /// What follows it.
    pub(crate) stream: Stream,
    node: NodeId,
    /// As of [`Warm`].
    among: usize,
    /// It came on a stream of the other site, on which nothing can be asked.
    is_given: bool,
    /// What follows may take of a metered link.
    _held: Option<uplink::Held>,
}

impl Answer {
    fn into_warm(self) -> Warm {
        Warm { stream: self.stream, among: self.among }
    }
}

/// Bytes of payload that a question carries.
fn payload_of(request: &Request) -> usize {
    request.held().map_or(0, |(hold, _)| hold.bytes())
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

#[cfg(test)]
#[path = "patience_tests.rs"]
mod patience_tests;
