//! Runs a plan against a target: workers, arrival, time, samples.
//!
//! Each worker is a task with samples of its own; they share the schedule. One thread is enough, and best where client
//! and server share a machine: what the generator costs is time the server lacks.
//!
//! Invariants: every operation that was due has a sample, whatever became of it; at a fixed rate latency counts from the
//! intended begin; nothing outlives the run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use skerry_scenario::draw::Draw;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::pace::Gate;
use crate::plan::{Arrival, Connections, Phase, Plan};
use crate::progress::{Current, Progress};
use crate::sample::Sample;
use crate::schedule::{Planned, Schedule};
use crate::target::{CONNECT, Done, Failure, NOT_BEGUN, Slot, TIMEOUT, Target};

/// Called before each phase (after its pause): drop caches, take counters. An error ends the run.
pub type Hook = Box<dyn Fn(&Phase, u64) -> Result<(), String> + Send + Sync>;

/// A worker that could not connect rests so long, or it would do nothing but count failures.
const REST: Duration = Duration::from_millis(100);

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Phases of all trials, in the order in which they ran.
    pub phases: Vec<PhaseOutcome>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// One phase of one trial.
#[derive(Debug, Clone)]
pub struct PhaseOutcome {
    /// Its name.
    pub name: String,
    /// Which trial, from 1.
    pub trial: u64,
    /// When it began, in milliseconds since 1970.
    pub started_wall_ms: u64,
    /// From its begin to the end of the last operation.
    pub seconds: f64,
    /// All operations, failed ones and those of the warm-up included, in the order of their begin.
    pub samples: Vec<Sample>,
    /// For each code of failure the story of the first.
    pub examples: BTreeMap<Arc<str>, String>,
}

/// Why a plan did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The plan makes no sense; says which phase and field.
    #[error("{0}")]
    Plan(String),
    /// The hook before a phase failed.
    #[error("before phase {phase}: {reason}")]
    Hook {
        /// The phase.
        phase: String,
        /// Why.
        reason: String,
    },
    /// The engine itself.
    #[error("the load generator failed: {0}")]
    Engine(String),
}

/// Runs all phases of all trials on the current tokio runtime; one thread is enough.
pub async fn run(
    plan: &Plan,
    target: Arc<dyn Target>,
    progress: &Arc<Progress>,
    hook: Option<&Hook>,
) -> Result<Outcome, RunError> {
    plan.check().map_err(RunError::Plan)?;
    if let Some(begin) = plan.begin_wall_ms {
        sleep_until(Instant::now() + Duration::from_millis(begin.saturating_sub(wall_ms()))).await;
    }
    let mut outcome = Outcome::default();
    for trial in 1..=plan.trials {
        for phase in &plan.phases {
            rest(Duration::from_secs_f64(phase.pause_seconds), progress).await;
            if progress.stopped() {
                return Ok(Outcome { stopped: true, ..outcome });
            }
            if let Some(hook) = hook {
                hook(phase, trial).map_err(|reason| RunError::Hook { phase: phase.name.clone(), reason })?;
            }
            let number = outcome.phases.len() as u64;
            outcome.phases.push(run_phase(plan, phase, trial, &target, (progress, number)).await?);
        }
    }
    Ok(Outcome { stopped: progress.stopped(), ..outcome })
}

/// The same on a runtime of its own, with one thread: for callers that have none.
pub fn run_blocking(
    plan: &Plan,
    target: Arc<dyn Target>,
    progress: &Arc<Progress>,
    hook: Option<&Hook>,
) -> Result<Outcome, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| RunError::Engine(format!("runtime: {error}")))?;
    runtime.block_on(run(plan, target, progress, hook))
}

/// A pause that a wish to stop ends.
async fn rest(pause: Duration, progress: &Progress) {
    let end = Instant::now() + pause;
    while Instant::now() < end && !progress.stopped() {
        sleep_until(end.min(Instant::now() + REST)).await;
    }
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// What the workers of a phase share.
struct Shared {
    name: Arc<str>,
    trial: u64,
    client: u64,
    phase: Phase,
    target: Arc<dyn Target>,
    progress: Arc<Progress>,
    schedule: Mutex<Schedule>,
    gate: Option<Gate>,
    begin: Instant,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Also when the run itself is dropped: the gate has a thread.
        if let Some(gate) = &self.gate {
            gate.close();
        }
    }
}

/// What a worker brings home.
#[derive(Default)]
struct Harvest {
    samples: Vec<Sample>,
    examples: BTreeMap<Arc<str>, String>,
}

async fn run_phase(
    plan: &Plan,
    phase: &Phase,
    trial: u64,
    target: &Arc<dyn Target>,
    (progress, number): (&Arc<Progress>, u64),
) -> Result<PhaseOutcome, RunError> {
    let schedule = Schedule::new(plan, phase, trial);
    let operations = schedule.expected();
    let seconds = phase.seconds.map(|seconds| seconds + phase.warm_up_seconds);
    progress.begin(Current { name: phase.name.clone(), trial, operations, seconds, number });
    let started_wall_ms = wall_ms();
    let begin = Instant::now();
    let gate = match phase.arrival {
        Arrival::Rate(per_second) => Some(Gate::open(per_second, begin, phase.workers, Arc::clone(progress))),
        _ => None,
    };
    let shared = Arc::new(Shared {
        name: phase.name.as_str().into(),
        trial,
        client: plan.client,
        phase: phase.clone(),
        target: Arc::clone(target),
        progress: Arc::clone(progress),
        schedule: Mutex::new(schedule),
        gate,
        begin,
    });
    let mut delays =
        Draw::from_seed(plan.seed).fork(&format!("arrival/{}/{trial}/{}", phase.name, plan.client));
    let mut workers = JoinSet::new();
    for number in 0..phase.workers {
        let spread = if let Arrival::Spread(spread_ms) = phase.arrival { spread_ms } else { 0 };
        let delay = Duration::from_micros(delays.below(spread * 1000));
        let pauses = delays.fork(&format!("think/{number}"));
        workers.spawn(work(Arc::clone(&shared), number, delay, pauses));
    }
    let mut harvest = Harvest::default();
    while let Some(ended) = workers.join_next().await {
        let one = ended.map_err(|error| RunError::Engine(error.to_string()))?;
        harvest.samples.extend(one.samples);
        for (code, story) in one.examples {
            harvest.examples.entry(code).or_insert(story);
        }
    }
    harvest.samples.sort_by_key(|sample| (sample.start_ns, sample.worker));
    Ok(PhaseOutcome {
        name: phase.name.clone(),
        trial,
        started_wall_ms,
        seconds: begin.elapsed().as_secs_f64(),
        samples: harvest.samples,
        examples: harvest.examples,
    })
}

/// One worker from the first operation to the last.
async fn work(shared: Arc<Shared>, number: u64, delay: Duration, mut pauses: Draw) -> Harvest {
    let mut slot = Slot::new(number);
    let mut harvest = Harvest::default();
    if !delay.is_zero() {
        sleep_until(shared.begin + delay).await;
    }
    while !shared.progress.stopped() {
        if let Some(gate) = &shared.gate {
            gate.pass().await;
            // Whoever stops lets all pass who wait: what was due later is not begun, nor counted as if it took no time.
            if shared.progress.stopped() {
                break;
            }
        }
        let next = shared.schedule(|schedule| schedule.next(shared.begin.elapsed()));
        let Some(planned) = next else { break };
        let failed_to_connect = shared.carry_out(planned, &mut slot, &mut harvest).await;
        let [low, high] = shared.phase.think_ms;
        let mut pause = Duration::from_micros(pauses.between(low * 1000..=high * 1000));
        if failed_to_connect && shared.gate.is_none() {
            pause = pause.max(REST);
        }
        if !pause.is_zero() {
            sleep_until(Instant::now() + pause).await;
        }
    }
    if let Some(gate) = &shared.gate {
        gate.close();
    }
    harvest
}

impl Shared {
    fn schedule<T>(&self, act: impl FnOnce(&mut Schedule) -> T) -> T {
        act(&mut self.schedule.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether an operation with a set time would begin only now, after the end of the phase.
    fn is_too_late(&self, intended: Option<Duration>) -> bool {
        let end = self.phase.seconds.map(|seconds| seconds + self.phase.warm_up_seconds);
        intended.is_some() && end.is_some_and(|end| self.begin.elapsed().as_secs_f64() >= end)
    }

    /// Performs one operation and notes it; answers whether it failed for want of a connection.
    async fn carry_out(&self, planned: Planned, slot: &mut Slot, harvest: &mut Harvest) -> bool {
        let Planned { ask, number, intended, warm_up } = planned;
        if self.phase.connections == Connections::New {
            slot.clear();
        }
        let begin = Instant::now();
        let start = intended.unwrap_or_else(|| begin - self.begin);
        let done = if self.is_too_late(intended) {
            let story = "the phase was over before a worker was free: the target is slower than the rate";
            Done { failure: Some(Failure::new(NOT_BEGUN, story)), ..Done::default() }
        } else {
            timeout(ask.timeout, self.target.perform(slot, &ask)).await.unwrap_or_else(|_| {
                slot.clear();
                let story =
                    format!("{} {}/{}: no end within {:?}", ask.operation, ask.bucket, ask.key, ask.timeout);
                Done { failure: Some(Failure::new(TIMEOUT, story)), ..Done::default() }
            })
        };
        let total = self.begin.elapsed().saturating_sub(start);
        let wait = (begin - self.begin).saturating_sub(start);
        self.schedule(|schedule| schedule.release(ask.operation, number, done.failure.is_some()));
        self.progress.count(done.bytes, done.failure.is_some());
        let code = match done.failure {
            None => Arc::default(),
            Some(failure) => {
                harvest.examples.entry(Arc::clone(&failure.code)).or_insert(failure.message);
                failure.code
            }
        };
        let failed_to_connect = code.as_ref() == CONNECT;
        harvest.samples.push(Sample {
            phase: Arc::clone(&self.name),
            trial: self.trial,
            client: self.client,
            worker: slot.worker,
            warm_up,
            operation: ask.operation,
            bucket: ask.bucket,
            key: ask.key,
            bytes: done.bytes,
            start_ns: nanos(start),
            wait_ns: nanos(wait),
            connect_ns: done.connect_ns,
            first_byte_ns: done.first_byte_ns,
            total_ns: nanos(total),
            failure: code,
        });
        failed_to_connect
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
