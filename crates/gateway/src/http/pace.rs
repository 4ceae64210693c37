//! Minimum progress: whoever makes us wait must move some bytes in every window.
//!
//! Invariant: only time spent waiting for the other side counts, so that a slow disk of ours lets nobody go.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The other side moved too little for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stalled;

/// Watches one direction.
pub(super) struct Pace {
    window: Duration,
    floor: u64,
    moved: u64,
    waited: Duration,
    since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl Pace {
    /// At least `floor` bytes in every `window` of waiting.
    pub(super) fn new(window: Duration, floor: u64) -> Self {
        let alarm = Box::pin(sleep_until(Instant::now() + window));
        Self { window, floor, moved: 0, waited: Duration::ZERO, since: None, alarm }
    }

    /// Bytes moved.
    pub(super) fn moved(&mut self, bytes: u64) -> Result<(), Stalled> {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.moved = self.moved.saturating_add(bytes);
        if self.waited >= self.window { self.turn() } else { Ok(()) }
    }

    /// We wait. Ready when the other side has stalled; else the task is woken when it would have.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Stalled> {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.alarm.as_mut().reset(now + self.window.saturating_sub(self.waited));
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            if self.turn().is_err() {
                return Poll::Ready(Stalled);
            }
            let now = Instant::now();
            self.since = Some(now);
            self.alarm.as_mut().reset(now + self.window);
        }
        Poll::Pending
    }

    /// Ends a window.
    fn turn(&mut self) -> Result<(), Stalled> {
        self.waited = Duration::ZERO;
        let moved = core::mem::take(&mut self.moved);
        if moved < self.floor { Err(Stalled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    /// Waits for a stall, at most so long; whether there was one.
    async fn stalls(pace: &mut Pace, time: Duration) -> bool {
        tokio::time::timeout(time, poll_fn(|cx| pace.poll_stalled(cx))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_stalls_after_a_window() {
        let mut pace = Pace::new(WINDOW, 100);
        assert!(!stalls(&mut pace, WINDOW - Duration::from_millis(1)).await);
        assert!(stalls(&mut pace, Duration::from_millis(2)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_stalls_and_a_stream_does_not() {
        for (bytes, enough) in [(1, false), (120, true)] {
            let mut pace = Pace::new(WINDOW, 100);
            let mut stalled = false;
            for _ in 0..20 {
                stalled |= stalls(&mut pace, WINDOW / 2).await || pace.moved(bytes).is_err();
            }
            assert_eq!(stalled, !enough, "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_time_does_not_count() {
        let mut pace = Pace::new(WINDOW, 100);
        for _ in 0..20 {
            tokio::time::advance(WINDOW * 2).await;
            assert!(!stalls(&mut pace, Duration::from_millis(1)).await);
            assert!(pace.moved(1).is_ok());
        }
    }
}
