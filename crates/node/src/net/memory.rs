//! The network in memory: the twin of [`super::tcp`] for tests of what stands on [`Net`].
//!
//! A link stands between two nodes that have each other in their sets while neither is cut, closed or kept apart from the
//! other. Nothing is carried by third ones: tests of that run over TCP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::NodeId;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::links::{LinkEvents, Links};
use super::narrow::{Narrow, Pipe};
use super::sever::Severable;
use super::traffic::{Counters, Meter};
use super::{Course, Net, NetError, Peer, PeerAddress, PeerTraffic, Stream};
use crate::trust::PublicKey;

/// Bytes a stream holds before its writer waits.
const STREAM_BYTES: usize = 64 << 10;
/// Streams that wait for [`Net::accept`]; more are refused.
const WAITING_STREAMS: usize = 256;

/// All nodes that can reach each other in this process.
#[derive(Default)]
pub struct MemoryWorld(Mutex<World>);

#[derive(Default)]
struct World {
    nodes: BTreeMap<NodeId, Node>,
    links: BTreeMap<(NodeId, NodeId), CancellationToken>,
    /// What round trips are said to take, of who is not next door.
    distances: BTreeMap<(NodeId, NodeId), Duration>,
    /// What a question and its answer wait, of those whose links are slow indeed.
    delays: BTreeMap<(NodeId, NodeId), Duration>,
    /// What links carry in each direction, of those that are narrow.
    pipes: BTreeMap<(NodeId, NodeId), Arc<Pipe>>,
    numbers: u64,
}

struct Node {
    links: Arc<Links>,
    streams: mpsc::Sender<(Peer, Stream)>,
    peers: BTreeMap<NodeId, Arc<Counters>>,
    cut: bool,
    apart: BTreeSet<NodeId>,
    gone: BTreeSet<NodeId>,
}

/// One node of a [`MemoryWorld`].
pub struct MemoryNet {
    world: Arc<MemoryWorld>,
    key: PublicKey,
    links: Arc<Links>,
    streams: tokio::sync::Mutex<mpsc::Receiver<(Peer, Stream)>>,
    closed: CancellationToken,
}

impl MemoryWorld {
    /// An empty world.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A node with this key comes up. One that had the key before is gone (a restart).
    pub fn node(self: &Arc<Self>, key: PublicKey) -> Arc<MemoryNet> {
        let (sender, receiver) = mpsc::channel(WAITING_STREAMS);
        let links = Arc::new(Links::new());
        let node = Node {
            links: links.clone(),
            streams: sender,
            peers: BTreeMap::new(),
            cut: false,
            apart: BTreeSet::new(),
            gone: BTreeSet::new(),
        };
        self.change(|world| {
            world.sever(key.node());
            world.nodes.insert(key.node(), node);
        });
        let streams = tokio::sync::Mutex::new(receiver);
        Arc::new(MemoryNet { world: self.clone(), key, links, streams, closed: CancellationToken::new() })
    }

    /// Says how long a round trip between two nodes takes; nothing takes longer for it.
    pub fn set_rtt(&self, one: NodeId, other: NodeId, rtt: Duration) {
        self.change(|world| world.distances.insert((one.min(other), one.max(other)), rtt));
    }

    /// Makes every stream between two nodes wait so long before it opens: as a question and its answer do that are as far
    /// apart. What follows on the stream waits no more.
    pub fn set_delay(&self, one: NodeId, other: NodeId, rtt: Duration) {
        self.set_rtt(one, other, rtt);
        self.change(|world| world.delays.insert((one.min(other), one.max(other)), rtt));
    }

    /// Makes the link between two nodes carry no more than so many bytes a second in each direction, all streams together;
    /// those that are open stay as they are.
    pub fn set_rate(&self, one: NodeId, other: NodeId, bytes_per_second: u64) {
        self.set_rate_from(one, other, bytes_per_second);
        self.set_rate_from(other, one, bytes_per_second);
    }

    /// The same of what `from` says to `to` only.
    pub fn set_rate_from(&self, from: NodeId, to: NodeId, bytes_per_second: u64) {
        self.change(|world| world.pipes.insert((from, to), Pipe::new(bytes_per_second)));
    }

    /// Breaks the link between two nodes: its streams fail, and it stands again at once.
    pub fn sever(&self, one: NodeId, other: NodeId) {
        self.change(|world| world.drop_link((one.min(other), one.max(other))));
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut world);
        world.relink();
        result
    }
}

impl World {
    fn wants(&self, from: NodeId, to: NodeId) -> bool {
        self.nodes
            .get(&from)
            .is_some_and(|node| !node.cut && !node.apart.contains(&to) && node.peers.contains_key(&to))
    }

    /// Drops the links that must not stand, makes those that can.
    fn relink(&mut self) {
        let pairs: Vec<(NodeId, NodeId)> =
            self.nodes.iter().flat_map(|(&a, node)| node.peers.keys().map(move |&b| (a, b))).collect();
        let stale = self.links.keys().copied().filter(|&(a, b)| !(self.wants(a, b) && self.wants(b, a)));
        for pair in stale.collect::<Vec<_>>() {
            self.drop_link(pair);
        }
        for (a, b) in pairs {
            if a < b && self.wants(a, b) && self.wants(b, a) && !self.links.contains_key(&(a, b)) {
                self.make_link((a, b));
            }
        }
    }

    fn make_link(&mut self, (a, b): (NodeId, NodeId)) {
        self.numbers += 1;
        self.links.insert((a, b), CancellationToken::new());
        for (here, there) in [(a, b), (b, a)] {
            if let Some(node) = self.nodes.get(&here) {
                node.links.up(there, self.numbers);
            }
        }
    }

    fn drop_link(&mut self, (a, b): (NodeId, NodeId)) {
        if let Some(token) = self.links.remove(&(a, b)) {
            token.cancel();
        }
        for (here, there) in [(a, b), (b, a)] {
            if let Some(node) = self.nodes.get(&here) {
                node.links.down_any(there);
            }
        }
    }

    /// Drops all links of a node.
    fn sever(&mut self, node: NodeId) {
        let pairs: Vec<_> = self.links.keys().copied().filter(|&(a, b)| a == node || b == node).collect();
        for pair in pairs {
            self.drop_link(pair);
        }
    }

    fn connect(&self, from: NodeId, to: NodeId) -> Result<Stream, NetError> {
        let pair = (from.min(to), from.max(to));
        let (Some(link), Some(here), Some(there)) =
            (self.links.get(&pair), self.nodes.get(&from), self.nodes.get(&to))
        else {
            return Err(NetError::NoLink(to));
        };
        let (a, b) = tokio::io::duplex(STREAM_BYTES);
        let meter = |node: &Node, peer| {
            let meter = Meter::default();
            if let Some(counters) = node.peers.get(&peer) {
                meter.belongs_to(counters);
            }
            Some(Arc::new(meter))
        };
        let (a, b) = (self.narrow((from, to), a), self.narrow((to, from), b));
        let theirs: Stream = Box::new(Severable::new(b, link, meter(there, from)));
        there.streams.try_send((Peer::Known(from), theirs)).map_err(|_| NetError::NoLink(to))?;
        Ok(Box::new(Severable::new(a, link, meter(here, to))))
    }

    fn narrow(&self, way: (NodeId, NodeId), end: DuplexStream) -> Narrow<DuplexStream> {
        Narrow::new(end, self.pipes.get(&way).cloned())
    }
}

impl MemoryNet {
    fn own<T>(&self, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        self.world.change(|world| world.nodes.get_mut(&self.key.node()).map(change))
    }
}

#[async_trait]
impl Net for MemoryNet {
    fn node(&self) -> NodeId {
        self.key.node()
    }

    fn set_peers(&self, peers: Vec<PeerAddress>) {
        let me = self.node();
        self.own(|node| {
            let mut former = std::mem::take(&mut node.peers);
            let wanted = peers.iter().map(|peer| peer.key.node()).filter(|&peer| peer != me);
            node.peers = wanted.map(|peer| (peer, former.remove(&peer).unwrap_or_default())).collect();
        });
    }

    async fn open(&self, peer: NodeId) -> Result<Stream, NetError> {
        if self.closed.is_cancelled() {
            return Err(NetError::Closed);
        }
        if self.is_cut() {
            return Err(NetError::Cut);
        }
        let pair = (self.node().min(peer), self.node().max(peer));
        if let Some(delay) = self.world.change(|world| world.delays.get(&pair).copied()) {
            tokio::time::timeout(delay, std::future::pending::<()>()).await.ok();
        }
        self.world.change(|world| world.connect(self.node(), peer))
    }

    async fn accept(&self) -> Option<(Peer, Stream)> {
        let mut streams = self.streams.lock().await;
        tokio::select! {
            () = self.closed.cancelled() => None,
            stream = streams.recv() => stream,
        }
    }

    async fn join(&self, key: PublicKey, addresses: &[String]) -> Result<Stream, NetError> {
        let address = addresses.first().cloned().unwrap_or_default();
        let refused = |reason: &str| NetError::Dial { address: address.clone(), reason: reason.into() };
        if self.is_cut() {
            return Err(NetError::Cut);
        }
        self.world.change(|world| {
            let there = world.nodes.get(&key.node()).filter(|node| !node.cut);
            let there = there.ok_or_else(|| refused("nobody there"))?;
            let (a, b) = tokio::io::duplex(STREAM_BYTES);
            let offer = (Peer::Stranger(self.key), Box::new(b) as Stream);
            there.streams.try_send(offer).map_err(|_| refused("too many streams wait"))?;
            Ok(Box::new(a) as Stream)
        })
    }

    fn set_gone(&self, keys: BTreeSet<PublicKey>) {
        self.own(|node| node.gone = keys.iter().map(PublicKey::node).collect());
    }

    fn gone_by(&self) -> BTreeSet<NodeId> {
        let me = self.node();
        self.world.change(|world| {
            let Some(here) = world.nodes.get(&me).filter(|node| !node.cut) else { return BTreeSet::new() };
            let refuses = |other: &NodeId| {
                let there = world.nodes.get(other).filter(|there| !there.cut && !there.apart.contains(&me));
                there.is_some_and(|there| there.gone.contains(&me) && !there.peers.contains_key(&me))
            };
            here.peers.keys().copied().filter(|other| !here.apart.contains(other) && refuses(other)).collect()
        })
    }

    fn links(&self) -> LinkEvents {
        self.links.follow()
    }

    fn course(&self, peer: NodeId) -> Option<Course> {
        let pair = (self.node().min(peer), self.node().max(peer));
        self.world.change(|world| world.links.contains_key(&pair).then(Course::default))
    }

    fn rtt(&self, peer: NodeId) -> Option<Duration> {
        let pair = (self.node().min(peer), self.node().max(peer));
        let said = |world: &mut World| world.distances.get(&pair).copied().unwrap_or_default();
        self.world.change(|world| world.links.contains_key(&pair).then(|| said(world)))
    }

    fn traffic(&self) -> Vec<PeerTraffic> {
        let read = |node: &mut Node| node.peers.iter().map(|(&peer, bytes)| bytes.read(peer)).collect();
        self.own(read).unwrap_or_default()
    }

    fn set_cut(&self, cut: bool) {
        self.own(|node| node.cut = cut);
    }

    fn set_apart(&self, nodes: BTreeSet<NodeId>) {
        self.own(|node| node.apart = nodes);
    }

    fn is_cut(&self) -> bool {
        self.own(|node| node.cut).unwrap_or(false)
    }

    async fn close(&self) {
        self.closed.cancel();
        self.own(|node| node.peers.clear());
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
