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

/// Directories below the one that is named in which results are looked for: `rivals/SYSTEM/SCENARIO`.
const DEPTH: usize = 3;

/// Reads the results in a directory and below; what cannot be read is said, not skipped.
fn find(directory: &Path, stored: &mut Vec<Stored>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut places = vec![directory.to_path_buf()];
    let mut level = places.clone();
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        // What a result consists of holds no further result.
        for place in level.iter().filter(|place| !place.join("result.json").is_file()) {
            for entry in fs::read_dir(place).map_err(failed)? {
                below.push(entry.map_err(failed)?.path());
            }
        }
        below.retain(|place| place.is_dir());
        places.extend(below.iter().cloned());
        level = below;
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn results_of_rivals_lie_deeper_and_are_found() {
        let place = tempfile::tempdir().unwrap();
        let result = crate::report::tests::result(Vec::new());
        for below in ["F-S1", "small/F-S2", "rivals/other/F-S1", "F-S1/within/a/result"] {
            let below = place.path().join(below);
            fs::create_dir_all(&below).unwrap();
            result.write(&below).unwrap();
        }
        let mut stored = Vec::new();
        find(place.path(), &mut stored).unwrap();
        let found: Vec<String> = stored
            .iter()
            .map(|found| found.directory.strip_prefix(place.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(found, ["F-S1", "rivals/other/F-S1", "small/F-S2"]);
    }
}
