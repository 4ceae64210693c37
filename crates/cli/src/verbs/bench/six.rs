//! `skerry bench six`: the six steps, a line for each run.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use skerry_bench::engine::PhaseOutcome;
use skerry_bench::plan::{Phase, Plan};
use skerry_bench::rows::{failures, rows};
use skerry_bench::sample::Sample;
use skerry_bench::six::{HEADER, Line, SWEEP, Six};
use skerry_bench::summary::Interval;
use skerry_bench::target::{CONNECT, Operation};
use skerry_scenario::workload_size::ObjectSize;

use super::aim::Aim;
use super::flow::Flow;
use super::{Measure, report};
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::words;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct SixSteps {
    /// How many objects
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    number: u64,
    /// Their size, such as 512, 64kB, 1MB (10^6) or 1MiB (2^20); several are run one after the other
    #[arg(long, short = 's', value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<ObjectSize>,
    /// The sizes of the paper: 512 B to 8 MiB, doubling
    #[arg(long, conflicts_with = "size")]
    sweep: bool,
    /// Name of the bucket, which must not be there
    #[arg(long, short = 'b', value_name = "NAME", default_value = "skerry-bench-six")]
    bucket: String,
    /// Upload, download and erase all objects at once instead of one after the other
    #[arg(long, short = 'p')]
    parallel: bool,
    /// How often each size is run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    trials: u64,
    /// Rest between runs
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = words::duration)]
    pause: Duration,
    /// Append the lines to this file; a new one gets the heading
    #[arg(long, short = 'o', value_name = "FILE")]
    results: Option<PathBuf>,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    aim: Aim,
}

/// What the runs of one size took.
struct Runs {
    size: u64,
    lines: Vec<Line>,
}

impl SixSteps {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let sizes: Vec<u64> =
            if self.sweep { SWEEP.to_vec() } else { self.size.iter().map(|size| size.0).collect() };
        self.plan_for(*sizes.first().unwrap_or(&0), &globals).check().map_err(Failure::usage)?;
        let target = self.aim.target(&globals)?;
        let shown: Vec<String> = sizes.iter().map(|size| ObjectSize(*size).to_string()).collect();
        let (objects, place) = (words::count(self.number, "object"), target.describe());
        let what = format!(
            "run the six steps with {objects} of {}, {} for each size, in the bucket {} of {place}",
            shown.join(", "),
            words::count(self.trials, "run"),
            self.bucket
        );
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        let flow = Flow::new(target, globals.json)?;
        self.look_first(&flow, &globals).await?;
        self.all(&flow, &sizes, &globals).await
    }

    fn six(&self, size: u64, globals: &Globals) -> Six {
        Six {
            number: self.number,
            size,
            bucket: self.bucket.clone(),
            parallel: self.parallel,
            verify: self.measure.verify(),
            connections: self.measure.connections(),
            drop_caches: self.measure.drop_caches,
            seed: self.measure.seed,
            timeout_seconds: globals.timeout.as_secs_f64(),
        }
    }

    fn plan_for(&self, size: u64, globals: &Globals) -> Plan {
        self.six(size, globals).plan()
    }

    /// Refuses a bucket that is there: the last step would erase it.
    async fn look_first(&self, flow: &Flow, globals: &Globals) -> Outcome<()> {
        let mut plan = self.plan_for(0, globals);
        let timeout_seconds = globals.timeout.as_secs_f64();
        let buckets = vec![self.bucket.clone()];
        plan.phases = vec![Phase {
            operations: Some(1),
            buckets,
            timeout_seconds,
            ..Phase::new("look", Operation::List)
        }];
        let looked = flow.run(&plan).await?;
        let Some(failed) = failures(&looked.outcome).into_iter().next() else {
            let hint = "six steps make and erase a bucket of their own: name another one with --bucket";
            return Err(Failure::refused(format!("the bucket {} is there already; {hint}", self.bucket)));
        };
        match failed.code.as_str() {
            code if code.starts_with("404") => Ok(()),
            CONNECT => Err(Failure::unreachable(failed.example)),
            code if code.starts_with("403") => Err(Failure::refused(failed.example)),
            _ => Err(Failure::failed(failed.example)),
        }
    }

    async fn all(&self, flow: &Flow, sizes: &[u64], globals: &Globals) -> Outcome {
        if !globals.json {
            output::line(HEADER);
        }
        let (mut samples, mut table) = (Vec::new(), Vec::new());
        let (mut number, mut exit, mut stopped) = (0, Exit::Done, false);
        for size in sizes {
            let mut runs = Runs { size: *size, lines: Vec::new() };
            for _ in 0..self.trials {
                number += 1;
                let line;
                (line, stopped) = self.one(flow, (*size, number), &mut samples, globals).await?;
                if line.is_none() || stopped {
                    exit = Exit::Partial;
                }
                runs.lines.extend(line);
                if stopped {
                    break;
                }
            }
            table.push(runs);
            if stopped {
                break;
            }
        }
        if !globals.json && table.iter().any(|runs| !runs.lines.is_empty()) {
            summarise(&table);
        }
        report::files(&self.measure, "six steps", &samples.iter().collect::<Vec<_>>())?;
        if table.iter().all(|runs| runs.lines.is_empty()) {
            return Err(Failure::failed("no run of the six steps went through"));
        }
        Ok(exit)
    }

    /// One run: its line, if every operation succeeded, and whether somebody stopped it.
    async fn one(
        &self,
        flow: &Flow,
        (size, number): (u64, u64),
        samples: &mut Vec<Sample>,
        globals: &Globals,
    ) -> Outcome<(Option<Line>, bool)> {
        let six = self.six(size, globals);
        let mut plan = six.plan();
        if let Some(first) = plan.phases.first_mut().filter(|_| number > 1) {
            first.pause_seconds = self.pause.as_secs_f64();
        }
        let measurement = flow.run(&plan).await?;
        if measurement.outcome.stopped {
            // What a stopped run made goes, too; it may not all be there, so nobody looks at the outcome.
            plan.phases.retain(|phase| phase.mix.delete + phase.mix.delete_bucket > 0);
            flow.run(&plan).await?;
        }
        let line = Line::of(&six, &measurement.outcome.phases);
        let failed = failures(&measurement.outcome);
        if globals.json {
            let document = json!({
                "target": flow.target.describe(), "run": number, "objects": six.number, "object_bytes": size,
                "parallel": six.parallel, "line": line.as_ref().map(ToString::to_string),
                "seconds": seconds(&measurement.outcome.phases), "phases": rows(&measurement.outcome),
                "failures": failed,
            });
            output::document("bench-six", &document)?;
        } else if let Some(line) = &line {
            output::line(&line.to_string());
        }
        report::complain(&failed);
        if let (Some(line), Some(path)) = (&line, &self.results) {
            append(path, line).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        }
        let stopped = measurement.outcome.stopped;
        let measured = measurement.outcome.phases.into_iter().flat_map(|phase| phase.samples);
        samples.extend(measured.map(|sample| Sample { trial: number, ..sample }));
        Ok((line, stopped))
    }
}

/// Seconds by step.
fn seconds(phases: &[PhaseOutcome]) -> serde_json::Value {
    phases
        .iter()
        .map(|phase| (phase.name.clone(), json!(phase.seconds)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn append(path: &Path, line: &Line) -> std::io::Result<()> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        writeln!(file, "{HEADER}")?;
    }
    writeln!(file, "{line}")
}

/// Means over the runs of each size, beside the lines: standard output stays a file that ossperf could have written.
fn summarise(table: &[Runs]) {
    let heading =
        ["SIZE", "CREATE ms", "UPLOAD", "LIST", "DOWNLOAD", "ERASE", "ERASE BUCKET", "UP Mb/s", "DOWN Mb/s"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for runs in table.iter().filter(|runs| !runs.lines.is_empty()) {
        let of =
            |value: &dyn Fn(&Line) -> f64| Interval::of(&runs.lines.iter().map(value).collect::<Vec<_>>());
        let step = |step: usize| of(&|line: &Line| line.seconds.get(step).copied().unwrap_or(0.0));
        let megabits = |step: usize| {
            of(&|line: &Line| {
                let bits = (line.size * line.number * 8) as f64;
                line.seconds.get(step).map_or(0.0, |seconds| bits / seconds.max(1e-9) / 1e6)
            })
        };
        let mut row = vec![ObjectSize(runs.size).to_string()];
        row.extend((0..6).map(|number| report::interval(step(number), 1e3, 2)));
        row.extend([1, 3].map(|number| report::interval(megabits(number), 1.0, 1)));
        rows.push(row);
    }
    output::note(&format!("\n{}", output::table(&rows)));
}
