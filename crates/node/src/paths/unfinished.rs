//! Uploads in parts that nobody can finish any more: they end with their bucket.
//!
//! Before: DeleteBucket, and the worker that finds what other sites deleted and what earlier releases left. Invariants: an
//! upload ends only while its bucket is deleted, which is asked where the end is committed; a commit ends few of them.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, WallTime};
use skerry_gateway::service::Outcome;
use skerry_model::{Entry, bucket as model, space};

use crate::site::{Site, entry, unreadable};

/// Uploads that end in one commit: each may have 10,000 parts.
const TOGETHER: usize = 8;
/// Commits that one call makes; what is left then is found at the next turn.
const COMMITS: usize = 128;
/// How long the uploads of a bucket that another site deleted stay: a write of which that one had not heard may bring the
/// bucket back.
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
            if !model::is_deleted(view, system, &name, bucket).map_err(unreadable)? {
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

/// Ends the uploads of all buckets whose deletion was said longer than `rest` ago; how many.
pub(crate) async fn sweep(site: &Arc<Site>, rest: Duration) -> Outcome<usize> {
    let rest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
    let (system, before) = (site.system, WallTime(site.clock.wall().0.saturating_sub(rest)));
    let find = move |view: &dyn View| {
        let uploading = space::uploading(view).map_err(unreadable)?;
        if uploading.is_empty() {
            return Ok(Vec::new());
        }
        let mut deleted = model::deleted_before(view, system, before).map_err(unreadable)?;
        let found = uploading.into_iter().filter_map(|bucket| Some((bucket, deleted.remove(&bucket)?)));
        Ok(found.collect())
    };
    let found: Vec<(BucketId, String)> = site.read(find).await?;
    let mut ended = 0;
    for (bucket, name) in found {
        ended += end(site, bucket, name).await?;
    }
    Ok(ended)
}
