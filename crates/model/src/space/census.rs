//! A visit to every living version that a node knows, page by page: who counts, or looks for what names a chunk.
//!
//! Why here: how versions lie in the tables is nobody else's business. It reads every record once, so it costs
//! what the records cost; sums that are kept as records change are in [`super::sums`].

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_base::kv::{Table, View};

use super::{Listed, SpaceError, conflict, keys, read, rows};
use crate::record::Record;

/// What a living version is to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The one that a GET answers.
    Current,
    /// It lost against a concurrent one and is kept.
    Conflict,
    /// An older version.
    Noncurrent,
}

/// A page of living versions, by bucket and key, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Census {
    /// The versions.
    pub versions: Vec<(Record, Standing)>,
    /// Give it for the next page; none: that was the last.
    pub next: Option<Vec<u8>>,
}

/// What is known of the key at hand, so that it is looked up once.
struct AtKey {
    bucket: BucketId,
    key: String,
    current: Option<Listed>,
    losers: Vec<skerry_base::Dot>,
}

/// The next living versions, of at most `look` rows looked at.
pub fn census(view: &dyn View, after: Option<&[u8]>, look: usize) -> Result<Census, SpaceError> {
    let mut found: Vec<(Vec<u8>, Bytes)> = Vec::new();
    let (mut looked, mut next) = (0, None);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    view.scan(Table::Versions, from, Bound::Unbounded, &mut |name, value| {
        looked += 1;
        let alive = keys::split_object(name).is_some_and(|(_, rest)| rest.first() == Some(&keys::ALIVE));
        if alive {
            found.push((name.to_vec(), Bytes::copy_from_slice(value)));
        }
        if looked < look.max(1) {
            return ControlFlow::Continue(());
        }
        next = Some(name.to_vec());
        ControlFlow::Break(())
    })?;
    let mut census = Census { versions: Vec::with_capacity(found.len()), next };
    let mut at: Option<AtKey> = None;
    for (name, value) in found {
        let record = rows::version::decode(&name, &value)?;
        let known = at.take().filter(|at| at.bucket == record.bucket && at.key == record.key);
        let known = known.map_or_else(|| AtKey::look_up(view, &record), Ok)?;
        let standing = known.standing(&record);
        at = Some(known);
        census.versions.push((record, standing));
    }
    Ok(census)
}

impl AtKey {
    fn look_up(view: &dyn View, record: &Record) -> Result<Self, SpaceError> {
        let name = keys::object(record.bucket, &record.key);
        let current = read::listed(view, &name)?;
        let conflict = conflict(view, record.bucket, &record.key)?;
        let losers = conflict.map(|conflict| conflict.losers.iter().map(|loser| loser.dot).collect());
        Ok(Self {
            bucket: record.bucket,
            key: record.key.clone(),
            current,
            losers: losers.unwrap_or_default(),
        })
    }

    fn standing(&self, record: &Record) -> Standing {
        if self.current.as_ref().is_some_and(|current| current.dot == record.dot) {
            Standing::Current
        } else if self.losers.contains(&record.dot) {
            Standing::Conflict
        } else {
            Standing::Noncurrent
        }
    }
}
