//! Large bodies whose way to a site broke off: what was not tried lately goes before them.
//!
//! A body that needs longer than its link stands begins again and again. Being the oldest it would keep all that was written
//! after it from a second place. Invariants: the order among those of as many holders only; small bodies are never late; the
//! one that was tried longest ago is the first of them.

use std::collections::BTreeMap;

use skerry_base::{BucketId, Dot};

use super::limits;

/// Those behind which the late ones wait have lower places.
const LATE: u64 = 1 << 63;

/// Which of them failed, and in which order.
#[derive(Debug, Default)]
pub(super) struct Late {
    tries: u64,
    of: BTreeMap<(BucketId, Dot), u64>,
}

impl Late {
    /// Its way to a site broke off.
    pub(super) fn failed(&mut self, of: (BucketId, Dot), bytes: u64) {
        if bytes <= limits::WINDOW_MIN {
            return;
        }
        // Which are forgotten does not matter: they are tried once more in their old place.
        if self.of.len() >= limits::LATE {
            self.of.pop_first();
        }
        self.tries += 1;
        self.of.insert(of, self.tries);
    }

    /// It has arrived.
    pub(super) fn held(&mut self, of: (BucketId, Dot)) {
        self.of.remove(&of);
    }

    /// Its place among those of as many holders, if it would have that one else.
    pub(super) fn place(&self, of: (BucketId, Dot), place: u64) -> u64 {
        self.of.get(&of).map_or(place, |tried| LATE | *tried)
    }

    /// Nothing of a bucket is known any more.
    pub(super) fn forget(&mut self, bucket: BucketId) {
        self.of.retain(|(of, _), _| *of != bucket);
    }
}
