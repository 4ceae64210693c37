//! Sites of which two are nodes of one: what one of them writes the other has as well, mostly, and they are one place.
//!
//! One of the two loses now and then what it wrote, and finds that out when it is started again. `own`: once healed and
//! quiet who sees to the copies of a version holds it itself, unless so many other places do as are asked for: what one node
//! has lost comes back to it, though its neighbour has it.

use std::collections::BTreeSet;

use skerry_base::{Dot, SiteId};
use skerry_federation::placement::{Input, custodian};
use skerry_scenario::clock::{millis, seconds};

use super::{BUCKET, Event, Mistake, World};

impl World {
    /// The first two are nodes of one site.
    pub(super) fn join_nodes(&mut self) {
        self.together = [(self.sites[1].id, self.sites[0].id)].into_iter().collect();
    }

    pub(super) fn is_of_single_nodes(&self) -> bool {
        self.together == Default::default()
    }

    /// The other node of the same site.
    fn neighbour(&self, site: usize) -> Option<usize> {
        (!self.is_of_single_nodes() && site < 2).then_some(1 - site.min(1))
    }

    /// What a node writes its neighbour takes before the answer, unless it cannot.
    pub(super) fn share(&mut self, site: usize, dot: Dot) {
        let Some(other) = self.neighbour(site).filter(|other| self.linked(site, *other)) else { return };
        if self.sites[other].full || self.sites[other].is_drained(other) {
            return;
        }
        self.count("shared");
        let place = &mut self.sites[other];
        place.records.insert(dot, site);
        place.bodies.insert(dot);
        let id = place.id;
        self.input(site, Input::Held(BUCKET, dot, id));
    }

    /// Whether who looks takes a version for held here.
    pub(super) fn takes_for_held(&self, site: usize, dot: Dot) -> bool {
        let has = |site: usize| self.sites[site].bodies.contains(&dot);
        let counts = self.mistake == Some(Mistake::NeighbourCounts);
        has(site) || self.neighbour(site).is_some_and(|other| counts && has(other))
    }

    /// A node lost what it wrote, of which its neighbour and another site have the rest, and is started again.
    pub(super) fn rot(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(5)..=seconds(20), Event::Rot);
        let site = self.draw.below(2) as usize;
        if !self.sites[site].up || self.burned.is_some_and(|_| !self.is_covered()) {
            return;
        }
        let elsewhere = |dot: &Dot| {
            let holds = |other: usize| self.sites[other].bodies.contains(dot);
            let others = (2..self.sites.len()).filter(|other| self.takes(*other) && holds(*other)).count();
            self.neighbour(site).is_some_and(holds) && others > 0
        };
        let place = &self.sites[site];
        let own = place.bodies.iter().filter(|dot| place.records.get(*dot) == Some(&site));
        let lost: Vec<Dot> = own.filter(|dot| elsewhere(dot)).take(3).copied().collect();
        if lost.is_empty() {
            return;
        }
        self.count("rotten");
        let place = &mut self.sites[site];
        place.up = false;
        place.bodies.retain(|dot| !lost.contains(dot));
        self.plan(millis(100)..=seconds(3), Event::Mend(super::faults::Mend::Start(site)));
    }

    /// In the end.
    pub(super) fn judge_own(&mut self, dot: Dot, wanted: usize) {
        let writer = self.sites.iter().find_map(|site| site.records.get(&dot).copied());
        let gone: BTreeSet<SiteId> = self.gone.iter().map(|site| self.sites[*site].id).collect();
        let now = writer.and_then(|writer| custodian(self.sites[writer].id, &self.ring(), &gone));
        let Some(now) = now.map(|now| now.site).filter(|_| !self.is_of_single_nodes()) else { return };
        let place = self.together.of(now);
        let holders = || self.sites.iter().filter(|site| site.bodies.contains(&dot)).map(|site| site.id);
        let others = self.together.count(holders().filter(|site| self.together.of(*site) != place));
        if others < wanted && !holders().any(|site| site == now) {
            let what = format!("{dot} is not where it is seen to, {others} of {wanted} places else have it");
            self.outcome.violations.push(("own", what));
        }
    }
}
