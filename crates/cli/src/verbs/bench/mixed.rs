//! `skerry bench mixed`: operations by weight, for some time or number, all at once, spread, or at a fixed rate.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use skerry_bench::engine::PhaseOutcome;
use skerry_bench::from_workload;
use skerry_bench::plan::{Arrival, Keys, Mix, Order, Phase, Plan, SizeRange};
use skerry_bench::rows::failures;
use skerry_bench::target::{CONNECT, Operation};
use skerry_scenario::workload::Workload;

use super::aim::Aim;
use super::flow::{Flow, Measurement};
use super::{Measure, report};
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::files;
use crate::output;
use crate::words;

/// What to ask for, how often and when.
#[derive(Debug, Args)]
pub(crate) struct Mixed {
    /// Weights of operations: put, get, head, list, delete
    #[arg(long, value_name = "MIX", default_value = "put=20,get=80")]
    mix: Mix,
    /// How many objects
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    objects: u64,
    /// Sizes: 1MB, 1kB..1MB (all alike), 1kB..1MB~log (each decade alike), each with a weight: 4kB@70,1MB@30
    #[arg(long, short = 's', value_name = "SIZES", default_value = "1MB", value_delimiter = ',')]
    size: Vec<SizeRange>,
    /// In which order or how often objects are asked for
    #[arg(long, value_enum, default_value = "uniform")]
    order: Asked,
    /// Exponent of zipf
    #[arg(long, value_name = "X", default_value_t = 0.99)]
    theta: f64,
    /// Folders the objects lie in
    #[arg(long, value_name = "N", default_value_t = 0)]
    folders: u64,
    /// A workload file, as the simulator reads it, instead of the options above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "objects", "size", "order", "theta", "folders"])]
    workload: Option<PathBuf>,
    /// Requests at once, at most; 4, or as the workload says
    #[arg(long, short = 't', value_name = "N")]
    threads: Option<u64>,
    /// Measure for so long; 10s if there is no other end
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    duration: Option<Duration>,
    /// Measure so many operations
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Leave what begins in this time out of the figures
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    warm_up: Option<Duration>,
    /// Begin so many operations a second, whatever the service does; latency counts from the intended begin
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Delay the first operation of each thread at random within this time
    #[arg(long, value_name = "TIME", value_parser = words::duration, conflicts_with = "rate")]
    spread: Option<Duration>,
    /// How often to measure; 10 give an interval worth the name
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// Rest before each trial
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = words::duration)]
    pause: Duration,
    /// Name of the bucket; it is made if it is not there
    #[arg(long, short = 'b', value_name = "NAME", default_value = "skerry-bench")]
    bucket: String,
    /// Do not write the objects first: they are there, from a run with the same seed, sizes and number
    #[arg(long)]
    no_load: bool,
    /// Leave objects and bucket there
    #[arg(long, short = 'k')]
    keep: bool,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    aim: Aim,
}

/// See [`Order`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Asked {
    /// One after the other, then again from the first
    Sequential,
    /// Each exactly once, shuffled
    Once,
    /// All alike
    Uniform,
    /// The n-th with weight 1/n^theta
    #[value(alias = "zipfian")]
    Zipf,
    /// A tenth of them gets nine tenths
    Hot,
}

impl Asked {
    const fn order(self) -> Order {
        match self {
            Self::Sequential => Order::Sequential,
            Self::Once => Order::Once,
            Self::Uniform => Order::Uniform,
            Self::Zipf => Order::Zipf,
            Self::Hot => Order::Hot,
        }
    }
}

impl Mixed {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let (phase, trials) = self.phase(&globals)?;
        let plan = |name: &str, phases| Plan {
            name: name.into(),
            seed: self.measure.seed,
            client: 0,
            trials: 1,
            begin_wall_ms: None,
            phases,
        };
        let measured = Plan { trials, ..plan("mixed", vec![phase.clone()]) };
        measured.check().map_err(Failure::usage)?;
        let target = self.aim.target(&globals)?;
        let what = format!(
            "measure {} ({} threads, {trials} trials) on {}",
            phase.name,
            phase.workers,
            target.describe()
        );
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        let flow = Flow::new(target, globals.json)?;
        let buckets = phase.buckets.len() as u64;
        let on_buckets = |name: &str, operation| Phase {
            operations: Some(buckets),
            buckets: phase.buckets.clone(),
            timeout_seconds: phase.timeout_seconds,
            ..Phase::new(name, operation)
        };
        make(&flow, &plan("make", vec![on_buckets("make", Operation::CreateBucket)])).await?;
        let load = from_workload::preparation(&phase);
        let objects = Phase { mix: Mix::only(Operation::Delete), name: "erase".into(), ..load.clone() };
        let erase = |objects| plan("erase", vec![objects, on_buckets("erase", Operation::DeleteBucket)]);
        let mut loaded = None;
        if !self.no_load {
            let measurement = flow.run(&plan("load", vec![load])).await?;
            // Objects are written in the order in which they are erased.
            let begun =
                measurement.outcome.phases.iter().map(|phase| phase.samples.len() as u64).sum::<u64>().max(1);
            match whole(measurement) {
                Ok(measurement) => loaded = Some(measurement),
                Err(failure) if self.keep => return Err(failure),
                Err(failure) => {
                    flow.run(&erase(Phase { operations: Some(begun), ..objects })).await?;
                    return Err(failure);
                }
            }
        }
        let mut measurement = flow.run(&measured).await?;
        if !self.keep {
            flow.run(&erase(objects)).await?;
        }
        if let Some(loaded) = loaded {
            measurement.outcome.phases.splice(0..0, loaded.outcome.phases);
            measurement.cpu.splice(0..0, loaded.cpu);
        }
        report::files(&self.measure, &phase.name, &report::samples(&measurement))?;
        report::show(&measurement, &flow.target.describe(), &measured, globals.json)
    }

    /// The measured phase and how often it is run.
    fn phase(&self, globals: &Globals) -> Outcome<(Phase, u64)> {
        let (mut phase, trials) = match &self.workload {
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    files::read(path)?.ok_or_else(|| Failure::usage(format!("{name}: no such file")))?;
                let workload =
                    Workload::parse(&name, &text).map_err(|refusal| Failure::usage(refusal.to_string()))?;
                let (phase, notes) = from_workload::phase(&workload, &self.bucket);
                notes.iter().for_each(|note| output::note(&format!("{name}: {note}")));
                (phase, workload.load.trials)
            }
            None => (self.of_options(), None),
        };
        let seconds = |time: Duration| time.as_secs_f64();
        phase.workers = self.threads.unwrap_or(phase.workers);
        if self.operations.is_some() || self.duration.is_some() {
            (phase.operations, phase.seconds) = (self.operations, self.duration.map(seconds));
        }
        if let Some(rate) = self.rate {
            (phase.arrival, phase.think_ms) = (Arrival::Rate(rate), [0, 0]);
        }
        if let Some(spread) = self.spread {
            phase.arrival = Arrival::Spread(spread.as_millis() as u64);
        }
        phase.warm_up_seconds = self.warm_up.map_or(phase.warm_up_seconds, seconds);
        phase.pause_seconds = seconds(self.pause);
        phase.timeout_seconds = seconds(globals.timeout);
        phase.verify = self.measure.verify();
        phase.connections = self.measure.connections();
        phase.drop_caches = self.measure.drop_caches;
        Ok((phase, self.trials.or(trials).unwrap_or(1)))
    }

    fn of_options(&self) -> Phase {
        let order = self.order.order();
        Phase {
            mix: self.mix,
            workers: 4,
            seconds: (!matches!(order, Order::Once)).then_some(10.0),
            buckets: vec![self.bucket.clone()],
            keys: Keys {
                count: self.objects,
                folders: self.folders,
                order,
                theta: self.theta,
                ..Keys::default()
            },
            sizes: self.size.clone(),
            ..Phase::new("mixed", Operation::Get)
        }
    }
}

/// Makes the buckets; those that are ours already are fine.
pub(super) async fn make(flow: &Flow, plan: &Plan) -> Outcome<()> {
    let made = flow.run(plan).await?;
    let trouble =
        failures(&made.outcome).into_iter().find(|failed| !failed.code.ends_with("BucketAlreadyOwnedByYou"));
    match trouble {
        None => Ok(()),
        Some(failed) if failed.code == CONNECT => Err(Failure::unreachable(failed.example)),
        Some(failed) if failed.code.starts_with("403") => Err(Failure::refused(failed.example)),
        Some(failed) => Err(Failure::failed(failed.example)),
    }
}

/// Refuses to measure on objects that are not all there.
fn whole(loaded: Measurement) -> Outcome<Measurement> {
    let asked: usize = loaded.outcome.phases.iter().map(|phase: &PhaseOutcome| phase.samples.len()).sum();
    match failures(&loaded.outcome).into_iter().next() {
        Some(failed) => {
            let missing = format!("{} of {asked} objects could not be written", failed.count);
            Err(Failure::failed(format!("{missing}, so nothing was measured: {}", failed.example)))
        }
        None if loaded.outcome.stopped => Err(Failure::failed("stopped before anything was measured")),
        None => Ok(loaded),
    }
}
