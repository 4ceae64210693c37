//! Who is neither linked nor alive, and when each of them is taken for absent.
//!
//! Why here: at the start of a large federation these are nearly all sites, and at each step it is asked whether one is due.
//! Invariant: both tables name the same sites, each once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

/// Those of one site.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    until: BTreeMap<SiteId, Instant>,
    order: BTreeSet<(Instant, SiteId)>,
}

impl Missed {
    /// A site is missed from now on; who is missed already is absent no later for it.
    pub(crate) fn add(&mut self, site: SiteId, until: Instant) {
        if let Entry::Vacant(free) = self.until.entry(site) {
            free.insert(until);
            self.order.insert((until, site));
        }
    }

    /// It is there, or does not belong.
    pub(crate) fn remove(&mut self, site: SiteId) {
        if let Some(until) = self.until.remove(&site) {
            self.order.remove(&(until, site));
        }
    }

    /// When the next is taken for absent.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.order.first().map(|(until, _)| *until)
    }

    /// One that is absent by now, and missed no more.
    pub(crate) fn take(&mut self, now: Instant) -> Option<SiteId> {
        let (_, site) = self.order.first().copied().filter(|(until, _)| *until <= now)?;
        self.remove(site);
        Some(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    #[test]
    fn each_is_absent_in_its_time_and_who_came_back_is_not() {
        let mut missed = Missed::default();
        for (n, until) in [(3, 10), (1, 20), (2, 10), (3, 30), (4, 5)] {
            missed.add(site(n), Instant(until));
        }
        missed.remove(site(4));
        missed.remove(site(9));
        assert_eq!((missed.next_wake(), missed.take(Instant(9))), (Some(Instant(10)), None));
        let due: Vec<SiteId> = core::iter::from_fn(|| missed.take(Instant(15))).collect();
        assert_eq!(due, [site(2), site(3)], "missed again is missed since before");
        assert_eq!(missed.next_wake(), Some(Instant(20)));
        missed.add(site(3), Instant(12));
        assert_eq!(missed.next_wake(), Some(Instant(12)), "anew after it was absent");
    }
}
