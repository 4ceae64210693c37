//! A site that lost part of its journal and has taken its vectors back: when it has all that others have, of each bucket.
//!
//! What it lost it cannot name. So it asks every other site what lies there and waits until it has that: what each said first
//! is the goal, because others go on writing. Once all have been heard, at whatever times, nobody has anything of former days
//! that is not here, and what is missing still is lost: that is told, and the former vector is true again
//! (`skerry_model::space::whole_again`).
//!
//! Before: the node's `anew.rs`, which asks. Invariants: who is away is waited for, unless an operator has declared it lost; who
//! is no member has nothing that counts (a record that a single read brought there dies with the vector); who comes to have
//! less than it said sets the goal anew.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector};

use crate::alone::Held;
use crate::{Fingerprint, Loose};

/// One bucket.
#[derive(Debug, Clone, Default)]
struct Of {
    /// What the vector covered.
    former: Vector,
    heard: BTreeSet<SiteId>,
    /// What those had when they said so first that are not heard yet.
    goals: BTreeMap<SiteId, Vector>,
}

/// The buckets that are not whole yet, and what others said of them.
#[derive(Debug, Clone)]
pub struct Anew {
    /// Whose own records may lie at others alone.
    node: NodeId,
    buckets: BTreeMap<BucketId, Of>,
}

/// What is here of a bucket, for who compares it with what others said.
pub struct Own<'a> {
    /// Its vector.
    pub vector: &'a Vector,
    /// This life: nothing of it was lost.
    pub life: Origin,
    /// Over what is stored of an origin behind a seq.
    pub print: &'a dyn Fn(Origin, u64) -> Fingerprint,
}

impl Anew {
    /// Begins, or goes on after a restart: nobody has been heard in this life.
    pub fn new(node: NodeId, formers: BTreeMap<BucketId, Vector>) -> Self {
        let of = |(bucket, former)| (bucket, Of { former, ..Of::default() });
        Self { node, buckets: formers.into_iter().map(of).collect() }
    }

    /// Those that are not whole yet.
    pub fn buckets(&self) -> impl Iterator<Item = BucketId> + '_ {
        self.buckets.keys().copied()
    }

    /// Whether that is so of one.
    pub fn contains(&self, bucket: BucketId) -> bool {
        self.buckets.contains_key(&bucket)
    }

    /// Of these others those that have not been heard, or had more than is here.
    pub fn waits(&self, bucket: BucketId, others: impl IntoIterator<Item = SiteId>) -> Vec<SiteId> {
        let Some(of) = self.buckets.get(&bucket) else { return Vec::new() };
        others.into_iter().filter(|other| !of.heard.contains(other)).collect()
    }

    /// A site said what it holds of a bucket, as a member whole or not; none: it is no member.
    pub fn said(&mut self, bucket: BucketId, site: SiteId, held: Option<&Held>, own: &Own<'_>) {
        let Some(of) = self.buckets.get_mut(&bucket) else { return };
        let Some(held) = held else {
            of.goals.remove(&site);
            of.heard.insert(site);
            return;
        };
        // Where something beyond its vector is not here, today's vector is no goal: what lies beyond may lie within it tomorrow.
        if !held.loose.iter().all(|loose| of.is_no_loss(self.node, loose, own)) {
            of.goals.remove(&site);
            return;
        }
        let goal = of.goals.entry(site).or_insert_with(|| held.vector.clone());
        // Its disk was set back, or is another one.
        if !held.vector.includes(goal) {
            goal.clone_from(&held.vector);
        }
        if own.vector.includes(goal) {
            of.goals.remove(&site);
            of.heard.insert(site);
        }
    }

    /// One more, of which so much had been covered: it turned out later that it is to be heard of.
    pub fn begin(&mut self, bucket: BucketId, former: Vector) {
        self.buckets.entry(bucket).or_insert_with(|| Of { former, ..Of::default() });
    }

    /// It is whole, or followed no more.
    pub fn end(&mut self, bucket: BucketId) {
        self.buckets.remove(&bucket);
    }
}

impl Of {
    /// Whether nothing of what a member has beyond its vector was lost here. That comes and goes with every write that waits for
    /// several sites, so it is asked only of what may have been lost: what the former vector covered, and own records of former
    /// lives.
    fn is_no_loss(&self, node: NodeId, loose: &Loose, own: &Own<'_>) -> bool {
        let Loose { origin, covered, print } = *loose;
        let may_be = covered < self.former.get(origin) || (origin.node == node && origin != own.life);
        print.count == 0 || !may_be || (own.print)(origin, covered) == print
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: BucketId = BucketId([7; 16]);
    const ME: NodeId = NodeId([1; 16]);

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    fn origin(n: u8, incarnation: u64) -> Origin {
        Origin { node: NodeId([n; 16]), incarnation }
    }

    fn seqs(of: &[(Origin, u64)]) -> Vector {
        of.iter().copied().collect()
    }

    fn print(count: u64) -> Fingerprint {
        Fingerprint { count, ..Fingerprint::default() }
    }

    fn anew(former: &[(Origin, u64)]) -> Anew {
        Anew::new(ME, [(BUCKET, seqs(former))].into())
    }

    fn held(vector: &[(Origin, u64)], loose: &[(Origin, u64, u64)]) -> Held {
        let of = |&(origin, covered, count)| Loose { origin, covered, print: print(count) };
        Held { vector: seqs(vector), loose: loose.iter().map(of).collect() }
    }

    /// What a site said, where this much is here.
    fn said(anew: &mut Anew, n: u8, theirs: Option<&Held>, vector: &[(Origin, u64)], prints: u64) -> bool {
        let (vector, life) = (seqs(vector), origin(1, 2));
        let own = Own { vector: &vector, life, print: &|_, _| print(prints) };
        anew.said(BUCKET, site(n), theirs, &own);
        anew.waits(BUCKET, [site(n)]).is_empty()
    }

    #[test]
    fn each_other_site_is_heard_once_and_who_had_more_when_what_it_had_is_here() {
        let (mut anew, a, b) = (anew(&[(origin(1, 1), 9)]), origin(1, 1), origin(2, 1));
        assert_eq!(anew.waits(BUCKET, [site(2), site(3)]), [site(2), site(3)], "who is away is waited for");
        assert!(said(&mut anew, 3, None, &[], 0), "no member");
        let first = held(&[(a, 5), (b, 3)], &[]);
        assert!(!said(&mut anew, 2, Some(&first), &[(a, 4), (b, 3)], 0));
        // It writes on, which is no loss; what it had is here.
        let later = held(&[(a, 5), (b, 8)], &[]);
        assert!(said(&mut anew, 2, Some(&later), &[(a, 5), (b, 3)], 0));
        assert!(anew.waits(BUCKET, [site(2), site(3)]).is_empty() && anew.contains(BUCKET));
        anew.end(BUCKET);
        assert_eq!(anew.buckets().count(), 0);
    }

    #[test]
    fn who_lost_what_it_had_said_is_not_waited_for_for_ever() {
        let (mut anew, b) = (anew(&[]), origin(2, 1));
        assert!(!said(&mut anew, 2, Some(&held(&[(b, 8)], &[])), &[(b, 3)], 0));
        assert!(said(&mut anew, 2, Some(&held(&[(b, 2)], &[])), &[(b, 3)], 0));
    }

    /// It was whole again between the two times that it was asked.
    #[test]
    fn what_lay_beyond_a_vector_is_waited_for_once_it_lies_within() {
        let (mut anew, own) = (anew(&[(origin(1, 1), 3)]), origin(1, 1));
        assert!(!said(&mut anew, 2, Some(&held(&[], &[(own, 0, 1)])), &[], 0));
        let within = held(&[(own, 3)], &[]);
        assert!(!said(&mut anew, 2, Some(&within), &[], 0));
        assert!(said(&mut anew, 2, Some(&within), &[(own, 3)], 1));
    }

    #[test]
    fn what_lies_beyond_vectors_is_waited_for_where_it_may_have_been_lost() {
        let (own, b) = (origin(1, 1), origin(2, 1));
        // A write of a former life that another site held ahead of its feed.
        let ahead = held(&[(own, 4)], &[(own, 4, 1)]);
        let mut of_own = anew(&[]);
        assert!(!said(&mut of_own, 2, Some(&ahead), &[(own, 4)], 0));
        assert!(said(&mut of_own, 2, Some(&ahead), &[(own, 4)], 1));
        // Of others what the former vector covered; what came since comes and goes.
        let ahead = held(&[(b, 4)], &[(b, 4, 1)]);
        assert!(!said(&mut anew(&[(b, 5)]), 2, Some(&ahead), &[(b, 4)], 0));
        assert!(said(&mut anew(&[(b, 4)]), 2, Some(&ahead), &[(b, 4)], 0));
        // Nothing of this life was lost.
        let ahead = held(&[], &[(origin(1, 2), 0, 1)]);
        assert!(said(&mut anew(&[]), 2, Some(&ahead), &[], 0));
    }
}
