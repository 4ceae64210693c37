//! Metrics of what is held for other sites, and of sites that take no more from this one.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skerry_gateway::service::OthersStatus;

use super::signed;

/// Copies for others, here and there.
#[derive(Debug, Clone, Default)]
pub struct Others {
    bytes: Gauge,
    cap: Gauge,
    refused: Counter,
    at_cap: Gauge,
}

impl Others {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Bytes held here for other sites, as copies that count";
        registry.register("skerry_others_bytes", help, self.bytes.clone());
        let help = "No more than so many are taken (storage.others)";
        registry.register("skerry_others_cap_bytes", help, self.cap.clone());
        let help = "Questions of other sites to hold more that were refused because of that cap";
        registry.register("skerry_others_refused", help, self.refused.clone());
        let help = "Sites that take no more copies from this one: each holds as much for others as it is to";
        registry.register("skerry_sites_at_cap", help, self.at_cap.clone());
    }

    /// Sets what is held here, and how many sites take no more.
    pub fn set(&self, status: &OthersStatus, at_cap: usize) {
        self.bytes.set(signed(status.bytes));
        self.cap.set(status.cap_bytes.map_or(i64::MAX, signed));
        self.refused.inc_by(status.refused.saturating_sub(self.refused.get()));
        self.at_cap.set(signed(at_cap as u64));
    }
}
