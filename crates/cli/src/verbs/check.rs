//! `skerry check`: everything on a site's disk is read and what is damaged is named; with `--repair` the index is
//! rebuilt where it must be and the rest noted for the site to mend, with `--rebuild` the index is rebuilt in any case.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use skerry_node::check::{CheckError, CheckReport, Hurt, Mending, Progress, Stage, Watch, check};

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::progress;
use crate::site_files;
use crate::words;

/// Read everything on a site's disk.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Directory of a site that does not run, or of a demo with --site
    #[arg(long, value_name = "DIR", env = "SKERRY_DIR", default_value = site_files::DEFAULT_DIRECTORY)]
    dir: PathBuf,
    /// Rebuild the index from journal and payload (the old one is kept aside) where it does not read or lacks something, after a new base of the journal was written from it where a part of that is damaged, and note what is damaged, so that the site mends it from others once it runs
    #[arg(long)]
    repair: bool,
    /// As --repair, and rebuild the index also where it is whole: for one that is suspected. It takes minutes for ten million keys, half an hour on an SD card; the old one is kept aside where there is room for two
    #[arg(long)]
    rebuild: bool,
}

impl Check {
    const fn mending(&self) -> Mending {
        match (self.rebuild, self.repair) {
            (true, _) => Mending::Rebuild,
            (false, true) => Mending::Repair,
            (false, false) => Mending::Nothing,
        }
    }

    pub(crate) fn run(self, globals: &Globals) -> Outcome {
        let directory = site_files::offline(&self.dir, globals)?;
        site_files::known(&directory)?;
        let config = site_files::of_directory(&directory)?;
        let bar = bar(globals.json);
        let shown = bar.clone();
        let watch = Watch(Arc::new(move |progress| show(&shown, progress)));
        let mending = if globals.dry_run { Mending::Nothing } else { self.mending() };
        let report = check(&config, mending, watch).map_err(|error| failure(&error));
        bar.finish_and_clear();
        let report = report?;
        if globals.json {
            output::document("check", &report)?;
        } else {
            print(&report);
            output::line(advice(&report, self.mending()));
        }
        Ok(if report.is_well { Exit::Done } else { Exit::Failed })
    }
}

fn failure(error: &CheckError) -> Failure {
    match error {
        CheckError::NoStore(_) => Failure::usage(error.to_string()),
        CheckError::InUse(_) | CheckError::NoRoom(_) => Failure::refused(error.to_string()),
        CheckError::Trust(_) | CheckError::Storage { .. } | CheckError::Base { .. } => {
            Failure::failed(error.to_string())
        }
    }
}

/// A bar on a terminal, nothing else.
fn bar(json: bool) -> ProgressBar {
    let bar = ProgressBar::new(0).with_style(progress::style("{msg:20} {wide_bar} {percent:>3} % {eta:>5}"));
    bar.set_draw_target(if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.stage {
        Stage::Index => "reading the index",
        Stage::Chunks => "reading chunks",
        Stage::Journal => "reading the journal",
        Stage::RebuildChunks => "rebuilding: chunks",
        Stage::RebuildJournal => "rebuilding: journal",
        Stage::RebuildRest => "rebuilding: what no record names",
    });
    bar.set_length(progress.total.max(progress.done).max(1));
    bar.set_position(progress.done);
}

fn print(report: &CheckReport) {
    output::line(&format!(
        "{}: index {}; {} and {} read, {} journal frames replayed",
        report.site,
        report.index,
        words::count(report.chunks, "chunk"),
        words::bytes(report.bytes),
        report.replayed,
    ));
    if let Some(torn) = &report.torn_tail {
        output::line(&format!("a write was cut short, as after a crash; nothing answered is in it: {torn}"));
    }
    if report.torn_copies > 0 {
        output::line(&format!(
            "{} torn: fetched again when asked for",
            words::count(report.torn_copies, "cached copy")
        ));
    }
    for hurt in &report.damaged {
        output::line(&format!("damaged: {}", named(hurt)));
    }
    for chunk in &report.unnamed {
        output::line(&format!("damaged, of no version: {chunk}"));
    }
    if report.base != "whole" && !report.base.is_empty() {
        output::line(&format!("the journal's base: {}", report.base));
    }
    for hurt in &report.journal {
        let lost = match (hurt.lost, hurt.settled) {
            (Some((from, to)), _) => {
                format!("entries {from} to {} are lost here", to.saturating_sub(1).max(from))
            }
            (None, true) => {
                "what it lost is known since a start before; nothing is left to be done here".into()
            }
            (None, false) => "the index has what it says".to_owned(),
        };
        output::line(&format!("damaged journal segment {}: {}; {lost}", hurt.segment, hurt.why));
    }
    for hurt in &report.absent {
        output::line(&format!("written here, bytes elsewhere: {}", named(hurt)));
    }
    if report.unlisted > 0 {
        output::line(&format!("and {} more", report.unlisted));
    }
}

/// What follows from it. Where a repair was asked for and none was made it was a dry run.
fn advice(report: &CheckReport, wanted: Mending) -> &'static str {
    match (report.is_well, report.repaired, wanted) {
        (true, false, Mending::Rebuild) => "nothing is damaged; would rebuild the index from the journal",
        (true, true, Mending::Rebuild) => {
            "nothing is damaged; the old index, if it was on the disk, is in data/index-aside (or index-aside-later)"
        }
        (true, ..) if !report.journal.is_empty() => "nothing else is damaged",
        (true, ..) => "nothing is damaged",
        (false, true, _) => {
            "what is damaged is noted, and the index is as whole as it can be; once the site runs it mends damaged chunks from other sites. What no other site has \
             (copies = 1) stays damaged: put it again, or delete it"
        }
        (false, false, Mending::Repair | Mending::Rebuild) => {
            "would rebuild the index where it does not read or lacks something, and note what is damaged, for the site to mend from others once it runs"
        }
        (false, false, Mending::Nothing) => {
            "run it again with --repair: rebuilds the index where it must be, lets the site mend the rest from others. What no other site has \
             (copies = 1) stays damaged: put it again, or delete it"
        }
    }
}

fn named(hurt: &Hurt) -> String {
    let Hurt { bucket, key, version_id, chunk, why, .. } = hurt;
    format!("{bucket}/{key} version {version_id}: chunk {chunk}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_repair_says_what_it_would_do() {
        let mut report = CheckReport::default();
        assert!(advice(&report, Mending::Repair).starts_with("would rebuild"));
        assert!(advice(&report, Mending::Nothing).contains("copies = 1"));
        report.repaired = true;
        assert!(advice(&report, Mending::Repair).starts_with("what is damaged is noted"));
        report.is_well = true;
        assert_eq!(advice(&report, Mending::Repair), "nothing is damaged");
        assert!(advice(&report, Mending::Rebuild).contains("data/index-aside"));
        report.repaired = false;
        assert!(advice(&report, Mending::Rebuild).contains("would rebuild the index"));
    }
}
