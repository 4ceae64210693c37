//! Runs a plan while somebody watches: progress with live rates, Ctrl-C, dropped caches, the client's own CPU time.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use skerry_bench::engine::{self, Hook, Outcome as Measured};
use skerry_bench::plan::{Phase, Plan};
use skerry_bench::progress::{Progress, Reading};
use skerry_bench::target::Target;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex as AsyncMutex;

use crate::exit::{Failure, Outcome};
use crate::output;
use crate::progress::style;

/// How often the bar moves: often enough to look alive, seldom enough to cost nothing.
const REFRESH: Duration = Duration::from_millis(250);
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Runs plans against one target.
pub(crate) struct Flow {
    pub(crate) target: Arc<dyn Target>,
    /// Print nothing that moves.
    quiet: bool,
    /// Listened to from the first plan to the last, so that a Ctrl-C between two of them is not lost.
    wishes: AsyncMutex<Wishes>,
}

/// The user's wishes to stop.
struct Wishes {
    interrupt: Signal,
    terminate: Signal,
}

impl Wishes {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What was measured, and what it cost this process.
pub(crate) struct Measurement {
    pub(crate) outcome: Measured,
    /// CPU time of this process by phase, in the order of the outcome.
    pub(crate) cpu: Vec<Duration>,
}

impl Flow {
    /// Against a target; `quiet` prints nothing that moves.
    pub(crate) fn new(target: Arc<dyn Target>, quiet: bool) -> Outcome<Self> {
        let failed = |error: std::io::Error| Failure::failed(format!("signals: {error}"));
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(Self { target, quiet, wishes: AsyncMutex::new(Wishes { interrupt, terminate }) })
    }

    /// Runs a plan to its end, or to Ctrl-C: what was measured until then counts.
    pub(crate) async fn run(&self, plan: &Plan) -> Outcome<Measurement> {
        if plan.phases.iter().any(|phase| phase.drop_caches) {
            drop_caches().map_err(Failure::refused)?;
        }
        let marks = Arc::new(Mutex::new(Vec::new()));
        let hook = hook(Arc::clone(&marks));
        let progress = Arc::new(Progress::default());
        let mut bar = Bar::new(self.quiet);
        let mut wishes = self.wishes.lock().await;
        let mut refresh = tokio::time::interval(REFRESH);
        let run = engine::run(plan, Arc::clone(&self.target), &progress, Some(&hook));
        let mut run = std::pin::pin!(run);
        let ended = loop {
            let asked = tokio::select! {
                ended = &mut run => break ended,
                _ = refresh.tick() => { bar.show(&progress.read()); false }
                () = wishes.next() => true,
            };
            if asked && progress.stopped() {
                let left =
                    "stopped before the operations in flight had ended; what was written is still there";
                return Err(Failure::failed(left));
            }
            if asked {
                output::note("stopping: operations in flight end first; once more stops at once");
                progress.stop();
            }
        };
        let outcome = ended.map_err(|error| Failure::usage(error.to_string()))?;
        let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        marks.push(cpu_time());
        let cpu = marks.iter().zip(marks.iter().skip(1)).map(|(from, to)| to.saturating_sub(*from)).collect();
        Ok(Measurement { outcome, cpu })
    }
}

fn hook(marks: Arc<Mutex<Vec<Duration>>>) -> Hook {
    Box::new(move |phase: &Phase, _| {
        if phase.drop_caches {
            drop_caches()?;
        }
        marks.lock().unwrap_or_else(PoisonError::into_inner).push(cpu_time());
        Ok(())
    })
}

/// Of this process since its begin, all threads.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Writes back what is dirty and forgets what is clean.
fn drop_caches() -> Result<(), String> {
    rustix::fs::sync();
    let dropped =
        std::fs::OpenOptions::new().write(true).open(DROP_CACHES).and_then(|mut file| file.write_all(b"3\n"));
    dropped.map_err(|error| format!("--drop-caches needs root on this machine: {DROP_CACHES}: {error}"))
}

/// The progress bar; invisible without a terminal.
struct Bar {
    bar: ProgressBar,
    phase: Option<u64>,
    begun: Instant,
    last: (Instant, u64, u64),
    rates: (f64, f64),
}

impl Bar {
    fn new(quiet: bool) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(0).with_style(style("{prefix:.bold} {wide_bar:.cyan/dim} {percent:>3} %  {msg}"))
        };
        let now = Instant::now();
        Self { bar, phase: None, begun: now, last: (now, 0, 0), rates: (0.0, 0.0) }
    }

    fn show(&mut self, reading: &Reading) {
        let (now, current) = (Instant::now(), &reading.current);
        if self.phase != Some(current.number) {
            self.phase = Some(current.number);
            (self.begun, self.last) = (now, (now, 0, 0));
            let trial = if current.trial > 1 { format!(" {}", current.trial) } else { String::new() };
            self.bar.set_prefix(format!("{}{trial}", current.name));
        }
        let elapsed = now.duration_since(self.last.0).as_secs_f64();
        if elapsed > 0.2 {
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
            self.rates = (rate(reading.operations, self.last.1), rate(reading.bytes, self.last.2));
            self.last = (now, reading.operations, reading.bytes);
        }
        let (position, length) = match (current.operations, current.seconds) {
            (Some(operations), _) => (reading.operations, operations),
            (None, Some(seconds)) => (self.begun.elapsed().as_millis() as u64, (seconds * 1000.0) as u64),
            (None, None) => (0, 1),
        };
        self.bar.set_length(length);
        self.bar.set_position(position.min(length));
        let failed =
            if reading.failures > 0 { format!("  {} FAILED", reading.failures) } else { String::new() };
        let (operations, bytes) = self.rates;
        self.bar.set_message(format!("{operations:.0} op/s  {:.1} MB/s{failed}", bytes / 1e6));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
