//! Reads everything again in a period and mends what is damaged from another site's copy.
//!
//! Before: `workers/mod.rs`. After: `paths/source.rs` fetches as for a GET. Invariants: never faster than
//! `scrub.pace`; makes way for clients, but not for ever, so that a busy site is scrubbed too; what cannot be mended
//! stays on the store's list, in the metrics and in `skerry status`, and is tried again.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::{ChunkKind, ChunkRef, Instant};
use skerry_gateway::service::{Outcome, ScrubReport, ScrubRequest, VERSION};
use skerry_model::bucket::list_buckets;
use skerry_storage::{Class, DamagedChunk, ScrubState, StorageError};

use super::Workers;
use crate::config::Scrub as Settings;
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::paths::source::Chunks;
use crate::site::{Site, unreadable};
use crate::telemetry::Telemetry;

/// Bytes of one step: read at once, then others have the disk.
const STEP: u64 = 1 << 20;
/// A round of little data ends early rather than creep.
const LEAST_PACE: u64 = 256 << 10;
/// How often it is looked whether a round is due.
const IDLE: Duration = Duration::from_secs(10);
/// Between two looks at whether clients are at work.
const GLANCE: Duration = Duration::from_millis(100);
/// Looks before it goes on though they are.
const GLANCES: u32 = 20;
/// What could not be mended is tried again after this.
const AGAIN: Duration = Duration::from_secs(600);

/// One of them per site.
pub(super) struct Scrubber {
    site: Arc<Site>,
    telemetry: Telemetry,
    settings: Settings,
    pace: u64,
    tried: Option<Instant>,
}

impl Scrubber {
    /// `pace` is what suits the machine.
    pub(super) fn new(workers: &Workers, settings: Settings, pace: u64) -> Self {
        let (site, telemetry) = (workers.site.clone(), workers.telemetry.clone());
        Self { site, telemetry, settings, pace, tried: None }
    }

    /// Until the site stops.
    pub(super) async fn run(mut self) {
        loop {
            if !self.turn().await {
                self.wait(IDLE).await;
            }
        }
    }

    /// Whether there was something to do.
    async fn turn(&mut self) -> bool {
        let state = self.site.store.scrub_state();
        self.telemetry.scrub.show(&state);
        self.take_in().await;
        self.mend_again(&state).await;
        let worked = match self.step(&state).await {
            Ok(worked) => worked,
            Err(error) => {
                tracing::warn!(%error, "the scrub stopped for now");
                false
            }
        };
        self.telemetry.scrub.show(&self.site.store.scrub_state());
        worked
    }

    async fn step(&self, state: &ScrubState) -> Result<bool, StorageError> {
        let now = self.site.clock.wall();
        let due = is_due(state, now.0, self.settings.period.0);
        if state.paused || !(state.running || due) {
            return Ok(false);
        }
        let store = self.site.store.clone();
        let read = move || store.begin_scrub(now).and_then(|()| store.scrub(STEP, now));
        let Ok(step) = tokio::task::spawn_blocking(read).await else { return Ok(false) };
        let step = step?;
        if step.finished {
            tracing::info!(round = state.round, "everything was read again");
        }
        self.mend(&step.damaged).await;
        if !step.finished {
            self.rest(step.bytes).await;
        }
        Ok(true)
    }

    /// For so long, or until an operator wants something.
    async fn wait(&self, span: Duration) {
        tokio::time::timeout(span, self.site.scrub.notified()).await.ok();
    }

    /// As long as the pace wants, then until clients are quiet or have had their share.
    async fn rest(&self, read: u64) {
        let usage = self.site.store.usage();
        let held = usage.journal.live + usage.payload.live + usage.cache.live;
        let pace = pace(held, self.settings.period.0, self.settings.pace.of(self.pace));
        self.wait(Duration::from_secs_f64(read as f64 / pace as f64)).await;
        for _ in 0..GLANCES {
            let before = self.site.store.activity();
            self.wait(GLANCE).await;
            if self.site.store.activity() == before {
                break;
            }
        }
    }

    /// What reads came across goes on the list like what the scrub finds, and is mended like that. What they mended by
    /// themselves is counted, so that a disk which rots is seen before it loses something.
    async fn take_in(&self) {
        let store = self.site.store.clone();
        match tokio::task::spawn_blocking(move || store.note_come_across()).await {
            Ok(Ok(found)) if !found.is_empty() => {
                // What a read brought is on the disk then, and crosses no link once more.
                self.site.settle().await.ok();
                self.mend(&found).await;
            }
            Ok(Err(error)) => tracing::warn!(%error, "what reads found damaged could not be noted"),
            _ => {}
        }
    }

    /// The list of what is damaged, now and then: a copy may have come within reach.
    async fn mend_again(&mut self, state: &ScrubState) {
        let now = self.site.clock.now();
        let due = self.tried.is_none_or(|tried| now.since(tried) >= AGAIN);
        if due && !state.damaged.is_empty() {
            self.tried = Some(now);
            self.mend(&state.damaged).await;
        }
    }

    async fn mend(&self, damaged: &[DamagedChunk]) {
        for chunk in damaged {
            if let Err(error) = mend(&self.site, chunk).await {
                tracing::error!(chunk = %chunk.id, %error, "a damaged chunk cannot be mended yet; it is tried again");
            }
        }
    }
}

/// Fetches a chunk as a GET does, which puts it in the place of the damaged one.
async fn mend(site: &Arc<Site>, damaged: &DamagedChunk) -> Outcome<()> {
    let (domain, system) = (damaged.domain, site.system);
    let find = move |view: &dyn skerry_base::kv::View| {
        let all = list_buckets(view, system, None).map_err(unreadable)?;
        Ok(all.into_iter().map(Bucket::of).find(|bucket| bucket.id == domain))
    };
    let home = site.read(find).await?.map_or(site.id, |bucket| bucket.home);
    let kind = if damaged.tree { ChunkKind::Tree } else { ChunkKind::Leaf };
    let length = u64::from(damaged.stored);
    let chunk = ChunkRef { id: damaged.id, kind, stored: damaged.stored, length };
    let (store, id) = (site.store.clone(), damaged.id);
    let recheck = move || store.recheck(domain, id);
    // Who asked for it a moment ago may have mended it.
    let is_well = tokio::task::spawn_blocking(recheck.clone()).await.map_err(refusal::task)?;
    if is_well.map_err(refusal::storage)? {
        return Ok(());
    }
    let bytes = Chunks::mending(site, domain, home).fetch(chunk, &damaged.why).await?;
    // What counted goes on to count, also where a rebuild has dropped the damaged copy meanwhile.
    let store = site.store.clone();
    let stay = move || store.put_chunk(domain, Class::Payload, kind, &bytes).map(drop);
    tokio::task::spawn_blocking(stay).await.map_err(refusal::task)?.map_err(refusal::storage)?;
    // Off the list only once a power cut cannot have the damaged one back.
    site.settle().await?;
    if tokio::task::spawn_blocking(recheck).await.map_err(refusal::task)?.map_err(refusal::storage)? {
        tracing::info!(chunk = %damaged.id, "a damaged chunk was mended from another site");
        return Ok(());
    }
    Err(refusal::malformed("what was fetched could not be kept"))
}

/// Whether a round is to begin. A start that lies ahead was noted by a clock that was wrong.
fn is_due(state: &ScrubState, now: u64, period: Duration) -> bool {
    let period = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
    let since = |started: u64| now.checked_sub(started).is_none_or(|since| since >= period);
    period > 0 && !state.running && state.started.is_none_or(|started| since(started.0))
}

/// Bytes per second: done in half the period, so that pauses and busy days cost no round.
fn pace(held: u64, period: Duration, most: u64) -> u64 {
    let needed = held / (period.as_secs() / 2).max(1);
    needed.max(LEAST_PACE).min(most.max(1))
}

/// What an operator is told.
pub(crate) fn report(site: &Site) -> ScrubReport {
    let state = site.store.scrub_state();
    let damaged = |chunk: &DamagedChunk| format!("{}/{}: {}", chunk.domain, chunk.id, chunk.why);
    ScrubReport {
        version: VERSION,
        paused: state.paused,
        running: state.running,
        round: state.round,
        started_ms: state.started.map(|time| time.0),
        finished_ms: state.finished.map(|time| time.0),
        chunks: state.chunks,
        bytes: state.bytes,
        found: state.found,
        mended: state.mended,
        damaged_chunks: state.damaged.len() as u64 + state.unlisted,
        damaged: state.damaged.iter().map(damaged).collect(),
        damaged_segments: state.segments.iter().map(|found| found.segment).collect(),
    }
}

/// Pauses, resumes, begins a round now.
pub(crate) async fn act(site: &Arc<Site>, request: ScrubRequest) -> Outcome<ScrubReport> {
    let (store, now) = (site.store.clone(), site.clock.wall());
    let act = move || {
        if let Some(pause) = request.pause {
            store.pause_scrub(pause)?;
        }
        if request.begin { store.begin_scrub(now) } else { Ok(()) }
    };
    tokio::task::spawn_blocking(act).await.map_err(refusal::task)?.map_err(refusal::storage)?;
    site.scrub.notify_one();
    Ok(report(site))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skerry_base::WallTime;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_round_is_due_once_per_period_and_whatever_a_wrong_clock_noted() {
        let never = ScrubState::default();
        assert!(is_due(&never, 0, DAY));
        assert!(!is_due(&never, 0, Duration::ZERO), "0 turns it off");
        let state = ScrubState { started: Some(WallTime(1000)), ..never };
        assert!(!is_due(&state, 1000 + 86_399_999, DAY));
        assert!(is_due(&state, 1000 + 86_400_000, DAY));
        assert!(is_due(&state, 999, DAY), "begun in a future that never came");
        assert!(!is_due(&ScrubState { running: true, ..state }, u64::MAX, DAY));
    }

    #[test]
    fn the_pace_fits_the_period_and_its_bound() {
        let month = DAY * 30;
        assert_eq!(pace(0, month, 8 << 20), LEAST_PACE);
        assert_eq!(pace(1 << 40, month, 8 << 20), (1 << 40) / (15 * 86_400));
        assert_eq!(pace(1 << 50, month, 8 << 20), 8 << 20);
        assert_eq!(pace(1 << 40, month, 1000), 1000);
        assert_eq!(pace(5, Duration::from_secs(1), 0), 1);
    }
}
