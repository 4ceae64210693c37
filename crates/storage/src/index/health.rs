//! An index that was found damaged while in use is rebuilt at the next open: a marker file says so.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::Disk;

/// There when the index is to be rebuilt.
pub(crate) const MARKER: &str = "index-bad";

/// The state of an index in use.
pub(crate) struct Health {
    disk: Arc<dyn Disk>,
    bad: AtomicBool,
}

impl Health {
    pub(crate) const fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, bad: AtomicBool::new(false) }
    }

    /// The index could not be read or written.
    pub(crate) fn note_bad(&self) {
        if self.bad.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::error!("the index is damaged; it will be rebuilt at the next open");
        let marked = self.disk.create(MARKER, 0).and_then(|_| self.disk.sync_dir("."));
        if let Err(error) = marked
            && error.kind() != ErrorKind::AlreadyExists
        {
            tracing::error!(%error, "the index could not be marked as damaged");
        }
    }
}
