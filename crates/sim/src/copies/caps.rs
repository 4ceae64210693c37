//! Sites that hold so much for others and no more, in the middle of cuts, crashes, full disks, fires and hasty declarations.
//!
//! What such a site answers is written here, what follows from it is the production machine's. Who judges: `caps`: no copy is
//! taken beyond what an owner lets others have; the rest as without caps, `copies` among them: once all caps are off and all
//! is quiet every version has as many bodies as its bucket asks for, so that nothing was let go of for a cap.

use skerry_base::Dot;
use skerry_federation::placement::Input;
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Ppm;

use super::{Event, Mistake, World};

/// Bodies that a site holds for others at most.
const MOST: u64 = 6;

impl World {
    /// Two thirds of the sites have a cap.
    pub(super) fn set_caps(&mut self) {
        for site in 0..self.sites.len() {
            if self.draw.chance(Ppm::percent(66)) {
                self.sites[site].cap = Some(self.draw.below(MOST) as usize);
            }
        }
        self.plan(seconds(10)..=seconds(40), Event::Cap);
    }

    /// What a site holds that others wrote.
    fn for_others(&self, site: usize) -> usize {
        let place = &self.sites[site];
        let is_others = |dot: &&Dot| place.records.get(*dot).is_some_and(|writer| *writer != site);
        place.bodies.iter().filter(is_others).count()
    }

    fn is_others(&self, from: usize, to: usize, dot: Dot) -> bool {
        self.sites[from].records.get(&dot).is_some_and(|writer| *writer != to)
    }

    /// Whether a site takes no further body because of its cap.
    pub(super) fn is_at_cap(&mut self, (from, to): (usize, usize), dot: Dot) -> bool {
        let place = &self.sites[to];
        let Some(cap) = place.cap else { return false };
        if place.bodies.contains(&dot) || place.coming.contains(&dot) || !self.is_others(from, to, dot) {
            return false;
        }
        let coming = match self.mistake {
            Some(Mistake::CapUnreserved) => 0,
            _ => place.coming.difference(&place.bodies).count(),
        };
        let is_at_cap = self.for_others(to) + coming >= cap;
        if is_at_cap {
            self.count("refused at a cap");
        }
        is_at_cap
    }

    /// What is on its way is counted from now on.
    pub(super) fn set_aside(&mut self, (from, to): (usize, usize), dot: Dot) {
        if self.sites[to].cap.is_some() && self.is_others(from, to, dot) {
            self.sites[to].coming.insert(dot);
        }
    }

    /// A copy was taken.
    pub(super) fn judge_cap(&mut self, site: usize, dot: Dot) {
        let Some(cap) = self.sites[site].cap else { return };
        let is_others = self.sites[site].records.get(&dot).is_some_and(|writer| *writer != site);
        let held = self.for_others(site);
        if is_others && held > cap {
            let what = format!("site-{site} took {dot} and holds {held} for others, of {cap}");
            self.outcome.violations.push(("caps", what));
        }
    }

    /// An owner thinks otherwise, and starts the site anew.
    pub(super) fn change_cap(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(10)..=seconds(40), Event::Cap);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let cap = self.draw.chance(Ppm::percent(66)).then(|| self.draw.below(MOST) as usize);
        self.set_cap(site, cap);
    }

    fn set_cap(&mut self, site: usize, cap: Option<usize>) {
        if !self.sites[site].up {
            return;
        }
        let held = self.for_others(site);
        if let Some(beyond) = cap.and_then(|cap| held.checked_sub(cap)).filter(|beyond| *beyond > 0) {
            self.count("caps below what is held");
            if self.mistake == Some(Mistake::CapDrops) {
                let place = &mut self.sites[site];
                let is_others = |dot: &&Dot| place.records.get(*dot).is_some_and(|writer| *writer != site);
                let drops: Vec<Dot> = place.bodies.iter().filter(is_others).take(beyond).copied().collect();
                place.bodies.retain(|dot| !drops.contains(dot));
            }
        }
        self.count(if cap.is_none() { "caps off" } else { "caps on" });
        let place = &mut self.sites[site];
        (place.cap, place.up) = (cap, false);
        self.plan(millis(100)..=seconds(2), Event::Mend(super::faults::Mend::Start(site)));
    }

    /// In the end nobody has a cap.
    pub(super) fn lift_caps(&mut self) {
        for site in 0..self.sites.len() {
            if self.sites[site].cap.is_some() {
                self.set_cap(site, None);
                self.sites[site].cap = None;
            }
        }
    }

    /// There is a new link.
    pub(super) fn meet(&mut self, site: usize, other: usize) {
        if self.mistake != Some(Mistake::CapStands) {
            let id = self.sites[other].id;
            self.input(site, Input::Met(id));
        }
    }
}
