//! Between the federation machine and the store of one site: reads for the one, commits for the other.
//!
//! The node has the same few lines in its shell; what decides anything is `model` and `federation`, which run
//! here as they run there. Facts that the shell keeps (its life, memberships, horizon, doubt) lie in the table
//! of node-local facts.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Origin, Vector, limits};
use skerry_federation::limits::AHEAD_BYTES;
use skerry_federation::{
    Apply, FeedBatch, FeedItem, Fingerprint, Fresh, Keep, Loose, Replica, Share, Span, Unreadable,
};
use skerry_model::space::{self, DotRange, SpaceError};
use skerry_model::{Entry, Record};
use skerry_storage::{SmallBody, Store};

/// A vector as a node-local fact.
#[derive(Serialize, Deserialize)]
struct StoredVector(Vector);

impl Versioned for StoredVector {
    const NAME: &'static str = "stored vector";
    const VERSION: u8 = 1;
}

/// A fact about a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// Tombstones up to here were dropped.
    Horizon,
    /// Tombstones up to here were passed over.
    Doubt,
}

impl Fact {
    fn name(self, bucket: BucketId) -> Bytes {
        let fact: &[u8] = match self {
            Self::Horizon => b"horizon/",
            Self::Doubt => b"doubt/",
        };
        [fact, &bucket.0].concat().into()
    }
}

/// Reads such a fact.
pub fn fact(view: &dyn View, fact: Fact, bucket: BucketId) -> Result<Vector, SpaceError> {
    match space::local(view, &fact.name(bucket))? {
        Some(bytes) => Ok(codec::decode::<StoredVector>(&bytes)?.0),
        None => Ok(Vector::new()),
    }
}

/// The entry that sets such a fact; an empty vector forgets it.
pub fn set_fact(fact: Fact, bucket: BucketId, vector: Vector) -> Entry {
    let value = (!vector.is_empty()).then(|| codec::encode(&StoredVector(vector)).into());
    Entry::Local { key: fact.name(bucket), value }
}

/// Reads a number among the node-local facts; 0 if it is not there.
pub fn number(view: &dyn View, name: &str) -> Result<u64, SpaceError> {
    let bytes = space::local(view, name.as_bytes())?;
    let array = bytes.as_deref().and_then(|bytes| bytes.first_chunk::<8>());
    Ok(array.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

/// The entry that sets it.
pub fn set_number(name: &str, value: u64) -> Entry {
    let value = Bytes::copy_from_slice(&value.to_be_bytes());
    Entry::Local { key: Bytes::copy_from_slice(name.as_bytes()), value: Some(value) }
}

/// The store as the federation machine reads it.
pub struct Reading<'a> {
    /// For bodies.
    pub store: &'a Store,
    /// One snapshot for the whole call.
    pub view: &'a dyn View,
    /// The life of this store.
    pub origin: Origin,
    /// In these buckets it has another: they were left in it.
    pub lives: &'a [(BucketId, Origin)],
    /// Bytes given to a feed at once at most.
    pub feed_bytes: usize,
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unreadable(error: SpaceError) -> Unreadable {
    Unreadable(error.to_string())
}

fn range(span: &Span) -> DotRange {
    DotRange::span(span.origin, span.first, span.last)
}

impl Reading<'_> {
    fn item(&self, item: space::Item) -> FeedItem {
        FeedItem {
            dot: item.dot,
            bodies: if item.spent { Vec::new() } else { self.bodies(&item.record) },
            record: item.encoded,
        }
    }

    /// The bodies of a record, when all of it is small enough to travel with it.
    fn bodies(&self, record: &Record) -> Vec<Bytes> {
        let Some(object) = record.object().filter(|object| object.size <= limits::FEED_BODY_BYTES as u64)
        else {
            return Vec::new();
        };
        let read =
            |chunk: &skerry_base::ChunkRef| self.store.read_chunk(record.bucket, chunk.id, 0..u32::MAX).ok();
        object.chunks.iter().map(read).collect::<Option<_>>().unwrap_or_default()
    }
}

impl Replica for Reading<'_> {
    fn vector(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        space::vector(self.view, bucket).map_err(unreadable)
    }

    fn origin(&self, bucket: BucketId) -> Origin {
        self.lives.iter().find(|(of, _)| *of == bucket).map_or(self.origin, |(_, origin)| *origin)
    }

    fn seen(&self, bucket: BucketId, source: Origin) -> Result<Vector, Unreadable> {
        space::seen(self.view, bucket, source).map_err(unreadable)
    }

    fn horizon(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        fact(self.view, Fact::Horizon, bucket).map_err(unreadable)
    }

    fn doubt(&self, bucket: BucketId) -> Result<Vector, Unreadable> {
        fact(self.view, Fact::Doubt, bucket).map_err(unreadable)
    }

    fn after(&self, bucket: BucketId, seen: &Vector, share: Share) -> Result<FeedBatch, Unreadable> {
        let most = share.max_bytes.min(self.feed_bytes);
        let found = space::records_after(self.view, bucket, seen, most).map_err(unreadable)?;
        let ahead = space::ahead(self.view, bucket, (seen, &found), AHEAD_BYTES).map_err(unreadable)?;
        let fed = |items: Vec<space::Item>| items.into_iter().map(|item| self.item(item)).collect();
        Ok(FeedBatch { items: fed(found.items), upto: found.upto, more: found.more, ahead: fed(ahead) })
    }

    fn fingerprint(&self, bucket: BucketId, span: &Span) -> Result<Fingerprint, Unreadable> {
        let print = space::fingerprint(self.view, bucket, range(span)).map_err(unreadable)?;
        Ok(Fingerprint { count: print.count, sum: print.sum.to_be_bytes() })
    }

    fn dots_in(&self, bucket: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable> {
        let dots = space::dots_in(self.view, bucket, range(span), limit).map_err(unreadable)?;
        Ok(dots.into_iter().map(|dot| dot.seq).collect())
    }

    fn loose(&self, bucket: BucketId) -> Result<Vec<Loose>, Unreadable> {
        let loose = space::loose(self.view, bucket).map_err(unreadable)?;
        let print =
            |print: space::Fingerprint| Fingerprint { count: print.count, sum: print.sum.to_be_bytes() };
        let said = |loose: space::Loose| Loose {
            origin: loose.origin,
            covered: loose.covered,
            print: print(loose.print),
        };
        Ok(loose.into_iter().map(said).collect())
    }

    fn records_in(
        &self,
        bucket: BucketId,
        span: &Span,
        have: &BTreeSet<u64>,
        share: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        let first = Dot { origin: span.origin, seq: span.first };
        let most = share.max_bytes.min(self.feed_bytes);
        let found = space::records_in(self.view, bucket, (first, span.last), have, most);
        let (items, upto) = found.map_err(unreadable)?;
        Ok((items.into_iter().map(|item| self.item(item)).collect(), upto))
    }
}

/// Why a batch is not committed.
#[derive(Debug, Clone)]
pub enum ApplyRefusal {
    /// An earlier batch failed.
    OutOfOrder,
    /// A record that is none.
    Malformed(String),
    /// The tables could not be read.
    Unreadable(String),
}

impl From<SpaceError> for ApplyRefusal {
    fn from(error: SpaceError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// What a batch does.
#[derive(Debug, Default)]
pub struct Applied {
    /// To be committed.
    pub entries: Vec<skerry_storage::Entry>,
    /// Records it holds.
    pub records: Vec<Record>,
    /// Stored records that it shows to be dead: dropped with it.
    pub dropped: Vec<Dot>,
}

/// Records of a batch that are committed together: fewer than at a node, so that more comes between them.
const TOGETHER: usize = 3;

/// The commits of a batch, as [`Apply`] asks for it.
pub struct Steps {
    steps: Peekable<Box<dyn Iterator<Item = space::Incoming<FeedItem>> + Send>>,
    facts: [(Fact, Vector); 2],
}

impl Steps {
    /// Of this batch.
    pub fn of(apply: Apply) -> Self {
        let Apply { source, more, bucket, base, items, upto, horizon, doubt, .. } = apply;
        let whole = space::Incoming { bucket, source, base, records: items, upto, more };
        let steps = space::steps(whole, (TOGETHER, usize::MAX), |item: &FeedItem| item.dot, FeedItem::len);
        let steps: Box<dyn Iterator<Item = _> + Send> = Box::new(steps);
        Self { steps: steps.peekable(), facts: [(Fact::Horizon, horizon), (Fact::Doubt, doubt)] }
    }

    /// The next, and whether another follows.
    pub fn step(&mut self, view: &dyn View) -> Result<(Applied, bool), ApplyRefusal> {
        let Some(step) = self.steps.next() else { return Ok((Applied::default(), false)) };
        let space::Incoming { bucket, source, base, records: items, upto, more } = step;
        let mut applied = Applied { records: admitted(bucket, &items)?, ..Applied::default() };
        let incoming = space::Incoming { bucket, source, base, records: applied.records.clone(), upto, more };
        let taken = space::take(view, incoming)?.ok_or(ApplyRefusal::OutOfOrder)?;
        applied.add(bucket, &taken, &items);
        for (which, added) in &mut self.facts {
            let (added, mut merged) = (std::mem::take(added), fact(view, *which, bucket)?);
            if !merged.includes(&added) {
                merged.merge(&added);
                applied.entries.push(skerry_storage::Entry::new(set_fact(*which, bucket, merged).encode()));
            }
        }
        Ok((applied, self.steps.peek().is_some()))
    }
}

/// The commit of records that came with their news, as [`Fresh`] asks for it.
pub fn fresh(view: &dyn View, fresh: &Fresh) -> Result<Applied, ApplyRefusal> {
    let records = admitted(fresh.bucket, &fresh.items)?;
    let mut applied = Applied { records: records.clone(), ..Applied::default() };
    let followed = space::follow(view, fresh.bucket, records)?.ok_or(ApplyRefusal::OutOfOrder)?;
    applied.add(fresh.bucket, &followed, &fresh.items);
    Ok(applied)
}

/// The commit of loose records, as [`Keep`] asks for it.
pub fn keep(view: &dyn View, keep: &Keep) -> Result<Applied, ApplyRefusal> {
    kept(view, keep.bucket, admitted(keep.bucket, &keep.items)?, &keep.items)
}

/// The commit of records that no feed has brought.
pub fn kept(
    view: &dyn View,
    bucket: BucketId,
    records: Vec<Record>,
    items: &[FeedItem],
) -> Result<Applied, ApplyRefusal> {
    let mut applied = Applied { records: records.clone(), ..Applied::default() };
    applied.add(bucket, &space::keep(view, bucket, records)?, items);
    Ok(applied)
}

fn admitted(bucket: BucketId, items: &[FeedItem]) -> Result<Vec<Record>, ApplyRefusal> {
    let admit = |item: &FeedItem| {
        let record =
            Record::admit(&item.record).map_err(|error| ApplyRefusal::Malformed(error.to_string()))?;
        match record.dot == item.dot && record.bucket == bucket {
            true => Ok(record),
            false => Err(ApplyRefusal::Malformed("an item of another name".into())),
        }
    };
    items.iter().map(admit).collect()
}

impl Applied {
    fn add(&mut self, bucket: BucketId, entries: &[Entry], items: &[FeedItem]) {
        let mut bodies: BTreeMap<Dot, &[Bytes]> =
            items.iter().map(|item| (item.dot, item.bodies.as_slice())).collect();
        for entry in entries {
            self.add_entry(bucket, entry, &mut bodies);
        }
    }

    fn add_entry(&mut self, bucket: BucketId, entry: &Entry, bodies: &mut BTreeMap<Dot, &[Bytes]>) {
        let mut stored = skerry_storage::Entry::new(entry.encode());
        match entry {
            Entry::Record(record) => {
                let came = bodies.remove(&record.dot).unwrap_or_default().iter();
                stored.bodies.extend(came.map(|body| SmallBody::new(bucket, body.clone())));
            }
            Entry::Drop { dots, .. } => self.dropped.extend(dots),
            _ => {}
        }
        self.entries.push(stored);
    }
}

/// The commit of a drop, as [`skerry_federation::Drop`] asks for it.
pub fn drop_dots(view: &dyn View, drop: &skerry_federation::Drop) -> Result<Vec<Entry>, SpaceError> {
    let bucket = drop.bucket;
    let mut entries = Vec::new();
    if !drop.dots.is_empty() {
        entries.push(Entry::Drop { bucket, dots: drop.dots.clone() });
    }
    let mut horizon = fact(view, Fact::Horizon, bucket)?;
    if !horizon.includes(&drop.horizon) {
        horizon.merge(&drop.horizon);
        entries.push(set_fact(Fact::Horizon, bucket, horizon));
    }
    let doubt = fact(view, Fact::Doubt, bucket)?;
    if !doubt.is_empty() && drop.settles.includes(&doubt) {
        entries.push(set_fact(Fact::Doubt, bucket, Vector::new()));
    }
    Ok(entries)
}
