//! Requests that change something go on to their end, whether their client waits for it or not.
//!
//! Why: who resets a stream of HTTP/2, or hangs up, has what answers it dropped where it waits, and a change has more than one
//! step: what is on disk would not be known in memory until a restart. So such a request runs in a task of its own; one whose
//! body has not come fails by that and ends as well.
//!
//! Invariant: how many go on for nobody is bounded: beyond it what would change something is refused before it begins.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;

use hyper::Method;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::service::Bound;

/// Requests that go on for nobody at once: each is some kilobytes, and has its body behind it.
const ABANDONED: usize = 1024;

/// Somebody waits for it.
const AWAITED: u8 = 0;
/// Nobody does any more.
const LEFT: u8 = 1;
/// It is over.
const OVER: u8 = 2;

/// Requests that go on for nobody.
#[derive(Debug, Clone, Default)]
pub(super) struct Abandoned(Arc<AtomicUsize>);

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Too many go on for nobody: it was not begun.
    Refused,
    /// It panicked.
    Failed,
}

/// Whether a request of this method only reads: it may end anywhere.
pub(super) fn only_reads(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// One of the two who know of a request: its client, and the task that carries it out.
struct Side {
    abandoned: Abandoned,
    state: Arc<AtomicU8>,
    ends_as: u8,
}

impl Drop for Side {
    fn drop(&mut self) {
        let count = &self.abandoned.0;
        match (self.ends_as, self.state.swap(self.ends_as, Ordering::AcqRel)) {
            (LEFT, AWAITED) => drop(count.fetch_add(1, Ordering::AcqRel)),
            (OVER, LEFT) => drop(count.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }
}

impl Abandoned {
    /// Carries this out to its end; the answer, if somebody still waits for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        if self.0.load(Ordering::Acquire) >= ABANDONED {
            return Err(Unanswered::Refused);
        }
        let state = Arc::new(AtomicU8::new(AWAITED));
        let side = |ends_as| Side { abandoned: self.clone(), state: state.clone(), ends_as };
        let (client, task) = (side(LEFT), side(OVER));
        let (answer, answered) = oneshot::channel();
        let task = async move {
            let _task = task;
            answer.send(work.await).ok();
        };
        tokio::spawn(task.in_current_span());
        let answered = answered.await;
        drop(client);
        answered.map_err(|_| Unanswered::Failed)
    }

    /// How many there are.
    pub(super) fn bound(&self) -> Bound {
        Bound::places("abandoned", ABANDONED, self.0.load(Ordering::Acquire))
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn what_was_begun_ends_though_its_client_is_gone_and_is_counted_meanwhile() {
        let abandoned = Abandoned::default();
        let (go, gone) = oneshot::channel::<()>();
        let (say, said) = oneshot::channel();
        {
            let work = async move {
                gone.await.ok();
                say.send(()).ok();
            };
            let mut run = pin!(abandoned.run(work));
            assert!(poll!(&mut run).is_pending());
        }
        assert_eq!(abandoned.count(), 1);
        go.send(()).unwrap();
        said.await.unwrap();
        while abandoned.count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(abandoned.run(async { 7 }).await, Ok(7));
        assert_eq!(abandoned.count(), 0);
    }

    #[tokio::test]
    async fn a_panic_is_no_answer_and_counts_for_nothing() {
        let abandoned = Abandoned::default();
        let failed = abandoned.run(async { assert!(std::hint::black_box(false), "on purpose") }).await;
        assert_eq!((failed, abandoned.count()), (Err(Unanswered::Failed), 0));
    }

    #[tokio::test]
    async fn nothing_is_begun_while_too_many_go_on_for_nobody() {
        let abandoned = Abandoned::default();
        let (go, gone) = tokio::sync::watch::channel(false);
        for _ in 0..ABANDONED {
            let mut gone = gone.clone();
            let work = async move { drop(gone.wait_for(|go| *go).await) };
            let mut run = pin!(abandoned.run(work));
            assert!(poll!(&mut run).is_pending());
        }
        assert_eq!(
            abandoned.run(async { panic!("it is not begun") }).await,
            Err::<(), _>(Unanswered::Refused)
        );
        go.send(true).unwrap();
        while abandoned.count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(abandoned.run(async {}).await, Ok(()));
    }
}
