//! A third, smaller world: the one to four nodes of a site on their LAN, with the production machine of its view, and one
//! node of another site far away.
//!
//! Nodes have clocks of their own that run at different rates, disks that take their time and keep what they wrote in
//! order, and a wire that loses, repeats, delays and is cut, also in one direction. Clients write through any node, ask
//! for conditional decisions wherever they are, and read. What each node holds is a set of writes, of which it knows the
//! part that has no gap. Each bucket has a home; the production machine of tenures says what a node may do about it.
//!
//! Two weathers: in a *storm* anything strikes, homes are moved, and only safety is judged until it is over; in *calm* one
//! and the same node of three or four is lost, slow or cut off again and again, no write at another may wait for more
//! than 2 s, and no bucket may be without decisions for longer than the others take to take it over.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::site_view::{Durable, Gaps, Input, Output, Said, Seat, Seats, SiteView, View};
use skerry_model::bucket::{HomeDocument, Naming, NamingDocument, TenureDocument};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;
use crate::queue::Queue;

mod chain;
mod clients;
mod clock;
mod faults;
mod gossip;
mod homes;
mod judge;
mod kept;
mod mistake;
mod names;
mod refusing;
mod shell;
mod tenures;
mod vacancy;

pub use mistake::{MISTAKES, Mistake, OF_NAMES, RARE};

use chain::Asked;
use clock::Clock;
use kept::{Kept, Order};
use names::Names;
use refusing::{Room, Rooms};
use vacancy::Vacancy;

/// How long clients ask and faults strike.
const ACTIVE: Duration = seconds(40);
/// How long everything is whole before the end: longer than the longest wait of a node that was left out.
const REST: Duration = seconds(75);
/// In the end clients ask for decisions again, from then ...
const PROBED_FROM: Duration = seconds(45);
/// ... until then.
const PROBED_UNTIL: Duration = seconds(62);
/// What a write may wait for: the promise of a site that has lost one node.
const STALL: Duration = seconds(2);
/// How long a bucket may be without decisions when one node of three or four is lost: what a view takes, a lease,
/// a takeover, and what clients take to ask.
const UNDECIDED: Duration = millis(6000);
/// Buckets with conditional operations, and the register.
const BUCKETS: [BucketId; DECIDED + 1] =
    [BucketId([1; 16]), BucketId([2; 16]), BucketId([3; 16]), BucketId([4; 16])];
/// So many of them; the home of the last one is the register of names.
const DECIDED: usize = 3;

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
#[derive(Debug, Clone)]
enum What {
    Plain,
    Decision {
        op: usize,
        expected: Option<u64>,
        order: Order,
    },
    /// With the writes that it and what it had seen kill.
    Tenure {
        said: TenureDocument,
        context: BTreeSet<u64>,
    },
    Home {
        named: HomeDocument,
        context: BTreeSet<u64>,
    },
    /// What the register is about to name.
    Said {
        said: NamingDocument,
        context: BTreeSet<u64>,
    },
    /// What it names.
    Given {
        naming: Box<Naming>,
    },
}

/// A write, as only the world knows it.
#[derive(Debug, Clone)]
struct Write {
    what: What,
    bucket: usize,
    /// The machine that made it, and which of its records in the bucket it is, once it is on its disk.
    origin: SiteId,
    seq: u64,
}

/// Something that a node has under way until a write is at all holders.
#[derive(Debug, Clone)]
struct Job {
    write: u64,
    why: Why,
    bound: Option<u64>,
    begun: Instant,
}

/// What happens when it is.
#[derive(Debug, Clone)]
enum Why {
    /// The client of a plain write is answered.
    Plain,
    /// The client of a decision is.
    Decided(usize),
    /// The same, as soon as it is on this disk: a home that decides alone.
    Alone(usize),
    /// A client is told that its condition does not hold, since the current value is this write.
    Refused(usize),
    /// The heir is named.
    Pass(TenureDocument),
    /// What was said is carried out by the register of this epoch.
    Naming(u64),
    /// What was named need not be said again.
    Given,
    /// Nothing: the others hear at once that a home is kept among them, if they can.
    Opened,
    /// Nothing, as soon as it is on this disk.
    Quiet,
}

/// What goes over the wire.
#[derive(Debug, Clone)]
enum Packet {
    Said(Box<Said>),
    Hold {
        job: u64,
        write: u64,
        epoch: u64,
        is_bound: bool,
    },
    Held {
        job: u64,
        epoch: u64,
    },
    /// Who is asked does not keep the bucket.
    NotHeld {
        job: u64,
    },
    Fetch {
        epoch: u64,
    },
    Gave {
        epoch: u64,
        writes: Vec<u64>,
        gaps: BTreeSet<BucketId>,
    },
    Decide {
        op: usize,
        hops: u8,
    },
    Name {
        wish: names::Wish,
        hops: u8,
    },
}

/// What a disk is to do; operations of one disk are done in their order.
#[derive(Debug, Clone)]
enum Operation {
    /// Keep this, then go on with the rest of what the machine wants done.
    Memory(Durable, Vec<Output>),
    Record(u64),
    Records(Vec<u64>, Option<Gave>),
}

/// All that a live node had, and of which buckets that may be less than the site acknowledged.
#[derive(Debug, Clone)]
struct Gave {
    from: Seat,
    view: View,
    /// [`Gaps::turn`] when it came.
    since: u64,
    gaps: BTreeSet<BucketId>,
}

/// A write on its way to a disk.
#[derive(Debug, Clone, Copy)]
struct Storing {
    /// The epoch in which it was let in.
    epoch: u64,
    /// Who waits for it; nobody if it is this node's own.
    asker: Option<(usize, u64)>,
}

/// What can happen next.
#[derive(Debug)]
enum Event {
    Wake { node: usize, boot: u64 },
    Arrive { from: usize, to: usize, boot: u64, packet: Packet },
    Done { node: usize, boot: u64, turn: u64 },
    Client { node: usize },
    Read { node: usize },
    Deadline { node: usize, boot: u64, job: u64 },
    Gossip { one: usize, other: usize },
    Strike,
    Ambush { node: usize },
    Spell,
    Expel { node: usize },
    Trickle { node: usize },
    FarCut,
    Move,
    Operator,
    Grow,
    Rates,
    Name { node: usize },
    MoveRegister,
    Mend(faults::Mend),
}

/// One node; the last one is that of the other site.
#[derive(Debug)]
struct Node {
    seat: Seat,
    /// The machine that fills it: another one when its disk has burned.
    id: SiteId,
    /// The seats of its site, as this process was told.
    all: Seats,
    machine: Option<SiteView>,
    boot: u64,
    clock: Clock,
    /// Durable: the machine's memory, and what it holds.
    memory: Option<Durable>,
    kept: Kept,
    /// The bucket that it does not keep.
    excused: Option<usize>,
    /// Durable: the buckets that it does not read for the site.
    gaps: Gaps,
    /// What was acknowledged in scope `site` and it does not hold.
    lacks: BTreeSet<u64>,
    doing: VecDeque<Operation>,
    disk_free: Instant,
    /// Rises when the disk is mended: what it has to do is then planned anew.
    turn: u64,
    storing: BTreeMap<u64, Storing>,
    jobs: BTreeMap<u64, Job>,
    /// What the register knows to be at all holders of which view.
    settled: (Option<u64>, BTreeSet<u64>),
    wakes_at: Instant,
    slow_wire: Duration,
    slow_disk: Duration,
    room: Room,
}

/// The world.
struct World {
    queue: Queue<Event>,
    draw: Draw,
    nodes: Vec<Node>,
    /// The seats of the site now.
    all: Seats,
    /// Whether it has fewer nodes at first.
    grows: bool,
    /// Whether what strikes looks for homes, and for nodes that just said something of one.
    hunts: bool,
    /// A bucket that one of the nodes does not keep.
    excused: Option<usize>,
    /// Between two nodes records travel by themselves that seldom.
    feeds: Duration,
    weather: Weather,
    clocks: Clocks,
    /// The node that calm weather strikes, and whose clock is beyond.
    target: usize,
    loss: Ppm,
    /// From and to.
    cuts: BTreeSet<(usize, usize)>,
    mistake: Option<Mistake>,
    rests_since: Option<Instant>,
    writes: BTreeMap<u64, Write>,
    /// Records of each machine in each bucket.
    seqs: BTreeMap<(usize, SiteId), u64>,
    jobs: u64,
    asked: Vec<Asked>,
    /// Whoever fills or ever filled a seat, and under which nonce.
    ever: BTreeSet<SiteId>,
    nonces: BTreeMap<(Seat, u64), SiteId>,
    /// Who was named, by bucket and epoch.
    named: BTreeMap<(usize, u64), SiteId>,
    /// Acknowledged in scope `site`.
    acked: BTreeSet<u64>,
    /// Answered by a home that decides alone.
    alone: BTreeSet<u64>,
    /// By bucket: the last value that a client was told, and that the whole site has.
    last_told: [Option<u64>; BUCKETS.len()],
    last_acked: [Option<u64>; BUCKETS.len()],
    /// When a client was answered last.
    answered: [Instant; BUCKETS.len()],
    won_at: [Instant; BUCKETS.len()],
    won: BTreeMap<(usize, Option<u64>), u64>,
    views: BTreeMap<u64, View>,
    burned_at: Option<Instant>,
    rooms: Rooms,
    names: Names,
    vacancy: Vacancy,
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
            Some(mistake) if mistake.is_of_rooms() => (weather, clocks) = (Weather::Calm, Clocks::Right),
            Some(Mistake::TrustedClock) => (weather, clocks) = (Weather::Storm, Clocks::Beyond),
            Some(_) => weather = Weather::Storm,
            None => {}
        }
        count = mistake.map_or(count, |mistake| mistake.nodes(count));
        let storm = weather == Weather::Storm && count > 2;
        let grows = storm && (draw.below(5) == 0 || mistake.is_some_and(Mistake::needs_growth));
        let excuses = storm && (draw.below(6) == 0 || mistake.is_some_and(Mistake::needs_excuse));
        let hunts = storm && (draw.below(3) == 0 || mistake.is_some_and(Mistake::is_of_tenures));
        let feeds = if draw.below(if hunts { 2 } else { 4 }) == 0 { seconds(12) } else { seconds(3) };
        let seated = if grows { 1 + draw.below(2) as usize } else { count };
        let all = Seats::first(count);
        let far = Seat::new(count).unwrap_or_default();
        let mut nodes: Vec<Node> =
            all.iter().chain([far]).map(|seat| Node::new(seat, all, &mut draw)).collect();
        nodes[count].id = SiteId([0xFA; 16]);
        let target = draw.below(count as u64) as usize;
        let excused = excuses.then(|| draw.below(DECIDED as u64) as usize);
        if excuses {
            let place = &mut nodes[1 + draw.below(count as u64 - 1) as usize];
            place.excused = excused;
            place.gaps = Gaps::new(excused.map(|bucket| BUCKETS[bucket]).into_iter().collect());
        }
        let loss = match (weather, mistake) {
            (Weather::Calm, _) => Ppm::NEVER,
            (_, Some(Mistake::HastyTakeover)) => Ppm::percent(20),
            _ => Ppm::percent(draw.below(6) as u32),
        };
        Self {
            queue: Queue::default(),
            draw,
            ever: nodes[..count].iter().map(|node| node.id).collect(),
            nonces: nodes[..count].iter().map(|node| ((node.seat, 0), node.id)).collect(),
            nodes,
            all: Seats::first(seated),
            grows,
            hunts,
            excused,
            feeds,
            weather,
            clocks,
            target,
            loss,
            cuts: BTreeSet::new(),
            mistake,
            rests_since: None,
            writes: BTreeMap::new(),
            seqs: BTreeMap::new(),
            jobs: 0,
            asked: Vec::new(),
            named: BTreeMap::new(),
            acked: BTreeSet::new(),
            alone: BTreeSet::new(),
            last_told: [None; BUCKETS.len()],
            last_acked: [None; BUCKETS.len()],
            answered: [Instant(0); BUCKETS.len()],
            won_at: [Instant(0); BUCKETS.len()],
            won: BTreeMap::new(),
            views: BTreeMap::new(),
            burned_at: None,
            rooms: Rooms::new(seed, mistake),
            names: Names::new(seed, mistake),
            vacancy: Vacancy::new(seed),
            outcome: Outcome::default(),
        }
    }

    /// The node of the other site.
    fn far(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The nodes of the site, all of them from the beginning.
    fn site(&self) -> std::ops::Range<usize> {
        0..self.nodes.len() - 1
    }

    /// How many of them there are now.
    fn seated(&self) -> usize {
        self.all.len()
    }

    fn begin(&mut self) {
        self.name_first_homes();
        self.begin_names();
        for node in 0..self.nodes.len() {
            let rate = self.rate(node);
            self.nodes[node].clock.run_at(rate, Instant(0));
            if node < self.seated() {
                self.plan(millis(1)..=millis(300), Event::Mend(faults::Mend::Start(node)));
            }
            self.plan(millis(500)..=seconds(1), Event::Client { node });
            self.plan(millis(500)..=seconds(1), Event::Read { node });
            for other in node + 1..self.nodes.len() {
                self.plan(millis(10)..=seconds(2), Event::Gossip { one: node, other });
            }
        }
        self.plan(seconds(8)..=seconds(9), Event::Strike);
        self.plan(seconds(1)..=seconds(5), Event::Rates);
        if self.weather == Weather::Storm {
            // In calm weather it would end a spell that is under way by then.
            self.queue.plan(Instant(0).after(seconds(9)), Event::Spell);
            self.plan(seconds(2)..=seconds(9), Event::FarCut);
            self.plan(seconds(2)..=seconds(9), Event::Move);
            self.plan(seconds(9)..=seconds(15), Event::Operator);
        }
        if self.grows {
            self.plan(seconds(4)..=seconds(7), Event::Grow);
        }
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
                if self.is_running(to) && (from != to || self.nodes[to].boot == boot) {
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
            Event::Deadline { node, boot, job } => {
                if self.is_up(node, boot) {
                    self.deadline(node, job);
                }
            }
            Event::Gossip { one, other } => self.gossip(one, other),
            Event::Strike => self.strike(),
            Event::Ambush { node } => self.ambush(node),
            Event::Spell => self.spell(),
            Event::Expel { node } => self.expel(node),
            Event::Trickle { node } => self.trickle(node),
            Event::FarCut => self.cut_far(),
            Event::Move => self.move_home(),
            Event::Operator => self.operator(),
            Event::Grow => self.grow(),
            Event::Rates => self.change_rates(),
            Event::Name { node } => self.ask_name(node),
            Event::MoveRegister => self.move_register(),
            Event::Mend(mend) => self.mend(mend),
        }
    }

    fn is_running(&self, node: usize) -> bool {
        node == self.far() || self.nodes[node].machine.is_some()
    }

    fn is_up(&self, node: usize, boot: u64) -> bool {
        self.is_running(node) && self.nodes[node].boot == boot
    }

    fn local(&self, node: usize) -> Instant {
        self.nodes[node].clock.read(self.queue.now())
    }
}

impl Node {
    fn new(seat: Seat, all: Seats, draw: &mut Draw) -> Self {
        Self {
            seat,
            id: SiteId([seat.index() as u8 + 1; 16]),
            all,
            machine: None,
            boot: 0,
            clock: Clock::new(Instant(draw.between(100..=10_000) * 1_000_000_000)),
            memory: Some(Durable::genesis()),
            kept: Kept::default(),
            excused: None,
            gaps: Gaps::default(),
            lacks: BTreeSet::new(),
            doing: VecDeque::new(),
            disk_free: Instant(0),
            turn: 0,
            storing: BTreeMap::new(),
            jobs: BTreeMap::new(),
            settled: Default::default(),
            wakes_at: Instant(u64::MAX),
            slow_wire: Duration::ZERO,
            slow_disk: Duration::ZERO,
            room: Room::Plenty,
        }
    }
}
