//! One cell: its bucket, its trials, its phases.

use std::collections::BTreeMap;
use std::path::Path;

use skerry_bench::from_workload;
use skerry_scenario::topology::Topology;
use skerry_scenario::workload::Workload;

use super::error::RunError;
use super::pairs::{MISSED, STEPS, Sorted};
use super::phase::{Stand, Subject};
use super::tally::{Tally, Trial};
use crate::plan::{Action, PlannedCell, Scenario};
use crate::result::{Cell, OK, Phase};

/// What cells of one network share.
pub(super) struct Shared<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) topology: &'a Topology,
    pub(super) text: &'a str,
    /// Round-trip times come from a matrix that is not the scenario's.
    pub(super) is_foreign: bool,
    pub(super) seed: u64,
    pub(super) directory: &'a Path,
}

/// Round-trip times between sites as the links have them; within a site, its network's.
pub(super) fn rtt_ms(topology: &Topology) -> Vec<Vec<f64>> {
    let ms = |from: usize, to: usize| {
        let delay =
            |a: usize, b: usize| topology.links.get(a).and_then(|row| row.get(b)).map(|link| link.delay);
        if from == to {
            return topology.site_lan.rtt.as_secs_f64() * 1e3;
        }
        (delay(from, to).unwrap_or_default() + delay(to, from).unwrap_or_default()).as_secs_f64() * 1e3
    };
    let sites = topology.sites.len();
    (0..sites).map(|from| (0..sites).map(|to| ms(from, to)).collect()).collect()
}

/// Plays a cell; random pairs make one cell per bucket of round-trip times. `index` is its place in the result.
pub(super) fn play(
    stand: &mut Stand<'_>,
    shared: &Shared<'_>,
    planned: &PlannedCell,
    index: usize,
) -> Result<Vec<Cell>, RunError> {
    let setting = &planned.setting;
    let mut cell = blank(shared, planned, stand);
    if let Some(missing) = planned.missing() {
        cell.status = missing;
        return Ok(vec![cell]);
    }
    let makes_buckets = shared.scenario.phases.iter().any(|phase| phase.action == Action::CreateBucket);
    let bucket = format!("lab-{index:03}");
    let workload = match &setting.workload {
        Some(file) => Some(workload(file, &bucket, &mut cell.warnings)?),
        None => None,
    };
    // A scenario that makes its bucket itself, or a workload file, names one bucket.
    let per_site = setting.bucket_per_site.unwrap_or_else(|| stand.running.has_bucket_per_site());
    cell.bucket_per_site = per_site && !makes_buckets && workload.is_none();
    let mut subject =
        Subject { setting, bucket, is_per_site: cell.bucket_per_site, seed: shared.seed, workload };
    if !makes_buckets && let Some(reason) = stand.prepare(&subject, &mut cell.warnings)? {
        cell.status = reason;
        return Ok(vec![cell]);
    }
    stand.settle(setting.settle_s.unwrap_or(0.0))?;
    let mut tallies: Vec<Tally> =
        shared.scenario.phases.iter().map(|phase| Tally::new(&phase.name)).collect();
    let mut sorted = Sorted::new();
    for number in 1..=setting.trials.unwrap_or(1) {
        if makes_buckets {
            subject.bucket = format!("lab-{index:03}-t{number}");
        }
        // A step and those beside it are played together.
        let groups = shared.scenario.phases.chunk_by(|_, next| next.beside.is_some());
        let mut places = tallies.iter_mut();
        for group in groups {
            let own: Vec<&mut Tally> = places.by_ref().take(group.len()).collect();
            if let [phase] = group
                && phase.action == Action::Pairs
            {
                sorted = stand.pairs(&subject, phase, &cell.rtt_ms)?;
                continue;
            }
            let trials = stand.play(&subject, group, number, &mut cell.warnings)?;
            own.into_iter().zip(trials).for_each(|(tally, trial)| tally.add(trial));
        }
    }
    let (network, doubts) = stand.ground.network();
    cell.network = network;
    cell.warnings.extend(doubts);
    cell.warnings.sort();
    cell.warnings.dedup();
    if !sorted.is_empty() {
        return split(shared.directory, cell, sorted, index);
    }
    let phases: Result<Vec<Phase>, RunError> =
        tallies.into_iter().map(|tally| tally.finish(shared.directory, index)).collect();
    cell.phases = phases?;
    Ok(vec![cell])
}

/// A workload file as a phase; what of it is passed over is a warning.
pub(super) fn workload(
    file: &str,
    bucket: &str,
    warnings: &mut Vec<String>,
) -> Result<skerry_bench::plan::Phase, RunError> {
    let text = std::fs::read_to_string(file).map_err(RunError::machine(file))?;
    let mut workload = Workload::parse(file, &text).map_err(|refusal| RunError::Plan(refusal.to_string()))?;
    if workload.buckets > 1 {
        warnings.push(format!("{file}: one bucket instead of {}", workload.buckets));
        workload.buckets = 1;
    }
    let (phase, notes) = from_workload::phase(&workload, bucket);
    warnings.extend(notes);
    Ok(phase)
}

fn blank(shared: &Shared<'_>, planned: &PlannedCell, stand: &Stand<'_>) -> Cell {
    let settings = BTreeMap::from([("scope".to_owned(), planned.setting.scope().to_owned())]);
    let promised = stand.running.durability(&settings);
    let mut labels = planned.labels.clone();
    labels.insert("sites".into(), stand.sites.len().to_string());
    if shared.is_foreign {
        labels.remove("core_rtt_ms");
        labels.insert("topology".into(), "matrix".into());
    }
    Cell {
        labels,
        status: OK.into(),
        sites: stand.sites.to_vec(),
        rtt_ms: rtt_ms(shared.topology),
        topology: shared.text.to_owned(),
        durability: promised.into(),
        ..Cell::default()
    }
}

/// One cell for each bucket of round-trip times, and one for all.
fn split(directory: &Path, cell: Cell, sorted: Sorted, index: usize) -> Result<Vec<Cell>, RunError> {
    let mut cells = Vec::new();
    for (place, ((_, name), mut steps)) in sorted.into_iter().enumerate() {
        let mut part = cell.clone();
        part.labels.insert("rtt_ms".into(), name);
        for step in STEPS {
            let mut tally = Tally::new(step);
            let trial: Trial = steps.remove(step).unwrap_or_default();
            tally.add(trial);
            part.phases.push(tally.finish(directory, index * 10 + place)?);
        }
        if let Some(trial) = steps.remove(MISSED) {
            let (missed, pairs) =
                (trial.samples.len(), part.phases.first().map_or(0, |phase| phase.operations));
            part.warnings.push(format!(
                "{missed} of {pairs} first reads came before the object; asking again until it was there is part of the read"
            ));
            let mut tally = Tally::new(MISSED);
            tally.add(trial);
            part.phases.push(tally.finish(directory, index * 10 + place)?);
        }
        cells.push(part);
    }
    Ok(cells)
}
