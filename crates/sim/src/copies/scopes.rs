//! Writes that are answered once they are durable in the writer's area, or where their bucket wants copies (scopes `area`
//! and `durable`), while sites move, burn, are cut off, declared lost, emptied and full.
//!
//! Whom to ask is the production machine's to say (`federation::scope`); asking, holding and answering are this world's.
//! `scopes`: when a write is answered, every site that was counted has it on the disk that it said so of, and those that are
//! neither lost nor about to go, as the writer has heard, stand in as many places of as many areas as its scope asks for,
//! where the writer knows them to be at that moment; and the first fire after that does not take the last body. What an area
//! was answered for is promised as a number: no copy of it is let go of below that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::{Dot, Instant, SiteId};
use skerry_federation::Together;
use skerry_federation::placement::{Demand, Failure, Input};
use skerry_federation::scope::{Goal, Reach, Reached};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Ppm;

use super::areas::{Map, Wish};
use super::{BUCKET, Event, Mistake, World};

/// How long a write waits for other sites.
const WAIT: Duration = seconds(45);
/// How long a site may take before another is asked as well.
const PATIENCE: Duration = millis(1500);
/// Of an area of which nothing is said.
const AREA_PLACES: usize = 2;

/// What a write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Area,
    Durable,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// Whether writes wait in this world.
    are_asked: bool,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// What was answered as being at two places or more, until a fire took one of them; and whether that stands when fewer
    /// copies are asked for.
    answered: BTreeMap<Dot, bool>,
    /// What records say of how many places their writes are answered for.
    promised: BTreeMap<Dot, usize>,
}

/// One write on its way.
#[derive(Debug)]
struct Waiting {
    site: usize,
    boot: u64,
    dot: Dot,
    asked: Asked,
    /// Where sites were when it came in.
    map: Map,
    reach: Reach,
    /// On which disk each said that it holds it; none if that may have burned meanwhile.
    disks: BTreeMap<usize, Option<u64>>,
    began: Instant,
}

/// What its bucket asked for when it came in.
#[derive(Debug, Clone, Copy)]
struct Asked {
    scope: Scope,
    copies: usize,
    wish: Option<Wish>,
}

impl Asked {
    /// Of this area, by number.
    fn of(&self, area: u8) -> usize {
        self.wish.map_or(0, |wish| wish.of(area))
    }

    /// The same for who stands in it.
    fn of_own(&self, area: u8) -> usize {
        Some(self.of(area)).filter(|copies| *copies > 0).unwrap_or(AREA_PLACES)
    }
}

impl World {
    /// Some writes wait from now on.
    pub(super) fn ask_for_scopes(&mut self) {
        self.scopes.are_asked = true;
    }

    /// How often sites move.
    pub(super) fn moves_within(&self) -> std::ops::RangeInclusive<Duration> {
        if self.scopes.are_asked { millis(300)..=seconds(4) } else { seconds(5)..=seconds(40) }
    }

    /// What the next write of a site waits for, if anything; none if it is refused before it is written.
    pub(super) fn scope_of_write(&mut self, site: usize) -> Option<Option<Scope>> {
        if !self.scopes.are_asked || self.draw.chance(Ppm::percent(30)) {
            return Some(None);
        }
        let scope =
            if self.areas.is_some() && self.draw.below(2) == 0 { Scope::Area } else { Scope::Durable };
        let goal = self.goal(site, &self.asked_now(scope), &self.sites[site].map);
        let all: BTreeSet<SiteId> = self.sites.iter().map(|other| other.id).collect();
        let there: BTreeSet<SiteId> = all.difference(&goal.uncounted).copied().collect();
        if !goal.demand.is_met(&there, &goal.together) {
            self.count("scopes refused at once");
            return None;
        }
        Some(Some(scope))
    }

    fn asked_now(&self, scope: Scope) -> Asked {
        Asked { scope, copies: self.copies, wish: self.areas }
    }

    fn area_of(map: &Map, site: usize) -> u8 {
        map.get(&site).map_or(0, |(_, area)| *area)
    }

    fn stands_in(&self, map: &Map, area: u8) -> BTreeSet<SiteId> {
        let there = (0..self.sites.len()).filter(|site| Self::area_of(map, *site) == area);
        there.map(|site| self.sites[site].id).collect()
    }

    /// As the product computes it, but for mistakes.
    fn goal(&self, site: usize, asked: &Asked, map: &Map) -> Goal {
        let own = Self::area_of(map, site);
        let demand = match asked.scope {
            Scope::Area if self.mistake == Some(Mistake::ForeignCounts) => {
                Demand::anywhere(asked.of_own(own))
            }
            Scope::Area if own == 0 => Demand::anywhere(0).and_in(1, BTreeSet::new()),
            Scope::Area => Demand::anywhere(0).and_in(asked.of_own(own), self.stands_in(map, own)),
            Scope::Durable => [1, 2].into_iter().fold(Demand::anywhere(asked.copies), |demand, area| {
                demand.and_in(asked.of(area), self.stands_in(map, area))
            }),
        };
        let together = match self.mistake {
            Some(Mistake::NodesCount) => Together::default(),
            _ => self.together.clone(),
        };
        let uncounted = match self.mistake {
            Some(Mistake::LostCount) => BTreeSet::new(),
            _ => {
                let place = &self.sites[site];
                let own = place.is_drained(site).then_some(place.id);
                self.uncounted_ids(site).into_iter().chain(own).collect()
            }
        };
        Goal { demand, uncounted, together }
    }

    /// A write is durable at its own site and is to be so elsewhere.
    pub(super) fn wait_for_scope(&mut self, site: usize, dot: Dot, scope: Scope) {
        let place = &self.sites[site];
        let (boot, map, own) = (place.boot, place.map.clone(), place.id);
        let asked = self.asked_now(scope);
        let goal = self.goal(site, &asked, &map);
        if scope == Scope::Area {
            let places = goal.demand.places();
            self.scopes.promised.insert(dot, places);
        }
        let mut others: Vec<usize> =
            (0..self.sites.len()).filter(|other| self.linked(site, *other)).collect();
        others.sort_by_key(|other| (other + 7 * site) % 5);
        let others = others.into_iter().map(|other| self.sites[other].id);
        let reach = Reach::new(goal, Some(own), others).with_patience(PATIENCE);
        let disks = [(site, Some(self.sites[site].life))].into();
        let (id, began) = (self.scopes.next, self.queue.now());
        self.scopes.next += 1;
        self.scopes.waiting.insert(id, Waiting { site, boot, dot, asked, map, reach, disks, began });
        self.press(id);
    }

    /// Asks whom the machine names, and answers the client when it says so.
    pub(super) fn press(&mut self, id: u64) {
        let now = self.queue.now();
        let Some(mut one) = self.scopes.waiting.remove(&id) else { return };
        if !self.is_up(one.site, one.boot) {
            return self.count("waiting when it crashed");
        }
        let map = &self.sites[one.site].map;
        let map = if self.mistake == Some(Mistake::MovedCounts) { &one.map } else { map };
        one.reach.revise(self.goal(one.site, &one.asked, map));
        if self.mistake == Some(Mistake::SilentCounts) && now >= one.began.after(PATIENCE) {
            let silent: Vec<SiteId> = one.reach.asked().collect();
            silent.into_iter().for_each(|other| one.reach.held(other));
        }
        while let Some(next) = one.reach.ask(now) {
            let Some(to) = self.sites.iter().position(|other| other.id == next) else { continue };
            self.count("asked for a scope");
            let (from, dot, boot) = (one.site, one.dot, one.boot);
            self.plan(millis(1)..=millis(200), Event::Hold { from, to, dot, boot });
        }
        let gives_up = one.began.after(WAIT);
        match one.reach.reached() {
            Reached::Enough => return self.answer(&one),
            Reached::Short => return self.count("scopes not reached"),
            Reached::Waiting if gives_up <= now => return self.count("scopes not reached"),
            Reached::Waiting => {}
        }
        let at = one.reach.next_wake(now).map_or(gives_up, |at| at.min(gives_up));
        self.scopes.waiting.insert(id, one);
        self.queue.plan(at, Event::Press(id));
    }

    /// A site that was asked to hold it has answered.
    pub(super) fn answered_for_scope(
        &mut self,
        site: usize,
        dot: Dot,
        by: usize,
        result: Result<(), Failure>,
    ) {
        let of = |one: &Waiting| one.site == site && one.dot == dot;
        let ids: Vec<u64> =
            self.scopes.waiting.iter().filter(|(_, one)| of(one)).map(|(id, _)| *id).collect();
        let burned = self.fire > Instant(0) && self.queue.now() < self.fire.after(seconds(3));
        let (other, life) = (self.sites[by].id, self.sites[by].life);
        for id in ids {
            let Some(one) = self.scopes.waiting.get_mut(&id) else { continue };
            match result {
                Ok(()) => {
                    one.reach.held(other);
                    one.disks.insert(by, Some(life).filter(|_| !burned));
                    self.input(site, Input::Held(BUCKET, dot, other));
                }
                Err(_) => one.reach.failed(other),
            }
            self.press(id);
        }
    }

    /// Whether a write waits here for others to hold a version: they are counted on.
    pub(super) fn waits_for(&self, site: usize, dot: Dot) -> bool {
        self.scopes.waiting.values().any(|one| one.site == site && one.dot == dot)
    }

    /// At how many places a version is to be kept: as its bucket wants copies, and no fewer than its record says.
    pub(super) fn kept_at(&self, dot: Dot) -> usize {
        match self.mistake {
            Some(Mistake::PromiseForgotten) => self.copies,
            _ => self.copies.max(self.promised(dot)),
        }
    }

    /// What its record says of that.
    pub(super) fn promised(&self, dot: Dot) -> usize {
        self.scopes.promised.get(&dot).copied().unwrap_or_default()
    }

    /// An operator asks for fewer copies: what was durable is so as far as that goes.
    pub(super) fn ask_for_fewer(&mut self) {
        if self.copies < 2 {
            self.scopes.answered.retain(|_, promised| *promised);
        }
    }

    fn answer(&mut self, one: &Waiting) {
        let (site, dot) = (one.site, one.dot);
        self.count(if one.asked.scope == Scope::Area { "areas reached" } else { "durable reached" });
        if one.map != self.sites[site].map {
            self.count("moved while a write waited");
        }
        let counted: BTreeSet<SiteId> = one.reach.held_at().collect();
        let counted: Vec<usize> =
            (0..self.sites.len()).filter(|other| counted.contains(&self.sites[*other].id)).collect();
        let is_there = |other: &usize| {
            let place = &self.sites[*other];
            let same = one.disks.get(other).is_none_or(|disk| *disk == Some(place.life));
            place.bodies.contains(&dot) || self.is_dead(dot) || !same
        };
        let (there, lacking): (Vec<usize>, Vec<usize>) = counted.into_iter().partition(is_there);
        let mut wrong: Vec<String> =
            lacking.iter().map(|other| format!("site-{other} is counted for {dot} and lacks it")).collect();
        wrong.extend(self.too_few(one, &there).map(|what| format!("{dot} is answered: {what}")));
        let places = self.places(&there);
        if places > 1 {
            let promised = self.promised(dot) > 1;
            self.scopes.answered.insert(dot, promised);
        }
        self.outcome.violations.extend(wrong.into_iter().map(|what| ("scopes", what)));
    }

    fn places(&self, sites: &[usize]) -> usize {
        self.together.count(sites.iter().map(|site| self.sites[*site].id))
    }

    /// What a write lacks that these have, going by what its writer has heard, and not by the machine.
    fn too_few(&self, one: &Waiting, there: &[usize]) -> Option<String> {
        let writer = &self.sites[one.site];
        let counts = |other: &&usize| !writer.is_lost(**other) && !writer.is_drained(**other);
        let there: Vec<usize> = there.iter().filter(counts).copied().collect();
        let of_area = |area: u8| -> usize {
            let stands = |other: &&usize| Self::area_of(&writer.map, **other) == area;
            self.places(&there.iter().filter(stands).copied().collect::<Vec<_>>())
        };
        let short = |has: usize, wanted: usize, where_to: String| {
            (has < wanted).then(|| format!("{has} of {wanted} {where_to}"))
        };
        match one.asked.scope {
            Scope::Area => match Self::area_of(&writer.map, one.site) {
                0 => Some("its writer is in no area".into()),
                own => short(of_area(own), one.asked.of_own(own), format!("in area {own}")),
            },
            Scope::Durable => short(self.places(&there), one.asked.copies, "in all".into())
                .or_else(|| short(of_area(1), one.asked.of(1), "in area 1".into()))
                .or_else(|| short(of_area(2), one.asked.of(2), "in area 2".into())),
        }
    }

    /// Just before the disk of a site is gone: the first fire takes nothing that was answered for.
    pub(super) fn judge_answered(&mut self, site: usize) {
        let holds = |other: usize, dot: &Dot| self.sites[other].bodies.contains(dot);
        let dots: Vec<Dot> = self.scopes.answered.keys().filter(|dot| holds(site, dot)).copied().collect();
        for dot in dots {
            self.scopes.answered.remove(&dot);
            let left =
                (0..self.sites.len()).any(|other| other != site && self.sites[other].bodies.contains(&dot));
            if left {
                self.count("answered and burned");
            } else if !self.is_dead(dot) && !self.excused.contains(&dot) {
                let what = format!("{dot} was answered for and is lost with site-{site}");
                self.outcome.violations.push(("scopes", what));
            }
        }
    }

    /// One copy too few is left of what a write was answered for.
    pub(super) fn judge_promised(
        &self,
        site: usize,
        dot: Dot,
        left: usize,
    ) -> Option<(&'static str, String)> {
        let promised = self.scopes.answered.get(&dot).is_some_and(|promised| *promised);
        let wanted = self.promised(dot);
        (promised && left < wanted)
            .then(|| ("scopes", format!("site-{site} let {dot} go, {left} of {wanted} promised are left")))
    }
}
