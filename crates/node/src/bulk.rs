//! Memory for payload on its way between sockets and disk.
//!
//! Why: a thousand clients at once are no reason for a thousand chunks in memory. What goes out takes large pieces
//! while there is room and small ones beyond it, so that nobody waits for somebody else's slow client; what comes in
//! waits in order until there is room, and small bodies never do. Invariant: a grant lives as long as the bytes it is for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_gateway::service::{Bound, ErrorKind, Outcome, Reason, ServiceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What memory is counted in.
const UNIT: usize = 64 << 10;
/// How long somebody waits for room.
const PATIENCE: Duration = Duration::from_secs(60);

/// Room for payload, in one direction. Clones are the same room.
#[derive(Debug, Clone)]
pub(crate) struct Bulk {
    bytes: usize,
    room: Arc<Semaphore>,
    /// How many wait for room.
    waiting: Arc<watch::Sender<usize>>,
    /// What who finds no room is told.
    reason: Reason,
}

/// Room that was taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Grant(OwnedSemaphorePermit);

impl Bulk {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        let (room, waiting) = (Arc::new(Semaphore::new(units)), Arc::new(watch::Sender::new(0)));
        Self { bytes: units * UNIT, room, waiting, reason: Reason::Payload }
    }

    /// The same with a reason of its own for who finds no room.
    pub(crate) fn refusing(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// As metrics have it.
    pub(crate) fn bound(&self, of: &'static str) -> Bound {
        Bound::bytes(of, self.bytes() as u64, self.taken() as u64)
    }

    /// All of it, taken or not.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is taken now.
    pub(crate) fn taken(&self) -> usize {
        self.bytes.saturating_sub(self.room.available_permits() * UNIT)
    }

    /// Room for some bytes, if there is now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Grant> {
        self.room.clone().try_acquire_many_owned(units(bytes)).ok().map(Grant)
    }

    /// As much as was granted elsewhere, if there is now.
    pub(crate) fn try_instead(&self, of: &Grant) -> Option<Grant> {
        let units = u32::try_from(of.0.num_permits()).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(units).ok().map(Grant)
    }

    /// Whether a grant is of this room.
    pub(crate) fn gave(&self, grant: &Grant) -> bool {
        Arc::ptr_eq(grant.0.semaphore(), &self.room)
    }

    /// The same, however long it takes: for what nobody waits for on the other end of a connection.
    pub(crate) async fn wait(&self, bytes: usize) -> Outcome<Grant> {
        // A small machine has no room for a large chunk: then it has all of it.
        let permit = self.acquire(units(bytes.min(self.bytes)).max(1)).await;
        let closed = || ServiceError::new(ErrorKind::Internal, "the room for payload was closed");
        permit.map(Grant).ok_or_else(closed)
    }

    /// The same for so long; none if there is no room by then.
    pub(crate) async fn wait_for(&self, bytes: usize, most: Duration) -> Option<Outcome<Grant>> {
        tokio::time::timeout(most, self.wait(bytes)).await.ok()
    }

    /// Returns once somebody waits for room.
    pub(crate) async fn wanted(&self) {
        // Whoever asks has the sender.
        self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await.ok();
    }

    async fn acquire(&self, units: u32) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.room.clone().try_acquire_many_owned(units) {
            return Some(permit);
        }
        let _waits = Waits::among(&self.waiting);
        self.room.clone().acquire_many_owned(units).await.ok()
    }

    /// The same as long as it leaves half of the room to others: for who can go on in small pieces.
    pub(crate) fn try_take_of_half(&self, bytes: usize) -> Option<Grant> {
        if self.taken().saturating_add(bytes) > self.bytes / 2 { None } else { self.try_take(bytes) }
    }

    /// Room for some bytes, in order of asking.
    pub(crate) async fn take(&self, bytes: usize) -> Outcome<Grant> {
        match tokio::time::timeout(PATIENCE, self.acquire(units(bytes))).await {
            Ok(Some(permit)) => Ok(Grant(permit)),
            _ => Err(ServiceError::full(self.reason, "too many large bodies are on their way; try again")),
        }
    }
}

/// One of those that wait, until it is dropped.
struct Waits<'a>(&'a watch::Sender<usize>);

impl<'a> Waits<'a> {
    fn among(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Grant {
    /// Bytes that give the room back when the last of them is dropped.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _grant: self })
    }
}

struct Held {
    bytes: Bytes,
    _grant: Grant,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn room_is_given_back_with_the_last_of_the_bytes() {
        let bulk = Bulk::new(2 * UNIT);
        let held = bulk.try_take(UNIT + 1).unwrap().attach(Bytes::from(vec![7; UNIT + 1]));
        let slice = held.slice(3..5);
        drop(held);
        assert!(bulk.try_take(1).is_none());
        assert_eq!((&slice[..], bulk.taken(), bulk.bytes()), (&[7, 7][..], 2 * UNIT, 2 * UNIT));
        drop(slice);
        assert_eq!(bulk.taken(), 0);
        assert!(bulk.try_take(2 * UNIT).is_some());
    }

    #[test]
    fn half_of_the_room_is_left_by_who_can_do_without() {
        let bulk = Bulk::new(4 * UNIT);
        assert!(bulk.try_take_of_half(3 * UNIT).is_none());
        let first = bulk.try_take_of_half(UNIT).unwrap();
        assert!(bulk.try_take_of_half(2 * UNIT).is_none());
        let _second = bulk.try_take_of_half(UNIT).unwrap();
        assert!(bulk.try_take_of_half(1).is_none());
        drop(first);
        assert!(bulk.try_take_of_half(UNIT).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_known_that_somebody_waits() {
        let bulk = Bulk::new(UNIT);
        let held = bulk.wait(UNIT).await.unwrap();
        let nobody = tokio::time::timeout(Duration::from_secs(9), bulk.wanted()).await;
        assert!(nobody.is_err(), "who has room waits for none");
        let (other, wanted) = (bulk.clone(), bulk.clone());
        let waits = tokio::spawn(async move { other.wait_for(1, Duration::from_secs(5)).await.is_none() });
        wanted.wanted().await;
        assert!(waits.await.unwrap());
        assert!(tokio::time::timeout(Duration::from_secs(9), bulk.wanted()).await.is_err(), "it gave up");
        drop(held);
        assert!(bulk.wait_for(1, Duration::ZERO).await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told() {
        let bulk = Bulk::new(UNIT);
        let held = bulk.take(UNIT).await.unwrap();
        let refused = bulk.take(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SlowDown);
        drop(held);
        assert!(bulk.take(1).await.is_ok());
    }
}
