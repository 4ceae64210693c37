//! How far a run is, for whoever watches: counters that workers raise and a progress bar reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shared between the engine and its watcher.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<Current>,
    operations: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

/// The phase that is running.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Current {
    /// Its name.
    pub name: String,
    /// Which trial, from 1.
    pub trial: u64,
    /// Operations it will have, if that is known.
    pub operations: Option<u64>,
    /// Seconds it will take, if that is known.
    pub seconds: Option<f64>,
    /// How many phases were begun before.
    pub number: u64,
}

/// A reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The phase.
    pub current: Current,
    /// Operations of this phase that ended, failed ones included.
    pub operations: u64,
    /// Those that failed.
    pub failures: u64,
    /// Payload bytes written and read.
    pub bytes: u64,
}

impl Progress {
    /// How it stands now.
    pub fn read(&self) -> Reading {
        Reading {
            current: self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            operations: self.operations.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Asks the engine to begin no further operation; those in flight end and are counted.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, current: Current) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = current;
        for counter in [&self.operations, &self.failures, &self.bytes] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self, bytes: u64, failed: bool) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
