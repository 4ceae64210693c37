//! Sites that are gone for ever, and newcomers that take their places, while others leave buckets, burn, and have not heard.
//!
//! The production machine ([`Recovery`]) at the newcomers, three buckets, no bodies: records, who is a member, and words that
//! travel from site to site. A gone site may in truth live on and talk to whoever has not heard. `complete`: a newcomer that
//! says that it is done has every record, made before the word, of every bucket that the gone site was known to be in, that
//! any site has that belongs and is not lost. `ended`: once healed, every newcomer is done.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use core::time::Duration;
use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId, Vector};
use skerry_federation::replace::{Own, Recovery, Said, Stays, Told, Why};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

use crate::outcome::Outcome;
use crate::queue::Queue;

/// The newcomers come first, those that go last; one of the others may burn.
const SITES: usize = 7;
const NEWCOMERS: usize = 2;
const GONE: [usize; 2] = [5, 6];
const BUCKETS: u8 = 3;
/// Trouble lasts so long, and quiet after it.
const STORM: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(60);

/// A mistake that the checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// What was said in a round is taken for the answers of the next as well: one round is enough.
    OneRound,
    /// Who has not heard that the site is gone answers all the same.
    NotHeard,
    /// Who cannot be reached is taken for one that has nothing.
    SilentHasNothing,
    /// Nobody tells of a bucket unless it knows itself that the gone site was in it.
    OnlyOwnKnowledge,
    /// A bucket that was joined is taken for complete.
    JoinedIsComplete,
    /// Who is lost is waited for.
    LostIsAsked,
}

/// Whether somebody else's word is a place that was taken, or a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Replaced { gone: usize, by: usize },
    Lost(usize),
}

#[derive(Debug)]
enum Event {
    Client {
        site: usize,
    },
    Gossip {
        one: usize,
        other: usize,
    },
    /// A site joins a bucket, or leaves one.
    Move {
        site: usize,
    },
    Turn {
        site: usize,
        boot: u64,
    },
    Ask {
        of: Asked,
        about: Vec<BucketId>,
    },
    Answer {
        of: Asked,
        said: Said,
    },
    Replace {
        gone: usize,
    },
    Burn {
        site: usize,
    },
    Strike,
    Heal(usize, usize),
    Start(usize),
}

/// Which question: by a newcomer in a life of it, about a gone site, in a round, to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    site: usize,
    boot: u64,
    gone: usize,
    round: u64,
    other: usize,
}

/// What a newcomer remembers of a place that it takes.
#[derive(Debug, Default)]
struct Place {
    /// Durable.
    found: BTreeSet<BucketId>,
    done: bool,
    /// In memory.
    recovery: Recovery,
    last_said: BTreeMap<usize, Said>,
}

#[derive(Debug)]
struct Site {
    id: SiteId,
    /// Durable: what it has of the buckets that it follows. Of each origin all up to some seq.
    buckets: BTreeMap<BucketId, BTreeSet<Dot>>,
    /// Durable: of these it answers for all that there is.
    whole: BTreeSet<BucketId>,
    words: BTreeSet<Word>,
    /// Durable: in which buckets a gone site was when this one heard that it is gone.
    was_in: BTreeMap<usize, BTreeSet<BucketId>>,
    /// In memory: of what others are members.
    seen: BTreeMap<usize, BTreeSet<BucketId>>,
    places: BTreeMap<usize, Place>,
    life: u64,
    /// Buckets that it let go of.
    left: u64,
    boot: u64,
    up: bool,
    burnt: bool,
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    mistake: Option<Mistake>,
    /// How often one takes all that another has.
    whole: Ppm,
    /// Between two talks of two sites at most.
    often: Duration,
    /// The last that goes hardly writes: few know in which buckets it was.
    quiet: bool,
    sites: Vec<Site>,
    cuts: BTreeSet<(usize, usize)>,
    made: BTreeMap<(BucketId, Dot), Instant>,
    /// When it was said of a gone site, and in which buckets it was known to be then.
    said: BTreeMap<usize, (Instant, BTreeSet<BucketId>)>,
    resting: bool,
    outcome: Outcome,
}

/// Runs a seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut draw = Draw::from_seed(seed).fork("replaced");
    let sites = (0..SITES).map(|number| Site::new(number, &mut draw)).collect();
    let (whole, often) = match draw.below(2) {
        0 => (Ppm::percent(20), seconds(12)),
        _ => (Ppm::percent(60), seconds(6)),
    };
    let mut world = World {
        queue: Queue::default(),
        draw,
        whole,
        often,
        quiet: seed.is_multiple_of(3),
        mistake,
        sites,
        cuts: BTreeSet::new(),
        made: BTreeMap::new(),
        said: BTreeMap::new(),
        resting: false,
        outcome: Outcome::default(),
    };
    world.begin();
    world.go_until(Instant(0).after(STORM));
    world.rest();
    world.go_until(Instant(0).after(STORM + QUIET));
    world.judge_end();
    world.outcome
}

fn bucket(number: u8) -> BucketId {
    BucketId([number; 16])
}

fn vector(records: &BTreeSet<Dot>) -> Vector {
    let mut vector = Vector::new();
    records.iter().for_each(|dot| vector.add(*dot));
    vector
}

impl Site {
    fn new(number: usize, draw: &mut Draw) -> Self {
        let follows = |_: &u8| number >= NEWCOMERS;
        let drawn: Vec<u8> = (0..BUCKETS).filter(follows).filter(|_| draw.below(3) > 0).collect();
        Self {
            id: SiteId(draw.identity()),
            buckets: drawn.into_iter().map(|number| (bucket(number), BTreeSet::new())).collect(),
            whole: BTreeSet::new(),
            words: BTreeSet::new(),
            was_in: BTreeMap::new(),
            seen: BTreeMap::new(),
            places: BTreeMap::new(),
            life: 1,
            left: 0,
            boot: 1,
            up: true,
            burnt: false,
        }
    }

    fn refuses(&self, other: usize) -> bool {
        self.words.iter().any(|word| matches!(word, Word::Replaced { gone, .. } if *gone == other))
    }

    /// Takes a word; what is known of a gone site is written down before it is forgotten.
    fn hears(&mut self, word: Word) {
        if !self.words.insert(word) {
            return;
        }
        if let Word::Replaced { gone, .. } = word {
            let seen = self.seen.remove(&gone).unwrap_or_default();
            self.was_in.entry(gone).or_default().extend(seen);
        }
    }

    fn starts(&mut self) {
        (self.up, self.boot, self.life) = (true, self.boot + 1, self.life + 1);
        self.seen.clear();
        for place in self.places.values_mut() {
            place.recovery = Recovery::new(place.found.clone());
            place.last_said.clear();
        }
    }

    fn leaves(&mut self, bucket: BucketId) {
        self.buckets.remove(&bucket);
        self.whole.remove(&bucket);
        (self.life, self.left) = (self.life + 1, self.left + 1);
    }

    /// The buckets that a gone site is known to have been in.
    fn known_in(&self, gone: usize, node: NodeId) -> BTreeSet<BucketId> {
        let wrote = |records: &BTreeSet<Dot>| records.iter().any(|dot| dot.origin.node == node);
        let its = self.buckets.iter().filter(|(_, records)| wrote(records)).map(|(bucket, _)| *bucket);
        // Who claimed a bucket is known to all.
        let claimed =
            (0..BUCKETS).filter(|number| GONE[usize::from(*number) % GONE.len()] == gone).map(bucket);
        its.chain(claimed).chain(self.was_in.get(&gone).into_iter().flatten().copied()).collect()
    }
}

impl World {
    fn begin(&mut self) {
        for site in 0..SITES {
            self.plan(millis(1)..=seconds(1), Event::Client { site });
            self.plan(millis(1)..=seconds(1), Event::Turn { site, boot: 1 });
            self.plan(seconds(1)..=seconds(9), Event::Move { site });
            for other in site + 1..SITES {
                self.plan(millis(1)..=seconds(1), Event::Gossip { one: site, other });
            }
        }
        for gone in GONE {
            self.plan(seconds(5)..=seconds(50), Event::Replace { gone });
        }
        if self.draw.chance(Ppm::percent(60)) {
            let site = NEWCOMERS + self.draw.below((GONE[0] - NEWCOMERS) as u64) as usize;
            self.plan(seconds(5)..=seconds(58), Event::Burn { site });
        }
        self.plan(seconds(2)..=seconds(9), Event::Strike);
    }

    fn plan(&mut self, span: RangeInclusive<Duration>, event: Event) {
        let at = self.queue.now().after(self.draw.span(span));
        self.queue.plan(at, event);
    }

    /// A message: mostly soon, sometimes late.
    fn pass(&mut self, event: Event) {
        let late = self.draw.chance(Ppm::percent(20));
        self.plan(if late { millis(1)..=millis(1500) } else { millis(1)..=millis(30) }, event);
    }

    fn go_until(&mut self, end: Instant) {
        while self.outcome.violations.is_empty() {
            let Some(event) = self.queue.take(end) else { return self.queue.skip_to(end) };
            self.happen(event);
        }
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.sites[one], &self.sites[other]);
        let cut = self.cuts.contains(&(one.min(other), one.max(other)));
        !cut && a.up && b.up && !a.refuses(other) && !b.refuses(one)
    }

    fn node(&self, site: usize) -> NodeId {
        NodeId(self.sites[site].id.0)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Client { site } => self.client(site),
            Event::Gossip { one, other } => self.gossip(one, other),
            Event::Move { site } => self.join_or_leave(site),
            Event::Turn { site, boot } if self.sites[site].up && self.sites[site].boot == boot => {
                self.turn(site)
            }
            Event::Turn { .. } => {}
            Event::Ask { of, about } => self.asked(of, &about),
            Event::Answer { of, said } => self.answered(of, said),
            Event::Replace { gone } => self.replace(gone),
            Event::Burn { site } => self.burn(site),
            Event::Strike => self.strike(),
            Event::Heal(one, other) => drop(self.cuts.remove(&(one, other))),
            Event::Start(site) => self.start(site),
        }
    }

    fn start(&mut self, site: usize) {
        if self.sites[site].up || self.sites[site].burnt {
            return;
        }
        self.sites[site].starts();
        let boot = self.sites[site].boot;
        self.plan(millis(1)..=seconds(1), Event::Turn { site, boot });
    }

    fn client(&mut self, site: usize) {
        if self.resting {
            return;
        }
        self.plan(millis(10)..=seconds(3), Event::Client { site });
        let now = self.queue.now();
        let origin = Origin { node: self.node(site), incarnation: self.sites[site].life };
        let place = &mut self.sites[site];
        let all: Vec<BucketId> = place.buckets.keys().copied().collect();
        let quiet = self.quiet && site == GONE[1] && self.draw.chance(Ppm::percent(90));
        let Some(&bucket) = self.draw.pick(&all).filter(|_| place.up && !quiet) else { return };
        let Some(records) = place.buckets.get_mut(&bucket) else { return };
        let dot = Dot { origin, seq: vector(records).get(origin) + 1 };
        records.insert(dot);
        self.made.insert((bucket, dot), now);
        self.outcome.count("writes");
    }

    /// Words and memberships are told; one takes records of the other, all or the first of each origin.
    fn gossip(&mut self, one: usize, other: usize) {
        let often = if self.resting { millis(50)..=seconds(1) } else { millis(200)..=self.often };
        self.plan(often, Event::Gossip { one, other });
        if !self.linked(one, other) {
            return;
        }
        for (from, to) in [(one, other), (other, one)] {
            // Words and records go each their own way.
            let told = self.resting || self.draw.chance(Ppm::percent(20));
            let words = Some(self.sites[from].words.clone()).filter(|_| told).unwrap_or_default();
            words.into_iter().for_each(|word| self.sites[to].hears(word));
            if self.sites[to].refuses(from) {
                return;
            }
            let follows: BTreeSet<BucketId> = self.sites[from].buckets.keys().copied().collect();
            self.sites[to].seen.insert(from, follows);
            let all = self.resting || self.draw.chance(self.whole);
            let most = if all { usize::MAX } else { self.draw.below(3) as usize };
            let theirs = self.sites[from].buckets.clone();
            for (bucket, records) in &mut self.sites[to].buckets {
                let new = theirs.get(bucket).into_iter().flatten().filter(|dot| !records.contains(dot));
                let new: Vec<Dot> = new.take(most).copied().collect();
                records.extend(new);
            }
        }
    }

    /// A site leaves a bucket once a linked member has all that it has.
    fn join_or_leave(&mut self, site: usize) {
        if self.resting {
            return;
        }
        self.plan(millis(100)..=seconds(4), Event::Move { site });
        let bucket = bucket(self.draw.below(BUCKETS.into()) as u8);
        if !self.sites[site].up || site < NEWCOMERS {
            return;
        }
        let Some(records) = self.sites[site].buckets.get(&bucket).cloned() else {
            self.sites[site].buckets.insert(bucket, BTreeSet::new());
            return self.outcome.count("joins");
        };
        let takes =
            |other: &usize| self.linked(site, *other) && self.sites[*other].buckets.contains_key(&bucket);
        let takers: Vec<usize> = (0..SITES).filter(|other| *other != site && takes(other)).collect();
        let Some(&taker) = self.draw.pick(&takers) else { return };
        self.sites[taker].buckets.entry(bucket).or_default().extend(records);
        self.sites[site].leaves(bucket);
        self.outcome.count("leaves");
    }

    /// An operator says at some site that another is gone. It may live on all the same.
    fn replace(&mut self, gone: usize) {
        // Where it is not lost with a disk.
        let there: Vec<usize> = (0..NEWCOMERS).filter(|site| self.sites[*site].up).collect();
        let Some(&at) = self.draw.pick(&there) else {
            return self.plan(millis(100)..=seconds(1), Event::Replace { gone });
        };
        let by = self.draw.below(NEWCOMERS as u64) as usize;
        let (node, was) = (self.node(gone), self.sites[gone].buckets.clone());
        let live = self.sites.iter().enumerate().filter(|(n, site)| !GONE.contains(n) && !site.burnt);
        let known: BTreeSet<BucketId> = live.flat_map(|(_, site)| site.known_in(gone, node)).collect();
        let known = known.into_iter().filter(|bucket| was.contains_key(bucket)).collect();
        self.said.insert(gone, (self.queue.now(), known));
        if self.draw.chance(Ppm::percent(50)) {
            (self.sites[gone].up, self.sites[gone].burnt) = (false, true);
        } else {
            self.outcome.count("gone in name only");
        }
        self.sites[at].hears(Word::Replaced { gone, by });
        self.outcome.count("replaced");
    }

    /// A disk burns, and that is said.
    fn burn(&mut self, site: usize) {
        let there: Vec<usize> =
            (0..GONE[0]).filter(|other| *other != site && self.sites[*other].up).collect();
        let Some(&at) = self.draw.pick(&there) else { return };
        let place = &mut self.sites[site];
        (place.up, place.burnt) = (false, true);
        place.buckets.clear();
        self.sites[at].hears(Word::Lost(site));
        self.outcome.count("burnt");
    }

    fn turn(&mut self, site: usize) {
        let boot = self.sites[site].boot;
        self.plan(millis(200)..=seconds(1), Event::Turn { site, boot });
        for word in self.sites[site].words.clone() {
            if let Word::Replaced { gone, by } = word
                && by == site
            {
                self.take_place(site, gone);
            }
        }
    }

    fn take_place(&mut self, site: usize, gone: usize) {
        let (node, boot, mistake) = (self.node(gone), self.sites[site].boot, self.mistake);
        let known = self.sites[site].known_in(gone, node);
        let words = &self.sites[site].words;
        let lost =
            |other: &usize| mistake != Some(Mistake::LostIsAsked) && words.contains(&Word::Lost(*other));
        let live =
            (0..SITES).filter(|other| *other != site && !self.sites[site].refuses(*other) && !lost(other));
        let live: BTreeSet<SiteId> = live.map(|other| self.sites[other].id).collect();
        let place = self.sites[site].places.entry(gone).or_default();
        if place.done {
            return;
        }
        place.recovery.found(known);
        place.recovery.live(live);
        let (round, about, open) = place.recovery.questions();
        let last = place.last_said.clone();
        for other in (0..SITES).filter(|other| open.contains(&self.sites[*other].id)).collect::<Vec<_>>() {
            let of = Asked { site, boot, gone, round, other };
            let same = mistake == Some(Mistake::OneRound) && round % 2 == 1;
            match last.get(&other).filter(|_| same) {
                Some(said) => self.pass(Event::Answer { of, said: said.clone() }),
                None => self.pass(Event::Ask { of, about: about.clone() }),
            }
        }
        self.go_on(site, gone);
    }

    fn asked(&mut self, of: Asked, about: &[BucketId]) {
        let Asked { site, gone, other, .. } = of;
        if !self.linked(site, other) {
            let said = match self.mistake {
                Some(Mistake::SilentHasNothing) => Said::Told(Told::new(), Stays::default()),
                _ => Said::Not(Why::Silent),
            };
            return self.pass(Event::Answer { of, said });
        }
        let place = &self.sites[other];
        if !place.refuses(gone) && self.mistake != Some(Mistake::NotHeard) {
            return self.pass(Event::Answer { of, said: Said::Not(Why::NotHeard) });
        }
        let mut told = Told::new();
        let known = place.known_in(gone, self.node(gone));
        let also = about.iter().filter(|_| self.mistake != Some(Mistake::OnlyOwnKnowledge));
        for bucket in known.iter().chain(also) {
            let has = place.buckets.get(bucket).map(vector);
            if has.is_some() || known.contains(bucket) {
                told.insert(*bucket, has);
            }
        }
        let said = Said::Told(told, Stays { life: 0, left: place.left });
        self.pass(Event::Answer { of, said });
    }

    fn answered(&mut self, of: Asked, said: Said) {
        let Asked { site, boot, gone, round, other } = of;
        let id = self.sites[other].id;
        let here = &mut self.sites[site];
        if !here.up || here.boot != boot {
            return;
        }
        let Some(place) = here.places.get_mut(&gone) else { return };
        if matches!(said, Said::Told(..)) && round % 2 == 0 {
            place.last_said.insert(other, said.clone());
        }
        place.recovery.said(round, id, said);
        place.found.clone_from(place.recovery.buckets());
        self.go_on(site, gone);
    }

    fn go_on(&mut self, site: usize, gone: usize) {
        let joined_is_all = self.mistake == Some(Mistake::JoinedIsComplete);
        let here = &mut self.sites[site];
        let Some(place) = here.places.get_mut(&gone).filter(|place| !place.done) else { return };
        let mut own = BTreeMap::new();
        for bucket in place.recovery.buckets() {
            let what = match here.buckets.get(bucket) {
                Some(_) if joined_is_all => Own::Deleted,
                Some(records) => Own::Member { vector: vector(records), whole: here.whole.contains(bucket) },
                None => Own::Outside,
            };
            own.insert(*bucket, what);
        }
        let progress = place.recovery.judge(&own);
        here.buckets.extend(progress.join.iter().map(|bucket| (*bucket, BTreeSet::new())));
        here.whole.extend(&progress.whole);
        for _ in &progress.alone {
            self.outcome.count("alone");
        }
        if progress.is_done {
            place.done = true;
            self.outcome.count(if self.resting { "done at rest" } else { "done in the storm" });
            self.judge(site, gone);
        }
    }

    /// Whatever anybody has who belongs and is not lost is at the newcomer.
    fn judge(&mut self, site: usize, gone: usize) {
        let Some((said, buckets)) = self.said.get(&gone) else { return };
        let (none, node) = (BTreeSet::new(), self.node(gone));
        let belong =
            || self.sites.iter().enumerate().filter(|(n, place)| !self.said.contains_key(n) && !place.burnt);
        // Who knew of a bucket may have burnt meanwhile.
        let known: BTreeSet<BucketId> = belong().flat_map(|(_, place)| place.known_in(gone, node)).collect();
        for bucket in buckets.intersection(&known) {
            let here = self.sites[site].buckets.get(bucket).unwrap_or(&none);
            for (other, place) in belong() {
                let theirs = place.buckets.get(bucket).into_iter().flatten();
                let before = |dot: &&Dot| self.made.get(&(*bucket, **dot)).is_some_and(|made| made <= said);
                if let Some(dot) = theirs.filter(before).find(|dot| !here.contains(dot)) {
                    let what = format!("site-{site} is done for site-{gone} without {dot} of site-{other}");
                    return self.outcome.violations.push(("complete", what));
                }
            }
        }
    }

    fn cut(&mut self, one: usize, other: usize) {
        let link = (one.min(other), one.max(other));
        if self.cuts.insert(link) {
            self.plan(millis(100)..=seconds(15), Event::Heal(link.0, link.1));
        }
    }

    fn strike(&mut self) {
        if self.resting {
            return;
        }
        self.plan(millis(200)..=seconds(4), Event::Strike);
        let site = self.draw.below(SITES as u64) as usize;
        let other = (site + 1 + self.draw.below(SITES as u64 - 1) as usize) % SITES;
        match self.draw.below(4) {
            0 if self.sites[site].up => {
                self.outcome.count("crashes");
                self.sites[site].up = false;
                let away =
                    if self.draw.below(3) == 0 { seconds(5)..=seconds(30) } else { millis(100)..=seconds(2) };
                self.plan(away, Event::Start(site));
            }
            // Out of reach for all but one.
            1 => (0..SITES)
                .filter(|third| ![site, other].contains(third))
                .for_each(|third| self.cut(site, third)),
            _ => self.cut(site, other),
        }
    }

    fn rest(&mut self) {
        self.resting = true;
        self.cuts.clear();
        (0..SITES).for_each(|site| self.start(site));
    }

    fn judge_end(&mut self) {
        for gone in self.said.keys() {
            let done = |site: &Site| site.places.get(gone).is_some_and(|place| place.done);
            if self.outcome.violations.is_empty() && !self.sites.iter().any(done) {
                let at = self.sites.iter().flat_map(|site| site.places.get(gone)).next();
                let what = format!(
                    "nobody is done for site-{gone}: {:?}",
                    at.map(|place| place.recovery.questions())
                );
                self.outcome.violations.push(("ended", what));
            }
        }
    }
}
