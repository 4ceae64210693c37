//! When the view must change, into which, and who says so.
//!
//! Only a live node proposes, and only while a majority answers it promptly (a slow one would find the others slow): the
//! one with the lowest seat at once, the others a moment later if nothing happened; who has promised another one's round leaves
//! it its time, since a round may have to wait for a lease. What is proposed are the nodes that hear each other, answer in time,
//! can hold what the others write and trust their clocks. Where one of two is gone for good, [`super::vacancy`] says what is.
//!
//! Invariants: what is proposed follows what is agreed on ([`View::follows`]); a node that is late in this one's eyes is left
//! out only if a majority stays; one round at a time.

use core::time::Duration;

use skerry_base::Instant;

use super::limits::{BACKOFF, LATE, LISTEN, ROUND, STAGGER};
use super::message::Message;
use super::register::Ballot;
use super::round::Round;
use super::seat::{Seat, Seats};
use super::view::{Occupant, View};
use super::{Output, SiteView};

impl SiteView {
    /// Proposes what must be, when it is this node's turn.
    pub(super) fn consider(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.round.as_ref().is_some_and(|round| now >= round.until) {
            self.abandon_round(now);
        }
        if self.round.is_some() || self.memory.is_none() {
            return;
        }
        let Some(goal) = self.goal(now).filter(|_| !self.is_yielding(now)) else {
            self.proposes_at = None;
            return;
        };
        let members = self.view().map_or(self.all, |view| view.live);
        let before = members.and(self.lease.hears(now)).iter().filter(|seat| *seat < self.me).count();
        let turn = self.rests_until.max(now).after(STAGGER * before as u32);
        if now >= *self.proposes_at.get_or_insert(turn) {
            self.proposes_at = None;
            self.propose(goal, now, out);
        }
    }

    /// Whether another one's round goes on: a higher ballot would only interrupt it while it waits for leases to run out. Who
    /// is not heard any more is not waited for.
    fn is_yielding(&self, now: Instant) -> bool {
        self.yields.is_some_and(|(to, _)| self.lease.hears(now).contains(to))
    }

    /// What is to be agreed on: a later view, or (`Some(None)`) what is in the register, to learn it.
    fn goal(&mut self, now: Instant) -> Option<Option<View>> {
        let known = self.epoch();
        let is_settled = self.memory.is_some_and(|memory| known.is_some_and(|epoch| memory.epoch() <= epoch));
        let since = *self.unsettled_since.get_or_insert(now);
        if is_settled {
            self.unsettled_since = None;
        }
        self.quorum(now)?;
        match is_settled {
            true => self.plan(now).map(Some),
            false => (now.since(since) >= LISTEN).then_some(None),
        }
    }

    /// The view that should follow, if it is not this one and this node may say so.
    fn plan(&self, now: Instant) -> Option<View> {
        let view = self.view()?;
        let voters = self.voters();
        // Who cannot hold leaves it to those who can: without one of them there is no view to go on with.
        if !view.live.contains(self.me) || self.refuses {
            return None;
        }
        let lost = self.quorum(now)?.lost;
        if !lost.is_empty() {
            return self.plan_without(view, lost, now);
        }
        if !self.lease.is_steady(voters, now) || !self.lease.is_prompt(voters, now) {
            return None;
        }
        let fit = self.fit(view, now);
        let kept = view.live.and(fit);
        let ready = self.presence.ready(view.joining.and(fit), view.epoch, now);
        let wishes = |seat: &Seat| self.presence.condition(*seat, now).is_some_and(|said| said.joins);
        let asking: Seats = fit.minus(view.holders()).iter().filter(wishes).collect();
        let live = kept.or(ready);
        // Of those that will have a vote then: a seat that somebody is live in is vacant no more.
        let voters = self.all.minus(view.vacant.minus(ready));
        let live = if live.len() < voters.majority() { view.live.or(ready) } else { live };
        let joining = view.joining.and(fit).or(asking).minus(live);
        let occupants = self.occupants(view, live.or(joining), now);
        let next = View { epoch: view.epoch + 1, live, joining, vacant: view.vacant.minus(live), occupants };
        let is_new = View { epoch: view.epoch, ..next } != *view;
        (is_new && next.follows(view, self.all)).then_some(next)
    }

    /// This node and those that hear it and each other, answer in time, hold what they are asked to and trust their clocks;
    /// members come first.
    fn fit(&self, view: &View, now: Instant) -> Seats {
        let late = self.late(view, now).or(self.refusing(now));
        let hears = self.lease.hears(now).and(self.all).minus(late);
        let order = [view.live, view.joining, self.all.minus(view.holders())];
        let candidates = order.iter().flat_map(|seats| seats.and(hears).iter());
        let mut fit = Seats::of(self.me);
        for seat in candidates.filter(|seat| self.presence.is_fit(*seat, now)) {
            let is_linked = |other: Seat| other == self.me || self.presence.are_linked(seat, other, now);
            if fit.iter().all(is_linked) {
                fit = fit.with(seat);
            }
        }
        fit
    }

    /// Who keeps this node's writes waiting, or has not given it what it had.
    fn late(&self, view: &View, now: Instant) -> Seats {
        let writes = self.writes.late(view.holders(), now);
        let is_waiting = view.is_quorate(self.all) && now.since(self.chosen_at) > LATE;
        let fetches = if is_waiting { view.live.minus(self.arrived) } else { Seats::NONE };
        writes.or(fetches).without(self.me)
    }

    /// The machines of the seats; one without memory is taken in where nobody counts on the former one any more.
    fn occupants(&self, view: &View, holders: Seats, now: Instant) -> [Occupant; super::limits::SEATS] {
        let mut occupants = view.occupants;
        for seat in self.others().minus(holders).iter() {
            let occupant = &mut occupants[seat.index()];
            if let Some(nonce) = self.presence.nonce(seat, now).filter(|nonce| *nonce != occupant.nonce) {
                *occupant = Occupant { life: occupant.life + 1, nonce };
            }
        }
        occupants
    }

    fn propose(&mut self, goal: Option<View>, now: Instant, out: &mut Vec<Output>) {
        let (Some(memory), Some(quorum)) = (self.memory, self.quorum(now)) else { return };
        self.highest_round = self.highest_round.max(memory.promised.round) + 1;
        let ballot = Ballot { round: self.highest_round, seat: self.me, start: memory.start };
        let changes = |seat: &Seat| match (goal, self.view()) {
            (Some(goal), Some(view)) => goal.occupant(*seat) != view.occupant(*seat),
            _ => false,
        };
        let without = self.all.iter().filter(changes).collect();
        self.round = Some(Round::new(ballot, goal, (without, quorum), now.after(ROUND)));
        self.all.iter().for_each(|to| self.say(to, Message::Prepare(ballot), out));
    }

    /// Asks everybody to accept the value of this node's round.
    pub(super) fn ask_to_accept(&self, out: &mut Vec<Output>) {
        let Some(round) = &self.round else { return };
        let Some(view) = round.value() else { return };
        let message = Message::Accept(round.ballot, view, round.released());
        self.all.iter().for_each(|to| self.say(to, message, out));
    }

    /// This node's round comes to nothing; it rests a moment, those with higher seats longer.
    pub(super) fn abandon_round(&mut self, now: Instant) {
        self.round = None;
        let rest: Duration = BACKOFF + STAGGER * (2 * self.me.index() as u32);
        self.rests_until = now.after(rest);
        self.proposes_at = None;
    }
}
