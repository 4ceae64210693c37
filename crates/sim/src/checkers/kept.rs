//! What a site lets go of on the word of a feed is dead here: what killed it is here by then, or was retired, or lost where it
//! had killed.
//!
//! Judged at the commit that lets it go. Later the killer comes anyhow; until then readers would see an older version, or
//! none, and if its few holders burn the site has given a version away for one that nobody has.

use skerry_base::{BucketId, Dot};

use super::Violation;
use crate::history::{History, Write};
use crate::verdict;

const NAME: &str = "kept";

/// Judges what a batch lets go of, once its records stand in the site's commit group.
pub fn check(history: &History, site: usize, bucket: BucketId, dropped: &[Dot]) -> Vec<Violation> {
    let writes = dropped.iter().filter_map(|dot| history.write(bucket, *dot));
    let too_early = writes.filter(|write| !write.is_excused() && lives(history, site, write));
    let what =
        |write: &Write| format!("{:?} {} goes, and what killed it is not here", write.place, write.dot);
    too_early.map(|write| Violation::at(NAME, site, what(write))).collect()
}

/// Whether nothing that is here, was retired or was lost ends it.
fn lives(history: &History, site: usize, write: &Write) -> bool {
    let writes = history.writes_of(write.place.0);
    let gone = |other: &Write| other.is_excused() && verdict::kills(other, write, writes);
    history.held_at(site, &write.place).alive().contains(&write.dot) && !history.of(&write.place).any(gone)
}
