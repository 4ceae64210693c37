//! Copies too many, in the middle of cuts, crashes, full disks, fires, hasty declarations and sites that are emptied.
//!
//! The production machine ([`Trim`]) decides; here is what carries it out, and who judges it. `trimmed`: no copy is let go
//! unless as many durable bodies as are wanted are left, but for a fire while the round went on. `claims`: at that moment
//! nobody who is not lost believes in the copy. `surplus`: once healed and quiet no version has more bodies than it should.

use std::collections::BTreeSet;

use skerry_base::{Dot, Instant, SiteId};
use skerry_federation::placement::trim::{Copy, End, Input, Output, Trim, Word};
use skerry_federation::placement::{Demand, Spans, Stake, custodian};
use skerry_scenario::clock::{millis, seconds};

use super::{BUCKET, Event, Mistake, World};

/// After so many nanoseconds all are asked anew what they hold, though no rule changed.
const PERIOD: u64 = 40_000_000_000;

/// What happens around it.
#[derive(Debug)]
pub(super) enum Act {
    /// The worker of a site looks for copies too many.
    Look { site: usize, boot: u64 },
    /// A site asks another to count on it no more.
    Forget { round: Round, to: usize, dots: Spans },
    /// That has written it down, and looks at its disk.
    Written { round: Round, to: (usize, u64), dots: Spans, keeps: Spans },
    /// The answer, or its absence, arrives.
    Said { round: Round, by: usize, word: Option<Word> },
    /// The disk lets go.
    Release { round: Round, dots: Vec<Dot> },
}

/// Whose round, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    site: usize,
    boot: u64,
    word: u64,
}

/// What a site keeps of its rounds, in memory.
#[derive(Debug)]
pub(super) struct Trimming {
    pub(super) machine: Trim,
    asked: BTreeSet<usize>,
    began: Instant,
    copies: usize,
    /// What is asked for, in its words.
    said: Demand,
    /// The same in the end, if all had heard the same of areas.
    demand: Option<Demand>,
    /// Under which declarations all were asked what they hold.
    refreshed: Option<(BTreeSet<SiteId>, Demand, u64)>,
}

impl Trimming {
    pub(super) fn new(me: SiteId) -> Self {
        Self {
            machine: Trim::new(me),
            asked: BTreeSet::new(),
            began: Instant(0),
            copies: 0,
            said: Demand::default(),
            demand: None,
            refreshed: None,
        }
    }

    /// All are asked anew what they hold, at the next look.
    pub(super) fn refresh(&mut self) {
        self.refreshed = None;
    }
}

impl World {
    pub(super) fn trim(&mut self, act: Act) {
        match act {
            Act::Look { site, boot } => {
                if self.is_up(site, boot) {
                    self.plan(millis(500)..=seconds(4), Event::Trim(Act::Look { site, boot }));
                    self.look_for_surplus(site);
                }
            }
            Act::Forget { round, to, dots } => self.asked_to_forget(round, to, &dots),
            Act::Written { round, to, dots, keeps } => self.has_forgotten(round, to, &dots, keeps),
            Act::Said { round, by, word } => {
                if self.goes_on(round) {
                    let id = self.sites[by].id;
                    let believed = || {
                        let holds = self.sites[round.site].machine.known(BUCKET, id).cloned();
                        let believes = self.mistake == Some(Mistake::TrimByBelief);
                        holds.filter(|_| believes).map(|holds| Word { holds, keeps: Spans::default() })
                    };
                    let word = word.filter(|_| self.linked(round.site, by)).or_else(believed);
                    self.tell_trim(round.site, word.map_or(Input::Silent(id), |word| Input::Said(id, word)));
                }
            }
            Act::Release { round, dots } => {
                if self.goes_on(round) {
                    self.release(round.site, &dots);
                }
            }
        }
    }

    fn round(&self, site: usize) -> Round {
        let place = &self.sites[site];
        Round { site, boot: place.boot, word: place.trimming.machine.word(BUCKET) }
    }

    fn goes_on(&self, round: Round) -> bool {
        self.is_up(round.site, round.boot) && self.round(round.site) == round
    }

    /// What a site says holds until it is started anew or marks something.
    pub(super) fn word_life(&self, site: usize) -> u64 {
        let place = &self.sites[site];
        let word = match self.mistake {
            Some(Mistake::WordStands) => 0,
            _ => place.trimming.machine.word(BUCKET),
        };
        (place.life << 40) | (place.boot << 20) | word
    }

    /// Who must say that it counts on this site no more: all but lost ones that cannot be asked.
    fn keep_books(&self, site: usize) -> BTreeSet<usize> {
        let asked = |other: &usize| {
            *other != site && (!self.sites[site].is_lost(*other) || self.linked(site, *other))
        };
        (0..self.sites.len()).filter(asked).collect()
    }

    /// A copy of what that site wrote. The order in which copies are kept knows of no declaration.
    fn copy(&self, site: usize, dot: Dot, writer: usize) -> Copy {
        let mut first = self.sites[writer].id;
        if self.mistake == Some(Mistake::NoOrder) {
            // Behind this one: everybody else stands before it.
            let me = self.sites[site].id;
            let ids = || self.sites.iter().map(|other| other.id);
            first = ids().filter(|other| *other > me).min().or_else(|| ids().min()).unwrap_or(me);
        }
        Copy { dot, writer: first, copies: self.kept_at(dot) }
    }

    fn look_for_surplus(&mut self, site: usize) {
        if !self.sites[site].trimming.machine.is_idle() {
            return self.tell_trim(site, Input::Wake);
        }
        let uncounted = self.uncounted_ids(site);
        // Without any change all are asked anew once in a while.
        let demand = self.trimmed_by(site);
        let rules = (uncounted.clone(), demand.clone(), self.queue.now().0 / PERIOD);
        if self.sites[site].trimming.refreshed.as_ref() != Some(&rules) {
            self.sites[site].trimming.refreshed = Some(rules);
            if self.refreshes() {
                return self.ask_all_claims(site);
            }
        }
        let place = &self.sites[site];
        let copies: Vec<Copy> = place
            .records
            .iter()
            .filter(|(dot, _)| place.bodies.contains(dot))
            .map(|(dot, writer)| self.copy(site, *dot, *writer))
            .collect();
        let surplus = |copy: &Copy| {
            let holders = place.machine.holders(BUCKET, copy.dot).filter(|other| !uncounted.contains(other));
            place.trimming.machine.is_surplus(&demand, copy, holders)
        };
        let copies: Vec<Copy> = copies.into_iter().filter(surplus).take(20).collect();
        if copies.is_empty() {
            return;
        }
        self.count("rounds");
        let trimming = &mut self.sites[site].trimming;
        (trimming.began, trimming.copies) = (self.queue.now(), self.copies);
        self.tell_trim(site, Input::Mark(BUCKET, demand, copies));
        let asked = self.keep_books(site);
        self.sites[site].trimming.demand = self.agreed(site);
        self.sites[site].trimming.said = self.demand(site);
        let ids = |numbers: &BTreeSet<usize>| -> BTreeSet<SiteId> {
            numbers.iter().map(|other| self.sites[*other].id).collect()
        };
        let others = ids(&asked);
        let counted = others.difference(&uncounted).copied().collect();
        self.sites[site].trimming.asked = asked;
        self.tell_trim(site, Input::Ask { others, counted });
    }

    /// Whether all are asked anew what they hold now and then. Where a mistake about that is looked for it is not mended
    /// by the way.
    fn refreshes(&self) -> bool {
        let about_trimming = [
            Mistake::TrimByBelief,
            Mistake::TrimUnheard,
            Mistake::NoOrder,
            Mistake::ForgetsMeanwhile,
            Mistake::WordStands,
        ];
        self.mistake.is_none_or(|mistake| about_trimming.contains(&mistake))
    }

    fn tell_trim(&mut self, site: usize, input: Input) {
        let (mut out, now) = (Vec::new(), self.queue.now());
        self.sites[site].trimming.machine.handle(input, now, &mut out);
        let round = self.round(site);
        for output in out {
            match output {
                Output::Ask(_, to, dots) => {
                    let Some(to) = self.sites.iter().position(|other| other.id == to) else { continue };
                    self.plan(millis(1)..=millis(200), Event::Trim(Act::Forget { round, to, dots }));
                }
                Output::Release(_, dots) => {
                    self.plan(millis(1)..=millis(300), Event::Trim(Act::Release { round, dots }));
                }
                Output::Over(_, End::Done { released, stay }) => {
                    if stay > 0 {
                        self.count("surplus that stays");
                    }
                    if released > 0 {
                        self.count("rounds that let go");
                    }
                }
                Output::Over(_, End::Silent(_)) => self.count("rounds with a silent one"),
                Output::Over(_, End::GivenUp) => self.count("rounds given up"),
            }
        }
    }

    fn asked_to_forget(&mut self, round: Round, to: usize, dots: &Spans) {
        let said = |word| Event::Trim(Act::Said { round, by: to, word });
        if !self.linked(round.site, to) {
            return self.plan(seconds(15)..=seconds(15), said(None));
        }
        let from = self.sites[round.site].id;
        let place = &self.sites[to];
        let asked: Vec<Dot> = dots
            .iter()
            .flat_map(|(origin, first, last)| (first..=last).map(move |seq| Dot { origin, seq }))
            .collect();
        let asks = place.asking.contains(&round.site) && self.mistake != Some(Mistake::ForgetsMeanwhile);
        let keeps = if asks {
            self.count("forgotten later");
            dots.clone()
        } else if self.mistake == Some(Mistake::TrimUnheard) {
            Spans::default()
        } else {
            let all = self.ring();
            let out = self.uncounted_ids(to);
            let objects = self.mistake != Some(Mistake::NoOrder);
            let stake = |dot: Dot| {
                let writer = place.records.get(&dot).map(|writer| self.sites[*writer].id);
                let mine = writer.and_then(|writer| custodian(writer, &all, &out));
                let mine = mine.is_some_and(|now| now.site == place.id) && objects;
                Stake { mine, here: place.bodies.contains(&dot), copies: self.kept_at(dot) }
            };
            // What a write waits for others to hold is counted on, whatever is known of who does.
            let (waited, free): (Vec<Dot>, Vec<Dot>) =
                asked.into_iter().partition(|dot| self.waits_for(to, *dot));
            let stakes: Vec<(Dot, Stake)> = free.into_iter().map(|dot| (dot, stake(dot))).collect();
            let demand = self.spared_by(to);
            let mut keeps = self.sites[to].machine.spare(BUCKET, from, &demand, stakes);
            waited.into_iter().for_each(|dot| keeps.insert(dot));
            keeps
        };
        if !keeps.is_empty() {
            self.count("counted on");
            // Others may hold them of whom that is not known here.
            self.sites[to].trimming.refresh();
        }
        let to = (to, self.sites[to].boot);
        self.plan(
            millis(1)..=millis(500),
            Event::Trim(Act::Written { round, to, dots: dots.clone(), keeps }),
        );
    }

    fn has_forgotten(&mut self, round: Round, (to, boot): (usize, u64), dots: &Spans, keeps: Spans) {
        let by = to;
        if !self.is_up(to, boot) {
            return self.plan(seconds(15)..=seconds(15), Event::Trim(Act::Said { round, by, word: None }));
        }
        self.write_down(to);
        let place = &self.sites[to];
        // One that goes, or is about to let go itself, is nobody's reason.
        let goes = place.is_drained(to);
        let marked = |dot: Dot| {
            place.trimming.machine.leaves_out(BUCKET, dot) && self.mistake != Some(Mistake::NoOrder)
        };
        let stays = |dot: &&Dot| dots.contains(**dot) && !goes && !marked(**dot);
        let holds: Spans = place.bodies.iter().filter(stays).copied().collect();
        let word = Some(Word { holds, keeps });
        self.plan(millis(1)..=millis(200), Event::Trim(Act::Said { round, by, word }));
    }

    fn release(&mut self, site: usize, dots: &[Dot]) {
        // Somebody else must have been asked by now, or other areas are known here than when it began.
        let trimming = &self.sites[site].trimming;
        if !self.keep_books(site).is_subset(&trimming.asked) || self.demand(site) != trimming.said {
            return self.tell_trim(site, Input::GiveUp);
        }
        let held: Vec<Dot> =
            dots.iter().copied().filter(|dot| self.sites[site].bodies.contains(dot)).collect();
        for dot in &held {
            self.sites[site].bodies.remove(dot);
            self.count("let go");
        }
        self.judge_release(site, &held);
        self.tell_trim(site, Input::Released(held));
    }

    fn judge_release(&mut self, site: usize, dots: &[Dot]) {
        // As many as were asked for when the round began.
        let trimming = &self.sites[site].trimming;
        let (began, copies, agreed) = (trimming.began, trimming.copies, self.agreed(site).is_some());
        let fire = self.fire >= began && self.fire > Instant(0);
        let id = self.sites[site].id;
        let (mut wrong, mut excused) = (Vec::new(), Vec::new());
        for dot in dots.iter().filter(|dot| !self.is_dead(**dot) && !self.excused.contains(dot)) {
            let left = self.sites.iter().filter(|other| other.bodies.contains(dot)).count();
            if left < copies && !fire {
                wrong.push(("trimmed", format!("site-{site} let {dot} go, {left} of {} are left", copies)));
            }
            wrong.extend(self.judge_promised(site, *dot, left).filter(|_| !fire));
            let demand = trimming.demand.as_ref().filter(|_| !fire && agreed);
            if demand.is_some_and(|demand| !self.is_met(*dot, demand)) {
                wrong.push(("trimmed", format!("site-{site} let {dot} go, which its area needs")));
            }
            // The fire took the one copy that was asked for, between its word and this: as if it had burned a moment later.
            if left == 0 && copies == 1 && fire {
                excused.push(*dot);
            }
            for other in
                (0..self.sites.len()).filter(|other| *other != site && !self.sites[site].is_lost(*other))
            {
                let place = &self.sites[other];
                let written = place.book.get(&site).is_some_and(|(spans, _)| spans.contains(*dot));
                let known =
                    place.up && place.machine.known(BUCKET, id).is_some_and(|spans| spans.contains(*dot));
                if written || known {
                    wrong.push((
                        "claims",
                        format!("site-{other} counts on site-{site} for {dot}, which lets it go"),
                    ));
                }
            }
        }
        self.excused.extend(excused);
        self.outcome.violations.extend(wrong);
    }

    /// A site was told that another one holds what it said before.
    pub(super) fn judge_as_said(&mut self, site: usize, other: usize) {
        let (place, holder) = (&self.sites[site], &self.sites[other]);
        let Some(spans) = place.machine.known(BUCKET, holder.id) else { return };
        let untrue =
            |dot: &&Dot| spans.contains(**dot) && !holder.bodies.contains(*dot) && !self.is_dead(**dot);
        let wrong: Vec<_> = place
            .records
            .keys()
            .filter(untrue)
            .map(|dot| ("claims", format!("site-{other} says as before to site-{site}, and lacks {dot}")))
            .collect();
        self.outcome.violations.extend(wrong);
    }

    /// In the end: nobody holds one too many.
    pub(super) fn judge_surplus(&mut self) {
        let all: BTreeSet<Dot> = self.sites.iter().flat_map(|site| site.records.keys().copied()).collect();
        let mut wrong = Vec::new();
        for dot in all.into_iter().filter(|dot| !self.is_dead(*dot)) {
            let held = self.sites.iter().filter(|site| site.bodies.contains(&dot)).count();
            if self.areas.is_some() {
                wrong.extend(self.surplus_in_areas(dot));
            } else if held > self.copies {
                wrong.push(("surplus", format!("{dot} has {held} of {}", self.copies)));
            }
        }
        self.outcome.violations.extend(wrong);
    }
}
