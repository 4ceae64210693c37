//! Sites that are emptied before they are switched off, in the middle of cuts, crashes, full disks and fires.
//!
//! The production machine ([`Drain`]) decides; here is what carries it out. Once a site says that it is empty it is judged
//! at once, and then it burns or is taken into service again.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Dot, Instant, NodeId, Origin, SiteId, Vector};
use skerry_federation::drain::{Drain, Held, Input, Output, Own, Word};
use skerry_federation::placement::{Candidate, Demand, Input as Placing, Output as Placed, Placement, Want};
use skerry_scenario::clock::{millis, seconds};

use super::{BUCKET, Event, Mistake, World};

/// What happens around it.
#[derive(Debug)]
pub(super) enum Act {
    /// An operator speaks at some site that is up.
    Say { site: usize, drained: bool },
    /// A question arrives.
    Ask { from: usize, boot: u64, to: usize, known: (Option<Origin>, Vector) },
    /// The answer, or its absence, arrives.
    Said { site: usize, boot: u64, other: usize, said: Input },
    /// The bodies have been looked through.
    Scan { site: usize, boot: u64 },
}

/// A site that empties itself.
#[derive(Debug)]
pub(super) struct Emptying {
    machine: Drain,
    mover: Placement,
    /// When those it rests on were asked once more.
    confirmed: Instant,
    scanned: bool,
}

impl World {
    pub(super) fn order_drain(&mut self, site: usize) {
        let ordered = |site: usize| self.sites.iter().any(|other| other.is_drained(site));
        let there = (0..self.sites.len()).filter(|other| self.takes(*other));
        let (ordered, free): (Vec<usize>, Vec<usize>) = there.partition(|other| ordered(*other));
        // Somebody must be left to take it all: who is being emptied takes nothing from others.
        if free.len() < 2 || !free.contains(&site) {
            return;
        }
        self.count("drains");
        self.plan(millis(1)..=millis(100), Event::Drain(Act::Say { site, drained: true }));
        // Another in the same minute, before anybody has heard of the first, or after.
        let others: Vec<usize> = free.into_iter().filter(|other| *other != site).collect();
        if others.len() > 1
            && self.draw.below(2) == 0
            && let Some(&second) = self.draw.pick(&others)
        {
            self.plan(millis(1)..=seconds(8), Event::Drain(Act::Say { site: second, drained: true }));
        }
        if !ordered.is_empty() {
            self.count("drains of several");
        }
    }

    pub(super) fn drain(&mut self, act: Act) {
        match act {
            Act::Say { site, drained } => self.say_drained(site, drained),
            Act::Ask { from, boot, to, known } => self.asked_what_it_has((from, boot), to, known),
            Act::Said { site, boot, other, said } => {
                if self.is_up(site, boot) {
                    let id = self.sites[other].id;
                    let input = if self.linked(site, other) { said } else { Input::Silent(BUCKET, id) };
                    self.tell(site, input);
                }
            }
            Act::Scan { site, boot } => {
                if self.is_up(site, boot) {
                    self.scan(site);
                }
            }
        }
    }

    fn say_drained(&mut self, site: usize, drained: bool) {
        // Somebody must be left to take it all, now that it is said.
        let ordered = |other: usize| self.sites.iter().any(|place| place.is_drained(other));
        let free = |other: usize| other != site && self.takes(other) && !ordered(other);
        if self.gone.contains(&site) || (drained && !(0..self.sites.len()).any(free)) {
            return;
        }
        self.emptied.remove(&site);
        let known =
            self.sites.iter().filter_map(|other| other.drained.get(&site)).max().copied().unwrap_or(0);
        let said = if known % 2 == u64::from(drained) { known } else { known + 1 };
        let up: Vec<usize> = (0..self.sites.len()).filter(|other| self.sites[*other].up).collect();
        if let Some(&at) = self.draw.pick(&up) {
            self.sites[at].drained.insert(site, said);
        }
    }

    /// A turn of the worker.
    pub(super) fn empty(&mut self, site: usize) {
        let place = &mut self.sites[site];
        if !place.is_drained(site) {
            if self.mistake != Some(Mistake::OldWords) {
                place.emptying = None;
            }
            return;
        }
        let (id, now) = (place.id, self.queue.now());
        place.emptying.get_or_insert_with(|| Emptying {
            machine: Drain::new(),
            mover: Placement::new(id),
            confirmed: now,
            scanned: false,
        });
        let fit = self.fit(site);
        self.tell(site, Input::Sites(fit.iter().map(|other| self.sites[*other].id).collect()));
        let candidate = |other: &usize| Candidate {
            site: self.sites[*other].id,
            linked: true,
            distance: millis(*other as u64),
        };
        let candidates = fit.iter().map(candidate).collect();
        let place = &mut self.sites[site];
        let rests = place.emptying.as_ref().is_some_and(|emptying| emptying.machine.is_resting());
        // Each look places anew: what a holder was known to hold may be gone with its disk.
        if let Some(emptying) = place.emptying.as_mut().filter(|_| rests) {
            emptying.mover = Placement::new(id);
        }
        self.moved(site, Placing::Sites(candidates, [id].into()));
        if rests {
            let members: BTreeSet<SiteId> = self.sites.iter().map(|other| other.id).collect();
            let own = Own { vector: self.vector(site), members, ..Own::default() };
            self.tell(site, Input::Look([(BUCKET, own)].into()));
        }
    }

    /// Who can take over: linked, neither lost nor leaving.
    fn fit(&self, site: usize) -> Vec<usize> {
        let place = &self.sites[site];
        let fits = |other: &usize| {
            let stays = !place.is_lost(*other) && !place.is_drained(*other);
            *other != site && self.linked(site, *other) && stays && !self.declining.contains(other)
        };
        (0..self.sites.len()).filter(fits).collect()
    }

    /// Up to where everything of each origin is here or dead.
    fn vector(&self, site: usize) -> Vector {
        let place = &self.sites[site];
        let mut vector = Vector::new();
        let all: BTreeSet<Dot> = place.records.keys().chain(&place.dead).copied().collect();
        for dot in all {
            if dot.seq == vector.get(dot.origin) + 1 {
                vector.add(dot);
            }
        }
        vector
    }

    fn life(&self, site: usize) -> Origin {
        let place = &self.sites[site];
        let incarnation = match self.mistake {
            Some(Mistake::OldWords) => 1,
            _ => self.word_life(site),
        };
        Origin { node: NodeId(place.id.0), incarnation }
    }

    fn asked_what_it_has(
        &mut self,
        (from, boot): (usize, u64),
        to: usize,
        (life, said_upto): (Option<Origin>, Vector),
    ) {
        let id = self.sites[to].id;
        let said = |said| Event::Drain(Act::Said { site: from, boot, other: to, said });
        if !self.linked(from, to) {
            return self.plan(seconds(15)..=seconds(15), said(Input::Silent(BUCKET, id)));
        }
        // It knows that it goes itself, whether or not the asker has heard it.
        if self.sites[to].is_drained(to) && self.mistake != Some(Mistake::DrainedStays) {
            self.count("told that it goes");
            return self.plan(millis(1)..=millis(900), said(Input::Goes(BUCKET, id)));
        }
        let now = self.life(to);
        let vector = self.vector(to);
        let believed = self.mistake == Some(Mistake::OldWords)
            && self.sites[from].emptying.as_ref().is_some_and(|emptying| emptying.scanned);
        // In another life everything is said.
        let behind = match life == Some(now) || believed {
            true if believed => vector.clone(),
            true => said_upto,
            false => Vector::new(),
        };
        let leaves = |dot: &Dot| self.sites[to].trimming.machine.leaves_out(BUCKET, *dot);
        let bodies = self.sites[to].bodies.iter().copied().filter(|dot| !leaves(dot));
        let spans = bodies.filter(|dot| vector.covers(*dot) && !behind.covers(*dot)).collect();
        let held = Held { from: behind, spans, upto: vector.clone() };
        let word = Word { life: now, seen: Some(vector), held };
        self.plan(millis(1)..=millis(900), said(Input::Said(BUCKET, id, word)));
    }

    fn tell(&mut self, site: usize, input: Input) {
        let (mut out, now) = (Vec::new(), self.queue.now());
        let place = &mut self.sites[site];
        let Some(emptying) = &mut place.emptying else { return };
        let scanned = matches!(input, Input::Scanned { .. });
        emptying.machine.handle(input, now, &mut out);
        if scanned {
            (emptying.confirmed, emptying.scanned) = (now, true);
        }
        let boot = place.boot;
        for output in out {
            match output {
                Output::Ask { site: to, life, from, .. } => {
                    let Some(to) = self.sites.iter().position(|other| other.id == to) else { continue };
                    let ask = Act::Ask { from: site, boot, to, known: (life, from) };
                    self.plan(millis(1)..=millis(200), Event::Drain(ask));
                }
                Output::Scan => self.plan(millis(1)..=seconds(2), Event::Drain(Act::Scan { site, boot })),
                Output::Safe(vectors) => self.safe(site, &vectors),
                // Everybody follows the only bucket, and nobody decides conditions.
                Output::Follow(..) | Output::Hand(..) | Output::Lacks(_) | Output::Doubt => {}
            }
        }
    }

    fn scan(&mut self, site: usize) {
        let place = &self.sites[site];
        let Some(emptying) = &place.emptying else { return };
        let vector = self.vector(site);
        let lacks = |dot: &Dot| {
            let body = place.bodies.contains(dot) && !emptying.machine.holds(BUCKET, *dot);
            let held = emptying.machine.holds(BUCKET, *dot) || emptying.machine.has_record(BUCKET, *dot);
            body || (!vector.covers(*dot) && !held)
        };
        let lacking: Vec<Dot> = place.records.keys().copied().filter(lacks).collect();
        let count = lacking.len() as u64;
        let wants =
            lacking.into_iter().map(|dot| Want { dot, bytes: 5000, here: false, places: 0 }).collect();
        self.moved(site, Placing::Offer { bucket: BUCKET, demand: Demand::anywhere(1), wants });
        self.tell(site, Input::Scanned { bodies: count, bytes: count * 5000, others: 0, believed: 0 });
    }

    /// What concerns the copies that a site makes of all that it holds.
    pub(super) fn moved(&mut self, site: usize, input: Placing) {
        let now = self.queue.now();
        if let Placing::Held(_, dot, by) = input {
            self.tell(site, Input::Took(BUCKET, dot, by));
        }
        let place = &mut self.sites[site];
        let (boot, Some(emptying)) = (place.boot, &mut place.emptying) else { return };
        let mut out = Vec::new();
        emptying.mover.handle(input, now, &mut out);
        for output in out {
            let Placed::Ask(_, dot, to) = output else { continue };
            let Some(to) = self.sites.iter().position(|other| other.id == to) else { continue };
            self.plan(millis(1)..=millis(200), Event::Hold { from: site, to, dot, boot });
        }
    }

    /// It says that it is empty: unless it wrote meanwhile, or another word holds.
    fn safe(&mut self, site: usize, vectors: &BTreeMap<skerry_base::BucketId, Vector>) {
        let words = |place: &super::Site| place.drained.get(&site).copied();
        if !self.sites[site].is_drained(site)
            || self.sites.iter().any(|other| words(other) > words(&self.sites[site]))
        {
            return self.count("called back meanwhile");
        }
        let node = NodeId(self.sites[site].id.0);
        let now = self.vector(site);
        let before = vectors.get(&BUCKET).cloned().unwrap_or_default();
        let wrote = now.iter().any(|(origin, seq)| origin.node == node && seq > before.get(origin));
        if wrote && self.mistake != Some(Mistake::WrittenMeanwhile) {
            return self.count("written meanwhile");
        }
        // A fire since others were asked last: nobody promises to know of it.
        let asked = self.sites[site].emptying.as_ref().map(|emptying| emptying.confirmed);
        if asked.is_some_and(|asked| self.fire >= asked) {
            return self.count("fires while others confirmed");
        }
        self.count("emptied");
        self.judge_emptied(site);
        self.emptied.insert(site);
        if self.draw.below(2) == 0 || self.lone_left(site) || self.resting {
            self.plan(millis(1)..=seconds(10), Event::Drain(Act::Say { site, drained: false }));
            return;
        }
        self.count("emptied and burned");
        self.gone.insert(site);
        self.lose_disk(site);
        self.plan(seconds(1)..=seconds(10), Event::Mend(super::faults::Mend::Declare(site)));
    }

    /// Whether too few would be left without it, others that may be switched off apart.
    fn lone_left(&self, site: usize) -> bool {
        let stays = |other: &usize| *other != site && self.takes(*other) && !self.emptied.contains(other);
        (0..self.sites.len()).filter(stays).count() < 2
    }

    /// Whether there is a site that is not to be emptied: it may have burned for good after the others were.
    pub(super) fn somebody_stays(&self) -> bool {
        let stays = |site: &usize| self.takes(*site) && !self.sites[*site].is_drained(*site);
        (0..self.sites.len()).any(|site| stays(&site))
    }

    /// Sites that are still to be emptied in the end.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        let there = |site: &usize| !self.gone.contains(site) && !self.emptied.contains(site);
        (0..self.sites.len()).filter(there).filter(|site| self.sites[*site].is_drained(*site)).collect()
    }
}
