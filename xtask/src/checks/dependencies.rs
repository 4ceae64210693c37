//! What the tree of dependencies may hold: `deny.toml` carried out on what cargo resolved, a reason for every line of the root
//! manifest, and a use for every line of a member's.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Findings;
use crate::metadata::{self, Package};
use crate::run;
use crate::source::{self, Source};

pub(crate) fn check() -> Findings {
    let root = run::root();
    let text =
        |name: &str| std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
    let rules: Table = text("deny.toml")?.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let packages = metadata::load()?;
    let mut findings = reasons(&text("Cargo.toml")?);
    findings.extend(banned(&rules, &packages));
    findings.extend(duplicates(&rules, &packages));
    findings.extend(features(&rules, &packages));
    findings.extend(licenses(&rules, &packages));
    findings.extend(inherited(&packages)?);
    findings.extend(unused(&packages, &source::all()?));
    Ok(findings)
}

/// Every outside dependency of the root manifest has its reason on the line.
fn reasons(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().enumerate();
    lines
        .skip_while(|(_, line)| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| line.contains('=') && !line.starts_with('#') && !line.contains("path = "))
        .filter(|(_, line)| line.split_once(" # ").is_none_or(|(_, reason)| reason.trim().len() < 4))
        .map(|(number, line)| format!("Cargo.toml:{}: no reason: {line}", number + 1))
        .collect()
}

/// Members take their dependencies from the root, where the reasons are.
fn inherited(packages: &[Package]) -> Findings {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.member) {
        let name = package.manifest.display();
        let text = std::fs::read_to_string(&package.manifest).map_err(|error| format!("{name}: {error}"))?;
        let manifest: Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (dependency, value) in manifest.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let itself = *dependency == package.name;
                if !itself && value.get("workspace").and_then(Value::as_bool) != Some(true) {
                    findings.push(format!(
                        "{name}: {dependency}: say `workspace = true`, with a reason in the root"
                    ));
                }
            }
        }
    }
    Ok(findings)
}

/// Members name in their code what they depend on.
fn unused(packages: &[Package], sources: &[Source]) -> Vec<String> {
    let root = run::root();
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.member) {
        let is_own = |source: &&Source| {
            package.manifest.parent().is_some_and(|folder| root.join(&source.path).starts_with(folder))
        };
        let own: Vec<&Source> = sources.iter().filter(is_own).collect();
        for dependency in &package.dependencies {
            let names = [dependency.name.replace('-', "_"), dependency.name.replace('-', "")];
            let is_named = |source: &&Source| names.iter().any(|name| source.code.contains(name.as_str()));
            if !own.iter().any(is_named) {
                findings.push(format!(
                    "{}: no file of it names {}",
                    package.manifest.display(),
                    dependency.name
                ));
            }
        }
    }
    findings
}

fn banned(rules: &Table, packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in tables(rules, &["bans", "deny"]).filter(|rule| !rule.contains_key("wrappers")) {
        for package in packages.iter().filter(|package| package.name == word(rule, "crate")) {
            findings.push(format!(
                "{} {} is banned: {}",
                package.name,
                package.version,
                word(rule, "reason")
            ));
        }
    }
    findings
}

fn duplicates(rules: &Table, packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let skipped: Vec<&str> = tables(rules, &["bans", "skip"]).map(|rule| word(rule, "crate")).collect();
    let twice = versions.iter().filter(|(name, found)| found.len() > 1 && !skipped.contains(name));
    let mut findings: Vec<String> =
        twice.map(|(name, found)| format!("{name} is there as {}", found.join(" and "))).collect();
    let needless = skipped.iter().filter(|name| versions.get(**name).is_none_or(|found| found.len() < 2));
    findings.extend(
        needless.map(|name| format!("deny.toml skips {name}, which is there once at most: drop the line")),
    );
    findings
}

fn features(rules: &Table, packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in tables(rules, &["bans", "features"]) {
        let denied: Vec<&str> = rule
            .get("deny")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for package in packages.iter().filter(|package| package.name == word(rule, "crate")) {
            for feature in package.features.iter().filter(|feature| denied.contains(&feature.as_str())) {
                findings.push(format!("{} has feature {feature}: {}", package.name, word(rule, "reason")));
            }
        }
    }
    findings
}

fn licenses(rules: &Table, packages: &[Package]) -> Vec<String> {
    let allowed: Vec<&str> = at(rules, &["licenses", "allow"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let refused = packages.iter().filter(|package| !permitted(&package.license, &allowed));
    refused
        .map(|package| format!("{} {}: licence {:?}", package.name, package.version, package.license))
        .collect()
}

/// Whether a licence expression can be met. `/` is an old way to write OR; AND binds tighter than OR.
fn permitted(expression: &str, allowed: &[&str]) -> bool {
    let spaced =
        expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "\0");
    let words: Vec<String> = spaced
        .split([' ', '\n'])
        .filter(|word| !word.is_empty())
        .map(|word| word.replace('\0', " WITH "))
        .collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[String], allowed: &[&str]) -> bool {
    let mut met = all(rest, allowed);
    while take(rest, "OR") {
        met |= all(rest, allowed);
    }
    met
}

fn all(rest: &mut &[String], allowed: &[&str]) -> bool {
    let mut met = one(rest, allowed);
    while take(rest, "AND") {
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[String], allowed: &[&str]) -> bool {
    if take(rest, "(") {
        let met = any(rest, allowed);
        return take(rest, ")") && met;
    }
    let Some((license, tail)) = rest.split_first() else { return false };
    *rest = tail;
    allowed.contains(&license.as_str())
}

fn take(rest: &mut &[String], word: &str) -> bool {
    match rest.split_first() {
        Some((first, tail)) if first == word => {
            *rest = tail;
            true
        }
        _ => false,
    }
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, name| value.get(name))
}

fn tables<'a>(rules: &'a Table, path: &[&str]) -> impl Iterator<Item = &'a Table> {
    at(rules, path).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn word<'a>(rule: &'a Table, name: &str) -> &'a str {
    rule.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        assert!(permitted("MIT/Apache-2.0", &allowed));
        assert!(permitted("(MIT OR GPL-3.0) AND Unicode-3.0", &allowed));
        assert!(permitted("GPL-2.0 OR MIT", &allowed));
        assert!(permitted("Apache-2.0 WITH LLVM-exception OR GPL-3.0", &["Apache-2.0 WITH LLVM-exception"]));
        assert!(!permitted("(MIT OR Apache-2.0) AND GPL-3.0", &allowed));
        assert!(!permitted("GPL-3.0", &allowed));
        assert!(!permitted("MIT AND GPL-3.0", &allowed));
        assert!(!permitted("", &allowed));
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[workspace.dependencies]\n# words\nmine = { path = \"x\" }\na = \"1\" # names chunks\nb = \"2\"\n[profile.dev]\nc = 1\n";
        assert_eq!(reasons(manifest), ["Cargo.toml:5: no reason: b = \"2\""]);
    }
}
