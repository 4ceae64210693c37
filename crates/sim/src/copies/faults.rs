//! What strikes the world of copies: cuts, crashes, full disks, fires, declarations that were too hasty.

use std::collections::BTreeSet;

use super::{Event, World};
use skerry_base::Dot;
use skerry_model::bucket::next_count;
use skerry_scenario::clock::{millis, seconds};

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mend {
    Link(usize, usize),
    Start(usize),
    Room(usize),
    /// Somebody says that a site is lost.
    Declare(usize),
    /// A site that was declared lost is there again.
    Return(usize),
}

impl World {
    pub(super) fn strike(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(1)..=seconds(15), Event::Strike);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let other = (site + 1 + self.draw.below(self.sites.len() as u64 - 1) as usize) % self.sites.len();
        match self.draw.below(11) {
            0..4 => self.cut(site, other),
            4..6 => self.crash(site),
            6 => {
                self.sites[site].full = true;
                self.plan(seconds(1)..=seconds(60), Event::Mend(Mend::Room(site)));
            }
            7 => self.go_dark(site),
            8 => self.burn(site),
            _ => self.order_drain(site),
        }
    }

    fn cut(&mut self, one: usize, other: usize) {
        let link = (one.min(other), one.max(other));
        if self.cuts.insert(link) {
            self.plan(millis(100)..=seconds(50), Event::Mend(Mend::Link(link.0, link.1)));
        }
    }

    fn crash(&mut self, site: usize) {
        if self.sites[site].up {
            self.count("crashes");
            self.sites[site].up = false;
            self.plan(millis(100)..=seconds(10), Event::Mend(Mend::Start(site)));
        }
    }

    /// A site is dark so long that somebody declares it lost; its disk is whole and it comes back.
    fn go_dark(&mut self, site: usize) {
        if self.sites[site].up && self.burned.is_none() {
            self.count("declared too early");
            self.sites[site].up = false;
            self.plan(seconds(1)..=seconds(10), Event::Mend(Mend::Declare(site)));
            self.plan(seconds(20)..=seconds(60), Event::Mend(Mend::Return(site)));
        }
    }

    /// A machine is lost with its disk. One fire at a time: the next waits until everything has its copies again.
    fn burn(&mut self, site: usize) {
        let quiet = self.sites.iter().all(|other| other.up) && self.lost_anywhere().is_empty();
        // With one copy everything is covered at once, though others believe still in what burned.
        let heard = self.copies > 1 || self.burned.is_none() || self.all_claims_are_so();
        if self.burned.is_some_and(|_| !self.is_covered()) || !quiet || !heard {
            return;
        }
        self.count("burns");
        self.burned = Some(site);
        self.judge_fire(site);
        self.lose_disk(site);
        if self.sites.len() > 2 && self.draw.below(3) == 0 {
            self.gone.insert(site);
            self.plan(seconds(1)..=seconds(10), Event::Mend(Mend::Declare(site)));
        } else if self.draw.below(2) == 0 {
            self.plan(seconds(1)..=seconds(10), Event::Mend(Mend::Declare(site)));
            self.plan(seconds(30)..=seconds(90), Event::Mend(Mend::Return(site)));
        } else {
            // Another machine takes its place before anybody declared anything.
            self.plan(millis(100)..=seconds(10), Event::Mend(Mend::Start(site)));
        }
    }

    /// The disk is gone, with all that was on it.
    pub(super) fn lose_disk(&mut self, site: usize) {
        self.judge_answered(site);
        self.fire = self.queue.now();
        // Another disk has not said that it is empty.
        if !self.gone.contains(&site) {
            self.emptied.remove(&site);
        }
        // A delete that nobody else has heard of is gone, too: what it killed lives again, with what is left of it.
        let others = || self.sites.iter().enumerate().filter(|(other, _)| *other != site);
        let revived = |dot: &&Dot| !others().any(|(_, place)| place.dead.contains(dot));
        let revived: Vec<Dot> = self.sites[site].dead.iter().filter(revived).copied().collect();
        self.excused.extend(revived);
        let place = &mut self.sites[site];
        (place.up, place.life) = (false, place.life + 100);
        for set in [&mut place.dead, &mut place.bodies] {
            set.clear();
        }
        place.records.clear();
        place.book.clear();
        place.lost.clear();
        place.drained.clear();
        place.map.clear();
    }

    fn lost_anywhere(&self) -> BTreeSet<usize> {
        let of = |site: &super::Site| (0..self.sites.len()).filter(|other| site.is_lost(*other)).collect();
        self.sites.iter().flat_map(|site| -> Vec<usize> { of(site) }).collect()
    }

    /// How many sites are to hold each version: no more than there are.
    pub(super) fn wanted(&self) -> usize {
        let there = (0..self.sites.len()).filter(|site| self.takes(*site)).map(|site| self.sites[site].id);
        self.copies.min(self.together.count(there))
    }

    /// Whether a site is there and takes copies.
    pub(super) fn takes(&self, site: usize) -> bool {
        !self.gone.contains(&site) && !self.declining.contains(&site)
    }

    /// At how many places a version is.
    pub(super) fn held(&self, dot: Dot) -> usize {
        let holders = self.sites.iter().filter(|site| site.bodies.contains(&dot));
        self.together.count(holders.map(|site| site.id))
    }

    /// Whether every version that somebody has a body of has as many as it should.
    pub(super) fn is_covered(&self) -> bool {
        let wanted = self.wanted();
        let all: BTreeSet<Dot> = self.sites.iter().flat_map(|site| site.records.keys().copied()).collect();
        let dead = |dot: &Dot| self.sites.iter().any(|site| site.dead.contains(dot));
        all.iter()
            .filter(|dot| !dead(dot) && !self.excused.contains(dot))
            .all(|dot| self.held(*dot) >= wanted)
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            // Who is gone for good stays gone.
            Mend::Return(site) | Mend::Start(site) if self.gone.contains(&site) => {}
            Mend::Link(one, other) => {
                if self.cuts.remove(&(one, other)) {
                    *self.mended.entry((one, other)).or_default() += 1;
                }
            }
            Mend::Start(site) => {
                if !self.sites[site].up {
                    self.start(site);
                }
            }
            Mend::Room(site) => self.sites[site].full = false,
            Mend::Declare(site) => {
                if !self.resting || self.gone.contains(&site) {
                    self.say(site, true);
                }
            }
            Mend::Return(site) => {
                self.mend(Mend::Start(site));
                self.vouch(site);
            }
        }
    }

    /// An operator who sees that a lost site is there with another disk says that it counts again; with the disk that was
    /// meant it says so itself.
    fn vouch(&mut self, site: usize) {
        let life = self.sites[site].life;
        let sees = |other: &&super::Site| {
            other.up && other.is_lost(site) && other.lost.get(&site).is_some_and(|(_, meant)| *meant != life)
        };
        if self.sites.iter().find(sees).is_some() {
            self.say(site, false);
        }
    }

    /// An operator speaks at some site that is up, which knows what it has heard.
    fn say(&mut self, site: usize, lost: bool) {
        let may = |other: &usize| {
            *other != site && self.sites[*other].up && self.sites[*other].is_lost(site) != lost
        };
        let up: Vec<usize> = (0..self.sites.len()).filter(may).collect();
        let Some(at) = self.draw.pick(&up).copied() else { return };
        let (known, meant) = self.sites[at].lost.get(&site).copied().unwrap_or_default();
        let meant = if lost { self.disks[site] } else { meant };
        if let Some(next) = next_count(known, lost) {
            self.sites[at].lost.insert(site, (next, meant));
        }
    }

    /// Everything is mended; nobody writes any more.
    pub(super) fn rest(&mut self) {
        self.resting = true;
        self.lift_caps();
        for link in std::mem::take(&mut self.cuts) {
            *self.mended.entry(link).or_default() += 1;
        }
        for site in 0..self.sites.len() {
            self.sites[site].full = false;
            if !self.gone.contains(&site) && !self.sites[site].up {
                self.start(site);
            }
        }
        for site in 0..self.sites.len() {
            if self.gone.contains(&site) {
                self.say(site, true);
            } else {
                self.vouch(site);
            }
        }
    }
}
