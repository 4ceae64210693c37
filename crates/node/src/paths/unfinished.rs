//! Uploads in parts that nobody can finish any more: they end with their bucket.
//!
//! Before: DeleteBucket, and the worker that finds what other sites deleted and what earlier releases left. Invariants: an
//! upload ends only while its bucket is deleted, which is asked where the end is committed; a commit ends few of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Instant};
use skerry_gateway::service::Outcome;
use skerry_model::{Entry, bucket as model, space};

use crate::site::{Site, entry, unreadable};

/// Uploads that end in one commit: each may have 10,000 parts.
const TOGETHER: usize = 8;
/// Commits that one call makes; what is left then is found at the next turn.
const COMMITS: usize = 128;
/// How long the uploads of a bucket that another site deleted stay once that is known here: a write of which that one had
/// not heard may bring the bucket back.
pub(crate) const REST: Duration = Duration::from_secs(3600);

/// The ends of some uploads of a bucket.
pub(crate) fn ends(view: &dyn View, bucket: BucketId) -> Outcome<Vec<Entry>> {
    let uploads = space::list_uploads(view, bucket, "", None, TOGETHER).map_err(unreadable)?;
    let end =
        |upload: skerry_model::multipart::Upload| Entry::UploadEnd { bucket, key: upload.key, id: upload.id };
    Ok(uploads.into_iter().map(end).collect())
}

/// Ends the uploads of a bucket that was claimed under this name, as long as it is deleted; how many.
pub(crate) async fn end(site: &Arc<Site>, bucket: BucketId, name: String) -> Outcome<usize> {
    let system = site.system;
    let mut ended = 0;
    for _ in 0..COMMITS {
        let name = name.clone();
        let propose = move |view: &dyn View| {
            let is_deleted = model::is_deleted(view, system, &name, bucket).map_err(unreadable)?;
            // What is there brings the bucket back once this site has all that its deletion had seen.
            if !is_deleted || space::sums(view, bucket).map_err(unreadable)?.keys > 0 {
                return Ok((0, Vec::new()));
            }
            let ends = ends(view, bucket)?;
            Ok((ends.len(), ends.iter().map(entry).collect()))
        };
        let more = site.commit(bucket, (), propose).await?;
        ended += more;
        if more < TOGETHER {
            break;
        }
    }
    Ok(ended)
}

/// When this site was first seen to have uploads of a bucket that is deleted, in this run.
pub(crate) type Heard = BTreeMap<BucketId, Instant>;

/// Ends the uploads of all buckets of whose deletion this site has known for so long; how many.
pub(crate) async fn sweep(site: &Arc<Site>, rest: Duration, heard: &mut Heard) -> Outcome<usize> {
    let system = site.system;
    let find = move |view: &dyn View| {
        let uploading = space::uploading(view).map_err(unreadable)?;
        if uploading.is_empty() {
            return Ok(Vec::new());
        }
        let mut deleted = model::deleted_buckets(view, system).map_err(unreadable)?;
        let found = uploading.into_iter().filter_map(|bucket| Some((bucket, deleted.remove(&bucket)?)));
        Ok(found.collect())
    };
    let found: Vec<(BucketId, String)> = site.read(find).await?;
    let now = site.clock.now();
    heard.retain(|bucket, _| found.iter().any(|(other, _)| other == bucket));
    let mut ended = 0;
    for (bucket, name) in found {
        let since = *heard.entry(bucket).or_insert(now);
        if u128::from(now.0.saturating_sub(since.0)) >= rest.as_nanos() {
            ended += end(site, bucket, name).await?;
        }
    }
    Ok(ended)
}
