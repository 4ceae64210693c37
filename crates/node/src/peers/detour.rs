//! Chunks of a site whose link is silent or gone, by way of one that has a link with both: runs the machine that decides whom
//! to ask ([`skerry_federation::detour`]).
//!
//! Before: `paths/source.rs`, which waits for a chunk, and `paths/through.rs`, which fetches one for another site. After: streams
//! of `peers`, and `paths/through.rs` at the site in between. Invariants: who gives it first ends it, all others are given up;
//! what the holder itself says counts, be it no; nobody is sought of whom nobody has heard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use skerry_base::{BucketId, ChunkRef, Instant, NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::detour::{Detour, Detours, Near, Next, PATIENCE};
use skerry_federation::flow::Errand;

use super::{PeerError, Peers};

/// Ways round links that were found lately.
#[derive(Default)]
pub(super) struct Known(Mutex<Detours>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Detours> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what each node has answered: what it says by itself is no sign that it hears.
#[derive(Default)]
pub(super) struct Answered(Mutex<BTreeMap<NodeId, Arc<AtomicU64>>>);

impl Answered {
    /// Counts what one has answered; for who takes an answer piece by piece.
    pub(super) fn of(&self, node: NodeId) -> Arc<AtomicU64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(node).or_default().clone()
    }

    /// It has answered something.
    pub(super) fn count(&self, node: NodeId) {
        self.of(node).fetch_add(1, Ordering::Relaxed);
    }

    fn by(&self, node: NodeId) -> u64 {
        self.of(node).load(Ordering::Relaxed)
    }
}

/// So many bytes are taken for an answer: of one whose packets are not acknowledged no more comes than was on its way. Over a
/// slow link all of an answer may take longer than is waited for.
const BULK: u64 = 4 << 10;

/// What has come from a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Came {
    /// Bytes over its link, by itself or not.
    bytes: u64,
    /// That link is another's, who carries it: what comes may be its own.
    is_carried: bool,
    answers: u64,
}

/// What the machine was told of.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    /// What had come when the last answer did.
    answered: Came,
}

impl Seen {
    fn all(came: Came) -> Self {
        Self { bytes: came.bytes, answered: came }
    }

    /// Tells the machine what came since.
    fn tell(&mut self, machine: &mut Detour, (site, came): (SiteId, Came), now: Instant) {
        let is_bulk = !came.is_carried && came.bytes >= self.answered.bytes.saturating_add(BULK);
        if came.answers > self.answered.answers || is_bulk {
            machine.answered(site, now);
            self.answered = came;
        } else if came.bytes > self.bytes {
            machine.heard(site, now);
        }
        self.bytes = came.bytes;
    }
}

/// Where a chunk may be asked for beside the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// By way of whoever is linked.
    Others,
    /// Nowhere: it is waited for.
    Nobody,
    /// Nowhere: whoever asks does better to ask another where the link is silent.
    Refuse,
}

/// What somebody who was asked did.
enum Said {
    Chunk(SiteId, Result<Option<Bytes>, PeerError>),
    Pong(SiteId, bool),
}

/// A chunk, and who is to give it.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    errand: Errand,
    holder: SiteId,
    domain: BucketId,
    chunk: &'a ChunkRef,
}

/// A chunk that is waited for, and who was asked.
struct Search<'a> {
    peers: &'a Peers,
    wanted: Wanted<'a>,
    around: Around,
    /// Of all that wait for the holder, which this is.
    who: u64,
    machine: Detour,
    /// What had come from whoever was asked last.
    seen: Seen,
    /// And from the holder itself: of bytes, those over its own link.
    seen_of_holder: Seen,
    /// What came of the chunk, by who was asked, and how much of that the machine has been told of.
    signs: BTreeMap<SiteId, (Arc<AtomicU64>, u64)>,
    asked: FuturesUnordered<BoxFuture<'a, Said>>,
    /// Why it did not come from the holder itself.
    failed: Option<PeerError>,
    /// What those said last who did not give it.
    refused: BTreeMap<SiteId, Option<PeerError>>,
}

impl<'a> Search<'a> {
    fn new(peers: &'a Peers, wanted: Wanted<'a>, around: Around) -> Self {
        let known = peers.way_to(wanted.holder).filter(|_| around == Around::Others);
        let machine = Detour::new(peers.near(wanted.holder), known.map(|known| peers.near(known)));
        let (asked, refused) = (FuturesUnordered::new(), BTreeMap::new());
        let (who, seen_of_holder) = (peers.reader(), Seen::all(peers.came_itself(wanted.holder)));
        let (seen, signs, failed) = (Seen::default(), BTreeMap::new(), None);
        Self { peers, wanted, around, who, machine, seen, seen_of_holder, signs, asked, failed, refused }
    }

    async fn run(mut self) -> Result<Option<Bytes>, PeerError> {
        loop {
            let pause = self.act()?;
            match tokio::time::timeout(pause, self.asked.next()).await {
                Ok(Some(said)) => {
                    if let Some(ended) = self.heard(said) {
                        return ended;
                    }
                }
                // Another may have found a way meanwhile.
                Err(_) | Ok(None) => {
                    let known = self.peers.way_to(self.wanted.holder);
                    known.into_iter().for_each(|known| self.machine.tell(self.peers.near(known)));
                }
            }
        }
    }

    /// Does what is to be done now; how long nothing is after that.
    fn act(&mut self) -> Result<Duration, PeerError> {
        loop {
            let now = self.peers.clock.now();
            self.listen();
            let (peers, holder, around, who) = (self.peers, self.wanted.holder, self.around, self.who);
            let has_failed = self.failed.is_some();
            match self.machine.step(|| peers.ways_to(holder, around, who, has_failed), now) {
                Next::Ask(site) => self.ask(site),
                Next::Ping(site) => {
                    let (name, rtt) = (peers.roster.name(site), peers.near(site).rtt);
                    tracing::debug!(site = name, ?rtt, "asks whether it is there: it answers nothing");
                    self.asked.push(Box::pin(async move { Said::Pong(site, peers.is_there(site).await) }));
                }
                Next::Rest(None) if around == Around::Refuse => return Err(PeerError::Quiet),
                Next::Rest(Some(at)) => return Ok(at.since(now)),
                Next::Rest(None) => {
                    // Who has nobody left to ask keeps no other from looking.
                    peers.detours.lock().looked(holder, who);
                    return Ok(PATIENCE / 4);
                }
                Next::Over => return Err(self.nobody()),
            }
        }
    }

    /// Tells the machine of what came from whoever was asked last, and of the chunk; and whether the holder can be heard.
    fn listen(&mut self) {
        let (now, holder) = (self.peers.clock.now(), self.wanted.holder);
        let came = self.peers.came_itself(holder);
        self.seen_of_holder.tell(&mut self.machine, (holder, came), now);
        for (site, (signs, told)) in &mut self.signs {
            let came = signs.load(Ordering::Relaxed);
            if came > *told {
                self.machine.gave(*site, now);
            }
            *told = came;
        }
        let Some(last) = self.machine.last() else { return };
        let came = self.peers.came_from(last);
        self.seen.tell(&mut self.machine, (last, came), now);
    }

    /// Asks the holder itself, or another to fetch it over its own link.
    fn ask(&mut self, site: SiteId) {
        let (peers, Wanted { errand, holder, domain, chunk }) = (self.peers, self.wanted);
        let way = (site != holder).then_some((holder, 0));
        if way.is_some() {
            let (by, holder) = (peers.roster.name(site), peers.roster.name(holder));
            tracing::debug!(by, holder, "asks another for a chunk: the holder is silent or has no link");
        }
        self.seen = Seen::all(peers.came_from(site));
        let signs: Arc<AtomicU64> = Arc::default();
        self.signs.insert(site, (signs.clone(), 0));
        let asked =
            async move { Said::Chunk(site, peers.come(errand, site, (domain, chunk), (way, &signs)).await) };
        self.asked.push(Box::pin(asked));
    }

    /// Somebody said something; how it ended, if it did.
    fn heard(&mut self, said: Said) -> Option<Result<Option<Bytes>, PeerError>> {
        let holder = self.wanted.holder;
        match said {
            Said::Pong(site, is_there) => {
                if is_there {
                    self.machine.answered(site, self.peers.clock.now());
                }
                return None;
            }
            Said::Chunk(site, Ok(Some(bytes))) => {
                self.peers.learn(holder, site);
                return Some(Ok(Some(bytes)));
            }
            Said::Chunk(site, Err(error)) if site == holder && error.is_apart() => {
                self.failed = Some(error);
                self.machine.ended(site);
                // What came before says nothing of another link.
                self.seen_of_holder = Seen::all(self.peers.came_itself(holder));
            }
            Said::Chunk(site, said) if site == holder => return Some(said),
            Said::Chunk(site, said) => {
                self.refused.insert(site, said.err());
                self.machine.ended(site);
            }
        }
        None
    }

    /// Nobody gave it: why the holder did not, and why nobody else did.
    fn nobody(&mut self) -> PeerError {
        let peers = self.peers;
        let error = self.failed.take().unwrap_or(PeerError::Quiet);
        // One that answered that it is not there has a way.
        if self.refused.is_empty() || self.refused.values().any(Option::is_none) {
            return error;
        }
        let said = |(site, why): (SiteId, Option<PeerError>)| {
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            format!("{}: {why}", peers.roster.name(site))
        };
        let refused: Vec<String> = std::mem::take(&mut self.refused).into_iter().map(said).collect();
        PeerError::Around { error: Box::new(error), refused: refused.join(", ") }
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.peers.detours.lock().looked(self.wanted.holder, self.who);
    }
}

impl Peers {
    /// A chunk of a site, verified by its name; where its link is silent or gone, by way of another that has one.
    /// None if it is not there.
    pub(crate) async fn chunk_or_around(
        &self,
        errand: Errand,
        holder: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Result<Option<Bytes>, PeerError> {
        // A copy can wait, and goes nowhere else.
        let is_read = errand.class == Class::Read;
        let nobody = !is_read || self.is_unheard(holder);
        let around = if nobody { Around::Nobody } else { Around::Others };
        Search::new(self, Wanted { errand, holder, domain, chunk }, around).run().await
    }

    /// The same for another site, which asks elsewhere as soon as this one's link is silent.
    pub(crate) async fn chunk_unless_silent(
        &self,
        errand: Errand,
        holder: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Result<Option<Bytes>, PeerError> {
        Search::new(self, Wanted { errand, holder, domain, chunk }, Around::Refuse).run().await
    }

    /// Whether the process at the other end of a link answers now.
    async fn is_there(&self, site: SiteId) -> bool {
        let Some(node) = self.roster.node(site) else { return false };
        let Some(life) = self.net.lives().get(&node).copied() else { return false };
        let is_there = self.net.answers(node, life).await;
        if is_there {
            self.answered.count(node);
        }
        is_there
    }

    fn near(&self, site: SiteId) -> Near {
        let rtt = self.roster.node(site).and_then(|node| self.net.rtt(node));
        Near { site, rtt, is_paid: self.is_paid(site) }
    }

    /// Who is known to have a way to a holder.
    fn way_to(&self, holder: SiteId) -> Option<SiteId> {
        self.detours.lock().known(holder, self.came_from(holder).answers, self.clock.now())
    }

    /// Whom one that waits may ask to fetch a chunk: while the holder may still answer, only one of all looks for a way.
    fn ways_to(&self, holder: SiteId, around: Around, who: u64, has_failed: bool) -> Vec<Near> {
        if around != Around::Others {
            return Vec::new();
        }
        if has_failed || self.detours.lock().may_look(holder, who) {
            return self.neighbours(holder);
        }
        let known = self.way_to(holder).filter(|known| self.is_direct(*known));
        known.map(|known| self.near(known)).into_iter().collect()
    }

    /// Sites that are linked directly, but for this one.
    fn neighbours(&self, holder: SiteId) -> Vec<Near> {
        let others = self.roster.all().into_keys().filter(|site| *site != holder && self.is_direct(*site));
        others.map(|site| self.near(site)).collect()
    }

    fn is_direct(&self, site: SiteId) -> bool {
        site != self.circuits.me() && self.course(site).is_some_and(|course| course.hops == 0)
    }

    /// What came from a site: of bytes, where others carry it, those over the link to the first of them.
    fn came_from(&self, site: SiteId) -> Came {
        let Some(node) = self.roster.node(site) else { return Came::default() };
        let via = self.net.course(node).and_then(|course| course.via);
        let bytes = self.net.came(via.unwrap_or(node));
        Came { bytes, is_carried: via.is_some(), answers: self.answered.by(node) }
    }

    /// The same, of bytes those over its own link.
    fn came_itself(&self, site: SiteId) -> Came {
        let of =
            |node| Came { bytes: self.net.came(node), is_carried: false, answers: self.answered.by(node) };
        self.roster.node(site).map(of).unwrap_or_default()
    }

    /// Who gave a chunk.
    fn learn(&self, holder: SiteId, by: SiteId) {
        let (answers, now) = (self.came_from(holder).answers, self.clock.now());
        match by == holder {
            true => self.detours.lock().forget(holder),
            false => self.detours.lock().learn(holder, by, answers, now),
        }
    }
}
