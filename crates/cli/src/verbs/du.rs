//! `skerry du`: where the disk of a site went, from the running site or, if it does not run, from its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use skerry_node::admin_shapes::{SpaceReport, SpaceRow};
use skerry_node::check::CheckError;
use skerry_node::space_used;

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::place::Place;
use crate::site_files;
use crate::words;

/// Where the disk of a site went.
#[derive(Debug, Args)]
pub(crate) struct Du {
    #[command(flatten)]
    place: Place,
    /// What to tell apart; may be several, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "bucket")]
    by: Vec<By>,
    /// The site does not run: read its directory
    #[arg(long, conflicts_with_all = ["endpoint", "token"])]
    offline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum By {
    Class,
    Bucket,
    Origin,
}

impl By {
    const fn heading(self) -> &'static str {
        match self {
            Self::Class => "CLASS",
            Self::Bucket => "BUCKET",
            Self::Origin => "ORIGIN",
        }
    }

    fn of(self, row: &SpaceRow) -> String {
        match self {
            Self::Class => row.class.clone(),
            Self::Bucket => row.bucket.clone(),
            Self::Origin => row.origin.clone(),
        }
    }
}

impl Du {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let by: Vec<By> = self.by.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let scan = by != [By::Bucket];
        let report =
            if self.offline { self.offline(scan, &globals)? } else { self.online(scan, &globals).await? };
        let sums = sums(&report.rows, &by);
        if globals.json {
            let by: Vec<String> = by.iter().map(|by| by.heading().to_lowercase()).collect();
            output::document("du", &json!({ "by": by, "space": report }))?;
        } else {
            print(&report, &by, &sums);
        }
        Ok(Exit::Done)
    }

    async fn online(&self, scan: bool, globals: &Globals) -> Outcome<SpaceReport> {
        let site = self.place.site(globals).await?;
        site.client.get(&format!("/_skerry/v1/space?scan={scan}")).await
    }

    fn offline(&self, scan: bool, globals: &Globals) -> Outcome<SpaceReport> {
        let directory = self.place.dir.clone().unwrap_or_else(|| PathBuf::from("skerry"));
        let directory = site_files::offline(&directory, globals)?;
        site_files::known(&directory)?;
        let config = site_files::of_directory(&directory)?;
        space_used::offline(&config, scan).map_err(|error| match error {
            CheckError::InUse(_) => {
                Failure::refused(format!("{} runs: ask it without --offline", directory.display()))
            }
            CheckError::NoStore(_) => Failure::usage(error.to_string()),
            error => Failure::failed(error.to_string()),
        })
    }
}

type Sums = BTreeMap<Vec<String>, (u64, u64)>;

fn sums(rows: &[SpaceRow], by: &[By]) -> Sums {
    let mut sums = Sums::new();
    for row in rows {
        let sum = sums.entry(by.iter().map(|by| by.of(row)).collect()).or_default();
        sum.0 += row.versions;
        sum.1 += row.bytes;
    }
    sums
}

fn print(report: &SpaceReport, by: &[By], sums: &Sums) {
    let disk = &report.storage;
    output::line(&format!(
        "{}: payload {}, cache {}, journal {}, index {}; {} of it lives; {} free",
        report.site,
        words::bytes(disk.payload_bytes),
        words::bytes(disk.cache_bytes),
        words::bytes(disk.journal_bytes),
        words::bytes(disk.index_bytes),
        words::bytes(disk.live_bytes),
        words::bytes(disk.free_bytes),
    ));
    output::line(&format!(
        "cache: {} of copies of other sites' objects (at most {}, and given back when room is wanted, but for {} that \
         are pinned); {} read again \
         from it, {} evicted since the start",
        words::bytes(report.cached_bytes),
        words::bytes(report.cache_cap_bytes),
        words::bytes(report.pinned_bytes),
        words::bytes(report.cache_hit_bytes),
        words::bytes(report.cache_evicted_bytes),
    ));
    let others = &report.others;
    let most = others
        .cap_bytes
        .map_or(String::new(), |cap| format!(" (at most {}: storage.others)", words::bytes(cap)));
    output::line(&format!(
        "held for other sites: {}{most}, as copies that count",
        words::bytes(others.bytes)
    ));
    if let Some(days) = report.days_to_full {
        output::line(&format!(
            "at the growth of the last week the disk is full in {}",
            words::count(days, "day")
        ));
    }
    if let Some(unsent) = report.unsent_bytes.filter(|unsent| *unsent > 0) {
        output::line(&format!(
            "unsent: {} of records that no other site is known to have",
            words::bytes(unsent)
        ));
    }
    let mut rows = vec![by.iter().map(|by| by.heading().to_owned()).collect::<Vec<_>>()];
    if let Some(heading) = rows.first_mut() {
        heading.extend(["VERSIONS".to_owned(), "BYTES".to_owned()]);
    }
    for (names, (versions, bytes)) in sums {
        let mut row = names.clone();
        row.extend([versions.to_string(), words::bytes(*bytes)]);
        rows.push(row);
    }
    output::line(&output::table(&rows));
    let read = words::count(report.scanned, "record");
    match (report.scanned, report.partial) {
        (0, _) => output::note("from counters"),
        (_, false) => output::note(&format!("{read} read")),
        (_, true) => output::note(&format!("partial: only the first {read} were read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_by_what_is_told_apart() {
        let row = |bucket: &str, class: &str, origin: &str, bytes| SpaceRow {
            bucket: bucket.into(),
            class: class.into(),
            origin: origin.into(),
            versions: 1,
            bytes,
        };
        let rows = [
            row("a", "live", "s1", 1),
            row("a", "live", "s2", 2),
            row("a", "conflicts", "s1", 4),
            row("b", "live", "s1", 8),
        ];
        let by_class = sums(&rows, &[By::Class]);
        assert_eq!(by_class[&vec!["live".to_owned()]], (3, 11));
        assert_eq!(sums(&rows, &[By::Bucket, By::Origin])[&vec!["a".to_owned(), "s1".to_owned()]], (2, 5));
        assert_eq!(sums(&rows, &[]).len(), 1);
    }
}
