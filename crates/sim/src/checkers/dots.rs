//! A dot names one record for ever, on all sites, through restarts, clones and backups.

use std::collections::BTreeMap;

use skerry_base::{BucketId, Dot};

use super::Violation;

const NAME: &str = "dots";

/// Every dot ever met, with the hash of its record.
#[derive(Debug, Default)]
pub struct Dots(BTreeMap<(BucketId, Dot), blake3::Hash>);

impl Dots {
    /// A record was met at a site.
    pub fn met(&mut self, site: usize, bucket: BucketId, dot: Dot, record: &[u8]) -> Option<Violation> {
        let hash = blake3::hash(record);
        let known = *self.0.entry((bucket, dot)).or_insert(hash);
        (known != hash).then(|| Violation::at(NAME, site, format!("{bucket} {dot} names two records")))
    }
}
