//! Leaving a bucket: what a node keeps of it is no longer vouched for, and goes.
//!
//! First, in one entry, the vector and the rounds of feeds go ([`forget`]): from then on every record here is *loose*,
//! as one that a single read brought. Then the records go, many keys at a time ([`left`]), each key at once, so that no
//! older version of it shows for a moment. A site that joins again in between keeps what is left: loose records are
//! covered, or found dead, by the next feed.
//!
//! Invariants: a vector never covers what was dropped by leaving, so nothing that lives elsewhere is ever called dead for
//! it; own writes after it need another origin, because the old one's seqs are used and its context is gone.

use std::ops::ControlFlow;

use skerry_base::kv::{Batch, Table, View};
use skerry_base::{BucketId, Dot};

use super::{SpaceError, feed, keys, loose, round, subscription};

/// Vector and rounds go; what is stored is loose.
pub(super) fn forget(bucket: BucketId, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    let vector = feed::vector(view, bucket)?;
    for (origin, _) in vector.iter() {
        batch.delete(Table::Vectors, keys::vector(bucket, origin));
        loose::mark_any(bucket, origin, view, batch)?;
    }
    for progress in round::open(view, bucket)? {
        round::put_progress(bucket, progress.source, None, batch);
    }
    subscription::forget(bucket, view, batch)
}

/// The dots of one key, in the order in which they may go: older versions first, what they were killed by last.
#[derive(Debug, Default)]
struct OfKey {
    name: Vec<u8>,
    alive: Vec<Dot>,
    remembered: Vec<Dot>,
}

impl OfKey {
    fn len(&self) -> usize {
        self.alive.len() + self.remembered.len()
    }

    fn take(&mut self, found: &mut Vec<Dot>) {
        found.extend(self.alive.drain(..).rev());
        found.extend(self.remembered.drain(..).rev());
    }
}

/// The next records of a bucket that is left, for [`crate::Entry::Drop`]: whole keys, at most `max` records unless one
/// key alone has more; then its oldest. None are left when it is empty.
pub fn left(view: &dyn View, bucket: BucketId, max: usize) -> Result<Vec<Dot>, SpaceError> {
    left_in(view, &bucket.0, max)
}

/// The same of the keys whose names begin so.
pub(super) fn left_in(view: &dyn View, first: &[u8], max: usize) -> Result<Vec<Dot>, SpaceError> {
    let (mut found, mut key) = (Vec::new(), OfKey::default());
    let mut strange = false;
    view.scan_prefix(Table::Versions, first, &mut |name, _| {
        let Some((object, region, dot)) = split(name) else {
            strange = true;
            return ControlFlow::Break(());
        };
        if key.name != object {
            if found.len() + key.len() >= max {
                return ControlFlow::Break(());
            }
            key.take(&mut found);
            key.name = object.to_vec();
        }
        if region == keys::ALIVE {
            key.alive.push(dot)
        } else {
            key.remembered.push(dot)
        }
        ControlFlow::Continue(())
    })?;
    if strange {
        return Err(SpaceError::Inconsistent("a version has no key"));
    }
    if found.len() + key.len() <= max || found.is_empty() {
        key.take(&mut found);
    }
    found.truncate(max.max(1));
    Ok(found)
}

/// Key, region and dot of a name in `Versions`.
fn split(name: &[u8]) -> Option<(&[u8], u8, Dot)> {
    let (rest, dot) = name.split_last_chunk::<32>()?;
    let (rest, _clock) = rest.split_last_chunk::<8>()?;
    let (region, object) = rest.split_last()?;
    Some((object, *region, Dot::from_bytes(&dot.map(|byte| !byte))))
}
