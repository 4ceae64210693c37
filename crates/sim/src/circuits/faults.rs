//! What strikes: cuts of one direction or two, crashes, operators who want nothing carried.

use skerry_scenario::clock::{millis, seconds};

use super::{Event, SILENCE, World};

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mend {
    /// Packets of the one reach the other again.
    Open(usize, usize),
    Start(usize),
    Willing(usize),
}

impl World {
    pub(super) fn strike(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(1)..=seconds(40), Event::Strike);
        let count = self.sites.len() as u64;
        let site = self.draw.below(count) as usize;
        let other = (site + 1 + self.draw.below(count - 1) as usize) % self.sites.len();
        match self.draw.below(10) {
            0..4 => {
                self.count("cuts");
                self.block(site, other);
                self.block(other, site);
            }
            4..6 => {
                self.count("one-way cuts");
                self.block(site, other);
            }
            6..8 if self.sites[site].up => {
                self.count("crashes");
                let place = &mut self.sites[site];
                (place.up, place.boot) = (false, place.boot + 1);
                let boot = place.boot;
                self.settle();
                self.plan(SILENCE..=SILENCE, Event::Lives { site, boot });
                self.plan(millis(100)..=seconds(120), Event::Mend(Mend::Start(site)));
            }
            _ => {
                self.count("operators who want nothing carried");
                self.sites[site].willing = false;
                self.settle();
                self.plan(seconds(10)..=seconds(200), Event::Mend(Mend::Willing(site)));
            }
        }
    }

    fn block(&mut self, from: usize, to: usize) {
        if self.blocked.insert((from, to)) {
            self.plan(millis(100)..=seconds(100), Event::Mend(Mend::Open(from, to)));
            self.settle();
        }
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Open(from, to) => {
                self.blocked.remove(&(from, to));
                self.redial(from, to);
            }
            Mend::Start(site) => {
                if !self.sites[site].up {
                    self.start(site);
                }
            }
            // An operator who wants nothing carried for good stays so.
            Mend::Willing(site) => {
                if !self.resting {
                    self.sites[site].willing = true;
                }
            }
        }
    }

    /// Nothing strikes any more; what the ground does not allow, and what operators do not want, stays as it is.
    pub(super) fn rest(&mut self) {
        self.resting = true;
        for (from, to) in std::mem::take(&mut self.blocked) {
            self.redial(from, to);
        }
        for site in 0..self.sites.len() {
            self.mend(Mend::Start(site));
        }
    }
}
