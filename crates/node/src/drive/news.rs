//! Which buckets have writes that the machine was not told of yet, so that its thread is woken once and not for each commit.
//!
//! The machine tells those who listen to a bucket at most once in [`NEWS_PAUSE`]. In that time the commit thread only notes that
//! there is more: waking a thread costs it as much as a look-up in the index. Invariant: what is noted is told within that time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skerry_base::{BucketId, Instant};
use skerry_federation::limits::NEWS_PAUSE;

/// Shared by the thread that commits and the one that tells.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// With writes since they were told of.
    fresh: BTreeSet<BucketId>,
    /// Told of, or about to be: until when nobody is woken for them.
    quiet: BTreeMap<BucketId, Option<Instant>>,
}

impl News {
    /// The bucket has a new write; answers whether the other thread is to be woken.
    pub(super) fn note(&self, bucket: BucketId) -> bool {
        let mut noted = self.noted();
        noted.fresh.insert(bucket);
        let is_quiet = noted.quiet.contains_key(&bucket);
        if !is_quiet {
            noted.quiet.insert(bucket, None);
        }
        !is_quiet
    }

    /// The buckets to tell of now. Nobody is woken for these before the pause is over.
    pub(super) fn due(&self, now: Instant) -> Vec<BucketId> {
        let mut noted = self.noted();
        noted.quiet.retain(|_, until| until.is_none_or(|until| until > now));
        let Noted { fresh, quiet } = &mut *noted;
        let is_due = |bucket: &BucketId| !matches!(quiet.get(bucket), Some(Some(_)));
        let due: Vec<BucketId> = fresh.iter().copied().filter(is_due).collect();
        for bucket in &due {
            fresh.remove(bucket);
            quiet.insert(*bucket, Some(now.after(NEWS_PAUSE)));
        }
        due
    }

    /// When there is something to tell, or somebody to wake again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.noted().quiet.values().flatten().min().copied()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_wakes_once_in_a_pause_and_what_came_meanwhile_is_told_at_its_end() {
        let news = News::default();
        let (one, two) = (BucketId([1; 16]), BucketId([2; 16]));
        let begin = Instant::default();
        let at = |millis| begin.after(Duration::from_millis(millis));
        assert!(news.note(one), "the first wakes");
        assert!(!news.note(one), "somebody was woken already");
        assert_eq!(news.due(at(0)), [one]);
        assert_eq!(news.due(at(0)), []);

        assert!(!news.note(one), "within the pause nobody is woken");
        assert!(news.note(two), "the pause of one bucket is not another's");
        assert_eq!(news.due(at(5)), [two]);
        assert_eq!(news.next(), Some(begin.after(NEWS_PAUSE)));
        assert_eq!(news.due(begin.after(NEWS_PAUSE)), [one], "told at the end of the pause");

        assert_eq!(news.due(at(1000)), []);
        assert_eq!(news.next(), None, "and nobody is woken where nothing is written");
        assert!(news.note(one), "after it the first wakes again");
    }
}
