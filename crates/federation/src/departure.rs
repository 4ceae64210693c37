//! Leaving a bucket: when a site may let go of what it holds of it.
//!
//! A site that leaves asks the other members what they have. It may go once as many of them as the bucket wants copies,
//! one at least, have everything that it has, and stay. Who is about to leave itself says so and does not count: of two
//! sites that each had let go on the other's word nothing would be left. That one of two who ask each other is told so
//! follows from the order: each has begun to leave before it asks.
//!
//! Only what was said in this attempt counts, and an attempt is in memory: who starts anew asks anew. What was said stays
//! true: vectors only grow, and a member that has said that it stays and then leaves hands on all that it had.
//!
//! What others are to hold of a version before that ([`left_behind`]) is what its bucket wants, of those who can be asked now:
//! whoever stays goes on seeing to that; and no fewer places than its write was answered for, of all that there are, for
//! nobody would see to those later.
//!
//! Invariants: nothing is concluded from silence; records beyond the vector (loose ones) are handed over as well; the
//! judgement is made on the very view that the commit which lets go is made on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};

use crate::placement::Demand;
use crate::{Fingerprint, Loose, Together, limits};

/// What a site is to a bucket, for one who wants to leave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// A whole member that stays: it has this, durably.
    Stays {
        /// Everything up to here.
        vector: Vector,
        /// And these beyond, in order of origin.
        loose: Vec<Loose>,
    },
    /// It is about to leave as well.
    Leaves,
    /// A member that has not yet taken what others have.
    Joins,
    /// No member.
    Absent,
}

/// What a site that leaves holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own {
    /// Everything up to here.
    pub vector: Vector,
    /// The seqs of each origin beyond; none if they are more than [`limits::LOOSE_LEFT`].
    pub loose: Vec<(Origin, Option<Vec<u64>>)>,
}

/// Whether a site may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Enough others have everything.
    Go,
    /// Not yet.
    Wait(Wait),
}

/// Why not yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wait {
    /// How many sites have everything; the nodes of one site count once.
    pub have: usize,
    /// As many as the bucket wants copies, or all other members if they are fewer; 0: there is no other.
    pub wanted: usize,
    /// Members that lack something.
    pub behind: Vec<SiteId>,
    /// Members that have not answered.
    pub silent: Vec<SiteId>,
    /// Members that are about to leave as well.
    pub leaving: Vec<SiteId>,
}

/// One attempt to leave, as far as it has come.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    round: u64,
    said: BTreeMap<SiteId, Standing>,
    together: Together,
}

/// The buckets that a site is about to leave.
#[derive(Debug, Default)]
pub struct Departures {
    going: BTreeMap<BucketId, Attempt>,
    rounds: u64,
}

impl Departures {
    /// Begins to leave; from now on this site does not count for others. False if it had begun before.
    pub fn begin(&mut self, bucket: BucketId) -> bool {
        let begun = self.going.contains_key(&bucket) || self.going.len() >= limits::BUCKETS;
        if !begun {
            self.going.insert(bucket, Attempt::default());
        }
        !begun
    }

    /// It has left, or stays after all.
    pub fn end(&mut self, bucket: BucketId) {
        self.going.remove(&bucket);
    }

    /// Whether this site is about to leave a bucket.
    pub fn is_going(&self, bucket: BucketId) -> bool {
        self.going.contains_key(&bucket)
    }

    /// The buckets that it is about to leave.
    pub fn all(&self) -> impl Iterator<Item = BucketId> {
        self.going.keys().copied()
    }

    /// Names a round of questions; answers to earlier ones count no more.
    pub fn ask(&mut self, bucket: BucketId) -> Option<u64> {
        let attempt = self.going.get_mut(&bucket)?;
        self.rounds += 1;
        *attempt = Attempt { round: self.rounds, ..Attempt::default() };
        Some(self.rounds)
    }

    /// A site answered; false if nobody waits for it any more.
    pub fn said(&mut self, bucket: BucketId, round: u64, site: SiteId, standing: Standing) -> bool {
        let Some(attempt) = self.going.get_mut(&bucket).filter(|attempt| attempt.round == round) else {
            return false;
        };
        if attempt.said.len() < limits::SITES {
            attempt.said.insert(site, standing);
        }
        true
    }

    /// What was said so far, to be judged on the view of a commit.
    pub fn attempt(&self, bucket: BucketId) -> Option<Attempt> {
        self.going.get(&bucket).cloned()
    }
}

impl Attempt {
    /// With who burns together: the nodes of one site are one that has everything.
    pub fn with(self, together: Together) -> Self {
        Self { together, ..self }
    }

    /// The other members that may stay: all but those who said that they are none, or leave as well.
    pub fn others(&self, members: &BTreeSet<SiteId>) -> BTreeSet<SiteId> {
        let all = members.iter().chain(self.said.keys()).copied();
        let gone = |site: &SiteId| matches!(self.said.get(site), Some(Standing::Leaves | Standing::Absent));
        all.filter(|site| !gone(site)).collect()
    }

    /// Who said that it is about to leave as well.
    pub fn leaving(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.said.iter().filter(|(_, said)| **said == Standing::Leaves).map(|(site, _)| *site)
    }

    /// Whether a site that holds `own` may go. `members` are the other members as far as known; `copies` what the bucket
    /// wants.
    pub fn judge(&self, own: &Own, copies: usize, members: &BTreeSet<SiteId>) -> Verdict {
        let mut wait = Wait::default();
        let others = self.others(members);
        let mut have = BTreeSet::new();
        for site in &others {
            match self.said.get(site) {
                Some(Standing::Stays { vector, loose }) if has_all(vector, loose, own) => {
                    have.insert(self.together.of(*site));
                }
                Some(_) => wait.behind.push(*site),
                None => wait.silent.push(*site),
            }
        }
        wait.leaving.extend(self.leaving());
        wait.have = have.len();
        wait.wanted = self.wanted(copies, &others);
        match wait.wanted > 0 && wait.have >= wait.wanted {
            true => Verdict::Go,
            false => Verdict::Wait(wait),
        }
    }

    fn wanted(&self, copies: usize, others: &BTreeSet<SiteId>) -> usize {
        copies.max(1).min(self.together.count(others.iter().copied()))
    }

    /// Whether enough others lack at most so many records each: they will have them in a moment if nothing new comes.
    pub fn is_near(&self, own: &Own, copies: usize, members: &BTreeSet<SiteId>, most: u64) -> bool {
        let others = self.others(members);
        let lacks = |vector: &Vector| -> u64 {
            own.vector.iter().map(|(origin, seq)| seq.saturating_sub(vector.get(origin))).sum()
        };
        let near = |site: &&SiteId| match self.said.get(site) {
            Some(Standing::Stays { vector, .. }) => lacks(vector) <= most,
            _ => false,
        };
        let wanted = self.wanted(copies, &others);
        wanted > 0 && self.together.count(others.iter().filter(near).copied()) >= wanted
    }
}

/// What others are to hold of a version before a holder of it goes. `wish`: what the bucket wants; `near`: those who can be
/// asked now; `promised`: at how many places it is kept because its write was answered so; `all`: everybody who may hold it,
/// reached or not. One place at the least, whoever there is.
pub fn left_behind(
    wish: &Demand,
    promised: usize,
    near: &BTreeSet<SiteId>,
    all: &BTreeSet<SiteId>,
    together: &Together,
) -> Demand {
    let promised = promised.min(together.count(all.iter().copied()));
    wish.clone().among(near, together).at_least(promised.max(1))
}

/// Whether who has this has everything of `own`.
fn has_all(vector: &Vector, loose: &[Loose], own: &Own) -> bool {
    let has = |(origin, seqs): &(Origin, Option<Vec<u64>>)| {
        let Some(seqs) = seqs else { return false };
        let covered = vector.get(*origin);
        let beyond = seqs.iter().filter(|seq| **seq > covered);
        let print: Fingerprint = beyond.map(|seq| Dot { origin: *origin, seq: *seq }).collect();
        let same = |theirs: &&Loose| theirs.origin == *origin && theirs.covered == covered;
        print.count == 0 || loose.iter().find(same).is_some_and(|theirs| theirs.print == print)
    };
    vector.includes(&own.vector) && own.loose.iter().all(has)
}

#[cfg(test)]
#[path = "departure_tests.rs"]
mod tests;
