//! `skerry-lab report RESULT…`: writes report.html, report.md and their figures again, from results that are there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Ending;
use crate::report;
use crate::result::LabResult;

/// Write the reports of results again
#[derive(Debug, Args)]
pub struct Report {
    /// Results: their directories, or their result.json
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
}

impl Report {
    /// Writes them.
    pub fn run(self) -> Ending {
        for path in &self.results {
            let result = LabResult::read(path).map_err(|error| error.to_string())?;
            let directory = directory(path);
            report::write(directory, &result).map_err(|error| format!("{}: {error}", directory.display()))?;
            println!("{}", directory.join("report.html").display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Where a result lies.
pub(super) fn directory(path: &Path) -> &Path {
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() { path } else { beside }
}
