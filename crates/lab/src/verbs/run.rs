//! `skerry-lab run SCENARIO…`: plays scenarios against a system and writes their results.

use std::path::PathBuf;

use clap::Args;

use super::Ending;
use crate::plan::Scale;

/// Play scenarios
#[derive(Debug, Args)]
pub struct Run {
    /// Scenarios: ids such as F-S7, or files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    /// The system under test: a name in crates/lab/systems, or a file
    #[arg(long, default_value = "skerry", value_name = "SYSTEM")]
    pub system: String,
    /// How large
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
    /// Round-trip times in milliseconds between sites, instead of the scenario's: rows of numbers
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// Where results go; one directory per scenario is made in it
    #[arg(long, default_value = "target/lab", value_name = "DIR")]
    pub out: PathBuf,
    /// The seed of every draw
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Run {
    /// Plays them one after the other.
    pub fn run(self) -> Ending {
        Err("not yet".into())
    }
}
