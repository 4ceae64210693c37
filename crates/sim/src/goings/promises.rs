//! What is left behind when somebody goes: as many copies as a write was answered for, and as the bucket wants, in its area too.
//!
//! `promised`: right after a site went, what it held is at as many sites as the record says, or at all that could have taken
//! it. `wished`: likewise at as many as the bucket wants, of those that could also be asked all the time. Could: a site that
//! has wanted to stay for so long that whoever went must have heard it.
//!
//! Once in each of these worlds a disk burns, and its site is silent for a while: what only that one is believed to hold must
//! be handed to others (`kept`).

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;
use skerry_base::{Dot, Instant, SiteId};
use skerry_federation::Together;
use skerry_federation::departure::left_behind;
use skerry_federation::placement::Demand;
use skerry_scenario::clock::seconds;

use super::{BUCKET, Event, Mistake, World};

/// What somebody knew of another when it went is younger than this.
const HEARD: Duration = seconds(25);

/// A site whose disk burned is away for so long.
const AWAY: std::ops::RangeInclusive<Duration> = seconds(35)..=seconds(45);

/// What is promised of versions.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// What the bucket wants.
    wish: Demand,
    /// The sites of its area.
    area: BTreeSet<usize>,
    /// For how many sites each write was answered, as its record says.
    says: BTreeMap<Dot, usize>,
    /// When a site wanted something else last, or a link or one of its ends was in trouble.
    turned: BTreeMap<usize, Instant>,
    trouble: BTreeMap<(usize, usize), Instant>,
    fire: Option<Instant>,
}

impl World {
    /// In this world something is promised.
    pub(super) fn promise(&mut self) {
        let count = self.sites.len();
        let area: BTreeSet<usize> = [0, count - 1].into();
        let sites = area.iter().map(|site| self.sites[*site].id).collect();
        let wish = Demand::anywhere(self.draw.between(1..=2) as usize).and_in(1, sites);
        self.promises = Some(Promises { wish, area, ..Promises::default() });
        self.plan(seconds(5)..=seconds(20), Event::Burn);
    }

    /// A disk is gone, with all that was there only: the site is silent, and the others know nothing of it.
    pub(super) fn burn(&mut self) {
        let (site, now) = (self.draw.below(self.sites.len() as u64) as usize, self.queue.now());
        let place = &mut self.sites[site];
        place.records.clear();
        place.bodies.clear();
        place.book.clear();
        (place.up, place.whole, place.wish, place.out, place.burnt) = (false, false, false, false, true);
        place.departures.end(BUCKET);
        if let Some(promises) = &mut self.promises {
            promises.fire = Some(now);
        }
        self.turned(site);
        self.shaken(site);
        self.count("fires");
        self.judge(site, "burned");
        self.plan(AWAY, Event::Start(site));
    }

    /// Whether something burned since who goes now asked the others.
    pub(super) fn is_after_fire(&self) -> bool {
        let fire = self.promises.as_ref().and_then(|promises| promises.fire);
        fire.is_some_and(|at| at.after(HEARD) > self.queue.now())
    }

    /// A write is answered once so many hold it, where there are so many to be asked: its record says how many that were to
    /// be.
    pub(super) fn answer_for(&mut self, site: usize, dot: Dot) {
        if self.promises.is_none() || self.deletes.contains(&dot) {
            return;
        }
        let wanted = self.draw.between(1..=3) as usize;
        let takes = |other: &usize| {
            let place = &self.sites[*other];
            *other != site && self.linked(site, *other) && place.member && !place.wish && !place.drained
        };
        let takers: Vec<usize> = (0..self.sites.len()).filter(takes).take(wanted - 1).collect();
        for other in takers {
            let taker = &mut self.sites[other];
            taker.records.insert(dot);
            taker.bodies.insert(dot);
            let (id, life) = (taker.id, taker.origin());
            self.sites[site].book.entry(dot).or_default().insert(id, life);
        }
        self.count("promises");
        if let Some(promises) = &mut self.promises {
            promises.says.insert(dot, wanted);
        }
    }

    /// What others are to hold of a version before a site goes: of `near` who can be asked now, of `all` that may hold it.
    pub(super) fn left(&self, dot: Dot, near: &BTreeSet<SiteId>, all: &BTreeSet<SiteId>) -> Demand {
        let (wish, promised) = self.asked_of(dot);
        let all = if self.mistake == Some(Mistake::AwayForgotten) { near } else { all };
        left_behind(&wish, promised, near, all, &Together::default())
    }

    /// What is asked for of a version, as who goes takes it.
    pub(super) fn asked_of(&self, dot: Dot) -> (Demand, usize) {
        let Some(promises) = &self.promises else { return (Demand::anywhere(super::COPIES), 0) };
        let wish = match self.mistake {
            Some(Mistake::WishForgotten) => Demand::anywhere(super::COPIES),
            _ => promises.wish.clone(),
        };
        let says = promises.says.get(&dot).copied().unwrap_or_default();
        (wish, if self.mistake == Some(Mistake::PromiseForgotten) { 0 } else { says })
    }

    /// A site wants something else from now on.
    pub(super) fn turned(&mut self, site: usize) {
        let now = self.queue.now();
        if let Some(promises) = &mut self.promises {
            promises.turned.insert(site, now);
        }
    }

    /// Something is wrong, or right again, between these.
    pub(super) fn trouble(&mut self, one: usize, other: usize) {
        let now = self.queue.now();
        if let Some(promises) = &mut self.promises {
            promises.trouble.insert((one.min(other), one.max(other)), now);
        }
    }

    /// Judges what a site left behind that has just gone.
    pub(super) fn judge_left(&mut self, site: usize, held: &BTreeSet<Dot>) {
        let Some(promises) = self.promises.as_ref().filter(|_| !self.is_after_fire()) else { return };
        let now = self.queue.now();
        let long_ago = |at: Option<&Instant>| at.is_none_or(|at| at.after(HEARD) <= now);
        let stays = |other: &usize| {
            let place = &self.sites[*other];
            let goes = place.wish || place.drained || place.empty || (place.out && !place.member);
            *other != site && !goes && long_ago(promises.turned.get(other))
        };
        let could: BTreeSet<usize> = (0..self.sites.len()).filter(stays).collect();
        let calm = |other: &usize| {
            let link = (site.min(*other), site.max(*other));
            self.linked(site, *other) && long_ago(promises.trouble.get(&link))
        };
        let near: BTreeSet<usize> = could.iter().copied().filter(calm).collect();
        let mut wrong = Vec::new();
        for dot in held.iter().filter(|dot| !self.deletes.contains(dot)) {
            let holds = |other: &usize| {
                let place = &self.sites[*other];
                *other != site && !place.empty && place.bodies.contains(dot)
            };
            let holders: BTreeSet<usize> = (0..self.sites.len()).filter(holds).collect();
            let says = promises.says.get(dot).copied().unwrap_or_default().min(could.len());
            if holders.len() < says {
                wrong
                    .push(("promised", format!("{dot} is at {} of {says} after site-{site}", holders.len())));
            }
            let all = promises.wish.all().min(near.len());
            let there = near.intersection(&promises.area).count().min(1);
            if holders.len() < all || holders.intersection(&promises.area).count() < there {
                wrong.push(("wished", format!("{dot} is at {holders:?} after site-{site} went")));
            }
        }
        self.outcome.violations.append(&mut wrong);
        self.count("judged by what was promised");
    }
}
