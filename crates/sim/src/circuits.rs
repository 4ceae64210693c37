//! A fourth, smaller world: sites of which many cannot reach each other, with the production machine that finds ways by
//! way of third ones.
//!
//! Which pairs can connect at all is drawn once and stays: sites that only dial out, pairs that nothing joins, ways that
//! work in one direction only. On top of that links are cut, also in one direction, sites crash, and operators switch
//! carrying off and on. A link is made of what lies beneath it, as streams are: it dies with any of it.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::{Instant, SiteId};
use skerry_federation::circuits::{Circuits, Output, Way, Why};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use crate::outcome::Outcome;
use crate::queue::Queue;

mod faults;
mod judge;

/// How long faults strike.
const ACTIVE: Duration = seconds(900);
/// How long everything is whole before the end: several of the longest pauses, one after the other for each hop.
const REST: Duration = seconds(4000);
/// The last part of it, in which next to nothing may be said.
const QUIET: Duration = seconds(1200);
/// After so long without a word a site counts as dead.
const SILENCE: Duration = seconds(40);

/// A deliberate mistake of who builds on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Only the nearest neighbour is ever asked.
    NearestOnly,
    /// A link that is carried is taken for a direct one.
    TakenForDirect,
    /// Nobody tells the machine that a link is gone.
    Deaf,
    /// A site carries whatever its operator says.
    Servile,
}

/// All of them.
pub const MISTAKES: [Mistake; 4] =
    [Mistake::NearestOnly, Mistake::TakenForDirect, Mistake::Deaf, Mistake::Servile];

/// A link that stands.
#[derive(Debug, Clone)]
struct Link {
    /// Every site on the way, both ends included.
    path: Vec<usize>,
    /// The links that it runs over; none if it is direct.
    beneath: Vec<u64>,
    /// Who carries it, and under which number.
    carried: Option<(usize, u64)>,
}

impl Link {
    fn ends(&self) -> (usize, usize) {
        let first = self.path.first().copied().unwrap_or_default();
        pair(first, self.path.last().copied().unwrap_or_default())
    }

    const fn hops(&self) -> usize {
        self.path.len().saturating_sub(2)
    }
}

const fn pair(one: usize, other: usize) -> (usize, usize) {
    if one < other { (one, other) } else { (other, one) }
}

#[derive(Debug)]
struct Site {
    machine: Circuits,
    up: bool,
    boot: u64,
    /// Its operator lets it carry for others.
    willing: bool,
    wakes_at: Instant,
}

#[derive(Debug)]
enum Event {
    Wake(usize),
    /// A dial between two may succeed.
    Dial(usize, usize),
    Asked {
        site: usize,
        boot: u64,
        relay: usize,
        target: usize,
        most: u8,
    },
    Answered {
        site: usize,
        boot: u64,
        relay: usize,
        target: usize,
        answer: Result<Way, Why>,
    },
    Carry {
        site: usize,
        boot: u64,
        relay: usize,
        target: usize,
        most: u8,
    },
    Dialled {
        site: usize,
        boot: u64,
        relay: usize,
        target: usize,
        result: Result<(), Why>,
    },
    Lives {
        site: usize,
        boot: u64,
    },
    Strike,
    Mend(faults::Mend),
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    sites: Vec<Site>,
    /// Round trips of pairs.
    rtts: BTreeMap<(usize, usize), Duration>,
    /// Who can open a connection to whom, as the ground lies.
    dials: BTreeSet<(usize, usize)>,
    /// Packets of the one do not reach the other.
    blocked: BTreeSet<(usize, usize)>,
    links: BTreeMap<u64, Link>,
    numbers: u64,
    resting: bool,
    quiet: bool,
    asks: u64,
    mistake: Option<Mistake>,
    outcome: Outcome,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut world = World::new(seed, mistake);
    world.begin();
    world.go_until(Instant(0).after(ACTIVE));
    world.rest();
    world.go_until(Instant(0).after(ACTIVE + REST - QUIET));
    world.quiet = true;
    world.go_until(Instant(0).after(ACTIVE + REST));
    world.judge_end();
    world.outcome
}

fn id(site: usize) -> SiteId {
    SiteId([site as u8 + 1; 16])
}

fn number(site: SiteId) -> usize {
    usize::from(site.0[0]) - 1
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("circuits");
        let count = draw.between(3..=9) as usize;
        let site = |number| Site {
            machine: Circuits::new(id(number)),
            up: true,
            boot: 0,
            willing: true,
            wakes_at: Instant(u64::MAX),
        };
        let mut world = Self {
            queue: Queue::default(),
            sites: (0..count).map(site).collect(),
            rtts: BTreeMap::new(),
            dials: BTreeSet::new(),
            blocked: BTreeSet::new(),
            links: BTreeMap::new(),
            numbers: 0,
            resting: false,
            quiet: false,
            asks: 0,
            mistake,
            outcome: Outcome::default(),
            draw: draw.fork("world"),
        };
        world.lay(&mut draw);
        world
    }

    /// Draws who can connect with whom: a ring or a line at times, sites that only dial out, pairs that nothing joins.
    fn lay(&mut self, draw: &mut Draw) {
        let count = self.sites.len();
        let (line, missing) = (draw.below(3) == 0, draw.between(20..=70));
        let outbound: Vec<bool> = (0..count).map(|_| draw.below(3) == 0).collect();
        for one in 0..count {
            for other in one + 1..count {
                let joined = if line { other == one + 1 } else { draw.below(100) >= missing };
                self.rtts.insert((one, other), draw.span(millis(1)..=millis(400)));
                for (from, to) in [(one, other), (other, one)] {
                    // One that only dials out is found by nobody; two of them never meet.
                    if joined && (line || !outbound[to]) {
                        self.dials.insert((from, to));
                    }
                }
                if !self.can_meet(one, other) {
                    self.count(if joined { "pairs behind two walls" } else { "pairs that nothing joins" });
                }
            }
        }
        self.count(if line { "lines" } else { "meshes" });
    }

    /// Whether the ground lets two connect at all.
    fn can_meet(&self, one: usize, other: usize) -> bool {
        self.dials.contains(&(one, other)) || self.dials.contains(&(other, one))
    }

    /// Whether they can now.
    fn may_meet(&self, one: usize, other: usize) -> bool {
        let open = |from, to| !self.blocked.contains(&(from, to));
        let both = self.sites[one].up && self.sites[other].up;
        both && self.can_meet(one, other) && open(one, other) && open(other, one)
    }

    fn begin(&mut self) {
        for site in 0..self.sites.len() {
            self.start(site);
        }
        self.plan(seconds(20)..=seconds(30), Event::Strike);
    }

    /// A process begins with nothing in memory.
    fn start(&mut self, site: usize) {
        let (count, now) = (self.sites.len(), self.queue.now());
        let place = &mut self.sites[site];
        (place.up, place.machine, place.wakes_at) = (true, Circuits::new(id(site)), Instant(u64::MAX));
        place.machine.set_roster((0..count).map(id), now);
        for other in (0..count).filter(|other| *other != site) {
            self.redial(site, other);
            self.tell_life(other, site, true);
        }
        let boot = self.sites[site].boot;
        self.plan(SILENCE..=SILENCE, Event::Lives { site, boot });
        self.wake(site);
    }

    /// Somebody dials, sooner or later, if that can succeed.
    fn redial(&mut self, one: usize, other: usize) {
        if self.can_meet(one, other) {
            self.plan(millis(10)..=seconds(8), Event::Dial(one, other));
        }
    }

    fn plan(&mut self, span: std::ops::RangeInclusive<Duration>, event: Event) {
        let at = self.queue.now().after(self.draw.span(span));
        self.queue.plan(at, event);
    }

    fn after(&mut self, span: Duration, event: Event) {
        self.queue.plan(self.queue.now().after(span), event);
    }

    fn rtt(&self, one: usize, other: usize) -> Duration {
        self.rtts.get(&pair(one, other)).copied().unwrap_or_default()
    }

    fn length(&self, path: &[usize]) -> Duration {
        path.windows(2).map(|hop| self.rtt(hop[0], hop[1])).sum()
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

    fn is(&self, site: usize, boot: u64) -> bool {
        self.sites[site].up && self.sites[site].boot == boot
    }

    fn happen(&mut self, event: Event) {
        let now = self.queue.now();
        match event {
            Event::Wake(site) => {
                if self.sites[site].up && self.sites[site].wakes_at <= now {
                    self.sites[site].wakes_at = Instant(u64::MAX);
                    self.wake(site);
                }
            }
            Event::Dial(one, other) => {
                let direct = self.between(one, other).is_some_and(|(_, link)| link.hops() == 0);
                if self.may_meet(one, other) && !direct {
                    self.join(Link { path: vec![one, other], beneath: Vec::new(), carried: None });
                }
            }
            Event::Asked { site, boot, relay, target, most } => self.asked((site, boot), relay, target, most),
            Event::Answered { site, boot, relay, target, answer } => {
                if self.is(site, boot) {
                    self.sites[site].machine.answered(id(target), id(relay), answer, now);
                    self.wake(site);
                }
            }
            Event::Carry { site, boot, relay, target, most } => self.carry((site, boot), relay, target, most),
            Event::Dialled { site, boot, relay, target, result } => {
                if self.is(site, boot) {
                    self.sites[site].machine.dialled(id(target), id(relay), result, now);
                    self.wake(site);
                }
            }
            Event::Lives { site, boot } => self.lives(site, boot),
            Event::Strike => self.strike(),
            Event::Mend(mend) => self.mend(mend),
        }
    }

    /// What the others have heard of a site by now.
    fn lives(&mut self, site: usize, boot: u64) {
        if self.sites[site].boot != boot {
            return;
        }
        let alive = self.sites[site].up;
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            self.tell_life(other, site, alive);
        }
    }

    fn tell_life(&mut self, to: usize, of: usize, alive: bool) {
        if self.sites[to].up {
            let now = self.queue.now();
            self.sites[to].machine.lives(id(of), alive, now);
            self.wake(to);
        }
    }

    /// Lets a machine act, and plans when it is to act again.
    fn wake(&mut self, site: usize) {
        let (now, mut out) = (self.queue.now(), Vec::new());
        let boot = self.sites[site].boot;
        self.sites[site].machine.step(now, &mut out);
        for output in out {
            let (relay, event) = match output {
                Output::Ask { relay, target, most } => {
                    self.asks += u64::from(self.quiet);
                    self.count("questions");
                    let (relay, target) = (number(relay), number(target));
                    (relay, Event::Asked { site, boot, relay, target, most })
                }
                Output::Dial { relay, target, most } => {
                    let (relay, target) = (number(relay), number(target));
                    (relay, Event::Carry { site, boot, relay, target, most })
                }
            };
            self.after(self.rtt(site, relay) / 2, event);
        }
        if let Some(at) = self.sites[site].machine.next_wake().filter(|at| *at < self.sites[site].wakes_at) {
            self.sites[site].wakes_at = at.max(now.after(millis(1)));
            self.queue.plan(self.sites[site].wakes_at, Event::Wake(site));
        }
    }

    fn between(&self, one: usize, other: usize) -> Option<(u64, &Link)> {
        let ends = pair(one, other);
        self.links.iter().find(|(_, link)| link.ends() == ends).map(|(number, link)| (*number, link))
    }

    fn willing(&self, relay: usize) -> Result<(), Why> {
        let willing = self.sites[relay].willing || self.mistake == Some(Mistake::Servile);
        if willing { Ok(()) } else { Err(Why::Off) }
    }

    fn asked(&mut self, (site, boot): (usize, u64), relay: usize, target: usize, most: u8) {
        // A question over a link that is gone is never answered.
        if !self.sites[relay].up || self.between(site, relay).is_none() {
            return;
        }
        let answer = self.sites[relay].machine.way((id(site), id(target)), most, self.willing(relay));
        let back = self.rtt(site, relay) / 2;
        self.after(back, Event::Answered { site, boot, relay, target, answer });
    }

    fn carry(&mut self, (site, boot): (usize, u64), relay: usize, target: usize, most: u8) {
        let Some((near, _)) =
            self.between(site, relay).filter(|_| self.is(site, boot) && self.sites[relay].up)
        else {
            return;
        };
        let willing = self.willing(relay);
        let begun = self.sites[relay].machine.begin((id(site), id(target)), most, willing);
        let result = match (begun, self.between(relay, target)) {
            (Err(why), _) => Err(why),
            (Ok((number, _)), None) => {
                self.sites[relay].machine.end(number);
                Err(Why::Silent)
            }
            (Ok((number, _)), Some((far, onward))) => {
                let mut path = onward.path.clone();
                if path.first() != Some(&relay) {
                    path.reverse();
                }
                path.insert(0, site);
                let link = Link { path, beneath: vec![near, far], carried: Some((relay, number)) };
                self.greet(link)
            }
        };
        let back = self.rtt(site, relay) / 2;
        self.after(back, Event::Dialled { site, boot, relay, target, result });
    }

    /// The greeting: a circuit takes the place of none that is as short.
    fn greet(&mut self, link: Link) -> Result<(), Why> {
        let (one, other) = link.ends();
        if self.between(one, other).is_some_and(|(_, standing)| standing.hops() <= link.hops()) {
            self.release(&link);
            return Err(Why::Silent);
        }
        self.judge_circuit(&link);
        self.count("circuits");
        if link.hops() > 1 {
            self.count("circuits of several hops");
        }
        self.join(link);
        Ok(())
    }

    fn release(&mut self, link: &Link) {
        if let Some((relay, number)) = link.carried {
            self.sites[relay].machine.end(number);
        }
    }

    /// A link stands from now on, in the place of whatever stood.
    fn join(&mut self, link: Link) {
        let (one, other) = link.ends();
        if let Some((former, _)) = self.between(one, other) {
            self.break_link(former);
        }
        let (hops, rtt, now) = (link.hops(), self.length(&link.path), self.queue.now());
        // What it runs over may have been replaced by that.
        if !link.beneath.iter().all(|number| self.links.contains_key(number)) {
            return self.release(&link);
        }
        self.numbers += 1;
        self.links.insert(self.numbers, link);
        for (here, there) in [(one, other), (other, one)] {
            let hops = if self.mistake == Some(Mistake::TakenForDirect) { 0 } else { hops as u8 };
            if self.mistake != Some(Mistake::NearestOnly) || hops > 0 || self.is_nearest(here, there) {
                self.sites[here].machine.link_up(id(there), hops, rtt, now);
            }
            self.wake(here);
        }
    }

    fn is_nearest(&self, here: usize, there: usize) -> bool {
        let others = (0..self.sites.len()).filter(|other| *other != here && self.can_meet(here, *other));
        others.min_by_key(|other| self.rtt(here, *other)) == Some(there)
    }

    /// A link is gone, and all that ran over it.
    fn break_link(&mut self, number: u64) {
        let Some(link) = self.links.remove(&number) else { return };
        self.release(&link);
        let (one, other) = link.ends();
        let now = self.queue.now();
        for (here, there) in [(one, other), (other, one)] {
            if self.sites[here].up && self.mistake != Some(Mistake::Deaf) {
                self.sites[here].machine.link_down(id(there), now);
                self.wake(here);
            }
        }
        let above: Vec<u64> = self
            .links
            .iter()
            .filter(|(_, link)| link.beneath.contains(&number))
            .map(|(number, _)| *number)
            .collect();
        above.into_iter().for_each(|number| self.break_link(number));
        self.redial(one, other);
    }

    /// Ends what can stand no more.
    fn settle(&mut self) {
        let dead = |link: &Link| match link.path[..] {
            [one, other] => !self.may_meet(one, other),
            _ => link.carried.is_some_and(|(relay, _)| self.willing(relay).is_err()),
        };
        let dead: BTreeSet<u64> =
            self.links.iter().filter(|(_, link)| dead(link)).map(|(number, _)| *number).collect();
        dead.into_iter().for_each(|number| self.break_link(number));
    }
}
