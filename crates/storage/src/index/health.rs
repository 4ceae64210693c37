//! An index that was found damaged while in use is rebuilt at the next open: a marker file says so.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StorageError;
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
        if let Err(error) = mark(&*self.disk) {
            tracing::error!(%error, "the index could not be marked as damaged");
        }
    }

    /// Whether it was found damaged in this life.
    pub(crate) fn is_bad(&self) -> bool {
        self.bad.load(Ordering::Relaxed)
    }

    /// A start went through upon an index that was marked: it is marked anew if it is found damaged.
    pub(crate) fn take_off(&self) -> Result<(), StorageError> {
        if self.bad.load(Ordering::Relaxed) {
            return Ok(());
        }
        let failed = |error: std::io::Error| StorageError::io("take the mark off the index", &error);
        self.disk.remove(MARKER).map_err(failed)?;
        self.disk.sync_dir(".").map_err(failed)
    }
}

/// The next start builds the index anew.
pub(crate) fn mark(disk: &dyn Disk) -> std::io::Result<()> {
    match disk.create(MARKER, 0) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => disk.sync_dir("."),
    }
}
