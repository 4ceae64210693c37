//! A second, smaller world for copies that count: sites with what is durable as plain sets, the production placement
//! machine, cuts, crashes, full disks, sites that burn, are declared lost and come back.
//!
//! Why beside [`crate::world`]: there bodies lie in production stores and every promise about records is judged; here
//! nothing is judged but copies, thousands of seeds a minute, and what is durable is known without asking anybody.
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId};
use skerry_federation::Together;
use skerry_federation::placement::{Candidate, Failure, Input, Output, Placement, Spans, Want, custodian};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;
use crate::queue::Queue;

mod areas;
pub mod backlog;
mod caps;
mod drain;
mod faults;
mod judge;
mod nodes;
mod reads;
mod scopes;
mod trim;

/// The only bucket.
const BUCKET: BucketId = BucketId([1; 16]);

/// A deliberate mistake of who builds on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A holder answers before its disk has synced.
    EarlyAnswer,
    /// What a site held before its disk burned is believed after it came back.
    OldClaims,
    /// Nobody takes over from a lost custodian.
    NoTakeover,
    /// Who is silent is taken for one who does not have it.
    SilenceIsLack,
    /// A site that was declared lost does not notice that it is there with its disk.
    NeverBack,
    /// A site that is being drained believes what others said in a former life.
    OldWords,
    /// It takes writes on, and says that it is empty though some came since it looked.
    WrittenMeanwhile,
    /// A reader takes a site that is being drained for a lost one: its silence is no matter.
    DrainedIsLost,
    /// A site that is being drained lets another that is being drained rest on it.
    DrainedStays,
    /// Who lets go of a copy takes what a silent site said once for its answer.
    TrimByBelief,
    /// It lets go though others go on counting on it.
    TrimUnheard,
    /// Whoever finds enough others lets go: in no order, counting on who is about to let go as well, and no custodian objects.
    NoOrder,
    /// Who is asked to count on a site no more forgets that its question what that site holds is still on its way.
    ForgetsMeanwhile,
    /// A site that let go of copies says "as I said" to who was lost meanwhile.
    WordStands,
    /// Who lets go of a copy does not look at what areas ask for, nor does who is asked.
    AreasUnheeded,
    /// Copies are placed by the areas that sites were in when the process was started.
    FormerArea,
    /// An area of too few sites is waited for for ever.
    TooFewBlocks,
    /// A site that takes nothing of the bucket is waited for like any other one of its area.
    DecliningCounts,
    /// What another node of a site holds is taken for held by each of them.
    NeighbourCounts,
    /// A write that is to be durable in its area counts a site of another one.
    ForeignCounts,
    /// It counts sites where they were when it came in.
    MovedCounts,
    /// It counts two nodes of a site as two places.
    NodesCount,
    /// It counts who does not answer.
    SilentCounts,
    /// It counts who is lost, or about to go.
    LostCount,
    /// Who lets go of copies does not look at what the record says of how many a write was answered for.
    PromiseForgotten,
    /// A site whose cap is lowered drops what it holds beyond it.
    CapDrops,
    /// It looks at what it holds, not at what is on its way.
    CapUnreserved,
    /// What a site said of its cap is believed though it was started anew.
    CapStands,
}

/// What can happen next.
#[derive(Debug)]
enum Event {
    /// A client writes, or deletes.
    Client { site: usize },
    /// The worker of a site looks at its records.
    Look { site: usize, boot: u64 },
    /// A question arrives at a holder.
    Hold { from: usize, to: usize, dot: Dot, boot: u64 },
    /// A holder's disk has done it.
    Stored { from: usize, to: usize, dot: Dot, boots: (u64, u64) },
    /// An answer, or its absence, arrives.
    Answered { site: usize, boot: u64, dot: Dot, by: usize, result: Result<(), Failure> },
    /// A site said what it holds.
    /// None: as it said before.
    Told { site: usize, boot: u64, other: usize, said: Option<Page> },
    /// The book is written down.
    Persist { site: usize, boot: u64 },
    /// Two sites exchange records and declarations, if they can.
    Gossip { one: usize, other: usize },
    /// A client reads.
    Read { site: usize },
    /// Something breaks.
    Strike,
    /// It is mended.
    Mend(faults::Mend),
    /// Something about a site that is being drained.
    Drain(drain::Act),
    /// An operator asks for more copies, or fewer.
    Level,
    /// A site moves to another area.
    Move,
    /// An owner changes what a site holds for others.
    Cap,
    /// Something about copies too many.
    Trim(trim::Act),
    /// A node finds that it lost what it wrote.
    Rot,
    /// A write waits for its scope.
    Press(u64),
}

/// What is known of another site: what it holds, and in which life it said so.
type Page = (Spans, u64);

/// One site.
#[derive(Debug)]
struct Site {
    id: SiteId,
    /// Durable: living versions and who wrote them, and those that are dead.
    records: BTreeMap<Dot, usize>,
    dead: BTreeSet<Dot>,
    /// Durable: bodies that count.
    bodies: BTreeSet<Dot>,
    /// Durable: what it wrote down of others.
    book: BTreeMap<usize, Page>,
    /// Durable: sites declared lost, by how often that was said or taken back, and which disk was meant.
    lost: BTreeMap<usize, (u64, u64)>,
    /// Durable: sites that are to be emptied, by how often that was said or taken back.
    drained: BTreeMap<usize, u64>,
    /// Durable: the areas that sites are in, by how often that was said.
    map: areas::Map,
    /// In memory: the same as the process found it.
    map_at_start: areas::Map,
    /// In memory: sites that said when they were asked that they take nothing.
    refusing: BTreeSet<SiteId>,
    /// In memory, while it empties itself.
    emptying: Option<drain::Emptying>,
    /// Changes with each loss of its disk's state.
    life: u64,
    boot: u64,
    up: bool,
    full: bool,
    /// How many bodies it holds for others at most, and in memory those on their way.
    cap: Option<usize>,
    coming: BTreeSet<Dot>,
    seq: u64,
    /// In memory.
    machine: Placement,
    lives: BTreeMap<usize, u64>,
    persisting: bool,
    trimming: trim::Trimming,
    /// Links over which others were asked what they hold, and who has not answered yet.
    links: BTreeMap<usize, (u64, u64, u64)>,
    asking: BTreeSet<usize>,
}

/// The world.
struct World {
    queue: Queue<Event>,
    draw: Draw,
    sites: Vec<Site>,
    copies: usize,
    /// What areas ask for, where there are any.
    areas: Option<areas::Wish>,
    /// Sites that take nothing of the bucket.
    declining: BTreeSet<usize>,
    /// Who burns together: the first two, where they are nodes of one site.
    together: Together,
    cuts: BTreeSet<(usize, usize)>,
    /// How often each link was mended.
    mended: BTreeMap<(usize, usize), u64>,
    mistake: Option<Mistake>,
    resting: bool,
    /// A site that burned; until everything has its copies again nothing else burns.
    burned: Option<usize>,
    /// Sites that never come back.
    gone: BTreeSet<usize>,
    /// The disk that each site ran on last, as the others know it.
    disks: Vec<u64>,
    /// Versions that nobody promised to have saved.
    excused: BTreeSet<Dot>,
    /// When something burned last.
    fire: Instant,
    /// Sites that said that they are empty.
    emptied: BTreeSet<usize>,
    /// Writes that wait for others, where there are any.
    scopes: scopes::Scopes,
    outcome: Outcome,
}

/// What a world has besides sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Caps,
    Areas,
    Nodes,
    ScopesInAreas,
    ScopesOfNodes,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("copies"), mistake, Kind::Plain)
}

/// Runs one seed in which two of the sites are nodes of one, and one of these loses what it has now and then.
pub fn run_of_nodes(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("copies of nodes"), mistake, Kind::Nodes)
}

/// Runs one seed in which sites hold so much for others and no more, as their owners say, who change their minds.
pub fn run_with_caps(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("copies with caps"), mistake, Kind::Caps)
}

/// Runs one seed with areas that ask for copies of their own, sites that move between them, buckets that move, and maybe a
/// site that takes nothing.
pub fn run_in_areas(seed: u64, mistake: Option<Mistake>) -> Outcome {
    run_by(Draw::from_seed(seed).fork("copies in areas"), mistake, Kind::Areas)
}

/// Runs one seed in which writes wait until they are durable in their area, or where their bucket wants copies; in a quarter of
/// them two of the sites are nodes of one.
pub fn run_of_scopes(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let kind = if seed % 4 == 3 { Kind::ScopesOfNodes } else { Kind::ScopesInAreas };
    run_by(Draw::from_seed(seed).fork("copies of scopes"), mistake, kind)
}

fn run_by(mut draw: Draw, mistake: Option<Mistake>, kind: Kind) -> Outcome {
    let count = draw.between(if kind == Kind::Plain { 2..=5 } else { 3..=6 }) as usize;
    let copies = draw.between(2..=3) as usize;
    let sites = (0..count).map(|number| Site::new(number, draw.identity())).collect();
    let mut world = World {
        queue: Queue::default(),
        draw,
        sites,
        copies,
        areas: None,
        declining: BTreeSet::new(),
        together: Together::default(),
        cuts: BTreeSet::new(),
        mended: BTreeMap::new(),
        mistake,
        resting: false,
        burned: None,
        gone: BTreeSet::new(),
        disks: (0..count).map(|number| number as u64 + 1).collect(),
        excused: BTreeSet::new(),
        fire: Instant(0),
        emptied: BTreeSet::new(),
        scopes: scopes::Scopes::default(),
        outcome: Outcome::default(),
    };
    match kind {
        Kind::Plain => {}
        Kind::Caps => world.set_caps(),
        Kind::Areas => world.name_areas(),
        Kind::Nodes => world.join_nodes(),
        Kind::ScopesInAreas => {
            world.ask_for_scopes();
            world.name_areas();
        }
        Kind::ScopesOfNodes => {
            world.ask_for_scopes();
            world.join_nodes();
        }
    }
    world.begin();
    world.go_until(Instant(0).after(seconds(180)));
    world.rest();
    world.go_until(world.queue.now().after(seconds(120)));
    world.judge();
    world.outcome
}

impl Site {
    fn new(number: usize, id: [u8; 16]) -> Self {
        let id = SiteId(id);
        Self {
            id,
            records: BTreeMap::new(),
            dead: BTreeSet::new(),
            bodies: BTreeSet::new(),
            book: BTreeMap::new(),
            lost: BTreeMap::new(),
            drained: BTreeMap::new(),
            map: BTreeMap::new(),
            map_at_start: BTreeMap::new(),
            refusing: BTreeSet::new(),
            emptying: None,
            life: number as u64 + 1,
            boot: 1,
            up: true,
            full: false,
            cap: None,
            coming: BTreeSet::new(),
            seq: 0,
            machine: Placement::new(id),
            lives: BTreeMap::new(),
            persisting: false,
            trimming: trim::Trimming::new(id),
            links: BTreeMap::new(),
            asking: BTreeSet::new(),
        }
    }

    fn is_lost(&self, other: usize) -> bool {
        self.lost.get(&other).is_some_and(|(said, _)| said % 2 == 1)
    }

    fn is_drained(&self, other: usize) -> bool {
        self.drained.get(&other).is_some_and(|said| said % 2 == 1)
    }
}

impl World {
    fn begin(&mut self) {
        for site in 0..self.sites.len() {
            self.plan(millis(10)..=seconds(3), Event::Client { site });
            self.plan(millis(10)..=seconds(5), Event::Read { site });
            self.start(site);
            for other in site + 1..self.sites.len() {
                self.plan(millis(10)..=seconds(2), Event::Gossip { one: site, other });
            }
        }
        self.plan(seconds(5)..=seconds(20), Event::Strike);
        if !self.is_of_single_nodes() {
            self.plan(seconds(5)..=seconds(20), Event::Rot);
        }
        if self.trims() {
            self.plan(seconds(15)..=seconds(60), Event::Level);
        }
    }

    /// Whether copies too many arise by an operator's word, and are let go of. Mistakes of draining need a copy in the wrong
    /// place at the right moment, which that hides.
    fn trims(&self) -> bool {
        let of_draining =
            [Mistake::OldWords, Mistake::WrittenMeanwhile, Mistake::DrainedIsLost, Mistake::DrainedStays];
        // A site of several nodes lets nothing go.
        self.is_of_single_nodes() && !self.mistake.is_some_and(|mistake| of_draining.contains(&mistake))
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
            Event::Client { site } => self.client(site),
            Event::Look { site, boot } => self.look(site, boot),
            Event::Hold { from, to, dot, boot } => self.hold(from, to, dot, boot),
            Event::Stored { from, to, dot, boots } => self.stored(from, to, dot, boots),
            Event::Answered { site, boot, dot, by, result } => self.answered((site, boot), dot, by, result),
            Event::Told { site, boot, other, said } => {
                if self.is_up(site, boot) {
                    self.told(site, other, said);
                }
            }
            Event::Persist { site, boot } => self.persist(site, boot),
            Event::Gossip { one, other } => self.gossip(one, other),
            Event::Read { site } => self.read(site),
            Event::Strike => self.strike(),
            Event::Mend(mend) => self.mend(mend),
            Event::Drain(act) => self.drain(act),
            Event::Trim(act) => self.trim(act),
            Event::Level => self.level(),
            Event::Move => self.move_site(),
            Event::Cap => self.change_cap(),
            Event::Rot => self.rot(),
            Event::Press(id) => self.press(id),
        }
    }

    fn is_up(&self, site: usize, boot: u64) -> bool {
        self.sites[site].up && self.sites[site].boot == boot
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        let cut = self.cuts.contains(&(one.min(other), one.max(other)));
        !cut && self.sites[one].up && self.sites[other].up
    }

    /// A process comes up: what it knows of others is what it wrote down.
    fn start(&mut self, site: usize) {
        self.disks[site] = self.sites[site].life;
        let place = &mut self.sites[site];
        (place.boot, place.up, place.seq, place.persisting) = (place.boot + 1, true, 0, false);
        place.machine = Placement::new(place.id);
        place.machine.set_together(self.together.clone());
        place.refusing.clear();
        place.emptying = None;
        place.lives.clear();
        place.trimming = trim::Trimming::new(place.id);
        place.links.clear();
        place.asking.clear();
        place.coming.clear();
        place.map_at_start = place.map.clone();
        let (boot, book) = (place.boot, place.book.clone());
        for (other, (spans, life)) in book {
            self.sites[site].lives.insert(other, life);
            let id = self.sites[other].id;
            self.input(site, Input::Known(BUCKET, id, spans));
        }
        self.plan(millis(1)..=seconds(1), Event::Look { site, boot });
        if self.trims() {
            self.plan(seconds(2)..=seconds(8), Event::Trim(trim::Act::Look { site, boot }));
        }
    }

    fn client(&mut self, site: usize) {
        if self.resting {
            return;
        }
        self.plan(millis(10)..=seconds(12), Event::Client { site });
        let refuses = self.sites[site].is_drained(site) && self.mistake != Some(Mistake::WrittenMeanwhile);
        if !self.sites[site].up || refuses || self.declining.contains(&site) {
            return;
        }
        if self.draw.chance(Ppm::percent(20)) {
            let all: Vec<Dot> = self.sites[site].records.keys().copied().collect();
            if let Some(dot) = self.draw.pick(&all).copied() {
                self.count("deletes");
                self.die(site, dot);
                // A delete is a record, too: with a dot of its own, dead from the start as it has no body.
                let tombstone = self.next_dot(site);
                self.sites[site].dead.insert(tombstone);
            }
            return;
        }
        let Some(scope) = self.scope_of_write(site) else { return };
        self.count("writes");
        let dot = self.next_dot(site);
        let place = &mut self.sites[site];
        place.records.insert(dot, site);
        place.bodies.insert(dot);
        self.share(site, dot);
        if let Some(scope) = scope {
            self.wait_for_scope(site, dot, scope);
        }
    }

    fn level(&mut self) {
        if self.resting {
            return;
        }
        self.plan(seconds(15)..=seconds(60), Event::Level);
        let now = self.draw.pick(&[1, 2, 2, 3, 3]).copied().unwrap_or(2);
        if now < self.copies {
            self.count("copies lowered");
        }
        self.copies = now;
        self.ask_for_fewer();
        self.wish_anew();
    }

    fn next_dot(&mut self, site: usize) -> Dot {
        let place = &mut self.sites[site];
        place.seq += 1;
        let origin = Origin { node: NodeId(place.id.0), incarnation: place.boot };
        Dot { origin, seq: place.seq }
    }

    /// A version is dead at a site.
    fn die(&mut self, site: usize, dot: Dot) {
        let place = &mut self.sites[site];
        place.dead.insert(dot);
        place.records.remove(&dot);
        place.bodies.remove(&dot);
    }

    /// The worker: who can be asked, who must be asked anew what it holds, and what lacks holders.
    fn look(&mut self, site: usize, boot: u64) {
        if !self.is_up(site, boot) {
            return;
        }
        self.plan(millis(200)..=seconds(2), Event::Look { site, boot });
        self.see_sites(site);
        self.ask_claims(site);
        let place = &self.sites[site];
        let lost = self.uncounted_ids(site);
        let all = self.ring();
        let takeover = self.mistake != Some(Mistake::NoTakeover);
        let is_mine = |writer: usize| match takeover {
            true => custodian(self.sites[writer].id, &all, &lost).is_some_and(|now| now.site == place.id),
            false => writer == site,
        };
        let want = |dot: &Dot| {
            let here = self.takes_for_held(site, *dot);
            Want { dot: *dot, bytes: 5000, here, places: 0 }
        };
        let mine = place.records.iter().filter(|(_, writer)| is_mine(**writer));
        let wants = mine.map(|(dot, _)| want(dot)).collect();
        let demand = self.placed_by(site);
        self.input(site, Input::Offer { bucket: BUCKET, demand, wants });
        self.empty(site);
    }

    fn lost_ids(&self, site: usize) -> BTreeSet<SiteId> {
        let lost = (0..self.sites.len()).filter(|other| self.sites[site].is_lost(*other));
        lost.map(|other| self.sites[other].id).collect()
    }

    /// Whose copies count no more: lost sites, and those that are about to go, but for itself.
    fn uncounted_ids(&self, site: usize) -> BTreeSet<SiteId> {
        let goes = |other: &usize| *other != site && self.sites[site].is_drained(*other);
        let going = (0..self.sites.len()).filter(goes).map(|other| self.sites[other].id);
        self.lost_ids(site).into_iter().chain(going).collect()
    }

    fn see_sites(&mut self, site: usize) {
        let near = |other: usize| millis(((other + 7 * site) % 5) as u64 * 20);
        let candidate = |other: usize| Candidate {
            site: self.sites[other].id,
            linked: self.linked(site, other),
            distance: near(other),
        };
        let all = (0..self.sites.len()).map(candidate).collect();
        let lost = self.uncounted_ids(site);
        self.input(site, Input::Sites(all, lost));
    }

    /// Over a new link another one is asked what it holds: all of it, if it is in another life than when it last said so.
    fn ask_claims(&mut self, site: usize) {
        if self.mistake == Some(Mistake::OldClaims) {
            return;
        }
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            let link = (site.min(other), site.max(other));
            let mended = self.mended.get(&link).copied().unwrap_or_default();
            let link = (self.sites[site].boot, self.sites[other].boot, mended);
            let is_new = self.sites[site].links.get(&other) != Some(&link);
            if is_new && self.linked(site, other) && !self.sites[site].asking.contains(&other) {
                self.sites[site].links.insert(other, link);
                self.meet(site, other);
                let known = self.sites[site].lives.get(&other).copied();
                self.ask_claim(site, other, known);
            }
        }
    }

    /// All that can be asked say anew what they hold.
    fn ask_all_claims(&mut self, site: usize) {
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            if self.sites[site].asking.contains(&other) {
                // What it is being asked is not all: again at the next look.
                self.sites[site].trimming.refresh();
            } else if self.linked(site, other) {
                self.ask_claim(site, other, None);
            }
        }
    }

    fn ask_claim(&mut self, site: usize, other: usize, known: Option<u64>) {
        let (holder, life) = (&self.sites[other], self.word_life(other));
        let holds = |dot: &&Dot| !holder.trimming.machine.leaves_out(BUCKET, **dot);
        let spans = holder.bodies.iter().filter(holds).copied().collect();
        let said = (known != Some(life)).then_some((spans, life));
        if said.is_none() {
            self.judge_as_said(site, other);
        }
        let boot = self.sites[site].boot;
        self.sites[site].asking.insert(other);
        self.count("claims asked");
        self.plan(millis(1)..=millis(900), Event::Told { site, boot, other, said });
    }

    fn told(&mut self, site: usize, other: usize, said: Option<Page>) {
        self.sites[site].asking.remove(&other);
        let Some((spans, life)) = said else { return };
        self.sites[site].book.insert(other, (spans.clone(), life));
        self.sites[site].lives.insert(other, life);
        let id = self.sites[other].id;
        self.input(site, Input::Known(BUCKET, id, spans));
    }

    fn input(&mut self, site: usize, input: Input) {
        let (mut out, now) = (Vec::new(), self.queue.now());
        self.sites[site].machine.handle(input, now, &mut out);
        let boot = self.sites[site].boot;
        for output in out {
            match output {
                Output::Ask(_, dot, to) => {
                    let Some(to) = self.sites.iter().position(|other| other.id == to) else { continue };
                    self.count("asked");
                    self.plan(millis(1)..=millis(200), Event::Hold { from: site, to, dot, boot });
                }
                Output::Noted(..) => {
                    if !std::mem::replace(&mut self.sites[site].persisting, true) {
                        self.plan(millis(1)..=seconds(1), Event::Persist { site, boot });
                    }
                }
            }
        }
    }

    fn persist(&mut self, site: usize, boot: u64) {
        if !self.is_up(site, boot) {
            return;
        }
        self.sites[site].persisting = false;
        self.write_down(site);
    }

    fn write_down(&mut self, site: usize) {
        for other in 0..self.sites.len() {
            let id = self.sites[other].id;
            let place = &mut self.sites[site];
            let life = place.lives.get(&other).copied().unwrap_or_default();
            if let Some(spans) = place.machine.known(BUCKET, id) {
                place.book.insert(other, (spans.clone(), life));
            }
        }
    }

    fn hold(&mut self, from: usize, to: usize, dot: Dot, boot: u64) {
        let reached = from == to || self.linked(from, to);
        let stays = !reached || self.sites[to].trimming.machine.wanted(BUCKET, dot);
        let holder = &self.sites[to];
        let fetch = |other: usize| other == to || self.linked(to, other);
        let found =
            (0..self.sites.len()).any(|other| fetch(other) && self.sites[other].bodies.contains(&dot));
        let dead = holder.dead.contains(&dot);
        let found = stays && (found || dead);
        if reached && self.declining.contains(&to) {
            return self.decline((from, boot), to, dot);
        }
        let refused = match (reached, holder.full && !holder.bodies.contains(&dot), found) {
            (false, ..) => Some((seconds(15), Failure::Site)),
            (true, true, _) => Some((millis(50), Failure::Site)),
            (true, _, true) if self.is_at_cap((from, to), dot) => Some((millis(1), Failure::Capped)),
            (true, false, false) => Some((millis(50), Failure::Version)),
            (true, false, true) => None,
        };
        if let Some((after, failure)) = refused {
            let answer = Event::Answered { site: from, boot, dot, by: to, result: Err(failure) };
            return self.plan(after..=after, answer);
        }
        if self.mistake == Some(Mistake::EarlyAnswer) {
            let answer = Event::Answered { site: from, boot, dot, by: to, result: Ok(()) };
            self.plan(millis(1)..=millis(200), answer);
        }
        self.set_aside((from, to), dot);
        let boots = (boot, self.sites[to].boot);
        self.plan(millis(1)..=seconds(2), Event::Stored { from, to, dot, boots });
    }

    fn stored(&mut self, from: usize, to: usize, dot: Dot, (boot, holder): (u64, u64)) {
        if self.is_up(to, holder) {
            self.sites[to].coming.remove(&dot);
        }
        if self.is_up(to, holder) && !self.sites[to].dead.contains(&dot) {
            let writer = self.sites[from].records.get(&dot).copied();
            let place = &mut self.sites[to];
            if let Some(writer) = writer {
                place.records.insert(dot, writer);
                if place.bodies.insert(dot) {
                    self.judge_cap(to, dot);
                }
            }
        }
        let reached = self.is_up(to, holder) && (from == to || self.linked(from, to));
        let result = if reached { Ok(()) } else { Err(Failure::Site) };
        self.plan(millis(1)..=millis(200), Event::Answered { site: from, boot, dot, by: to, result });
    }

    fn answered(&mut self, (site, boot): (usize, u64), dot: Dot, by: usize, result: Result<(), Failure>) {
        if !self.is_up(site, boot) {
            return;
        }
        let id = self.sites[by].id;
        let input = match result {
            Ok(()) => Input::Held(BUCKET, dot, id),
            Err(failure) => Input::Failed(BUCKET, dot, id, failure),
        };
        // What others take while a site is emptied is not in its book.
        let asks = self.sites[site].machine.is_asking(BUCKET, dot, id);
        self.moved(site, input.clone());
        if asks {
            if result.is_ok() {
                self.judge_held(site, by, dot);
            }
            self.input(site, input);
        }
        self.answered_for_scope(site, dot, by, result);
    }

    /// Feeds, in short: who can reach another takes its records, deaths and declarations.
    fn gossip(&mut self, one: usize, other: usize) {
        self.plan(millis(100)..=seconds(2), Event::Gossip { one, other });
        if !self.linked(one, other) {
            return;
        }
        for (from, to) in [(one, other), (other, one)] {
            let source = &self.sites[from];
            let (records, dead, lost) = (source.records.clone(), source.dead.clone(), source.lost.clone());
            let (drained, map) = (source.drained.clone(), source.map.clone());
            dead.into_iter().for_each(|dot| self.die(to, dot));
            let place = &mut self.sites[to];
            for (dot, writer) in records {
                if !place.dead.contains(&dot) {
                    place.records.insert(dot, writer);
                }
            }
            for (site, said) in lost {
                let known = place.lost.entry(site).or_default();
                *known = said.max(*known);
            }
            for (site, said) in map {
                let known = place.map.entry(site).or_default();
                *known = said.max(*known);
            }
            for (site, said) in drained {
                let known = place.drained.entry(site).or_default();
                *known = said.max(*known);
            }
            self.come_back(to);
        }
    }
}
