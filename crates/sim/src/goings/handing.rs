//! What a site that goes has others hold: who may, who is known to, who is asked.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Dot, Origin, SiteId};
use skerry_federation::Together;
use skerry_federation::departure::Attempt;
use skerry_federation::placement::Demand;

use super::{Event, Mistake, Site, World};

impl World {
    /// Who of the others may hold what a site leaves behind, as it knows them: those that it can ask now, and all.
    pub(super) fn takers(&self, site: usize, attempt: &Attempt) -> (BTreeSet<SiteId>, BTreeSet<SiteId>) {
        let stay = attempt.others(&self.other_members(site));
        let leaving: BTreeSet<SiteId> = attempt.leaving().collect();
        let refuses = |other: &Site| self.sites[site].refusing.contains(&other.id) && !other.member;
        let may = |(number, other): &(usize, &Site)| {
            *number != site && !leaving.contains(&other.id) && !refuses(other)
        };
        let all: Vec<(usize, &Site)> = self.sites.iter().enumerate().filter(may).collect();
        let near = all.iter().filter(|(number, other)| {
            stay.contains(&other.id) || (self.promises.is_some() && self.linked(site, *number))
        });
        (near.map(|(_, other)| other.id).collect(), all.iter().map(|(_, other)| other.id).collect())
    }

    /// Who is known to hold a version, of these: who answered in this round, in the life in which it said so.
    pub(super) fn holders(
        &self,
        site: usize,
        dot: Dot,
        (all, heard): (&BTreeSet<SiteId>, &BTreeMap<SiteId, Origin>),
    ) -> BTreeSet<SiteId> {
        let counts = |(other, life): &(&SiteId, &Origin)| match heard.get(*other) {
            Some(now) => now == *life && all.contains(*other),
            None => self.mistake == Some(Mistake::SilentHolds) && all.contains(*other),
        };
        let said = self.sites[site].book.get(&dot).into_iter().flatten();
        said.filter(counts).map(|(other, _)| *other).collect()
    }

    /// Has others hold what is lacking, of those who can be asked.
    pub(super) fn have_held(
        &mut self,
        site: usize,
        dot: Dot,
        (demand, have, near): (&Demand, &BTreeSet<SiteId>, &BTreeSet<SiteId>),
        wish: Option<u64>,
    ) {
        let boot = self.sites[site].boot;
        let mut able: Vec<SiteId> = near.difference(have).copied().collect();
        if able.is_empty() || demand.is_met(have, &Together::default()) {
            return;
        }
        // In no order: whoever is near may be the wrong one.
        let first = self.draw.below(able.len() as u64) as usize;
        able.rotate_left(first);
        for to in demand.pick(&able, &|_| true, have, &Together::default()) {
            if let Some(other) = self.sites.iter().position(|other| other.id == to) {
                self.pass(Event::Hold { site, boot, other, dot, wish });
            }
        }
    }
}
