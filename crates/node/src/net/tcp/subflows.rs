//! Connections beside a link: what a far and fast line carries beyond what a kernel holds of one ([`skerry_federation::subflows`]).
//!
//! The end that dialled the link dials them, where it had found the other; both ends open streams on them. Invariants: each
//! proves both keys as the link did, and names it; none outlives it; none stands beside a link that others carry or that one of
//! the ends pays for; where the other end takes none (a release before) the link is as it was.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::{Instant, NodeId};
use skerry_federation::subflows::{MOST, Subflows};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::link::Link;
use super::super::traffic::{Counters, Meter};
use super::super::{NetError, pace, tls};
use super::greet::{LinkId, inbound};
use super::{HANDSHAKE, PeerState, Shared, State, dial, ways};
use crate::trust::PublicKey;

/// How often links are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After one that was not made none is tried for so long.
const PAUSE: Duration = Duration::from_secs(60);
/// One that ended sooner the other end did not want.
const LASTS: Duration = Duration::from_secs(2);
/// The answer to who names the link that stands.
const TAKEN: u8 = 1;
/// To anybody else.
const REFUSED: u8 = 0;

/// What stands beside a link. A new link begins with a new one of these.
#[derive(Default)]
pub(super) struct Beside {
    wanted: Subflows,
    standing: Vec<Arc<Link>>,
    dialling: usize,
    not_before: Instant,
    /// Of the link's streams that wait to be accepted.
    places: Option<Arc<Semaphore>>,
}

impl Beside {
    /// Of a link whose streams take these places.
    pub(super) fn new(places: Arc<Semaphore>) -> Self {
        Self { places: Some(places), ..Self::default() }
    }

    /// The one with the fewest streams of this side.
    pub(super) fn freest(&self) -> Option<Arc<Link>> {
        self.standing.iter().min_by_key(|subflow| subflow.opened()).cloned()
    }

    fn sever(&mut self) {
        self.standing.drain(..).for_each(|subflow| subflow.sever());
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.standing.len()
    }
}

/// One that is to be made.
struct Dial {
    node: NodeId,
    key: PublicKey,
    address: String,
    id: LinkId,
    token: CancellationToken,
    counters: Arc<Counters>,
}

/// Looks until the network is closed.
pub(super) async fn watch(shared: Arc<Shared>) {
    let begun = pace::now();
    while shared.closed.run_until_cancelled(pace::pause(LOOK)).await.is_some() {
        let since = pace::now().saturating_duration_since(begun).as_nanos();
        look(&shared, Instant(u64::try_from(since).unwrap_or(u64::MAX)), shared.tuning.share);
    }
}

/// One look.
fn look(shared: &Arc<Shared>, now: Instant, share: u64) {
    for wanted in shared.state(|state| state.subflows(now, share)) {
        shared.spawn(make(shared.clone(), wanted, now));
    }
}

impl State {
    /// Those that are to be dialled now. Lets go of those that nobody needs any more.
    fn subflows(&mut self, now: Instant, share: u64) -> Vec<Dial> {
        let mut dials = Vec::new();
        for (&node, peer) in &mut self.peers {
            // Links rest for longer also where there are very many: that is no reason.
            if self.paid.contains(&node) {
                peer.beside.sever();
            } else {
                dials.extend(peer.subflows(node, now, share));
            }
        }
        dials
    }
}

impl PeerState {
    fn subflows(&mut self, node: NodeId, now: Instant, share: u64) -> Vec<Dial> {
        let rtt = self.link.as_ref().and_then(|link| link.rtt());
        let direct = self.standing.as_ref().filter(|standing| standing.course.hops == 0);
        let (Some(rtt), Some(standing), Some(address)) = (rtt, direct, &self.dialled) else {
            return Vec::new();
        };
        let traffic = self.counters.read(node);
        let beside = &mut self.beside;
        let is_used = beside.standing.iter().any(|subflow| subflow.is_used());
        let crossed = [traffic.sent, traffic.received];
        let wanted = beside.wanted.look(crossed, rtt, is_used, (now, share));
        if wanted == 0 {
            beside.sever();
        }
        let missing = wanted.saturating_sub(beside.standing.len() + beside.dialling);
        if now < beside.not_before {
            return Vec::new();
        }
        beside.dialling += missing;
        let dial = || Dial {
            node,
            key: self.address.key,
            address: address.clone(),
            id: standing.id,
            token: standing.token.child_token(),
            counters: self.counters.clone(),
        };
        std::iter::repeat_with(dial).take(missing).collect()
    }
}

/// Dials one and runs it to its end.
async fn make(shared: Arc<Shared>, wanted: Dial, now: Instant) {
    let (node, id, token) = (wanted.node, wanted.id, wanted.token.clone());
    let made = token.run_until_cancelled(connect(&shared, wanted)).await;
    let is_made = matches!(made, Some(Ok(_)));
    shared.state(|state| {
        if let Some(beside) = state.beside(node, id) {
            beside.dialling = beside.dialling.saturating_sub(1);
        }
    });
    if !is_made {
        pause(&shared, (node, id), now, Duration::ZERO);
    }
    match made {
        Some(Ok((stream, way))) => {
            let begun = pace::now();
            run(&shared, (node, id), stream, (true, token)).await;
            drop(way);
            let stood = pace::now().saturating_duration_since(begun);
            if stood < LASTS {
                // The other end did not want it: it is not asked again at once.
                pause(&shared, (node, id), now, stood);
            }
        }
        Some(Err(error)) => tracing::debug!(peer = %node, %error, "no further connection beside the link"),
        None => {}
    }
}

/// None is dialled for a while, from so long after `now`.
fn pause(shared: &Shared, (node, id): (NodeId, LinkId), now: Instant, after: Duration) {
    shared.state(|state| {
        if let Some(beside) = state.beside(node, id) {
            beside.not_before = now.after(after + PAUSE);
        }
    });
}

async fn connect(shared: &Shared, wanted: Dial) -> Result<(dial::Socket, Option<ways::Way>), NetError> {
    let meter = Arc::new(Meter::default());
    meter.belongs_to(&wanted.counters);
    let (address, token) = ([wanted.address.clone()], &wanted.token);
    let connection = dial::connect(shared, wanted.key, &address, tls::SUBFLOW, meter, token).await?;
    let way = shared.ways.note(connection.ends, token, &ways::Kernel);
    let mut stream = connection.socket;
    let asked = async {
        stream.write_all(&wanted.id.encode()).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    let failed = |reason: String| NetError::Dial { address: wanted.address.clone(), reason };
    match timeout(HANDSHAKE, asked).await {
        Ok(Ok(TAKEN)) => Ok((stream, way)),
        Ok(Ok(_)) => Err(failed("it knows another link".into())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("no answer in time".into())),
    }
}

/// Takes one that the other end dialled, if it names the link that stands and nobody pays for what crosses; the future runs it to
/// its end. Where both ends dial at once the arbiter of the pair takes none: else each would have its own, and let them go.
pub(super) async fn accept<S>(
    shared: &Arc<Shared>,
    mut stream: S,
    peer: NodeId,
) -> io::Result<Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let id = LinkId::read(&mut stream).await?;
    let token = shared.state(|state| {
        if state.paid.contains(&peer) {
            return None;
        }
        let dialling = |beside: &Beside| if shared.node < peer { beside.dialling } else { 0 };
        state.beside(peer, id).filter(|beside| beside.count() + dialling(beside) < MOST)?;
        Some(state.peers.get(&peer)?.standing.as_ref()?.token.child_token())
    });
    stream.write_u8(if token.is_some() { TAKEN } else { REFUSED }).await?;
    stream.flush().await?;
    let Some(token) = token else { return Ok(None) };
    let shared = shared.clone();
    Ok(Some(Box::pin(async move { run(&shared, (peer, id), stream, (false, token)).await })))
}

impl State {
    /// What stands beside the direct link with this number, if that one stands.
    fn beside(&mut self, peer: NodeId, id: LinkId) -> Option<&mut Beside> {
        let peer = self.peers.get_mut(&peer).filter(|peer| peer.link.is_some())?;
        peer.standing.as_ref().filter(|standing| standing.id == id && standing.course.hops == 0)?;
        Some(&mut peer.beside)
    }
}

async fn run<S>(
    shared: &Arc<Shared>,
    (peer, id): (NodeId, LinkId),
    stream: S,
    (dialler, token): (bool, CancellationToken),
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(places) = shared.state(|state| state.beside(peer, id)?.places.clone()) else { return };
    let inbound = inbound(shared, peer, places);
    let (subflow, task) = Link::new(stream, dialler, token, inbound, (&shared.backlog, false));
    let subflow = Arc::new(subflow);
    let stands = shared.state(|state| {
        state.beside(peer, id).filter(|beside| beside.count() < MOST)?.standing.push(subflow.clone());
        Some(())
    });
    if stands.is_some() {
        tracing::debug!(%peer, "another connection beside the link");
        task.await;
        shared.state(|state| {
            if let Some(beside) = state.beside(peer, id) {
                beside.standing.retain(|standing| !Arc::ptr_eq(standing, &subflow));
            }
        });
    }
}

#[cfg(test)]
#[path = "subflows_tests.rs"]
mod tests;
