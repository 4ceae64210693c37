//! Figures for people, for programs and for plots, and what they mean for the exit code.

use std::path::Path;

use serde_json::{Value, json};
use skerry_bench::plan::Plan;
use skerry_bench::plot;
use skerry_bench::rows::{Failed, Row, failures, rows};
use skerry_bench::sample::{Sample, write_csv};
use skerry_bench::summary::Interval;
use skerry_bench::target::CONNECT;

use super::Measure;
use super::flow::Measurement;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Writes the files that were asked for.
pub(super) fn files(measure: &Measure, title: &str, samples: &[&Sample]) -> Outcome<()> {
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
    if let Some(path) = &measure.csv {
        let file = std::fs::File::create(path).map_err(|error| failed(path, &error))?;
        write_csv(std::io::BufWriter::new(file), samples.iter().copied())
            .map_err(|error| failed(path, &error))?;
    }
    if let Some(path) = &measure.plot {
        std::fs::write(path, plot::svg(title, samples.iter().copied()))
            .map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

/// All samples of a measurement, phase by phase.
pub(super) fn samples(measurement: &Measurement) -> Vec<&Sample> {
    measurement.outcome.phases.iter().flat_map(|phase| &phase.samples).collect()
}

/// Prints a measurement and answers with the exit code it means.
pub(super) fn show(measurement: &Measurement, target: &str, plan: &Plan, json: bool) -> Outcome {
    let rows = rows(&measurement.outcome);
    let failed = failures(&measurement.outcome);
    if json {
        let phases: Vec<Value> = rows.iter().map(|row| row_of(row, measurement)).collect();
        let document = json!({
            "target": target, "plan": plan, "phases": phases, "failures": failed,
            "stopped": measurement.outcome.stopped,
        });
        output::document("bench", &document)?;
    } else {
        output::line(&table(&rows, measurement));
        complain(&failed);
    }
    verdict(&rows, &failed, measurement.outcome.stopped)
}

fn row_of(row: &Row, measurement: &Measurement) -> Value {
    let mut value = json!(row);
    if let (Value::Object(fields), Some(cost)) = (&mut value, cpu_ms(measurement, &row.phase)) {
        fields.insert("client_cpu_ms_per_operation".into(), json!(cost));
    }
    value
}

/// CPU milliseconds that this process used for an operation of a phase.
fn cpu_ms(measurement: &Measurement, name: &str) -> Option<f64> {
    let phases = measurement.outcome.phases.iter().zip(&measurement.cpu);
    let of_name = phases.filter(|(phase, _)| phase.name == name);
    let (operations, cpu) = of_name.fold((0, 0.0), |(operations, cpu), (phase, time)| {
        (operations + phase.samples.len(), cpu + time.as_secs_f64() * 1000.0)
    });
    (operations > 0).then(|| cpu / operations as f64)
}

fn table(rows: &[Row], measurement: &Measurement) -> String {
    let heading = [
        "PHASE",
        "OPERATION",
        "OK",
        "FAILED",
        "OP/S",
        "MB/S",
        "MEAN ms",
        "P50",
        "P90",
        "P95",
        "P99",
        "P99.9",
        "MAX",
        "CONNECT ms",
        "CLIENT CPU ms/op",
    ];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| {
        let summary = &row.summary;
        let connect = if summary.connects > 0 { ms(summary.connect_mean) } else { "-".into() };
        let cpu = cpu_ms(measurement, &row.phase).map_or_else(|| "-".into(), |cost| format!("{cost:.3}"));
        let mut cells = vec![
            row.phase.clone(),
            row.operation.to_string(),
            summary.count.to_string(),
            summary.failures.to_string(),
            interval(row.operations_per_s, 1.0, 1),
            interval(row.throughput_bytes_per_s, 1e-6, 2),
            interval(row.mean, 1e3, 3),
        ];
        let latencies = [summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.max];
        cells.extend(latencies.map(ms));
        cells.extend([connect, cpu]);
        cells
    }));
    output::table(&table)
}

fn ms(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}

/// A mean, with half the width of its interval if there is one.
pub(super) fn interval(interval: Interval, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", interval.mean * factor);
    if interval.trials < 2 { mean } else { format!("{mean}±{:.digits$}", interval.half * factor) }
}

/// Tells of failures, each kind once.
pub(super) fn complain(failed: &[Failed]) {
    for one in failed {
        output::note(&format!(
            "failed: {} × {} in {}, first: {}",
            one.count, one.code, one.phase, one.example
        ));
    }
}

/// The exit code: 0 if all succeeded, 4 if some, 1 if none, 3 if nobody could be reached.
pub(super) fn verdict(rows: &[Row], failed: &[Failed], stopped: bool) -> Outcome {
    let count: u64 = rows.iter().map(|row| row.summary.count).sum();
    let first = failed.first().map_or_else(|| "nothing was measured".to_owned(), |one| one.example.clone());
    if !failed.is_empty() && count == 0 {
        let unreachable = failed.iter().all(|one| one.code == CONNECT);
        let fail = if unreachable { Failure::unreachable } else { Failure::failed };
        return Err(fail(format!("no operation succeeded; the first said: {first}")));
    }
    Ok(if failed.is_empty() && !stopped { Exit::Done } else { Exit::Partial })
}
