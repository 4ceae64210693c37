//! The same records give the same tables: once healed and quiet, all members of a bucket show the same.
//!
//! Where tombstones are dropped at each site by itself the tables differ, and all may show the same, with equal vectors, while
//! records that no vector covers still come one by one: then what lives and is held by one is to be held by all.

use std::collections::BTreeSet;

use skerry_base::kv::Table;
use skerry_base::{BucketId, Dot};

use super::Violation;
use crate::history::{History, Write};
use crate::standing::Standing;
use crate::verdict;

const NAME: &str = "convergence";

/// Everything that members share.
pub const ALL: &[Table] = &crate::standing::SHARED;
/// What clients see of it.
pub const VISIBLE: &[Table] = &[Table::Current, Table::Vectors];

/// Compares the members of a bucket with the first of them.
pub fn check(bucket: BucketId, standings: &[(usize, Standing)], tables: &[Table]) -> Vec<Violation> {
    let Some((first, rest)) = standings.split_first() else { return Vec::new() };
    let differs = |(site, standing): &(usize, Standing)| {
        let differ = standing
            .tables
            .iter()
            .filter(|(table, hash)| tables.contains(table) && first.1.tables.get(table) != Some(hash));
        let names: Vec<String> = differ.map(|(table, _)| format!("{table:?}")).collect();
        (!names.is_empty()).then(|| describe(bucket, first, (*site, standing), &names))
    };
    rest.iter().filter_map(differs).collect()
}

/// What lives and is held by some members and not by others.
pub fn check_living(history: &History, bucket: BucketId, standings: &[(usize, Standing)]) -> Vec<Violation> {
    let somewhere: BTreeSet<Dot> =
        standings.iter().flat_map(|(_, standing)| &standing.stored).copied().collect();
    let places = history.places().filter(|place| place.0 == bucket);
    let alive: BTreeSet<Dot> =
        places.flat_map(|place| verdict::of_all(history, place).alive().clone()).collect();
    let is_due = |dot: &&Dot| {
        let excused = history.write(bucket, **dot).is_none_or(Write::is_excused);
        somewhere.contains(*dot) && !excused
    };
    let due: BTreeSet<Dot> = alive.iter().filter(is_due).copied().collect();
    let lacks = |(site, standing): &(usize, Standing)| {
        let dot = due.difference(&standing.stored).next()?;
        Some(Violation::at(NAME, *site, format!("{bucket}: {dot} lives, is held elsewhere and not here")))
    };
    standings.iter().filter_map(lacks).collect()
}

fn describe(
    bucket: BucketId,
    (first, mine): &(usize, Standing),
    (other, theirs): (usize, &Standing),
    tables: &[String],
) -> Violation {
    let count = |one: &Standing, two: &Standing| one.stored.difference(&two.stored).count();
    let example = mine.stored.symmetric_difference(&theirs.stored).next();
    let what = format!(
        "{bucket}: {} differ from site-{}: {} records only there, {} only here, first {example:?}, vectors {}",
        tables.join(", "),
        first + 1,
        count(mine, theirs),
        count(theirs, mine),
        if mine.vector == theirs.vector { "equal" } else { "differ" },
    );
    Violation::at(NAME, other, what)
}
