//! Which members were found to be the nearest, and when: so that not every read asks the landmarks.
//!
//! Invariant: what was found counts for [`limits::SOUGHT`], and as long as that member can be reached: who is known then to be
//! nearer still is so all the more. At most [`limits::SOUGHT_BUCKETS`] are remembered.

use std::collections::BTreeMap;

use skerry_base::{BucketId, Instant, SiteId};

use crate::limits;

/// By bucket: who answered a search first, and until when that counts.
#[derive(Debug, Default)]
pub(super) struct Sought(BTreeMap<BucketId, (Instant, SiteId)>);

impl Sought {
    pub(super) fn found(&mut self, bucket: BucketId, site: SiteId, now: Instant) {
        if self.0.len() >= limits::SOUGHT_BUCKETS && !self.0.contains_key(&bucket) {
            let oldest = self.0.iter().min_by_key(|(_, (until, _))| *until).map(|(bucket, _)| *bucket);
            oldest.map(|bucket| self.0.remove(&bucket));
        }
        self.0.insert(bucket, (now.after(limits::SOUGHT), site));
    }

    /// Whether the nearest of these is the nearest there is, as far as was found a while ago.
    pub(super) fn is_known(&self, bucket: BucketId, reachable: &[SiteId], now: Instant) -> bool {
        self.0.get(&bucket).is_some_and(|(until, site)| now < *until && reachable.contains(site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_counts_for_a_while_and_while_it_can_be_reached() {
        let (mut sought, bucket, site) = (Sought::default(), BucketId([5; 16]), SiteId([1; 16]));
        assert!(!sought.is_known(bucket, &[site], Instant(1)));
        sought.found(bucket, site, Instant(1));
        let late = Instant(1).after(limits::SOUGHT);
        assert!(sought.is_known(bucket, &[SiteId([2; 16]), site], Instant(2)), "another is nearer");
        assert!(!sought.is_known(bucket, &[SiteId([2; 16])], Instant(2)), "no link to it");
        assert!(!sought.is_known(bucket, &[site], late), "another may have come");
    }

    #[test]
    fn the_oldest_gives_way() {
        let (mut sought, site) = (Sought::default(), SiteId([1; 16]));
        let bucket = |n: u64| BucketId(u128::from(n).to_be_bytes());
        let count = limits::SOUGHT_BUCKETS as u64;
        (0..=count).for_each(|n| sought.found(bucket(n), site, Instant(n)));
        assert!(!sought.is_known(bucket(0), &[site], Instant(count)));
        assert!(sought.is_known(bucket(1), &[site], Instant(count)));
        assert_eq!(sought.0.len(), limits::SOUGHT_BUCKETS);
    }
}
