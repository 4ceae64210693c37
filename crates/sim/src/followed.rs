//! A site that follows only the keys below a prefix, beside members that write, delete, drop tombstones, leave, burn and
//! begin anew.
//!
//! The production functions of `model::space` at all of them, one bucket, no bodies; answers are lost, late, or come after a
//! restart of either side. `excluded`: the subscriber shows nothing that a record kills which its vector covers. `complete`:
//! what its vector covers below the prefix and nothing ever killed is here. `outside`: nothing else is. `same`: once healed
//! and quiet it has exactly the records below the prefix that members have. `ended`: and comes to that.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::kv::{Batch, Reducer, Tables};
use skerry_base::time::HlcClock;
use skerry_base::{
    BucketId, ChunkId, ChunkKind, ChunkRef, Dot, Hlc, NodeId, Origin, SiteId, Vector, WallTime,
};
use skerry_model::merge::kills;
use skerry_model::record::Scope;
use skerry_model::retire::{Settled, Sweep, droppable};
use skerry_model::space::{
    self, Asked, Below, Changes, Cursor, DotRange, Incoming, Range, SpaceReducer, Step, Subscription,
    VersionId,
};
use skerry_model::write::{Ask, Conditions, Intent, Proposed, propose};
use skerry_model::{Entry, Object, Record, Versioning};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;

const BUCKET: BucketId = BucketId([7; 16]);
const MEMBERS: usize = 3;
const PREFIX: &str = "b/";
const KEYS: [&str; 6] = ["a/1", "b/1", "b/1/x", "b/2", "b/3", "c"];
/// What happens before everything is healed.
const STEPS: usize = 400;
/// Bytes of an answer, and of one of a feed: some records.
const PAGE: usize = 150;
const FEED: usize = 300;
/// Questions after which a subscriber must have come to rest.
const TURNS: usize = 400;
const DAY: u64 = 24 * 3600 * 1000;

/// A mistake that a checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// That tombstones have gone at the member is not looked at.
    HorizonIgnored,
    /// The vector advances with every answer of a round.
    VectorAtOnce,
    /// What killed something and lies beyond the member's vector is not told.
    LooseUntold,
    /// What comes by a single read is stored whatever the prefix is complete to.
    StaleAdmitted,
    /// Ranges that were taken of several members are complete to what the last one had.
    LastRangeCounts,
    /// What a member does not have is kept.
    DeadKept,
}

/// Runs a seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut world = World::new(seed, mistake);
    for _ in 0..STEPS {
        if !world.outcome.violations.is_empty() {
            return world.outcome;
        }
        world.step();
    }
    world.heal();
    world.settle();
    world.outcome
}

#[derive(Default, Clone)]
struct Member {
    tables: Tables,
    clock: HlcClock,
    life: u64,
    /// Covers the tombstones that it dropped.
    horizon: Vector,
    /// Follows the bucket; else it has left, or begins anew.
    follows: bool,
}

/// What the subscriber asked, and was answered.
enum Talk {
    Changes(usize, Origin, Vector, Changes),
    Range(Asked, Range),
}

struct World {
    draw: Draw,
    mistake: Option<Mistake>,
    members: Vec<Member>,
    subscriber: Tables,
    /// In memory: lives of members that answered it.
    lives: BTreeMap<usize, Origin>,
    talk: Option<Talk>,
    cuts: BTreeSet<(usize, usize)>,
    written: BTreeMap<Dot, Record>,
    versioning: Versioning,
    /// How often members read single records of each other, the subscriber asks, and tombstones are dropped.
    reads: u64,
    asks: u64,
    retires: u64,
    /// The member that the subscriber asks first.
    nearest: usize,
    wall: u64,
    starts: u64,
    outcome: Outcome,
}

fn below() -> Below {
    Below { bucket: BUCKET, prefix: PREFIX.into() }
}

fn apply(tables: &mut Tables, entries: &[Entry]) -> Result<(), String> {
    for entry in entries {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), tables, &mut batch).map_err(|error| error.to_string())?;
        tables.apply(&batch);
    }
    Ok(())
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("followed");
        let (reads, asks, retires) = (draw.between(2..=40), draw.between(3..=30), draw.between(0..=5));
        let versioning = if seed.is_multiple_of(4) { Versioning::Enabled } else { Versioning::Off };
        let members = vec![Member { follows: true, ..Member::default() }; MEMBERS];
        let mut world = Self {
            draw,
            mistake,
            members,
            subscriber: Tables::default(),
            lives: BTreeMap::new(),
            talk: None,
            cuts: BTreeSet::new(),
            written: BTreeMap::new(),
            versioning,
            reads,
            asks,
            retires,
            nearest: 0,
            wall: 1_000_000,
            starts: 0,
            outcome: Outcome::default(),
        };
        (0..MEMBERS).for_each(|member| world.start(member));
        world
    }

    fn fail(&mut self, checker: &'static str, what: String) {
        self.outcome.violations.push((checker, what));
    }

    /// Carries out what should never fail.
    fn sure<T>(&mut self, result: Result<T, impl ToString>) -> Option<T> {
        result.map_err(|error| self.fail("readable", error.to_string())).ok()
    }

    fn start(&mut self, member: usize) {
        self.starts += 1;
        self.members[member].life = self.starts;
    }

    fn origin(&self, member: usize) -> Origin {
        Origin { node: NodeId([member as u8 + 1; 16]), incarnation: self.members[member].life }
    }

    fn number(&mut self, bound: usize) -> usize {
        self.draw.below(bound as u64) as usize
    }

    fn step(&mut self) {
        self.wall += self.draw.below(5_000);
        let member = self.number(MEMBERS);
        let other = (member + 1 + self.number(MEMBERS - 1)) % MEMBERS;
        match self.draw.weighted(&[30, 22, self.reads, self.asks, 6, self.retires, 3, 2, 2, 2, 4, 1, 1]) {
            0 => self.write(member),
            1 => drop(self.pull(other, member)),
            2 => self.read(other, member),
            3 => self.turn(),
            4 => self.cut_or_heal(member, other),
            5 => self.retire(member),
            6 => self.stale(),
            7 => self.crash(),
            8 => self.start(member),
            9 => self.leave_or_join(member),
            10 => self.wall += DAY / 2,
            11 => self.compare(),
            _ => self.burn(member),
        }
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        !self.cuts.contains(&(one.min(other), one.max(other)))
    }

    /// The subscriber is the site behind the members.
    fn cut_or_heal(&mut self, member: usize, other: usize) {
        let other = if self.draw.chance(Ppm::percent(50)) { MEMBERS } else { other };
        let pair = (member.min(other), member.max(other));
        if !self.cuts.remove(&pair) && self.cuts.len() < 3 {
            self.cuts.insert(pair);
        }
    }

    fn write(&mut self, at: usize) {
        if !self.members[at].follows {
            return;
        }
        let key = KEYS[self.number(KEYS.len())];
        let content = self.draw.below(200) as u8;
        let chunk = ChunkRef { id: ChunkId::of(&[content]), kind: ChunkKind::Leaf, stored: 1, length: 1 };
        let object = Object { size: 1, chunks: vec![chunk], etag: content.to_string(), ..Object::default() };
        let ask = match self.number(6) {
            0 | 1 => Ask::Delete,
            2 if self.versioning == Versioning::Enabled => match self.oldest(at, key) {
                Some(version) => Ask::Erase(version),
                None => return,
            },
            _ => Ask::Put(Box::new(object)),
        };
        let (origin, wall) = (self.origin(at), WallTime(self.wall));
        let intent = Intent {
            bucket: BUCKET,
            key,
            origin,
            site: SiteId([at as u8; 16]),
            wall,
            present: Some(wall),
            versioning: self.versioning,
            writer: "w",
            scope: Scope::Node,
            home: None,
            placement: None,
            conditions: &Conditions::default(),
            ask,
        };
        let member = &mut self.members[at];
        let record = match propose(&member.tables, intent, &mut member.clock) {
            Ok(Proposed::Write { record, .. }) => record,
            // There is nothing to delete, or it says the same.
            Ok(_) => return,
            Err(error) => return self.fail("writable", error.to_string()),
        };
        self.written.insert(record.dot, (*record).clone());
        let done = apply(&mut member.tables, &[Entry::Write(record)]);
        self.sure(done);
        self.outcome.count("writes");
    }

    fn oldest(&mut self, at: usize, key: &str) -> Option<VersionId> {
        let cursor = Cursor { prefix: key, max: 99, ..Cursor::default() };
        let shown = space::list_versions(&self.members[at].tables, BUCKET, cursor, None);
        self.sure(shown)?.versions.into_iter().rfind(|shown| shown.record.key == key).map(|shown| shown.id)
    }

    /// One answer of a feed; whether there is more.
    fn pull(&mut self, from: usize, to: usize) -> bool {
        if !self.linked(from, to) || !self.members[from].follows || !self.members[to].follows {
            return false;
        }
        let pulled = self.pulled(from, to);
        self.sure(pulled).unwrap_or(false)
    }

    fn pulled(&mut self, from: usize, to: usize) -> Result<bool, String> {
        let said = |error: space::SpaceError| error.to_string();
        let (source, life) = (&self.members[from].tables, self.origin(from));
        let base = space::seen(&self.members[to].tables, BUCKET, life).map_err(said)?;
        let items = space::records_after(source, BUCKET, &base, FEED).map_err(said)?;
        let ahead = space::ahead(source, BUCKET, (&base, &items), usize::MAX).map_err(said)?;
        let records = items.items.into_iter().chain(ahead).map(|item| item.record).collect();
        let incoming =
            Incoming { bucket: BUCKET, source: life, base, records, upto: items.upto, more: items.more };
        let entries = space::take(&self.members[to].tables, incoming).map_err(said)?.unwrap_or_default();
        let horizon = self.members[from].horizon.clone();
        let member = &mut self.members[to];
        apply(&mut member.tables, &entries)?;
        if !items.more {
            member.horizon.merge(&horizon);
        }
        Ok(items.more)
    }

    /// A single read at a member: the record lies beyond its vector.
    fn read(&mut self, from: usize, to: usize) {
        let key = KEYS[self.number(KEYS.len())];
        if !self.linked(from, to) || !self.members[to].follows {
            return;
        }
        let found = space::heads(&self.members[from].tables, BUCKET, key);
        let records = self.sure(found).unwrap_or_default();
        self.keep_at(to, records);
    }

    fn keep_at(&mut self, to: usize, records: Vec<Record>) {
        let entries = space::keep(&self.members[to].tables, BUCKET, records);
        if let Some(entries) = self.sure(entries) {
            let done = apply(&mut self.members[to].tables, &entries);
            self.sure(done);
        }
    }

    /// What all followers have seen and is old enough goes at one of them.
    fn retire(&mut self, at: usize) {
        if !self.members[at].follows {
            return;
        }
        let retired = self.retired(at);
        self.sure(retired);
    }

    fn retired(&mut self, at: usize) -> Result<(), String> {
        let said = |error: space::SpaceError| error.to_string();
        let followers = self.members.iter().filter(|member| member.follows);
        let vectors: Vec<Vector> = followers
            .map(|member| space::vector(&member.tables, BUCKET).map_err(said))
            .collect::<Result<_, _>>()?;
        let own = space::vector(&self.members[at].tables, BUCKET).map_err(said)?;
        let least = |origin| vectors.iter().map(|vector| vector.get(origin)).min().unwrap_or(0);
        let covered_by_all = &own.iter().map(|(origin, _)| (origin, least(origin))).collect::<Vector>();
        let before = Hlc::at(WallTime(self.wall.saturating_sub(DAY)));
        let mut sweep = Some(Sweep::START);
        while let Some(from) = sweep {
            let settled = Settled { covered_by_all };
            let (mut dots, next) =
                droppable(&self.members[at].tables, BUCKET, settled, &from, 8).map_err(said)?;
            // What is younger has not rested.
            dots.retain(|dot| self.written.get(dot).is_some_and(|record| record.clock < before));
            let member = &mut self.members[at];
            dots.iter().for_each(|dot| member.horizon.add(*dot));
            if !dots.is_empty() {
                self.outcome.count("tombstones dropped");
            }
            apply(&mut member.tables, &[Entry::Drop { bucket: BUCKET, dots }])?;
            sweep = next;
        }
        Ok(())
    }

    /// A member hands over what it has and drops it; one that left begins anew.
    fn leave_or_join(&mut self, member: usize) {
        let others = self.others(member);
        if others.is_empty() || others.iter().any(|other| !self.linked(member, *other)) {
            return;
        }
        if !self.members[member].follows {
            self.members[member].follows = true;
            self.outcome.count("joins");
            return others.into_iter().for_each(|other| self.take_all(other, member));
        }
        others.iter().for_each(|other| self.take_all(member, *other));
        let left = self.left(member);
        self.sure(left);
        self.outcome.count("leaves");
    }

    fn left(&mut self, member: usize) -> Result<(), String> {
        self.members[member].follows = false;
        self.members[member].horizon = Vector::new();
        let tables = &mut self.members[member].tables;
        apply(tables, &[Entry::Leave { bucket: BUCKET }])?;
        loop {
            let dots = space::left(tables, BUCKET, 9).map_err(|error| error.to_string())?;
            if dots.is_empty() {
                break;
            }
            apply(tables, &[Entry::Drop { bucket: BUCKET, dots }])?;
        }
        self.start(member);
        Ok(())
    }

    fn others(&self, member: usize) -> Vec<usize> {
        (0..MEMBERS).filter(|other| *other != member && self.members[*other].follows).collect()
    }

    /// Everything, loose records as well, and what is dead there.
    fn take_all(&mut self, from: usize, to: usize) {
        while self.pull(from, to) {}
        let compared = self.compared(from, to);
        self.sure(compared);
    }

    fn compared(&mut self, from: usize, to: usize) -> Result<(), String> {
        let said = |error: space::SpaceError| error.to_string();
        let (there, here) = (&self.members[from].tables, &self.members[to].tables);
        let theirs: BTreeSet<Dot> =
            space::dots_in(there, BUCKET, DotRange::ALL, usize::MAX).map_err(said)?.into_iter().collect();
        let vector = space::vector(there, BUCKET).map_err(said)?;
        let mine = space::dots_in(here, BUCKET, DotRange::ALL, usize::MAX).map_err(said)?;
        let dots: Vec<Dot> =
            mine.iter().filter(|dot| !theirs.contains(dot) && vector.covers(**dot)).copied().collect();
        let loose: Vec<Record> = theirs
            .iter()
            .filter(|dot| !vector.covers(**dot))
            .filter_map(|dot| self.written.get(dot).cloned())
            .collect();
        let member = &mut self.members[to];
        dots.iter().for_each(|dot| member.horizon.add(*dot));
        apply(&mut member.tables, &[Entry::Drop { bucket: BUCKET, dots }])?;
        self.keep_at(to, loose);
        Ok(())
    }

    /// A disk is gone: what only it had is lost. It begins anew from the others, if it can reach them.
    fn burn(&mut self, member: usize) {
        let others = self.others(member);
        if others.len() < 2 || others.iter().any(|other| !self.linked(member, *other)) {
            return;
        }
        let clock = self.members[member].clock;
        self.members[member] = Member { follows: true, clock, ..Member::default() };
        self.start(member);
        others.into_iter().for_each(|other| self.take_all(other, member));
        self.outcome.count("burnt");
    }
}

/// The subscriber.
impl World {
    fn row(&mut self) -> Option<Subscription> {
        let row = space::subscription(&self.subscriber, &below());
        self.sure(row).flatten()
    }

    fn put_row(&mut self, row: Option<&Subscription>) {
        let done = apply(&mut self.subscriber, &[space::followed(&below(), row)]);
        self.sure(done);
    }

    fn crash(&mut self) {
        self.lives.clear();
        self.talk = None;
        self.outcome.count("crashes");
    }

    fn compare(&mut self) {
        if let Some(mut row) = self.row() {
            row.compare();
            self.put_row(Some(&row));
        }
    }

    /// A record that was asked for long ago, of somebody who is behind.
    fn stale(&mut self) {
        let below: Vec<Record> =
            self.written.values().filter(|record| below().has(&record.key)).cloned().collect();
        let Some(record) = self.draw.pick(&below).cloned() else { return };
        if self.row().is_none() {
            return;
        }
        let entries = match self.mistake {
            Some(Mistake::StaleAdmitted) => Ok(vec![Entry::Record(Box::new(record))]),
            _ => space::keep(&self.subscriber, BUCKET, vec![record]),
        };
        if let Some(entries) = self.sure(entries) {
            let done = apply(&mut self.subscriber, &entries);
            self.sure(done);
        }
        self.outcome.count("stale reads");
        self.judge();
    }

    /// Asks, or hears what it asked.
    fn turn(&mut self) {
        match self.talk.take() {
            Some(talk) => self.hear(talk),
            None if self.draw.chance(Ppm(4_000)) => self.end_or_begin(),
            None => self.ask(),
        }
        // Mostly the answer comes before anything else happens.
        if self.draw.chance(Ppm::percent(70))
            && let Some(talk) = self.talk.take()
        {
            self.hear(talk);
        }
    }

    /// Follows the prefix no more; what it has of it goes.
    fn end_or_begin(&mut self) {
        let Some(row) = self.row() else { return };
        self.put_row(Some(&Subscription { ends: true, ..row }));
        loop {
            let dots = space::left_below(&self.subscriber, &below(), 5);
            let dots = self.sure(dots).unwrap_or_default();
            if dots.is_empty() {
                break;
            }
            let done = apply(&mut self.subscriber, &[Entry::Drop { bucket: BUCKET, dots }]);
            self.sure(done);
        }
        self.put_row(None);
        let held = space::held_below(&self.subscriber, &below(), u64::MAX);
        if self.sure(held) != Some((0, 0)) {
            self.fail("outside", "records of a prefix that is followed no more".into());
        }
        self.outcome.count("ended");
    }

    fn ask(&mut self) {
        let member = self.nearest;
        if !self.linked(member, MEMBERS) || !self.members[member].follows || self.draw.chance(Ppm::percent(8))
        {
            self.nearest = self.number(MEMBERS);
            return;
        }
        let Some(row) = self.row() else { return self.put_row(Some(&Subscription::default())) };
        let talk = self.asked(member, &row);
        self.talk = self.sure(talk).flatten();
    }

    fn asked(&mut self, member: usize, row: &Subscription) -> Result<Option<Talk>, space::SpaceError> {
        let (below, life) = (below(), self.origin(member));
        let there = &self.members[member];
        let source = self.lives.get(&member).copied();
        match space::next(&self.subscriber, &below, row, (source, space::COMPARED))? {
            Step::End => Ok(None),
            Step::Range(asked) => {
                let range = space::range_below(&there.tables, &below, &asked, PAGE)?;
                Ok(Some(Talk::Range(asked, range)))
            }
            Step::Changes(seen, loose) => {
                let none = Vector::new();
                let horizon =
                    if self.mistake == Some(Mistake::HorizonIgnored) { &none } else { &there.horizon };
                let mut said = space::changes_below(&there.tables, &below, (&seen, loose, horizon), PAGE)?;
                let vector = space::vector(&there.tables, BUCKET)?;
                match self.mistake {
                    Some(Mistake::LooseUntold) => said.records.retain(|record| vector.covers(record.dot)),
                    Some(Mistake::VectorAtOnce) => said.more = false,
                    _ => {}
                }
                Ok(Some(Talk::Changes(member, life, seen, said)))
            }
        }
    }

    fn hear(&mut self, talk: Talk) {
        let below = below();
        let (entries, last) = match talk {
            Talk::Changes(member, life, seen, said) => {
                self.lives.insert(member, life);
                let kind = if said.more { "changes in pieces" } else { "changes" };
                self.outcome.count(if said.far { "far" } else { kind });
                (space::take_changes(&self.subscriber, &below, (life, &seen), said), None)
            }
            Talk::Range(asked, range) => {
                self.outcome.count(if range.same { "same ranges" } else { "ranges" });
                let upto = range.upto.clone();
                (space::take_range(&self.subscriber, &below, &asked, range), Some(upto))
            }
        };
        let Some(mut entries) = self.sure(entries).flatten() else { return };
        if self.mistake == Some(Mistake::DeadKept) {
            entries.retain(|entry| !matches!(entry, Entry::Drop { .. }));
        }
        let done = apply(&mut self.subscriber, &entries);
        self.sure(done);
        if self.mistake == Some(Mistake::LastRangeCounts)
            && let (Some(upto), Some(mut row)) = (last, self.row())
        {
            match row.ranges.as_mut() {
                Some(walk) => walk.base = Some(upto),
                None => row.upto.merge(&upto),
            }
            self.put_row(Some(&row));
        }
        self.judge();
    }

    fn judge(&mut self) {
        let judged = self.judged();
        self.sure(judged);
    }

    fn judged(&mut self) -> Result<(), space::SpaceError> {
        let Some(row) = space::subscription(&self.subscriber, &below())? else { return Ok(()) };
        let dots: BTreeSet<Dot> =
            space::dots_in(&self.subscriber, BUCKET, DotRange::ALL, usize::MAX)?.into_iter().collect();
        let mut found = Vec::new();
        for record in self.written.values() {
            let (here, covered) = (dots.contains(&record.dot), row.upto.covers(record.dot));
            if !below().has(&record.key) {
                if here {
                    found.push(("outside", format!("{} of {:?}", record.dot, record.key)));
                }
                continue;
            }
            if !record.is_version() {
                continue;
            }
            let same_key = |other: &&Record| other.key == record.key && other.dot != record.dot;
            let mut killers = self.written.values().filter(same_key).filter(|other| kills(other, record));
            let id = VersionId::Dot(record.dot);
            let shown = space::version(&self.subscriber, BUCKET, &record.key, id)?.is_some();
            if shown && let Some(killer) = killers.clone().find(|killer| row.upto.covers(killer.dot)) {
                found.push(("excluded", format!("{} is shown, {} killed it", record.dot, killer.dot)));
            }
            // A tombstone may be gone, as it is at members.
            if covered && !here && record.object().is_some() && killers.next().is_none() {
                found.push(("complete", format!("{} of {:?} is not here", record.dot, record.key)));
            }
        }
        self.outcome.violations.extend(found);
        Ok(())
    }
}

/// The end.
impl World {
    fn heal(&mut self) {
        self.cuts.clear();
        self.members.iter_mut().for_each(|member| member.follows = true);
        for _ in 0..2 {
            for other in 1..MEMBERS {
                self.take_all(other, 0);
                self.take_all(0, other);
            }
        }
    }

    /// The subscriber asks until nothing comes, compares once, and has what members have.
    fn settle(&mut self) {
        let goal = space::vector(&self.members[0].tables, BUCKET);
        let goal = self.sure(goal).unwrap_or_default();
        let mut compared = false;
        for _ in 0..TURNS {
            self.ask();
            if let Some(talk) = self.talk.take() {
                self.hear(talk);
            }
            if !self.outcome.violations.is_empty() {
                return;
            }
            let Some(row) = self.row() else { continue };
            // Nobody ends it any more.
            let rests =
                row.complete && row.ranges.is_none() && row.round.is_none() && row.upto.includes(&goal);
            match (rests, compared) {
                (false, _) => {}
                (true, false) => {
                    compared = true;
                    self.compare();
                }
                (true, true) => return self.judge_end(&goal),
            }
        }
        self.fail("ended", "the subscriber comes to no rest".into());
    }

    fn judge_end(&mut self, goal: &Vector) {
        self.judge();
        let of = |tables: &Tables| -> Result<BTreeMap<Dot, Record>, space::SpaceError> {
            let asked = Asked::default();
            let range = space::range_below(tables, &below(), &asked, usize::MAX)?;
            Ok(range.records.into_iter().map(|record| (record.dot, record)).collect())
        };
        for member in 0..MEMBERS {
            let both = of(&self.members[member].tables).and_then(|there| Ok((there, of(&self.subscriber)?)));
            let Some((mut there, mut here)) = self.sure(both) else { return };
            // What burned with its writer and was read before is here alone, as at any site that has read it.
            let is_known = |dot: &Dot| there.contains_key(dot) || goal.covers(*dot);
            let alone: Vec<Record> =
                here.iter().filter(|(dot, _)| !is_known(dot)).map(|(_, record)| record.clone()).collect();
            here.retain(|dot, _| is_known(dot));
            there.retain(|_, record| {
                !alone.iter().any(|killer| killer.key == record.key && kills(killer, record))
            });
            if there != here {
                let (there, here) = (there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
                self.fail("same", format!("member {member} has {there:?}, the subscriber {here:?}"));
            }
        }
        self.outcome.count("came to rest");
    }
}
