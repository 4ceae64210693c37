//! The sites as this one sees them: in the roster, linked, how far.
//!
//! Invariants: this site is never among them; who leaves the roster leaves every table; distance is a smoothed
//! round trip, and equal distances are ordered by id, so that all machines choose alike.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::SiteId;

use crate::{SiteEntry, limits};

/// Roster, links and round trips.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    me: SiteId,
    roster: BTreeSet<SiteId>,
    links: BTreeSet<SiteId>,
    rtts: BTreeMap<SiteId, Duration>,
}

impl Peers {
    pub(crate) fn new(me: SiteId) -> Self {
        Self { me, ..Self::default() }
    }

    /// Takes the roster; answers who is gone.
    pub(crate) fn set_roster(&mut self, entries: &[SiteEntry]) -> Vec<SiteId> {
        let sites = entries.iter().map(|entry| entry.site).filter(|site| *site != self.me);
        let roster: BTreeSet<SiteId> = sites.take(limits::SITES).collect();
        let gone = self.roster.difference(&roster).copied().collect();
        self.rtts.retain(|site, _| roster.contains(site));
        self.roster = roster;
        gone
    }

    pub(crate) const fn roster(&self) -> &BTreeSet<SiteId> {
        &self.roster
    }

    pub(crate) fn knows(&self, site: SiteId) -> bool {
        self.roster.contains(&site)
    }

    /// A link may be up before the roster says who it is: it is remembered and counts from then on.
    pub(crate) fn link_up(&mut self, site: SiteId) {
        if site != self.me && self.links.len() < 2 * limits::SITES {
            self.links.insert(site);
        }
    }

    pub(crate) fn link_down(&mut self, site: SiteId) {
        self.links.remove(&site);
    }

    pub(crate) fn is_linked(&self, site: SiteId) -> bool {
        self.links.contains(&site) && self.roster.contains(&site)
    }

    /// Smoothed over about eight measurements, as TCP does.
    pub(crate) fn measured(&mut self, site: SiteId, rtt: Duration) {
        if self.knows(site) {
            self.rtts.entry(site).and_modify(|old| *old = (*old * 7 + rtt) / 8).or_insert(rtt);
        }
    }

    pub(crate) fn rtt(&self, site: SiteId) -> Duration {
        self.rtts.get(&site).copied().unwrap_or(limits::RTT_UNKNOWN)
    }

    /// What to sort by to have the nearest first.
    pub(crate) fn distance(&self, site: SiteId) -> (Duration, SiteId) {
        (self.rtt(site), site)
    }

    /// All linked sites of the roster, nearest first.
    pub(crate) fn near(&self) -> Vec<SiteId> {
        self.nearest(self.links.iter().copied())
    }

    /// Those of `sites` that are linked, nearest first.
    pub(crate) fn nearest(&self, sites: impl Iterator<Item = SiteId>) -> Vec<SiteId> {
        let mut linked: Vec<SiteId> = sites.filter(|site| self.is_linked(*site)).collect();
        linked.sort_by_key(|site| self.distance(*site));
        linked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    fn entries(sites: &[u8]) -> Vec<SiteEntry> {
        sites.iter().map(|n| SiteEntry { site: site(*n) }).collect()
    }

    #[test]
    fn a_link_counts_once_the_roster_names_the_site() {
        let mut peers = Peers::new(site(1));
        peers.link_up(site(2));
        assert!(!peers.is_linked(site(2)));
        peers.set_roster(&entries(&[1, 2, 3]));
        assert!(peers.is_linked(site(2)));
        assert_eq!(peers.set_roster(&entries(&[1, 3])), vec![site(2)]);
        assert!(!peers.is_linked(site(2)));
    }

    #[test]
    fn nearest_first_and_this_site_never() {
        let mut peers = Peers::new(site(1));
        peers.set_roster(&entries(&[1, 2, 3, 4]));
        (1..=4).for_each(|n| peers.link_up(site(n)));
        peers.measured(site(2), Duration::from_millis(90));
        peers.measured(site(3), Duration::from_millis(10));
        assert_eq!(peers.near(), vec![site(3), site(2), site(4)]);
        peers.link_down(site(3));
        assert_eq!(peers.near(), vec![site(2), site(4)]);
    }
}
