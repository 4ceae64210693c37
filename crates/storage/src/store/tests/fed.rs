//! What goes behind, in steps: beside the random work of [`super::model`], and step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use skerry_base::ChunkId;

use super::model::State;
use super::world::{self, Answer, body, commit, kept, keys, open, small_put};
use crate::disk::faulty::{Chance, FaultyDisk};
use crate::store::{Entry, Step, Store};
use crate::{CommitError, Settings, StorageError};

/// Keys of these batches, which nothing else touches.
const PREFIX: &str = "fed-";

/// Who feeds a store in batches of steps, and knows what it was promised.
pub(super) struct Feeder {
    chance: Chance,
    /// States after each step in order; `history[ended]` is the least that must be there.
    history: Vec<State>,
    ended: usize,
    secured: usize,
    waiting: Vec<(usize, Answer)>,
    number: u64,
}

impl Feeder {
    pub(super) fn new(seed: u64) -> Self {
        let chance = Chance(seed ^ 0xfeed);
        Self { chance, history: vec![State::new()], ended: 0, secured: 0, waiting: Vec::new(), number: 0 }
    }

    /// Whether a key is of its batches.
    pub(super) fn owns(key: &[u8]) -> bool {
        key.starts_with(PREFIX.as_bytes())
    }

    /// Now and then submits a batch; what its bodies hold is added to what is known of chunks.
    pub(super) fn act(&mut self, store: &Store, contents: &mut BTreeMap<ChunkId, Vec<u8>>) {
        if !self.chance.one_in(3) {
            return;
        }
        let steps = (0..1 + self.chance.below(5)).map(|_| self.step(contents)).collect();
        self.waiting.push((self.history.len() - 1, submit(store, steps)));
    }

    fn step(&mut self, contents: &mut BTreeMap<ChunkId, Vec<u8>>) -> Vec<Entry> {
        let mut state = self.history[self.history.len() - 1].clone();
        let entries = (0..1 + self.chance.below(3)).map(|_| {
            let key = format!("{PREFIX}{}", self.chance.below(8));
            if self.chance.one_in(4) {
                state.remove(key.as_bytes());
                return world::say_delete(&key);
            }
            let bytes = body(self.chance.below(12) << 32, 10 + self.chance.below(4000) as usize);
            self.number += 1;
            state.insert(key.clone().into_bytes(), (self.number, ChunkId::of(&bytes)));
            contents.insert(ChunkId::of(&bytes), bytes.clone());
            small_put(&key, self.number, &bytes)
        });
        let entries = entries.collect();
        self.history.push(state);
        entries
    }

    /// Hears of the batches that ended.
    pub(super) fn hear(&mut self) {
        for (index, answer) in std::mem::take(&mut self.waiting) {
            match answer.lock().unwrap().take() {
                Some(Ok(())) => self.ended = self.ended.max(index),
                Some(Err(_)) => {}
                None => self.waiting.push((index, answer.clone())),
            }
        }
    }

    /// What has ended so far lasts.
    pub(super) fn secure(&mut self) {
        self.secured = self.ended;
    }

    /// Whether every batch has ended.
    pub(super) fn is_done(&self) -> bool {
        self.ended == self.history.len() - 1
    }

    /// The store was opened anew: of its steps, in order, all are there up to one that is not before what was told.
    pub(super) fn check(&mut self, found: &State, lazy: bool) {
        self.waiting.clear();
        let least = if lazy { self.secured } else { self.ended };
        let at = (least..self.history.len()).find(|&at| self.history[at] == *found);
        let Some(at) = at else { panic!("{least} of {} steps: {found:?}", self.history.len()) };
        self.history.truncate(at + 1);
        (self.ended, self.secured) = (at, at);
    }
}

/// Submits a batch of these steps.
fn submit(store: &Store, steps: Vec<Vec<Entry>>) -> Answer {
    let answer = Answer::default();
    let (left, mut steps) = (answer.clone(), steps.into_iter().peekable());
    let step = move |_: &dyn skerry_base::kv::View| {
        let entries = steps.next().unwrap_or_default();
        Ok(Step { entries, more: steps.peek().is_some() })
    };
    store.submit_steps(step, move |result| *left.lock().unwrap() = Some(result));
    answer
}

fn puts(from: u64, count: u64) -> Vec<Vec<Entry>> {
    (from..from + count).map(|number| vec![small_put(&format!("{number:03}"), number, b"fed")]).collect()
}

fn there(store: &Store) -> Vec<String> {
    keys(&store.view()).into_keys().map(|key| String::from_utf8(key).unwrap()).collect()
}

/// A group takes so much of what goes behind.
fn taking(group_behind: usize) -> Settings {
    Settings { group_behind, ..kept() }
}

#[test]
fn who_waits_goes_ahead_and_what_is_behind_keeps_its_order() {
    let (store, _) = open(&FaultyDisk::default(), &taking(1));
    let first = submit(&store, puts(1, 3));
    let order = Arc::new(Mutex::new(Vec::new()));
    let (noted, told) = (order.clone(), order.clone());
    let after = |view: &dyn skerry_base::kv::View| {
        let fed = view.get(skerry_base::kv::Table::Current, b"003").unwrap();
        Ok::<_, ()>((fed.is_some(), Vec::new()))
    };
    store.submit_behind(after, move |result| noted.lock().unwrap().push(("behind", result.unwrap())));
    assert_eq!(store.pump(), 1, "a step");
    store.submit(after, move |result| told.lock().unwrap().push(("ahead", result.unwrap())));
    assert_eq!(store.pump(), 2, "who waits, and a step");
    assert_eq!(*order.lock().unwrap(), [("ahead", false)]);
    assert_eq!(there(&store), ["001", "002"]);
    assert!(first.lock().unwrap().is_none(), "it goes on");
    assert_eq!(store.pump(), 1);
    assert!(matches!(first.lock().unwrap().take(), Some(Ok(()))));
    assert_eq!((store.pump(), store.pump()), (1, 0));
    assert_eq!(*order.lock().unwrap(), [("ahead", false), ("behind", true)], "it sees all before it");
}

#[test]
fn a_group_takes_many_steps_where_nobody_waits_and_one_where_somebody_does() {
    let (store, _) = open(&FaultyDisk::default(), &taking(8));
    let whole = submit(&store, puts(1, 20));
    let syncs = |store: &Store| store.usage().journal_syncs.count;
    let before = syncs(&store);
    assert_eq!(store.pump(), 8);
    assert_eq!(syncs(&store) - before, 1, "one sync for all of them");
    commit(&store, vec![small_put("ahead", 1, b"x")]).unwrap();
    assert_eq!(there(&store).len(), 10, "it, and one step beside it");
    assert_eq!((store.pump(), store.pump(), store.pump()), (8, 3, 0));
    assert!(matches!(whole.lock().unwrap().take(), Some(Ok(()))));
    // Steps that write nothing count as well: no group takes them without end.
    let idle = submit(&store, vec![Vec::new(); 20]);
    assert_eq!((store.pump(), store.pump(), store.pump(), store.pump()), (8, 8, 4, 0));
    assert!(matches!(idle.lock().unwrap().take(), Some(Ok(()))));
}

/// Who comes next waits for what a group writes: long bodies are as many entries.
#[test]
fn a_group_takes_fewer_steps_where_they_are_long() {
    let (store, _) = open(&FaultyDisk::default(), &taking(16));
    let step = |number| {
        let long = body(number, skerry_base::limits::JOURNAL_BODY_BYTES);
        vec![small_put(&format!("{number:03}"), number, &long)]
    };
    let whole = submit(&store, (1..=5).map(step).collect());
    // Each is an entry and eight more.
    assert_eq!((store.pump(), store.pump(), store.pump(), store.pump()), (2, 2, 1, 0));
    assert!(matches!(whole.lock().unwrap().take(), Some(Ok(()))));
    let many = submit(&store, vec![vec![small_put("a", 6, &[7; 300]), small_put("b", 7, &[8; 300])]; 16]);
    assert_eq!((store.pump(), store.pump()), (8, 8), "and short ones are what they were");
    assert!(matches!(many.lock().unwrap().take(), Some(Ok(()))));
}

#[test]
fn the_first_step_that_fails_is_the_last_and_those_before_it_stay() {
    let (store, _) = open(&FaultyDisk::default(), &taking(8));
    let (asked, answer) = (Arc::new(Mutex::new(0)), Answer::default());
    let (counted, left) = (asked.clone(), answer.clone());
    let refuses = move |_: &dyn skerry_base::kv::View| {
        let mut asked = counted.lock().unwrap();
        *asked += 1;
        if *asked == 3 {
            return Err(());
        }
        Ok(Step { entries: vec![small_put(&format!("{asked}"), *asked, b"x")], more: true })
    };
    store.submit_steps(refuses, move |result| *left.lock().unwrap() = Some(result));
    // Too large a body: the store refuses the second step, the third is not asked for.
    let large = body(1, skerry_base::limits::JOURNAL_BODY_BYTES + 1);
    let mut steps = puts(11, 3);
    steps[1] = vec![small_put("large", 9, &large)];
    let refused = submit(&store, steps);
    assert_eq!(store.pump(), 5);
    assert!(matches!(answer.lock().unwrap().take(), Some(Err(CommitError::Refused(())))));
    let refused = refused.lock().unwrap().take();
    assert!(matches!(refused, Some(Err(CommitError::Storage(StorageError::TooLarge { .. })))));
    assert_eq!((there(&store), *asked.lock().unwrap()), (vec!["011".into(), "1".into(), "2".into()], 3));
}

#[test]
fn a_store_that_ends_carries_out_what_was_let_in_and_lets_nothing_more_in() {
    let (store, _) = open(&FaultyDisk::default(), &Settings { queue_proposals: 2, ..taking(1) });
    let (first, second) = (submit(&store, puts(1, 9)), submit(&store, puts(11, 9)));
    let third = submit(&store, puts(21, 9));
    assert!(matches!(third.lock().unwrap().take(), Some(Err(CommitError::Storage(StorageError::Busy)))));
    // Its room is its own: who waits is let in all the same.
    let ahead = world::submit(&store, vec![small_put("ahead", 1, b"x")]);
    let of = |bound: crate::Level| (bound.most, bound.taken);
    assert_eq!([of(store.bounds().commits), of(store.bounds().commits_behind)], [(2, 1), (2, 2)]);
    drop(store.start_committer().unwrap());
    for answer in [first, second, ahead] {
        assert!(matches!(answer.lock().unwrap().take(), Some(Ok(()))));
    }
    assert_eq!(there(&store).len(), 19);
    assert_eq!(of(store.bounds().commits_behind), (2, 0));
    let late = submit(&store, puts(31, 1));
    assert!(matches!(late.lock().unwrap().take(), Some(Err(CommitError::Storage(StorageError::Closed)))));
}
