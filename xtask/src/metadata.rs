//! What cargo knows about the workspace and the tree of its dependencies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::run;

/// One package of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: String,
    pub(crate) manifest: PathBuf,
    /// Names it depends on directly, of every kind.
    pub(crate) dependencies: Vec<Dependency>,
    /// Features switched on in this workspace.
    pub(crate) features: Vec<String>,
    pub(crate) member: bool,
}

/// A line of a `[dependencies]` table.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) dev: bool,
}

/// All packages that are built for this machine, members first.
pub(crate) fn load() -> Result<Vec<Package>, String> {
    let host = run::read(run::cargo(&["--version", "--verbose"]).arg("--quiet"))?;
    let triple = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &triple];
    parse(&run::read(&mut run::cargo(&arguments))?)
}

fn parse(json: &str) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let features: BTreeMap<&str, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), list(&node["features"]).map(|f| text(f).to_owned()).collect()))
        .collect();
    let members: Vec<&str> = list(&metadata["workspace_members"]).map(text).collect();
    let mut packages: Vec<Package> = list(&metadata["packages"])
        .filter_map(|package| {
            let id = text(&package["id"]);
            Some(Package {
                name: text(&package["name"]).to_owned(),
                version: text(&package["version"]).to_owned(),
                license: text(&package["license"]).to_owned(),
                manifest: text(&package["manifest_path"]).into(),
                dependencies: list(&package["dependencies"]).map(dependency).collect(),
                features: features.get(id)?.clone(),
                member: members.contains(&id),
            })
        })
        .collect();
    packages.sort_by_key(|package| (!package.member, package.name.clone(), package.version.clone()));
    Ok(packages)
}

fn dependency(value: &Value) -> Dependency {
    Dependency { name: text(&value["name"]).to_owned(), dev: text(&value["kind"]) == "dev" }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
