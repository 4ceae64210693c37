//! What travels by itself, whatever the views: feeds, and records that were read or asked for alone.

use skerry_scenario::clock::{millis, seconds};

use super::{DECIDED, Event, Operation, What, World};

impl World {
    /// What one has and the other has not: all of it, some buckets of it, or a few records alone.
    pub(super) fn gossip(&mut self, one: usize, other: usize) {
        let last = if self.rests_since.is_some() { seconds(3) } else { self.feeds };
        self.plan(millis(300)..=last, Event::Gossip { one, other });
        for (from, to) in [(one, other), (other, one)] {
            let is_cut = self.cuts.contains(&(from, to)) || self.cuts.contains(&(to, from));
            if is_cut || !self.is_running(from) || !self.is_running(to) {
                continue;
            }
            let lacking = self.nodes[from].kept.held.difference(&self.nodes[to].kept.held).copied().collect();
            let lacking = self.taken(to, lacking);
            let lacking = self.chosen(from, lacking);
            if !lacking.is_empty() {
                self.put(to, Operation::Records(lacking, None));
            }
        }
    }

    /// What a node keeps of these.
    pub(super) fn taken(&self, node: usize, mut writes: Vec<u64>) -> Vec<u64> {
        writes.retain(|write| self.is_kept(node, *write));
        writes
    }

    /// Whether a node keeps the bucket of a write; what is said of homes everybody does.
    pub(super) fn is_kept(&self, node: usize, write: u64) -> bool {
        let of = self.writes.get(&write);
        let is_object = of.is_some_and(|of| matches!(of.what, What::Plain | What::Decision { .. }));
        !is_object || of.map(|of| of.bucket) != self.nodes[node].excused
    }

    /// Feeds bring what vectors cover; loose records come alone.
    fn chosen(&mut self, from: usize, mut lacking: Vec<u64>) -> Vec<u64> {
        if self.rests_since.is_some() || lacking.is_empty() {
            return lacking;
        }
        match self.draw.below(4) {
            0 => {}
            1 => {
                let count = 1 + self.draw.below(3);
                let few: Vec<u64> = (0..count).filter_map(|_| self.draw.pick(&lacking).copied()).collect();
                return few;
            }
            _ => {
                let system = self.draw.below(4) > 0;
                let buckets = [(); DECIDED].map(|()| self.draw.below(4) > 0);
                lacking.retain(|write| match self.writes.get(write) {
                    Some(of) if matches!(of.what, What::Plain | What::Decision { .. }) => {
                        buckets[of.bucket] && self.nodes[from].kept.covers(of)
                    }
                    Some(of) if matches!(of.what, What::Said { .. } | What::Given { .. }) => {
                        system && self.nodes[from].kept.covers(of)
                    }
                    _ => system,
                });
            }
        }
        lacking
    }
}
