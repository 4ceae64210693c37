//! Homes: the first ones, planned moves, and an operator who replaces one whose machine is destroyed.

use std::collections::BTreeSet;

use skerry_base::Vector;
use skerry_federation::site_view::Seats;
use skerry_model::bucket::{HomeCause, HomeDocument, Seen};
use skerry_scenario::clock::{millis, seconds};

use super::faults::Mend;
use super::{BUCKETS, DECIDED, Event, Weather, What, World, Write};

impl World {
    /// Of each bucket, known to everybody.
    pub(super) fn name_first_homes(&mut self) {
        for bucket in 0..DECIDED {
            let elsewhere = self.weather == Weather::Storm && self.draw.below(4) == 0;
            let home = self.draw.below(self.seated() as u64) as usize;
            let home = if elsewhere { self.far() } else { home };
            self.name_first_home(bucket, home);
        }
    }

    pub(super) fn name_first_home(&mut self, bucket: usize, home: usize) {
        let (site, origin) = (self.nodes[home].id, self.nodes[self.far()].id);
        let named = HomeDocument::first(BUCKETS[bucket], site, false);
        let number = self.writes.len() as u64 + 1;
        let write = Write { what: What::Home { named, context: BTreeSet::new() }, bucket, origin, seq: 0 };
        self.nodes.iter_mut().for_each(|node| node.kept.keep(number, &write));
        self.writes.insert(number, write);
        self.named.insert((bucket, 1), site);
    }

    /// A home is given to another node of the site, to the other site, or back.
    pub(super) fn move_home(&mut self) {
        if self.rests_since.is_some() {
            return;
        }
        self.plan(millis(300)..=if self.hunts { millis(700) } else { seconds(4) }, Event::Move);
        let bucket = self.draw.below(DECIDED as u64) as usize;
        let homes = self.homes(bucket);
        let Some(node) = self.draw.pick(&homes).copied() else { return };
        let far = self.far();
        let to = if node != far && self.draw.below(2) == 0 {
            far
        } else {
            self.draw.below(self.seated() as u64) as usize
        };
        if to != node {
            self.hand(node, bucket, self.nodes[to].id);
        }
    }

    /// The nodes that take themselves for the home.
    pub(super) fn homes(&self, bucket: usize) -> Vec<usize> {
        let is_home = |node: &usize| {
            let known = self.known(*node, bucket);
            self.is_running(*node) && known.is_some_and(|known| known.home.site == self.nodes[*node].id)
        };
        (0..self.nodes.len()).filter(is_home).collect()
    }

    /// An operator looks for homes whose machine is destroyed. Everybody is asked first, and must answer.
    pub(super) fn operator(&mut self) {
        self.plan(seconds(4)..=seconds(10), Event::Operator);
        let is_quiet = |node: usize| self.is_running(node) && self.nodes[node].doing.is_empty();
        let is_whole = (0..self.nodes.len()).all(is_quiet) && self.cuts.is_empty();
        if is_whole && self.seated() == self.nodes.len() - 1 {
            (0..DECIDED).for_each(|bucket| self.replace(bucket));
        }
    }

    fn replace(&mut self, bucket: usize) {
        let far = self.far();
        let mut seen = Vector::new();
        for node in 0..self.nodes.len() {
            let kept = &self.nodes[node].kept;
            seen.merge(&kept.vector(bucket));
            let heard: Vec<u64> = kept.homes[bucket].iter().chain(&kept.tenures[bucket]).copied().collect();
            heard.into_iter().for_each(|write| self.hold_durably(far, write));
        }
        let Some(known) = self.known(far, bucket) else { return };
        let lost = known.home.site;
        if self.nodes.iter().any(|node| node.id == lost) {
            return;
        }
        if known.is_kept_by_its_site(&self.ever) {
            return self.count("replacements refused: kept by its site");
        }
        self.count("homes replaced");
        let to = self.draw.below(self.nodes.len() as u64) as usize;
        let (site, epoch, cause) = (self.nodes[to].id, known.home.epoch + 1, HomeCause::Replaced(lost));
        let seen = Seen::of(&seen);
        self.write_home(far, bucket, HomeDocument { site, epoch, seen, cause, ..known.home });
    }

    /// A site of one or two nodes becomes one of more: those are started anew, the others for the first time.
    pub(super) fn grow(&mut self) {
        self.count("sites that grew");
        (0..self.seated()).for_each(|node| self.kill(node));
        self.all = Seats::first(self.nodes.len() - 1);
        for node in self.site() {
            self.plan(millis(10)..=seconds(if node == 1 { 8 } else { 1 }), Event::Mend(Mend::Start(node)));
        }
    }
}
