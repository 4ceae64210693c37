//! Clients: each asks its own site for one thing at a time, and remembers nothing; the history does.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use skerry_base::chunk::Tree;
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Dot, limits};
use skerry_model::object::Object;
use skerry_model::record::{Scope, Statement};
use skerry_model::space::{self, Cursor, VersionId};
use skerry_model::write::{self, Ask, Intent, Proposed, WriteRefusal};
use skerry_model::{Entry, Record, Versioning};
use skerry_storage::{Class, CommitError, Pin, SmallBody, StorageError, Store};

use super::claims::{self, Claim};
use super::commits::Notes;
use super::{Bucket, Event, World, races, scopes};
use crate::canary::Canary;
use crate::checkers::durability::How;
use crate::checkers::races::Expected;
use crate::checkers::{Violation, bodies};
use crate::environment::Environment;
use crate::history::{Body, Excuse, Outcome, Place, Said, Write};
use crate::site::{Answer, Asked, Deciding, Unwritten, Wrote, lock};
use crate::trace::Who;
use crate::verdict;
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};
use skerry_scenario::workload::Act;

/// One client.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) draw: Draw,
    /// Waits for an answer.
    pub(super) waits: bool,
}

/// All clients of all sites.
pub(super) fn all(environment: &Environment, root: &Draw) -> Vec<Vec<Client>> {
    let client = |site, number| Client { draw: root.fork(&format!("client {site} {number}")), waits: false };
    let clients = |site| (0..environment.workload.clients).map(move |number| client(site, number)).collect();
    (0..environment.sites()).map(clients).collect()
}

/// Leaves of larger bodies: small, so that some bodies need a tree.
const LEAF_BYTES: usize = 16 << 10;

/// A body on its way into the store.
pub(super) struct Carried {
    pub(super) said: Body,
    pub(super) chunks: Vec<ChunkRef>,
    pub(super) small: Option<SmallBody>,
    pub(super) pins: Vec<Pin>,
}

/// A write on its way into the store.
pub(super) struct Wish {
    pub(super) site: usize,
    /// Who waits for the answer, if anybody, and for how much.
    pub(super) asked: Asked,
    pub(super) bucket: Bucket,
    pub(super) key: String,
    pub(super) ask: Ask,
    /// Decides key and ask at the commit.
    pub(super) claim: Option<Claim>,
    /// The state that is expected of the key: only the home may decide.
    pub(super) race: Option<Expected>,
    pub(super) said: Option<Body>,
    pub(super) small: Option<SmallBody>,
    pub(super) pins: Vec<Pin>,
}

impl World {
    pub(super) fn client_goes_on(&mut self, site: usize, client: usize) {
        let think = self.environment.workload.think.clone();
        let Some(state) = self.clients.get_mut(site).and_then(|clients| clients.get_mut(client)) else {
            return;
        };
        state.waits = false;
        let at = self.queue.now().after(state.draw.span(think));
        self.queue.plan(at, Event::Client { site, client });
    }

    pub(super) fn client_tries_later(&mut self, site: usize, client: usize) {
        let at = self.queue.now().after(self.draw.span(millis(300)..=seconds(2)));
        self.queue.plan(at, Event::Client { site, client });
    }

    /// The next thing of a client, unless its time is over, its site down, or it waits.
    pub(super) fn act(&mut self, site: usize, client: usize) {
        let idle = |clients: &Vec<Client>| clients.get(client).filter(|client| !client.waits).cloned();
        let Some(mut state) = self.clients.get(site).and_then(idle).filter(|_| !self.resting) else { return };
        let Some(running) = self.running(site) else {
            self.client_tries_later(site, client);
            return;
        };
        if self.environment.races && state.draw.chance(Ppm::percent(40)) {
            self.race_next((site, client), state);
            return;
        }
        let workload = self.environment.workload.clone();
        let Some(mut bucket) = self.bucket_at(site, &mut state.draw) else { return };
        if bucket.versioning == Versioning::Enabled && state.draw.chance(Ppm::percent(10)) {
            bucket.versioning = Versioning::Suspended;
        }
        if !running.members.contains(&bucket.id) {
            self.come_to_a_bucket(site, bucket.id, &mut state.draw);
            if let Some(place) = self.clients.get_mut(site).and_then(|clients| clients.get_mut(client)) {
                place.draw = state.draw;
            }
            self.client_tries_later(site, client);
            return;
        }
        let key = workload.key(&mut state.draw);
        let elsewhere = state.draw.below(self.sites.len() as u64) as usize;
        let act = workload.act(&mut state.draw);
        let waits = match act {
            Act::Get if elsewhere != site && state.draw.chance(Ppm::percent(30)) => {
                self.read_elsewhere(site, elsewhere, &(bucket.id, key));
                false
            }
            Act::Get => self.get(site, &(bucket.id, key)),
            Act::List => self.list(site, bucket.id),
            Act::Bucket => self.claim((site, client), &mut state.draw),
            Act::Put => {
                let (body, scope) = self.body_and_scope(&key, &mut state.draw);
                self.put(site, Asked { client: Some(client), scope, operation: None }, bucket, (key, body))
            }
            Act::Delete => self.ask((site, client), bucket, key, Ask::Delete),
            Act::Erase => self.erase((site, client), bucket, key, &mut state.draw),
        };
        state.waits = waits;
        if let Some(place) = self.clients.get_mut(site).and_then(|clients| clients.get_mut(client)) {
            *place = state;
        }
        if !waits {
            self.client_goes_on(site, client);
        }
        self.mourn(site, false);
    }

    /// The first access to a bucket: some read there from elsewhere for a while, then the site becomes a member.
    pub(super) fn come_to_a_bucket(&mut self, site: usize, bucket: BucketId, draw: &mut Draw) {
        if draw.chance(Ppm::percent(60)) {
            let elsewhere = draw.below(self.sites.len() as u64) as usize;
            let key = self.environment.workload.key(draw);
            self.read_elsewhere(site, elsewhere, &(bucket, key));
        }
        if draw.chance(Ppm::percent(30)) {
            self.submit_join(site, bucket);
        }
    }

    /// What a client puts: anything; where scopes are tried, one of few bodies, and at how many sites.
    fn body_and_scope(&self, key: &str, draw: &mut Draw) -> (Vec<u8>, usize) {
        if self.environment.scopes {
            return scopes::body_and_scope(self.environment.seed, self.sites.len(), key, draw);
        }
        let length = self.environment.workload.size(draw) as usize;
        (draw.bytes(length), 0)
    }

    pub(super) fn put(
        &mut self,
        site: usize,
        asked: Asked,
        bucket: Bucket,
        (key, body): (String, Vec<u8>),
    ) -> bool {
        let now = self.queue.now();
        let Some(modified) = self.sites.get(site).map(|place| place.wall.read(now)) else { return false };
        let carried = match self.carry(site, bucket.id, body) {
            Ok(carried) => carried,
            Err(error) => {
                self.tell(Who::Site(site), format_args!("takes no body: {error}"));
                return false;
            }
        };
        let Carried { said, chunks, small, pins } = carried;
        let etag = said.hash.to_string();
        let object = Object { size: said.length, etag, chunks, modified, ..Object::default() };
        let ask = Ask::Put(Box::new(object));
        let (claim, race, said) = (None, None, Some(said));
        self.submit_write(Wish { site, asked, bucket, key, ask, claim, race, said, small, pins })
    }

    /// Brings a body to the disk as the node does: small ones with the record, others in chunks before it.
    pub(super) fn carry(
        &self,
        site: usize,
        bucket: BucketId,
        mut body: Vec<u8>,
    ) -> Result<Carried, StorageError> {
        let said = Body { hash: ChunkId::of(&body), length: body.len() as u64 };
        if let Some(first) = body.first_mut().filter(|_| self.environment.canary == Some(Canary::WrongBody)) {
            *first ^= 1;
        }
        let mut carried = Carried { said, chunks: Vec::new(), small: None, pins: Vec::new() };
        let leaf = |bytes: &[u8]| ChunkRef {
            id: ChunkId::of(bytes),
            kind: ChunkKind::Leaf,
            stored: bytes.len() as u32,
            length: bytes.len() as u64,
        };
        if body.is_empty() {
            return Ok(carried);
        }
        if body.len() <= limits::JOURNAL_BODY_BYTES {
            carried.chunks.push(leaf(&body));
            carried.small = Some(SmallBody::new(bucket, Bytes::from(body)));
            return Ok(carried);
        }
        let Some(running) = self.running(site) else { return Err(StorageError::Closed) };
        for bytes in body.chunks(LEAF_BYTES) {
            carried.chunks.push(leaf(bytes));
            carried.pins.push(running.store.put_chunk(bucket, Class::Payload, ChunkKind::Leaf, bytes)?);
        }
        if carried.chunks.len() > limits::RECORD_CHUNKS {
            let tree = Tree { children: std::mem::take(&mut carried.chunks) };
            let (length, bytes) = (tree.length(), tree.encode());
            let (id, stored) = (ChunkId::of(&bytes), bytes.len() as u32);
            carried.pins.push(running.store.put_chunk(bucket, Class::Payload, ChunkKind::Tree, &bytes)?);
            carried.chunks.push(ChunkRef { id, kind: ChunkKind::Tree, stored, length });
        }
        Ok(carried)
    }

    fn ask(&mut self, (site, client): (usize, usize), bucket: Bucket, key: String, ask: Ask) -> bool {
        let asked = Asked { client: Some(client), ..Asked::default() };
        let (claim, race, said, small, pins) = (None, None, None, None, Vec::new());
        self.submit_write(Wish { site, asked, bucket, key, ask, claim, race, said, small, pins })
    }

    fn erase(&mut self, of: (usize, usize), bucket: Bucket, key: String, draw: &mut Draw) -> bool {
        let place = (bucket.id, key.clone());
        let alive: Vec<Dot> = {
            let history = lock(&self.history);
            history.held_at(of.0, &place).alive().iter().copied().collect()
        };
        let Some(dot) = draw.pick(&alive) else { return false };
        self.ask(of, bucket, key, Ask::Erase(VersionId::Dot(*dot)))
    }

    pub(super) fn submit_write(&mut self, mut wish: Wish) -> bool {
        let (site, asked) = (wish.site, wish.asked);
        // Kept from the collector until the record that refers to them is stored.
        let pins = std::mem::take(&mut wish.pins);
        let notes = self.notes(site);
        let Some(place) = self.sites.get(site) else { return false };
        let (id, Some(running)) = (place.id, place.running.as_ref()) else { return false };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let at_end = (Arc::clone(&desk), notes.clone());
        let (system, raced, reads) = (self.system, Arc::clone(&self.raced), Arc::downgrade(&store));
        let canary = |canary| self.environment.canary == Some(canary);
        let (two_homes, blind) = (canary(Canary::TwoHomes), canary(Canary::RepeatedPut));
        let decided = Deciding::default();
        let noted = Arc::clone(&decided);
        store.submit(
            move |view| {
                let mut desk = lock(&desk);
                notes.refused(view, &mut desk.deciding)?;
                desk.deciding.push(Arc::clone(&noted));
                if desk.left.contains(&wish.bucket.id) {
                    return Err("the site has left the bucket".into());
                }
                let (origin, wall) = (desk.origin_of(wish.bucket.id), desk.wall);
                if let Some(claim) = wish.claim.take() {
                    let decided = claims::decide(view, wish.bucket.id, &claim, id, wall);
                    let Some(claimed) = decided? else {
                        return Ok((Wrote::Nothing, Vec::new()));
                    };
                    wish.said = Some(claims::said(&claimed));
                    wish.key.clone_from(&claimed.key);
                    wish.ask = Ask::Put(Box::new(claimed.object));
                }
                let (home, conditions) = races::terms(view, (&wish, system, id, two_homes), &mut desk)?;
                let intent = Intent {
                    bucket: wish.bucket.id,
                    key: &wish.key,
                    origin,
                    site: id,
                    wall,
                    present: Some(wall),
                    versioning: wish.bucket.versioning,
                    writer: "client",
                    scope: Scope::Node,
                    home,
                    placement: None,
                    conditions: &conditions,
                    ask: wish.ask.clone(),
                };
                let proposed = write::propose(view, intent, &mut desk.clock);
                let proposed = proposed.map_err(|error| match error {
                    WriteRefusal::Precondition(_) => Unwritten::Missed(error.to_string()),
                    other => Unwritten::from(other),
                })?;
                if let (Some(expected), Proposed::Write { record, .. }) = (&wish.race, &proposed) {
                    let place = (wish.bucket.id, wish.key.clone());
                    lock(&raced).insert((place, record.dot), expected.clone());
                }
                let lacks = |record: &Record| !blind && lacks(&reads, record);
                Ok::<_, Unwritten>(decide(proposed, &notes, (wish, lacks), &noted))
            },
            move |result| {
                drop(pins);
                let (desk, notes) = at_end;
                let mut desk = lock(&desk);
                if let Some(decided) = lock(&decided).take() {
                    match result.is_ok() {
                        true => notes.written(&decided),
                        false => desk.failed.push(decided),
                    }
                }
                let result = result.map_err(|error| match error {
                    CommitError::Refused(why) => why,
                    CommitError::Storage(why) => Unwritten::Failed(format!("{why:?}")),
                });
                desk.answers.push(Answer::Wrote { asked, result });
            },
        );
        self.plan_pump(site);
        true
    }

    /// A read at a site, checked against what the site must show. Never waits.
    fn get(&mut self, site: usize, place: &Place) -> bool {
        self.count("reads");
        let Some(running) = self.running(site) else { return false };
        let view = running.store.view();
        let found = match space::current(&view, place.0, &place.1) {
            Ok(found) => found,
            Err(error) => {
                self.violated(Violation::at("storage", site, format!("{place:?} unreadable: {error}")));
                return false;
            }
        };
        drop(view);
        let found = self.maybe_stale(site, place, found);
        let dot = found.as_ref().map(|record| record.dot);
        self.tell(Who::Site(site), format_args!("reads {} and finds {dot:?}", place.1));
        let stale = self.own_writes.read(&lock(&self.history), site, place, dot);
        stale.into_iter().for_each(|violation| self.violated(violation));
        if let Some(record) = found {
            self.shown(site, place.0, record.dot, How::Read);
            self.read_body(site, place, &record);
        }
        false
    }

    /// The canary: what the first read of a key found is what all reads find.
    fn maybe_stale(&mut self, site: usize, place: &Place, found: Option<Record>) -> Option<Record> {
        if self.environment.canary != Some(Canary::StaleRead) {
            return found;
        }
        self.stale.entry((site, place.clone())).or_insert(found).clone()
    }

    /// Reads a body if all of it is here; it must be what was written.
    pub(super) fn read_body(&mut self, site: usize, place: &Place, record: &Record) {
        let Some(object) = record.object() else { return };
        let Some(running) = self.running(site) else { return };
        let mut body = Vec::new();
        if bodies::read(&running.store, place.0, &object.chunks, &mut body).is_ok() {
            let wrong = bodies::check_read(&lock(&self.history), site, place, record.dot, &body);
            wrong.into_iter().for_each(|violation| self.violated(violation));
            self.count("bodies");
        }
    }

    /// A listing, checked against what wins among the records that the site has. Never waits.
    fn list(&mut self, site: usize, bucket: BucketId) -> bool {
        self.count("listings");
        let Some(running) = self.running(site) else { return false };
        let cursor = Cursor { max: 100_000, ..Cursor::default() };
        let listed = space::list_current(&running.store.view(), bucket, cursor);
        let keys: BTreeSet<(String, Dot)> = match listed {
            Ok(page) => page.keys.into_iter().map(|(key, listed)| (key, listed.dot)).collect(),
            Err(error) => {
                self.violated(Violation::at("storage", site, format!("{bucket} unlistable: {error}")));
                return false;
            }
        };
        let expected = self.visible_at(site, bucket);
        self.tell(Who::Site(site), format_args!("lists {} keys", keys.len()));
        if keys != expected {
            let differ: Vec<_> = keys.symmetric_difference(&expected).take(3).collect();
            let what = format!("{bucket} lists {} keys, not {}: {differ:?}", keys.len(), expected.len());
            self.violated(Violation::at("own writes", site, what));
        }
        false
    }

    fn visible_at(&self, site: usize, bucket: BucketId) -> BTreeSet<(String, Dot)> {
        let history = lock(&self.history);
        let Some(memory) = history.memory(site) else { return BTreeSet::new() };
        let held = memory.places().filter(|((of, _), _)| *of == bucket);
        let best = held.filter_map(|(place, held)| verdict::current(&history, place, held));
        best.filter(|write| verdict::is_put(write)).map(|write| (write.place.1.clone(), write.dot)).collect()
    }
}

/// Whether the body of a record is not here, as a copy that counts: what is so already may have come by a feed.
fn lacks(store: &Weak<Store>, record: &Record) -> bool {
    let chunks = record.object().map(|object| object.chunks.as_slice()).unwrap_or_default();
    let Some(store) = store.upgrade() else { return true };
    !chunks.iter().all(|chunk| store.counts(record.bucket, chunk.id))
}

/// Notes a decision in the history and makes the journal entries of it.
fn decide(
    proposed: Proposed,
    notes: &Notes,
    (wish, lacks): (Wish, impl Fn(&Record) -> bool),
    decided: &Deciding,
) -> (Wrote, Vec<skerry_storage::Entry>) {
    let place = (wish.bucket.id, wish.key.clone());
    let record = match proposed {
        Proposed::Write { record, .. } => record,
        Proposed::Same(record) => {
            let dot = record.dot;
            let small = wish.small.filter(|_| lacks(&record));
            let beside = |small| skerry_storage::Entry::new(Entry::Record(record).encode()).with_body(small);
            return (Wrote::Again(place, dot), small.map(beside).into_iter().collect());
        }
        Proposed::Nothing => return (Wrote::Nothing, Vec::new()),
    };
    let mut history = lock(&notes.history);
    let seen = history.seen_by(wish.site, &place, &record.context);
    let write = write_of(&record, &place, &wish, seen);
    if !history.decided(write) {
        let what = format!("{place:?} {} was used before", record.dot);
        lock(&notes.found).push(Violation::at("dots", wish.site, what));
    }
    *lock(decided) = Some((place.clone(), record.dot, record.encode()));
    let wrote = Wrote::Record(place, record.dot);
    let frees = record.object().is_none();
    let mut entry = skerry_storage::Entry::new(Entry::Write(record).encode());
    entry.frees = frees;
    entry.bodies.extend(wish.small);
    (wrote, vec![entry])
}

fn write_of(record: &Record, place: &Place, wish: &Wish, seen: BTreeSet<Dot>) -> Write {
    let said = match &record.statement {
        Statement::Put(_) => Said::Put(wish.said.unwrap_or(Body { hash: ChunkId::of(b""), length: 0 })),
        Statement::Erase { target } => Said::Erase(*target),
        Statement::Delete | Statement::Note { .. } => Said::Delete,
    };
    Write {
        dot: record.dot,
        place: place.clone(),
        site: wish.site,
        said,
        null: record.versioning != Versioning::Enabled,
        seen,
        keeps: record.keeps.iter().map(|kept| kept.dot).collect(),
        clock: record.clock,
        home: record.home,
        outcome: Outcome::Open,
        excuse: Excuse::default(),
    }
}
