//! What came over links and nobody has read yet, bounded over all links of a node.
//!
//! Why: the multiplexer lets each stream of a link hold a receive window, 80 MiB together, of each of its links; nobody bounds all
//! of them. [`Inlet`] lies between socket and multiplexer and counts bodies of data frames as they begin, [`Counted`] is a stream
//! that counts them off. While [`Backlog`] is full no frame is taken of a link that has its share of it: TCP keeps the other end
//! waiting, for whoever reads. A stream that nobody reads meanwhile is closed, the largest first: what others wait for
//! lies behind it.
//! Invariants: of all links no more is held than the backlog and each link's share and one frame; a link with less than its
//! share goes on, whatever others hold; what a dropped stream held is read off at once; whoever reads, drops a stream or loses a link lets those that pause go on; no link
//! pauses for longer than it takes to find a stream that nobody reads, or a byte is read.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::mux::{DATA, Frames, Head, Piece, RST, SYN, WINDOW};
use super::pace;

/// A stream of which nobody has read for so long, though something has come, is closed when there is no room: less than what
/// ends a connection whose other end takes no byte (`tcp::tuning`).
const STALLED: Duration = Duration::from_secs(5);
/// The same of a link that others carry: less than what its own stream may stall on the link below.
const STALLED_CARRIED: Duration = Duration::from_secs(2);
/// While a link pauses it is looked so often whether there is one.
const LOOK: Duration = Duration::from_millis(500);
/// The multiplexer takes no longer frame.
const FRAME_MOST: usize = 1 << 20;

/// The bound of all links of a node.
#[derive(Debug)]
pub(super) struct Backlog {
    most: usize,
    taken: AtomicUsize,
    links: AtomicUsize,
    /// Numbers of links, rising.
    numbers: AtomicU64,
    /// Links that are not read, by number.
    paused: Mutex<BTreeMap<u64, Waker>>,
    /// Whether there may be some: who reads looks here first.
    pauses: AtomicBool,
}

impl Backlog {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            taken: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
            paused: Mutex::default(),
            pauses: AtomicBool::new(false),
        }
    }

    pub(super) const fn most(&self) -> usize {
        self.most
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    /// What a link may hold whatever others do.
    fn share(&self) -> usize {
        self.most / self.links.load(SeqCst).max(1)
    }

    fn give(&self, bytes: usize) {
        if bytes > 0 {
            self.taken.fetch_sub(bytes, SeqCst);
            self.go_on();
        }
    }

    /// Those that pause look again.
    fn go_on(&self) {
        if self.pauses.swap(false, SeqCst) {
            let paused = std::mem::take(&mut *lock(&self.paused));
            paused.into_values().for_each(Waker::wake);
        }
    }
}

/// What one link holds.
pub(super) struct Held {
    backlog: Arc<Backlog>,
    number: u64,
    stalled: Duration,
    all: AtomicUsize,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    /// Those that somebody has.
    open: BTreeMap<u32, Open>,
    /// The stream that the last frame began, and what came with it: the multiplexer hands it over before it reads the next frame,
    /// or never.
    begun: Option<(u32, usize)>,
}

struct Open {
    unread: usize,
    /// When it was read last, or something came that is to be read.
    since: Instant,
    slot: Arc<dyn Close>,
}

/// Frees what a stream holds, and ends it.
trait Close: Send + Sync {
    fn close(&self);
}

impl Held {
    /// Of a link, which others carry or not.
    pub(super) fn new(backlog: &Arc<Backlog>, is_carried: bool) -> Arc<Self> {
        backlog.links.fetch_add(1, SeqCst);
        let number = backlog.numbers.fetch_add(1, SeqCst);
        let stalled = if is_carried { STALLED_CARRIED } else { STALLED };
        let (all, streams) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { backlog: backlog.clone(), number, stalled, all, streams })
    }

    fn may_read(&self) -> bool {
        self.backlog.taken() < self.backlog.most || self.all.load(SeqCst) < self.backlog.share()
    }

    /// Ready when the next frame may be read. Until then it is woken by whoever reads, and by `look`, for streams to close.
    fn poll_room(&self, cx: &mut Context<'_>, look: &mut Option<Look>) -> Poll<()> {
        loop {
            if self.may_read() {
                *look = None;
                return Poll::Ready(());
            }
            lock(&self.backlog.paused).insert(self.number, cx.waker().clone());
            self.backlog.pauses.store(true, SeqCst);
            // Who read in between may not have seen it.
            if self.may_read() || self.close_stalled() {
                continue;
            }
            ready!(look.get_or_insert_with(|| Box::pin(pace::pause(LOOK))).as_mut().poll(cx));
            *look = None;
        }
    }

    /// Closes the largest stream that nobody reads; whether there was one.
    fn close_stalled(&self) -> bool {
        let now = pace::now();
        let mut streams = lock(&self.streams);
        let is_stalled =
            |open: &Open| open.unread > 0 && now.saturating_duration_since(open.since) >= self.stalled;
        let stalled = streams.open.iter().filter(|(_, open)| is_stalled(open));
        let Some(stream) = stalled.max_by_key(|(_, open)| open.unread).map(|(&stream, _)| stream) else {
            return false;
        };
        let closed = streams.open.remove(&stream);
        drop(streams);
        if let Some(Open { unread, slot, .. }) = closed {
            tracing::debug!(stream, unread, "a stream was closed: nobody read it, and there was no room");
            slot.close();
            self.give(unread);
        }
        true
    }

    /// A frame begins. What comes for a stream that nobody has (any more) the multiplexer throws away.
    fn begins(&self, head: Head) -> io::Result<()> {
        if head.body() > FRAME_MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame longer than frames are"));
        }
        let mut streams = lock(&self.streams);
        // It was not taken.
        let unclaimed = streams.begun.take().map_or(0, |(_, came)| came);
        if matches!(head.kind, DATA | WINDOW) && head.flags & RST == 0 {
            if head.flags & SYN != 0 {
                streams.begun = Some((head.stream, head.body()));
                self.take(head.body());
            } else if let Some(open) = streams.open.get_mut(&head.stream) {
                if open.unread == 0 {
                    open.since = pace::now();
                }
                open.unread += head.body();
                self.take(head.body());
            }
        }
        drop(streams);
        self.give(unclaimed);
        Ok(())
    }

    fn open(&self, stream: u32, slot: Arc<dyn Close>) {
        let mut streams = lock(&self.streams);
        let came = streams.begun.take_if(|(begun, _)| *begun == stream);
        let unread = came.map_or(0, |(_, came)| came);
        let before = streams.open.insert(stream, Open { unread, since: pace::now(), slot });
        drop(streams);
        self.give(before.map_or(0, |open| open.unread));
    }

    fn read(&self, stream: u32, slot: &Arc<dyn Close>, bytes: usize) {
        let mut streams = lock(&self.streams);
        let open = streams.open.get_mut(&stream).filter(|open| Arc::ptr_eq(&open.slot, slot));
        let read = open.map_or(0, |open| {
            let read = bytes.min(open.unread);
            (open.unread, open.since) = (open.unread - read, pace::now());
            read
        });
        drop(streams);
        self.give(read);
    }

    /// Nobody has the stream any more; another of its number may be there.
    fn end(&self, stream: u32, slot: &Arc<dyn Close>) {
        let mut streams = lock(&self.streams);
        let is_it = streams.open.get(&stream).is_some_and(|open| Arc::ptr_eq(&open.slot, slot));
        let ended = if is_it { streams.open.remove(&stream) } else { None };
        drop(streams);
        if let Some(Open { unread: 1.., .. }) = ended {
            slot.close();
        }
        self.give(ended.map_or(0, |open| open.unread));
    }

    fn take(&self, bytes: usize) {
        self.all.fetch_add(bytes, SeqCst);
        self.backlog.taken.fetch_add(bytes, SeqCst);
    }

    fn give(&self, bytes: usize) {
        self.all.fetch_sub(bytes, SeqCst);
        self.backlog.give(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.backlog.links.fetch_sub(1, SeqCst);
        lock(&self.backlog.paused).remove(&self.number);
        self.backlog.taken.fetch_sub(self.all.load(SeqCst), SeqCst);
        // Of fewer links each has a larger share.
        self.backlog.go_on();
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When it is looked again for a stream to close.
type Look = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the multiplexer reads from: pauses between two frames while there is no room.
pub(super) struct Inlet<S> {
    inner: S,
    held: Arc<Held>,
    frames: Frames,
    look: Option<Look>,
    /// Of the link: cancelled before the multiplexer hears that the socket ended, so that streams fail and do not end.
    link: CancellationToken,
}

impl<S> Inlet<S> {
    pub(super) fn new(inner: S, held: Arc<Held>, link: CancellationToken) -> Self {
        Self { inner, held, frames: Frames::default(), look: None, link }
    }

    fn told<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Err(_))) {
            self.link.cancel();
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Inlet<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, held, frames, look, link } = &mut *self;
        if frames.is_between() {
            ready!(held.poll_room(cx, look));
        }
        let (before, wants) = (buf.filled().len(), buf.remaining() > 0);
        let read = ready!(Pin::new(inner).poll_read(cx, buf));
        if read.is_err() || (wants && buf.filled().len() == before) {
            link.cancel();
        }
        read?;
        let mut result = Ok(());
        frames.pass(buf.filled().get(before..).unwrap_or_default(), |piece| {
            if let Piece::Head(head) = piece
                && result.is_ok()
            {
                result = held.begins(head);
            }
        });
        self.told(Poll::Ready(result))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Inlet<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.told(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.told(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A stream, until it is closed.
struct Slot<S>(Mutex<Option<S>>);

impl<S: AsyncRead + Send + Unpin> Close for Slot<S> {
    /// What it holds is read off first: the multiplexer lets go of a dropped stream when it has written what it was about to write.
    fn close(&self) {
        let Some(mut stream) = lock(&self.0).take() else { return };
        let (mut piece, mut cx) = ([0; 4096], Context::from_waker(Waker::noop()));
        loop {
            let mut buf = ReadBuf::new(&mut piece);
            match Pin::new(&mut stream).poll_read(&mut cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {}
                _ => return,
            }
        }
    }
}

/// A stream of the multiplexer that counts off what is read, and all that was not when it is dropped.
pub(super) struct Counted<S> {
    slot: Arc<Slot<S>>,
    close: Arc<dyn Close>,
    held: Arc<Held>,
    stream: u32,
}

impl<S: AsyncRead + Send + Unpin + 'static> Counted<S> {
    pub(super) fn new(inner: S, held: &Arc<Held>, stream: u32) -> Self {
        let slot = Arc::new(Slot(Mutex::new(Some(inner))));
        let close: Arc<dyn Close> = slot.clone();
        held.open(stream, close.clone());
        Self { slot, close, held: held.clone(), stream }
    }
}

impl<S> Counted<S> {
    /// What it is asked of the stream; an error if that was closed.
    fn with<T>(&self, act: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>>
    where
        S: Unpin,
    {
        match &mut *lock(&self.slot.0) {
            Some(stream) => act(Pin::new(stream)),
            None => {
                let why = "nobody read the stream for long while there was no room for what came";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, why)))
            }
        }
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.held.end(self.stream, &self.close);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(self.with(|stream| stream.poll_read(cx, buf)))?;
        self.held.read(self.stream, &self.close, buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
#[path = "backlog_tests.rs"]
mod tests;
