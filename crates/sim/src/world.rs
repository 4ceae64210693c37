//! The world of one run: sites, the sea between them, clients, faults, and what happens next.
//!
//! One thread, one queue. A run has three parts: clients ask and faults strike; then everything is healed
//! and nobody asks any more; then the sites must agree within the bound and everything is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::{BucketId, Dot, Instant, SiteId};
use skerry_federation::Ticket;
use skerry_model::bucket::system_bucket;
use skerry_model::{Record, Versioning};

use crate::checkers::Violation;
use crate::checkers::dots::Dots;
use crate::checkers::durability::Shows;
use crate::checkers::own_writes::OwnWrites;
use crate::checkers::races::{Expected, Races};
use crate::disk::SimDisk;
use crate::environment::{Class, Environment};
use crate::histories::Operation;
use crate::history::{History, Place};
use crate::net::Net;
use crate::queue::Queue;
use crate::site::{Answer, Site, lock};
use crate::trace::{Sink, Trace, Who};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

mod claims;
mod clients;
mod commits;
mod deaths;
mod departures;
mod fetches;
pub mod finds;
mod halves;
mod histories;
mod inspections;
mod machines;
mod mends;
mod payers;
mod races;
mod rest;
mod scopes;
mod strikes;
mod wires;

use clients::Client;
use departures::Word;
use scopes::Scopes;
use strikes::Relief;
use wires::Wires;

/// A bucket that clients use. All sites know it from the start.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    id: BucketId,
    versioning: Versioning,
}

/// What can happen next.
#[derive(Debug)]
enum Event {
    /// A message arrives.
    Deliver { from: usize, to: usize, wire: u64, datagram: bool, bytes: Bytes },
    /// What a site wants of a member arrives.
    Gift { from: usize, to: usize, wire: u64, wanted: Bytes },
    /// The machine asked to be woken.
    Wake { site: usize, boot: u64 },
    /// The store commits what waits.
    Pump { site: usize, boot: u64 },
    /// The disk is done with a commit.
    Answer { site: usize, boot: u64, answer: Answer },
    /// A client does the next thing.
    Client { site: usize, client: usize },
    /// Two sites try to connect.
    Dial { one: usize, other: usize },
    /// One side sees a connection come up.
    Up { from: usize, to: usize, wire: u64, boots: (u64, u64) },
    /// One side sees a connection break.
    Down { from: usize, to: usize, wire: u64 },
    /// One side finds that nothing comes through any more, if that is still so.
    Notice { from: usize, to: usize, wire: u64 },
    /// One side hears what the other understands.
    Words { from: usize, to: usize, wire: u64 },
    /// A question to hold a version arrives.
    Hold { id: u64, from: usize, to: usize, wire: u64 },
    /// Its answer arrives.
    Held { id: u64, by: usize, wire: u64, ok: bool, loss: u64 },
    /// A write that waits for other sites looks whom to ask.
    Press(u64),
    /// A process comes up.
    Start { site: usize },
    /// A fault of this class strikes.
    Strike(Class),
    /// A fault ends.
    Relief(Relief),
    /// The machine was to die at its next calls to the disk, and there were too few of them.
    Expire { site: usize, boot: u64 },
    /// The collector of a store takes a step.
    Collect { site: usize },
    /// An operator sets the budget of a site's link, or takes it away.
    Budget { site: usize },
    /// The workers drop what all members have seen.
    Retire,
    /// A site looks for deleted buckets that are in use.
    Revive { site: usize },
    /// Somebody wants a site to leave a bucket.
    Depart { site: usize },
    /// A site that is about to leave asks the others.
    AskLeave { site: usize, boot: u64, bucket: BucketId },
    /// Its question arrives, or an answer.
    Said(Word),
    /// A site that lost part of its journal asks the others what they have.
    Mend { site: usize, boot: u64 },
    /// A checker looks at some site.
    Inspect,
}

/// How a process that is about to die will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    Power,
    Kill,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Hash of its whole story.
    pub hash: blake3::Hash,
    /// Lines of its story.
    pub lines: u64,
    /// Promises that were broken; empty is a pass.
    pub violations: Vec<Violation>,
    /// Counts of what happened, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// How long the sites took to agree after everything was healed.
    pub agreed_after: Option<Duration>,
    /// How long each record took to each other site while clients asked, and the round trip between them.
    pub arrivals: Vec<(Duration, Duration)>,
    /// Questions for what lies elsewhere, once everything was healed.
    pub finds: Vec<finds::Find>,
    /// Conditional operations and reads at homes, as their clients saw them.
    pub operations: Vec<Operation>,
    /// The last lines, if they were kept.
    pub tail: Vec<String>,
}

impl Report {
    /// Whether every promise was kept.
    pub const fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Violations after which a run is given up: more only repeat them. Not with a canary, which must meet every
/// checker.
const VIOLATIONS_MAX: usize = 12;
/// Violations kept of one checker.
const VIOLATIONS_OF_ONE: usize = 4;

/// A world.
pub struct World {
    environment: Environment,
    queue: Queue<Event>,
    net: Net,
    wires: Wires,
    sites: Vec<Site>,
    clients: Vec<Vec<Client>>,
    /// Those that always were.
    buckets: Vec<Bucket>,
    /// The system bucket.
    system: BucketId,
    history: Arc<Mutex<History>>,
    dots: Arc<Mutex<Dots>>,
    /// Found where only the proposals of a commit can see it.
    found: Arc<Mutex<Vec<Violation>>>,
    shows: Vec<Shows>,
    own_writes: OwnWrites,
    /// Sites that are about to die.
    dying: BTreeMap<usize, Death>,
    /// Sites that are away for long.
    away: BTreeSet<usize>,
    /// Sites whose link has a budget.
    metered: BTreeSet<usize>,
    /// By site who pays, as its machine was told last.
    payers: BTreeMap<usize, BTreeSet<SiteId>>,
    /// One of two halves that are apart for long; none if all are one.
    apart: BTreeSet<usize>,
    /// Sites where a bit of a body rotted.
    rotten: BTreeSet<usize>,
    /// Sites whose journal rotted, and whether nobody has started them since.
    hurt: BTreeMap<usize, bool>,
    /// Questions about the members of buckets that wait for an answer.
    questions: BTreeMap<Ticket, (usize, BucketId)>,
    /// Those of them that want something of a member, and such as were judged.
    finds: BTreeMap<Ticket, finds::Find>,
    found_in: Vec<finds::Find>,
    active_until: Instant,
    resting: bool,
    trace: Trace,
    violations: Vec<Violation>,
    counts: BTreeMap<&'static str, u64>,
    draw: Draw,
    /// What conditional operations that were decided had expected.
    raced: Arc<Mutex<BTreeMap<(Place, skerry_base::Dot), Expected>>>,
    races: Races,
    /// Writes that wait for other sites.
    scopes: Scopes,
    /// Operations of the history that is recorded.
    operations: Vec<Operation>,
    /// Counts begins and ends of operations.
    turns: u64,
    /// Where and when each write was answered.
    answered: BTreeMap<(BucketId, Dot), (usize, Instant)>,
    /// How long each record took to another site, and the round trip between.
    arrivals: Vec<(Duration, Duration)>,
    /// The canary's: what the first read of a key found.
    stale: BTreeMap<(usize, Place), Option<Record>>,
}

/// Runs one environment to its end.
pub fn run(environment: Environment, sink: Sink) -> Report {
    let mut world = World::new(environment, sink);
    world.begin();
    world.go_until_quiet_or(|world| world.queue.now() >= world.active_until);
    let agreed_after = world.rest();
    world.report(agreed_after)
}

impl World {
    fn new(environment: Environment, sink: Sink) -> Self {
        let root = Draw::from_seed(environment.seed);
        let count = environment.sites();
        let mut identities = root.fork("identities");
        let links = environment.links.clone();
        let link = move |from: usize, to: usize| {
            links.get(from).and_then(|row| row.get(to)).copied().unwrap_or_default()
        };
        let sites = environment.clocks.iter().zip(&environment.disks).enumerate();
        let sites = sites.map(|(number, (clock, manner))| {
            let disk = SimDisk::new(manner.clone(), root.fork(&format!("disk {number}")));
            Site::new(*clock, disk, &mut identities)
        });
        Self {
            queue: Queue::default(),
            net: Net::new(count, root.fork("net"), link),
            wires: Wires::default(),
            sites: sites.collect(),
            clients: clients::all(&environment, &root),
            buckets: buckets(&environment, &mut identities),
            system: system_bucket(b"a simulated federation"),
            history: Arc::new(Mutex::new(History::new(count))),
            dots: Arc::default(),
            found: Arc::default(),
            shows: vec![Shows::default(); count],
            own_writes: OwnWrites::default(),
            dying: BTreeMap::new(),
            away: BTreeSet::new(),
            metered: environment.finding.metered.clone(),
            payers: BTreeMap::new(),
            apart: BTreeSet::new(),
            rotten: BTreeSet::new(),
            hurt: BTreeMap::new(),
            questions: BTreeMap::new(),
            finds: BTreeMap::new(),
            found_in: Vec::new(),
            active_until: Instant(0).after(environment.active),
            resting: false,
            trace: Trace::new(sink),
            violations: Vec::new(),
            counts: BTreeMap::new(),
            draw: root.fork("world"),
            raced: Arc::default(),
            races: Races::default(),
            scopes: Scopes::default(),
            operations: Vec::new(),
            turns: 0,
            answered: BTreeMap::new(),
            arrivals: Vec::new(),
            stale: BTreeMap::new(),
            environment,
        }
    }

    fn begin(&mut self) {
        let now = self.queue.now();
        let environment = format!("{:?}", self.environment);
        self.tell(Who::World, format_args!("begins {environment}"));
        for site in 0..self.sites.len() {
            self.set_lying(site);
            let at = now.after(self.draw.span(millis(0)..=millis(500)));
            self.queue.plan(at, Event::Start { site });
            self.queue.plan(now.after(seconds(7)), Event::Collect { site });
            self.queue.plan(now.after(seconds(5)), Event::Revive { site });
            for client in 0..self.clients.get(site).map_or(0, Vec::len) {
                let at = now.after(self.draw.span(millis(600)..=seconds(3)));
                self.queue.plan(at, Event::Client { site, client });
            }
        }
        for one in 0..self.sites.len() {
            for other in one + 1..self.sites.len() {
                self.queue.plan(now.after(millis(600)), Event::Dial { one, other });
            }
        }
        for (class, pace) in self.environment.faults.clone() {
            self.plan_strike(class, pace);
        }
        if self.environment.departs {
            for site in 0..self.sites.len() {
                self.queue.plan(now.after(seconds(6)), Event::Depart { site });
            }
        }
        self.plan_budgets();
        self.queue.plan(now.after(seconds(4)), Event::Inspect);
        if self.environment.retires {
            self.queue.plan(now.after(seconds(9)), Event::Retire);
        }
    }

    /// Lets things happen until `done`, or until nothing is planned, or until too much is broken.
    fn go_until_quiet_or(&mut self, done: impl Fn(&Self) -> bool) {
        let most = if self.environment.canary.is_some() { usize::MAX } else { VIOLATIONS_MAX };
        while !done(self) && self.violations.len() < most {
            let Some(event) = self.queue.take(Instant(u64::MAX)) else { return };
            self.happen(event);
            let found = std::mem::take(&mut *lock(&self.found));
            found.into_iter().for_each(|violation| self.violated(violation));
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, wire, datagram, bytes } => {
                self.deliver((from, to), wire, datagram, &bytes);
            }
            Event::Gift { from, to, wire, wanted } => self.given((from, to), wire, &wanted),
            Event::Wake { site, boot } => self.wake(site, boot),
            Event::Pump { site, boot } => self.pump(site, boot),
            Event::Answer { site, boot, answer } => self.answer(site, boot, answer),
            Event::Client { site, client } => self.act(site, client),
            Event::Dial { one, other } => self.dial(one, other),
            Event::Up { from, to, wire, boots } => self.link_up((from, to), wire, boots),
            Event::Down { from, to, wire } => self.link_down(from, to, wire),
            Event::Notice { from, to, wire } => self.notice(from, to, wire),
            Event::Words { from, to, wire } => self.words(from, to, wire),
            Event::Hold { id, from, to, wire } => self.asked_to_hold(id, (from, to), wire),
            Event::Held { id, by, wire, ok, loss } => self.told_held(id, (by, wire), (ok, loss)),
            Event::Press(id) => self.press(id),
            Event::Start { site } => self.start(site),
            Event::Strike(class) => self.strike(class),
            Event::Relief(relief) => self.relieve(relief),
            Event::Expire { site, boot } => self.expire(site, boot),
            Event::Collect { site } => self.collect(site),
            Event::Budget { site } => self.change_budget(site),
            Event::Retire => self.retire_in_turn(),
            Event::Revive { site } => self.revive(site),
            Event::Depart { site } => self.depart_in_turn(site),
            Event::AskLeave { site, boot, bucket } => self.ask_to_leave(site, boot, bucket),
            Event::Said(word) => self.heard_of_leaving(word),
            Event::Mend { site, boot } => self.mend(site, boot),
            Event::Inspect => self.inspect(),
        }
    }

    /// All buckets that anybody may have used.
    fn all_buckets(&self) -> Vec<BucketId> {
        let history = lock(&self.history);
        let used = history.places().map(|(bucket, _)| *bucket);
        let always = self.buckets.iter().map(|bucket| bucket.id).chain([self.system]);
        used.chain(always).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn tell(&mut self, who: Who, what: std::fmt::Arguments<'_>) {
        self.trace.tell(self.queue.now(), who, what);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn violated(&mut self, violation: Violation) {
        let who = violation.site.map_or(Who::World, Who::Site);
        self.tell(who, format_args!("VIOLATION {violation}"));
        let of_one = self.violations.iter().filter(|known| known.checker == violation.checker).count();
        if of_one < VIOLATIONS_OF_ONE && !self.violations.contains(&violation) {
            self.violations.push(violation);
        }
    }

    fn report(self, agreed_after: Option<Duration>) -> Report {
        Report {
            seed: self.environment.seed,
            hash: self.trace.hash(),
            lines: self.trace.count(),
            violations: self.violations,
            counts: self.counts,
            agreed_after,
            arrivals: self.arrivals,
            finds: self.found_in,
            operations: self.operations,
            tail: self.trace.kept().map(Into::into).collect(),
        }
    }
}

fn buckets(environment: &Environment, identities: &mut Draw) -> Vec<Bucket> {
    let bucket = |_| {
        let id = BucketId(identities.identity());
        let enabled = identities.chance(environment.workload.versioned);
        Bucket { id, versioning: if enabled { Versioning::Enabled } else { Versioning::Off } }
    };
    (0..environment.workload.buckets).map(bucket).collect()
}
