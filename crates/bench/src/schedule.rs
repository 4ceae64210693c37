//! Which operation comes next: operation, key, size, begin. All of it from the plan and its seed.
//!
//! Invariants: the n-th operation of a phase is the same in every run, however fast the target is (but for keys that a
//! mix with deletes must step over); sizes and bytes are functions of seed and key alone.

use std::sync::Arc;
use std::time::Duration;

use skerry_scenario::draw::{Draw, Ppm};

use crate::board::Board;
use crate::body::{Body, spread};
use crate::plan::{Arrival, Keys, Order, Phase, Plan, Shape, SizeRange};
use crate::target::{Ask, Operation};
use crate::zipf::Zipf;

/// The operations of one phase.
#[derive(Debug)]
pub(crate) struct Schedule {
    seed: u64,
    phase: Phase,
    prefix: String,
    buckets: Vec<Arc<str>>,
    draw: Draw,
    zipf: Zipf,
    /// The order of keys when each comes once.
    shuffled: Vec<u64>,
    board: Option<Board>,
    issued: u64,
    /// Those that count against `operations`.
    measured: u64,
}

/// An operation with its begin.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) ask: Ask,
    /// Number of the key, for [`Schedule::release`].
    pub(crate) number: u64,
    /// When it shall begin, from the begin of the phase; none: now.
    pub(crate) intended: Option<Duration>,
    pub(crate) warm_up: bool,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan, phase: &Phase, trial: u64) -> Self {
        let fill = |text: &String| {
            text.replace("{trial}", &trial.to_string()).replace("{client}", &plan.client.to_string())
        };
        let label = format!("{}/{trial}/{}", phase.name, plan.client);
        let mut draw = Draw::from_seed(plan.seed).fork(&label);
        let shuffled = match phase.keys.order {
            Order::Once => shuffle(phase.keys.count, &mut draw),
            _ => Vec::new(),
        };
        let mix = phase.mix;
        let deletes_among_others = mix.delete > 0 && mix.get + mix.head + mix.put > 0;
        Self {
            seed: plan.seed,
            prefix: fill(&phase.keys.prefix),
            buckets: phase.buckets.iter().map(|bucket| fill(bucket).into()).collect(),
            zipf: Zipf::new(phase.keys.count, phase.keys.theta),
            board: deletes_among_others.then(|| Board::new(phase.keys.count)),
            phase: phase.clone(),
            draw,
            shuffled,
            issued: 0,
            measured: 0,
        }
    }

    /// The next operation, if there is one at this time after the begin of the phase.
    pub(crate) fn next(&mut self, elapsed: Duration) -> Option<Planned> {
        let intended = match self.phase.arrival {
            Arrival::Rate(per_second) => Some(Duration::from_secs_f64(self.issued as f64 / per_second)),
            _ => None,
        };
        let begin = intended.unwrap_or(elapsed).as_secs_f64();
        let warm_up = begin < self.phase.warm_up_seconds;
        let late = self.phase.seconds.is_some_and(|seconds| begin >= self.phase.warm_up_seconds + seconds);
        let enough = operations(&self.phase).is_some_and(|operations| self.measured >= operations);
        let used_up = self.phase.keys.order == Order::Once && self.issued >= self.phase.keys.count;
        if late || enough || used_up {
            return None;
        }
        let (operation, number) = self.choose();
        self.issued += 1;
        self.measured += u64::from(!warm_up);
        Some(Planned { ask: self.ask(operation, number), number, intended, warm_up })
    }

    /// How many operations there will be, if a number was given or follows from the rate.
    pub(crate) fn expected(&self) -> Option<u64> {
        operations(&self.phase)
    }

    fn choose(&mut self) -> (Operation, u64) {
        let weights = self.phase.mix.weights();
        let single = weights.iter().filter(|weight| **weight > 0).count() == 1;
        let index = if single {
            weights.iter().position(|weight| *weight > 0).unwrap_or(0)
        } else {
            self.draw.weighted(&weights)
        };
        let operation = Operation::ALL.get(index).copied().unwrap_or(Operation::Get);
        let drawn = self.number(operation);
        let Some(board) = &mut self.board else { return (operation, drawn) };
        if !matches!(operation, Operation::Put | Operation::Get | Operation::Head | Operation::Delete) {
            return (operation, drawn);
        }
        // All deleted: writing is what is left to do.
        match board.claim(operation, drawn) {
            Some(number) => (operation, number),
            None => (Operation::Put, board.claim(Operation::Put, drawn).unwrap_or(drawn)),
        }
    }

    fn number(&mut self, operation: Operation) -> u64 {
        let count = self.phase.keys.count;
        if matches!(operation, Operation::CreateBucket | Operation::DeleteBucket | Operation::List) {
            return self.issued;
        }
        match self.phase.keys.order {
            Order::Sequential => self.issued % count,
            Order::Once => self.shuffled.get(self.issued as usize).copied().unwrap_or(0),
            Order::Uniform => self.draw.below(count),
            Order::Hot if self.draw.chance(Ppm::percent(90)) => self.draw.below(count.div_ceil(10)),
            Order::Hot => self.draw.below(count),
            Order::Zipf => self.zipf.draw(&mut self.draw),
        }
    }

    fn ask(&mut self, operation: Operation, number: u64) -> Ask {
        let place = number as usize % self.buckets.len().max(1);
        let bucket = self.buckets.get(place).cloned().unwrap_or_default();
        let mut ask = Ask {
            operation,
            bucket,
            key: String::new(),
            body: Body::EMPTY,
            verify: self.phase.verify,
            expected: None,
            timeout: Duration::from_secs_f64(self.phase.timeout_seconds),
        };
        match operation {
            Operation::CreateBucket | Operation::DeleteBucket => {}
            Operation::List => {
                ask.key = if self.phase.keys.folders == 0 { self.prefix.clone() } else { String::new() };
                ask.expected = self.phase.list_all.then(|| self.keys_of(place as u64));
            }
            _ => {
                ask.key = key(&self.phase.keys, &self.prefix, number);
                let length = size(&self.phase.sizes, self.seed, &ask.key);
                let generation = if operation == Operation::Put { self.draw.number() } else { 0 };
                ask.body = Body::of(self.seed, &ask.key, length, generation);
            }
        }
        ask
    }

    /// How many of the keys lie in the bucket at this place.
    fn keys_of(&self, place: u64) -> u64 {
        let buckets = self.buckets.len().max(1) as u64;
        let count = self.phase.keys.count;
        count / buckets + u64::from(place < count % buckets)
    }

    /// Tells that an operation ended.
    pub(crate) fn release(&mut self, operation: Operation, number: u64, failed: bool) {
        if let Some(board) = &mut self.board {
            board.release(operation, number, failed);
        }
    }
}

/// How many measured operations a phase has, if that is known before it runs.
fn operations(phase: &Phase) -> Option<u64> {
    match phase.keys.order {
        Order::Once => Some(phase.operations.unwrap_or(u64::MAX).min(phase.keys.count)),
        _ => phase.operations,
    }
}

/// The name of a key.
fn key(keys: &Keys, prefix: &str, number: u64) -> String {
    let number = keys.first + number;
    match keys.folders {
        0 => format!("{prefix}{number:04}"),
        folders => format!("folder-{}/{prefix}{number:04}", number % folders),
    }
}

/// The size of a key's object.
fn size(sizes: &[SizeRange], seed: u64, key: &str) -> u64 {
    let hash = spread(seed, key);
    let all: u64 = sizes.iter().map(|range| range.weight).sum();
    let mut left = hash % all.max(1);
    // Another part of the same hash for the place in the range.
    let within = spread(hash, "");
    for range in sizes {
        match left.checked_sub(range.weight) {
            Some(rest) => left = rest,
            None => return place(range, within),
        }
    }
    0
}

fn place(range: &SizeRange, hash: u64) -> u64 {
    let low = range.bytes.0;
    let high = range.to.map_or(low, |to| to.0);
    if high <= low {
        return low;
    }
    match range.shape {
        Shape::Uniform => low + hash % (high - low + 1),
        Shape::Log => {
            let share = (hash >> 11) as f64 / (1_u64 << 53) as f64;
            let floor = low.max(1) as f64;
            ((floor * (high as f64 / floor).powf(share)) as u64).clamp(low, high)
        }
    }
}

fn shuffle(count: u64, draw: &mut Draw) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, draw.below(last as u64 + 1) as usize);
    }
    numbers
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
