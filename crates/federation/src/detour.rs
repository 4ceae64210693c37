//! A way round a link on which nothing comes: a site in between fetches a chunk and gives it on.
//!
//! A question may have gone over a link that packets no longer cross, in one direction or in both. TCP is sure of that only
//! after seconds, and a link by way of others ([`crate::circuits`]) is looked for after that; a reader need not wait so long
//! where a third site has a link with both. Whoever is asked and answers nothing for [`PATIENCE`], or four round trips, is asked
//! whether it is there; if nothing comes for as long again, the next is asked beside it, and where there is no link, at once.
//! What a site says by itself is no sign that it hears, for packets may vanish in one direction only: where something comes, but no
//! answer, that takes once more as long.
//! First the holder, then sites that are linked here directly, nearest first. The first who gives it ends it. Who fetches it for
//! another may be stuck though it talks (its memory is full, its own holder hangs): it is waited for alone only as long as something
//! of the chunk comes, and the holder itself is asked beside it as soon as that answers again. Pure: whoever
//! asks says what came and who gave up; the time is an argument.
//!
//! Invariants: as long as the holder answers nobody else is asked; each is asked once in [`ROUND`],
//! and at most [`TRIES`] in between; links that are paid for are taken only where there is no other way; of all chunks that are asked for
//! over a silent link one looks for a way round it, for what comes twice takes the room of what is waited for; what was
//! found out about a link is believed for [`TRUSTED`], and only until its holder answers.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

use crate::limits;

/// So long no answer comes at least before it is asked whether anybody is there, and once more before another is asked.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The most that a long way makes of it.
pub const PATIENCE_MAX: Duration = Duration::from_secs(4);
/// Sites that are asked to fetch a chunk at most.
pub const TRIES: usize = 4;
/// Whoever refused is asked again after this time, as long as the holder may still answer: a link may have come meanwhile.
pub const ROUND: Duration = Duration::from_secs(2);
/// Who fetches a chunk for another and gives nothing of it for so long is not waited for alone any more: more than twice as long as
/// it may take to say how far it is, for a chunk may wait there for others.
pub const FETCHES: Duration = Duration::from_secs(20);
/// How long it is believed that there is a way round: about as long as TCP takes to end the link.
pub const TRUSTED: Duration = Duration::from_secs(10);

/// A site with a direct link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near {
    /// Which.
    pub site: SiteId,
    /// How far it is; none if nobody has measured that.
    pub rtt: Option<Duration>,
    /// Whether one of the ends pays for what crosses.
    pub is_paid: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask this site for the chunk: the holder itself, or another one to fetch it. Answered by [`Detour::ended`], or by the chunk.
    Ask(SiteId),
    /// Ask a site whether it is there: what comes of that is [`Detour::answered`].
    Ping(SiteId),
    /// Nothing before this time; where there is none, until something comes.
    Rest(Option<Instant>),
    /// Nobody is left.
    Over,
}

/// Whoever was asked last.
#[derive(Debug, Clone, Copy)]
struct Asked {
    site: SiteId,
    patience: Duration,
    /// When something came over its link last, or it was asked.
    came: Instant,
    /// When it answered anything last, or was asked.
    answered: Instant,
    /// When something of the chunk came from it last, or it was asked.
    gave: Instant,
    /// When it was asked whether it is there, and has not answered since.
    pinged: Option<Instant>,
}

impl Asked {
    /// Until when it is waited for: it is asked whether it is there then, or given up.
    fn until(&self) -> Instant {
        match self.pinged {
            None => self.answered.after(self.patience),
            Some(pinged) => {
                let talks = self.came.after(self.patience).min(pinged.after(self.patience * 2));
                talks.max(pinged.after(self.patience))
            }
        }
    }
}

/// One chunk that is on its way.
#[derive(Debug)]
pub struct Detour {
    holder: Near,
    /// Who helped a moment ago: it is asked first.
    known: Option<Near>,
    asked: BTreeSet<SiteId>,
    /// Of those, who has neither given it nor given up.
    pending: BTreeSet<SiteId>,
    last: Option<Asked>,
    /// Whoever was being waited for when the holder was asked again beside it.
    beside: Option<Asked>,
    /// When the holder was asked whether it is there, while another fetches the chunk.
    probed: Option<Instant>,
    /// When those who refused are asked again.
    round: Option<Instant>,
    /// When the holder was asked itself last.
    asked_holder: Option<Instant>,
    /// When something came from the holder while it was not being asked.
    talked: Option<Instant>,
    /// The holder answered something while it was not being asked.
    is_back: bool,
}

impl Detour {
    /// To a chunk of this holder, by who is known to have a way, if anybody is.
    pub fn new(holder: Near, known: Option<Near>) -> Self {
        let known = known.filter(|known| known.site != holder.site);
        Self {
            holder,
            known,
            asked: BTreeSet::new(),
            pending: BTreeSet::new(),
            last: None,
            beside: None,
            probed: None,
            round: None,
            asked_holder: None,
            talked: None,
            is_back: false,
        }
    }

    /// Whoever was asked last: what comes over its link is to be told.
    pub fn last(&self) -> Option<SiteId> {
        self.last.map(|last| last.site)
    }

    /// Somebody has found a way meanwhile.
    pub fn tell(&mut self, known: Near) {
        if known.site != self.holder.site && !self.asked.contains(&known.site) {
            self.known = Some(known);
        }
    }

    /// Something came over the link of a site: it may say by itself what it does not know to be unheard.
    pub fn heard(&mut self, from: SiteId, now: Instant) {
        if let Some(last) = self.last.as_mut().filter(|last| last.site == from) {
            last.came = now;
        }
        if from == self.holder.site && !self.pending.contains(&from) {
            self.talked = Some(now);
        }
    }

    /// A site answered something that it was asked, so it hears: this, another question, whether it is there.
    pub fn answered(&mut self, from: SiteId, now: Instant) {
        self.heard(from, now);
        if let Some(last) = self.last.as_mut().filter(|last| last.site == from) {
            (last.answered, last.pinged) = (now, None);
        }
        self.is_back |= from == self.holder.site && !self.pending.contains(&from);
    }

    /// Something of the chunk came from a site, or that one has come further with it.
    pub fn gave(&mut self, from: SiteId, now: Instant) {
        for asked in self.last.iter_mut().chain(&mut self.beside).filter(|asked| asked.site == from) {
            asked.gave = now;
        }
    }

    /// A site that was asked has no link, or no chunk.
    pub fn ended(&mut self, site: SiteId) {
        self.pending.remove(&site);
        self.beside.take_if(|beside| beside.site == site);
        if self.last.take_if(|last| last.site == site).is_some() {
            self.last = self.beside.take();
        }
    }

    /// What is to be done now. `near` are the sites that are linked here directly, asked for where it matters who they are.
    pub fn step(&mut self, near: impl FnOnce() -> Vec<Near>, now: Instant) -> Next {
        if self.asks_holder_again(now) {
            return self.ask(self.holder, now);
        }
        if self.asks_whether_back(now) {
            self.probed = Some(now);
            return Next::Ping(self.holder.site);
        }
        if let Some(next) = self.waits(now) {
            return next;
        }
        match self.candidate(near) {
            Some(next) => self.ask(next, now),
            // It was asked a moment ago, when it had no link.
            None if self.pending.is_empty() && self.talked.is_some() => self.ask(self.holder, now),
            None if self.pending.is_empty() => Next::Over,
            None => self.another_round(now),
        }
    }

    fn ask(&mut self, next: Near, now: Instant) -> Next {
        let patience = (next.rtt.unwrap_or_default() * 4).clamp(PATIENCE, PATIENCE_MAX);
        self.asked.insert(next.site);
        self.pending.insert(next.site);
        if next.site == self.holder.site {
            (self.asked_holder, self.talked, self.is_back) = (Some(now), None, false);
            self.beside = self.last.take();
        }
        let site = next.site;
        self.last = Some(Asked { site, patience, came: now, answered: now, gave: now, pinged: None });
        Next::Ask(next.site)
    }

    /// Whether the holder is to be asked beside who fetches the chunk: it answers, and was not asked a moment ago.
    fn asks_holder_again(&self, now: Instant) -> bool {
        self.is_back && self.may_ask_holder(now) && !self.asked.is_empty()
    }

    /// Whether it is to be asked whether it is there, while another fetches the chunk: at first, and whenever it says something.
    fn asks_whether_back(&self, now: Instant) -> bool {
        let at_first = self.asked.is_empty() && self.known.is_some() && self.probed.is_none();
        let rested = self.probed.is_none_or(|probed| probed.after(PATIENCE) <= now);
        let talks = self.talked > self.probed && rested;
        at_first || talks && !self.is_back && !self.asked.is_empty() && self.may_ask_holder(now)
    }

    fn may_ask_holder(&self, now: Instant) -> bool {
        let rested = self.asked_holder.is_none_or(|asked| asked.after(ROUND) <= now);
        let may = !self.holder.is_paid || self.pending.is_empty();
        rested && may && !self.pending.contains(&self.holder.site)
    }

    /// Nobody is left to ask, and the holder may still answer: whoever refused is asked again after a while.
    fn another_round(&mut self, now: Instant) -> Next {
        let refused = |site: &SiteId| !self.pending.contains(site);
        if self.round.is_none() && self.asked.iter().any(refused) {
            self.round = Some(now.after(ROUND));
        }
        if self.round.take_if(|at| *at <= now).is_some() {
            let pending = &self.pending;
            self.asked.retain(|site| pending.contains(site));
        }
        Next::Rest(None)
    }

    /// What whoever was asked last is waited for with; none if it is not any more.
    fn waits(&mut self, now: Instant) -> Option<Next> {
        let is_itself = self.pending.contains(&self.holder.site);
        let last = self.last.as_mut()?;
        if last.site != self.holder.site && now >= last.gave.after(FETCHES) {
            return None;
        }
        // Late itself, it has not waited for an answer yet: it is waited for from now on.
        if last.pinged.is_none() && now >= last.until() {
            last.pinged = Some(now);
            return Some(Next::Ping(last.site));
        }
        let until = last.until();
        // Whether the holder is back is looked for meanwhile.
        let look = if is_itself { until } else { until.min(now.after(PATIENCE / 4)) };
        (now < until).then_some(Next::Rest(Some(look)))
    }

    /// Who is asked next.
    fn candidate(&self, near: impl FnOnce() -> Vec<Near>) -> Option<Near> {
        let is_new = |near: &Near| !self.asked.contains(&near.site);
        let holder = Some(self.holder).filter(is_new);
        if self.known.is_none() && holder.is_some() {
            return holder;
        }
        let near = near();
        let known = self.known.filter(|known| near.iter().any(|near| near.site == known.site));
        if let Some(first) = known.filter(is_new).or(holder) {
            return Some(first);
        }
        // The holder itself is no detour.
        if self.asked.len() > TRIES {
            return None;
        }
        let waits = self.pending.contains(&self.holder.site);
        let may = |near: &Near| is_new(near) && !(waits && (near.is_paid || self.holder.is_paid));
        near.into_iter().filter(may).min_by_key(|near| (near.is_paid, near.rtt.is_none(), near.rtt))
    }
}

/// What was found out of the links to other sites lately.
#[derive(Debug, Default)]
pub struct Detours {
    known: BTreeMap<SiteId, Known>,
    /// Who looks for a way to whom.
    looking: BTreeMap<SiteId, u64>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// Who has a way.
    by: SiteId,
    /// What the holder itself had answered by then.
    answers: u64,
    until: Instant,
}

impl Detours {
    /// Whether this one is who looks for a way to this holder, of all that wait for it: if nobody else does.
    pub fn may_look(&mut self, holder: SiteId, who: u64) -> bool {
        *self.looking.entry(holder).or_insert(who) == who
    }

    /// It waits no more, or has nobody left to ask.
    pub fn looked(&mut self, holder: SiteId, who: u64) {
        if self.looking.get(&holder) == Some(&who) {
            self.looking.remove(&holder);
        }
    }

    /// Somebody gave a chunk of this holder in its place. `answers`: counts what it has answered, ever.
    pub fn learn(&mut self, holder: SiteId, by: SiteId, answers: u64, now: Instant) {
        self.known.retain(|_, known| now < known.until);
        let until = now.after(TRUSTED);
        // What is known is not believed for longer than [`TRUSTED`] without asking the holder again.
        let same = self.known.get(&holder).filter(|known| known.by == by && known.answers == answers);
        if same.is_none() && self.known.len() < limits::SITES {
            self.known.insert(holder, Known { by, answers, until });
        }
    }

    /// Who has a way to this holder, if that is known.
    pub fn known(&self, holder: SiteId, answers: u64, now: Instant) -> Option<SiteId> {
        let known = self.known.get(&holder).filter(|known| known.answers == answers && now < known.until);
        known.map(|known| known.by)
    }

    /// It is asked itself again.
    pub fn forget(&mut self, holder: SiteId) {
        self.known.remove(&holder);
    }
}

#[cfg(test)]
#[path = "detour_tests.rs"]
mod tests;
