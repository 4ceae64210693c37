//! Who is asked to hold a version until it is as durable as was asked for (scope `sites=n`).
//!
//! Why here: which site is asked, and when another must be, is decided without a socket. The machine holds no
//! payload and knows no object; a site counts once it has said that it holds what it was asked to hold.
//!
//! Invariants: as many sites are asked at once as are lacking, nearest first, and one more for each that has not
//! answered in time; nobody is asked twice; a site counts once, and only if it was asked or held it from the start.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skerry_base::{Instant, SiteId};

/// How far a version has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// At as many sites as were asked for.
    Enough,
    /// Sites that were asked have not answered yet.
    Waiting,
    /// Nobody is left to be asked; so many hold it.
    Short(usize),
}

/// One version on its way to `n` sites.
#[derive(Debug, Clone)]
pub struct Reach {
    wanted: usize,
    /// How long a site may take before another is asked as well.
    patience: Duration,
    held: BTreeSet<SiteId>,
    /// With when each is late.
    asked: BTreeMap<SiteId, Instant>,
    waiting: VecDeque<SiteId>,
}

impl Reach {
    /// To `wanted` sites; `holder`, who asks, is one if it holds it; `others` can be asked, the best first.
    pub fn new(wanted: usize, holder: Option<SiteId>, others: impl IntoIterator<Item = SiteId>) -> Self {
        let held: BTreeSet<SiteId> = holder.into_iter().collect();
        let mut seen = held.clone();
        let waiting = others.into_iter().filter(|other| seen.insert(*other)).collect();
        Self { wanted, patience: Duration::MAX, held, asked: BTreeMap::new(), waiting }
    }

    /// Asks another site for each that has not answered after this time. It may still answer, and counts then.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The next site to be asked now, if one is lacking.
    pub fn ask(&mut self, now: Instant) -> Option<SiteId> {
        let in_time = self.asked.values().filter(|late| **late > now).count();
        if self.held.len() + in_time >= self.wanted {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.asked.insert(next, now.after(self.patience));
        Some(next)
    }

    /// When somebody else is to be asked if nobody answers before; none if nobody is left or nobody is late then.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        self.asked.values().copied().filter(|late| *late > now && !self.waiting.is_empty()).min()
    }

    /// A site that was asked holds it, durably.
    pub fn held(&mut self, site: SiteId) {
        if self.asked.remove(&site).is_some() {
            self.held.insert(site);
        }
    }

    /// A site that was asked cannot, or does not answer.
    pub fn failed(&mut self, site: SiteId) {
        self.asked.remove(&site);
    }

    /// How far it has got.
    pub fn reached(&self) -> Reached {
        match (self.held.len() >= self.wanted, self.asked.is_empty() && self.waiting.is_empty()) {
            (true, _) => Reached::Enough,
            (false, false) => Reached::Waiting,
            (false, true) => Reached::Short(self.held.len()),
        }
    }

    /// Who holds it.
    pub fn held_at(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.held.iter().copied()
    }

    /// How many hold it.
    pub fn holders(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    fn reach(wanted: usize, others: &[u8]) -> Reach {
        Reach::new(wanted, Some(site(0)), others.iter().copied().map(site))
    }

    fn asks(reach: &mut Reach) -> Vec<SiteId> {
        asks_at(reach, 1)
    }

    fn asks_at(reach: &mut Reach, second: u64) -> Vec<SiteId> {
        std::iter::from_fn(|| reach.ask(Instant(second * 1_000_000_000))).collect()
    }

    #[test]
    fn who_is_slow_is_not_waited_for_alone() {
        let mut reach = reach(3, &[1, 2, 3, 4]).with_patience(Duration::from_secs(2));
        assert_eq!(asks_at(&mut reach, 1), [site(1), site(2)]);
        assert_eq!(
            (asks_at(&mut reach, 2), reach.next_wake(Instant(2_000_000_000))),
            (vec![], Some(Instant(3_000_000_000)))
        );
        reach.held(site(2));
        assert_eq!(asks_at(&mut reach, 3), [site(3)], "one is late, one is lacking");
        assert_eq!(asks_at(&mut reach, 4), []);
        reach.held(site(1));
        assert_eq!((reach.reached(), reach.holders()), (Reached::Enough, 3), "late is not never");
    }

    #[test]
    fn nobody_is_woken_for_when_nobody_is_left() {
        let mut reach = reach(2, &[1]).with_patience(Duration::from_secs(2));
        assert_eq!((asks(&mut reach), reach.next_wake(Instant(0))), (vec![site(1)], None));
        assert_eq!((asks_at(&mut reach, 9), reach.reached()), (vec![], Reached::Waiting));
        reach.failed(site(1));
        assert_eq!(reach.reached(), Reached::Short(1));
    }

    #[test]
    fn as_many_are_asked_as_are_lacking_and_the_nearest_first() {
        let mut reach = reach(3, &[1, 2, 3, 4]);
        assert_eq!(asks(&mut reach), [site(1), site(2)]);
        reach.held(site(2));
        assert_eq!((asks(&mut reach), reach.reached()), (vec![], Reached::Waiting));
        reach.failed(site(1));
        assert_eq!(asks(&mut reach), [site(3)]);
        reach.held(site(3));
        assert_eq!((reach.reached(), reach.holders()), (Reached::Enough, 3));
    }

    #[test]
    fn who_is_short_of_sites_says_how_far_it_came() {
        let mut reach = reach(3, &[1, 2]);
        asks(&mut reach);
        reach.failed(site(1));
        assert_eq!(reach.reached(), Reached::Waiting);
        reach.held(site(2));
        assert_eq!(reach.reached(), Reached::Short(2));
    }

    #[test]
    fn a_site_counts_once_and_only_if_it_was_asked() {
        let mut reach = reach(3, &[1, 1, 0, 2]);
        reach.held(site(2));
        assert_eq!(reach.holders(), 1);
        assert_eq!(asks(&mut reach), [site(1), site(2)]);
        reach.held(site(1));
        reach.held(site(1));
        reach.held(site(9));
        assert_eq!((reach.holders(), reach.reached()), (2, Reached::Waiting));
    }

    #[test]
    fn who_does_not_hold_it_does_not_count() {
        let mut reach = Reach::new(1, None, [site(1)]);
        assert_eq!(
            (reach.holders(), reach.reached(), asks(&mut reach)),
            (0, Reached::Waiting, vec![site(1)])
        );
    }

    #[test]
    fn one_site_is_reached_at_once() {
        assert_eq!(reach(1, &[1]).reached(), Reached::Enough);
    }
}
