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
use skerry_model::space::{self, Below, Changes};

use crate::drive::live;
use crate::drive::stored::Stored;
use crate::paths::{members, refusal};
use crate::peers::message::{AskedBelow, Question, Response, ToldBelow};
use crate::site::Site;
use crate::tasks::rest;

/// Records in one answer: a key is told whole, and the answer must still be a message.
const PAGE: usize = FEED_BATCH_BYTES / 2;
/// How long a question waits here at most.
pub(crate) const WAITS: Duration = Duration::from_secs(30);
/// Changes gather for so long before they are looked at again.
const GATHER: Duration = Duration::from_millis(20);
const GATHER_MOST: Duration = Duration::from_secs(1);

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

/// What has changed, once something has or the time is up; none in doubt.
async fn changed(
    site: &Arc<Site>,
    below: Below,
    (mut seen, loose): (Vector, space::Fingerprint),
    wait: Duration,
) -> Outcome<Option<Changes>> {
    let until = site.clock.now().after(wait);
    let place = site.following.waiting.try_acquire().ok();
    let mut changes = site.changes.follow();
    let mut pause = GATHER;
    loop {
        changes.mark_unchanged();
        let (place_of, base) = (below.clone(), seen.clone());
        let read = move |view: &dyn View| {
            if !no_doubt(view, place_of.bucket)? {
                return Ok(None);
            }
            let horizon = live::read(view, Stored::Horizon, place_of.bucket).map_err(refusal::malformed)?;
            space::changes_below(view, &place_of, (&base, loose, &horizon), PAGE)
                .map(Some)
                .map_err(refusal::untold)
        };
        let Some(mut found) = site.read(read).await? else { return Ok(None) };
        // What other keys had meanwhile is passed over once.
        seen.merge(&found.upto);
        found.upto = seen.clone();
        let left = until.since(site.clock.now());
        let rests = !found.far && found.records.is_empty() && found.loose == loose;
        if rests && found.more {
            continue;
        }
        if !rests || place.is_none() || left.is_zero() {
            return Ok(Some(found));
        }
        tokio::time::timeout(left, changes.changed()).await.ok();
        // Where other keys change all the time it is looked less and less often.
        rest(pause.min(left)).await;
        pause = (pause * 2).min(GATHER_MOST);
    }
}
