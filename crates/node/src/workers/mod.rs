//! What a site does by itself: has copies held elsewhere, lets go of those that are too many, empties itself when told to, collects garbage, reads everything again, drops tombstones, revives buckets, refreshes metrics.
//!
//! Invariants: paced, so that clients notice nothing; each worker ends when the server stops; a failure is
//! logged and tried again at the next turn, and one that panics is begun anew (`tasks.rs`): what must outlive that lies in
//! the site, not in the worker.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::site::Site;
use crate::tasks::Tasks;
use crate::telemetry::Telemetry;

mod buckets;
mod collector;
pub(crate) mod copies;
pub(crate) mod drain;
mod fellows;
mod metrics;
mod others;
mod replace;
pub(crate) mod replaced_homes;
pub(crate) mod resting;
pub(crate) mod scrub;
mod spares;
mod tenures;
pub(crate) mod tombstones;
mod trim;
mod trim_plan;

/// What the workers need.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) site: Arc<Site>,
    pub(crate) telemetry: Telemetry,
}

/// How often the collector takes a step.
const COLLECT: Duration = Duration::from_secs(5);
/// How often what was answered before it was on disk is synced: so much at most is lost to a power cut with `storage.sync = os`.
const SYNC: Duration = Duration::from_secs(5);
/// How often metrics that are not counted as they happen are read.
const METRICS: Duration = Duration::from_secs(5);
/// How often a node looks what the other nodes of its site follow.
const FELLOWS: Duration = Duration::from_secs(2);
/// How often it is seen whether what is held for others is to be counted.
const OTHERS: Duration = Duration::from_secs(1);
/// How often tombstones are looked through.
const TOMBSTONES: Duration = Duration::from_secs(60);

/// How often it is seen whether copies too many are to be looked for.
const TRIM: Duration = Duration::from_secs(1);
/// How often it is seen whether this site takes the place of another, and how far it is.
const REPLACE: Duration = Duration::from_millis(500);
/// How often it is seen whether homes of gone sites are this one's to give to others.
const HOMES: Duration = Duration::from_secs(2);
/// How often it is seen whether an operator said something about this site.
const DUTY: Duration = Duration::from_millis(250);

/// A look that failed is repeated after this long, though nothing changes meanwhile.
const FAILED: Duration = Duration::from_secs(10);

/// Starts them all; `pace` of scrubbing suits the machine.
pub(crate) fn start(tasks: &Tasks, workers: &Workers, settings: crate::config::Scrub, pace: u64) {
    let kept = workers.clone();
    tasks.keep("scrub", move || scrub::Scrubber::new(&kept, settings.clone(), pace).run());
    let kept = workers.clone();
    tasks.keep("copies", move || copies::Copier::new(&kept).run());
    let kept = workers.clone();
    tasks.keep("trim", move || every(TRIM, trim::Trimmer::new(&kept)));
    let kept = workers.clone();
    tasks.keep("drain", move || every(DUTY, drain::Drainer::new(&kept)));
    let kept = workers.clone();
    tasks.keep("recovery", move || every(REPLACE, replace::Replacer::new(&kept)));
    let (kept, syncs) = (workers.clone(), metrics::Syncs::default());
    tasks.keep("metrics", move || every(METRICS, metrics::Metrics::new(&kept, syncs.clone())));
    let of_site = |name, begin: fn(Arc<Site>) -> Working| {
        let site = workers.site.clone();
        tasks.keep(name, move || begin(site.clone()));
    };
    of_site("replaced", |site| every(HOMES, replaced_homes::Homes::new(site)).boxed());
    of_site("collector", |site| every(COLLECT, collector::Collector::new(site)).boxed());
    if workers.site.store.usage().lazy {
        of_site("syncs", |site| every(SYNC, collector::Syncer(site)).boxed());
    }
    of_site("tombstones", |site| later(TOMBSTONES, tombstones::Tombstones::new(site)).boxed());
    of_site("fellows", |site| every(FELLOWS, fellows::Fellows(site)).boxed());
    of_site("others", |site| every(OTHERS, others::Counter::new(site)).boxed());
    of_site("uplink", |site| crate::uplink_admin::work(site).boxed());
    // Whoever is passed over, and kept out, is so by this worker.
    if workers.site.anew.is_any() || !workers.site.peers.kept_out.all().is_empty() {
        of_site("lost entries", |site| crate::anew::work(site).boxed());
    }
    of_site("leaving", |site| crate::leaving::work(site).boxed());
    of_site("followed prefixes", |site| crate::following::work::work(site).boxed());
    of_site("clones", |site| crate::clones::work(site).boxed());
    of_site("undecided writes", |site| crate::paths::held::Keeper::new(site).work().boxed());
    of_site("credential keys", |site| crate::credential_keys::work(site).boxed());
    of_site("gone", |site| crate::gone::work(site).boxed());
    of_site("pins", |site| crate::pins::work(site).boxed());
    if workers.site.nodes.keep_homes() {
        of_site("tenures", |site| tenures::work(site).boxed());
    }
    of_site("revivals", |site| buckets::revive(site).boxed());
    of_site("spare claims", |site| spares::keep(site).boxed());
    of_site("homes", |site| buckets::name_homes(site).boxed());
}

/// A worker at work.
type Working = futures::future::BoxFuture<'static, ()>;

/// One turn of a worker; true for another one at once.
#[async_trait::async_trait]
trait Worker: Send {
    async fn turn(&mut self) -> bool;
}

/// Waits for a change that came since it was last marked as seen, and after a look that failed only a while: what had changed
/// is not told a second time. False once nobody tells of changes any more.
async fn again(changes: &mut watch::Receiver<u64>, is_done: bool) -> bool {
    match is_done {
        true => changes.changed().await.is_ok(),
        false => timeout(FAILED, changes.changed()).await.map_or(true, |told| told.is_ok()),
    }
}

async fn every(period: Duration, worker: impl Worker) {
    at(interval(period), worker).await;
}

/// The same, for what finds nothing to do just after a start.
async fn later(period: Duration, worker: impl Worker) {
    let mut ticks = interval(period);
    ticks.reset();
    at(ticks, worker).await;
}

async fn at(mut ticks: Interval, mut worker: impl Worker) {
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        while worker.turn().await {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::tasks::rest;

    #[tokio::test(start_paused = true)]
    async fn a_look_that_failed_is_repeated_though_nothing_changes_and_what_changes_meanwhile_is_looked_at() {
        let (changes, looks) = (watch::Sender::new(0), Arc::new(AtomicU64::new(0)));
        let (count, mut follow) = (looks.clone(), changes.subscribe());
        let worker = tokio::spawn(async move {
            loop {
                follow.mark_unchanged();
                // The first fails, the second takes a second.
                let number = count.fetch_add(1, Ordering::SeqCst);
                rest(Duration::from_secs(number % 2)).await;
                if !again(&mut follow, number != 0).await {
                    return;
                }
            }
        });
        let after = async |span: Duration| {
            rest(span).await;
            looks.load(Ordering::SeqCst)
        };
        let moment = Duration::from_millis(10);
        assert_eq!(after(moment).await, 1, "at once");
        assert_eq!((after(FAILED / 2).await, after(FAILED / 2).await), (1, 2), "it failed");
        changes.send_modify(|count| *count += 1);
        assert_eq!(after(moment).await, 2, "the second look goes on");
        assert_eq!((after(Duration::from_secs(1)).await, after(FAILED * 9).await), (3, 3));
        changes.send_modify(|count| *count += 1);
        assert_eq!(after(moment).await, 4);
        drop(changes);
        assert!(worker.await.is_ok());
    }
}
