//! The budget of this site's uplink, where it is metered.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::signed;

/// Metrics of a metered link.
#[derive(Debug, Clone, Default)]
pub struct Uplink {
    budget: Gauge,
    used: Gauge,
}

impl Uplink {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "skerry_uplink_budget_bytes",
            "Bytes that may cross to and from other sites in a period; 0 where it is not metered",
            self.budget.clone(),
        );
        registry.register(
            "skerry_uplink_used_bytes",
            "Bytes that crossed in the period under way; 0 where it is not metered",
            self.used.clone(),
        );
    }

    /// As it stands.
    pub fn set(&self, budget: Option<u64>, used: u64) {
        self.budget.set(signed(budget.unwrap_or(0)));
        self.used.set(signed(if budget.is_some() { used } else { 0 }));
    }
}
