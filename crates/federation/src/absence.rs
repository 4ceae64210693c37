//! Whether a key is not there, at a member that knows that it is behind.
//!
//! A pure machine: the shell tells who is known to be ahead and of what, asks one after the other, and tells what each had
//! seen when it said that it does not know the key. "Not there" is the truth once everything that is known to be missing here
//! was seen by somebody who said so: two members may each have what the other lacks.
//!
//! Invariants: silence says nothing; a site's own word settles what is known of that site, whatever was told of it before.

use skerry_base::{SiteId, Vector};

/// What is known to be missing here, and nobody has looked through yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Absence {
    open: Vec<(SiteId, Vector)>,
}

impl Absence {
    /// These have that much that is missing here; of none, where no more than one word is wanted.
    pub const fn new(ahead: Vec<(SiteId, Vector)>) -> Self {
        Self { open: ahead }
    }

    /// A site that has seen this much does not know the key.
    pub fn denied(&mut self, site: SiteId, seen: &Vector) {
        self.open.retain(|(other, missing)| *other != site && !seen.includes(missing));
    }

    /// A site follows the bucket no more: what it has is no part of it.
    pub fn left(&mut self, site: SiteId) {
        self.open.retain(|(other, _)| *other != site);
    }

    /// Whether a site has something that nobody has looked through.
    pub fn wants(&self, site: SiteId) -> bool {
        self.open.iter().any(|(other, _)| *other == site)
    }

    /// Whether one who does not know the key is believed for all.
    pub const fn is_settled(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;

    fn vector(entries: &[(u8, u64)]) -> Vector {
        let origin = |node| Origin { node: NodeId([node; 16]), incarnation: 1 };
        entries.iter().map(|(node, seq)| (origin(*node), *seq)).collect()
    }

    fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    #[test]
    fn each_speaks_for_what_it_has_seen_and_no_more() {
        let ahead =
            vec![(site(1), vector(&[(1, 5)])), (site(2), vector(&[(2, 3)])), (site(3), vector(&[(1, 4)]))];
        let mut absence = Absence::new(ahead);
        // The first has what the third has, and not what the second has.
        absence.denied(site(1), &vector(&[(1, 5)]));
        assert!(!absence.is_settled() && absence.wants(site(2)));
        assert!(!absence.wants(site(1)) && !absence.wants(site(3)));
        // A stranger to whom both came.
        absence.denied(site(4), &vector(&[(1, 5), (2, 3)]));
        assert!(absence.is_settled());
    }

    #[test]
    fn the_word_of_a_site_settles_what_was_told_of_it_and_who_left_has_nothing() {
        let mut absence = Absence::new(vec![(site(1), vector(&[(1, 1000)])), (site(2), vector(&[(2, 1)]))]);
        absence.denied(site(1), &vector(&[(1, 5)]));
        absence.left(site(2));
        assert!(absence.is_settled());
        assert!(Absence::default().is_settled(), "who is no member believes the nearest");
    }
}
