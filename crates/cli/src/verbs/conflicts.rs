//! `skerry conflicts`: what lost against a concurrent write and is kept, readable by its version id; names that two
//! owners claimed; and how a conflict is ended.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;
use skerry_node::admin_shapes::{
    Conflict, ConflictDetail, ConflictEnd, ConflictEnded, ConflictPage, NameConflict,
};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::{Place, Site};
use crate::words;

/// Asks to look without having seen: what nobody has seen is kept.
const UNSEEN: &str = "&unseen=true";

/// How the admin face calls a bucket whose older versions stay.
const VERSIONED: &str = "enabled";

/// Versions that lost against a concurrent one.
#[derive(Debug, Subcommand)]
pub(crate) enum Conflicts {
    /// List them; being listed counts as seen, but with --dry-run
    List(List),
    /// Show the conflict of one key: what a read gets, and what lost; being shown counts as seen, but with --dry-run
    Show(Show),
    /// End the conflict of one key: one version stays
    ///
    /// Without --keep the version that a read gets. The others are erased, once that is confirmed; in a bucket with versioning
    /// they stay as older versions, and nobody is asked. Spreads like any write; what arrives later from a site that had not
    /// heard of it is a new conflict.
    Resolve(Resolve),
}

/// Which key.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The bucket
    bucket: String,
    /// The key
    key: String,
    #[command(flatten)]
    place: Place,
}

/// Which key, and what of it stays.
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The bucket
    bucket: String,
    /// The key
    key: String,
    /// The version that stays, as `show` names it
    #[arg(long, value_name = "VERSION")]
    keep: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Which conflicts.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this bucket
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Conflicts {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::List(list) => list.run(globals).await,
            Self::Show(show) => show.run(globals).await,
            Self::Resolve(resolve) => resolve.run(globals).await,
        }
    }
}

impl Show {
    async fn run(self, globals: Globals) -> Outcome {
        let site = self.place.site(&globals).await?;
        let query = format!("bucket={}&key={}", segment(&self.bucket), segment(&self.key));
        let unseen = if globals.dry_run { UNSEEN } else { "" };
        let detail: ConflictDetail =
            site.client.get(&format!("/_skerry/v1/conflict?{query}{unseen}")).await?;
        if globals.json {
            output::document("conflict", &detail)?;
            return Ok(Exit::Done);
        }
        let mut rows = vec![["", "VERSION", "WRITTEN AT", "BY", "WHEN", "SIZE"].map(str::to_owned).to_vec()];
        rows.extend(detail.current.iter().map(|conflict| said("current", conflict)));
        rows.extend(detail.losers.iter().map(|conflict| said("lost", conflict)));
        output::line(&output::table(&rows));
        if detail.more > 0 {
            output::line(&format!("and {} more", detail.more));
        }
        Ok(Exit::Done)
    }
}

fn said(what: &str, conflict: &Conflict) -> Vec<String> {
    let mut columns = row(conflict);
    columns.drain(..2);
    columns.insert(0, what.to_owned());
    columns
}

impl Resolve {
    async fn run(self, globals: Globals) -> Outcome {
        let what = format!("end the conflict of {} in {}", self.key, self.bucket);
        let site = self.place.site(&globals).await?;
        let query = format!("bucket={}&key={}{UNSEEN}", segment(&self.bucket), segment(&self.key));
        let path = format!("/_skerry/v1/conflict?{query}");
        let detail: ConflictDetail = site.client.get(&path).await?;
        let versions = look::bucket(&site, &self.bucket).await?.versioning == VERSIONED;
        let choice = Choice::of(&detail, self.keep.as_deref(), versions)?;
        if output::dry_run(globals.dry_run, &format!("{what}: {}", choice.follows()), globals.json)? {
            return Ok(Exit::Done);
        }
        if !versions {
            let question =
                format!("End the conflict of {} in {}? {}.", self.key, self.bucket, choice.follows());
            output::confirm(&question, globals.yes)?;
        }
        // By its name: what became current since it was shown is nobody's choice.
        let keep = Some(choice.kept.version_id.clone());
        let request = ConflictEnd { bucket: self.bucket, key: self.key, keep };
        let ended: ConflictEnded = site.client.post("/_skerry/v1/conflict", &request).await?;
        if globals.json {
            output::document("conflict-ended", &ended)?;
        } else {
            let erased = words::count(ended.erased.len() as u64, "version");
            output::line(&format!("{} stays, {erased} erased", ended.kept));
        }
        Ok(Exit::Done)
    }
}

/// What stays of a conflict, and what goes.
struct Choice<'a> {
    kept: &'a Conflict,
    goes: Vec<&'a Conflict>,
    /// How many more go than are listed.
    more: u32,
    /// Whether they stay as older versions.
    versions: bool,
}

impl<'a> Choice<'a> {
    fn of(detail: &'a ConflictDetail, keep: Option<&str>, versions: bool) -> Outcome<Self> {
        let mut all: Vec<&Conflict> = detail.current.iter().chain(&detail.losers).collect();
        let place = match keep {
            Some(keep) => all.iter().position(|version| version.version_id == keep),
            None => (!all.is_empty()).then_some(0),
        };
        let Some(place) = place else {
            let message = "that version is none of the conflict's; see `skerry conflicts show`";
            return Err(Failure::refused(message));
        };
        Ok(Self { kept: all.remove(place), goes: all, more: detail.more, versions })
    }

    /// In a sentence.
    fn follows(&self) -> String {
        let mut goes: Vec<String> = self.goes.iter().map(|version| told(version)).collect();
        goes.extend((self.more > 0).then(|| format!("{} more", self.more)));
        let fate = match (self.versions, goes.len()) {
            (true, 1) => "stays as an older version",
            (true, _) => "stay as older versions",
            (false, 1) => "is erased for ever",
            (false, _) => "are erased for ever",
        };
        format!("{} stays, {} {fate}", told(self.kept), goes.join(", "))
    }
}

/// A version as one line of a question.
fn told(version: &Conflict) -> String {
    let Conflict { version_id, site, modified_ms, .. } = version;
    format!("{version_id} ({}, written at {site} {})", size(version), words::wall(*modified_ms))
}

impl List {
    async fn run(self, globals: Globals) -> Outcome {
        let list = self;
        let sites = list.place.sites(&globals)?;
        // The same conflict is known at every member of its bucket: it is one, seen at several sites.
        let mut found: BTreeMap<(String, String, String), (Conflict, Vec<String>)> = BTreeMap::new();
        let mut names: BTreeMap<String, NameConflict> = BTreeMap::new();
        let mut failures = Vec::new();
        for site in &sites {
            list.place.check(site, &globals).await?;
            match list.ask(site, globals.dry_run).await {
                Ok((conflicts, contested)) => {
                    names.extend(contested.into_iter().map(|name| (name.bucket.clone(), name)));
                    for conflict in conflicts {
                        let name =
                            (conflict.bucket.clone(), conflict.key.clone(), conflict.version_id.clone());
                        found.entry(name).or_insert_with(|| (conflict, Vec::new())).1.push(site.name.clone());
                    }
                }
                Err(failure) => failures.push((site, failure)),
            }
        }
        let answered = sites.len() - failures.len();
        if answered == 0 {
            return Err(worst(failures));
        }
        let names: Vec<NameConflict> = names.into_values().collect();
        print(&found.into_values().collect::<Vec<_>>(), &names, globals.json)?;
        for (site, failure) in &failures {
            output::note(&format!("{}: {}", site.name, failure.message));
        }
        Ok(output::exit_of(answered, sites.len()))
    }
}

/// Why nobody answered: a refusal (a wrong token) says more than silence.
fn worst(failures: Vec<(&Site, Failure)>) -> Failure {
    let silent = |failure: &Failure| failure.exit == Exit::Unreachable;
    let worst = failures.into_iter().map(|(_, failure)| failure).min_by_key(silent);
    worst.unwrap_or_else(|| Failure::unreachable("there is no site"))
}

impl List {
    /// All pages of one site.
    async fn ask(&self, site: &Site, dry_run: bool) -> Outcome<(Vec<Conflict>, Vec<NameConflict>)> {
        let (mut conflicts, mut names) = (Vec::new(), Vec::new());
        let mut after: Option<String> = None;
        loop {
            let mut query = Vec::new();
            query.extend(self.bucket.as_ref().map(|bucket| format!("bucket={}", segment(bucket))));
            query.extend(after.as_ref().map(|after| format!("after={}", segment(after))));
            let unseen = if dry_run { UNSEEN } else { "" };
            let query = format!("{}{unseen}", query.join("&"));
            let path = format!("/_skerry/v1/conflicts?{}", query.trim_start_matches('&'));
            let page: ConflictPage = site.client.get(path.trim_end_matches('?')).await?;
            conflicts.extend(page.conflicts);
            names.extend(page.names);
            match page.next {
                Some(next) if after.as_ref() != Some(&next) => after = Some(next),
                _ => return Ok((conflicts, names)),
            }
        }
    }
}

fn print(found: &[(Conflict, Vec<String>)], names: &[NameConflict], json: bool) -> Outcome<()> {
    if json {
        let conflicts: Vec<_> = found
            .iter()
            .map(|(conflict, sites)| json!({ "conflict": conflict, "known_at": sites }))
            .collect();
        return output::document("conflicts", &json!({ "conflicts": conflicts, "names": names }));
    }
    for name in names {
        let NameConflict { name, appears_as, owner, site, .. } = name;
        output::line(&format!(
            "{owner}'s bucket {name}, made at {site}, appears as {appears_as}: another owner keeps the name"
        ));
    }
    if found.is_empty() {
        if names.is_empty() {
            output::line("no conflicts");
        }
        return Ok(());
    }
    let heading = ["BUCKET", "KEY", "VERSION", "WRITTEN AT", "BY", "WHEN", "SIZE"];
    let mut rows = vec![heading.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(found.iter().map(|(conflict, _)| row(conflict)));
    output::line(&output::table(&rows));
    Ok(())
}

fn row(conflict: &Conflict) -> Vec<String> {
    vec![
        conflict.bucket.clone(),
        conflict.key.clone(),
        conflict.version_id.clone(),
        conflict.site.clone(),
        conflict.writer.clone(),
        words::wall(conflict.modified_ms),
        size(conflict),
    ]
}

fn size(conflict: &Conflict) -> String {
    if conflict.delete { "delete".into() } else { words::bytes(conflict.size) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn version(id: &str, delete: bool) -> Conflict {
        let shape = json!({
            "bucket": "hello", "key": "both", "version_id": id, "site": "shop", "writer": "SK", "modified_ms": 0,
            "size": 4, "etag": "", "delete": delete, "winner": null,
        });
        serde_json::from_value(shape).unwrap()
    }

    #[test]
    fn what_stays_and_what_goes_is_said_before_it_goes() {
        let losers = vec![version("two", false), version("three", true)];
        let mut detail = ConflictDetail { version: 1, current: Some(version("one", false)), losers, more: 0 };
        let said = Choice::of(&detail, None, false).unwrap().follows();
        assert!(said.starts_with("one (4 B, written at shop ") && said.contains(", three (delete"), "{said}");
        assert!(said.ends_with("are erased for ever"), "{said}");
        let said = Choice::of(&detail, Some("three"), true).unwrap().follows();
        assert!(said.starts_with("three (delete") && said.ends_with("stay as older versions"), "{said}");
        assert_eq!(Choice::of(&detail, Some("four"), false).err().unwrap().exit, Exit::Refused);
        (detail.current, detail.more) = (None, 5);
        assert!(Choice::of(&detail, None, false).unwrap().follows().contains("5 more are erased"));
    }
}
