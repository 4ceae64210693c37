//! `skerry bench write-read`: the papers' experiment, objects written all at once and each read exactly once.

use std::time::Duration;

use clap::Args;
use skerry_bench::plan::{Arrival, Keys, Order, Phase, Plan, SizeRange};
use skerry_bench::target::Operation;

use super::aim::Aim;
use super::flow::Flow;
use super::{Measure, mixed, report};
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::words;

/// How many, how large, when.
#[derive(Debug, Args)]
pub(crate) struct WriteRead {
    /// How many objects
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    objects: u64,
    /// Sizes, such as 256kB, 1MB or 1kB..1MB
    #[arg(long, short = 's', value_name = "SIZES", default_value = "1MB", value_delimiter = ',')]
    size: Vec<SizeRange>,
    /// Requests at once; as many as objects if not said
    #[arg(long, short = 't', value_name = "N")]
    threads: Option<u64>,
    /// Delay the first operation of each thread at random within this time
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    spread: Option<Duration>,
    /// How often to write and read, other objects each time
    #[arg(long, value_name = "N", default_value_t = 10)]
    trials: u64,
    /// How often each object is read in a trial: the second time shows what the first has left behind
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    reads: u64,
    /// Rest before each phase
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = words::duration)]
    pause: Duration,
    /// Name of the bucket; it is made if it is not there
    #[arg(long, short = 'b', value_name = "NAME", default_value = "skerry-bench-write-read")]
    bucket: String,
    /// Leave objects and bucket there
    #[arg(long, short = 'k')]
    keep: bool,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    aim: Aim,
}

impl WriteRead {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let plan = self.plan(&globals);
        plan.check().map_err(Failure::usage)?;
        let target = self.aim.target(&globals)?;
        let what =
            format!("write and read {} objects {} times on {}", self.objects, self.trials, target.describe());
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        let flow = Flow::new(target, globals.json)?;
        let on_bucket = |name: &str, operation| {
            let phase = Phase { operations: Some(1), ..self.phase(name, operation, &globals) };
            Plan { trials: 1, phases: vec![Phase { workers: 1, ..phase }], ..plan.clone() }
        };
        mixed::make(&flow, &on_bucket("make", Operation::CreateBucket)).await?;
        let measurement = flow.run(&plan).await?;
        if !self.keep {
            let erase = self.phase("erase", Operation::Delete, &globals);
            let erase = Phase { arrival: Arrival::AtOnce, pause_seconds: 0.0, ..erase };
            flow.run(&Plan { phases: vec![erase], ..plan.clone() }).await?;
            flow.run(&on_bucket("erase", Operation::DeleteBucket)).await?;
        }
        report::files(&self.measure, "write and read", &report::samples(&measurement))?;
        report::show(&measurement, &flow.target.describe(), &plan, globals.json)
    }

    fn plan(&self, globals: &Globals) -> Plan {
        let mut phases = vec![self.phase("write", Operation::Put, globals)];
        for number in 1..=self.reads {
            let name = if number == 1 { "read".to_owned() } else { format!("read{number}") };
            phases.push(self.phase(&name, Operation::Get, globals));
        }
        Plan {
            name: "write and read".into(),
            seed: self.measure.seed,
            client: 0,
            trials: self.trials,
            begin_wall_ms: None,
            phases,
        }
    }

    fn phase(&self, name: &str, operation: Operation, globals: &Globals) -> Phase {
        Phase {
            workers: self.threads.unwrap_or(self.objects),
            arrival: self.spread.map_or(Arrival::AtOnce, |spread| Arrival::Spread(spread.as_millis() as u64)),
            operations: Some(self.objects),
            buckets: vec![self.bucket.clone()],
            keys: Keys {
                count: self.objects,
                prefix: "trial-{trial}-".into(),
                order: Order::Sequential,
                ..Keys::default()
            },
            sizes: self.size.clone(),
            verify: self.measure.verify(),
            connections: self.measure.connections(),
            drop_caches: self.measure.drop_caches && operation == Operation::Get,
            pause_seconds: self.pause.as_secs_f64(),
            timeout_seconds: globals.timeout.as_secs_f64(),
            ..Phase::new(name, operation)
        }
    }
}
