//! What a site does by itself: has copies held elsewhere, lets go of those that are too many, empties itself when told to, collects garbage, reads everything again, drops tombstones, revives buckets, refreshes metrics.
//!
//! Invariants: paced, so that clients notice nothing; each worker ends when the server stops; a failure is
//! logged and tried again at the next turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::site::Site;
use crate::tasks::Tasks;
use crate::telemetry::Telemetry;

mod buckets;
mod collector;
pub(crate) mod copies;
pub(crate) mod drain;
mod fellows;
mod metrics;
pub(crate) mod scrub;
mod tenures;
mod tombstones;
mod trim;
mod trim_plan;

/// What the workers need.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) site: Arc<Site>,
    pub(crate) telemetry: Telemetry,
}

/// How often the collector takes a step: so much at most is lost to a power cut with `storage.sync = os`.
pub(crate) const COLLECT: Duration = Duration::from_secs(5);
/// How often metrics that are not counted as they happen are read.
const METRICS: Duration = Duration::from_secs(5);
/// How often a node looks what the other nodes of its site follow.
const FELLOWS: Duration = Duration::from_secs(2);
/// How often tombstones are looked through.
const TOMBSTONES: Duration = Duration::from_secs(60);

/// How often it is seen whether copies too many are to be looked for.
const TRIM: Duration = Duration::from_secs(1);
/// How often it is seen whether an operator said something about this site.
const DUTY: Duration = Duration::from_millis(250);

/// Starts them all.
pub(crate) fn start(tasks: &Tasks, workers: Workers, scrub: crate::config::Scrub) {
    tasks.spawn(scrub::Scrubber::new(&workers, scrub).run());
    tasks.spawn(copies::Copier::new(&workers).run());
    tasks.spawn(every(TRIM, trim::Trimmer::new(&workers)));
    tasks.spawn(every(DUTY, drain::Drainer::new(&workers)));
    tasks.spawn(every(COLLECT, collector::Collector::new(workers.site.clone())));
    tasks.spawn(every(METRICS, metrics::Metrics::new(&workers)));
    tasks.spawn(every(TOMBSTONES, tombstones::Tombstones::new(workers.site.clone())));
    tasks.spawn(every(FELLOWS, fellows::Fellows(workers.site.clone())));
    tasks.spawn(crate::uplink_admin::work(workers.site.clone()));
    tasks.spawn(crate::leaving::work(workers.site.clone()));
    tasks.spawn(crate::pins::work(workers.site.clone()));
    tasks.spawn(tenures::work(workers.site.clone()));
    tasks.spawn(buckets::revive(workers.site.clone()));
    tasks.spawn(buckets::name_homes(workers.site));
}

/// One turn of a worker; true for another one at once.
#[async_trait::async_trait]
trait Worker: Send {
    async fn turn(&mut self) -> bool;
}

async fn every(period: Duration, mut worker: impl Worker) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        while worker.turn().await {
            tokio::task::yield_now().await;
        }
    }
}
