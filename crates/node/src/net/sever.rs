//! A stream that counts its bytes and fails at once when its link is severed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use skerry_federation::budget::Class;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Duplex;
use super::traffic::Meter;
use super::turns::Seat;

/// Wraps `S`: bytes go to a [`Meter`], and after the token is cancelled every call fails.
pub(super) struct Severable<S> {
    inner: S,
    meter: Option<Arc<Meter>>,
    severed: Pin<Box<WaitForCancellationFutureOwned>>,
    seat: Option<Arc<Seat>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S> Severable<S> {
    pub(super) fn new(inner: S, link: &CancellationToken, meter: Option<Arc<Meter>>) -> Self {
        let severed = Box::pin(link.clone().cancelled_owned());
        Self { inner, meter, severed, seat: None, _permit: None }
    }

    /// Says here how urgent it is.
    pub(super) fn seated(mut self, seat: Arc<Seat>) -> Self {
        self.seat = Some(seat);
        self
    }

    /// Gives the permit back when the stream is dropped.
    pub(super) fn holding(mut self, permit: OwnedSemaphorePermit) -> Self {
        self._permit = Some(permit);
        self
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.severed.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the link broke")),
            Poll::Pending => Ok(()),
        }
    }

    fn sent(&self, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.add_sent(bytes);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for Severable<S> {
    fn rank(&mut self, class: Class) {
        if let Some(seat) = &self.seat {
            seat.rank(class);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Severable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let Some(meter) = &self.meter {
            meter.add_received(buf.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Severable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, bufs))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
