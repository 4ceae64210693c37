//! What other members are known to have, as what differs from what this site had a while ago.
//!
//! Why here: in a federation of many sites nearly all have nearly the same, and a vector of each of them for each bucket is the
//! product of sites and of lives of nodes. And who has something that is missing here is asked at each word of a feed: what
//! [`Most`] any of them has answers that for all of them at once, as long as nobody has. Before: whatever another says of its
//! vector. After: whom to pull from, what to tell, how far behind who is. Invariants: a bucket has one [`Floor`] and all that
//! is known in it rests on that; raising it changes nothing of what is known. No source of a bucket is known to have more of
//! an origin than its [`Most`] says.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use skerry_base::{Origin, Vector};

/// Entries of the own vector that may differ from the floor before that is raised: each is gone through for each site.
pub(super) const STALE: usize = 32;

/// Origins that are put into a list one by one; more are put there together.
const INSERTED: usize = 16;

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
        let (mut grown, mut is_above) = (Vec::new(), true);
        // Side by side: both have an entry for each site of a large federation.
        let mut floor = self.0.iter().peekable();
        for (origin, seq) in mine.iter() {
            while floor.next_if(|(passed, _)| *passed < origin).is_some() {
                is_above = false;
            }
            let rest = floor.next_if(|(met, _)| *met == origin).map_or(0, |(_, rest)| rest);
            match seq.cmp(&rest) {
                Ordering::Greater => grown.push(origin),
                Ordering::Equal => {}
                Ordering::Less => is_above = false,
            }
        }
        is_above &= floor.next().is_none();
        Mine { floor: &self.0, mine, grown, is_above }
    }

    /// All that a site with `mine` has, unless the floor has to be settled first.
    pub(super) fn all(&self, mine: &Vector) -> Option<Known> {
        let mine = self.mine(mine);
        mine.is_near(STALE).then(|| Known::all(&mine))
    }

    /// Puts the floor where the own vector is, if that has more than so many entries above it; all that rests on it is told
    /// where.
    pub(super) fn settle<'a>(
        &mut self,
        mine: &Vector,
        stale: usize,
        known: impl Iterator<Item = &'a mut Known>,
    ) {
        let standing = self.mine(mine);
        if !standing.is_near(stale) {
            let grown = standing.grown;
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
            if known.differs.is_empty() {
                // An empty map may hold on to a node: one for each site.
                known.differs = BTreeMap::new();
            }
        }
        self.0 = mine.clone();
    }
}

impl Mine<'_> {
    /// Whether it has all of the floor, and more in no more than so many entries.
    const fn is_near(&self, stale: usize) -> bool {
        self.is_above && self.grown.len() <= stale
    }
}

/// Of each origin as much as any source of a bucket is known to have, or more: what one of them had before it was forgotten. In
/// order of origin; a list, because buckets are many and most have few.
#[derive(Debug, Default)]
pub(super) struct Most(Vec<(Origin, u64)>);

/// Origins of which a source may have what is missing here, and up to where they are here: of no other has any.
#[derive(Debug)]
pub(super) struct Open(Vec<(Origin, u64)>);

impl Open {
    /// Nobody has anything that is missing here.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Most {
    /// One of them has this.
    pub(super) fn raise(&mut self, seen: &Vector) {
        let (mut at, mut new) = (0, 0);
        for (origin, seq) in seen.iter() {
            // Mostly the next one: who tells all that it has tells of each site.
            if self.0.get(at).is_some_and(|(next, _)| *next < origin) {
                at += self.0.get(at..).map_or(0, |rest| rest.partition_point(|(passed, _)| *passed < origin));
            }
            match self.0.get_mut(at) {
                Some((met, most)) if *met == origin => *most = seq.max(*most),
                _ if new < INSERTED => {
                    new += 1;
                    self.0.insert(at, (origin, seq));
                }
                // Each moves all behind it.
                _ => return self.raise_many(seen),
            }
            at += 1;
        }
    }

    /// The same in one go.
    fn raise_many(&mut self, seen: &Vector) {
        let mut all = Vec::with_capacity(self.0.len() + seen.len());
        let mut seen = seen.iter().peekable();
        for (origin, most) in core::mem::take(&mut self.0) {
            while let Some(new) = seen.next_if(|(new, _)| *new < origin) {
                all.push(new);
            }
            let met = seen.next_if(|(met, _)| *met == origin).map_or(0, |(_, seq)| seq);
            all.push((origin, most.max(met)));
        }
        all.extend(seen);
        self.0 = all;
    }

    /// Where one of them may be ahead of a site that has `mine`.
    pub(super) fn open(&self, mine: &Vector) -> Open {
        let mut mine = mine.iter().peekable();
        let beyond = |(origin, most): (Origin, u64)| {
            while mine.next_if(|(passed, _)| *passed < origin).is_some() {}
            let here = mine.next_if(|(met, _)| *met == origin).map_or(0, |(_, seq)| seq);
            (most > here).then_some((origin, here))
        };
        Open(self.0.iter().copied().filter_map(beyond).collect())
    }

    /// None of them has anything that is not in `mine`.
    pub(super) fn lower(&mut self, mine: &Vector) {
        self.0.retain_mut(|(origin, most)| {
            *most = mine.get(*origin).min(*most);
            *most > 0
        });
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

    /// Of how many origins it would be known with this as well, beside those that the floor has.
    pub(super) fn len_with(&self, floor: &Floor, other: &Vector) -> usize {
        let is_new = |origin: &Origin| !self.differs.contains_key(origin) && floor.0.get(*origin) == 0;
        self.differs.len() + other.iter().filter(|(origin, _)| is_new(origin)).count()
    }

    /// Up to where one origin is there.
    pub(super) fn get(&self, floor: &Floor, origin: Origin) -> u64 {
        let rest = || if self.rests { floor.0.get(origin) } else { 0 };
        self.differs.get(&origin).copied().unwrap_or_else(rest)
    }

    /// Whether it has all of this.
    pub(super) fn includes(&self, floor: &Floor, vector: &Vector) -> bool {
        vector.iter().all(|(origin, seq)| self.get(floor, origin) >= seq)
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
        self.lean(floor);
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
        self.lean(floor);
    }

    /// Rests on the floor if that is shorter, however it came to be so: told at once or bit by bit.
    fn lean(&mut self, floor: &Floor) {
        // With an entry for no more than every second of the floor's it has to say of as many that they are missing.
        if self.rests || self.differs.len() * 2 <= floor.0.len() {
            return;
        }
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

    /// Whether it has what a site with `mine` lacks, if it has no more than the [`Most`] of which `open` is said.
    pub(super) fn is_ahead(&self, floor: &Floor, open: &Open, mine: &Vector) -> bool {
        if self.rests || open.0.len() < self.differs.len() {
            return open.0.iter().any(|(origin, seq)| self.get(floor, *origin) > *seq);
        }
        self.differs.iter().any(|(origin, seq)| *seq > mine.get(*origin))
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
