//! What other sites give because a question of this one reached them by way of landmarks.
//!
//! Who looks for a bucket says with the question what it wants of a member, under a number drawn for that; the member opens a
//! stream to this site, says the number, and answers as it would answer `Request::Read`. So record and first
//! bytes come with the answer that there is a member, and not a round trip after it. Invariants: what nobody waits for is let go
//! unread, which ends its stream: of what is given in vain no more crosses than a stream carries unread; numbers are drawn, so
//! that nobody gives who was not asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use skerry_base::codec;
use skerry_base::{NodeId, SiteId};
use tokio::sync::mpsc;

use super::message::Response;
use super::uplink::Held;
use super::{Answer, PeerError, Peers, carries_records, packed};
use crate::net::{Stream, frame};
use crate::telemetry::Kind;

/// Answers that wait to be looked at; more come only where many members answer at once.
const WAITING: usize = 8;

/// An answer that a member gave.
pub(crate) struct Gift {
    pub(crate) member: SiteId,
    pub(crate) answer: Answer,
}

impl Gift {
    /// Whether it says what there is, or that there is nothing. Who gives another word is asked, and says it again.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self.answer.response, Response::Object(_) | Response::NoObject { .. })
    }
}

/// Who waits for what.
#[derive(Default)]
pub(super) struct Gifts(Arc<Mutex<Awaited>>);

type Awaited = BTreeMap<u64, mpsc::Sender<Gift>>;

/// What is given to one question, until nobody waits for it.
pub(crate) struct Coming {
    awaited: Arc<Mutex<Awaited>>,
    token: u64,
    came: mpsc::Receiver<Gift>,
    /// What may come over a metered link: of the first that comes, until it has been read.
    held: Option<Held>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

impl Coming {
    /// The next answer. Never ends while this lives: who asked bounds the wait.
    pub(crate) async fn next(&mut self) -> Gift {
        match self.came.recv().await {
            Some(Gift { member, answer }) => {
                Gift { member, answer: Answer { _held: self.held.take(), ..answer } }
            }
            None => std::future::pending().await,
        }
    }
}

impl Gifts {
    fn waits(&self, token: u64) -> Option<mpsc::Sender<Gift>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&token).cloned()
    }
}

impl Peers {
    /// Waits from now on for what is given under this number.
    pub(crate) fn await_gifts(&self, token: u64, held: Held) -> Coming {
        let (sender, came) = mpsc::channel(WAITING);
        self.gifts.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token, sender);
        Coming { awaited: self.gifts.0.clone(), token, came, held: Some(held) }
    }

    /// Whether something is waited for at all.
    #[cfg(test)]
    pub(crate) fn awaits_gifts(&self) -> bool {
        !self.gifts.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// A member gives something. What nobody waits for any more is dropped with its stream.
    pub(super) async fn given(
        &self,
        (member, node): (SiteId, NodeId),
        token: u64,
        mut stream: Stream,
    ) -> Result<(), PeerError> {
        let Some(waits) = self.gifts.waits(token) else { return Ok(()) };
        let answered = tokio::time::timeout(self.waits().answer, frame::read(&mut stream));
        let frame = answered.await.map_err(|_| PeerError::Silent)??;
        let frame = frame.ok_or(PeerError::Senseless("closed without what it gives"))?;
        let crossed = frame.len();
        let response = codec::decode(&packed::open(frame)?)?;
        if carries_records(&response) {
            self.received(node, Kind::Record, crossed);
        }
        let answer = Answer { response, stream, node, among: 1, is_given: true, _held: None };
        // Full, or over: who waits has enough.
        waits.try_send(Gift { member, answer }).ok();
        Ok(())
    }
}
