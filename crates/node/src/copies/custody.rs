//! Who looks after the copies of what a site wrote, as this site knows it now.
//!
//! Before: [`custodian`], which decides. After: looks and what they covered, which both rest on it: a look passes over what
//! is another site's, so what was covered stands only while that is so ([`super::book`]).

use std::collections::BTreeSet;

use skerry_base::{BucketId, SiteId};
use skerry_federation::placement::custodian;

use super::{Copies, Rules, State};

/// Of one bucket.
#[derive(Debug)]
pub(crate) struct Custodies {
    me: SiteId,
    /// This site and those that are known to be members: a site that has not been heard of, and may follow nothing, would
    /// look after nothing.
    ring: BTreeSet<SiteId>,
    /// Those that are lost, and those that are surely no members: who has left a bucket looks after nothing there.
    out: BTreeSet<SiteId>,
}

impl Custodies {
    /// Whether what a site wrote is this one's to look after.
    pub(crate) fn is_mine(&self, writer: SiteId) -> bool {
        custodian(writer, &self.ring, &self.out).is_some_and(|now| now.site == self.me)
    }
}

impl State {
    /// As known now.
    pub(super) fn custodies(&self, bucket: BucketId, rules: &Rules) -> Custodies {
        let ring = match self.members.get(&bucket) {
            Some(members) => {
                let follows = |site: &SiteId| *site == self.me || members.contains(site);
                rules.sites.iter().copied().filter(follows).collect()
            }
            None => rules.sites.clone(),
        };
        let mut out = self.away.get(&bucket).cloned().unwrap_or_default();
        out.extend(&rules.lost);
        Custodies { me: self.me, ring, out }
    }

    /// Whether what was covered of a bucket was found by these rules, and is still this site's or the others' as it was then.
    pub(super) fn is_covered_by(&self, bucket: BucketId, rules: &Rules) -> bool {
        self.covered.get(&bucket).is_some_and(|file| {
            file.is_by(rules) && (file.passed.is_empty() || file.stands(&self.custodies(bucket, rules)))
        })
    }
}

impl Copies {
    /// Who looks after what of a bucket, as known now.
    pub(crate) fn custodies(&self, bucket: BucketId, rules: &Rules) -> Custodies {
        self.state().custodies(bucket, rules)
    }

    /// What was passed over as another site's may have become this one's to look after: then all is looked through anew.
    pub(crate) fn take_over(&self, bucket: BucketId, rules: &Rules) {
        let mut state = self.state();
        let is_by = state.covered.get(&bucket).is_some_and(|file| file.is_by(rules));
        if is_by && !state.is_covered_by(bucket, rules) {
            state.doubt(bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin, Vector};

    use super::super::Book;
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
        numbers.iter().copied().map(site).collect()
    }

    #[test]
    fn custody_passes_on_among_those_that_follow_the_bucket() {
        let (me, bucket) = (site(1), BucketId([9; 16]));
        let copies = Copies::resume(me, Book::default());
        let mut rules = Rules { sites: sites(&[1, 2, 3, 4]), lost: sites(&[4]), ..Rules::default() };
        let mine = |rules: &Rules| {
            let custodies = copies.custodies(bucket, rules);
            (1..=4).filter(|number| custodies.is_mine(site(*number))).collect::<Vec<_>>()
        };
        assert_eq!(mine(&rules), [1, 4], "the ring closes; nothing is known yet");
        rules.lost = sites(&[2]);
        assert_eq!(mine(&rules), [1], "the next one is 3");
        // 2 and 4 follow nothing, as far as is known; 5 may not hold copies.
        copies.set_away(bucket, BTreeSet::new(), sites(&[5]));
        assert_eq!(mine(&rules), [1, 2]);
        copies.set_away(bucket, sites(&[3]), sites(&[5]));
        assert_eq!(mine(&rules), [1, 2, 3]);
        copies.forget(bucket);
        assert_eq!(mine(&rules), [1]);
    }

    /// Whoever takes over looks at what it passed over before, also when it was started in between, and also when it is
    /// custodian not of the writer's own but of what another one had taken over.
    #[test]
    fn what_was_passed_over_is_covered_while_another_site_looks_after_it() {
        let (me, bucket) = (site(1), BucketId([9; 16]));
        let origin = Origin { node: NodeId([3; 16]), incarnation: 1 };
        let upto = Vector::from_iter([(origin, 7)]);
        let rules = Rules { sites: sites(&[1, 2, 3]), lost: sites(&[2]), ..Rules::default() };
        for passed in [2, 3] {
            let copies = Copies::resume(me, Book::default());
            copies.set_away(bucket, BTreeSet::new(), sites(&[3]));
            let covers = || copies.covered(bucket, &rules) == upto;
            let cover = |passed: &[u8]| {
                let doubts = copies.doubts(bucket);
                copies.set_covered((bucket, &rules), upto.clone(), sites(passed), doubts)
            };
            assert!(cover(&[passed]) && covers());
            assert!(cover(&[]) && covers(), "a further look does not come to it");
            copies.set_away(bucket, sites(&[3]), BTreeSet::new());
            assert!(!covers(), "{passed}: 3 looks after nothing any more");
            copies.set_away(bucket, BTreeSet::new(), sites(&[3]));
            copies.take_over(bucket, &rules);
            assert!(covers(), "nothing has happened meanwhile");
            copies.set_away(bucket, sites(&[3]), BTreeSet::new());
            let doubts = copies.doubts(bucket);
            copies.take_over(bucket, &rules);
            assert_eq!(copies.doubts(bucket), doubts + 1, "what looks have begun before is worth nothing");
            assert!(cover(&[]) && covers());
            copies.set_away(bucket, BTreeSet::new(), sites(&[3]));
            assert!(covers(), "what this site covered itself stays so when it is another one's");
        }
    }
}
