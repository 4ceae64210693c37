//! Gathers what all trials of one phase came to.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skerry_bench::sample::{Sample, write_csv};

use super::error::RunError;
use crate::result::{Event, Phase, ProcessUse, Summary, Traffic};
use crate::systems::ProcessStatus;

/// One phase over all trials.
#[derive(Debug, Default)]
pub(super) struct Tally {
    name: String,
    seconds: f64,
    settled: f64,
    samples: Vec<Sample>,
    texts: BTreeMap<String, u64>,
    traffic: Traffic,
    processes: BTreeMap<(String, String), ProcessUse>,
    events: Vec<Event>,
}

/// One trial of a phase.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// From 1.
    pub(super) number: u64,
    /// From the common begin to the end of the last operation.
    pub(super) seconds: f64,
    /// How long the network was watched afterwards, until it was quiet.
    pub(super) settled: f64,
    /// Of all clients.
    pub(super) samples: Vec<Sample>,
    /// Stories of failures by code.
    pub(super) examples: BTreeMap<String, String>,
    /// What crossed the network, settling included.
    pub(super) traffic: Traffic,
    /// What processes had used before and after.
    pub(super) processes: (Vec<ProcessStatus>, Vec<ProcessStatus>),
    /// What was done to the network.
    pub(super) events: Vec<Event>,
}

impl Tally {
    /// Of a phase of that name.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Adds a trial.
    pub(super) fn add(&mut self, trial: Trial) {
        self.seconds += trial.seconds;
        self.settled += trial.settled;
        self.traffic.add(&trial.traffic);
        self.events.extend(trial.events);
        let phase: Arc<str> = self.name.as_str().into();
        for mut sample in trial.samples {
            sample.trial = trial.number;
            sample.phase = Arc::clone(&phase);
            if !sample.failure.is_empty() {
                let story = trial.examples.get(&*sample.failure).cloned();
                *self.texts.entry(story.unwrap_or_else(|| sample.failure.to_string())).or_default() += 1;
            }
            self.samples.push(sample);
        }
        let (before, after) = &trial.processes;
        for now in after {
            self.used(before, now);
        }
    }

    fn used(&mut self, before: &[ProcessStatus], now: &ProcessStatus) {
        let start = before.iter().find(|process| process.pid == now.pid);
        let start = start.map(|process| process.usage).unwrap_or_default();
        let key = (now.host.clone(), now.name.clone());
        let used = self.processes.entry(key).or_insert_with(|| ProcessUse {
            host: now.host.clone(),
            name: now.name.clone(),
            ..ProcessUse::default()
        });
        used.cpu_seconds += (now.usage.cpu_seconds - start.cpu_seconds).max(0.0);
        used.written_bytes += now.usage.written_bytes.saturating_sub(start.written_bytes);
        used.peak_rss_bytes = used.peak_rss_bytes.max(now.usage.peak_rss_bytes);
    }

    /// Writes the samples to `directory/csv` and makes the phase of them.
    pub(super) fn finish(self, directory: &Path, cell: usize) -> Result<Phase, RunError> {
        let file: String = self.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let csv = PathBuf::from("csv").join(format!("{cell:03}-{file}.csv"));
        let path = directory.join(&csv);
        let to = File::create(&path).map_err(RunError::machine(path.display()))?;
        write_csv(to, &self.samples)
            .map_err(|error| RunError::Machine(format!("{}: {error}", path.display())))?;
        let mut by_trial: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            by_trial.entry(sample.trial).or_default().push(sample);
        }
        let mut summary = Summary::of(&self.samples);
        // Begins of trials overlap in the samples: the time of all is the sum of theirs.
        summary.seconds = self.seconds;
        summary.throughput_bytes_per_s = summary.bytes as f64 / self.seconds.max(1e-9);
        summary.operations_per_s = summary.count as f64 / self.seconds.max(1e-9);
        let trials: Vec<Summary> = by_trial.into_values().map(Summary::of).collect();
        summary.busy_bytes_per_s =
            trials.iter().map(|trial| trial.busy_bytes_per_s).sum::<f64>() / trials.len().max(1) as f64;
        Ok(Phase {
            operations: self.samples.len() as u64,
            failures: self.samples.iter().filter(|sample| !sample.failure.is_empty()).count() as u64,
            name: self.name,
            seconds: self.seconds,
            settled_seconds: self.settled,
            failure_texts: self.texts,
            summary,
            trials,
            order: BTreeMap::new(),
            csv,
            traffic: self.traffic,
            processes: self.processes.into_values().collect(),
            events: self.events,
        })
    }
}
