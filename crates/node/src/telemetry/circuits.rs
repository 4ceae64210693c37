//! What this site carries for two others that cannot reach each other.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::signed;

/// Metrics of carried links.
#[derive(Debug, Clone, Default)]
pub struct Circuits {
    links: Gauge,
    bytes: Counter,
}

impl Circuits {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "skerry_carried_links",
            "Links between two other sites that this one carries now",
            self.links.clone(),
        );
        registry.register(
            "skerry_carried_bytes",
            "Bytes of links between other sites that this one carried; each came in and went out",
            self.bytes.clone(),
        );
    }

    /// As it stands.
    pub fn set(&self, links: usize, bytes: u64) {
        self.links.set(signed(links as u64));
        self.bytes.inc_by(bytes.saturating_sub(self.bytes.get()));
    }
}
