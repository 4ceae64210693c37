//! Random pairs: one client writes an object, another reads it, one pair after the other.
//!
//! The paper's reader waits until the object is pinned; here it asks until the object is there, and all of that counts.
//!
//! Invariants: the sequence of pairs depends on the seed alone, so that every system is asked the same; a pair belongs
//! to the class of its own round-trip time, by exact match of its sites (assigning pairs by matching names in text
//! puts pairs of `node_10` to `node_1`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use skerry_bench::plan::Plan;
use skerry_bench::sample::Sample;
use skerry_bench::target::Operation;
use skerry_scenario::draw::Draw;

use super::error::RunError;
use super::phase::{Answer, Stand, Subject, bench_phase};
use super::probe::plan;
use super::tally::Trial;
use crate::plan::Phase;

/// Upper ends of the classes of round-trip times in milliseconds; what is beyond is in the last one.
const ENDS: [u64; 6] = [50, 100, 150, 200, 250, 300];
/// The phases that a pair makes.
pub(super) const STEPS: [&str; 3] = ["write", "read", "write+read"];
/// First reads that came before the object: not a part of any figure, but never hidden.
pub(super) const MISSED: &str = "missed";
/// The failure of a read that comes too early.
const NOT_THERE: &str = "NoSuchKey";
/// An object that was acknowledged must be readable everywhere within this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two asks.
const RETRY: Duration = Duration::from_millis(5);
/// The label of all pairs together.
pub(super) const ALL: &str = "all";

/// Trials of each step by class.
pub(super) type Sorted = BTreeMap<(usize, String), BTreeMap<&'static str, Trial>>;

/// The class of a round-trip time: its place and its name.
pub(super) fn class(rtt_ms: f64) -> (usize, String) {
    let place = ENDS.iter().position(|end| rtt_ms < *end as f64).unwrap_or(ENDS.len());
    let start = place.checked_sub(1).and_then(|before| ENDS.get(before)).copied().unwrap_or(0);
    match ENDS.get(place) {
        Some(end) => (place, format!("{start}-{end}")),
        None => (place, format!("{start}+")),
    }
}

/// What a pair writes and reads.
struct Pair<'a> {
    subject: &'a Subject<'a>,
    phase: &'a Phase,
    bucket: String,
    number: u64,
}

impl Stand<'_> {
    /// Plays all pairs and sorts them; `rtt_ms` is by site.
    pub(super) fn pairs(
        &mut self,
        subject: &Subject<'_>,
        phase: &Phase,
        rtt_ms: &[Vec<f64>],
    ) -> Result<Sorted, RunError> {
        let mut draw = Draw::from_seed(subject.seed).fork("pairs");
        let count = subject.setting.pairs.unwrap_or(100);
        let clients = self.clients.iter().filter(|client| client.slot == 0).count() as u64;
        if clients < 2 {
            return Err(RunError::Plan("pairs need at least two clients".into()));
        }
        self.screen.phase(&phase.name, count);
        self.running.reset_peaks();
        let (processes, traffic) = (self.running.processes(), self.ground.traffic());
        let mut sorted = Sorted::new();
        for number in 0..count {
            let writer = draw.below(clients) as usize;
            let reader = (writer + 1 + draw.below(clients - 1) as usize) % clients as usize;
            let bucket = subject.bucket_of(self.clients.get(writer).map_or(0, |client| client.site));
            let pair = Pair { subject, phase, bucket, number };
            let write = self.step(&pair, Operation::Put, writer)?;
            let (read, missed) = self.read(&pair, reader)?;
            let rtt = self.rtt(rtt_ms, writer, reader);
            for key in [class(rtt), (usize::MAX, ALL.to_owned())] {
                let steps = sorted.entry(key).or_default();
                put(steps, number, &write, &read);
                if let Some(missed) = &missed {
                    note(steps, number, missed);
                }
            }
            self.screen.at(number + 1);
        }
        if let Some(all) = sorted.get_mut(&(usize::MAX, ALL.to_owned()))
            && let Some(trial) = all.get_mut("write+read")
        {
            trial.traffic = self.ground.traffic().since(&traffic);
            trial.processes = (processes, self.running.processes());
        }
        Ok(sorted)
    }

    /// Reads until the object is there: what was written elsewhere may not have arrived. The time counts from the
    /// first ask; the first miss comes along.
    fn read(&mut self, pair: &Pair<'_>, reader: usize) -> Result<(Answer, Option<Sample>), RunError> {
        let begin = Instant::now();
        let mut missed: Option<Sample> = None;
        loop {
            let waited = begin.elapsed();
            let mut read = self.step(pair, Operation::Get, reader)?;
            let miss = read.samples.first().filter(|sample| sample.failure.contains(NOT_THERE));
            let Some(miss) = miss.filter(|_| waited < PATIENCE) else {
                if missed.is_some() {
                    late(&mut read, waited);
                }
                return Ok((read, missed));
            };
            missed.get_or_insert_with(|| miss.clone());
            self.watch.wait(self.running, RETRY, || Ok(false))?;
        }
    }

    fn rtt(&self, rtt_ms: &[Vec<f64>], writer: usize, reader: usize) -> f64 {
        let site = |client: usize| self.clients.get(client).map_or(0, |client| client.site);
        rtt_ms.get(site(writer)).and_then(|row| row.get(site(reader))).copied().unwrap_or(0.0)
    }

    fn step(&mut self, pair: &Pair<'_>, operation: Operation, client: usize) -> Result<Answer, RunError> {
        let Pair { subject, phase, bucket, number } = pair;
        let place = (bucket.clone(), format!("pair-{number:05}-"));
        let mut work = bench_phase(subject, phase, operation, place);
        work.operations = Some(1);
        work.keys.count = 1;
        let plan = Plan { name: phase.name.clone(), phases: vec![work], ..plan(subject, client) };
        self.single(client, plan, None)
    }
}

fn put(steps: &mut BTreeMap<&'static str, Trial>, number: u64, write: &Answer, read: &Answer) {
    let both = match (write.samples.first(), read.samples.first()) {
        (Some(write), Some(read)) => vec![together(write, read)],
        _ => Vec::new(),
    };
    let seconds = [write.seconds, read.seconds, write.seconds + read.seconds];
    let samples = [write.samples.clone(), read.samples.clone(), both];
    for ((step, seconds), samples) in STEPS.into_iter().zip(seconds).zip(samples) {
        let trial = steps.entry(step).or_default();
        trial.number = 1;
        // Pairs follow each other: a sample begins where the ones before it ended.
        let begin = (trial.seconds * 1e9) as u64;
        trial.seconds += seconds;
        trial.samples.extend(samples.into_iter().map(|sample| Sample {
            worker: number,
            start_ns: begin,
            ..sample
        }));
        for answer in [write, read] {
            trial.examples.extend(answer.examples.clone());
        }
    }
}

/// A first read that found nothing, as a step of its own.
fn note(steps: &mut BTreeMap<&'static str, Trial>, number: u64, missed: &Sample) {
    let trial = steps.entry(MISSED).or_default();
    trial.number = 1;
    trial.seconds += missed.total_ns as f64 / 1e9;
    trial.samples.push(Sample { worker: number, ..missed.clone() });
}

/// Counts what was waited before the ask that found it.
fn late(read: &mut Answer, waited: Duration) {
    let nanos = waited.as_nanos() as u64;
    read.seconds += waited.as_secs_f64();
    for sample in &mut read.samples {
        sample.first_byte_ns += nanos;
        sample.total_ns += nanos;
    }
}

/// A write and the read after it as one operation.
fn together(write: &Sample, read: &Sample) -> Sample {
    let failure = if write.failure.is_empty() { read.failure.clone() } else { write.failure.clone() };
    Sample {
        connect_ns: write.connect_ns + read.connect_ns,
        first_byte_ns: write.total_ns + read.first_byte_ns,
        total_ns: write.total_ns + read.total_ns,
        failure,
        ..read.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn a_pair_is_in_the_class_of_its_own_time() {
        let names: Vec<String> = [0.0, 49.9, 50.0, 299.0, 300.0, 508.9].map(|rtt| class(rtt).1).into();
        assert_eq!(names, ["0-50", "0-50", "50-100", "250-300", "300+", "300+"]);
    }
}
