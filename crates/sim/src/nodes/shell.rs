//! What a shell does around the machine: carries out what it wants, in order behind its stores; keeps the disk; answers
//! for writes and for who catches up, as [`Output`] asks for.

use std::collections::BTreeSet;

use skerry_base::{BucketId, Instant};
use skerry_federation::site_view::{Fetched, Input, Memory, Message, Output, Said, Seat, SiteView};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Ppm;

use super::names::REGISTER;
use super::{BUCKETS, Event, Gave, Mistake, Operation, Packet, Storing, What, World};

impl World {
    /// A process starts: with what its disk kept, or as a stranger.
    pub(super) fn start(&mut self, node: usize) {
        if self.nodes[node].machine.is_some() {
            return;
        }
        let rate = self.rate(node);
        let (now, nonce) = (self.queue.now(), self.draw.number());
        let all = self.all;
        let place = &mut self.nodes[node];
        place.boot += 1;
        place.all = all;
        place.clock.run_at(rate, now);
        place.memory = place.memory.map(|memory| memory.started());
        let memory = place.memory.map_or(Memory::Blank(nonce), Memory::Kept);
        if place.memory.is_none() {
            self.nonces.insert((place.seat, nonce), place.id);
        }
        let since = place.clock.read(now);
        place.machine = Some(SiteView::new(place.seat, all, memory, since));
        self.seated_anew(node);
        self.tell_gone(node);
        self.give(node, Input::Wake);
        if self.refuses(node) {
            self.tell_room(node);
        }
    }

    /// A process dies. Of what was on its way to the disk, so many operations got there.
    pub(super) fn kill(&mut self, node: usize) {
        if self.nodes[node].machine.take().is_none() {
            return;
        }
        let doing = std::mem::take(&mut self.nodes[node].doing);
        let kept = self.draw.below(doing.len() as u64 + 1) as usize;
        for operation in doing.into_iter().take(kept) {
            self.keep(node, &operation);
        }
        let place = &mut self.nodes[node];
        place.storing.clear();
        place.wakes_at = Instant(u64::MAX);
        place.disk_free = self.queue.now();
        place.jobs.clear();
    }

    /// Something happens at a node.
    pub(super) fn give(&mut self, node: usize, input: Input) {
        let now = self.local(node);
        let Some(machine) = self.nodes[node].machine.as_mut() else { return };
        let (before, read) = (machine.epoch(), machine.may_read(now));
        let mut out = Vec::new();
        machine.handle(input, now, &mut out);
        let reads = machine.may_read(now);
        if machine.epoch() != before {
            self.judge_view(node);
        }
        self.carry_out(node, out);
        self.plan_wake(node);
        self.judge_leases();
        self.answer_in_vain(node);
        self.forget_if_fenced(node);
        // Whoever serves in a view from now on takes over what is its own in it.
        if reads && (!read || self.nodes[node].machine.as_ref().and_then(SiteView::epoch) != before) {
            (0..BUCKETS.len()).for_each(|bucket| self.stir(node, bucket));
        }
    }

    fn plan_wake(&mut self, node: usize) {
        let now = self.queue.now();
        let place = &mut self.nodes[node];
        let Some(machine) = &place.machine else { return };
        let at = place.clock.when(machine.next_wake()).max(now);
        if at < place.wakes_at {
            place.wakes_at = at;
            let boot = place.boot;
            self.queue.plan(at, Event::Wake { node, boot });
        }
    }

    /// Everything up to the first store at once; each store waits for the disk, and what follows it for the store.
    fn carry_out(&mut self, node: usize, out: Vec<Output>) {
        let mut stores: Vec<Operation> = Vec::new();
        for output in out {
            match (output, stores.last_mut()) {
                (Output::Store(memory), _) => stores.push(Operation::Memory(memory, Vec::new())),
                (output, Some(Operation::Memory(_, rest))) => rest.push(output),
                (output, _) => self.effect(node, output),
            }
        }
        stores.into_iter().for_each(|operation| self.put(node, operation));
    }

    fn effect(&mut self, node: usize, output: Output) {
        match output {
            Output::Store(_) => {}
            Output::Send(to, said) => self.send(node, to.index(), Packet::Said(Box::new(said))),
            Output::Hold { to, write: job, epoch } => {
                if let Some(of) = self.nodes[node].jobs.get(&job) {
                    let packet = Packet::Hold { job, write: of.write, epoch, is_bound: of.bound.is_some() };
                    self.send(node, to.index(), packet);
                }
            }
            Output::CatchUp { from, epoch } => self.send(node, from.index(), Packet::Fetch { epoch }),
            Output::Settled(job) => self.settled(node, job),
            Output::Abandoned(job) => self.abandon(node, job, "decisions abandoned with their view"),
            Output::Refused(job) => self.abandon(node, job, "refused: too many wait"),
        }
    }

    pub(super) fn send(&mut self, from: usize, to: usize, packet: Packet) {
        let boot = self.nodes[from].boot;
        if from == to {
            let now = self.queue.now();
            return self.queue.plan(now, Event::Arrive { from, to, boot, packet });
        }
        if self.cuts.contains(&(from, to)) || self.draw.chance(self.loss) {
            return;
        }
        if [from, to].contains(&self.far()) {
            return self.plan(millis(20)..=millis(120), Event::Arrive { from, to, boot, packet });
        }
        let is_question = matches!(packet, Packet::Decide { .. } | Packet::Name { .. });
        if self.loss > Ppm::NEVER && !is_question && self.draw.chance(Ppm::percent(1)) {
            let packet = packet.clone();
            self.plan(millis(1)..=seconds(3), Event::Arrive { from, to, boot, packet });
        }
        let slow = self.nodes[from].slow_wire + self.nodes[to].slow_wire;
        self.plan(slow / 2 + millis(1) / 10..=slow + millis(2), Event::Arrive { from, to, boot, packet });
    }

    pub(super) fn arrive(&mut self, from: usize, to: usize, packet: Packet) {
        let seat = self.nodes[from].seat;
        match packet {
            Packet::Said(said) => {
                let said = self.tampered(to, *said);
                self.give(to, Input::Heard(said));
            }
            Packet::Hold { job, write, epoch, is_bound } => {
                self.hold(to, (from, job), (write, is_bound), epoch)
            }
            Packet::Held { job, epoch } => self.give(to, Input::Held { write: job, epoch, by: seat }),
            Packet::NotHeld { job } => {
                self.abandon(to, job, "decisions refused: a node does not keep the bucket")
            }
            Packet::Fetch { epoch } => self.fetched_from(to, from, epoch),
            Packet::Gave { epoch, writes, gaps } => self.given(to, (seat, epoch), writes, gaps),
            Packet::Decide { op, hops } => self.decide(to, op, hops),
            Packet::Name { wish, hops } => self.ask_register(to, wish, hops),
        }
    }

    /// Another node has said all that it has.
    fn given(&mut self, node: usize, (from, epoch): (Seat, u64), writes: Vec<u64>, gaps: BTreeSet<BucketId>) {
        self.give(node, Input::Arrived { from, epoch });
        let place = &self.nodes[node];
        let view = place.machine.as_ref().and_then(|machine| machine.view().copied());
        let is_same = |doing: &Operation| matches!(doing, Operation::Records(_, Some(of)) if (of.from, of.view.epoch) == (from, epoch));
        let Some(view) = view.filter(|view| view.epoch == epoch) else { return };
        if !place.doing.iter().any(is_same) {
            let gave = Gave { from, view, since: place.gaps.turn(), gaps };
            let lacking = writes.into_iter().filter(|write| !place.kept.held.contains(write)).collect();
            let lacking = self.taken(node, lacking);
            self.put(node, Operation::Records(lacking, Some(gave)));
        }
    }

    /// What another node had is durable here, and with it what may be lacking still.
    fn fetched(&mut self, node: usize, gave: &Gave) {
        let filled = self.all;
        let place = &mut self.nodes[node];
        let unkept = place.excused.map(|bucket| BUCKETS[bucket]).into_iter().collect();
        let (me, view) = (place.seat, &gave.view);
        let Gave { from, since, ref gaps, .. } = *gave;
        place.gaps.fetch(Fetched { view, me, filled, from, since, theirs: gaps, unkept: &unkept });
    }

    fn tampered(&self, to: usize, mut said: Said) -> Said {
        if let Message::Answer { clock, .. } = &mut said.message
            && self.mistake == Some(Mistake::TrustedClock)
        {
            *clock = self.local(to);
        }
        said
    }

    fn may_hold(&self, node: usize, epoch: u64) -> bool {
        let machine = self.nodes[node].machine.as_ref();
        machine.is_some_and(|machine| machine.may_hold(epoch))
    }

    /// A node is asked to make a write durable. What it does not keep it answers for, unless somebody decided on it.
    fn hold(&mut self, node: usize, asker: (usize, u64), (write, is_bound): (u64, bool), epoch: u64) {
        if !self.may_hold(node, epoch) {
            return;
        }
        if !self.is_kept(node, write) {
            let holds = !is_bound || self.mistake == Some(Mistake::ExcusedHolder);
            return match holds {
                true => {
                    if let Some(bucket) = self.nodes[node].excused {
                        self.nodes[node].gaps.open(BUCKETS[bucket]);
                    }
                    self.answer_for(node, asker, epoch);
                }
                false => self.send(node, asker.0, Packet::NotHeld { job: asker.1 }),
            };
        }
        let is_held = self.nodes[node].kept.held.contains(&write);
        if is_held || self.mistake == Some(Mistake::EarlyAnswer) {
            self.answer_for(node, asker, epoch);
        }
        if !is_held && !self.fits(node) {
            if self.mistake == Some(Mistake::EmptyPromise) {
                self.answer_for(node, asker, epoch);
            }
            return;
        }
        let storing = Storing { epoch, asker: Some(asker) };
        if !is_held && self.nodes[node].storing.insert(write, storing).is_none() {
            self.put(node, Operation::Record(write));
        }
    }

    fn answer_for(&mut self, node: usize, (asker, job): (usize, u64), epoch: u64) {
        self.send(node, asker, Packet::Held { job, epoch });
    }

    /// A node is asked for all it holds: only in the epoch in question, and behind everything it let in before.
    fn fetched_from(&mut self, node: usize, by: usize, epoch: u64) {
        let place = &self.nodes[node];
        let is_there = place.machine.as_ref().is_some_and(|machine| machine.epoch() == Some(epoch));
        if !is_there || place.storing.values().any(|of| of.epoch != epoch) {
            return;
        }
        let writes = match self.mistake {
            Some(Mistake::EmptyCatchUp) => Vec::new(),
            _ => place.kept.held.iter().copied().collect(),
        };
        let gaps = match self.mistake {
            Some(Mistake::SilentGaps) => BTreeSet::new(),
            _ => self.nodes[node].gaps.all(),
        };
        self.send(node, by, Packet::Gave { epoch, writes, gaps });
    }

    pub(super) fn put(&mut self, node: usize, operation: Operation) {
        self.nodes[node].doing.push_back(operation);
        self.plan_disk(node);
    }

    fn plan_disk(&mut self, node: usize) {
        let slow = self.nodes[node].slow_disk;
        let took = self.draw.span(millis(1) / 2 + slow / 2..=millis(6) + slow);
        let now = self.queue.now();
        let place = &mut self.nodes[node];
        place.disk_free = place.disk_free.max(now).after(took);
        let (at, boot, turn) = (place.disk_free, place.boot, place.turn);
        self.queue.plan(at, Event::Done { node, boot, turn });
    }

    /// A disk is itself again: what waits for it is done at its own speed from now on.
    pub(super) fn mend_disk(&mut self, node: usize) {
        let now = self.queue.now();
        let place = &mut self.nodes[node];
        (place.slow_disk, place.disk_free, place.turn) = (millis(0), now, place.turn + 1);
        (0..self.nodes[node].doing.len()).for_each(|_| self.plan_disk(node));
    }

    /// The disk has done what it was told first.
    pub(super) fn done(&mut self, node: usize) {
        let Some(operation) = self.nodes[node].doing.pop_front() else { return };
        self.keep(node, &operation);
        match operation {
            Operation::Memory(_, rest) => {
                self.carry_out(node, rest);
                self.judge_leases();
            }
            Operation::Record(write) => self.recorded(node, write),
            Operation::Records(writes, None) => self.committed(node, &writes),
            Operation::Records(_, Some(gave)) => {
                self.give(node, Input::CaughtUp { from: gave.from, epoch: gave.view.epoch });
            }
        }
    }

    fn recorded(&mut self, node: usize, write: u64) {
        let Some(storing) = self.nodes[node].storing.remove(&write) else { return };
        match storing.asker {
            None => self.begun(node, write),
            Some(asker) if self.may_hold(node, storing.epoch) => self.answer_for(node, asker, storing.epoch),
            Some(_) => {}
        }
    }

    /// Of records that came together those that are this node's own.
    fn committed(&mut self, node: usize, writes: &[u64]) {
        for write in writes {
            let is_own = |of: &super::Write| of.origin == self.nodes[node].id && of.bucket == REGISTER;
            if self.writes.get(write).is_some_and(is_own) {
                self.recorded(node, *write);
            }
        }
    }

    /// What an operation leaves on the disk.
    fn keep(&mut self, node: usize, operation: &Operation) {
        match operation {
            Operation::Memory(memory, _) => {
                if self.mistake != Some(Mistake::ForgottenPromise) {
                    self.nodes[node].memory = Some(*memory);
                }
            }
            Operation::Record(write) => self.hold_durably(node, *write),
            Operation::Records(writes, gave) => {
                writes.iter().for_each(|write| self.hold_durably(node, *write));
                gave.iter().for_each(|gave| self.fetched(node, gave));
            }
        }
    }

    pub(super) fn hold_durably(&mut self, node: usize, number: u64) {
        let Some(write) = self.writes.get_mut(&number) else { return };
        let place = &mut self.nodes[node];
        if place.id == write.origin && !place.kept.held.contains(&number) {
            let is_system = matches!(write.what, What::Tenure { .. } | What::Home { .. });
            if !is_system && write.seq == 0 {
                let seq = self.seqs.entry((write.bucket, write.origin)).or_default();
                *seq += 1;
                write.seq = *seq;
            }
            if let What::Home { named, .. } = &write.what {
                let named = (write.bucket, named.epoch, named.site);
                place.kept.keep(number, write);
                return self.judge_home(named);
            }
            if let What::Given { naming } = &write.what {
                let bucket = naming.home.bucket;
                place.kept.keep(number, write);
                return self.judge_name(bucket);
            }
        }
        place.kept.keep(number, write);
        place.lacks.remove(&number);
    }
}
