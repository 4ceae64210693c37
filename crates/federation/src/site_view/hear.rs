//! What a node does with what it hears: grants, promises, accepts, learns.
//!
//! Invariants: a machine that was replaced in its seat is not heard; no lease is granted on a view older than the one
//! accepted last; no view is accepted while a lease on an older one may be counted on; what is agreed on is
//! only ever followed by later epochs.

use skerry_base::Instant;

use super::limits::{AWAY_MAX, AWAY_MIN, PAUSE, STEADY_MEMBER};
use super::message::{Message, Said, Term};
use super::register::{Ballot, Durable, Start};
use super::seat::{Seat, Seats};
use super::view::View;
use super::{Deferred, Output, SiteView};

impl SiteView {
    pub(super) fn hear(&mut self, said: Said, now: Instant, out: &mut Vec<Output>) {
        let Said { from, start, message } = said;
        if !self.all.contains(from) {
            return;
        }
        match message {
            Message::Blank { nonce, number } if self.lease.is_recent(number, now) => {
                return self.hear_blank(from, nonce, now, out);
            }
            Message::Beat { number, .. } if self.memory.is_none() => {
                return self.say(from, Message::Blank { nonce: self.nonce, number }, out);
            }
            Message::Admit(nonce, chosen) => return self.hear_admit(nonce, chosen, now, out),
            _ => {}
        }
        let is_gone = self.view().is_some_and(|view| view.occupant(from).life > start.life);
        if is_gone || self.memory.is_none() {
            return;
        }
        match message {
            Message::Beat { number, asks, chosen, condition } => {
                let term = Term { start, number };
                self.presence.beat(from, term, condition, now);
                if let Some((ballot, view)) = chosen {
                    self.learn(ballot, view, now, out);
                }
                let granted = asks.is_some_and(|epoch| self.grant(from, term, epoch, now));
                self.say(from, Message::Answer { number, clock: now, granted }, out);
            }
            Message::Answer { number, clock, granted } => {
                self.lease.answer((from, start), number, (clock, granted), now);
            }
            Message::Prepare(ballot) => self.hear_prepare(from, ballot, now, out),
            Message::Promise(ballot, accepted) => self.hear_promise((from, start), ballot, accepted, out),
            Message::Release(ballot, term) => {
                let round = self.round.as_mut().filter(|round| round.ballot == ballot);
                if round.and_then(|round| round.release(from, term)).is_some() {
                    self.ask_to_accept(out);
                }
            }
            Message::Accept(ballot, view, released) => {
                self.see_round(ballot);
                match self.memory.map(|memory| memory.promised).filter(|promised| ballot < *promised) {
                    Some(promised) => self.say(from, Message::Refuse { ballot, promised }, out),
                    None => self.deferred = Some(Deferred { from, ballot, view, released }),
                }
            }
            Message::Accepted(ballot) => self.hear_accepted(from, ballot, now, out),
            Message::Refuse { ballot, promised } => {
                self.see_round(promised);
                if self.round.as_ref().is_some_and(|round| round.ballot == ballot) {
                    self.abandon_round(now);
                }
            }
            Message::Blank { .. } | Message::Admit(..) => {}
        }
    }

    fn see_round(&mut self, ballot: Ballot) {
        self.highest_round = self.highest_round.max(ballot.round);
    }

    fn grant(&mut self, to: Seat, term: Term, epoch: u64, now: Instant) -> bool {
        let is_current = self.memory.is_some_and(|memory| memory.epoch() <= epoch);
        is_current && self.grants.grant(to, term, epoch, now)
    }

    fn hear_prepare(&mut self, from: Seat, ballot: Ballot, now: Instant, out: &mut Vec<Output>) {
        self.see_round(ballot);
        // Who is in no view proposes none: it would only interrupt those who are.
        let is_idle = self.view().is_some_and(|view| !view.live.contains(from));
        let Some(memory) = self.memory.as_mut().filter(|_| !is_idle) else { return };
        if let Err(promised) = memory.promise(ballot) {
            return self.say(from, Message::Refuse { ballot, promised }, out);
        }
        let (durable, term) = (*memory, Term { start: memory.start, number: self.lease.last() });
        if self.round.as_ref().is_some_and(|round| round.ballot < ballot) {
            self.abandon_round(now);
        }
        self.lease.give_up();
        self.asks_again_at = now.after(PAUSE);
        self.grants.pause(now);
        self.yields = Some((from, now.after(PAUSE)));
        self.say(from, Message::Release(ballot, term), out);
        out.push(Output::Store(durable));
        self.say(from, Message::Promise(ballot, durable.accepted), out);
    }

    fn hear_promise(
        &mut self,
        (from, start): (Seat, Start),
        ballot: Ballot,
        accepted: (Ballot, View),
        out: &mut Vec<Output>,
    ) {
        let Some(round) = self.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        if round.promise(from, (start, accepted)).is_some() {
            self.ask_to_accept(out);
        }
    }

    fn hear_accepted(&mut self, from: Seat, ballot: Ballot, now: Instant, out: &mut Vec<Output>) {
        let Some(round) = self.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        if let Some(view) = round.accepted(from) {
            self.round = None;
            self.learn(ballot, view, now, out);
            // Agreed on again, under a higher ballot: what it interrupted goes on.
            self.resume(now);
        }
    }

    /// Accepts what waits, as soon as no lease stands against it.
    pub(super) fn accept_deferred(&mut self, now: Instant, out: &mut Vec<Output>) {
        let (Some(deferred), Some(memory)) = (self.deferred, self.memory.as_mut()) else { return };
        let Deferred { from, ballot, view, released } = deferred;
        let is_refused = ballot < memory.promised;
        if !is_refused && self.grants.blocked_until(view.epoch, &released, now).is_some() {
            return;
        }
        self.deferred = None;
        match memory.accept(ballot, view) {
            Err(promised) => self.say(from, Message::Refuse { ballot, promised }, out),
            Ok(()) => {
                out.push(Output::Store(*memory));
                self.say(from, Message::Accepted(ballot), out);
            }
        }
    }

    /// A view is agreed on.
    pub(super) fn learn(&mut self, ballot: Ballot, view: View, now: Instant, out: &mut Vec<Output>) {
        if self.epoch().is_some_and(|epoch| epoch >= view.epoch) {
            return;
        }
        let was = self.view().is_some_and(|before| before.holders().contains(self.me));
        self.turn(was, view.holders().contains(self.me), now);
        (self.chosen, self.chosen_at) = (Some((ballot, view)), now);
        (self.arrived, self.caught_up) = (Seats::NONE, Seats::NONE);
        self.catch_up_at = now;
        self.lease.give_up();
        self.resume(now);
        out.extend(self.writes.restart(now).into_iter().map(Output::Abandoned));
        (self.unsettled_since, self.proposes_at) = (None, None);
        // The others hear of it at once, and with it this node asks for what it needs now.
        self.next_beat = now;
    }

    fn resume(&mut self, now: Instant) {
        (self.asks_again_at, self.yields) = (now, None);
        self.grants.resume();
    }

    /// Keeps book of whether this node is in the view, and when it may come back.
    fn turn(&mut self, was: bool, is: bool, now: Instant) {
        match (was, is) {
            (false, true) => self.away.member_since = Some(now),
            (true, false) => {
                let since = self.away.member_since.take();
                if since.is_some_and(|since| now.since(since) >= STEADY_MEMBER) {
                    self.away.next = AWAY_MIN;
                }
                self.away.until = now.after(self.away.next);
                self.away.next = (self.away.next * 2).min(AWAY_MAX);
            }
            _ => {}
        }
    }

    fn hear_blank(&mut self, from: Seat, nonce: u64, now: Instant, out: &mut Vec<Output>) {
        self.presence.blank(from, nonce, now);
        if let Some((ballot, view)) = self.chosen
            && view.occupant(from).nonce == nonce
        {
            self.say(from, Message::Admit(nonce, (ballot, view)), out);
        }
    }

    fn hear_admit(&mut self, nonce: u64, chosen: (Ballot, View), now: Instant, out: &mut Vec<Output>) {
        let (ballot, view) = chosen;
        let is_me = view.occupant(self.me).nonce == self.nonce && nonce == self.nonce;
        if self.memory.is_some() || !is_me {
            return;
        }
        let memory = Durable::admitted(view.occupant(self.me).life, chosen);
        self.memory = Some(memory);
        out.push(Output::Store(memory));
        self.learn(ballot, view, now, out);
    }
}
