//! Who judges a site of several nodes.
//!
//! `reads`: what was acknowledged in scope `site` is read by every later read under a lease, through any node.
//! `leases`: nodes that hold a lease hold it in the same epoch, and for as long as they say. `owners`: no two nodes own a
//! bucket's conditional operations at once. `races`: of the decisions that expect the same state one at most is acknowledged. `undone`: no decision and
//! no read has not seen one that was acknowledged before. `minority`: what is acknowledged in scope `site` is on the
//! disks of a majority. `views`: an epoch is one view, the same for all. `stall`: with one node lost or slow a write
//! at another reaches scope `site` within 2 s. `recovery`: once all is whole, every node is live, serves, holds
//! everything that was acknowledged, and all agree on what was decided.

use skerry_federation::site_view::Standing;
use skerry_scenario::clock::seconds;

use super::{BUCKETS, What, World};

impl World {
    fn violated(&mut self, checker: &'static str, what: String) {
        let at = self.queue.now().0 / 1_000_000;
        self.outcome.violations.push((checker, format!("at {at} ms: {what}")));
    }

    pub(super) fn judge_view(&mut self, node: usize) {
        let Some(view) = self.nodes[node].machine.as_ref().and_then(|machine| machine.view().copied()) else {
            return;
        };
        let known = *self.views.entry(view.epoch).or_insert(view);
        if known != view {
            self.violated("views", format!("node {node} is in {view:?}, another was in {known:?}"));
        }
        self.count("views entered");
    }

    /// The epochs of the leases that are held now, by node.
    fn leased(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let of = |(number, node): (usize, &super::Node)| {
            let machine = node.machine.as_ref()?;
            let now = node.clock.read(self.queue.now());
            Some((number, machine.epoch()?)).filter(|_| machine.may_read(now))
        };
        self.nodes.iter().enumerate().filter_map(of)
    }

    pub(super) fn judge_leases(&mut self) {
        for node in 0..self.nodes.len() {
            let now = self.local(node);
            let Some(machine) = &self.nodes[node].machine else { continue };
            if machine.may_read(now) != machine.reads_until().is_some_and(|until| now < until) {
                let until = machine.reads_until();
                self.violated("leases", format!("node {node} at {now:?} serves until {until:?}"));
            }
        }
        let mut leased = self.leased();
        let Some((one, epoch)) = leased.next() else { return };
        if let Some((other, another)) = leased.find(|(_, another)| *another != epoch) {
            drop(leased);
            self.violated("leases", format!("node {one} in epoch {epoch}, node {other} in epoch {another}"));
        }
    }

    pub(super) fn judge_read(&mut self, node: usize) {
        if let Some(write) = self.nodes[node].lacks.first().copied() {
            self.violated("reads", format!("node {node} serves and lacks write {write}"));
        }
        for bucket in 0..BUCKETS.len() {
            self.judge_current(node, bucket, "read");
        }
    }

    fn judge_current(&mut self, node: usize, bucket: usize, what: &str) {
        let (current, last) = (self.nodes[node].current[bucket], self.last_acked[bucket]);
        if !self.descends(current, last) {
            let text = format!("a {what} at node {node} finds {current:?}, acknowledged was {last:?}");
            self.violated("undone", text);
        }
    }

    /// Whether a decision has seen another.
    fn descends(&self, mut from: Option<u64>, to: Option<u64>) -> bool {
        while from != to {
            let Some(What::Decision { expected, .. }) =
                from.and_then(|write| self.writes.get(&write)).map(|of| of.what)
            else {
                return false;
            };
            from = expected;
        }
        true
    }

    pub(super) fn judge_decision(&mut self, node: usize, bucket: usize) {
        let owns = |place: &super::Node| {
            let now = place.clock.read(self.queue.now());
            place.machine.as_ref().is_some_and(|machine| machine.owns(BUCKETS[bucket], now))
        };
        let owners =
            self.nodes.iter().enumerate().filter(|(other, place)| *other == node || owns(place)).count();
        if owners > 1 {
            self.violated("owners", format!("{owners} nodes decide for bucket {bucket}"));
        }
        self.judge_current(node, bucket, "decision");
    }

    pub(super) fn judge_acknowledged(&mut self, node: usize, write: u64, what: What) {
        let on_disk = self.nodes.iter().filter(|place| place.held.contains(&write)).count();
        let burned = self.burned_at.is_some_and(|at| self.queue.now().since(at) < seconds(3));
        if on_disk + usize::from(burned) < self.all.majority() {
            self.violated("minority", format!("write {write} of node {node} is on {on_disk} disks"));
        }
        self.acked.insert(write);
        for place in self.nodes.iter_mut().filter(|place| !place.held.contains(&write)) {
            place.lacks.insert(write);
        }
        let What::Decision { bucket, expected, .. } = what else { return };
        if let Some(other) = self.won.insert((bucket, expected), write) {
            self.violated("races", format!("{other} and {write} both followed {expected:?}"));
        }
        let last = self.last_acked[bucket];
        if self.descends(Some(write), last) {
            self.last_acked[bucket] = Some(write);
        } else if !self.descends(last, Some(write)) {
            self.violated("undone", format!("decision {write} has not seen {last:?}"));
        }
    }

    pub(super) fn judge_stall(&mut self, node: usize, write: u64) {
        let place = &self.nodes[node];
        let view = place.machine.as_ref().and_then(|machine| machine.view().copied());
        let text = format!("write {write} at node {node}, target {}, in {view:?}", self.target);
        self.violated("stall", text);
    }

    pub(super) fn judge_end(&mut self) {
        if !self.outcome.violations.is_empty() {
            return;
        }
        for node in 0..self.nodes.len() {
            let now = self.local(node);
            let standing = self.nodes[node].machine.as_ref().map(|machine| machine.standing(now));
            if standing != Some(Standing::Leased) {
                let view = self.nodes[node].machine.as_ref().and_then(|machine| machine.view().copied());
                self.violated("recovery", format!("node {node} is {standing:?} in {view:?}"));
            }
            self.judge_read(node);
            let (one, other) = (&self.nodes[0], &self.nodes[node]);
            if one.current != other.current || one.held != other.held {
                self.violated("recovery", format!("nodes 0 and {node} differ"));
            }
        }
        let (count, calm) = (self.nodes.len(), self.weather == super::Weather::Calm);
        self.count(["", "sites of 1", "sites of 2", "sites of 3", "sites of 4"][count]);
        self.count(if calm { "calm" } else { "storms" });
        let clocks = self.clocks;
        self.count(match clocks {
            super::Clocks::Right => "clocks within 1 %",
            super::Clocks::Strained => "clocks within 4.5 %",
            super::Clocks::Beyond => "clocks beyond the bound",
        });
    }
}
