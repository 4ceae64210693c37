//! What has come of chunks whose stream ended before they did: kept for a while, so that the next holder, or the same one over
//! the next link, is asked for the rest only.
//!
//! Why: over a link that breaks every minute a chunk that takes longer than that would never come. Invariants: at most
//! [`MOST_BYTES`] are kept, for [`KEPT`]; what was put together is believed under its name only, and all of it is thrown away
//! if it is not what that says; a part is with one asker at a time.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::{BucketId, ChunkId, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::clock::Clock;

/// Kept in all: a slow link has one chunk or two on their way, and what a fast one loses it gives again in a second.
const MOST_BYTES: usize = 8 << 20;
/// Kept so long: a reader that gives up mostly comes again within minutes.
const KEPT: Duration = Duration::from_secs(600);

/// Which chunk of whose bucket.
pub(super) type Key = (BucketId, ChunkId);

/// The parts of chunks that lie here.
pub(super) struct Parts {
    clock: Clock,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    parts: BTreeMap<Key, (Instant, Vec<u8>)>,
    bytes: usize,
    /// How far those are that are on their way.
    coming: BTreeMap<Key, usize>,
}

/// What has come of one chunk. Laid back when it is dropped.
pub(super) struct Part {
    parts: Arc<Parts>,
    key: Key,
    stored: usize,
    bytes: Vec<u8>,
}

impl Parts {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, shelf: Mutex::default() })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come of a chunk that is so long.
    pub(super) fn take(self: &Arc<Self>, key: Key, stored: u32) -> Part {
        let stored = stored as usize;
        let now = self.clock.now();
        let kept =
            self.shelf().take(key).filter(|(since, bytes)| is_fresh(*since, now) && bytes.len() < stored);
        let bytes = kept.map(|(_, bytes)| bytes).unwrap_or_default();
        Part { parts: self.clone(), key, stored, bytes }
    }

    /// Nothing of it: who is asked gives all of it or nothing. What has come before stays.
    pub(super) fn begin(self: &Arc<Self>, key: Key, stored: u32) -> Part {
        Part { parts: self.clone(), key, stored: stored as usize, bytes: Vec::new() }
    }

    /// Bytes that have come of a chunk.
    pub(super) fn have(&self, key: Key) -> u64 {
        let shelf = self.shelf();
        let kept = shelf.parts.get(&key).map_or(0, |(_, bytes)| bytes.len());
        let coming = shelf.coming.get(&key).copied().unwrap_or_default();
        kept.max(coming) as u64
    }

    /// What lies here for too long goes.
    pub(super) fn purge(&self) {
        let now = self.clock.now();
        let mut shelf = self.shelf();
        let stale = shelf.parts.iter().filter(|(_, (since, _))| !is_fresh(*since, now));
        for key in stale.map(|(key, _)| *key).collect::<Vec<_>>() {
            shelf.take(key);
        }
    }

    fn lay_back(&self, key: Key, bytes: Vec<u8>) {
        let now = self.clock.now();
        let mut shelf = self.shelf();
        shelf.coming.remove(&key);
        // Somebody else may have come further.
        if bytes.is_empty() || shelf.parts.get(&key).is_some_and(|(_, kept)| kept.len() >= bytes.len()) {
            return;
        }
        shelf.take(key);
        shelf.bytes += bytes.len();
        shelf.parts.insert(key, (now, bytes));
        while shelf.bytes > MOST_BYTES {
            let oldest = shelf.parts.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key);
            let Some(oldest) = oldest else { return };
            shelf.take(oldest);
        }
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.since(since) < KEPT
}

impl Shelf {
    fn take(&mut self, key: Key) -> Option<(Instant, Vec<u8>)> {
        let taken = self.parts.remove(&key);
        self.bytes -= taken.as_ref().map_or(0, |(_, bytes)| bytes.len());
        taken
    }
}

impl Part {
    /// How much has come: not more than a length of 32 bits.
    pub(super) fn have(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// How much is to come.
    pub(super) fn left(&self) -> usize {
        self.stored.saturating_sub(self.bytes.len())
    }

    /// Reads some more of it; how much. Nothing if the stream has ended.
    pub(super) async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> io::Result<usize> {
        let left = self.left();
        self.bytes.reserve_exact(left);
        let read = stream.take(left as u64).read_buf(&mut self.bytes).await?;
        self.parts.shelf().coming.insert(self.key, self.bytes.len());
        Ok(read)
    }

    /// All of it, if it is what its name says; else nothing of it is kept.
    pub(super) fn whole(&mut self) -> Option<Bytes> {
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        (ChunkId::of(&bytes) == self.key.1).then_some(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.parts.lay_back(self.key, std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn key(n: u8) -> Key {
        (BucketId([1; 16]), ChunkId([n; 32]))
    }

    async fn came(parts: &Arc<Parts>, key: Key, bytes: &[u8]) {
        let mut part = parts.take(key, 2 << 20);
        let mut source = bytes;
        while !source.is_empty() {
            part.read(&mut source).await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_came_is_there_for_the_next_who_asks_and_only_for_one() {
        let parts = Parts::new(Clock::default());
        came(&parts, key(1), &[7; 1000]).await;
        assert_eq!(parts.have(key(1)), 1000);
        let mut part = parts.take(key(1), 1500);
        assert_eq!((part.have(), part.left(), parts.take(key(1), 1500).have()), (1000, 500, 0));
        part.read(&mut &[8; 900][..]).await.unwrap();
        assert_eq!((part.have(), part.left(), parts.have(key(1))), (1500, 0, 1500));
        assert!(part.whole().is_none(), "not what its name says");
        drop(part);
        assert_eq!(parts.have(key(1)), 0, "nor is anything of it kept");
    }

    #[tokio::test]
    async fn a_whole_is_what_its_name_says() {
        let (parts, body) = (Parts::new(Clock::default()), vec![3; 5000]);
        let key = (BucketId([1; 16]), ChunkId::of(&body));
        came(&parts, key, &body[..2000]).await;
        let mut part = parts.take(key, 5000);
        part.read(&mut &body[2000..]).await.unwrap();
        assert_eq!(part.whole().unwrap(), body);
    }

    #[tokio::test]
    async fn the_longest_of_a_chunk_is_kept_and_the_oldest_goes_first() {
        let parts = Parts::new(Clock::default());
        came(&parts, key(1), &[7; 1000]).await;
        drop(parts.begin(key(1), 2000));
        assert_eq!(parts.have(key(1)), 1000);
        for n in 2..20 {
            came(&parts, key(n), &vec![n; 1 << 20]).await;
        }
        assert_eq!(parts.have(key(1)), 0);
        assert!(parts.have(key(19)) > 0 && parts.shelf().bytes <= MOST_BYTES);
        parts.purge();
        assert!(parts.have(key(19)) > 0);
    }
}
