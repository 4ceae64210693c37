//! What of a pin is walked through next: all of it, what came since, or what could not be fetched.
//!
//! Before: `pins.rs` after a change. Invariants: what comes is fetched at the next walk, whatever the pin holds and whatever of
//! it cannot be fetched; walks through all of it, which count its objects anew, cost a small share of the time; nothing is
//! passed over: what could not be fetched is tried again, less and less often.

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_base::Instant;

use crate::following::Seen;

/// A walk through everything that cost so long is repeated after this many times as long at the earliest.
const SHARE: u32 = 50;
/// But no later, if it is not done for counting only.
const LONGEST: Duration = Duration::from_secs(3600);
/// Keys that are remembered because they could not be fetched: beyond, all are walked through.
const FAILED: usize = 256;
/// They are tried again after this long, then after twice as long each time, at most [`RETRY_AT_MOST`].
const RETRY: Duration = Duration::from_secs(2);
const RETRY_AT_MOST: Duration = Duration::from_secs(600);

/// What could not be fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Failed {
    keys: BTreeSet<String>,
    /// More than are remembered.
    more: bool,
}

impl Failed {
    /// This one.
    pub(crate) fn add(&mut self, key: String) {
        if self.keys.len() < FAILED || self.keys.contains(&key) {
            self.keys.insert(key);
        } else {
            self.more = true;
        }
    }

    /// Nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn merge(&mut self, other: Self) {
        self.more |= other.more;
        other.keys.into_iter().for_each(|key| self.add(key));
    }
}

/// What is known of the walks of a pin.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Walks {
    /// What had been seen of the bucket when the last one ended, if that went through everything.
    seen: Option<Seen>,
    /// When the last whole one ended, and how long it took.
    counted: Option<(Instant, Duration)>,
    /// Something came since: the objects are to be counted anew.
    is_stale: bool,
    /// The last one found that this site is still taking the records.
    is_early: bool,
    failed: Failed,
    /// When that is tried again, and how long it rested.
    retry: Option<(Instant, Duration)>,
}

/// What is walked through next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    Nothing,
    Whole,
    /// What this does not cover.
    Since(Seen),
    /// What could not be fetched.
    Again(Vec<String>),
}

impl Walks {
    /// What is walked through now that this much of the bucket was seen; `whole`: it is all here.
    pub(crate) fn next(&self, (whole, seen): (bool, &Seen), now: Instant) -> Next {
        let rested = |longest: Duration| {
            self.counted.is_none_or(|(ended, cost)| ended.after((cost * SHARE).min(longest)) <= now)
        };
        let Some(before) = self.seen.as_ref().filter(|_| whole) else {
            let is_due = rested(LONGEST) || (whole && self.is_early);
            return if is_due { Next::Whole } else { Next::Nothing };
        };
        if self.retry.is_some_and(|(at, _)| at <= now) {
            if !self.failed.more {
                return Next::Again(self.failed.keys.iter().cloned().collect());
            }
            if rested(LONGEST) {
                return Next::Whole;
            }
        }
        match (before == seen, rested(Duration::MAX)) {
            (true, true) if self.is_stale => Next::Whole,
            (true, _) => Next::Nothing,
            (false, true) => Next::Whole,
            (false, false) => Next::Since(before.clone()),
        }
    }

    /// When something is tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry.filter(|_| !self.failed.more).map(|(at, _)| at)
    }

    /// Whether something could not be fetched.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// After a whole walk that began then. `seen`: none if this site is still taking the records.
    pub(crate) fn whole(&mut self, seen: Option<Seen>, failed: Failed, (begun, now): (Instant, Instant)) {
        let counted = Some((now, now.since(begun)));
        let is_early = seen.is_none();
        *self = Self { seen, counted, is_stale: false, is_early, failed, retry: self.retry };
        self.rest(now);
    }

    /// After one that began then and came to no end: what it found is worth nothing.
    pub(crate) fn broke(&mut self, (begun, now): (Instant, Instant)) {
        *self = Self { counted: Some((now, now.since(begun))), ..Self::default() };
    }

    /// After one through what came.
    pub(crate) fn since(&mut self, seen: Seen, failed: Failed, now: Instant) {
        (self.seen, self.is_stale) = (Some(seen), true);
        self.failed.merge(failed);
        if self.retry.is_none() {
            self.rest(now);
        }
    }

    /// After one through what could not be fetched before.
    pub(crate) fn again(&mut self, failed: Failed, now: Instant) {
        (self.failed, self.is_stale) = (failed, true);
        self.rest(now);
    }

    fn rest(&mut self, now: Instant) {
        let before = self.retry.filter(|_| self.has_failed());
        let pause = before.map_or(RETRY, |(_, pause)| (pause * 2).min(RETRY_AT_MOST));
        self.retry = self.has_failed().then(|| (now.after(pause), pause));
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin, Vector};
    use skerry_model::space::Fingerprint;

    use super::*;

    fn seen(seq: u64) -> Seen {
        let origin = Origin { node: NodeId([1; 16]), incarnation: 1 };
        (Vector::from_iter([(origin, seq)]), Fingerprint::default())
    }

    fn failed(keys: std::ops::Range<usize>) -> Failed {
        let mut failed = Failed::default();
        keys.for_each(|key| failed.add(format!("{key:04}")));
        failed
    }

    const fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn next(walks: &Walks, seq: u64, second: u64) -> Next {
        walks.next((true, &seen(seq)), at(second))
    }

    #[test]
    fn a_large_pin_is_walked_through_for_what_came_and_counted_seldom() {
        let mut walks = Walks::default();
        assert_eq!(next(&walks, 1, 0), Next::Whole);
        // A million objects, of which one is written each second for an hour.
        walks.whole(Some(seen(1)), Failed::default(), (at(0), at(60)));
        let mut whole = 0;
        for second in 61..3661 {
            match next(&walks, second, second) {
                Next::Since(before) => {
                    assert_eq!(before, if second == 61 { seen(1) } else { seen(second - 1) });
                    walks.since(seen(second), Failed::default(), at(second));
                }
                Next::Whole => {
                    whole += 1;
                    walks.whole(Some(seen(second)), Failed::default(), (at(second), at(second + 60)));
                }
                other => unreachable!("something came: {other:?}"),
            }
        }
        assert_eq!(whole, 1);
    }

    #[test]
    fn what_came_last_is_counted_in_the_end() {
        let mut walks = Walks::default();
        walks.whole(Some(seen(1)), Failed::default(), (at(61), at(62)));
        assert_eq!(next(&walks, 1, 9999), Next::Nothing);
        assert_eq!(next(&walks, 2, 63), Next::Since(seen(1)));
        walks.since(seen(2), Failed::default(), at(63));
        assert_eq!(next(&walks, 2, 64), Next::Nothing);
        assert_eq!(next(&walks, 2, 112), Next::Whole);
        walks.whole(Some(seen(2)), Failed::default(), (at(112), at(112)));
        assert_eq!(next(&walks, 3, 112), Next::Whole, "a small one costs nothing");
    }

    /// A million objects of which one cannot be fetched for two hours, while others come each second.
    #[test]
    fn what_failed_is_tried_again_less_and_less_often_and_the_rest_is_left_alone() {
        let mut walks = Walks::default();
        walks.whole(Some(seen(1)), failed(7..8), (at(0), at(60)));
        assert_eq!(next(&walks, 1, 61), Next::Nothing, "it rests");
        let (mut tried, mut whole) = (Vec::new(), 0);
        for second in 61..7261 {
            match next(&walks, second, second) {
                Next::Again(keys) => {
                    assert_eq!(keys, ["0007"]);
                    tried.push(second);
                    walks.again(failed(7..8), at(second));
                }
                Next::Since(_) => walks.since(seen(second), Failed::default(), at(second)),
                Next::Whole => {
                    whole += 1;
                    walks.whole(Some(seen(second)), failed(7..8), (at(second), at(second + 60)));
                }
                Next::Nothing => unreachable!("something came"),
            }
        }
        assert_eq!(&tried[..5], [62, 66, 74, 90, 122]);
        assert!(tried.len() < 20 && whole == 2, "{tried:?}, {whole}");
        walks.again(Failed::default(), at(7300));
        assert!(!walks.has_failed() && walks.retry.is_none());
    }

    #[test]
    fn more_than_is_remembered_is_walked_through_whole_and_not_at_once() {
        let mut walks = Walks::default();
        walks.whole(Some(seen(1)), failed(0..FAILED), (at(0), at(60)));
        let Next::Again(keys) = next(&walks, 1, 90) else { unreachable!("they are remembered") };
        assert_eq!(keys.len(), FAILED);
        walks.since(seen(2), failed(5000..5001), at(90));
        assert_eq!(next(&walks, 2, 91), Next::Nothing);
        assert_eq!(next(&walks, 3, 91), Next::Since(seen(2)), "what comes is fetched");
        assert_eq!(next(&walks, 2, 3059), Next::Nothing);
        assert_eq!(next(&walks, 2, 3060), Next::Whole, "a fiftieth of the time");
        // One that took a day to fetch is not left alone for weeks.
        walks.whole(Some(seen(2)), failed(0..FAILED + 1), (at(10_000), at(96_400)));
        assert_eq!((next(&walks, 2, 99_999), next(&walks, 2, 100_000)), (Next::Nothing, Next::Whole));
    }

    #[test]
    fn a_bucket_that_is_still_being_taken_is_walked_through_seldom_and_once_it_is_here() {
        let mut walks = Walks::default();
        assert_eq!(walks.next((false, &seen(1)), at(0)), Next::Whole);
        walks.whole(None, Failed::default(), (at(0), at(60)));
        assert_eq!(walks.next((false, &seen(2)), at(61)), Next::Nothing);
        assert_eq!(walks.next((false, &seen(3)), at(3060)), Next::Whole);
        assert_eq!(walks.next((true, &seen(3)), at(61)), Next::Whole, "all of it is here");
        walks.whole(Some(seen(3)), Failed::default(), (at(61), at(121)));
        assert_eq!(walks.next((false, &seen(3)), at(122)), Next::Nothing, "it was begun anew");
        walks.broke((at(122), at(123)));
        assert_eq!((next(&walks, 3, 124), next(&walks, 3, 173)), (Next::Nothing, Next::Whole));
    }
}
