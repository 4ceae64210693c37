//! A look through the records for versions that lack holders: what lies behind the covered vector, page by page.
//!
//! Invariants: only versions of which this site is custodian; a body counts as here only if every chunk of it is here
//! as a copy that counts; each page is a reading of its own, so that none holds the index for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::{BucketId, ChunkId, Dot, Origin, SiteId, Vector};
use skerry_federation::placement::{Stake, Want, custodian};
use skerry_gateway::service::Outcome;
use skerry_model::body::{Step, Walk};
use skerry_model::bucket::list_buckets;
use skerry_model::{Object, Record, space};
use skerry_storage::{Pin, Store};

use super::{Copies, Counted, Rules};
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::site::{Site, unreadable};
use crate::workers::copies::rules;

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Pages of one look: the rest comes with the next.
const PAGES: usize = 64;
/// Pages that a count of what is unprotected reads: some hundred thousand versions.
const COUNTED: usize = 512;

/// Whether a body is here as a copy that counts.
pub(crate) fn is_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    is_whole(store, bucket, object, |chunk| store.counts(bucket, chunk))
}

/// Pins of a body that is here as a copy that counts; none if it is not.
pub(crate) fn pinned(store: &Store, bucket: BucketId, object: &Object) -> Option<Vec<Pin>> {
    let pins = object.chunks.iter().map(|chunk| store.pin(bucket, chunk.id));
    let pins = pins.collect::<Option<Vec<_>>>()?;
    is_here(store, bucket, object).then_some(pins)
}

/// Whether a body can be read from here, cached or not.
pub(crate) fn lies_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    is_whole(store, bucket, object, |chunk| store.has_chunk(bucket, chunk))
}

/// Whether a body lies here and is not evicted, as a copy that counts or as one that is pinned.
pub(crate) fn stays_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    is_whole(store, bucket, object, |chunk| store.counts(bucket, chunk) || store.keeps(bucket, chunk))
}

fn is_whole(store: &Store, bucket: BucketId, object: &Object, has: impl Fn(ChunkId) -> bool) -> bool {
    let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
    while let Some(step) = walk.next() {
        let (Step::Tree(chunk) | Step::Leaf(chunk, _)) = step;
        if !has(chunk.id) {
            return false;
        }
        if chunk.kind == skerry_base::ChunkKind::Tree {
            let tree = store.read_chunk(bucket, chunk.id, 0..u32::MAX);
            if tree.map_or(true, |bytes| walk.supply(&bytes).is_err()) {
                return false;
            }
        }
    }
    true
}

/// Bytes of a bucket's bodies that are nowhere but here, as far as is known; 0 if it asks for one copy only.
pub(crate) async fn unprotected(site: &Arc<Site>, bucket: &Bucket) -> Outcome<u64> {
    let (site, id, rules) = (site.clone(), bucket.id, rules(site, bucket));
    if bucket.config.copies < 2 || rules.sites.len() < 2 || !site.is_member(id) {
        return Ok(0);
    }
    let begun = site.clock.now();
    let vector = site.read(move |view| space::vector(view, id).map_err(unreadable)).await?;
    let of = (site.copies.changes(), vector, rules.clone());
    if let Some(bytes) = site.copies.counted(id, &of, begun) {
        return Ok(bytes);
    }
    let here = site.clone();
    let count = move || {
        let looker =
            Looker { me: here.id, store: &here.store, copies: &here.copies, bucket: id, rules: &rules };
        looker.unprotected()
    };
    let bytes = tokio::task::spawn_blocking(count).await.map_err(refusal::task)??;
    let took = site.clock.now().since(begun);
    site.copies.set_counted(id, Counted { of, bytes, begun, took });
    Ok(bytes)
}

/// The same for every bucket known here, by name.
pub(crate) async fn unprotected_by_bucket(site: &Arc<Site>) -> Outcome<BTreeMap<String, u64>> {
    let system = site.system;
    let buckets = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    let mut all = BTreeMap::new();
    for bucket in buckets.into_iter().map(Bucket::of) {
        let bytes = unprotected(site, &bucket).await?;
        all.insert(bucket.name, bytes);
    }
    Ok(all)
}

/// Where to look.
pub(crate) struct Looker<'a> {
    pub(crate) me: SiteId,
    pub(crate) store: &'a Store,
    pub(crate) copies: &'a Copies,
    pub(crate) bucket: BucketId,
    pub(crate) rules: &'a Rules,
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Versions that lack holders, with their keys.
    pub(crate) wants: Vec<(Want, String)>,
    /// How far the look came.
    pub(crate) upto: Vector,
    /// Whether there is more behind that.
    pub(crate) more: bool,
}

impl Found {
    /// The first seq of each origin that lacks holders.
    pub(crate) fn first_lacking(&self) -> BTreeMap<Origin, u64> {
        let mut first = BTreeMap::new();
        for (want, _) in &self.wants {
            let seq = first.entry(want.dot.origin).or_insert(want.dot.seq);
            *seq = want.dot.seq.min(*seq);
        }
        first
    }
}

impl Looker<'_> {
    fn is_mine(&self, record: &Record, ring: &BTreeSet<SiteId>, out: &BTreeSet<SiteId>) -> bool {
        custodian(record.site, ring, out).is_some_and(|now| now.site == self.me)
    }

    /// The next page of living versions that are this site's to care for, and how many others hold each.
    fn page(&self, from: &Vector, visit: &mut dyn FnMut(&Record, &Object, usize)) -> Outcome<(Vector, bool)> {
        let page = space::records_after(&self.store.view(), self.bucket, from, PAGE).map_err(unreadable)?;
        // Who has left the bucket looks after nothing there.
        let mut out = self.copies.away(self.bucket);
        out.extend(&self.rules.lost);
        let ring = self.copies.ring(self.bucket, self.me, self.rules);
        for item in page.items.iter().filter(|item| !item.spent) {
            if let Some(object) = item.record.object()
                && self.is_mine(&item.record, &ring, &out)
            {
                let holders = self.copies.with(|machine| machine.held_elsewhere(self.bucket, item.dot));
                visit(&item.record, object, holders);
            }
        }
        let mut upto = from.clone();
        upto.merge(&page.upto);
        Ok((upto, page.more))
    }

    /// What this site has to do with these versions.
    pub(crate) fn stakes(&self, dots: &[Dot]) -> Outcome<BTreeMap<Dot, Stake>> {
        let view = self.store.view();
        let mut out = self.copies.away(self.bucket);
        out.extend(&self.rules.lost);
        let ring = self.copies.ring(self.bucket, self.me, self.rules);
        let mut stakes = BTreeMap::new();
        for &dot in dots {
            let mut stake = Stake { mine: false, here: false, copies: self.rules.copies };
            let promised = super::book::promised(&view, self.bucket, dot).map_err(unreadable)?;
            let found = space::records_in(&view, self.bucket, (dot, dot.seq), &BTreeSet::new(), PAGE);
            let (items, _) = found.map_err(unreadable)?;
            for item in items.iter().filter(|item| !item.spent) {
                if let Some(object) = item.record.object() {
                    stake.mine = self.is_mine(&item.record, &ring, &out);
                    stake.here = is_here(self.store, self.bucket, object);
                    // Whoever answered a write for so many sites sees to it, whoever cares for the copies.
                    stake.mine |= promised > 0;
                    stake.copies = stake.copies.max(promised);
                }
            }
            stakes.insert(dot, stake);
        }
        Ok(stakes)
    }

    /// Looks on from there until enough is found.
    pub(crate) fn look(&self, from: Vector, most: usize) -> Outcome<Found> {
        let mut found = Found { upto: from, more: true, ..Found::default() };
        for _ in 0..PAGES {
            let mut wants = Vec::new();
            let (upto, more) = self.page(&found.upto, &mut |record, object, holders| {
                let here = is_here(self.store, self.bucket, object);
                if holders + usize::from(here) < self.rules.copies {
                    let want = Want { dot: record.dot, bytes: object.size, here };
                    wants.push((want, record.key.clone()));
                }
            })?;
            found.wants.append(&mut wants);
            (found.upto, found.more) = (upto, more);
            if !more || found.wants.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    /// Bytes of bodies that are nowhere but here, as far as is known. Behind what one count reads, all that is stored
    /// counts: rather too much than too little.
    pub(crate) fn unprotected(&self) -> Outcome<u64> {
        let mut from = self.copies.covered(self.bucket, self.rules);
        let mut bytes = 0u64;
        for _ in 0..COUNTED {
            let (upto, more) = self.page(&from, &mut |_, object, holders| {
                if holders == 0 && is_here(self.store, self.bucket, object) {
                    bytes += object.size;
                }
            })?;
            if !more {
                return Ok(bytes);
            }
            from = upto;
        }
        Ok(space::sums(&self.store.view(), self.bucket).map_err(unreadable)?.stored_bytes)
    }
}
