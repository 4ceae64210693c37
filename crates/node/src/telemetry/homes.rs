//! Metrics of homes: how many came to this node from others of its site.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Homes.
#[derive(Debug, Clone, Default)]
pub struct Homes {
    taken_over: Counter,
}

impl Homes {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Homes of buckets that this node took over from another node of its site";
        registry.register("skerry_homes_taken_over", help, self.taken_over.clone());
    }

    /// Sets how many there were since the start.
    pub fn set(&self, taken_over: u64) {
        self.taken_over.inc_by(taken_over.saturating_sub(self.taken_over.get()));
    }
}
