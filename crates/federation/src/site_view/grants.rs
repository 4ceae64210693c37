//! What an acceptor has promised to holders of leases: to accept no later view for a while.
//!
//! Not durable: a process that started anew has forgotten what it granted, and so accepts nothing for as long as a
//! grant could still last.
//!
//! Invariants: a grant is only ever replaced by one of a later term; who released a term is not waited for up to that
//! term, and only up to it.

use skerry_base::Instant;

use super::limits::{LEASE, PAUSE, SEATS};
use super::message::{Released, Term};
use super::seat::Seat;

#[derive(Debug, Clone, Copy)]
struct Grant {
    term: Term,
    epoch: u64,
    until: Instant,
}

/// Promises given.
#[derive(Debug, Clone)]
pub(super) struct Grants {
    given: [Option<Grant>; SEATS],
    /// What an earlier start may have granted has ended then.
    forgotten_until: Instant,
    paused_until: Instant,
}

impl Grants {
    /// Of a process that starts now.
    pub(super) const fn new(now: Instant) -> Self {
        Self { given: [None; SEATS], forgotten_until: now.after(LEASE), paused_until: Instant(0) }
    }

    /// Promises it to a seat, unless a change of view is on its way or the question is an old one.
    pub(super) fn grant(&mut self, seat: Seat, term: Term, epoch: u64, now: Instant) -> bool {
        let given = &mut self.given[seat.index()];
        let is_old = given.is_some_and(|grant| grant.term >= term || grant.epoch > epoch);
        if now < self.paused_until || is_old {
            return false;
        }
        *given = Some(Grant { term, epoch, until: now.after(LEASE) });
        true
    }

    /// A change of view begins: nobody is promised anything meanwhile.
    pub(super) const fn pause(&mut self, now: Instant) {
        self.paused_until = now.after(PAUSE);
    }

    /// It came to its end.
    pub(super) const fn resume(&mut self) {
        self.paused_until = Instant(0);
    }

    /// Until when a view of this epoch must not be accepted; none if it may be now.
    pub(super) fn blocked_until(&self, epoch: u64, released: &Released, now: Instant) -> Option<Instant> {
        let holds = |(grant, released): (&Option<Grant>, &Option<Term>)| {
            let grant = grant.as_ref()?;
            let is_released = released.is_some_and(|term| grant.term <= term);
            (grant.epoch < epoch && !is_released).then_some(grant.until)
        };
        let of_grants = self.given.iter().zip(released).filter_map(holds);
        of_grants.chain([self.forgotten_until]).filter(|until| *until > now).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn term(number: u64) -> Term {
        Term { number, ..Term::default() }
    }

    #[test]
    fn a_later_view_waits_for_what_was_granted_unless_it_is_released() {
        let mut grants = Grants::new(at(0));
        let none = Released::default();
        assert_eq!(
            grants.blocked_until(5, &none, at(100)),
            Some(at(800)),
            "what was granted before the start"
        );
        assert!(grants.grant(Seat::FOUNDER, term(3), 4, at(1000)));
        assert!(!grants.grant(Seat::FOUNDER, term(3), 4, at(1100)), "a repeated question extends nothing");
        assert_eq!(grants.blocked_until(4, &none, at(1200)), None, "the same view may be accepted again");
        assert_eq!(grants.blocked_until(5, &none, at(1200)), Some(at(1800)));
        let mut released = none;
        released[0] = Some(term(2));
        assert_eq!(
            grants.blocked_until(5, &released, at(1200)),
            Some(at(1800)),
            "an earlier lease was given up"
        );
        released[0] = Some(term(3));
        assert_eq!(grants.blocked_until(5, &released, at(1200)), None);
        assert_eq!(grants.blocked_until(5, &none, at(1800)), None);
    }

    #[test]
    fn nothing_is_granted_while_a_change_is_on_its_way() {
        let mut grants = Grants::new(at(0));
        grants.pause(at(1000));
        assert!(!grants.grant(Seat::FOUNDER, term(1), 1, at(1999)));
        assert!(grants.grant(Seat::FOUNDER, term(2), 1, at(2000)));
        grants.pause(at(2000));
        grants.resume();
        assert!(grants.grant(Seat::FOUNDER, term(3), 2, at(2001)));
        assert!(!grants.grant(Seat::FOUNDER, term(4), 1, at(2002)), "of a view that the holder has left");
    }
}
