//! Who pays for what crosses its link: said by each site of itself in the system bucket, as the node does, and read from there
//! by all, with operators that change it.
//!
//! Before: faults, starts and records that arrive. After: the machines, which draw by it who is a landmark.

use std::collections::BTreeSet;

use skerry_base::SiteId;
use skerry_federation::rest::SELDOM;
use skerry_federation::{Input, SiteEntry};
use skerry_model::bucket;
use skerry_scenario::clock::seconds;

use super::claims::Claim;
use super::{Event, World};
use crate::trace::Who;

impl World {
    pub(super) fn plan_budgets(&mut self) {
        if self.environment.finding.budgets == Some(true) {
            for site in 0..self.sites.len() {
                self.plan_budget(site);
            }
        }
    }

    fn plan_budget(&mut self, site: usize) {
        let at = self.queue.now().after(self.draw.span(seconds(3)..=seconds(90)));
        self.queue.plan(at, Event::Budget { site });
    }

    /// An operator sets a budget or takes it away.
    pub(super) fn change_budget(&mut self, site: usize) {
        if self.resting {
            return;
        }
        self.plan_budget(site);
        self.count("budgets changed");
        if !self.metered.remove(&site) {
            self.metered.insert(site);
        }
        self.tell_budget(site);
        self.keep_metered(site);
    }

    /// The machine hears of its own budget.
    pub(super) fn tell_budget(&mut self, site: usize) {
        let every = self.metered.contains(&site).then_some(SELDOM);
        self.tell(Who::Site(site), format_args!("pays: {}", every.is_some()));
        self.input(site, Input::Metered { every, free: BTreeSet::new() });
    }

    /// Whether a site's release says and reads who pays.
    fn knows_payers(&self, site: usize) -> bool {
        self.environment.finding.budgets.is_some() && !self.environment.finding.old.contains(&site)
    }

    /// Says of this site what it did not say.
    pub(super) fn keep_metered(&mut self, site: usize) {
        if !self.knows_payers(site) {
            return;
        }
        let pays = self.metered.contains(&site);
        let now = self.queue.now();
        let place = self.sites.get(site).map(|place| (place.id, place.wall.read(now)));
        let (Some((id, wall)), Some(running)) = (place, self.running(site)) else { return };
        let word = bucket::say_metered(&running.store.view(), self.system, (id, pays), wall);
        if word.is_ok_and(|word| word.is_some()) {
            self.submit_claim((site, None), Claim::Metered(pays));
        }
    }

    fn payers_at(&self, site: usize) -> BTreeSet<SiteId> {
        let running = self.running(site).filter(|_| self.knows_payers(site));
        let read = running.and_then(|running| bucket::metered(&running.store.view(), self.system).ok());
        read.unwrap_or_default()
    }

    /// The machine hears who the sites are, and who of them pays by what has arrived here.
    pub(super) fn tell_roster(&mut self, site: usize) {
        let payers = self.payers_at(site);
        let entry = |id| SiteEntry { site: id, pays: payers.contains(&id) };
        let roster = self.sites.iter().map(|place| entry(place.id)).collect();
        self.payers.insert(site, payers);
        self.input(site, Input::Roster(roster));
        self.keep_metered(site);
    }

    /// The same if that is news.
    pub(super) fn reread_payers(&mut self, site: usize) {
        if self.knows_payers(site)
            && self.running(site).is_some()
            && self.payers.get(&site).is_none_or(|told| *told != self.payers_at(site))
        {
            self.count("news of who pays");
            self.tell_roster(site);
        }
    }
}
