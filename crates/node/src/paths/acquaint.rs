//! What a member has of a key, heard before a write at a site that does not hold the bucket whole.
//!
//! Before: `write.rs`. After: `far.rs`. Why: an overwrite is to be no conflict with what it overwrites, and a delete is to find what it
//! deletes. So the first writes of a site to a bucket, until it has all records of it, cost a round trip each. Invariants: a PUT
//! goes on without where nobody answers, and those behind it do not wait for the same silence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{BucketId, Instant, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::space;
use skerry_model::write::Ask;

use super::get::{Found, Wanted};
use super::seek::Offer;
use super::write::Asked;
use super::{far, members, refusal};
use crate::peers::message::Part;
use crate::site::{Site, unreadable};

/// How long a write waits for what a member has of the key.
const ACQUAINTED: Duration = Duration::from_secs(2);
/// How long PUTs do not ask after one had no answer in that time: this at first, and twice as long each time that there is none again.
const SILENT: Duration = Duration::from_secs(4);
/// And this at most.
const SILENT_MOST: Duration = Duration::from_secs(32);
/// Buckets of which that is remembered at once.
const SILENCES: usize = 1024;

/// Buckets whose members did not answer a PUT in time.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<BTreeMap<BucketId, Silence>>);

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Instant,
    span: Duration,
}

impl Silences {
    fn heard(&self, bucket: BucketId) {
        self.all().remove(&bucket);
    }

    fn not_heard(&self, bucket: BucketId, now: Instant) {
        let mut all = self.all();
        all.retain(|_, silence| silence.until.after(SILENT_MOST) > now);
        let span = match all.get(&bucket) {
            // Another that asked at the same time said so.
            Some(silence) if silence.until > now => return,
            Some(silence) => SILENT_MOST.min(silence.span * 2),
            None => SILENT,
        };
        if all.len() < SILENCES || all.contains_key(&bucket) {
            all.insert(bucket, Silence { until: now.after(span), span });
        }
    }

    fn is_silent(&self, bucket: BucketId, now: Instant) -> bool {
        self.all().get(&bucket).is_some_and(|silence| silence.until > now)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<BucketId, Silence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A site that does not hold the bucket whole first hears what a member has of the key, so that an overwrite
/// is no conflict and a delete finds what it deletes. A write goes on without when nobody can be reached.
/// What `asker`, another site that it is written for, has of the key it has said.
pub(super) async fn acquaint(site: &Arc<Site>, asked: &Asked, asker: Option<SiteId>) -> Outcome<()> {
    let version = match asked.ask {
        Ask::Erase(version) => Some(version),
        _ => None,
    };
    let deletes = !matches!(asked.ask, Ask::Put(_));
    let whole = site.is_complete(asked.bucket.id);
    if whole && (!deletes || (version.is_none() && is_listed(site, asked).await?)) {
        return Ok(());
    }
    let wanted = Wanted { bucket: asked.bucket.clone(), key: asked.key.clone(), version };
    let is_sites = site.reads_for_site(asked.bucket.id);
    let local = wanted.clone();
    let here = site.look(move |view| local.local(view)).await?;
    let known = !matches!(here, Found::Nothing);
    let ahead = match whole && !known {
        true => members::ahead(site, asked.bucket.id, is_sites).await,
        false => None,
    };
    if whole && ahead.is_none() {
        return Ok(());
    }
    if !deletes && site.silences.is_silent(asked.bucket.id, site.clock.now()) {
        return Ok(());
    }
    let heard = async {
        let mut asking = match ahead {
            Some(ahead) => ahead,
            None => members::nearest(site, &wanted.bucket).await?,
        };
        asking.sites.retain(|other| Some(*other) != asker);
        far::read(site, &wanted, Part::Nothing, &here, (asking, Offer::default())).await
    };
    let heard = tokio::time::timeout(ACQUAINTED, heard).await;
    match &heard {
        Ok(_) => site.silences.heard(asked.bucket.id),
        Err(_) if deletes => {}
        Err(_) => site.silences.not_heard(asked.bucket.id, site.clock.now()),
    }
    match heard {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if deletes && !known => Err(error),
        Err(_) if deletes && !known => Err(refusal::unreachable("a member of the bucket does not answer")),
        _ => Ok(()),
    }
}

/// Whether the key shows an object here: what is known of it need not be read to know that.
async fn is_listed(site: &Arc<Site>, asked: &Asked) -> Outcome<bool> {
    let (bucket, key) = (asked.bucket.id, asked.key.clone());
    site.look(move |view| space::is_listed(view, bucket, &key).map_err(unreadable)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_grows_while_nobody_answers_and_ends_with_an_answer() {
        let (silences, bucket) = (Silences::default(), BucketId([1; 16]));
        let at = |seconds| Instant::default().after(Duration::from_secs(seconds));
        silences.not_heard(bucket, at(0));
        silences.not_heard(bucket, at(1));
        assert!(silences.is_silent(bucket, at(3)), "four seconds, however many asked at once");
        assert!(!silences.is_silent(bucket, at(4)));
        silences.not_heard(bucket, at(4));
        assert!(silences.is_silent(bucket, at(11)), "twice as long");
        let mut now = 12;
        for _ in 0..5 {
            silences.not_heard(bucket, at(now));
            now += 32;
        }
        assert!(!silences.is_silent(bucket, at(now)), "half a minute at most");
        silences.not_heard(bucket, at(now));
        silences.heard(bucket);
        assert!(!silences.is_silent(bucket, at(now)));
        silences.not_heard(bucket, at(now));
        assert!(!silences.is_silent(bucket, at(now + 4)), "and begins anew");
    }
}
