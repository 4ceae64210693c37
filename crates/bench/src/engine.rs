//! Runs a plan against a target: workers, arrival, time, samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::{Phase, Plan};
use crate::progress::Progress;
use crate::sample::Sample;
use crate::target::Target;

/// Called before each phase (after its pause): drop caches, take counters. An error ends the run.
pub type Hook = Box<dyn Fn(&Phase, u64) -> Result<(), String> + Send + Sync>;

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Phases of all trials, in the order in which they ran.
    pub phases: Vec<PhaseOutcome>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// One phase of one trial.
#[derive(Debug, Clone)]
pub struct PhaseOutcome {
    /// Its name.
    pub name: String,
    /// Which trial, from 1.
    pub trial: u64,
    /// When it began, in milliseconds since 1970.
    pub started_wall_ms: u64,
    /// From its begin to the end of the last operation.
    pub seconds: f64,
    /// All operations, failed ones and those of the warm-up included, in the order of their begin.
    pub samples: Vec<Sample>,
    /// For each code of failure the story of the first.
    pub examples: BTreeMap<Arc<str>, String>,
}

/// Why a plan did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The plan makes no sense; says which phase and field.
    #[error("{0}")]
    Plan(String),
    /// The hook before a phase failed.
    #[error("before phase {phase}: {reason}")]
    Hook {
        /// The phase.
        phase: String,
        /// Why.
        reason: String,
    },
}

/// Runs all phases of all trials on the current tokio runtime; one thread is enough.
pub async fn run(
    plan: &Plan,
    target: Arc<dyn Target>,
    progress: &Progress,
    hook: Option<&Hook>,
) -> Result<Outcome, RunError> {
    let _ = (plan, target, progress, hook);
    Err(RunError::Plan("not yet".into()))
}

/// The same on a runtime of its own, with one thread: for callers that have none.
pub fn run_blocking(
    plan: &Plan,
    target: Arc<dyn Target>,
    progress: &Progress,
    hook: Option<&Hook>,
) -> Result<Outcome, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| RunError::Plan(format!("runtime: {error}")))?;
    runtime.block_on(run(plan, target, progress, hook))
}
