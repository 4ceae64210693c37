//! `skerry-lab keep RESULT…`: puts results among those that are kept for good, in a form that a repository can bear.
//!
//! Of our runs at the paper's scale the report is kept too, made of all single operations, which themselves stay behind. Of other
//! systems' runs and of small ones only the result: `papers` needs no more.
//! Invariant: a number of a paper that can be computed from the result as it was can be computed from what is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::Ending;
use super::report::directory;
use crate::plan::{Scale, Scenario, statistic};
use crate::report;
use crate::report::papers::OURS;
use crate::result::LabResult;

/// What a kept result may consist of, in this and in earlier releases: it is replaced as a whole.
const FILES: [&str; 4] = ["result.json", "report.html", "report.md", "scenario.toml"];
const FOLDERS: [&str; 2] = ["csv", "plots"];

/// Put results among those that are kept: compact, without single operations
#[derive(Debug, Args)]
pub struct Keep {
    /// Results: their directories, or their result.json
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Where kept results lie
    #[arg(long, default_value = "docs/lab", value_name = "DIR")]
    pub to: PathBuf,
}

impl Keep {
    /// Keeps them.
    pub fn run(self) -> Ending {
        for path in &self.results {
            let result = LabResult::read(path).map_err(|error| error.to_string())?;
            let place = self.to.join(place(&result));
            keep(directory(path), result, &place).map_err(|error| format!("{}: {error}", place.display()))?;
            println!("{}", place.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the report is worth its room.
fn has_report(result: &LabResult) -> bool {
    result.system == OURS && result.scale == Scale::Paper.name()
}

fn place(result: &LabResult) -> PathBuf {
    match (has_report(result), result.system.as_str()) {
        (true, _) => PathBuf::from(&result.scenario),
        (false, OURS) => Path::new("small").join(&result.scenario),
        (false, system) => Path::new("rivals").join(system).join(&result.scenario),
    }
}

fn keep(from: &Path, mut result: LabResult, to: &Path) -> io::Result<()> {
    let played = played_file(&result);
    // What the scenario's file says of the paper may have become better since; what was measured stays.
    if let (None, Ok(scenario)) = (&played, Scenario::load(&result.scenario)) {
        result.cannot_reproduce = scenario.cannot_reproduce;
        result.paper_rows = scenario.rows;
    }
    statistic::remember(from, &mut result);
    let same = from.canonicalize()? == to.canonicalize().unwrap_or_default();
    if !same {
        clear(to)?;
        fs::create_dir_all(to)?;
        if has_report(&result) {
            report::write_kept(from, &result, to)?;
        }
        if let Some(scenario) = played {
            fs::copy(scenario, to.join("scenario.toml"))?;
        }
    }
    result.without_single_operations().write_rounded(to)
}

/// Removes what was kept here before.
fn clear(to: &Path) -> io::Result<()> {
    let gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    FILES.iter().try_for_each(|file| gone(fs::remove_file(to.join(file))))?;
    FOLDERS.iter().try_for_each(|folder| gone(fs::remove_dir_all(to.join(folder))))
}

/// The scenario's file, if it was not one of the lab's own.
fn played_file(result: &LabResult) -> Option<PathBuf> {
    let named = result.command.strip_prefix("skerry-lab run ")?.split(' ').next()?;
    Some(PathBuf::from(named))
        .filter(|path| path.extension().is_some_and(|end| end == "toml") && path.is_file())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::report::tests::{cell, order_row, phase, result, write_csv};

    fn measured(directory: &Path) -> LabResult {
        write_csv(directory, "w.csv", (0.010, 0.001), false);
        let cells = vec![cell(&[("sites", "2")], vec![phase("write", "w.csv", 0.03123456789)]); 2];
        let (scenario, paper_rows) = ("T-1".to_owned(), vec![order_row("write", 3)]);
        let mut result = LabResult { scenario, paper_rows, ..result(cells) };
        for cell in &mut result.cells {
            cell.topology = "version = 1\n".into();
        }
        result.write(directory).unwrap();
        result
    }

    #[test]
    fn what_papers_ask_for_can_be_computed_from_what_is_kept() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let result = measured(from.path());
        let place = to.path().join(place(&result));
        assert!(place.ends_with("small/T-1"));
        keep(from.path(), result.clone(), &place).unwrap();
        assert!(!place.join("report.html").exists() && !place.join("csv").exists());
        let kept = LabResult::read(&place).unwrap();
        let before = statistic::evaluate(from.path(), &result, &result.paper_rows[0]);
        let after = statistic::evaluate(&place, &kept, &kept.paper_rows[0]);
        assert_eq!((before.len(), after.len()), (2, 2));
        assert!((before[0].value - after[0].value).abs() < 1e-6 * before[0].value, "{before:?} {after:?}");
        assert_eq!(kept.cells[1].topology, "version = 1\n", "said once, there for all");
        assert!((kept.cells[0].phases[0].summary.p50 - 0.0312346).abs() < 1e-12);
        // Once more from what is kept: nothing is lost.
        keep(&place, kept.clone(), &place).unwrap();
        assert_eq!(LabResult::read(&place).unwrap(), kept);
    }

    #[test]
    fn of_the_papers_scale_the_report_is_kept_whole_and_alone() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let result = LabResult { scale: "paper".into(), ..measured(from.path()) };
        let place = to.path().join(place(&result));
        fs::create_dir_all(place.join("plots")).unwrap();
        fs::write(place.join("plots/old.svg"), "old").unwrap();
        keep(from.path(), result, &place).unwrap();
        let page = fs::read_to_string(place.join("report.html")).unwrap();
        assert!(page.contains("class=\"box\""), "single operations are in its figures");
        let text = fs::read_to_string(place.join("report.md")).unwrap();
        assert!(!text.contains("](plots/") && text.contains("report.html"), "{text}");
        assert!(!place.join("plots").exists(), "what was kept before is gone");
    }
}
