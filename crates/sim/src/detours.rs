//! A small world for ways round links on which nothing comes: sites that fetch chunks of each other while packets vanish.
//!
//! The production machine decides whom a reader asks, and when a site in between gives up. Links are as TCP makes them: what
//! is sent while packets vanish is sent again after pauses that double, all that follows waits behind it, and after ten
//! seconds without an acknowledgement the link is gone; so is what was asked over it. Until then nobody is told. Disks are
//! slow at times, operators want nothing carried, processes crash.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::{Instant, SiteId};
use skerry_federation::detour::{Detour, Detours, Near, Next, PATIENCE};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use crate::outcome::Outcome;
use crate::queue::Queue;

mod faults;
mod judge;
mod links;

use judge::Good;
use links::{Line, Link, Word};

/// How long faults strike, and is read.
const ACTIVE: Duration = seconds(600);
/// How often somebody begins to read a body.
const READS: std::ops::RangeInclusive<Duration> = millis(100)..=seconds(4);
/// A reader that was told that nobody has a chunk gives up.
const MOST_CHUNKS: u64 = 12;

/// A deliberate mistake of who builds on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Nobody is asked whether he is there.
    NoPing,
    /// Only the nearest neighbour is told of.
    NearestOnly,
    /// Nobody tells the machine that something came.
    Deaf,
    /// Nobody tells it that a site gave up.
    Hanging,
    /// What was found out for one chunk is not known for the next.
    Forgetful,
    /// Who fetches for another waits as long as the link stands.
    Patient,
    /// Nobody tells the machine that the holder is back.
    Faithful,
    /// What a site says by itself is taken for a sign that it hears.
    Credulous,
}

/// All of them.
pub const MISTAKES: [Mistake; 8] = [
    Mistake::NoPing,
    Mistake::NearestOnly,
    Mistake::Deaf,
    Mistake::Hanging,
    Mistake::Forgetful,
    Mistake::Patient,
    Mistake::Faithful,
    Mistake::Credulous,
];

#[derive(Debug)]
struct Site {
    up: bool,
    willing: bool,
    /// What it is to fetch for others it never comes to, though it talks.
    stuck: bool,
    /// Its disk takes so long.
    disk: Duration,
    detours: Detours,
    /// Words that have come from each.
    came: BTreeMap<usize, u64>,
    /// Of those, what they were asked for.
    answers: BTreeMap<usize, u64>,
}

/// Why a chunk is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// A reader here, who wants so many more behind it.
    Reader(u64),
    /// Another site, which knows it by this number.
    Other(usize, u64),
}

/// A chunk on its way.
#[derive(Debug)]
struct Fetch {
    site: usize,
    holder: usize,
    whom: Whom,
    detour: Detour,
    /// What had come from whoever was asked last.
    seen: Came,
    begun: Instant,
    /// The longest that the holder's disk took meanwhile.
    disk: Duration,
    good: Good,
    asked: BTreeSet<usize>,
    /// The holder was asked and may still answer.
    waits: bool,
    /// What had come from the holder when that was looked at last.
    seen_of_holder: Came,
    /// Sites that were stuck at some time meanwhile.
    stuck: BTreeSet<usize>,
    /// Since when the link with the holder is good, as far as it was looked at.
    straight_since: Option<Instant>,
}

/// Words of a site that have come, and how many of them answer something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Came {
    words: u64,
    answers: u64,
}

#[derive(Debug)]
enum Event {
    Read,
    Wake(u64),
    /// A direction of a link sends again what was not acknowledged.
    Again(Line, u64),
    Arrive(Line, u64, Word),
    Dial(usize, usize),
    /// The disk has the chunk.
    Disk {
        holder: usize,
        asker: usize,
        fetch: u64,
    },
    Strike,
    Mend(faults::Mend),
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    sites: Vec<Site>,
    rtts: BTreeMap<(usize, usize), Duration>,
    /// Packets of the one do not reach the other.
    blocked: BTreeSet<Line>,
    links: BTreeMap<(usize, usize), Link>,
    fetches: BTreeMap<u64, Fetch>,
    numbers: u64,
    mistake: Option<Mistake>,
    outcome: Outcome,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut world = World::new(seed, mistake);
    let end = Instant(0).after(ACTIVE);
    while world.outcome.violations.len() < 8 {
        let Some(event) = world.queue.take(end) else { break };
        world.happen(event);
    }
    world.judge_end();
    world.outcome
}

fn id(site: usize) -> SiteId {
    SiteId([site as u8 + 1; 16])
}

fn number(site: SiteId) -> usize {
    usize::from(site.0[0]) - 1
}

const fn pair(one: usize, other: usize) -> (usize, usize) {
    if one < other { (one, other) } else { (other, one) }
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("detours");
        let count = draw.between(3..=6) as usize;
        let site = |_| Site {
            up: true,
            willing: true,
            stuck: false,
            disk: millis(5),
            detours: Detours::default(),
            came: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        let mut world = Self {
            queue: Queue::default(),
            sites: (0..count).map(site).collect(),
            rtts: BTreeMap::new(),
            blocked: BTreeSet::new(),
            links: BTreeMap::new(),
            fetches: BTreeMap::new(),
            numbers: 0,
            mistake,
            outcome: Outcome::default(),
            draw: draw.fork("world"),
        };
        for one in 0..count {
            for other in one + 1..count {
                world.rtts.insert((one, other), draw.span(millis(1)..=millis(250)));
                world.dial(one, other);
            }
        }
        world.plan(READS, Event::Read);
        world.plan(seconds(5)..=seconds(10), Event::Strike);
        world
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

    fn count(&mut self, what: &'static str) {
        self.outcome.count(what);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Read => self.read(),
            Event::Wake(fetch) => self.wake(fetch),
            Event::Again(line, epoch) => self.again(line, epoch),
            Event::Arrive(line, epoch, word) => self.arrive(line, epoch, word),
            Event::Dial(one, other) => self.dial(one, other),
            Event::Disk { holder, asker, fetch } => {
                if self.sites[holder].up {
                    self.say((holder, asker), Word::Give(fetch));
                }
            }
            Event::Strike => self.strike(),
            Event::Mend(mend) => self.mend(mend),
        }
    }

    /// Somebody begins to read a body that only one other site has.
    fn read(&mut self) {
        self.plan(READS, Event::Read);
        let count = self.sites.len() as u64;
        let site = self.draw.below(count) as usize;
        let holder = (site + 1 + self.draw.below(count - 1) as usize) % self.sites.len();
        let chunks = self.draw.below(MOST_CHUNKS);
        if self.sites[site].up {
            self.fetch((site, holder), Whom::Reader(chunks));
        }
    }

    /// A chunk is asked for.
    fn fetch(&mut self, (site, holder): (usize, usize), whom: Whom) {
        let now = self.queue.now();
        let known = self.known(site, holder).filter(|_| matches!(whom, Whom::Reader(_)));
        let detour = Detour::new(self.near(site, holder), known);
        let (good, asked, seen) = (self.good_between(site, holder), BTreeSet::new(), Came::default());
        let disk = self.sites[holder].disk;
        let fetch = Fetch {
            site,
            holder,
            whom,
            detour,
            seen,
            begun: now,
            disk,
            good,
            asked,
            waits: false,
            seen_of_holder: self.came(site, holder),
            stuck: (0..self.sites.len()).filter(|other| self.sites[*other].stuck).collect(),
            straight_since: None,
        };
        self.numbers += 1;
        self.fetches.insert(self.numbers, fetch);
        self.wake(self.numbers);
    }

    fn near(&self, site: usize, other: usize) -> Near {
        Near { site: id(other), rtt: Some(self.rtt(site, other)), is_paid: false }
    }

    fn came(&self, site: usize, from: usize) -> Came {
        let of = |counts: &BTreeMap<usize, u64>| counts.get(&from).copied().unwrap_or_default();
        let Site { came, answers, .. } = &self.sites[site];
        Came { words: of(came), answers: of(answers) }
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        self.links.get(&pair(one, other)).is_some_and(|link| link.up)
    }

    /// Who is known to have a way to a holder.
    fn known(&self, site: usize, holder: usize) -> Option<Near> {
        let known =
            self.sites[site].detours.known(id(holder), self.came(site, holder).answers, self.queue.now());
        let known = known.filter(|_| self.mistake != Some(Mistake::Forgetful));
        known.map(|by| self.near(site, number(by)))
    }

    /// Whom a site may ask to fetch a chunk. While the holder may still answer, only one at a time looks for a way.
    fn neighbours(&mut self, (site, holder): Line, number_of: u64, waits: bool) -> Vec<Near> {
        if waits && !self.sites[site].detours.may_look(id(holder), number_of) {
            return self.known(site, holder).into_iter().collect();
        }
        let linked = |other: &usize| *other != site && self.linked(site, *other);
        let mut near: Vec<Near> = (0..self.sites.len())
            .filter(linked)
            .filter(|other| *other != holder)
            .map(|other| self.near(site, other))
            .collect();
        if self.mistake == Some(Mistake::NearestOnly) {
            near.sort_by_key(|near| near.rtt);
            near.truncate(1);
        }
        near
    }

    /// Lets a machine act, and plans when it is to act again.
    fn wake(&mut self, number_of: u64) {
        let Some(mut fetch) = self.fetches.remove(&number_of) else { return };
        let ends @ (site, holder) = (fetch.site, fetch.holder);
        let is_reader = matches!(fetch.whom, Whom::Reader(_));
        if !self.sites[site].up {
            return self.sites[site].detours.looked(id(holder), number_of);
        }
        self.listen(&mut fetch);
        self.note_straight(&mut fetch);
        if let Some(known) = self.known(site, holder).filter(|_| is_reader) {
            fetch.detour.tell(known);
        }
        loop {
            let (now, waits) = (self.queue.now(), fetch.waits);
            // Who fetches for another asks nobody further.
            let near = || if is_reader { self.neighbours(ends, number_of, waits) } else { Vec::new() };
            match fetch.detour.step(near, now) {
                Next::Ask(other) => self.ask(number_of, &mut fetch, number(other)),
                Next::Ping(other) => {
                    self.count("pings");
                    if self.mistake != Some(Mistake::NoPing) {
                        self.say((site, number(other)), Word::Ping);
                    }
                }
                Next::Rest(None) if self.gives_up(&fetch) => return self.failed(number_of, fetch),
                Next::Rest(at) => {
                    if at.is_none() {
                        self.sites[site].detours.looked(id(holder), number_of);
                    }
                    self.queue.plan(at.unwrap_or_else(|| now.after(PATIENCE / 4)), Event::Wake(number_of));
                    self.fetches.insert(number_of, fetch);
                    return;
                }
                Next::Over => return self.failed(number_of, fetch),
            }
        }
    }

    /// One that fetches for another says so at once where the link is silent.
    fn gives_up(&self, fetch: &Fetch) -> bool {
        matches!(fetch.whom, Whom::Other(..)) && self.mistake != Some(Mistake::Patient)
    }

    /// Has it come to the machine's ears what came?
    fn listen(&mut self, fetch: &mut Fetch) {
        let (site, holder) = (fetch.site, fetch.holder);
        if let Some(last) = fetch.detour.last() {
            let came = self.came(site, number(last));
            self.tell(fetch, last, came, fetch.seen);
            fetch.seen = came;
        }
        let came = self.came(site, holder);
        if self.mistake != Some(Mistake::Faithful) {
            self.tell(fetch, id(holder), came, fetch.seen_of_holder);
        }
        fetch.seen_of_holder = came;
    }

    /// Tells a machine what came of a site since it was told last.
    fn tell(&self, fetch: &mut Fetch, from: SiteId, came: Came, seen: Came) {
        let is_credulous = self.mistake == Some(Mistake::Credulous);
        if self.mistake == Some(Mistake::Deaf) || came == seen {
            return;
        }
        if came.answers > seen.answers || is_credulous {
            fetch.detour.answered(from, self.queue.now());
        } else {
            fetch.detour.heard(from, self.queue.now());
        }
    }

    fn ask(&mut self, number_of: u64, fetch: &mut Fetch, other: usize) {
        fetch.asked.insert(other);
        fetch.seen = self.came(fetch.site, other);
        fetch.waits |= other == fetch.holder;
        self.judge_asked(fetch, other);
        if !self.linked(fetch.site, other) {
            return self.end(fetch, other);
        }
        let way = (other != fetch.holder).then_some(fetch.holder);
        if way.is_some() {
            self.count("detours");
        }
        self.say((fetch.site, other), Word::Ask(number_of, way));
    }

    fn end(&self, fetch: &mut Fetch, other: usize) {
        fetch.waits &= other != fetch.holder;
        if self.mistake != Some(Mistake::Hanging) || other == fetch.holder {
            fetch.detour.ended(id(other));
        }
    }

    fn came_to(&mut self, here: usize, from: usize, is_answer: bool) {
        *self.sites[here].came.entry(from).or_default() += 1;
        *self.sites[here].answers.entry(from).or_default() += u64::from(is_answer);
    }

    /// A word of another site.
    fn hear(&mut self, (from, to): Line, word: Word) {
        self.came_to(to, from, matches!(word, Word::Give(_) | Word::Refuse(_) | Word::Pong));
        match word {
            Word::Ask(fetch, None) => {
                let disk = self.sites[to].disk;
                self.after(disk, Event::Disk { holder: to, asker: from, fetch });
            }
            Word::Ask(_, Some(_)) if self.sites[to].stuck => {}
            Word::Ask(fetch, Some(holder)) => {
                if self.sites[to].willing && self.linked(to, holder) {
                    self.fetch((to, holder), Whom::Other(from, fetch));
                } else {
                    self.say((to, from), Word::Refuse(fetch));
                }
            }
            Word::Give(fetch) => self.given(fetch, (from, to)),
            Word::Refuse(fetch) => {
                if let Some(mut refused) = self.fetches.remove(&fetch).filter(|fetch| fetch.site == to) {
                    self.end(&mut refused, from);
                    self.fetches.insert(fetch, refused);
                    self.wake(fetch);
                }
            }
            Word::Ping => self.say((to, from), Word::Pong),
            Word::Pong => {}
        }
    }

    fn given(&mut self, number_of: u64, (from, to): Line) {
        let Some(fetch) = self.fetches.remove(&number_of) else { return };
        self.count("chunks");
        self.judge_time(&fetch);
        let (now, answers) = (self.queue.now(), self.came(to, fetch.holder).answers);
        self.sites[to].detours.looked(id(fetch.holder), number_of);
        if from == fetch.holder {
            self.sites[to].detours.forget(id(fetch.holder));
        } else {
            self.count("chunks by way of others");
            self.sites[to].detours.learn(id(fetch.holder), id(from), answers, now);
        }
        match fetch.whom {
            Whom::Reader(0) => self.count("bodies"),
            Whom::Reader(more) => self.fetch((fetch.site, fetch.holder), Whom::Reader(more - 1)),
            Whom::Other(asker, theirs) => self.say((to, asker), Word::Give(theirs)),
        }
    }

    /// Nobody gave it.
    fn failed(&mut self, number_of: u64, fetch: Fetch) {
        self.sites[fetch.site].detours.looked(id(fetch.holder), number_of);
        match fetch.whom {
            Whom::Reader(_) => self.judge_failed(&fetch),
            Whom::Other(asker, theirs) => self.say((fetch.site, asker), Word::Refuse(theirs)),
        }
    }
}
