//! The network over TCP: TLS 1.3 with raw public keys, many streams on one link.
//!
//! Every node dials every peer that it has an address of, and keeps trying; [`greet`] makes one link of two
//! connections that cross. The kernel notices dead paths (user timeout) once something is sent; pings do, and notice hung peers;
//! that an own address is gone [`ways`] notices.
//!
//! Invariants: a connection is anonymous for at most [`HANDSHAKE`], and at most [`ANONYMOUS`] are at a time;
//! what is not a member asking for a link, or a stranger asking to join, gets no byte of the application.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::NodeId;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backlog::Backlog;
use super::link::Link;
use super::links::{LinkEvents, Links};
use super::tls::{KnownKeys, Tls};
use super::traffic::Counters;
use super::{Course, Meeting, Net, NetError, Peer, PeerAddress, PeerTraffic, Stream, pace};
use crate::trust::{Identity, PublicKey, TrustError, entropy};

mod accept;
mod carried;
mod dial;
mod greet;
mod subflows;
mod tuning;
mod ways;

use greet::Standing;
pub use tuning::Tuning;

/// Time for TCP, TLS and greeting together of an incoming connection.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Incoming connections that have not proven a key yet; more are hung up on.
pub const ANONYMOUS: usize = 64;
/// Strangers that are served at once, and for how long at most.
pub const STRANGERS: usize = 8;
/// Strangers beyond that who are told to come back later; more are hung up on.
pub const TURNED_AWAY: usize = 32;
/// The longest life of the connection of such a one.
pub const TURNING_AWAY: Duration = Duration::from_secs(5);
/// The longest life of a stranger's connection.
pub const STRANGER: Duration = Duration::from_secs(60);
/// A peer that refused this node so often in a row is said to: who has just joined is refused until it has been heard of.
const REFUSALS: u32 = 3;
/// Streams of one link that wait for [`Net::accept`]; more of that one are dropped. Twice what a peer of this release opens
/// at a time, so that none of its own is: one that opens more takes no room from others.
const WAITING_STREAMS: usize = 192;
/// The same of all links together, which each link's own bound keeps it from reaching.
const ALL_WAITING: usize = WAITING_STREAMS * 2 * skerry_federation::limits::SITES;

/// Incoming connections that were refused, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    /// Not TLS, not our protocol, or broken off within the handshake.
    pub garbage: u64,
    /// A key that is not of the set.
    pub identity: u64,
    /// Too slow.
    pub slow: u64,
    /// Too many at once.
    pub busy: u64,
}

#[derive(Debug, Default)]
struct Refusals {
    garbage: AtomicU64,
    identity: AtomicU64,
    slow: AtomicU64,
    busy: AtomicU64,
}

/// The network of one node over TCP.
pub struct TcpNet {
    shared: Arc<Shared>,
    address: SocketAddr,
    streams: tokio::sync::Mutex<mpsc::Receiver<Waiting>>,
}

/// A stream that waits to be accepted, and its place among those of its link.
struct Waiting {
    peer: Peer,
    stream: Stream,
    _place: Option<OwnedSemaphorePermit>,
}

/// What all tasks of the network share.
struct Shared {
    node: NodeId,
    /// Drawn at start: tells a restarted peer from one that lost a link.
    instance: u64,
    tls: Tls,
    tuning: Tuning,
    /// What the kernel refused of it.
    lack: Option<String>,
    known: KnownKeys,
    state: Mutex<State>,
    links: Links,
    backlog: Arc<Backlog>,
    streams: mpsc::Sender<Waiting>,
    anonymous: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    turned_away: Arc<Semaphore>,
    /// Where the ends of direct connections are.
    ways: ways::Ways,
    names: Arc<Semaphore>,
    refusals: Refusals,
    tasks: TaskTracker,
    closed: CancellationToken,
}

struct State {
    peers: BTreeMap<NodeId, PeerState>,
    /// Bytes by node, also of those that left the set: counters never fall.
    counters: BTreeMap<NodeId, Arc<Counters>>,
    /// Numbers of links, rising over all peers.
    numbers: u64,
    cut: bool,
    /// Nodes that are not connected with directly.
    apart: BTreeSet<NodeId>,
    /// Nodes across links that one of the ends pays for.
    paid: BTreeSet<NodeId>,
    /// Whom this node asked last because links broke: the next is another's turn.
    doubted: Option<NodeId>,
    /// Lives that run beside another with the same key.
    refused: BTreeMap<NodeId, BTreeSet<u64>>,
    /// When one of a node was turned away last.
    turned_away: BTreeMap<NodeId, Instant>,
    /// Of two such, for who asks next.
    meetings: Vec<Meeting>,
    /// Parent of the tokens of all connections: cancelled by a cut, new after it.
    connected: CancellationToken,
}

/// What is known of one peer.
struct PeerState {
    address: PeerAddress,
    counters: Arc<Counters>,
    /// The connection that is, or is about to become, the link.
    standing: Option<Standing>,
    link: Option<Arc<Link>>,
    /// Where this end dialled it; none if the other did.
    dialled: Option<String>,
    /// What stands beside it.
    beside: subflows::Beside,
    /// The last link that stood, for greetings.
    last: greet::LinkId,
    /// How often in a row it answered and refused the key of this node.
    refusals: u32,
    /// It said that another process with this node's key is linked there.
    copied: bool,
    /// It said that this node belongs no more.
    gone: bool,
    /// How long its direct links are silent, if one of the ends pays for them.
    rest: Option<Duration>,
    /// Wake the dialling task.
    wakers: dial::Wakers,
    /// Ends the dialling task.
    stop: CancellationToken,
}

impl Shared {
    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The parent token for a new connection; `None` while cut.
    fn connected(&self) -> Option<CancellationToken> {
        self.state(|state| (!state.cut).then(|| state.connected.child_token()))
    }

    /// The link that stands to a node.
    fn link(&self, peer: NodeId) -> Result<Arc<Link>, NetError> {
        if self.closed.is_cancelled() {
            return Err(NetError::Closed);
        }
        self.state(|state| {
            if state.cut {
                return Err(NetError::Cut);
            }
            let link = state.peers.get(&peer).and_then(|peer| peer.link.clone());
            link.ok_or(NetError::NoLink(peer))
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

impl TcpNet {
    /// Listens on `listen` (`host:port`) as the node with this key.
    pub async fn bind(listen: &str, identity: &Identity) -> Result<Arc<Self>, BindError> {
        Self::bind_tuned(listen, identity, Tuning::default()).await
    }

    /// The same with sockets set like this.
    #[expect(clippy::disallowed_methods, reason = "this is where the peer port is opened")]
    pub async fn bind_tuned(
        listen: &str,
        identity: &Identity,
        tuning: Tuning,
    ) -> Result<Arc<Self>, BindError> {
        let failed = |reason: String| BindError { address: listen.into(), reason, in_use: false };
        let listener = TcpListener::bind(listen).await.map_err(|error| BindError {
            in_use: error.kind() == std::io::ErrorKind::AddrInUse,
            ..failed(error.to_string())
        })?;
        let (tuning, lack) = tuning.offered(&listener);
        let address = listener.local_addr().map_err(|error| failed(error.to_string()))?;
        let known: KnownKeys = Arc::new(RwLock::default());
        let tls = Tls::new(identity, known.clone()).map_err(|error| failed(error.to_string()))?;
        let instance = entropy::number().map_err(|error| failed(TrustError::from(error).to_string()))?;
        let backlog = Arc::new(Backlog::new(tuning.backlog));
        let (sender, receiver) = mpsc::channel(ALL_WAITING);
        let connected = CancellationToken::new();
        let state = State {
            peers: BTreeMap::new(),
            counters: BTreeMap::new(),
            numbers: 0,
            cut: false,
            apart: BTreeSet::new(),
            paid: BTreeSet::new(),
            doubted: None,
            refused: BTreeMap::new(),
            turned_away: BTreeMap::new(),
            meetings: Vec::new(),
            connected,
        };
        let shared = Arc::new(Shared {
            node: identity.node(),
            instance,
            tls,
            tuning,
            lack,
            backlog,
            known,
            state: Mutex::new(state),
            links: Links::new(),
            streams: sender,
            anonymous: Arc::new(Semaphore::new(ANONYMOUS)),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
            ways: ways::Ways::default(),
            names: Arc::new(Semaphore::new(dial::NAMES)),
            refusals: Refusals::default(),
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        });
        shared.spawn(accept::run(shared.clone(), listener));
        shared.spawn(ways::watch(shared.clone()));
        shared.spawn(subflows::watch(shared.clone()));
        Ok(Arc::new(Self { shared, address, streams: tokio::sync::Mutex::new(receiver) }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Incoming connections refused since start.
    pub fn refused(&self) -> Refused {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Refusals { garbage, identity, slow, busy } = &self.shared.refusals;
        Refused { garbage: read(garbage), identity: read(identity), slow: read(slow), busy: read(busy) }
    }
}

/// The peer port could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen for other sites on {address}: {reason}")]
pub struct BindError {
    /// Where.
    pub address: String,
    /// Why not.
    pub reason: String,
    /// Whether another process has it.
    pub in_use: bool,
}

#[async_trait]
impl Net for TcpNet {
    fn node(&self) -> NodeId {
        self.shared.node
    }

    fn set_peers(&self, peers: Vec<PeerAddress>) {
        let me = self.shared.node;
        let wanted: BTreeMap<NodeId, PeerAddress> =
            peers.into_iter().map(|peer| (peer.key.node(), peer)).filter(|(node, _)| *node != me).collect();
        let keys = wanted.values().map(|peer| peer.key).collect();
        self.shared.known.write().unwrap_or_else(PoisonError::into_inner).known = keys;
        let new = self.shared.state(|state| state.set_peers(wanted, &self.shared.links));
        for (node, wakers, stop) in new {
            self.shared.spawn(dial::keep(self.shared.clone(), node, wakers, stop));
        }
    }

    async fn open(&self, peer: NodeId) -> Result<Stream, NetError> {
        self.shared.link(peer)?.open().await.ok_or(NetError::NoLink(peer))
    }

    async fn open_bulk(&self, peer: NodeId) -> Result<Stream, NetError> {
        let subflow = self.shared.state(|state| state.peers.get(&peer)?.beside.freest());
        match subflow {
            Some(subflow) => subflow.open().await.ok_or(NetError::NoLink(peer)),
            None => self.open(peer).await,
        }
    }

    async fn open_circuit(&self, peer: NodeId) -> Result<Stream, NetError> {
        self.shared.link(peer)?.open_circuit().await.ok_or(NetError::NoLink(peer))
    }

    async fn link_over(
        &self,
        peer: NodeId,
        course: Course,
        dialled: bool,
        stream: Stream,
    ) -> Result<(), NetError> {
        carried::link(&self.shared, (peer, course), dialled, stream).await
    }

    fn backlog(&self) -> Option<(usize, usize)> {
        let backlog = &self.shared.backlog;
        Some((backlog.most(), backlog.taken()))
    }

    fn connections(&self, peer: NodeId) -> usize {
        self.shared.state(|state| {
            let peer = state.peers.get(&peer).filter(|peer| peer.link.is_some());
            peer.map_or(0, |peer| 1 + peer.beside.count())
        })
    }

    fn course(&self, peer: NodeId) -> Option<Course> {
        self.shared.state(|state| {
            let peer = state.peers.get(&peer).filter(|peer| peer.link.is_some())?;
            Some(peer.standing.as_ref()?.course)
        })
    }

    async fn accept(&self) -> Option<(Peer, Stream)> {
        let mut streams = self.streams.lock().await;
        tokio::select! {
            () = self.shared.closed.cancelled() => None,
            waiting = streams.recv() => waiting.map(|waiting| (waiting.peer, waiting.stream)),
        }
    }

    async fn join(&self, key: PublicKey, addresses: &[String]) -> Result<Stream, NetError> {
        dial::join(&self.shared, key, addresses).await
    }

    fn links(&self) -> LinkEvents {
        self.shared.links.follow()
    }

    fn refused_by(&self) -> BTreeSet<NodeId> {
        self.shared.state(|state| {
            let refuses = |peer: &PeerState| peer.refusals >= REFUSALS && peer.link.is_none();
            state.peers.iter().filter(|(_, peer)| refuses(peer)).map(|(&node, _)| node).collect()
        })
    }

    fn set_gone(&self, keys: BTreeSet<PublicKey>) {
        self.shared.known.write().unwrap_or_else(PoisonError::into_inner).gone = keys;
    }

    fn gone_by(&self) -> BTreeSet<NodeId> {
        self.shared.state(|state| {
            let says_so = |peer: &PeerState| peer.gone && peer.link.is_none();
            state.peers.iter().filter(|(_, peer)| says_so(peer)).map(|(&node, _)| node).collect()
        })
    }

    fn lives(&self) -> BTreeMap<NodeId, u64> {
        let life = |peer: &PeerState| peer.link.as_ref().and(peer.standing.as_ref()).map(Standing::life);
        self.shared
            .state(|state| state.peers.iter().filter_map(|(&node, peer)| Some((node, life(peer)?))).collect())
    }

    async fn answers(&self, peer: NodeId, life: u64) -> bool {
        let link = self.shared.state(|state| {
            let peer = state.peers.get(&peer)?;
            peer.standing.as_ref().filter(|standing| standing.life() == life)?;
            peer.link.clone()
        });
        match link {
            Some(link) => tokio::time::timeout(HANDSHAKE, link.answers()).await.unwrap_or(false),
            None => false,
        }
    }

    fn set_refused(&self, lives: BTreeMap<NodeId, BTreeSet<u64>>) {
        self.shared.state(|state| {
            for (&node, peer) in &mut state.peers {
                let standing = peer.standing.as_ref().map(Standing::life);
                let is_refused = |life| lives.get(&node).is_some_and(|lives| lives.contains(&life));
                if standing.is_some_and(is_refused) {
                    peer.fall(node, &self.shared.links);
                    peer.wakers.hurry();
                }
            }
            state.refused = lives;
        });
    }

    fn meetings(&self) -> Vec<Meeting> {
        self.shared.state(|state| std::mem::take(&mut state.meetings))
    }

    fn turned_away(&self) -> BTreeMap<NodeId, Duration> {
        let now = pace::now();
        let since = |at: &Instant| now.saturating_duration_since(*at);
        self.shared.state(|state| state.turned_away.iter().map(|(&node, at)| (node, since(at))).collect())
    }

    fn copied_by(&self) -> BTreeSet<NodeId> {
        self.shared.state(|state| {
            state.peers.iter().filter(|(_, peer)| peer.copied).map(|(&node, _)| node).collect()
        })
    }

    fn rtt(&self, peer: NodeId) -> Option<Duration> {
        self.shared.state(|state| state.peers.get(&peer)?.link.as_ref()?.rtt())
    }

    fn set_rest(&self, peer: NodeId, every: Option<Duration>) {
        self.shared.state(|state| {
            if let Some(peer) = state.peers.get_mut(&peer) {
                peer.rest = every;
                peer.take_rest();
            }
        });
    }

    fn set_paid(&self, peers: BTreeSet<NodeId>) {
        self.shared.state(|state| state.paid = peers);
    }

    fn heard(&self, peer: NodeId) {
        self.shared.state(|state| {
            if let Some(peer) = state.peers.get(&peer).filter(|peer| peer.standing.is_none()) {
                peer.wakers.heard.notify_one();
            }
        });
    }

    fn doubt(&self, most: usize) {
        self.shared.state(|state| {
            let linked = |(node, peer): (&NodeId, &PeerState)| peer.link.as_ref().map(|_| *node);
            let chosen: Vec<NodeId> =
                round(&state.peers, state.doubted).filter_map(linked).take(most).collect();
            let links = chosen.iter().filter_map(|node| state.peers.get(node)?.link.as_ref());
            links.for_each(|link| link.doubt());
            state.doubted = chosen.last().copied().or(state.doubted);
        });
    }

    fn came(&self, peer: NodeId) -> u64 {
        self.shared.state(|state| state.counters.get(&peer).map_or(0, |bytes| bytes.read(peer).received))
    }

    fn traffic(&self) -> Vec<PeerTraffic> {
        self.shared.state(|state| state.counters.iter().map(|(&node, bytes)| bytes.read(node)).collect())
    }

    fn set_cut(&self, cut: bool) {
        self.shared.state(|state| {
            state.cut = cut;
            if cut {
                state.connected.cancel();
                for (&node, peer) in &mut state.peers {
                    peer.fall(node, &self.shared.links);
                }
            } else {
                state.connected = self.shared.closed.child_token();
                state.peers.values().for_each(|peer| peer.wakers.hurry());
            }
        });
    }

    fn set_apart(&self, nodes: BTreeSet<NodeId>) {
        self.shared.state(|state| {
            for (&node, peer) in &mut state.peers {
                let direct = peer.standing.as_ref().is_some_and(|standing| standing.course.hops == 0);
                if nodes.contains(&node) && direct {
                    peer.fall(node, &self.shared.links);
                } else if state.apart.contains(&node) {
                    peer.wakers.hurry();
                }
            }
            state.apart = nodes;
        });
    }

    fn lack(&self) -> Option<String> {
        self.shared.lack.clone()
    }

    fn is_cut(&self) -> bool {
        self.shared.state(|state| state.cut)
    }

    async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.state(|state| {
            state.connected.cancel();
            for (&node, peer) in &mut state.peers {
                peer.stop.cancel();
                peer.fall(node, &self.shared.links);
            }
        });
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl State {
    /// Takes over the set; answers the nodes that are new, with what drives their dialling.
    fn set_peers(
        &mut self,
        wanted: BTreeMap<NodeId, PeerAddress>,
        links: &Links,
    ) -> Vec<(NodeId, dial::Wakers, CancellationToken)> {
        for (&node, peer) in self.peers.iter_mut().filter(|(node, _)| !wanted.contains_key(node)) {
            peer.stop.cancel();
            peer.fall(node, links);
        }
        self.peers.retain(|node, _| wanted.contains_key(node));
        self.turned_away.retain(|node, _| wanted.contains_key(node));
        let mut new = Vec::new();
        for (node, address) in wanted {
            if let Some(peer) = self.peers.get_mut(&node) {
                if peer.address != address {
                    peer.address = address;
                    peer.wakers.hurry();
                }
                continue;
            }
            let counters = self.counters.entry(node).or_default().clone();
            let peer = PeerState::new(address, counters);
            new.push((node, peer.wakers.clone(), peer.stop.clone()));
            self.peers.insert(node, peer);
        }
        new
    }
}

/// All once, beginning with who comes after the last.
fn round<V>(peers: &BTreeMap<NodeId, V>, last: Option<NodeId>) -> impl Iterator<Item = (&NodeId, &V)> {
    let (after, upto) = match last {
        Some(last) => (Bound::Excluded(last), Bound::Included(last)),
        None => (Bound::Unbounded, Bound::Unbounded),
    };
    peers.range((after, Bound::Unbounded)).chain(peers.range((Bound::Unbounded, upto))).take(peers.len())
}

impl PeerState {
    fn new(address: PeerAddress, counters: Arc<Counters>) -> Self {
        Self {
            address,
            counters,
            standing: None,
            link: None,
            dialled: None,
            beside: subflows::Beside::default(),
            last: greet::LinkId::default(),
            refusals: 0,
            copied: false,
            gone: false,
            rest: None,
            wakers: dial::Wakers::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Lets a direct link be silent for as long as it may. One that others carry is ended by them when nothing moves.
    fn take_rest(&self) {
        let is_direct = self.standing.as_ref().is_some_and(|standing| standing.course.hops == 0);
        if let Some(link) = &self.link {
            link.rest(self.rest.filter(|_| is_direct).unwrap_or(skerry_federation::rest::OFTEN));
        }
    }

    /// The link is gone.
    fn fall(&mut self, node: NodeId, links: &Links) {
        if let Some(standing) = self.standing.take() {
            links.down(node, standing.number);
            standing.token.cancel();
        }
        if let Some(link) = self.link.take() {
            link.sever();
        }
        self.dialled = None;
        self.beside = subflows::Beside::default();
        self.wakers.change.notify_one();
    }
}

#[cfg(test)]
mod tests;
