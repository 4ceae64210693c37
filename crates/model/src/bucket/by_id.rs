//! Claims as they come: which bucket an id means, and which deleted buckets may be back, without reading all claims.
//!
//! Why here: claims lie by name, and what sites ask each other names buckets by id. The cursor is the vector of the system
//! bucket, as on a feed: what it covers was read once. Hop before: the claims in the system bucket; after: whoever has an id.
//!
//! Invariants: what is remembered are names only, which never change for an id; what a claim says is read when it is asked
//! for, so that nothing told here is older than the view; a look costs what came since the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, Vector, WallTime};

use super::claim::{claim_on, claimed_as};
use super::{ClaimState, Claimed, Resolved, SystemKey, revival};
use crate::space::{self, SpaceError};

/// Names remembered by the id of their bucket: some 10 MiB. Buckets beyond them are looked for among all claims.
const NAMED: usize = 131_072;
/// How long what a deletion had seen is waited for, where something is visible that it had not: what is on its way is here by
/// then, and what is not may have burned.
pub const LATE: Duration = Duration::from_secs(3600);

/// Buckets of which a claim came that `seen` does not cover, with the names they were claimed under; `seen` then covers
/// them. What lies beyond the vector is told again until that covers it.
pub fn claimed_since(
    view: &dyn View,
    system: BucketId,
    seen: &mut Vector,
) -> Result<BTreeMap<BucketId, String>, SpaceError> {
    let mut came = BTreeMap::new();
    let upto = space::keys_after(view, system, seen, &mut |_, key| {
        if let Some(SystemKey::Claim { name, bucket }) = SystemKey::parse(key) {
            came.insert(bucket, name);
        }
    })?;
    seen.merge(&upto);
    Ok(came)
}

/// The names of buckets by id.
#[derive(Debug)]
pub struct ClaimNames {
    seen: Vector,
    names: BTreeMap<BucketId, Box<str>>,
    most: usize,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self::at_most(NAMED)
    }
}

impl ClaimNames {
    /// Remembers so many at most.
    pub fn at_most(most: usize) -> Self {
        Self { seen: Vector::new(), names: BTreeMap::new(), most }
    }

    /// The name that a bucket was claimed under; none if no claim of it is here.
    pub fn name_of(
        &mut self,
        view: &dyn View,
        system: BucketId,
        bucket: BucketId,
    ) -> Result<Option<String>, SpaceError> {
        if let Some(name) = self.names.get(&bucket) {
            return Ok(Some(name.to_string()));
        }
        // A failure leaves the cursor where it was.
        let mut seen = self.seen.clone();
        let mut came = claimed_since(view, system, &mut seen)?;
        let found = came.remove(&bucket);
        let fits = came.into_iter().take(self.most.saturating_sub(self.names.len()));
        self.names.extend(fits.map(|(id, name)| (id, name.into())));
        if let Some(name) = &found
            && self.names.len() < self.most
        {
            self.names.insert(bucket, name.as_str().into());
        }
        self.seen = seen;
        match found {
            Some(name) => Ok(Some(name)),
            // One that did not fit, or that came below the vector: what the nodes of a site give each other does.
            None => Ok(claimed_since(view, system, &mut Vector::new())?.remove(&bucket)),
        }
    }
}

/// The living bucket of an id, under the name that finds it; `name` is what it was claimed under.
pub fn resolve_id(
    view: &dyn View,
    system: BucketId,
    (name, bucket): (&str, BucketId),
) -> Result<Option<Resolved>, SpaceError> {
    claimed_as(view, system, name, bucket)
}

/// The deleted buckets, which may be written to by who has not heard of it.
#[derive(Debug, Default)]
pub struct Deleted {
    seen: Vector,
    names: BTreeMap<BucketId, String>,
    /// Deleted since they were looked at last.
    fresh: BTreeSet<BucketId>,
    /// Since when they show what their deletions had not seen, while part of what those had seen is not here.
    waiting: BTreeMap<BucketId, Instant>,
}

impl Deleted {
    /// Reads the claims that came since the last time; whether other buckets are deleted now than before.
    pub fn follow(&mut self, view: &dyn View, system: BucketId) -> Result<bool, SpaceError> {
        let (mut seen, mut is_other) = (self.seen.clone(), false);
        for (bucket, name) in claimed_since(view, system, &mut seen)? {
            let claim = claim_on(view, system, (&name, bucket))?;
            if claim.is_some_and(|claim| claim.state != ClaimState::Live) {
                self.fresh.insert(bucket);
                is_other |= self.names.insert(bucket, name).is_none();
            } else {
                is_other |= self.names.remove(&bucket).is_some();
            }
        }
        self.seen = seen;
        Ok(is_other)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = BucketId> {
        self.names.keys().copied()
    }

    /// When one has waited for so long that it is to be looked at again.
    pub fn next_look(&self) -> Option<Instant> {
        self.waiting.values().min().map(|since| since.after(LATE))
    }

    /// Those to be brought back, of these in which something came, of those deleted since the last look and of those that have
    /// waited for long: their names and the claims to write. What is found is looked at again the next time, until its claim is there.
    pub fn revivals(
        &mut self,
        view: &dyn View,
        system: BucketId,
        changed: &BTreeSet<BucketId>,
        (wall, now): (WallTime, Instant),
    ) -> Result<Vec<(String, Claimed)>, SpaceError> {
        let mut found = BTreeMap::new();
        let late =
            self.waiting.iter().filter(|(_, since)| now >= since.after(LATE)).map(|(bucket, _)| *bucket);
        let looked: BTreeSet<BucketId> = self.fresh.union(changed).copied().chain(late).collect();
        for bucket in looked {
            let since = self.waiting.remove(&bucket);
            let Some(name) = self.names.get(&bucket) else { continue };
            let is_late = since.is_some_and(|since| now >= since.after(LATE));
            if let Some(claimed) = revival(view, system, (name, bucket), (wall, is_late))? {
                found.insert(bucket, (name.clone(), claimed));
                self.waiting.extend(since.map(|since| (bucket, since)));
            } else if !is_late && revival(view, system, (name, bucket), (wall, true))?.is_some() {
                self.waiting.insert(bucket, since.unwrap_or(now));
            }
        }
        self.fresh = found.keys().copied().collect();
        Ok(found.into_values().collect())
    }
}

#[cfg(test)]
#[path = "by_id_tests.rs"]
mod tests;
