//! `skerry_wan_bytes_total{peer,direction,kind}`: what crosses between sites.
//!
//! Payload and record bytes are counted by who sends and reads them. The wire is counted by the network; what
//! of it was neither is *control*: TLS, framing, protocol, pings, retries. Nothing is counted twice, and the
//! sum over the kinds is what a link is billed for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use skerry_base::NodeId;

use super::peers::PeerLabels;
use crate::net::{Net, PeerTraffic};

/// What bytes were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Chunks and bodies.
    Payload,
    /// Encoded records.
    Record,
}

/// One direction of one peer.
#[derive(Debug, Default)]
struct Flow {
    payload: AtomicU64,
    record: AtomicU64,
    /// The highest value told: a counter never falls, though bytes are on the wire after they were counted here.
    control: AtomicU64,
}

/// Bytes of one peer.
#[derive(Debug, Default)]
pub struct WanPeer {
    label: String,
    sent: Flow,
    received: Flow,
}

impl WanPeer {
    /// Counts bytes sent to the peer.
    pub fn sent(&self, kind: Kind, bytes: u64) {
        self.sent.add(kind, bytes);
    }

    /// Counts bytes received from the peer.
    pub fn received(&self, kind: Kind, bytes: u64) {
        self.received.add(kind, bytes);
    }
}

impl Flow {
    fn add(&self, kind: Kind, bytes: u64) {
        let counter = match kind {
            Kind::Payload => &self.payload,
            Kind::Record => &self.record,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Payload, record and control, given the bytes on the wire.
    fn read(&self, wire: u64) -> [u64; 3] {
        let (payload, record) = (self.payload.load(Ordering::Relaxed), self.record.load(Ordering::Relaxed));
        let control = wire.saturating_sub(payload).saturating_sub(record);
        let before = self.control.fetch_max(control, Ordering::Relaxed);
        [payload, record, control.max(before)]
    }
}

/// Bytes between sites.
pub struct Wan {
    labels: Arc<PeerLabels>,
    peers: Mutex<BTreeMap<NodeId, Arc<WanPeer>>>,
    /// Weak: the metrics must not keep a closed network alive.
    net: OnceLock<Weak<dyn Net>>,
    /// Wire bytes of peers that left the set of the network keep counting.
    wire: Mutex<BTreeMap<NodeId, PeerTraffic>>,
}

impl fmt::Debug for Wan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wan")
    }
}

impl Wan {
    pub(super) fn new(labels: Arc<PeerLabels>) -> Self {
        Self { labels, peers: Mutex::default(), net: OnceLock::new(), wire: Mutex::default() }
    }

    /// The counters of a peer; `name` is its site's, for the label.
    pub fn peer(&self, node: NodeId, name: &str) -> Arc<WanPeer> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = peers.entry(node).or_insert_with(|| {
            let label = self.labels.label(node, name);
            Arc::new(WanPeer { label, ..WanPeer::default() })
        });
        entry.clone()
    }

    /// Where the bytes on the wire are read; the first call counts.
    pub fn watch(&self, net: &Arc<dyn Net>) {
        let _ = self.net.set(Arc::downgrade(net));
    }

    /// Sums by label, direction and kind.
    fn read(&self) -> BTreeMap<(String, &'static str, &'static str), u64> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        for traffic in self.net.get().and_then(Weak::upgrade).map(|net| net.traffic()).unwrap_or_default() {
            wire.insert(traffic.node, traffic);
        }
        let mut sums = BTreeMap::new();
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, peer) in peers.iter() {
            let (sent, received) = wire.get(node).map_or((0, 0), |bytes| (bytes.sent, bytes.received));
            for (direction, flow, bytes) in
                [("sent", &peer.sent, sent), ("received", &peer.received, received)]
            {
                for (kind, value) in ["payload", "record", "control"].into_iter().zip(flow.read(bytes)) {
                    *sums.entry((peer.label.clone(), direction, kind)).or_insert(0) += value;
                }
            }
        }
        sums
    }
}

impl Collector for Wan {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Bytes between this site and a peer, by direction and by what they were for";
        let mut family = encoder.encode_descriptor("skerry_wan_bytes", help, None, MetricType::Counter)?;
        for ((peer, direction, kind), bytes) in self.read() {
            let labels = [("peer", peer.as_str()), ("direction", direction), ("kind", kind)];
            ConstCounter::new(bytes).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
