//! The nodes of one site: who is live, who may serve, who decides, and when a write is the site's.
//!
//! A pure machine, one at each node. The nodes agree on a *view* ([`View`]) in a register that a majority of their disks
//! carries ([`register`]: compare-and-set, no log, no leader). A view names the live nodes. On it rest
//!
//! - scope `site`: a write is acknowledged once every holder of the view has it durable ([`Output::Settled`]);
//! - reads: a node serves under a *lease*, promises of a majority to accept no later view for a while ([`SiteView::may_read`]).
//!   Who holds a lease of an epoch has all that was acknowledged in it and before;
//! - conditional operations: the home of a bucket decides under its lease, bound to the view ([`Input::Write`]). Each bucket
//!   has one owner per view ([`SiteView::owner`]), which takes the home over when it is not live in the view, and has
//!   first fetched what that one may have left at the others ([`Output::CatchUp`]).
//!
//! A node that does not answer, or answers late, is left out by the next view once its lease has run out; it comes back as
//! *joining* (every write must reach it, it serves nothing), fetches what it lacks, and is live in the view after. One that
//! knows that it cannot hold what others write says so ([`Input::Refuses`]) and is left out before it is found late, as long
//! as a majority is left; it asks to come back when it can.
//! Without a majority there is no lease and no scope `site`: the node goes on in scope `node`. One of two, where the other is gone
//! for good, goes on without it ([`vacancy`]).
//!
//! Order: everything in `out` that follows an [`Output::Store`] must wait until that is durable; stores are carried out in
//! their order. What the shell owes beside that stands at [`Output`].
//!
//! Why a register of our own and not a log: docs/decisions/2026-11-22-site-views.md.
//!
//! Invariants: time is this node's own and only measures spans; two nodes hold leases of the same epoch or one of them
//! holds none; a view is agreed on by a majority that includes nobody without memory; nothing settles in a view once a later one
//! may be agreed on: who has accepted that holds nothing more in the one before.

use skerry_base::{BucketId, Instant};

mod change;
mod clock;
mod gaps;
mod grants;
mod hear;
mod lease;
pub mod limits;
mod message;
mod presence;
mod register;
mod round;
mod seat;
mod vacancy;
mod view;
mod wire;
mod writes;

pub use gaps::{Fetched, Gaps};
pub use message::{Condition, Message, Released, Said, Term};
pub use register::{Ballot, Durable, Start};
pub use seat::{Seat, Seats};
pub use view::{Occupant, View};

use core::time::Duration;
use grants::Grants;
use lease::Lease;
use presence::Presence;
use round::Round;
use writes::Writes;

/// What a process that starts knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Its disk kept this; [`Durable::started`] of what was there, and durable already.
    Kept(Durable),
    /// Nothing: a new machine, or a new disk, in a seat that had one. The nonce is drawn at this start.
    Blank(u64),
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "264 bytes on the stack, never in a queue: inputs are handled one by one"
)]
pub enum Input {
    /// Time has passed.
    Wake,
    /// Another node says something, or this one to itself.
    Heard(Said),
    /// A write begins here that is to reach scope `site`.
    Write {
        /// The shell's number for it.
        write: u64,
        /// For a conditional decision, the epoch it was decided in.
        bound: Option<u64>,
    },
    /// A node, or this one, has made a write durable that was asked for in this epoch, and was in it then.
    Held {
        /// Which.
        write: u64,
        /// The epoch in which it said so.
        epoch: u64,
        /// Who.
        by: Seat,
    },
    /// The client of a write is answered otherwise.
    GiveUp(u64),
    /// This node cannot hold what others write (it is frozen, being emptied, full), or it can again.
    Refuses(bool),
    /// These seats have no machine any more: those that had them were expelled, by an operator's word, and nobody was admitted
    /// since. What a machine that had one says is not to be brought here any more. Said anew with each start.
    Gone(Seats),
    /// Everything that a live node held when it was asked in this epoch has arrived here. Said apart from the next, so that
    /// nobody is found late whom this node's own disk keeps waiting.
    Arrived {
        /// Who was asked.
        from: Seat,
        /// The epoch.
        epoch: u64,
    },
    /// And is durable here.
    CaughtUp {
        /// Who was asked.
        from: Seat,
        /// The epoch.
        epoch: u64,
    },
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Make this durable before anything that follows.
    Store(Durable),
    /// Tell a node; itself too, at once and without loss.
    Send(Seat, Said),
    /// Have a node make a write durable, record and payload. It does so only if [`SiteView::may_hold`] the epoch says so when
    /// the write becomes visible there, and answers ([`Input::Held`]) only if it still does when that is durable.
    /// For this node's own copy the same holds.
    Hold {
        /// Where.
        to: Seat,
        /// Which.
        write: u64,
        /// In which epoch.
        epoch: u64,
    },
    /// Fetch from a live node all that it holds. It answers only while it is in that epoch, and only after everything that it
    /// let in under earlier ones is durable or dropped. [`Input::CaughtUp`] follows.
    CatchUp {
        /// From whom.
        from: Seat,
        /// In which epoch.
        epoch: u64,
    },
    /// A write has reached scope `site`.
    Settled(u64),
    /// A decision did not settle in its view: it may have happened or not, and this node says nothing about it.
    Abandoned(u64),
    /// Too many writes wait: this one does not.
    Refused(u64),
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Without memory, until the others take it in.
    Blank,
    /// Not in a view with a majority, as far as it knows: scope `node` only.
    Apart,
    /// Holds what is written, serves nothing under a lease: joining, catching up, or without a lease.
    Holding,
    /// Serves under a lease.
    Leased,
}

/// A view that waits to be accepted until leases have run out.
#[derive(Debug, Clone, Copy)]
struct Deferred {
    from: Seat,
    ballot: Ballot,
    view: View,
    released: Released,
}

/// How long this node stays away when the view went on without it.
#[derive(Debug, Clone, Copy)]
struct Away {
    next: Duration,
    until: Instant,
    member_since: Option<Instant>,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct SiteView {
    me: Seat,
    all: Seats,
    memory: Option<Durable>,
    nonce: u64,
    chosen: Option<(Ballot, View)>,
    chosen_at: Instant,
    arrived: Seats,
    caught_up: Seats,
    catch_up_at: Instant,
    lease: Lease,
    asks_again_at: Instant,
    grants: Grants,
    presence: Presence,
    writes: Writes,
    round: Option<Round>,
    highest_round: u64,
    deferred: Option<Deferred>,
    unsettled_since: Option<Instant>,
    proposes_at: Option<Instant>,
    rests_until: Instant,
    /// Whose round this node leaves time, and until when.
    yields: Option<(Seat, Instant)>,
    away: Away,
    refuses: bool,
    gone: Seats,
    next_beat: Instant,
}

impl SiteView {
    /// Of the node in a seat, at a site of `all` these seats, whose process starts now.
    pub fn new(me: Seat, all: Seats, memory: Memory, now: Instant) -> Self {
        let (memory, nonce) = match memory {
            Memory::Kept(durable) => (Some(durable), 0),
            Memory::Blank(nonce) => (None, nonce),
        };
        Self {
            me,
            all,
            memory,
            nonce,
            chosen: None,
            chosen_at: now,
            arrived: Seats::NONE,
            caught_up: Seats::NONE,
            catch_up_at: now,
            lease: Lease::new(me),
            asks_again_at: now,
            grants: Grants::new(now),
            presence: Presence::default(),
            writes: Writes::default(),
            round: None,
            highest_round: 0,
            deferred: None,
            unsettled_since: None,
            proposes_at: None,
            rests_until: now,
            yields: None,
            away: Away { next: limits::AWAY_MIN, until: now, member_since: None },
            refuses: false,
            gone: Seats::NONE,
            next_beat: now,
        }
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Wake => {}
            Input::Heard(said) => self.hear(said, now, out),
            Input::Write { write, bound } => self.write(write, bound, now, out),
            Input::Held { write, epoch, by } if self.epoch() == Some(epoch) => {
                self.writes.held(write, Seats::of(by));
            }
            Input::CaughtUp { from, epoch } if self.epoch() == Some(epoch) => {
                self.caught_up = self.caught_up.with(from);
                self.arrived = self.arrived.with(from);
            }
            Input::Arrived { from, epoch } if self.epoch() == Some(epoch) => {
                self.arrived = self.arrived.with(from);
            }
            // Said in another view.
            Input::Held { .. } | Input::CaughtUp { .. } | Input::Arrived { .. } => {}
            Input::GiveUp(write) => self.writes.give_up(write),
            Input::Refuses(refuses) if refuses != self.refuses => {
                self.refuses = refuses;
                // The others hear of it at once.
                self.next_beat = now;
            }
            Input::Refuses(_) => {}
            Input::Gone(seats) => self.gone = seats.and(self.others()),
        }
        self.yields = self.yields.filter(|(_, until)| now < *until);
        self.accept_deferred(now, out);
        self.settle(out);
        if now >= self.next_beat {
            self.beat(now, out);
        }
        self.consider(now, out);
    }

    /// When to call [`SiteView::handle`] with [`Input::Wake`] if nothing happens before.
    pub fn next_wake(&self) -> Instant {
        let deferred = self.deferred.and_then(|of| {
            // Only what is blocked by time; `Instant(0)` leaves nothing out.
            self.grants.blocked_until(of.view.epoch, &of.released, Instant(0))
        });
        let yields = self.yields.map(|(_, until)| until);
        [self.proposes_at, deferred, yields].into_iter().flatten().fold(self.next_beat, Instant::min)
    }

    /// The view that this node knows to be agreed on.
    pub const fn view(&self) -> Option<&View> {
        match &self.chosen {
            Some((_, view)) => Some(view),
            None => None,
        }
    }

    /// Its epoch.
    pub fn epoch(&self) -> Option<u64> {
        self.view().map(|view| view.epoch)
    }

    /// Where this node stands now.
    pub fn standing(&self, now: Instant) -> Standing {
        let Some(view) = self.view().filter(|view| view.is_quorate(self.all)) else {
            return if self.memory.is_none() { Standing::Blank } else { Standing::Apart };
        };
        match (view.live.contains(self.me), view.joining.contains(self.me)) {
            (true, _) if self.is_caught_up() && self.lease.is_held(self.voters(), now) => Standing::Leased,
            (true, _) | (_, true) => Standing::Holding,
            _ => Standing::Apart,
        }
    }

    /// Whether a read here sees every write that was acknowledged in scope `site` before.
    pub fn may_read(&self, now: Instant) -> bool {
        self.standing(now) == Standing::Leased
    }

    /// Until when [`SiteView::may_read`] holds if nothing is heard meanwhile: for those beside whom this machine is
    /// stepped. It may end earlier, and then nothing is said of that before this has changed.
    pub fn reads_until(&self) -> Option<Instant> {
        let serves = |view: &&View| view.is_quorate(self.all) && view.live.contains(self.me);
        self.view().filter(serves).filter(|_| self.is_caught_up())?;
        self.lease.held_until(self.voters())
    }

    /// Who takes a bucket's home over if that is gone, as far as this node knows.
    pub fn owner(&self, bucket: BucketId) -> Option<Seat> {
        self.view()?.owner(bucket)
    }

    /// The nodes that cannot hold what others write, as far as they said so lately; this one if it cannot.
    pub fn refusing(&self, now: Instant) -> Seats {
        let says = |seat: &Seat| match *seat == self.me {
            true => self.refuses,
            false => self.presence.refuses(*seat, now),
        };
        self.all.iter().filter(says).collect()
    }

    /// Those of them without which the view cannot go on: nothing reaches scope `site` until one of them can hold again.
    pub fn stuck(&self, now: Instant) -> Seats {
        let Some(view) = self.view() else { return Seats::NONE };
        let refusing = view.live.and(self.refusing(now));
        let goes_on = view.live.minus(refusing).len() >= self.majority();
        if goes_on { Seats::NONE } else { refusing }
    }

    /// Whether a holder of the view cannot hold what others write: what is decided now would wait for it.
    pub fn awaits_change(&self, now: Instant) -> bool {
        self.view().is_some_and(|view| !view.holders().and(self.refusing(now)).is_empty())
    }

    /// Whether this node may let in, and answer for, a write that was asked for in an epoch: the one that it is in, and no later
    /// view was accepted here. Of those who hold writes in a view one has accepted the next before that is agreed on, so
    /// that what settles in a view is at all of them before anybody is in the next.
    pub fn may_hold(&self, epoch: u64) -> bool {
        self.holds_in() == Some(epoch)
    }

    /// The epoch in which it may, if there is one.
    pub fn holds_in(&self) -> Option<u64> {
        let view = self.view().filter(|view| view.holders().contains(self.me))?;
        self.memory.is_some_and(|memory| memory.epoch() <= view.epoch).then_some(view.epoch)
    }

    fn majority(&self) -> usize {
        self.voters().majority()
    }

    fn others(&self) -> Seats {
        self.all.without(self.me)
    }

    fn say(&self, to: Seat, message: Message, out: &mut Vec<Output>) {
        let start = self.memory.map(|memory| memory.start).unwrap_or_default();
        out.push(Output::Send(to, Said { from: self.me, start, message }));
    }

    fn write(&mut self, write: u64, bound: Option<u64>, now: Instant, out: &mut Vec<Output>) {
        if bound.is_some() && bound != self.epoch() {
            out.push(Output::Abandoned(write));
        } else if self.writes.begin(write, bound.is_some(), now) {
            self.ask_holders(now, out);
        } else {
            out.push(Output::Refused(write));
        }
    }

    /// The holders of a view in which this node can settle a write.
    fn holders(&self) -> Option<(u64, Seats)> {
        let view = self.view().filter(|view| view.is_quorate(self.all) && self.may_hold(view.epoch))?;
        Some((view.epoch, view.holders()))
    }

    fn ask_holders(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some((epoch, holders)) = self.holders() else { return };
        for (write, lacking) in self.writes.due(holders, now) {
            out.extend(lacking.iter().map(|to| Output::Hold { to, write, epoch }));
        }
    }

    fn settle(&mut self, out: &mut Vec<Output>) {
        if let Some((_, holders)) = self.holders() {
            out.extend(self.writes.settled(holders).into_iter().map(Output::Settled));
        }
    }

    /// Whether this node has fetched what its place in the view needs: all that any live one had let in, or, to be
    /// live in the next view, all that was acknowledged, which each live one has.
    fn is_caught_up(&self) -> bool {
        let Some(view) = self.view() else { return false };
        match view.live.contains(self.me) {
            true => view.live.without(self.me).is_within(self.caught_up),
            false => view.joining.contains(self.me) && !self.caught_up.is_empty(),
        }
    }

    fn catch_up(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(view) = self.view().copied() else { return };
        if self.is_caught_up() || !view.holders().contains(self.me) || now < self.catch_up_at {
            return;
        }
        self.catch_up_at = now.after(limits::AGAIN);
        let from = view.live.without(self.me).minus(self.caught_up);
        out.extend(from.iter().map(|from| Output::CatchUp { from, epoch: view.epoch }));
    }

    fn beat(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.next_beat = now.after(limits::BEAT);
        if self.memory.is_none() {
            return;
        }
        let serves = |view: &&View| view.is_quorate(self.all) && view.live.contains(self.me);
        let asks = self.view().filter(serves).filter(|_| now >= self.asks_again_at).map(|view| view.epoch);
        let condition = self.condition(now);
        let number = self.lease.beat(now);
        let message = Message::Beat { number, asks, chosen: self.chosen, condition };
        self.all.iter().for_each(|to| self.say(to, message, out));
        self.ask_holders(now, out);
        self.catch_up(now, out);
    }

    fn condition(&self, now: Instant) -> Condition {
        let steady = self.lease.is_steady(self.voters(), now);
        let hears = self.lease.hears(now);
        let is_member = self.view().is_some_and(|view| view.holders().contains(self.me));
        // Who is left out waits before it comes back, unless one of those that count is gone now, or cannot hold.
        let is_sound = steady && self.lease.is_prompt(self.voters(), now);
        let counts = hears.minus(self.refusing(now));
        let is_needed = self.view().is_some_and(|view| !view.live.is_within(counts));
        let condition = Condition {
            hears,
            steady,
            ready: self.epoch().filter(|_| self.is_caught_up()),
            joins: !is_member && is_sound && (is_needed || now >= self.away.until),
        };
        if self.refuses { condition.refusing() } else { condition }
    }
}

#[cfg(test)]
mod tests;
