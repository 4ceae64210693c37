//! Another small world: sites whose disk was copied, and the copy runs beside the original. The production rules about which
//! of the two is served ([`skerry_federation::clones`]) over wires that are cut, through kills, restarts and backups put back.
//!
//! What is known of records is plain sets: each process writes under an origin that it drew at its start, and links carry
//! everything both ways. An island of the clone's own, sites that never see both, sites that are started anew while both
//! run: all are drawn.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::{Instant, NodeId};
use skerry_federation::clones::{Clones, Findings, Linked, Suspicion};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use crate::outcome::Outcome;
use crate::queue::Queue;

mod door;
mod faults;
mod judge;

/// How long faults strike.
const ACTIVE: Duration = seconds(3600);
/// How long both run on afterwards, with nothing in their way: several rounds of questions.
const STEADY: Duration = seconds(3600);
/// How long an operator lets each copy run alone, to have what it wrote.
const ALONE: Duration = seconds(300);
/// How often one other site is asked whom it is linked with; the first time sooner.
const ASK: Duration = seconds(300);
const SOON: Duration = seconds(20);
/// How long a linked process has to answer when another life of it comes.
const ANSWERS_WITHIN: Duration = seconds(4);
/// A dead link is noticed in this time.
const NOTICED: Duration = seconds(20);
/// The most processes of one key.
const COPIES: usize = 3;

/// A deliberate mistake of who builds on the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Whoever is linked is taken for alive when another life comes.
    NoQuestion,
    /// What another site said of its links is taken for proven.
    Believed,
    /// Nobody tells the others what was found.
    Unsaid,
    /// A process goes on under the origin that its disk was copied with.
    SameOrigin,
}

/// All of them, with who must find them.
pub const MISTAKES: [(Mistake, &str); 4] = [
    (Mistake::NoQuestion, "innocent"),
    (Mistake::Believed, "innocent"),
    (Mistake::Unsaid, "one"),
    (Mistake::SameOrigin, "dots"),
];

/// The number of a record at its origin.
type Dot = (u64, u64);

/// What outlives a process.
#[derive(Debug, Clone, Default)]
struct Disk {
    records: BTreeMap<Dot, u64>,
    findings: Findings,
    origin: u64,
}

#[derive(Debug)]
struct Process {
    key: usize,
    disk: Disk,
    /// An earlier state of it.
    backup: Option<Disk>,
    up: bool,
    /// Drawn at each start.
    life: u64,
    machine: Clones,
    /// The link to each key, by its number.
    links: BTreeMap<usize, u64>,
    /// Keys that keep another process with this one's key.
    copied: BTreeSet<usize>,
    ask_at: Instant,
}

/// A link, as it was made.
#[derive(Debug, Clone, Copy)]
struct Link {
    ends: [(usize, u64); 2],
}

#[derive(Debug)]
enum Event {
    Dial(usize),
    Ask(usize),
    Sync,
    Write(usize),
    Strike,
    Start(usize),
    Heal(usize, usize),
    /// One end sees that a link is gone.
    Notice(usize, u64),
    Greet(door::Greeting),
    Answered(door::Greeting, bool),
    Met(door::Meeting),
    Prove(door::Proof),
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    keys: usize,
    processes: Vec<Process>,
    links: BTreeMap<u64, Link>,
    numbers: u64,
    /// Processes that do not reach each other.
    blocked: BTreeSet<(usize, usize)>,
    /// When each life was there, and of which key.
    lived: BTreeMap<u64, (usize, Instant, Option<Instant>)>,
    acknowledged: BTreeMap<Dot, u64>,
    values: u64,
    /// Nothing strikes but that copies are started.
    calm: bool,
    resting: bool,
    /// Nobody writes any more.
    quiet: bool,
    mistake: Option<Mistake>,
    outcome: Outcome,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut world = World::new(seed, mistake);
    world.begin();
    world.go_for(ACTIVE);
    world.rest();
    world.go_for(STEADY);
    world.judge_steady();
    world.take_turns();
    world.judge_end();
    world.outcome
}

fn node(key: usize) -> NodeId {
    NodeId([key as u8 + 1; 16])
}

fn key_of(node: NodeId) -> usize {
    usize::from(node.0[0]) - 1
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("clones");
        let keys = draw.between(2..=5) as usize;
        let process = |key| Process {
            key,
            disk: Disk::default(),
            backup: None,
            up: false,
            life: 0,
            machine: Clones::default(),
            links: BTreeMap::new(),
            copied: BTreeSet::new(),
            ask_at: Instant(0),
        };
        Self {
            queue: Queue::default(),
            keys,
            processes: (0..keys).map(process).collect(),
            links: BTreeMap::new(),
            numbers: 0,
            blocked: BTreeSet::new(),
            lived: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            values: 0,
            calm: draw.below(4) == 0,
            resting: false,
            quiet: false,
            mistake,
            outcome: Outcome::default(),
            draw: draw.fork("world"),
        }
    }

    fn begin(&mut self) {
        for process in 0..self.keys {
            self.start(process);
        }
        self.plan(seconds(1)..=seconds(5), Event::Sync);
        self.plan(seconds(60)..=seconds(300), Event::Strike);
    }

    /// A process begins with what is on its disk.
    fn start(&mut self, number: usize) {
        let (life, now) = (self.draw.number(), self.queue.now());
        let process = &mut self.processes[number];
        if process.up {
            return;
        }
        (process.up, process.life, process.ask_at) = (true, life, now.after(SOON));
        process.machine = Clones::resume(node(process.key), process.disk.findings.clone());
        (process.links, process.copied) = (BTreeMap::new(), BTreeSet::new());
        if self.mistake != Some(Mistake::SameOrigin) || process.disk.origin == 0 {
            process.disk.origin = life;
        }
        self.lived.insert(life, (process.key, now, None));
        self.plan(millis(10)..=seconds(2), Event::Dial(number));
        self.plan(millis(10)..=seconds(2), Event::Ask(number));
        self.plan(millis(10)..=seconds(2), Event::Write(number));
    }

    /// It ends; who is linked with it sees that sooner or later.
    fn kill(&mut self, number: usize) {
        let now = self.queue.now();
        let process = &mut self.processes[number];
        if !process.up {
            return;
        }
        process.up = false;
        if let Some(lived) = self.lived.get_mut(&process.life) {
            lived.2 = Some(now);
        }
        let links: Vec<u64> = std::mem::take(&mut process.links).into_values().collect();
        links.into_iter().for_each(|link| self.lose(link));
    }

    /// Both ends of a link will see that it is gone.
    fn lose(&mut self, link: u64) {
        let Some(ends) = self.links.get(&link).map(|link| link.ends) else { return };
        // Most die with a word, some in silence.
        let silent = self.draw.below(3) == 0;
        for (end, _) in ends {
            let within = if silent { NOTICED } else { millis(200) };
            self.plan(millis(1)..=within, Event::Notice(end, link));
        }
    }

    fn plan(&mut self, span: std::ops::RangeInclusive<Duration>, event: Event) {
        let at = self.queue.now().after(self.draw.span(span));
        self.queue.plan(at, event);
    }

    fn go_for(&mut self, span: Duration) {
        let end = self.queue.now().after(span);
        while self.outcome.violations.len() < 8 {
            let Some(event) = self.queue.take(end) else { return self.queue.skip_to(end) };
            self.happen(event);
        }
    }

    fn count(&mut self, what: &'static str) {
        self.outcome.count(what);
    }

    /// Whether this process runs in this life.
    fn is(&self, (process, life): (usize, u64)) -> bool {
        self.processes[process].up && self.processes[process].life == life
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        !self.blocked.contains(&(one.min(other), one.max(other)))
    }

    /// Who is at the other end of the link to a key, as one end believes.
    fn peer(&self, one: usize, key: usize) -> Option<(usize, u64)> {
        let link = self.links.get(self.processes[one].links.get(&key)?)?;
        link.ends.into_iter().find(|(end, _)| *end != one)
    }

    /// Whether that one would answer over it now.
    fn answers(&self, one: usize, key: usize, life: u64) -> bool {
        self.peer(one, key).is_some_and(|peer| {
            let back = self.processes[peer.0].links.get(&self.processes[one].key);
            peer.1 == life
                && self.is(peer)
                && self.reaches(one, peer.0)
                && back.is_some()
                && back == self.processes[one].links.get(&key)
        })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Dial(process) => self.dial(process),
            Event::Ask(process) => self.ask(process),
            Event::Sync => {
                self.sync();
                self.plan(seconds(10)..=seconds(30), Event::Sync);
            }
            Event::Write(process) => self.write(process),
            Event::Strike => self.strike(),
            Event::Start(process) => self.start(process),
            Event::Heal(one, other) => {
                self.blocked.remove(&(one, other));
            }
            Event::Notice(process, link) => self.notice(process, link),
            Event::Greet(greeting) => self.greet(greeting),
            Event::Answered(greeting, answers) => self.answered(greeting, answers),
            Event::Met(meeting) => self.met(meeting),
            Event::Prove(proof) => self.prove(proof),
        }
    }

    fn notice(&mut self, process: usize, link: u64) {
        self.processes[process].links.retain(|_, number| *number != link);
        self.set_linked(process);
    }

    /// Tells a machine whom its process is linked with.
    fn set_linked(&mut self, number: usize) {
        let now = self.queue.now();
        let lives = |key: &usize| Some((node(*key), self.peer(number, *key)?.1));
        let linked = self.processes[number].links.keys().filter_map(lives).collect();
        let process = &mut self.processes[number];
        if process.machine.set_linked(&linked, now) {
            process.ask_at = process.ask_at.min(now.after(SOON));
        }
    }

    /// Stores what was found; links to who is refused now fall.
    fn remember(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.disk.findings = process.machine.findings();
        process.ask_at = process.ask_at.min(self.queue.now().after(SOON));
        let keys: Vec<usize> = process.links.keys().copied().collect();
        for key in keys {
            let refused = self.processes[number].machine.refused(node(key));
            if self.peer(number, key).is_some_and(|(_, life)| refused.contains(&life))
                && let Some(link) = self.processes[number].links.remove(&key)
            {
                self.lose(link);
            }
        }
        self.set_linked(number);
    }

    /// What two linked processes have both have.
    fn sync(&mut self) {
        let links: Vec<u64> = self.links.keys().copied().collect();
        for number in links {
            let Some(Link { ends: [one, other] }) = self.links.get(&number).copied() else { continue };
            let stands = |end: (usize, u64)| {
                self.is(end) && self.processes[end.0].links.values().any(|l| *l == number)
            };
            if !stands(one) && !stands(other) {
                self.links.remove(&number);
                continue;
            }
            if stands(one) && stands(other) && self.reaches(one.0, other.0) {
                let mut all = self.processes[one.0].disk.records.clone();
                all.extend(self.processes[other.0].disk.records.iter().map(|(dot, value)| (*dot, *value)));
                for end in [one, other] {
                    self.processes[end.0].disk.records.clone_from(&all);
                }
            }
        }
    }

    /// A client writes; a copy that all turn away refuses it.
    fn write(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if !process.up || self.quiet {
            return;
        }
        if !process.copied.is_empty() && process.links.is_empty() {
            self.count("writes refused by a copy");
        } else {
            self.values += 1;
            let origin = process.disk.origin;
            let last = process.disk.records.range((origin, 0)..=(origin, u64::MAX)).next_back();
            let dot = (origin, last.map_or(0, |((_, seq), _)| *seq) + 1);
            process.disk.records.insert(dot, self.values);
            if self.acknowledged.insert(dot, self.values).is_some() {
                self.violated("dots", format!("{dot:?} names two records"));
            }
        }
        self.plan(seconds(60)..=seconds(600), Event::Write(number));
    }
}
