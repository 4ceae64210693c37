//! The sites as this one sees them: in the roster, linked, how far, and which of them are its landmarks.
//!
//! Who is there for the landmarks' sake: everybody in the roster but those that SWIM calls dead and those that
//! were neither linked nor heard of for [`limits::ABSENT`]. With one level everybody linked is a landmark.
//!
//! *Linked* is over whom a link stands: what is said over links that stand, and of links, asks that. *Reachable* is who can be
//! asked or told something: what this site wants to say asks that, and so does whoever takes "nobody can be reached" for an
//! answer. Today both are the same, as all sites keep links to all (docs/decisions/2026-11-26-links-on-demand.md).
//!
//! Invariants: this site is never among them; who leaves the roster leaves every table; distance is a smoothed
//! round trip, and equal distances are ordered by id, so that all machines choose alike.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

use crate::areas::view::{Entry, View};
use crate::areas::{Coordinate, Landmark, level};
use crate::message::Place;
use crate::waits::Waits;
use crate::{Config, SiteEntry, limits, rest};

/// Roster, links, round trips and landmarks.
#[derive(Debug)]
pub(crate) struct Peers {
    me: SiteId,
    dialect: u8,
    roster: BTreeSet<SiteId>,
    links: BTreeSet<SiteId>,
    rtts: BTreeMap<SiteId, Duration>,
    view: View,
    landmarks: BTreeSet<SiteId>,
    /// K, and this site's own level, when they were drawn.
    part: (u8, u8),
    /// What the other end of a link understands, once it has said so.
    speaks: BTreeMap<SiteId, u8>,
    /// What each site said last of that, over links that came and went: it draws landmarks as it did before its link broke.
    said: BTreeMap<SiteId, u8>,
    alive: BTreeSet<SiteId>,
    missed: Waits,
    /// Who pays by the records, this site among them: it weighs nothing in the draw of landmarks.
    light: BTreeSet<SiteId>,
    /// This site pays for what crosses, but to and from the free ones; and so does who said so.
    pays: Option<Duration>,
    free: BTreeSet<SiteId>,
    payers: BTreeMap<SiteId, Duration>,
    /// The other nodes of this site.
    fellows: BTreeSet<SiteId>,
}

impl Peers {
    pub(crate) fn new(config: &Config) -> Self {
        let levels = if config.dialect < limits::AREAS { Some(1) } else { config.levels };
        let view = View::new(config.site, level::WEIGHT_ONE, seed(config), 1).with_k(levels);
        Self {
            me: config.site,
            dialect: config.dialect,
            roster: BTreeSet::new(),
            links: BTreeSet::new(),
            rtts: BTreeMap::new(),
            view,
            landmarks: BTreeSet::new(),
            part: (1, 0),
            speaks: BTreeMap::new(),
            said: BTreeMap::new(),
            alive: BTreeSet::new(),
            missed: Waits::default(),
            light: BTreeSet::new(),
            pays: None,
            free: BTreeSet::new(),
            payers: BTreeMap::new(),
            fellows: BTreeSet::new(),
        }
    }

    /// Takes the roster; answers who is gone.
    pub(crate) fn set_roster(&mut self, entries: &[SiteEntry], now: Instant) -> Vec<SiteId> {
        let sites = entries.iter().map(|entry| entry.site).filter(|site| *site != self.me);
        let roster: BTreeSet<SiteId> = sites.take(limits::SITES).collect();
        let gone: Vec<SiteId> = self.roster.difference(&roster).copied().collect();
        let come: Vec<SiteId> = roster.difference(&self.roster).copied().collect();
        self.rtts.retain(|site, _| roster.contains(site));
        self.speaks.retain(|site, _| roster.contains(site));
        let links = &self.links;
        self.said.retain(|site, _| roster.contains(site) || links.contains(site));
        self.payers.retain(|site, _| roster.contains(site));
        let first = self.roster.is_empty();
        self.roster = roster;
        self.weigh(entries, now);
        for site in &gone {
            self.alive.remove(site);
            self.missed.remove(*site);
            self.view.gone(*site, now);
        }
        for site in come {
            self.there(site, now);
            self.miss(site, now);
        }
        if first {
            // Not with one level first and then with more: the sites that the first would be told to would be told
            // again that they are none.
            self.view.redraw(now);
            self.landmarks = self.view.landmarks().into_iter().map(|landmark| landmark.site).collect();
        }
        gone
    }

    /// Takes from the roster who pays. The view is drawn anew where that changed, as where sites come and go.
    fn weigh(&mut self, entries: &[SiteEntry], now: Instant) {
        let pay = entries.iter().filter(|entry| entry.pays).map(|entry| entry.site);
        let light = pay.filter(|site| *site == self.me || self.roster.contains(site)).collect();
        let before = core::mem::replace(&mut self.light, light);
        let turned = before.symmetric_difference(&self.light).filter(|site| self.view.knows(**site));
        let turned: Vec<SiteId> = turned.copied().collect();
        for site in turned {
            self.view.come(Entry { site, weight: self.weight(site), coordinate: None }, now);
        }
    }

    fn weight(&self, site: SiteId) -> u8 {
        if self.light.contains(&site) { level::WEIGHT_NONE } else { level::WEIGHT_ONE }
    }

    /// Whether a site pays by the records.
    pub(crate) fn is_light(&self, site: SiteId) -> bool {
        self.light.contains(&site)
    }

    /// Whether a site said last that it is of a release that draws landmarks without asking who pays: it may tell others than
    /// everybody else does, for as long as it is there, linked or not.
    pub(crate) fn draws_otherwise(&self, site: SiteId) -> bool {
        let before = |dialect: &u8| (limits::AREAS..limits::LIGHT).contains(dialect);
        !self.light.is_empty() && self.said.get(&site).is_some_and(before)
    }

    /// How many sites of a roster that was taken are too many.
    pub(crate) fn left_out(&self, entries: &[SiteEntry]) -> usize {
        let others = entries.iter().filter(|entry| entry.site != self.me).count();
        others.saturating_sub(self.roster.len())
    }

    fn there(&mut self, site: SiteId, now: Instant) {
        self.missed.remove(site);
        if self.roster.contains(&site) && !self.view.knows(site) {
            self.view.come(Entry { site, weight: self.weight(site), coordinate: None }, now);
        }
    }

    fn miss(&mut self, site: SiteId, now: Instant) {
        if self.knows(site) && !self.links.contains(&site) && !self.alive.contains(&site) {
            self.missed.add(site, now.after(limits::ABSENT));
        }
    }

    pub(crate) const fn roster(&self) -> &BTreeSet<SiteId> {
        &self.roster
    }

    pub(crate) fn knows(&self, site: SiteId) -> bool {
        self.roster.contains(&site)
    }

    /// A link may be up before the roster says who it is: it is remembered and counts from then on.
    pub(crate) fn link_up(&mut self, site: SiteId, now: Instant) {
        if site != self.me && self.links.len() < 2 * limits::SITES {
            self.links.insert(site);
            self.speaks.remove(&site);
            self.there(site, now);
        }
    }

    pub(crate) fn link_down(&mut self, site: SiteId, now: Instant) {
        self.links.remove(&site);
        self.speaks.remove(&site);
        if !self.knows(site) {
            self.said.remove(&site);
        }
        self.miss(site, now);
    }

    /// What SWIM says of a site.
    pub(crate) fn lives(&mut self, site: SiteId, alive: bool, now: Instant) {
        if alive {
            self.alive.insert(site);
            self.there(site, now);
        } else {
            self.alive.remove(&site);
            self.view.gone(site, now);
        }
    }

    pub(crate) fn is_linked(&self, site: SiteId) -> bool {
        self.links.contains(&site) && self.roster.contains(&site)
    }

    /// Whether something can be said to it: a link stands. Not the same as [`Self::is_linked`] once links are made when there is
    /// something to be said.
    pub(crate) fn is_reachable(&self, site: SiteId) -> bool {
        self.is_linked(site)
    }

    /// Smoothed over about eight measurements, as TCP does.
    pub(crate) fn measured(&mut self, site: SiteId, rtt: Duration, now: Instant) {
        if self.knows(site) {
            self.rtts.entry(site).and_modify(|old| *old = (*old * 7 + rtt) / 8).or_insert(rtt);
            self.view.measured(site, rtt, now);
        }
    }

    pub(crate) fn rtt(&self, site: SiteId) -> Duration {
        self.rtts.get(&site).copied().unwrap_or(limits::RTT_UNKNOWN)
    }

    /// What to sort by to have the nearest first.
    pub(crate) fn distance(&self, site: SiteId) -> (Duration, SiteId) {
        (self.rtt(site), site)
    }

    /// How many sites are linked, of the roster or not in it yet.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// All sites of the roster that can be asked, in whatever order.
    pub(crate) fn in_reach(&self) -> impl Iterator<Item = SiteId> {
        self.roster.iter().copied().filter(|site| self.is_reachable(*site))
    }

    /// The same, nearest first.
    pub(crate) fn near(&self) -> Vec<SiteId> {
        self.nearest(self.links.iter().copied())
    }

    /// Those of `sites` that are linked, nearest first.
    pub(crate) fn nearest(&self, sites: impl Iterator<Item = SiteId>) -> Vec<SiteId> {
        self.by_distance(sites.filter(|site| self.is_linked(*site)))
    }

    /// Those of `sites` that can be asked, nearest first.
    pub(crate) fn reachable(&self, sites: impl Iterator<Item = SiteId>) -> Vec<SiteId> {
        self.by_distance(sites.filter(|site| self.is_reachable(*site)))
    }

    /// All sites of the roster that can be asked, nearest first.
    pub(crate) fn all_reachable(&self) -> Vec<SiteId> {
        self.by_distance(self.in_reach())
    }

    fn by_distance(&self, sites: impl Iterator<Item = SiteId>) -> Vec<SiteId> {
        let mut sites: Vec<SiteId> = sites.collect();
        // The distance of each is looked up once: there may be a thousand.
        sites.sort_by_cached_key(|site| self.distance(*site));
        sites
    }
}

/// Landmarks.
impl Peers {
    pub(crate) const fn view(&self) -> &View {
        &self.view
    }

    /// With one level every site is told and asked by every other.
    pub(crate) const fn one_level(&self) -> bool {
        self.view.k() == 1
    }

    /// Landmarks that can be asked, nearest first.
    pub(crate) fn landmarks(&self) -> Vec<SiteId> {
        match self.one_level() {
            true => self.all_reachable(),
            false => self.reachable(self.landmarks.iter().copied()),
        }
    }

    /// The same that everybody tells what they hold, nearest first.
    pub(crate) fn top(&self) -> Vec<SiteId> {
        self.landmarks().into_iter().filter(|site| self.is_top(*site)).collect()
    }

    /// Whether everybody tells this one what they hold, and it can be asked.
    pub(crate) fn is_top(&self, site: SiteId) -> bool {
        self.is_reachable(site) && self.view.level(site) + 1 >= self.view.k()
    }

    /// Whether this site tells that one what it holds: a landmark, or one that knows nothing of landmarks.
    pub(crate) fn tells(&self, site: SiteId) -> bool {
        let old = self.speaks.get(&site).is_some_and(|dialect| *dialect < limits::AREAS);
        self.one_level() || old || self.landmarks.contains(&site)
    }

    /// Whether both ends understand what came with areas.
    pub(crate) fn understands(&self, site: SiteId) -> bool {
        self.speaks_at_least(site, limits::AREAS)
    }

    /// Whether both ends speak this dialect.
    pub(crate) fn speaks_at_least(&self, site: SiteId, dialect: u8) -> bool {
        self.dialect >= dialect && self.speaks.get(&site).is_some_and(|theirs| *theirs >= dialect)
    }

    pub(crate) fn speaks(&mut self, site: SiteId, dialect: u8) {
        if self.links.contains(&site) {
            self.speaks.insert(site, dialect);
            self.said.insert(site, dialect);
        }
    }

    /// These, and no others, are nodes of this site.
    pub(crate) fn set_fellows(&mut self, fellows: BTreeSet<SiteId>) {
        self.fellows = fellows;
    }

    /// Whether it is another node of this site.
    pub(crate) fn is_fellow(&self, site: SiteId) -> bool {
        self.fellows.contains(&site)
    }

    /// This site pays for what crosses to and from all but these, or does not.
    pub(crate) fn set_pays(&mut self, pays: Option<Duration>, free: BTreeSet<SiteId>) {
        (self.pays, self.free) = (pays, free);
    }

    /// Another does, or does not.
    pub(crate) fn set_payer(&mut self, site: SiteId, every: Option<Duration>) {
        match every {
            Some(every) => self.payers.insert(site, every),
            None => self.payers.remove(&site),
        };
    }

    /// Whether another said that it pays for what crosses the link to it.
    pub(crate) fn is_payer(&self, site: SiteId) -> bool {
        self.payers.contains_key(&site)
    }

    /// The longest pause between its safety-net checks.
    pub(crate) const fn check_max(&self) -> Duration {
        if self.pays.is_some() { limits::CHECK_PAID } else { limits::CHECK_MAX }
    }

    /// The same between its questions who else is a member.
    pub(crate) const fn census_max(&self) -> Duration {
        if self.pays.is_some() { limits::CENSUS_PAID } else { limits::CHECK_MAX }
    }

    /// Whether there are so many sites that what each says to all has to be little: the same number everywhere, as the roster is.
    pub(crate) fn is_crowded(&self) -> bool {
        rest::crowded(self.roster.len() as u64).is_some()
    }

    /// How long the link to a site rests, if one of its ends pays for it.
    pub(crate) fn rests(&self, site: SiteId) -> Option<Duration> {
        self.pays_for(site).max(self.payers.get(&site).copied())
    }

    /// How long the link to a site rests, if longer than others do: because one of its ends pays, or because there are very many.
    pub(crate) fn silence(&self, site: SiteId) -> Option<Duration> {
        self.rests(site).max(rest::crowded(self.roster.len() as u64))
    }

    /// Whether this end pays for what crosses to and from a site: to the other nodes of its own site it does not.
    pub(crate) fn pays_for(&self, site: SiteId) -> Option<Duration> {
        self.pays.filter(|_| !self.free.contains(&site))
    }

    /// Where a site says it is; false if it can not have said so honestly.
    pub(crate) fn placed(&mut self, site: SiteId, place: &Place, now: Instant) -> bool {
        let Ok(coordinate) = Coordinate::from_bytes(&place.coordinate) else { return false };
        if self.view.knows(site) {
            let weight = self.weight(site);
            self.view.come(Entry { site, weight, coordinate: Some(coordinate) }, now);
            if place.rtt_micros > 0 {
                self.view.theirs(site, Duration::from_micros(place.rtt_micros.into()), now);
            }
            self.view.heard_k(place.k, now);
        }
        true
    }

    /// Who is there but this site.
    pub(crate) fn present(&self) -> impl Iterator<Item = SiteId> {
        self.view.everybody().filter(|site| *site != self.me)
    }

    /// Of these holders the one by way of which an answer reaches the asker first, and the nearest one if that is
    /// another: see docs/areas.md.
    pub(crate) fn on_the_way(&self, holders: &[SiteId], asker: SiteId) -> Vec<SiteId> {
        let distances = self.view.distances();
        let way = |site: &SiteId| (self.rtt(*site) + distances.onward(*site, (asker, None)), *site);
        let best = holders.iter().copied().min_by_key(way);
        let nearest = holders.iter().copied().min_by_key(|site| self.distance(*site));
        let mut chosen: Vec<SiteId> = best.into_iter().chain(nearest).collect();
        chosen.dedup();
        chosen
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.view.next_wake().into_iter().chain(self.missed.next_wake()).min()
    }

    /// Draws the landmarks anew if it is time; whether they, or K, may be others now.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        while let Some(site) = self.missed.take(now) {
            self.view.gone(site, now);
        }
        if self.view.settle(now).is_none() {
            return false;
        }
        let landmarks = self.view.landmarks().iter().map(|landmark: &Landmark| landmark.site).collect();
        let part = (self.view.k(), self.view.level(self.me));
        let before =
            (core::mem::replace(&mut self.landmarks, landmarks), core::mem::replace(&mut self.part, part));
        // Among many somebody comes or goes all the time, mostly far from here.
        !self.is_crowded() || before.0 != self.landmarks || before.1 != self.part
    }
}

/// The same at all sites of a federation: it decides who is a landmark.
fn seed(config: &Config) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("skerry 2026-11-22 levels of landmarks");
    config.system.iter().for_each(|bucket| {
        hasher.update(&bucket.0);
    });
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    fn entries(sites: impl IntoIterator<Item = u8>) -> Vec<SiteEntry> {
        sites.into_iter().map(|n| SiteEntry { site: site(n), pays: false }).collect()
    }

    fn peers() -> Peers {
        Peers::new(&Config::new(site(1), 1, 1))
    }

    #[test]
    fn a_link_counts_once_the_roster_names_the_site() {
        let mut peers = peers();
        peers.link_up(site(2), Instant(1));
        assert!(!peers.is_linked(site(2)));
        peers.set_roster(&entries([1, 2, 3]), Instant(1));
        assert!(peers.is_linked(site(2)));
        assert_eq!(peers.set_roster(&entries([1, 3]), Instant(2)), vec![site(2)]);
        assert!(!peers.is_linked(site(2)));
    }

    /// As long as all keep links to all. Who makes links when there is something to be said, decides it here.
    #[test]
    fn who_can_be_asked_is_who_is_linked() {
        let mut peers = peers();
        peers.set_roster(&entries(1..=20), Instant(1));
        for step in 1..200_u64 {
            let n = (step * 7 % 23) as u8 + 1;
            match step % 3 {
                0 => peers.link_down(site(n), Instant(step)),
                1 => peers.link_up(site(n), Instant(step)),
                _ => drop(peers.set_roster(&entries((1..=22).filter(|other| *other != n)), Instant(step))),
            }
            let same = |n: u8| peers.is_reachable(site(n)) == peers.is_linked(site(n));
            assert!((1..=24).all(same), "after {step}");
            assert_eq!(peers.all_reachable(), peers.near(), "after {step}");
        }
    }

    #[test]
    fn nearest_first_and_this_site_never() {
        let mut peers = peers();
        peers.set_roster(&entries([1, 2, 3, 4]), Instant(1));
        (1..=4).for_each(|n| peers.link_up(site(n), Instant(1)));
        peers.measured(site(2), Duration::from_millis(90), Instant(1));
        peers.measured(site(3), Duration::from_millis(10), Instant(1));
        assert_eq!(peers.near(), vec![site(3), site(2), site(4)]);
        assert_eq!(peers.landmarks(), peers.near());
        peers.link_down(site(3), Instant(1));
        assert_eq!(peers.near(), vec![site(2), site(4)]);
    }

    #[test]
    fn seventeen_sites_have_two_levels_at_once_and_the_absent_are_none_of_them() {
        let mut peers = peers();
        peers.set_roster(&entries(1..=17), Instant(1));
        (1..=17).for_each(|n| peers.link_up(site(n), Instant(1)));
        assert_eq!(peers.view().k(), 2);
        let top = peers.top();
        assert!((3..=4).contains(&top.len()), "{top:?}");
        assert!(peers.tells(top[0]));
        let low = (2..=17).map(site).find(|low| !peers.landmarks.contains(low));
        assert!(low.is_some_and(|low| !peers.tells(low)));
        // Those that know nothing of landmarks are told.
        peers.speaks(site(9), 1);
        assert!(peers.tells(site(9)));
        // Neither linked nor heard of: a landmark no more.
        peers.link_down(top[0], Instant(2));
        assert!(!peers.tick(Instant(3)));
        let at = Instant(2).after(limits::ABSENT);
        peers.tick(at);
        assert!(peers.tick(at.after(Duration::from_secs(2))));
        assert!(!peers.landmarks.contains(&top[0]));
        peers.lives(top[0], true, at);
        assert!(peers.tick(at.after(Duration::from_secs(4))));
        assert!(peers.landmarks.contains(&top[0]), "its draw is for life");
    }
}
