//! What a site shows, read out plainly: for checkers, and for nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Dot, Vector};
use skerry_model::space::{self, DotRange, SpaceError};

use crate::history::Place;

/// Tables that must be equal at all members of a bucket.
pub const SHARED: [Table; 7] = [
    Table::Current,
    Table::Heads,
    Table::Versions,
    Table::Dots,
    Table::Vectors,
    Table::Conflicts,
    Table::Sums,
];

/// The state of one bucket at one site.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Up to where everything is stored or dead.
    pub vector: Vector,
    /// Stored records.
    pub stored: BTreeSet<Dot>,
    /// Hash of each shared table's rows of this bucket.
    pub tables: BTreeMap<Table, blake3::Hash>,
}

/// What a site shows of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// What a read finds: the best head, a put or a delete.
    pub current: Option<Dot>,
    /// All heads.
    pub heads: BTreeSet<Dot>,
    /// Losers that `conflicts` lists.
    pub listed: BTreeSet<Dot>,
    /// How many more losers there are than are listed.
    pub unlisted: u32,
}

/// Dots read at once: more than any run makes.
const DOTS: usize = 1 << 20;

impl Standing {
    /// Reads it.
    pub fn read(view: &dyn View, bucket: BucketId) -> Result<Self, SpaceError> {
        Ok(Self {
            vector: space::vector(view, bucket)?,
            stored: space::dots_in(view, bucket, DotRange::ALL, DOTS)?.into_iter().collect(),
            tables: tables(view, bucket)?,
        })
    }
}

/// Every shared table, hashed.
pub fn tables(view: &dyn View, bucket: BucketId) -> Result<BTreeMap<Table, blake3::Hash>, SpaceError> {
    let mut tables = BTreeMap::new();
    for table in SHARED {
        let mut hasher = blake3::Hasher::new();
        view.scan_prefix(table, &bucket.0, &mut |key, value| {
            for part in [key, value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
            ControlFlow::Continue(())
        })?;
        tables.insert(table, hasher.finalize());
    }
    Ok(tables)
}

impl Shown {
    /// Reads it.
    pub fn read(view: &dyn View, (bucket, key): &Place) -> Result<Self, SpaceError> {
        let conflict = space::conflict(view, *bucket, key)?;
        let losers = conflict.iter().flat_map(|conflict| &conflict.losers);
        Ok(Self {
            current: space::current(view, *bucket, key)?.map(|record| record.dot),
            heads: space::heads(view, *bucket, key)?.into_iter().map(|record| record.dot).collect(),
            listed: losers.map(|loser| loser.dot).collect(),
            unlisted: conflict.map_or(0, |conflict| conflict.more),
        })
    }
}

/// Whether a version can be read by its name.
pub fn is_readable(view: &dyn View, (bucket, key): &Place, dot: Dot) -> Result<bool, SpaceError> {
    Ok(space::record(view, *bucket, key, dot)?.is_some())
}
