//! Incoming connections that were refused before anything of the application was said, as a metric.

use std::fmt;
use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::net::tcp::TcpNet;

/// Reads the network's own counters when asked.
#[derive(Debug)]
pub(crate) struct RefusedConnections(Weak<TcpNet>);

impl RefusedConnections {
    /// Weak: the metrics must not keep a closed network alive.
    pub(crate) fn new(net: &Arc<TcpNet>) -> Self {
        Self(Arc::downgrade(net))
    }
}

impl Collector for RefusedConnections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(net) = self.0.upgrade() else { return Ok(()) };
        let refused = net.refused();
        let help = "Connections to the inter-node port that were refused: no protocol of ours, a key that is not \
                    of the roster, too slow, too many";
        let mut family = encoder.encode_descriptor("skerry_peer_refused", help, None, MetricType::Counter)?;
        for (reason, count) in [
            ("garbage", refused.garbage),
            ("identity", refused.identity),
            ("slow", refused.slow),
            ("busy", refused.busy),
        ] {
            ConstCounter::new(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}
