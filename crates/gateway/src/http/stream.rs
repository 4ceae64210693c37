//! A connection whose opening and whose reading of our answers are paced, and the body of a request.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Limits;
use super::pace::{Pace, Stalled};
use crate::service::{ErrorKind, ServiceError};

/// Bytes by which hyper knows the version of HTTP; until then it has no timeout of its own.
const OPENING: usize = 24;

/// A paced connection.
pub(super) struct PacedStream<S> {
    inner: S,
    opening: Option<(usize, Pin<Box<Sleep>>)>,
    writing: Pace,
}

impl<S> PacedStream<S> {
    /// Around a connection just accepted.
    pub(super) fn new(inner: S, limits: &Limits) -> Self {
        let opening = Some((OPENING, Box::pin(sleep(limits.head_time))));
        Self { inner, opening, writing: Pace::new(limits.stall_time, limits.stall_bytes) }
    }

    fn opened(&mut self, bytes: usize) {
        match &mut self.opening {
            Some((left, _)) if *left > bytes => *left -= bytes,
            _ => self.opening = None,
        }
    }

    fn wrote(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match poll {
            Poll::Ready(Ok(bytes)) => match self.writing.moved(bytes as u64) {
                Ok(()) => Poll::Ready(Ok(bytes)),
                Err(Stalled) => Poll::Ready(Err(timed_out())),
            },
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.writing.poll_stalled(cx).map(|Stalled| Err(timed_out())),
        }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client made no progress")
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buffer) {
            Poll::Ready(read) => {
                self.opened(buffer.filled().len() - before);
                Poll::Ready(read)
            }
            Poll::Pending => {
                if let Some((_, alarm)) = &mut self.opening {
                    ready!(alarm.as_mut().poll(cx));
                    return Poll::Ready(Err(timed_out()));
                }
                Poll::Pending
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, data);
        self.wrote(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, data);
        self.wrote(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The body of a request, paced, its errors in our words.
pub(super) struct PacedBody {
    inner: Incoming,
    pace: Pace,
    window: Duration,
}

impl PacedBody {
    /// Around the body of a request.
    pub(super) fn new(inner: Incoming, limits: &Limits) -> Self {
        let pace = Pace::new(limits.stall_time, limits.stall_bytes);
        Self { inner, pace, window: limits.stall_time }
    }

    fn stalled(&self) -> ServiceError {
        ServiceError::new(
            ErrorKind::RequestTimeout,
            format!(
                "Your socket connection to the server was not written to within the timeout period: \
                 too little came in {} s",
                self.window.as_secs_f32()
            ),
        )
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = ServiceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServiceError>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                match self.pace.moved(bytes) {
                    Ok(()) => Poll::Ready(Some(Ok(frame))),
                    Err(Stalled) => Poll::Ready(Some(Err(self.stalled()))),
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(ServiceError::new(
                ErrorKind::IncompleteBody,
                format!("the connection ended before the body did ({error}); send it again"),
            )))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.pace.poll_stalled(cx));
                Poll::Ready(Some(Err(self.stalled())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
