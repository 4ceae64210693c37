//! The tables of a node: how records lie in them, how an entry changes them, how they are read.
//!
//! Why here: storage keeps tables without knowing what they say; node, gateway and simulator read them only
//! through the functions here. Hop before: `storage`'s commit thread calls [`SpaceReducer`].
//!
//! Invariants: the tables are a function of the set of records and vector entries applied (`Local`, `Uploads`
//! and `Parts` apart, which are this node's own); a page of a listing costs the page.

mod anew;
mod below;
mod census;
mod change;
mod fallback;
mod feed;
mod keys;
mod leave;
mod list;
mod loose;
mod parts;
mod prints;
mod read;
mod reduce;
mod round;
mod rows;
mod subscription;
mod unheard;

pub use anew::{
    all_anew, anew, begun_anew, followed_whole, former, is_anew, is_new_loss, not_anew, to_be_heard, vouched,
    whole_again,
};
pub use below::{Asked, Below, Changes, Extent, Range, changes_below, extent, range_below};
pub use census::{Census, Standing, census};
pub use fallback::fallbacks;
pub use feed::{Item, Items, absent, keys_after, records_after, records_after_by, vector, vector_entry};
pub use leave::left;
pub use list::{Cursor, Listing, Shown, Versions, list_current, list_versions};
pub use loose::{Loose, ahead, but_for, follow, keep, let_go, loose, marked, records_in, records_in_by};
pub use parts::{list_parts, list_uploads, local, part, upload, uploading};
pub use prints::{DotRange, Fingerprint, dots_in, fingerprint};
pub use read::{
    Conflict, VersionId, accept, buckets, conflict, conflicts, current, heads, is_listed, null_version,
    own_clock, record, resting, sums, version,
};
pub use reduce::SpaceReducer;
pub use round::{Incoming, Progress, seen, steps, take};
pub use rows::{Listed, Loser, Sums};
pub use subscription::{
    COMPARED, Ranges, Step, Subscription, compares, completes, followed, held_below, left_below, next,
    rested, subscription, subscriptions, subscriptions_of, take_changes, take_range,
};
pub use unheard::{Unheard, all_unheard, are_back, unheard};

pub(crate) use change::{State, for_each_alive};
pub(crate) use read::{aimed, is_stored, keys_with_heads};

use skerry_base::codec::DecodeError;
use skerry_base::kv::ViewError;

/// The tables could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SpaceError {
    /// The index below failed.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A row is not what this release writes.
    #[error("index row: {0}")]
    Row(#[from] DecodeError),
    /// Two rows contradict each other.
    #[error("index is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// A range of keys cannot be told: one of them has too many versions for a message.
    #[error("the versions of {0} are too many to follow it by its prefix; follow the whole bucket")]
    TooManyVersions(String),
    /// What has changed below a prefix cannot be told: too much of it lies beyond the vector.
    #[error(
        "too many records below the prefix lie ahead of their feeds; they are on their way, or follow the whole bucket"
    )]
    TooManyLoose,
}

/// What an arriving record means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// To be stored.
    New,
    /// Stored already.
    Duplicate,
    /// Seen and gone, or replaced by what is here: ignored.
    Dead,
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod retire_tests;
