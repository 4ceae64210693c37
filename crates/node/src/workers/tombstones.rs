//! Drops tombstones that every member has seen, so that deletes cost no space for ever; forgets old uploads, and ends those
//! whose bucket is gone.
//!
//! Invariants: nothing is dropped of a bucket while one of its members has not said how far it has seen, nor
//! before feeds had time to carry it, which is counted here while this site runs and asks no wall clock ([`Resting`]); after a
//! start, not before every site has said whether it is a member. A look costs as much as there are deletes: it is repeated
//! when others have seen more or more has rested, and takes a twentieth of the time at most.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Instant, Vector};
use skerry_federation::Input;
use skerry_gateway::service::Outcome;
use skerry_model::Entry;
use skerry_model::retire::{Settled, Sweep, droppable};

use super::Worker;
use super::resting::{REST, Resting};
use crate::drive::live::raised_horizon;
use crate::paths::unfinished;
use crate::paths::upload::{COMPLETED, Completed};
use crate::site::{Site, entry, unreadable};

/// Keys looked at in one step.
const STEP: usize = 256;

/// A look that took so long is repeated after this many times as long.
const SHARE: u32 = 20;

/// The last whole look at a bucket.
#[derive(Debug)]
struct Looked {
    covered: Vector,
    ended: Instant,
    took: Duration,
}

impl Looked {
    /// Whether another may find more, and may be paid for.
    fn is_due(&self, covered: &Vector, now: Instant) -> bool {
        let paid = self.ended.after(self.took * SHARE) <= now;
        // What looks like the last time is looked at once a day: a version that a tombstone hides may be gone.
        paid && (self.covered != *covered || self.ended.after(REST) <= now)
    }
}

pub(super) struct Tombstones {
    site: Arc<Site>,
    looked: BTreeMap<BucketId, Looked>,
    resting: Resting,
    /// Of deletions that end uploads here.
    heard: unfinished::Heard,
}

impl Tombstones {
    pub(super) fn new(site: Arc<Site>) -> Self {
        let resting = Resting::new(Arc::clone(&site));
        Self { site, looked: BTreeMap::new(), resting, heard: unfinished::Heard::new() }
    }

    async fn sweep(&mut self, bucket: BucketId) -> Outcome<u64> {
        let Some((seen, rest)) = self.resting.look(bucket).await? else { return Ok(0) };
        if rest.rested().is_empty() {
            return Ok(0);
        }
        let Some(covered) = self.covered_by_all(bucket, seen).await? else { return Ok(0) };
        if !covered.includes(rest.rested()) {
            // What others have seen is in memory only, and at rest hardly anybody says so: they are asked in turn.
            self.site.drive.tell(Input::Hear { bucket, upto: rest.rested().clone() });
        }
        let covered = lesser(&covered, rest.rested());
        let begun = self.site.clock.now();
        if self.looked.get(&bucket).is_some_and(|looked| !looked.is_due(&covered, begun)) {
            return Ok(0);
        }
        let dropped = self.look(bucket, &covered).await?;
        let ended = self.site.clock.now();
        self.looked.insert(bucket, Looked { covered, ended, took: ended.since(begun) });
        Ok(dropped)
    }

    async fn look(&self, bucket: BucketId, covered: &Vector) -> Outcome<u64> {
        let mut from = Sweep::START;
        let mut dropped = 0;
        loop {
            let (covered, start) = (covered.clone(), from.clone());
            let step = move |view: &dyn View| {
                let settled = Settled { covered_by_all: &covered };
                droppable(view, bucket, settled, &start, STEP).map_err(unreadable)
            };
            let (dots, next) = self.site.read(step).await?;
            dropped += dots.len() as u64;
            if !dots.is_empty() {
                self.drop_dots(bucket, dots).await?;
            }
            match next {
                Some(next) => from = next,
                None => return Ok(dropped),
            }
        }
    }

    async fn drop_dots(&self, bucket: BucketId, dots: Vec<skerry_base::Dot>) -> Outcome<()> {
        let propose = move |view: &dyn View| {
            let horizon: Vector = dots.iter().map(|dot| (dot.origin, dot.seq)).collect();
            let mut entries = vec![entry(&Entry::Drop { bucket, dots })];
            entries.extend(raised_horizon(view, bucket, &horizon).map_err(crate::paths::refusal::malformed)?);
            Ok(((), entries))
        };
        self.site.commit(bucket, (), propose).await
    }

    /// What all members have seen, this one among them; none while that is not known.
    async fn covered_by_all(&self, bucket: BucketId, own: Vector) -> Outcome<Option<Vector>> {
        let heard = self
            .site
            .drive
            .ask(move |machine, _| machine.has_heard_all(bucket).then(|| machine.seen(bucket)));
        Ok(heard
            .await
            .flatten()
            .map(|others| others.iter().fold(own, |least, (_, other)| lesser(&least, other))))
    }
}

fn lesser(one: &Vector, other: &Vector) -> Vector {
    one.iter().map(|(origin, seq)| (origin, seq.min(other.get(origin)))).collect()
}

/// Completed uploads are remembered this long.
const COMPLETED_MS: u64 = 24 * 3600 * 1000;

/// Forgets completed uploads after a day: by then nobody repeats a completion. Not by a clock that jumped or is not trusted.
async fn forget_completed(site: &Arc<Site>) -> Outcome<()> {
    let Some(present) = site.stamps.present() else { return Ok(()) };
    let before = present.0.saturating_sub(COMPLETED_MS);
    let propose = move |view: &dyn View| {
        let mut old = Vec::new();
        let visit = &mut |key: &[u8], value: &[u8]| {
            if codec::decode::<Completed>(value).is_ok_and(|completed| completed.at.0 < before) {
                old.push(Bytes::copy_from_slice(key));
            }
            if old.len() < STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        view.scan_prefix(Table::Local, COMPLETED, visit).map_err(|error| unreadable(error.into()))?;
        let forget = |key| entry(&Entry::Local { key, value: None });
        Ok(((), old.into_iter().map(forget).collect()))
    };
    site.commit(site.system, (), propose).await
}

#[async_trait::async_trait]
impl Worker for Tombstones {
    async fn turn(&mut self) -> bool {
        if let Err(error) = forget_completed(&self.site).await {
            tracing::warn!(%error, "completed uploads could not be looked through");
        }
        match unfinished::sweep(&self.site, unfinished::REST, &mut self.heard).await {
            Ok(0) => {}
            Ok(ended) => tracing::info!(ended, "uploads of deleted buckets are gone"),
            Err(error) => tracing::warn!(%error, "uploads of deleted buckets could not be looked for"),
        }
        if let Err(error) = self.resting.begin().await {
            tracing::warn!(%error, "how long tombstones have been here could not be read");
            return false;
        }
        let followed = self.site.memberships();
        self.looked.retain(|bucket, _| followed.binary_search(bucket).is_ok());
        for bucket in &followed {
            match self.sweep(*bucket).await {
                Ok(0) => {}
                Ok(dropped) => {
                    tracing::info!(%bucket, dropped, "tombstones that all members have seen are gone")
                }
                Err(error) => tracing::warn!(%bucket, %error, "tombstones could not be looked through"),
            }
        }
        if let Err(error) = self.resting.end(&followed).await {
            tracing::warn!(%error, "how long tombstones have been here could not be written down");
        }
        false
    }
}

/// One turn, for tests that say when.
#[cfg(test)]
pub(crate) async fn turn(site: Arc<Site>) {
    Tombstones::new(site).turn().await;
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;

    #[test]
    fn a_bucket_is_looked_through_when_that_may_find_something_and_is_paid_for() {
        let vector = |seq| Vector::from_iter([(Origin { node: NodeId([1; 16]), incarnation: 1 }, seq)]);
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let looked = Looked { covered: vector(7), ended: at(100), took: Duration::from_secs(10) };
        assert!(!looked.is_due(&vector(8), at(299)), "a look of ten seconds every 200");
        assert!(looked.is_due(&vector(8), at(300)));
        assert!(!looked.is_due(&vector(7), at(300)), "nobody has seen more");
        assert!(!looked.is_due(&vector(7), at(86_499)));
        assert!(looked.is_due(&vector(7), at(86_500)), "once a day");
    }
}
