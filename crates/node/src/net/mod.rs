//! Links between nodes: who is reachable, and streams to them.
//!
//! Why here: everything above speaks of peers by [`NodeId`]; addresses, sockets, TLS and multiplexing stay in
//! this folder. [`tcp`] is what sites use, [`memory`] its twin for tests; both keep the promises of [`Net`].
//!
//! Invariants: both ends of every link have proven their key; at most one link per pair of nodes; a stream of
//! a link that broke gives an error and never bytes of another link; while cut, nothing goes in or out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::NodeId;
use skerry_federation::budget::Class;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::trust::PublicKey;

pub mod frame;
#[cfg(test)]
pub mod memory;
pub mod tcp;

mod backlog;
mod link;
mod links;
mod mux;
#[cfg(test)]
mod narrow;
mod pace;
mod sever;
mod tls;
mod traffic;
mod turns;

pub use links::{LinkEvent, LinkEvents};
pub use traffic::PeerTraffic;

/// One ordered, reliable stream of bytes to another node. An end of file is either the end that the other
/// side made or a link that broke: protocols carry lengths and never take an early end for success.
pub type Stream = Box<dyn Duplex>;

/// What a [`Stream`] is.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// What is written from now on is of this class: on a busy link it waits for what is more urgent. Each end says it of
    /// what it writes itself. A stream that shares its connection with no other has nobody to wait for.
    fn rank(&mut self, _class: Class) {}
}

impl Duplex for tokio::io::DuplexStream {}

/// Who opened a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A node of the set given to [`Net::set_peers`]; its key is proven.
    Known(NodeId),
    /// A node that wants to join. It has proven to hold this key and nothing else.
    Stranger(PublicKey),
}

/// A node that links are kept to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// The key it must prove; its [`NodeId`] derives from it.
    pub key: PublicKey,
    /// Where to dial it, as `host:port`, `address:port` or `[v6]:port`, the best first. May be empty: then it
    /// has to dial.
    pub addresses: Vec<String>,
}

/// How a link runs: directly, or carried by others ([`skerry_federation::circuits`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Course {
    /// Sites in between.
    pub hops: u8,
    /// The first of them, as seen from here.
    pub via: Option<NodeId>,
}

/// Two processes with one key were there at once: the first answered over its link after the second had proven the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meeting {
    /// Whose key.
    pub node: NodeId,
    /// The life that is linked.
    pub stood: u64,
    /// The one that came, and was turned away.
    pub came: u64,
}

/// Why a stream could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// There is no link to this node now. A link is made as soon as one can be.
    #[error("no link to node {0}")]
    NoLink(NodeId),
    /// This node is cut off by `skerry link cut`.
    #[error("this site is cut off by `skerry link cut`")]
    Cut,
    /// The endpoint was closed.
    #[error("the network endpoint is closed")]
    Closed,
    /// The wanted node answered, and refused the key of this one.
    #[error("{address}: refuses this site")]
    Refused {
        /// Where.
        address: String,
    },
    /// None of the addresses answered as the wanted node.
    #[error("{address}: {reason}")]
    Dial {
        /// The last address tried.
        address: String,
        /// What went wrong there.
        reason: String,
    },
}

/// The network as one node sees it. Must be called within a tokio runtime.
#[async_trait]
pub trait Net: Send + Sync + 'static {
    /// This node.
    fn node(&self) -> NodeId;

    /// The nodes that links are kept to; replaces the former set. Links to nodes no longer in it are dropped,
    /// the others are dialled, again and again with growing pauses, until there is a link.
    fn set_peers(&self, peers: Vec<PeerAddress>);

    /// Opens a stream over the link to `peer`; waits when many streams are open already. The other side learns
    /// of the stream with its first byte.
    async fn open(&self, peer: NodeId) -> Result<Stream, NetError>;

    /// The same for a stream of bulk: over a connection beside the link's own, where there is one. What has failed on it may still
    /// go over [`Self::open`].
    async fn open_bulk(&self, peer: NodeId) -> Result<Stream, NetError> {
        self.open(peer).await
    }

    /// The same for a stream that stays open for as long as a link that is carried on it: these have room of their own,
    /// so that they never keep a question waiting, and are refused when there is none.
    async fn open_circuit(&self, peer: NodeId) -> Result<Stream, NetError> {
        self.open(peer).await
    }

    /// Makes a link to `peer` over a stream that others carry: both ends prove their keys over it as over a connection of
    /// their own, so that who carries it can read nothing and speak for nobody. It takes the place of none that is as
    /// short. `dialled` says which end this is.
    async fn link_over(
        &self,
        peer: NodeId,
        _course: Course,
        _dialled: bool,
        _stream: Stream,
    ) -> Result<(), NetError> {
        Err(NetError::NoLink(peer))
    }

    /// Of what came over links and nobody has read: how many bytes there may be, and are.
    fn backlog(&self) -> Option<(usize, usize)> {
        None
    }

    /// What this machine does not give to links, in words for who runs it.
    fn lack(&self) -> Option<String> {
        None
    }

    /// Connections to `peer`: one is its link, further ones stand beside it while much is under way over a far line.
    fn connections(&self, peer: NodeId) -> usize {
        usize::from(self.rtt(peer).is_some())
    }

    /// How the link to `peer` runs, if there is one.
    fn course(&self, _peer: NodeId) -> Option<Course> {
        None
    }

    /// The next stream that another node opened; `None` after [`Net::close`].
    async fn accept(&self) -> Option<(Peer, Stream)>;

    /// Opens a stream, as a stranger, to a node that must prove `key`: the way to join.
    async fn join(&self, key: PublicKey, addresses: &[String]) -> Result<Stream, NetError>;

    /// Links as they come and go, those that stand first.
    fn links(&self) -> LinkEvents;

    /// Nodes that answer when they are dialled and refuse this one, again and again: it was expelled, or they have not heard of
    /// it.
    fn refused_by(&self) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    /// Keys of nodes that belong no more: they are refused as others are that nobody knows, and told why. Replaces the former set.
    fn set_gone(&self, _keys: BTreeSet<PublicKey>) {}

    /// Nodes that refused this one, when it dialled them last, because it belongs no more.
    fn gone_by(&self) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    /// The lives of the processes that links stand to ([`skerry_federation::clones`]).
    fn lives(&self) -> BTreeMap<NodeId, u64> {
        BTreeMap::new()
    }

    /// Whether the process of this life answers over its link, asked now.
    async fn answers(&self, _peer: NodeId, _life: u64) -> bool {
        false
    }

    /// Processes that are refused, by their lives: each runs beside another with the same key. Replaces the former set.
    fn set_refused(&self, _lives: BTreeMap<NodeId, BTreeSet<u64>>) {}

    /// Meetings since they were asked for last.
    fn meetings(&self) -> Vec<Meeting> {
        Vec::new()
    }

    /// How long ago a clone of a node was turned away here.
    fn turned_away(&self) -> BTreeMap<NodeId, Duration> {
        BTreeMap::new()
    }

    /// Nodes that said, when this one met them last, that another process with its key is linked there and answers.
    fn copied_by(&self) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    /// Smoothed round-trip time of the link to `peer`, if there is one and it was measured.
    fn rtt(&self, peer: NodeId) -> Option<Duration>;

    /// How long the link to `peer` may be silent before it is asked whether it is there, now and when there is another; none: as
    /// links are that cost nothing.
    fn set_rest(&self, _peer: NodeId, _every: Option<Duration>) {}

    /// Peers across links that one of the ends pays for, whether they stand or not: they are dialled seldom while they are away.
    fn set_paid(&self, _peers: BTreeSet<NodeId>) {}

    /// Somebody has heard `peer`: it is dialled soon if there is no link, however long the pause between tries has become.
    fn heard(&self, _peer: NodeId) {}

    /// Asks so many peers now, each in its turn, whether they are there: links whose other ends are gone end by it.
    fn doubt(&self, _most: usize) {}

    /// Bytes that have come from `peer` since the start, as [`Net::traffic`] counts them.
    fn came(&self, peer: NodeId) -> u64 {
        self.traffic().iter().find(|traffic| traffic.node == peer).map_or(0, |traffic| traffic.received)
    }

    /// Bytes on the wire (TLS and framing included) by peer since start.
    fn traffic(&self) -> Vec<PeerTraffic>;

    /// Fault injection: `true` drops and refuses every connection to and from other nodes, `false` heals.
    /// Not remembered beyond this process; the caller does that.
    fn set_cut(&self, cut: bool);

    /// Fault injection: no direct connection to or from these nodes, as if nothing joined them. Replaces the former set;
    /// not remembered either.
    fn set_apart(&self, nodes: BTreeSet<NodeId>);

    /// Whether the node is cut off.
    fn is_cut(&self) -> bool;

    /// Drops all links and stops listening.
    async fn close(&self);
}
