//! A bucket of which nobody seems to be a whole member: when one who is still taking it may be sure that there is nobody to take
//! it from, and be a whole one with what it holds.
//!
//! The disk of the only member burns, and the box is begun anew with its identity: the first write makes it a member, one that
//! waits for what others have. Nobody has anything. What nobody says stands for nothing: so each other site of the roster is
//! asked, and must answer.
//!
//! Invariants: whoever may be a member is linked and has said itself what lies there, or an operator has declared it lost (that
//! word speaks of this site alone: records that lie at others are waited for all the same); what
//! others that are still taking it as well have is here; where any record lies at one that is no member this site waits, since
//! that would be denied from then on; twice, and nothing came in between; the sites here are all that the others know of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, SiteId, Vector};

use crate::{Loose, limits};

/// What lies of a bucket at a site, for one who is still taking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remains {
    /// It is no member, follows no prefix of it, and no record of it lies there.
    Nothing,
    /// It is no member, and something does: what was read there, or lies below a prefix that it follows.
    Records,
    /// It is still taking it as well.
    Joins(Held),
    /// It is a whole member.
    Whole,
}

/// What a site holds of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Held {
    /// Everything up to here.
    pub vector: Vector,
    /// And these beyond, in order of origin.
    pub loose: Vec<Loose>,
}

/// What came of asking another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It is declared lost, and has no link.
    Lost,
    /// It has no link.
    Away,
    /// It has one, and did not say: it is of a release that does not know the question, or slow.
    Silent,
    /// Its word.
    Said(Remains),
}

/// Whom a site waits for that is still taking a bucket; nobody: it may be a whole member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waits {
    /// They may be members, and are not linked.
    pub away: Vec<SiteId>,
    /// They are linked, and do not say.
    pub silent: Vec<SiteId>,
    /// Records lie there.
    pub records: Vec<SiteId>,
    /// They have what is still to come, or may have: whole members, and others that are taking it.
    pub ahead: Vec<SiteId>,
    /// No other site is known here, or not all that the others know.
    pub unacquainted: bool,
}

impl Waits {
    /// Whether there is nobody.
    pub fn is_over(&self) -> bool {
        *self == Self::default()
    }

    /// One of those, for who would ask it before the others.
    pub fn first(&self) -> Option<SiteId> {
        [&self.ahead, &self.records, &self.silent].into_iter().flatten().next().copied()
    }
}

/// Judges what all other sites said. `is_acquainted`: all that they know of sites is known here.
pub fn judge(own: &Held, words: &BTreeMap<SiteId, Word>, is_acquainted: bool) -> Waits {
    let mut waits = Waits { unacquainted: words.is_empty() || !is_acquainted, ..Waits::default() };
    for (site, word) in words {
        let list = match word {
            Word::Lost | Word::Said(Remains::Nothing) => continue,
            Word::Said(Remains::Joins(theirs)) if own.has_all_of(theirs) => continue,
            Word::Said(Remains::Joins(_) | Remains::Whole) => &mut waits.ahead,
            Word::Said(Remains::Records) => &mut waits.records,
            Word::Silent => &mut waits.silent,
            Word::Away => &mut waits.away,
        };
        list.push(*site);
    }
    waits
}

impl Held {
    /// Whether nothing is there that is not here. Of what is loose only the same is known to be: it is exchanged first.
    fn has_all_of(&self, theirs: &Self) -> bool {
        let same = |loose: &Loose| loose.print.count == 0 || self.loose.contains(loose);
        self.vector.includes(&theirs.vector) && theirs.loose.iter().all(same)
    }
}

/// What was found when it was looked last, by bucket.
#[derive(Debug, Default)]
pub struct Looks(BTreeMap<BucketId, Held>);

impl Looks {
    /// A look is over; whether this site may take itself for a whole member: nobody was waited for then either, and nothing came
    /// since.
    pub fn look(&mut self, bucket: BucketId, own: Held, waits: &Waits) -> bool {
        if !waits.is_over() || (self.0.len() >= limits::BUCKETS && !self.0.contains_key(&bucket)) {
            self.0.remove(&bucket);
            return false;
        }
        let is_settled = self.0.insert(bucket, own.clone()) == Some(own);
        if is_settled {
            self.0.remove(&bucket);
        }
        is_settled
    }

    /// Of all but these nothing is remembered.
    pub fn keep(&mut self, buckets: &[BucketId]) {
        self.0.retain(|bucket, _| buckets.contains(bucket));
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;
    use crate::Fingerprint;

    const BUCKET: BucketId = BucketId([7; 16]);

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    fn origin(n: u8) -> Origin {
        Origin { node: NodeId([n; 16]), incarnation: 1 }
    }

    fn held(seqs: &[(u8, u64)], loose: &[(u8, u64)]) -> Held {
        let vector = seqs.iter().map(|(n, seq)| (origin(*n), *seq)).collect();
        let print = |count: u64| Fingerprint { count, sum: [count as u8; 16] };
        let loose =
            loose.iter().map(|(n, count)| Loose { origin: origin(*n), covered: 0, print: print(*count) });
        Held { vector, loose: loose.collect() }
    }

    fn said(remains: Remains) -> Word {
        Word::Said(remains)
    }

    fn waits(words: &[Word]) -> Waits {
        let words = (2..).map(site).zip(words.iter().cloned()).collect();
        judge(&held(&[(1, 5), (2, 3)], &[(9, 2)]), &words, true)
    }

    #[test]
    fn who_may_have_anything_or_says_nothing_is_waited_for() {
        let nothing = said(Remains::Nothing);
        assert!(waits(std::slice::from_ref(&nothing)).is_over());
        assert!(waits(&[nothing.clone(), Word::Lost]).is_over());
        let less = said(Remains::Joins(held(&[(2, 3)], &[])));
        let same = said(Remains::Joins(held(&[(2, 3)], &[(9, 2), (8, 0)])));
        assert!(waits(&[less, same, nothing.clone()]).is_over());
        for (word, first) in [
            (Word::Away, None),
            (Word::Silent, Some(site(3))),
            (said(Remains::Records), Some(site(3))),
            (said(Remains::Whole), Some(site(3))),
            (said(Remains::Joins(held(&[(2, 4)], &[]))), Some(site(3))),
            (said(Remains::Joins(held(&[(3, 1)], &[]))), Some(site(3))),
            (said(Remains::Joins(held(&[], &[(9, 1)]))), Some(site(3))),
            (said(Remains::Joins(held(&[], &[(8, 2)]))), Some(site(3))),
        ] {
            let waits = waits(&[nothing.clone(), word.clone(), nothing.clone()]);
            assert!(!waits.is_over() && waits.first() == first, "{word:?}: {waits:?}");
            let named = [&waits.away, &waits.silent, &waits.records, &waits.ahead].into_iter().flatten();
            assert_eq!(named.copied().collect::<Vec<_>>(), [site(3)], "{word:?}");
        }
    }

    #[test]
    fn who_knows_nobody_or_not_all_is_not_alone() {
        assert!(waits(&[]).unacquainted);
        assert!(waits(&[Word::Lost]).is_over(), "an operator has said it of everybody");
        let words = [(site(2), said(Remains::Nothing))].into();
        assert!(!judge(&held(&[], &[]), &words, false).is_over());
    }

    #[test]
    fn nobody_is_taken_for_whole_at_the_first_look_or_while_something_comes() {
        let (mut looks, over) = (Looks::default(), Waits::default());
        assert!(!looks.look(BUCKET, held(&[(1, 5)], &[]), &over));
        assert!(!looks.look(BUCKET, held(&[(1, 6)], &[]), &over), "something came");
        assert!(!looks.look(BUCKET, held(&[(1, 6)], &[(9, 1)]), &over), "something came");
        assert!(looks.look(BUCKET, held(&[(1, 6)], &[(9, 1)]), &over));
        assert!(!looks.look(BUCKET, held(&[], &[]), &over), "nothing is left of what was found");
        let away = Waits { away: vec![site(2)], ..Waits::default() };
        assert!(!looks.look(BUCKET, held(&[], &[]), &away));
        assert!(!looks.look(BUCKET, held(&[], &[]), &over), "it may have been anybody's meanwhile");
        looks.keep(&[]);
        assert!(!looks.look(BUCKET, held(&[], &[]), &over), "it was left meanwhile");
    }
}
