//! Reads what is not counted as it happens: disk, lag, conflicts, unprotected bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_gateway::service::Outcome;
use skerry_model::Entry;
use skerry_model::bucket::list_buckets;
use skerry_model::space;
use skerry_storage::{SyncStats, Usage};

use super::{Worker, Workers};
use crate::admin::hanging;
use crate::copies::{look, others, surplus, wanted};
use crate::growth::{GROWTH, Growth, taken_and_room};
use crate::paths::members;
use crate::site::{Site, entry, unreadable};
use crate::telemetry::Telemetry;

/// Syncs that were observed: it outlives the worker, so that none is observed twice.
pub(super) type Syncs = Arc<Mutex<SyncStats>>;

pub(super) struct Metrics {
    site: Arc<Site>,
    telemetry: Telemetry,
    syncs: Syncs,
    /// Conflicts by bucket at the last turn.
    conflicts: BTreeMap<String, u64>,
    /// None: not read yet.
    growth: Option<Growth>,
    /// Whether the log has it that writes are refused.
    is_full: bool,
    /// Whether it has it that the disk hangs.
    hangs: bool,
}

/// For so long what a commit of its own takes is waited for.
const GROWTH_WAITS: Duration = Duration::from_secs(5);

impl Metrics {
    pub(super) fn new(workers: &Workers, syncs: Syncs) -> Self {
        Self {
            site: workers.site.clone(),
            telemetry: workers.telemetry.clone(),
            syncs,
            conflicts: BTreeMap::new(),
            growth: None,
            is_full: false,
            hangs: false,
        }
    }

    /// How long the disk lasts, from what it held each hour; remembered once an hour.
    async fn growth(&mut self, usage: &Usage) -> Outcome<()> {
        let mut growth = match self.growth.take() {
            Some(growth) => growth,
            None => self.site.read(Growth::remembered).await?,
        };
        let (now, taken) = (self.site.clock.wall(), taken_and_room(usage));
        let sampled = growth.sample(now, taken.0);
        self.telemetry.cache.set_full(usage.full, growth.days_to_full(now, taken));
        let value = Some(codec::encode(&growth).into());
        self.growth = Some(growth);
        if sampled {
            let entry = entry(&Entry::Local { key: Bytes::from_static(GROWTH), value });
            self.site.commit(self.site.system, (), move |_| Ok(((), vec![entry]))).await?;
        }
        Ok(())
    }

    /// Once each time it turns: whoever watches the log is to hear of it, not of each write.
    fn say_full(&mut self, usage: &Usage) {
        match (usage.full, core::mem::replace(&mut self.is_full, usage.full)) {
            (true, false) => tracing::warn!(
                event = "disk_full",
                free_bytes = usage.free,
                "the disk is full: writes are refused, reads and deletes go on; delete, raise storage.capacity or add a disk"
            ),
            (false, true) => {
                tracing::info!(
                    event = "disk_not_full",
                    free_bytes = usage.free,
                    "there is room for writes again"
                );
            }
            _ => {}
        }
    }

    /// Once each time, and when it is over.
    fn say_hanging(&mut self, usage: &Usage) {
        self.telemetry.sync_waits.set(usage.sync_waits as i64);
        let hanging = hanging(usage);
        match (hanging, core::mem::replace(&mut self.hangs, hanging.is_some())) {
            (Some(seconds), false) => tracing::error!(
                event = "disk_hangs",
                seconds,
                "the disk has not answered a sync: nothing that is written is acknowledged; look after it, its cable or share"
            ),
            (None, true) => tracing::info!(event = "disk_answers", "the disk answers again"),
            _ => {}
        }
    }

    async fn disk(&mut self) {
        let usage = self.site.store.usage();
        self.telemetry.cache.set(usage.cached);
        self.say_full(&usage);
        self.say_hanging(&usage);
        for (class, bytes) in [
            ("journal", usage.journal.allocated),
            ("payload", usage.payload.allocated),
            ("cache", usage.cache.allocated),
            ("index", usage.index),
            ("dead", usage.journal.dead + usage.payload.dead + usage.cache.dead),
            ("free", usage.free),
        ] {
            self.telemetry.disk_bytes(class, bytes);
        }
        self.telemetry.sync_os.set(i64::from(usage.lazy));
        self.telemetry.unsynced_bytes.set(i64::try_from(usage.unsynced).unwrap_or(i64::MAX));
        self.telemetry.unread_segments.set(i64::try_from(usage.unread).unwrap_or(i64::MAX));
        self.telemetry.index_damaged.set(i64::from(usage.index_bad));
        let (writes, bytes) = self.site.bodies.counts();
        self.telemetry.undecided_writes.set(i64::try_from(writes).unwrap_or(i64::MAX));
        self.telemetry.undecided_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let moved = &self.telemetry.moved_bytes;
        moved.inc_by((usage.moved + usage.moved_bodies).saturating_sub(moved.get()));
        self.observe_syncs(usage.journal_syncs);
        // Last, and not for ever: a disk that hangs answers no write, and is to be told of.
        match tokio::time::timeout(GROWTH_WAITS, self.growth(&usage)).await {
            Ok(Err(error)) => tracing::debug!(%error, "how the disk fills up was not remembered"),
            Err(_) => tracing::debug!("how the disk fills up was not remembered in time"),
            Ok(Ok(())) => {}
        }
    }

    /// The store counts syncs in buckets of its own; each new one is observed at its bucket's bound.
    fn observe_syncs(&mut self, now: SyncStats) {
        let mut syncs = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = SyncStats::BOUNDS.iter().chain(SyncStats::BOUNDS.last());
        for ((bound, count), before) in bounds.zip(now.buckets).zip(syncs.buckets) {
            for _ in before..count {
                self.telemetry.sync_seconds.observe(*bound);
            }
        }
        *syncs = now;
    }

    fn uplink(&self) {
        let standing = self.site.peers.uplink.standing();
        self.telemetry.uplink.set(standing.plan.map(|plan| plan.bytes), standing.account.used);
        let (links, bytes) = self.site.peers.circuits.carried();
        self.telemetry.circuits.set(links, bytes);
    }

    /// How far behind who is; what nobody else has.
    async fn gaps(&self) -> Outcome<()> {
        let gaps = members::gaps(&self.site).await?;
        // What the furthest ahead of the others still lacks is what nobody else has.
        let least = gaps.unsent.values().map(|unsent| unsent.bytes).min().unwrap_or(0);
        self.telemetry.unsent_bytes.set(i64::try_from(least).unwrap_or(i64::MAX));
        let now = self.site.clock.now();
        for (id, known) in self.site.peers.roster.all() {
            if id == self.site.id {
                continue;
            }
            let records = gaps.missing.get(&id).copied().unwrap_or_default();
            let since = self.site.peers.note_lag(id, records);
            let seconds = since.map_or(0.0, |since| now.since(since).as_secs_f64());
            self.telemetry.feed_lag.set(known.key.node(), &known.name, records, seconds);
        }
        Ok(())
    }

    async fn sums(&mut self) -> Outcome<()> {
        let system = self.site.system;
        let read = move |view: &dyn skerry_base::kv::View| {
            let mut conflicts = BTreeMap::new();
            let mut names = 0;
            for resolved in list_buckets(view, system, None).map_err(unreadable)? {
                let sums = space::sums(view, resolved.claim.bucket).map_err(unreadable)?;
                names += u64::from(resolved.name != resolved.claim.name);
                conflicts.insert(resolved.name, sums.conflicts);
            }
            Ok((conflicts, names))
        };
        let (conflicts, names) = self.site.read(read).await?;
        let counted = look::counted_by_bucket(&self.site).await?;
        self.telemetry.area_lacking(wanted::lacking(&counted));
        let unprotected = counted.into_iter().map(|(bucket, (_, count))| (bucket, count.unprotected));
        self.telemetry.unprotected_bytes(unprotected.collect());
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.telemetry.conflicts.set(count(conflicts.values().sum()));
        self.telemetry.name_conflicts.set(count(names));
        for (bucket, now) in &conflicts {
            let before = self.conflicts.get(bucket).copied().unwrap_or(0);
            if *now > before {
                tracing::warn!(
                    event = "conflicts",
                    bucket,
                    new = now - before,
                    all = now,
                    "writes lost against concurrent ones"
                );
            }
        }
        self.conflicts = conflicts;
        Ok(())
    }
}

#[async_trait::async_trait]
impl Worker for Metrics {
    async fn turn(&mut self) -> bool {
        self.disk().await;
        self.uplink();
        self.telemetry.homes.set(self.site.nodes.taken_over());
        self.telemetry.clones.set(crate::clones::copied(&self.site), self.site.duties.is_copied());
        let lost = crate::copies::loss::counts(&self.site.copies.losses());
        self.telemetry.losses.set(lost, self.site.copies.lost_reads());
        self.telemetry.losses.set_gone(self.site.duties.is_gone());
        self.telemetry.credentials.set(self.site.credentials.counts());
        let (followed, behind) = self.site.following.counts();
        self.telemetry.followed.set(i64::try_from(followed).unwrap_or(i64::MAX));
        self.telemetry.followed_behind.set(i64::try_from(behind).unwrap_or(i64::MAX));
        let looks = &self.telemetry.followed_looks;
        looks.inc_by(self.site.following.looks().saturating_sub(looks.get()));
        let surplus = surplus::status(&self.site);
        let released = (surplus.released_versions, surplus.released_bytes);
        self.telemetry.surplus.set(surplus.bytes, released);
        self.telemetry.others.set(&self.site.others.status(), others::at_cap(&self.site).len());
        if let Err(error) = self.gaps().await {
            tracing::warn!(%error, "how far sites are behind could not be read");
        }
        if let Some(report) = crate::areas::read(&self.site).await {
            self.telemetry.areas.set(&report);
        }
        if let Err(error) = self.sums().await {
            tracing::warn!(%error, "metrics could not be read");
        }
        false
    }
}
