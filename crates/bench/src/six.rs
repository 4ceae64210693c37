//! The six steps of S3perf, now ossperf: create bucket, upload, list, download, erase objects, erase bucket; and the
//! line of its `results.csv`, byte for byte.
//!
//! Differences, all named in `docs/bench.md`: one process instead of one client process for each object, and no sleep
//! between steps; dates are UTC.

use std::fmt;

use skerry_base::WallTime;
use skerry_gateway::service::date;
use skerry_scenario::workload_size::ObjectSize;

use crate::engine::PhaseOutcome;
use crate::plan::{Connections, Keys, Order, Phase, Plan, Shape, SizeRange, Verify};
use crate::target::Operation;

/// The heading of `results.csv`.
pub const HEADER: &str = "DATE TIME NUM_FILES SIZE_FILES TIME_CREATE_BUCKET TIME_OBJECTS_UPLOAD TIME_OBJECTS_LIST \
                          TIME_OBJECTS_DOWNLOAD TIME_ERASE_OBJECTS TIME_ERASE_BUCKET TIME_SUM \
                          BANDWIDTH_OBJECTS_UPLOAD BANDWIDTH_OBJECTS_DOWNLOAD";

/// The sizes of the paper and of ossperf's own script: 512 B to 8 MiB, doubling.
pub const SWEEP: [u64; 15] = [
    512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576, 2_097_152,
    4_194_304, 8_388_608,
];

/// One run of the six steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Six {
    /// Objects.
    pub number: u64,
    /// Bytes of each.
    pub size: u64,
    /// The bucket, which must not be there.
    pub bucket: String,
    /// All objects at once in steps 2, 4 and 5, else one after the other.
    pub parallel: bool,
    /// How closely to look at what was downloaded.
    pub verify: Verify,
    /// Whether connections are kept.
    pub connections: Connections,
    /// Drop caches before the download.
    pub drop_caches: bool,
    /// All bytes come from it.
    pub seed: u64,
    /// When to give up an operation.
    pub timeout_seconds: f64,
}

impl Default for Six {
    fn default() -> Self {
        Self {
            number: 10,
            size: 1_048_576,
            bucket: "skerry-bench-six".into(),
            parallel: false,
            verify: Verify::Bytes,
            connections: Connections::Keep,
            drop_caches: false,
            seed: 1,
            timeout_seconds: 60.0,
        }
    }
}

impl Six {
    /// The six phases.
    pub fn plan(&self) -> Plan {
        let steps = [
            ("create bucket", Operation::CreateBucket),
            ("upload", Operation::Put),
            ("list", Operation::List),
            ("download", Operation::Get),
            ("erase objects", Operation::Delete),
            ("erase bucket", Operation::DeleteBucket),
        ];
        let phases = steps.map(|(name, operation)| self.step(name, operation)).into();
        Plan { name: "six steps".into(), seed: self.seed, client: 0, trials: 1, begin_wall_ms: None, phases }
    }

    fn step(&self, name: &str, operation: Operation) -> Phase {
        let on_objects = matches!(operation, Operation::Put | Operation::Get | Operation::Delete);
        Phase {
            workers: if self.parallel && on_objects { self.number } else { 1 },
            operations: Some(if on_objects { self.number } else { 1 }),
            buckets: vec![self.bucket.clone()],
            keys: Keys {
                count: self.number,
                prefix: "ossperf-testfile".into(),
                first: 1,
                order: Order::Sequential,
                ..Keys::default()
            },
            sizes: vec![SizeRange {
                bytes: ObjectSize(self.size),
                to: None,
                weight: 1,
                shape: Shape::Uniform,
            }],
            verify: self.verify,
            connections: self.connections,
            drop_caches: self.drop_caches && operation == Operation::Get,
            timeout_seconds: self.timeout_seconds,
            list_all: true,
            ..Phase::new(name, operation)
        }
    }
}

/// A line of `results.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// When it began.
    pub begun: WallTime,
    /// Objects.
    pub number: u64,
    /// Bytes of each.
    pub size: u64,
    /// Seconds of the six steps.
    pub seconds: [f64; 6],
}

impl Line {
    /// Of the phases of [`Six::plan`]; none if not all six ran or one failed in part: ossperf has no line for that,
    /// either.
    pub fn of(six: &Six, phases: &[PhaseOutcome]) -> Option<Self> {
        if phases.iter().any(|phase| !phase.examples.is_empty()) {
            return None;
        }
        let seconds: [f64; 6] =
            phases.iter().map(|phase| phase.seconds).collect::<Vec<_>>().try_into().ok()?;
        let begun = WallTime(phases.first()?.started_wall_ms);
        Some(Self { begun, number: six.number, size: six.size, seconds })
    }

    /// Megabits a second of a step.
    fn bandwidth(&self, seconds: f64) -> String {
        // The steps of the calculator ossperf uses: three decimals, cut, after each division.
        let millis = (seconds * 1000.0) as u128;
        let bits = u128::from(self.size) * u128::from(self.number) * 8;
        let bits_per_second_thousandths = match millis {
            // ossperf, whose clients take longer than this to start, divides by zero here.
            0 => (bits as f64 * 1000.0 / seconds.max(1e-9)) as u128,
            _ => bits * 1_000_000 / millis,
        };
        decimal(bits_per_second_thousandths / 1000 / 1000)
    }
}

/// Thousandths as ossperf's calculator prints them: three decimals, but a plain 0.
fn decimal(thousandths: u128) -> String {
    match thousandths {
        0 => "0".into(),
        _ => format!("{}.{:03}", thousandths / 1000, thousandths % 1000),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = date::iso(self.begun);
        let (day, time) = when.split_once('T').unwrap_or((&when, ""));
        write!(f, "{day} {} {} {}", time.get(..8).unwrap_or_default(), self.number, self.size)?;
        let cut = self.seconds.map(|seconds| (seconds * 1000.0) as u128);
        for step in cut {
            write!(f, " {}", decimal(step))?;
        }
        let [_, upload, _, download, _, _] = self.seconds;
        let sum = decimal(cut.iter().sum());
        write!(f, " {sum} {} {}", self.bandwidth(upload), self.bandwidth(download))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// What ossperf's own shell lines (`date`, `bc`, `sed`) make of these times.
    #[test]
    fn a_line_is_that_of_ossperf() {
        let line = Line {
            begun: WallTime(1_795_297_199_000),
            number: 10,
            size: 1_048_576,
            seconds: [0.0214, 1.2349, 0.0301, 0.9, 0.4567, 0.0004],
        };
        let expected = "2026-11-21 21:39:59 10 1048576 0.021 1.234 0.030 0.900 0.456 0 2.641 67.978 93.206";
        assert_eq!(line.to_string(), expected);
    }

    #[test]
    fn the_heading_is_that_of_ossperf() {
        let heading = "DATE TIME NUM_FILES SIZE_FILES TIME_CREATE_BUCKET TIME_OBJECTS_UPLOAD TIME_OBJECTS_LIST TIME_OBJECTS_DOWNLOAD TIME_ERASE_OBJECTS TIME_ERASE_BUCKET TIME_SUM BANDWIDTH_OBJECTS_UPLOAD BANDWIDTH_OBJECTS_DOWNLOAD";
        assert_eq!(HEADER, heading);
    }

    #[test]
    fn parallel_is_all_objects_at_once_in_three_steps() {
        let six = Six { parallel: true, ..Six::default() };
        let workers: Vec<u64> = six.plan().phases.iter().map(|phase| phase.workers).collect();
        assert_eq!(workers, [1, 10, 1, 10, 10, 1]);
        assert!(Six::default().plan().phases.iter().all(|phase| phase.workers == 1));
        six.plan().check().unwrap();
    }
}
