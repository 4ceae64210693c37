//! A connection that is closed while its client still writes: the sending side ends first, and what still comes
//! is taken in for a while.
//!
//! Why: closing a socket with unread bytes in it resets the connection, and a reset makes the client's system throw
//! away the answer that was already there. A client that is refused in the midst of a large body must be able to
//! read why.
//! Invariant: only connections that were told to leave linger, each for a bounded time and number of bytes.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::flight::Activity;

/// How long a client may go on writing to a connection that is over.
const TIME: Duration = Duration::from_secs(5);
/// Bytes taken in meanwhile, at the most.
const BYTES: usize = 64 << 20;

/// A socket, below TLS.
pub(super) struct Lingering<S> {
    inner: S,
    activity: Arc<Activity>,
    ending: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Lingering<S> {
    /// Around a connection just accepted; `activity` says in the end whether its client may still write.
    pub(super) fn new(inner: S, activity: Arc<Activity>) -> Self {
        Self { inner, activity, ending: None }
    }
}

impl<S: AsyncRead + Unpin> Lingering<S> {
    /// Ready when nothing more comes, or enough has come.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (alarm, left) = self.ending.get_or_insert_with(|| (Box::pin(sleep(TIME)), BYTES));
        let mut space = [MaybeUninit::uninit(); 16 << 10];
        loop {
            if alarm.as_mut().poll(cx).is_ready() || *left == 0 {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::uninit(&mut space);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *left = left.saturating_sub(buffer.filled().len()),
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        if self.activity.lingers() {
            ready!(self.poll_rest(cx));
        }
        Poll::Ready(Ok(()))
    }
}
