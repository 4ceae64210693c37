//! `skerry conflicts list`: what lost against a concurrent write and is kept, readable by its version id.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;
use skerry_node::admin_shapes::{Conflict, ConflictPage};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::place::{Place, Site};
use crate::words;

/// Versions that lost against a concurrent one.
#[derive(Debug, Subcommand)]
pub(crate) enum Conflicts {
    /// List them; being listed counts as seen
    List(List),
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
        let Self::List(list) = self;
        let sites = list.place.sites(&globals)?;
        // The same conflict is known at every member of its bucket: it is one, seen at several sites.
        let mut found: BTreeMap<(String, String, String), (Conflict, Vec<String>)> = BTreeMap::new();
        let mut failures = Vec::new();
        for site in &sites {
            match list.ask(site).await {
                Ok(conflicts) => {
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
        print(&found.into_values().collect::<Vec<_>>(), globals.json)?;
        for (site, failure) in &failures {
            output::note(&format!("{}: {}", site.name, failure.message));
        }
        match failures.into_iter().find(|(_, failure)| failure.exit != Exit::Unreachable) {
            Some((_, failure)) if answered == 0 => Err(failure),
            _ => Ok(output::exit_of(answered, sites.len())),
        }
    }
}

impl List {
    /// All pages of one site.
    async fn ask(&self, site: &Site) -> Outcome<Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = Vec::new();
            query.extend(self.bucket.as_ref().map(|bucket| format!("bucket={}", segment(bucket))));
            query.extend(after.as_ref().map(|after| format!("after={}", segment(after))));
            let path = format!("/_skerry/v1/conflicts?{}", query.join("&"));
            let page: ConflictPage = site.client.get(path.trim_end_matches('?')).await?;
            conflicts.extend(page.conflicts);
            match page.next {
                Some(next) if after.as_ref() != Some(&next) => after = Some(next),
                _ => return Ok(conflicts),
            }
        }
    }
}

fn print(found: &[(Conflict, Vec<String>)], json: bool) -> Outcome<()> {
    if json {
        let conflicts: Vec<_> = found
            .iter()
            .map(|(conflict, sites)| json!({ "conflict": conflict, "known_at": sites }))
            .collect();
        return output::document("conflicts", &json!({ "conflicts": conflicts }));
    }
    if found.is_empty() {
        output::line("no conflicts");
        return Ok(());
    }
    let heading = ["BUCKET", "KEY", "VERSION", "WRITTEN AT", "BY", "WHEN", "SIZE"];
    let mut rows = vec![heading.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(found.iter().map(|(conflict, _)| row(conflict)));
    output::line(&output::table(&rows));
    Ok(())
}

fn row(conflict: &Conflict) -> Vec<String> {
    let size = if conflict.delete { "delete".into() } else { words::bytes(conflict.size) };
    vec![
        conflict.bucket.clone(),
        conflict.key.clone(),
        conflict.version_id.clone(),
        conflict.site.clone(),
        conflict.writer.clone(),
        words::wall(conflict.modified_ms),
        size,
    ]
}
