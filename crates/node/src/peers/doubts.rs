//! When a metered site asks on all its links whether their other ends are there, because one of them broke.
//!
//! If it was the modem all of them are dead, and none would notice for as long as it rests. Here because it needs nothing but
//! the time. Invariants: at most [`DOUBTS`] times in such a pause; after each link that breaks all are asked, at once or at the
//! next moment that this allows.

use std::time::Duration;

use skerry_base::Instant;

/// How often at most, in the time that a link rests, all links are asked because one broke.
const DOUBTS: u32 = 4;

/// When all links were asked last, and whether one broke since.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    last: Option<Instant>,
    broke: bool,
}

impl Doubts {
    /// A link broke.
    pub(super) const fn broke(&mut self) {
        self.broke = true;
    }

    /// The links do not rest: each asks often enough by itself.
    pub(super) const fn forget(&mut self) {
        self.broke = false;
    }

    /// Whether all are to be asked now, where links rest so long; then they count as asked.
    pub(super) fn are_due(&mut self, every: Duration, now: Instant) -> bool {
        let too_soon = self.last.is_some_and(|last| now.since(last) < every / DOUBTS);
        if !self.broke || too_soon {
            return false;
        }
        (self.broke, self.last) = (false, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn minute(minute: u64) -> Instant {
        Instant(1).after(Duration::from_secs(60 * minute))
    }

    #[test]
    fn a_link_that_breaks_soon_after_another_has_all_asked_later() {
        let mut doubts = Doubts::default();
        assert!(!doubts.are_due(HOUR, minute(0)), "none broke");
        doubts.broke();
        assert!(doubts.are_due(HOUR, minute(1)) && !doubts.are_due(HOUR, minute(1)));
        // The modem fails again: the links that answered before are not asked by themselves for an hour.
        doubts.broke();
        assert!((2..16).all(|at| !doubts.are_due(HOUR, minute(at))));
        assert!(doubts.are_due(HOUR, minute(16)), "put off, not dropped");
        assert!((17..90).all(|at| !doubts.are_due(HOUR, minute(at))), "once");
    }

    #[test]
    fn links_that_break_all_the_time_have_all_asked_four_times_in_a_pause() {
        let mut doubts = Doubts::default();
        let asked = |at: &u64| {
            doubts.broke();
            doubts.are_due(HOUR, minute(*at))
        };
        assert_eq!((0..240).filter(asked).count(), 16);
    }

    #[test]
    fn what_broke_while_links_did_not_rest_is_no_doubt() {
        let mut doubts = Doubts::default();
        doubts.broke();
        doubts.forget();
        assert!(!doubts.are_due(HOUR, minute(1)));
    }
}
