//! What is asked for of a version: at how many places in all, and at how many of each area.
//!
//! An area is a set of sites that an operator gave one name; a site is in one of them or in none. What a site holds counts
//! in its area and in all. Nothing here knows what the areas are called, or who named them.
//!
//! Invariants: areas do not overlap; whoever knows the same holders finds the same ones to be kept ([`Demand::kept`]), and
//! those meet what is asked for by themselves; taking away one that is not kept changes nothing of that.

use std::collections::BTreeSet;

use skerry_base::SiteId;

use crate::Together;

/// So many places of one area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaDemand {
    /// At how many of them.
    pub copies: usize,
    /// The sites of the area.
    pub sites: BTreeSet<SiteId>,
    /// Those of them that take nothing now: what they hold counts, what they do not hold is asked of nobody.
    pub closed: BTreeSet<SiteId>,
}

impl AreaDemand {
    /// How many places of it are to hold a version that these hold.
    fn wanted(&self, holders: &BTreeSet<SiteId>, together: &Together) -> usize {
        if self.closed.is_empty() {
            return self.copies;
        }
        let could = |site: &&SiteId| !self.closed.contains(site) || holders.contains(site);
        self.copies.min(together.count(self.sites.iter().filter(could).copied()))
    }
}

/// What is asked for of a version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    all: usize,
    areas: Vec<AreaDemand>,
    moves: bool,
}

/// What a version lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Places in all.
    pub all: usize,
    /// Places of each area, in the order in which they are asked for.
    pub areas: Vec<usize>,
}

impl Lack {
    /// Whether nothing is lacking.
    pub fn is_none(&self) -> bool {
        self.all == 0 && self.areas.iter().all(|lack| *lack == 0)
    }
}

impl Demand {
    /// So many places, wherever they are.
    pub const fn anywhere(all: usize) -> Self {
        Self { all, areas: Vec::new(), moves: false }
    }

    /// And so many of these sites besides: what counts there counts in all as well.
    #[must_use]
    pub fn and_in(mut self, copies: usize, sites: BTreeSet<SiteId>) -> Self {
        if copies > 0 {
            self.areas.push(AreaDemand { copies, sites, closed: BTreeSet::new() });
        }
        self
    }

    /// These take nothing now: of an area no more is asked than its other sites can hold, and what these hold already.
    #[must_use]
    pub fn closed(mut self, closed: &BTreeSet<SiteId>) -> Self {
        for area in &mut self.areas {
            area.closed = area.sites.intersection(closed).copied().collect();
        }
        self
    }

    /// What is held outside of the areas is to go once they hold enough, the writer's own copy too.
    #[must_use]
    pub fn moving(mut self) -> Self {
        self.moves = !self.areas.is_empty();
        self
    }

    /// What of it these sites can meet, be they all there are.
    #[must_use]
    pub fn among(mut self, sites: &BTreeSet<SiteId>, together: &Together) -> Self {
        self.all = self.all.min(together.count(sites.iter().copied()));
        for area in &mut self.areas {
            area.copies = area.copies.min(together.count(area.sites.intersection(sites).copied()));
        }
        self
    }

    /// No fewer places in all than these.
    #[must_use]
    pub fn at_least(mut self, all: usize) -> Self {
        self.all = self.all.max(all);
        self
    }

    /// Places in all.
    pub const fn all(&self) -> usize {
        self.all
    }

    /// Places of areas.
    pub fn areas(&self) -> &[AreaDemand] {
        &self.areas
    }

    /// Whether the writer's own copy is to go as well.
    pub const fn moves(&self) -> bool {
        self.moves
    }

    /// At how many places it is at least, once everything is where it is to be.
    pub fn places(&self) -> usize {
        self.all.max(self.areas.iter().map(|area| area.copies).sum())
    }

    /// Whether the site that wrote may have to have others hold it.
    pub fn needs_others(&self) -> bool {
        self.all > 1 || !self.areas.is_empty()
    }

    /// What a version lacks that these hold.
    pub fn lack(&self, holders: &BTreeSet<SiteId>, together: &Together) -> Lack {
        let of = |area: &AreaDemand| {
            let there = together.count(holders.intersection(&area.sites).copied());
            area.wanted(holders, together).saturating_sub(there)
        };
        Lack {
            all: self.all.saturating_sub(together.count(holders.iter().copied())),
            areas: self.areas.iter().map(of).collect(),
        }
    }

    /// Whether these are enough.
    pub fn is_met(&self, holders: &BTreeSet<SiteId>, together: &Together) -> bool {
        self.lack(holders, together).is_none()
    }

    /// Whom to ask next, of those who can take a version that these hold: first those of the areas that lack some. Who is
    /// not free is not asked now; in an area what such a one will take is left to it, so that a busy area is waited for and
    /// nobody outside is asked instead.
    pub fn pick(
        &self,
        able: &[SiteId],
        is_free: &dyn Fn(SiteId) -> bool,
        holders: &BTreeSet<SiteId>,
        together: &Together,
    ) -> BTreeSet<SiteId> {
        let (free, busy): (Vec<SiteId>, Vec<SiteId>) = able.iter().partition(|site| is_free(**site));
        let mut lack = self.lack(holders, together);
        let mut places = together.among(holders.iter().copied());
        let mut picked = BTreeSet::new();
        for (area, lack_there) in self.areas.iter().zip(&mut lack.areas) {
            let there = |site: &&SiteId| area.sites.contains(site) && !area.closed.contains(site);
            for site in free.iter().filter(there).chain(busy.iter().filter(there)) {
                if *lack_there > 0 && places.insert(together.of(*site)) {
                    picked.extend(Some(*site).filter(|site| is_free(*site)));
                    *lack_there -= 1;
                    lack.all = lack.all.saturating_sub(1);
                }
            }
        }
        for site in &free {
            if lack.all > 0 && places.insert(together.of(*site)) {
                picked.insert(*site);
                lack.all -= 1;
            }
        }
        picked
    }

    /// The place of a holder in the order in which copies of what `writer` wrote are kept: the writer, unless its copy is to
    /// go; who is in an area; then the ring of ids behind the writer.
    pub fn rank(&self, writer: SiteId, site: SiteId) -> impl Ord + use<> {
        let outside = !self.areas.iter().any(|area| area.sites.contains(&site));
        let other = site != writer;
        (other || self.moves, outside, other, site < writer, site)
    }

    /// The places that go on holding what `writer` wrote and these hold; none if all of them are not enough.
    pub fn kept(
        &self,
        writer: SiteId,
        holders: &BTreeSet<SiteId>,
        together: &Together,
    ) -> Option<BTreeSet<SiteId>> {
        if !self.is_met(holders, together) {
            return None;
        }
        let mut ranked: Vec<SiteId> = holders.iter().copied().collect();
        ranked.sort_by_cached_key(|site| self.rank(writer, *site));
        let mut kept = BTreeSet::new();
        for area in &self.areas {
            let there = ranked.iter().filter(|site| area.sites.contains(site));
            let mut places = BTreeSet::new();
            for place in there.map(|site| together.of(*site)) {
                if places.len() < area.copies {
                    places.insert(place);
                }
            }
            kept.append(&mut places);
        }
        for place in ranked.iter().map(|site| together.of(*site)) {
            if kept.len() < self.all {
                kept.insert(place);
            }
        }
        Some(kept)
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
