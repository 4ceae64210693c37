//! Whether to go on: the user's Ctrl-C, a request to end, the system's processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::error::RunError;
use crate::systems::Running;

/// How long a wait sleeps between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Remembers that somebody asked to stop.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    interrupted: Arc<AtomicBool>,
}

impl Watch {
    /// Watches SIGINT and SIGTERM from now on, in a thread of its own.
    pub fn signals() -> std::io::Result<Self> {
        let watch = Self::default();
        let flag = Arc::clone(&watch.interrupted);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let (Ok(mut interrupt), Ok(mut terminate)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    flag.store(true, Ordering::Relaxed);
                }
            });
        });
        Ok(watch)
    }

    /// Whether somebody asked to stop.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// An error if somebody asked to stop.
    pub(super) fn check(&self) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Waits until `done` says so (true) or until the time is over (false).
    pub(super) fn wait(
        &self,
        running: &mut Running,
        within: Duration,
        mut done: impl FnMut() -> Result<bool, RunError>,
    ) -> Result<bool, RunError> {
        let end = Instant::now() + within;
        let mut look = Instant::now();
        loop {
            if done()? {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= end {
                return Ok(false);
            }
            if now >= look {
                self.check()?;
                if let Some(dead) = running.is_dead() {
                    return Err(dead.into());
                }
                look = now + LOOK;
            }
            thread::sleep(PAUSE);
        }
    }
}
