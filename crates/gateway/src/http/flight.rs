//! A request in flight: counted while its answer is being sent, measured when it is over.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Version;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::body::Outflow;
use super::windows::Place;
use crate::service::ServiceError;
use crate::telemetry::Telemetry;

/// Requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    lingers: AtomicBool,
    /// Answers of HTTP/2 that wait for the client to take what they gave last, by number of the request.
    handed: Mutex<BTreeMap<u64, Handed>>,
}

/// What an answer gave last.
#[derive(Debug, Clone, Copy)]
struct Handed {
    since: Instant,
    bytes: u64,
}

/// The slowest that all answers of an HTTP/2 connection together may be taken, in bytes a second. A stream without a window
/// writes nothing, so the pace of the connection does not see it; how much of a piece went is not told either.
const TAKEN: u64 = 1 << 10;

impl Activity {
    fn handed(&self) -> MutexGuard<'_, BTreeMap<u64, Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each request of this connection is an answer that waits longer than it takes a slow client to read all that
    /// was given. One that waits beside others that go on is left: a client pauses one and reads or writes another.
    pub(super) fn is_stuck(&self, stall_time: Duration) -> bool {
        // In this order: one that begins and ends in between would have ended before it began.
        let ended = self.ended.load(Ordering::Acquire);
        let in_flight = self.begun.load(Ordering::Acquire).saturating_sub(ended);
        let handed = self.handed();
        let bytes: u64 = handed.values().map(|handed| handed.bytes).sum();
        let most = stall_time.saturating_add(Duration::from_secs(bytes / TAKEN));
        in_flight > 0
            && handed.len() as u64 == in_flight
            && handed.values().all(|handed| handed.since.elapsed() > most)
    }

    /// How many were begun, and whether none is in flight.
    pub(super) fn look(&self) -> (u64, bool) {
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        (begun, begun == ended)
    }

    /// A request was answered before its body had been read: its client may still write when we close.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::Release);
    }

    /// Whether the client may still write.
    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Acquire)
    }
}

/// One request from its head to the last byte of its answer, or to the loss of the connection.
pub(super) struct Flight {
    activity: Arc<Activity>,
    telemetry: Telemetry,
    start: Instant,
    operation: Option<&'static str>,
    status: u16,
    /// Which request of its connection.
    number: u64,
    /// Whether its answer shares the connection with others.
    shares: bool,
    /// Its place among those of all connections, until it is over.
    place: Option<Place>,
}

impl Flight {
    /// Its head came.
    pub(super) fn begin(activity: Arc<Activity>, telemetry: Telemetry, version: Version) -> Self {
        let number = activity.begun.fetch_add(1, Ordering::AcqRel);
        telemetry.begin();
        let shares = version >= Version::HTTP_2;
        let (start, operation) = (Instant::now(), None);
        Self { activity, telemetry, start, operation, status: 0, number, shares, place: None }
    }

    /// Its answer is known; it ends with the answer's body.
    pub(super) fn answer(
        mut self,
        operation: Option<&'static str>,
        status: u16,
        body: Outflow,
        place: Option<Place>,
    ) -> Outflow {
        self.operation = operation;
        self.status = status;
        self.place = place;
        self.hand(0);
        Sending { body, flight: Some(self) }.boxed_unsync()
    }

    /// From here on its client is to take something.
    fn hand(&self, bytes: u64) {
        if self.shares {
            let handed = Handed { since: Instant::now(), bytes };
            self.activity.handed().insert(self.number, handed);
        }
    }

    /// The client took it, or nobody waits any more.
    fn taken(&self) {
        if self.shares {
            self.activity.handed().remove(&self.number);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.taken();
        self.telemetry.end(self.operation, self.status, self.start.elapsed());
        self.activity.ended.fetch_add(1, Ordering::AcqRel);
        self.place = None;
    }
}

/// The body of an answer, with its request.
struct Sending {
    body: Outflow,
    flight: Option<Flight>,
}

impl Body for Sending {
    type Data = Bytes;
    type Error = ServiceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServiceError>>> {
        if let Some(flight) = &self.flight {
            flight.taken();
        }
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        match &poll {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(flight) = &self.flight {
                    flight.hand(frame.data_ref().map_or(0, |data| data.len() as u64));
                }
            }
            Poll::Ready(None) => self.flight = None,
            Poll::Ready(Some(Err(error))) => {
                tracing::warn!(%error, "an answer was cut short: the connection is closed");
                self.flight = None;
            }
            _ => {}
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
