//! Workers of a site that panicked and were begun again.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabel {
    worker: &'static str,
}

/// Panics by worker.
#[derive(Debug, Clone, Default)]
pub struct Panics(Family<WorkerLabel, Counter>);

impl Panics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Panics of workers, which were begun again: each is a bug to be reported";
        registry.register("skerry_worker_panics", help, self.0.clone());
    }

    /// One more.
    pub(crate) fn count(&self, worker: &'static str) {
        self.0.get_or_create(&WorkerLabel { worker }).inc();
    }

    #[cfg(test)]
    pub(crate) fn of(&self, worker: &'static str) -> u64 {
        self.0.get_or_create(&WorkerLabel { worker }).get()
    }
}
