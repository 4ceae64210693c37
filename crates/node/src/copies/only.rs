//! What had its only copy at a site: the list that an operator sees before and after it is declared lost.
//!
//! Before: the admin face, page by page. After: `paths/lost.rs` asks the others, chunk by chunk, so that cached copies
//! count as what they are: enough to read it. Invariants: only what the site says that it has, or if it cannot be asked wrote or is
//! known to hold, is listed as being there, the rest is counted as lost before; a page is bounded in records, in entries and in questions; who
//! could not be asked is named, and what it is known to hold is not called lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::{BucketId, ChunkId, Dot, SiteId, Vector};
use skerry_federation::placement::Whereabouts;
use skerry_gateway::service::{ErrorKind, LossPage, LossQuery, LostVersion, Outcome, ServiceError, VERSION};
use skerry_model::body::{Step, Walk};
use skerry_model::bucket::list_buckets;
use skerry_model::{Object, Record, space};

use super::look::lies_here;
use super::loss;
use crate::paths::bucket::Bucket;
use crate::paths::source::Chunks;
use crate::paths::{lost, refusal, shape};
use crate::site::{Site, unreadable};

/// Bytes of records of one reading.
const READING: usize = 128 << 10;
/// Readings of one page: a page answers within seconds.
const READINGS: usize = 16;
/// Entries of one page.
const LISTED: usize = 1000;
/// Chunks of which others are asked together, or those of one body: large ones have millions, and each site's answer is
/// kept until all have answered.
const CHUNKS: usize = 4 * lost::ASKED;

/// Where the next page begins.
#[derive(Debug, Clone, Copy)]
struct Place {
    bucket: BucketId,
    /// Behind this version, in the order of dots.
    after: Option<Dot>,
}

impl Place {
    fn parse(text: &str) -> Outcome<Self> {
        let wrong = || ServiceError::new(ErrorKind::InvalidArgument, "`after` is not the `next` of a page");
        let (bucket, after) = text.split_once('/').unwrap_or((text, ""));
        let bucket = bucket.parse().map_err(|_| wrong())?;
        let after = match after {
            "" => None,
            dot => match dot.parse().map_err(|_| wrong())? {
                space::VersionId::Dot(dot) => Some(dot),
                space::VersionId::Null => return Err(wrong()),
            },
        };
        Ok(Self { bucket, after })
    }

    fn text(&self) -> String {
        let after = self.after.map(|dot| space::VersionId::Dot(dot).to_string()).unwrap_or_default();
        format!("{}/{after}", self.bucket)
    }
}

/// What is before a version in the order in which a feed tells.
fn before(vector: &Vector, after: Option<Dot>) -> Vector {
    let Some(after) = after else { return Vector::new() };
    let upto = |(origin, last)| match origin {
        origin if origin < after.origin => Some((origin, last)),
        origin if origin == after.origin => Some((origin, after.seq)),
        _ => None,
    };
    vector.iter().filter_map(upto).collect()
}

/// A page of them.
pub(crate) async fn page(site: &Arc<Site>, name: &str, query: LossQuery) -> Outcome<LossPage> {
    let (target, document) = loss::named(site, name).await?;
    if target == site.id {
        // What only it has it cannot know by asking the others for what they lack.
        let message = "this site is not lost: it answers you; ask another what only this one has";
        return Err(ServiceError::refused(message));
    }
    let limit = query.limit.unwrap_or(LISTED).clamp(1, LISTED);
    let first = query.after.is_none();
    let start = query.after.as_deref().map(Place::parse).transpose()?;
    let system = site.system;
    let all = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    let (mut buckets, others): (Vec<Bucket>, Vec<Bucket>) =
        all.into_iter().map(Bucket::of).partition(|bucket| site.is_member(bucket.id));
    buckets.sort_by_key(|bucket| bucket.id);
    let mut survey = Survey::new(site, target);
    let mut page = LossPage {
        version: VERSION,
        site: document.name,
        unfollowed: if first { others.into_iter().map(|bucket| bucket.name).collect() } else { Vec::new() },
        ..LossPage::default()
    };
    let next = fill(&mut page, &mut survey, &buckets, (start, limit)).await?;
    page.next = next.map(|next| next.text());
    (page.nowhere, page.nowhere_bytes) = survey.nowhere;
    page.silent = survey.silent.iter().map(|silent| site.peers.roster.name(*silent)).collect();
    Ok(page)
}

/// Fills a page; where the next one begins.
async fn fill(
    page: &mut LossPage,
    survey: &mut Survey<'_>,
    buckets: &[Bucket],
    (start, limit): (Option<Place>, usize),
) -> Outcome<Option<Place>> {
    let mut readings = 0;
    for bucket in buckets.iter().filter(|bucket| start.is_none_or(|start| bucket.id >= start.bucket)) {
        let mut after = start.filter(|start| start.bucket == bucket.id).and_then(|start| start.after);
        loop {
            if readings == READINGS || page.versions.len() >= limit {
                return Ok(Some(Place { bucket: bucket.id, after }));
            }
            readings += 1;
            let (found, next) = survey.read(bucket, after, &mut page.examined).await?;
            for record in survey.only_there(bucket, found).await? {
                page.bytes += record.object().map_or(0, |object| object.size);
                page.count += 1;
                page.versions.push(listed(bucket, &record));
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(None)
}

fn listed(bucket: &Bucket, record: &Record) -> LostVersion {
    LostVersion {
        bucket: bucket.name.clone(),
        key: record.key.clone(),
        version_id: shape::dot_id(record).to_string(),
        bytes: record.object().map_or(0, |object| object.size),
    }
}

/// Who is asked about whom.
struct Survey<'a> {
    site: &'a Arc<Site>,
    target: SiteId,
    asked: BTreeSet<SiteId>,
    silent: BTreeSet<SiteId>,
    /// Versions and bytes that nobody has, and the target is not known to have either.
    nowhere: (u64, u64),
}

impl<'a> Survey<'a> {
    fn new(site: &'a Arc<Site>, target: SiteId) -> Self {
        let (lost, linked) = (site.copies.lost(), site.boxes.linked());
        let others: BTreeSet<SiteId> =
            site.peers.roster.all().into_keys().filter(|other| ![site.id, target].contains(other)).collect();
        let (asked, silent): (BTreeSet<_>, BTreeSet<_>) =
            others.into_iter().partition(|other| linked.contains(other));
        let silent = silent.difference(&lost).copied().collect();
        Self { site, target, asked, silent, nowhere: (0, 0) }
    }

    /// The next versions whose body is not here and not known to be elsewhere; behind which one to go on.
    async fn read(
        &self,
        bucket: &Bucket,
        after: Option<Dot>,
        examined: &mut u64,
    ) -> Outcome<(Vec<Record>, Option<Dot>)> {
        let (store, id) = (self.site.store.clone(), bucket.id);
        let read = move || -> Outcome<_> {
            let view = store.view();
            let from = before(&space::vector(&view, id).map_err(unreadable)?, after);
            let page = space::records_after(&view, id, &from, READING).map_err(unreadable)?;
            let next = page.items.last().filter(|_| page.more).map(|item| item.dot);
            let (mut count, mut found) = (0u64, Vec::new());
            for item in page.items.into_iter().filter(|item| !item.spent) {
                let Some(object) = item.record.object() else { continue };
                count += 1;
                if object.size > 0 && !lies_here(&store, id, object) {
                    found.push(item.record);
                }
            }
            Ok((found, next, count))
        };
        let (mut found, next, count) = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
        *examined += count;
        found.retain(|record| self.may_be_lost(record));
        Ok((found, next))
    }

    /// Not what a site that is not lost is known to hold, or wrote and cannot be asked for.
    fn may_be_lost(&self, record: &Record) -> bool {
        // One that is being emptied has it still.
        let holders = self.site.copies.with(|machine| machine.believed(record.bucket, record.dot));
        let lost = self.site.copies.lost();
        let elsewhere = holders.iter().any(|holder| *holder != self.target && !lost.contains(holder));
        !elsewhere && !self.silent.contains(&record.site)
    }

    /// Of these the ones that nobody who can be asked has whole.
    async fn only_there(&mut self, bucket: &Bucket, found: Vec<Record>) -> Outcome<Vec<Record>> {
        let (mut gone, mut some, mut count) = (Vec::new(), Vec::new(), 0);
        for record in found {
            let Some(object) = record.object() else { continue };
            let chunks = self.leaves(bucket, &record, object).await?;
            count += chunks.len();
            some.push((record, chunks));
            if count >= CHUNKS {
                gone.extend(self.sift(bucket.id, std::mem::take(&mut some)).await);
                count = 0;
            }
        }
        gone.extend(self.sift(bucket.id, some).await);
        Ok(gone)
    }

    /// The same of some, of which it is known what is missing.
    async fn sift(&mut self, domain: BucketId, some: Vec<(Record, Vec<ChunkId>)>) -> Vec<Record> {
        let missing: BTreeSet<ChunkId> = some.iter().flat_map(|(_, chunks)| chunks.iter().copied()).collect();
        let missing = self.missing(domain, missing).await;
        let lacks = |(record, chunks): (Record, Vec<ChunkId>)| {
            let lacked: Vec<ChunkId> = chunks.into_iter().filter(|chunk| missing.contains(chunk)).collect();
            (!lacked.is_empty()).then_some((record, lacked))
        };
        let lacking: Vec<(Record, Vec<ChunkId>)> = some.into_iter().filter_map(lacks).collect();
        let there = self.at_target(domain, &missing).await;
        let is_there = |(record, lacked): &(Record, Vec<ChunkId>)| match &there {
            Some(there) => lacked.iter().all(|chunk| there.contains(chunk)),
            None => self.is_known_there(record),
        };
        let (only, nowhere): (Vec<_>, Vec<_>) = lacking.into_iter().partition(is_there);
        for (record, _) in &nowhere {
            self.nowhere.0 += 1;
            self.nowhere.1 += record.object().map_or(0, |object| object.size);
        }
        only.into_iter().map(|(record, _)| record).collect()
    }

    /// Which of these the site in question has; none if it cannot be asked, or does not say.
    async fn at_target(&self, domain: BucketId, missing: &BTreeSet<ChunkId>) -> Option<BTreeSet<ChunkId>> {
        if missing.is_empty() || !self.site.linked(self.target) {
            return None;
        }
        let missing: Vec<ChunkId> = missing.iter().copied().collect();
        Some(lost::has(self.site, self.target, domain, &missing).await?.into_iter().collect())
    }

    /// Whether the site in question wrote it, or is known to have held it.
    fn is_known_there(&self, record: &Record) -> bool {
        let holders = self.site.copies.with(|machine| machine.believed(record.bucket, record.dot));
        record.site == self.target || holders.contains(&self.target)
    }

    /// Which of these nobody who can be asked has. Who does not answer is not asked again, and named.
    async fn missing(&mut self, domain: BucketId, missing: BTreeSet<ChunkId>) -> BTreeSet<ChunkId> {
        let who = (self.asked.clone(), BTreeSet::new());
        let asking = Whereabouts::new(missing, who, BTreeSet::new(), true);
        let found = lost::search(self.site, domain, asking).await;
        for silent in found.silent() {
            self.asked.remove(silent);
            self.silent.insert(*silent);
        }
        found.missing().clone()
    }

    /// The chunks of a body that are not here; of a tree that nobody gives, itself.
    async fn leaves(&mut self, bucket: &Bucket, record: &Record, object: &Object) -> Outcome<Vec<ChunkId>> {
        let chunks = Chunks::new(self.site, bucket, record.site);
        let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
        let mut missing = Vec::new();
        while let Some(step) = walk.next() {
            match step {
                Step::Leaf(chunk, _) if self.has(bucket, chunk.id)? => {}
                Step::Leaf(chunk, _) => missing.push(chunk.id),
                Step::Tree(tree) => {
                    let here = self.has(bucket, tree.id)?;
                    let had = here || self.missing(bucket.id, [tree.id].into()).await.is_empty();
                    if !had || chunks.descend(&mut walk, tree).await.is_err() {
                        missing.push(tree.id);
                        return Ok(missing);
                    }
                }
            }
        }
        Ok(missing)
    }

    fn has(&self, bucket: &Bucket, chunk: ChunkId) -> Outcome<bool> {
        self.site.store.has_chunk(bucket.id, chunk).map_err(refusal::storage)
    }
}
