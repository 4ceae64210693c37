//! A rebuild's second thread: it does the work, its failure is told, and its end is waited for.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::index::{Reading, Secure, Writes};

/// An index that waits to be told how its tending ends.
struct Told {
    due: AtomicBool,
    behind: AtomicBool,
    tended: AtomicU32,
    answers: Mutex<Receiver<Result<(), StorageError>>>,
    merged: Mutex<Result<(), StorageError>>,
}

impl Index for Told {
    fn read(&self) -> Reading {
        Arc::new(skerry_base::kv::Tables::default())
    }

    fn apply(&self, _writes: &Writes, _mark: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn checkpoint(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn durable(&self) -> u64 {
        0
    }

    fn wants_tending(&self) -> bool {
        self.due.load(Ordering::SeqCst)
    }

    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::SeqCst)
    }

    fn tend(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        let answer = self.answers.lock().unwrap().recv().unwrap();
        self.tended.fetch_add(1, Ordering::SeqCst);
        answer
    }

    fn merge_due(&self) -> Result<(), StorageError> {
        self.merged.lock().unwrap().clone()
    }

    fn help(&self, _secure: Secure<'_>) -> Result<(), StorageError> {
        self.behind.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

fn told() -> (Arc<Told>, Sender<Result<(), StorageError>>) {
    let (say, answers) = channel();
    let index = Told {
        due: AtomicBool::new(true),
        behind: AtomicBool::new(false),
        tended: AtomicU32::new(0),
        answers: Mutex::new(answers),
        merged: Mutex::new(Ok(())),
    };
    (Arc::new(index), say)
}

/// Who applies goes on while the other is at work, helps where that falls behind, and in the end waits for it.
#[test]
fn who_applies_does_not_wait_and_the_end_does() {
    let (index, say) = told();
    let mut tending = Tending::of(index.clone());
    (0..10).for_each(|_| tending.applied().unwrap());
    let ended_early = index.tended.load(Ordering::SeqCst);
    index.behind.store(true, Ordering::SeqCst);
    tending.applied().unwrap();
    let helped = !index.behind.load(Ordering::SeqCst);
    // It was woken, and once more while it was at work.
    (0..2).for_each(|_| say.send(Ok(())).unwrap());
    tending.end().unwrap();
    assert!(index.tended.load(Ordering::SeqCst) >= 1);
    assert_eq!(ended_early, 0);
    assert!(helped, "who applies helps where the other is behind");
}

#[test]
fn what_fails_in_it_fails_the_rebuild() {
    let (index, say) = told();
    let mut tending = Tending::of(index.clone());
    tending.applied().unwrap();
    say.send(Err(StorageError::Full)).unwrap();
    let failed = loop {
        match tending.applied() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, StorageError::Full), "{failed}");

    let (index, say) = told();
    let mut tending = Tending::of(index);
    tending.applied().unwrap();
    say.send(Err(StorageError::Full)).unwrap();
    assert!(matches!(tending.end(), Err(StorageError::Full)), "also when it is seen at the end only");
}

#[test]
fn nothing_runs_where_nothing_is_to_be_tended() {
    let (index, _say) = told();
    index.due.store(false, Ordering::SeqCst);
    let mut tending = Tending::of(index);
    tending.applied().unwrap();
    assert!(tending.helper.is_none());
    tending.end().unwrap();
}

/// It would fail a start though the index is whole; one that does not read fails it.
#[test]
fn a_merge_that_finds_no_room_fails_no_rebuild() {
    for (merged, fails) in [
        (StorageError::Full, false),
        (StorageError::io("merge", &std::io::Error::other("Input/output error")), false),
        (StorageError::Index("a bad block".into()), true),
    ] {
        let (index, say) = told();
        *index.merged.lock().unwrap() = Err(merged);
        let mut tending = Tending::of(index.clone());
        say.send(Ok(())).unwrap();
        tending.applied().unwrap();
        say.send(Ok(())).unwrap();
        while index.tended.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // Woken once more if it is still there; its error is told once.
        let seen = tending.applied();
        assert_eq!(seen.and(tending.end()).is_err(), fails);
    }
}
