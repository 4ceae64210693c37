//! A site reads its own writes: after an answer, a read there gives that write or something that is not older.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::Dot;

use super::Violation;
use crate::history::{History, Place, Write};
use crate::verdict;

const NAME: &str = "own writes";

/// What each site has acknowledged.
#[derive(Debug, Default)]
pub struct OwnWrites(BTreeMap<(usize, Place), BTreeSet<Dot>>);

impl OwnWrites {
    /// A write was acknowledged.
    pub fn acknowledged(&mut self, site: usize, place: &Place, dot: Dot) {
        self.0.entry((site, place.clone())).or_default().insert(dot);
    }

    /// The site's disk was set back: nobody can ask it for what came after.
    pub fn set_back(&mut self, site: usize) {
        self.0.retain(|(of, _), _| *of != site);
    }

    /// The site has left the bucket: it shows nothing of its own there.
    pub fn left(&mut self, site: usize, bucket: skerry_base::BucketId) {
        self.0.retain(|(of, place), _| *of != site || place.0 != bucket);
    }

    /// A read at a site found this: the best head, or nothing.
    pub fn read(&self, history: &History, site: usize, place: &Place, found: Option<Dot>) -> Vec<Violation> {
        let own = self.0.get(&(site, place.clone())).into_iter().flatten();
        let own = own
            .filter_map(|dot| history.write(place.0, *dot))
            .filter(|write| verdict::target(write).is_none());
        let found = found.map(|dot| (dot, history.write(place.0, dot)));
        let held = history.held_at(site, place);
        let stale = own.filter(|write| match found {
            Some((dot, _)) if dot == write.dot => false,
            Some((dot, _)) if write.seen.contains(&dot) => !is_erased(history, place, site, write),
            Some((_, Some(_))) => false,
            Some((_, None)) => true,
            None => held.alive().contains(&write.dot),
        });
        stale.map(|write| violation(site, place, write, found.map(|(dot, _)| dot))).collect()
    }
}

/// An older version shows again when the newer one was erased.
fn is_erased(history: &History, place: &Place, site: usize, write: &Write) -> bool {
    history.held_at(site, place).dead().contains(&write.dot)
}

fn violation(site: usize, place: &Place, write: &Write, found: Option<Dot>) -> Violation {
    Violation::at(NAME, site, format!("{place:?} wrote {} and read {found:?}", write.dot))
}
