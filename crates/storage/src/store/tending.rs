//! A thread that flushes and merges tables of the index while a rebuild fills the next: else half of its time would be spent
//! on that, one after the other.
//!
//! It ends when it is dropped, after what it is at. What fails there fails the rebuild, but for merges that find no room or are
//! refused: runs that are not merged cost readings time, and are merged later. Who fills the index helps where they are too many.
#![expect(clippy::disallowed_methods, reason = "this is where a rebuild starts its thread")]

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::StorageError;
use crate::index::Index;

/// Who tends an index that is being filled.
pub(super) struct Tending {
    index: Arc<dyn Index>,
    helper: Option<Helper>,
    refused: bool,
}

/// The thread.
struct Helper {
    wake: SyncSender<()>,
    thread: JoinHandle<()>,
    failed: Arc<Mutex<Option<StorageError>>>,
}

fn merge(index: &dyn Index) -> Result<(), StorageError> {
    match index.merge_due() {
        Err(error @ StorageError::Index(_)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "tables of the index are merged later");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

impl Helper {
    fn start(index: Arc<dyn Index>) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let failed = Arc::new(Mutex::new(None));
        let told = failed.clone();
        let tend = move || {
            while woken.recv().is_ok() {
                if let Err(error) = index.flush_due(None).and_then(|()| merge(&*index)) {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        };
        let thread = Builder::new().name("skerry-rebuild".into()).spawn(tend)?;
        Ok(Self { wake, thread, failed })
    }

    fn take_error(&self) -> Result<(), StorageError> {
        let error = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }

    /// It has ended although nobody let it.
    fn why(&self) -> StorageError {
        let error = self.take_error().err();
        error.unwrap_or_else(|| StorageError::Index("the thread that merges its tables ended".into()))
    }
}

impl Tending {
    /// Nothing runs until there is something to tend.
    pub(super) const fn of(index: Arc<dyn Index>) -> Self {
        Self { index, helper: None, refused: false }
    }

    /// Something was applied.
    pub(super) fn applied(&mut self) -> Result<(), StorageError> {
        if self.helper.is_none() && !self.refused && self.index.wants_tending() {
            self.helper = Helper::start(self.index.clone()).ok();
            // No thread to be had: it goes on without.
            self.refused = self.helper.is_none();
        }
        match &self.helper {
            Some(helper) => {
                let woken = if self.index.wants_tending() { helper.wake.try_send(()) } else { Ok(()) };
                if let Err(TrySendError::Disconnected(())) = woken {
                    return Err(helper.why());
                }
                if self.index.is_behind() { self.index.help(None) } else { Ok(()) }
            }
            None if self.index.is_behind() => self.index.tend(None),
            None => Ok(()),
        }
    }

    /// Waits for the end of what is under way.
    pub(super) fn end(mut self) -> Result<(), StorageError> {
        let Some(Helper { wake, thread, failed }) = self.helper.take() else { return Ok(()) };
        drop(wake);
        let ended = thread.join();
        let error = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (error, ended) {
            (Some(error), _) => Err(error),
            (None, Err(_)) => Err(StorageError::Index("the engine panicked while merging its tables".into())),
            (None, Ok(())) => Ok(()),
        }
    }
}

impl Drop for Tending {
    fn drop(&mut self) {
        if let Some(Helper { wake, thread, .. }) = self.helper.take() {
            drop(wake);
            drop(thread.join());
        }
    }
}

#[cfg(test)]
#[path = "tending_tests.rs"]
mod tests;
