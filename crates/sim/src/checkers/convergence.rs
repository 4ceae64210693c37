//! The same records give the same tables: once healed and quiet, all members of a bucket show the same.

use skerry_base::BucketId;
use skerry_base::kv::Table;

use super::Violation;
use crate::standing::Standing;

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
