//! A new machine takes the place of a site that is gone: what it must have before that is done.
//!
//! The newcomer asks every other member which buckets it knows the gone site to have been in, and what it has of each
//! itself. Answers are gathered in rounds: a round ends when everybody who belongs and is not lost has answered after it
//! began, knowing itself that the site is gone. A site may leave a bucket between two answers and hand what it has to one
//! that answered before. So what was said counts only when two rounds in a row agree: nobody let go of any bucket, or was
//! started anew, between its two answers, whoever had something of a bucket in the first has it, or more, in the second, and
//! both asked about every bucket that is known by now. All that anybody had between the rounds is covered by the second then.
//!
//! What counts once is kept as long as it can be reached, however much is written meanwhile: else a newcomer behind a slow
//! link would never be done. When somebody holds it no more the next two rounds that agree take its place.
//!
//! Invariants: nothing is concluded from silence; who is lost, expelled or replaced is not waited for, and what only it
//! said is not either; what is done stays done, and that is for the caller to remember; all else is asked again after a start.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Instant, SiteId, Vector};

/// What a site says of each bucket: what it has of it, or that it only knows that the gone site was in it.
pub type Told = BTreeMap<BucketId, Option<Vector>>;

/// How long a site has let go of no bucket: equal in two answers, if it has not in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stays {
    /// Another with each start.
    pub life: u64,
    /// Buckets that it let go of in this life, counted when all else of the answer had been read.
    pub left: u64,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The whole answer of a site that knows who took whose place, and has no link to the gone one.
    Told(Told, Stays),
    /// None.
    Not(Why),
}

/// Why a site has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No link, or no answer.
    Silent,
    /// It has not heard that the site is gone.
    NotHeard,
    /// It does not know the question: a release before it.
    CannotSay,
    /// The budget of a metered link is used up.
    Metered,
}

/// What a bucket is to the newcomer itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// Its claim has not been heard yet.
    Unheard,
    /// It was deleted.
    Deleted,
    /// It may not be followed here.
    Refused,
    /// It may, and is not yet.
    Outside,
    /// It is.
    Member {
        /// What is here.
        vector: Vector,
        /// Whether this site answers for it.
        whole: bool,
    },
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// To be joined.
    pub join: Vec<BucketId>,
    /// Followed here, not yet answered for, and all is here that anybody has: to be answered for from now on.
    pub whole: Vec<BucketId>,
    /// Nobody else is a member, nor knows what it is.
    pub alone: Vec<BucketId>,
    /// May not be followed here.
    pub refused: Vec<BucketId>,
    /// Buckets that need nothing more.
    pub complete: u64,
    /// Of so many that are known.
    pub buckets: u64,
    /// Records that others have and this site has not, as far as is known.
    pub missing: u64,
    /// Who has not answered in this round, and why.
    pub waits: Vec<(SiteId, Why)>,
    /// Whether what others have is known.
    pub is_settled: bool,
    /// Nothing is lacking.
    pub is_done: bool,
}

/// All answers of a round.
#[derive(Debug, Clone, Default)]
struct Round {
    /// Which buckets everybody was asked about.
    about: BTreeSet<BucketId>,
    told: BTreeMap<SiteId, (Told, Stays)>,
}

impl Round {
    fn is_by(&self, live: &BTreeSet<SiteId>) -> bool {
        live.iter().all(|site| self.told.contains_key(site))
    }

    /// Whether nobody let go of anything since it was asked before.
    fn agrees(&self, before: &Self) -> bool {
        let stays = |(site, (_, stays)): (&SiteId, &(Told, Stays))| {
            self.told.get(site).is_some_and(|(_, now)| now == stays)
        };
        before.told.iter().all(stays) && self.confirms(before)
    }

    /// Whether everybody who had something before has it still.
    fn confirms(&self, before: &Self) -> bool {
        let has = |site: &SiteId, bucket: &BucketId, vector: &Vector| {
            let now = self.told.get(site).and_then(|(told, _)| told.get(bucket)).and_then(Option::as_ref);
            now.is_some_and(|now| now.includes(vector))
        };
        let mut all =
            before.told.iter().flat_map(|(site, (told, _))| told.iter().map(move |said| (site, said)));
        all.all(|(site, (bucket, said))| said.as_ref().is_none_or(|vector| has(site, bucket, vector)))
    }

    fn names(&self, bucket: BucketId) -> bool {
        self.told.values().any(|(told, _)| told.contains_key(&bucket))
    }

    /// What anybody has of a bucket; none if nobody is a member.
    fn goal(&self, bucket: BucketId) -> Option<Vector> {
        let said = self.told.values().filter_map(|(told, _)| told.get(&bucket)?.as_ref());
        said.fold(None, |goal: Option<Vector>, vector| {
            let mut goal = goal.unwrap_or_default();
            goal.merge(vector);
            Some(goal)
        })
    }
}

/// One site whose place is taken, as the newcomer sees it.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    live: BTreeSet<SiteId>,
    found: BTreeSet<BucketId>,
    number: u64,
    asking: Round,
    silent: BTreeMap<SiteId, Why>,
    before: Option<Round>,
    settled: Option<Round>,
}

impl Recovery {
    /// Begins, or goes on after a start, with what was found by then.
    pub fn new(found: BTreeSet<BucketId>) -> Self {
        let asking = Round { about: found.clone(), ..Round::default() };
        Self { found, asking, ..Self::default() }
    }

    /// The other members that are not lost: all of them are asked, and nobody else. When one of them is no more, all that was
    /// said counts no more either: it may have given something to one that had answered.
    pub fn live(&mut self, live: BTreeSet<SiteId>) {
        if !live.is_superset(&self.live) {
            let about = self.found.clone();
            self.asking = Round { about, ..Round::default() };
            (self.before, self.settled) = (None, None);
            self.silent.retain(|site, _| live.contains(site));
            self.number += 1;
        }
        self.live = live;
        self.end_round();
    }

    /// The gone site was in these buckets.
    pub fn found(&mut self, buckets: impl IntoIterator<Item = BucketId>) {
        self.found.extend(buckets);
    }

    /// The buckets that are known.
    pub const fn buckets(&self) -> &BTreeSet<BucketId> {
        &self.found
    }

    /// The round in hand: its number, about which buckets is asked beside those that each knows of, and who has not answered.
    pub fn questions(&self) -> (u64, Vec<BucketId>, Vec<SiteId>) {
        let open = self.live.iter().filter(|site| !self.asking.told.contains_key(site));
        (self.number, self.asking.about.iter().copied().collect(), open.copied().collect())
    }

    /// What a site said in a round; false if nobody waits for it any more.
    pub fn said(&mut self, round: u64, site: SiteId, said: Said) -> bool {
        if round != self.number || !self.live.contains(&site) {
            return false;
        }
        match said {
            Said::Told(told, stays) => {
                self.found.extend(told.keys());
                self.silent.remove(&site);
                self.asking.told.insert(site, (told, stays));
                self.end_round();
            }
            Said::Not(why) => {
                self.silent.insert(site, why);
            }
        }
        true
    }

    fn end_round(&mut self) {
        if !self.asking.is_by(&self.live) {
            return;
        }
        let about = self.found.clone();
        let ended = core::mem::replace(&mut self.asking, Round { about, ..Round::default() });
        self.number += 1;
        let asked_all = |round: &Round| round.about == self.found;
        let agrees = self.before.as_ref().is_some_and(|before| asked_all(before) && ended.agrees(before));
        if agrees && asked_all(&ended) {
            let stands = |settled: &Round| {
                settled.about == self.found && settled.is_by(&self.live) && ended.confirms(settled)
            };
            if !self.settled.as_ref().is_some_and(stands) {
                self.settled = Some(ended.clone());
            }
        }
        self.before = Some(ended);
    }

    /// Whether what all others have is known, of all buckets that are known.
    pub fn is_settled(&self) -> bool {
        self.goals().is_some()
    }

    fn goals(&self) -> Option<&Round> {
        self.settled.as_ref().filter(|settled| settled.about == self.found && settled.is_by(&self.live))
    }

    /// What is lacking. `own` says what each bucket is here; one that is left out has not been heard of.
    pub fn judge(&self, own: &BTreeMap<BucketId, Own>) -> Progress {
        let goals = self.goals();
        let waits = |site: &SiteId| (*site, self.silent.get(site).copied().unwrap_or(Why::Silent));
        let open = self.live.iter().filter(|site| !self.asking.told.contains_key(site));
        let mut progress = Progress {
            buckets: self.found.len() as u64,
            is_settled: goals.is_some(),
            // Who has not answered in a later round has answered.
            waits: open.filter(|_| goals.is_none()).map(waits).collect(),
            ..Progress::default()
        };
        for bucket in &self.found {
            match own.get(bucket) {
                // Its claim is gone with who named it.
                Some(Own::Unheard) if goals.is_some_and(|goals| !goals.names(*bucket)) => {
                    progress.complete += 1;
                    progress.alone.push(*bucket);
                }
                None | Some(Own::Unheard) => {}
                Some(Own::Deleted) => progress.complete += 1,
                Some(Own::Refused) => {
                    progress.complete += 1;
                    progress.refused.push(*bucket);
                }
                Some(Own::Outside) => {
                    progress.join.push(*bucket);
                    progress.missing += lacks(&Vector::new(), &self.known(*bucket));
                }
                Some(Own::Member { vector, whole }) => {
                    self.followed(*bucket, (vector, *whole), &mut progress);
                }
            }
        }
        progress.is_done = goals.is_some() && progress.complete == progress.buckets;
        progress
    }

    fn followed(&self, bucket: BucketId, (vector, whole): (&Vector, bool), progress: &mut Progress) {
        let Some(goals) = self.goals() else {
            progress.missing += lacks(vector, &self.known(bucket));
            return;
        };
        let goal = goals.goal(bucket);
        let missing = goal.as_ref().map_or(0, |goal| lacks(vector, goal));
        progress.missing += missing;
        if missing > 0 {
            let has = |(site, (told, _)): (&SiteId, &(Told, Stays))| {
                let theirs = told.get(&bucket)?.as_ref()?;
                (!self.asking.told.contains_key(site) && !vector.includes(theirs)).then_some(*site)
            };
            let silent = |site: SiteId| Some((site, *self.silent.get(&site)?));
            let waits = goals.told.iter().filter_map(has).filter_map(silent);
            let new: Vec<_> = waits.filter(|wait| !progress.waits.contains(wait)).collect();
            progress.waits.extend(new);
            return;
        }
        if whole {
            progress.complete += 1;
            return;
        }
        progress.whole.push(bucket);
        if goal.is_none() {
            progress.alone.push(bucket);
        }
    }

    /// Whether somebody is a member of a bucket, as was said last.
    pub fn is_somebodys(&self, bucket: BucketId) -> bool {
        self.goals().is_some_and(|goals| goals.goal(bucket).is_some())
    }

    /// What others have of a bucket, as far as it has been said.
    fn known(&self, bucket: BucketId) -> Vector {
        let mut known = Vector::new();
        for round in [Some(&self.asking), self.before.as_ref(), self.settled.as_ref()].into_iter().flatten() {
            known.merge(&round.goal(bucket).unwrap_or_default());
        }
        known
    }
}

fn lacks(own: &Vector, goal: &Vector) -> u64 {
    goal.iter().map(|(origin, seq)| seq.saturating_sub(own.get(origin))).sum()
}

/// How fast it goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    began: Option<(Instant, u64)>,
}

/// Before that a rate says nothing.
const MEASURED: Duration = Duration::from_secs(2);

impl Pace {
    /// How long it takes yet; none until there is a rate.
    pub fn left(&mut self, missing: u64, now: Instant) -> Option<Duration> {
        // More than at first: it was not all known then.
        let (began, first) = *self.began.get_or_insert((now, missing));
        if missing >= first {
            self.began = Some((if missing > first { now } else { began }, missing));
            return None;
        }
        let took = now.since(began);
        let rate = (first - missing) as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        (missing > 0 && took >= MEASURED).then(|| Duration::from_secs_f64((missing as f64 / rate).min(1e9)))
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
