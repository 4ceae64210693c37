//! `skerry-lab papers`: every number of the papers beside ours and the rivals', from stored results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Ending;
use crate::plan::{Scenario, places};
use crate::report::papers::{self, Stored};
use crate::report::{html, markdown, terminal};
use crate::result::LabResult;

/// Print the papers' numbers beside ours
#[derive(Debug, Args)]
pub struct Papers {
    /// Where results are; each directory in it that holds a result.json is read. May be given again
    #[arg(long, value_name = "DIR", default_values = ["target/lab", "docs/lab"])]
    pub results: Vec<PathBuf>,
    /// Only these scenarios
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Write a page as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Papers {
    /// Prints the table.
    pub fn run(self) -> Ending {
        let mut stored = Vec::new();
        for directory in self.results.iter().filter(|directory| directory.is_dir()) {
            find(directory, &mut stored)?;
        }
        let scenarios = self.scenarios()?;
        let document = papers::tell(&scenarios, &stored);
        if let Some(file) = &self.html {
            fs::write(file, html::render(&document))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        print!("{}", if self.markdown { markdown::render(&document) } else { terminal::render(&document) });
        Ok(ExitCode::SUCCESS)
    }

    fn scenarios(&self) -> Result<Vec<Scenario>, String> {
        if !self.scenarios.is_empty() {
            return self.scenarios.iter().map(|name| Scenario::load(name)).collect();
        }
        places::all("scenarios").iter().map(|(name, _)| Scenario::load(name)).collect()
    }
}

/// Reads the results directly in a directory, those of one level below too; what cannot be read is said, not skipped.
fn find(directory: &Path, stored: &mut Vec<Stored>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut places = vec![directory.to_path_buf()];
    for entry in fs::read_dir(directory).map_err(failed)? {
        places.push(entry.map_err(failed)?.path());
    }
    places.sort();
    for place in places.into_iter().filter(|place| place.join("result.json").is_file()) {
        match LabResult::read(&place) {
            Ok(result) => stored.push(Stored { directory: place, result }),
            Err(error) => eprintln!("skerry-lab: left out: {error}"),
        }
    }
    Ok(())
}
