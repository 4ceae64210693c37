//! Writes that wait until several sites hold them (scope `sites=n`), and what is expected of who said that it does.
//!
//! Scopes `area` and `durable` are judged in the world of copies, which has areas. Whom to ask next is the production machine
//! `federation::scope`. Asking, holding and answering are as in the node's
//! shell: the write is durable at its own site first; a holder takes record and payload and answers once both are
//! durable. What an answer promises is kept here and judged at once, at every start of a holder, and in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::chunk::Tree;
use skerry_base::{BucketId, ChunkKind, ChunkRef, Dot, Instant, SiteId, limits};
use skerry_federation::Input;
use skerry_federation::scope::{Goal, Reach, Reached};
use skerry_model::{Record, space};
use skerry_storage::{Class, Pin, SmallBody, StorageError, Store};

use super::{Event, World};
use crate::canary::Canary;
use crate::checkers::{Violation, scopes};
use crate::history::Place;
use crate::ledger::{self, ApplyRefusal};
use crate::site::{Answer, Asked, lock};
use crate::trace::Who;
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

/// How long a write waits for other sites.
const WAIT: Duration = seconds(45);
/// How long a site may take before another is asked as well.
const PATIENCE: Duration = millis(1500);
/// Bytes of a question or an answer beside what it carries.
const FRAME: usize = 60;
/// Lengths of bodies: of all classes, none, in the feed, in the journal, in chunks, in a tree of chunks.
const LENGTHS: [usize; 5] = [0, 100, 5_000, 40_000, 120_000];
/// Bodies of one key: few, so that different clients at different sites put the same one.
const BODIES: u64 = 2;

/// All writes on their way, and what was promised.
#[derive(Default)]
pub(super) struct Scopes {
    reaching: BTreeMap<u64, Reaching>,
    next: u64,
    promises: Vec<Promise>,
    /// How often each site's disk burned or was set back.
    losses: BTreeMap<usize, u64>,
}

/// A version that sites have said to hold.
#[derive(Debug, Clone)]
struct Promise {
    place: Place,
    dot: Dot,
    /// With how often the disk of each had been lost by then.
    holders: BTreeMap<usize, u64>,
}

/// One write on its way.
struct Reaching {
    site: usize,
    boot: u64,
    asked: Asked,
    place: Place,
    reach: Reach,
    parcel: Arc<Parcel>,
    held: BTreeMap<usize, u64>,
    gives_up: Instant,
    /// The site that took it has left the bucket since, and shows it no more, or not yet again.
    has_left: bool,
}

/// What a question carries: the record and all of its body.
struct Parcel {
    record: Record,
    small: Option<Bytes>,
    /// Children before their trees.
    chunks: Vec<(ChunkKind, Bytes)>,
}

impl Parcel {
    fn length(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|(_, bytes)| bytes.len()).sum();
        FRAME + chunks + self.small.as_ref().map_or(0, Bytes::len)
    }
}

impl Scopes {
    fn losses(&self, site: usize) -> u64 {
        self.losses.get(&site).copied().unwrap_or(0)
    }

    /// A disk burned or was set back.
    pub(super) fn lose(&mut self, site: usize) {
        *self.losses.entry(site).or_default() += 1;
    }

    /// A site leaves a bucket: it has handed its bodies on (which is judged elsewhere) and is counted no more.
    pub(super) fn left(&mut self, site: usize, bucket: BucketId) {
        for promise in self.promises.iter_mut().filter(|promise| promise.place.0 == bucket) {
            promise.holders.remove(&site);
        }
        for one in self.reaching.values_mut().filter(|one| one.place.0 == bucket) {
            one.held.remove(&site);
            one.has_left |= one.site == site;
        }
    }

    /// The process that wanted them is gone, and with it who waited.
    pub(super) fn forget(&mut self, site: usize) {
        self.reaching.retain(|_, one| one.site != site);
    }
}

/// One of the few bodies of a key, and how many sites are to hold it.
pub(super) fn body_and_scope(seed: u64, sites: usize, key: &str, draw: &mut Draw) -> (Vec<u8>, usize) {
    let number = draw.below(BODIES);
    let mut body = Draw::from_seed(seed).fork(&format!("body {number} of {key}"));
    let length = body.pick(&LENGTHS).copied().unwrap_or(0);
    let scope = 1 + draw.weighted(&[2, 5, 3]);
    (body.bytes(length), scope.min(sites))
}

impl World {
    /// A write is durable at its own site and asks for more; or for no more, and its body is looked at all the same.
    pub(super) fn begin_reach(&mut self, site: usize, asked: Asked, place: Place, dot: Dot) {
        let Some(running) = self.running(site) else { return };
        let record = space::record(&running.store.view(), place.0, &place.1, dot).ok().flatten();
        let Some(record) = record else {
            // Replaced before its answer.
            self.acknowledge(site, asked, &place, dot);
            return;
        };
        let Ok(parcel) = parcel(&running.store, record) else {
            self.count("scopes without a body");
            self.tell(Who::Site(site), format_args!("cannot read {dot}"));
            asked.client.into_iter().for_each(|client| self.client_goes_on(site, client));
            return;
        };
        let (Some(me), Some(boot)) = (self.id_of(site), self.sites.get(site).map(|place| place.boot)) else {
            return;
        };
        let written = parcel.record.site;
        let here = (written == me).then_some(me);
        let others = self.candidates(site, place.0);
        let first = (here.is_none() && others.contains(&written)).then_some(written);
        let others = first.into_iter().chain(others).chain([me]);
        let reach = Reach::new(Goal::anywhere(asked.scope), here, others).with_patience(PATIENCE);
        let held = here.map(|_| (site, self.scopes.losses(site))).into_iter().collect();
        let gives_up = self.queue.now().after(WAIT);
        let id = self.scopes.next;
        self.scopes.next += 1;
        let parcel = Arc::new(parcel);
        self.scopes.reaching.insert(
            id,
            Reaching { site, boot, asked, place, reach, parcel, held, gives_up, has_left: false },
        );
        self.press(id);
    }

    fn id_of(&self, site: usize) -> Option<SiteId> {
        self.sites.get(site).map(|place| place.id)
    }

    /// Sites that can be asked: members first, then the others, each nearest first.
    fn candidates(&self, site: usize, bucket: BucketId) -> Vec<SiteId> {
        let members =
            self.running(site).map(|running| running.federation.members(bucket)).unwrap_or_default();
        let linked = (0..self.sites.len()).filter(|other| *other != site && self.wires.side(site, *other).up);
        let mut linked: Vec<_> =
            linked.filter_map(|other| Some((self.id_of(other)?, self.net.rtt(site, other)))).collect();
        linked.sort_by_key(|(other, rtt)| (!members.contains(other), *rtt, *other));
        linked.into_iter().map(|(other, _)| other).collect()
    }

    /// Asks whom the machine names, and ends the write if it says so.
    pub(super) fn press(&mut self, id: u64) {
        let now = self.queue.now();
        while let Some(one) = self.scopes.reaching.get_mut(&id) {
            let Some(next) = one.reach.ask(now) else { break };
            self.ask_to_hold(id, next);
        }
        let Some(one) = self.scopes.reaching.get(&id) else { return };
        match one.reach.reached() {
            Reached::Enough => self.end_reach(id, true),
            Reached::Short => self.end_reach(id, false),
            Reached::Waiting if one.gives_up <= now => self.end_reach(id, false),
            Reached::Waiting => {
                let at = one.reach.next_wake(now).map_or(one.gives_up, |at| at.min(one.gives_up));
                self.queue.plan(at, Event::Press(id));
            }
        }
    }

    fn ask_to_hold(&mut self, id: u64, other: SiteId) {
        let to = self.sites.iter().position(|place| place.id == other);
        let (Some(to), Some(one)) = (to, self.scopes.reaching.get_mut(&id)) else { return };
        let (site, length) = (one.site, one.parcel.length());
        if to == site {
            self.hold(id, site);
            return;
        }
        let wire = self.wires.side(site, to);
        if !wire.up {
            one.reach.failed(other);
            return;
        }
        self.count("questions to hold");
        self.tell(Who::Site(site), format_args!("asks site-{} to hold {}", to + 1, id));
        for at in self.net.send(self.queue.now(), site, to, length) {
            self.queue.plan(at, Event::Hold { id, from: site, to, wire: wire.number });
        }
    }

    /// A question arrives. Who is about to leave the bucket takes no copies for others, nor does who does not know it: should
    /// the writer burn, nobody could name what is held.
    pub(super) fn asked_to_hold(&mut self, id: u64, (from, to): (usize, usize), wire: u64) {
        let side = self.wires.side(to, from);
        if !self.net.open(from, to) || !side.up || side.number != wire {
            return;
        }
        let bucket = self.scopes.reaching.get(&id).map(|one| one.parcel.record.bucket);
        let is_going =
            |running: &crate::site::Running| bucket.is_some_and(|id| running.departures.is_going(id));
        let is_known = bucket.is_some_and(|id| self.knows(to, id));
        match !is_known || self.running(to).is_some_and(is_going) {
            true => self.say_held(id, to, false),
            false => self.hold(id, to),
        }
    }

    /// Takes record and body, as the node does: chunks first, then the record with a small body beside it.
    fn hold(&mut self, id: u64, site: usize) {
        let Some(parcel) = self.scopes.reaching.get(&id).map(|one| Arc::clone(&one.parcel)) else { return };
        let bucket = parcel.record.bucket;
        if self.running(site).is_some_and(|running| !running.members.contains(&bucket)) {
            self.submit_join(site, bucket);
        }
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let pins = match take(&store, &parcel) {
            Ok(pins) => pins,
            Err(why) => {
                self.tell(Who::Site(site), format_args!("cannot hold {id}: {why}"));
                self.say_held(id, site, false);
                self.mourn(site, false);
                return;
            }
        };
        let small = parcel.small.clone().map(|bytes| SmallBody::new(bucket, bytes));
        let record = parcel.record.clone();
        let fates = notes.undecided();
        let (noted, at_end) = (Arc::clone(&fates), notes.clone());
        store.submit(
            move |view| {
                let mut applied = ledger::kept(view, bucket, vec![record], &[])?;
                if let Some(first) = applied.entries.first_mut() {
                    first.bodies.extend(small);
                }
                *lock(&noted) = notes.batch(view, bucket, &applied)?;
                Ok::<_, ApplyRefusal>(((), applied.entries))
            },
            move |result| {
                drop(pins);
                let fates = std::mem::take(&mut *lock(&fates));
                let ok = result.is_ok();
                at_end.done(fates, ok, &desk, Answer::Holds { id, ok, settled: false });
            },
        );
        self.plan_pump(site);
        self.mourn(site, false);
    }

    /// The disk of a holder is done. A record that had come before its body makes no commit wait for that body: it is
    /// made durable by itself.
    pub(super) fn holds(&mut self, site: usize, id: u64, (ok, settled): (bool, bool)) {
        let Some(parcel) = self.scopes.reaching.get(&id).map(|one| Arc::clone(&one.parcel)) else { return };
        // Who has left meanwhile says so.
        let stays = self.running(site).is_some_and(|running| running.members.contains(&parcel.record.bucket));
        let ok = ok && stays;
        let early = self.environment.canary == Some(Canary::EarlyHolder);
        if ok && !settled && !early && !self.counts_at(site, &parcel.record) {
            self.count("bodies settled for holders");
            self.settle(site, Answer::Holds { id, ok, settled: true });
            return;
        }
        self.input(site, Input::Durable { bucket: parcel.record.bucket });
        self.say_held(id, site, ok);
    }

    /// Whether the body of a record is durable at a site, as a copy that counts.
    pub(super) fn counts_at(&self, site: usize, record: &Record) -> bool {
        let Some(running) = self.running(site) else { return false };
        let chunks = record.object().map(|object| object.chunks.as_slice()).unwrap_or_default();
        chunks.iter().all(|chunk| running.store.counts(record.bucket, chunk.id))
    }

    /// Makes all payload of a site durable, then gives this answer.
    pub(super) fn settle(&mut self, site: usize, answer: Answer) {
        let Some(running) = self.running(site) else { return };
        let desk = Arc::clone(&running.desk);
        running.store.settle(move |result| {
            let answer = match result {
                Ok(()) => answer,
                Err(error) => answer.spoilt(&error.to_string()),
            };
            lock(&desk).answers.push(answer);
        });
        self.plan_pump(site);
    }

    fn say_held(&mut self, id: u64, by: usize, ok: bool) {
        let Some(to) = self.scopes.reaching.get(&id).map(|one| one.site) else { return };
        let loss = self.scopes.losses(by);
        if by == to {
            self.heard(id, by, (ok, loss));
            return;
        }
        let wire = self.wires.side(by, to);
        if wire.up {
            for at in self.net.send(self.queue.now(), by, to, FRAME) {
                self.queue.plan(at, Event::Held { id, by, wire: wire.number, ok, loss });
            }
        }
    }

    /// An answer arrives.
    pub(super) fn told_held(&mut self, id: u64, (by, wire): (usize, u64), (ok, loss): (bool, u64)) {
        let Some(site) = self.scopes.reaching.get(&id).map(|one| one.site) else { return };
        let side = self.wires.side(site, by);
        if self.net.open(by, site) && side.up && side.number == wire {
            self.heard(id, by, (ok, loss));
        }
    }

    fn heard(&mut self, id: u64, by: usize, (ok, loss): (bool, u64)) {
        let (Some(other), Some(one)) = (self.id_of(by), self.scopes.reaching.get_mut(&id)) else { return };
        if ok {
            one.reach.held(other);
            one.held.insert(by, loss);
        } else {
            one.reach.failed(other);
        }
        self.press(id);
    }

    /// A link broke: who was asked over it does not answer any more.
    pub(super) fn reaches_lost(&mut self, from: usize, to: usize) {
        let Some(other) = self.id_of(to) else { return };
        let of_site = self.scopes.reaching.iter_mut().filter(|(_, one)| one.site == from);
        let ids: Vec<u64> = of_site
            .map(|(id, one)| {
                one.reach.failed(other);
                *id
            })
            .collect();
        ids.into_iter().for_each(|id| self.press(id));
    }

    /// The client is told: as many sites as it asked for, or how many there are.
    fn end_reach(&mut self, id: u64, enough: bool) {
        let Some(one) = self.scopes.reaching.remove(&id) else { return };
        if self.sites.get(one.site).is_none_or(|place| place.boot != one.boot) {
            return;
        }
        let dot = one.parcel.record.dot;
        let holders: Vec<SiteId> = one.reach.held_at().collect();
        self.count(if enough { "scopes reached" } else { "scopes not reached" });
        self.tell(Who::Site(one.site), format_args!("{dot} is held at {} sites", holders.len()));
        let named = |(site, _): &(usize, u64)| self.id_of(*site).is_some_and(|id| holders.contains(&id));
        let holders = one.held.clone().into_iter().filter(named).collect();
        let promise = Promise { place: one.place.clone(), dot, holders };
        if self.draw.chance(Ppm::percent(25)) {
            self.judge_promise(&promise);
        }
        self.scopes.promises.push(promise);
        if one.has_left {
            return self.tell_client(one.site, one.asked, &one.place, dot);
        }
        self.acknowledge(one.site, one.asked, &one.place, dot);
    }

    /// A write was answered by the site that took it, which is to hold its body, whoever wrote the record;
    /// a record that another life or site wrote is always looked at.
    pub(super) fn promise_here(&mut self, site: usize, (place, dot): (&Place, Dot), wrote: bool) {
        let holders = BTreeMap::from([(site, self.scopes.losses(site))]);
        let promise = Promise { place: place.clone(), dot, holders };
        if self.draw.chance(Ppm::percent(25)) || !wrote {
            self.judge_promise(&promise);
        }
        self.scopes.promises.push(promise);
    }

    /// Every holder whose disk was not lost since has it in its durable bytes.
    fn judge_promise(&mut self, promise: &Promise) {
        for (site, loss) in promise.holders.clone() {
            if self.scopes.losses(site) != loss {
                continue;
            }
            let Some(store) = self.durable_store(site) else { continue };
            let found = self.check_promise(site, &store, promise);
            found.into_iter().for_each(|violation| self.violated(violation));
        }
    }

    fn check_promise(&self, site: usize, store: &Store, promise: &Promise) -> Option<Violation> {
        if self.rotten.contains(&site) {
            return None;
        }
        scopes::check(&lock(&self.history), site, store, (&promise.place, promise.dot))
    }

    /// A process came up, or all is over: what its disk has, against what was said.
    pub(super) fn judge_promises_at(&mut self, site: usize, store: &Store) {
        let loss = self.scopes.losses(site);
        let of_site = |promise: &&Promise| promise.holders.get(&site) == Some(&loss);
        let promises = self.scopes.promises.iter().filter(of_site);
        let found: Vec<_> = promises.filter_map(|promise| self.check_promise(site, store, promise)).collect();
        found.into_iter().for_each(|violation| self.violated(violation));
    }

    /// All of them at all sites, from their durable bytes.
    pub(super) fn judge_scopes(&mut self) {
        for site in 0..self.sites.len() {
            if let Some(store) = self.durable_store(site) {
                self.judge_promises_at(site, &store);
            }
        }
    }
}

/// Reads the whole body of a record.
fn parcel(store: &Store, record: Record) -> Result<Parcel, String> {
    let mut parcel = Parcel { record, small: None, chunks: Vec::new() };
    let Some(object) = parcel.record.object() else { return Ok(parcel) };
    if let [only] = object.chunks.as_slice()
        && object.size <= limits::JOURNAL_BODY_BYTES as u64
    {
        parcel.small = Some(read(store, parcel.record.bucket, only)?);
        return Ok(parcel);
    }
    let mut chunks = Vec::new();
    gather(store, parcel.record.bucket, &object.chunks, &mut chunks)?;
    parcel.chunks = chunks;
    Ok(parcel)
}

fn read(store: &Store, bucket: BucketId, chunk: &ChunkRef) -> Result<Bytes, String> {
    store.read_chunk(bucket, chunk.id, 0..u32::MAX).map_err(|error| error.to_string())
}

fn gather(
    store: &Store,
    bucket: BucketId,
    chunks: &[ChunkRef],
    found: &mut Vec<(ChunkKind, Bytes)>,
) -> Result<(), String> {
    for chunk in chunks {
        let bytes = read(store, bucket, chunk)?;
        if chunk.kind == ChunkKind::Tree {
            let tree = Tree::decode(&bytes).map_err(|error| error.to_string())?;
            gather(store, bucket, &tree.children, found)?;
        }
        found.push((chunk.kind, bytes));
    }
    Ok(())
}

fn take(store: &Store, parcel: &Parcel) -> Result<Vec<Pin>, StorageError> {
    let put = |(kind, bytes): &(ChunkKind, Bytes)| {
        store.put_chunk(parcel.record.bucket, Class::Payload, *kind, bytes)
    };
    parcel.chunks.iter().map(put).collect()
}
