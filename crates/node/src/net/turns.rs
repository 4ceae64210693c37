//! Streams of a link wait for their turn here before the multiplexer has their bytes.
//!
//! Why here: the multiplexer sends what it was given in order, and knows of no urgency; so it is given little at a time,
//! and [`skerry_federation::turns`] says by whom. [`Turned`] is a stream that waits, [`Outlet`] lies between multiplexer
//! and socket and says what has left. Invariants: a byte that was let through is counted off exactly once, as it leaves or
//! when it was not taken after all; nobody who waits is forgotten, for a stream that is dropped gives its turn back.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use skerry_federation::budget::Class;
use skerry_federation::turns::{Lane, Turns};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::mux::{Frames, HEAD_BYTES, Piece};

/// Payload of such a frame: with the header one TLS record.
pub(super) const FRAME_BYTES: usize = (16 << 10) - HEAD_BYTES;
/// What the multiplexer has at most: one frame that is being written and one that is ready.
const AFLOAT_BYTES: usize = 2 * FRAME_BYTES;
/// What a stream is of whose class nobody has said anything: words of machines, and questions that are still to be read.
const UNSAID: Class = Class::Record;

/// One direction of a link.
pub(super) struct Gate(Mutex<State>);

struct State {
    turns: Turns,
    places: BTreeMap<u32, Place>,
}

struct Place {
    class: Class,
    sent: u64,
    waker: Option<Waker>,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        let turns = Turns::new(FRAME_BYTES as u64, AFLOAT_BYTES as u64);
        Arc::new(Self(Mutex::new(State { turns, places: BTreeMap::new() })))
    }

    /// A place for the stream of this number, which no other of the link has.
    fn seat(self: &Arc<Self>, stream: u32) -> Arc<Seat> {
        let place = Place { class: UNSAID, sent: 0, waker: None };
        self.with(|state| state.places.insert(stream, place));
        Arc::new(Seat { gate: self.clone(), stream })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let (result, called) = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut state);
            (result, state.call())
        };
        called.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    /// Whoever has the next turns.
    fn call(&mut self) -> Vec<Waker> {
        let mut called = Vec::new();
        while let Some(stream) = self.turns.call() {
            called.extend(self.places.get_mut(&stream).and_then(|place| place.waker.take()));
        }
        called
    }
}

/// The place of one stream.
pub(super) struct Seat {
    gate: Arc<Gate>,
    stream: u32,
}

impl Seat {
    /// What is sent from now on is of this class, and begins anew.
    pub(super) fn rank(&self, class: Class) {
        self.gate.with(|state| {
            if let Some(place) = state.places.get_mut(&self.stream) {
                (place.class, place.sent) = (class, 0);
            }
        });
    }

    /// Ready when the stream may send so many bytes: they are counted as sent, in this lane.
    fn poll_turn(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<Lane> {
        self.gate.with(|state| {
            let State { turns, places } = state;
            // The place is there for as long as the seat is.
            let Some(place) = places.get_mut(&self.stream) else { return Poll::Ready(Lane::Copy) };
            let lane = Lane::of(place.class, place.sent);
            if turns.ask(self.stream, lane, bytes as u64) {
                place.sent += bytes as u64;
                place.waker = None;
                return Poll::Ready(lane);
            }
            if !place.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                place.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// So many of them were not taken.
    fn unsent(&self, lane: Lane, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.gate.with(|state| {
            state.turns.unsent(lane, bytes as u64);
            if let Some(place) = state.places.get_mut(&self.stream) {
                place.sent = place.sent.saturating_sub(bytes as u64);
            }
        });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.gate.with(|state| {
            state.turns.leave(self.stream);
            state.places.remove(&self.stream);
        });
    }
}

/// A stream that sends when it is its turn, a frame at most.
pub(super) struct Turned<S> {
    inner: S,
    seat: Arc<Seat>,
}

impl<S> Turned<S> {
    pub(super) fn new(inner: S, gate: &Arc<Gate>, stream: u32) -> Self {
        Self { inner, seat: gate.seat(stream) }
    }

    pub(super) fn seat(&self) -> Arc<Seat> {
        self.seat.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Turned<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Turned<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let piece = buf.get(..FRAME_BYTES).unwrap_or(buf);
        let lane = ready!(self.seat.poll_turn(cx, piece.len()));
        // Before it is known how much is taken: the other end of the multiplexer may be faster than this line.
        let written = Pin::new(&mut self.inner).poll_write(cx, piece);
        let taken = if let Poll::Ready(Ok(taken)) = &written { *taken } else { 0 };
        self.seat.unsent(lane, piece.len().saturating_sub(taken));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What the multiplexer writes to: counts what leaves of streams that wait for turns.
pub(super) struct Outlet<S> {
    inner: S,
    gate: Arc<Gate>,
    /// Frames of this stream are not counted: it waits for no turn.
    free: u32,
    frames: Frames,
    counts: bool,
}

impl<S> Outlet<S> {
    pub(super) fn new(inner: S, gate: Arc<Gate>, free: u32) -> Self {
        Self { inner, gate, free, frames: Frames::default(), counts: false }
    }

    /// Bytes of bodies among these, those of the free stream apart.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let Self { free, frames, counts, .. } = self;
        let mut counted = 0;
        frames.pass(bytes, |piece| match piece {
            Piece::Head(head) => *counts = head.stream != *free,
            Piece::Body(bytes) => counted += if *counts { bytes } else { 0 },
        });
        counted
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Outlet<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outlet<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        let left = self.pass(buf.get(..written).unwrap_or(buf));
        if left > 0 {
            self.gate.with(|state| state.turns.left(left as u64));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
