//! Bodies that stand unread while others of their connection are to move.
//!
//! Why: the streams of an HTTP/2 connection share its window. Bodies that wait for room, and meanwhile are not read, fill it, and
//! those that hold the room then get nothing more: none of them would ever give it back. Invariant: of one connection no more
//! bodies wait than its window has room for beside one that moves. Who comes first has a place, to its end, whether it has to
//! wait or not: else those that begin would have the places, and those that are half-way would be refused.

use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Outcome, Reason, ServiceError};

/// How many bodies of one connection may stand unread. Clones are the same places.
#[derive(Debug, Clone)]
pub struct Places(Arc<Semaphore>);

impl Places {
    /// So many.
    pub(crate) fn new(bodies: usize) -> Self {
        Self(Arc::new(Semaphore::new(bodies)))
    }
}

/// Whether a body may stand unread. Without places it may: it has a connection of its own.
#[derive(Debug, Default)]
pub struct Standing {
    places: Option<Places>,
    /// To its end.
    place: Option<OwnedSemaphorePermit>,
}

impl Standing {
    /// A body whose connection has these places.
    pub(crate) fn among(places: Option<Places>) -> Self {
        Self { places, place: None }
    }

    /// Waits, without the body being read, for what other bodies may have to give back first. `SlowDown` where too many of this
    /// connection wait already.
    pub async fn wait<T>(&mut self, work: impl Future<Output = T>) -> Outcome<T> {
        if let (Some(places), None) = (&self.places, &self.place) {
            self.place = Arc::clone(&places.0).try_acquire_owned().ok();
        }
        let mut work = pin!(work);
        match futures::poll!(work.as_mut()) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending if self.places.is_some() && self.place.is_none() => {
                let message = "too many bodies of this HTTP/2 connection wait for room; send fewer at once, or over several connections";
                Err(ServiceError::full(Reason::Bodies, message))
            }
            Poll::Pending => Ok(work.await),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use core::future::{pending, ready};

    use futures::FutureExt;

    use super::*;
    use crate::service::ErrorKind;

    #[tokio::test]
    async fn as_many_wait_as_there_are_places_and_who_came_first_has_one() {
        let places = Places::new(1);
        let body = || Standing::among(Some(places.clone()));
        let (mut first, mut second, mut alone) = (body(), body(), Standing::default());
        assert_eq!(first.wait(ready(1)).now_or_never(), Some(Ok(1)));
        let refused = second.wait(pending::<()>()).now_or_never().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SlowDown);
        assert_eq!(second.wait(ready(2)).now_or_never(), Some(Ok(2)), "who need not wait is not refused");
        assert!(first.wait(pending::<()>()).now_or_never().is_none(), "its place is its own to the end");
        assert!(alone.wait(pending::<()>()).now_or_never().is_none());
        drop(first);
        assert!(second.wait(pending::<()>()).now_or_never().is_none());
    }
}
