//! Journals rot: a site loses frames that were durable, and begins anew with its buckets.
//!
//! The shell around [`skerry_federation::anew`], as the node has it. Questions are immediate, as those of races: what is
//! tested is what is judged by the answers, while links break, disks burn and others write. What was on that disk and is
//! nowhere else is excused, as what a backup did not have; all the rest is judged as always: what anybody holds comes back,
//! nothing dead does, no vector covers what it lacks, and all agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::alone::Held;
use skerry_federation::anew::Own;
use skerry_federation::{Fingerprint, Replica, Span, Unreadable};
use skerry_model::space;

use super::{Death, Event, World};
use crate::checkers::Violation;
use crate::history::Place;
use crate::ledger::Reading;
use crate::site::{Answer, lock};
use crate::standing::{Standing, is_readable};
use crate::trace::Who;
use skerry_scenario::clock::{millis, seconds};

/// First bytes of a frame of a journal.
const FRAME: &[u8] = b"SKJF";
/// Bytes behind them of which one rots: most belong to the frame, and its checksum covers them.
const HEAD: u64 = 100;

impl World {
    /// A bit of a frame of a journal flips; the process ends, so that it is met.
    pub(super) fn damage(&mut self, site: usize) {
        let rots = |place: &crate::site::Site| place.disk.rot_at("journal/", FRAME, HEAD);
        let Some((file, at)) = self.sites.get(site).and_then(rots) else { return };
        self.tell(Who::Site(site), format_args!("rots at {at} of {file}"));
        self.hurt.insert(site, true);
        // Small bodies lie there as well.
        self.rotten.insert(site);
        self.shows_nothing(site);
        if self.running(site).is_some() {
            self.die(site, Death::Kill);
        }
    }

    /// A process came up on a journal that rotted.
    pub(super) fn recover_damage(&mut self, site: usize) {
        if self.hurt.get(&site) == Some(&true) {
            self.hurt.insert(site, false);
            self.forget_lost(site);
        }
        let Some(place) = self.sites.get(site) else { return };
        let boot = place.boot;
        let anew = place.running.as_ref().map_or(0, |running| running.anew.buckets().count());
        if anew > 0 {
            self.count("starts with buckets to begin anew");
            self.plan_mend(site, boot);
        }
    }

    fn forget_lost(&mut self, site: usize) {
        let Some(running) = self.running(site) else { return };
        let view = running.store.view();
        let mut found: BTreeMap<BucketId, BTreeSet<Dot>> = BTreeMap::new();
        for bucket in self.all_buckets() {
            match Standing::read(&view as &dyn View, bucket) {
                Ok(standing) => drop(found.insert(bucket, standing.stored)),
                Err(error) => return self.violated(Violation::at("recovery", site, error.to_string())),
            }
        }
        let is_readable = |place: &Place, dot| is_readable(&view, place, dot).unwrap_or(true);
        lock(&self.history).lost_part(site, &found, is_readable);
        drop(view);
        self.scopes.lose(site);
        self.own_writes.set_back(site);
        self.shows_nothing(site);
    }

    fn shows_nothing(&mut self, site: usize) {
        if let Some(shows) = self.shows.get_mut(site) {
            *shows = crate::checkers::durability::Shows::default();
        }
    }

    fn plan_mend(&mut self, site: usize, boot: u64) {
        let at = self.queue.now().after(self.draw.span(millis(300)..=seconds(4)));
        self.queue.plan(at, Event::Mend { site, boot });
    }

    /// Asks whoever can be reached, and is whole again where all have been heard.
    pub(super) fn mend(&mut self, site: usize, boot: u64) {
        let here = self.sites.get(site).filter(|place| place.boot == boot);
        let Some(running) = here.and_then(|place| place.running.as_ref()) else { return };
        let buckets: Vec<BucketId> = running.anew.buckets().collect();
        if buckets.is_empty() {
            return;
        }
        let others: Vec<(usize, SiteId)> = self.sites.iter().map(|place| place.id).enumerate().collect();
        let others: Vec<_> = others.into_iter().filter(|(other, _)| *other != site).collect();
        for bucket in buckets {
            let open = |other: usize| self.net.open(site, other) && self.net.open(other, site);
            let asked = others.iter().filter(|(other, _)| open(*other) && self.running(*other).is_some());
            let said: Vec<_> = asked.map(|(other, id)| (*id, self.held_by(*other, bucket))).collect();
            let waits = self.hear(site, bucket, &said, &others);
            if waits == Some(0) {
                self.submit_whole(site, bucket);
            }
        }
        self.plan_mend(site, boot);
    }

    /// Takes in what others said; how many are waited for.
    fn hear(
        &mut self,
        site: usize,
        bucket: BucketId,
        said: &[(SiteId, Result<Option<Held>, Unreadable>)],
        others: &[(usize, SiteId)],
    ) -> Option<usize> {
        let own = self.held_by(site, bucket).ok()??;
        let running = self.sites.get_mut(site)?.running.as_mut()?;
        let view = running.store.view();
        let life = lock(&running.desk).origin_of(bucket);
        let print = |origin, covered: u64| {
            let reading =
                Reading { store: &running.store, view: &view, origin: life, lives: &[], feed_bytes: 0 };
            let span = Span { origin, first: covered.saturating_add(1), last: u64::MAX };
            reading.fingerprint(bucket, &span).unwrap_or_else(|_| Fingerprint::default())
        };
        let own = Own { vector: &own.vector, life, print: &print };
        for (other, held) in said {
            if let Ok(held) = held {
                running.anew.said(bucket, *other, held.as_ref(), &own);
            }
        }
        Some(running.anew.waits(bucket, others.iter().map(|(_, id)| *id)).len())
    }

    /// What a site says that it has; none if it is no member.
    fn held_by(&self, site: usize, bucket: BucketId) -> Result<Option<Held>, Unreadable> {
        let Some(running) = self.running(site).filter(|running| running.members.contains(&bucket)) else {
            return Ok(None);
        };
        let view = running.store.view();
        let origin = lock(&running.desk).origin_of(bucket);
        let reading = Reading { store: &running.store, view: &view, origin, lives: &[], feed_bytes: 0 };
        Ok(Some(Held { vector: reading.vector(bucket)?, loose: reading.loose(bucket)? }))
    }

    fn submit_whole(&mut self, site: usize, bucket: BucketId) {
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        store.submit_behind(
            move |view| {
                let entries = space::whole_again(view, bucket)?;
                let entries = entries.iter().map(|entry| skerry_storage::Entry::new(entry.encode()));
                Ok::<_, space::SpaceError>(((), entries.collect()))
            },
            move |result| {
                let answer = if result.is_ok() { Answer::Whole(bucket) } else { Answer::Kept };
                lock(&desk).answers.push(answer);
            },
        );
        self.plan_pump(site);
    }

    /// It is whole again.
    pub(super) fn is_whole(&mut self, site: usize, bucket: BucketId) {
        self.count("buckets that are whole again");
        self.tell(Who::Site(site), format_args!("has all of {bucket} again"));
        if bucket != self.system {
            lock(&self.history).excuse_read_once(bucket);
        }
        if let Some(running) = self.sites.get_mut(site).and_then(|place| place.running.as_mut()) {
            running.anew.end(bucket);
        }
    }

    /// Whether nobody waits for what others have.
    pub(super) fn are_whole(&self) -> bool {
        let waits = |site| self.running(site).is_some_and(|running| running.anew.buckets().next().is_some());
        !(0..self.sites.len()).any(waits)
    }

    /// In the end nothing is waited for.
    pub(super) fn judge_mends(&mut self) {
        for site in 0..self.sites.len() {
            let Some(running) = self.running(site) else { continue };
            let first = running.anew.buckets().next();
            if let Some(bucket) = first {
                self.violated(Violation::at("convergence", site, format!("{bucket} is not whole again")));
            }
        }
    }
}
