//! The sites part into two halves for months, and again: each goes on writing, deleting and dropping tombstones that all
//! members had seen, as far as *it* knows, while disks burn; then they meet.
//!
//! Unlike an absence ([`super::strikes`]) nobody stands still: what one half forgot for good the other may still show, and
//! each has origins that the other never heard of.

use std::collections::BTreeMap;

use skerry_base::{BucketId, Vector};

use super::strikes::Relief;
use super::{Event, World};
use crate::trace::Who;
use skerry_model::space;
use skerry_scenario::clock::{days, millis, seconds, true_wall};
use skerry_scenario::draw::Ppm;

impl World {
    /// Cuts all links between two halves.
    pub(super) fn part_halves(&mut self) {
        if !self.apart.is_empty() || !self.away.is_empty() {
            return;
        }
        let sites = self.sites.len();
        // The last site is never among them, and one always is.
        let first = self.draw.below(sites as u64 - 1) as usize;
        self.apart = (0..sites - 1).filter(|site| *site == first || self.draw.below(2) == 0).collect();
        for (from, to) in self.between_halves() {
            self.net.cut(from, to);
            let side = self.wires.side(from, to);
            let at = self.queue.now().after(self.draw.span(millis(10)..=seconds(2)));
            if side.up {
                self.queue.plan(at, Event::Notice { from, to, wire: side.number });
            }
        }
        let left = self.draw.between(1..=2) as u32;
        let at = self.queue.now().after(self.draw.span(seconds(3)..=seconds(20)));
        self.queue.plan(at, Event::Relief(Relief::Months { left }));
    }

    fn between_halves(&self) -> Vec<(usize, usize)> {
        let sites = 0..self.sites.len();
        let all = sites.clone().flat_map(|from| sites.clone().map(move |to| (from, to)));
        all.filter(|(from, to)| self.apart.contains(from) != self.apart.contains(to)).collect()
    }

    /// Months pass at both; then they work on apart, for as long again or until they meet.
    pub(super) fn pass_months(&mut self, left: u32) {
        let months = match left {
            0 | 1 => self.draw.span(days(225)..=days(260)),
            _ => self.draw.span(days(135)..=days(170)),
        };
        self.retire_as_known();
        self.queue.skip_to(self.queue.now().after(months));
        self.active_until = self.active_until.after(months);
        self.count("months apart");
        self.tell(Who::World, format_args!("{} days later", months.as_secs() / 86_400));
        self.retire_as_known();
        if self.draw.chance(Ppm::percent(50)) {
            self.spoil_clock();
        }
        if self.draw.chance(Ppm::percent(25)) {
            let site = self.draw.below(self.sites.len() as u64) as usize;
            self.tell(Who::World, format_args!("site-{} burns", site + 1));
            self.burn(site);
        }
        let next = if left > 1 { Relief::Months { left: left - 1 } } else { Relief::Meet };
        let at = self.queue.now().after(self.draw.span(seconds(3)..=seconds(20)));
        self.queue.plan(at, Event::Relief(next));
    }

    /// A machine comes up without a battery and is never synchronised, is ahead by months, or is set right.
    fn spoil_clock(&mut self) {
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let now = self.queue.now();
        let truth = true_wall(now).0 as i64;
        let wanted = match self.draw.below(3) {
            0 => 0,
            1 => truth + days(200).as_millis() as i64,
            _ => truth,
        };
        let Some(place) = self.sites.get_mut(site) else { return };
        place.wall.jump(wanted - place.wall.read(now).0 as i64);
        self.count("clocks of 1970, months ahead or set right");
        self.tell(Who::World, format_args!("site-{} believes that it is {wanted}", site + 1));
    }

    /// The way between the halves is open again.
    pub(super) fn meet(&mut self) {
        self.retire_as_known();
        for (from, to) in self.between_halves() {
            self.net.heal(from, to);
        }
        self.apart.clear();
        self.count("halves that met");
    }

    /// Each site drops the tombstones that all members have seen, as its own machine has heard.
    fn retire_as_known(&mut self) {
        for site in 0..self.sites.len() {
            let seen = self.known_to_all(site);
            self.retire(site, &seen);
        }
    }

    /// What all members of each bucket have seen, as one site knows; none of a bucket of which it does not know all members.
    fn known_to_all(&self, site: usize) -> BTreeMap<BucketId, Vector> {
        let Some(running) = self.running(site) else { return BTreeMap::new() };
        let view = running.store.view();
        let least = |bucket: BucketId| {
            let machine = &running.federation;
            let own = machine.knows_all_members(bucket).then(|| space::vector(&view, bucket).ok())??;
            let lesser = |least: Vector, (_, other): (_, Vector)| {
                least.iter().map(|(origin, seq)| (origin, seq.min(other.get(origin)))).collect()
            };
            Some((bucket, machine.seen(bucket).into_iter().fold(own, lesser)))
        };
        running.members.iter().filter_map(|bucket| least(*bucket)).collect()
    }
}
