//! What a member tells a site that follows a prefix.
//!
//! Before: [`crate::paths::answer`]. Invariants: only a whole member answers, and none that is in doubt: it may hold what is dead; a question
//! about changes waits here until there is something below the prefix, for as long as the asker says and not for ever.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::limits::FEED_BATCH_BYTES;
use skerry_base::{BucketId, Vector};
use skerry_gateway::service::Outcome;
use skerry_model::Record;
use skerry_model::space::{self, Below, Changes, Extent};

use crate::drive::live;
use crate::drive::stored::Stored;
use crate::paths::{members, refusal};
use crate::peers::message::{AskedBelow, Question, Response, ToldBelow};
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Records in one answer: a key is told whole, and the answer must still be a message.
const PAGE: usize = FEED_BATCH_BYTES / 2;
/// How long a question waits here at most.
pub(crate) const WAITS: Duration = Duration::from_secs(30);
/// Changes gather for so long before they are looked at again.
const GATHER: Duration = Duration::from_millis(20);
const GATHER_MOST: Duration = Duration::from_secs(1);
/// A look that cost so long is repeated after this many times as long for each question that waits here.
const SHARE: u32 = 4;

/// Answers a site that follows a prefix.
pub(crate) async fn answer(site: &Arc<Site>, asked: AskedBelow) -> Outcome<Response> {
    let below = Below { bucket: asked.bucket, prefix: asked.prefix };
    if !site.is_complete(below.bucket) {
        return Ok(members::not_complete(site, below.bucket));
    }
    let bucket = below.bucket;
    let told = match asked.question {
        Question::Range(range) => {
            let read = move |view: &dyn View| {
                let is_sure = no_doubt(view, bucket)?;
                let found = is_sure.then(|| space::range_below(view, &below, &range, PAGE));
                found.transpose().map_err(refusal::untold)
            };
            site.read(read).await?.map(|range| ToldBelow::Range {
                same: range.same,
                records: encoded(&range.records),
                upto: range.upto,
                end: range.end,
            })
        }
        Question::Changes { seen, loose, wait_ms } => {
            let wait = Duration::from_millis(wait_ms.into()).min(WAITS);
            changed(site, below, (seen, loose), wait).await?.map(|changes| ToldBelow::Changes {
                source: site.stamps.origin_of(bucket),
                far: changes.far,
                records: encoded(&changes.records),
                upto: changes.upto,
                more: changes.more,
                loose: changes.loose,
            })
        }
    };
    Ok(match told {
        // Who left meanwhile said less than there is.
        Some(told) if site.is_complete(bucket) => Response::Below(Box::new(told)),
        Some(_) => members::not_complete(site, bucket),
        None => Response::Joining,
    })
}

fn encoded(records: &[Record]) -> Vec<Bytes> {
    records.iter().map(|record| record.encode().into()).collect()
}

fn no_doubt(view: &dyn View, bucket: BucketId) -> Outcome<bool> {
    Ok(live::read(view, Stored::Doubt, bucket).map_err(refusal::malformed)?.is_empty())
}

/// What a look at a bucket found.
enum Look {
    /// This site may hold what is dead.
    Doubt,
    /// The same as at the look before.
    Same,
    /// How far the bucket reaches, and what that means below the prefix.
    Found(Extent, Changes),
}

/// A question that waits.
struct Waiter<'a> {
    site: &'a Arc<Site>,
    below: Below,
    seen: Vector,
    loose: space::Fingerprint,
    /// How far the bucket reached when it was looked at last.
    known: Option<Extent>,
}

impl Waiter<'_> {
    async fn look(&self) -> Outcome<Look> {
        self.site.following.looked();
        let (below, seen, loose) = (self.below.clone(), self.seen.clone(), self.loose);
        let known = self.known.clone();
        let read = move |view: &dyn View| {
            let bucket = below.bucket;
            if !no_doubt(view, bucket)? {
                return Ok(Look::Doubt);
            }
            let extent = space::extent(view, bucket).map_err(unreadable)?;
            if known.as_ref() == Some(&extent) {
                return Ok(Look::Same);
            }
            let horizon = live::read(view, Stored::Horizon, bucket).map_err(refusal::malformed)?;
            let found = space::changes_below(view, &below, (&seen, loose, &horizon), PAGE);
            found.map(|found| Look::Found(extent, found)).map_err(refusal::untold)
        };
        self.site.read(read).await
    }

    /// Whether there is nothing to tell.
    fn is_nothing(&self, found: &Changes) -> bool {
        !found.far && found.records.is_empty() && found.loose == self.loose
    }
}

/// What has changed, once something has or the time is up; none in doubt.
async fn changed(
    site: &Arc<Site>,
    below: Below,
    (seen, loose): (Vector, space::Fingerprint),
    wait: Duration,
) -> Outcome<Option<Changes>> {
    let until = site.clock.now().after(wait);
    let place = site.following.waiting.try_acquire().ok();
    // Other buckets change as they like.
    let mut changes = site.changes.follow_bucket(below.bucket);
    let mut waiter = Waiter { site, below, seen, loose, known: None };
    let mut pause = GATHER;
    loop {
        changes.mark_unchanged();
        let begun = site.clock.now();
        match waiter.look().await? {
            Look::Doubt => return Ok(None),
            Look::Same => {}
            Look::Found(extent, mut found) => {
                // What other keys had meanwhile is passed over once.
                waiter.seen.merge(&found.upto);
                found.upto = waiter.seen.clone();
                let is_nothing = waiter.is_nothing(&found);
                if is_nothing && found.more {
                    continue;
                }
                waiter.known = Some(extent);
                if !is_nothing || place.is_none() {
                    return Ok(Some(found));
                }
            }
        }
        let now = site.clock.now();
        let left = until.since(now);
        let is_same = || Changes { loose, upto: waiter.seen.clone(), ..Changes::default() };
        if left.is_zero() {
            return Ok(Some(is_same()));
        }
        if tokio::time::timeout(left, changes.changed()).await.is_err() {
            return Ok(Some(is_same()));
        }
        // Where other keys change all the time it is looked less and less often, and what all that wait here cost together
        // stays a part of one processor.
        let cost = now.since(begun) * SHARE * site.following.waiting();
        rest(pause.max(cost).min(until.since(site.clock.now()))).await;
        pause = (pause * 2).min(GATHER_MOST);
    }
}
