//! A name means one bucket, the same one at every site; and a bucket in which something is visible exists.

use std::collections::BTreeSet;

use skerry_base::kv::View;
use skerry_base::{BucketId, WallTime};
use skerry_model::bucket::{self, Resolved};
use skerry_model::space;

use super::Violation;

const NAME: &str = "claims";

/// Compares the names that sites know, once they agree.
pub fn check_names(named: &[(usize, Vec<Resolved>)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (site, resolved) in named {
        let names: BTreeSet<&str> = resolved.iter().map(|found| found.name.as_str()).collect();
        let buckets: BTreeSet<BucketId> = resolved.iter().map(|found| found.claim.bucket).collect();
        if names.len() != resolved.len() || buckets.len() != resolved.len() {
            let what = format!("a name means two buckets, or a bucket has two names: {names:?}");
            found.push(Violation::at(NAME, *site, what));
        }
        if named.first().is_some_and(|(_, first)| first != resolved) {
            found.push(Violation::at(NAME, *site, format!("knows other buckets: {names:?}")));
        }
    }
    found
}

/// A bucket with a visible key was not deleted, or was brought back; unless not all came that its deletion had seen, which `may` be
/// gone with disks that were set back (then an hour goes by first), or its claim is lost for good.
pub fn check_used(
    site: usize,
    view: &dyn View,
    system: BucketId,
    (claimed, lost, may): (&[BucketId], &BTreeSet<BucketId>, bool),
) -> Vec<Violation> {
    let living: BTreeSet<BucketId> = bucket::list_buckets(view, system, None)
        .map(|found| found.into_iter().map(|found| found.claim.bucket).collect())
        .unwrap_or_default();
    let gone = bucket::deleted_buckets(view, system).unwrap_or_default();
    let used = |bucket: &&BucketId| space::sums(view, **bucket).is_ok_and(|sums| sums.keys > 0);
    let is_back = |bucket: BucketId| {
        let revival =
            |name: &String| bucket::revival(view, system, (name, bucket), (WallTime::default(), false));
        !may || gone.get(&bucket).is_none_or(|name| !matches!(revival(name), Ok(None)))
    };
    let unknown = claimed.iter().filter(used).filter(|bucket| !living.contains(bucket));
    unknown
        .filter(|bucket| !lost.contains(bucket) && is_back(**bucket))
        .map(|bucket| Violation::at(NAME, site, format!("{bucket} holds keys and does not exist")))
        .collect()
}
