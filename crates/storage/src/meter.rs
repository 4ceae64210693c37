//! How long syncs take. Only measured, never decided on: the time comes from the disk, so that a simulated
//! one gives simulated durations.

use std::sync::atomic::{AtomicU64, Ordering};

use skerry_base::Instant;

use crate::disk::Disk;
use crate::store::SyncStats;

/// Counts syncs of one kind of file.
#[derive(Default)]
pub(crate) struct SyncMeter {
    count: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; SyncStats::BOUNDS.len() + 1],
    /// When the one that is under way was begun, in nanoseconds and one more; 0: none is.
    begun: AtomicU64,
}

impl SyncMeter {
    /// Runs and times a sync.
    pub(crate) fn time<T>(&self, disk: &dyn Disk, sync: impl FnOnce() -> T) -> T {
        let start = disk.monotonic();
        self.begun.store(start.0.saturating_add(1), Ordering::Relaxed);
        let result = sync();
        self.begun.store(0, Ordering::Relaxed);
        let spent = disk.monotonic().since(start);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
        let seconds = spent.as_secs_f64();
        let index = SyncStats::BOUNDS.iter().take_while(|&&bound| seconds > bound).count();
        if let Some(bucket) = self.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Seconds for which the sync that is under way has not come back; 0 if none is.
    pub(crate) fn waits(&self, disk: &dyn Disk) -> f64 {
        let begun = self.begun.load(Ordering::Relaxed).checked_sub(1).map(Instant);
        begun.map_or(0.0, |begun| disk.monotonic().since(begun).as_secs_f64())
    }

    /// The figures so far.
    pub(crate) fn stats(&self) -> SyncStats {
        let seconds = self.nanos.load(Ordering::Relaxed) as f64 / 1e9;
        let mut stats =
            SyncStats { count: self.count.load(Ordering::Relaxed), seconds, ..SyncStats::default() };
        for (shown, bucket) in stats.buckets.iter_mut().zip(&self.buckets) {
            *shown = bucket.load(Ordering::Relaxed);
        }
        stats
    }
}
