//! Streams on which a chunk was given, kept for the next question for one.
//!
//! Why: the receive window of a stream begins with a quarter of a MiB and grows as its bytes are taken. Where each chunk has a
//! stream of its own it never grows: eight chunks at a time are 2 MiB a round trip, however fast the line. Invariants: only
//! streams that gave all that was asked for are kept, and only to who says that it waits for another question
//! ([`super::mark::KEEPS`]); a few for each node, and none for longer than that one waits. To who waits for a minute and more
//! ([`super::mark::RESUMES`]) questions for objects go on them as well: the first read of a body then takes one round trip and
//! not one for each quarter of a MiB.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{Instant, NodeId};

use super::serve::{FIRST_WORD, NEXT_WORD};
use crate::net::Stream;

/// As many as chunks are fetched at a time for two readers.
const MOST: usize = 16;

/// Kept so long, by whether the other end speaks [`super::mark::RESUMES`]; it waits longer.
pub(super) const fn spell(resumes: bool) -> Duration {
    let waits = if resumes { NEXT_WORD } else { FIRST_WORD };
    Duration::from_secs(waits.as_secs() / 2)
}

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
    pub(super) fn take(&self, node: NodeId, now: Instant, spell: Duration) -> Option<S> {
        let mut kept = self.lock();
        let (since, stream) = kept.get_mut(&node)?.pop()?;
        let is_fresh = now.0.saturating_sub(since.0) < spell.as_nanos() as u64;
        if !is_fresh {
            // Those below it lie here for longer.
            kept.remove(&node);
        }
        is_fresh.then_some(stream)
    }

    #[cfg(test)]
    pub(super) fn count(&self, node: NodeId) -> usize {
        self.lock().get(&node).map_or(0, Vec::len)
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

    const KEPT: Duration = spell(false);

    #[test]
    fn a_stream_is_kept_for_a_while_and_some_are() {
        let (kept, node) = (Kept::<u8>::default(), NodeId([1; 16]));
        let second = |n: u64| Instant(n * 1_000_000_000);
        assert!(kept.take(node, second(0), KEPT).is_none());
        (0..MOST + 3).for_each(|_| kept.put(node, 7, second(1)));
        assert_eq!((0..MOST + 3).filter(|_| kept.take(node, second(2), KEPT).is_some()).count(), MOST);
        kept.put(node, 7, second(2));
        kept.put(node, 7, second(3));
        assert!(kept.take(node, second(3 + KEPT.as_secs()), KEPT).is_none());
        assert!(kept.take(node, second(3), KEPT).is_none(), "older ones went with it");
        kept.put(node, 7, second(3));
        kept.forget(node);
        assert!(kept.take(node, second(3), KEPT).is_none());
    }
}
