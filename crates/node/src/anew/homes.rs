//! Buckets of which a site hears that it is their home, though it knows nothing of them: its store was emptied, or what it lost of
//! the journal was all that it had of them.
//!
//! What it had decided others have, as far as it was ever answered. So it follows each such bucket, and decides nothing in it
//! until all others were heard. Invariant: marked before the system bucket is whole, which nothing is decided before.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector};
use skerry_gateway::service::Outcome;
use skerry_model::bucket as model;
use skerry_model::space::{self, SpaceError};

use crate::drive::stored::{membership, swept};
use crate::site::{Site, unreadable};

/// Begins with them.
pub(super) async fn begin(site: &Arc<Site>) -> Outcome<()> {
    let (system, me) = (site.system, site.id);
    let found = site.read(move |view| unknown(view, system, me).map_err(unreadable)).await?;
    for bucket in found {
        let joins = !site.is_complete(bucket);
        let mut entries = vec![space::to_be_heard(bucket)];
        entries.extend(joins.then(|| [membership(bucket, false), swept(bucket)]).into_iter().flatten());
        site.note_down(entries).await?;
        if joins {
            site.joined(bucket, false);
        }
        site.anew.state().begin(bucket, Vector::new());
    }
    Ok(())
}

/// Those that are not begun anew already.
fn unknown(view: &dyn View, system: BucketId, me: SiteId) -> Result<Vec<BucketId>, SpaceError> {
    let mut found = Vec::new();
    for bucket in model::list_buckets(view, system, None)?.into_iter().map(|found| found.claim.bucket) {
        let is_home = model::home(view, system, bucket)?.is_some_and(|home| home.site == me);
        if is_home && !space::is_anew(view, bucket)? {
            found.push(bucket);
        }
    }
    Ok(found)
}
