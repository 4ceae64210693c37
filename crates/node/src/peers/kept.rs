//! Streams on which a chunk was given, kept for the next question for one.
//!
//! Why: the receive window of a stream begins with a quarter of a MiB and grows as its bytes are taken. Where each chunk has a
//! stream of its own it never grows: eight chunks at a time are 2 MiB a round trip, however fast the line. Invariants: only
//! streams that gave all that was asked for are kept, and only to who says that it waits for another question
//! ([`super::mark::KEEPS`]); a few for each node, and none for longer than that one waits. To who waits for a minute and more
//! ([`super::mark::RESUMES`]) questions for objects go on them as well: the first read of a body then takes one round trip and
//! not one for each quarter of a MiB. Where connections stand beside a link, chunks go on none that was opened before they did.

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

type ByNode<S> = BTreeMap<NodeId, Vec<(Instant, Warm<S>)>>;

/// A stream, and how many connections to its node there were when it was opened on one beside the link; 1 on the link itself.
pub(super) struct Warm<S = Stream> {
    pub(super) stream: S,
    pub(super) among: usize,
}

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Kept<S> {
    fn lock(&self) -> MutexGuard<'_, ByNode<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was used last, of those opened among so many connections.
    pub(super) fn take(
        &self,
        node: NodeId,
        least: usize,
        (now, spell): (Instant, Duration),
    ) -> Option<Warm<S>> {
        let mut kept = self.lock();
        let streams = kept.get_mut(&node)?;
        let last = streams.iter().rposition(|(_, warm)| warm.among >= least)?;
        let (since, warm) = streams.remove(last);
        (now.since(since) < spell).then_some(warm)
    }

    /// Lets go of what lies here for longer than that.
    pub(super) fn purge(&self, now: Instant, spell: Duration) {
        let is_fresh = |since: Instant| now.since(since) < spell;
        let mut stale = Vec::new();
        self.lock().retain(|_, streams| {
            stale.extend(streams.extract_if(.., |(since, _)| !is_fresh(*since)));
            !streams.is_empty()
        });
        // As in `forget`.
        drop(stale);
    }

    #[cfg(test)]
    pub(super) fn count(&self, node: NodeId) -> usize {
        self.lock().get(&node).map_or(0, Vec::len)
    }

    /// It gave all that was asked for. Of more than there is room for the one goes that lies here for longest.
    pub(super) fn put(&self, node: NodeId, warm: Warm<S>, now: Instant) {
        let mut kept = self.lock();
        let streams = kept.entry(node).or_default();
        let gone = (streams.len() >= MOST).then(|| streams.remove(0));
        streams.push((now, warm));
        drop(kept);
        // As in `forget`.
        drop(gone);
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
    const NODE: NodeId = NodeId([1; 16]);

    fn second(n: u64) -> Instant {
        Instant(n * 1_000_000_000)
    }

    /// Puts a stream and takes streams, by what they were opened among.
    struct Shelf(Kept<u64>);

    impl Shelf {
        fn put(&self, stream: u64, among: usize, at: u64) {
            self.0.put(NODE, Warm { stream, among }, second(at));
        }

        fn take(&self, least: usize, at: u64) -> Option<u64> {
            self.0.take(NODE, least, (second(at), KEPT)).map(|warm| warm.stream)
        }
    }

    #[test]
    fn a_stream_is_kept_for_a_while_and_some_are() {
        let shelf = Shelf(Kept::default());
        assert_eq!(shelf.take(1, 0), None);
        (0..MOST as u64 + 3).for_each(|n| shelf.put(n, 1, 1));
        let taken: Vec<u64> = std::iter::from_fn(|| shelf.take(1, 2)).collect();
        assert_eq!(taken, (3..MOST as u64 + 3).rev().collect::<Vec<_>>(), "the latest");
        shelf.put(7, 1, 2);
        shelf.put(8, 1, 3);
        assert_eq!(shelf.take(1, 3 + KEPT.as_secs()), None);
        shelf.put(9, 1, 3 + KEPT.as_secs());
        shelf.0.purge(second(3 + KEPT.as_secs()), KEPT);
        assert_eq!((shelf.0.count(NODE), shelf.take(1, 3 + KEPT.as_secs())), (1, Some(9)));
        shelf.put(10, 1, 3);
        shelf.0.forget(NODE);
        assert_eq!(shelf.take(1, 3), None);
    }

    #[test]
    fn chunks_leave_streams_that_are_older_than_connections_beside_the_link() {
        let shelf = Shelf(Kept::default());
        shelf.put(1, 1, 1);
        shelf.put(2, 2, 1);
        shelf.put(3, 4, 1);
        shelf.put(4, 1, 1);
        assert_eq!(shelf.take(4, 2), Some(3));
        assert_eq!(shelf.take(4, 2), None, "the others are of before");
        assert_eq!([shelf.take(1, 2), shelf.take(1, 2), shelf.take(1, 2)], [Some(4), Some(2), Some(1)]);
    }
}
