//! A third, smaller world: the one to four nodes of a site on their LAN, with the production machine of its view.
//!
//! Nodes have clocks of their own that run at different rates, disks that take their time and keep what they wrote in
//! order, and a wire that loses, repeats, delays and is cut, also in one direction. Clients write through any node,
//! race for conditional decisions, and read. What each node holds is a plain set of writes.
//!
//! Two weathers: in a *storm* anything strikes and only safety is judged until it is over; in *calm* one and the same node
//! of three or four is lost, slow or cut off again and again, and no write at another may wait for more than 2 s.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use skerry_base::{BucketId, Instant};
use skerry_federation::site_view::{Durable, Input, Output, Said, Seat, Seats, SiteView, Start, View};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;
use crate::queue::Queue;

mod clients;
mod clock;
mod faults;
mod judge;
mod shell;

use clock::Clock;

/// How long clients ask and faults strike.
const ACTIVE: Duration = seconds(40);
/// How long everything is whole before the end: longer than the longest wait of a node that was left out.
const REST: Duration = seconds(75);
/// What a write may wait for: the promise of a site that has lost one node.
const STALL: Duration = seconds(2);
/// Buckets with conditional operations.
const BUCKETS: [BucketId; 3] = [BucketId([1; 16]), BucketId([2; 16]), BucketId([3; 16])];

/// A deliberate mistake of who builds on the machine, or of what it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A node answers for a write before its disk has it.
    EarlyAnswer,
    /// Reads are served and conditions decided by who is live in its view, without a lease.
    NoLease,
    /// A write is acknowledged for the site when this node has it.
    EarlyScope,
    /// What an acceptor promised is not on its disk.
    ForgottenPromise,
    /// A machine with an empty disk votes as if the site were new.
    BlankVote,
    /// Other clocks are taken for equal, unproven.
    TrustedClock,
    /// Catching up fetches nothing.
    EmptyCatchUp,
    /// A decision goes on in the next view, where somebody else may own its bucket.
    UnboundDecision,
    /// Nobody is ever late with a write.
    Patience,
}

/// All of them.
pub const MISTAKES: [Mistake; 9] = [
    Mistake::EarlyAnswer,
    Mistake::NoLease,
    Mistake::EarlyScope,
    Mistake::ForgottenPromise,
    Mistake::BlankVote,
    Mistake::TrustedClock,
    Mistake::EmptyCatchUp,
    Mistake::UnboundDecision,
    Mistake::Patience,
];

/// What strikes, and how clocks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Calm,
    Storm,
}

/// How far rates of clocks are from right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clocks {
    /// Within 1 %.
    Right,
    /// Within 4.5 %, changing: two differ by less than a ninth, and are told apart at 5 %.
    Strained,
    /// One node's runs at 0.3 to 3 times the rate for as long as its process lives.
    Beyond,
}

/// What a write is.
#[derive(Debug, Clone, Copy)]
enum What {
    Plain,
    Decision { bucket: usize, expected: Option<u64>, stamp: (u64, Start), number: u64 },
}

/// A write of a client, as only the world knows it.
#[derive(Debug, Clone, Copy)]
struct Write {
    what: What,
    /// The node that took it.
    by: usize,
    begun: Instant,
}

/// What goes over the wire.
#[derive(Debug, Clone)]
enum Packet {
    Said(Box<Said>),
    Hold { write: u64, epoch: u64 },
    Held { write: u64, epoch: u64 },
    Fetch { epoch: u64 },
    Gave { epoch: u64, writes: Vec<u64> },
    Decide { bucket: usize, expected: Option<u64> },
}

/// What a disk is to do; operations of one disk are done in their order.
#[derive(Debug, Clone)]
enum Operation {
    /// Keep this, then go on with the rest of what the machine wants done.
    Memory(Durable, Vec<Output>),
    Record(u64),
    Records(Vec<u64>, Option<(Seat, u64)>),
}

/// What can happen next.
#[derive(Debug)]
enum Event {
    Wake { node: usize, boot: u64 },
    Arrive { from: usize, to: usize, boot: u64, packet: Packet },
    Done { node: usize, boot: u64, turn: u64 },
    Client { node: usize },
    Read { node: usize },
    Deadline { node: usize, boot: u64, write: u64 },
    Gossip { one: usize, other: usize },
    Strike,
    Rates,
    Mend(faults::Mend),
}

/// One node.
#[derive(Debug)]
struct Node {
    seat: Seat,
    machine: Option<SiteView>,
    boot: u64,
    clock: Clock,
    /// Durable: the machine's memory, and what it holds.
    memory: Option<Durable>,
    held: BTreeSet<u64>,
    /// Of what it holds: the decision that is current, by bucket.
    current: [Option<u64>; BUCKETS.len()],
    /// What was acknowledged in scope `site` and it does not hold.
    lacks: BTreeSet<u64>,
    doing: VecDeque<Operation>,
    disk_free: Instant,
    /// Rises when the disk is mended: what it has to do is then planned anew.
    turn: u64,
    /// Writes on their way to the disk, with the epoch in which they were let in.
    storing: BTreeMap<u64, u64>,
    /// Its clients' writes that wait for scope `site`.
    open: BTreeSet<u64>,
    wakes_at: Instant,
    slow_wire: Duration,
    slow_disk: Duration,
}

/// The world.
struct World {
    queue: Queue<Event>,
    draw: Draw,
    nodes: Vec<Node>,
    all: Seats,
    weather: Weather,
    clocks: Clocks,
    /// The node that calm weather strikes, and whose clock is beyond.
    target: usize,
    loss: Ppm,
    /// From and to.
    cuts: BTreeSet<(usize, usize)>,
    mistake: Option<Mistake>,
    resting: bool,
    writes: BTreeMap<u64, Write>,
    acked: BTreeSet<u64>,
    last_acked: [Option<u64>; BUCKETS.len()],
    won: BTreeMap<(usize, Option<u64>), u64>,
    views: BTreeMap<u64, View>,
    burned_at: Option<Instant>,
    outcome: Outcome,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut world = World::new(seed, mistake);
    world.begin();
    world.go_until(Instant(0).after(ACTIVE));
    world.rest();
    world.go_until(world.queue.now().after(REST));
    world.judge_end();
    world.outcome
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("nodes");
        let mut count = [1, 2, 3, 3, 3, 4, 4][draw.below(7) as usize];
        let mut weather = if count > 2 && draw.below(3) == 0 { Weather::Calm } else { Weather::Storm };
        let mut clocks = match (weather, draw.below(5)) {
            (Weather::Storm, 0) => Clocks::Strained,
            (Weather::Storm, 1) => Clocks::Beyond,
            _ => Clocks::Right,
        };
        match mistake {
            Some(Mistake::Patience) => (weather, clocks) = (Weather::Calm, Clocks::Right),
            Some(Mistake::TrustedClock) => (weather, clocks) = (Weather::Storm, Clocks::Beyond),
            Some(_) => weather = Weather::Storm,
            None => {}
        }
        if mistake.is_some() {
            count = count.max(3);
        }
        let all = Seats::first(count);
        let nodes = all.iter().map(|seat| Node::new(seat, &mut draw)).collect();
        let target = draw.below(count as u64) as usize;
        let loss = if weather == Weather::Calm { Ppm::NEVER } else { Ppm::percent(draw.below(6) as u32) };
        Self {
            queue: Queue::default(),
            draw,
            nodes,
            all,
            weather,
            clocks,
            target,
            loss,
            cuts: BTreeSet::new(),
            mistake,
            resting: false,
            writes: BTreeMap::new(),
            acked: BTreeSet::new(),
            last_acked: [None; BUCKETS.len()],
            won: BTreeMap::new(),
            views: BTreeMap::new(),
            burned_at: None,
            outcome: Outcome::default(),
        }
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() {
            let rate = self.rate(node);
            self.nodes[node].clock.run_at(rate, Instant(0));
            self.plan(millis(1)..=millis(300), Event::Mend(faults::Mend::Start(node)));
            self.plan(millis(500)..=seconds(1), Event::Client { node });
            self.plan(millis(500)..=seconds(1), Event::Read { node });
            for other in node + 1..self.nodes.len() {
                self.plan(millis(10)..=seconds(2), Event::Gossip { one: node, other });
            }
        }
        self.plan(seconds(8)..=seconds(9), Event::Strike);
        self.plan(seconds(1)..=seconds(5), Event::Rates);
    }

    fn plan(&mut self, span: std::ops::RangeInclusive<Duration>, event: Event) {
        let at = self.queue.now().after(self.draw.span(span));
        self.queue.plan(at, event);
    }

    fn go_until(&mut self, end: Instant) {
        while self.outcome.violations.len() < 8 {
            let Some(event) = self.queue.take(end) else { return self.queue.skip_to(end) };
            self.happen(event);
        }
    }

    fn count(&mut self, what: &'static str) {
        self.outcome.count(what);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { node, boot } => {
                if self.is_up(node, boot) && self.nodes[node].wakes_at <= self.queue.now() {
                    self.nodes[node].wakes_at = Instant(u64::MAX);
                    self.give(node, Input::Wake);
                }
            }
            Event::Arrive { from, to, boot, packet } => {
                if self.nodes[to].machine.is_some() && (from != to || self.nodes[to].boot == boot) {
                    self.arrive(from, to, packet);
                }
            }
            Event::Done { node, boot, turn } => {
                if self.is_up(node, boot) && self.nodes[node].turn == turn {
                    self.done(node);
                }
            }
            Event::Client { node } => self.client(node),
            Event::Read { node } => self.read(node),
            Event::Deadline { node, boot, write } => {
                if self.is_up(node, boot) {
                    self.deadline(node, write);
                }
            }
            Event::Gossip { one, other } => self.gossip(one, other),
            Event::Strike => self.strike(),
            Event::Rates => self.change_rates(),
            Event::Mend(mend) => self.mend(mend),
        }
    }

    fn is_up(&self, node: usize, boot: u64) -> bool {
        self.nodes[node].machine.is_some() && self.nodes[node].boot == boot
    }

    fn local(&self, node: usize) -> Instant {
        self.nodes[node].clock.read(self.queue.now())
    }
}

impl Node {
    fn new(seat: Seat, draw: &mut Draw) -> Self {
        Self {
            seat,
            machine: None,
            boot: 0,
            clock: Clock::new(Instant(draw.between(100..=10_000) * 1_000_000_000)),
            memory: Some(Durable::genesis()),
            held: BTreeSet::new(),
            current: [None; BUCKETS.len()],
            lacks: BTreeSet::new(),
            doing: VecDeque::new(),
            disk_free: Instant(0),
            turn: 0,
            storing: BTreeMap::new(),
            open: BTreeSet::new(),
            wakes_at: Instant(u64::MAX),
            slow_wire: Duration::ZERO,
            slow_disk: Duration::ZERO,
        }
    }
}
