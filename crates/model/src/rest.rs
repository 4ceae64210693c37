//! How long what a site has seen of a bucket has rested there, by a clock that nobody sets.
//!
//! Why: tombstones go a day after they came, so that feeds carry them once and readers of single records meet them. The
//! stamps of records come from walls, here and elsewhere, and walls are wrong: a clock that was never set, or one that jumps
//! ahead, would make a tombstone of this minute a day old. So no wall is asked: what counts is time in which this site ran,
//! and what its vector covered at the beginning of it.
//!
//! Invariants: what has rested was covered here for at least the whole span of counted time; time that is not counted (the
//! site was off) makes it longer, never shorter.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use skerry_base::Vector;
use skerry_base::codec::Versioned;

/// What has rested, and what is resting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rest {
    rested: Vector,
    resting: Vector,
    since_ms: u64,
}

impl Versioned for Rest {
    const NAME: &'static str = "what has rested of a bucket";
    const VERSION: u8 = 1;
}

impl Rest {
    /// What is covered now begins to rest.
    pub fn begin(seen: &Vector, counted_ms: u64) -> Self {
        Self { rested: Vector::new(), resting: seen.clone(), since_ms: counted_ms }
    }

    /// So much is covered now, and so much time was counted in all. Whether anything changed, which is worth storing. What
    /// rested is a span old at least, and two at most while the site runs.
    pub fn look(&mut self, seen: &Vector, counted_ms: u64, span: Duration) -> bool {
        // A vector that has shrunk is another one (the bucket was left, a backup was put back); so is time that has.
        if !seen.includes(&self.resting) || counted_ms < self.since_ms {
            *self = Self::begin(seen, counted_ms);
            return true;
        }
        let all_rested = self.rested == *seen && self.resting == *seen;
        if all_rested || u128::from(counted_ms - self.since_ms) < span.as_millis() {
            return false;
        }
        self.rested = core::mem::replace(&mut self.resting, seen.clone());
        self.since_ms = counted_ms;
        true
    }

    /// What has rested.
    pub const fn rested(&self) -> &Vector {
        &self.rested
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use skerry_base::{NodeId, Origin, codec};

    const SPAN: Duration = Duration::from_secs(100);

    fn seen(seq: u64) -> Vector {
        [(Origin { node: NodeId([1; 16]), incarnation: 2 }, seq)].into_iter().collect()
    }

    #[test]
    fn what_is_covered_has_rested_after_a_whole_span_of_counted_time() {
        let mut rest = Rest::begin(&seen(5), 1000);
        assert!(!rest.look(&seen(9), 100_999, SPAN));
        assert_eq!(rest.rested(), &Vector::new());
        assert!(rest.look(&seen(9), 101_000, SPAN));
        assert_eq!(rest.rested(), &seen(5), "what came since has not");
        assert!(!rest.look(&seen(12), 200_999, SPAN));
        assert!(rest.look(&seen(12), 201_000, SPAN));
        assert_eq!(rest.rested(), &seen(9));
        assert!(rest.look(&seen(12), 301_000, SPAN));
        assert_eq!(rest.rested(), &seen(12));
        assert!(!rest.look(&seen(12), 900_000, SPAN), "nothing new, nothing to store");
        assert!(rest.look(&seen(13), 900_001, SPAN));
        assert_eq!(rest.rested(), &seen(12), "what came just now has not");
        assert!(!rest.look(&seen(13), 1_000_000, SPAN));
        assert!(rest.look(&seen(13), 1_000_001, SPAN));
        assert_eq!(rest.rested(), &seen(13));
    }

    #[test]
    fn who_covers_less_than_before_begins_anew_and_so_does_time_that_went_back() {
        for (vector, counted) in [(seen(3), 150_000), (seen(9), 999)] {
            let mut rest = Rest::begin(&seen(5), 1000);
            assert!(rest.look(&seen(5), 101_000, SPAN));
            assert_eq!(rest.rested(), &seen(5));
            assert!(rest.look(&vector, counted, SPAN));
            assert_eq!(rest, Rest::begin(&vector, counted));
        }
    }

    /// Fixture of version 1: must decode for ever.
    #[test]
    fn version_1_is_what_it_was() {
        let mut rest = Rest::begin(&seen(5), 1000);
        assert!(rest.look(&seen(9), 101_000, SPAN));
        let bytes = codec::encode(&rest);
        let entry = |seq| [&[1][..], &[1; 16], &[2, seq]].concat();
        assert_eq!(bytes, [&[1][..], &entry(5), &entry(9), &[0x88, 0x95, 6]].concat());
        assert_eq!(codec::decode::<Rest>(&bytes).unwrap(), rest);
    }
}
