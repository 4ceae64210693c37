//! Bytes on the wire by peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skerry_base::NodeId;

/// What was sent to and received from one peer since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerTraffic {
    /// The peer.
    pub node: NodeId,
    /// Bytes sent, TLS and framing included.
    pub sent: u64,
    /// Bytes received, likewise.
    pub received: u64,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(super) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counters {
    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self, node: NodeId) -> PeerTraffic {
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        PeerTraffic { node, sent, received }
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

    /// What was counted before a peer was proven.
    #[cfg(test)]
    pub(super) fn read_own(&self) -> PeerTraffic {
        self.own.read(NodeId::default())
    }

    /// Counts for `peer` from now on, with what was counted so far.
    pub(super) fn belongs_to(&self, peer: &Arc<Counters>) {
        if self.peer.set(peer.clone()).is_ok() {
            peer.add_sent(self.own.sent.load(Ordering::Relaxed) as usize);
            peer.add_received(self.own.received.load(Ordering::Relaxed) as usize);
        }
    }
}
