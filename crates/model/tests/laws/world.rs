//! Replicas that take entries, and a world of them with clocks, crashes, backups and clones.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use skerry_base::kv::{Batch, Reducer, Table, Tables};
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Dot, NodeId, Origin, SiteId, Vector, WallTime};
use skerry_model::record::{HomeDecision, Scope};
use skerry_model::retire::{Settled, Sweep, droppable};
use skerry_model::space::{self, DotRange, Incoming, Items, SpaceReducer, VersionId};
use skerry_model::write::{self, Ask, Conditions, Intent, Proposed, propose};
use skerry_model::{Entry, Object, Record, Versioning};

use crate::oracle::{Truth, truth};

pub(crate) const BUCKET: BucketId = BucketId([0xb0; 16]);
/// Records of an answer that are taken at once.
const STEP: usize = 2;
pub(crate) const KEYS: [&str; 3] = ["a", "a\0", "b/c"];

/// Rows of all tables that replication decides, and the reference counts.
type Image = (Vec<(Table, Vec<u8>, Bytes)>, BTreeMap<ChunkId, i32>);

/// A node's tables and reference counts.
#[derive(Clone, Default)]
pub(crate) struct Replica {
    pub(crate) tables: Tables,
    references: BTreeMap<ChunkId, i32>,
}

impl Replica {
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), &self.tables, &mut batch).unwrap();
        self.tables.apply(&batch);
        for reference in &batch.references {
            *self.references.entry(reference.chunk).or_default() += reference.delta;
        }
        self.references.retain(|_, count| *count != 0);
        assert!(self.references.values().all(|count| *count > 0), "a reference count below zero");
    }

    /// Records that came outside a feed.
    fn keep(&mut self, records: Vec<Record>) {
        let entries = space::keep(&self.tables, BUCKET, records).unwrap();
        entries.iter().for_each(|entry| self.apply(entry));
    }

    /// What lies beyond the vector, found the slow way.
    fn loose(&self) -> Vec<space::Loose> {
        let vector = self.vector();
        let mut loose: BTreeMap<Origin, space::Fingerprint> = BTreeMap::new();
        for dot in self.dots().into_iter().filter(|dot| !vector.covers(*dot)) {
            let print = loose.entry(dot.origin).or_default();
            *print = print.plus(space::Fingerprint::of(dot));
        }
        let named = |(origin, print)| space::Loose { origin, covered: vector.get(origin), print };
        loose.into_iter().map(named).collect()
    }

    pub(crate) fn vector(&self) -> Vector {
        space::vector(&self.tables, BUCKET).unwrap()
    }

    pub(crate) fn dots(&self) -> BTreeSet<Dot> {
        space::dots_in(&self.tables, BUCKET, DotRange::ALL, usize::MAX).unwrap().into_iter().collect()
    }

    pub(crate) fn image(&self, vectors: bool) -> Image {
        let own = [Table::Local, Table::Uploads, Table::Parts];
        let replicated = |table: &Table| !own.contains(table) && (vectors || *table != Table::Vectors);
        let rows = self.tables.iter().filter(|(table, ..)| replicated(table));
        let rows = rows.map(|(table, key, value)| (table, key.to_vec(), value.clone())).collect();
        (rows, self.references.clone())
    }

    /// Those of the records that this replica has, or has seen to be dead.
    pub(crate) fn known(&self, records: &BTreeMap<Dot, Record>) -> BTreeMap<Dot, Record> {
        let (vector, dots) = (self.vector(), self.dots());
        let is_known = |dot: &Dot| vector.covers(*dot) || dots.contains(dot);
        let known = records.iter().filter(|(dot, _)| is_known(dot));
        known.map(|(dot, record)| (*dot, record.clone())).collect()
    }

    /// Compares which objects live and are visible with the definition over `records`; what hides may be gone.
    pub(crate) fn check_objects(&self, records: &BTreeMap<Dot, Record>) {
        for (key, Truth { alive, current, .. }) in truth(records) {
            let now = space::current(&self.tables, BUCKET, &key).unwrap();
            let object = |dot: &Dot| records[dot].object().is_some();
            let visible = now.filter(|record| record.object().is_some()).map(|record| record.dot);
            assert_eq!(visible, current.filter(object), "current of {key:?}");
            for (dot, record) in records.iter().filter(|(dot, record)| record.key == key && object(dot)) {
                let found = space::version(&self.tables, BUCKET, &key, VersionId::Dot(*dot)).unwrap();
                assert_eq!(found, alive.contains(dot).then(|| record.clone()), "version {dot} of {key:?}");
            }
        }
    }

    /// Compares what the tables say with the definition over `records`.
    pub(crate) fn check(&self, records: &BTreeMap<Dot, Record>) {
        let tables = &self.tables;
        let (mut visible, mut bytes, mut conflicts) = (0, 0, 0);
        for (key, Truth { alive, heads, current, conflict }) in truth(records) {
            let found = space::heads(tables, BUCKET, &key).unwrap();
            assert_eq!(found.iter().map(|head| head.dot).collect::<BTreeSet<_>>(), heads, "heads of {key:?}");
            let now = space::current(tables, BUCKET, &key).unwrap();
            assert_eq!(now.as_ref().map(|record| record.dot), current, "current of {key:?}");
            let object = now.as_ref().and_then(Record::object);
            visible += u64::from(object.is_some());
            bytes += object.map_or(0, |object| object.size);
            for record in records.values().filter(|record| record.key == key && record.is_version()) {
                let id = VersionId::Dot(record.dot);
                let found = space::version(tables, BUCKET, &key, id).unwrap();
                let expected = alive.contains(&record.dot).then(|| record.clone());
                assert_eq!(found, expected, "version {} of {key:?}", record.dot);
            }
            let listed = space::conflict(tables, BUCKET, &key).unwrap();
            assert_eq!(listed.is_some(), conflict, "conflict of {key:?}");
            conflicts += u64::from(conflict);
            if let Some(listed) = listed {
                assert!(listed.losers.iter().all(|loser| alive.contains(&loser.dot)), "losers are readable");
            }
        }
        let sums = space::sums(tables, BUCKET).unwrap();
        assert_eq!((sums.keys, sums.bytes, sums.conflicts), (visible, bytes, conflicts));
        assert_eq!(sums.records, self.dots().len() as u64);
        assert_eq!(space::loose(tables, BUCKET).unwrap(), self.loose());
        let print = space::fingerprint(tables, BUCKET, DotRange::ALL).unwrap();
        let naive = self.dots().into_iter().map(space::Fingerprint::of);
        assert_eq!(print, naive.fold(Default::default(), space::Fingerprint::plus));
    }
}

/// A site: a replica that writes.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) replica: Replica,
    origin: Origin,
    clock: HlcClock,
    versioning: Versioning,
    skew: u64,
    backup: Option<Replica>,
}

/// Sites, all records that were ever acknowledged, and wall time.
pub(crate) struct World {
    pub(crate) sites: Vec<Site>,
    pub(crate) written: BTreeMap<Dot, Record>,
    wall: u64,
    lives: u64,
    pub(crate) dropped: usize,
    /// The next write is a decision of the bucket's home.
    pub(crate) decides: bool,
}

pub(crate) const CONTENTS: u8 = 4;

fn object(content: u8, wall: WallTime) -> Object {
    let id = ChunkId::of(&[content]);
    let size = u64::from(content % CONTENTS) + 1;
    let chunk = ChunkRef { id, kind: ChunkKind::Leaf, stored: size as u32, length: size };
    Object { size, chunks: vec![chunk], etag: format!("e{content}"), modified: wall, ..Object::default() }
}

impl World {
    pub(crate) fn new(sites: u8) -> Self {
        let site = |n: u8| Site {
            replica: Replica::default(),
            origin: Origin { node: NodeId([n; 16]), incarnation: 0 },
            clock: HlcClock::default(),
            versioning: Versioning::Off,
            skew: u64::from(n) * 70_000,
            backup: None,
        };
        let sites = (0..sites).map(site).collect();
        let written = BTreeMap::new();
        let mut world = Self { sites, written, wall: 1_000_000, lives: 0, dropped: 0, decides: false };
        (0..world.sites.len()).for_each(|site| world.restart(site));
        world
    }

    pub(crate) fn write(&mut self, at: usize, key: &str, ask: Ask) -> Option<Dot> {
        self.wall += 1000;
        let decides = core::mem::take(&mut self.decides);
        let home = decides.then_some(HomeDecision { epoch: 1, n: self.wall });
        let site = &mut self.sites[at];
        let intent = Intent {
            bucket: BUCKET,
            key,
            origin: site.origin,
            site: SiteId([at as u8; 16]),
            wall: WallTime(self.wall.saturating_sub(site.skew)),
            present: Some(WallTime(self.wall)),
            versioning: site.versioning,
            writer: "w",
            scope: Scope::Node,
            home,
            placement: None,
            conditions: &Conditions::default(),
            ask,
        };
        let before: BTreeSet<Dot> = self.losers(at, key);
        let site = &mut self.sites[at];
        let Proposed::Write { record, folded } =
            propose(&site.replica.tables, intent, &mut site.clock).unwrap()
        else {
            return None;
        };
        let dot = record.dot;
        assert!(self.written.insert(dot, (*record).clone()).is_none(), "a dot was used twice");
        let erased = record.target();
        site.replica.apply(&Entry::Write(record));
        for loser in before.into_iter().filter(|loser| Some(*loser) != erased && !folded.contains(loser)) {
            let id = VersionId::Dot(loser);
            assert!(space::version(&self.sites[at].replica.tables, BUCKET, key, id).unwrap().is_some());
        }
        Some(dot)
    }

    /// Losers of conflicts that nobody has listed yet.
    fn losers(&self, at: usize, key: &str) -> BTreeSet<Dot> {
        let tables = &self.sites[at].replica.tables;
        let losers =
            space::conflict(tables, BUCKET, key).unwrap().map_or_else(Vec::new, |found| found.losers);
        let fact = |dot| write::listed_fact(BUCKET, dot);
        let unlisted = |dot: &Dot| space::local(tables, &fact(*dot)).unwrap().is_none();
        losers.iter().filter(|loser| !loser.is_delete).map(|loser| loser.dot).filter(unlisted).collect()
    }

    pub(crate) fn put(&mut self, at: usize, key: &str, content: u8) -> Option<Dot> {
        let wall = WallTime(self.wall);
        self.write(at, key, Ask::Put(Box::new(object(content, wall))))
    }

    /// Erases the nth version of the key that the site shows, or states a fact about it.
    pub(crate) fn aim(&mut self, at: usize, key: &str, nth: u8, note: bool) -> Option<Dot> {
        let cursor = space::Cursor { prefix: key, max: 99, ..space::Cursor::default() };
        let shown = space::list_versions(&self.sites[at].replica.tables, BUCKET, cursor, None).unwrap();
        let shown: Vec<_> = shown.versions.into_iter().filter(|shown| shown.record.key == key).collect();
        let target = shown.get(usize::from(nth) % shown.len().max(1))?.id;
        let content = Bytes::from_static(b"fact");
        self.write(at, key, if note { Ask::Note { target, topic: 7, content } } else { Ask::Erase(target) })
    }

    pub(crate) fn version(&mut self, at: usize, versioning: u8) {
        let choice = [Versioning::Off, Versioning::Enabled, Versioning::Suspended];
        self.sites[at].versioning = choice[usize::from(versioning) % 3];
    }

    /// One answer of a feed; `true` when there is more.
    pub(crate) fn pull(&mut self, from: usize, to: usize, max: usize) -> bool {
        let (source, receiver) = (&self.sites[from], &self.sites[to].replica);
        let base = space::seen(&receiver.tables, BUCKET, source.origin).unwrap();
        let found = space::records_after(&source.replica.tables, BUCKET, &base, max).unwrap();
        let ahead = space::ahead(&source.replica.tables, BUCKET, (&base, &found), usize::MAX).unwrap();
        let Items { items, upto, more } = found;
        assert!(items.is_sorted_by_key(|item| item.dot));
        let records = items.iter().chain(&ahead);
        let records = records.map(|item| Record::admit(&item.record.encode()).unwrap()).collect();
        let incoming = Incoming { bucket: BUCKET, source: source.origin, base, records, upto, more };
        for step in space::steps(incoming, (STEP, usize::MAX), |record| record.dot, |_| 1) {
            let entries = space::take(&self.sites[to].replica.tables, step).unwrap().unwrap();
            entries.iter().for_each(|entry| self.sites[to].replica.apply(entry));
        }
        more
    }

    /// Everything of `from`.
    pub(crate) fn pull_all(&mut self, from: usize, to: usize) {
        while self.pull(from, to, 700) {}
    }

    /// A remote read: the current record travels alone.
    pub(crate) fn read(&mut self, from: usize, to: usize, key: &str) {
        if let Some(record) = space::current(&self.sites[from].replica.tables, BUCKET, key).unwrap() {
            self.sites[to].replica.keep(vec![record]);
        }
    }

    pub(crate) fn restart(&mut self, at: usize) {
        self.lives += 1;
        self.sites[at].origin.incarnation = self.lives.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn back_up(&mut self, at: usize) {
        self.sites[at].backup = Some(self.sites[at].replica.clone());
    }

    pub(crate) fn restore(&mut self, at: usize) {
        if let Some(backup) = self.sites[at].backup.clone() {
            self.sites[at].replica = backup;
            self.restart(at);
        }
    }

    /// The site begins anew with an empty disk.
    pub(crate) fn burn(&mut self, at: usize) {
        self.sites[at].replica = Replica::default();
        self.restart(at);
    }

    /// The card of `from` goes on in the machine of `to` as well, under one node id.
    pub(crate) fn clone_disk(&mut self, from: usize, to: usize) {
        self.sites[to].replica = self.sites[from].replica.clone();
        self.sites[to].origin.node = self.sites[from].origin.node;
        self.restart(to);
        self.restart(from);
    }

    pub(crate) fn wait(&mut self, days: u8) {
        self.wall += u64::from(days) * 24 * 3600 * 1000;
    }

    /// Somebody lists the conflicts.
    pub(crate) fn list(&mut self, at: usize) {
        let found = space::conflicts(&self.sites[at].replica.tables, Some(BUCKET), None, 99).unwrap();
        for loser in found.iter().flat_map(|conflict| &conflict.losers) {
            let key = write::listed_fact(BUCKET, loser.dot);
            self.sites[at].replica.apply(&Entry::Local { key, value: Some(Bytes::new()) });
        }
    }

    /// What the other holds and this one's vector does not cover is new; what this one holds and the other's
    /// vector covers but lacks is dead.
    pub(crate) fn reconcile(&mut self, from: usize, to: usize) {
        let (there, here) = (self.sites[from].replica.clone(), self.sites[to].replica.clone());
        let theirs = there.dots();
        let dead = here.dots().into_iter().filter(|dot| !theirs.contains(dot) && there.vector().covers(*dot));
        self.sites[to].replica.apply(&Entry::Drop { bucket: BUCKET, dots: dead.collect() });
        self.gather(from, to);
    }

    /// What the other holds beyond its vector, and beyond ours.
    pub(crate) fn gather(&mut self, from: usize, to: usize) {
        let there = self.sites[from].replica.tables.clone();
        for loose in space::loose(&there, BUCKET).unwrap() {
            let (ours, covered) = (self.sites[to].replica.dots(), self.sites[to].replica.vector());
            let mut first = covered.get(loose.origin).max(loose.covered) + 1;
            let of = |dot: &&Dot| dot.origin == loose.origin;
            let have: BTreeSet<u64> = ours.iter().filter(of).map(|dot| dot.seq).collect();
            while first != 0 {
                let dot = Dot { origin: loose.origin, seq: first };
                let (items, upto) = space::records_in(&there, BUCKET, (dot, u64::MAX), &have, 700).unwrap();
                self.sites[to].replica.keep(items.into_iter().map(|item| item.record).collect());
                first = upto.wrapping_add(1);
            }
        }
    }

    /// Drops what everybody has seen, at one site.
    pub(crate) fn retire(&mut self, at: usize) {
        let vectors: Vec<Vector> = self.sites.iter().map(|site| site.replica.vector()).collect();
        let lowest = |origin| vectors.iter().map(|vector| vector.get(origin)).min().unwrap_or(0);
        let entries = vectors[at].iter().map(|(origin, _)| (origin, lowest(origin)));
        let covered_by_all = &entries.collect::<Vector>();
        let mut sweep = Some(Sweep::START);
        while let Some(from) = sweep {
            let settled = Settled { covered_by_all };
            let tables = &self.sites[at].replica.tables;
            let (dots, next) = droppable(tables, BUCKET, settled, &from, 2).unwrap();
            self.dropped += dots.len();
            self.sites[at].replica.apply(&Entry::Drop { bucket: BUCKET, dots });
            sweep = next;
        }
    }

    /// All sites exchange everything, over some path in which the first meets everybody twice.
    pub(crate) fn heal(&mut self) {
        for _ in 0..2 {
            for other in 1..self.sites.len() {
                for (from, to) in [(other, 0), (0, other)] {
                    self.pull_all(from, to);
                    self.reconcile(from, to);
                }
            }
        }
    }

    /// Records that some site holds or covers.
    pub(crate) fn surviving(&self) -> BTreeMap<Dot, Record> {
        let known: Vec<_> =
            self.sites.iter().map(|site| (site.replica.vector(), site.replica.dots())).collect();
        let survives =
            |dot: &Dot| known.iter().any(|(vector, dots)| vector.covers(*dot) || dots.contains(dot));
        self.written
            .iter()
            .filter(|(dot, _)| survives(dot))
            .map(|(dot, record)| (*dot, record.clone()))
            .collect()
    }
}

/// A number generator for orders of delivery: any will do, the seed is what proptest draws.
pub(crate) struct Shuffle(pub(crate) u64);

impl Shuffle {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    pub(crate) fn order<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }
}
