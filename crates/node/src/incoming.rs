//! Memory for chunks of uploads: half of it for those that come quickly, the other half for those that do not.
//!
//! Why: a chunk takes its room when it begins, so clients with thin lines would hold all of it while clients nearby wait, and
//! room for both at once would be filled by the quick ones, who gain nothing from more of it than the processors keep up with.
//! Invariants: every chunk begins in the quick half; it goes over to the other half once it is slow, as far as there is room;
//! both halves together are what was set aside.

use std::time::Duration;

use skerry_base::Instant;
use skerry_gateway::service::{Bound, Outcome, Reason};

use crate::bulk::{Bulk, Grant};

/// A chunk that takes longer than this to come is slow: less than 4 MiB a second.
pub(crate) const SLOW: Duration = Duration::from_millis(250);

/// Room for chunks of uploads. Clones are the same room.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    quick: Bulk,
    slow: Bulk,
}

impl Incoming {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let half = || Bulk::new(bytes / 2).refusing(Reason::Incoming);
        Self { quick: half(), slow: half() }
    }

    /// Room for a chunk of so many bytes, if there is now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Grant> {
        self.quick.try_take(bytes)
    }

    /// The same in order of asking.
    pub(crate) async fn take(&self, bytes: usize) -> Outcome<Grant> {
        self.quick.take(bytes).await
    }

    /// Whether a chunk holds up those that come quickly.
    pub(crate) fn is_in_the_way(&self, grant: &Grant) -> bool {
        self.quick.gave(grant)
    }

    /// The room of a chunk, among the slow ones from now on if there is some for it.
    pub(crate) fn make_way(&self, grant: Grant) -> Grant {
        if self.is_in_the_way(&grant) { self.slow.try_instead(&grant).unwrap_or(grant) } else { grant }
    }

    /// Whether a chunk that is whole may stay for a while.
    pub(crate) fn is_plenty(&self) -> bool {
        self.quick.taken() <= self.quick.bytes() / 2
    }

    /// All of it, taken or not.
    pub(crate) const fn bytes(&self) -> usize {
        self.quick.bytes() + self.slow.bytes()
    }

    /// What is taken now.
    pub(crate) fn taken(&self) -> usize {
        self.quick.taken() + self.slow.taken()
    }

    /// As metrics have it.
    pub(crate) fn bound(&self, of: &'static str) -> Bound {
        Bound::bytes(of, self.bytes() as u64, self.taken() as u64)
    }
}

/// Whether what began then is slow by now.
pub(crate) fn is_slow(began: Instant, now: Instant) -> bool {
    now.since(began) > SLOW
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const CHUNK: usize = 1 << 20;

    #[test]
    fn slow_chunks_leave_the_quick_half_to_others_as_far_as_there_is_room() {
        let room = Incoming::new(4 * CHUNK);
        let mut held: Vec<_> = [(); 2].map(|()| room.try_take(CHUNK).unwrap()).into();
        assert!(room.try_take(CHUNK).is_none(), "the other half is for slow ones");
        held = held.into_iter().map(|grant| room.make_way(grant)).collect();
        assert!(held.iter().all(|grant| !room.is_in_the_way(grant)));
        held.extend([(); 2].map(|()| room.try_take(CHUNK).unwrap()));
        // Those have nowhere to go, and those that went stay where they are.
        held = held.into_iter().map(|grant| room.make_way(grant)).collect();
        assert_eq!(held.iter().filter(|grant| room.is_in_the_way(grant)).count(), 2);
        assert_eq!((room.taken(), room.bytes()), (4 * CHUNK, 4 * CHUNK));
        held.clear();
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_chunk_is_slow_below_4_mib_a_second() {
        let after = |ms: u64| is_slow(Instant(7), Instant(7 + ms * 1_000_000));
        assert_eq!((after(0), after(250), after(251)), (false, false, true));
        assert!(!is_slow(Instant(7), Instant(0)), "clocks of two starts");
    }
}
