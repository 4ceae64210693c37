//! Machines of many sites in one thread: a message takes half the round trip, nothing else takes time.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Instant};
use skerry_federation::areas::Entry;
use skerry_sim::areas::ask::{Found, Mode};
use skerry_sim::areas::{Areas, Config, Input, Message, Output};

use crate::matrix::Matrix;
use crate::proof::{id, index};

/// An end of a question.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) after: Duration,
    pub(crate) found: Found,
    pub(crate) messages: usize,
}

pub(crate) struct World {
    pub(crate) matrix: Matrix,
    pub(crate) machines: Vec<Areas>,
    pub(crate) deaf: BTreeSet<usize>,
    pub(crate) now: Instant,
    pub(crate) refused: usize,
    pub(crate) sent: BTreeMap<&'static str, usize>,
    seed: u64,
    queue: BTreeMap<(Instant, u64), (usize, usize, Message)>,
    wakes: BTreeSet<(Instant, usize)>,
    wake: Vec<Option<Instant>>,
    count: u64,
    ends: BTreeMap<(usize, u64), (Instant, Found, usize)>,
}

pub(crate) fn bucket(n: u8) -> BucketId {
    BucketId([n; 16])
}

const fn name(message: &Message) -> &'static str {
    match message {
        Message::Publish(_) => "publish",
        Message::Published { .. } => "published",
        Message::Ask { .. } => "ask",
        Message::PassOn { .. } => "pass on",
        Message::Answer { .. } => "answer",
        Message::NotMember { .. } => "not member",
        Message::Cancel { .. } => "cancel",
    }
}

impl World {
    /// All sites know each other and all distances, and have had time to tell what they hold.
    pub(crate) fn new(matrix: Matrix, seed: u64, k: u8) -> Self {
        let n = matrix.len();
        let mut world = Self {
            machines: Vec::new(),
            deaf: BTreeSet::new(),
            now: Instant(0),
            refused: 0,
            sent: BTreeMap::new(),
            seed,
            queue: BTreeMap::new(),
            wakes: BTreeSet::new(),
            wake: vec![None; n],
            count: 0,
            ends: BTreeMap::new(),
            matrix,
        };
        for site in 0..n {
            let machine = world.machine(site, 1, k);
            world.machines.push(machine);
        }
        (0..n).for_each(|site| world.meet_all(site));
        world
    }

    fn machine(&self, site: usize, life: u64, k: u8) -> Areas {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        let config = Config { site: id(site), weight: self.matrix.weight(site), seed, life, k };
        Areas::new(config, self.now)
    }

    fn meet_all(&mut self, site: usize) {
        for other in (0..self.machines.len()).filter(|other| *other != site) {
            let entry = Entry { site: id(other), weight: self.matrix.weight(other), coordinate: None };
            self.give(site, Input::Come(entry));
            self.give(site, Input::Measured(id(other), self.matrix.rtt(site, other)));
        }
    }

    /// Everything forgotten but who is there; in the next life.
    pub(crate) fn restart(&mut self, site: usize) {
        let k = self.machines[site].view().k();
        self.machines[site] = self.machine(site, 2, k);
        self.meet_all(site);
    }

    pub(crate) fn give(&mut self, site: usize, input: Input) {
        let mut out = Vec::new();
        self.machines[site].handle(input, self.now, &mut out);
        for output in out {
            self.carry_out(site, output);
        }
        let next = self.machines[site].next_wake();
        if let Some(old) = self.wake[site] {
            self.wakes.remove(&(old, site));
        }
        self.wake[site] = next;
        self.wakes.extend(next.map(|at| (at, site)));
    }

    fn carry_out(&mut self, site: usize, output: Output) {
        match output {
            Output::Send(to, message) => {
                assert_ne!(to, id(site), "a message to itself");
                *self.sent.entry(name(&message)).or_default() += 1;
                let to = index(to);
                let at = self.now.after(self.matrix.rtt(site, to) / 2);
                self.count += 1;
                self.queue.insert((at, self.count), (site, to, message));
            }
            Output::Found { ticket, found, messages } => {
                let before = self.ends.insert((site, ticket), (self.now, found, messages));
                assert!(before.is_none(), "a question ended twice");
            }
            Output::Refused(..) => self.refused += 1,
            Output::Measure(_) | Output::Turned(_) => {}
        }
    }

    /// Until then.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            let arrives = self.queue.keys().next().map(|(at, _)| *at);
            let wakes = self.wakes.first().map(|(at, _)| *at);
            let Some(at) = arrives.into_iter().chain(wakes).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if arrives == Some(at) {
                let (_, (from, to, message)) = self.queue.pop_first().unwrap();
                if !self.deaf.contains(&to) && !self.deaf.contains(&from) {
                    self.give(to, Input::Message(id(from), message));
                }
            } else if let Some((_, site)) = self.wakes.pop_first() {
                self.wake[site] = None;
                self.give(site, Input::Tick);
            }
        }
        self.now = end;
    }

    /// Asks, and runs until the answer.
    pub(crate) fn find(&mut self, site: usize, bucket: BucketId, mode: Mode) -> End {
        self.count += 1;
        let (ticket, asked) = (self.count, self.now);
        self.give(site, Input::Find { ticket, bucket, mode });
        for _ in 0..1000 {
            if let Some((at, found, messages)) = self.ends.remove(&(site, ticket)) {
                return End { after: at.since(asked), found, messages };
            }
            self.run(Duration::from_millis(10));
        }
        unreachable!("a question without an end")
    }
}
