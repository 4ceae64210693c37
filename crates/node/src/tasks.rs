//! The tasks of a running site: all of them end when it is told to stop.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Starts tasks and ends them. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Starts a task that is dropped where it waits when the site stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Ends all tasks; returns when they are gone.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
