//! The engine against targets of a known speed, in virtual time.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::*;
use crate::plan::{Keys, Mix, Order};
use crate::summary::Summary;
use crate::target::{Ask, Operation};

/// Answers after a time of its own for each operation, in their order.
struct Clockwork {
    millis: Box<dyn Fn(u64) -> u64 + Send + Sync>,
    fails: fn(u64) -> bool,
    asked: AtomicU64,
    connected: AtomicU64,
}

impl Clockwork {
    fn new(millis: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self {
            millis: Box::new(millis),
            fails: |_| false,
            asked: AtomicU64::new(0),
            connected: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl Target for Clockwork {
    fn describe(&self) -> String {
        "clockwork".into()
    }

    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        if slot.take::<u8>().is_none() {
            self.connected.fetch_add(1, Ordering::Relaxed);
        }
        sleep_until(Instant::now() + Duration::from_millis((self.millis)(number))).await;
        slot.keep(1_u8);
        let failure = (self.fails)(number).then(|| Failure::new("503 SlowDown", "too fast"));
        Done { bytes: ask.body.length, failure, ..Done::default() }
    }
}

fn phase(workers: u64) -> Phase {
    let keys = Keys { count: 50, order: Order::Sequential, ..Keys::default() };
    Phase { workers, keys, ..Phase::new("read", Operation::Get) }
}

async fn outcome_of(phase: Phase, target: Clockwork) -> (PhaseOutcome, Arc<Clockwork>) {
    let plan =
        Plan { name: String::new(), seed: 1, client: 0, trials: 1, begin_wall_ms: None, phases: vec![phase] };
    let target = Arc::new(target);
    let progress = Arc::default();
    let outcome = run(&plan, Arc::clone(&target) as Arc<dyn Target>, &progress, None).await.unwrap();
    (outcome.phases.into_iter().next().unwrap(), target)
}

#[tokio::test(start_paused = true)]
async fn a_fixed_rate_tells_the_stall_to_every_operation_that_was_due() {
    // 100 a second, 1 ms each, but the 101st takes a second: with one worker 100 operations fall due meanwhile.
    let arrival = Arrival::Rate(100.0);
    let target = Clockwork::new(|number| if number == 100 { 1000 } else { 1 });
    let (outcome, _) = outcome_of(Phase { arrival, operations: Some(400), ..phase(1) }, target).await;
    assert_eq!(outcome.samples.len(), 400);
    for (number, sample) in outcome.samples.iter().enumerate() {
        assert_eq!(sample.start_ns, 10_000_000 * number as u64, "the intended begin");
    }
    let summary = Summary::of(&outcome.samples);
    // Measured from the true begin, one of 400 would be slow and p90 1 ms: that is the omission.
    let slow = outcome.samples.iter().filter(|sample| sample.total_ns > 100_000_000).count();
    assert!((95..=115).contains(&slow), "{slow} operations saw the stall");
    assert!(summary.p90 > 0.5, "{}", summary.p90);
    let served = |sample: &Sample| sample.total_ns - sample.wait_ns;
    assert_eq!(outcome.samples.iter().filter(|sample| served(sample) > 100_000_000).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_cannot_be_kept_is_a_failure_of_each_operation_not_begun() {
    let arrival = Arrival::Rate(100.0);
    let target = Clockwork::new(|_| 100);
    let (outcome, target) = outcome_of(Phase { arrival, seconds: Some(2.0), ..phase(1) }, target).await;
    let summary = Summary::of(&outcome.samples);
    assert_eq!(summary.asked(), 200);
    assert_eq!(summary.failure_codes.get(NOT_BEGUN), Some(&summary.failures));
    assert_eq!(summary.count, target.asked.load(Ordering::Relaxed));
    assert!((19..=21).contains(&summary.count), "{}", summary.count);
}

#[tokio::test(start_paused = true)]
async fn all_at_once_begins_all_and_a_spread_spreads() {
    let begins = |arrival| async move {
        let phase = Phase { arrival, operations: Some(50), ..phase(50) };
        let (outcome, _) = outcome_of(phase, Clockwork::new(|_| 5000)).await;
        let begins: Vec<u64> = outcome.samples.iter().map(|sample| sample.start_ns / 1_000_000).collect();
        assert_eq!(begins.len(), 50);
        begins
    };
    assert!(begins(Arrival::AtOnce).await.iter().all(|begin| *begin == 0));
    let spread = begins(Arrival::Spread(1000)).await;
    assert!(spread.iter().all(|begin| *begin <= 1001) && spread.last() > Some(&900));
    let early = spread.iter().filter(|begin| **begin < 500).count();
    assert!((12..=38).contains(&early), "{early} of 50 in the first half");
}

#[tokio::test(start_paused = true)]
async fn time_ends_a_phase_and_the_warm_up_is_marked() {
    let warm = Phase { seconds: Some(1.0), warm_up_seconds: 0.5, ..phase(2) };
    let (outcome, _) = outcome_of(warm, Clockwork::new(|_| 10)).await;
    assert_eq!(outcome.samples.len(), 300);
    assert_eq!(outcome.samples.iter().filter(|sample| sample.warm_up).count(), 100);
    let summary = Summary::of(&outcome.samples);
    assert_eq!(summary.count, 200);
    assert!((summary.seconds - 1.0).abs() < 0.02, "{}", summary.seconds);
}

#[tokio::test(start_paused = true)]
async fn connections_are_kept_or_made_anew() {
    for (connections, expected) in [(Connections::Keep, 4), (Connections::New, 40)] {
        let phase = Phase { connections, operations: Some(40), ..phase(4) };
        let (_, target) = outcome_of(phase, Clockwork::new(|_| 1)).await;
        assert_eq!(target.connected.load(Ordering::Relaxed), expected, "{connections:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_timeouts_are_samples_like_others() {
    let target = Clockwork {
        fails: |number| number % 4 == 0,
        ..Clockwork::new(|number| if number == 7 { 60_000 } else { 1 })
    };
    let phase = Phase { operations: Some(40), timeout_seconds: 0.005, ..phase(4) };
    let (outcome, target) = outcome_of(phase, target).await;
    let summary = Summary::of(&outcome.samples);
    assert_eq!(summary.asked(), 40);
    assert_eq!(summary.failure_codes.get("503 SlowDown"), Some(&10));
    assert_eq!(summary.failure_codes.get(TIMEOUT), Some(&1));
    assert_eq!(outcome.examples.get("503 SlowDown").map(String::as_str), Some("too fast"));
    // After a timeout the connection is in an unknown state and is not used again.
    assert_eq!(target.connected.load(Ordering::Relaxed), 5);
}

/// What comes of a plan that its tenth operation stops.
async fn stopped(trials: u64, phase: Phase) -> Outcome {
    let plan =
        Plan { name: String::new(), seed: 1, client: 0, trials, begin_wall_ms: None, phases: vec![phase] };
    let progress: Arc<Progress> = Arc::default();
    let stopper = Arc::clone(&progress);
    let target = Clockwork::new(move |number| {
        if number == 9 {
            stopper.stop();
        }
        1
    });
    run(&plan, Arc::new(target), &progress, None).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_stops_gets_what_was_measured() {
    let outcome = stopped(3, Phase { seconds: Some(1000.0), ..phase(1) }).await;
    assert!(outcome.stopped);
    assert_eq!(outcome.phases.iter().map(|phase| phase.samples.len()).sum::<usize>(), 10);
}

/// Who waits for his turn at a rate when all is stopped has nothing to do any more: what is due later would have taken no time.
#[tokio::test(start_paused = true)]
async fn nothing_is_begun_by_those_who_waited_when_a_run_at_a_rate_is_stopped() {
    let at_a_rate = Phase { seconds: Some(1000.0), arrival: Arrival::Rate(10.0), ..phase(4) };
    let samples = &stopped(1, at_a_rate).await.phases[0].samples;
    assert_eq!(samples.len(), 10);
    assert!(samples.iter().all(|sample| sample.total_ns > 0), "{samples:?}");
}

#[tokio::test(start_paused = true)]
async fn hooks_run_before_each_phase_of_each_trial_and_may_refuse() {
    let phases = vec![
        Phase { operations: Some(1), ..phase(1) },
        Phase { operations: Some(1), name: "again".into(), ..phase(1) },
    ];
    let plan = Plan { name: String::new(), seed: 1, client: 0, trials: 2, begin_wall_ms: None, phases };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let hook: Hook = Box::new(move |phase, trial| {
        noted.lock().unwrap().push((phase.name.clone(), trial));
        if trial == 2 && phase.name == "again" { Err("no".into()) } else { Ok(()) }
    });
    let refused =
        run(&plan, Arc::new(Clockwork::new(|_| 1)), &Arc::default(), Some(&hook)).await.unwrap_err();
    assert_eq!(refused, RunError::Hook { phase: "again".into(), reason: "no".into() });
    let names: Vec<_> = seen.lock().unwrap().iter().map(|(name, trial)| format!("{name}{trial}")).collect();
    assert_eq!(names, ["read1", "again1", "read2", "again2"]);
}

#[tokio::test(start_paused = true)]
async fn a_mix_with_deletes_never_asks_for_what_it_deleted() {
    let mix = Mix { get: 5, delete: 2, put: 1, ..Mix::default() };
    let keys = Keys { count: 20, order: Order::Uniform, ..Keys::default() };
    let phase = Phase { mix, keys, operations: Some(2000), ..phase(8) };
    let (outcome, _) = outcome_of(phase, Clockwork::new(|number| number % 7)).await;
    let mut there: BTreeMap<&str, bool> = BTreeMap::new();
    let mut ends: Vec<&Sample> = outcome.samples.iter().collect();
    ends.sort_by_key(|sample| sample.start_ns + sample.total_ns);
    for sample in ends {
        let present = there.entry(&sample.key).or_insert(true);
        match sample.operation {
            Operation::Put => *present = true,
            Operation::Delete => *present = false,
            _ => assert!(*present, "{} was deleted", sample.key),
        }
    }
}
