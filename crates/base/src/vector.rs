//! Version vectors: for each origin, up to which of its records one has seen everything.
//!
//! Used twice: as the *bucket vector* of a member (advanced only over what is durable and complete) and as
//! the *causal context* of a record (per key: what had been seen when it was accepted).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Dot, Origin};

/// A vector of less than one entry for so many of another is looked up in it, not walked beside it.
const WALKED: usize = 8;

/// Origin → highest contiguous seq. An absent origin is 0; zero entries are never kept, so equal vectors are
/// equal values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Vector(BTreeMap<Origin, u64>);

impl Vector {
    /// The vector that has seen nothing.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Up to which record of `origin` this vector covers; 0 for none.
    pub fn get(&self, origin: Origin) -> u64 {
        self.0.get(&origin).copied().unwrap_or(0)
    }

    /// Whether the record with this dot is covered.
    pub fn covers(&self, dot: Dot) -> bool {
        dot.seq <= self.get(dot.origin)
    }

    /// Raises one entry; never lowers it.
    pub fn advance(&mut self, origin: Origin, seq: u64) {
        if seq > 0 {
            let entry = self.0.entry(origin).or_insert(0);
            *entry = (*entry).max(seq);
        }
    }

    /// Covers this dot (and all before it of its origin).
    pub fn add(&mut self, dot: Dot) {
        self.advance(dot.origin, dot.seq);
    }

    /// The least vector that covers what either covers.
    pub fn merge(&mut self, other: &Self) {
        for (&origin, &seq) in &other.0 {
            self.advance(origin, seq);
        }
    }

    /// Whether everything that `other` covers is covered here.
    pub fn includes(&self, other: &Self) -> bool {
        other.above(self).next().is_none()
    }

    /// The entries, in order of origin, of which `other` covers less. Vectors of about the same length are walked side by side:
    /// in a large federation both have an entry for each site.
    pub fn above<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (Origin, u64)> + 'a {
        let mut walk = (self.len() * WALKED >= other.len()).then(|| other.0.iter().peekable());
        let mut theirs = move |origin: &Origin| match &mut walk {
            Some(walk) => {
                while walk.next_if(|(passed, _)| *passed < origin).is_some() {}
                walk.next_if(|(met, _)| *met == origin).map_or(0, |(_, seq)| *seq)
            }
            None => other.get(*origin),
        };
        self.iter().filter(move |(origin, seq)| *seq > theirs(origin))
    }

    /// The same as a vector.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        Self(self.above(other).collect())
    }

    /// The entries in order of origin.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, u64)> + '_ {
        self.0.iter().map(|(&origin, &seq)| (origin, seq))
    }

    /// How many origins it names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it covers nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Origin, u64)> for Vector {
    fn from_iter<I: IntoIterator<Item = (Origin, u64)>>(entries: I) -> Self {
        let mut vector = Self::new();
        for (origin, seq) in entries {
            vector.advance(origin, seq);
        }
        vector
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    fn origin(n: u8) -> Origin {
        Origin { node: NodeId([n; 16]), incarnation: 1 }
    }

    #[test]
    fn covers_up_to_its_entry() {
        let vector = Vector::from_iter([(origin(1), 3)]);
        assert!(vector.covers(Dot { origin: origin(1), seq: 3 }));
        assert!(!vector.covers(Dot { origin: origin(1), seq: 4 }));
        assert!(!vector.covers(Dot { origin: origin(2), seq: 1 }));
    }

    #[test]
    fn merge_is_the_least_upper_bound() {
        let mut a = Vector::from_iter([(origin(1), 3), (origin(2), 1)]);
        let b = Vector::from_iter([(origin(1), 2), (origin(3), 9)]);
        a.merge(&b);
        assert!(a.includes(&b));
        assert_eq!(a, Vector::from_iter([(origin(1), 3), (origin(2), 1), (origin(3), 9)]));
    }

    /// By looking up and by walking, whichever is longer and whichever begins or ends first.
    #[test]
    fn what_one_has_beyond_another() {
        let every = |step: usize, add: u64| {
            (0..60u8).step_by(step).map(move |n| (origin(n), u64::from(n) % 7 + add)).collect::<Vector>()
        };
        let vectors = [Vector::new(), every(1, 0), every(2, 1), every(3, 0), every(17, 2), every(59, 9)];
        for (one, other) in vectors.iter().flat_map(|one| vectors.iter().map(move |other| (one, other))) {
            let plain: Vector = one.iter().filter(|(origin, seq)| *seq > other.get(*origin)).collect();
            assert_eq!(one.beyond(other), plain, "{one:?} beyond {other:?}");
            assert_eq!(other.includes(one), plain.is_empty());
        }
    }

    #[test]
    fn zero_entries_are_not_kept() {
        assert_eq!(Vector::from_iter([(origin(1), 0)]), Vector::new());
    }
}
