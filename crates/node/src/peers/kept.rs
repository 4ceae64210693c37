//! Streams on which a chunk was given, kept for the next question for one.
//!
//! Why: the receive window of a stream begins with a quarter of a MiB and grows as its bytes are taken. Where each chunk has a
//! stream of its own it never grows: eight chunks at a time are 2 MiB a round trip, however fast the line. Invariants: only
//! streams that gave all that was asked for are kept, and only to who says that it waits for another question
//! ([`super::mark::KEEPS`]); a few for each node, and none for longer than that one waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{Instant, NodeId};

use super::serve::FIRST_WORD;
use crate::net::Stream;

/// As many as chunks are fetched at a time for two readers.
const MOST: usize = 16;
/// Kept so long; the other end waits longer.
const KEPT: Duration = Duration::from_secs(FIRST_WORD.as_secs() / 2);

/// The streams, by who answers on them, and since when they lie here.
pub(super) struct Kept<S = Stream>(Mutex<ByNode<S>>);

type ByNode<S> = BTreeMap<NodeId, Vec<(Instant, S)>>;

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Kept<S> {
    fn lock(&self) -> MutexGuard<'_, ByNode<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was used last.
    pub(super) fn take(&self, node: NodeId, now: Instant) -> Option<S> {
        let mut kept = self.lock();
        let (since, stream) = kept.get_mut(&node)?.pop()?;
        let is_fresh = now.0.saturating_sub(since.0) < KEPT.as_nanos() as u64;
        if !is_fresh {
            // Those below it lie here for longer.
            kept.remove(&node);
        }
        is_fresh.then_some(stream)
    }

    /// It gave all that was asked for.
    pub(super) fn put(&self, node: NodeId, stream: S, now: Instant) {
        let mut kept = self.lock();
        let streams = kept.entry(node).or_default();
        if streams.len() < MOST {
            streams.push((now, stream));
        }
    }

    /// The link to a node ended, or what is kept of it is of no use.
    pub(super) fn forget(&self, node: NodeId) {
        let gone = self.lock().remove(&node);
        // Streams that end may call others, not under the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_kept_for_a_while_and_some_are() {
        let (kept, node) = (Kept::<u8>::default(), NodeId([1; 16]));
        let second = |n: u64| Instant(n * 1_000_000_000);
        assert!(kept.take(node, second(0)).is_none());
        (0..MOST + 3).for_each(|_| kept.put(node, 7, second(1)));
        assert_eq!((0..MOST + 3).filter(|_| kept.take(node, second(2)).is_some()).count(), MOST);
        kept.put(node, 7, second(2));
        kept.put(node, 7, second(3));
        assert!(kept.take(node, second(3 + KEPT.as_secs())).is_none());
        assert!(kept.take(node, second(3)).is_none(), "older ones went with it");
        kept.put(node, 7, second(3));
        kept.forget(node);
        assert!(kept.take(node, second(3)).is_none());
    }
}
