//! What strikes a site: kills, power cuts, burned disks, slow wires and disks, cuts of one direction or two, clocks.

use std::time::Duration;

use skerry_scenario::clock::{millis, seconds};

use super::{Clocks, Event, Mistake, Weather, World};

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mend {
    Start(usize),
    Link(usize, usize),
    Wire(usize),
    Disk(usize),
}

impl World {
    /// The rate of a node's clock, drawn.
    pub(super) fn rate(&mut self, node: usize) -> u64 {
        let clocks = if self.resting { Clocks::Right } else { self.clocks };
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
            if self.clocks != Clocks::Beyond || node != self.target || self.resting {
                let rate = self.rate(node);
                self.nodes[node].clock.run_at(rate, now);
            }
        }
    }

    pub(super) fn strike(&mut self) {
        if self.resting {
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
        let count = self.nodes.len() as u64;
        let storm = self.weather == Weather::Storm;
        let node = if storm { self.draw.below(count) as usize } else { self.target };
        let wait = if storm { millis(200)..=seconds(5) } else { seconds(6)..=seconds(14) };
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

    fn lose_power(&mut self) {
        self.count("power cuts of the site");
        for node in 0..self.nodes.len() {
            self.kill(node);
            self.plan(millis(10)..=seconds(4), Event::Mend(Mend::Start(node)));
        }
    }

    /// A disk is lost. What was acknowledged for the site is elsewhere, and the other disks can take its machine in
    /// again: one at a time, as long as that is so.
    fn burn(&mut self, node: usize) {
        let others = || self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let is_elsewhere = |write: &u64| others().any(|(_, place)| place.held.contains(write));
        let is_alone = others().all(|(_, place)| place.memory.is_some());
        // The last view that counts on nobody else: what it has, also of before there were others, is here only.
        let seat = self.nodes[node].seat;
        let is_last = self.views.last_key_value().is_none_or(|(_, view)| view.live.without(seat).is_empty());
        if self.nodes.len() < 3 || is_last || !is_alone || !self.acked.iter().all(is_elsewhere) {
            return;
        }
        self.count("burned disks");
        self.kill(node);
        self.burned_at = Some(self.queue.now());
        let genesis = skerry_federation::site_view::Durable::genesis();
        let memory = (self.mistake == Some(Mistake::BlankVote)).then_some(genesis);
        let place = &mut self.nodes[node];
        place.memory = memory;
        place.held.clear();
        place.current = Default::default();
        place.lacks = self.acked.clone();
        self.plan(millis(100)..=seconds(6), Event::Mend(Mend::Start(node)));
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Start(node) => self.start(node),
            Mend::Link(from, to) => {
                self.cuts.remove(&(from, to));
            }
            Mend::Wire(node) => self.nodes[node].slow_wire = millis(0),
            Mend::Disk(node) => self.mend_disk(node),
        }
    }

    /// Everything is mended; nobody writes any more.
    pub(super) fn rest(&mut self) {
        self.resting = true;
        self.cuts.clear();
        self.loss = Default::default();
        for node in 0..self.nodes.len() {
            self.mend(Mend::Wire(node));
            self.mend(Mend::Disk(node));
            let rate = self.rate(node);
            let now = self.queue.now();
            self.nodes[node].clock.run_at(rate, now);
            self.start(node);
        }
    }
}
