//! What waits for the commit thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use skerry_base::kv::View;

use super::Entry;
use crate::{CommitError, StorageError};

/// What a job asks for.
pub(crate) enum Asked {
    /// Nothing to write.
    Nothing,
    /// To write these.
    Entries(Vec<Entry>),
    /// To make all payload durable and known.
    Settle,
}

/// A proposal with its types erased.
pub(crate) trait Job: Send {
    /// Runs the proposal.
    fn run(&mut self, view: &dyn View) -> Asked;

    /// Tells the proposer.
    fn end(self: Box<Self>, outcome: Result<(), StorageError>);
}

pub(crate) struct Proposal<P, D, T, E> {
    propose: Option<P>,
    done: D,
    decided: Option<Result<T, E>>,
}

impl<P, D, T, E> Proposal<P, D, T, E> {
    pub(crate) const fn new(propose: P, done: D) -> Self {
        Self { propose: Some(propose), done, decided: None }
    }
}

impl<P, D, T, E> Job for Proposal<P, D, T, E>
where
    P: FnOnce(&dyn View) -> Result<(T, Vec<Entry>), E> + Send,
    D: FnOnce(Result<T, CommitError<E>>) + Send,
    T: Send,
    E: Send,
{
    fn run(&mut self, view: &dyn View) -> Asked {
        match self.propose.take().map(|propose| propose(view)) {
            None => Asked::Nothing,
            Some(Ok((value, entries))) => {
                self.decided = Some(Ok(value));
                if entries.is_empty() { Asked::Nothing } else { Asked::Entries(entries) }
            }
            Some(Err(refusal)) => {
                self.decided = Some(Err(refusal));
                Asked::Nothing
            }
        }
    }

    fn end(self: Box<Self>, outcome: Result<(), StorageError>) {
        (self.done)(match (self.decided, outcome) {
            // A refusal may rest on what stood before it in its group; if that may never have been, nor has it.
            (_, Err(error)) => Err(CommitError::Storage(error)),
            (Some(Err(refusal)), Ok(())) => Err(CommitError::Refused(refusal)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(CommitError::Storage(StorageError::Closed)),
        });
    }
}

/// A wish to settle.
pub(crate) struct Settling<D>(pub(crate) D);

impl<D: FnOnce(Result<(), StorageError>) + Send> Job for Settling<D> {
    fn run(&mut self, _view: &dyn View) -> Asked {
        Asked::Settle
    }

    fn end(self: Box<Self>, outcome: Result<(), StorageError>) {
        (self.0)(outcome);
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<dyn Job>>,
    closed: bool,
}

/// The queue.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job, or tells it why not.
    pub(crate) fn push(&self, job: Box<dyn Job>, limit: usize) {
        let mut state = self.lock();
        let refusal = if state.closed {
            StorageError::Closed
        } else if state.jobs.len() >= limit {
            StorageError::Busy
        } else {
            state.jobs.push_back(job);
            drop(state);
            self.filled.notify_one();
            return;
        };
        drop(state);
        job.end(Err(refusal));
    }

    /// Takes up to `most` jobs.
    pub(crate) fn take(&self, most: usize) -> Vec<Box<dyn Job>> {
        let mut state = self.lock();
        let count = state.jobs.len().min(most);
        state.jobs.drain(..count).collect()
    }

    /// Waits until there is a job; false once the queue is closed and empty.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.closed {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.jobs.is_empty()
    }

    /// Lets nothing more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Lets jobs in again.
    pub(crate) fn reopen(&self) {
        self.lock().closed = false;
    }
}
