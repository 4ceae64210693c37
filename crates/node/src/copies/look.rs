//! A look through the records for versions that lack holders: what lies behind the covered vector, page by page.
//!
//! Invariants: only versions of which this site is custodian; a body counts as here only if every chunk of it is here
//! as a copy that counts; each page is a reading of its own, so that none holds the index for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::{BucketId, ChunkId, Dot, SiteId, Vector};
use skerry_federation::placement::{Lack, Stake, Want, looks};
use skerry_gateway::service::{Outcome, ServiceError};
use skerry_model::body::{Step, Walk};
use skerry_model::bucket::list_buckets;
use skerry_model::{Object, Record, space};
use skerry_storage::{Pin, ReadError, Stands, StorageError, Store};

use super::custody::Custodies;
use super::wanted::{AreaNeed, Ground, rules};
use super::{Copies, Count, Counted, Lacking, Rules};
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::site::{Site, unreadable};

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Pages of one look: the rest comes with the next.
const PAGES: usize = 64;
/// Pages that a count of what is unprotected reads: some hundred thousand versions.
const COUNTED: usize = 512;

/// Why a body does not read of which a chunk is on the list of damaged ones.
const DAMAGED: &str = "part of it is damaged";

/// Whether a body is here as a copy that counts. No is no word for letting go of the disk that it is on: that asks [`lies`].
pub(crate) fn is_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    lies(store, bucket, object) == Lies::Here
}

/// Pins of a body that is here as a copy that counts; none if it is not.
pub(crate) fn pinned(store: &Store, bucket: BucketId, object: &Object) -> Option<Vec<Pin>> {
    let pins = object.chunks.iter().map(|chunk| store.pin(bucket, chunk.id));
    let pins = pins.collect::<Option<Vec<_>>>()?;
    is_here(store, bucket, object).then_some(pins)
}

/// Whether a body can be read from here, cached or not.
pub(crate) fn lies_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    is_whole(store, bucket, object, |chunk| matches!(store.has_chunk(bucket, chunk), Ok(true)))
}

/// Whether a body lies here and is not evicted, as a copy that counts or as one that is pinned.
pub(crate) fn stays_here(store: &Store, bucket: BucketId, object: &Object) -> bool {
    is_whole(store, bucket, object, |chunk| store.counts(bucket, chunk) || store.keeps(bucket, chunk))
}

/// How a body lies here, for whoever would let go of it: what is not here is told from what does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lies {
    /// All of it.
    Here,
    /// It is kept here, and damaged, or nobody can say just now: why.
    Unread(String),
    /// Not, or only in part.
    Not,
}

/// How a body lies here as a copy that counts.
pub(crate) fn lies(store: &Store, bucket: BucketId, object: &Object) -> Lies {
    walked(store, bucket, object, |chunk| store.stands(bucket, chunk))
}

/// The same of one that a reader left here, where that may be all there is of it.
pub(crate) fn lies_at_all(store: &Store, bucket: BucketId, object: &Object) -> Lies {
    walked(store, bucket, object, |chunk| {
        Ok(if store.has_chunk(bucket, chunk)? { Stands::Counts } else { store.stands(bucket, chunk)? })
    })
}

fn is_whole(store: &Store, bucket: BucketId, object: &Object, has: impl Fn(ChunkId) -> bool) -> bool {
    let stands = |chunk| Ok(if has(chunk) { Stands::Counts } else { Stands::Not });
    walked(store, bucket, object, stands) == Lies::Here
}

/// A body of which a chunk is not here was never whole here, or is so no more: whatever else of it is damaged.
fn walked(
    store: &Store,
    bucket: BucketId,
    object: &Object,
    stands: impl Fn(ChunkId) -> Result<Stands, StorageError>,
) -> Lies {
    let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
    let mut unread = None;
    while let Some(step) = walk.next() {
        let (Step::Tree(chunk) | Step::Leaf(chunk, _)) = step;
        match stands(chunk.id) {
            Ok(Stands::Counts) => {}
            Ok(Stands::Not) => return Lies::Not,
            Ok(Stands::Damaged) => _ = unread.get_or_insert_with(|| DAMAGED.to_owned()),
            Err(error) => _ = unread.get_or_insert_with(|| error.to_string()),
        }
        if chunk.kind == skerry_base::ChunkKind::Tree {
            if let Some(why) = unread {
                return Lies::Unread(why);
            }
            match store.read_chunk(bucket, chunk.id, 0..u32::MAX) {
                Ok(bytes) => match walk.supply(&bytes) {
                    Ok(()) => {}
                    Err(error) => return Lies::Unread(error.to_string()),
                },
                // Let go of meanwhile.
                Err(ReadError::Absent) => return Lies::Not,
                Err(error) => return Lies::Unread(error.to_string()),
            }
        }
    }
    unread.map_or(Lies::Here, Lies::Unread)
}

/// What of a bucket's bodies that this site is to see to is at one place only, and what areas lack of them, as far as is known;
/// nothing if it asks for one copy only.
pub(crate) async fn counted(site: &Arc<Site>, bucket: &Bucket) -> Outcome<(Rules, Count)> {
    counted_by(site, bucket.id, rules(site, bucket)).await
}

async fn counted_by(site: &Arc<Site>, id: BucketId, rules: Rules) -> Outcome<(Rules, Count)> {
    let site = site.clone();
    if (!rules.endangers() && rules.needs.is_empty()) || !site.is_member(id) {
        return Ok((rules, Count::default()));
    }
    let begun = site.clock.now();
    let vector = site.read(move |view| space::vector(view, id).map_err(unreadable)).await?;
    let of = (site.copies.changes(), vector, rules.clone());
    if let Some(found) = site.copies.counted(id, &of, begun) {
        return Ok((rules, found));
    }
    let (here, by) = (site.clone(), rules.clone());
    let count = move || {
        let looker = Looker { store: &here.store, copies: &here.copies, bucket: id, rules: &by };
        looker.count(&|| is_unheard(&here, id))
    };
    let found = tokio::task::spawn_blocking(count).await.map_err(refusal::task)??;
    let took = site.clock.now().since(begun);
    site.copies.set_counted(id, Counted { of, found: found.clone(), begun, took });
    Ok((rules, found))
}

/// Whether somebody may hold what nobody here is known to: who belongs, may follow the bucket, is not lost, and cannot be asked
/// or has not been heard yet.
fn is_unheard(site: &Site, bucket: BucketId) -> bool {
    let (links, gone) = (site.boxes.links(), site.copies.lost());
    let may_hold = |other: &SiteId| {
        let is_said = match links.contains_key(other) {
            // Whoever else holds something would follow it.
            true => !site.copies.follows(bucket, *other) || site.copies.life(bucket, *other).is_some(),
            false => site.copies.is_away(bucket, *other) || site.duties.of(*other).is_empty(),
        };
        *other != site.id && !gone.contains(other) && !is_said
    };
    site.peers.roster.all().into_keys().any(|other| may_hold(&other))
}

/// The same for every bucket known here, by name.
pub(crate) async fn counted_by_bucket(site: &Arc<Site>) -> Outcome<BTreeMap<String, (Rules, Count)>> {
    let system = site.system;
    let buckets = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    let mut all = BTreeMap::new();
    let ground = Ground::of(site);
    for bucket in buckets.into_iter().map(Bucket::of) {
        let rules = ground.rules(site, &bucket);
        let found = match counted_by(site, bucket.id, rules.clone()).await {
            Ok(found) => found,
            Err(error) => (rules, unread(site, &bucket, &error).await),
        };
        all.insert(bucket.name, found);
    }
    Ok(all)
}

/// Of a bucket that cannot be counted all that it stores is at risk, as far as anybody can say: the others are counted.
async fn unread(site: &Arc<Site>, bucket: &Bucket, error: &ServiceError) -> Count {
    tracing::warn!(bucket = bucket.name, %error, "what is at risk of a bucket cannot be counted: all of it counts");
    let id = bucket.id;
    let all = site.read(move |view| space::sums(view, id).map_err(unreadable)).await;
    // Where that does not read either it is not nothing.
    let unprotected = all.map_or(1, |all| all.stored_bytes);
    Count { unprotected, is_unread: true, ..Count::default() }
}

/// Where to look.
pub(crate) struct Looker<'a> {
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
    /// Who wrote what was passed over because another site looks after it.
    pub(crate) passed: BTreeSet<SiteId>,
}

/// A page of records that was gone through.
struct Page {
    upto: Vector,
    more: bool,
    passed: BTreeSet<SiteId>,
}

impl Found {
    /// As whoever decides on looks sees it.
    pub(crate) fn seen(&self) -> looks::Found {
        let mut lacking = looks::Lacking::new();
        for (want, _) in &self.wants {
            let seq = lacking.entry(want.dot.origin).or_insert(want.dot.seq);
            *seq = want.dot.seq.min(*seq);
        }
        looks::Found { lacking, count: self.wants.len(), upto: self.upto.clone(), more: self.more }
    }
}

impl Looker<'_> {
    fn custodies(&self) -> Custodies {
        self.copies.custodies(self.bucket, self.rules)
    }

    /// The next page of living versions that are this site's to care for.
    fn page(&self, from: &Vector, visit: &mut dyn FnMut(&Record, &Object)) -> Outcome<Page> {
        #[cfg(test)]
        self.copies.check_reads(self.bucket)?;
        let page = space::records_after(&self.store.view(), self.bucket, from, PAGE).map_err(unreadable)?;
        let (custodies, mut passed) = (self.custodies(), BTreeSet::new());
        for item in page.items.iter().filter(|item| !item.spent) {
            let Some(object) = item.record.object() else { continue };
            if custodies.is_mine(item.record.site) {
                visit(&item.record, object);
            } else {
                passed.insert(item.record.site);
            }
        }
        let mut upto = from.clone();
        upto.merge(&page.upto);
        Ok(Page { upto, more: page.more, passed })
    }

    /// What this site has to do with these versions.
    pub(crate) fn stakes(&self, dots: &[Dot]) -> Outcome<BTreeMap<Dot, Stake>> {
        let (view, custodies) = (self.store.view(), self.custodies());
        let mut stakes = BTreeMap::new();
        for &dot in dots {
            let mut stake = Stake { mine: false, here: false, copies: self.rules.copies() };
            let promised = super::book::promised(&view, self.bucket, dot).map_err(unreadable)?;
            let found = space::records_in(&view, self.bucket, (dot, dot.seq), &BTreeSet::new(), PAGE);
            let (items, _) = found.map_err(unreadable)?;
            for item in items.iter().filter(|item| !item.spent) {
                if let Some(object) = item.record.object() {
                    stake.mine = custodies.is_mine(item.record.site);
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
            let Page { upto, more, mut passed } = self.page(&found.upto, &mut |record, object| {
                let here = is_here(self.store, self.bucket, object);
                if !self.lack(record, here).is_none() {
                    let want = Want { dot: record.dot, bytes: object.size, here, places: 0 };
                    wants.push((want, record.key.clone()));
                }
            })?;
            found.wants.append(&mut wants);
            found.passed.append(&mut passed);
            (found.upto, found.more) = (upto, more);
            if !more || found.wants.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    fn lack(&self, record: &Record, here: bool) -> Lack {
        self.copies.with(|machine| machine.lack(self.bucket, record.dot, here, &self.rules.demand))
    }

    /// What is at one place only, here or elsewhere, and what areas lack, as far as is known. Behind what one count reads all
    /// that is stored counts, and likewise of an area that has too few sites: rather too much than too little.
    /// What no place is known to have is at risk while somebody may have it who `is_unheard`, and while what is here of it does
    /// not read: it ends when it is found, overwritten or deleted.
    pub(crate) fn count(&self, is_unheard: &dyn Fn() -> bool) -> Outcome<Count> {
        // Where one place only counts, what is covered is there.
        let is_safe = self.rules.demand.places() > 1;
        let mut from = if is_safe { self.copies.covered(self.bucket, self.rules) } else { Vector::default() };
        let needs = &self.rules.needs;
        let mut found = Count { lacking: vec![Lacking::default(); needs.len()], ..Count::default() };
        let unheard = std::cell::OnceCell::new();
        // An area without sites asks for nothing.
        let asked: Vec<usize> = (0..needs.len()).filter(|need| needs[*need].is_asked).collect();
        for _ in 0..COUNTED {
            let Page { upto, more, .. } = self.page(&from, &mut |record, object| {
                let lies = lies(self.store, self.bucket, object);
                let here = lies == Lies::Here;
                let places = self.copies.with(|machine| machine.places(self.bucket, record.dot, here));
                let may_be = || matches!(lies, Lies::Unread(_)) || *unheard.get_or_init(is_unheard);
                if self.rules.endangers() && places <= 1 && (places == 1 || may_be()) {
                    found.unprotected += object.size;
                    found.nowhere += if places == 0 { object.size } else { 0 };
                }
                let lack = self.lack(record, here);
                for (need, _) in asked.iter().zip(lack.areas).filter(|(_, lack)| *lack > 0) {
                    found.lacking[*need].versions += 1;
                    found.lacking[*need].bytes += object.size;
                }
            })?;
            from = upto;
            if !more {
                return self.with_short(found, &|need| need.is_short());
            }
        }
        let all = space::sums(&self.store.view(), self.bucket).map_err(unreadable)?;
        if self.rules.endangers() {
            found.unprotected = all.stored_bytes;
        }
        self.with_short(found, &|_| true)
    }

    /// Of these areas everything lacks copies.
    fn with_short(&self, mut found: Count, is_short: &dyn Fn(&AreaNeed) -> bool) -> Outcome<Count> {
        let all = space::sums(&self.store.view(), self.bucket).map_err(unreadable)?;
        for (need, lacking) in self.rules.needs.iter().zip(&mut found.lacking) {
            if is_short(need) {
                *lacking = Lacking { versions: all.keys.max(lacking.versions), bytes: all.stored_bytes };
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
impl Copies {
    /// An error if a test says that a bucket does not read.
    pub(crate) fn check_reads(&self, bucket: BucketId) -> Outcome<()> {
        let unreadable =
            self.unreadable.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(&bucket);
        let error = || {
            let kind = skerry_gateway::service::ErrorKind::Internal;
            ServiceError::new(kind, "a test says so")
        };
        if unreadable { Err(error()) } else { Ok(()) }
    }
}
