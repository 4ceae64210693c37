//! `skerry-lab clean`: removes what a crashed run left.

use std::process::ExitCode;

use clap::Args;

use super::Ending;
use crate::wan;

/// Remove what crashed runs left: processes and files (networks vanish with their run); living runs are not touched
#[derive(Debug, Args)]
pub struct Clean {}

impl Clean {
    /// Cleans and says what it did.
    pub fn run(self) -> Ending {
        let cleaned = wan::clean();
        if cleaned.runs + cleaned.processes == 0 {
            println!("nothing was left");
        } else {
            println!(
                "dead runs: {}; processes ended: {}; files removed: {}",
                cleaned.runs, cleaned.processes, cleaned.paths
            );
        }
        cleaned.failures.iter().for_each(|failure| eprintln!("skerry-lab: {failure}"));
        Ok(if cleaned.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
