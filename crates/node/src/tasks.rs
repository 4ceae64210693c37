//! The tasks of a running site: all of them end when it is told to stop.
//!
//! Invariant: a worker that panics is begun again, after a pause that grows while it goes on panicking: none of what a
//! site does by itself ends before the site does.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use skerry_gateway::service::Outcome;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::paths::refusal;
use crate::telemetry::Panics;

/// The pause after a first panic; twice as long after each that follows.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest pause: a worker that cannot be helped costs a log line in so long, and no more.
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);
/// A worker that did so long without a panic is taken for well.
const WELL: Duration = Duration::from_secs(600);

/// Carries out to its end what has more than one step, whoever still waits for it: a client may hang up, or somebody be out of
/// patience, between what is durable and what is known in memory.
pub(crate) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Outcome<T>> + Send + 'static,
) -> Outcome<T> {
    tokio::spawn(work).await.map_err(refusal::task)?
}

/// Starts tasks and ends them. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    clock: Clock,
    panics: Panics,
    #[cfg(test)]
    tripped: Tripped,
}

/// Workers that are to panic, for tests.
#[cfg(test)]
type Tripped = std::sync::Arc<tokio::sync::Mutex<std::collections::BTreeMap<&'static str, Trip>>>;
#[cfg(test)]
type Trip = std::sync::Arc<tokio::sync::Notify>;

impl Tasks {
    /// Panics are counted there.
    pub(crate) fn counting(panics: Panics) -> Self {
        Self { panics, ..Self::default() }
    }

    /// Starts a task that is dropped where it waits when the site stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Starts a worker, and begins it again when it panics. It ends with the site, or where it returns.
    pub(crate) fn keep<W>(&self, name: &'static str, begin: impl Fn() -> W + Send + Sync + 'static)
    where
        W: Future<Output = ()> + Send,
    {
        let tasks = self.clone();
        self.spawn(async move {
            let mut pause = AGAIN;
            loop {
                let begun = tasks.clock.now();
                let worker = AssertUnwindSafe(async { tasks.run(name, begin()).await });
                let Err(panic) = worker.catch_unwind().await else { return };
                tasks.panics.count(name);
                if tasks.clock.now().since(begun) >= WELL {
                    pause = AGAIN;
                }
                let why = said(panic.as_ref());
                tracing::error!(
                    worker = name,
                    why,
                    again_in = ?pause,
                    "a worker panicked, which is a bug to be reported; it is begun again"
                );
                rest(pause).await;
                pause = (pause * 2).min(AGAIN_AT_MOST);
            }
        });
    }

    #[cfg(not(test))]
    async fn run(&self, _name: &'static str, worker: impl Future<Output = ()>) {
        worker.await;
    }

    /// The same, until [`Tasks::trip`].
    #[cfg(test)]
    async fn run(&self, name: &'static str, worker: impl Future<Output = ()>) {
        let trip = self.tripped.lock().await.entry(name).or_default().clone();
        tokio::select! {
            () = worker => {}
            () = trip.notified() => panic!("tripped"),
        }
    }

    /// Has a worker panic where it waits.
    #[cfg(test)]
    pub(crate) async fn trip(&self, name: &'static str) {
        self.tripped.lock().await.entry(name).or_default().notify_one();
    }

    /// The workers that were begun.
    #[cfg(test)]
    pub(crate) async fn kept(&self) -> Vec<&'static str> {
        self.tripped.lock().await.keys().copied().collect()
    }

    /// Where panics are counted.
    pub(crate) fn panics(&self) -> Panics {
        self.panics.clone()
    }

    /// Ends all tasks; returns when they are gone.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A pause; nothing that could happen ends it.
pub(crate) async fn rest(pause: Duration) {
    tokio::time::timeout(pause, std::future::pending::<()>()).await.ok();
}

/// What a panic said.
pub(crate) fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "tests")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_is_begun_again_later_and_later_and_ends_where_it_returns() {
        let (tasks, begun) = (Tasks::default(), Arc::new(AtomicU64::new(0)));
        let count = begun.clone();
        tasks.keep("faulty", move || {
            let count = count.clone();
            async move {
                match count.fetch_add(1, Ordering::SeqCst) {
                    3 => {}
                    n => panic!("the {n}th time"),
                }
            }
        });
        for (pause, times) in [(500, 1), (1000, 2), (2000, 3), (4000, 4), (600_000, 4)] {
            rest(Duration::from_millis(pause)).await;
            assert_eq!(begun.load(Ordering::SeqCst), times);
        }
        assert_eq!(tasks.panics().of("faulty"), 3);
        tasks.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_for_ever_is_begun_seldom_and_ends_with_the_site() {
        let (tasks, begun) = (Tasks::default(), Arc::new(AtomicU64::new(0)));
        let count = begun.clone();
        tasks.keep("hopeless", move || {
            count.fetch_add(1, Ordering::SeqCst);
            async { panic!("as always") }
        });
        rest(Duration::from_secs(3600)).await;
        // 1, 2, 4, …, 256 seconds, then every 300.
        assert_eq!(begun.load(Ordering::SeqCst), 20);
        tasks.end().await;
    }
}
