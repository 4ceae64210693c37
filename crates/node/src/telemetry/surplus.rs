//! Metrics of copies too many: what is still here, and what was let go of.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Copies too many at this site.
#[derive(Debug, Clone, Default)]
pub struct Surplus {
    bytes: Gauge,
    released_versions: Counter,
    released_bytes: Counter,
}

impl Surplus {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Bytes of copies here of which enough other sites hold one, as the last look found them";
        registry.register("skerry_surplus_bytes", help, self.bytes.clone());
        let help = "Versions of which this site let its copy go as one too many";
        registry.register("skerry_released_versions", help, self.released_versions.clone());
        let help = "Bytes of the copies that this site let go as too many";
        registry.register("skerry_released_bytes", help, self.released_bytes.clone());
    }

    /// Sets the bytes that are still here, and what was let go of since the start: versions and bytes.
    pub fn set(&self, bytes: u64, (versions, released): (u64, u64)) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        for (counter, now) in [(&self.released_versions, versions), (&self.released_bytes, released)] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }
}
