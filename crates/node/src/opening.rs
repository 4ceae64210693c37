//! How far the opening of a store is, in words: for the log every few seconds, and for whoever asks meanwhile.
//!
//! Before: a start (`server.rs`), whose store tells of segments and batches that it is through with. After: the log, and the face
//! that stands there as long as there is no other (`faces.rs`). Why: an index that is rebuilt from the journal takes minutes, half an
//! hour on an SD card, and who waits has to know whether to go on waiting. Invariants: what is left is estimated from the step that
//! is under way alone, since a byte of one step costs another time than one of the next; nothing is counted for it, and nobody who
//! opens waits for who asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::Instant;
use skerry_storage::{Progress, Stage, Watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;

/// How often the log says it.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// A store that is being opened. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    clock: Clock,
    step: Arc<Mutex<Option<Step>>>,
    through: Arc<AtomicBool>,
    /// Until whoever holds the other end lets go of it the store waits at the first thing that it tells.
    #[cfg(test)]
    pub(crate) held: Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
}

/// What is under way.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// When it began, as far as anybody was told.
    since: Instant,
    /// When it was told last.
    at: Instant,
    told: Progress,
}

impl Opening {
    fn step(&self) -> MutexGuard<'_, Option<Step>> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the store tells.
    pub(crate) fn watch(&self) -> Watch {
        let opening = self.clone();
        Watch(Arc::new(move |told| opening.note(told)))
    }

    fn note(&self, told: Progress) {
        let now = self.clock.now();
        let mut step = self.step();
        let is_first = step.is_none();
        *step = Some(Step::after(*step, told, now));
        drop(step);
        #[cfg(test)]
        if let Some(held) = self.held.lock().unwrap_or_else(PoisonError::into_inner).take() {
            held.recv().ok();
        }
        if is_first {
            tracing::info!(
                every_seconds = EVERY.as_secs(),
                "the index is being rebuilt; how far it is follows"
            );
        }
    }

    /// How far it is now.
    pub fn told(&self) -> String {
        if self.through.load(Ordering::Acquire) {
            return "the store is open; the site is about to serve".to_owned();
        }
        let now = self.clock.now();
        let step = *self.step();
        step.map_or_else(
            || format!("opening the store, for {} now", span(Duration::from_nanos(now.0))),
            |step| step.words(now),
        )
    }

    /// Says it again and again until this is through; not at once.
    pub(crate) async fn told_until<T>(
        &self,
        every: Duration,
        say: impl Fn(String),
        through: impl Future<Output = T>,
    ) -> T {
        let mut ticks = interval(every);
        ticks.reset();
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut through = std::pin::pin!(through);
        loop {
            tokio::select! {
                done = &mut through => {
                    self.through.store(true, Ordering::Release);
                    return done;
                }
                _ = ticks.tick() => say(self.told()),
            }
        }
    }
}

impl Step {
    /// A step begins where the one before was heard of last, the first one with the start.
    fn after(before: Option<Self>, told: Progress, now: Instant) -> Self {
        let since = match before {
            Some(before) if before.told.stage == told.stage => before.since,
            Some(before) => before.at,
            None => Instant(0),
        };
        Self { since, at: now, told }
    }

    fn words(&self, now: Instant) -> String {
        let Progress { stage, done, total } = self.told;
        let total = total.max(done).max(1);
        let percent = u128::from(done) * 100 / u128::from(total);
        let doing = match stage {
            Stage::RebuildChunks => "rebuilding the index, step 1 of 3 (looking through payload)",
            Stage::RebuildJournal => "rebuilding the index, step 2 of 3 (reading the journal)",
            Stage::RebuildRest => "rebuilding the index, step 3 of 3 (reading what no record names)",
            Stage::Index | Stage::Chunks | Stage::Journal => "reading",
        };
        let left = match self.left(now) {
            // From so little nothing is reckoned.
            _ if u128::from(done) * 1000 < u128::from(total) => {
                "how long it takes is not known yet".to_owned()
            }
            Some(left) => format!("about {} left", span(left)),
            None => "nearly through".to_owned(),
        };
        format!("opening the store, {doing}: {percent} % of {} MB, {left}", total.div_ceil(1_000_000))
    }

    /// What is left of this step at the pace that it had; none if that is over.
    fn left(&self, now: Instant) -> Option<Duration> {
        let Progress { done, total, .. } = self.told;
        let spent = u128::from(self.at.0.saturating_sub(self.since.0));
        let all_left = spent * u128::from(total.saturating_sub(done)) / u128::from(done.max(1));
        let passed = u128::from(now.0.saturating_sub(self.at.0));
        let left = all_left.checked_sub(passed).filter(|left| *left > 0)?;
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

/// `40 s`, `7 min`, `3 h`.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{} s", seconds.max(1)),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h", (seconds + 1800) / 3600),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * SECOND)
    }

    fn journal(done: u64) -> Progress {
        Progress { stage: Stage::RebuildJournal, done, total: 3_000_000_000 }
    }

    #[test]
    fn what_is_left_is_reckoned_from_the_step_under_way_and_falls_while_nothing_is_told() {
        // Payload was quick: had it counted, the journal would seem to be.
        let payload = Progress { stage: Stage::RebuildChunks, done: 9 << 30, total: 9 << 30 };
        let step = Step::after(None, payload, at(10));
        assert_eq!(
            step.words(at(10)),
            "opening the store, rebuilding the index, step 1 of 3 (looking through payload): 100 % of 9664 MB, nearly through"
        );
        let step = Step::after(Some(step), journal(600_000_000), at(70));
        let step = Step::after(Some(step), journal(1_110_000_000), at(121));
        let words = step.words(at(121));
        assert!(
            words.contains("step 2 of 3 (reading the journal): 37 % of 3000 MB, about 3 min left"),
            "{words}"
        );
        let words = step.words(at(121 + 150));
        assert!(words.ends_with("37 % of 3000 MB, about 39 s left"), "{words}");
        assert!(step.words(at(1000)).ends_with("nearly through"), "not less than nothing");
    }

    #[test]
    fn a_step_of_which_next_to_nothing_is_done_has_no_estimate() {
        let step = Step::after(None, journal(1_000_000_000), at(100));
        let rest = Progress { stage: Stage::RebuildRest, done: 1, total: 3_000_000_000 };
        let step = Step::after(Some(step), rest, at(120));
        let words = step.words(at(120));
        assert!(words.ends_with("0 % of 3000 MB, how long it takes is not known yet"), "{words}");
    }

    #[test]
    fn numbers_at_their_ends_are_told_too() {
        for told in [
            Progress { stage: Stage::RebuildRest, done: 0, total: 0 },
            Progress { stage: Stage::RebuildRest, done: 0, total: u64::MAX },
            Progress { stage: Stage::RebuildRest, done: u64::MAX, total: 1 },
        ] {
            let words = Step::after(None, told, Instant(u64::MAX)).words(Instant(u64::MAX));
            assert!(words.contains(" % of "), "{words}");
        }
        let opening = Opening::default();
        assert!(opening.told().starts_with("opening the store, for "));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_said_every_few_seconds_and_no_more_once_it_is_through() {
        let (opening, said) = (Opening::default(), Mutex::new(Vec::new()));
        let say = |words| said.lock().unwrap().push(words);
        assert_eq!(opening.told_until(EVERY, say, async { 7 }).await, 7);
        assert!(said.lock().unwrap().is_empty(), "a start that is quick says nothing");
        let long = tokio::time::timeout(EVERY * 7 / 2, std::future::pending::<()>());
        assert!(opening.told_until(EVERY, say, long).await.is_err());
        assert_eq!(said.lock().unwrap().len(), 3);
    }

    #[test]
    fn spans_are_read_at_a_glance() {
        let told: Vec<String> = [0, 40, 100, 119, 3600, 7200].map(|s| span(Duration::from_secs(s))).into();
        assert_eq!(told, ["1 s", "40 s", "2 min", "2 min", "60 min", "2 h"]);
    }
}
