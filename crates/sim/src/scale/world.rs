//! One world for every system: carries messages, counts them, lets sites write, search, go and come, and cuts the sea in halves.
//!
//! A message takes half a round trip and is lost only when its receiver is gone or cut off. A search ends when a holder has answered the
//! request for the object itself: what the system finds, and then a round trip to the first of the sites it names that is there (one that is not
//! costs [`SILENCE`]). Hops are the messages one after another, from the question to the word that ended the search.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use skerry_base::Instant;
use skerry_scenario::draw::Draw;

use super::sea::{Sea, fraction, mix};
use super::{Effect, Event, Machine, Object, Setting};
use crate::queue::Queue;

/// What a holder that does not answer costs who asked it.
pub const SILENCE: Duration = Duration::from_secs(1);
/// An object is looked for when it is so old: before, nobody but its maker need know of it.
const OLD: Duration = Duration::from_secs(60);
/// A search without an end for so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Links over a cut are given up after this (twice `DEAD` in `crates/node/src/net/tcp/tuning.rs`: the kept figures were made with it) …
const DEAD: Duration = Duration::from_secs(20);
/// … and made anew within this (`LONGEST` in `crates/node/src/net/tcp/dial.rs`).
const REDIAL: Duration = Duration::from_secs(30);

enum Happening<M> {
    Deliver { from: usize, to: usize, depth: u32, life: u32, message: M },
    Wake { site: usize, life: u32 },
    Link { site: usize, other: usize, up: bool },
    Old(usize),
    Write(u32),
    Find(u32),
    Go(u32),
    Return(usize),
}

struct Search {
    site: usize,
    object: Object,
    asked: Instant,
    nearest: Duration,
    probe: Option<usize>,
}

/// A search that ended well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Find {
    /// Messages one after another.
    pub hops: u32,
    /// Until the object's holder had answered.
    pub took: Duration,
    /// The same, in round trips to the nearest holder that was there.
    pub stretch: f64,
}

/// What the sites have done so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Bytes sent, by site.
    pub bytes: Vec<u64>,
    /// Messages sent, by site.
    pub messages: Vec<u64>,
}

/// All sites of a run.
pub struct World<M: Machine> {
    /// Where they are.
    pub sea: Rc<Sea>,
    /// Their machines.
    pub machines: Vec<M>,
    /// What they have sent.
    pub counts: Counts,
    /// Searches that ended well.
    pub finds: Vec<Find>,
    /// Searches that did not.
    pub missed: u64,
    /// Objects made, by site.
    pub made: Vec<u32>,
    /// When each probe was asked the question that was answered well.
    pub probes: Vec<Option<Instant>>,
    old: Vec<u32>,
    up: Vec<bool>,
    life: Vec<u32>,
    woken: Vec<Option<Instant>>,
    cut: bool,
    queue: Queue<Happening<M::Message>>,
    searches: BTreeMap<u64, Search>,
    asking: BTreeSet<usize>,
    tickets: u64,
    setting: Setting,
    /// Load and churn that are on; others are of before.
    load: u32,
    churn: u32,
    draws: [Draw; 4],
}

impl<M: Machine> World<M> {
    /// All sites at their beginning; links are made at once.
    pub fn new(setting: Setting, build: impl Fn(usize, &Rc<Sea>) -> M) -> Self {
        let n = setting.sites;
        let sea = Rc::new(Sea::new(n, setting.seed));
        let root = Draw::from_seed(setting.seed);
        let mut world = Self {
            machines: (0..n).map(|site| build(site, &sea)).collect(),
            sea,
            counts: Counts { bytes: vec![0; n], messages: vec![0; n] },
            finds: Vec::new(),
            missed: 0,
            made: vec![0; n],
            probes: Vec::new(),
            old: vec![0; n],
            up: vec![true; n],
            life: vec![1; n],
            woken: vec![None; n],
            cut: false,
            queue: Queue::default(),
            searches: BTreeMap::new(),
            asking: BTreeSet::new(),
            tickets: 0,
            setting,
            load: 0,
            churn: 0,
            draws: ["writes", "finds", "churn", "links"].map(|label| root.fork(label)),
        };
        (0..n).for_each(|site| world.give(site, Event::Start, 0));
        if world.setting.spread.as_secs() == 0 {
            world.meet(0, 1);
        }
        world
    }

    /// One of so many parts of all links is made.
    pub fn meet(&mut self, part: u64, parts: u64) {
        let seed = self.setting.seed + 11;
        let drawn = |a: usize, b: usize| mix(seed, a as u64, b as u64) % parts == part;
        let n = self.machines.len();
        for site in (0..n).filter(|_| M::LINKS) {
            self.link_all(site, |other| other > site && drawn(site, other));
        }
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.queue.now()
    }

    /// Whether messages pass between two sites.
    pub fn connected(&self, a: usize, b: usize) -> bool {
        self.up[a] && self.up[b] && !(self.cut && Sea::side(a) != Sea::side(b))
    }

    fn link_all(&mut self, site: usize, which: impl Fn(usize) -> bool) {
        for other in (0..self.machines.len()).filter(|other| *other != site && which(*other)) {
            let at = self.now().after(self.sea.rtt(site, other) * 2);
            self.link(at, (site, other), true);
        }
    }

    fn link(&mut self, at: Instant, (one, other): (usize, usize), up: bool) {
        self.queue.plan(at, Happening::Link { site: one, other, up });
        self.queue.plan(at, Happening::Link { site: other, other: one, up });
    }

    fn give(&mut self, site: usize, event: Event<M::Message>, depth: u32) {
        let (mut out, now) = (Vec::new(), self.now());
        self.machines[site].handle(event, now, &mut out);
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(site, to, message, depth + 1),
                Effect::Found(ticket, sites) => self.found(ticket, &sites, depth),
            }
        }
        if let Some(at) = self.machines[site].next_wake()
            && self.woken[site].is_none_or(|woken| woken <= now || at < woken)
        {
            let at = at.max(Instant(now.0 + 1));
            self.woken[site] = Some(at);
            self.queue.plan(at, Happening::Wake { site, life: self.life[site] });
        }
    }

    fn send(&mut self, from: usize, to: usize, message: M::Message, depth: u32) {
        self.counts.bytes[from] += M::size(&message) as u64;
        self.counts.messages[from] += 1;
        if from != to && self.connected(from, to) {
            let at = self.now().after(self.sea.rtt(from, to) / 2);
            let life = self.life[to];
            self.queue.plan(at, Happening::Deliver { from, to, depth, life, message });
        }
    }

    /// Runs for a while.
    pub fn run(&mut self, span: Duration) {
        let end = self.now().after(span);
        while let Some(happening) = self.queue.take(end) {
            self.happen(happening);
        }
        self.queue.skip_to(end);
    }

    fn happen(&mut self, happening: Happening<M::Message>) {
        match happening {
            Happening::Deliver { from, to, depth, life, message } => {
                if life == self.life[to] && self.connected(from, to) {
                    self.give(to, Event::Message(from, message), depth);
                }
            }
            Happening::Wake { site, life } => {
                if self.up[site] && life == self.life[site] {
                    self.give(site, Event::Wake, 0);
                }
            }
            Happening::Link { site, other, up } => {
                if self.up[site] && up == self.connected(site, other) {
                    self.give(site, Event::Link(other, up), 0);
                }
            }
            Happening::Old(maker) => self.old[maker] += 1,
            Happening::Write(load) if load == self.load => {
                let site = self.draws[0].below(self.machines.len() as u64) as usize;
                self.write(site);
                self.plan_write();
            }
            Happening::Find(load) if load == self.load => {
                self.search_any();
                self.plan_find();
            }
            Happening::Go(churn) if churn == self.churn => {
                self.go();
                self.plan_churn();
            }
            Happening::Return(site) => self.come_back(site),
            Happening::Write(_) | Happening::Find(_) | Happening::Go(_) => {}
        }
    }
}

/// Load.
impl<M: Machine> World<M> {
    /// A site makes an object, if it is there.
    pub fn write(&mut self, site: usize) {
        if self.up[site] {
            self.made[site] += 1;
            self.queue.plan(self.now().after(OLD), Happening::Old(site));
            self.give(site, Event::Write(Object { maker: site, number: self.made[site] }), 0);
        }
    }

    /// Sites begin, or stop, to write and to search.
    pub fn load(&mut self, on: bool) {
        self.load += 1;
        if on {
            self.plan_write();
            self.plan_find();
        }
    }

    /// A pause between things that happen so often an hour at each site; none if they never happen.
    fn pause(&mut self, which: usize, rate: f64) -> Option<Instant> {
        let all = rate * self.machines.len() as f64 / 3600.0;
        let seconds = -(1.0 - fraction(self.draws[which].number())).ln() / all;
        (all > 0.0).then(|| self.now().after(Duration::from_secs_f64(seconds)))
    }

    fn plan_write(&mut self) {
        if let Some(at) = self.pause(0, self.setting.writes) {
            self.queue.plan(at, Happening::Write(self.load));
        }
    }

    fn plan_find(&mut self) {
        if let Some(at) = self.pause(1, self.setting.finds) {
            self.queue.plan(at, Happening::Find(self.load));
        }
    }

    /// Any site looks for any object that is not its own.
    fn search_any(&mut self) {
        let n = self.machines.len() as u64;
        let [site, maker] = [0, 1].map(|_| self.draws[1].below(n) as usize);
        let number = 1 + self.draws[1].below(u64::from(self.old[maker])) as u32;
        if self.old[maker] > 0 && site != maker && site != self.sea.partner(maker) {
            self.search(site, Object { maker, number }, None);
        }
    }

    /// A site looks for an object; not if it is gone, or nobody could answer.
    pub fn search(&mut self, site: usize, object: Object, probe: Option<usize>) {
        let holders = [object.maker, self.sea.partner(object.maker)];
        let there = holders.into_iter().filter(|holder| self.connected(site, *holder));
        let nearest = there.map(|holder| self.sea.rtt(site, holder)).min();
        let Some(nearest) = nearest.filter(|_| self.up[site]) else { return };
        self.tickets += 1;
        let asked = self.now();
        self.searches.insert(self.tickets, Search { site, object, asked, nearest, probe });
        self.asking.extend(probe);
        self.give(site, Event::Find(self.tickets, object), 0);
    }

    fn found(&mut self, ticket: u64, sites: &[usize], hops: u32) {
        let Some(search) = self.searches.remove(&ticket) else { return };
        let mut took = self.now().since(search.asked);
        let holders = [search.object.maker, self.sea.partner(search.object.maker)];
        let mut answered = None;
        for site in sites {
            if holders.contains(site) && self.connected(search.site, *site) {
                answered = Some(self.sea.rtt(search.site, *site));
                break;
            }
            took += SILENCE;
        }
        if let Some(probe) = search.probe {
            self.asking.remove(&probe);
            self.probes[probe] = answered.map(|_| search.asked);
        } else if let Some(last) = answered {
            took += last;
            let stretch = took.as_secs_f64() / search.nearest.as_secs_f64().max(1e-6);
            self.finds.push(Find { hops, took, stretch });
        } else {
            self.missed += 1;
        }
    }

    /// Searches that have waited for too long have failed.
    pub fn give_up(&mut self) {
        let (now, before) = (self.now(), self.searches.len());
        let asking = &mut self.asking;
        let mut probes = 0;
        self.searches.retain(|_, search| {
            let keep = now.since(search.asked) < PATIENCE;
            if let Some(probe) = search.probe.filter(|_| !keep) {
                asking.remove(&probe);
                probes += 1;
            }
            keep
        });
        self.missed += (before - self.searches.len() - probes) as u64;
    }

    /// Asks those probes that have not been answered well and are not being asked.
    pub fn ask_again(&mut self, probes: &[(usize, Object)]) {
        self.give_up();
        for (index, (site, object)) in probes.iter().enumerate() {
            if self.probes[index].is_none() && !self.asking.contains(&index) {
                self.search(*site, *object, Some(index));
            }
        }
    }
}

/// Churn and cuts.
impl<M: Machine> World<M> {
    /// Sites begin, or stop, to go; those that are away come back in their time.
    pub fn churn(&mut self, on: bool) {
        self.churn += 1;
        if on {
            self.plan_churn();
        }
    }

    fn plan_churn(&mut self) {
        if let Some(at) = self.pause(2, self.setting.churn) {
            self.queue.plan(at, Happening::Go(self.churn));
        }
    }

    fn go(&mut self) {
        let site = self.draws[2].below(self.machines.len() as u64) as usize;
        let away = -(1.0 - fraction(self.draws[2].number())).ln() * self.setting.away.as_secs_f64();
        if !self.up[site] {
            return;
        }
        self.up[site] = false;
        self.life[site] += 1;
        self.searches.retain(|_, search| search.site != site);
        let back = self.now().after(Duration::from_secs_f64(away));
        self.queue.plan(back, Happening::Return(site));
        if M::LINKS {
            for other in (0..self.machines.len()).filter(|other| *other != site) {
                let at = self.now().after(self.sea.rtt(site, other) / 2);
                self.queue.plan(at, Happening::Link { site: other, other: site, up: false });
            }
        }
    }

    fn come_back(&mut self, site: usize) {
        self.up[site] = true;
        self.woken[site] = None;
        self.give(site, Event::Restart, 0);
        if M::LINKS {
            self.link_all(site, |_| true);
        }
    }

    /// Whether all sites are there.
    pub fn all_up(&self) -> bool {
        self.up.iter().all(|up| *up)
    }

    /// Cuts the sea in halves, or heals it; links notice after a while.
    pub fn cut(&mut self, on: bool) {
        self.cut = on;
        let n = self.machines.len();
        let across = move |a: usize| (a + 1..n).filter(move |b| Sea::side(a) != Sea::side(*b));
        for (one, other) in (0..n).filter(|_| M::LINKS).flat_map(|a| across(a).map(move |b| (a, b))) {
            let redial = Duration::from_secs_f64(fraction(self.draws[3].number()) * REDIAL.as_secs_f64());
            let at = self.now().after(if on { DEAD } else { redial });
            self.link(at, (one, other), !on);
        }
    }
}
