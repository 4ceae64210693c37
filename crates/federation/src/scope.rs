//! Who is asked to hold a version until it is as durable as was asked for (scopes `sites=n`, `area`, `durable`).
//!
//! Why here: which site is asked, and when another must be, is decided without a socket. The machine holds no
//! payload and knows no object; a site counts once it has said that it holds what it was asked to hold.
//!
//! Invariants: as many sites are asked at once as are lacking, nearest first, and one more for each that has not
//! answered in time; nobody is asked who could not help: at a place that holds it or is being asked, or outside of the
//! areas where only these lack some; nobody is asked twice; a site counts once, only if it was asked or held it from the
//! start, and only as what is known of it when it is counted: where it is, and that it is not lost.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

use crate::Together;
use crate::placement::{Demand, Lack};

/// What is asked for, as whoever waits knows the sites now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Goal {
    /// At how many places, and at how many of which areas.
    pub demand: Demand,
    /// Whose copies count no more: sites that are lost, or about to go.
    pub uncounted: BTreeSet<SiteId>,
    /// Who burns together.
    pub together: Together,
}

impl Goal {
    /// So many places, wherever they are.
    pub fn anywhere(places: usize) -> Self {
        Self { demand: Demand::anywhere(places), ..Self::default() }
    }

    fn lack(&self, holders: &BTreeSet<SiteId>) -> Lack {
        self.demand.lack(holders, &self.together)
    }
}

/// How far a version has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Where it was asked for.
    Enough,
    /// Sites that were asked have not answered yet, or others can be asked.
    Waiting,
    /// Nobody is left whose answer would help.
    Short,
}

/// What another site would be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Help {
    /// An area that lacks some.
    Area,
    /// The number in all.
    Anywhere,
}

/// One version on its way to its sites.
#[derive(Debug, Clone)]
pub struct Reach {
    goal: Goal,
    /// How long a site may take before another is asked as well.
    patience: Duration,
    held: BTreeSet<SiteId>,
    /// With when each is late.
    asked: BTreeMap<SiteId, Instant>,
    /// The best first.
    waiting: Vec<SiteId>,
}

impl Reach {
    /// To where this asks for; `holder`, who asks, is one if it holds it; `others` can be asked, the best first.
    pub fn new(goal: Goal, holder: Option<SiteId>, others: impl IntoIterator<Item = SiteId>) -> Self {
        let held: BTreeSet<SiteId> = holder.into_iter().collect();
        let mut seen = held.clone();
        let waiting = others.into_iter().filter(|other| seen.insert(*other)).collect();
        Self { goal, patience: Duration::MAX, held, asked: BTreeMap::new(), waiting }
    }

    /// Asks another site for each that has not answered after this time. It may still answer, and counts then.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sites are elsewhere than before, lost, or to be counted on again; or something else is asked for.
    pub fn revise(&mut self, goal: Goal) {
        self.goal = goal;
    }

    /// The next site to be asked now, if one is lacking.
    pub fn ask(&mut self, now: Instant) -> Option<SiteId> {
        let in_time = self.asked.iter().filter(|(_, late)| **late > now).map(|(site, _)| *site);
        let likely = self.counted(self.held.iter().copied().chain(in_time));
        let next = self.waiting.remove(self.next(&likely)?);
        self.asked.insert(next, now.after(self.patience));
        Some(next)
    }

    /// The first that would help those that hold it, or are likely to: an area that lacks some before anybody else.
    fn next(&self, likely: &BTreeSet<SiteId>) -> Option<usize> {
        let help = self.help(likely);
        let there = self.waiting.iter().position(|site| help(site) == Some(Help::Area));
        there.or_else(|| self.waiting.iter().position(|site| help(site).is_some()))
    }

    /// What a site would be for those that hold it; nothing if it is lost, or stands where one of them does, or where nobody
    /// is lacking.
    fn help(&self, holders: &BTreeSet<SiteId>) -> impl Fn(&SiteId) -> Option<Help> {
        let Goal { demand, uncounted, together } = &self.goal;
        let (lack, places) = (self.goal.lack(holders), together.among(holders.iter().copied()));
        move |site| {
            if uncounted.contains(site) || places.contains(&together.of(*site)) {
                return None;
            }
            let mut areas = demand.areas().iter().zip(&lack.areas);
            if areas.any(|(area, lack)| *lack > 0 && area.sites.contains(site)) {
                return Some(Help::Area);
            }
            (lack.all > 0).then_some(Help::Anywhere)
        }
    }

    /// When somebody else is to be asked if nobody answers before; none if nobody is left or nobody is late then.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        self.asked.values().copied().filter(|late| *late > now && !self.waiting.is_empty()).min()
    }

    /// A site that was asked holds it, durably.
    pub fn held(&mut self, site: SiteId) {
        if self.asked.remove(&site).is_some() {
            self.held.insert(site);
        }
    }

    /// A site that was asked cannot, or does not answer.
    pub fn failed(&mut self, site: SiteId) {
        self.asked.remove(&site);
    }

    /// How far it has got.
    pub fn reached(&self) -> Reached {
        let counted = self.counted(self.held.iter().copied());
        if self.goal.lack(&counted).is_none() {
            return Reached::Enough;
        }
        let help = self.help(&counted);
        match self.asked.keys().chain(&self.waiting).any(|site| help(site).is_some()) {
            true => Reached::Waiting,
            false => Reached::Short,
        }
    }

    /// What is lacking.
    pub fn lack(&self) -> Lack {
        self.goal.lack(&self.counted(self.held.iter().copied()))
    }

    /// Who was asked and has not answered.
    pub fn asked(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.asked.keys().copied()
    }

    /// Who holds it and counts.
    pub fn held_at(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.held.iter().copied().filter(|site| !self.goal.uncounted.contains(site))
    }

    /// At how many places it is.
    pub fn places(&self) -> usize {
        self.goal.together.count(self.held_at())
    }

    fn counted(&self, sites: impl Iterator<Item = SiteId>) -> BTreeSet<SiteId> {
        sites.filter(|site| !self.goal.uncounted.contains(site)).collect()
    }
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
