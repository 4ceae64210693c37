//! An outcome as rows: one for each phase and operation, over all trials, with intervals.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::Outcome;
use crate::sample::Sample;
use crate::summary::{Interval, Summary};
use crate::target::Operation;

/// What one operation of one phase came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: Operation,
    /// Over all trials; its `seconds` and rates are those of the trials together.
    pub summary: Summary,
    /// The mean latency of each trial, in seconds.
    pub mean: Interval,
    /// Operations a second of each trial.
    pub operations_per_s: Interval,
    /// Bytes a second of each trial, by the clock on the wall.
    pub throughput_bytes_per_s: Interval,
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The phase.
    pub phase: String,
    /// The code.
    pub code: String,
    /// How often.
    pub count: u64,
    /// The story of the first.
    pub example: String,
}

/// Rows in the order in which the phases ran. Operations of the warm-up are passed over.
pub fn rows(outcome: &Outcome) -> Vec<Row> {
    let mut names: Vec<&str> = Vec::new();
    for phase in &outcome.phases {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    names.into_iter().flat_map(|name| of_phase(outcome, name)).collect()
}

fn of_phase(outcome: &Outcome, name: &str) -> Vec<Row> {
    let mut trials: BTreeMap<Operation, Vec<Summary>> = BTreeMap::new();
    let mut samples: BTreeMap<Operation, Vec<&Sample>> = BTreeMap::new();
    for phase in outcome.phases.iter().filter(|phase| phase.name == name) {
        for (operation, summary) in Summary::by_operation(&phase.samples) {
            trials.entry(operation).or_default().push(summary);
        }
        for sample in &phase.samples {
            samples.entry(sample.operation).or_default().push(sample);
        }
    }
    let row = |(operation, trials): (Operation, Vec<Summary>)| {
        let of = |value: fn(&Summary) -> f64| Interval::of(&trials.iter().map(value).collect::<Vec<_>>());
        let all = samples.get(&operation).into_iter().flatten().copied();
        let mut summary = Summary::of(all);
        // Trials begin at nothing each: together they took the sum of their times.
        summary.seconds = trials.iter().map(|trial| trial.seconds).sum();
        let rate = |amount: f64| if summary.seconds > 0.0 { amount / summary.seconds } else { 0.0 };
        summary.operations_per_s = rate(summary.count as f64);
        summary.throughput_bytes_per_s = rate(summary.bytes as f64);
        // Workers of different trials did not work at the same time.
        summary.busy_bytes_per_s = of(|trial| trial.busy_bytes_per_s).mean;
        // A trial in which nothing succeeded has no latency; it would pull the mean down.
        let means: Vec<f64> = trials.iter().filter(|trial| trial.count > 0).map(|trial| trial.mean).collect();
        Row {
            phase: name.to_owned(),
            operation,
            summary,
            mean: Interval::of(&means),
            operations_per_s: of(|trial| trial.operations_per_s),
            throughput_bytes_per_s: of(|trial| trial.throughput_bytes_per_s),
        }
    };
    trials.into_iter().map(row).collect()
}

/// Failures by phase and code, those of the warm-up included: none is dropped.
pub fn failures(outcome: &Outcome) -> Vec<Failed> {
    let mut found: BTreeMap<(String, String), Failed> = BTreeMap::new();
    for phase in &outcome.phases {
        for sample in phase.samples.iter().filter(|sample| !sample.failure.is_empty()) {
            let key = (phase.name.clone(), sample.failure.to_string());
            let failed = found.entry(key).or_insert_with(|| Failed {
                phase: phase.name.clone(),
                code: sample.failure.to_string(),
                count: 0,
                example: phase.examples.get(&sample.failure).cloned().unwrap_or_default(),
            });
            failed.count += 1;
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::engine::PhaseOutcome;

    fn phase(trial: u64, millis: &[u64]) -> PhaseOutcome {
        let sample = |(number, millis): (usize, &u64)| Sample {
            phase: "read".into(),
            trial,
            client: 0,
            worker: number as u64,
            warm_up: false,
            operation: Operation::Get,
            bucket: "b".into(),
            key: "k".into(),
            bytes: 1000,
            start_ns: 0,
            wait_ns: 0,
            connect_ns: 0,
            first_byte_ns: 0,
            total_ns: millis * 1_000_000,
            failure: if *millis == 0 { "timeout".into() } else { "".into() },
        };
        PhaseOutcome {
            name: "read".into(),
            trial,
            started_wall_ms: 0,
            seconds: 1.0,
            samples: millis.iter().enumerate().map(sample).collect(),
            examples: [("timeout".into(), format!("trial {trial}"))].into(),
        }
    }

    #[test]
    fn trials_become_one_row_with_an_interval() {
        let outcome = Outcome { phases: vec![phase(1, &[10, 20]), phase(2, &[20, 30, 0])], stopped: false };
        let rows = rows(&outcome);
        let row = rows.first().unwrap();
        assert_eq!((rows.len(), row.summary.count, row.summary.failures), (1, 4, 1));
        assert!((row.mean.mean - 0.020).abs() < 1e-9, "the mean of 15 and 25 ms");
        // s = 7.07 ms, t(1) = 12.706.
        assert!((row.mean.half - 0.06353).abs() < 1e-4, "{:?}", row.mean);
        assert!((row.summary.seconds - 0.050).abs() < 1e-9);
        let failures = failures(&outcome);
        assert_eq!(failures.first().unwrap().count, 1);
        assert_eq!(failures.first().unwrap().example, "trial 2");
    }
}
