//! The checkers' own memory: what was asked, what was answered, what each site had seen of a key by then.
//!
//! It is kept in plain sets of dots and never asks the product what wins: a causal context is a set here,
//! however cleverly the product writes it down. What a write has seen is what the heads of its key at its
//! site were, and what those had seen.
//!
//! Invariants: a write is noted when its proposal runs, so a crash before the answer leaves it *open*: it may
//! turn up later or never. A disk that is set back takes its site's memory back with it.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, ChunkId, Dot, Hlc, Instant, Vector};
use skerry_model::record::HomeDecision;

pub use crate::memory::{Held, Memory};
use crate::verdict;

/// A key of a bucket.
pub type Place = (BucketId, String);

/// What a write said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A body.
    Put(Body),
    /// A delete.
    Delete,
    /// One version is gone for good.
    Erase(Dot),
}

/// A body by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// BLAKE3 of the whole.
    pub hash: ChunkId,
    /// Bytes.
    pub length: u64,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not answered: the site went down, or has not answered yet.
    Open,
    /// The client was told that it is done.
    Acknowledged,
}

/// One write.
#[derive(Debug, Clone)]
pub struct Write {
    /// Its identity.
    pub dot: Dot,
    /// Where.
    pub place: Place,
    /// The site that took it.
    pub site: usize,
    /// What it said.
    pub said: Said,
    /// Whether it replaces what it has seen (versioning is not enabled).
    pub null: bool,
    /// The heads of the key at the site when it was accepted, and what those had seen.
    pub seen: BTreeSet<Dot>,
    /// What it covers and keeps readable nevertheless (taken from the record: a promise, not a judgement).
    pub keeps: BTreeSet<Dot>,
    /// Its stamp (taken from the record).
    pub clock: Hlc,
    /// Its place among the home's decisions, if it is one (taken from the record).
    pub home: Option<HomeDecision>,
    /// What the client knows.
    pub outcome: Outcome,
    /// Who need not have it any more.
    pub excuse: Excuse,
}

impl Write {
    /// Whether it need not be found any more.
    pub const fn is_excused(&self) -> bool {
        self.excuse.set_back || self.excuse.retired
    }
}

/// Why a write, or part of it, need not be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Excuse {
    /// An operator's act took it: written after the backup that was put back, and nowhere else by then.
    pub set_back: bool,
    /// Its body was at a site whose disk was set back since.
    pub body: bool,
    /// A tombstone that everybody has seen, dropped somewhere.
    pub retired: bool,
}

/// The writes of one bucket: a dot is an identity within it.
pub type Writes = BTreeMap<Dot, Write>;

static NONE: Writes = Writes::new();

/// Everything that was written anywhere.
#[derive(Debug, Default)]
pub struct History {
    writes: BTreeMap<BucketId, Writes>,
    of_place: BTreeMap<Place, BTreeSet<Dot>>,
    memories: Vec<Memory>,
    /// Of each site: what stands in the commit group that is being decided.
    groups: Vec<Memory>,
    /// Of each site: what is being removed on another site's word.
    drops: Vec<BTreeSet<(BucketId, Dot)>>,
    /// When disks burned or were set back, and what they had had.
    taken: Vec<(Instant, Memory)>,
    /// Buckets that sites have left, and since when others may have said to hold what was there.
    leaves: BTreeMap<(usize, BucketId), Instant>,
    /// Who became a member of what and did not leave it.
    follows: BTreeSet<(usize, BucketId)>,
    was_set_back: bool,
}

impl History {
    /// A history of so many sites.
    pub fn new(sites: usize) -> Self {
        let memories = vec![Memory::default(); sites];
        Self { groups: memories.clone(), memories, drops: vec![BTreeSet::new(); sites], ..Self::default() }
    }

    /// One write.
    pub fn write(&self, bucket: BucketId, dot: Dot) -> Option<&Write> {
        self.writes_of(bucket).get(&dot)
    }

    /// All writes of a bucket.
    pub fn writes_of(&self, bucket: BucketId) -> &Writes {
        self.writes.get(&bucket).unwrap_or(&NONE)
    }

    /// All keys ever written.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.of_place.keys()
    }

    /// All writes of a key that anybody ever tried.
    pub fn of(&self, place: &Place) -> impl Iterator<Item = &Write> {
        let index = self.writes_of(place.0);
        self.of_place.get(place).into_iter().flatten().filter_map(|dot| index.get(dot))
    }

    /// Whether a write really happened: some site has it, or had it and let it go because all had seen it; or
    /// its client was told so and nobody set it back.
    pub fn exists(&self, write: &Write) -> bool {
        let acknowledged = write.outcome == Outcome::Acknowledged && !write.excuse.set_back;
        acknowledged || self.memories.iter().any(|memory| memory.knows(&write.place, write.dot))
    }

    /// What a site's disk holds.
    pub fn memory(&self, site: usize) -> Option<&Memory> {
        self.memories.get(site)
    }

    /// What a write accepted at this site right now has seen: the heads that are stored, or stand before it in
    /// the same commit group, with what they had seen; and what null versions that were erased had seen.
    pub fn seen_at(&self, site: usize, place: &Place) -> BTreeSet<Dot> {
        let held = self.held_at(site, place);
        let index = self.writes_of(place.0);
        let erased = held.erases().filter_map(|dot| index.get(&dot)).filter_map(verdict::target);
        let erased = erased.filter_map(|dot| index.get(&dot)).filter(|write| write.null);
        let mut seen = BTreeSet::new();
        for write in held.heads(index).into_iter().chain(erased) {
            seen.insert(write.dot);
            seen.extend(write.seen.iter().copied());
        }
        seen
    }

    /// What a write with this context has seen: the same, and what was erased there or elsewhere that the context covers
    /// (contexts name origins, so they cover what their origin erased before; a journal that rots may have that again).
    pub fn seen_by(&self, site: usize, place: &Place, context: &Vector) -> BTreeSet<Dot> {
        let mut seen = self.seen_at(site, place);
        let held = self.held_at(site, place);
        let erased = self.of(place).filter_map(verdict::target);
        seen.extend(held.dead().iter().copied().chain(erased).filter(|dot| context.covers(*dot)));
        seen
    }

    /// What a site holds of a key, with what is being decided.
    pub fn held_at(&self, site: usize, place: &Place) -> Held {
        let of = |memories: &[Memory]| memories.get(site).map(|memory| memory.of(place).clone());
        let mut held = of(&self.memories).unwrap_or_default();
        let group = of(&self.groups).unwrap_or_default();
        let index = self.writes_of(place.0);
        for write in group.all().filter_map(|dot| index.get(&dot)) {
            held.take(write, index);
        }
        let drops = self.drops.get(site).into_iter().flatten();
        drops.filter(|(bucket, _)| *bucket == place.0).for_each(|(_, dot)| held.drop(*dot));
        held
    }

    /// A proposal was decided: a write exists, though nobody may see it yet. False if its dot was used before.
    #[must_use]
    pub fn decided(&mut self, write: Write) -> bool {
        let (place, dot, site) = (write.place.clone(), write.dot, write.site);
        let index = self.writes.entry(place.0).or_default();
        let fresh = !index.contains_key(&dot);
        index.entry(dot).or_insert(write);
        self.of_place.entry(place.clone()).or_default().insert(dot);
        self.decided_to_store(site, &place, dot);
        fresh
    }

    /// A record of a feed was decided to be stored.
    pub fn decided_to_store(&mut self, site: usize, place: &Place, dot: Dot) {
        let Some(index) = self.writes.get(&place.0) else { return };
        if let (Some(group), Some(write)) = (self.groups.get_mut(site), index.get(&dot)) {
            group.add(place, write, index);
        }
    }

    /// It is durable there.
    pub fn stored(&mut self, site: usize, place: &Place, dot: Dot) {
        self.undecided(site, place, dot);
        let Some(index) = self.writes.get(&place.0) else { return };
        if let (Some(memory), Some(write)) = (self.memories.get_mut(site), index.get(&dot)) {
            memory.add(place, write, index);
        }
    }

    /// It certainly never happened: its dot may be used for something else.
    pub fn never(&mut self, place: &Place, dot: Dot) {
        if let Some(index) = self.writes.get_mut(&place.0) {
            index.remove(&dot);
        }
        if let Some(dots) = self.of_place.get_mut(place) {
            dots.remove(&dot);
        }
    }

    /// It is not stored after all.
    pub fn undecided(&mut self, site: usize, place: &Place, dot: Dot) {
        if let Some(group) = self.groups.get_mut(site) {
            group.remove(place, dot);
        }
    }

    /// It was decided that a record goes, because another site says that it is dead.
    pub fn decided_to_drop(&mut self, site: usize, bucket: BucketId, dots: &[Dot]) {
        if let Some(drops) = self.drops.get_mut(site) {
            drops.extend(dots.iter().map(|dot| (bucket, *dot)));
        }
    }

    /// The record went, or would not be taken in.
    pub fn dropped(&mut self, site: usize, bucket: BucketId, dot: Dot) {
        if let Some(drops) = self.drops.get_mut(site) {
            drops.remove(&(bucket, dot));
        }
        let write = self.writes.get(&bucket).and_then(|index| index.get(&dot));
        if let (Some(memory), Some(write)) = (self.memories.get_mut(site), write) {
            memory.drop(&write.place, dot);
        }
    }

    /// It did not go after all: the commit certainly failed.
    pub fn kept(&mut self, site: usize, bucket: BucketId, dot: Dot) {
        if let Some(drops) = self.drops.get_mut(site) {
            drops.remove(&(bucket, dot));
        }
    }

    /// A tombstone that everybody has seen goes. False if it is none: what lives may not go, nor what a home decided.
    #[must_use]
    pub fn retired(&mut self, site: usize, bucket: BucketId, dot: Dot) -> bool {
        let Some(write) = self.writes.get_mut(&bucket).and_then(|index| index.get_mut(&dot)) else {
            return true;
        };
        let alive =
            self.memories.get(site).is_some_and(|memory| memory.of(&write.place).alive().contains(&dot));
        if alive && (verdict::is_put(write) || write.home.is_some()) {
            return false;
        }
        write.excuse.retired = true;
        true
    }

    /// A process came up and has these records of a bucket: what its former life was deciding, it has or not.
    pub fn found(&mut self, site: usize, bucket: BucketId, stored: &BTreeSet<Dot>) {
        let drops = self.drops.get(site).cloned().unwrap_or_default();
        for (_, dot) in drops.into_iter().filter(|(of, _)| *of == bucket) {
            match stored.contains(&dot) {
                true => self.kept(site, bucket, dot),
                false => self.dropped(site, bucket, dot),
            }
        }
        for dot in stored {
            let Some(place) = self.write(bucket, *dot).map(|write| write.place.clone()) else { continue };
            if !self.memories.get(site).is_some_and(|memory| memory.holds(&place, *dot)) {
                self.stored(site, &place, *dot);
            }
        }
    }

    /// A site has left a bucket and holds no more of it than this. It answers for nothing there any more, and its bodies
    /// were handed on or not: nobody judges that here. Others said to hold the records: what one of them lost with its disk since
    /// it may have said so (`since`) is excused once it is swept here.
    pub fn left(&mut self, site: usize, bucket: BucketId, stored: &BTreeSet<Dot>, since: Instant) {
        let since = self.leaves.get(&(site, bucket)).map_or(since, |before| since.min(*before));
        self.follows.remove(&(site, bucket));
        self.leaves.insert((site, bucket), since);
        self.swept(site, bucket, stored);
        let writes = self.writes.get_mut(&bucket).into_iter().flat_map(Writes::values_mut);
        writes.filter(|write| write.site == site).for_each(|write| write.excuse.body = true);
    }

    /// A disk burns or is set back now: what it had.
    pub fn note_taken(&mut self, now: Instant, site: usize) {
        self.taken.push((now, self.remember(site)));
    }

    /// Of a bucket that was left only this is still there.
    pub fn swept(&mut self, site: usize, bucket: BucketId, stored: &BTreeSet<Dot>) {
        let writes = self.writes.get(&bucket).unwrap_or(&NONE);
        if let Some(memory) = self.memories.get_mut(site) {
            memory.keep_of(bucket, stored, writes);
        }
        let since = self.leaves.get(&(site, bucket)).copied();
        let lost = |(at, _): &&(Instant, Memory)| since.is_some_and(|since| *at >= since);
        let taken: Vec<Memory> = self.taken.iter().filter(lost).map(|(_, memory)| memory.clone()).collect();
        taken.iter().for_each(|taken| self.excuse_taken(taken));
    }

    /// A site is a member of a bucket, again or for the first time.
    pub fn joined(&mut self, site: usize, bucket: BucketId) {
        self.follows.insert((site, bucket));
        self.leaves.remove(&(site, bucket));
    }

    /// The site's process ended: what was being decided may be found again or not.
    pub fn group_is_lost(&mut self, site: usize) {
        if let Some(group) = self.groups.get_mut(site) {
            *group = Memory::default();
        }
    }

    /// A copy of a site's memory, taken with a backup of its disk.
    pub fn remember(&self, site: usize) -> Memory {
        self.memories.get(site).cloned().unwrap_or_default()
    }

    /// The client was told.
    pub fn told(&mut self, bucket: BucketId, dot: Dot, outcome: Outcome) {
        if let Some(write) = self.writes.get_mut(&bucket).and_then(|index| index.get_mut(&dot)) {
            write.outcome = outcome;
        }
    }

    /// A backup was put back: the site forgets with its disk. Writes that are nowhere else are excused.
    pub fn set_back(&mut self, site: usize, backup: Memory) {
        self.was_set_back = true;
        self.group_is_lost(site);
        if let Some(drops) = self.drops.get_mut(site) {
            drops.clear();
        }
        for write in self.writes.values_mut().flat_map(Writes::values_mut).filter(|write| write.site == site)
        {
            write.excuse.body |= !backup.holds(&write.place, write.dot);
        }
        let mut before = backup;
        if let Some(memory) = self.memories.get_mut(site) {
            std::mem::swap(memory, &mut before);
        }
        self.excuse_taken(&before);
        for write in self.forgotten() {
            self.forget(&write);
        }
    }

    /// A disk has lost part of its journal: what a start found of each bucket is all that there is. A put that is there and cannot
    /// be read was erased, though what erased it may have gone since.
    pub fn lost_part(
        &mut self,
        site: usize,
        found: &BTreeMap<BucketId, BTreeSet<Dot>>,
        is_readable: impl Fn(&Place, Dot) -> bool,
    ) {
        let before = self.remember(site);
        let mut memory = Memory::default();
        let none = BTreeSet::new();
        for (place, _) in before.places() {
            let stored = found.get(&place.0).unwrap_or(&none);
            memory.merge(before.found_of(place, stored, self.writes_of(place.0)));
        }
        memory.take_back();
        let is_put = |place: &Place, dot| self.write(place.0, dot).is_some_and(verdict::is_put);
        memory.bury(|place, dot| is_put(place, dot) && !is_readable(place, dot));
        self.set_back(site, memory);
    }

    /// A member that lost part of its journal has heard all others: what none that follows the bucket has is lost, though a single
    /// read may have brought it to another site. Who follows it is remembered here, and not asked.
    pub fn excuse_read_once(&mut self, bucket: BucketId) {
        let follows = |site: &usize| self.follows.contains(&(*site, bucket));
        let memories = self.memories.iter().enumerate().filter(|(site, _)| follows(site));
        let memories: Vec<&Memory> = memories.map(|(_, memory)| memory).collect();
        let writes = self.writes.get_mut(&bucket).into_iter().flat_map(Writes::values_mut);
        for write in writes.filter(|write| write.outcome == Outcome::Acknowledged) {
            let held = |memory: &&Memory| memory.knows(&write.place, write.dot);
            write.excuse.set_back |= !memories.iter().any(held);
        }
    }

    /// Whether any disk was set back, burned or rotted.
    pub const fn was_set_back(&self) -> bool {
        self.was_set_back
    }

    /// The act took what was on that disk and is nowhere else now. What had gone everywhere before, because of
    /// something that the act took, is gone as well. A tombstone that was retired is nowhere because everybody
    /// had seen it.
    fn excuse_taken(&mut self, before: &Memory) {
        let held = |write: &Write| self.memories.iter().any(|memory| memory.holds(&write.place, write.dot));
        let all = self.writes.values().flat_map(Writes::values);
        let nowhere: Vec<&Write> = all.filter(|write| !write.excuse.retired && !held(write)).collect();
        let taken = |write: &Write| before.holds(&write.place, write.dot);
        let killed = |write: &Write| {
            let writes = self.writes_of(write.place.0);
            nowhere.iter().any(|by| by.place == write.place && taken(by) && verdict::kills(by, write, writes))
        };
        let gone = nowhere.iter().filter(|write| taken(write) || killed(write));
        let gone: Vec<(BucketId, Dot)> = gone.map(|write| (write.place.0, write.dot)).collect();
        for (bucket, dot) in gone {
            let writes = self.writes.entry(bucket).or_default();
            writes.entry(dot).and_modify(|write| write.excuse.set_back = true);
        }
    }

    /// Tombstones that were retired once everybody had seen them, and all of those were set back since.
    fn forgotten(&self) -> Vec<Write> {
        let known = |write: &Write| self.memories.iter().any(|memory| memory.knows(&write.place, write.dot));
        let all = self.writes.values().flat_map(Writes::values);
        all.filter(|write| write.excuse.retired && !write.excuse.set_back && !known(write)).cloned().collect()
    }

    /// It is as if it had never been; what it had killed may be found somewhere, and need not.
    fn forget(&mut self, tombstone: &Write) {
        let victim = |write: &&Write| verdict::kills(tombstone, write, self.writes_of(tombstone.place.0));
        let victims: Vec<Dot> = self.of(&tombstone.place).filter(victim).map(|write| write.dot).collect();
        let Some(writes) = self.writes.get_mut(&tombstone.place.0) else { return };
        for dot in victims {
            writes.entry(dot).and_modify(|write| write.excuse.retired = true);
        }
        writes.entry(tombstone.dot).and_modify(|write| write.excuse.set_back = true);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use skerry_base::{NodeId, Origin};

    fn dot(seq: u64) -> Dot {
        Dot { origin: Origin { node: NodeId([1; 16]), incarnation: 1 }, seq }
    }

    fn place() -> Place {
        (BucketId([1; 16]), "key".into())
    }

    fn write(seq: u64, seen: BTreeSet<Dot>) -> Write {
        Write {
            dot: dot(seq),
            place: place(),
            site: 0,
            said: Said::Delete,
            null: true,
            seen,
            keeps: BTreeSet::new(),
            clock: Hlc(seq),
            home: None,
            outcome: Outcome::Open,
            excuse: Excuse::default(),
        }
    }

    #[test]
    fn a_group_sees_itself_and_is_lost_with_a_crash() {
        let mut history = History::new(2);
        assert!(history.decided(write(1, BTreeSet::new())));
        assert_eq!(history.seen_at(0, &place()), BTreeSet::from([dot(1)]));
        assert_eq!(history.seen_at(1, &place()), BTreeSet::new());
        assert!(!history.exists(history.write(place().0, dot(1)).unwrap()));
        history.group_is_lost(0);
        assert_eq!(history.seen_at(0, &place()), BTreeSet::new());
        history.stored(0, &place(), dot(1));
        assert_eq!(history.seen_at(0, &place()), BTreeSet::from([dot(1)]));
        assert!(history.exists(history.write(place().0, dot(1)).unwrap()));
        assert!(!history.decided(write(1, BTreeSet::new())), "a dot was used twice");
    }

    #[test]
    fn what_is_seen_goes_through_heads_that_were_seen() {
        let mut history = History::new(2);
        assert!(history.decided(write(1, BTreeSet::new())));
        history.stored(0, &place(), dot(1));
        let seen = history.seen_at(0, &place());
        assert!(history.decided(write(2, seen)));
        history.stored(1, &place(), dot(2));
        assert_eq!(history.seen_at(1, &place()), BTreeSet::from([dot(1), dot(2)]));
    }

    #[test]
    fn a_backup_forgives_only_what_is_nowhere_else() {
        let mut history = History::new(2);
        for seq in [1, 2] {
            assert!(history.decided(write(seq, BTreeSet::new())));
            history.stored(0, &place(), dot(seq));
        }
        history.stored(1, &place(), dot(1));
        history.set_back(0, Memory::default());
        let forgiven = |seq| history.write(place().0, dot(seq)).unwrap().excuse.set_back;
        assert_eq!((forgiven(1), forgiven(2)), (false, true));
    }

    /// Two sites hold a write and a tombstone that nobody was told of; its site's process died with the commit.
    fn unanswered_delete() -> History {
        let mut history = History::new(2);
        let mut put = write(1, BTreeSet::new());
        put.said = Said::Put(Body { hash: ChunkId::of(b""), length: 0 });
        assert!(history.decided(put));
        assert!(history.decided(write(2, BTreeSet::from([dot(1)]))));
        history.told(place().0, dot(1), Outcome::Acknowledged);
        for site in [0, 1] {
            history.stored(site, &place(), dot(1));
            history.stored(site, &place(), dot(2));
        }
        history
    }

    #[test]
    fn a_tombstone_that_nobody_was_told_of_has_killed_when_all_let_it_go() {
        let mut history = unanswered_delete();
        assert!(history.retired(0, place().0, dot(2)));
        [0, 1].into_iter().for_each(|site| history.dropped(site, place().0, dot(2)));
        assert!(verdict::of_all(&history, &place()).dead().contains(&dot(1)));
        // Unless all forget it with their disks.
        history.set_back(0, Memory::default());
        history.set_back(1, Memory::default());
        assert!(!history.exists(history.write(place().0, dot(2)).unwrap()));
    }

    #[test]
    fn what_was_swept_of_a_key_is_not_held_while_other_versions_of_it_are() {
        let mut history = History::new(1);
        for seq in 1..=4 {
            let mut put = write(seq, BTreeSet::new());
            (put.said, put.null) = (Said::Put(Body { hash: ChunkId::of(b""), length: 0 }), seq > 2);
            put.seen = (1..seq).map(dot).collect();
            assert!(history.decided(put));
            history.stored(0, &place(), dot(seq));
        }
        let held = |history: &History| history.memory(0).unwrap().of(&place()).clone();
        assert_eq!(held(&history).dead(), &BTreeSet::from([dot(3)]), "the fourth has replaced it");
        history.swept(0, place().0, &[2, 4].map(dot).into());
        assert_eq!(held(&history).alive(), &[2, 4].map(dot).into());
        assert_eq!(held(&history).dead(), &BTreeSet::from([dot(3)]), "what killed it is here");
        history.swept(0, place().0, &BTreeSet::from([dot(2)]));
        assert_eq!(held(&history).all().collect::<Vec<_>>(), [dot(2)]);
        history.swept(0, place().0, &BTreeSet::new());
        assert_eq!(held(&history), Held::default());
    }

    #[test]
    fn what_lives_is_no_tombstone() {
        let mut history = History::new(1);
        let mut put = write(1, BTreeSet::new());
        put.said = Said::Put(Body { hash: ChunkId::of(b""), length: 0 });
        assert!(history.decided(put));
        history.stored(0, &place(), dot(1));
        assert!(!history.retired(0, place().0, dot(1)));
        assert!(!history.write(place().0, dot(1)).unwrap().is_excused());
    }

    #[test]
    fn a_backup_excuses_only_what_it_took() {
        let mut history = unanswered_delete();
        assert!(history.decided(write(3, BTreeSet::new())));
        history.told(place().0, dot(3), Outcome::Acknowledged);
        // Site 1 alone has the third, and loses it to a mistake, not to a backup.
        history.stored(1, &place(), dot(3));
        history.dropped(1, place().0, dot(3));
        history.set_back(0, Memory::default());
        assert!(!history.write(place().0, dot(3)).unwrap().is_excused());
        history.set_back(1, Memory::default());
        assert!(
            history.write(place().0, dot(2)).unwrap().excuse.set_back,
            "the second disk was the last one"
        );
    }
}
