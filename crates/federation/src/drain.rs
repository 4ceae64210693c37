//! Draining a site: what must be elsewhere before it may be switched off, and when that may be said.
//!
//! A pure machine, driven in *looks*. A look begins with what this site has of each bucket ([`Input::Look`]); the machine
//! has others asked what they have ([`Output::Ask`]); when all have answered it names what they must be asked for (become
//! a member, decide conditions from now on) and has the bodies here looked through ([`Output::Scan`]), each of which it
//! knows to be elsewhere or not ([`Drain::holds`]); bodies that are not are placed by who runs the machine. When nothing
//! is lacking, those it rests on are asked once more, and only then it is safe ([`Output::Safe`]).
//!
//! Invariants: a site's word counts in the life in which it gave it: one that was started anew says everything again;
//! a record that is not covered by somebody who answered in this look is lacking, a body that nobody who can be asked has
//! said to hold; *safe* needs the word of each of them once more, so a silent one holds it up ([`Output::Doubt`]) and what
//! it holds is not handed over twice for a moment's silence; once it was safe, those it rested on are believed in their
//! silence ([`Input::Believe`]), so that what others say that they hold less is heard all the same, and nothing is said to be
//! safe on such a belief; *safe* names the vectors it was found for, and
//! who writes that down compares them with those of that moment, so that nothing written meanwhile is forgotten; this
//! site itself never counts, nor does one that says that it goes: it is emptied as well, or leaves the bucket. Of two that
//! ask each other one is told so, because each has begun to go before it asks. Words are asked of members only, so that a
//! thousand sites are not.

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;
use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};

use crate::Together;
use crate::departure::left_behind;
use crate::placement::{Demand, Spans};

/// What this site has of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own {
    /// Its records.
    pub vector: Vector,
    /// Sites that are known to follow the bucket.
    pub members: BTreeSet<SiteId>,
    /// Whether it decides the bucket's conditions.
    pub home: bool,
    /// Whether it may be named to do so by somebody who has not heard that it goes: it made the bucket, whose home nobody has
    /// named yet.
    pub may_be_named: bool,
}

/// What a site says of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The life in which it says so.
    pub life: Origin,
    /// Its records, if it is a complete member.
    pub seen: Option<Vector>,
    /// The bodies that it holds: all, or those behind what was said before if it is still in that life.
    pub held: Held,
}

/// The bodies that a site holds, as it says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Only of records behind this.
    pub from: Vector,
    /// Which.
    pub spans: Spans,
    /// Of the records up to here. It may hold others beyond, of which this says nothing.
    pub upto: Vector,
}

/// What is not elsewhere yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacking {
    /// Records that nobody who answered is known to have; those that died meanwhile count.
    pub records: u64,
    /// Versions whose body nobody holds.
    pub bodies: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Buckets whose conditions this site decides, or would if it was named now.
    pub homes: u64,
    /// What else keeps it, such as uploads that were not completed.
    pub others: u64,
}

impl Lacking {
    /// Whether nothing is.
    pub const fn is_nothing(&self) -> bool {
        self.records == 0 && self.bodies == 0 && self.homes == 0 && self.others == 0
    }
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The sites that can take over and have a link, nearest first.
    Sites(Vec<SiteId>),
    /// A look begins: what is here of all buckets. One that was under way is given up.
    Look(BTreeMap<BucketId, Own>),
    /// A site answered.
    Said(BucketId, SiteId, Word),
    /// It answered that it goes, or is no member: nothing that it has counts.
    Goes(BucketId, SiteId),
    /// It did not answer.
    Silent(BucketId, SiteId),
    /// A site holds a version, durably: it was asked to.
    Took(BucketId, Dot, SiteId),
    /// The bodies here were looked through: how many are not held elsewhere, their bytes, and what else keeps the site.
    Scanned {
        /// Versions.
        bodies: u64,
        /// Bytes of them.
        bytes: u64,
        /// Whatever is neither record nor body.
        others: u64,
        /// Versions that are not counted because one who is believed in its silence holds them.
        believed: u64,
    },
    /// Whose last word counts as long as they are silent: those on whom it rested when it was said that nothing is lacking.
    Believe(BTreeSet<SiteId>),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask a site what it has of a bucket; `Said` or `Silent` follows.
    Ask {
        /// Which bucket.
        bucket: BucketId,
        /// Whom.
        site: SiteId,
        /// The life whose word is known. In another one everything is to be said.
        life: Option<Origin>,
        /// In that life: how far it was said what it holds.
        from: Vector,
    },
    /// Have a site become a member of a bucket that nobody else follows.
    Follow(BucketId, SiteId),
    /// Hand a bucket's conditions to a site.
    Hand(BucketId, SiteId),
    /// Look through the bodies here.
    Scan,
    /// The look ended, and so much is lacking.
    Lacks(Lacking),
    /// The look ended, and those it rests on did not confirm what they had said, or were silent: a later one tells what
    /// is lacking.
    Doubt,
    /// Everything that is covered by these vectors is elsewhere.
    Safe(BTreeMap<BucketId, Vector>),
}

/// Where a look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    /// None is under way.
    #[default]
    Resting,
    /// Others are asked what they have.
    Asking,
    /// The bodies here are looked through.
    Scanning,
    /// Those on whom it rests are asked once more.
    Confirming,
}

/// What a site said of a bucket.
#[derive(Debug, Clone, Default)]
struct Known {
    life: Option<Origin>,
    held: Spans,
    /// How far that was said.
    upto: Vector,
    /// In this look.
    seen: Option<Vector>,
    /// In the last in which it answered, if it has not in this one.
    saw: Option<Vector>,
    /// Whether what it said last confirms what it said before.
    fresh: bool,
}

impl Known {
    /// What it holds was said in the same life again, or further; whether nothing is missing that it said before.
    fn renew(&mut self, said: Held) -> bool {
        let Held { from, mut spans, upto } = said;
        let mut stands = true;
        for (origin, first, last) in self.held.iter() {
            let (begin, end) = (from.get(origin).saturating_add(1), upto.get(origin));
            let mut within = Spans::default();
            within.insert_range(origin, first.max(begin), last.min(end));
            stands &= spans.includes(&within);
            // Before and beyond what was said now stays what was said before, or was taken by name.
            spans.insert_range(origin, first, last.min(begin.saturating_sub(1)));
            spans.insert_range(origin, first.max(end.saturating_add(1)), last);
        }
        self.held = spans;
        self.upto.merge(&upto);
        stands
    }
}

/// The machine.
#[derive(Debug, Default)]
pub struct Drain {
    sites: Vec<SiteId>,
    own: BTreeMap<BucketId, Own>,
    known: BTreeMap<(BucketId, SiteId), Known>,
    step: Step,
    open: BTreeSet<(BucketId, SiteId)>,
    /// Whose last word counts as long as they are silent.
    believed: BTreeSet<SiteId>,
    /// Who said in this look that it goes.
    going: BTreeSet<(BucketId, SiteId)>,
    /// Whose words the look through the bodies rests on.
    relied: BTreeSet<(BucketId, SiteId)>,
    /// Whether it was safe before: then who holds what is not said in full again.
    was_safe: bool,
    lacking: Lacking,
    /// Since when how many bytes were lacking, to tell when it ends.
    began: Option<(Instant, u64)>,
}

impl Drain {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Sites(sites) => {
                self.sites = sites;
                let there = &self.sites;
                self.open.retain(|(_, site)| there.contains(site));
            }
            Input::Look(own) => self.look(own, out),
            Input::Said(bucket, site, word) => self.said((bucket, site), word),
            Input::Goes(bucket, site) => {
                self.known.remove(&(bucket, site));
                self.open.remove(&(bucket, site));
                self.going.insert((bucket, site));
            }
            Input::Silent(bucket, site) => {
                if let Some(known) = self.known.get_mut(&(bucket, site)) {
                    known.saw = known.seen.take().or_else(|| known.saw.take());
                    known.fresh = false;
                }
                self.open.remove(&(bucket, site));
            }
            Input::Took(bucket, dot, site) => {
                // A life is needed to notice that the holder was started anew: it is asked for in the next look.
                self.known.entry((bucket, site)).or_default().held.insert(dot);
            }
            Input::Scanned { bodies, bytes, others, believed } => {
                if self.step == Step::Scanning {
                    self.scanned((Lacking { bodies, bytes, others, ..self.lacking }, believed), now, out);
                }
            }
            Input::Believe(sites) => self.believed = sites,
        }
        if self.open.is_empty() {
            match self.step {
                Step::Asking => self.asked(out),
                Step::Confirming => self.confirmed(out),
                Step::Resting | Step::Scanning => {}
            }
        }
    }

    /// Whether no look is under way.
    pub fn is_resting(&self) -> bool {
        self.step == Step::Resting
    }

    /// Whether somebody who can be asked now is known to hold a body.
    pub fn holds(&self, bucket: BucketId, dot: Dot) -> bool {
        self.sites.iter().any(|site| {
            let known = self.known.get(&(bucket, *site));
            known.is_some_and(|known| known.life.is_some() && known.held.contains(dot))
        })
    }

    /// Who that can be asked now is known to hold a body, and has not said that it goes.
    pub fn holders(&self, bucket: BucketId, dot: Dot) -> BTreeSet<SiteId> {
        let holds = |site: &&SiteId| {
            let known = self.known.get(&(bucket, **site)).filter(|_| self.stays(bucket, **site));
            known.is_some_and(|known| known.life.is_some() && known.held.contains(dot))
        };
        self.sites.iter().filter(holds).copied().collect()
    }

    /// The same, and who is silent and believed to hold it by its last word.
    pub fn believed_holders(&self, bucket: BucketId, dot: Dot) -> BTreeSet<SiteId> {
        let holds = |site: &&SiteId| {
            let known = self.known.get(&(bucket, **site)).filter(|_| self.stays(bucket, **site));
            known.is_some_and(|known| known.life.is_some() && known.held.contains(dot))
        };
        let silent = self.believed.iter().filter(holds).copied();
        self.holders(bucket, dot).into_iter().chain(silent).collect()
    }

    /// Whether enough others hold a body before this site goes: see [`left_behind`]. `may`: all that may hold it, whether or not
    /// they can be asked now.
    pub fn is_kept(
        &self,
        (bucket, dot): (BucketId, Dot),
        (wish, promised): (&Demand, usize),
        may: &BTreeSet<SiteId>,
        together: &Together,
    ) -> bool {
        let demand = self.demand(bucket, (wish, promised), may, together);
        demand.is_met(&self.holders(bucket, dot), together)
    }

    /// What that asks for.
    pub fn demand(
        &self,
        bucket: BucketId,
        (wish, promised): (&Demand, usize),
        may: &BTreeSet<SiteId>,
        together: &Together,
    ) -> Demand {
        let all: BTreeSet<SiteId> = may.iter().copied().filter(|site| self.stays(bucket, *site)).collect();
        let near = self.sites.iter().copied().filter(|site| all.contains(site)).collect();
        left_behind(wish, promised, &near, &all, together)
    }

    /// Whether a site has not said in this look that it goes.
    fn stays(&self, bucket: BucketId, site: SiteId) -> bool {
        !self.going.contains(&(bucket, site))
    }

    /// Whether somebody who answered in this look has a record.
    pub fn has_record(&self, bucket: BucketId, dot: Dot) -> bool {
        self.sites.iter().any(|site| {
            let known = self.known.get(&(bucket, *site));
            known.and_then(|known| known.seen.as_ref()).is_some_and(|seen| seen.covers(dot))
        })
    }

    /// Whether somebody who is silent and believed had it when it answered last, or holds its body.
    pub fn is_believed_to_have(&self, bucket: BucketId, dot: Dot) -> bool {
        self.believed.iter().any(|site| {
            let saw = self.known.get(&(bucket, *site)).and_then(|known| known.saw.as_ref());
            saw.is_some_and(|saw| saw.covers(dot))
        }) || !self.believed_holders(bucket, dot).is_empty()
    }

    /// Who of those that could take over said in this look that it goes itself.
    pub fn going(&self) -> impl Iterator<Item = (BucketId, SiteId)> + '_ {
        self.going.iter().copied()
    }

    /// How long the bodies that are lacking take at the rate of this drain so far; none before there is one.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        let (began, first) = self.began?;
        let done = first.checked_sub(self.lacking.bytes).filter(|done| *done > 0)?;
        let spent = u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX);
        let left = u128::from(spent) * u128::from(self.lacking.bytes) / u128::from(done);
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    fn look(&mut self, own: BTreeMap<BucketId, Own>, out: &mut Vec<Output>) {
        self.own = own;
        let own = &self.own;
        self.known.retain(|(bucket, _), _| own.contains_key(bucket));
        for known in self.known.values_mut() {
            known.saw = known.seen.take().or_else(|| known.saw.take());
            known.fresh = false;
        }
        self.step = Step::Asking;
        self.going.clear();
        self.lacking = Lacking::default();
        let mut open = BTreeSet::new();
        for (bucket, own) in &self.own {
            for site in &self.sites {
                // A holder that became a member by holding may not be known as one yet.
                if own.members.contains(site) || self.known.contains_key(&(*bucket, *site)) {
                    open.insert((*bucket, *site));
                }
            }
        }
        self.ask(open, false, out);
    }

    fn ask(&mut self, open: BTreeSet<(BucketId, SiteId)>, in_full: bool, out: &mut Vec<Output>) {
        for &(bucket, site) in &open {
            let known = self.known.get(&(bucket, site)).filter(|_| !in_full);
            let life = known.and_then(|known| known.life);
            let from = known.filter(|_| life.is_some()).map(|known| known.upto.clone()).unwrap_or_default();
            out.push(Output::Ask { bucket, site, life, from });
        }
        self.open = open;
    }

    fn said(&mut self, of: (BucketId, SiteId), word: Word) {
        self.open.remove(&of);
        let known = self.known.entry(of).or_default();
        let same = known.life == Some(word.life);
        known.fresh = same;
        if same {
            known.fresh = known.renew(word.held);
        } else {
            (known.held, known.upto) = (word.held.spans, word.held.upto);
        }
        known.life = Some(word.life);
        (known.seen, known.saw) = (word.seen, None);
    }

    /// How many records of a bucket nobody who answered has, nor one of `silent` by its last word.
    fn unseen(&self, bucket: BucketId, own: &Own, silent: &BTreeSet<SiteId>) -> u64 {
        let mut seen = Vector::new();
        let said = |site| self.known.get(&(bucket, site));
        let now = self.sites.iter().filter_map(|site| said(*site)?.seen.as_ref());
        let before = silent.iter().filter_map(|site| said(*site)?.saw.as_ref());
        now.chain(before).for_each(|vector| seen.merge(vector));
        own.vector.iter().map(|(origin, seq)| seq.saturating_sub(seen.get(origin))).sum()
    }

    /// All who can be asked have answered.
    fn asked(&mut self, out: &mut Vec<Output>) {
        self.lacking = self.records(&self.believed);
        for (bucket, own) in &self.own {
            let complete = |site: &&SiteId| {
                let known = self.known.get(&(*bucket, **site));
                known.is_some_and(|known| known.seen.as_ref().is_some_and(|seen| seen.includes(&own.vector)))
            };
            let stay = || self.sites.iter().filter(|site| !self.going.contains(&(*bucket, **site)));
            let whole = stay().find(complete);
            match (whole, own.home) {
                (Some(site), true) => out.push(Output::Hand(*bucket, *site)),
                (Some(_), false) => {}
                // Who follows already takes what it lacks; else the nearest becomes a member.
                (None, _) if stay().any(|site| own.members.contains(site)) => {}
                (None, _) => out.extend(stay().next().map(|site| Output::Follow(*bucket, *site))),
            }
        }
        self.relied = self.known.keys().filter(|(_, site)| self.sites.contains(site)).copied().collect();
        self.step = Step::Scanning;
        out.push(Output::Scan);
    }

    fn records(&self, silent: &BTreeSet<SiteId>) -> Lacking {
        let records = self.own.iter().map(|(bucket, own)| self.unseen(*bucket, own, silent)).sum();
        let homes = self.own.values().filter(|own| own.home || own.may_be_named).count() as u64;
        Lacking { records, homes, ..Lacking::default() }
    }

    fn scanned(&mut self, (lacking, believed): (Lacking, u64), now: Instant, out: &mut Vec<Output>) {
        self.lacking = lacking;
        // More than at first: it was not all known then.
        if self.began.is_none_or(|(_, first)| lacking.bytes > first) {
            self.began = Some((now, lacking.bytes));
        }
        if !lacking.is_nothing() {
            (self.step, self.was_safe) = (Step::Resting, false);
            out.push(Output::Lacks(lacking));
            return;
        }
        // Silence is no word against what was said before, and none for it.
        if believed > 0 || !self.records(&BTreeSet::new()).is_nothing() {
            (self.step, self.was_safe) = (Step::Resting, false);
            out.push(Output::Doubt);
            return;
        }
        self.step = Step::Confirming;
        self.known.values_mut().for_each(|known| known.fresh = false);
        let there = |of: &&(BucketId, SiteId)| self.sites.contains(&of.1);
        let open = self.relied.iter().filter(there).copied().collect();
        self.ask(open, !self.was_safe, out);
    }

    /// Asked once more: whoever is silent now, or was started anew since, is not rested on.
    fn confirmed(&mut self, out: &mut Vec<Output>) {
        self.step = Step::Resting;
        let all_stand = self
            .relied
            .iter()
            .all(|of| self.sites.contains(&of.1) && self.known.get(of).is_some_and(|known| known.fresh));
        let lacking = self.records(&BTreeSet::new());
        if all_stand && lacking.is_nothing() && self.lacking.is_nothing() {
            self.was_safe = true;
            let vectors = self.own.iter().map(|(bucket, own)| (*bucket, own.vector.clone())).collect();
            out.push(Output::Safe(vectors));
        } else {
            self.was_safe = false;
            out.push(Output::Doubt);
        }
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
