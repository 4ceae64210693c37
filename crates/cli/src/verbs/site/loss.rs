//! `skerry site declare-lost|declare-found`: the disks of a site are gone, or they are not.
//!
//! Invariants: what is about to be given up is counted and shown before anybody is asked to confirm; the list is
//! streamed, however long it is; with --dry-run nothing is said to anybody.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::json;
use skerry_node::admin_shapes::{LossPage, LossRequest, LossState, LostVersion};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::place::{Place, Site};
use crate::progress::Waiting;
use crate::words;

/// Which site is lost.
#[derive(Debug, Args)]
pub(crate) struct DeclareLost {
    /// Its name
    #[arg(value_name = "LOST", value_parser = words::said)]
    name: String,
    /// Only the sums, no list of versions
    #[arg(long)]
    brief: bool,
    #[command(flatten)]
    place: Place,
}

/// Which site is not.
#[derive(Debug, Args)]
pub(crate) struct DeclareFound {
    /// Its name
    #[arg(value_name = "FOUND", value_parser = words::said)]
    name: String,
    #[command(flatten)]
    place: Place,
}

/// What only the lost site has, in sums.
#[derive(Debug, Default)]
struct Sums {
    versions: u64,
    bytes: u64,
    /// Versions and bytes that were lost before.
    nowhere: (u64, u64),
    examined: u64,
    /// Versions and bytes by bucket.
    buckets: BTreeMap<String, (u64, u64)>,
    silent: BTreeSet<String>,
    unfollowed: Vec<String>,
}

impl Sums {
    fn add(&mut self, page: &LossPage) {
        (self.versions, self.bytes) = (self.versions + page.count, self.bytes + page.bytes);
        self.nowhere = (self.nowhere.0 + page.nowhere, self.nowhere.1 + page.nowhere_bytes);
        self.examined += page.examined;
        for LostVersion { bucket, bytes, .. } in &page.versions {
            let sum = self.buckets.entry(bucket.clone()).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
        }
        self.silent.extend(page.silent.iter().cloned());
        self.unfollowed.extend(page.unfollowed.iter().cloned());
    }
}

impl DeclareLost {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let at = self.place.site(&globals).await?;
        let before: LossState = at.client.get(&path(&self.name, "lost")).await?;
        let sums = self.sum(&at, globals.json).await?;
        show_sums(&before, &sums, globals.json)?;
        if globals.dry_run {
            if !self.brief {
                self.list(&at, globals.json).await?;
            }
            output::dry_run(true, &format!("declare {} lost", before.site), globals.json)?;
            return Ok(Exit::Done);
        }
        let linked = match before.linked {
            true => {
                format!(" {} has a link to it: if its disk is whole it will cancel that at once.", at.name)
            }
            false => String::new(),
        };
        output::confirm(&format!("Are the disks of {} gone?{linked}", before.site), globals.yes)?;
        let state: LossState = at.client.post(&path(&self.name, "lost"), &LossRequest { lost: true }).await?;
        show(&state, globals.json)?;
        if !self.brief && sums.versions > 0 {
            self.list(&at, globals.json).await?;
        }
        Ok(Exit::Done)
    }

    async fn sum(&self, at: &Site, json: bool) -> Outcome<Sums> {
        let waiting = Waiting::new("looking for what only it has", json);
        let mut sums = Sums::default();
        let mut after = None;
        loop {
            let page = self.page(at, after).await?;
            sums.add(&page);
            waiting.say(format!("looked at {}", words::count(sums.examined, "version")));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(sums),
            }
        }
    }

    async fn list(&self, at: &Site, json: bool) -> Outcome<()> {
        let (mut after, mut heading) = (None, true);
        loop {
            let page = self.page(at, after).await?;
            show_versions(&page.versions, heading, json)?;
            heading &= page.versions.is_empty();
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn page(&self, at: &Site, after: Option<String>) -> Outcome<LossPage> {
        let after = after.map(|after| format!("?after={}", segment(&after))).unwrap_or_default();
        at.client.get(&format!("{}{after}", path(&self.name, "only"))).await
    }
}

impl DeclareFound {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let at = self.place.site(&globals).await?;
        let before: LossState = at.client.get(&path(&self.name, "lost")).await?;
        if before.expelled {
            let why = "was expelled or replaced: its copies count no more, for good";
            return Err(Failure::refused(format!("{}: {} {why}", at.client.endpoint, before.site)));
        }
        if output::dry_run(globals.dry_run, &format!("declare {} found", self.name), globals.json)? {
            return Ok(Exit::Done);
        }
        let state: LossState =
            at.client.post(&path(&self.name, "lost"), &LossRequest { lost: false }).await?;
        show(&state, globals.json)?;
        Ok(Exit::Done)
    }
}

fn path(name: &str, what: &str) -> String {
    format!("/_skerry/v1/sites/{}/{what}", segment(name))
}

fn show_sums(state: &LossState, sums: &Sums, json: bool) -> Outcome<()> {
    if json {
        let by_bucket = |(bucket, (versions, bytes)): (&String, &(u64, u64))| json!({ "bucket": bucket, "versions": versions, "bytes": bytes });
        let body = json!({
            "site": state.site, "versions": sums.versions, "bytes": sums.bytes, "examined": sums.examined,
            "already_lost": { "versions": sums.nowhere.0, "bytes": sums.nowhere.1 },
            "buckets": sums.buckets.iter().map(by_bucket).collect::<Vec<_>>(), "linked": state.linked,
            "silent": sums.silent, "unfollowed": sums.unfollowed, "homes": state.homes, "register": state.register,
        });
        return output::document("loss-summary", &body);
    }
    let (site, all) = (&state.site, words::count(sums.versions, "version"));
    output::line(&format!("only at {site}: {all}, {}", words::bytes(sums.bytes)));
    for (bucket, (versions, bytes)) in &sums.buckets {
        output::line(&format!(
            "  {bucket}: {}, {}",
            words::count(*versions, "version"),
            words::bytes(*bytes)
        ));
    }
    if sums.nowhere.0 > 0 {
        let (versions, bytes) = (words::count(sums.nowhere.0, "version"), words::bytes(sums.nowhere.1));
        output::note(&format!(
            "lost before: {versions}, {bytes}; nobody who answers has them, and {site} is not known to have them"
        ));
    }
    for silent in &sums.silent {
        output::note(&format!(
            "{silent} could not be asked; what it is known to hold or wrote is not counted"
        ));
    }
    if !sums.unfollowed.is_empty() {
        let names = sums.unfollowed.join(", ");
        output::note(&format!(
            "not looked at, for the site asked does not follow them: {names}; ask one that does"
        ));
    }
    if !state.homes.is_empty() {
        let names = state.homes.join(", ");
        output::note(&format!(
            "{site} decides the conditions in {names}: refused until `skerry bucket home`"
        ));
    }
    if state.register {
        output::note(&format!("{site} keeps the register of names: see `skerry bucket home --register`"));
    }
    Ok(())
}

fn show_versions(versions: &[LostVersion], heading: bool, json: bool) -> Outcome<()> {
    if json {
        return versions.iter().try_for_each(|version| output::document("lost-version", version));
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    if heading && !versions.is_empty() {
        rows.push(["BUCKET", "KEY", "VERSION", "SIZE"].map(str::to_owned).to_vec());
    }
    rows.extend(versions.iter().map(row));
    if !rows.is_empty() {
        output::line(&output::table(&rows));
    }
    Ok(())
}

fn row(version: &LostVersion) -> Vec<String> {
    let LostVersion { bucket, key, version_id, bytes } = version;
    vec![bucket.clone(), key.clone(), version_id.clone(), words::bytes(*bytes)]
}

fn show(state: &LossState, json: bool) -> Outcome<()> {
    if json {
        return output::document("loss", state);
    }
    let when = state.said_ms.map(|said| format!(" since {}", words::wall(said))).unwrap_or_default();
    let by = state.said_by.as_ref().map(|by| format!(", said at {by}")).unwrap_or_default();
    let word = if state.lost { "lost" } else { "found" };
    output::line(&match state.count {
        0 => format!("{} was never declared lost", state.site),
        _ => format!("{} is declared {word}{when}{by}", state.site),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_add_up() {
        let version =
            |bucket: &str, bytes| LostVersion { bucket: bucket.into(), bytes, ..LostVersion::default() };
        let page = LossPage {
            versions: vec![version("a", 3), version("b", 4), version("a", 5)],
            count: 3,
            bytes: 12,
            nowhere: 2,
            nowhere_bytes: 7,
            examined: 9,
            silent: vec!["oslo".into()],
            unfollowed: vec!["c".into()],
            ..LossPage::default()
        };
        let mut sums = Sums::default();
        sums.add(&page);
        sums.add(&LossPage { examined: 1, silent: vec!["oslo".into()], ..LossPage::default() });
        assert_eq!((sums.versions, sums.bytes, sums.examined), (3, 12, 10));
        assert_eq!(sums.nowhere, (2, 7));
        assert_eq!(sums.buckets["a"], (2, 8));
        assert_eq!((sums.silent.len(), sums.unfollowed.len()), (1, 1));
    }
}
