//! Clients of a site: they write through any node, race for decisions wherever they are, and read.

use skerry_federation::site_view::Input;
use skerry_scenario::clock::millis;

use super::{BUCKETS, Event, Mistake, Operation, Packet, STALL, Weather, What, World, Write};

impl World {
    pub(super) fn client(&mut self, node: usize) {
        if self.resting {
            return;
        }
        self.plan(millis(20)..=millis(250), Event::Client { node });
        if self.nodes[node].machine.is_none() {
            return;
        }
        if self.mistake == Some(Mistake::Patience) {
            self.ask_anew(node);
        }
        // A decision that waits would find the late node in its stead.
        if self.mistake == Some(Mistake::Patience) || self.draw.below(2) == 0 {
            self.take_in(node, What::Plain);
            return;
        }
        let bucket = self.draw.below(BUCKETS.len() as u64) as usize;
        let expected = self.nodes[node].current[bucket];
        let owner = self.nodes[node].machine.as_ref().and_then(|machine| machine.owner(BUCKETS[bucket]));
        if let Some(owner) = owner {
            self.send(node, owner, Packet::Decide { bucket, expected });
        }
    }

    /// A shell that begins its writes anew before anybody can be late.
    fn ask_anew(&mut self, node: usize) {
        for write in self.nodes[node].open.clone() {
            if matches!(self.writes.get(&write).map(|of| of.what), Some(What::Plain)) {
                self.give(node, Input::GiveUp(write));
                self.give(node, Input::Write { write, bound: None });
            }
        }
    }

    /// A write is let in at a node.
    fn take_in(&mut self, node: usize, what: What) {
        let number = self.writes.len() as u64 + 1;
        let begun = self.queue.now();
        self.writes.insert(number, Write { what, by: node, begun });
        let epoch = self.nodes[node].machine.as_ref().and_then(|machine| machine.epoch());
        self.nodes[node].storing.insert(number, epoch.unwrap_or_default());
        self.nodes[node].open.insert(number);
        self.put(node, Operation::Record(number));
        let is_bound =
            matches!(what, What::Decision { .. }) && self.mistake != Some(Mistake::UnboundDecision);
        self.give(node, Input::Write { write: number, bound: epoch.filter(|_| is_bound) });
        let boot = self.nodes[node].boot;
        self.plan(STALL..=STALL, Event::Deadline { node, boot, write: number });
    }

    /// The owner of a bucket decides, if it is the owner and the client has seen what is current.
    pub(super) fn decide(&mut self, node: usize, bucket: usize, expected: Option<u64>) {
        let now = self.local(node);
        let Some(machine) = &self.nodes[node].machine else { return };
        let is_owner = match self.mistake {
            Some(Mistake::NoLease) => {
                let seat = self.nodes[node].seat;
                machine.owner(BUCKETS[bucket]) == Some(seat)
                    && machine.view().is_some_and(|view| view.is_quorate(self.all))
            }
            _ => machine.owns(BUCKETS[bucket], now),
        };
        let Some((epoch, start)) = machine.stamp().filter(|_| is_owner) else {
            return self.count("conditions refused: not the owner, or no lease");
        };
        let is_of_bucket = |write: &u64| match self.writes.get(write).map(|of| (of.what, of.by)) {
            Some((What::Decision { bucket: of, .. }, by)) => of == bucket && by == node,
            _ => false,
        };
        // One at a time on its way to the disk, as on a commit thread.
        if self.nodes[node].current[bucket] != expected || self.nodes[node].storing.keys().any(is_of_bucket) {
            return self.count("conditions that did not hold");
        }
        self.judge_decision(node, bucket);
        let before = expected.and_then(|write| self.writes.get(&write)).map(|of| of.what);
        let number = match before {
            Some(What::Decision { stamp, number, .. }) if stamp == (epoch, start) => number + 1,
            _ => 1,
        };
        self.take_in(node, What::Decision { bucket, expected, stamp: (epoch, start), number });
    }

    /// A write has reached scope `site`.
    pub(super) fn settled(&mut self, node: usize, write: u64) {
        if !self.nodes[node].open.remove(&write) {
            return;
        }
        let Some(of) = self.writes.get(&write).copied() else { return };
        let took = self.queue.now().since(of.begun);
        if self.is_judged_for_stalls(node) {
            self.outcome.longest = self.outcome.longest.max(took);
        }
        self.count(if matches!(of.what, What::Plain) { "writes of scope site" } else { "decisions" });
        self.judge_acknowledged(node, write, of.what);
    }

    /// The client has waited for as long as was promised.
    pub(super) fn deadline(&mut self, node: usize, write: u64) {
        let is_plain = matches!(self.writes.get(&write).map(|of| of.what), Some(What::Plain));
        let is_pushed_on = self.mistake == Some(Mistake::UnboundDecision) && !is_plain;
        if is_pushed_on || !self.nodes[node].open.remove(&write) {
            return;
        }
        self.give(node, Input::GiveUp(write));
        if is_plain && self.is_judged_for_stalls(node) {
            self.judge_stall(node, write);
        }
        self.count(if is_plain { "writes of scope node" } else { "decisions unanswered" });
    }

    /// In calm weather, at a node that nothing strikes, once the site has begun.
    fn is_judged_for_stalls(&self, node: usize) -> bool {
        self.weather == Weather::Calm
            && node != self.target
            && self.queue.now().since(super::Instant(0)) > millis(7500)
    }

    pub(super) fn read(&mut self, node: usize) {
        self.plan(millis(10)..=millis(120), Event::Read { node });
        let now = self.local(node);
        let Some(machine) = &self.nodes[node].machine else { return };
        let serves = match self.mistake {
            Some(Mistake::NoLease) => machine
                .view()
                .is_some_and(|view| view.is_quorate(self.all) && view.live.contains(self.nodes[node].seat)),
            _ => machine.may_read(now),
        };
        if serves {
            self.count("reads under a lease");
            self.judge_read(node);
        } else {
            self.count("reads without one");
        }
    }
}
