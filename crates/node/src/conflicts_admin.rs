//! Conflicts as an operator sees them, from the records of this site.
//!
//! Before: the admin face. After: `paths/conflicts.rs`, which ends them. Invariant: what was shown is remembered before it is
//! answered, so that no loser goes unseen.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, WallTime};
use skerry_gateway::service::{Conflict, ConflictDetail, NameConflict, Outcome, ServiceError, VERSION};
use skerry_model::{Entry, Record, bucket as model, space, write};

use crate::paths::bucket::Bucket;
use crate::paths::{conflicts, shape};
use crate::site::{Site, entry, unreadable};

/// Conflicts, where the next page begins, and which losers were listed.
pub(crate) type Page = (Vec<Conflict>, Option<String>, Vec<(BucketId, Dot)>);

/// Reads where a page begins.
pub(crate) fn parse_after(after: &str) -> Outcome<(BucketId, String)> {
    let wrong = || ServiceError::invalid("`after` is not the `next` of a page");
    let (bucket, key) = after.split_once('/').ok_or_else(wrong)?;
    Ok((bucket.parse().map_err(|_| wrong())?, key.into()))
}

/// A page of the conflicts known here.
pub(crate) fn page(
    view: &dyn View,
    system: BucketId,
    only: Option<BucketId>,
    after: Option<(BucketId, String)>,
    limit: usize,
) -> Outcome<Page> {
    let names = model::list_buckets(view, system, None).map_err(unreadable)?;
    let name = |id: BucketId| {
        let found = names.iter().find(|resolved| resolved.claim.bucket == id);
        found.map_or_else(|| id.to_string(), |resolved| resolved.name.clone())
    };
    let from = after.as_ref().map(|(bucket, key)| (*bucket, key.as_str()));
    let keys = space::conflicts(view, only, from, limit).map_err(unreadable)?;
    let next = if keys.len() == limit { keys.last() } else { None };
    let next = next.map(|last| format!("{}/{}", last.bucket, last.key));
    let (mut found, mut listed) = (Vec::new(), Vec::new());
    for conflict in keys.iter().filter(|conflict| conflict.bucket != system) {
        let winner =
            space::record(view, conflict.bucket, &conflict.key, conflict.current).map_err(unreadable)?;
        for loser in &conflict.losers {
            let record =
                space::record(view, conflict.bucket, &conflict.key, loser.dot).map_err(unreadable)?;
            let Some(record) = record else { continue };
            listed.push((conflict.bucket, loser.dot));
            found.push(shown(&record, name(conflict.bucket), winner.as_ref()));
        }
    }
    Ok((found, next, listed))
}

/// Buckets that appear under another name than theirs.
pub(crate) fn contested(
    view: &dyn View,
    system: BucketId,
    only: Option<BucketId>,
) -> Outcome<Vec<NameConflict>> {
    let all = model::list_buckets(view, system, None).map_err(unreadable)?;
    let lost = all.into_iter().filter(|found| found.name != found.claim.name);
    let asked = lost.filter(|found| only.is_none_or(|only| only == found.claim.bucket));
    let shown = |found: model::Resolved| NameConflict {
        name: found.claim.name,
        appears_as: found.name,
        bucket: found.claim.bucket.to_string(),
        owner: found.claim.owner,
        site: found.claim.site.to_string(),
        created_ms: found.claim.created.0,
    };
    Ok(asked.map(shown).collect())
}

/// The conflict of one key, and which losers were listed.
pub(crate) fn detailed(view: &dyn View, bucket: &Bucket, key: &str) -> Outcome<(ConflictDetail, Vec<Dot>)> {
    let conflict = conflicts::of_key(view, bucket, key)?;
    let read = |dot| space::record(view, bucket.id, key, dot).map_err(unreadable);
    let winner = read(conflict.current)?;
    let mut losers = Vec::new();
    for loser in &conflict.losers {
        losers.extend(read(loser.dot)?.map(|record| shown(&record, bucket.name.clone(), winner.as_ref())));
    }
    let current = winner.as_ref().map(|record| shown(record, bucket.name.clone(), None));
    let listed = conflict.losers.iter().map(|loser| loser.dot).collect();
    Ok((ConflictDetail { version: VERSION, current, losers, more: conflict.more }, listed))
}

fn shown(record: &Record, bucket: String, winner: Option<&Record>) -> Conflict {
    let object = record.object();
    let modified = object.map_or_else(|| record.clock.wall(), |object| object.modified);
    let WallTime(modified_ms) = modified;
    Conflict {
        bucket,
        key: record.key.clone(),
        version_id: shape::dot_id(record).to_string(),
        site: record.site.to_string(),
        writer: record.writer.clone(),
        modified_ms,
        size: object.map_or(0, |object| object.size),
        etag: object.map(|object| object.etag.clone()).unwrap_or_default(),
        delete: record.is_delete(),
        winner: winner.map(|winner| shape::dot_id(winner).to_string()),
    }
}

/// Losers that were listed may go once they are old enough: remembered, so that none goes unseen.
pub(crate) async fn note_listed(site: &Arc<Site>, listed: Vec<(BucketId, Dot)>) -> Outcome<()> {
    if listed.is_empty() {
        return Ok(());
    }
    let note = move |view: &dyn View| {
        let mut entries = Vec::new();
        for (bucket, dot) in &listed {
            let key = write::listed_fact(*bucket, *dot);
            if space::local(view, &key).map_err(unreadable)?.is_none() {
                let value = Some(Bytes::from_static(&[1]));
                entries.push(entry(&Entry::Local { key, value }));
            }
        }
        Ok(((), entries))
    };
    site.commit(site.system, (), note).await
}
