//! Where the disk went: by class of file from the store's counters; by bucket from sums that are kept as records
//! change; by class of version and origin from a bounded reading of the records.
//!
//! Invariant: the scan reads at most [`SCAN`] records, a page at a time, and says when there were more.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::{OthersStatus, Outcome, SpaceReport, SpaceRow, VERSION};
use skerry_model::bucket::{list_buckets, system_bucket};
use skerry_model::space::{self, SpaceError, Standing, census};
use skerry_storage::Store;

use crate::admin::storage_status;
use crate::check::{CheckError, open_offline};
use crate::config::Config;
use crate::copies::others::OthersFile;
use crate::growth::{Growth, taken_and_room};
use crate::paths::{members, refusal};
use crate::site::{Site, unreadable};
use crate::trust::admission;

/// Records that a scan reads at most: some seconds.
const SCAN: u64 = 1_000_000;
/// Records of one reading of the index.
const PAGE: usize = 4096;

/// Of a running site.
pub(crate) async fn online(site: &Arc<Site>, scan: bool) -> Outcome<SpaceReport> {
    let (store, system) = (site.store.clone(), site.system);
    let count = move || report(&store, system, scan, SCAN).map_err(unreadable);
    let mut report = tokio::task::spawn_blocking(count).await.map_err(refusal::task)??;
    report.site = site.called();
    let growth = site.read(Growth::remembered).await?;
    let days = growth.days_to_full(site.clock.wall(), taken_and_room(&site.store.usage()));
    report.days_to_full = days.filter(|days| days.is_finite()).map(|days| days as u64);
    report.others = site.others.status();
    let unsent = members::gaps(site).await?.unsent;
    // What the furthest ahead of the others still lacks is what nobody else has.
    report.unsent_bytes = unsent.values().map(|unsent| unsent.bytes).min();
    for row in &mut report.rows {
        if let Ok(id) = row.origin.parse::<SiteId>() {
            row.origin = site.peers.roster.name(id);
        }
    }
    Ok(report)
}

/// Of a site that does not run.
pub fn offline(config: &Config, scan: bool) -> Result<SpaceReport, CheckError> {
    let (store, trust) = open_offline(config, None)?;
    let system = system_bucket(&admission::federation_id(&trust.root));
    let failed = |error: SpaceError| CheckError::Storage {
        directory: config.node.dir.clone(),
        error: skerry_storage::StorageError::Index(error.to_string()),
    };
    let mut report = report(&store, system, scan, SCAN).map_err(failed)?;
    for row in &mut report.rows {
        if row.origin == trust.statement.site.to_string() {
            row.origin.clone_from(&trust.statement.name);
        }
    }
    report.site = trust.statement.name;
    Ok(report)
}

fn report(store: &Store, system: BucketId, scan: bool, most: u64) -> Result<SpaceReport, SpaceError> {
    let (usage, view) = (store.usage(), store.view());
    // Of a site that does not run: as it was counted last.
    let others = OthersFile::remembered(&view).ok().flatten().unwrap_or_default();
    let mut names = BTreeMap::new();
    for resolved in list_buckets(&view, system, None)? {
        names.insert(resolved.claim.bucket, resolved.name);
    }
    let mut report = SpaceReport {
        version: VERSION,
        storage: storage_status(&usage, &store.scrub_state()),
        cached_bytes: usage.cached.bytes,
        pinned_bytes: usage.cached.pinned,
        cache_cap_bytes: usage.cached.cap,
        cache_hit_bytes: usage.cached.hit_bytes,
        cache_evicted_bytes: usage.cached.evicted_bytes,
        others: OthersStatus { bytes: others.bytes, ..OthersStatus::default() },
        ..SpaceReport::default()
    };
    let name = |id: BucketId| match names.get(&id) {
        Some(name) => name.clone(),
        None if id == system => "(system)".into(),
        None => id.to_string(),
    };
    if scan {
        scanned(store, most, &name, &mut report)?;
    } else {
        for bucket in space::buckets(&view)? {
            counted(&view, bucket, &name, &mut report)?;
        }
    }
    Ok(report)
}

/// From the sums of a bucket.
fn counted(
    view: &dyn View,
    bucket: BucketId,
    name: &dyn Fn(BucketId) -> String,
    report: &mut SpaceReport,
) -> Result<(), SpaceError> {
    let sums = space::sums(view, bucket)?;
    let row = |class: &str, versions, bytes| SpaceRow {
        bucket: name(bucket),
        class: class.into(),
        origin: String::new(),
        versions,
        bytes,
    };
    report.rows.push(row("live", sums.keys, sums.bytes));
    let (versions, bytes) =
        (sums.records.saturating_sub(sums.keys), sums.stored_bytes.saturating_sub(sums.bytes));
    if versions > 0 {
        report.rows.push(row("other versions", versions, bytes));
    }
    Ok(())
}

/// From the records themselves. Each page is a reading of its own, so that none holds the index for long.
fn scanned(
    store: &Store,
    most: u64,
    name: &dyn Fn(BucketId) -> String,
    report: &mut SpaceReport,
) -> Result<(), SpaceError> {
    let mut sums: BTreeMap<(BucketId, Standing, SiteId), (u64, u64)> = BTreeMap::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = census(&store.view(), after.as_deref(), PAGE)?;
        for (record, standing) in &page.versions {
            let sum = sums.entry((record.bucket, *standing, record.site)).or_default();
            sum.0 += 1;
            sum.1 += record.object().map_or(0, |object| object.size);
        }
        report.scanned += page.versions.len() as u64;
        after = page.next;
        if after.is_none() {
            break;
        }
        if report.scanned >= most {
            report.partial = true;
            break;
        }
    }
    report.rows.extend(sums.into_iter().map(|((bucket, standing, site), (versions, bytes))| {
        SpaceRow {
            bucket: name(bucket),
            class: match standing {
                Standing::Current => "live",
                Standing::Noncurrent => "noncurrent",
                Standing::Conflict => "conflicts",
            }
            .into(),
            origin: site.to_string(),
            versions,
            bytes,
        }
    }));
    Ok(())
}
