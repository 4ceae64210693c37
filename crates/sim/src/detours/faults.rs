//! What strikes: packets that vanish in one direction or both, slow disks, crashes, operators who want nothing carried, sites
//! that take questions of others and get nowhere with them.

use skerry_scenario::clock::{millis, seconds};

use super::links::Line;
use super::{Detours, Event, World};

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mend {
    Open(Line),
    Fast(usize),
    Willing(usize),
    Free(usize),
    Start(usize),
}

impl World {
    pub(super) fn strike(&mut self) {
        self.plan(seconds(1)..=seconds(12), Event::Strike);
        let count = self.sites.len() as u64;
        let site = self.draw.below(count) as usize;
        let other = (site + 1 + self.draw.below(count - 1) as usize) % self.sites.len();
        match self.draw.below(14) {
            0..4 => {
                self.count("cuts");
                self.block((site, other));
                self.block((other, site));
            }
            4..7 => {
                self.count("one-way cuts");
                self.block((site, other));
            }
            7..9 => {
                self.count("slow disks");
                self.sites[site].disk = self.draw.span(seconds(1)..=seconds(15));
                self.slow(site);
                self.plan(seconds(1)..=seconds(40), Event::Mend(Mend::Fast(site)));
            }
            9..11 => {
                self.count("operators who want nothing carried");
                self.sites[site].willing = false;
                self.unwilling(site);
                self.plan(seconds(1)..=seconds(60), Event::Mend(Mend::Willing(site)));
            }
            11..13 => {
                self.count("sites that are stuck");
                self.stuck(site);
                self.plan(seconds(1)..=seconds(60), Event::Mend(Mend::Free(site)));
            }
            _ if self.sites[site].up => {
                self.count("crashes");
                self.sites[site].up = false;
                (0..self.sites.len()).filter(|other| *other != site).for_each(|other| self.part(site, other));
                self.plan(millis(100)..=seconds(40), Event::Mend(Mend::Start(site)));
            }
            _ => {}
        }
    }

    fn block(&mut self, line: Line) {
        if self.blocked.insert(line) {
            self.spoil(line.0, line.1);
            self.plan(millis(100)..=seconds(60), Event::Mend(Mend::Open(line)));
        }
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Open(line) => {
                self.blocked.remove(&line);
            }
            Mend::Fast(site) => self.sites[site].disk = millis(5),
            Mend::Willing(site) => self.sites[site].willing = true,
            Mend::Free(site) => self.sites[site].stuck = false,
            Mend::Start(site) => {
                (self.sites[site].up, self.sites[site].detours) = (true, Detours::default());
            }
        }
    }
}
