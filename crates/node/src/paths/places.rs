//! Places that several sites share: one that takes many, or keeps them for long, leaves the others theirs.
//!
//! Invariant: nothing is kept of a site that has no place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::SiteId;

/// Who has how many. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    to_one: usize,
    taken: Arc<Mutex<BTreeMap<SiteId, usize>>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    to: SiteId,
}

impl Places {
    /// Of so many in all one site may have half. How many there are its user bounds.
    pub(crate) fn of(all: usize) -> Self {
        Self { to_one: all.div_ceil(2), taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<SiteId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of so many in all one site may have all but so many.
    pub(crate) fn leaving(all: usize, to_others: usize) -> Self {
        Self { to_one: all.saturating_sub(to_others), taken: Arc::default() }
    }

    /// One for this site; none where it has its part.
    pub(crate) fn take(&self, to: SiteId) -> Option<Place> {
        let mut taken = self.taken();
        let of_it = taken.entry(to).or_default();
        if *of_it >= self.to_one {
            return None;
        }
        *of_it += 1;
        Some(Place { places: self.clone(), to })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(of_it) = taken.get_mut(&self.to) {
            *of_it -= 1;
            if *of_it == 0 {
                taken.remove(&self.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_site_that_takes_many_leaves_the_others_their_places() {
        let places = Places::of(5);
        let [one, two] = [1, 2].map(|id| SiteId([id; 16]));
        let mut held: Vec<_> = std::iter::from_fn(|| places.take(one)).collect();
        assert_eq!(held.len(), 3);
        drop(places.take(two).unwrap());
        held.pop();
        held.push(places.take(one).unwrap());
        assert!(places.take(one).is_none());
        held.clear();
        assert!(places.taken().is_empty(), "nothing is kept of who has none");
    }
}
