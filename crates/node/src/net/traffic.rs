//! Bytes on the wire by peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skerry_base::NodeId;
use skerry_federation::rest;

/// What was sent to and received from one peer since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerTraffic {
    /// The peer.
    pub node: NodeId,
    /// Bytes sent, TLS and framing included.
    pub sent: u64,
    /// Bytes received, likewise.
    pub received: u64,
    /// What TCP and IP add to both, acknowledgements included, by what is written and read at once: not seen, but what
    /// [`rest::headers`] says of it. Rather too much: an acknowledgement that goes with data is counted beside it.
    pub headers: u64,
}

impl PeerTraffic {
    /// All that crossed.
    pub const fn crossed(&self) -> u64 {
        self.sent + self.received + self.headers
    }
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(super) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    headers: AtomicU64,
}

impl Counters {
    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.add_headers(rest::headers(bytes as u64));
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.add_headers(rest::headers(bytes as u64));
    }

    fn add_headers(&self, bytes: u64) {
        self.headers.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self, node: NodeId) -> PeerTraffic {
        let [sent, received, headers] =
            [&self.sent, &self.received, &self.headers].map(|counter| counter.load(Ordering::Relaxed));
        PeerTraffic { node, sent, received, headers }
    }
}

/// The counters of one connection: its own until the peer is proven, the peer's afterwards.
#[derive(Debug, Default)]
pub(super) struct Meter {
    own: Counters,
    peer: std::sync::OnceLock<Arc<Counters>>,
}

impl Meter {
    fn counters(&self) -> &Counters {
        self.peer.get().map_or(&self.own, |peer| peer)
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.counters().add_sent(bytes);
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.counters().add_received(bytes);
    }

    /// A TCP connection is opened, and will be closed.
    pub(super) fn add_connection(&self) {
        self.counters().add_headers(rest::CONNECTION);
    }

    /// What was counted before a peer was proven.
    #[cfg(test)]
    pub(super) fn read_own(&self) -> PeerTraffic {
        self.own.read(NodeId::default())
    }

    /// Counts for `peer` from now on, with what was counted so far.
    pub(super) fn belongs_to(&self, peer: &Arc<Counters>) {
        if self.peer.set(peer.clone()).is_ok() {
            peer.sent.fetch_add(self.own.sent.load(Ordering::Relaxed), Ordering::Relaxed);
            peer.received.fetch_add(self.own.received.load(Ordering::Relaxed), Ordering::Relaxed);
            peer.add_headers(self.own.headers.load(Ordering::Relaxed));
        }
    }
}
