//! Many seeds, one after the other.

use crate::environment::Environment;
use crate::trace::Sink;
use crate::world::{self, Report};

/// Seeds that once failed, with what they found.
pub const REGRESSIONS: &str = include_str!("../regressions.txt");

/// The seeds of [`REGRESSIONS`].
pub fn regressions() -> Vec<u64> {
    let seed = |line: &str| line.split_whitespace().next().and_then(|word| word.parse().ok());
    REGRESSIONS.lines().filter(|line| !line.starts_with('#')).filter_map(seed).collect()
}

/// Runs a seed in silence.
pub fn run_seed(seed: u64) -> Report {
    world::run(Environment::of_seed(seed), Sink::Hash)
}

/// How to see a failure again.
pub fn reproduction(seed: u64) -> String {
    format!("cargo run -p skerry-sim --bin skerry-sim -- run --seed {seed} --trace")
}
