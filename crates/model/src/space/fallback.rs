//! What is shown of a key in place of a version whose body nobody has any more.
//!
//! Invariants: nothing that was deleted comes back, and nothing that a plain write replaced: only versions that a
//! client can name in a bucket with versioning, and heads that lost no more than a contest. Newest first, the same
//! order at every site that has the same records.

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Vector};

use super::{SpaceError, for_each_alive};
use crate::merge;
use crate::record::Record;

/// The versions of a key that may be shown in place of `lost`, in the order in which they are tried.
pub fn fallbacks(view: &dyn View, bucket: BucketId, key: &str, lost: Dot) -> Result<Vec<Record>, SpaceError> {
    let mut alive = Vec::new();
    for_each_alive(view, bucket, key, &mut |record| alive.push(record))?;
    Ok(choose(alive, lost))
}

/// The same of all living versions of a key.
pub(crate) fn choose(alive: Vec<Record>, lost: Dot) -> Vec<Record> {
    // A null version that another null version replaced lives on only as a conflict's loser.
    let mut replaced = Vector::new();
    alive.iter().filter(|record| record.is_null()).for_each(|record| replaced.merge(&record.context));
    let deletes: Vec<Record> = alive.iter().filter(|record| record.is_delete()).cloned().collect();
    let hidden = |dot: Dot| deletes.iter().any(|delete| delete.context.covers(dot));
    let stays = |record: &Record| {
        let is_replaced = record.is_null() && replaced.covers(record.dot);
        record.object().is_some() && record.dot != lost && !is_replaced && !hidden(record.dot)
    };
    let mut left: Vec<Record> = alive.into_iter().filter(stays).collect();
    // Of those that have not seen each other as everywhere; behind them by the clock, which follows who has seen whom.
    let mut covered = Vector::new();
    left.iter().for_each(|record| covered.merge(&record.context));
    left.sort_by(|one, other| {
        let (one_old, other_old) = (covered.covers(one.dot), covered.covers(other.dot));
        let by_age = (other.clock, other.dot).cmp(&(one.clock, one.dot));
        one_old.cmp(&other_old).then_with(|| if one_old { by_age } else { merge::by_rank(one, other) })
    });
    left
}

#[cfg(test)]
#[path = "fallback_tests.rs"]
mod tests;
