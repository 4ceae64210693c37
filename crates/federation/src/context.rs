//! What a machine may touch while it handles one input: time, chance, the store, the peers, the outputs.

use core::time::Duration;
use std::rc::Rc;

use rand::RngExt;
use rand::rngs::StdRng;
use skerry_base::{BucketId, Instant, SiteId, Vector};

use crate::peers::Peers;
use crate::{Message, Output, Replica, Report, Stats, Ticket, Unreadable, limits};

/// Lent to a machine for one transition.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) replica: &'a dyn Replica,
    pub(crate) peers: &'a mut Peers,
    pub(crate) out: &'a mut Vec<Output>,
    pub(crate) stats: &'a mut Stats,
    pub(crate) rng: &'a mut StdRng,
    pub(crate) tickets: &'a mut u64,
    /// The vector that was read last.
    pub(crate) vector: Option<(BucketId, Rc<Vector>)>,
}

impl Context<'_> {
    /// Sends, if the site can be reached.
    pub(crate) fn send(&mut self, to: SiteId, message: Message) {
        let dialect = message.dialect();
        let understood = dialect == 1 || self.peers.speaks_at_least(to, dialect);
        self.hold(understood, "a word that the other does not know");
        if self.peers.is_reachable(to) && understood {
            self.stats.sent += 1;
            self.out.push(Output::Send { to, message });
        } else {
            self.stats.unlinked += 1;
        }
    }

    /// A number that no open question, pull or output has.
    pub(crate) fn ticket(&mut self) -> Ticket {
        *self.tickets = self.tickets.wrapping_add(1);
        Ticket(*self.tickets)
    }

    /// Drops what a peer sent, and says so.
    pub(crate) fn refuse(&mut self, from: SiteId, reason: &'static str) {
        self.stats.refused += 1;
        self.out.push(Output::Report(Report::Refused { from, reason }));
    }

    /// Ignores what came too late or twice: links may do that.
    pub(crate) const fn stale(&mut self) {
        self.stats.stale += 1;
    }

    /// The value read, or nothing and a report.
    pub(crate) fn read<T>(&mut self, result: Result<T, Unreadable>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Unreadable(reason)) => {
                self.stats.unreadable += 1;
                self.out.push(Output::Report(Report::Unreadable { reason }));
                None
            }
        }
    }

    /// The vector of a bucket, or nothing and a report. Nothing is stored during a transition: it is read once, however often it is
    /// looked at. In a large federation it has an entry for each site.
    pub(crate) fn vector(&mut self, bucket: BucketId) -> Option<Rc<Vector>> {
        if let Some((_, vector)) = self.vector.as_ref().filter(|(read, _)| *read == bucket) {
            return Some(Rc::clone(vector));
        }
        let vector = Rc::new(self.read(self.replica.vector(bucket))?);
        self.vector = Some((bucket, Rc::clone(&vector)));
        Some(vector)
    }

    /// An invariant of our own state.
    pub(crate) fn hold(&mut self, holds: bool, what: &'static str) {
        if !holds {
            self.stats.violations += 1;
            self.out.push(Output::Violation(what));
        }
        debug_assert!(holds, "{what}");
    }

    /// When to try again after `tries` failures in a row: doubling, a quarter of it drawn.
    pub(crate) fn backoff(&mut self, first: Duration, tries: u8) -> Instant {
        self.backoff_to(first, tries, limits::BACKOFF_MAX)
    }

    /// The same, up to so long.
    pub(crate) fn backoff_to(&mut self, first: Duration, tries: u8, most: Duration) -> Instant {
        let wait = first.saturating_mul(1 << tries.min(16)).min(most);
        self.now.after(wait - wait.mul_f64(0.25 * self.draw()))
    }

    /// A number in 0..1.
    pub(crate) fn draw(&mut self) -> f64 {
        self.rng.random::<f64>()
    }

    /// An index below `len`; 0 if there is none.
    pub(crate) fn pick(&mut self, len: usize) -> usize {
        if len == 0 { 0 } else { self.rng.random_range(0..len) }
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
