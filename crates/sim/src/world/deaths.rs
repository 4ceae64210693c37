//! Processes end and come back: by loss of power, by `kill -9`, by a store that will write no more.

use skerry_base::kv::View;
use skerry_storage::{Recovery, StorageError};

use super::{Death, Event, World};
use crate::canary::Canary;
use crate::checkers::Violation;
use crate::environment::Class;
use crate::site::{self, Start, lock};
use crate::standing::Standing;
use crate::trace::Who;
use skerry_scenario::clock::{millis, seconds};

impl World {
    /// A canary that lives in the disk.
    pub(super) fn set_lying(&self, site: usize) {
        let lying = self.environment.canary == Some(Canary::LyingDisk);
        if let Some(place) = self.sites.get(site).filter(|_| lying) {
            place.disk.set_lying(true);
        }
    }

    /// The machine will die at some call to the disk soon: in the middle of whatever the store does then.
    pub(super) fn doom(&mut self, site: usize, death: Death) {
        let Some(place) = self.sites.get(site).filter(|place| place.running.is_some()) else { return };
        let calls = self.draw.below(50);
        place.disk.set_fuse(calls);
        let boot = place.boot;
        self.dying.insert(site, death);
        self.tell(Who::Site(site), format_args!("will die ({death:?}) after {calls} calls"));
        let at = self.queue.now().after(self.draw.span(millis(10)..=seconds(3)));
        self.queue.plan(at, Event::Expire { site, boot });
    }

    pub(super) fn expire(&mut self, site: usize, boot: u64) {
        let here = self.sites.get(site).is_some_and(|place| place.boot == boot && place.running.is_some());
        if let Some(death) = self.dying.get(&site).copied().filter(|_| here) {
            self.die(site, death);
        }
    }

    /// After something was done at a site: whether it survived that.
    pub(super) fn mourn(&mut self, site: usize, poisoned: bool) {
        let dead = self.sites.get(site).is_some_and(|place| place.disk.is_dead());
        if dead {
            let death = self.dying.get(&site).copied().unwrap_or(Death::Power);
            self.die(site, death);
        } else if poisoned {
            self.tell(Who::Site(site), format_args!("will write no more"));
            self.die(site, Death::Kill);
        }
    }

    pub(super) fn die(&mut self, site: usize, death: Death) {
        self.dying.remove(&site);
        let Some(place) = self.sites.get_mut(site) else { return };
        place.stop();
        match death {
            Death::Power => place.disk.lose_power(),
            Death::Kill => place.disk.lose_process(),
        }
        self.count(if death == Death::Power { "power losses" } else { "kills" });
        self.tell(Who::Site(site), format_args!("dies ({death:?})"));
        lock(&self.history).group_is_lost(site);
        self.scopes.forget(site);
        let notice = if death == Death::Power { seconds(1)..=seconds(20) } else { millis(1)..=seconds(1) };
        for (peer, wire) in self.wires.peers_of(site) {
            let at = self.queue.now().after(self.draw.span(notice.clone()));
            self.queue.plan(at, Event::Down { from: peer, to: site, wire });
        }
        self.wires.forget(site);
        let waiting = self.clients.get_mut(site).into_iter().flatten().enumerate();
        let waiting: Vec<usize> =
            waiting.filter(|(_, client)| client.waits).map(|(number, _)| number).collect();
        waiting.into_iter().for_each(|client| self.client_goes_on(site, client));
        if !self.away.contains(&site) {
            self.plan_start(site);
        }
    }

    pub(super) fn plan_start(&mut self, site: usize) {
        let soon = if self.resting { millis(100)..=millis(500) } else { millis(300)..=seconds(12) };
        let at = self.queue.now().after(self.draw.span(soon));
        self.queue.plan(at, Event::Start { site });
    }

    pub(super) fn start(&mut self, site: usize) {
        if self.away.contains(&site) || self.running(site).is_some() {
            return;
        }
        let incarnation = match self.environment.canary {
            Some(Canary::ReusedIncarnation) => 1,
            _ => self.draw.number(),
        };
        let system = self.system;
        let (settings, seed) = (site::settings(&mut self.draw), self.draw.number());
        let shaky = self.environment.faults.iter().any(|(class, _)| *class == Class::Power);
        let falls = !self.resting && shaky && self.draw.below(10) == 0;
        let calls = self.draw.below(120);
        let finding = &self.environment.finding;
        let start = Start {
            incarnation,
            seed,
            fresh: self.environment.fresh.get(site).copied().unwrap_or(true),
            mends: self.environment.canary != Some(Canary::UnmendedDamage),
            levels: finding.levels,
            dialect: finding.dialect(site),
            at_once: finding.at_once,
        };
        let Some(place) = self.sites.get_mut(site) else { return };
        if falls {
            place.disk.set_fuse(calls);
        }
        let started = place.start(settings, system, start);
        if falls {
            place.disk.clear_fuse();
        }
        match started {
            Ok((life, recovery)) => self.started(site, life, &recovery),
            Err(error) => self.start_failed(site, &error),
        }
    }

    fn start_failed(&mut self, site: usize, error: &StorageError) {
        self.tell(Who::Site(site), format_args!("does not start: {error}"));
        let Some(place) = self.sites.get_mut(site) else { return };
        place.stop();
        if place.disk.is_dead() {
            place.disk.lose_power();
        } else {
            place.disk.lose_process();
            let passing =
                matches!(error, StorageError::Full | StorageError::Poisoned(_) | StorageError::Io { .. });
            if self.resting || !passing {
                let what = format!("does not start: {error}");
                self.violated(Violation::at("recovery", site, what));
            }
        }
        self.count("failed starts");
        self.plan_start(site);
    }

    fn started(&mut self, site: usize, life: u64, recovery: &Recovery) {
        self.count("starts");
        self.tell(Who::Site(site), format_args!("starts its life {life}: {recovery:?}"));
        if let Some(damage) = recovery.damage.first().filter(|_| !self.hurt.contains_key(&site)) {
            self.violated(Violation::at("recovery", site, format!("damage without a cause: {damage:?}")));
        }
        self.recover_damage(site);
        self.recover_departures(site);
        self.recovered(site);
        self.introduce(site);
        self.plan_pump(site);
    }

    /// What a process finds when it comes up is durable: compare it with what its former lives have shown, and
    /// let the history know what became of what was being decided.
    fn recovered(&mut self, site: usize) {
        let Some(running) = self.running(site) else { return };
        let view = running.store.view();
        let buckets = self.all_buckets();
        let read = |bucket| Standing::read(&view as &dyn View, bucket).map(|standing| (bucket, standing));
        let standings: Result<Vec<_>, _> = buckets.into_iter().map(read).collect();
        drop(view);
        match standings {
            Ok(standings) => {
                for (bucket, standing) in standings {
                    self.compare_shown(site, bucket, &standing);
                    lock(&self.history).found(site, bucket, &standing.stored);
                }
            }
            Err(error) => self.violated(Violation::at("recovery", site, error.to_string())),
        }
        if let Some(store) = self.running(site).map(|running| std::sync::Arc::clone(&running.store)) {
            self.judge_promises_at(site, &store);
        }
    }
}
