//! What other members are known to have, as what differs from what this site had a while ago.
//!
//! Why here: in a federation of many sites nearly all have nearly the same, and a vector of each of them for each bucket is the
//! product of sites and of lives of nodes. Before: whatever another says of its vector. After: whom to pull from, what to
//! tell, how far behind who is. Invariants: a bucket has one [`Floor`] and all that is known in it rests on that; raising it
//! changes nothing of what is known.

use std::collections::BTreeMap;

use skerry_base::{Origin, Vector};

/// Entries of the own vector that may differ from the floor before that is raised: each is gone through for each site.
const STALE: usize = 32;

/// The own vector as it was a while ago.
#[derive(Debug, Default)]
pub(super) struct Floor(Vector);

/// The own vector now, beside the floor.
#[derive(Debug)]
pub(super) struct Mine<'a> {
    floor: &'a Vector,
    mine: &'a Vector,
    /// Of these it has more than the floor.
    grown: Vec<Origin>,
    /// Whether the floor has nothing that it lacks.
    is_above: bool,
}

impl Floor {
    /// What lies between the floor and the own vector.
    pub(super) fn mine<'a>(&'a self, mine: &'a Vector) -> Mine<'a> {
        let grown = mine.above(&self.0).map(|(origin, _)| origin).collect();
        Mine { floor: &self.0, mine, grown, is_above: mine.includes(&self.0) }
    }

    /// Puts the floor where the own vector is, if that has gone far from it; all that rests on it is told where.
    pub(super) fn settle<'a>(&mut self, mine: &Vector, known: impl Iterator<Item = &'a mut Known>) {
        let Mine { grown, is_above, .. } = self.mine(mine);
        if !is_above || grown.len() > STALE {
            self.raise(mine, grown, known);
        }
    }

    fn raise<'a>(
        &mut self,
        mine: &Vector,
        mut grown: Vec<Origin>,
        known: impl Iterator<Item = &'a mut Known>,
    ) {
        grown
            .extend(self.0.iter().filter(|(origin, seq)| mine.get(*origin) < *seq).map(|(origin, _)| origin));
        for known in known.filter(|known| known.rests) {
            for origin in &grown {
                let seq = known.get(self, *origin);
                known.put(mine, *origin, seq);
            }
        }
        self.0 = mine.clone();
    }
}

/// What a site has at least.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// All of the floor, but for what differs; else nothing but that.
    rests: bool,
    differs: BTreeMap<Origin, u64>,
}

impl Known {
    /// All that this site has.
    pub(super) fn all(mine: &Mine<'_>) -> Self {
        let mut known = Self { rests: true, differs: BTreeMap::new() };
        known.differs.extend(mine.grown.iter().map(|origin| (*origin, mine.mine.get(*origin))));
        if !mine.is_above {
            let less = mine.floor.iter().map(|(origin, _)| (origin, mine.mine.get(origin)));
            known.differs.extend(less.filter(|(origin, seq)| mine.floor.get(*origin) > *seq));
        }
        known
    }

    /// Nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        !self.rests && self.differs.is_empty()
    }

    /// Up to where one origin is there.
    pub(super) fn get(&self, floor: &Floor, origin: Origin) -> u64 {
        let rest = || if self.rests { floor.0.get(origin) } else { 0 };
        self.differs.get(&origin).copied().unwrap_or_else(rest)
    }

    fn put(&mut self, floor: &Vector, origin: Origin, seq: u64) {
        if seq == if self.rests { floor.get(origin) } else { 0 } {
            self.differs.remove(&origin);
        } else {
            self.differs.insert(origin, seq);
        }
    }

    fn raise(&mut self, floor: &Floor, origin: Origin, seq: u64) {
        if seq > self.get(floor, origin) {
            self.put(&floor.0, origin, seq);
        }
    }

    /// The whole vector.
    pub(super) fn whole(&self, floor: &Floor) -> Vector {
        let rest = if self.rests { Some(&floor.0) } else { None };
        let rest = rest.into_iter().flat_map(Vector::iter);
        let rest = rest.filter(|(origin, _)| !self.differs.contains_key(origin));
        rest.chain(self.differs.iter().map(|(origin, seq)| (*origin, *seq))).collect()
    }

    /// It has this as well.
    pub(super) fn merge(&mut self, floor: &Floor, other: &Vector) {
        if self.rests {
            // What differs may be more than the floor has, or less.
            let differs = self.differs.keys().map(|origin| (*origin, other.get(*origin)));
            let more: Vec<(Origin, u64)> = other.above(&floor.0).chain(differs).collect();
            more.into_iter().for_each(|(origin, seq)| self.raise(floor, origin, seq));
            return;
        }
        for (origin, seq) in other.iter() {
            self.raise(floor, origin, seq);
        }
        // As much as one entry of two says that it is like this site.
        if other.len() * 2 >= floor.0.len() {
            self.lean(floor);
        }
    }

    /// It has all that another has.
    pub(super) fn merge_known(&mut self, floor: &Floor, other: &Self) {
        if other.rests && !self.rests {
            let mine = core::mem::replace(self, other.clone());
            return self.merge_known(floor, &mine);
        }
        if other.rests {
            let lower: Vec<Origin> = self.differs.keys().copied().collect();
            for origin in lower {
                let seq = self.get(floor, origin).max(other.get(floor, origin));
                self.put(&floor.0, origin, seq);
            }
        }
        for (origin, seq) in &other.differs {
            if *seq > self.get(floor, *origin) {
                self.put(&floor.0, *origin, *seq);
            }
        }
    }

    /// Rests on the floor if that is shorter.
    fn lean(&mut self, floor: &Floor) {
        let less = floor.0.iter().filter(|(origin, seq)| self.differs.get(origin) != Some(seq));
        let more = self.differs.keys().filter(|origin| floor.0.get(**origin) == 0);
        if less.count() + more.count() >= self.differs.len() {
            return;
        }
        let lacks = floor.0.iter().filter(|(origin, _)| !self.differs.contains_key(origin));
        let lacks: Vec<Origin> = lacks.map(|(origin, _)| origin).collect();
        self.differs.retain(|origin, seq| floor.0.get(*origin) != *seq);
        self.differs.extend(lacks.into_iter().map(|origin| (origin, 0)));
        self.rests = true;
    }

    /// What it has that this site lacks.
    pub(super) fn beyond(&self, mine: &Mine<'_>) -> Vector {
        let rest = if self.rests && !mine.is_above { Some(mine.floor) } else { None };
        let rest = rest.into_iter().flat_map(Vector::iter);
        let rest = rest.filter(|(origin, _)| !self.differs.contains_key(origin));
        let all = rest.chain(self.differs.iter().map(|(origin, seq)| (*origin, *seq)));
        all.filter(|(origin, seq)| *seq > mine.mine.get(*origin)).collect()
    }

    /// Whether it has nothing that this site lacks.
    pub(super) fn is_within(&self, mine: &Mine<'_>) -> bool {
        if self.rests && !mine.is_above {
            return self.beyond(mine).is_empty();
        }
        self.differs.iter().all(|(origin, seq)| *seq <= mine.mine.get(*origin))
    }

    /// What this site has that it lacks: up to where this one has it.
    pub(super) fn lacks(&self, mine: &Mine<'_>) -> Vector {
        let theirs = |origin: Origin, rest: u64| self.differs.get(&origin).copied().unwrap_or(rest);
        if !self.rests {
            return mine.mine.iter().filter(|(origin, seq)| *seq > theirs(*origin, 0)).collect();
        }
        let origins = mine.grown.iter().chain(self.differs.keys());
        let both = origins.map(|origin| (*origin, mine.mine.get(*origin)));
        both.filter(|(origin, seq)| *seq > theirs(*origin, mine.floor.get(*origin))).collect()
    }

    /// Entries that are kept for it.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.differs.len()
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
