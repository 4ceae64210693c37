//! The two threads of a store: one commits, one flushes and compacts the index so that commits need not wait.
#![expect(clippy::disallowed_methods, reason = "this is where the storage room starts its threads")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::Store;
use crate::StorageError;

/// How far the thread that tends the index stands back: who serves clients goes before, and who commits helps where it cannot
/// keep up.
const BESIDE: i32 = 5;

/// Wakes the thread that tends the index.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.changed.notify_all();
    }

    fn stop(&self, stop: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = stop;
        self.changed.notify_all();
    }

    /// Waits until raised; false if it is time to stop.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.0 && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.0 = false;
        !state.1
    }
}

/// The threads that carry out commits and tend the index. Dropped, they finish what was submitted and end; the
/// store refuses new proposals as closed from then on.
pub struct Committer {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Store {
    /// Starts the threads that commit and tend the index. Refused if they run already.
    pub fn start_committer(self: &Arc<Self>) -> Result<Committer, StorageError> {
        if self.tended.swap(true, Ordering::AcqRel) {
            return Err(StorageError::Busy);
        }
        self.queue.reopen();
        self.tend_signal.stop(false);
        let mut committer = Committer { store: self.clone(), threads: Vec::new() };
        let store = self.clone();
        committer.spawn("skerry-commit", move || {
            while store.queue.wait() {
                store.pump_guarded();
            }
        })?;
        let store = self.clone();
        committer.spawn("skerry-index", move || {
            // Of this thread alone. Refused or not: it is a wish.
            let _ = rustix::process::setpriority_process(None, BESIDE);
            while store.tend_signal.wait() {
                let tend = std::panic::AssertUnwindSafe(|| store.tend());
                match std::panic::catch_unwind(tend) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "the index was not flushed"),
                    Err(_) => return store.note_panic(),
                }
                store.space.note_index(store.index.disk_bytes());
            }
        })?;
        Ok(committer)
    }
}

impl Committer {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StorageError> {
        let thread = Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(thread.map_err(|error| StorageError::io("start a thread", &error))?);
        Ok(())
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.store.queue.close();
        self.store.tend_signal.stop(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        self.store.tended.store(false, Ordering::Release);
        // So that the next start has nothing to replay. If it fails the journal has it all.
        if let Err(error) = self.store.checkpoint_index() {
            tracing::warn!(%error, "the index was not flushed at the end");
        }
    }
}
