//! Sites that leave a bucket while others are emptied to be switched off, and the other way round.
//!
//! Both production machines ([`Departures`], [`Drain`]) at every site, one bucket, no fires: whoever goes must leave behind
//! what only it has, to somebody who does not go by what it was told meanwhile. Nobody ever hears of the duty of another but
//! by asking: the worst case. `kept`: what was acknowledged is, record and body, at a site that may not be switched off.
//! `ended`: once healed, with one site that stays, everybody who wanted to go has gone. In the worlds of [`run_of_promises`]
//! writes are answered for several sites and the bucket wants copies in an area (`promises.rs`).

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;
use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId, Vector};
use skerry_federation::Together;
use skerry_federation::departure::{self, Attempt, Departures, Standing, Verdict};
use skerry_federation::drain::{Drain, Held, Input, Output, Own, Word};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;
use crate::queue::Queue;

mod handing;
mod promises;

const BUCKET: BucketId = BucketId([1; 16]);
/// Copies that the bucket wants.
const COPIES: usize = 1;
/// Trouble lasts so long, and quiet after it.
const STORM: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(90);

/// A mistake that the checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Who is emptied says to who leaves that it stays, and takes what that one hands over.
    EmptiedStays,
    /// Who leaves says to who is emptied that it stays, and takes what that one hands over.
    LeaverStays,
    /// Who goes does not look at how many sites the record of a write was answered for.
    PromiseForgotten,
    /// Who goes takes those that it cannot ask for none, where more hold what was promised.
    AwayForgotten,
    /// Who goes leaves one copy behind, wherever that is, whatever the bucket wants.
    WishForgotten,
    /// Who leaves counts on what a silent site is believed to hold.
    SilentHolds,
}

/// What a site says of itself to one that goes.
#[derive(Debug, Clone)]
struct Said {
    standing: Standing,
    life: Origin,
    held: Vec<Dot>,
}

#[derive(Debug)]
enum Event {
    Client {
        site: usize,
    },
    /// Two members exchange records.
    Gossip {
        one: usize,
        other: usize,
    },
    /// An operator says something.
    Order,
    /// The workers of a site.
    Turn {
        site: usize,
        boot: u64,
    },
    /// A question of one that leaves (with its round) or is emptied; then the answer.
    Ask {
        site: usize,
        boot: u64,
        other: usize,
        round: Option<u64>,
    },
    Answer {
        site: usize,
        boot: u64,
        other: usize,
        round: Option<u64>,
        said: Option<Said>,
    },
    /// A body is to be held, and then is or is not: for the n-th wish to leave, or for one that is emptied.
    Hold {
        site: usize,
        boot: u64,
        other: usize,
        dot: Dot,
        wish: Option<u64>,
    },
    Took {
        site: usize,
        boot: u64,
        other: usize,
        life: Origin,
        dot: Dot,
        wish: Option<u64>,
    },
    /// The commit that lets go, if what was said still holds for what is there.
    LetGo {
        site: usize,
        boot: u64,
        wish: u64,
        attempt: Attempt,
        heard: BTreeMap<SiteId, Origin>,
    },
    /// A disk is gone; later the site begins anew.
    Burn,
    /// A site said that it takes nothing of the bucket.
    Refused {
        site: usize,
        boot: u64,
        other: usize,
    },
    /// The bodies were looked through.
    Scan {
        site: usize,
        boot: u64,
    },
    Strike,
    Heal(usize, usize),
    Start(usize),
}

#[derive(Debug)]
struct Site {
    id: SiteId,
    /// Durable: what it has of the bucket.
    records: BTreeSet<Dot>,
    bodies: BTreeSet<Dot>,
    /// Durable: whether it is a member, and has taken once what a whole one had.
    member: bool,
    whole: bool,
    /// Durable: whether it may be made a member by what others want held.
    out: bool,
    /// Durable: it is to leave the bucket; it is to be emptied.
    wish: bool,
    drained: bool,
    /// Said that it is empty: it may be switched off.
    empty: bool,
    /// Counts starts and departures: own records are of an origin of its own in each.
    life: u64,
    seq: u64,
    boot: u64,
    up: bool,
    departures: Departures,
    /// How often it wished to leave.
    wishes: u64,
    /// Durable: what others said that they hold, and in which life.
    book: BTreeMap<Dot, BTreeMap<SiteId, Origin>>,
    /// Who answered in the round at hand, in which life.
    heard: BTreeMap<SiteId, Origin>,
    /// Its disk is gone, and nobody knows it yet.
    burnt: bool,
    /// Who said to this process that it takes nothing.
    refusing: BTreeSet<SiteId>,
    drain: Drain,
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    mistake: Option<Mistake>,
    sites: Vec<Site>,
    cuts: BTreeSet<(usize, usize)>,
    /// What was acknowledged; of these a delete has no body.
    acknowledged: BTreeSet<Dot>,
    deletes: BTreeSet<Dot>,
    resting: bool,
    /// What was promised, where anything is.
    promises: Option<promises::Promises>,
    outcome: Outcome,
}

/// Runs a seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("goings"), mistake, false)
}

/// Runs a seed in which writes are answered for several sites, and the bucket wants copies in an area.
pub fn run_of_promises(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("goings with promises"), mistake, true)
}

fn run_by(mut draw: Draw, mistake: Option<Mistake>, promises: bool) -> Outcome {
    let count = 3 + draw.below(2) as usize;
    let sites = (0..count).map(|_| Site::new(&mut draw)).collect();
    let mut world = World {
        queue: Queue::default(),
        draw,
        mistake,
        sites,
        cuts: BTreeSet::new(),
        acknowledged: BTreeSet::new(),
        deletes: BTreeSet::new(),
        resting: false,
        promises: None,
        outcome: Outcome::default(),
    };
    if promises {
        world.promise();
    }
    world.begin();
    world.go_until(Instant(0).after(STORM));
    world.rest();
    world.go_until(Instant(0).after(STORM + QUIET));
    world.judge_end();
    world.outcome
}

impl Site {
    fn new(draw: &mut Draw) -> Self {
        Self {
            id: SiteId(draw.identity()),
            records: BTreeSet::new(),
            bodies: BTreeSet::new(),
            member: true,
            whole: true,
            out: false,
            wish: false,
            drained: false,
            empty: false,
            life: 1,
            seq: 0,
            boot: 1,
            up: true,
            departures: Departures::default(),
            wishes: 0,
            book: BTreeMap::new(),
            heard: BTreeMap::new(),
            burnt: false,
            refusing: BTreeSet::new(),
            drain: Drain::new(),
        }
    }

    fn origin(&self) -> Origin {
        Origin { node: NodeId(self.id.0), incarnation: self.life }
    }

    /// Up to where all of each origin is here.
    fn vector(&self) -> Vector {
        let mut vector = Vector::new();
        for dot in &self.records {
            if dot.seq == vector.get(dot.origin) + 1 {
                vector.add(*dot);
            }
        }
        vector
    }

    fn begin(&mut self) {
        (self.up, self.boot, self.life, self.seq) = (true, self.boot + 1, self.life + 1, 0);
        (self.departures, self.drain) = (Departures::default(), Drain::new());
        self.heard.clear();
        self.refusing.clear();
        if std::mem::take(&mut self.burnt) {
            self.member = false;
        }
        if self.wish {
            self.departures.begin(BUCKET);
        }
    }

    fn joins(&mut self) {
        if !self.member {
            (self.member, self.whole) = (true, false);
        }
    }

    fn lets_go(&mut self) {
        self.records.clear();
        self.bodies.clear();
        self.book.clear();
        (self.member, self.whole, self.wish, self.out) = (false, false, false, true);
        (self.life, self.seq) = (self.life + 1, 0);
        self.departures.end(BUCKET);
    }
}

impl World {
    fn begin(&mut self) {
        for site in 0..self.sites.len() {
            self.plan(millis(1)..=seconds(1), Event::Client { site });
            self.plan(millis(1)..=seconds(1), Event::Turn { site, boot: 1 });
            for other in site + 1..self.sites.len() {
                self.plan(millis(1)..=seconds(1), Event::Gossip { one: site, other });
            }
        }
        self.plan(seconds(2)..=seconds(5), Event::Order);
        self.plan(seconds(2)..=seconds(9), Event::Strike);
    }

    fn plan(&mut self, span: std::ops::RangeInclusive<Duration>, event: Event) {
        let at = self.queue.now().after(self.draw.span(span));
        self.queue.plan(at, event);
    }

    /// A message: mostly soon, sometimes late.
    fn pass(&mut self, event: Event) {
        let late = self.draw.chance(Ppm::percent(20));
        let span = if late { millis(1)..=millis(1500) } else { millis(1)..=millis(30) };
        self.plan(span, event);
    }

    fn go_until(&mut self, end: Instant) {
        while self.outcome.violations.is_empty() {
            let Some(event) = self.queue.take(end) else { return self.queue.skip_to(end) };
            self.happen(event);
        }
    }

    fn count(&mut self, what: &'static str) {
        self.outcome.count(what);
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        let cut = self.cuts.contains(&(one.min(other), one.max(other)));
        !cut && self.sites[one].up && self.sites[other].up
    }

    fn is_up(&self, site: usize, boot: u64) -> bool {
        self.sites[site].up && self.sites[site].boot == boot
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Client { site } => self.client(site),
            Event::Gossip { one, other } => self.gossip(one, other),
            Event::Order => self.order(),
            Event::Turn { site, boot } if self.is_up(site, boot) => self.turn(site, boot),
            Event::Ask { site, boot, other, round } => self.asked(site, boot, other, round),
            Event::Answer { site, boot, other, round, said } if self.is_up(site, boot) => {
                let said = said.filter(|_| self.linked(site, other));
                match round {
                    Some(round) => self.heard_leaving(site, other, round, said),
                    None => self.heard_emptied(site, other, said),
                }
            }
            Event::Hold { site, boot, other, dot, wish } => self.hold((site, boot), other, dot, wish),
            Event::Took { site, boot, other, life, dot, wish } if self.is_up(site, boot) => {
                let id = self.sites[other].id;
                match wish {
                    None => self.tell(site, Input::Took(BUCKET, dot, id)),
                    Some(_) => {
                        self.sites[site].book.entry(dot).or_default().insert(id, life);
                    }
                }
            }
            Event::LetGo { site, boot, wish, attempt, heard } if self.is_up(site, boot) => {
                self.let_go(site, wish, (&attempt, &heard));
            }
            Event::Burn => self.burn(),
            Event::Refused { site, boot, other } if self.is_up(site, boot) => {
                let id = self.sites[other].id;
                self.sites[site].refusing.insert(id);
            }
            Event::Scan { site, boot } if self.is_up(site, boot) => self.scan(site),
            Event::Strike => self.strike(),
            Event::Heal(one, other) => {
                self.cuts.remove(&(one, other));
                self.trouble(one, other);
            }
            Event::Start(site) => {
                if !self.sites[site].up {
                    self.start(site);
                }
            }
            Event::Turn { .. } | Event::Answer { .. } | Event::Took { .. } => {}
            Event::LetGo { .. } | Event::Scan { .. } | Event::Refused { .. } => {}
        }
    }

    fn start(&mut self, site: usize) {
        self.sites[site].begin();
        self.shaken(site);
        let boot = self.sites[site].boot;
        self.plan(millis(1)..=seconds(1), Event::Turn { site, boot });
    }

    /// A write; it makes a member. One that is emptied takes none.
    fn client(&mut self, site: usize) {
        if self.resting {
            return;
        }
        self.plan(millis(10)..=seconds(4), Event::Client { site });
        let place = &mut self.sites[site];
        if !place.up || place.drained {
            return;
        }
        place.joins();
        place.seq += 1;
        let dot = Dot { origin: place.origin(), seq: place.seq };
        place.records.insert(dot);
        self.acknowledged.insert(dot);
        if self.draw.chance(Ppm::percent(40)) {
            self.deletes.insert(dot);
        } else {
            self.sites[site].bodies.insert(dot);
        }
        self.answer_for(site, dot);
        self.count("writes");
    }

    fn gossip(&mut self, one: usize, other: usize) {
        self.plan(millis(50)..=seconds(1), Event::Gossip { one, other });
        if !self.linked(one, other) || !self.sites[one].member || !self.sites[other].member {
            return;
        }
        let both: BTreeSet<Dot> =
            self.sites[one].records.union(&self.sites[other].records).copied().collect();
        let whole = self.sites[one].whole || self.sites[other].whole;
        for site in [one, other] {
            self.sites[site].records.clone_from(&both);
            self.sites[site].whole = whole;
        }
    }

    /// Somebody wants something of a site, and often of another just then. All may be sent away: only the rest
    /// keeps one.
    fn order(&mut self) {
        if self.resting {
            return;
        }
        self.plan(millis(10)..=seconds(9), Event::Order);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        self.order_of(site);
        // Often of another in the same breath, with the rest out of reach.
        if self.draw.below(2) == 0 {
            let other = (site + 1 + self.draw.below(self.sites.len() as u64 - 1) as usize) % self.sites.len();
            self.order_of(other);
            for third in (0..self.sites.len()).filter(|third| ![site, other].contains(third)) {
                self.cut(third, site);
                self.cut(third, other);
            }
        }
    }

    fn order_of(&mut self, site: usize) {
        self.turned(site);
        let place = &mut self.sites[site];
        match self.draw.below(5) {
            0 | 1 if place.member && place.up => {
                if !std::mem::replace(&mut place.wish, true) {
                    place.wishes += 1;
                }
                place.departures.begin(BUCKET);
                self.count("departures");
            }
            2 | 3 if place.up => {
                place.drained = true;
                self.count("drains");
            }
            _ if place.up => {
                // Called back; it joins again.
                (place.wish, place.drained, place.empty, place.out) = (false, false, false, false);
                place.departures.end(BUCKET);
                place.joins();
                self.count("called back");
            }
            _ => {}
        }
    }

    fn turn(&mut self, site: usize, boot: u64) {
        self.plan(millis(200)..=seconds(2), Event::Turn { site, boot });
        let others: Vec<usize> = (0..self.sites.len()).filter(|other| *other != site).collect();
        if let Some(round) = self.sites[site].departures.ask(BUCKET) {
            self.sites[site].heard.clear();
            let linked = others.iter().copied().filter(|other| self.linked(site, *other));
            for other in linked.collect::<Vec<_>>() {
                self.pass(Event::Ask { site, boot, other, round: Some(round) });
            }
        }
        if !self.sites[site].drained {
            self.sites[site].drain = Drain::new();
            return;
        }
        if self.sites[site].drain.is_resting() {
            let fit = others.iter().filter(|other| self.linked(site, **other));
            let fit: Vec<SiteId> = fit.map(|other| self.sites[*other].id).collect();
            self.tell(site, Input::Sites(fit));
            let members = self.sites.iter().filter(|other| other.member).map(|other| other.id).collect();
            let place = &self.sites[site];
            let own = Own { vector: place.vector(), members, ..Own::default() };
            let own = if place.member { [(BUCKET, own)].into() } else { BTreeMap::new() };
            self.tell(site, Input::Look(own));
        }
    }

    /// What a site says to one that goes.
    fn asked(&mut self, site: usize, boot: u64, other: usize, round: Option<u64>) {
        let place = &self.sites[other];
        let goes = match round {
            Some(_) => place.wish || (place.drained && self.mistake != Some(Mistake::EmptiedStays)),
            None => place.drained || (place.wish && self.mistake != Some(Mistake::LeaverStays)),
        };
        let standing = match place {
            Site { member: false, .. } => Standing::Absent,
            _ if goes => Standing::Leaves,
            Site { whole: false, .. } => Standing::Joins,
            _ => Standing::Stays { vector: place.vector(), loose: Vec::new() },
        };
        let said = Said { standing, life: place.origin(), held: place.bodies.iter().copied().collect() };
        let said = Some(said).filter(|_| self.linked(site, other));
        self.pass(Event::Answer { site, boot, other, round, said });
    }

    fn heard_leaving(&mut self, site: usize, other: usize, round: u64, said: Option<Said>) {
        let id = self.sites[other].id;
        let place = &mut self.sites[site];
        let Some(said) = said else { return };
        if !place.departures.said(BUCKET, round, id, said.standing) {
            return;
        }
        let Some(attempt) = place.departures.attempt(BUCKET) else { return };
        let (boot, wish) = (place.boot, place.wishes);
        place.heard.insert(id, said.life);
        for holders in place.book.values_mut() {
            holders.remove(&id);
        }
        for dot in said.held {
            place.book.entry(dot).or_default().insert(id, said.life);
        }
        let heard = place.heard.clone();
        let (near, all) = self.takers(site, &attempt);
        for dot in self.sites[site].bodies.clone() {
            let have = self.holders(site, dot, (&all, &heard));
            self.have_held(site, dot, (&self.left(dot, &near, &all), &have, &near), Some(wish));
        }
        if self.may_go(site, (&attempt, &heard)) {
            self.plan(millis(1)..=seconds(3), Event::LetGo { site, boot, wish, attempt, heard });
        }
    }

    fn other_members(&self, site: usize) -> BTreeSet<SiteId> {
        let others = self.sites.iter().enumerate().filter(|(other, place)| *other != site && place.member);
        others.map(|(_, place)| place.id).collect()
    }

    /// Whether all that is here is at enough others, as they said.
    fn may_go(&self, site: usize, (attempt, heard): (&Attempt, &BTreeMap<SiteId, Origin>)) -> bool {
        let place = &self.sites[site];
        let own = departure::Own { vector: place.vector(), loose: Vec::new() };
        let loose = place.records.iter().any(|dot| !own.vector.covers(*dot));
        let (near, all) = self.takers(site, attempt);
        let is_handed = |dot: &Dot| {
            let have = self.holders(site, *dot, (&all, heard));
            self.left(*dot, &near, &all).is_met(&have, &Together::default())
        };
        let handed = place.bodies.iter().all(is_handed);
        handed && !loose && attempt.judge(&own, COPIES, &self.other_members(site)) == Verdict::Go
    }

    fn let_go(&mut self, site: usize, wish: u64, said: (&Attempt, &BTreeMap<SiteId, Origin>)) {
        let place = &self.sites[site];
        if !place.wish || place.wishes != wish || !self.may_go(site, said) {
            return self.count("not let go");
        }
        let held = self.sites[site].bodies.clone();
        self.sites[site].lets_go();
        self.count("left");
        self.judge(site, "left");
        self.judge_left(site, &held);
    }

    /// A body is held by who does not go; of who left only if it joined again.
    fn hold(&mut self, (site, boot): (usize, u64), other: usize, dot: Dot, wish: Option<u64>) {
        let has = |from: &usize| {
            (*from == other || self.linked(*from, other)) && self.sites[*from].bodies.contains(&dot)
        };
        let found = self.deletes.contains(&dot) || (0..self.sites.len()).any(|from| has(&from));
        let takes = self.linked(site, other) && self.sites[site].records.contains(&dot) && found;
        let (has_body, mistake) = (!self.deletes.contains(&dot), self.mistake);
        let place = &mut self.sites[other];
        let goes = (place.drained && (wish.is_none() || mistake != Some(Mistake::EmptiedStays)))
            || (place.wish && (wish.is_some() || mistake != Some(Mistake::LeaverStays)));
        // Who follows nothing says so; who is about to go is known to be by its duty, which is not played here.
        if (place.out || goes) && !place.member {
            if self.linked(site, other) {
                self.pass(Event::Refused { site, boot, other });
            }
            return;
        }
        if !takes || goes {
            return;
        }
        place.joins();
        place.records.insert(dot);
        if has_body {
            place.bodies.insert(dot);
        }
        let life = place.origin();
        self.pass(Event::Took { site, boot, other, life, dot, wish });
    }

    fn heard_emptied(&mut self, site: usize, other: usize, said: Option<Said>) {
        let id = self.sites[other].id;
        let word = |seen: Option<Vector>, life, held: Vec<Dot>| {
            let upto = held.iter().copied().fold(Vector::new(), |mut upto, dot| {
                upto.advance(dot.origin, dot.seq.max(upto.get(dot.origin)));
                upto
            });
            let held = Held { from: Vector::new(), spans: held.into_iter().collect(), upto };
            Input::Said(BUCKET, id, Word { life, seen, held })
        };
        let input = match said {
            None => Input::Silent(BUCKET, id),
            Some(Said { standing: Standing::Leaves | Standing::Absent, .. }) => Input::Goes(BUCKET, id),
            Some(Said { standing: Standing::Joins, life, held }) => word(None, life, held),
            Some(Said { standing: Standing::Stays { vector, .. }, life, held }) => {
                word(Some(vector), life, held)
            }
        };
        self.tell(site, input);
    }

    fn tell(&mut self, site: usize, input: Input) {
        let (mut out, now) = (Vec::new(), self.queue.now());
        let place = &mut self.sites[site];
        if !place.drained {
            return;
        }
        place.drain.handle(input, now, &mut out);
        let boot = place.boot;
        let number = |sites: &[Site], id: SiteId| sites.iter().position(|other| other.id == id);
        for output in out {
            match output {
                Output::Ask { site: to, .. } => {
                    let Some(other) = number(&self.sites, to) else { continue };
                    self.pass(Event::Ask { site, boot, other, round: None });
                }
                Output::Follow(_, to) => {
                    let Some(other) = number(&self.sites, to) else { continue };
                    if self.linked(site, other) && !self.sites[other].drained {
                        self.sites[other].joins();
                    }
                }
                Output::Scan => self.pass(Event::Scan { site, boot }),
                Output::Safe(vectors) => self.safe(site, &vectors),
                Output::Hand(..) | Output::Lacks(_) | Output::Doubt => {}
            }
        }
    }

    fn scan(&mut self, site: usize) {
        let place = &self.sites[site];
        let vector = place.vector();
        let refuses = |other: &Site| place.refusing.contains(&other.id) && !other.member;
        let others = self.sites.iter().enumerate();
        let may = others.filter(|(number, other)| *number != site && !refuses(other));
        let (numbers, may): (Vec<usize>, BTreeSet<SiteId>) =
            may.map(|(number, other)| (number, other.id)).unzip();
        let near = numbers.into_iter().filter(|other| self.linked(site, *other));
        let near: BTreeSet<SiteId> = near.map(|other| self.sites[other].id).collect();
        let all = if self.mistake == Some(Mistake::AwayForgotten) { &near } else { &may };
        let apart = Together::default();
        let lacks = |dot: &Dot| {
            let (wish, promised) = self.asked_of(*dot);
            let kept = place.drain.is_kept((BUCKET, *dot), (&wish, promised), all, &apart);
            let held = place.drain.holds(BUCKET, *dot) || place.drain.has_record(BUCKET, *dot);
            (place.bodies.contains(dot) && !kept) || (!vector.covers(*dot) && !held)
        };
        let lacking: Vec<Dot> = place.records.iter().copied().filter(lacks).collect();
        let count = lacking.len() as u64;
        for dot in lacking {
            let (wish, promised) = self.asked_of(dot);
            let place = &self.sites[site];
            let demand = place.drain.demand(BUCKET, (&wish, promised), all, &apart);
            let have = place.drain.holders(BUCKET, dot);
            self.have_held(site, dot, (&demand, &have, &near), None);
        }
        self.tell(site, Input::Scanned { bodies: count, bytes: count, others: 0, believed: 0 });
    }

    fn safe(&mut self, site: usize, vectors: &BTreeMap<BucketId, Vector>) {
        let before = vectors.get(&BUCKET).cloned().unwrap_or_default();
        let place = &self.sites[site];
        let node = NodeId(place.id.0);
        if place.vector().iter().any(|(origin, seq)| origin.node == node && seq > before.get(origin)) {
            return self.count("written meanwhile");
        }
        if !std::mem::replace(&mut self.sites[site].empty, true) {
            self.count("emptied");
        }
        let held = self.sites[site].bodies.clone();
        self.judge(site, "said that it is empty");
        self.judge_left(site, &held);
    }

    /// Whatever was acknowledged is at somebody who may not be switched off.
    fn judge(&mut self, site: usize, what: &str) {
        let there = || self.sites.iter().filter(|place| !place.empty);
        let kept = |dot: &Dot| {
            there().any(|place| place.records.contains(dot))
                && (self.deletes.contains(dot) || there().any(|place| place.bodies.contains(dot)))
        };
        if self.is_after_fire() {
            // What was held where it burned since others were asked nobody promised to save.
            let still: BTreeSet<Dot> = self.acknowledged.iter().copied().filter(|dot| kept(dot)).collect();
            self.acknowledged = still;
            return;
        }
        if let Some(lost) = self.acknowledged.iter().find(|dot| !kept(dot)) {
            let what = format!("{lost} is nowhere after site-{site} {what}");
            self.outcome.violations.push(("kept", what));
        }
    }

    /// Nobody reaches it, or everybody does again.
    fn shaken(&mut self, site: usize) {
        (0..self.sites.len()).filter(|other| *other != site).for_each(|other| self.trouble(site, other));
    }

    fn cut(&mut self, one: usize, other: usize) {
        let link = (one.min(other), one.max(other));
        self.trouble(one, other);
        if self.cuts.insert(link) {
            self.plan(millis(100)..=seconds(15), Event::Heal(link.0, link.1));
        }
    }

    fn strike(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(1)..=seconds(9), Event::Strike);
        let site = self.draw.below(self.sites.len() as u64) as usize;
        let other = (site + 1 + self.draw.below(self.sites.len() as u64 - 1) as usize) % self.sites.len();
        if self.draw.chance(Ppm::percent(60)) {
            self.cut(site, other);
        } else if self.sites[site].up {
            self.count("crashes");
            self.shaken(site);
            self.sites[site].up = false;
            self.plan(millis(100)..=seconds(5), Event::Start(site));
        }
    }

    /// Everything is mended, nobody writes, and the first site stays.
    fn rest(&mut self) {
        self.resting = true;
        for (one, other) in std::mem::take(&mut self.cuts) {
            self.trouble(one, other);
        }
        self.turned(0);
        for site in 0..self.sites.len() {
            if !self.sites[site].up {
                self.start(site);
            }
        }
        let place = &mut self.sites[0];
        (place.wish, place.drained, place.empty, place.out) = (false, false, false, false);
        place.departures.end(BUCKET);
        place.joins();
        // A bucket that only members know that are still taking it is nobody's to be whole of: the stayer is.
        if self.sites.iter().all(|site| !site.whole) {
            self.sites[0].whole = true;
        }
    }

    fn judge_end(&mut self) {
        let stuck = |(_, site): &(usize, &Site)| site.wish || (site.drained && !site.empty);
        let stuck: Vec<usize> = self.sites.iter().enumerate().filter(stuck).map(|(n, _)| n).collect();
        for site in stuck.into_iter().filter(|_| self.outcome.violations.is_empty()).collect::<Vec<_>>() {
            let place = &self.sites[site];
            let what = format!("site-{site} has not gone: wish {}, drained {}", place.wish, place.drained);
            self.outcome.violations.push(("ended", what));
        }
    }
}
