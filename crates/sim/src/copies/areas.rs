//! Areas that ask for copies of their own, sites that move between them, and buckets that move to one.
//!
//! What an operator says of a site's area goes from site to site with the records, like a declaration of loss; who has not
//! heard it goes on by what it knew. `areas`: once healed and quiet every living version has as many durable bodies in each
//! area as that asks for, or as it has sites. `trimmed` (while all have heard the same of areas) and
//! `surplus` heed areas as well.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Dot, SiteId};
use skerry_federation::Together;
use skerry_federation::placement::{Demand, Failure};
use skerry_scenario::clock::millis;

use super::{Event, Mistake, World};

/// The areas that sites are in, by how often that was said.
pub(super) type Map = BTreeMap<usize, (u64, u8)>;

/// Areas by number; 0 is none.
const AREAS: u64 = 2;

/// What areas ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    /// Copies in each.
    copies: [usize; AREAS as usize],
    /// Whether what lies elsewhere is to go.
    moves: bool,
}

impl Wish {
    /// Copies in the area of this number.
    pub(super) fn of(&self, area: u8) -> usize {
        let at = usize::from(area).checked_sub(1);
        at.and_then(|at| self.copies.get(at)).copied().unwrap_or_default()
    }
}

impl World {
    /// Everybody knows where everybody is.
    pub(super) fn name_areas(&mut self) {
        let map: Map = (0..self.sites.len()).map(|site| (site, (1, self.area()))).collect();
        self.sites.iter_mut().for_each(|site| site.map.clone_from(&map));
        self.areas = Some(Wish { copies: [0; 2], moves: false });
        self.wish_anew();
        self.plan(self.moves_within(), Event::Move);
        if self.sites.len() > 3 && self.draw.below(2) == 0 {
            self.count("sites that take nothing");
            let site = self.draw.below(self.sites.len() as u64) as usize;
            self.declining.insert(site);
        }
    }

    /// Who takes over from whom: those that follow the bucket.
    pub(super) fn ring(&self) -> BTreeSet<SiteId> {
        let follows = |(number, _): &(usize, &super::Site)| !self.declining.contains(number);
        self.sites.iter().enumerate().filter(follows).map(|(_, site)| site.id).collect()
    }

    fn declining_ids(&self) -> BTreeSet<SiteId> {
        self.declining.iter().map(|site| self.sites[*site].id).collect()
    }

    /// A site that was asked says that it takes nothing.
    pub(super) fn decline(&mut self, (from, boot): (usize, u64), to: usize, dot: Dot) {
        self.count("declined");
        if self.is_up(from, boot) {
            let id = self.sites[to].id;
            self.sites[from].refusing.insert(id);
        }
        let result = Err(Failure::Version);
        self.plan(millis(50)..=millis(50), Event::Answered { site: from, boot, dot, by: to, result });
    }

    fn area(&mut self) -> u8 {
        self.draw.pick(&[0, 1, 1, 2, 2]).copied().unwrap_or_default()
    }

    /// An operator asks for something else.
    pub(super) fn wish_anew(&mut self) {
        if self.areas.is_none() {
            return;
        }
        let draw = &mut self.draw;
        let moves = draw.below(4) == 0;
        let copies = match moves {
            // All of them in one.
            true if draw.below(2) == 0 => [self.copies, 0],
            true => [0, self.copies],
            false => [draw.below(3) as usize, draw.below(3) as usize],
        };
        if moves {
            self.count("buckets that move");
        }
        self.areas = Some(Wish { copies, moves });
    }

    /// An operator says at some site that a site is in another area.
    pub(super) fn move_site(&mut self) {
        if self.resting {
            return;
        }
        self.plan(self.moves_within(), Event::Move);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let area = self.area();
        let up: Vec<usize> = (0..self.sites.len()).filter(|other| self.sites[*other].up).collect();
        let Some(&at) = self.draw.pick(&up) else { return };
        let known = self.sites[at].map.get(&site).copied().unwrap_or_default();
        if known.1 != area {
            self.count("sites that moved");
            self.sites[at].map.insert(site, (known.0 + 1, area));
        }
    }

    /// What is asked for by such a map: of each area, or of as many of its sites as are not among those that are out, and
    /// where some are closed of as many as the others can hold.
    fn asked(&self, map: &Map, out: Option<&BTreeSet<SiteId>>, closed: &BTreeSet<SiteId>) -> Demand {
        let Some(wish) = self.areas else { return Demand::anywhere(self.copies) };
        let mut demand = Demand::anywhere(self.copies);
        for (number, copies) in wish.copies.into_iter().enumerate() {
            let is_there = |(_, (_, area)): &(&usize, &(u64, u8))| usize::from(*area) == number + 1;
            let there: BTreeSet<SiteId> =
                map.iter().filter(is_there).map(|(site, _)| self.sites[*site].id).collect();
            let counted = out.map_or(copies, |out| there.difference(out).count());
            demand = demand.and_in(copies.min(counted), there);
        }
        let heeds = !closed.is_empty() && self.mistake != Some(Mistake::DecliningCounts);
        if let Some(out) = out.filter(|_| heeds) {
            demand = demand.closed(&closed.union(out).copied().collect());
        }
        if wish.moves { demand.moving() } else { demand }
    }

    /// What is asked for, in the words of a site: who lets go begins anew when they change.
    pub(super) fn demand(&self, site: usize) -> Demand {
        match self.areas {
            Some(_) => self.asked(&self.sites[site].map, None, &BTreeSet::new()),
            None => Demand::default(),
        }
    }

    /// By what a site places copies.
    pub(super) fn placed_by(&self, site: usize) -> Demand {
        let place = &self.sites[site];
        let map = if self.mistake == Some(Mistake::FormerArea) { &place.map_at_start } else { &place.map };
        self.asked(map, Some(&self.uncounted_ids(site)), &place.refusing)
    }

    /// By what a site lets go of them: that a site follows nothing is heard by all.
    pub(super) fn trimmed_by(&self, site: usize) -> Demand {
        self.let_go_by(site, &self.declining_ids())
    }

    /// By what who sees to the copies says whether they are needed: it asks who follows nothing first.
    pub(super) fn spared_by(&self, site: usize) -> Demand {
        self.let_go_by(site, &self.sites[site].refusing)
    }

    fn let_go_by(&self, site: usize, closed: &BTreeSet<SiteId>) -> Demand {
        let map = &self.sites[site].map;
        match self.mistake {
            Some(Mistake::AreasUnheeded) => Demand::anywhere(self.copies),
            Some(Mistake::TooFewBlocks) => self.asked(map, None, closed),
            _ => self.asked(map, Some(&self.uncounted_ids(site)), closed),
        }
    }

    /// What is asked for, if all have heard the same of areas.
    pub(super) fn agreed(&self, site: usize) -> Option<Demand> {
        let map = &self.sites[site].map;
        let mut there = (0..self.sites.len()).filter(|other| !self.gone.contains(other));
        let same = there.all(|other| self.sites[other].map == *map);
        let closed = self.declining_ids();
        (self.areas.is_some() && same).then(|| self.asked(map, Some(&self.uncounted_ids(site)), &closed))
    }

    /// The latest words that any of these has heard.
    fn heard(&self, sites: impl IntoIterator<Item = usize>) -> Map {
        let mut map = Map::new();
        for (site, said) in sites.into_iter().flat_map(|site| &self.sites[site].map) {
            let known = map.entry(*site).or_default();
            *known = *said.max(known);
        }
        map
    }

    fn bodies_of(&self, dot: Dot) -> BTreeSet<SiteId> {
        self.sites.iter().filter(|site| site.bodies.contains(&dot)).map(|site| site.id).collect()
    }

    /// Whether the durable bodies there are suffice.
    pub(super) fn is_met(&self, dot: Dot, demand: &Demand) -> bool {
        demand.is_met(&self.bodies_of(dot), &Together::default())
    }

    /// What is asked for in the end.
    fn in_the_end(&self) -> Demand {
        let there = (0..self.sites.len()).filter(|site| !self.gone.contains(site));
        let gone = self.gone.iter().map(|site| self.sites[*site].id).collect();
        self.asked(&self.heard(there), Some(&gone), &self.declining_ids())
    }

    pub(super) fn judge_areas(&mut self, dot: Dot) {
        if self.areas.is_none() {
            return;
        }
        let demand = self.in_the_end();
        let lack = demand.lack(&self.bodies_of(dot), &Together::default());
        if lack.areas.iter().any(|lack| *lack > 0) {
            self.outcome.violations.push(("areas", format!("{dot} lacks {lack:?} of {demand:?}")));
        }
        if !demand.areas().is_empty() {
            self.count("covered in areas");
        }
    }

    /// Copies of a version that nobody asks for, in the end.
    pub(super) fn surplus_in_areas(&self, dot: Dot) -> Vec<(&'static str, String)> {
        let demand = self.in_the_end().at_least(self.promised(dot));
        let holders = self.bodies_of(dot);
        let writer = self.sites.iter().find_map(|site| site.records.get(&dot));
        let Some(writer) = writer.map(|writer| self.sites[*writer].id) else { return Vec::new() };
        // Of what a fire took of what was promised no more is made than is asked for: then nothing is too many.
        let Some(kept) = demand.kept(writer, &holders, &Together::default()) else { return Vec::new() };
        let own = |site: &SiteId| *site == writer && !demand.moves();
        let many: Vec<&SiteId> = holders.iter().filter(|site| !kept.contains(site) && !own(site)).collect();
        if many.is_empty() {
            return Vec::new();
        }
        vec![("surplus", format!("{dot} is at {} sites too many for {demand:?}", many.len()))]
    }
}
