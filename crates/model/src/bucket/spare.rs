//! Spare claims: what the claim of a followed bucket says lies once more in this node's own table.
//!
//! Why here: a claim is one record, and all that a bucket has hangs on it. Where the frame of a journal that said it is lost
//! before it came to any other site, objects would stay for which there is no name, owner or setting. A spare is written in a
//! later frame than its claim. Hop before: the node's worker that looks after claims; after: [`lost_claims`] says which are to
//! be written again, once all others have been heard of the system bucket.
//!
//! Invariants: a spare says only what a record of the system bucket said here, so a claim of which there is nothing was lost and
//! never deleted; it goes with the membership, and when the bucket is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, WallTime};

use super::claim::{ClaimDocument, ClaimState, Claimed, all_claims};
use super::system::SystemKey;
use crate::entry::Entry;
use crate::space::{self, SpaceError};

const PREFIX: &[u8] = b"model/claim/";

/// The claim, and in which system bucket it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Spare {
    system: BucketId,
    claim: ClaimDocument,
}

impl Versioned for Spare {
    const NAME: &'static str = "spare claim";
    const VERSION: u8 = 1;
}

fn name(bucket: BucketId) -> Bytes {
    [PREFIX, &bucket.0].concat().into()
}

/// What cannot be read, as of a later release, is as if it were not there.
fn spares(view: &dyn View, system: BucketId) -> Result<BTreeMap<BucketId, ClaimDocument>, SpaceError> {
    let mut found = BTreeMap::new();
    view.scan_prefix(Table::Local, PREFIX, &mut |_, value| {
        let spare = codec::decode::<Spare>(value).ok().filter(|spare| spare.system == system);
        found.extend(spare.map(|spare| (spare.claim.bucket, spare.claim)));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The entries that bring the spares of followed buckets up to what claims say; none when they are.
pub fn spared(
    view: &dyn View,
    system: BucketId,
    followed: &BTreeSet<BucketId>,
) -> Result<Vec<Entry>, SpaceError> {
    let had = spares(view, system)?;
    let (mut entries, mut looked) = (Vec::new(), BTreeSet::new());
    for claim in all_claims(view, system)? {
        let bucket = claim.bucket;
        // An id is made of its name; one that is claimed under two is somebody's mischief.
        if !looked.insert(bucket) {
            continue;
        }
        let is_kept = claim.state == ClaimState::Live && followed.contains(&bucket);
        if is_kept && had.get(&bucket) != Some(&claim) {
            let value = Some(codec::encode(&Spare { system, claim }).into());
            entries.push(Entry::Local { key: name(bucket), value });
        } else if !is_kept && had.contains_key(&bucket) {
            entries.push(forget_spare(bucket));
        }
    }
    Ok(entries)
}

/// The entry that forgets the spare of a bucket, if there is one: it is followed no more.
pub fn forget_spare(bucket: BucketId) -> Entry {
    Entry::Local { key: name(bucket), value: None }
}

/// The buckets with a spare: they were followed whole when it was written.
pub fn spared_buckets(view: &dyn View, system: BucketId) -> Result<BTreeSet<BucketId>, SpaceError> {
    Ok(spares(view, system)?.into_keys().collect())
}

/// The claims to be written again: of buckets with a spare, and without anything that a claim of theirs said.
pub fn lost_claims(view: &dyn View, system: BucketId, wall: WallTime) -> Result<Vec<Claimed>, SpaceError> {
    let mut missing = Vec::new();
    for claim in spares(view, system)?.into_values() {
        if is_missing(view, system, &claim)? {
            missing.push(Claimed::new(&claim, wall));
        }
    }
    Ok(missing)
}

/// The same of one bucket.
pub fn lost_claim(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
    wall: WallTime,
) -> Result<Option<Claimed>, SpaceError> {
    Ok(lost(view, system, bucket)?.map(|claim| Claimed::new(&claim, wall)))
}

/// What the claim of a bucket said, if nothing is left of it but its spare.
pub(super) fn lost(
    view: &dyn View,
    system: BucketId,
    bucket: BucketId,
) -> Result<Option<ClaimDocument>, SpaceError> {
    let bytes = view.get(Table::Local, &name(bucket))?;
    let spare = bytes.and_then(|bytes| codec::decode::<Spare>(&bytes).ok());
    let Some(spare) = spare.filter(|spare| spare.system == system) else { return Ok(None) };
    Ok(is_missing(view, system, &spare.claim)?.then_some(spare.claim))
}

fn is_missing(view: &dyn View, system: BucketId, claim: &ClaimDocument) -> Result<bool, SpaceError> {
    let key = SystemKey::Claim { name: claim.name.clone(), bucket: claim.bucket }.to_string();
    Ok(space::heads(view, system, &key)?.is_empty())
}

#[cfg(test)]
#[path = "spare_tests.rs"]
mod tests;
