//! The gate of a fixed rate: it lets one operation through at each intended begin.
//!
//! Why a thread: the runtime's timer is right to a millisecond, which is more than many an operation takes; a thread
//! that parks is right to some fifty microseconds and costs nothing while it waits. In tests, whose time is virtual, the
//! runtime's timer does the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::progress::Progress;

/// The gate looks this often whether it shall close.
const LOOK: Duration = Duration::from_millis(100);

/// Lets workers through, each permit one operation.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    closed: Arc<AtomicBool>,
}

impl Gate {
    /// Opens it for `per_second` from `begin`. Once the schedule is empty or somebody stops the run all `workers` are
    /// let through, to find that there is nothing left.
    pub(crate) fn open(per_second: f64, begin: Instant, workers: u64, progress: Arc<Progress>) -> Self {
        let gate = Self { permits: Arc::new(Semaphore::new(0)), closed: Arc::default() };
        gate.clone().keep(per_second, begin, workers as usize, progress);
        gate
    }

    #[cfg(not(test))]
    fn keep(self, per_second: f64, begin: Instant, workers: usize, progress: Arc<Progress>) {
        let begin = begin.into_std();
        tokio::task::spawn_blocking(move || {
            for number in 0_u64.. {
                let next = begin + Duration::from_secs_f64(number as f64 / per_second);
                while let Some(left) = next.checked_duration_since(std::time::Instant::now()) {
                    if left.is_zero() || self.ended(&progress) {
                        break;
                    }
                    std::thread::park_timeout(left.min(LOOK));
                }
                if self.ended(&progress) {
                    break;
                }
                self.permits.add_permits(1);
            }
            self.permits.add_permits(workers);
        });
    }

    #[cfg(test)]
    fn keep(self, per_second: f64, begin: Instant, workers: usize, progress: Arc<Progress>) {
        tokio::spawn(async move {
            let mut number = 0_u64;
            while !self.ended(&progress) {
                let next = begin + Duration::from_secs_f64(number as f64 / per_second);
                tokio::time::sleep_until(next.min(Instant::now() + LOOK)).await;
                if Instant::now() >= next {
                    self.permits.add_permits(1);
                    number += 1;
                }
            }
            self.permits.add_permits(workers);
        });
    }

    fn ended(&self, progress: &Progress) -> bool {
        self.closed.load(Ordering::Relaxed) || progress.stopped()
    }

    /// Waits for the next begin.
    pub(crate) async fn pass(&self) {
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }

    /// There is nothing left to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
