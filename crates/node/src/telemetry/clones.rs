//! Metrics of processes that run beside another with the same key.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Clones.
#[derive(Debug, Clone, Default)]
pub struct Clones {
    turned_away: Gauge,
    copied: Gauge,
}

impl Clones {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "skerry_cloned_sites",
            "Sites of which this one turned a second running process away in the last ten minutes",
            self.turned_away.clone(),
        );
        registry.register(
            "skerry_is_copy",
            "1 where another process with this site's key is kept by the others: this one takes no writes; else 0",
            self.copied.clone(),
        );
    }

    /// As it stands.
    pub fn set(&self, turned_away: usize, is_copied: bool) {
        self.turned_away.set(i64::try_from(turned_away).unwrap_or(i64::MAX));
        self.copied.set(i64::from(is_copied));
    }
}
