//! What copies of other sites' objects saved, and how long the disk lasts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skerry_storage::CacheStats;

use super::{FloatGauge, signed};

/// Metrics of the cache and of the room that is left.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    hit_bytes: Counter,
    evicted_bytes: Counter,
    cap: Gauge,
    pinned: Gauge,
    days_to_full: FloatGauge,
    full: Gauge,
}

impl Cache {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "skerry_cache_hit_bytes",
            "Bytes read from copies of other sites' objects that had been read here before: not fetched again",
            self.hit_bytes.clone(),
        );
        registry.register(
            "skerry_cache_evicted_bytes",
            "Bytes of copies of other sites' objects that were evicted",
            self.evicted_bytes.clone(),
        );
        registry.register(
            "skerry_cache_cap_bytes",
            "Copies of other sites' objects are evicted beyond so many bytes",
            self.cap.clone(),
        );
        registry.register(
            "skerry_cache_pinned_bytes",
            "Bytes of copies of other sites' objects that are pinned: never evicted",
            self.pinned.clone(),
        );
        registry.register(
            "skerry_disk_days_to_full",
            "Days until writes are refused if what cannot be evicted goes on to grow as it did in the last week; 0 while they are, +Inf if it does not grow, NaN while less than an hour was seen",
            self.days_to_full.clone(),
        );
        registry.register(
            "skerry_disk_full",
            "1 while writes are refused because the disk, or what the site may take of it, is full",
            self.full.clone(),
        );
    }

    /// As the store counts it.
    pub fn set(&self, stats: CacheStats) {
        self.hit_bytes.inc_by(stats.hit_bytes.saturating_sub(self.hit_bytes.get()));
        self.evicted_bytes.inc_by(stats.evicted_bytes.saturating_sub(self.evicted_bytes.get()));
        self.cap.set(signed(stats.cap));
        self.pinned.set(signed(stats.pinned));
    }

    /// Days, if they can be told; whether writes are refused already.
    pub fn set_full(&self, full: bool, days: Option<f64>) {
        self.full.set(full.into());
        self.days_to_full.set(if full { 0.0 } else { days.unwrap_or(f64::NAN) });
    }
}
