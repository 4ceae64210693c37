//! The body of a request: made as it is sent, never held whole.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use md5::{Digest, Md5};

use crate::body::Frames;

/// Frames of a body, and their MD5 sum if it is wanted.
pub(super) struct Upload {
    frames: Content,
    sum: Option<Sum>,
}

enum Content {
    Made(Frames),
    Given(Option<Bytes>),
}

/// The MD5 sum of what was sent so far, shared with whoever waits for the answer.
pub(super) type Sum = Arc<Mutex<Md5>>;

impl Upload {
    pub(super) const fn of(frames: Frames, sum: Option<Sum>) -> Self {
        Self { frames: Content::Made(frames), sum }
    }

    pub(super) const fn given(bytes: Bytes) -> Self {
        Self { frames: Content::Given(Some(bytes)), sum: None }
    }

    pub(super) fn length(&self) -> u64 {
        match &self.frames {
            Content::Made(frames) => frames.left(),
            Content::Given(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let next = match &mut this.frames {
            Content::Made(frames) => frames.next(),
            Content::Given(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
        };
        if let (Some(bytes), Some(sum)) = (&next, &this.sum) {
            sum.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
        }
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length())
    }
}
