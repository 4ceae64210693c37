//! Faults strike, and end.

use std::collections::BTreeMap;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Vector};
use skerry_model::retire::{self, Settled, Sweep};
use skerry_model::space::DotRange;
use skerry_model::{Entry, space};

use super::{Death, Event, World};
use crate::canary::Canary;
use crate::checkers::Violation;
use crate::disk::Snapshot;
use crate::environment::Class;
use crate::ledger::{self, Fact};
use crate::memory::Memory;
use crate::site::{Answer, Fates, lock};
use crate::trace::Who;
use skerry_scenario::clock::{days, millis, seconds};
use skerry_scenario::draw::Ppm;

/// A fault ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Relief {
    /// One direction is open again.
    Heal { from: usize, to: usize },
    /// A flapping link takes its next step.
    Flap { one: usize, other: usize, left: u32 },
    /// The disk has room again.
    Room { site: usize },
    /// Syncs work again.
    Sync { site: usize },
    /// Months later, a site that was away comes back.
    Return { site: usize },
    /// Months pass while two halves are apart, and then so many times more.
    Months { left: u32 },
    /// Two halves meet again.
    Meet,
}

impl World {
    pub(super) fn plan_strike(&mut self, class: Class, pace: Duration) {
        let at = self.queue.now().after(self.draw.span(pace / 2..=pace * 3 / 2));
        self.queue.plan(at, Event::Strike(class));
    }

    pub(super) fn strike(&mut self, class: Class) {
        if self.resting {
            return;
        }
        let pace = self.environment.faults.iter().find(|(of, _)| *of == class).map(|(_, pace)| *pace);
        pace.into_iter().for_each(|pace| self.plan_strike(class, pace));
        self.count(class.name());
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let other = (site + 1 + self.draw.below(self.sites.len() as u64 - 1) as usize) % self.sites.len();
        self.tell(Who::World, format_args!("{class:?} strikes site-{} (site-{})", site + 1, other + 1));
        match class {
            Class::Power => self.doom(site, Death::Power),
            Class::Kill => self.doom(site, Death::Kill),
            Class::Cut => self.cut_off(site),
            Class::OneWay => self.cut_for((site, other), millis(100)..=seconds(40)),
            Class::Flap => self.flap(site, other, 8),
            Class::Clock => self.set_clock(site),
            Class::Restore => self.restore(site),
            Class::Absence => self.send_away(site),
            Class::Full => self.fill(site),
            Class::Sync => self.break_syncs(site),
            Class::Rot => self.rot(site),
            Class::Halves => self.part_halves(),
            Class::Damage => self.damage(site),
        }
    }

    pub(super) fn relieve(&mut self, relief: Relief) {
        if self.resting {
            return;
        }
        self.tell(Who::World, format_args!("{relief:?}"));
        match relief {
            Relief::Heal { from, to } => self.net.heal(from, to),
            Relief::Flap { one, other, left } => self.flap(one, other, left),
            Relief::Room { site } => {
                if let Some(place) = self.sites.get(site) {
                    place.disk.set_capacity(None);
                }
            }
            Relief::Sync { site } => {
                if let Some(place) = self.sites.get(site) {
                    place.disk.set_sync_fails(Ppm::NEVER);
                }
            }
            Relief::Return { site } => self.come_back(site),
            Relief::Months { left } => self.pass_months(left),
            Relief::Meet => self.meet(),
        }
    }

    fn cut_off(&mut self, site: usize) {
        let length = self.draw.span(millis(100)..=seconds(60));
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            self.cut_for((site, other), length..=length);
            self.cut_for((other, site), length..=length);
        }
    }

    fn cut_for(&mut self, (from, to): (usize, usize), length: std::ops::RangeInclusive<Duration>) {
        self.net.cut(from, to);
        let at = self.queue.now().after(self.draw.span(length));
        self.queue.plan(at, Event::Relief(Relief::Heal { from, to }));
        for (from, to) in [(from, to), (to, from)] {
            let side = self.wires.side(from, to);
            let at = self.queue.now().after(self.draw.span(millis(10)..=seconds(30)));
            if side.up {
                self.queue.plan(at, Event::Notice { from, to, wire: side.number });
            }
        }
    }

    /// Nothing has come through for a while: if that is still so, the connection is given up.
    pub(super) fn notice(&mut self, from: usize, to: usize, wire: u64) {
        if !self.net.open(from, to) || !self.net.open(to, from) {
            self.link_down(from, to, wire);
        }
    }

    fn flap(&mut self, one: usize, other: usize, left: u32) {
        let length = millis(10)..=seconds(4);
        self.cut_for((one, other), length.clone());
        self.cut_for((other, one), length);
        if left > 0 {
            let at = self.queue.now().after(self.draw.span(millis(100)..=seconds(6)));
            self.queue.plan(at, Event::Relief(Relief::Flap { one, other, left: left - 1 }));
        }
    }

    fn set_clock(&mut self, site: usize) {
        let hours = self.draw.pick(&[-24, -1, 1, 24]).copied().unwrap_or(1);
        let milliseconds = if self.draw.below(2) == 0 { 3_600_000 } else { 60_000 };
        if let Some(place) = self.sites.get_mut(site) {
            place.wall.jump(hours * milliseconds);
        }
    }

    /// First a backup is taken; the next time it is put back.
    fn restore(&mut self, site: usize) {
        if self.environment.burns && self.draw.chance(Ppm::percent(40)) {
            return self.burn(site);
        }
        let memory = lock(&self.history).remember(site);
        let Some(place) = self.sites.get_mut(site) else { return };
        let Some((image, memory)) = place.backup.take() else {
            if place.running.is_some() {
                place.backup = Some((place.disk.snapshot(), memory));
            }
            return;
        };
        // What everybody has seen may be dropped in between: the backup then holds what is dead without a trace.
        if self.draw.chance(Ppm::percent(50)) {
            self.retire_everywhere();
        }
        self.set_back(site, &image, memory);
        self.count("restores");
    }

    /// A machine is lost with its disk; another takes its place and finds what the others have.
    pub(super) fn burn(&mut self, site: usize) {
        self.set_back(site, &Snapshot::default(), Memory::default());
        self.count("burns");
    }

    fn set_back(&mut self, site: usize, image: &Snapshot, memory: Memory) {
        self.die(site, Death::Kill);
        if let Some(place) = self.sites.get_mut(site) {
            place.disk.restore(image);
        }
        lock(&self.history).note_taken(self.queue.now(), site);
        lock(&self.history).set_back(site, memory);
        self.scopes.lose(site);
        self.own_writes.set_back(site);
        if let Some(shows) = self.shows.get_mut(site) {
            *shows = crate::checkers::durability::Shows::default();
        }
    }

    fn send_away(&mut self, site: usize) {
        if !self.away.is_empty() {
            return;
        }
        self.away.insert(site);
        if self.running(site).is_some() {
            self.die(site, Death::Kill);
        }
        let at = self.queue.now().after(self.draw.span(seconds(2)..=seconds(20)));
        self.queue.plan(at, Event::Relief(Relief::Return { site }));
    }

    /// Months pass in which nobody asks for anything; the sites that are up may drop what everybody has seen.
    pub(super) fn come_back(&mut self, site: usize) {
        let months = self.draw.span(days(20)..=days(260));
        self.queue.skip_to(self.queue.now().after(months));
        self.active_until = self.active_until.after(months);
        self.count("absences");
        self.tell(Who::World, format_args!("{} days later", months.as_secs() / 86_400));
        if self.draw.chance(Ppm::percent(70)) {
            self.retire_everywhere();
        }
        self.away.remove(&site);
        self.plan_start(site);
    }

    pub(super) fn retire_in_turn(&mut self) {
        if !self.resting {
            let at = self.queue.now().after(self.draw.span(seconds(4)..=seconds(20)));
            self.queue.plan(at, Event::Retire);
            self.retire_everywhere();
        }
    }

    fn retire_everywhere(&mut self) {
        let seen = self.seen_by_all();
        for site in 0..self.sites.len() {
            self.retire(site, &seen);
        }
    }

    /// A worker of a site drops tombstones that all members have seen.
    pub(super) fn retire(&mut self, site: usize, seen: &BTreeMap<BucketId, Vector>) {
        let members = self.running(site).map(|running| running.members.clone()).unwrap_or_default();
        for bucket in members {
            let (Some(running), Some(covered_by_all)) = (self.running(site), seen.get(&bucket)) else {
                return;
            };
            // However young: no promise rests on how long they were kept.
            let settled = Settled { covered_by_all };
            let found = retire::droppable(&running.store.view(), bucket, settled, &Sweep::START, 10_000);
            let mut dots = found.map(|(dots, _)| dots).unwrap_or_default();
            if self.environment.canary == Some(Canary::EagerSweep) {
                let all = space::dots_in(&running.store.view(), bucket, DotRange::ALL, 3).unwrap_or_default();
                dots = all.into_iter().filter(|dot| covered_by_all.covers(*dot)).collect();
            }
            if !dots.is_empty() {
                self.submit_retirement(site, bucket, dots);
            }
        }
    }

    fn submit_retirement(&mut self, site: usize, bucket: BucketId, dots: Vec<Dot>) {
        self.tell(Who::Site(site), format_args!("retires {dots:?}"));
        let history = lock(&self.history);
        dots.iter().for_each(|dot| self.trace.explain(|| format!("{:?}", history.write(bucket, *dot))));
        drop(history);
        self.count("retirements");
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (std::sync::Arc::clone(&running.store), std::sync::Arc::clone(&running.desk));
        let entries = move |view: &dyn View, dots: &[Dot]| {
            let mut horizon = ledger::fact(view, Fact::Horizon, bucket)?;
            dots.iter().for_each(|dot| horizon.add(*dot));
            let drop = Entry::Drop { bucket, dots: dots.to_vec() };
            let entries = [drop, ledger::set_fact(Fact::Horizon, bucket, horizon)];
            let stored = |entry: &Entry| skerry_storage::Entry::new(entry.encode()).freeing();
            Ok::<_, space::SpaceError>(((), entries.iter().map(stored).collect()))
        };
        let (gone, deciding) = (dots.clone(), notes.clone());
        store.submit(
            move |view| {
                let mut history = lock(&deciding.history);
                history.decided_to_drop(site, bucket, &dots);
                let alive = dots.iter().filter(|dot| !history.retired(site, bucket, **dot));
                let what = |dot| format!("{bucket} {dot} lives and is dropped as a tombstone");
                let found = alive.map(|dot| Violation::at("acknowledged", site, what(dot)));
                lock(&deciding.found).extend(found.collect::<Vec<_>>());
                drop(history);
                entries(view, &dots)
            },
            move |result| {
                notes.done(Fates::drops(bucket, gone), result.is_ok(), &desk, Answer::Kept);
            },
        );
        self.plan_pump(site);
    }

    /// What every member of each bucket has seen, those included that are down or away.
    fn seen_by_all(&mut self) -> BTreeMap<BucketId, Vector> {
        let mut least: BTreeMap<BucketId, Vector> = BTreeMap::new();
        for site in 0..self.sites.len() {
            for (bucket, vector) in self.seen_by(site) {
                let both = match least.get(&bucket) {
                    None => vector,
                    Some(known) => {
                        known.iter().map(|(origin, seq)| (origin, seq.min(vector.get(origin)))).collect()
                    }
                };
                least.insert(bucket, both);
            }
        }
        least
    }

    fn fill(&mut self, site: usize) {
        let room = self.draw.pick(&[0, 0, 70_000, 300_000]).copied().unwrap_or(0);
        let at = self.queue.now().after(self.draw.span(seconds(2)..=seconds(40)));
        if let Some(place) = self.sites.get(site) {
            place.disk.set_capacity(Some(place.disk.used() + room));
            self.queue.plan(at, Event::Relief(Relief::Room { site }));
        }
    }

    /// A bit of a payload segment flips. The body it belongs to may be unreadable there from now on, never wrong.
    fn rot(&mut self, site: usize) {
        let place = self.sites.get(site).and_then(|place| place.disk.rot("payload/"));
        if let Some((file, at)) = place {
            self.tell(Who::Site(site), format_args!("rots at {at} of {file}"));
            self.rotten.insert(site);
        }
    }

    fn break_syncs(&mut self, site: usize) {
        let at = self.queue.now().after(self.draw.span(millis(100)..=seconds(5)));
        if let Some(place) = self.sites.get(site) {
            place.disk.set_sync_fails(Ppm::percent(50));
            self.queue.plan(at, Event::Relief(Relief::Sync { site }));
        }
    }
}
