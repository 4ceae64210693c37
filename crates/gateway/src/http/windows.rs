//! What connections of HTTP/2 may take beyond what one of HTTP/1 does: receive windows, and requests beside the first.
//!
//! Why: a window is memory that a client fills as it likes, and a client opens as many streams as it is let: times all connections
//! that is more than any machine has. Invariants: every connection has the window that HTTP/2 begins with, which is its part of the
//! room of connections; a larger one comes out of a room that all share; no stream may fill more than a fourth of it, so that those
//! that are not read leave room to one that is; each connection has one request for nothing, as with HTTP/1, and those beside it
//! come out of a room that all share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::service::{Bound, Places};

/// The window that a connection of HTTP/2 begins with, whatever is said.
const LEAST: usize = (64 << 10) - 1;
/// What carries 20 MB/s over 50 ms.
const WIDE: usize = 1 << 20;
/// A large window takes its room in pieces of this.
const PIECE: usize = 64 << 10;
/// Streams that fill their windows fill that of their connection. One of them moves as long as the others stand.
const STREAMS: usize = 4;
/// What one answer may have ready for the socket: a stream that is taken slowly holds no more, and the piece that came last.
pub(super) const READY: usize = 64 << 10;

/// What the connections of a listener share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    windows: Arc<Semaphore>,
    beside: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(limits: &Limits) -> Self {
        let pieces = limits.windows / PIECE;
        Self { windows: Arc::new(Semaphore::new(pieces)), beside: Arc::new(Semaphore::new(limits.beside)) }
    }

    /// How much of it is taken.
    pub(super) fn bounds(&self, limits: &Limits) -> [Bound; 2] {
        let (pieces, free) = (limits.windows / PIECE, self.windows.available_permits());
        let bytes = |pieces: usize| (pieces * PIECE) as u64;
        let beside = limits.beside.saturating_sub(self.beside.available_permits());
        [
            Bound::bytes("http2_windows", bytes(pieces), bytes(pieces.saturating_sub(free))),
            Bound::places("http2_requests", limits.beside, beside),
        ]
    }

    /// A wide window while there is room, else the least.
    pub(super) fn window(&self) -> Window {
        let pieces = u32::try_from(WIDE / PIECE).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.windows).try_acquire_many_owned(pieces).ok();
        Window { bytes: if room.is_some() { WIDE } else { LEAST }, _room: room }
    }

    /// The same for who is not known to speak HTTP/2.
    pub(super) const fn narrow() -> Window {
        Window { bytes: LEAST, _room: None }
    }

    /// The requests of one connection.
    pub(super) fn requests(&self) -> Requests {
        Requests { shared: self.clone(), in_flight: Arc::default(), unread: Places::new(STREAMS - 1) }
    }
}

/// How much a client may send that nobody has read yet; the room is given back with the connection.
#[derive(Debug)]
pub(super) struct Window {
    bytes: usize,
    _room: Option<OwnedSemaphorePermit>,
}

impl Window {
    pub(super) fn bytes(&self) -> u32 {
        u32::try_from(self.bytes).unwrap_or(u32::MAX)
    }

    /// The same of one stream.
    pub(super) fn stream_bytes(&self) -> u32 {
        u32::try_from(self.bytes / STREAMS).unwrap_or(u32::MAX)
    }
}

/// The requests of one connection that are in flight.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    shared: Shared,
    in_flight: Arc<AtomicUsize>,
    unread: Places,
}

impl Requests {
    /// Where their bodies may stand unread.
    pub(super) fn unread(&self) -> Places {
        self.unread.clone()
    }

    /// A place for one more; none if it is not the only one and all connections together have too many.
    pub(super) fn place(&self) -> Option<Place> {
        let is_first = self.in_flight.fetch_add(1, Ordering::AcqRel) == 0;
        // From here on it is counted, whatever comes.
        let mut place = Place { in_flight: Arc::clone(&self.in_flight), room: None };
        if !is_first {
            place.room = Some(Arc::clone(&self.shared.beside).try_acquire_owned().ok()?);
        }
        Some(place)
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct Place {
    in_flight: Arc<AtomicUsize>,
    room: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room = None;
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn windows_are_wide_as_long_as_the_room_lasts_and_never_more_together() {
        let shared = Shared::new(&Limits { windows: 3 * WIDE + WIDE / 2, ..Limits::default() });
        let mut windows: Vec<Window> = (0..5).map(|_| shared.window()).collect();
        let bytes = |windows: &[Window]| windows.iter().map(Window::bytes).collect::<Vec<_>>();
        let (wide, least) = (WIDE as u32, LEAST as u32);
        assert_eq!(bytes(&windows), [wide, wide, wide, least, least]);
        assert_eq!(Shared::narrow().bytes(), least);
        windows.remove(0);
        assert_eq!(shared.window().bytes(), wide, "it was given back");
    }

    #[test]
    fn the_first_request_of_each_connection_is_free_and_the_others_share() {
        let shared = Shared::new(&Limits { beside: 2, ..Limits::default() });
        let (one, other) = (shared.requests(), shared.requests());
        let first = one.place().unwrap();
        let beside = [one.place(), one.place()];
        assert!(beside.iter().all(Option::is_some));
        assert!(one.place().is_none());
        let limits = Limits { beside: 2, ..Limits::default() };
        assert_eq!(shared.bounds(&limits).map(|bound| bound.taken), [0, 2]);
        let others = other.place();
        assert!(others.is_some() && other.place().is_none());
        drop(beside);
        assert!(other.place().is_some());
        drop(first);
        assert!(one.place().is_some());
    }
}
