//! Liveness: SWIM over sites, by foca.
//!
//! Only *whether a site speaks*, to anybody. Who belongs to the federation is the roster's to say: a dead site
//! stays in it and is met again when its link returns. Closed links are seen by the links themselves; this
//! machine sees what they cannot: a silent site, and that a site which we cannot reach is alive for others.
//!
//! Quiet at rest: one probe and its answer per site and period, 10 s over wide links; none where one end pays for what crosses
//! ([`stand_in`]).
//!
//! A greeting is answered by a full packet of who lives. Among very many, where one that comes back would be greeted by all and
//! would greet them all, greetings are drawn out ([`hello`]): who is known before its turn is told one life, and answers nothing.
//!
//! Invariants: only sites of the roster are reported; alive and dead alternate for a site; a timer that foca
//! asked for is delivered once, in order.

use core::num::{NonZeroU8, NonZeroUsize};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use foca::{Foca, NoCustomBroadcast, PostcardCodec, Timer};
use rand::SeedableRng;
use rand::rngs::StdRng;
use skerry_base::{Instant, SiteId};

use crate::context::Context;
use crate::waits::Waits;
use crate::{Config, Message, Output, limits};

mod hello;
mod identity;
mod runtime;
mod stand_in;

use identity::Identity;
use runtime::Effects;

/// How often a linked site that is not heard of is greeted.
const GREET: Duration = Duration::from_secs(30);

/// Among very many, new links are greeted over so long for each site of the roster: 20 s among a thousand. The answer to one
/// greeting names some forty sites that live.
const GREETINGS: Duration = Duration::from_millis(20);

/// Timers keep the order of submission among equals.
type TimerKey = (Instant, u64);

/// The liveness machine.
pub(crate) struct Membership {
    foca: Foca<Identity, PostcardCodec, StdRng, NoCustomBroadcast>,
    timers: BTreeMap<TimerKey, Timer<Identity>>,
    submitted: u64,
    heard: BTreeSet<SiteId>,
    reported: BTreeSet<SiteId>,
    greet_at: Option<Instant>,
    /// Of very many that are linked: who is greeted when, unless it speaks first.
    greetings: Waits,
}

impl Membership {
    pub(crate) fn new(config: &Config) -> Self {
        let identity = Identity::new(config.site, config.life);
        let rng = StdRng::seed_from_u64(config.seed ^ 0x5157_494d);
        Self {
            foca: Foca::new(identity, settings(config), rng, PostcardCodec),
            timers: BTreeMap::new(),
            submitted: 0,
            heard: BTreeSet::new(),
            reported: BTreeSet::new(),
            greet_at: None,
            greetings: Waits::default(),
        }
    }

    pub(crate) fn is_alive(&self, site: SiteId) -> bool {
        self.reported.contains(&site)
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        [timer, self.greet_at, self.greetings.next_wake()].into_iter().flatten().min()
    }

    /// A link is up: say hello. Whatever life the other is in, it answers with who is alive. Among many each has its turn.
    pub(crate) fn link_up(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if !cx.peers.is_linked(site) {
            return;
        }
        if cx.peers.is_crowded() {
            self.greetings.add(site, self.greeting_at(cx));
        } else {
            self.run(cx, |foca, effects| foca.announce(Identity::unknown(site), effects));
        }
        self.greet_at.get_or_insert(cx.now.after(GREET));
    }

    pub(crate) fn link_down(&mut self, site: SiteId) {
        self.greetings.remove(site);
    }

    /// When to greet one of many: drawn over a while in which who knows nobody learns of most others from the first it greets,
    /// and who knows most hears of the newcomer by gossip; so these wait until that is over.
    fn greeting_at(&self, cx: &mut Context<'_>) -> Instant {
        let sites = cx.peers.roster().len();
        let span = GREETINGS * u32::try_from(sites).unwrap_or(u32::MAX);
        let knows_most = self.heard.len() * 8 >= sites * 7;
        let wait = if knows_most { span + span.mul_f64(2.0 * cx.draw()) } else { span.mul_f64(cx.draw()) };
        cx.now.after(wait)
    }

    pub(crate) fn receive(&mut self, from: SiteId, packet: &Bytes, cx: &mut Context<'_>) {
        let is_answer = hello::knows(packet, *self.foca.identity());
        if !self.run(cx, |foca, effects| foca.handle_data(packet, effects)) {
            cx.refuse(from, "a packet that SWIM does not take");
        }
        // From one that is held for down SWIM takes nothing but that it has to begin a new life.
        if is_answer && self.heard.contains(&from) {
            self.greetings.remove(from);
        }
    }

    /// The roster changed: report those who count now.
    pub(crate) fn roster_changed(&mut self, cx: &mut Context<'_>) {
        self.greet_at.get_or_insert(cx.now);
        self.report(self.heard.union(&self.reported).copied().collect(), cx);
        cx.hold(self.reported.iter().all(|site| cx.peers.knows(*site)), "a stranger counts as alive");
    }

    /// Delivers what is due.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        while let Some((&key, _)) = self.timers.range(..=(cx.now, u64::MAX)).next() {
            let Some(timer) = self.timers.remove(&key) else { break };
            let delivered = self.run(cx, |foca, effects| foca.handle_timer(timer, effects));
            cx.hold(delivered, "SWIM does not take its own timer");
        }
        while let Some(site) = self.greetings.take(cx.now) {
            self.greet_one(site, cx);
        }
        if self.greet_at.is_some_and(|at| at <= cx.now) {
            self.greet(cx);
        }
    }

    /// The turn of one of many. Who is heard of by way of others need not say who is alive; it is told in which life this site
    /// is, for gossip reaches nearly all and not all, and a probe of a life that has ended is not answered.
    fn greet_one(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let known = self.foca.iter_members().map(|member| *member.id()).find(|known| known.site() == site);
        match known {
            Some(known) => {
                if let Some(packet) = hello::packet(*self.foca.identity(), known) {
                    cx.send(site, Message::Swim(packet));
                }
            }
            None => {
                self.run(cx, |foca, effects| foca.announce(Identity::unknown(site), effects));
            }
        }
    }

    /// Greets one linked site that is not known to be alive, drawn.
    fn greet(&mut self, cx: &mut Context<'_>) {
        let silent: Vec<SiteId> =
            cx.peers.near().into_iter().filter(|site| !self.heard.contains(site)).collect();
        let index = cx.pick(silent.len());
        self.greet_at = (!silent.is_empty()).then(|| cx.now.after(GREET));
        if let Some(site) = silent.get(index) {
            self.run(cx, |foca, effects| foca.announce(Identity::unknown(*site), effects));
        }
    }

    /// Lets foca act and carries out what it wants; answers whether it was content.
    fn run(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(
            &mut Foca<Identity, PostcardCodec, StdRng, NoCustomBroadcast>,
            &mut Effects,
        ) -> Result<(), foca::Error>,
    ) -> bool {
        let mut effects = Effects::default();
        let result = act(&mut self.foca, &mut effects);
        let mut answers = Vec::new();
        for (to, packet) in effects.packets {
            match stand_in::answer(&packet, to, cx) {
                Some(answer) => answers.push(answer),
                None => cx.send(to.site(), Message::Swim(packet)),
            }
        }
        for (timer, wait) in effects.timers {
            self.submitted += 1;
            self.timers.insert((cx.now.after(wait), self.submitted), timer);
        }
        let changed = effects.changes.iter().map(|(site, _)| *site).collect();
        for (site, alive) in effects.changes {
            if alive {
                self.heard.insert(site);
            } else {
                self.heard.remove(&site);
                self.greet_at.get_or_insert(cx.now.after(GREET));
            }
        }
        self.report(changed, cx);
        answers.iter().for_each(|answer| self.hear(answer, cx));
        result.is_ok()
    }

    /// What stands in for the answer of a site.
    fn hear(&mut self, answer: &Bytes, cx: &mut Context<'_>) {
        let taken = self.run(cx, |foca, effects| foca.handle_data(answer, effects));
        cx.hold(taken, "SWIM does not take what stands in for an answer");
    }

    /// Says of these sites what has not been said: who lives, then who does not.
    fn report(&mut self, changed: BTreeSet<SiteId>, cx: &mut Context<'_>) {
        let lives = |site: &SiteId| self.heard.contains(site) && cx.peers.knows(*site);
        let (alive, dead): (Vec<SiteId>, Vec<SiteId>) = changed.into_iter().partition(lives);
        for site in alive {
            if self.reported.insert(site) {
                cx.peers.lives(site, true, cx.now);
                cx.out.push(Output::SiteAlive(site));
            }
        }
        for site in dead {
            if self.reported.remove(&site) {
                cx.peers.lives(site, false, cx.now);
                cx.out.push(Output::SiteDead(site));
            }
        }
    }
}

/// For wide links: slow, patient, and silent unless something changed. Down members are never forgotten (the
/// roster bounds them); they learn of it and come back in a new life of theirs.
fn settings(config: &Config) -> foca::Config {
    let one = NonZeroUsize::MIN;
    foca::Config {
        probe_period: config.probe_period,
        probe_rtt: config.probe_rtt,
        num_indirect_probes: one.saturating_add(1),
        max_transmissions: NonZeroU8::MIN.saturating_add(5),
        suspect_to_down_after: config.suspicion,
        remove_down_after: None,
        max_packet_size: one.saturating_add(limits::SWIM_BYTES - 1),
        notify_down_members: true,
        periodic_announce: None,
        periodic_announce_to_down_members: Some(foca::PeriodicParams {
            frequency: Duration::from_secs(60),
            num_members: one,
        }),
        periodic_gossip: Some(foca::PeriodicParams { frequency: Duration::from_secs(2), num_members: one }),
    }
}
