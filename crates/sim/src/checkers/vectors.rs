//! A vector never covers what is absent and alive: what it covers and lacks is dead, for everybody, for ever.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Held, History, Place, Write};
use crate::standing::Standing;
use crate::verdict;

const NAME: &str = "vectors";

/// The judgement over all writes of all keys; made once for all sites.
pub fn judge(history: &History) -> BTreeMap<Place, Held> {
    history.places().map(|place| (place.clone(), verdict::of_all(history, place))).collect()
}

/// Judges one bucket at one site.
pub fn check(
    history: &History,
    judged: &BTreeMap<Place, Held>,
    bucket: skerry_base::BucketId,
    site: usize,
    standing: &Standing,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (place, held) in judged.iter().filter(|((of, _), _)| *of == bucket) {
        for &dot in held.alive() {
            let excused = history.write(bucket, dot).is_none_or(Write::is_excused);
            if standing.vector.covers(dot) && !standing.stored.contains(&dot) && !excused {
                let what = format!("{place:?} {dot} is covered, absent and alive");
                found.push(Violation::at(NAME, site, what));
            }
        }
    }
    found
}
