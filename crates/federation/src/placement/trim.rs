//! Copies too many: a holder lets go of its own copy, and of nobody else's.
//!
//! The rule. Whoever knows the same holders of a version finds the same ones to be kept, whoever is lost: those that areas
//! ask for, then the site that wrote it and the ring of ids behind it ([`Demand::kept`]). A holder marks the version, then
//! asks; it may let go once places that are enough without it, and are kept before it, have answered from their disks that
//! they hold it, as a copy that counts, that they have not marked it, and that they are not about to go.
//!
//! Why that leaves enough, whoever trims at once and whatever declarations each has heard. Say that copies were let go and
//! no disk was lost since the first of those rounds began. A place that a round counted on and that has let go since marked
//! the version after it answered, so the places that its own round counted on answered later still. That chain ends: with
//! the round that was marked last, and places that it counted on, that are enough and have marked nothing since. So only a
//! disk that is lost while a round goes on leaves too few, as it would have a moment later. The order is there so that all
//! end with the same holders, with those who see to copies (the writer, or who takes over from it) among them.
//!
//! What makes it true for everybody's books: before a copy goes, every site that keeps a book says, after it has written
//! that down, that it counts on it no more ([`super::Placement::spare`]); one that is silent keeps everything. From the
//! mark on the versions are left out of whatever this site says it holds, and what it said before holds no more: its word
//! begins another life ([`Trim::word`]).
//!
//! Invariants: one round at a time; nothing is let go that was not marked before anybody was asked, that one site keeps, or
//! that somebody wants held here meanwhile; this site's own place never counts, and what was written at it is never let go,
//! but where the bucket is to move.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Dot, Instant, SiteId};

use super::{Demand, Spans, limits};
use crate::Together;

/// A version that is held here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Which.
    pub dot: Dot,
    /// Who wrote it.
    pub writer: SiteId,
    /// At how many places it is to be at least, whatever its bucket asks for.
    pub copies: usize,
}

/// What a site says that was asked to count on this one no more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// What it holds of these itself, durably, and is not about to let go of.
    pub holds: Spans,
    /// What it goes on counting on.
    pub keeps: Spans,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A round begins: these are left out of what this site says it holds from now on.
    Mark(BucketId, Demand, Vec<Copy>),
    /// After that it was seen who keeps a book of them, and whose copies count.
    Ask {
        /// All who must answer.
        others: BTreeSet<SiteId>,
        /// Those of them whose copies count.
        counted: BTreeSet<SiteId>,
    },
    /// A site answered.
    Said(SiteId, Word),
    /// It did not.
    Silent(SiteId),
    /// What was to be let go is: these of them.
    Released(Vec<Dot>),
    /// The round is given up.
    GiveUp,
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask a site to count on this one no more for these; `Said` or `Silent` follows.
    Ask(BucketId, SiteId, Spans),
    /// Let go of these; `Released` or `GiveUp` follows.
    Release(BucketId, Vec<Dot>),
    /// The round is over.
    Over(BucketId, End),
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// So many were let go, so many stay because others hold too few or count on this site.
    Done {
        /// Versions that are here no more.
        released: usize,
        /// Versions that stay.
        stay: usize,
    },
    /// These did not answer: everything stays.
    Silent(BTreeSet<SiteId>),
    /// It was given up.
    GivenUp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Marked,
    Asking,
    Releasing,
}

#[derive(Debug, Clone)]
struct Round {
    bucket: BucketId,
    demand: Demand,
    copies: BTreeMap<Dot, Copy>,
    /// How many were marked.
    marked: usize,
    /// Who has not answered yet.
    open: BTreeSet<SiteId>,
    counted: BTreeSet<SiteId>,
    holds: BTreeMap<SiteId, Spans>,
    step: Step,
    ends: Instant,
}

/// The machine.
#[derive(Debug)]
pub struct Trim {
    me: SiteId,
    together: Together,
    round: Option<Round>,
    words: BTreeMap<BucketId, u64>,
}

impl Trim {
    /// Nothing is marked.
    pub fn new(me: SiteId) -> Self {
        Self { me, together: Together::default(), round: None, words: BTreeMap::new() }
    }

    /// Who burns together: each place counts once, and this site's own not at all.
    pub fn set_together(&mut self, together: Together) {
        self.together = together;
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Mark(bucket, demand, copies) => self.mark(bucket, demand, copies, now),
            Input::Ask { others, counted } => self.ask(others, counted, out),
            Input::Said(site, word) => self.said(site, word, out),
            Input::Silent(site) => self.silent(site, out),
            Input::Released(dots) => self.released(&dots, out),
            Input::GiveUp => self.end(End::GivenUp, out),
            Input::Wake => {
                let late =
                    self.round.as_ref().filter(|round| round.ends <= now && round.step != Step::Releasing);
                if let Some(open) = late.map(|round| round.open.clone()) {
                    self.end(End::Silent(open), out);
                }
            }
        }
    }

    /// When a round that nobody answers ends.
    pub fn next_wake(&self) -> Option<Instant> {
        self.round.as_ref().filter(|round| round.step != Step::Releasing).map(|round| round.ends)
    }

    /// Whether no round goes on.
    pub fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// Whether a version is about to be let go: this site must not say that it holds it.
    pub fn leaves_out(&self, bucket: BucketId, dot: Dot) -> bool {
        self.round.as_ref().is_some_and(|round| round.bucket == bucket && round.copies.contains_key(&dot))
    }

    /// The versions of a bucket that are about to be let go.
    pub fn marked(&self, bucket: BucketId) -> impl Iterator<Item = Dot> + '_ {
        let round = self.round.iter().filter(move |round| round.bucket == bucket);
        round.flat_map(|round| round.copies.keys().copied())
    }

    /// How often what this site said it holds of a bucket has ceased to be so, since it was started.
    pub fn word(&self, bucket: BucketId) -> u64 {
        self.words.get(&bucket).copied().unwrap_or_default()
    }

    /// Somebody wants a version held here: it stays. False if it is on its way out and is to be asked for again.
    pub fn wanted(&mut self, bucket: BucketId, dot: Dot) -> bool {
        let Some(round) = self.round.as_mut().filter(|round| round.bucket == bucket) else { return true };
        let goes = round.step == Step::Releasing && round.copies.contains_key(&dot);
        if !goes {
            round.copies.remove(&dot);
        }
        !goes
    }

    /// Whether a version is one too many here, going by who else holds it as `holders` says.
    pub fn is_surplus(
        &self,
        demand: &Demand,
        copy: &Copy,
        holders: impl IntoIterator<Item = SiteId>,
    ) -> bool {
        self.keeps(demand, copy, holders) == Some(false)
    }

    /// Whether a version is among those to be kept here; none if it has not all the copies yet that are asked for.
    pub fn keeps(
        &self,
        demand: &Demand,
        copy: &Copy,
        holders: impl IntoIterator<Item = SiteId>,
    ) -> Option<bool> {
        let place = self.together.of(self.me);
        if copy.copies == 0 || self.is_own(demand, copy) {
            return Some(true);
        }
        let others = holders.into_iter().filter(|site| self.together.of(*site) != place);
        let all: BTreeSet<SiteId> = others.chain([self.me]).collect();
        let kept = demand.clone().at_least(copy.copies).kept(copy.writer, &all, &self.together);
        kept.map(|kept| kept.contains(&place))
    }

    /// Whether a version was written at this site's own place: its copy there is never one too many, unless it moves.
    pub fn is_own(&self, demand: &Demand, copy: &Copy) -> bool {
        !demand.moves() && self.together.of(copy.writer) == self.together.of(self.me)
    }

    fn mark(&mut self, bucket: BucketId, demand: Demand, copies: Vec<Copy>, now: Instant) {
        if self.round.is_some() {
            return;
        }
        let copies: BTreeMap<Dot, Copy> = copies
            .into_iter()
            .filter(|copy| copy.copies > 0 && !self.is_own(&demand, copy))
            .take(limits::TRIMMED_AT_ONCE)
            .map(|copy| (copy.dot, copy))
            .collect();
        *self.words.entry(bucket).or_default() += 1;
        self.round = Some(Round {
            bucket,
            demand,
            marked: copies.len(),
            copies,
            open: BTreeSet::new(),
            counted: BTreeSet::new(),
            holds: BTreeMap::new(),
            step: Step::Marked,
            ends: now.after(limits::TRIM_ROUND),
        });
    }

    fn ask(&mut self, others: BTreeSet<SiteId>, counted: BTreeSet<SiteId>, out: &mut Vec<Output>) {
        let me = self.me;
        let Some(round) = self.round.as_mut().filter(|round| round.step == Step::Marked) else { return };
        round.open = others.into_iter().filter(|site| *site != me).collect();
        round.counted = counted;
        round.step = Step::Asking;
        let spans: Spans = round.copies.keys().copied().collect();
        out.extend(round.open.iter().map(|site| Output::Ask(round.bucket, *site, spans.clone())));
        self.conclude(out);
    }

    fn said(&mut self, site: SiteId, word: Word, out: &mut Vec<Output>) {
        let Some(round) = self.round.as_mut().filter(|round| round.step == Step::Asking) else { return };
        if !round.open.remove(&site) {
            return;
        }
        round.copies.retain(|dot, _| !word.keeps.contains(*dot));
        round.holds.insert(site, word.holds);
        self.conclude(out);
    }

    fn silent(&mut self, site: SiteId, out: &mut Vec<Output>) {
        let asks = |round: &&Round| round.step == Step::Asking && round.open.contains(&site);
        if self.round.as_ref().filter(asks).is_some() {
            self.end(End::Silent([site].into()), out);
        }
    }

    /// Once all have answered, what enough places hold that are kept before this one may go.
    fn conclude(&mut self, out: &mut Vec<Output>) {
        let Some(round) = self.round.as_ref().filter(|round| round.open.is_empty()) else { return };
        let holders = |dot: Dot| {
            let holds = move |site: &&SiteId| round.holds.get(*site).is_some_and(|spans| spans.contains(dot));
            round.counted.iter().filter(holds).copied()
        };
        let enough = |copy: &&Copy| self.is_surplus(&round.demand, copy, holders(copy.dot));
        let goes: BTreeMap<Dot, Copy> =
            round.copies.values().filter(enough).map(|copy| (copy.dot, *copy)).collect();
        let (bucket, stay) = (round.bucket, round.marked - goes.len());
        if goes.is_empty() {
            return self.end(End::Done { released: 0, stay }, out);
        }
        out.push(Output::Release(bucket, goes.keys().copied().collect()));
        if let Some(round) = &mut self.round {
            (round.copies, round.step) = (goes, Step::Releasing);
        }
    }

    fn released(&mut self, dots: &[Dot], out: &mut Vec<Output>) {
        let Some(round) = self.round.as_ref().filter(|round| round.step == Step::Releasing) else { return };
        let released = dots.iter().filter(|dot| round.copies.contains_key(dot)).count();
        let stay = round.marked - released;
        self.end(End::Done { released, stay }, out);
    }

    fn end(&mut self, end: End, out: &mut Vec<Output>) {
        if let Some(round) = self.round.take() {
            out.push(Output::Over(round.bucket, end));
        }
    }
}

#[cfg(test)]
#[path = "trim_tests.rs"]
mod tests;
