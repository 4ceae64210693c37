//! Sites that are waited for, and until when: who is neither linked nor alive, before it is taken for absent; who is to be greeted.
//!
//! Why here: at the start of a large federation these are nearly all sites, and at each step it is asked whether one is due.
//! Invariant: both tables name the same sites, each once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

/// All of one kind.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    until: BTreeMap<SiteId, Instant>,
    order: BTreeSet<(Instant, SiteId)>,
}

impl Waits {
    /// A site is waited for from now on; one that is already is so no longer for it.
    pub(crate) fn add(&mut self, site: SiteId, until: Instant) {
        if let Entry::Vacant(free) = self.until.entry(site) {
            free.insert(until);
            self.order.insert((until, site));
        }
    }

    /// It is not any more.
    pub(crate) fn remove(&mut self, site: SiteId) {
        if let Some(until) = self.until.remove(&site) {
            self.order.remove(&(until, site));
        }
    }

    /// When the next is due.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.order.first().map(|(until, _)| *until)
    }

    /// One that is due by now, and waited for no more.
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
        let mut waits = Waits::default();
        for (n, until) in [(3, 10), (1, 20), (2, 10), (3, 30), (4, 5)] {
            waits.add(site(n), Instant(until));
        }
        waits.remove(site(4));
        waits.remove(site(9));
        assert_eq!((waits.next_wake(), waits.take(Instant(9))), (Some(Instant(10)), None));
        let due: Vec<SiteId> = core::iter::from_fn(|| waits.take(Instant(15))).collect();
        assert_eq!(due, [site(2), site(3)], "missed again is missed since before");
        assert_eq!(waits.next_wake(), Some(Instant(20)));
        waits.add(site(3), Instant(12));
        assert_eq!(waits.next_wake(), Some(Instant(12)), "anew after it was absent");
    }
}
