//! Peers as labels, and metrics by peer: the first [`limits::METRIC_PEERS`] by name, the rest as `other`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skerry_base::{NodeId, limits};

use super::{FloatGauge, signed};

/// The label of peers beyond the limit.
pub(super) const OTHER: &str = "other";

/// Names of peers for labels; a peer that was named keeps its series for the life of the process.
#[derive(Debug, Default)]
pub struct PeerLabels(Mutex<BTreeMap<NodeId, String>>);

impl PeerLabels {
    /// The label of a peer: `name` at its first use while there is room, else `other`.
    pub(super) fn label(&self, node: NodeId, name: &str) -> String {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(&node) {
            return known.clone();
        }
        if names.len() >= limits::METRIC_PEERS {
            return OTHER.into();
        }
        names.insert(node, name.into());
        name.into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

/// How far this site is behind others.
#[derive(Debug, Clone)]
pub struct FeedLag {
    labels: Arc<PeerLabels>,
    records: Family<PeerLabel, Gauge>,
    seconds: Family<PeerLabel, FloatGauge>,
    /// By label, what each peer beyond the limit last said: `other` is their sum (records) and worst (seconds).
    others: Arc<Mutex<BTreeMap<NodeId, (u64, f64)>>>,
}

impl FeedLag {
    pub(super) fn new(labels: Arc<PeerLabels>) -> Self {
        Self { labels, records: Family::default(), seconds: Family::default(), others: Arc::default() }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "skerry_feed_lag_records",
            "Records that a peer is known to have and this site has not",
            self.records.clone(),
        );
        registry.register(
            "skerry_feed_lag_seconds",
            "Age of the last moment at which this site had all that the peer had",
            self.seconds.clone(),
        );
    }

    /// Sets the lag behind a peer.
    pub fn set(&self, node: NodeId, name: &str, records: u64, seconds: f64) {
        let label = PeerLabel { peer: self.labels.label(node, name) };
        let (records, seconds) = if label.peer == OTHER {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            others.insert(node, (records, seconds));
            let sum = others.values().fold(0_u64, |sum, (records, _)| sum.saturating_add(*records));
            (sum, others.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max))
        } else {
            (records, seconds)
        };
        self.records.get_or_create(&label).set(signed(records));
        self.seconds.get_or_create(&label).set(seconds);
    }
}
