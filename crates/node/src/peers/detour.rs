//! Chunks of a site whose link is silent or gone, by way of one that has a link with both: runs the machine that decides whom
//! to ask ([`skerry_federation::detour`]).
//!
//! Before: `paths/source.rs`, which waits for a chunk, and `paths/through.rs`, which fetches one for another site. After: streams
//! of `peers`, and `paths/through.rs` at the site in between. Invariants: who gives it first ends it, all others are given up;
//! what the holder itself says counts, be it no; nobody is sought of whom nobody has heard.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use skerry_base::{BucketId, ChunkRef, SiteId};
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

/// Who waits for a chunk of a holder, and may look for a way to it if nobody else does.
struct Looking<'a> {
    peers: &'a Peers,
    holder: SiteId,
    who: u64,
}

impl Looking<'_> {
    /// Who has found a way meanwhile.
    fn known(&self) -> Option<Near> {
        let (came, now) = (self.peers.came_from(self.holder), self.peers.clock.now());
        let known = self.peers.detours.lock().known(self.holder, came, now);
        known.flatten().map(|known| self.peers.near(known))
    }

    /// Whom it may ask to fetch the chunk: while the holder may still answer, only one of all that wait looks for a way.
    fn near(&self, around: Around, has_failed: bool) -> Vec<Near> {
        if around != Around::Others {
            return Vec::new();
        }
        if has_failed || self.peers.detours.lock().may_look(self.holder, self.who) {
            return self.peers.neighbours(self.holder);
        }
        let is_direct = |near: &Near| self.peers.course(near.site).is_some_and(|course| course.hops == 0);
        self.known().filter(is_direct).into_iter().collect()
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.peers.detours.lock().looked(self.holder, self.who);
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
        let known = self.detours.lock().known(holder, self.came_from(holder), self.clock.now());
        // A copy can wait, and goes nowhere else.
        let nobody = errand.class != Class::Read || known == Some(None) || self.is_unheard(holder);
        let around = if nobody { Around::Nobody } else { Around::Others };
        let known = known.flatten().filter(|_| around == Around::Others);
        self.seek(Wanted { errand, holder, domain, chunk }, around, known).await
    }

    /// The same for another site, which asks elsewhere as soon as this one's link is silent.
    pub(crate) async fn chunk_unless_silent(
        &self,
        errand: Errand,
        holder: SiteId,
        domain: BucketId,
        chunk: &ChunkRef,
    ) -> Result<Option<Bytes>, PeerError> {
        self.seek(Wanted { errand, holder, domain, chunk }, Around::Refuse, None).await
    }

    async fn seek(
        &self,
        wanted: Wanted<'_>,
        around: Around,
        known: Option<SiteId>,
    ) -> Result<Option<Bytes>, PeerError> {
        let holder = wanted.holder;
        let looking = Looking { peers: self, holder, who: self.reader() };
        let mut machine = Detour::new(self.near(holder), known.map(|known| self.near(known)));
        let mut asked: FuturesUnordered<BoxFuture<'_, Said>> = FuturesUnordered::new();
        let (mut seen, mut failed, mut refused) = (0, None, Vec::new());
        loop {
            let now = self.clock.now();
            if let Some(last) = machine.last() {
                let came = self.came_from(last);
                if came > seen {
                    machine.heard(last, now);
                }
                seen = came;
            }
            let pause = match machine.step(|| looking.near(around, failed.is_some()), now) {
                Next::Ask(site) => {
                    if site != holder {
                        let (by, holder) = (self.roster.name(site), self.roster.name(holder));
                        tracing::debug!(
                            by,
                            holder,
                            "asks another for a chunk: the holder is silent or has no link"
                        );
                    }
                    seen = self.came_from(site);
                    asked.push(self.ask_for(wanted, site));
                    continue;
                }
                Next::Ping(site) => {
                    asked.push(Box::pin(async move { Said::Pong(site, self.is_there(site).await) }));
                    continue;
                }
                Next::Rest(None) if around == Around::Refuse => return Err(PeerError::Quiet),
                // Another may have found a way meanwhile.
                Next::Rest(at) => at.map_or(PATIENCE / 4, |at| at.since(now)),
                Next::Over => return Err(self.nobody(holder, failed, refused)),
            };
            match tokio::time::timeout(pause, asked.next()).await {
                Err(_) | Ok(None) => looking.known().into_iter().for_each(|known| machine.tell(known)),
                Ok(Some(Said::Pong(site, is_there))) if is_there => machine.heard(site, self.clock.now()),
                Ok(Some(Said::Pong(..))) => {}
                Ok(Some(Said::Chunk(site, Ok(Some(bytes))))) => {
                    self.learn(holder, site);
                    return Ok(Some(bytes));
                }
                Ok(Some(Said::Chunk(site, Err(error)))) if site == holder && error.is_apart() => {
                    machine.ended(site);
                    failed = Some(error);
                }
                Ok(Some(Said::Chunk(site, said))) if site == holder => return said,
                Ok(Some(Said::Chunk(site, said))) => {
                    machine.ended(site);
                    refused.push((site, said.err()));
                }
            }
        }
    }

    /// Asks the holder itself, or another to fetch it over its own link.
    fn ask_for<'a>(&'a self, wanted: Wanted<'a>, site: SiteId) -> BoxFuture<'a, Said> {
        let Wanted { errand, holder, domain, chunk } = wanted;
        let way = (site != holder).then_some((holder, 0));
        Box::pin(async move { Said::Chunk(site, self.come(errand, site, (domain, chunk), way).await) })
    }

    /// Whether the process at the other end of a link answers now.
    async fn is_there(&self, site: SiteId) -> bool {
        let Some(node) = self.roster.node(site) else { return false };
        let Some(life) = self.net.lives().get(&node).copied() else { return false };
        self.net.answers(node, life).await
    }

    fn near(&self, site: SiteId) -> Near {
        let rtt = self.roster.node(site).and_then(|node| self.net.rtt(node));
        Near { site, rtt, is_paid: self.is_paid(site) }
    }

    /// Sites that are linked directly, but for this one.
    fn neighbours(&self, holder: SiteId) -> Vec<Near> {
        let is_direct = |site: &SiteId| self.course(*site).is_some_and(|course| course.hops == 0);
        let others =
            self.roster.all().into_keys().filter(|site| *site != holder && *site != self.circuits.me());
        others.filter(is_direct).map(|site| self.near(site)).collect()
    }

    /// Bytes that came over the link to a site: where others carry it, over the link to the first of them.
    fn came_from(&self, site: SiteId) -> u64 {
        let Some(node) = self.roster.node(site) else { return 0 };
        self.net.came(self.net.course(node).and_then(|course| course.via).unwrap_or(node))
    }

    /// Who gave a chunk.
    fn learn(&self, holder: SiteId, by: SiteId) {
        let (came, now) = (self.came_from(holder), self.clock.now());
        match by == holder {
            true => self.detours.lock().forget(holder),
            false => self.detours.lock().learn(holder, Some(by), came, now),
        }
    }

    /// Nobody gave it: why the holder did not, and why nobody else did.
    fn nobody(
        &self,
        holder: SiteId,
        failed: Option<PeerError>,
        refused: Vec<(SiteId, Option<PeerError>)>,
    ) -> PeerError {
        let error = failed.unwrap_or(PeerError::Quiet);
        // One that answered that it is not there has a way.
        if refused.is_empty() || refused.iter().any(|(_, why)| why.is_none()) {
            return error;
        }
        self.detours.lock().learn(holder, None, self.came_from(holder), self.clock.now());
        let said = |(site, why): (SiteId, Option<PeerError>)| {
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            format!("{}: {why}", self.roster.name(site))
        };
        let refused = refused.into_iter().map(said).collect::<Vec<String>>().join(", ");
        PeerError::Around { error: Box::new(error), refused }
    }
}
