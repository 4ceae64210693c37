//! Checkers look at sites while the world goes on.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, Vector};
use skerry_model::space::{self, SpaceReducer};
use skerry_storage::{Engine, Settings, StorageError, Store};

use super::{Event, World};
use crate::checkers::{Violation, resurrection};
use crate::disk::{Manner, SimDisk};
use crate::history::Place;
use crate::site::{lock, membership};
use crate::standing::Standing;
use skerry_scenario::clock::seconds;
use skerry_scenario::draw::{Draw, Ppm};

/// Keys looked at in one inspection.
const KEYS_AT_ONCE: usize = 12;

impl World {
    pub(super) fn inspect(&mut self) {
        if self.resting {
            return;
        }
        let at = self.queue.now().after(self.draw.span(seconds(2)..=seconds(8)));
        self.queue.plan(at, Event::Inspect);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let places: Vec<Place> = lock(&self.history).places().cloned().collect();
        let places: Vec<Place> = (0..KEYS_AT_ONCE).filter_map(|_| self.draw.pick(&places).cloned()).collect();
        self.inspect_keys(site, &places);
        if self.draw.chance(Ppm::percent(15)) {
            self.inspect_disk(site);
        }
    }

    /// What a site shows of these keys is what wins among the records it has.
    pub(super) fn inspect_keys(&mut self, site: usize, places: &[Place]) {
        let Some(running) = self.running(site) else { return };
        let view = running.store.view();
        let mut found = Vec::new();
        {
            let history = lock(&self.history);
            let Some(memory) = history.memory(site) else { return };
            for place in places {
                match resurrection::check(&history, memory.of(place), place, site, &view as &dyn View) {
                    Ok(violations) => found.extend(violations),
                    Err(error) => found.push(Violation::at("storage", site, format!("{place:?} {error}"))),
                }
            }
        }
        drop(view);
        self.count("inspections");
        found.into_iter().for_each(|violation| self.violated(violation));
    }

    /// What was shown to anybody is in the durable bytes, as a fresh store reads them.
    pub(super) fn inspect_disk(&mut self, site: usize) {
        let Some(store) = self.durable_store(site) else { return };
        self.count("disk inspections");
        let buckets = self.shows.get(site).map(|shows| shows.buckets()).unwrap_or_default();
        for bucket in buckets {
            match Standing::read(&store.view(), bucket) {
                Ok(standing) => {
                    self.compare_shown(site, bucket, &standing);
                }
                Err(error) => self.violated(Violation::at("recovery", site, error.to_string())),
            }
        }
    }

    /// What a site has shown of a bucket, against what is durable there.
    pub(super) fn compare_shown(&mut self, site: usize, bucket: BucketId, durable: &Standing) {
        let lost = {
            let history = lock(&self.history);
            self.shows.get_mut(site).map(|shows| shows.check(&history, site, bucket, durable))
        };
        lost.into_iter().flatten().for_each(|violation| self.violated(violation));
    }

    /// A store over a copy of what is durable at a site.
    pub(super) fn durable_store(&mut self, site: usize) -> Option<Arc<Store>> {
        let image = self.sites.get(site)?.disk.snapshot();
        let copy = SimDisk::new(Manner::default(), Draw::from_seed(0));
        copy.restore(&image);
        let settings = Settings { engine: Engine::Memory, salt: *b"a simulated disk", ..small() };
        match Store::open(Arc::new(copy), Arc::new(SpaceReducer), settings) {
            Ok((store, _)) => Some(store),
            Err(error) => {
                let what = format!("a copy of the durable bytes does not open: {error}");
                self.violated(Violation::at("recovery", site, what));
                None
            }
        }
    }

    /// The vectors of the buckets of which a site is a member; of one that is down, from its disk.
    pub(super) fn seen_by(&mut self, site: usize) -> Vec<(BucketId, Vector)> {
        let running = self.running(site).map(|running| Arc::clone(&running.store));
        let Some(store) = running.or_else(|| self.durable_store(site)) else { return Vec::new() };
        let view = store.view();
        let system = self.system;
        let vector = |bucket: BucketId| {
            let listed = space::local(&view, &membership(bucket)).ok()?.is_some();
            let is_member = listed || bucket == system;
            let vector = space::vector(&view, bucket).ok()?;
            is_member.then_some((bucket, vector))
        };
        self.all_buckets().into_iter().filter_map(vector).collect()
    }

    /// A step of the collector of a store.
    pub(super) fn collect(&mut self, site: usize) {
        let at = self.queue.now().after(self.draw.span(seconds(5)..=seconds(20)));
        self.queue.plan(at, Event::Collect { site });
        let now = self.queue.now();
        let Some(place) = self.sites.get(site) else { return };
        let (wall, Some(running)) = (place.wall.read(now), place.running.as_ref()) else { return };
        let collected = running.store.collect(wall);
        place.disk.take_busy();
        let is_ill = place.disk.is_dead() || place.disk.fails_syncs();
        self.tell(crate::trace::Who::Site(site), format_args!("collects {collected:?}"));
        match &collected {
            Err(StorageError::Full | StorageError::Poisoned(_)) | Ok(_) => {}
            // Where it stops space comes back no more.
            Err(error) if !is_ill => {
                self.violated(Violation::at("collector", site, format!("the collector stops: {error}")));
            }
            Err(_) => {}
        }
        // A store that stopped writing is started anew though no client has met its refusal.
        self.mourn(site, matches!(collected, Err(StorageError::Poisoned(_))));
    }
}

fn small() -> Settings {
    Settings {
        journal_segment_bytes: 256 << 10,
        payload_segment_bytes: 1 << 20,
        cache_segment_bytes: 256 << 10,
        headroom_bytes: 0,
        ..Settings::default()
    }
}
