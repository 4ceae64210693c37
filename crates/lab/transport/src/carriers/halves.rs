//! The two halves of a QUIC stream as one pipe.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Pipe;

/// A half that is written to, before others or after them.
pub(super) trait Ranked {
    /// The higher goes first.
    fn rank(&mut self, rank: i32);
}

/// Both halves.
pub(super) struct Halves<S, R> {
    pub(super) send: S,
    pub(super) receive: R,
}

impl<S: AsyncWrite + Ranked + Send + Unpin, R: AsyncRead + Send + Unpin> Pipe for Halves<S, R> {
    fn urgent(&mut self, urgent: bool) {
        self.send.rank(i32::from(urgent));
    }
}

impl<S: Unpin, R: AsyncRead + Unpin> AsyncRead for Halves<S, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receive), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, R: Unpin> AsyncWrite for Halves<S, R> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.send), cx)
    }
}
