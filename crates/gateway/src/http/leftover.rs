//! What a refusal leaves unread of a request's body, taken in before the answer goes out.
//!
//! Why here: a server that answers and hangs up while a client still writes resets the connection, and the
//! client may never see the answer; one that answers and hangs up without saying so breaks the client's next
//! request. So a small rest is read and dropped, and after a large one the client is told to leave.
//! Invariant: what is read for nothing is bounded in bytes and in time.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};

use super::body::Inflow;
use super::stream::PacedBody;
use crate::service::ServiceError;

/// Bytes read for nothing at the most.
const BYTES: u64 = 256 << 10;
/// Time spent on it at the most.
const TIME: Duration = Duration::from_secs(2);

/// Where a body goes when whoever was to read it drops it.
#[derive(Default)]
pub(super) struct Leftover {
    asked: AtomicBool,
    body: Mutex<Option<PacedBody>>,
}

impl Leftover {
    /// Whether any of the body was asked for: then hyper has told a client that expects it to go on.
    pub(super) fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Reads and drops what is left; false if that is too much.
    pub(super) async fn drain(&self) -> bool {
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = body else { return true };
        if body.size_hint().lower() > BYTES {
            return false;
        }
        let read = async {
            let mut left = BYTES;
            while let Some(frame) = body.frame().await {
                let bytes = frame.map(|frame| frame.data_ref().map_or(0, |data| data.len() as u64));
                match bytes.ok().and_then(|bytes| left.checked_sub(bytes)) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
            true
        };
        tokio::time::timeout(TIME, read).await.unwrap_or(false)
    }
}

/// A body that comes back when it is dropped before its end.
struct Lent {
    body: Option<PacedBody>,
    leftover: Arc<Leftover>,
}

/// A request body as the faces read it.
pub(super) fn lend(body: PacedBody, leftover: Arc<Leftover>) -> Inflow {
    Lent { body: Some(body), leftover }.boxed_unsync()
}

impl Drop for Lent {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        *self.leftover.body.lock().unwrap_or_else(PoisonError::into_inner) = unread;
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = ServiceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServiceError>>> {
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let empty = body.is_end_stream();
        let poll = Pin::new(body).poll_frame(cx);
        if !empty {
            self.leftover.asked.store(true, Ordering::Release);
        }
        if matches!(poll, Poll::Ready(None | Some(Err(_)))) {
            // Nothing more comes, or nothing that could be made sense of.
            self.body = None;
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
