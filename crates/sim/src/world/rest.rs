//! The end of a run: everything is healed, nobody asks any more, and the sites must agree within the bound.
//!
//! A system that is only safe may stand still for ever; this part tests that it does not. Clocks stay wrong:
//! agreement must not need them.

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Instant};
use skerry_federation::{Input, Ticket};
use skerry_model::space;

use super::World;
use crate::checkers::{Violation, acknowledged, bodies, convergence, resurrection, vectors};
use crate::history::{History, Place};
use crate::site::lock;
use crate::standing::Standing;
use crate::trace::Who;
use crate::verdict;
use skerry_scenario::clock::seconds;
use skerry_scenario::draw::Ppm;
use skerry_scenario::link::Link;

/// A question about members must be answered within this on calm links.
const ANSWER_WITHIN: Duration = seconds(10);
/// Sites that find each other by landmarks have this long to know who lives.
const SETTLE: Duration = seconds(300);
/// A bucket of which nobody is a member.
pub(super) const NOBODYS: BucketId = BucketId(*b"nobody's bucket!");
/// How often the sites are asked whether they agree.
const STEP: Duration = seconds(10);

impl World {
    /// Heals, waits and judges; says how long agreement took.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        if !self.violations.is_empty() && self.environment.canary.is_none() {
            return None;
        }
        self.heal();
        let healed = self.queue.now();
        let bound = healed.after(self.environment.quiet_within);
        if self.environment.finding.asks {
            self.go_until(healed.after(SETTLE));
            self.ask_strangers();
            if self.environment.metric {
                self.seek_all();
            }
        }
        let mut agreed = None;
        while agreed.is_none() && self.queue.now() < bound {
            let step = self.queue.now().after(STEP);
            self.go_until(step);
            self.join_all();
            agreed = (self.are_whole() && self.agree()).then(|| self.queue.now().since(healed));
        }
        self.tell(Who::World, format_args!("agreed after {agreed:?}"));
        self.ask_for_members();
        self.know_members();
        self.judge();
        agreed
    }

    pub(super) fn go_until(&mut self, until: Instant) {
        while let Some(event) = self.queue.take(until) {
            self.happen(event);
            let found = std::mem::take(&mut *lock(&self.found));
            found.into_iter().for_each(|violation| self.violated(violation));
        }
        self.queue.skip_to(until);
    }

    /// Who follows a bucket is found by every site that does not; and nobody by every site, if that is the truth.
    fn ask_strangers(&mut self) {
        let mut asked = Vec::new();
        for site in 0..self.sites.len() {
            let follows = |at: usize, bucket: &BucketId| {
                self.running(at).is_some_and(|running| running.members.contains(bucket))
            };
            let held = |bucket: &BucketId| (0..self.sites.len()).any(|at| follows(at, bucket));
            let buckets = self.all_buckets().into_iter().filter(|bucket| !follows(site, bucket));
            asked.extend(buckets.filter(held).map(|bucket| (site, bucket)));
            // Older releases among the landmarks do not say who has not been heard.
            if self.environment.finding.old.is_empty() {
                asked.push((site, NOBODYS));
            }
        }
        let count = asked.len() as u64;
        for (number, (site, bucket)) in (0u64..).zip(asked) {
            let ticket = Ticket(u64::MAX / 2 - count + number);
            self.questions.insert(ticket, (site, bucket));
            self.seek(ticket, site, bucket);
        }
        self.go_until(self.queue.now().after(ANSWER_WITHIN));
        self.finds.clear();
        for (_, (site, bucket)) in std::mem::take(&mut self.questions) {
            let what = match bucket == NOBODYS {
                true => "does not learn that nobody follows a bucket".into(),
                false => format!("finds no member of {bucket}"),
            };
            self.violated(Violation::at("location", site, what));
        }
    }

    /// Every member must come to know every other: feeds choose among those they know.
    fn know_members(&mut self) {
        let bound = self.queue.now().after(self.environment.quiet_within);
        let mut unknown = self.unknown_members();
        while !unknown.is_empty() && self.queue.now() < bound {
            self.go_until(self.queue.now().after(STEP));
            unknown = self.unknown_members();
        }
        for (site, other, bucket) in unknown {
            let what = format!("does not know that site-{} follows {bucket}", other + 1);
            self.violated(Violation::at("location", site, what));
        }
    }

    fn unknown_members(&self) -> Vec<(usize, usize, BucketId)> {
        let mut unknown = Vec::new();
        for bucket in self.all_buckets() {
            for (site, running) in (0..self.sites.len()).filter_map(|site| Some((site, self.running(site)?)))
            {
                let known: BTreeSet<_> = running.federation.members(bucket).into_iter().collect();
                let others = self.sites.iter().enumerate().filter(|(other, place)| {
                    let follows = place.running.as_ref().is_some_and(|one| one.members.contains(&bucket));
                    *other != site && follows && !known.contains(&place.id)
                });
                unknown.extend(others.map(|(other, _)| (site, other, bucket)));
            }
        }
        unknown
    }

    /// Every site must be able to name a member of every bucket besides itself.
    fn ask_for_members(&mut self) {
        let buckets = self.all_buckets();
        let asked = (0..self.sites.len()).flat_map(|site| buckets.iter().map(move |bucket| (site, *bucket)));
        for (number, (site, bucket)) in asked.enumerate() {
            let ticket = Ticket(number as u64 + 1);
            self.questions.insert(ticket, (site, bucket));
            self.input(site, Input::Locate { ticket, bucket });
        }
        self.go_until(self.queue.now().after(ANSWER_WITHIN));
        for (_, (site, bucket)) in std::mem::take(&mut self.questions) {
            let what = format!("cannot name another member of {bucket}");
            self.violated(Violation::at("location", site, what));
        }
    }

    fn heal(&mut self) {
        self.tell(Who::World, format_args!("heals"));
        self.resting = true;
        self.away.clear();
        self.apart.clear();
        self.dying.clear();
        let calm = |link: Link| Link { loss: Ppm::NEVER, duplicate: Ppm::NEVER, reorder: Ppm::NEVER, ..link };
        self.net.heal_all(calm);
        for site in 0..self.sites.len() {
            if let Some(place) = self.sites.get(site) {
                place.disk.clear_fuse();
                place.disk.set_capacity(None);
                place.disk.set_sync_fails(Ppm::NEVER);
            }
            if self.running(site).is_none() {
                self.plan_start(site);
            }
        }
    }

    /// Everybody becomes a member of everything, so that everything can be compared.
    fn join_all(&mut self) {
        for site in 0..self.sites.len() {
            let members = self.running(site).map(|running| running.members.clone());
            let Some(members) = members else { continue };
            for id in self.all_buckets().into_iter().filter(|id| !members.contains(id)) {
                self.submit_join(site, id);
            }
        }
    }

    fn standings(&self, bucket: BucketId) -> Option<Vec<(usize, Standing)>> {
        let standing = |site| {
            let running = self.running(site)?;
            let member = running.members.contains(&bucket);
            let standing = Standing::read(&running.store.view(), bucket).ok();
            standing.filter(|_| member).map(|standing| (site, standing))
        };
        (0..self.sites.len()).map(standing).collect()
    }

    fn agree(&self) -> bool {
        self.all_buckets().into_iter().all(|bucket| {
            let standings = self.standings(bucket);
            standings.is_some_and(|standings| self.differences(bucket, &standings).is_empty())
        })
    }

    /// Tombstones go at each site by itself, so after a retirement only what is visible must be equal, and what lives.
    fn differences(&self, bucket: BucketId, standings: &[(usize, Standing)]) -> Vec<Violation> {
        let retired = self.counts.contains_key("retirements");
        let tables = if retired { convergence::VISIBLE } else { convergence::ALL };
        let found = convergence::check(bucket, standings, tables);
        match found.is_empty() && retired {
            true => convergence::check_living(&lock(&self.history), bucket, standings),
            false => found,
        }
    }

    /// Everything is judged, at every site.
    fn judge(&mut self) {
        let mut found = Vec::new();
        found.extend(self.judge_claims());
        for bucket in self.all_buckets() {
            match self.standings(bucket) {
                Some(standings) => {
                    found.extend(self.differences(bucket, &standings));
                    self.judge_vectors(bucket, &standings, &mut found);
                }
                None => found.push(Violation {
                    checker: "convergence",
                    site: None,
                    what: format!("{bucket}: not every site is up and a member"),
                }),
            }
        }
        found.into_iter().for_each(|violation| self.violated(violation));
        let places: Vec<Place> = lock(&self.history).places().cloned().collect();
        for site in 0..self.sites.len() {
            self.inspect_keys(site, &places);
            self.judge_keys(site, &places);
            self.inspect_disk(site);
        }
        self.judge_scopes();
        self.judge_mends();
    }

    fn judge_vectors(&self, bucket: BucketId, standings: &[(usize, Standing)], found: &mut Vec<Violation>) {
        let history = lock(&self.history);
        let judged = vectors::judge(&history);
        for (site, standing) in standings {
            found.extend(vectors::check(&history, &judged, bucket, *site, standing));
        }
    }

    fn judge_keys(&mut self, site: usize, places: &[Place]) {
        let Some(running) = self.running(site) else { return };
        let view = running.store.view();
        let mut found = Vec::new();
        {
            let history = lock(&self.history);
            for place in places {
                let all = verdict::of_all(&history, place);
                let shown = resurrection::check(&history, &all, place, site, &view as &dyn View);
                let kept = acknowledged::check(&history, place, site, &view as &dyn View);
                match shown.and_then(|shown| Ok((shown, kept?))) {
                    Ok((shown, kept)) => found.extend(shown.into_iter().chain(kept)),
                    Err(error) => found.push(Violation::at("storage", site, error.to_string())),
                }
                found.extend(self.judge_bodies(&history, site, place, all.alive(), &view));
            }
        }
        drop(view);
        found.into_iter().for_each(|violation| self.violated(violation));
    }

    /// The site that took a body has it, whole and right.
    fn judge_bodies(
        &self,
        history: &History,
        site: usize,
        place: &Place,
        alive: &BTreeSet<skerry_base::Dot>,
        view: &dyn View,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        let Some(running) = self.running(site).filter(|_| place.0 != self.system) else { return found };
        for dot in alive {
            let Some(write) = history.write(place.0, *dot).filter(|write| write.site == site) else {
                continue;
            };
            let Ok(Some(record)) = space::record(view, place.0, &place.1, *dot) else { continue };
            let Some(object) = record.object().filter(|_| !write.excuse.body) else { continue };
            let mut body = Vec::new();
            match bodies::read(&running.store, place.0, &object.chunks, &mut body) {
                Ok(()) => found.extend(bodies::check_read(history, site, place, *dot, &body)),
                Err(_) if self.rotten.contains(&site) => {}
                Err(why) => found.push(bodies::missing(site, place, *dot, &why)),
            }
        }
        found
    }
}
