//! What waits for the commit thread: proposals that somebody waits for, and behind them those that only this site's
//! peers wait for, of which a long one is carried out in steps, so that it never stands before a client for long.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use skerry_base::kv::View;

use super::{Entry, Step};
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

    /// Whether it is to run again, once what it asked for is in the group.
    fn goes_on(&self) -> bool {
        false
    }

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

/// A proposal in steps. Each is durable, or nothing of it is; the first that fails is the last.
pub(crate) struct Sequence<P, D, E> {
    step: P,
    done: D,
    refusal: Option<E>,
    goes_on: bool,
}

impl<P, D, E> Sequence<P, D, E> {
    pub(crate) const fn new(step: P, done: D) -> Self {
        Self { step, done, refusal: None, goes_on: true }
    }
}

impl<P, D, E> Job for Sequence<P, D, E>
where
    P: FnMut(&dyn View) -> Result<Step, E> + Send,
    D: FnOnce(Result<(), CommitError<E>>) + Send,
    E: Send,
{
    fn run(&mut self, view: &dyn View) -> Asked {
        match (self.step)(view) {
            Ok(Step { entries, more }) => {
                self.goes_on = more;
                if entries.is_empty() { Asked::Nothing } else { Asked::Entries(entries) }
            }
            Err(refusal) => {
                (self.refusal, self.goes_on) = (Some(refusal), false);
                Asked::Nothing
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }

    fn end(self: Box<Self>, outcome: Result<(), StorageError>) {
        (self.done)(match (self.refusal, outcome) {
            // As with a proposal: what it rests on may never have been.
            (_, Err(error)) => Err(CommitError::Storage(error)),
            (Some(refusal), Ok(())) => Err(CommitError::Refused(refusal)),
            (None, Ok(())) => Ok(()),
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
    behind: VecDeque<Box<dyn Job>>,
    closed: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.behind.is_empty()
    }
}

/// Where a job queues up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Somebody waits for it.
    Ahead,
    /// It goes behind those; among its like it keeps its turn.
    Behind,
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
    pub(crate) fn push(&self, job: Box<dyn Job>, lane: Lane, limit: usize) {
        let mut state = self.lock();
        let closed = state.closed;
        let jobs = match lane {
            Lane::Ahead => &mut state.jobs,
            Lane::Behind => &mut state.behind,
        };
        let refusal = if closed {
            StorageError::Closed
        } else if jobs.len() >= limit {
            StorageError::Busy
        } else {
            jobs.push_back(job);
            drop(state);
            self.filled.notify_one();
            return;
        };
        drop(state);
        job.end(Err(refusal));
    }

    /// How many wait that somebody waits for, and behind those.
    pub(crate) fn waiting(&self) -> [usize; 2] {
        let state = self.lock();
        [state.jobs.len(), state.behind.len()]
    }

    /// Takes up to `most` jobs that somebody waits for.
    pub(crate) fn take(&self, most: usize) -> Vec<Box<dyn Job>> {
        let mut state = self.lock();
        let count = state.jobs.len().min(most);
        state.jobs.drain(..count).collect()
    }

    /// Takes the first job of those behind.
    pub(crate) fn take_behind(&self) -> Option<Box<dyn Job>> {
        self.lock().behind.pop_front()
    }

    /// Gives it back: it goes on before all others of its lane, also when nothing more is let in.
    pub(crate) fn put_back(&self, job: Box<dyn Job>) {
        self.lock().behind.push_front(job);
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether anybody waits who is to go ahead.
    pub(crate) fn is_asked(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// Waits until there is a job; false once the queue is closed and empty.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.is_empty() && !state.closed {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_empty()
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
