//! What a site does by itself: collects garbage, drops tombstones, revives buckets, refreshes metrics.
//!
//! Invariants: paced, so that clients notice nothing; each worker ends when the server stops; a failure is
//! logged and tried again at the next turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::site::Site;
use crate::telemetry::Telemetry;

mod buckets;
mod collector;
mod metrics;
mod tombstones;

/// What the workers need.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) site: Arc<Site>,
    pub(crate) telemetry: Telemetry,
    pub(crate) stop: CancellationToken,
}

/// How often the collector takes a step.
const COLLECT: Duration = Duration::from_secs(5);
/// How often metrics that are not counted as they happen are read.
const METRICS: Duration = Duration::from_secs(5);
/// How often tombstones are looked through.
const TOMBSTONES: Duration = Duration::from_secs(60);

/// Starts them all.
pub(crate) fn start(tasks: &TaskTracker, workers: Workers) {
    let stop = workers.stop.clone();
    tasks.spawn(every(COLLECT, stop.clone(), collector::Collector::new(workers.site.clone())));
    tasks.spawn(every(METRICS, stop.clone(), metrics::Metrics::new(&workers)));
    tasks.spawn(every(TOMBSTONES, stop, tombstones::Tombstones::new(workers.site.clone())));
    tasks.spawn(buckets::revive(workers.site, workers.stop));
}

/// One turn of a worker; true for another one at once.
#[async_trait::async_trait]
trait Worker: Send {
    async fn turn(&mut self) -> bool;
}

async fn every(period: Duration, stop: CancellationToken, mut worker: impl Worker) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        while worker.turn().await && !stop.is_cancelled() {
            tokio::task::yield_now().await;
        }
    }
}
