//! The federation machines: what they are told, what they want done, the messages between them.

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_federation::{Answer as Located, Input, Message, Output, Report};

use super::rest::NOBODYS;
use super::wires::Wire;
use super::{Event, World};
use crate::canary::Canary;
use crate::checkers::Violation;
use crate::checkers::durability::How;
use crate::ledger::Reading;
use crate::site::lock;
use crate::trace::Who;
use skerry_scenario::clock::{millis, seconds};

impl World {
    /// Tells the machine of a site what happened and carries out what it wants.
    pub(super) fn input(&mut self, site: usize, input: Input) {
        let now = self.queue.now();
        let (mut out, feed_bytes) = (Vec::new(), self.environment.feed_bytes);
        let Some(running) = self.sites.get_mut(site).and_then(|site| site.running.as_mut()) else { return };
        let view = running.store.view();
        let (origin, lives) = {
            let desk = lock(&running.desk);
            (desk.origin, desk.origins.iter().map(|(bucket, origin)| (*bucket, *origin)).collect::<Vec<_>>())
        };
        let view_of = &view as &dyn View;
        let reading = Reading { store: &running.store, view: view_of, origin, lives: &lives, feed_bytes };
        running.federation.handle(input, now, &reading, &mut out);
        drop(view);
        for output in out {
            self.output(site, output);
        }
        self.plan_wake(site);
    }

    fn plan_wake(&mut self, site: usize) {
        let now = self.queue.now();
        let Some(place) = self.sites.get_mut(site) else { return };
        let boot = place.boot;
        let Some(running) = place.running.as_mut() else { return };
        let Some(next) = running.federation.next_wake().map(|at| at.max(now)) else { return };
        if running.wake_at.is_none_or(|planned| next < planned) {
            running.wake_at = Some(next);
            self.queue.plan(next, Event::Wake { site, boot });
        }
    }

    pub(super) fn wake(&mut self, site: usize, boot: u64) {
        let now = self.queue.now();
        let Some(place) = self.sites.get_mut(site).filter(|place| place.boot == boot) else { return };
        let Some(running) = place.running.as_mut() else { return };
        if running.wake_at.is_some_and(|planned| planned <= now) {
            running.wake_at = None;
            self.count("wakes");
            self.input(site, Input::Wake);
        }
    }

    /// The roster and the memberships, as the shell says them at each start.
    pub(super) fn introduce(&mut self, site: usize) {
        if self.metered.contains(&site) {
            self.tell_budget(site);
        }
        self.tell_roster(site);
        let running = self.sites.get(site).and_then(|place| place.running.as_ref());
        let members = running.map(|running| running.members.clone()).unwrap_or_default();
        for bucket in members {
            self.input(site, Input::Join { bucket });
        }
    }

    fn output(&mut self, site: usize, output: Output) {
        match output {
            Output::Send { to, message } => {
                let Some(to) = self.sites.iter().position(|place| place.id == to) else { return };
                self.send(site, to, &message);
            }
            Output::Apply(apply) => self.submit_apply(site, apply),
            Output::Fresh(fresh) => self.submit_fresh(site, fresh),
            Output::Keep(keep) => self.submit_keep(site, keep),
            Output::Drop(drop) => self.submit_drop(site, drop),
            Output::Report(report) => {
                if matches!(report, Report::Reconciled { .. }) {
                    self.count("reconciliations");
                }
                if matches!(report, Report::Refused { .. } | Report::Unreadable { .. }) {
                    let what = format!("{report:?}");
                    self.violated(Violation::at("federation", site, what));
                }
                self.tell(Who::Site(site), format_args!("report {report:?}"));
            }
            Output::Violation(what) => {
                self.violated(Violation::at("federation", site, what.to_string()));
            }
            Output::Located { ticket, answer } => {
                self.tell(Who::Site(site), format_args!("located {ticket:?}: {answer:?}"));
                let lost = self.environment.canary == Some(Canary::LostAnswer);
                let nobody = self.questions.get(&ticket).is_some_and(|(_, bucket)| *bucket == NOBODYS);
                self.note_named(ticket, &answer);
                let right = match answer {
                    Located::Found { .. } | Located::Given { .. } => !nobody,
                    Located::Unknown { unasked } => nobody && unasked.is_empty(),
                    Located::Unreachable { .. } | Located::NotYetKnown => false,
                };
                if right && !lost {
                    self.questions.remove(&ticket);
                }
            }
            Output::Give { to, bucket, wanted } => self.give(site, to, (bucket, wanted)),
            Output::MemberOf { .. } | Output::SiteAlive(_) | Output::SiteDead(_) | Output::Rests { .. } => {
                self.tell(Who::Site(site), format_args!("{output:?}"));
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        if message.dialect() > self.environment.finding.dialect(to) {
            let what = format!("says to site-{} what it does not know: {message:?}", to + 1);
            self.violated(Violation::at("federation", from, what));
        }
        let wire = self.wires.side(from, to);
        let bytes: Bytes = message.encode().into();
        if self.environment.canary == Some(Canary::KeptBack) && matches!(message, Message::Loose { .. }) {
            return;
        }
        if !wire.up {
            self.tell(Who::Site(from), format_args!("has no link to site-{} for a message", to + 1));
            return;
        }
        let (bucket, items) = match message {
            Message::Batch(batch) => (batch.bucket, &batch.items[..]),
            Message::Gathered(gathered) => (gathered.bucket, &gathered.items[..]),
            _ => (BucketId::default(), &[][..]),
        };
        items.iter().for_each(|item| self.shown(from, bucket, item.dot, How::Fed));
        let arrivals = self.net.send(self.queue.now(), from, to, bytes.len() + 60);
        self.count("messages");
        *self.counts.entry("bytes of messages").or_default() += bytes.len() as u64;
        let (length, hash) = (bytes.len(), blake3::hash(&bytes));
        let short = hash.to_hex();
        self.tell(
            Who::Site(from),
            format_args!("sends site-{} {length} B {} x{}", to + 1, &short[..8], arrivals.len()),
        );
        self.trace.explain(|| describe(message));
        for at in arrivals {
            let (wire, datagram, bytes) = (wire.number, message.is_datagram(), bytes.clone());
            self.queue.plan(at, Event::Deliver { from, to, wire, datagram, bytes });
        }
    }

    /// Over a connection: only as long as it stands at the receiver. A datagram: whenever it comes.
    pub(super) fn deliver(&mut self, (from, to): (usize, usize), wire: u64, datagram: bool, bytes: &[u8]) {
        let side = self.wires.side(to, from);
        let stands = datagram || (side.up && side.number == wire);
        let (Some(sender), Some(receiver)) = (self.sites.get(from), self.sites.get(to)) else { return };
        if !self.net.open(from, to) || !stands || receiver.running.is_none() {
            return;
        }
        let id = sender.id;
        match Message::decode(bytes) {
            Ok(message) => {
                let hash = blake3::hash(bytes).to_hex();
                self.tell(Who::Site(to), format_args!("receives {} from site-{}", &hash[..8], from + 1));
                self.input(to, Input::Received { from: id, message });
            }
            Err(error) => {
                self.violated(Violation::at("federation", to, format!("sent what it refuses: {error}")));
            }
        }
    }

    /// Two sites that are up and can reach each other connect; they try again and again.
    pub(super) fn dial(&mut self, one: usize, other: usize) {
        let again = if self.resting { millis(500)..=seconds(1) } else { millis(500)..=seconds(4) };
        let again = self.queue.now().after(self.draw.span(again));
        self.queue.plan(again, Event::Dial { one, other });
        let boot = |site: usize| self.sites.get(site).filter(|site| site.running.is_some());
        let (Some(first), Some(second)) = (boot(one), boot(other)) else { return };
        let boots = (first.boot, second.boot);
        let open = self.net.open(one, other) && self.net.open(other, one);
        let (there, back) = (self.wires.side(one, other), self.wires.side(other, one));
        if !open || (there.up && there == back) {
            return;
        }
        if there.up || back.up {
            self.break_halves((one, there), (other, back));
            return;
        }
        let wire = self.wires.next_number();
        for (from, to, boots) in [(one, other, boots), (other, one, (boots.1, boots.0))] {
            let at = self.queue.now().after(self.draw.span(millis(1)..=millis(300)));
            self.queue.plan(at, Event::Up { from, to, wire, boots });
        }
    }

    /// Two sites do not believe in the same connection: what they send is refused by the other's machine.
    fn break_halves(&mut self, (one, there): (usize, Wire), (other, back): (usize, Wire)) {
        for (from, to, side) in [(one, other, there), (other, one, back)] {
            if side.up {
                let at = self.queue.now().after(self.draw.span(millis(10)..=seconds(1)));
                self.queue.plan(at, Event::Down { from, to, wire: side.number });
            }
        }
    }

    pub(super) fn link_up(&mut self, (from, to): (usize, usize), wire: u64, boots: (u64, u64)) {
        let boot = |site: usize| self.sites.get(site).map_or(0, |site| site.boot);
        if (boot(from), boot(to)) != boots || self.wires.side(from, to).up {
            return;
        }
        self.wires.up(from, to, wire);
        self.tell(Who::Site(from), format_args!("connects with site-{} ({wire})", to + 1));
        let Some(id) = self.sites.get(to).map(|place| place.id) else { return };
        let rtt = self.net.rtt(from, to);
        self.input(from, Input::LinkUp(id));
        self.input(from, Input::Rtt { site: id, rtt });
        if self.environment.finding.asks {
            // The answer takes a round trip; a connection that breaks meanwhile never has it.
            self.queue.plan(self.queue.now().after(rtt), Event::Words { from, to, wire });
        }
    }

    /// The other end has said what it understands.
    pub(super) fn words(&mut self, from: usize, to: usize, wire: u64) {
        let side = self.wires.side(from, to);
        let Some(site) = self.sites.get(to).map(|place| place.id) else { return };
        if side.up && side.number == wire {
            let dialect = self.environment.finding.dialect(to);
            self.input(from, Input::Speaks { site, dialect });
        }
    }

    pub(super) fn link_down(&mut self, from: usize, to: usize, wire: u64) {
        let Some(id) = self.sites.get(to).map(|place| place.id) else { return };
        if self.wires.down(from, to, wire) {
            self.tell(Who::Site(from), format_args!("loses site-{} ({wire})", to + 1));
            self.input(from, Input::LinkDown(id));
            self.reaches_lost(from, to);
        }
    }
}

fn describe(message: &Message) -> String {
    match message {
        Message::Swim(_) => "swim".into(),
        Message::Pull(pull) => format!("pull {} after {:?}", pull.ticket, pull.seen),
        Message::Batch(batch) => {
            let dots: Vec<String> = batch.items.iter().map(|item| item.dot.to_string()).collect();
            format!("batch {}.{} of {dots:?} up to {:?}", batch.ticket, batch.index, batch.upto)
        }
        other => format!("{other:?}"),
    }
}
