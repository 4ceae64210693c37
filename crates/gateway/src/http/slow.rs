//! Answers that take long: begun before their outcome is known, and kept alive by spaces until it is.
//!
//! Why: clients give up on a server that is silent for a minute, and a copy or the completion of an upload may take longer than
//! that; S3 begins such an answer with the status 200, sends white space, and says in the document that ends it how it went.
//!
//! Invariants: what ends soon is answered by its own status; the work goes on to its end, whoever waits for it, and how much of
//! it there is at once is bounded, waited for or not: beyond that nothing is begun. How many answers are kept alive is bounded,
//! others are silent until they are known.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};
use tracing::Instrument;

use super::body::Outflow;
use crate::service::{Bound, ServiceError};

/// How long the outcome is waited for before the answer begins without it: the most hasty clients give up after 30 s.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two spaces.
const PERIOD: Duration = Duration::from_secs(5);
/// Answers that are kept alive at once.
const AT_ONCE: usize = 256;
/// Works that are under way at once: clients that give up and try again would begin one more each time.
const WORKS: usize = 1024;

/// What the answers of a face share.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    answers: Arc<Semaphore>,
    works: Arc<Semaphore>,
}

impl Default for Slow {
    fn default() -> Self {
        Self { answers: Arc::new(Semaphore::new(AT_ONCE)), works: Arc::new(Semaphore::new(WORKS)) }
    }
}

/// What came of work.
pub(crate) enum Outcome<T> {
    /// It is done; nothing came of it if it panicked.
    Done(Option<T>),
    /// It goes on.
    Going(Going<T>),
    /// It was not begun: too much is under way.
    Refused,
}

/// Work that goes on.
pub(crate) struct Going<T> {
    outcome: oneshot::Receiver<T>,
    _room: OwnedSemaphorePermit,
}

impl Slow {
    /// How many works are under way.
    pub(crate) fn bound(&self) -> Bound {
        Bound::places("long_requests", WORKS, WORKS.saturating_sub(self.works.available_permits()))
    }

    /// Carries this out to its end, and waits a while.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Outcome<T> {
        let Ok(under_way) = Arc::clone(&self.works).try_acquire_owned() else { return Outcome::Refused };
        let (say, mut outcome) = oneshot::channel();
        let work = async move {
            let done = work.await;
            drop(under_way);
            say.send(done).ok();
        };
        tokio::spawn(work.in_current_span());
        if let Ok(done) = timeout(PATIENCE, &mut outcome).await {
            return Outcome::Done(done.ok());
        }
        match Arc::clone(&self.answers).try_acquire_owned() {
            Ok(room) => Outcome::Going(Going { outcome, _room: room }),
            Err(_) => Outcome::Done(outcome.await.ok()),
        }
    }
}

impl<T: Send + 'static> Going<T> {
    /// A body that begins with this, goes on with spaces, and ends with what the outcome becomes.
    pub(crate) fn body(
        self,
        first: Bytes,
        last: impl FnOnce(Option<T>) -> Bytes + Send + Unpin + 'static,
    ) -> Outflow {
        let mut spaces = interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
        spaces.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Kept { first: Some(first), spaces, going: Some((self, last)) }.boxed_unsync()
    }
}

struct Kept<T, F> {
    first: Option<Bytes>,
    spaces: Interval,
    going: Option<(Going<T>, F)>,
}

impl<T, F: FnOnce(Option<T>) -> Bytes + Unpin> Body for Kept<T, F> {
    type Data = Bytes;
    type Error = ServiceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServiceError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some((mut going, last)) = self.going.take() else { return Poll::Ready(None) };
        if let Poll::Ready(outcome) = Pin::new(&mut going.outcome).poll(cx) {
            return Poll::Ready(Some(Ok(Frame::data(last(outcome.ok())))));
        }
        self.going = Some((going, last));
        ready!(self.spaces.poll_tick(cx));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    async fn after(span: Duration) -> u32 {
        tokio::time::sleep(span).await;
        7
    }

    fn said(outcome: Option<u32>) -> Bytes {
        outcome.map_or_else(|| "failed".into(), |number| number.to_string()).into()
    }

    async fn text(going: Going<u32>) -> String {
        let body = going.body("first".into(), said).collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_soon_is_done_and_what_does_not_is_kept_alive() {
        let slow = Slow::default();
        let Outcome::Done(done) = slow.run(after(PATIENCE - PERIOD)).await else { panic!("it was soon") };
        assert_eq!(done, Some(7));
        let Outcome::Going(going) = slow.run(after(PATIENCE + PERIOD * 7 / 2)).await else {
            panic!("not yet")
        };
        assert_eq!(text(going).await, "first   7");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_told_before_and_after_an_answer_began() {
        let slow = Slow::default();
        let panics = |span| async move {
            tokio::time::sleep(span).await;
            assert!(std::hint::black_box(false), "on purpose");
            0
        };
        let Outcome::Done(done) = slow.run(panics(PERIOD)).await else { panic!("it was soon") };
        assert_eq!(done, None);
        let Outcome::Going(going) = slow.run(panics(PATIENCE * 2)).await else { panic!("not yet") };
        assert!(text(going).await.ends_with("failed"));
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_though_nobody_reads_and_no_more_are_kept_alive_than_may_be() {
        let slow = Slow::default();
        let (say, said) = oneshot::channel();
        let work = async {
            tokio::time::sleep(PATIENCE * 3).await;
            say.send(()).ok();
        };
        let Outcome::Going(going) = slow.run(work).await else { panic!("not yet") };
        let all = slow.answers.available_permits();
        assert_eq!(all, AT_ONCE - 1);
        drop(going);
        assert!(said.await.is_ok(), "it was cut short");
        let _none = slow.answers.try_acquire_many(AT_ONCE as u32).unwrap();
        assert!(matches!(slow.run(after(PATIENCE * 2)).await, Outcome::Done(Some(7))));
    }

    /// A client that hangs up and tries again: what it began before goes on and counts.
    #[tokio::test(start_paused = true)]
    async fn no_more_is_under_way_than_may_be_though_nobody_waits_for_it() {
        let slow = Slow::default();
        let (go, gone) = tokio::sync::watch::channel(false);
        let endless = || {
            let mut gone = gone.clone();
            async move { drop(gone.wait_for(|go| *go).await) }
        };
        for _ in 0..WORKS {
            let mut run = std::pin::pin!(slow.run(endless()));
            assert!(futures::poll!(&mut run).is_pending());
        }
        tokio::time::sleep(PATIENCE * 2).await;
        assert!(matches!(slow.run(endless()).await, Outcome::Refused));
        go.send(true).unwrap();
        while slow.works.available_permits() < WORKS {
            tokio::task::yield_now().await;
        }
        assert!(matches!(slow.run(after(PERIOD)).await, Outcome::Done(Some(7))));
    }
}
