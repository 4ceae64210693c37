//! What strikes a site: kills, power cuts, burned disks, slow wires and disks, cuts of one direction or two, clocks.

use std::time::Duration;

use skerry_scenario::clock::{millis, seconds};

use skerry_base::SiteId;

use super::kept::Kept;
use super::{Clocks, DECIDED, Event, Gaps, Mistake, Weather, World};

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mend {
    Start(usize),
    Link(usize, usize),
    Wire(usize),
    Disk(usize),
    Room(usize),
}

impl World {
    /// The rate of a node's clock, drawn.
    pub(super) fn rate(&mut self, node: usize) -> u64 {
        let clocks = if self.rests_since.is_some() { Clocks::Right } else { self.clocks };
        match clocks {
            Clocks::Right => self.draw.between(990_000..=1_010_000),
            Clocks::Strained => self.draw.between(955_000..=1_045_000),
            Clocks::Beyond if self.mistake == Some(Mistake::TrustedClock) && node == self.target => {
                self.draw.between(300_000..=600_000)
            }
            Clocks::Beyond if node == self.target => self.draw.between(300_000..=3_000_000),
            Clocks::Beyond => self.draw.between(990_000..=1_010_000),
        }
    }

    pub(super) fn change_rates(&mut self) {
        self.plan(millis(500)..=seconds(5), Event::Rates);
        let now = self.queue.now();
        for node in 0..self.nodes.len() {
            // What is beyond the bound stays as it is: a rate that jumps within one lease is beyond what is promised.
            if self.clocks != Clocks::Beyond || node != self.target || self.rests_since.is_some() {
                let rate = self.rate(node);
                self.nodes[node].clock.run_at(rate, now);
            }
        }
    }

    pub(super) fn strike(&mut self) {
        if self.rests_since.is_some() {
            return;
        }
        if self.mistake == Some(Mistake::TrustedClock) {
            self.plan(seconds(6)..=seconds(9), Event::Strike);
            return self.isolate(self.target, 3);
        }
        if self.mistake == Some(Mistake::Patience) {
            self.plan(seconds(9)..=seconds(12), Event::Strike);
            self.nodes[self.target].slow_disk = seconds(4);
            return self.plan(seconds(5)..=seconds(6), Event::Mend(Mend::Disk(self.target)));
        }
        if self.strikes_rooms() {
            return self.begin_spell();
        }
        let count = self.seated() as u64;
        let storm = self.weather == Weather::Storm;
        let node = if storm { self.prey() } else { self.target };
        let wait = if self.hunts {
            millis(200)..=seconds(2)
        } else if storm {
            millis(200)..=seconds(5)
        } else {
            seconds(6)..=seconds(14)
        };
        self.plan(wait, Event::Strike);
        let last = if storm { seconds(8) } else { seconds(5) };
        match self.draw.below(if storm { 12 } else { 6 }) {
            0 | 6 => {
                self.count("kills");
                self.kill(node);
                self.plan(millis(10)..=last, Event::Mend(Mend::Start(node)));
            }
            1 | 7 => {
                self.count("slow wires");
                self.nodes[node].slow_wire = self.draw.span(millis(100)..=seconds(4));
                self.plan(seconds(1)..=last, Event::Mend(Mend::Wire(node)));
            }
            2 | 8 => {
                self.count("slow disks");
                self.nodes[node].slow_disk = self.draw.span(millis(100)..=seconds(4));
                self.plan(seconds(1)..=last, Event::Mend(Mend::Disk(node)));
            }
            3 => self.isolate(node, 3),
            4 => self.isolate(node, 1),
            5 => self.isolate(node, 2),
            9 | 10 => self.burn(node),
            _ if count > 1 && self.draw.below(3) > 0 => {
                let other = (node + 1 + self.draw.below(count - 1) as usize) % count as usize;
                let both = self.draw.below(2) == 0;
                self.cut(node, other);
                if both {
                    self.cut(other, node);
                }
            }
            _ => self.lose_power(),
        }
    }

    /// Any node; a home, if homes are looked for.
    fn prey(&mut self) -> usize {
        let bucket = self.draw.below(DECIDED as u64) as usize;
        let any = self.draw.below(self.seated() as u64) as usize;
        if !self.hunts || self.draw.below(3) == 0 {
            return any;
        }
        let homes: Vec<usize> = self.homes(bucket).into_iter().filter(|node| *node < self.seated()).collect();
        self.draw.pick(&homes).copied().unwrap_or(any)
    }

    /// A node writes something of a home: it may be cut off just before or after the others hear of it.
    pub(super) fn lie_in_wait(&mut self, node: usize) {
        if self.is_hunted(node) {
            let last = if self.draw.below(2) == 0 { millis(0) } else { millis(25) };
            self.plan(millis(0)..=last, Event::Ambush { node });
        }
    }

    fn is_hunted(&mut self, node: usize) -> bool {
        let odds = if self.mistake.is_some() { 2 } else { 4 };
        self.hunts && self.rests_since.is_none() && node != self.far() && self.draw.below(odds) == 0
    }

    /// All nodes of a view have heard of an heir, and who said so ends before it has named it.
    pub(super) fn is_killed_before_naming(&mut self, node: usize) -> bool {
        let is_killed = self.is_hunted(node) && self.draw.below(2) == 0;
        if is_killed {
            self.count("nodes killed before they named an heir");
            self.kill(node);
            self.plan(millis(10)..=seconds(6), Event::Mend(Mend::Start(node)));
        }
        is_killed
    }

    pub(super) fn ambush(&mut self, node: usize) {
        if self.rests_since.is_some() {
            return;
        }
        self.count("nodes struck as they said something of a home");
        if self.draw.below(3) > 0 {
            return self.isolate(node, 3);
        }
        self.kill(node);
        self.plan(millis(10)..=seconds(6), Event::Mend(Mend::Start(node)));
    }

    fn cut(&mut self, from: usize, to: usize) {
        let last = self.draw.span(millis(100)..=seconds(8));
        self.cut_for(from, to, last);
    }

    fn cut_for(&mut self, from: usize, to: usize, last: Duration) {
        self.count("cuts");
        self.cuts.insert((from, to));
        self.plan(last..=last, Event::Mend(Mend::Link(from, to)));
    }

    /// Nothing comes (1), nothing goes (2), or both (3); all of it is mended at once.
    fn isolate(&mut self, node: usize, ways: u8) {
        self.believe_silence(node);
        let last = self.draw.span(millis(100)..=seconds(8));
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            if ways & 1 != 0 {
                self.cut_for(other, node, last);
            }
            if ways & 2 != 0 {
                self.cut_for(node, other, last);
            }
        }
    }

    /// The site, or some of its nodes, cannot reach the other site.
    pub(super) fn cut_far(&mut self) {
        if self.rests_since.is_some() {
            return;
        }
        self.plan(seconds(1)..=seconds(8), Event::FarCut);
        let (far, all) = (self.far(), self.draw.below(2) == 0);
        let last = self.draw.span(millis(300)..=seconds(8));
        for node in self.site() {
            if all || self.draw.below(2) == 0 {
                self.cut_for(node, far, last);
                self.cut_for(far, node, last);
            }
        }
    }

    fn lose_power(&mut self) {
        self.count("power cuts of the site");
        for node in 0..self.seated() {
            self.kill(node);
            self.plan(millis(10)..=seconds(4), Event::Mend(Mend::Start(node)));
        }
    }

    /// A disk is lost. What was acknowledged for the site is elsewhere, and the other disks can take its machine in
    /// again.
    fn burn(&mut self, node: usize) {
        let holds = |other: usize, write: &u64| other != node && self.nodes[other].kept.held.contains(write);
        // What the site was said to have must be at another of its nodes: that it has reached another site by now helps nobody
        // who reads here.
        let is_at_site = |write: &u64| self.site().any(|other| holds(other, write));
        let is_anywhere = |write: &u64| (0..self.nodes.len()).any(|other| holds(other, write));
        let is_kept = self.acked.iter().all(is_at_site) && self.alone.iter().all(is_anywhere);
        if self.seated() < 2 || !self.survives(node) || !is_kept {
            return;
        }
        self.count(if self.seated() == 2 { "burned disks of two" } else { "burned disks" });
        self.kill(node);
        self.burned_at = Some(self.queue.now());
        let genesis = skerry_federation::site_view::Durable::genesis();
        let is_blank = self.mistake != Some(Mistake::BlankVote);
        let place = &mut self.nodes[node];
        place.memory = (!is_blank).then_some(genesis);
        place.kept = Kept::default();
        place.gaps = Gaps::default();
        place.lacks = self.acked.clone();
        if is_blank {
            // Its key has burned, too.
            let [seat, machine, ..] = place.id.0;
            let mut id = [seat; 16];
            id[1] = if machine == seat { 101 } else { machine + 1 };
            place.id = SiteId(id);
            self.ever.insert(place.id);
        }
        self.forget_what_burned();
        self.replace_later(node);
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Start(node) => self.start(node),
            Mend::Link(from, to) => {
                self.cuts.remove(&(from, to));
            }
            Mend::Wire(node) => self.nodes[node].slow_wire = millis(0),
            Mend::Disk(node) => self.mend_disk(node),
            Mend::Room(node) => self.mend_room(node),
        }
    }

    /// Everything is mended; nobody writes any more. A node that did not keep a bucket does, from a new start on.
    pub(super) fn rest(&mut self) {
        self.rest_rooms();
        if self.weather == Weather::Calm {
            (0..DECIDED).for_each(|bucket| self.judge_wait(bucket));
            self.judge_names_wait();
        }
        self.rests_since = Some(self.queue.now());
        self.cuts.clear();
        self.loss = Default::default();
        for node in self.site() {
            if self.nodes[node].excused.take().is_some() {
                self.kill(node);
            }
            self.mend(Mend::Wire(node));
            self.mend(Mend::Disk(node));
            let rate = self.rate(node);
            let now = self.queue.now();
            self.nodes[node].clock.run_at(rate, now);
            self.start(node);
        }
    }
}
