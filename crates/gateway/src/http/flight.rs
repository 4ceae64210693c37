//! A request in flight: counted while its answer is being sent, measured when it is over.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::body::Outflow;
use crate::service::ServiceError;
use crate::telemetry::Telemetry;

/// Requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    lingers: AtomicBool,
}

impl Activity {
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
}

impl Flight {
    /// Its head came.
    pub(super) fn begin(activity: Arc<Activity>, telemetry: Telemetry) -> Self {
        activity.begun.fetch_add(1, Ordering::AcqRel);
        telemetry.begin();
        Self { activity, telemetry, start: Instant::now(), operation: None, status: 0 }
    }

    /// Its answer is known; it ends with the answer's body.
    pub(super) fn answer(mut self, operation: Option<&'static str>, status: u16, body: Outflow) -> Outflow {
        self.operation = operation;
        self.status = status;
        Sending { body, flight: Some(self) }.boxed_unsync()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.telemetry.end(self.operation, self.status, self.start.elapsed());
        self.activity.ended.fetch_add(1, Ordering::AcqRel);
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
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        match &poll {
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
