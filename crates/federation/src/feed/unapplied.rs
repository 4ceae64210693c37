//! Batches that the store was handed and has not answered: of which buckets, and how many bytes over all of them.
//!
//! Why: what waits is bounded per bucket, and a site may follow thousands over links that are faster than its card. Invariant:
//! beyond [`limits::UNAPPLIED_BYTES`] no pull begins; what was asked for before that still comes.

use std::collections::BTreeMap;

use skerry_base::BucketId;

use crate::input::Ticket;
use crate::limits;
use crate::replica::FeedItem;

/// Those.
#[derive(Debug, Clone, Default)]
pub(super) struct Unapplied {
    of: BTreeMap<Ticket, (BucketId, usize)>,
    bytes: usize,
}

impl Unapplied {
    /// The store is handed these.
    pub(super) fn insert(&mut self, ticket: Ticket, id: BucketId, items: &[FeedItem]) {
        let bytes = items.iter().map(FeedItem::len).sum();
        self.bytes += bytes;
        self.of.insert(ticket, (id, bytes));
    }

    /// It has answered; whose they were, if they were the feed's.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<BucketId> {
        let (id, bytes) = self.of.remove(&ticket)?;
        self.bytes -= bytes;
        Some(id)
    }

    /// The bucket is followed no more: what the store answers of it is nobody's.
    pub(super) fn forget(&mut self, id: BucketId) {
        self.of.retain(|_, (of, _)| *of != id);
        self.bytes = self.of.values().map(|(_, bytes)| bytes).sum();
    }

    /// Whether no pull is to begin.
    pub(super) const fn is_full(&self) -> bool {
        self.bytes >= limits::UNAPPLIED_BYTES
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}
