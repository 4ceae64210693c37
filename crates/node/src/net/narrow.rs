//! A stream of the network in memory that shares a narrow link with others: so many bytes a second, all together.
//!
//! Invariants: streams that have something to write take turns of [`PIECE`] bytes; what was given a turn is written, however
//! long its reader takes; a stream without a pipe is as fast as memory.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::pace;

/// What a stream sends in a turn.
const PIECE: usize = 4 << 10;

/// One direction of a narrow link.
pub(super) struct Pipe {
    rate: u64,
    /// When what was given turns so far has crossed.
    free: Mutex<Option<Instant>>,
}

impl Pipe {
    /// Carries so many bytes a second.
    pub(super) fn new(rate: u64) -> Arc<Self> {
        Arc::new(Self { rate: rate.max(1), free: Mutex::new(None) })
    }

    /// When so many bytes have crossed that are given to it now.
    fn turn(&self, bytes: usize) -> Duration {
        let now = pace::now();
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let end = free.map_or(now, |free| free.max(now)) + takes;
        *free = Some(end);
        end.saturating_duration_since(now)
    }
}

/// What is waited for.
type Turn = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One end of a stream.
pub(super) struct Narrow<S> {
    inner: S,
    pipe: Option<Arc<Pipe>>,
    turn: Option<Turn>,
    /// Bytes that had their turn and are not written yet.
    crossed: usize,
}

impl<S> Narrow<S> {
    pub(super) fn new(inner: S, pipe: Option<Arc<Pipe>>) -> Self {
        Self { inner, pipe, turn: None, crossed: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Narrow<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Narrow<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Some(pipe) = self.pipe.clone() else { return Pin::new(&mut self.inner).poll_write(cx, buf) };
        if self.crossed == 0 {
            let bytes = buf.len().min(PIECE);
            let turn = self.turn.get_or_insert_with(|| Box::pin(pace::pause(pipe.turn(bytes))));
            ready!(turn.as_mut().poll(cx));
            (self.turn, self.crossed) = (None, bytes);
        }
        let piece = buf.get(..self.crossed).unwrap_or(buf);
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, piece))?;
        self.crossed = self.crossed.saturating_sub(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
