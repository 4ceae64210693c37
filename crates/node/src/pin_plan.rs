//! When a pin is walked through whole, and when only what came since.
//!
//! Before: `pins.rs` after a change. Invariants: what comes is fetched at the next walk, whatever the pin holds; walks through
//! all of it, which count its objects anew, cost a small share of the time; nothing is passed over: what the last walk could
//! not fetch is walked through whole again.

use std::time::Duration;

use skerry_base::Instant;

use crate::following::Seen;

/// A walk through everything that cost so long is repeated after this many times as long at the earliest.
const SHARE: u32 = 50;

/// What is known of the walks of a pin.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Walks {
    /// What had been seen of the bucket when the last one ended, if that found everything and it stands.
    pub(crate) seen: Option<Seen>,
    /// When the last whole one ended, and how long it took.
    counted: Option<(Instant, Duration)>,
    /// Something came since: the objects are to be counted anew.
    is_stale: bool,
}

/// What is walked through next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    Nothing,
    Whole,
    /// What this does not cover.
    Since(Seen),
}

impl Walks {
    /// What is walked through now that this much of the bucket was seen.
    pub(crate) fn next(&self, seen: &Seen, now: Instant) -> Next {
        let Some(before) = &self.seen else { return Next::Whole };
        let rested = self.counted.is_none_or(|(ended, cost)| ended.after(cost * SHARE) <= now);
        match (before == seen, rested) {
            (true, true) if self.is_stale => Next::Whole,
            (true, _) => Next::Nothing,
            (false, true) => Next::Whole,
            (false, false) => Next::Since(before.clone()),
        }
    }

    /// After a whole walk that began then. `seen`: none if something is to be looked at again.
    pub(crate) fn whole(&mut self, seen: Option<Seen>, (begun, now): (Instant, Instant)) {
        *self = Self { seen, counted: Some((now, now.since(begun))), is_stale: false };
    }

    /// After one through what came.
    pub(crate) fn since(&mut self, seen: Option<Seen>) {
        (self.seen, self.is_stale) = (seen, true);
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

    const fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn a_large_pin_is_walked_through_for_what_came_and_counted_seldom() {
        let mut walks = Walks::default();
        assert_eq!(walks.next(&seen(1), at(0)), Next::Whole);
        // A million objects, of which one is written each second for an hour.
        walks.whole(Some(seen(1)), (at(0), at(60)));
        let mut whole = 0;
        for second in 61..3661 {
            let now = seen(second);
            match walks.next(&now, at(second)) {
                Next::Since(before) => {
                    assert_eq!(before, if second == 61 { seen(1) } else { seen(second - 1) });
                    walks.since(Some(now));
                }
                Next::Whole => {
                    whole += 1;
                    walks.whole(Some(now), (at(second), at(second + 60)));
                }
                Next::Nothing => unreachable!("something came"),
            }
        }
        assert_eq!(whole, 1);
    }

    #[test]
    fn what_failed_is_walked_through_whole_and_what_came_last_is_counted_in_the_end() {
        let mut walks = Walks::default();
        walks.whole(None, (at(0), at(60)));
        assert_eq!(walks.next(&seen(1), at(61)), Next::Whole, "something could not be fetched");
        walks.whole(Some(seen(1)), (at(61), at(62)));
        assert_eq!(walks.next(&seen(1), at(9999)), Next::Nothing);
        assert_eq!(walks.next(&seen(2), at(63)), Next::Since(seen(1)));
        walks.since(Some(seen(2)));
        assert_eq!(walks.next(&seen(2), at(64)), Next::Nothing);
        assert_eq!(walks.next(&seen(2), at(112)), Next::Whole);
        walks.whole(Some(seen(2)), (at(112), at(112)));
        assert_eq!(walks.next(&seen(3), at(112)), Next::Whole, "a small one costs nothing");
    }
}
